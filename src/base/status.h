/*
 * Errors and warnings: the thread's last message, and where warnings go.
 * Owns the thread-local message and the log function. Never decides what is an error.
 */
#ifndef RINGLET_BASE_STATUS_H
#define RINGLET_BASE_STATUS_H

#include "ringlet/ringlet.h"

/* Sets the thread's message and returns status, so that `return status_fail(...)` reads well. The
 * function that first knows of the error calls it; those above pass the status on. */
ringlet_status status_fail(ringlet_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The thread's message, "" if none. */
const char *status_message(void);

/* A warning for the user, one line without its newline. */
void status_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
