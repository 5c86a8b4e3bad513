/*
 * Why the suites that need a CUDA device cannot run here.
 * Owns the words. Never looks further than whether there is a device.
 */
#ifndef RINGLET_TESTS_CUDA_MISSING_H
#define RINGLET_TESTS_CUDA_MISSING_H

#include <stdio.h>

#include "device/device.h"

/* NULL where there is one; for SUITE_MAIN_IF. */
static inline const char *cuda_missing(void) {
    static char words[256];
    if (device_cuda_count() > 0)
        return NULL;
    snprintf(words, sizeof words, "no CUDA device: %s", device_cuda_text());
    return words;
}

#endif
