/* What attention sees of the paged KV cache, of the layers of one cache group (kv_layout.h): a base address, strides
 * and, for each sequence, a block table.
 *
 *     block b      ┌──────────────────────── block_pages ───────────────────────┐
 *                  layer 0                   layer 1       …  layer L-1   not used
 *     layer l      ┌──────────── layer_stride ───────────┐
 *                  K head 0 … K head H-1   V head 0 … V head H-1
 *                  └ page ┘ (page = 64 tokens × head_dim elements, and the scales of fp8)
 *
 * A block holds 64 consecutive tokens of one sequence in all layers of a group and is contiguous. A page is one head's
 * K or V of a block. The order inside a page is the one the kernels read without shuffling. For those of a CPU:
 *
 *     f32    K page  [head_dim][64 tokens]            lanes are tokens:  S[q, 64] += q[i] · K[i, 64]
 *            V page  [64 tokens][head_dim]            lanes are channels: O[q, :] += P[q, j] · V[j, :]
 *     bf16   K page  [head_dim/2][64 tokens][2]       two neighbouring channels side by side
 *            V page  [64/2 tokens][head_dim][2]       two neighbouring tokens side by side
 *
 * and for those of a GPU [64 tokens][head_dim] throughout: one tile (16 KiB at head_dim 128) that its copy engine
 * fetches in one go and swizzles on the way.
 *
 *     fp8    codes in the order of bf16, then a scale for each of the 64 tokens (kv_fp8.h)
 *
 * The bf16 orders of a CPU are the B operands of VDPBF16PS and of AMX's TDPBF16PS, and a pair unpacks to two floats
 * with a shift and a mask. Every kernel, for one query row or a thousand, reads the same pages in the same order, which
 * is what makes a token's bits independent of the batch around it.
 *
 * Slots past a sequence's length may hold anything, NaN included: readers select, they never multiply by zero.
 *
 * Where contexts are divided over N ranks, a block's number stands for 64 · N consecutive tokens of a sequence, of
 * which each rank's cache has 64, its stripe:
 *
 *     positions    0 … 63   64 … 127  │  128 … 191  192 … 255  │  …        N = 2
 *     block        table[0]           │  table[1]              │
 *     rank         0        1         │  0          1          │
 *
 * So all ranks have one table for a sequence, and however much of it a query sees, each has about as many of the keys.
 */
#ifndef LF_KV_KV_VIEW_H
#define LF_KV_KV_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"
#include "core/limits.h"

/* Which tokens a cache has. Zeroed: all of them. */
struct lf_kv_stripe {
    int idx, n; /* idx of n; n is at most LF_RANKS_N */
};

enum lf_kv_order { LF_KV_LANES, LF_KV_ROWS }; /* of a CPU, of a GPU: see above */

struct lf_kv_view {
    void *base;          /* device address of block 0, aligned to 64 bytes; so is each page */
    enum lf_dtype dtype; /* of a CPU LF_F32, LF_BF16 or LF_E4M3; of a GPU LF_BF16, LF_F16 or LF_E4M3 */
    enum lf_kv_order order;
    int n_blocks;
    int n_layers; /* of the group */
    int n_kv_heads;
    int head_dim;    /* even */
    int block_pages; /* from a block to the next, in pages: those of the layers, and what is not used */
    int group;       /* of the cache: the table of a sequence that names its blocks */
    struct lf_kv_stripe stripe;
};

enum lf_kv_part { LF_KV_K, LF_KV_V };

/* Elements, codes where it is fp8. 64-bit: a cache passes 2³¹ bytes. */
static inline size_t lf_kv_page_elems(const struct lf_kv_view *v)
{
    return (size_t)LF_KV_BLOCK_TOKENS * (size_t)v->head_dim;
}
/* Of a page of 64 tokens, its scales too. Those of fp8 have 64 bytes for every started 128 channels, of which the first
 * 64 are used: so a page of 256 channels is two of 128, and layers of both share blocks without a gap (kv_layout.h). A
 * multiple of 64, for any even head_dim. */
static inline size_t lf_kv_page_bytes_of(enum lf_dtype dtype, int head_dim)
{
    size_t channels = (size_t)head_dim, scales = dtype == LF_E4M3 ? (channels + 127) / 128 : 0;
    return LF_KV_BLOCK_TOKENS * (channels * lf_dtype_bytes(dtype) + scales);
}
static inline size_t lf_kv_page_bytes(const struct lf_kv_view *v)
{
    return lf_kv_page_bytes_of(v->dtype, v->head_dim);
}
/* Of the layers: block_pages where a block holds nothing else. */
static inline int lf_kv_layers_pages(const struct lf_kv_view *v)
{
    return 2 * v->n_kv_heads * v->n_layers;
}
static inline size_t lf_kv_block_elems(const struct lf_kv_view *v)
{
    return lf_kv_page_elems(v) * (size_t)v->block_pages;
}
static inline size_t lf_kv_block_bytes(const struct lf_kv_view *v)
{
    return lf_kv_page_bytes(v) * (size_t)v->block_pages;
}
/* First byte of a page. */
static inline void *lf_kv_page(const struct lf_kv_view *v, int block, int layer, enum lf_kv_part part, int kv_head)
{
    size_t pages = (size_t)block * (size_t)v->block_pages + ((size_t)layer * 2 + (size_t)part) * (size_t)v->n_kv_heads +
                   (size_t)kv_head;
    return (char *)v->base + pages * lf_kv_page_bytes(v);
}
/* Of a page of fp8: a byte for each token. */
static inline uint8_t *lf_kv_scales(const struct lf_kv_view *v, void *page)
{
    return (uint8_t *)page + lf_kv_page_elems(v);
}
/* Index of element (token in the block 0..63, channel) inside a K page and inside a V page. */
static inline size_t lf_kv_k_index(const struct lf_kv_view *v, int token, int channel)
{
    if (v->order == LF_KV_ROWS) return (size_t)token * (size_t)v->head_dim + (size_t)channel;
    if (v->dtype == LF_F32) return (size_t)channel * LF_KV_BLOCK_TOKENS + (size_t)token;
    return ((size_t)(channel / 2) * LF_KV_BLOCK_TOKENS + (size_t)token) * 2 + (size_t)(channel % 2);
}
static inline size_t lf_kv_v_index(const struct lf_kv_view *v, int token, int channel)
{
    if (v->order == LF_KV_ROWS || v->dtype == LF_F32) return (size_t)token * (size_t)v->head_dim + (size_t)channel;
    return ((size_t)(token / 2) * (size_t)v->head_dim + (size_t)channel) * 2 + (size_t)(token % 2);
}

/* Tokens of a sequence from one block of its table to the next, where each of n stripes has a page of them. */
static inline int lf_kv_block_tokens(int n_stripes)
{
    return n_stripes > 1 ? n_stripes * LF_KV_BLOCK_TOKENS : LF_KV_BLOCK_TOKENS;
}
/* How many of a sequence's first n positions are in the stripe. Counted from 0 on, token i of the stripe has slot i %
 * 64 of block i / 64 of the table; positions [lo, hi) are its tokens [lf_kv_stripe_tokens(lo),
 * lf_kv_stripe_tokens(hi)). */
static inline int lf_kv_stripe_tokens(struct lf_kv_stripe stripe, int n)
{
    int block = lf_kv_block_tokens(stripe.n), rest = n % block - stripe.idx * LF_KV_BLOCK_TOKENS;
    int of_rest = rest < 0 ? 0 : rest > LF_KV_BLOCK_TOKENS ? LF_KV_BLOCK_TOKENS : rest;
    return n / block * LF_KV_BLOCK_TOKENS + of_rest;
}
static inline bool lf_kv_stripe_has(struct lf_kv_stripe stripe, int position)
{
    return position % lf_kv_block_tokens(stripe.n) / LF_KV_BLOCK_TOKENS == stripe.idx;
}

/* One sequence of a step. Token first_token + i of the step is position kv_len - n_tokens + i of the sequence. */
struct lf_kv_seq {
    const int32_t *blocks; /* host, the table of each cache group, that of group g from g · table_stride on: entry p / B
                              holds position p, where B is lf_kv_block_tokens; at least ceil(kv_len / B) entries. Of
                              a group with a window those before the window may name any block of the cache: nothing
                              in it is looked at */
    int table_stride;      /* entries; 0 where there is one group */
    int first_token;       /* of this sequence among the step's tokens */
    int n_tokens;          /* new tokens of this step, >= 1 */
    int kv_len;            /* tokens in the cache once this step's are appended */
    bool is_decode;        /* the new tokens are decode tokens, not of a prompt. Nothing but the order in which a
                              GPU sums depends on it (attention.h) */
};

/* The sequence's table in the view's group. */
static inline const int32_t *lf_kv_table(const struct lf_kv_seq *seq, const struct lf_kv_view *v)
{
    return seq->blocks + (size_t)v->group * (size_t)seq->table_stride;
}

#endif
