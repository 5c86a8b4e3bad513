/*
 * What CUDA's error codes mean to Ringlet.
 * Owns the mapping alone. Never calls CUDA.
 */
#include "device/cuda_codes.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

ringlet_status cuda_codes_status(int error) {
    switch (error) {
    case cudaSuccess:
        return RINGLET_OK;
    case cudaErrorMemoryAllocation:
        return RINGLET_OUT_OF_MEMORY;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
        return RINGLET_NO_DEVICE;
    case cudaErrorNotSupported:
    case cudaErrorNoKernelImageForDevice:
        return RINGLET_UNSUPPORTED;
    default:
        return RINGLET_DEVICE_ERROR;
    }
}

enum device_peer cuda_codes_peer(int can_error, int can, int enable_error) {
    if (can_error == cudaErrorInvalidDevice)
        return DEVICE_PEER_NO_DEVICE;
    if (can_error != cudaSuccess)
        return DEVICE_PEER_FAILED;
    if (!can)
        return DEVICE_PEER_NOT_POSSIBLE;
    switch (enable_error) {
    case cudaSuccess:
        return DEVICE_PEER_ON;
    case cudaErrorPeerAccessAlreadyEnabled:
        return DEVICE_PEER_ALREADY_ON;
    case cudaErrorPeerAccessUnsupported:
        return DEVICE_PEER_NOT_SUPPORTED;
    case cudaErrorTooManyPeers:
        return DEVICE_PEER_EXHAUSTED;
    case cudaErrorInvalidDevice:
        return DEVICE_PEER_NO_DEVICE;
    default:
        return DEVICE_PEER_FAILED;
    }
}

enum device_stream_state cuda_codes_stream(int error) {
    switch (error) {
    case cudaSuccess:
        return DEVICE_STREAM_OK;
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit: /* the default stream, while a blocking stream captures */
    case cudaErrorCapturedEvent:
    case cudaErrorStreamCaptureWrongThread:
        return DEVICE_STREAM_CAPTURING;
    default:
        return DEVICE_STREAM_UNKNOWN;
    }
}

enum device_pointer_kind cuda_codes_pointer(int memory_type, bool managed) {
    if (managed)
        return DEVICE_POINTER_MANAGED;
    switch (memory_type) {
    case 0:
    case CU_MEMORYTYPE_HOST:
        return DEVICE_POINTER_HOST;
    case CU_MEMORYTYPE_DEVICE:
        return DEVICE_POINTER_DEVICE;
    case CU_MEMORYTYPE_UNIFIED:
        return DEVICE_POINTER_MANAGED;
    default:
        return DEVICE_POINTER_UNKNOWN;
    }
}

const char *cuda_codes_absence(int error, int driver_version, int runtime_version) {
    if (error == cudaSuccess)
        return "";
    if (error == cudaErrorNoDevice)
        return "the driver shows no device (is CUDA_VISIBLE_DEVICES empty?)";
    if (driver_version == 0)
        return "no NVIDIA driver is loaded";
    if (error == cudaErrorInsufficientDriver || driver_version < runtime_version)
        return "the NVIDIA driver is older than the CUDA runtime needs";
    if (error == cudaErrorInitializationError)
        return "CUDA cannot be initialised (not after a fork of a process that used it)";
    if (error == cudaErrorSystemDriverMismatch)
        return "the NVIDIA driver's library and its kernel module differ in version";
    if (error == cudaErrorSystemNotReady)
        return "the GPUs' fabric is not ready (is the fabric manager running?)";
    return "CUDA reports an error";
}
