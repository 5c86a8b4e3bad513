/*
 * `ringlet info`: what this build and this machine are.
 * Owns the text. Never changes anything.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "device/device.h"
#include "options.h"
#include "ringlet/ringlet.h"

const struct options_command info_command = {
    .name = "ringlet info",
    .summary =
        "Shows version, devices, what the library was built with, environment variables that it "
        "reads,\nand the default options.",
};

const char *command_cuda_text(void) {
    return device_cuda_text();
}

static void print_device(struct device_system *system, int device) {
    struct device_info info;
    if (system->ops->describe(system, device, &info)) {
        printf("  device %d: %s\n", device, ringlet_error_message());
        return;
    }
    printf("  device %d: %s, PCI %s, %.1f GB, compute capability %d.%d\n", device, info.name,
           info.pci[0] ? info.pci : "unknown", (double)info.memory_bytes / 1e9, info.compute_major,
           info.compute_minor);
}

static void print_cuda(void) {
    struct device_system *system;
    printf("CUDA: %s\n", command_cuda_text());
    if (device_cuda_count() < 1 || device_open_cuda(&system))
        return;
    for (int device = 0; device < system->ops->count(system); device++)
        print_device(system, device);
    system->ops->close(system);
}

static void print_emulated(void) {
    int count;
    if (ringlet_device_count(RINGLET_BACKEND_EMULATED, NULL, &count))
        printf("emulated devices: %s\n", ringlet_error_message());
    else
        printf("emulated devices: up to %d of the built-in machine, or a machine of your own "
               "(--machine FILE)\n",
               count);
}

static void print_defaults(void) {
    ringlet_options o;
    if (ringlet_options_init(&o))
        return;
    printf("default options:\n");
    printf("  backend auto, algorithm auto, scheduler threads, seed %" PRIu64 "\n", o.seed);
    printf("  rings %" PRIu32 ", slices %" PRIu32 " (0: the library chooses)\n", o.rings, o.slices);
    printf("  scratch %" PRIu64 " bytes (0: 256 MiB a rank or 1 %% of its device's memory, the "
           "smaller)\n",
           o.scratch_bytes);
    printf("  timeout %" PRId64 " ms, share devices %s, P2P %s\n", o.timeout_ms,
           o.share_devices ? "yes" : "no", o.disable_p2p ? "off" : "on");
}

int command_info(int argc, char **argv) {
    struct {
        int none;
    } settings = {0};
    enum options_result result =
        options_parse(&info_command, argc, argv, &settings, stdout, stderr);
    if (result)
        return result == OPTIONS_HELP ? COMMAND_OK : COMMAND_USAGE;
    printf("ringlet %s\n", ringlet_version());
    print_cuda();
    print_emulated();
#ifdef RINGLET_OPENMP
    printf("OpenMP: on (calls for all ranks use a team of threads)\n");
#else
    printf("OpenMP: off (calls for all ranks use POSIX threads)\n");
#endif
    const char *nvls = getenv("NCCL_NVLS_ENABLE");
    printf("environment variables: the library reads none; bench --peer nccl shows NCCL's own\n"
           "  NCCL_NVLS_ENABLE=%s (default: not set; shown, never changed)\n",
           nvls ? nvls : "(not set)");
    print_defaults();
    return COMMAND_OK;
}
