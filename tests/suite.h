/*
 * What every test suite's main does: run the suite and print TAP.
 * Owns nothing. A suite defines `static Suite *suite(void)` and ends with SUITE_MAIN.
 *
 * Check forks for each test. A child forked after OpenMP or CUDA has been used hangs or fails, so
 * main() and unchecked fixtures use neither; suites that need CUDA run with CK_FORK=no.
 */
#ifndef RINGLET_TESTS_SUITE_H
#define RINGLET_TESTS_SUITE_H

#include <check.h>
#include <stdio.h>
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

/* The same for a suite that needs what not every machine has: `const char *reason(void)` says why
 * it cannot run, and then it skips as a whole; NULL runs it. Never forks, since asking may have
 * used CUDA. */
#define SUITE_MAIN_IF(suite, reason)                                                               \
    int main(void) {                                                                               \
        const char *suite_skip_ = reason();                                                        \
        if (suite_skip_) {                                                                         \
            printf("1..0 # SKIP %s\n", suite_skip_);                                               \
            return EXIT_SUCCESS;                                                                   \
        }                                                                                          \
        SRunner *runner = srunner_create(suite());                                                 \
        srunner_set_fork_status(runner, CK_NOFORK);                                                \
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
