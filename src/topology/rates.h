/*
 * What topology.c lends to the parser: making a machine from link classes.
 * Owns nothing. Never included outside src/topology.
 */
#ifndef RINGLET_TOPOLOGY_RATES_H
#define RINGLET_TOPOLOGY_RATES_H

#include "topology/topology.h"

/* A machine with default rates and all links zeroed: fill each with topology_class_link(), then
 * call topology_settle(). The name is cut to what fits. */
ringlet_status topology_allocate(struct topology *out, uint32_t gpus, const char *name);

/* A link of the class with the rates of the table; nvlinks counts for NVLINK alone. */
struct topology_link topology_class_link(enum topology_class class, uint8_t nvlinks);

/* The cell's text without an NVLink count: "X", "NV", "PIX". */
const char *topology_class_label(enum topology_class class);

/* Sets what follows from the links: switched, and the rate to host memory. */
void topology_settle(struct topology *t);

#endif
