/*
 * Whether this build is slow: sanitizers or no optimisation. Then long suites take a spread of what
 * they do else, and bounds on time get room. Owns SUITE_SLOW (0 or 1). Never knows what a suite
 * does.
 */
#ifndef RINGLET_TESTS_SLOW_H
#define RINGLET_TESTS_SLOW_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(undefined_behavior_sanitizer)
#define SUITE_SLOW 1
#endif
#endif
#if !defined(SUITE_SLOW) &&                                                                        \
    (defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__))
#define SUITE_SLOW 1
#endif
#ifndef SUITE_SLOW
#define SUITE_SLOW 0
#endif

/* Scratch for communicators that want no particular amount: the library's own choice, or, since a
 * sanitizer marks every byte that is taken and freed, a few megabytes. */
#define SUITE_SCRATCH (SUITE_SLOW ? 4u << 20 : 0)

#endif
