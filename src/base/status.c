#include "base/status.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

enum { MESSAGE_MAX = 1024 };
static _Thread_local char message[MESSAGE_MAX];

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static ringlet_log_fn log_function;
static void *log_context;

ringlet_status status_fail(ringlet_status status, const char *format, ...) {
    /* Formatted aside first: an argument may be the old message itself. */
    char text[MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(message, sizeof message, "%s", text);
    return status;
}

const char *status_message(void) {
    return message;
}

void status_warn(const char *format, ...) {
    char text[MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&log_lock);
    ringlet_log_fn function = log_function;
    void *context = log_context;
    pthread_mutex_unlock(&log_lock);
    if (function)
        function(context, text);
    else
        fprintf(stderr, "ringlet: warning: %s\n", text);
}

void ringlet_log_set(ringlet_log_fn log, void *context) {
    pthread_mutex_lock(&log_lock);
    log_function = log;
    log_context = context;
    pthread_mutex_unlock(&log_lock);
}

const char *ringlet_error_message(void) {
    return status_message();
}

struct status_entry {
    ringlet_status status;
    const char *name, *text;
};

static const struct status_entry entries[] = {
#define STATUS_ENTRY(name, value, text) {RINGLET_##name, "RINGLET_" #name, text},
    RINGLET_STATUS_MAP(STATUS_ENTRY)
#undef STATUS_ENTRY
};

static const struct status_entry *find(ringlet_status status) {
    static const struct status_entry unknown = {RINGLET_OK, "RINGLET_UNKNOWN", "unknown status"};
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        if (entries[i].status == status)
            return &entries[i];
    return &unknown;
}

const char *ringlet_status_name(ringlet_status status) {
    return find(status)->name;
}

const char *ringlet_status_text(ringlet_status status) {
    return find(status)->text;
}
