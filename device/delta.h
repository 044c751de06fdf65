/* The ops of a gated delta net (Yang, Kautz and Hatamizadeh 2024, arXiv 2412.06464; as in Qwen3-Next and Qwen3.5), a
 * layer whose memory of a sequence is a matrix of fixed size. Of each value head, S [k_dim, v_dim], zeros at first, and
 * for each token
 *
 *     q̂ = q / √(Σ q² + 1e-6) · k_dim^-½     k̂ = k / √(Σ k² + 1e-6)
 *     β = σ(b)                              g = -e^A · log(1 + e^(a + dt))
 *     S = e^g · S       u = β · (v - Sᵀ k̂)       S = S + k̂ uᵀ       out = Sᵀ q̂
 *
 * Value head h has the q and k of head h / (n_v_heads / n_k_heads). Before it q, k and v pass a convolution over the
 * last conv_width tokens of each channel. So a sequence's state is S and the convolution's last conv_width - 1 inputs,
 * in each such layer; those of all layers are one slot (kv/kv_layout.h).
 *
 *     conv         y = silu(Σ_j w[c, j] · x[t - width + 1 + j, c])    what lies before the step is the state's
 *     delta        the recurrence above
 *     gated_norm   out = norm(x) · weight · silu(gate), of each head
 *     gate_sigmoid out = x · σ(gate) (+ residual)
 *
 * A state cannot be cut at any token, so steps say where it is to be kept: behind tokens that are marks a copy of it
 * goes to another slot (a snapshot), of which later sequences begin.
 *
 * On a CPU a token's bits are its own: the recurrence is computed token by token in one order of operations, whatever
 * the step. On a GPU up to LF_DELTA_SHORT_TOKENS tokens of a sequence are, by the same order; more are computed in
 * chunks of 64 at absolute positions on tensor cores, whose sums run otherwise. */
#ifndef LF_DEVICE_DELTA_H
#define LF_DEVICE_DELTA_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LF_DELTA_CHUNK = 64,       /* tokens; marks lie at its multiples */
    LF_DELTA_SHORT_TOKENS = 16 /* of a sequence in a step: token by token, on a GPU too */
};

struct lf_delta_shape {
    int n_k_heads, n_v_heads; /* the second a multiple of the first */
    int k_dim, v_dim;         /* of a head; multiples of 8, 256 at most */
    int conv_width;           /* 2 to 8 */
};

/* Channels of the convolution: [q | k | v], heads side by side. */
static inline int lf_delta_channels(const struct lf_delta_shape *d)
{
    return 2 * d->n_k_heads * d->k_dim + d->n_v_heads * d->v_dim;
}
/* Bytes of S in a layer, float [n_v_heads, k_dim, v_dim], and of the convolution's inputs behind it, act_dtype
 * [conv_width - 1, channels], the oldest first. */
static inline uint64_t lf_delta_state_bytes(const struct lf_delta_shape *d)
{
    return (uint64_t)d->n_v_heads * (uint64_t)d->k_dim * (uint64_t)d->v_dim * 4;
}
static inline uint64_t lf_delta_layer_bytes(const struct lf_delta_shape *d, uint64_t act_bytes)
{
    uint64_t tail = (uint64_t)(d->conv_width - 1) * (uint64_t)lf_delta_channels(d) * act_bytes;
    return (lf_delta_state_bytes(d) + tail + 255) / 256 * 256;
}

/* Where the states of one layer lie: that of slot s at base + s · slot_bytes + offset. */
struct lf_state_view {
    void *base; /* device address, 256-byte aligned, as is each slot's */
    uint64_t slot_bytes, offset;
};

/* What a step does with the state of a sequence. */
struct lf_state_seq {
    int32_t first_token, n_tokens; /* among the step's; n_tokens 0: a place that this step does not use */
    int32_t position;              /* of first_token in the sequence */
    int32_t in, out;               /* slots; in -1: zeros. They may be the same */
    int32_t first_mark, n_marks;   /* of the step's marks, ascending */
};
/* Behind the first n_tokens of the sequence's in this step, at a multiple of LF_DELTA_CHUNK in the sequence, the state
 * is copied to a slot. */
struct lf_state_mark {
    int32_t n_tokens, slot;
};

/* A step's states, for all layers alike. On a CPU the arrays are the batch's own; on a GPU they are on the device, and
 * what a replayed graph reads is uploaded to the same place before it. */
struct lf_state_step {
    const struct lf_state_seq *seqs;   /* [n_seqs] device address */
    const struct lf_state_mark *marks; /* device address */
    int n_seqs;
    /* Of what is longer than LF_DELTA_SHORT_TOKENS: pieces of chunks, in the order of sequences and tokens. */
    const struct lf_state_chunk *chunks; /* [n_chunks] device address */
    const int32_t *long_seqs;            /* [n_long] device address: indices of seqs, ascending */
    const int32_t *first_chunks;         /* [n_long + 1] device address: of each of these */
    int n_chunks, n_long;
};
struct lf_state_chunk {
    int32_t seq, first_token, n_tokens; /* first_token: among the step's */
};

/* Most that a step of up to so many tokens of up to so many sequences has: of long sequences, and of their chunks. */
static inline int lf_state_most_long(int n_tokens, int n_seqs)
{
    int most = n_tokens / (LF_DELTA_SHORT_TOKENS + 1);
    return n_seqs < most ? n_seqs : most;
}
/* n tokens touch (n + 126) / 64 chunks at most: one alone, then as many as there are, then one alone. */
static inline int lf_state_most_chunks(int n_tokens, int n_seqs)
{
    int64_t n = (int64_t)n_tokens + 2 * (LF_DELTA_CHUNK - 1) * (int64_t)lf_state_most_long(n_tokens, n_seqs);
    return (int)(n / LF_DELTA_CHUNK);
}

/* Where lf_state_step_make puts its lists: the host's memory, the caller's. */
struct lf_state_arrays {
    struct lf_state_chunk *chunks; /* [lf_state_most_chunks] */
    int32_t *long_seqs;            /* [lf_state_most_long] */
    int32_t *first_chunks;         /* [lf_state_most_long + 1] */
};

/* The step of these sequences and marks: cuts what is longer than LF_DELTA_SHORT_TOKENS into chunks at multiples of
 * LF_DELTA_CHUNK in the sequence. out borrows seqs, marks and the arrays; for a GPU the caller uploads all five lists
 * and puts their addresses there into *out. Needs neither a device nor memory. */
void lf_state_step_make(struct lf_state_step *out, const struct lf_state_arrays *arrays,
                        const struct lf_state_seq *seqs, int n_seqs, const struct lf_state_mark *marks);

struct lf_conv_params {
    void *y;        /* [T, channels], act_dtype; not x */
    const void *x;  /* [T, channels], act_dtype, row stride x_stride */
    int x_stride;   /* elements */
    const float *w; /* [channels, conv_width] */
    int n_tokens;   /* T */
    struct lf_delta_shape shape;
    struct lf_state_view state; /* the inputs lie behind lf_delta_state_bytes */
    const struct lf_state_step *step;
};

struct lf_delta_params {
    void *out;               /* [T, n_v_heads · v_dim], act_dtype */
    const void *qkv;         /* [T, channels], act_dtype: conv's y */
    const float *ba;         /* [T, 2 · n_v_heads]: b of all heads, then a */
    const float *a_log, *dt; /* [n_v_heads]: A and dt of the formula */
    int n_tokens;            /* T */
    struct lf_delta_shape shape;
    struct lf_state_view state;
    const struct lf_state_step *step;
    void *scratch; /* delta_scratch_bytes, 256-byte aligned; contents undefined */
};

struct lf_gated_norm_params { /* out[t, h, :] = x / √(mean(x²) + eps) · weight · silu(gate), of each head of dim */
    void *out;                /* [T, n_heads · dim], act_dtype; may equal x */
    const void *x;            /* [T, n_heads · dim], act_dtype */
    const void *gate;         /* [T, n_heads · dim], act_dtype, row stride gate_stride */
    int gate_stride;          /* elements */
    const float *weight;      /* [dim] */
    float eps;
    int n_tokens, n_heads, dim;
};

struct lf_gate_sigmoid_params { /* out = x · σ(gate) (+ residual) */
    void *out;                  /* [T, dim]: act_dtype, or float, as x; may equal x or residual */
    const void *x;              /* [T, dim] */
    bool is_float;              /* x, residual and out */
    const void *gate;           /* [T, dim] act_dtype; or, of_token, [T, 1] float: one gate for the whole row */
    bool of_token;
    const float *residual; /* [T, dim] or NULL; only with is_float */
    int n_tokens, dim;
};

#endif
