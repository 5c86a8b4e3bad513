/*
 * The machine as data: rates by link class, the built-in switch, and the arithmetic of modelled
 * time. Owns the table of rates and struct topology's memory. Never parses, never asks a device or
 * the system.
 */
#include "topology/topology.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"
#include "topology/rates.h"

/* One direction of a pair, by class; for NVLink the rate of one link of the bond. */
struct class_rate {
    const char *label;
    bool p2p;
    double rate_gbps, latency_us;
};

static const struct class_rate classes[TOPOLOGY_CLASSES] = {
    /* Within a GPU: its memory's rate counts, see topology_copy_ns(). Latency: that of a peer copy,
     * assumed. */
    [TOPOLOGY_SELF] = {"X", true, 0, 1.9},
    /* Measured on two H200s (NV18): 392 GB/s a direction with both directions busy, 1.9 us for 4
     * KB. The same rate for a link of an older generation is an assumption (V100: nominally 25
     * GB/s). */
    [TOPOLOGY_NVLINK] = {"NV", true, 21.8, 1.9},
    /* Published for peer copies over PCIe 4.0 between two A100s: 24.7 GB/s, 1.9 us. */
    [TOPOLOGY_PIX] = {"PIX", true, 24.7, 1.9},
    [TOPOLOGY_PXB] = {"PXB", true, 24.7, 1.9},
    /* Assumed: each host bridge on the way costs some of the rate and adds latency. */
    [TOPOLOGY_PHB] = {"PHB", true, 20.0, 2.4},
    [TOPOLOGY_NODE] = {"NODE", true, 16.0, 2.9},
    /* Published for GPU to host memory to GPU on that two-socket machine: 11.2 GB/s, 5.8 us. That
     * peer access is not possible across sockets is an assumption; a prober knows better. */
    [TOPOLOGY_SYS] = {"SYS", false, 11.2, 5.8},
};

static const struct {
    double fast_host_gbps, host_gbps, host_latency_us;
    double memory_gbps, kernel_latency_us;
    double cpu_gbps, cpu_latency_us;
    double no_peer_share;
} rates = {
    .fast_host_gbps = 54.0,   /* measured, pinned memory to or from one H200 (PCIe 5.0) */
    .host_gbps = 24.0,        /* assumed for PCIe 4.0 */
    .host_latency_us = 2.9,   /* half of the published 5.8 us for the way through host memory */
    .memory_gbps = 4100.0,    /* measured, an adding kernel on an H200 */
    .kernel_latency_us = 4.0, /* measured, empty kernels back to back on an H200 */
    .cpu_gbps = 143.0,      /* measured as copies through host memory; assumed for the reduction */
    .cpu_latency_us = 10.0, /* assumed */
    .no_peer_share = 0.7,   /* measured: 37.6 GB/s without peer access where the host does 54 */
};

ringlet_status topology_allocate(struct topology *out, uint32_t gpus, const char *name) {
    if (gpus < 1 || gpus > TOPOLOGY_GPUS_MAX)
        return status_fail(RINGLET_INVALID_ARGUMENT, "a machine has 1 to %d GPUs, not %u",
                           TOPOLOGY_GPUS_MAX, gpus);
    struct topology t = {.gpus = gpus,
                         .host_rate_gbps = rates.host_gbps,
                         .host_latency_us = rates.host_latency_us,
                         .memory_rate_gbps = rates.memory_gbps,
                         .kernel_latency_us = rates.kernel_latency_us,
                         .cpu_rate_gbps = rates.cpu_gbps,
                         .cpu_latency_us = rates.cpu_latency_us};
    snprintf(t.name, sizeof t.name, "%s", name);
    t.links = memory_zeroed((size_t)gpus * gpus, sizeof *t.links);
    if (!t.links)
        return status_fail(RINGLET_OUT_OF_MEMORY, "no memory for the links of %u GPUs", gpus);
    *out = t;
    return RINGLET_OK;
}

struct topology_link topology_class_link(enum topology_class class, uint8_t nvlinks) {
    const struct class_rate *rate = &classes[class];
    return (struct topology_link){.class = class,
                                  .nvlinks = class == TOPOLOGY_NVLINK ? nvlinks : 0,
                                  .p2p = rate->p2p,
                                  .rate_gbps = class == TOPOLOGY_SELF ? rates.memory_gbps / 2
                                               : class == TOPOLOGY_NVLINK
                                                   ? rate->rate_gbps * nvlinks
                                                   : rate->rate_gbps,
                                  .latency_us = rate->latency_us};
}

void topology_settle(struct topology *t) {
    enum { FAST_NVLINKS = 18 }; /* such machines have PCIe 5.0 */
    size_t cells = (size_t)t->gpus * t->gpus;
    const struct topology_link *first = t->gpus > 1 ? &t->links[1] : NULL;
    t->switched = t->gpus >= 3;
    for (size_t i = 0; i < cells; i++) {
        const struct topology_link *link = &t->links[i];
        if (link->class == TOPOLOGY_SELF)
            continue;
        if (link->class != TOPOLOGY_NVLINK || link->nvlinks != first->nvlinks)
            t->switched = false;
        if (link->nvlinks >= FAST_NVLINKS)
            t->host_rate_gbps = rates.fast_host_gbps;
    }
}

ringlet_status topology_make_switch(struct topology *out, uint32_t gpus) {
    char name[TOPOLOGY_NAME_MAX + 1];
    struct topology t;
    snprintf(name, sizeof name, "%u x H200 (NV18)", gpus);
    ringlet_status status = topology_allocate(&t, gpus, name);
    if (status)
        return status;
    for (uint32_t from = 0; from < gpus; from++)
        for (uint32_t to = 0; to < gpus; to++)
            t.links[(size_t)from * gpus + to] =
                topology_class_link(from == to ? TOPOLOGY_SELF : TOPOLOGY_NVLINK, 18);
    topology_settle(&t);
    t.switched = true; /* also with one or two GPUs, where a matrix alone could not tell */
    t.host_rate_gbps = rates.fast_host_gbps;
    *out = t;
    return RINGLET_OK;
}

void topology_free(struct topology *topology) {
    if (!topology)
        return;
    memory_free(topology->links);
    memset(topology, 0, sizeof *topology);
}

ringlet_status topology_copy(struct topology *out, const struct topology *from) {
    struct topology_link *links =
        memory_copy(from->links, (size_t)from->gpus * from->gpus, sizeof *links);
    if (!links)
        return status_fail(RINGLET_OUT_OF_MEMORY, "no memory for the links of %u GPUs", from->gpus);
    *out = *from;
    out->links = links;
    return RINGLET_OK;
}

const struct topology_link *topology_link(const struct topology *t, uint32_t from, uint32_t to) {
    return &t->links[(size_t)from * t->gpus + to];
}

const char *topology_class_label(enum topology_class class) {
    return classes[class].label;
}

const char *topology_link_label(const struct topology_link *link, char buffer[8]) {
    if (link->class == TOPOLOGY_NVLINK)
        snprintf(buffer, 8, "NV%u", link->nvlinks);
    else
        snprintf(buffer, 8, "%s", classes[link->class].label);
    return buffer;
}

static double transfer_ns(double latency_us, double rate_gbps, double bytes) {
    return latency_us * 1e3 + bytes / rate_gbps; /* a GB/s is a byte a nanosecond */
}

/* Between two GPUs without peer access the driver goes through host memory: no faster than that,
 * and no sooner than two such copies start. */
static double no_peer_ns(const struct topology *t, const struct topology_link *link, double bytes) {
    double through_host = t->host_rate_gbps * rates.no_peer_share;
    double rate = link->rate_gbps < through_host ? link->rate_gbps : through_host;
    double latency = 2 * t->host_latency_us;
    return transfer_ns(link->latency_us > latency ? link->latency_us : latency, rate, bytes);
}

double topology_copy_ns(const struct topology *t, int from, int to, uint64_t bytes) {
    double size = (double)bytes;
    if (from == TOPOLOGY_HOST && to == TOPOLOGY_HOST)
        return transfer_ns(t->cpu_latency_us, t->cpu_rate_gbps, 2 * size);
    if (from == TOPOLOGY_HOST || to == TOPOLOGY_HOST)
        return transfer_ns(t->host_latency_us, t->host_rate_gbps, size);
    const struct topology_link *link = topology_link(t, (uint32_t)from, (uint32_t)to);
    if (from == to)
        return transfer_ns(link->latency_us, t->memory_rate_gbps, 2 * size);
    return link->p2p ? transfer_ns(link->latency_us, link->rate_gbps, size)
                     : no_peer_ns(t, link, size);
}

double topology_sum_ns(const struct topology *t, int place, uint64_t bytes, uint32_t operands) {
    double moved = ((double)operands + 1) * (double)bytes;
    return place == TOPOLOGY_HOST ? transfer_ns(t->cpu_latency_us, t->cpu_rate_gbps, moved)
                                  : transfer_ns(t->kernel_latency_us, t->memory_rate_gbps, moved);
}

/* Numbering: four ways a GPU, then without a switch a wire for each ordered pair. */
enum { PORT_OUT, PORT_IN, PCIE_OUT, PCIE_IN, WAYS };

static uint32_t way(int gpu, uint32_t which) {
    return (uint32_t)gpu * WAYS + which;
}

uint32_t topology_copy_resources(const struct topology *t, int from, int to,
                                 uint32_t out[TOPOLOGY_RESOURCES_MAX]) {
    uint32_t count = 0, out_way = PCIE_OUT, in_way = PCIE_IN;
    if (from == to)
        return 0;
    if (from != TOPOLOGY_HOST && to != TOPOLOGY_HOST) {
        const struct topology_link *link = topology_link(t, (uint32_t)from, (uint32_t)to);
        bool nvlink = link->class == TOPOLOGY_NVLINK && link->p2p;
        if (nvlink && !t->switched) {
            out[0] = t->gpus * WAYS + (uint32_t)from * t->gpus + (uint32_t)to;
            return 1;
        }
        if (nvlink)
            out_way = PORT_OUT, in_way = PORT_IN;
    }
    if (from != TOPOLOGY_HOST)
        out[count++] = way(from, out_way);
    if (to != TOPOLOGY_HOST)
        out[count++] = way(to, in_way);
    return count;
}

uint32_t topology_resource_count(const struct topology *t) {
    return t->gpus * WAYS + (t->switched ? 0 : t->gpus * t->gpus);
}
