/* The op table: everything a model does on a device that is neither attention nor KV.
 *
 * Each op takes the device and a plain-data params struct that states its shapes. Tensors are dense and row-major,
 * T = tokens of the step. Activations have the device's act_dtype (float on a CPU; bf16 or fp16 on a GPU), but
 * the residual stream is float everywhere: it is what errors add up in. Accumulation is float.
 *
 * Reduction order belongs to the token: every op computes a token in the same order of operations whatever T is and
 * whatever the other tokens hold, so a token's bits are the same alone, in a batch and in chunks. One exception: a
 * GPU's GEMM of more than 16 tokens (of coded weights 64: device/cuda/gemm_coded.c), but not of FP8 weights on Hopper,
 * whose activations are FP8 too (device/cuda/gemm_fp8.c). Up to 16 (GEMV) each token's bits are the same in any batch
 * (device/cuda/gemv.cuh; on GPUs that have the shared memory for it: sm_80, sm_90, sm_100); from 17 on they belong to
 * the token and to the bucket that T falls into (device/cuda/gemm_buckets.h), whose sums run otherwise.
 *
 * All pointers are device addresses. Ops neither allocate nor fail: shapes were checked when the model was opened
 * (LF_ASSERT guards them), a GPU's errors wait for lf_device_sync. On a CPU they run on the device's threads and are
 * complete on return; on a GPU they are queued. Implementations: device/cpu/ops_cpu.c is the plain C
 * reference of every op; faster files replace single entries at lf_device_open, device/cuda/ops_cuda.c replaces all.
 */
#ifndef LF_DEVICE_OPS_H
#define LF_DEVICE_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/format.h"
#include "device/delta.h"
#include "device/device.h"
#include "device/experts.h"
#include "device/gate.h"
#include "device/norm.h"
#include "device/sample.h"

/* A weight matrix [n_out, n_in] in the order the device's GEMM reads it. Filled row by row from a file by weight_pack,
 * then read-only. The bytes live in a buffer the model owns. */
struct lf_weight {
    void *data;              /* device address, 64-byte aligned, weight_bytes() long */
    struct lf_format format; /* of the rows that weight_pack takes. Of plain ones a CPU converts nothing; on a GPU the
                                packed elements have the act_dtype: f32 is rounded to it, and f16 and bf16 are converted
                                where it is the other one */
    int n_out;
    int n_in;
    int n_experts; /* 0: one matrix. Else so many of them, each a multiple of LF_EXPERT_ALIGN_BYTES behind the one
                      before (lf_weight_expert_bytes) */
};
enum { LF_EXPERT_ALIGN_BYTES = 64 };

struct lf_embed_params {           /* out[t, :] = scale · table row ids[t] */
    float *out;                    /* [T, n_in] */
    const struct lf_weight *table; /* [vocab, n_in] */
    const int32_t *ids;            /* [T], each < table->n_out (checked by the caller) */
    const int32_t *sampled;        /* what an id below zero, -1 - r, stands for: sampled[r]. NULL: there is none */
    int n_tokens;                  /* T */
    float scale;                   /* 1: the row as it is */
    int column, n_columns;         /* n_columns of a row from `column` on, and out is [T, n_columns]. 0: all of it */
    const int32_t *rows;           /* [T]: token t has the id of row rows[t] of ids. NULL: its own */
    bool is_part;                  /* of several ranks: the table begins with the row of first_id, and ids that it has
                                      not make zeros */
    int32_t first_id;
};

struct lf_gemm_params { /* y = alpha · (x · wᵀ (+ bias)) (+ residual) */
    void *y;            /* [T, w->n_out], row stride y_stride */
    bool y_float;       /* y is float: the residual stream, logits; else act_dtype */
    const void *x;      /* [T, w->n_in], act_dtype, row stride x_stride; does not overlap y */
    const struct lf_weight *w;
    const float *bias;      /* [n_out] or NULL */
    const float *residual;  /* [T, n_out], row stride y_stride, or NULL; may equal y; only with y_float */
    float alpha;            /* 1: as it is, to the bit */
    int n_tokens;           /* T */
    int x_stride, y_stride; /* elements */
    /* Only where fused_norm_tokens() allows T tokens. */
    struct lf_fused_norm norm;  /* with y_float: the epilogue's */
    const float *x_sum_squares; /* [T, ceil(n_in / LF_NORM_PART)]: x is such an h, with these; or NULL */
    float x_eps;
    struct lf_x_codes x_codes; /* instead of x, where quantizes_x() says so */
    void *scratch;             /* gemm_scratch_bytes(max T, max n_in) bytes, 64-byte aligned; contents undefined */
};

struct lf_softcap_params { /* x = cap · tanh(x / cap), in place */
    float *x;              /* [n] */
    int64_t n;
    float cap; /* > 0 */
};

struct lf_round_params { /* out = x: what lies between the residual stream and a GEMM where there is no norm */
    void *out;           /* [n], act_dtype; not x */
    const float *x;      /* [n] */
    int64_t n;
};

struct lf_gather_params { /* out[i, :] = x[rows[i], :] */
    void *out;            /* [n_rows, dim] */
    const void *x;        /* [T, dim] */
    const int32_t *rows;  /* [n_rows] */
    int n_rows;
    int dim;
    enum lf_dtype dtype; /* of the elements: LF_F32 or act_dtype */
};

struct lf_ops {
    const char *name; /* of the ISA or device, for logs */

    /* Whether gemm, and expert_gemm where n_experts > 0, have kernels for matrices of this format and shape. All of
     * them have those of plain formats. No other op takes coded matrices, and only what is supported may be asked of
     * those below. */
    bool (*supports_format)(const struct lf_device *dev, const struct lf_format *format, int n_out, int n_in,
                            int n_experts);
    /* Bytes of a packed [n_out, n_in] matrix: a closed formula, the same that the memory plan adds up. */
    uint64_t (*weight_bytes)(const struct lf_format *format, int n_out, int n_in);
    /* Packs rows [row_first, row_first + n_rows) of w from src. Of a plain format src is elements, row-major [n_rows,
     * n_in], at any alignment; of a coded one a const struct lf_quant_rows of these rows. Rows may come in any order;
     * those of a plain format that are never packed read as zero if the buffer was zero. */
    void (*weight_pack)(struct lf_device *dev, const struct lf_weight *w, int row_first, int n_rows, const void *src);
    /* Row row of w widened to float: the inverse of weight_pack, for tests. out [n_in], host. */
    void (*weight_row)(struct lf_device *dev, const struct lf_weight *w, int row, float *out);
    uint64_t (*gemm_scratch_bytes)(int max_tokens, int max_n_in);

    /* Gets everything ready for GEMMs of p's shape (its strides, y_float, and whether there are bias and residual,
     * included) with 1 to p->n_tokens tokens, so that none of them chooses, loads or allocates anything. Runs over p's
     * tensors: y is undefined afterwards. Called before the device is warm; NULL where nothing is to be got ready. */
    void (*gemm_prepare)(struct lf_device *dev, const struct lf_gemm_params *p);

    /* Tokens (at most LF_FUSED_NORM_TOKENS) up to which a GEMM of p's shape has the epilogue and the prologue of a
     * fused RMSNorm, 0 for never; p->n_tokens is not looked at. NULL where no GEMM has. */
    int (*fused_norm_tokens)(const struct lf_device *dev, const struct lf_gemm_params *p);

    /* Whether GEMMs, of experts too, take activations for w, dense ones of at least LF_FP8_BLOCK columns, as codes and
     * scales, and then *by which: what makes them (rmsnorm, gate_mul) may write them so. NULL where no GEMM does. */
    bool (*quantizes_x)(const struct lf_device *dev, const struct lf_weight *w, enum lf_fp8_scales *by);

    void (*embed)(struct lf_device *dev, const struct lf_embed_params *p);
    void (*rmsnorm)(struct lf_device *dev, const struct lf_rmsnorm_params *p);
    void (*gemm)(struct lf_device *dev, const struct lf_gemm_params *p);
    void (*gate_mul)(struct lf_device *dev, const struct lf_gate_mul_params *p);
    /* gemm, then gate_mul; gate->gate_up is p->y, dense, and gate->dim p->w->n_out / 2. The same bits, but p->y is
     * undefined afterwards. */
    void (*gemm_gate_mul)(struct lf_device *dev, const struct lf_gemm_params *p, const struct lf_gate_mul_params *gate);
    void (*softcap)(struct lf_device *dev, const struct lf_softcap_params *p);
    void (*round)(struct lf_device *dev, const struct lf_round_params *p);
    void (*gather)(struct lf_device *dev, const struct lf_gather_params *p);

    /* Experts. The scratch is for up to p->n_tokens tokens with p's k and x_by_token and w's n_out, n_in and n_experts:
     * a closed formula of those, nothing else of p is looked at. */
    uint64_t (*expert_gemm_scratch_bytes)(const struct lf_expert_gemm_params *p);
    void (*route)(struct lf_device *dev, const struct lf_route_params *p);
    void (*expert_gemm)(struct lf_device *dev, const struct lf_expert_gemm_params *p);
    void (*expert_sum)(struct lf_device *dev, const struct lf_expert_sum_params *p);

    /* Gated delta nets (delta.h). The scratch is for so many tokens of so many sequences: a closed formula. */
    uint64_t (*delta_scratch_bytes)(const struct lf_delta_shape *shape, int n_tokens, int n_seqs);
    void (*conv)(struct lf_device *dev, const struct lf_conv_params *p);
    void (*delta)(struct lf_device *dev, const struct lf_delta_params *p);
    void (*gated_norm)(struct lf_device *dev, const struct lf_gated_norm_params *p);
    void (*gate_sigmoid)(struct lf_device *dev, const struct lf_gate_sigmoid_params *p);

    /* Sampling where the logits are (sample.h). NULL on a CPU: there model/sampler.c does it. */
    void (*sample)(struct lf_device *dev, const struct lf_sample_params *p);
    void (*sample_counts)(struct lf_device *dev, const struct lf_sample_counts_params *p);
};

/* Bytes from one expert's matrix to the next one's. */
static inline uint64_t lf_weight_expert_bytes(const struct lf_ops *ops, const struct lf_weight *w)
{
    uint64_t n = ops->weight_bytes(&w->format, w->n_out, w->n_in);
    return (n + LF_EXPERT_ALIGN_BYTES - 1) / LF_EXPERT_ALIGN_BYTES * LF_EXPERT_ALIGN_BYTES;
}

/* Elements of a token's row. */
static inline int lf_embed_width(const struct lf_embed_params *p)
{
    return p->n_columns > 0 ? p->n_columns : p->table->n_in;
}

/* The matrix of one expert, as weight_pack, weight_row and gemm take it. */
static inline struct lf_weight lf_weight_of_expert(const struct lf_ops *ops, const struct lf_weight *w, int expert)
{
    struct lf_weight one = *w;
    one.data = (char *)w->data + (uint64_t)expert * lf_weight_expert_bytes(ops, w);
    one.n_experts = 0;
    return one;
}

#endif
