/*
 * What a `ringlet bench` times: lanes, one for each algorithm and shape, the link and the peer.
 * Owns the communicators beside the session's. Never measures.
 */
#include "bench.h"

static bool add_lane(struct bench *b, struct lane lane) {
    if (lane.contender && b->lane_count < LANES_MAX) {
        b->lanes[b->lane_count++] = lane;
        return true;
    }
    contender_close(lane.contender);
    return session_fail(&b->session, "out of memory");
}

/* Both shapes where both are asked for; the first one that stands owns the communicator. */
static bool add_algorithm(struct bench *b, int algorithm, ringlet_comm *comm, bool owned) {
    struct session *s = &b->session;
    int shape = b->job.set.shape;
    for (int whole = 0; whole < 2; whole++) {
        if (shape != SHAPE_BOTH && whole != (shape == SHAPE_WHOLE))
            continue;
        struct lane lane = {.kind = LANE_RINGLET, .comm = comm, .owned = owned};
        lane.algorithm = algorithm;
        lane.shape = whole + 1;
        lane.contender = contender_open_ringlet(s, comm, whole);
        if (!add_lane(b, lane)) {
            if (owned)
                ringlet_comm_destroy(&comm);
            return false;
        }
        owned = false;
    }
    return true;
}

/* Every algorithm has a communicator of its own; the first uses the session's. */
static bool add_algorithms(struct bench *b, const struct session_config *config) {
    struct session_config other = *config;
    if (b->job.set.algorithm != NAMES_ALGORITHMS)
        return add_algorithm(b, b->job.set.algorithm, b->session.comm, false);
    if (!add_algorithm(b, RINGLET_ALGORITHM_RING, b->session.comm, false))
        return false;
    for (int algorithm = RINGLET_ALGORITHM_RING + 1; algorithm < NAMES_ALGORITHMS; algorithm++) {
        ringlet_comm *comm;
        bench_options(&b->job, algorithm, &other.options);
        ringlet_status status = session_comm(&b->session, &other, &comm);
        if (status == RINGLET_UNSUPPORTED) {
            fprintf(b->report.out, "# algorithm %s: N/A, %s\n", names_algorithms[algorithm],
                    session_words(status));
            continue;
        }
        if (status)
            return session_fail(&b->session, "algorithm %s: %s", names_algorithms[algorithm],
                                session_words(status));
        if (!add_algorithm(b, algorithm, comm, true))
            return false;
    }
    return true;
}

bool bench_open_lanes(struct bench *b, const struct session_config *config) {
    const struct settings *set = &b->job.set;
    struct session *s = &b->session;
    struct contender *contender;
    const char *why;
    if (!add_algorithms(b, config))
        return false;
    if (set->link) {
        contender = contender_open_link(s, &why);
        if (!contender)
            fprintf(b->report.out, "# --link: N/A, %s\n", why);
        else if (!add_lane(b, (struct lane){.kind = LANE_LINK, .contender = contender}))
            return false;
    }
    if (set->peer >= 0) {
        contender = contender_open_nccl(s, &why);
        if (!contender)
            fprintf(b->report.out, "# --peer nccl: N/A, %s\n", why);
        else if (!add_lane(b, (struct lane){.kind = LANE_PEER, .contender = contender}))
            return false;
    }
    return true;
}

void bench_close_lanes(struct bench *b) {
    for (int i = b->lane_count - 1; i >= 0; i--)
        contender_close(b->lanes[i].contender);
    for (int i = b->lane_count - 1; i >= 0; i--) {
        ringlet_status status =
            b->lanes[i].owned ? ringlet_comm_destroy(&b->lanes[i].comm) : RINGLET_OK;
        if (status)
            session_fail(&b->session, "%s", session_words(status));
    }
    b->lane_count = 0;
}

static void say_missing(struct bench *b, const struct session_call *call, const struct lane *lane,
                        const char *why) {
    fprintf(b->report.out, "# %s of %s, %s%s%s: N/A, %s\n", names_collectives[call->collective],
            ringlet_dtype_name(call->type), bench_op_name(call), lane ? ", algorithm " : "",
            lane ? names_algorithms[lane->algorithm] : "", why);
}

bool bench_choose_lanes(struct bench *b, const struct session_call *call) {
    struct session_call one = *call;
    int there = 0;
    char why[LANES_MAX][200];
    one.count = one.count ? 1 : 0;
    for (int i = 0; i < b->lane_count; i++) {
        struct lane *lane = &b->lanes[i];
        lane->nccl_type = names_nccl_type(call->type);
        lane->off = false;
        if (lane->kind != LANE_RINGLET)
            continue;
        ringlet_status status = contender_try_ringlet(lane->contender, &one);
        lane->off = status == RINGLET_UNSUPPORTED;
        if (status && !lane->off)
            return session_fail(&b->session, "%s", session_words(status));
        snprintf(why[i], sizeof why[i], "%s", lane->off ? session_words(status) : "");
        there += !lane->off;
    }
    if (!there)
        say_missing(b, call, NULL, why[0]);
    for (int i = 0; i < b->lane_count && there; i++)
        if (b->lanes[i].off && b->lanes[i].shape == b->lanes[0].shape)
            say_missing(b, call, &b->lanes[i], why[i]);
    return true;
}

struct lane *bench_lane(struct bench *b, int kind) {
    for (int i = 0; i < b->lane_count; i++)
        if ((int)b->lanes[i].kind == kind)
            return &b->lanes[i];
    return NULL;
}
