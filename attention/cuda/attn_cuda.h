/* What the host and the CUDA kernels of attention agree on. Inside attention/ only; read by C and by .cu files.
 *
 * A step is a few arrays in device memory, filled by attn_cuda.c before the step's first kernel and the same for all
 * layers: the sequences, their block tables one behind the other, and lists of tasks and of partial results to combine.
 * Kernels read from memory how much there is to do, so a captured graph replays with other numbers; only
 * combine_prefill's length comes from the host, since prompts are in no graph. The arrays change by copies alone, never
 * by a kernel: one that starts before its predecessor is complete may read them, and the tokens of earlier steps. In
 * the decode list these are all before kv_len - n_tokens.
 *
 * Packed query rows. Row r of a sequence and a KV head is query head kv_head · G + r mod G of the new token r / G, with
 * G = n_heads / n_kv_heads; its position is kv_len - n_tokens + r / G.
 *
 * Splits. Keys are cut at fixed positions, whatever a sequence's length. For prefill tokens all splits of a row are of
 * one length, the longer the later its own position: LF_ATTN_PREFILL_SPLITS of them reach from key 0 to the row, in
 * whole LF_ATTN_PREFILL_SPLIT_STEPs and up to LF_ATTN_PREFILL_SPLIT_MAX; before position LF_ATTN_PREFILL_NEAR it is
 * LF_ATTN_PREFILL_SPLIT_NEAR. A tile's rows have the same. So a short chunk behind a long cache is work for many
 * multiprocessors, and long prompts do not end more splits than that; to end one costs as much as some 300 keys.
 * For decode tokens splits get longer with their own position, so that short contexts have many and long ones not too
 * many: the greatest power of two that is at most 1 / LF_ATTN_DECODE_SPLIT_SHARE of it, between
 * LF_ATTN_DECODE_SPLIT_MIN and _MAX. These form groups: LF_ATTN_DECODE_GROUP splits of one length, at multiples of
 * their length together. In prefill a row's result combines, in ascending order, its splits' partial results; in decode
 * it combines its groups, each of which combines its splits. Whether one task walks all of them, or each group or each
 * split is a task, is the same: a row's bits depend on its position, its keys, its kind (prefill or decode) and, in
 * prefill on Hopper, on whether lse is asked for, and on nothing else.
 *
 * A partial row is: m, the offset of its exponents (in decode the running maximum or at most 8 below it, in prefill any
 * that keeps them from overflowing) in log2(e) · scaled score; l = Σ 2^(s - m); o[head_dim] = Σ 2^(s - m) · v, all
 * float. One that saw no key has m = -inf, l = 0, o = 0. Combining a (left) with b: m = max(a.m, b.m), each side's l
 * and o scaled by 2^(its m - m), fused as fma(b, scale_b, a · scale_a); a side with l = 0 changes nothing.
 *
 * Stripes. Where contexts are divided (kv_view.h) keys and splits are counted among those of the stripe
 * (attn_stripe.h), a prefill row's by its position over the number of stripes; kv_len, n_tokens and windows are the
 * sequence's. Who sees a key is asked of its position: a template parameter of kernels, STRIPED, says whether that is
 * another number.
 *
 * Pages hold [64 tokens][head_dim] elements, K and V alike (LF_KV_ROWS order, see kv_view.h). Slots at or past kv_len
 * may hold NaN: their scores are selected away and their V rows must be set to zero before PV.
 *
 * FP8. Decode, and all kernels for wide heads, read the codes of an FP8 cache themselves. For prefill attn_expand.cu
 * makes bf16 pages of those that a few sequences see of a layer, exactly, and the kernels read these: sequences come
 * in waves (attn_map.h) whose pages the workspace has room for. Numbers, sums and their order are those of a bf16 cache
 * that holds the same numbers, and so are the bits. */
#ifndef LF_ATTENTION_CUDA_ATTN_CUDA_H
#define LF_ATTENTION_CUDA_ATTN_CUDA_H

#include <stdbool.h>
#include <stddef.h>

#include "attention/cuda/attn_stripe.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    LF_ATTN_CUDA_HEAD_DIM = 512,   /* at most */
    LF_ATTN_EXPAND_HEAD_DIM = 256, /* at most, of FP8 heads that are expanded for prefill */
    LF_ATTN_FP8_UNIT = 16,         /* codes that are read at once: head_dim is a multiple */
    LF_ATTN_PREFILL_ROWS = 128,    /* query rows of a prefill tile: 128 / G · G are used */
    LF_ATTN_PREFILL_NEAR = 32768,
    LF_ATTN_PREFILL_SPLIT_NEAR = 8192,
    LF_ATTN_PREFILL_SPLIT_MAX = 16384,
    LF_ATTN_PREFILL_SPLIT_STEP = 1024,
    LF_ATTN_PREFILL_SPLITS = 8,
    LF_ATTN_SCRATCH_HEAD = 256, /* bytes at the head of `scratch` that are 0 before the first launch */
    LF_ATTN_DECODE_ROWS = 64,   /* query rows of a decode tile */
    LF_ATTN_DECODE_SPLIT_MIN = 128,
    LF_ATTN_DECODE_SPLIT_MAX = 512,
    LF_ATTN_DECODE_SPLIT_SHARE = 8,
    LF_ATTN_DECODE_GROUP = 8 /* splits of a group */
};

/* One sequence of the step. */
struct lf_attn_cuda_seq {
    int32_t table;       /* where its table begins in tables[]: less than 0 where what is before a window is left out */
    int32_t first_token; /* of its new ones among the step's */
    int32_t n_tokens;    /* new tokens */
    int32_t kv_len;      /* tokens, the new ones included */
};

/* A tile of packed query rows of one KV head over keys key_lo .. key_hi - 1; key_lo is a split's start (with a window:
 * the first split that the tile's first row sees), key_hi a split's end or the first key that no row of the tile sees.
 * Causality and the window are the kernel's to mask. */
struct lf_attn_cuda_task {
    int32_t seq_idx, kv_head;
    int32_t row, n_rows; /* query rows row .. row + n_rows - 1 of the sequence; row is a multiple of G in prefill */
    int32_t key_lo, key_hi;
    int32_t slot; /* -1: writes the rows' output; else the keys are one part, and partial rows slot .. slot + n_rows - 1
                     are written. A part is a split; or, in decode, a group of them; or, in prefill, a tile's first
                     splits */
    int32_t split; /* prefill: length of its splits */
};

/* The parts of a tile: part s of row i is partial row slot + s · n_rows + i. The first n_first parts are the
 * first group, every n_group behind them the next, the last of fewer. A tile without keys, of a stripe, has none. */
struct lf_attn_cuda_combine {
    int32_t seq_idx, kv_head;
    int32_t row, n_rows;
    int32_t slot, n_parts;
    int32_t n_first, n_group; /* n_group is LF_ATTN_DECODE_GROUP, or 1 where parts are not to be grouped */
};

struct lf_attn_cuda_counts { /* device memory */
    int32_t n_prefill, n_decode, n_combine, n_seqs;
    int32_t combine_rows; /* most n_rows of the combine list's entries for decode */
};

/* One layer's call. All pointers are device addresses; tensors are bf16 or fp16 (`fp16`) with float accumulation. */
struct lf_attn_cuda_args {
    void *out;     /* [n_tokens, n_heads, head_dim] */
    const void *q; /* [n_tokens, n_heads, head_dim], n_tokens is the capacity of the tensor, not the step's count */
    float *lse;    /* [n_tokens, n_heads] natural log of the denominator, or NULL */
    const float *sinks; /* [n_heads] or NULL: e^sink joins the denominator, in the final write only */
    const void *kv;     /* block 0 */
    int64_t n_blocks;
    int32_t block_pages, layer; /* from a block to the next, in pages; the layer in its block */
    int32_t n_tokens, n_heads, n_kv_heads, head_dim;
    bool fp16;
    float scale, softcap; /* softcap 0: none */
    int32_t window;       /* 0: none */
    const struct lf_attn_cuda_counts *counts;
    const struct lf_attn_cuda_seq *seqs;
    const int32_t *tables;                            /* of the layer's cache group */
    const struct lf_attn_cuda_task *prefill, *decode; /* in the order of attn_map.h */
    const struct lf_attn_cuda_combine *combine;
    float *partial_o;                             /* [partial rows, head_dim] */
    float *partial_ml;                            /* [partial rows, 2]: m, l */
    float *scratch;                               /* as many bytes as the kernels' `_scratch_bytes` say */
    int32_t max_prefill, max_decode, max_combine; /* the counts, or guesses: for the size of the grid */
    int32_t decode_rows, all_combine_rows; /* most of a decode task, and of all entries of combine: a matter of speed */
    int32_t n_sms;
    bool overlaps; /* lf_cuda_overlaps of device/cuda/cuda.h */
    /* Prefill tiles of several parts, like combine; the host knows how many. */
    const struct lf_attn_cuda_combine *combine_prefill;
    int32_t n_combine_prefill;
    int32_t fp8_page_bytes;            /* of a page of FP8 (kv_fp8.cuh); 0: pages are in the type of q */
    int32_t stripe_idx, stripe_n;      /* which tokens the pages have; stripe_n at most 1: all */
    struct lf_attn_cuda_owners owners; /* of a stripe; n 0: out and lse are all rows' */
};

/* Launchers. Each puts its kernel into the stream (a cudaStream_t) and returns a cudaError_t, 0 for success; none
 * allocates, synchronizes or reads device memory, so all can be captured. `_supports` says which head_dim a launcher
 * takes; `_setup` is called once per process and device before the first launch, outside of any capture (function
 * attributes, driver entry points), or for stripes `_stripe_setup`: of these activations are bf16. */
bool lf_attn_prefill_sm90_supports(int head_dim);
int lf_attn_prefill_sm90_setup(void);
int lf_attn_prefill_sm90_stripe_setup(void);
int lf_attn_prefill_sm90(const struct lf_attn_cuda_args *args, void *stream);
/* In it a CTA keeps the combined result of the splits (decode: groups) it has done while it computes the next. */
size_t lf_attn_prefill_sm90_scratch_bytes(int head_dim, int n_sms);

bool lf_attn_prefill_mma_supports(int head_dim); /* portable: sm_80 and later */
int lf_attn_prefill_mma_setup(void);
int lf_attn_prefill_mma_stripe_setup(void);
int lf_attn_prefill_mma(const struct lf_attn_cuda_args *args, void *stream);
size_t lf_attn_prefill_mma_scratch_bytes(int head_dim, int n_sms); /* of its own `scratch` */

bool lf_attn_decode_mma_supports(int head_dim); /* portable: sm_80 and later */
int lf_attn_decode_mma_setup(void);
int lf_attn_decode_mma(const struct lf_attn_cuda_args *args, void *stream);
size_t lf_attn_decode_mma_scratch_bytes(int head_dim, int n_sms); /* of its own `scratch` */

/* attn_decode_fp8.cu, attn_decode_stripe.cu: FP8 caches; a stripe of contexts, of either cache. The same scratch. */
int lf_attn_decode_fp8_setup(void);
int lf_attn_decode_fp8(const struct lf_attn_cuda_args *args, void *stream);
int lf_attn_decode_stripe_setup(bool fp8);
int lf_attn_decode_stripe(const struct lf_attn_cuda_args *args, void *stream);

/* attn_wide.cu: both kinds, for heads that the others have no room for. Portable: sm_80 and later. */
bool lf_attn_wide_supports(int head_dim);
int lf_attn_wide_setup(void);
int lf_attn_wide_stripe_setup(void);
int lf_attn_prefill_wide(const struct lf_attn_cuda_args *args, void *stream);
int lf_attn_decode_wide(const struct lf_attn_cuda_args *args, void *stream);
size_t lf_attn_wide_scratch_bytes(int head_dim, int n_sms); /* of its own `scratch` */

/* attn_expand.cu: FP8 pages as bf16 ones, of one layer. */
struct lf_attn_expand_args {
    void *out;             /* [n_pages, 2, n_kv_heads, 64, head_dim] bf16: blocks of a cache of one layer */
    const void *kv;        /* block 0 */
    const int32_t *tables; /* [n_pages]: blocks */
    int32_t n_pages;       /* of a head's K, or V */
    int32_t block_pages, layer, n_kv_heads, head_dim, fp8_page_bytes;
    bool fp16, overlaps; /* as above; fp16 is false */
};
int lf_attn_expand_setup(void);
int lf_attn_expand(const struct lf_attn_expand_args *args, void *stream);

/* Combines the partial rows of each entry of the combine list in ascending order and writes output and lse. */
int lf_attn_combine_decode_setup(void);
int lf_attn_combine_decode(const struct lf_attn_cuda_args *args, void *stream);
/* The same for combine_prefill. */
int lf_attn_combine_prefill_setup(void);
int lf_attn_combine_prefill(const struct lf_attn_cuda_args *args, void *stream);

#ifdef __cplusplus
}
#endif

#endif
