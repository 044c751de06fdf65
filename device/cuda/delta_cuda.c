/* The ops of gated delta nets on a GPU: checks, then a launcher, as in ops_cuda.c.
 *
 * Sequences of up to LF_DELTA_SHORT_TOKENS tokens in a step go token by token (delta_step.cu), whatever else there is;
 * longer ones in chunks where GPU and shape allow it (delta_chunk.cuh), else token by token too. The records between
 * the two kernels of the chunked form take 2.5 MB a chunk in large models, so chunks are taken in segments; the
 * state goes from one to the next through its slot, as it is. */
#include "device/cuda/delta_cuda.h"

#include <limits.h>

#include "core/check.h"
#include "device/cuda/cuda_impl.h"

enum { LEAST_SCRATCH_BYTES = 256 };

static bool is_chunked(const struct lf_delta_shape *d)
{
    return d->k_dim == LF_CUDA_DELTA_DIM && d->v_dim == LF_CUDA_DELTA_DIM &&
           d->n_v_heads <= LF_CUDA_DELTA_SHARED_BY * d->n_k_heads;
}

static uint64_t delta_scratch_bytes(const struct lf_delta_shape *shape, int n_tokens, int n_seqs)
{
    int n_chunks = LF_MIN(lf_state_most_chunks(n_tokens, n_seqs), (int)LF_CUDA_DELTA_SEGMENT);
    if (!is_chunked(shape)) n_chunks = 0;
    uint64_t of_chunk = (uint64_t)shape->n_v_heads * LF_CUDA_DELTA_RECORD_BYTES +
                        (uint64_t)shape->n_k_heads * LF_CUDA_DELTA_KEY_RECORD_BYTES;
    uint64_t bytes = (uint64_t)n_chunks * of_chunk;
    return LF_MAX(bytes, (uint64_t)LEAST_SCRATCH_BYTES);
}

static void check_shape(const struct lf_delta_shape *d, const struct lf_state_step *step, int n_tokens)
{
    LF_ASSERT(n_tokens >= 0 && step->n_seqs >= 0 && step->n_long >= 0 && step->n_chunks >= step->n_long);
    LF_ASSERT(d->n_k_heads > 0 && d->n_v_heads > 0 && d->n_v_heads % d->n_k_heads == 0);
    LF_ASSERT(d->k_dim > 0 && d->k_dim % 8 == 0 && d->k_dim <= 256);
    LF_ASSERT(d->v_dim > 0 && d->v_dim % 8 == 0 && d->v_dim <= 256);
    LF_ASSERT(d->conv_width >= 2 && d->conv_width <= 8);
}

static void conv(struct lf_device *dev, const struct lf_conv_params *p)
{
    check_shape(&p->shape, p->step, p->n_tokens);
    LF_ASSERT(p->x_stride >= lf_delta_channels(&p->shape) && p->x != p->y);
    if (lf_cuda_ok(dev)) lf_cuda_check(dev, lf_cuda_conv(p, lf_cuda_launch(dev)), "conv");
}

static int launch_delta(const struct lf_device *dev, const struct lf_delta_params *p)
{
    struct lf_cuda_launch how = lf_cuda_launch(dev);
    bool in_chunks = dev->cuda->has_delta_chunks && is_chunked(&p->shape);
    if (!in_chunks) return lf_cuda_delta_step(p, INT_MAX, how);
    int rc = 0;
    if (p->step->n_seqs > p->step->n_long) rc = lf_cuda_delta_step(p, LF_DELTA_SHORT_TOKENS, how);
    for (int first = 0; rc == 0 && first < p->step->n_chunks; first += LF_CUDA_DELTA_SEGMENT) {
        int n = LF_MIN(p->step->n_chunks - first, (int)LF_CUDA_DELTA_SEGMENT);
        rc = lf_cuda_delta_prepare(p, first, n, how);
        if (rc == 0) rc = lf_cuda_delta_scan_sm90(p, first, n, how);
    }
    return rc;
}

static void delta(struct lf_device *dev, const struct lf_delta_params *p)
{
    check_shape(&p->shape, p->step, p->n_tokens);
    if (lf_cuda_ok(dev)) lf_cuda_check(dev, launch_delta(dev, p), "delta");
}

static void gated_norm(struct lf_device *dev, const struct lf_gated_norm_params *p)
{
    LF_ASSERT(p->n_tokens >= 0 && p->n_heads > 0 && p->dim > 0 && p->gate_stride >= p->n_heads * p->dim);
    if (lf_cuda_ok(dev)) lf_cuda_check(dev, lf_cuda_gated_norm(p, lf_cuda_launch(dev)), "gated_norm");
}

static void gate_sigmoid(struct lf_device *dev, const struct lf_gate_sigmoid_params *p)
{
    LF_ASSERT(p->n_tokens >= 0 && p->dim > 0 && (p->residual == NULL || p->is_float));
    if (lf_cuda_ok(dev)) lf_cuda_check(dev, lf_cuda_gate_sigmoid(p, lf_cuda_launch(dev)), "gate_sigmoid");
}

int lf_delta_cuda_setup(struct lf_device *dev)
{
    int rc = lf_cuda_conv_setup();
    if (rc == 0) rc = lf_cuda_delta_rows_setup();
    if (rc == 0) rc = lf_cuda_delta_step_setup();
    dev->cuda->has_delta_chunks = dev->info.sm == 90;
    if (rc == 0 && dev->cuda->has_delta_chunks) rc = lf_cuda_delta_prepare_setup();
    if (rc == 0 && dev->cuda->has_delta_chunks) rc = lf_cuda_delta_scan_sm90_setup();
    return rc;
}

void lf_delta_cuda_fill(struct lf_ops *ops)
{
    ops->delta_scratch_bytes = delta_scratch_bytes;
    ops->conv = conv;
    ops->delta = delta;
    ops->gated_norm = gated_norm;
    ops->gate_sigmoid = gate_sigmoid;
}
