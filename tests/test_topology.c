#include "topology/topology.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "suite.h"

#define MACHINES TEST_SOURCE_ROOT "/machines/"

static char *read_text(const char *path, size_t *length) {
    static char text[1 << 16];
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "%s", path);
    *length = fread(text, 1, sizeof text, file);
    fclose(file);
    return text;
}

static void assert_label(const struct topology *t, uint32_t from, uint32_t to, const char *label) {
    char buffer[8];
    ck_assert_str_eq(topology_link_label(topology_link(t, from, to), buffer), label);
}

START_TEST(test_machines_of_the_folder) {
    static const struct {
        const char *name;
        uint32_t gpus;
        const char *zero_to_one, *first_to_last;
        double host_rate_gbps;
    } machines[] = {{"hgx-h200-2", 2, "NV18", "NV18", 54},
                    {"dgx1-v100", 8, "NV2", "SYS", 24},
                    {"a100-pcie-pairs", 8, "NV12", "SYS", 24},
                    {"four-nvlink-partial", 4, "NV1", "SYS", 24}};
    char path[512];
    struct topology t;
    snprintf(path, sizeof path, "%s%s.txt", MACHINES, machines[_i].name);
    ck_assert_ok(topology_read(&t, path));
    ck_assert_str_eq(t.name, machines[_i].name);
    ck_assert_uint_eq(t.gpus, machines[_i].gpus);
    assert_label(&t, 0, 0, "X");
    assert_label(&t, 0, 1, machines[_i].zero_to_one);
    assert_label(&t, 0, t.gpus - 1, machines[_i].first_to_last);
    assert_label(&t, t.gpus - 1, 0, machines[_i].first_to_last);
    ck_assert(!t.switched);
    ck_assert_double_eq(t.host_rate_gbps, machines[_i].host_rate_gbps);
    topology_free(&t);
    ck_assert_ptr_null(t.links);
    topology_free(&t);
}
END_TEST

START_TEST(test_every_cell_of_a_mixed_machine) {
    static const char *const labels[4][4] = {{"X", "NV1", "NV2", "SYS"},
                                             {"NV1", "X", "SYS", "NV2"},
                                             {"NV2", "SYS", "X", "NV1"},
                                             {"SYS", "NV2", "NV1", "X"}};
    struct topology t;
    ck_assert_ok(topology_read(&t, MACHINES "four-nvlink-partial.txt"));
    for (uint32_t from = 0; from < 4; from++)
        for (uint32_t to = 0; to < 4; to++) {
            assert_label(&t, from, to, labels[from][to]);
            bool sys = !strcmp(labels[from][to], "SYS");
            ck_assert_int_eq(topology_link(&t, from, to)->p2p, !sys);
        }
    ck_assert_double_eq_tol(topology_link(&t, 0, 2)->rate_gbps,
                            2 * topology_link(&t, 0, 1)->rate_gbps, 1e-9);
    topology_free(&t);
}
END_TEST

static const char *const accepted[] = {
    /* tabs and colours, with and without their ESC; line ends of Windows */
    "\t\x1b[4mGPU0\tGPU1\tCPU Affinity\x1b[0m\r\nGPU0\t X \tPIX\t0-3\r\nGPU1\tPIX\t X \t0-3\r\n",
    "\t[4mGPU0\tGPU1\tCPU Affinity[0m\nGPU0\t X \tPIX\t0-3\nGPU1\tPIX\t X \t0-3\n",
    /* leading blanks lost, no newline at the end */
    "GPU0 GPU1\nGPU0 X PIX\nGPU1 PIX X",
    /* what stood above, no-break spaces, a byte order mark */
    "$ nvidia-smi topo -m\n\xef\xbb\xbf\tGPU0\tGPU1\nGPU0\xc2\xa0X\xc2\xa0PIX\nGPU1 PIX X\n",
    /* network cards between, and rows in another order; a legend */
    "      GPU0 mlx5_0 NIC1 GPU1 CPU Affinity\nmlx5_0 SYS X SYS SYS\nGPU1 PIX SYS NODE X 0-3\n"
    "GPU0 X SYS NODE PIX 0-3\nNIC1 NODE SYS X NODE\n\nLegend:\n\n  X    = Self\n"
    "  NV#  = Connection traversing a bonded set of # NVLinks\nNIC Legend:\n  NIC1: mlx5_1\n",
};

START_TEST(test_pastes_of_all_kinds) {
    struct topology t;
    ck_assert_ok(topology_parse(&t, accepted[_i], strlen(accepted[_i]), "paste"));
    ck_assert_str_eq(t.name, "paste");
    ck_assert_uint_eq(t.gpus, 2);
    assert_label(&t, 0, 1, "PIX");
    assert_label(&t, 1, 0, "PIX");
    topology_free(&t);
}
END_TEST

START_TEST(test_one_gpu) {
    struct topology t;
    const char *text = "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-15\t0\n";
    ck_assert_ok(topology_parse(&t, text, strlen(text), "one"));
    ck_assert_uint_eq(t.gpus, 1);
    ck_assert(!t.switched);
    topology_free(&t);
    text = "GPU0\nGPU0 X\n";
    ck_assert_ok(topology_parse(&t, text, strlen(text), "one"));
    topology_free(&t);
}
END_TEST

START_TEST(test_switch_is_told_from_a_mesh) {
    struct topology t;
    const char *all = "GPU0 GPU1 GPU2\nGPU0 X NV12 NV12\nGPU1 NV12 X NV12\nGPU2 NV12 NV12 X\n";
    const char *some = "GPU0 GPU1 GPU2\nGPU0 X NV12 NV12\nGPU1 NV12 X NV6\nGPU2 NV12 NV6 X\n";
    const char *pcie = "GPU0 GPU1 GPU2\nGPU0 X PIX PIX\nGPU1 PIX X PIX\nGPU2 PIX PIX X\n";
    ck_assert_ok(topology_parse(&t, all, strlen(all), "all"));
    ck_assert(t.switched);
    topology_free(&t);
    ck_assert_ok(topology_parse(&t, some, strlen(some), "some"));
    ck_assert(!t.switched);
    topology_free(&t);
    ck_assert_ok(topology_parse(&t, pcie, strlen(pcie), "pcie"));
    ck_assert(!t.switched);
    topology_free(&t);
}
END_TEST

static const struct {
    const char *text, *where, *what;
} refused[] = {
    {"", "f:1:1:", "no line of GPU names"},
    {"hello\nworld\n", "f:3:1:", "no line of GPU names"},
    {"GPU0 GPU1\nGPU0 X NV2\nGPU0 GPU1\n", "f:3:1:", "second header"},
    {"GPU0 GPU1\nGPU0 X NV2\n", "f:1:6:", "GPU1 has a column but no row"},
    {"GPU0 GPU1\nGPU0 X NV2\nGPU0 X NV2\n", "f:3:1:", "second row for GPU0"},
    {"GPU0 GPU1\nGPU7 X NV2\n", "f:2:1:", "GPU7, which has no column"},
    {"GPU0 GPU1 GPU0\n", "f:1:11:", "second column for GPU0"},
    {"GPU0 GPU1\nGPU0 X NVX\n", "f:2:8:", "'NVX' is no link"},
    {"GPU0 GPU1\nGPU0 X NV0\n", "f:2:8:", "'NV0' is no link"},
    {"GPU0 GPU1\nGPU0 X NV256\n", "f:2:8:", "'NV256' is no link"},
    {"GPU0 GPU1\nGPU0 X \x01\xff\n", "f:2:8:", "'?\?' is no link"},
    {"GPU0 GPU1\nGPU0 X X\n", "f:2:8:", "X means the GPU itself"},
    {"GPU0 GPU1\n  GPU0 NV1 NV2\n", "f:2:8:", "GPU0 to itself must be X"},
    {"GPU0 GPU1\nGPU0 X\n", "f:2:7:", "ends before its column GPU1"},
    {"GPU0 GPU1\nGPU0 X NV2\nGPU1 NV1 X\n", "f:3:6:", "GPU1 to GPU0 is NV1, but"},
    {"GPU0 GPU1\nGPU0 X NV2\nGPU1 PIX X\n", "f:3:6:", "same both ways"},
    {"GPU0 X NV2\nGPU1 NV2 X\n", "f:1:1:", "a row before any header"},
    {"\tGPU0\tCPU\nGPU0\tX\nGPU0\tCPU\n", "f:3:1:", "second header"},
};

START_TEST(test_refusals_name_the_place) {
    struct topology t = {.gpus = 77};
    ck_assert_status(topology_parse(&t, refused[_i].text, strlen(refused[_i].text), "f"),
                     RINGLET_PARSE_ERROR);
    const char *message = ringlet_error_message();
    ck_assert_msg(!strncmp(message, refused[_i].where, strlen(refused[_i].where)), "%s", message);
    ck_assert_msg(strstr(message, refused[_i].what) != NULL, "%s", message);
    ck_assert_uint_eq(t.gpus, 77);
    ck_assert_int_eq(memory_live(), 0);
}
END_TEST

START_TEST(test_too_many_gpus) {
    static char text[64000];
    size_t length = 0;
    struct topology t;
    for (int gpu = 0; gpu <= TOPOLOGY_GPUS_MAX; gpu++)
        length += (size_t)snprintf(text + length, sizeof text - length, "GPU%d ", gpu);
    ck_assert_status(topology_parse(&t, text, length, "f"), RINGLET_PARSE_ERROR);
    ck_assert_ptr_nonnull(strstr(ringlet_error_message(), "more than 4096 GPUs"));
    static char large[(4 << 20) + 1];
    ck_assert_status(topology_parse(&t, large, sizeof large, "f"), RINGLET_PARSE_ERROR);
}
END_TEST

START_TEST(test_files_that_cannot_be_read) {
    struct topology t;
    char path[] = "/tmp/ringlet-topology-XXXXXX";
    ck_assert_status(topology_read(&t, "/nowhere/at-all.txt"), RINGLET_SYSTEM_ERROR);
    ck_assert_ptr_nonnull(strstr(ringlet_error_message(), "/nowhere/at-all.txt"));
    ck_assert_status(topology_read(&t, "/tmp"), RINGLET_SYSTEM_ERROR);
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(ftruncate(file, (4 << 20) + 1), 0);
    ck_assert_status(topology_read(&t, path), RINGLET_SYSTEM_ERROR);
    ck_assert_ptr_nonnull(strstr(ringlet_error_message(), "larger than"));
    close(file);
    unlink(path);
    ck_assert_int_eq(memory_live(), 0);
}
END_TEST

/* Whatever the bytes: an answer, nothing left behind, and never more than a full matrix. The copy
 * is as long as the text, so that the address sanitizer sees a byte read too far. */
static void survive(const char *text, size_t length) {
    struct topology t;
    char *exact = malloc(length ? length : 1);
    memcpy(exact, text, length);
    ringlet_status status = topology_parse(&t, exact, length, "mutant");
    free(exact);
    if (status) {
        ck_assert_int_eq(status, RINGLET_PARSE_ERROR);
        ck_assert(!strncmp(ringlet_error_message(), "mutant:", 7));
    } else {
        ck_assert(t.gpus >= 1 && t.gpus <= TOPOLOGY_GPUS_MAX);
        for (uint32_t i = 0; i < t.gpus * t.gpus; i++)
            ck_assert(t.links[i].rate_gbps > 0);
        topology_free(&t);
    }
    ck_assert_int_eq(memory_live(), 0);
}

static const char *const files[] = {"hgx-h200-2", "dgx1-v100", "a100-pcie-pairs",
                                    "four-nvlink-partial"};

START_TEST(test_survives_truncation) {
    char path[512];
    size_t length;
    snprintf(path, sizeof path, "%s%s.txt", MACHINES, files[_i]);
    const char *text = read_text(path, &length);
    for (size_t cut = 0; cut <= length; cut++)
        survive(text, cut);
}
END_TEST

static void mutate(char *text, size_t *length, size_t capacity) {
    static const char spice[] = "GPUNVXSYS0129 \t\n\r\x1b[m\xc2\xa0\xef\xbb\xbf\xff";
    size_t at = (size_t)rand() % *length, span = (size_t)rand() % 40, from;
    switch (rand() % 4) {
    case 0:
        text[at] = (char)rand();
        break;
    case 1:
        text[at] = spice[(size_t)rand() % sizeof spice];
        break;
    case 2: /* cut a piece out */
        span = span < *length - at ? span : *length - at - 1;
        memmove(text + at, text + at + span, *length - at - span);
        *length -= span;
        break;
    default: /* repeat a piece elsewhere */
        from = (size_t)rand() % *length;
        span = span < *length - from ? span : *length - from;
        if (*length + span <= capacity) {
            char piece[40];
            memcpy(piece, text + from, span);
            memmove(text + at + span, text + at, *length - at);
            memcpy(text + at, piece, span);
            *length += span;
        }
    }
}

START_TEST(test_survives_mutation) {
    enum { ROUNDS = 2500, CAPACITY = 8192 };
    static char mutant[CAPACITY];
    char path[512];
    size_t length;
    snprintf(path, sizeof path, "%s%s.txt", MACHINES, files[_i]);
    const char *text = read_text(path, &length);
    srand((unsigned)_i + 1);
    for (int round = 0; round < ROUNDS; round++) {
        size_t size = length;
        memcpy(mutant, text, length);
        for (int i = rand() % 6; i >= 0; i--)
            mutate(mutant, &size, CAPACITY);
        survive(mutant, size);
    }
}
END_TEST

START_TEST(test_memory_failures) {
    struct topology t;
    size_t length;
    const char *text = read_text(MACHINES "dgx1-v100.txt", &length);
    for (uint64_t nth = 1;; nth++) {
        memory_fail_at(nth);
        ringlet_status status = topology_parse(&t, text, length, "f");
        if (!status)
            break;
        ck_assert_int_eq(status, RINGLET_OUT_OF_MEMORY);
        ck_assert_int_eq(memory_live(), 0);
        ck_assert_uint_lt(nth, 20);
    }
    memory_fail_at(0);
    topology_free(&t);
}
END_TEST

START_TEST(test_copy_and_switch) {
    struct topology t, copy;
    ck_assert_status(topology_make_switch(&t, 0), RINGLET_INVALID_ARGUMENT);
    ck_assert_status(topology_make_switch(&t, TOPOLOGY_GPUS_MAX + 1), RINGLET_INVALID_ARGUMENT);
    for (uint32_t gpus = 1; gpus <= 9; gpus++) {
        ck_assert_ok(topology_make_switch(&t, gpus));
        ck_assert(t.switched);
        ck_assert_ok(topology_copy(&copy, &t));
        topology_free(&t);
        ck_assert_uint_eq(copy.gpus, gpus);
        for (uint32_t from = 0; from < gpus; from++)
            for (uint32_t to = 0; to < gpus; to++)
                assert_label(&copy, from, to, from == to ? "X" : "NV18");
        topology_free(&copy);
    }
    ck_assert_int_eq(memory_live(), 0);
}
END_TEST

/* The figures that the model is made of come out again (docs: measured on two H200s). */
START_TEST(test_time_model_gives_measured_figures) {
    struct topology t;
    ck_assert_ok(topology_make_switch(&t, 2));
    ck_assert_double_eq_tol(topology_copy_ns(&t, 0, 1, 0), 1900, 1);
    ck_assert_double_eq_tol(1e9 / topology_copy_ns(&t, 0, 1, 1000000000), 392, 2);
    ck_assert_double_eq_tol(1e9 / topology_copy_ns(&t, 0, TOPOLOGY_HOST, 1000000000), 54, 0.5);
    ck_assert_double_eq_tol(topology_sum_ns(&t, 0, 0, 2), 4000, 1);
    ck_assert_double_eq_tol(3e9 / topology_sum_ns(&t, 0, 1000000000, 2), 4100, 25);
    ck_assert_double_gt(topology_sum_ns(&t, TOPOLOGY_HOST, 1 << 20, 2),
                        topology_sum_ns(&t, 0, 1 << 20, 2));
    t.links[1].p2p = false;
    ck_assert_double_eq_tol(1e9 / topology_copy_ns(&t, 0, 1, 1000000000), 37.6, 0.5);
    ck_assert_double_eq_tol(1e9 / topology_copy_ns(&t, 1, 0, 1000000000), 392, 2);
    topology_free(&t);
}
END_TEST

START_TEST(test_resources) {
    struct topology t;
    uint32_t a[TOPOLOGY_RESOURCES_MAX], b[TOPOLOGY_RESOURCES_MAX];
    ck_assert_ok(topology_make_switch(&t, 3));
    ck_assert_uint_eq(topology_copy_resources(&t, 1, 1, a), 0);
    ck_assert_uint_eq(topology_copy_resources(&t, TOPOLOGY_HOST, TOPOLOGY_HOST, a), 0);
    ck_assert_uint_eq(topology_copy_resources(&t, 0, 1, a), 2);
    ck_assert_uint_eq(topology_copy_resources(&t, 0, 2, b), 2);
    ck_assert_uint_eq(a[0], b[0]); /* one port out for both */
    ck_assert_uint_ne(a[1], b[1]);
    ck_assert_uint_eq(topology_copy_resources(&t, 1, 0, b), 2);
    ck_assert_uint_ne(a[0], b[1]); /* out and in are two ways */
    ck_assert_uint_eq(topology_copy_resources(&t, 0, TOPOLOGY_HOST, b), 1);
    ck_assert_uint_ne(a[0], b[0]); /* PCIe is not the switch port */
    topology_free(&t);

    ck_assert_ok(topology_read(&t, MACHINES "a100-pcie-pairs.txt"));
    ck_assert_uint_eq(topology_copy_resources(&t, 0, 1, a), 1);
    ck_assert_uint_eq(topology_copy_resources(&t, 1, 0, b), 1);
    ck_assert_uint_ne(a[0], b[0]);
    ck_assert_uint_eq(topology_copy_resources(&t, 0, 4, a), 2); /* PCIe, as a copy to the host */
    ck_assert_uint_eq(topology_copy_resources(&t, 0, TOPOLOGY_HOST, b), 1);
    ck_assert_uint_eq(a[0], b[0]);
    ck_assert_uint_eq(topology_copy_resources(&t, TOPOLOGY_HOST, 4, b), 1);
    ck_assert_uint_eq(a[1], b[0]);
    for (int from = TOPOLOGY_HOST; from < 8; from++)
        for (int to = TOPOLOGY_HOST; to < 8; to++)
            for (uint32_t i = 0, n = topology_copy_resources(&t, from, to, a); i < n; i++)
                ck_assert_uint_lt(a[i], topology_resource_count(&t));
    topology_free(&t);
}
END_TEST

#define COUNT(array) (int)(sizeof(array) / sizeof(array)[0])

static Suite *suite(void) {
    Suite *suite = suite_create("topology");
    TCase *parsing = tcase_create("parsing"), *model = tcase_create("model");
    tcase_set_timeout(parsing, 60);
    tcase_add_loop_test(parsing, test_machines_of_the_folder, 0, 4);
    tcase_add_test(parsing, test_every_cell_of_a_mixed_machine);
    tcase_add_loop_test(parsing, test_pastes_of_all_kinds, 0, COUNT(accepted));
    tcase_add_test(parsing, test_one_gpu);
    tcase_add_test(parsing, test_switch_is_told_from_a_mesh);
    tcase_add_loop_test(parsing, test_refusals_name_the_place, 0, COUNT(refused));
    tcase_add_test(parsing, test_too_many_gpus);
    tcase_add_test(parsing, test_files_that_cannot_be_read);
    tcase_add_loop_test(parsing, test_survives_truncation, 0, COUNT(files));
    tcase_add_loop_test(parsing, test_survives_mutation, 0, COUNT(files));
    tcase_add_test(parsing, test_memory_failures);
    tcase_add_test(model, test_copy_and_switch);
    tcase_add_test(model, test_time_model_gives_measured_figures);
    tcase_add_test(model, test_resources);
    suite_add_tcase(suite, parsing);
    suite_add_tcase(suite, model);
    return suite;
}

SUITE_MAIN(suite)
