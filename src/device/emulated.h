/*
 * Emulated devices: memory, streams, events, peer access and copy engines made of host memory.
 * Owns both schedulers, virtual time, the happens-before race checker and planted faults. Never
 * knows a plan.
 */
#ifndef RINGLET_DEVICE_EMULATED_H
#define RINGLET_DEVICE_EMULATED_H

#include "device/device.h"
#include "topology/topology.h"

struct emulated_config {
    const struct topology *machine; /* copied; one device a GPU */
    ringlet_scheduler scheduler;
    uint64_t seed; /* SEEDED: 0 runs in the order of modelled time, else pseudo-random */
    bool keep_going; /* after a race: count it and go on; else the operation's queue fails with
                        DEVICE_ERROR and the race's words */
};

ringlet_status emulated_open(struct device_system **out, const struct emulated_config *config);

/* Races found so far (SEEDED only), and the first one in words: both operations, the memory and the
 * range. "" if there was none. */
uint64_t emulated_races(struct device_system *system);
const char *emulated_race_text(struct device_system *system);

/* Digest of the order in which operations ran, so that "same seed, same run" can be tested. */
uint64_t emulated_digest(struct device_system *system);
/* Operations run so far. */
uint64_t emulated_operations(struct device_system *system);

/* Faults. The nth call of the interface from now that can fail (1 is the next) fails once with
 * `status`; 0 plants nothing. */
void emulated_fail_at(struct device_system *system, uint64_t nth, ringlet_status status);
bool emulated_fail_pending(struct device_system *system);
/* What enabling peer access of a directed pair answers from now on. Where it is not ON or
 * ALREADY_ON, a copy between the two still works, as CUDA's does, at the rate of host memory. */
void emulated_set_peer(struct device_system *system, int device, int peer, enum device_peer result);

/* A gate in a queue: what comes behind it waits until emulated_release() opens all gates. */
ringlet_status emulated_hold(struct device_system *system, struct device_queue queue);
void emulated_release(struct device_system *system);

/* Memory, streams and events that live (for leak tests). */
int64_t emulated_live(struct device_system *system);

#endif
