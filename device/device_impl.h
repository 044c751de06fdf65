/* What a backend fills in behind device.h. Included by device/ only.
 *
 * device.c owns the struct's life and its counters; a backend provides the op table and the calls that touch memory and
 * the queue. Nothing here is for other folders. */
#ifndef LF_DEVICE_DEVICE_IMPL_H
#define LF_DEVICE_DEVICE_IMPL_H

#include "device/cpu/delta.h"
#include "device/cpu/gemm.h"
#include "device/cpu/gemm_quant.h"
#include "device/cpu/row_kernels.h"
#include "device/device.h"
#include "device/ops.h"

struct lf_backend {
    const char *kind; /* "cpu", "cuda" */
    /* Fills info, ops and threads of a zeroed device; undoes all of it when it fails. */
    enum lf_status (*open)(struct lf_device *dev, const struct lf_device_opts *opts, struct lf_err *err);
    void (*close)(struct lf_device *dev);
    enum lf_status (*alloc)(struct lf_device *dev, void **out, size_t bytes, const char *what, struct lf_err *err);
    void (*free)(struct lf_device *dev, void *ptr, size_t bytes);
    void (*upload)(struct lf_device *dev, void *dst_device, const void *src_host, size_t bytes);
    void (*download)(struct lf_device *dev, void *dst_host, const void *src_device, size_t bytes);
    /* NULL where a download at the end does. */
    void (*fetch_begin)(struct lf_device *dev, int slot, const void *src_device, size_t bytes);
    enum lf_status (*fetch_end)(struct lf_device *dev, int slot, void *dst_host, size_t bytes, struct lf_err *err);
    /* All four NULL where device memory is the host's. */
    enum lf_status (*copy_out)(struct lf_device *dev, int lane, void *dst_host, const void *src_device, size_t bytes,
                               struct lf_err *err);
    enum lf_status (*copy_in)(struct lf_device *dev, int lane, void *dst_device, const void *src_host, size_t bytes,
                              struct lf_err *err);
    enum lf_status (*host_pin)(struct lf_device *dev, void *ptr, size_t bytes, struct lf_err *err);
    void (*host_unpin)(struct lf_device *dev, void *ptr);
    /* NULL where ops are complete on return. */
    enum lf_status (*sync)(struct lf_device *dev, struct lf_err *err);
    /* All four or none. */
    bool (*graph_begin)(struct lf_device *dev);
    struct lf_graph *(*graph_end)(struct lf_device *dev);
    void (*graph_launch)(struct lf_device *dev, struct lf_graph *graph);
    void (*graph_destroy)(struct lf_device *dev, struct lf_graph *graph);
};

struct lf_cuda;

/* What a fetch was begun for. */
struct lf_fetch {
    const void *src;
    size_t bytes;
};

struct lf_device {
    const struct lf_backend *backend;
    struct lf_device_info info;
    struct lf_ops ops;

    /* owner thread */
    uint64_t allocated_bytes;
    uint64_t n_allocs;
    struct lf_fetch fetches[LF_FETCHES_N];

    struct lf_threads *threads; /* on a GPU they help while the model is loaded */
    struct lf_cuda *cuda;       /* of the CUDA backend */

    /* of the CPU backend, fixed at open */
    const struct lf_gemm_kernel *gemm[3]; /* by enum lf_dtype of the weights */
    struct lf_quant_kernels quant;
    struct lf_row_kernels rows;
    struct lf_delta_kernels delta;
};

/* gemm_gate_mul of a backend that has no kernel of its own for it, or none for these shapes. */
void lf_gemm_then_gate_mul(struct lf_device *dev, const struct lf_gemm_params *p,
                           const struct lf_gate_mul_params *gate);

extern const struct lf_backend lf_backend_cpu;
#ifdef LF_HAVE_CUDA
extern const struct lf_backend lf_backend_cuda;
#endif

#endif
