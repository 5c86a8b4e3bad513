#include <cuda.h>
#include <cuda_runtime_api.h>
#include <string.h>

#include "device/cuda_codes.h"
#include "suite.h"

START_TEST(test_status) {
    static const struct {
        int error;
        ringlet_status status;
    } cases[] = {
        {cudaSuccess, RINGLET_OK},
        {cudaErrorMemoryAllocation, RINGLET_OUT_OF_MEMORY},
        {CUDA_ERROR_OUT_OF_MEMORY, RINGLET_OUT_OF_MEMORY},
        {cudaErrorNoDevice, RINGLET_NO_DEVICE},
        {cudaErrorInvalidDevice, RINGLET_NO_DEVICE},
        {cudaErrorInsufficientDriver, RINGLET_NO_DEVICE},
        {cudaErrorNotSupported, RINGLET_UNSUPPORTED},
        {cudaErrorNoKernelImageForDevice, RINGLET_UNSUPPORTED},
        {cudaErrorInvalidValue, RINGLET_DEVICE_ERROR},
        {cudaErrorIllegalAddress, RINGLET_DEVICE_ERROR},
        {cudaErrorUnknown, RINGLET_DEVICE_ERROR},
        {-1, RINGLET_DEVICE_ERROR},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_msg(cuda_codes_status(cases[i].error) == cases[i].status, "error %d",
                      cases[i].error);
}
END_TEST

START_TEST(test_peer) {
    static const struct {
        int can_error, can, enable_error;
        enum device_peer result;
    } cases[] = {
        {cudaSuccess, 1, cudaSuccess, DEVICE_PEER_ON},
        {cudaSuccess, 1, cudaErrorPeerAccessAlreadyEnabled, DEVICE_PEER_ALREADY_ON},
        {cudaSuccess, 0, cudaSuccess, DEVICE_PEER_NOT_POSSIBLE},
        {cudaSuccess, 1, cudaErrorPeerAccessUnsupported, DEVICE_PEER_NOT_SUPPORTED},
        {cudaSuccess, 1, cudaErrorTooManyPeers, DEVICE_PEER_EXHAUSTED},
        {cudaSuccess, 1, cudaErrorInvalidDevice, DEVICE_PEER_NO_DEVICE},
        {cudaErrorInvalidDevice, 0, cudaSuccess, DEVICE_PEER_NO_DEVICE},
        {cudaErrorInvalidValue, 0, cudaSuccess, DEVICE_PEER_FAILED},
        {cudaSuccess, 1, cudaErrorInvalidValue, DEVICE_PEER_FAILED},
        {cudaSuccess, 1, cudaErrorMemoryAllocation, DEVICE_PEER_FAILED},
        {cudaSuccess, 1, cudaErrorUnknown, DEVICE_PEER_FAILED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum device_peer got =
            cuda_codes_peer(cases[i].can_error, cases[i].can, cases[i].enable_error);
        ck_assert_msg(got == cases[i].result, "case %zu gave %d (%s)", i, (int)got,
                      device_peer_text(got));
    }
}
END_TEST

START_TEST(test_stream) {
    /* Every code from 900 to 908 is about capture. */
    ck_assert_int_eq(cudaErrorStreamCaptureUnsupported, 900);
    ck_assert_int_eq(cudaErrorStreamCaptureWrongThread, 908);
    for (int error = 900; error <= 908; error++)
        ck_assert_int_eq(cuda_codes_stream(error), DEVICE_STREAM_CAPTURING);
    ck_assert_int_eq(cuda_codes_stream(cudaSuccess), DEVICE_STREAM_OK);
    ck_assert_int_eq(cuda_codes_stream(cudaErrorInvalidResourceHandle), DEVICE_STREAM_UNKNOWN);
    ck_assert_int_eq(cuda_codes_stream(cudaErrorContextIsDestroyed), DEVICE_STREAM_UNKNOWN);
    ck_assert_int_eq(cuda_codes_stream(cudaErrorTimeout), DEVICE_STREAM_UNKNOWN);
}
END_TEST

START_TEST(test_pointer) {
    ck_assert_int_eq(cuda_codes_pointer(0, false), DEVICE_POINTER_HOST);
    ck_assert_int_eq(cuda_codes_pointer(CU_MEMORYTYPE_HOST, false), DEVICE_POINTER_HOST);
    ck_assert_int_eq(cuda_codes_pointer(CU_MEMORYTYPE_DEVICE, false), DEVICE_POINTER_DEVICE);
    ck_assert_int_eq(cuda_codes_pointer(CU_MEMORYTYPE_DEVICE, true), DEVICE_POINTER_MANAGED);
    ck_assert_int_eq(cuda_codes_pointer(CU_MEMORYTYPE_HOST, true), DEVICE_POINTER_MANAGED);
    ck_assert_int_eq(cuda_codes_pointer(CU_MEMORYTYPE_UNIFIED, false), DEVICE_POINTER_MANAGED);
    ck_assert_int_eq(cuda_codes_pointer(CU_MEMORYTYPE_ARRAY, false), DEVICE_POINTER_UNKNOWN);
}
END_TEST

static void absent(int error, int driver, int runtime, const char *word) {
    const char *words = cuda_codes_absence(error, driver, runtime);
    ck_assert_msg(strstr(words, word) != NULL, "'%s' lacks '%s'", words, word);
}

START_TEST(test_absence) {
    ck_assert_str_eq(cuda_codes_absence(cudaSuccess, 13000, 13000), "");
    absent(cudaErrorInsufficientDriver, 0, 13000, "no NVIDIA driver");
    absent(cudaErrorInsufficientDriver, 12040, 13000, "older");
    absent(cudaErrorNoDevice, 13000, 13000, "no device");
    absent(cudaErrorInitializationError, 13000, 13000, "fork");
    absent(cudaErrorSystemDriverMismatch, 13000, 13000, "differ");
    absent(cudaErrorSystemNotReady, 13000, 13000, "fabric");
    absent(cudaErrorUnknown, 13000, 13000, "error");
}
END_TEST

/* Without a GPU this is the whole of what can be seen: no device, in words, and no crash. */
START_TEST(test_registry_agrees) {
    struct device_system *system = NULL;
    int count = device_cuda_count();
    ck_assert_int_ge(count, 0);
    ck_assert_ptr_nonnull(strstr(device_cuda_text(), "CUDA runtime"));
    ringlet_status status = device_open_cuda(&system);
    if (count > 0) {
        ck_assert_ok(status);
        /* Without a driver looking at the last error is an error itself. */
        ck_assert_int_eq(cudaPeekAtLastError(), cudaSuccess);
        system->ops->close(system);
        return;
    }
    ck_assert_int_ne(status, RINGLET_OK);
    ck_assert_ptr_null(system);
    ck_assert_ptr_nonnull(strstr(ringlet_error_message(), "no CUDA device: "));
}
END_TEST

static Suite *suite(void) {
    Suite *suite = suite_create("cuda_codes");
    TCase *tests = tcase_create("codes");
    tcase_add_test(tests, test_status);
    tcase_add_test(tests, test_peer);
    tcase_add_test(tests, test_stream);
    tcase_add_test(tests, test_pointer);
    tcase_add_test(tests, test_absence);
    tcase_add_test(tests, test_registry_agrees);
    suite_add_tcase(suite, tests);
    return suite;
}

SUITE_MAIN(suite)
