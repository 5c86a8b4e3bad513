/*
 * The loops of the CPU's reductions for any CPU of the architecture that the build is for.
 * Owns the table cpu_loops_baseline. Never uses an instruction that has to be asked for.
 */
#define CPU_LOOPS_TABLE cpu_loops_baseline
#define CPU_LOOPS_LEVEL 0
#define CPU_LOOPS_NAME "baseline"
#include "device/cpu_loops_body.h"
