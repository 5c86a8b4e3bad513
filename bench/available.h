/*
 * How much memory this machine has left, for runs on emulated devices, whose memory is the host's.
 * Owns the guess: what /proc/meminfo calls available, and never more than there is. Never takes
 * any.
 */
#ifndef RINGLET_BENCH_AVAILABLE_H
#define RINGLET_BENCH_AVAILABLE_H

#include <stdint.h>
#include <stdio.h>

/* Bytes; UINT64_MAX where nothing says. */
uint64_t available_bytes(void);

/* MemAvailable of a file in the form of /proc/meminfo, in bytes; UINT64_MAX if it has none. */
uint64_t available_read(FILE *meminfo);

#endif
