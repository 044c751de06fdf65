/* The ops of experts (Shazeer et al. 2017; Fedus et al. 2022): a router's logits choose k of E matrices for each token.
 * A token has k expert rows, one for each choice; those of all tokens are sorted by expert, within one by token: T·k
 * "sorted rows".
 *
 *     route        logits [T, E] ── weights [T, k], and who stands where:
 *                  rows[i]          sorted row i is choice rows[i] % k of token rows[i] / k
 *                  places[t·k + j]  the sorted row of choice j of token t: rows[places[r]] = r
 *                  first[e]         the first sorted row of expert e, [E + 1]: the last is T·k
 *     expert_gemm  x · w[e]ᵀ of the rows of each expert
 *     expert_sum   of a token's rows, by weight, into the residual stream
 *
 * The order within a token's sum is that of its choices, so a row's bits are its own here too, on a GPU as well and in
 * any number of tokens. */
#ifndef LF_DEVICE_EXPERTS_H
#define LF_DEVICE_EXPERTS_H

#include <stdbool.h>
#include <stdint.h>

#include "device/x_codes.h"

struct lf_weight; /* ops.h */

enum lf_route {
    LF_ROUTE_SOFTMAX,        /* weights are the softmax over all E logits */
    LF_ROUTE_SOFTMAX_RENORM, /* the same, divided by the sum of the k that are chosen */
    LF_ROUTE_TOPK_SOFTMAX    /* the softmax over the k that are chosen: as RENORM, but in fewer roundings */
};

struct lf_route_params { /* the k largest logits of each token, descending; of equal ones the lower expert first. k
                            different experts also where logits are NaN or infinite: then weights are, too */
    const float *logits; /* [T, n_experts] */
    enum lf_route route;
    int n_tokens; /* T */
    int n_experts;
    int k;                     /* 1 to LF_EXPERTS_PER_TOKEN_N (core/limits.h) and n_experts */
    float scale;               /* of the weights, in the end; 1: as they are */
    const float *expert_scale; /* [n_experts], the same of each expert's, or NULL */
    float *weights;            /* [T, k] */
    int32_t *rows;             /* [T·k] */
    int32_t *places;           /* [T·k] */
    int32_t *first;            /* [n_experts + 1] */
};

struct lf_expert_gemm_params { /* y[i] = x[i] · w[e]ᵀ (+ bias[e]), e the expert of sorted row i */
    void *y;                   /* [T·k, w->n_out] sorted */
    bool y_float;              /* else act_dtype */
    const void *x;             /* act_dtype: [T·k, w->n_in] sorted, or, x_by_token, [T, w->n_in]. No overlap with y.
                                  Sorted: made of the y of an expert_gemm by token with the same rows and first */
    bool x_by_token;
    struct lf_x_codes x_codes; /* instead of x, where quantizes_x() says so */
    const struct lf_weight *w; /* n_experts > 0 */
    const float *bias;         /* [n_experts, n_out] or NULL */
    const int32_t *rows, *first;
    int n_tokens; /* T */
    int k;
    void *scratch; /* expert_gemm_scratch_bytes, 64-byte aligned; contents undefined */
};

struct lf_expert_sum_params { /* y[t] = Σ_j weights[t, j] · x[places[t·k + j]], j ascending, (+ residual[t]) */
    float *y;                 /* [T, dim] */
    const float *residual;    /* [T, dim] or NULL; may equal y */
    const float *x;           /* [T·k, dim] sorted */
    const float *weights;     /* [T, k] */
    const int32_t *places;    /* [T·k] */
    int n_tokens;             /* T */
    int k;
    int dim;
};

#endif
