/*
 * What every test suite's main does: run the suite and print TAP.
 * Owns nothing. A suite defines `static Suite *suite(void)` and ends with SUITE_MAIN.
 *
 * Check forks for each test. A child forked after OpenMP or CUDA has been used hangs or fails, so main()
 * and unchecked fixtures use neither; suites that need CUDA run with CK_FORK=no.
 */
#ifndef RINGLET_TESTS_SUITE_H
#define RINGLET_TESTS_SUITE_H

#include <check.h>
#include <stdlib.h>

#include "ringlet/ringlet.h"

#define SUITE_MAIN(suite)                                                                          \
    int main(void) {                                                                               \
        SRunner *runner = srunner_create(suite());                                                 \
        srunner_set_tap(runner, "-");                                                              \
        srunner_run_all(runner, CK_SILENT);                                                        \
        int failed = srunner_ntests_failed(runner);                                                \
        srunner_free(runner);                                                                      \
        return failed ? EXIT_FAILURE : EXIT_SUCCESS;                                               \
    }

/* Fails with the library's words when a call did not return what was expected. */
#define ck_assert_status(call, expected)                                                           \
    do {                                                                                           \
        ringlet_status ck_status_ = (call);                                                        \
        ck_assert_msg(ck_status_ == (expected), "%s gave %s (%s), not %s", #call,                  \
                      ringlet_status_name(ck_status_), ringlet_error_message(),                    \
                      ringlet_status_name(expected));                                              \
    } while (0)
#define ck_assert_ok(call) ck_assert_status(call, RINGLET_OK)

#endif
