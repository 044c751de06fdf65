/* Gated activations: what is between the first and the last GEMM of an MLP, or of an expert. Part of the op table
 * (ops.h), whose rules hold. */
#ifndef LF_DEVICE_GATE_H
#define LF_DEVICE_GATE_H

#include "device/x_codes.h"

/* What becomes of gate and up (Shazeer 2020). σ(a) = 1 / (1 + e^-a). */
enum lf_act {
    LF_ACT_SILU, /* gate · σ(gate) · up: SwiGLU */
    LF_ACT_GELU_TANH, /* gate · σ(2u) · up, u = √(2/π) · (gate + 0.044715·gate³), which is gate · (1 + tanh u) / 2 · up
                       */
    LF_ACT_GELU,       /* gate · (1 + erf(gate / √2)) / 2 · up */
    LF_ACT_SWIGLU_OAI, /* gate' · σ(1.702·gate') · (up' + 1): gpt-oss; gate' = min(gate, limit), up' is up within ±limit
                        */
    LF_ACTS_N
};

struct lf_gate_mul_params { /* out[t, i] = act(gate, up), gate = gate_up[t, i], up = gate_up[t, dim + i] */
    void *out;              /* [T, dim] */
    const void *gate_up;    /* [T, 2·dim] */
    int n_tokens;           /* T */
    int dim;
    enum lf_act act;
    float limit;     /* of LF_ACT_SWIGLU_OAI alone, > 0 */
    const float *up; /* [T, dim]: up, and gate_up is [T, dim], gates alone. NULL: it is gate_up's second half. Not in
                        gemm_gate_mul */
    struct lf_x_codes codes; /* instead of out, where quantizes_x() says so; not with `up` */
};

#endif
