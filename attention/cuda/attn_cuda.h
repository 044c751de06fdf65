/* What the host and the CUDA kernels of attention agree on. Inside attention/ only; read by C and by .cu files.
 *
 * A step is a few arrays in device memory, filled by attn_cuda.c before the step's first kernel and the same for all
 * layers: the sequences, their block tables one behind the other, and lists of tasks and of what is to be merged.
 * Kernels find out from memory how much there is to do, so a captured graph replays with other numbers; only
 * merge_prompt's length is the host's, for prompts are in no graph. The arrays change by copies alone, never by a
 * kernel: one that starts before its predecessor is complete may read them, and the tokens of earlier steps. In the
 * decode list these are all before kv_len - n_rows.
 *
 * Packed rows. Row r of a sequence and a KV head is query head kv_head · G + r mod G of the new token r / G, with
 * G = n_heads / n_kv_heads; its position is kv_len - n_rows + r / G.
 *
 * Spans. Keys are cut at fixed positions, whatever a sequence's length: prompt rows at multiples of
 * LF_ATTN_PREFILL_SPAN; for rows of generated tokens spans get longer with their position, so that short contexts have
 * many and long ones not too many: the greatest power of two that is at most 1 / LF_ATTN_DECODE_SPAN_SHARE of it,
 * between LF_ATTN_DECODE_SPAN_MIN and _MAX. These form groups: LF_ATTN_DECODE_GROUP spans of one length, at multiples
 * of their length together. A prompt row's result is the fold, in ascending order, of its spans' partial results; that
 * of a generated row the fold of its groups, each the fold of its spans. Whether one task walks all of them, or each
 * group or each span is a task, is the same: a row's bits depend on its position, its keys and its kind (prompt or
 * generated) and on nothing else.
 *
 * A partial row is: m, what its exponents refer to (of a generated row the maximum, of a prompt row some reference) in
 * log2(e) · scaled score; l = Σ 2^(s - m); o[head_dim] = Σ 2^(s - m) · v, all float. One that saw no key has m = -inf,
 * l = 0, o = 0. Joining a (left) with b: m = max(a.m, b.m), each side's l and o scaled by 2^(its m - m), fused as
 * fma(b, scale_b, a · scale_a); a side with l = 0 changes nothing.
 *
 * Pages hold [64 tokens][head_dim] elements, K and V alike (LF_KV_ROWS order, see kv_view.h). Slots at or past kv_len
 * may hold NaN: their scores are selected away and their V rows must be selected to zero before a product. */
#ifndef LF_ATTENTION_CUDA_ATTN_CUDA_H
#define LF_ATTENTION_CUDA_ATTN_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    LF_ATTN_PREFILL_ROWS = 128, /* packed rows of a prefill tile: 128 / G · G are used */
    LF_ATTN_PREFILL_SPAN = 16384,
    LF_ATTN_PREFILL_FOLD_HEAD = 256, /* bytes at the head of `fold` that are 0 before the first launch */
    LF_ATTN_DECODE_ROWS = 64,        /* packed rows of a decode tile */
    LF_ATTN_DECODE_SPAN_MIN = 128,
    LF_ATTN_DECODE_SPAN_MAX = 512,
    LF_ATTN_DECODE_SPAN_SHARE = 8,
    LF_ATTN_DECODE_GROUP = 8 /* spans of a group */
};

/* One sequence of the step. */
struct lf_attn_cuda_seq {
    int32_t table;     /* index of its first block in tables[] */
    int32_t first_row; /* of its new tokens among the step's rows */
    int32_t n_rows;    /* new tokens */
    int32_t kv_len;    /* keys, the new ones included */
};

/* A tile of packed rows of one KV head over keys key_lo .. key_hi - 1; key_lo is a span's start (with a window: the
 * first span that the tile's first row sees), key_hi a span's end or the first key that no row of the tile sees.
 * Causality and the window are the kernel's to mask. */
struct lf_attn_cuda_task {
    int32_t seq_idx, kv_head;
    int32_t row, n_rows; /* packed rows row .. row + n_rows - 1 of the sequence; row is a multiple of G in prefill */
    int32_t key_lo, key_hi;
    int32_t slot; /* -1: writes the rows' output; else the keys are one part, and partial rows slot .. slot + n_rows - 1
                     are written. A part is a span; or, of generated rows, a group of them */
    int32_t unused; /* records are 32 bytes */
};

/* The parts of a split tile: part s of row i is partial row slot + s · n_rows + i. The first n_first parts are the
 * first group, every n_group behind them the next, the last of fewer. */
struct lf_attn_cuda_merge {
    int32_t seq_idx, kv_head;
    int32_t row, n_rows;
    int32_t slot, n_parts;
    int32_t n_first, n_group; /* n_group is LF_ATTN_DECODE_GROUP, or 1 where parts are not to be grouped */
};

struct lf_attn_cuda_counts { /* device memory */
    int32_t n_prefill, n_decode, n_merge, n_seqs;
    int32_t merge_rows; /* most n_rows of the merge list's generated entries */
};

/* One layer's call. All pointers are device addresses; tensors are bf16 or fp16 (`fp16`) with float accumulation. */
struct lf_attn_cuda_args {
    void *out;     /* [n_tokens, n_heads, head_dim] */
    const void *q; /* [n_tokens, n_heads, head_dim], n_tokens is the capacity of the tensor, not the step's count */
    float *lse;    /* [n_tokens, n_heads] natural log, or NULL */
    const float *sinks; /* [n_heads] or NULL: e^sink joins the denominator, in the final write only */
    const void *kv;     /* block 0 */
    int64_t n_blocks;
    int32_t n_layers, layer;
    int32_t n_tokens, n_heads, n_kv_heads, head_dim;
    bool fp16;
    float scale, softcap; /* softcap 0: none */
    int32_t window;       /* 0: none */
    const struct lf_attn_cuda_counts *counts;
    const struct lf_attn_cuda_seq *seqs;
    const int32_t *tables;
    const struct lf_attn_cuda_task *prefill, *decode; /* in the order of attn_map.h */
    const struct lf_attn_cuda_merge *merge;
    float *partial_o;                           /* [partial rows, head_dim] */
    float *partial_ml;                          /* [partial rows, 2]: m, l */
    float *fold;                                /* scratch of as many bytes as the kernels' `_fold_bytes` say */
    int32_t max_prefill, max_decode, max_merge; /* the counts, or guesses: for the size of the grid */
    int32_t decode_rows;                        /* most rows of a decode task, or a guess: a matter of speed alone */
    int32_t n_sms;
    bool overlaps;                                 /* lf_cuda_overlaps of device/cuda/cuda.h */
    const struct lf_attn_cuda_merge *merge_prompt; /* split prompt tiles, like merge; the host knows how many */
    int32_t n_merge_prompt;
};

/* Launchers. Each puts its kernel into the stream (a cudaStream_t) and returns a cudaError_t, 0 for success; none
 * allocates, synchronizes or reads device memory, so all can be captured. `_supports` says which head_dim a launcher
 * takes; `_setup` is called once per process and device before the first launch, outside of any capture (function
 * attributes, driver entry points). */
bool lf_attn_prefill_sm90_supports(int head_dim);
int lf_attn_prefill_sm90_setup(void);
int lf_attn_prefill_sm90(const struct lf_attn_cuda_args *args, void *stream);
/* Scratch in which a CTA keeps the fold of the spans (decode: groups) it has done while it computes the next. */
size_t lf_attn_prefill_fold_bytes(int head_dim, int n_sms);

bool lf_attn_prefill_mma_supports(int head_dim); /* portable: sm_80 and later */
int lf_attn_prefill_mma_setup(void);
int lf_attn_prefill_mma(const struct lf_attn_cuda_args *args, void *stream);
size_t lf_attn_prefill_mma_fold_bytes(int head_dim, int n_sms); /* of its own `fold` */

bool lf_attn_decode_mma_supports(int head_dim); /* portable: sm_80 and later */
int lf_attn_decode_mma_setup(void);
int lf_attn_decode_mma(const struct lf_attn_cuda_args *args, void *stream);
size_t lf_attn_decode_mma_fold_bytes(int head_dim, int n_sms); /* of its own `fold` */

/* Folds the partial rows of each entry of the merge list in ascending order and writes output and lse. */
int lf_attn_merge_cuda_setup(void);
int lf_attn_merge_cuda(const struct lf_attn_cuda_args *args, void *stream);
/* The same for merge_prompt. */
int lf_attn_merge_prompt_setup(void);
int lf_attn_merge_prompt(const struct lf_attn_cuda_args *args, void *stream);

#ifdef __cplusplus
}
#endif

#endif
