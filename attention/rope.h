/* Rotary position embedding, the QK norm before it and the append of K and V to the cache: one pass over a step's QKV.
 *
 * Rotation of the pair (x[i], x[i + d/2]) by angle position · inv_freq[i] (Su et al. 2021, §3.4.2, in the half-split
 * order of the Hugging Face layout). cos and sin come from a table over all positions that is made once at start, so
 * the values do not depend on the order of requests. */
#ifndef LF_ATTENTION_ROPE_H
#define LF_ATTENTION_ROPE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/limits.h"
#include "core/status.h"
#include "device/device.h"
#include "device/ops.h"
#include "kv/kv_view.h"

struct lf_attn;

enum lf_rope_kind {
    LF_ROPE_NONE_SCALED,
    LF_ROPE_LINEAR,
    LF_ROPE_LLAMA3,
    LF_ROPE_YARN,
    LF_ROPE_LONGROPE,
    LF_ROPE_PROPORTIONAL, /* the first n_turned pairs turn, the angles of the others are zero */
    LF_ROPE_OFF           /* every angle is zero: the layer does not know positions (NoPE) */
};

struct lf_rope_opts {
    enum lf_rope_kind kind;
    int head_dim;
    int rotary_dim; /* = head_dim unless partial_rotary_factor says less; even */
    double theta;
    double factor;                            /* linear, llama3, yarn, proportional */
    int n_turned;                             /* proportional: pairs */
    double low_freq_factor, high_freq_factor; /* llama3 */
    int original_max_positions;               /* llama3, yarn, longrope */
    double beta_fast, beta_slow;              /* yarn */
    double attention_factor; /* yarn, longrope: multiplies cos and sin; 0 (yarn): 0.1·ln(factor) + 1 */
    bool truncate;           /* yarn: round the correction range to whole dimensions */
    /* longrope: what each inverse frequency is divided by, for tables of up to original_max_positions and longer ones
     */
    double short_factor[LF_HEAD_DIM / 2], long_factor[LF_HEAD_DIM / 2];
};

/* inv_freq[rotary_dim / 2] and the factor on cos and sin (1 but for yarn and longrope), in double, of a table of so
 * many positions: longrope has one set of factors for short tables and one for long ones, and all positions of a table
 * have the same, so that a key does not depend on how long its sequence has become. Formulas: linear (Chen et al.
 * 2023), llama3 (the Llama 3.1 release), yarn (Peng et al. 2023, §3.2-3.4), longrope (Ding et al. 2024, eq. 3). */
void lf_rope_inv_freq(const struct lf_rope_opts *opts, int n_positions, double *inv_freq, double *attention_factor);
/* Whether a table of so many positions has longrope's long factors. */
bool lf_rope_is_long(const struct lf_rope_opts *opts, int n_positions);

/* Bytes of the cos/sin table [n_positions, rotary_dim/2, 2] float, and its filling (cos, sin computed in double). */
uint64_t lf_rope_table_bytes(const struct lf_rope_opts *opts, int n_positions);
void lf_rope_table_fill(struct lf_device *dev, const struct lf_rope_opts *opts, int n_positions, float *table);
/* The same in parts, for a table that the CPU cannot write: each is [n, rotary_dim/2, 2] float from position `from` on,
 * with n <= LF_ROPE_PART_POSITIONS, and gone when put returns. They are made one behind the other in the same memory.
 * LF_NO_MEMORY. */
enum { LF_ROPE_PART_POSITIONS = 64 * 1024 };
typedef void lf_rope_put_fn(void *ctx, int from, int n, const float *part);
LF_MUST_CHECK enum lf_status lf_rope_table_parts(struct lf_device *dev, const struct lf_rope_opts *opts,
                                                 int n_positions, lf_rope_put_fn *put, void *ctx, struct lf_err *err);

/* Where rows of a step of which each rank has some go (device/comm.h): queries to all ranks, keys and values to the one
 * in whose stripe their position is. Addresses as this device has them; n 0: everything stays here. */
enum { LF_ROPE_PEERS_N = 8 };
struct lf_rope_peers {
    int n;
    void *q_out[LF_ROPE_PEERS_N]; /* of all tokens, on rank r */
    void *kv[LF_ROPE_PEERS_N];    /* block 0 of the cache that has stripe r; not looked at with q_only */
};

struct lf_rope_append_params {
    void *q_out;                  /* [T, n_heads, head_dim], act_dtype */
    const void *qkv;              /* [T, (n_heads + 2·n_kv_heads) · head_dim]: q heads, then k heads, then v heads */
    const float *q_norm, *k_norm; /* [head_dim] each or both NULL: RMSNorm of each head before the rotation (Qwen3) */
    bool
        norm_whole_row; /* q_norm [n_heads · head_dim], k_norm [n_kv_heads · head_dim]: of all heads at once (OLMo 2) */
    /* V gets a norm of each head without a weight (Gemma 4); it is K before norm and rotation, and no head of qkv. */
    bool v_norm, v_of_k;
    float norm_eps;
    const float *table;   /* lf_rope_table_fill */
    const float *q_scale; /* [positions of the table] or NULL: what q is multiplied by after the rotation */
    int n_tokens; /* of qkv: the schedule's, or more: surplus ones belong to no sequence, nothing of them is kept */
    int rotary_dim;
    int n_heads;
    /* K and V of this layer are written here, rounded to its dtype, where they are in its stripe; q is of all tokens */
    const struct lf_kv_view *kv;
    int layer;
    int schedule_idx; /* of attn: whose tokens these are */
    bool q_only;      /* qkv is q alone, and nothing is appended: the layer reads keys and values of another one */
    /* On a GPU, over a stripe: qkv has n_tokens rows of the step from first_row on. */
    struct lf_rope_peers peers;
    int first_row;
};
/* An op like those of device/ops.h: does not fail, queued on a GPU. */
void lf_rope_append(struct lf_attn *attn, const struct lf_rope_append_params *p);
/* The GEMM that makes p->qkv (gemm->y, dense), then lf_rope_append; the same bits, but qkv is undefined afterwards. */
void lf_gemm_rope_append(struct lf_attn *attn, const struct lf_gemm_params *gemm,
                         const struct lf_rope_append_params *p);

#endif
