/*
 * What a machine is made of, as data: GPUs, the links between each ordered pair, rates and
 * latencies.
 * Owns the matrix, its parsing and the arithmetic of modelled time. Never asks a device or the
 * system.
 *
 * Rates are decimal gigabytes a second in one direction, latencies microseconds, modelled times
 * nanoseconds (double: exact enough below 2^53 ns = 104 days).
 */
#ifndef RINGLET_TOPOLOGY_TOPOLOGY_H
#define RINGLET_TOPOLOGY_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "ringlet/ringlet.h"

/* As nvidia-smi names them, near to far. */
enum topology_class {
    TOPOLOGY_SELF,
    TOPOLOGY_NVLINK, /* NV#: a bond of `nvlinks` NVLinks */
    TOPOLOGY_PIX,    /* at most one PCIe bridge */
    TOPOLOGY_PXB,    /* several PCIe bridges */
    TOPOLOGY_PHB,    /* a PCIe host bridge */
    TOPOLOGY_NODE,   /* between host bridges of one NUMA node */
    TOPOLOGY_SYS     /* across sockets */
};
#define TOPOLOGY_CLASSES 7

struct topology_link { /* from one GPU to another, directed */
    enum topology_class class;
    uint8_t nvlinks;
    bool p2p; /* peer access is possible */
    double rate_gbps;
    double latency_us; /* from start to the first byte */
};

enum { TOPOLOGY_NAME_MAX = 63, TOPOLOGY_GPUS_MAX = 4096 };

struct topology {
    char name[TOPOLOGY_NAME_MAX + 1];
    uint32_t gpus;
    bool switched;               /* NVLink: a port a GPU (a switch), not a wire a pair */
    struct topology_link *links; /* gpus * gpus, row = from */
    double host_rate_gbps;       /* pinned host memory to or from one GPU */
    double host_latency_us;
    double memory_rate_gbps;  /* device memory, bytes moved in all by a kernel */
    double kernel_latency_us; /* launch to end of an empty kernel */
    double cpu_rate_gbps;     /* host memory, bytes moved in all by the CPU reduction */
    double cpu_latency_us;    /* start of a host function in a stream */
};

/* `gpus` GPUs on a switch, every pair NV18 at the rates measured on two H200s (docs/architecture.md
 * gives their source). gpus from 1 to TOPOLOGY_GPUS_MAX. Free with topology_free(). */
ringlet_status topology_make_switch(struct topology *out, uint32_t gpus);

/* Reads the matrix that `nvidia-smi topo -m` prints: blanks or tabs, colour codes, extra columns
 * (CPU and NUMA affinity), rows and columns of network cards and the legend are taken as they come.
 * `source` names the text in messages ("FILE:LINE:COLUMN: ..."). PARSE_ERROR for: no header, no
 * GPUs, two headers, a missing or repeated row, an unknown cell, an X off the diagonal or none on
 * it, a matrix that is not symmetric, too many GPUs. *out is set only on success. */
ringlet_status topology_parse(struct topology *out, const char *text, size_t length,
                              const char *source);

/* topology_parse() of a file; name is the file's base name without its extension. SYSTEM_ERROR
 * where it cannot be read or is larger than 4 MiB. */
ringlet_status topology_read(struct topology *out, const char *path);

void topology_free(struct topology *topology);
ringlet_status topology_copy(struct topology *out, const struct topology *from);

const struct topology_link *topology_link(const struct topology *t, uint32_t from, uint32_t to);

/* "NV18", "SYS": the cell as nvidia-smi prints it; buffer of at least 8 bytes. */
const char *topology_link_label(const struct topology_link *link, char buffer[8]);

/*
 * The time model, shared by plan/cost.c and the emulator so that both give the same times. An
 * operation starts when its lane and the resources it occupies are free, holds them for its
 * duration, and ends. A place is a GPU index or TOPOLOGY_HOST.
 */
enum { TOPOLOGY_HOST = -1, TOPOLOGY_RESOURCES_MAX = 2 };

double topology_copy_ns(const struct topology *t, int from, int to, uint64_t bytes);
/* `operands` ranges of `bytes` added into another on `place`: (operands + 1) * bytes through its
 * memory. */
double topology_sum_ns(const struct topology *t, int place, uint64_t bytes, uint32_t operands);

/* The resources that a copy occupies, as indices below topology_resource_count(): for NVLink
 * without a switch the pair's wire, else the sender's way out and the receiver's way in (a switch
 * port, or PCIe, which copies to and from the host use too). None within one GPU. Returns how
 * many. */
uint32_t topology_copy_resources(const struct topology *t, int from, int to,
                                 uint32_t out[TOPOLOGY_RESOURCES_MAX]);
uint32_t topology_resource_count(const struct topology *t);

#endif
