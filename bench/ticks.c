#include "ticks.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

static void add(struct ticks *t, double value) {
    /* a value that should be an end may be off by an ulp or two */
    if (t->count < TICKS_MAX && value >= t->low * (1 - 1e-9) && value <= t->high * (1 + 1e-9))
        t->at[t->count++] = value;
}

/* The smallest of 1, 2, 5, 10 x 10^k that is no less. */
static double nice_above(double value) {
    double power = pow(10, floor(log10(value)));
    static const double factors[] = {1, 2, 5};
    for (int i = 0; i < 3; i++)
        if (factors[i] * power >= value * (1 - 1e-9))
            return factors[i] * power;
    return 10 * power;
}

static double nice_below(double value) {
    double power = pow(10, floor(log10(value) + 1e-9));
    static const double factors[] = {5, 2, 1};
    for (int i = 0; i < 3; i++)
        if (factors[i] * power <= value * (1 + 1e-9))
            return factors[i] * power;
    return power;
}

static void choose_linear(struct ticks *t, double most) {
    enum { STEPS = 6 };
    if (!(most > 0))
        most = 1;
    double step = nice_above(most / STEPS);
    int steps = (int)ceil(most / step - 1e-9);
    t->low = 0;
    t->high = step * steps;
    for (int i = 0; i <= steps; i++)
        add(t, i * step);
}

static void choose_log10(struct ticks *t, double least, double most) {
    enum { FEW = 3, DECADES_MAX = 10 };
    t->low = nice_below(least);
    t->high = nice_above(most);
    if (t->high <= t->low * (1 + 1e-9))
        t->high = nice_above(t->low * 1.5);
    bool fine = log10(t->high / t->low) <= FEW;
    int first = (int)floor(log10(t->low) + 1e-9), last = (int)ceil(log10(t->high) - 1e-9);
    int step = 1 + (last - first) / DECADES_MAX;
    for (int power = first; power <= last; power += step) {
        add(t, pow(10, power));
        if (fine) {
            add(t, 2 * pow(10, power));
            add(t, 5 * pow(10, power));
        }
    }
}

static void choose_log2(struct ticks *t, double least, double most) {
    static const int steps[] = {1, 2, 5, 10, 20, 50};
    enum { MOST = 14 };
    int first = (int)floor(log2(least) + 1e-9), last = (int)ceil(log2(most) - 1e-9), step = 0;
    if (first >= last) {
        first--;
        last = first + 2;
    }
    t->low = exp2(first);
    t->high = exp2(last);
    while ((last - first) / steps[step] >= MOST && step < 5)
        step++;
    for (int power = first; power <= last; power += steps[step])
        add(t, exp2(power));
}

void ticks_choose(struct ticks *t, enum ticks_scale scale, double least, double most) {
    *t = (struct ticks){.scale = scale};
    if (scale == TICKS_LINEAR) {
        choose_linear(t, most);
        return;
    }
    if (!(least > 0))
        least = 1;
    if (!(most >= least))
        most = least;
    if (scale == TICKS_LOG10)
        choose_log10(t, least, most);
    else
        choose_log2(t, least, most);
}

double ticks_place(const struct ticks *t, double value) {
    if (t->scale == TICKS_LINEAR)
        return (value - t->low) / (t->high - t->low);
    return log(value / t->low) / log(t->high / t->low);
}

/* In the largest unit that leaves at least 1; units are `factor` apart. */
static const char *in_units(double value, double factor, const char *const *units, int count,
                            char *buffer) {
    int unit = 0;
    while (unit + 1 < count && value >= factor * (1 - 1e-9)) {
        value /= factor;
        unit++;
    }
    snprintf(buffer, TICKS_LABEL_MAX, "%.4g %s", value, units[unit]);
    return buffer;
}

const char *ticks_label(enum ticks_unit unit, double value, char *buffer) {
    static const char *const bytes[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    static const char *const times[] = {"ns", "\xc2\xb5s", "ms", "s"};
    switch (unit) {
    case TICKS_BYTES:
        return in_units(value, 1024, bytes, 5, buffer);
    case TICKS_MICROSECONDS:
        return in_units(value * 1e3, 1000, times, 4, buffer);
    case TICKS_PLAIN:
        break;
    }
    snprintf(buffer, TICKS_LABEL_MAX, "%.4g", fabs(value) < 1e-12 ? 0 : value);
    return buffer;
}
