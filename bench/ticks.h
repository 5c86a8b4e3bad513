/*
 * Where an axis of a chart begins and ends, where its ticks stand and what is written at them.
 * Owns that arithmetic, which is pure. Never draws.
 */
#ifndef RINGLET_BENCH_TICKS_H
#define RINGLET_BENCH_TICKS_H

/* LINEAR begins at 0. LOG10 ends at 1, 2 or 5 times a power of ten; LOG2 at powers of
 * two, and its ticks count from the first. */
enum ticks_scale { TICKS_LINEAR, TICKS_LOG10, TICKS_LOG2 };

/* PLAIN: "0.25", "400". BYTES: "64 KiB". MICROSECONDS: "20 µs", "5 ms". */
enum ticks_unit { TICKS_PLAIN, TICKS_BYTES, TICKS_MICROSECONDS };

enum { TICKS_MAX = 16, TICKS_LABEL_MAX = 32 };

struct ticks {
    enum ticks_scale scale;
    double low, high; /* of the axis */
    int count;
    double at[TICKS_MAX]; /* ascending, within the axis */
};

/* For values from `least` to `most`; the logarithmic scales need positive ones (else as if 1). */
void ticks_choose(struct ticks *ticks, enum ticks_scale scale, double least, double most);

/* Where a value stands: 0 at the low end, 1 at the high one. */
double ticks_place(const struct ticks *ticks, double value);

/* buffer of TICKS_LABEL_MAX; returns it. */
const char *ticks_label(enum ticks_unit unit, double value, char *buffer);

#endif
