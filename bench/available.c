#include "available.h"

#include <inttypes.h>
#include <unistd.h>

uint64_t available_read(FILE *meminfo) {
    char line[256];
    uint64_t kib;
    while (fgets(line, sizeof line, meminfo))
        if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1 && kib < UINT64_MAX / 1024)
            return kib * 1024;
    return UINT64_MAX;
}

uint64_t available_bytes(void) {
    uint64_t free_now = UINT64_MAX, physical = UINT64_MAX;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    FILE *meminfo = fopen("/proc/meminfo", "r");
    if (pages > 0 && page > 0)
        physical = (uint64_t)pages * (uint64_t)page;
    if (meminfo) {
        free_now = available_read(meminfo);
        fclose(meminfo);
    }
    return free_now < physical ? free_now : physical;
}
