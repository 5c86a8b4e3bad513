/*
 * Makes plans: an algorithm is written as a sequential program of copies and reductions, and the
 * waits follow from the ranges it touches. Owns the plan being built, the access histories and the
 * clocks. Never knows an algorithm.
 *
 * Each step is compared with the earlier steps that conflict with it. Of those, a wait is emitted
 * only where neither the step's lane nor its other waits imply it, latest first. So the waits are
 * sufficient (every conflict is ordered) and none can be left out: the wait A -> C was emitted
 * because A and C conflict and nothing else orders them, and no wait emitted afterwards changes
 * what precedes C.
 */
#ifndef RINGLET_PLAN_BUILDER_H
#define RINGLET_PLAN_BUILDER_H

#include "plan/plan.h"

struct plan_builder;

/* What a step is about, for people. */
struct plan_label {
    enum plan_phase phase;
    uint32_t turn, chunk, slice;
};

/* Starts a plan for spec (copied). NULL when out of memory. */
struct plan_builder *plan_builder_new(const struct plan_spec *spec);

/* Adds a lane; all lanes come before the first step. Every rank gets its MAIN lane, numbered by
 * rank, from plan_builder_new(). */
uint32_t plan_builder_lane(struct plan_builder *builder, uint32_t rank, enum plan_lane_kind kind,
                           uint32_t ring);

/* After plan_builder_enter(): says that steps will begin at `at`. Changes no plan; in ascending
 * order it makes building large ones faster (history_cut()). */
void plan_builder_cut(struct plan_builder *builder, struct plan_ref at);

/* ENTER on every rank; then the steps; then plan_builder_finish() adds LEAVE. A step of count 0 is
 * none. Errors are kept until plan_builder_finish(). */
void plan_builder_enter(struct plan_builder *builder);
void plan_builder_copy(struct plan_builder *builder, uint32_t lane, struct plan_ref dst,
                       struct plan_ref src, uint64_t count, struct plan_label label);
/* dst = operands added in the order given; more than PLAN_OPERANDS_MAX make several steps, and dst
 * may then be the first operand but no other. flags: enum plan_flag, of the whole. */
void plan_builder_reduce(struct plan_builder *builder, uint32_t lane, struct plan_ref dst,
                         const struct plan_ref *operands, uint32_t operand_count, uint64_t count,
                         uint32_t flags, struct plan_label label);

/* Ends the plan and frees the builder; *out is set only on success. */
ringlet_status plan_builder_finish(struct plan_builder *builder, uint32_t slices,
                                   struct plan **out);

/* Frees a builder that is not to be finished. */
void plan_builder_drop(struct plan_builder *builder);

/* The algorithms: they add lanes and steps. On an error the builder is the caller's still. */
ringlet_status plan_ring_build(struct plan_builder *builder, const struct plan_spec *spec,
                               uint32_t *slices);
ringlet_status plan_host_build(struct plan_builder *builder, const struct plan_spec *spec,
                               uint32_t *slices);
ringlet_status plan_direct_build(struct plan_builder *builder, const struct plan_spec *spec,
                                 uint32_t *slices);

#endif
