/*
 * What CUDA's error codes mean to Ringlet: pure functions, so that every code is tested without a
 * GPU. Owns the mapping alone. Never calls CUDA; codes are plain numbers (a cudaError_t or a
 * CUresult, which share their values), so no CUDA header is needed to include this.
 */
#ifndef RINGLET_DEVICE_CUDA_CODES_H
#define RINGLET_DEVICE_CUDA_CODES_H

#include "device/device.h"

/* The status of a call that returned `error`. */
ringlet_status cuda_codes_status(int error);

/* What enabling peer access came to: cudaDeviceCanAccessPeer() returned can_error and wrote `can`;
 * cudaDeviceEnablePeerAccess(), called only if it said yes, returned enable_error. */
enum device_peer cuda_codes_peer(int can_error, int can, int enable_error);

/* What it says of a stream when asking for its device or whether it is capturing returned `error`.
 */
enum device_stream_state cuda_codes_stream(int error);

/* The kind of memory, from the driver's pointer attributes: CU_POINTER_ATTRIBUTE_MEMORY_TYPE (0:
 * CUDA knows nothing of the pointer, so it is ordinary host memory) and
 * CU_POINTER_ATTRIBUTE_IS_MANAGED. */
enum device_pointer_kind cuda_codes_pointer(int memory_type, bool managed);

/* Why there is no device, in words, from what cudaGetDeviceCount() returned, the versions of driver
 * (0: none) and runtime (13000 is 13.0). Never NULL; "" if error is 0. */
const char *cuda_codes_absence(int error, int driver_version, int runtime_version);

#endif
