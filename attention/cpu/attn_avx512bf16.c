/* Attention for AVX-512 BF16: bf16 pages are the B operand of VDPBF16PS as they lie.
 *
 * The instruction multiplies pairs of bf16 and adds both results to a float: twice the arithmetic of an FMA. Queries
 * are rounded to bf16 once, P after the sum of the unrounded values has been taken; sums are float. The softmax costs
 * about a fifth beside the products at 64 channels, so its exp2 is one degree shorter: its error vanishes in the
 * rounding to bf16. */
#include "attention/cpu/attn_bf16.h"
#include "attention/cpu/attn_rows.h"
#include "attention/cpu/attn_scores.h"

static void scores(struct lf_attn_block *b, int row0, int n, const void *page, const void *ahead, int first, int lo,
                   int hi)
{
    const float *q = b->q + (size_t)row0 * LF_ATTN_Q_STRIDE;
    float *s = b->s + (size_t)row0 * LF_ATTN_TILE + first;
    LF_ROWS_SWITCH(scores_page, n, PAGES_BF16_DOT, q, page, ahead, b->head_dim, s, lo, hi)
}

static void output_pairs(int n, int n_vecs, const struct output_args *a)
{
    LF_ROWS_SWITCH(output_vecs, n, n_vecs, PAGES_BF16_DOT, a)
}

static void output(struct lf_attn_block *b, const struct lf_attn_tile *t, int row0, int n, int lo, int hi, bool fetch)
{
    output_rows(b, t, row0, n, lo, hi, fetch, output_pairs);
}

const struct lf_attn_kernel lf_attn_kernel_avx512bf16 = {.name = "avx512-bf16",
                                                         .group = LF_ATTN_GROUP,
                                                         .pack_q = pack_queries,
                                                         .scores = scores,
                                                         .next_max = next_max,
                                                         .softmax = softmax_pairs,
                                                         .output = output,
                                                         .close = close_split,
                                                         .combine = combine_split,
                                                         .expand = lf_attn_expand_avx2};
