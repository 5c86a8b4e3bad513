/*
 * The smallest whole program: every rank contributes its number plus one, every rank gets the sum.
 * Runs on the machine's GPUs, or on emulated ones where there are fewer than two.
 */
#include <stdio.h>
#include <stdlib.h>

#include <ringlet/ringlet.h>

enum { RANKS_MAX = 8, COUNT = 1000 };

static void check(ringlet_status status) {
    if (status) {
        fprintf(stderr, "%s: %s\n", ringlet_status_name(status), ringlet_error_message());
        exit(EXIT_FAILURE);
    }
}

int main(void) {
    ringlet_options options;
    ringlet_comm *comm;
    void *buffers[RANKS_MAX];
    float values[COUNT];
    int ranks;

    check(ringlet_options_init(&options));
    check(ringlet_device_count(RINGLET_BACKEND_AUTO, NULL, &ranks));
    if (ranks < 2) {
        options.backend = RINGLET_BACKEND_EMULATED;
        ranks = 4;
    } else if (ranks > RANKS_MAX) {
        ranks = RANKS_MAX;
    }
    check(ringlet_comm_create(&comm, NULL, ranks, &options));

    for (int rank = 0; rank < ranks; rank++) {
        for (int i = 0; i < COUNT; i++)
            values[i] = (float)(rank + 1);
        check(ringlet_buffer_alloc(comm, rank, sizeof values, &buffers[rank]));
        check(ringlet_buffer_write(comm, rank, buffers[rank], values, sizeof values, NULL));
    }

    /* In place: each rank's buffer is what it sends and what it receives. */
    check(ringlet_all_reduce_multi(comm, (const void *const *)buffers, buffers, COUNT,
                                   RINGLET_FLOAT32, RINGLET_SUM, NULL));

    for (int rank = 0; rank < ranks; rank++) {
        check(ringlet_buffer_read(comm, rank, values, buffers[rank], sizeof values, NULL));
        printf("rank %d of %d: every element is %g\n", rank, ranks, (double)values[COUNT - 1]);
        for (int i = 0; i < COUNT; i++)
            if (values[i] != (float)(ranks * (ranks + 1) / 2))
                return EXIT_FAILURE;
        check(ringlet_buffer_free(comm, rank, buffers[rank]));
    }
    check(ringlet_comm_destroy(&comm));
    return EXIT_SUCCESS;
}
