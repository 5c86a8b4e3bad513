/*
 * What is common to all backends of the device interface: waiting, names, sizes.
 * Owns no state. Never knows which backend it talks to.
 */
#include "device/device.h"

#include <time.h>

#include "base/dtype.h"
#include "base/status.h"

/* Looks before the first sleep; the sleeps, which double from the first to the last; and how often
 * the deadline and the caller's stop are looked at meanwhile. */
enum { SPINS = 200, SPINS_SINGLE_THREADED = 20000, LOOKS_BETWEEN_QUESTIONS = 32 };
enum { SLEEP_FIRST_NS = 10000, SLEEP_LAST_NS = 1000000 };

const char *device_peer_text(enum device_peer result) {
    switch (result) {
    case DEVICE_PEER_ON:
        return "peer access was enabled";
    case DEVICE_PEER_ALREADY_ON:
        return "peer access was already enabled by somebody else";
    case DEVICE_PEER_NOT_POSSIBLE:
        return "peer access is not possible between these devices";
    case DEVICE_PEER_NOT_SUPPORTED:
        return "peer access is not supported between these devices";
    case DEVICE_PEER_EXHAUSTED:
        return "the hardware resources for mapping peers are used up";
    case DEVICE_PEER_NO_DEVICE:
        return "no such peer device";
    case DEVICE_PEER_FAILED:
        return "enabling peer access failed";
    }
    return "unknown result of enabling peer access";
}

uint32_t device_dtype_size(ringlet_dtype dtype) {
    return ringlet_dtype_size(dtype);
}

ringlet_status device_reduction_check(const struct device_reduction *how, uint32_t input_count) {
    if (!dtype_known(how->dtype) || !dtype_op_known(how->op))
        return status_fail(RINGLET_UNSUPPORTED, "no reduction of type %d by operation %d",
                           (int)how->dtype, (int)how->op);
    if (input_count < 1 || input_count > DEVICE_INPUTS_MAX)
        return status_fail(RINGLET_INVALID_ARGUMENT, "a reduction has 1 to %d inputs, not %u",
                           DEVICE_INPUTS_MAX, input_count);
    if (how->op == RINGLET_AVG && (how->ranks < 1 || how->ranks > INT32_MAX))
        return status_fail(RINGLET_INVALID_ARGUMENT, "an average over %u ranks", how->ranks);
    return RINGLET_OK;
}

static uint64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Real time, also where the backend's clock is modelled: a deadline is the caller's patience. */
static bool passed(uint64_t since_ns, int64_t timeout_ms) {
    return timeout_ms >= 0 && (monotonic_ns() - since_ns) / 1000000u >= (uint64_t)timeout_ms;
}

ringlet_status device_wait(struct device_system *system, struct device_queue queue,
                           int64_t timeout_ms, bool (*stop)(void *), void *context) {
    const struct device_ops *ops = system->ops;
    bool single_threaded = ops->single_threaded(system);
    uint32_t spins = single_threaded ? SPINS_SINGLE_THREADED : SPINS;
    uint64_t since_ns = monotonic_ns(), clock_ns = 0;
    uint32_t quiet = 0; /* looks since something was seen to move */
    long sleep_ns = SLEEP_FIRST_NS;
    for (uint64_t look = 0;; look++) {
        bool idle = false;
        ringlet_status status = ops->poll(system, queue, &idle);
        if (status != RINGLET_OK || idle)
            return status;
        if (look % LOOKS_BETWEEN_QUESTIONS == 0 || quiet >= spins) {
            if (stop && stop(context))
                return RINGLET_ABORTED;
            if (passed(since_ns, timeout_ms))
                return RINGLET_TIMEOUT;
        }
        /* Each look of a single-threaded backend runs an operation: no sleep while its clock moves.
         */
        uint64_t now_ns = single_threaded ? ops->now_ns(system) : 0;
        quiet = now_ns != clock_ns ? 0 : quiet + (quiet < spins);
        clock_ns = now_ns;
        if (quiet < spins)
            continue;
        nanosleep(&(struct timespec){0, sleep_ns}, NULL);
        sleep_ns = sleep_ns < SLEEP_LAST_NS / 2 ? 2 * sleep_ns : SLEEP_LAST_NS;
    }
}
