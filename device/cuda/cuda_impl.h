/* The state of a CUDA device. Inside device/cuda/ only, host C. */
#ifndef LF_DEVICE_CUDA_CUDA_IMPL_H
#define LF_DEVICE_CUDA_CUDA_IMPL_H

#include <cuda_runtime_api.h>

#include "device/cuda/cuda.h"
#include "device/cuda/kernels.h"
#include "device/cuda/staging.h"
#include "device/cuda/sticky.h"
#include "device/device_impl.h"

enum {
    LF_CUDA_UP_SEGMENT_BYTES = 4 * 1024 * 1024,
    LF_CUDA_UP_SEGMENTS = 4,
    LF_CUDA_DOWN_BYTES = 2 * 1024 * 1024, /* of each of two halves */
    LF_CUDA_ROW_TILE = 128,               /* cuBLASLt's tiles have so many rows, or a part of it */
    LF_CUDA_OLDEST_SM = 80
};

struct lf_cuda_gemm;

struct lf_cuda_lane { /* whoever copies on it */
    cudaStream_t stream;
    cudaEvent_t done;
};

struct lf_cuda { /* owner thread, but for the lanes */
    int idx;     /* N of "cuda:N" */
    cudaStream_t stream;
    struct lf_sticky sticky;
    bool capturing;

    /* uploads: a ring in pinned memory, see staging.h */
    struct lf_staging ring;
    char *up;
    cudaEvent_t up_events[LF_CUDA_UP_SEGMENTS];
    /* downloads: two halves by turns */
    char *down;
    cudaEvent_t down_marks[2];
    /* fetches: a part for each slot */
    char *fetched; /* [LF_FETCHES_N, LF_FETCH_BYTES] */
    cudaEvent_t fetch_marks[LF_FETCHES_N];

    struct lf_cuda_lane lanes[LF_COPY_LANES_N];
    struct lf_cuda_gemm *gemm;
    bool has_gemv, has_gemv_quant;         /* gemv.cu and gemv_quant.cu can run here */
    bool has_expert_gemv, has_expert_gemm; /* so can expert_gemv.cu, expert_gemm_sm90.cu */
    bool has_delta_chunks;                 /* and delta_scan_sm90.cu */
    bool has_fp8;                          /* and gemm_fp8_sm90.cu */
};

/* Makes "cuda:idx" the GPU of the calling thread, of which the runtime's calls are; cheap where it is. stream_cuda.c */
void lf_cuda_use(int idx);
/* How this device's kernels are launched. */
struct lf_cuda_launch lf_cuda_launch(const struct lf_device *dev);

/* copy_cuda.c */
cudaError_t lf_cuda_copy_init(struct lf_cuda *cuda);
void lf_cuda_copy_deinit(struct lf_cuda *cuda); /* accepts half-built ones */
void lf_cuda_upload(struct lf_device *dev, void *dst_device, const void *src_host, size_t bytes);
void lf_cuda_download(struct lf_device *dev, void *dst_host, const void *src_device, size_t bytes);
void lf_cuda_fetch_begin(struct lf_device *dev, int slot, const void *src_device, size_t bytes);
LF_MUST_CHECK enum lf_status lf_cuda_fetch_end(struct lf_device *dev, int slot, void *dst_host, size_t bytes,
                                               struct lf_err *err);
/* As lf_cuda_upload, of n elements whose type changes on the way into the ring. */
void lf_cuda_upload_as(struct lf_device *dev, void *dst_device, enum lf_dtype dst_type, const void *src_host,
                       enum lf_dtype src_type, size_t n);
/* As lf_cuda_upload, of n elements that are made on the way into the ring, on any of the device's threads and in any
 * order; elem_bytes divides 64. */
typedef void lf_cuda_make_fn(const void *ctx, size_t idx, char *out);
void lf_cuda_upload_made(struct lf_device *dev, void *dst_device, size_t elem_bytes, size_t first, size_t n,
                         lf_cuda_make_fn *make, const void *ctx);

/* beside_cuda.c */
cudaError_t lf_cuda_lanes_init(struct lf_cuda *cuda);
void lf_cuda_lanes_deinit(struct lf_cuda *cuda); /* accepts half-built ones */
LF_MUST_CHECK enum lf_status lf_cuda_copy_out(struct lf_device *dev, int lane, void *dst_host, const void *src_device,
                                              size_t bytes, struct lf_err *err);
LF_MUST_CHECK enum lf_status lf_cuda_copy_in(struct lf_device *dev, int lane, void *dst_device, const void *src_host,
                                             size_t bytes, struct lf_err *err);
LF_MUST_CHECK enum lf_status lf_cuda_host_pin(struct lf_device *dev, void *ptr, size_t bytes, struct lf_err *err);
void lf_cuda_host_unpin(struct lf_device *dev, void *ptr);

/* graph_cuda.c */
bool lf_cuda_graph_begin(struct lf_device *dev);
struct lf_graph *lf_cuda_graph_end(struct lf_device *dev);
void lf_cuda_graph_launch(struct lf_device *dev, struct lf_graph *graph);
void lf_cuda_graph_destroy(struct lf_device *dev, struct lf_graph *graph);

/* ops_cuda.c: the table, and everything that would else be loaded or allocated by a first launch. */
void lf_ops_cuda_fill(struct lf_device *dev); /* the table alone */
LF_MUST_CHECK enum lf_status lf_ops_cuda_init(struct lf_device *dev, struct lf_err *err);
void lf_ops_cuda_deinit(struct lf_device *dev);

#endif
