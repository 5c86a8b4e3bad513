/*
 * The CUDA backend as the registry sees it; no CUDA header is needed.
 * Owns three declarations. Never included elsewhere.
 */
#ifndef RINGLET_DEVICE_CUDA_BACKEND_H
#define RINGLET_DEVICE_CUDA_BACKEND_H

#include "device/device.h"

/* As device_open_cuda(), device_cuda_count() and device_cuda_text(). */
ringlet_status cuda_open(struct device_system **out);
int cuda_count(void);
const char *cuda_text(void);

#endif
