/* One task of an attention step: a block of query rows of one KV head over a range of splits. Inside attention/ only.
 */
#ifndef LF_ATTENTION_ATTN_TASK_H
#define LF_ATTENTION_ATTN_TASK_H

#include "attention/attention.h"
#include "attention/cpu/attn_kernel.h"

/* Query rows of one sequence: row r is query head (r mod group) of the KV head, of token r / group. */
struct lf_attn_rows {
    const struct lf_kv_seq *seq;
    int kv_head;
    int first, n; /* rows first .. first + n - 1, n <= LF_ATTN_ROWS */
};

/* Keys lo <= j < hi of a sequence, counted among those that the cache has of it. */
struct lf_attn_keys {
    int lo, hi;
};

/* Those that the token at a position sees; none where lo == hi. Neither bound falls as positions grow. */
static inline struct lf_attn_keys lf_attn_keys(struct lf_kv_stripe stripe, int pos, int window)
{
    int first = window > 0 && pos >= window ? pos - window + 1 : 0;
    return (struct lf_attn_keys){lf_kv_stripe_tokens(stripe, first), lf_kv_stripe_tokens(stripe, pos + 1)};
}

/* Bytes of a worker's scratch, a multiple of 64, and of one split's partial result for n rows. */
size_t lf_attn_scratch_bytes(int head_dim, enum lf_dtype kv_dtype);
size_t lf_attn_partial_floats(int n_rows, int head_dim);

/* Combines splits split_lo .. split_hi - 1 and writes the rows' output. */
void lf_attn_task_whole(const struct lf_attn_kernel *kernel, const struct lf_attn_params *p, int n_heads,
                        const struct lf_attn_rows *rows, int split_lo, int split_hi, void *scratch);
/* Writes each split's partial result: that of split s at partials + (s - split_lo) · lf_attn_partial_floats. */
void lf_attn_task_partial(const struct lf_attn_kernel *kernel, const struct lf_attn_params *p, int n_heads,
                          const struct lf_attn_rows *rows, int split_lo, int split_hi, float *partials, void *scratch);
/* Combines n_splits partial results in ascending order and writes the rows' output. */
void lf_attn_task_combine(const struct lf_attn_kernel *kernel, const struct lf_attn_params *p, int n_heads,
                          const struct lf_attn_rows *rows, int n_splits, float *partials, void *scratch);

#endif
