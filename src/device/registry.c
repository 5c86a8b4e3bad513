/*
 * Which backends this build has.
 * Owns the only place where the source asks whether it is built with CUDA. Never touches a device.
 */
#include "device/device.h"

#ifdef RINGLET_CUDA
#include "device/cuda_backend.h"

ringlet_status device_open_cuda(struct device_system **out) {
    return cuda_open(out);
}

int device_cuda_count(void) {
    return cuda_count();
}

const char *device_cuda_text(void) {
    return cuda_text();
}

#else
#include "base/status.h"

ringlet_status device_open_cuda(struct device_system **out) {
    (void)out;
    return status_fail(RINGLET_UNSUPPORTED, "this library was built without CUDA: build it with "
                                            "-Dcuda=enabled, or use emulated devices");
}

int device_cuda_count(void) {
    return 0;
}

const char *device_cuda_text(void) {
    return "built without CUDA";
}

#endif
