/*
 * The race checker of the SEEDED scheduler: vector clocks over every access of every operation.
 * Owns clocks, actors and the records of operations that histories name. Never judges by bytes: two
 * accesses that nothing orders are a race, however the operations happened to run.
 *
 * Actors are queues. Host threads together are what orders an operation after everything that one
 * of them had seen idle when it was issued: how host threads synchronise among themselves cannot be
 * seen here and is taken for granted (the thread sanitizer sees it under THREADS). Issuing alone
 * orders nothing beyond the queue.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "device/emulated_private.h"

struct emulated_clock *emulated_clock_retain(struct emulated_clock *clock) {
    if (clock)
        clock->references++;
    return clock;
}

void emulated_clock_release(struct emulated_clock *clock) {
    if (clock && --clock->references == 0)
        memory_free(clock);
}

static struct emulated_clock *clock_new(uint32_t count) {
    struct emulated_clock *clock = memory_zeroed(1, sizeof *clock + count * sizeof clock->at[0]);
    if (clock) {
        clock->references = 1;
        clock->count = count;
    }
    return clock;
}

static void join(uint64_t *into, const uint64_t *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (into[i] < from[i])
            into[i] = from[i];
}

static bool actor_widen(struct emulated_actor *actor, uint32_t count) {
    if (count <= actor->count)
        return true;
    if (!memory_resize(&actor->at, count, sizeof *actor->at))
        return false;
    memset(&actor->at[actor->count], 0, (count - actor->count) * sizeof *actor->at);
    actor->count = count;
    return true;
}

/* An actor for the queue. One whose queue has ended goes on as the new queue's, as if that were the
 * old one continued: so clocks stay as wide as the most queues at a time. */
static struct emulated_actor *actor_of(struct emulated_queue *q) {
    struct emulated_race *race = &q->system->race;
    if (q->actor != EMULATED_NO_ACTOR)
        return &race->actors[q->actor];
    uint32_t index = 0;
    while (index < race->actor_count && race->actors[index].used)
        index++;
    if (index == race->actor_capacity) {
        uint32_t grown = index ? 2 * index : 16;
        if (!memory_resize(&race->actors, grown, sizeof *race->actors))
            return NULL;
        race->actor_capacity = grown;
    }
    if (index == race->actor_count)
        race->actors[race->actor_count++] = (struct emulated_actor){false, 0, NULL};
    if (!actor_widen(&race->actors[index], index + 1))
        return NULL;
    race->actors[index].used = true;
    q->actor = index;
    return &race->actors[index];
}

bool emulated_race_join(struct emulated_queue *q, const struct emulated_clock *clock) {
    if (!clock || clock->count == 0)
        return true;
    struct emulated_actor *actor = actor_of(q);
    if (!actor || !actor_widen(actor, clock->count))
        return false;
    join(actor->at, clock->at, clock->count);
    q->learned = true;
    return true;
}

struct emulated_clock *emulated_race_snapshot(const struct emulated_queue *q) {
    if (q->actor == EMULATED_NO_ACTOR)
        return clock_new(0);
    const struct emulated_actor *actor = &q->system->race.actors[q->actor];
    struct emulated_clock *clock = clock_new(actor->count);
    if (clock)
        memcpy(clock->at, actor->at, actor->count * sizeof *actor->at);
    return clock;
}

bool emulated_race_saw_idle(struct emulated_queue *q) {
    struct emulated_race *race = &q->system->race;
    if (!q->learned)
        return true;
    const struct emulated_actor *actor = &race->actors[q->actor];
    uint32_t known = race->host ? race->host->count : 0;
    struct emulated_clock *host = clock_new(known > actor->count ? known : actor->count);
    if (!host)
        return false;
    join(host->at, actor->at, actor->count);
    if (race->host)
        join(host->at, race->host->at, known);
    emulated_clock_release(race->host);
    race->host = host;
    q->learned = false;
    return true;
}

void emulated_race_leave(struct emulated_queue *q) {
    emulated_clock_release(q->joined);
    q->joined = NULL;
    if (q->actor != EMULATED_NO_ACTOR)
        q->system->race.actors[q->actor].used = false;
    q->actor = EMULATED_NO_ACTOR;
}

static void mark(void *context, struct history_access access) {
    ((struct emulated_record *)context)[access.id].marked = true;
}

/* Keeps the records that some history still names; gives how many. */
static uint32_t collect(struct emulated *e) {
    struct emulated_race *race = &e->race;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < race->record_count; i++)
        race->records[i].marked = false;
    for (uint32_t i = 0; i < e->allocation_count; i++)
        history_visit(&e->allocations[i]->history, mark, race->records);
    for (uint32_t i = 0; i < race->record_count; i++) {
        race->records[i].used = race->records[i].marked;
        kept += race->records[i].used;
    }
    race->record_next = 0;
    return kept;
}

static bool find_unused(struct emulated_race *race) {
    while (race->record_next < race->record_count && race->records[race->record_next].used)
        race->record_next++;
    return race->record_next < race->record_count;
}

/* An unused record. When all are used they are collected, and when most are kept there will be
 * twice as many: so collecting costs little for each operation, and memory follows what histories
 * hold. */
static struct emulated_record *record_new(struct emulated *e, uint32_t *id) {
    struct emulated_race *race = &e->race;
    if (!find_unused(race)) {
        uint32_t kept = collect(e), grown = race->record_count ? 2 * race->record_count : 64;
        if (kept >= race->record_count / 2 &&
            memory_resize(&race->records, grown, sizeof *race->records)) {
            memset(&race->records[race->record_count], 0,
                   (grown - race->record_count) * sizeof *race->records);
            race->record_count = grown;
        }
        if (!find_unused(race))
            return NULL;
    }
    *id = race->record_next;
    race->records[*id].used = true;
    return &race->records[*id];
}

struct inquiry { /* the context of one access */
    struct emulated *system;
    const uint64_t *at; /* what is known to have happened before */
    uint32_t count;
    const struct emulated_record *self; /* NULL: a free */
    const struct emulated_allocation *in;
    bool write, raced;
    char text[EMULATED_TEXT_MAX]; /* of the first race */
};

static void record_text(const struct emulated_record *record, char *buffer, size_t size) {
    char queue[48];
    if (!record) {
        snprintf(buffer, size, "freeing the memory");
        return;
    }
    emulated_queue_text(record->device, record->queue_number, record->is_default, queue);
    if (record->kind == EMULATED_TRANSFER)
        snprintf(buffer, size, "transfer on %s", queue);
    else
        snprintf(buffer, size, "%s of call %" PRIu32 " rank %" PRIu32 " step %" PRIu32 " on %s",
                 emulated_kind_text((enum emulated_kind)record->kind), record->tag.call,
                 record->tag.rank, record->tag.step, queue);
}

static void describe(struct inquiry *inquiry, const struct emulated_record *earlier, bool wrote,
                     uint64_t begin, uint64_t end) {
    char place[32], first[120], second[120];
    record_text(earlier, first, sizeof first);
    record_text(inquiry->self, second, sizeof second);
    snprintf(inquiry->text, sizeof inquiry->text,
             "race on %s, bytes [%" PRIu64 ", %" PRIu64 ") of the %" PRIu64
             " at %p: %s %s them, %s %s them, and nothing orders the two",
             emulated_place_text(inquiry->in->place, place), begin,
             end < inquiry->in->bytes ? end : inquiry->in->bytes, inquiry->in->bytes,
             (void *)inquiry->in->base, first, wrote ? "writes" : "reads", second,
             !inquiry->self   ? "ends"
             : inquiry->write ? "writes"
                              : "reads");
}

static bool judge(void *context, struct history_access earlier, bool wrote, uint64_t begin,
                  uint64_t end) {
    struct inquiry *inquiry = context;
    const struct emulated_record *record = &inquiry->system->race.records[earlier.id];
    bool ordered = record->actor < inquiry->count && inquiry->at[record->actor] >= record->n;
    if (ordered || inquiry->system->race.blind)
        return true;
    if (!inquiry->raced)
        describe(inquiry, record, wrote, begin, end);
    inquiry->raced = true;
    return inquiry->system->keep_going;
}

/* Counts what was found; DEVICE_ERROR where the system does not keep going. */
static ringlet_status conclude(const struct inquiry *inquiry) {
    struct emulated_race *race = &inquiry->system->race;
    if (!inquiry->raced)
        return RINGLET_OK;
    if (race->found++ == 0)
        memcpy(race->text, inquiry->text, sizeof race->text);
    return inquiry->system->keep_going ? RINGLET_OK : RINGLET_DEVICE_ERROR;
}

/* The queue begins its next data operation, with a record of it. */
static struct emulated_record *begin_operation(struct emulated_queue *q,
                                               const struct emulated_operation *op, uint32_t *id) {
    struct emulated_actor *actor = actor_of(q);
    struct emulated_record *record = actor ? record_new(q->system, id) : NULL;
    if (!record)
        return NULL;
    q->learned = true;
    *record = (struct emulated_record){.tag = op->tag,
                                       .n = ++actor->at[q->actor],
                                       .actor = q->actor,
                                       .queue_number = q->number,
                                       .device = q->device,
                                       .kind = (uint8_t)op->kind,
                                       .is_default = q->is_default,
                                       .used = true};
    return record;
}

void emulated_race_blind(struct emulated_queue *q) {
    q->system->race.blind = true;
    emulated_queue_fail(q, RINGLET_OUT_OF_MEMORY, "no memory to watch the order of operations");
}

void emulated_race_access(struct emulated_queue *q, const struct emulated_operation *op,
                          const struct emulated_access *accesses, uint32_t count) {
    struct emulated *e = q->system;
    uint32_t id = 0;
    struct inquiry inquiry = {.system = e, .self = begin_operation(q, op, &id)};
    enum history_result result = inquiry.self ? HISTORY_OK : HISTORY_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count && result == HISTORY_OK; i++) {
        if (!accesses[i].in)
            continue;
        uint64_t begin = (uint64_t)(accesses[i].pointer - accesses[i].in->base);
        inquiry.at = e->race.actors[q->actor].at;
        inquiry.count = e->race.actors[q->actor].count;
        inquiry.in = accesses[i].in;
        inquiry.write = accesses[i].write;
        result = history_access(&accesses[i].in->history, begin, begin + accesses[i].bytes,
                                (struct history_access){id, q->actor}, accesses[i].write, judge,
                                &inquiry);
    }
    if (result == HISTORY_OUT_OF_MEMORY)
        emulated_race_blind(q);
    if (conclude(&inquiry))
        emulated_queue_fail(q, RINGLET_DEVICE_ERROR, "%s", inquiry.text);
}

ringlet_status emulated_race_free(struct emulated *e, struct emulated_allocation *allocation) {
    const struct emulated_clock *host = e->race.host;
    struct inquiry inquiry = {.system = e,
                              .at = host ? host->at : NULL,
                              .count = host ? host->count : 0,
                              .in = allocation,
                              .write = true};
    history_access(&allocation->history, 0, allocation->bytes,
                   (struct history_access){0, UINT32_MAX}, true, judge, &inquiry);
    return conclude(&inquiry) ? status_fail(RINGLET_DEVICE_ERROR, "%s", inquiry.text) : RINGLET_OK;
}

void emulated_race_close(struct emulated *e) {
    struct emulated_race *race = &e->race;
    for (uint32_t i = 0; i < race->actor_count; i++)
        memory_free(race->actors[i].at);
    memory_free(race->actors);
    memory_free(race->records);
    emulated_clock_release(race->host);
}
