/* Gated delta nets on a CPU (device/delta.h): what the kernels of one instruction set provide, and the entries of the
 * op table. Every token of a sequence, every value head and every column of S goes through the same operations in the
 * same order, whatever else is in the step: conv.c and delta_rule.c have what is handed out, the kernels what is
 * computed. */
#ifndef LF_DEVICE_CPU_DELTA_H
#define LF_DEVICE_CPU_DELTA_H

#include "device/ops.h"

enum {
    LF_CONV_WIDTH_MAX = 8,
    LF_CONV_COLS = 256, /* channels of a task, and floats from row to row of its weights */
    LF_DELTA_DIM_MAX = 256
};

/* Of one value head at one token. */
struct lf_delta_gate {
    float decay; /* e^g */
    float beta;
    float kq; /* k̂ · q̂ */
};

/* The recurrence over some columns of S of one value head and one sequence. Pointers are at the strip's first column.
 * in may be out. */
struct lf_delta_strip {
    const float *in; /* S before the first token, [k_dim] rows v_dim apart; NULL: zeros */
    float *out;      /* S after the last, likewise */
    int k_dim, v_dim, n_cols, n_tokens;
    const float *units;                /* [n_tokens, 2 · k_dim]: k̂, then q̂ */
    const struct lf_delta_gate *gates; /* [n_tokens] */
    const float *v;                    /* [n_tokens] rows v_stride apart */
    float *y;                          /* [n_tokens] rows y_stride apart */
    size_t v_stride, y_stride;
};

struct lf_delta_kernels {
    /* y[c] = silu(Σ_j w[j · LF_CONV_COLS + c] · rows[j][c]), j ascending; c < n <= LF_CONV_COLS */
    void (*conv)(float *y, const float *const *rows, const float *w, int width, int n);
    /* k̂ and q̂ of a head, side by side; gives k̂ · q̂ */
    float (*units)(float *out, const float *k, const float *q, int k_dim);
    /* of n heads: decay[i] = e^g of a[i], a_log[i] and dt[i]; beta[i] = σ(b[i]) */
    void (*gates)(float *decay, float *beta, const float *b, const float *a, const float *a_log, const float *dt,
                  int n);
    void (*strip)(const struct lf_delta_strip *s);
    /* out[i] = x[i] / √(mean(x²) + eps) · weight[i] · silu(gate[i]); out may equal x */
    void (*gated_norm)(float *out, const float *x, const float *gate, const float *weight, float eps, int dim);
    /* out[i] = x[i] · σ(gate[i]) + residual[i]; residual may be NULL, out may equal x and residual */
    void (*gate_sigmoid)(float *out, const float *x, const float *gate, const float *residual, int n);
    int strip_cols; /* columns that a strip has at most */
    int step_cols;  /* that it has where there is one token, and as many are left; not fewer */
};

extern const struct lf_delta_kernels lf_delta_c;
void lf_delta_use_avx2(struct lf_delta_kernels *delta);
void lf_delta_use_avx512(struct lf_delta_kernels *delta);

/* Entries of the op table. */
uint64_t lf_cpu_delta_scratch_bytes(const struct lf_delta_shape *shape, int n_tokens, int n_seqs);
void lf_cpu_conv(struct lf_device *dev, const struct lf_conv_params *p);
void lf_cpu_delta(struct lf_device *dev, const struct lf_delta_params *p);

/* What is promised of a step's states, asserted. */
void lf_cpu_check_states(const struct lf_delta_shape *shape, const struct lf_state_step *step, int n_tokens);

#endif
