/*
 * Every type and operation by every algorithm through the public interface, on emulated devices:
 * exact data bit for bit, and data that rounds against float64 with the error bound of
 * docs/numerics.md.
 */
#include <stdio.h>
#include <string.h>

#include "../bench/verify.h"
#include "base/memory.h"
#include "slow.h"
#include "suite.h"

enum { TYPES = 10, OPS = 5, RANKS_MAX = 6, COUNT_MAX = 700, ALGORITHMS = 4 };

static const ringlet_algorithm algorithms[ALGORITHMS] = {
    RINGLET_ALGORITHM_RING, RINGLET_ALGORITHM_DIRECT, RINGLET_ALGORITHM_HOST,
    RINGLET_ALGORITHM_HOST_PIPELINED};

struct stage {
    ringlet_comm *comm;
    int ranks;
    ringlet_dtype type;
    void *send[RANKS_MAX], *recv[RANKS_MAX]; /* device */
    unsigned char *host;
};

static void stage_open(struct stage *s, int ranks, ringlet_algorithm algorithm, uint64_t seed) {
    ringlet_options o;
    memset(s, 0, sizeof *s);
    ringlet_options_init(&o);
    o.backend = RINGLET_BACKEND_EMULATED;
    o.scheduler = RINGLET_SCHEDULER_SEEDED;
    o.seed = seed;
    o.algorithm = algorithm;
    o.slices = 1 + (uint32_t)(seed % 3);
    o.scratch_bytes = 64 << 10;
    s->ranks = ranks;
    ck_assert_ok(ringlet_comm_create(&s->comm, NULL, ranks, &o));
    s->host = memory_zeroed(COUNT_MAX * RANKS_MAX, 8);
    ck_assert_ptr_nonnull(s->host);
    for (int r = 0; r < ranks; r++) {
        ck_assert_ok(ringlet_buffer_alloc(s->comm, r, COUNT_MAX * RANKS_MAX * 8, &s->send[r]));
        ck_assert_ok(ringlet_buffer_alloc(s->comm, r, COUNT_MAX * RANKS_MAX * 8, &s->recv[r]));
    }
}

static void stage_close(struct stage *s) {
    for (int r = 0; r < s->ranks; r++) {
        ck_assert_ok(ringlet_buffer_free(s->comm, r, s->send[r]));
        ck_assert_ok(ringlet_buffer_free(s->comm, r, s->recv[r]));
    }
    memory_free(s->host);
    ck_assert_ok(ringlet_comm_destroy(&s->comm));
}

static void put(struct stage *s, const struct verify *v, uint64_t count) {
    uint32_t size = ringlet_dtype_size(v->type);
    for (int r = 0; r < s->ranks; r++) {
        verify_fill(s->host, v, (uint32_t)r, 0, count);
        ck_assert_ok(ringlet_buffer_write(s->comm, r, s->send[r], s->host, count * size, NULL));
        verify_poison(s->host, v->type, count);
        ck_assert_ok(ringlet_buffer_write(s->comm, r, s->recv[r], s->host, count * size, NULL));
    }
}

/* Elements [first, first + count) of the result against what rank r received. */
static void expect(struct stage *s, const struct verify *v, int r, uint64_t first, uint64_t count,
                   const char *what) {
    static struct verify_result reference[COUNT_MAX];
    verify_reference(reference, v, first, count);
    ck_assert_ok(ringlet_buffer_read(s->comm, r, s->host, s->recv[r],
                                     count * ringlet_dtype_size(v->type), NULL));
    uint64_t wrong = verify_against(s->host, v, reference, NULL, count);
    ck_assert_msg(!wrong, "%s of %s %s, %s data, %d ranks, count %llu: rank %d has %llu wrong",
                  what, ringlet_dtype_name(v->type), ringlet_op_name(v->op),
                  v->data == VERIFY_EXACT ? "exact" : "random", s->ranks, (unsigned long long)count,
                  r, (unsigned long long)wrong);
}

static void reduce_all(struct stage *s, struct verify v, uint64_t count) {
    const void *const *send = (const void *const *)s->send;
    put(s, &v, count);
    ck_assert_ok(ringlet_all_reduce_multi(s->comm, send, s->recv, count, v.type, v.op, NULL));
    for (int r = 0; r < s->ranks; r++)
        expect(s, &v, r, 0, count, "all-reduce");
    put(s, &v, count * (uint64_t)s->ranks);
    ck_assert_ok(ringlet_reduce_scatter_multi(s->comm, send, s->recv, count, v.type, v.op, NULL));
    for (int r = 0; r < s->ranks; r++)
        expect(s, &v, r, count * (uint64_t)r, count, "reduce-scatter");
    put(s, &v, count); /* in place */
    ck_assert_ok(ringlet_all_reduce_multi(s->comm, send, s->send, count, v.type, v.op, NULL));
    void *kept[RANKS_MAX];
    memcpy(kept, s->recv, sizeof kept);
    memcpy(s->recv, s->send, sizeof kept);
    for (int r = 0; r < s->ranks; r++)
        expect(s, &v, r, 0, count, "all-reduce in place");
    memcpy(s->recv, kept, sizeof kept);
}

static void move_all(struct stage *s, struct verify v, uint64_t count) {
    const void *const *send = (const void *const *)s->send;
    uint32_t size = ringlet_dtype_size(v.type);
    int root = s->ranks - 1;
    put(s, &v, count);
    ck_assert_ok(ringlet_broadcast_multi(s->comm, send, s->recv, count, v.type, root, NULL));
    for (int r = 0; r < s->ranks; r++) {
        ck_assert_ok(ringlet_buffer_read(s->comm, r, s->host, s->recv[r], count * size, NULL));
        ck_assert_uint_eq(verify_input(s->host, &v, (uint32_t)root, 0, count), 0);
    }
    ck_assert_ok(ringlet_all_gather_multi(s->comm, send, s->recv, count, v.type, NULL));
    for (int r = 0; r < s->ranks; r++) {
        ck_assert_ok(ringlet_buffer_read(s->comm, r, s->host, s->recv[r],
                                         count * size * (uint64_t)s->ranks, NULL));
        for (int from = 0; from < s->ranks; from++)
            ck_assert_uint_eq(
                verify_input(s->host + count * size * (uint64_t)from, &v, (uint32_t)from, 0, count),
                0);
    }
}

/* One algorithm, every type and operation, several numbers of ranks. */
START_TEST(test_types_and_operations) {
    for (int ranks = 1; ranks <= (SUITE_SLOW ? 4 : RANKS_MAX); ranks++) {
        struct stage s;
        stage_open(&s, ranks, algorithms[_i], (uint64_t)(ranks * 7 + _i));
        for (int type = 0; type < TYPES; type++)
            for (int op = 0; op < OPS; op++)
                for (int data = 0; data < VERIFY_DATA_COUNT; data++) {
                    struct verify v = {(ringlet_dtype)type, (ringlet_op)op, (enum verify_data)data,
                                       (uint64_t)(type * 100 + op * 10 + data), (uint32_t)ranks};
                    uint64_t count =
                        (uint64_t)(1 + (type * 131 + op * 57 + ranks * 17) % COUNT_MAX);
                    reduce_all(&s, v, count);
                    if (op == 0)
                        move_all(&s, v, count);
                }
        stage_close(&s);
    }
}
END_TEST

/* Forms that add in rank order give every rank, run and slicing the same bits; 16-bit types round
 * once. */
START_TEST(test_direct_does_not_depend_on_slices) {
    enum { COUNT = 600, RANKS = 5 };
    static unsigned char first[COUNT * 8], again[COUNT * 8];
    static const ringlet_dtype types[] = {RINGLET_FLOAT32, RINGLET_BFLOAT16, RINGLET_FLOAT16,
                                          RINGLET_FLOAT64};
    for (int t = 0; t < 4; t++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            struct stage s;
            struct verify v = {types[t], RINGLET_SUM, VERIFY_RANDOM, 5, RANKS};
            uint64_t bytes = COUNT * ringlet_dtype_size(types[t]);
            stage_open(&s, RANKS, RINGLET_ALGORITHM_DIRECT, seed);
            put(&s, &v, COUNT);
            ck_assert_ok(ringlet_all_reduce_multi(s.comm, (const void *const *)s.send, s.recv,
                                                  COUNT, types[t], RINGLET_SUM, NULL));
            for (int r = 0; r < RANKS; r++) {
                unsigned char *to = seed || r ? again : first;
                ck_assert_ok(ringlet_buffer_read(s.comm, r, to, s.recv[r], bytes, NULL));
                if (seed || r)
                    ck_assert(!memcmp(first, again, bytes));
            }
            stage_close(&s);
        }
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("types");
    TCase *tests = tcase_create("types");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, test_types_and_operations, 0, ALGORITHMS);
    tcase_add_test(tests, test_direct_does_not_depend_on_slices);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
