/* The CUDA device from within: what the CUDA files of attention/ and kv/ need of it, and device/'s own.
 *
 * Errors are sticky (SECURITY.md). The first one is kept with the words of the driver and of the op it came from; from
 * then on nothing is launched: every op asks lf_cuda_ok first, and hands what its launcher returns to lf_cuda_check.
 * lf_device_sync reports it. Owner thread only. */
#ifndef LF_DEVICE_CUDA_CUDA_H
#define LF_DEVICE_CUDA_CUDA_H

#include <stdbool.h>

struct lf_device;
struct lf_gemm_params;

/* The one queue of a device: a cudaStream_t. Graphs are captured from it. */
void *lf_cuda_stream(const struct lf_device *dev);
/* Whether the device has had no error. Before anything else is asked for: the calling thread then works on this GPU. */
bool lf_cuda_ok(const struct lf_device *dev);
/* Notes a cudaError_t other than success; what names the op. */
void lf_cuda_check(struct lf_device *dev, int cuda_error, const char *what);
/* Whether kernels may start before their predecessor has ended (programmatic dependent launch: sm_90 and later). */
bool lf_cuda_overlaps(const struct lf_device *dev);
/* Whether p, of a coded matrix, is a GEMV (gemv_quant.cuh), and another kernel may be one in its place. */
bool lf_cuda_gemm_coded_is_gemv(const struct lf_device *dev, const struct lf_gemm_params *p);

#endif
