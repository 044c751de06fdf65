/* What one instruction set contributes to attention on a CPU: a handful of functions over a block of query rows.
 *
 * Inside attention/ only. attn_task.c walks a block's keys, split by split and tile by tile, and calls these; they hold
 * all of the arithmetic. A tile is LF_ATTN_TILE keys at a multiple of LF_ATTN_TILE, a split LF_ATTN_SPLIT keys at a
 * multiple of LF_ATTN_SPLIT.
 *
 * What each implementation keeps, so that a row's bits depend on its position and its keys only:
 *   - a score is one accumulator over the channels in ascending order (pairs of channels where the instruction takes
 *     pairs), however many rows and keys are computed beside it;
 *   - an output channel is one accumulator over the tile's keys in ascending order (or pairs of keys);
 *   - the sum of a row's probabilities runs lane by lane over the tile's keys, and lanes are added in one order;
 *   - a key the row may not see changes nothing: its P is selected to +0 and adding 0·v leaves the accumulator as
 *     it was. (A zero may change its sign; the last step of attn_task.c adds +0, and no sign of zero is left to
 * differ.)
 *   - a slot at or past a group's last visible key is never multiplied: loops end there, and the odd half of a pair is
 *     masked out. */
#ifndef LF_ATTENTION_CPU_ATTN_KERNEL_H
#define LF_ATTENTION_CPU_ATTN_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attention/cpu/attn_expand.h"
#include "core/dtype.h"
#include "core/limits.h"

enum {
    LF_ATTN_ROWS = 48,  /* query rows of a block at most; a multiple of 16 and of LF_ATTN_GROUP */
    LF_ATTN_GROUP = 6,  /* query rows whose accumulators fill the registers of AVX2 and of AVX-512 */
    LF_ATTN_TILE = 128, /* keys */
    LF_ATTN_TILE_PAGES = LF_ATTN_TILE / LF_KV_BLOCK_TOKENS,
    LF_ATTN_Q_STRIDE = LF_HEAD_DIM + 16, /* floats from one packed query row to the next; not a power of two */
    LF_ATTN_LANES = 16                   /* partial sums of P a row may keep */
};

/* Floats from one row of outputs to the next: whole vectors of every width. What is behind head_dim is anybody's. */
static inline size_t lf_attn_o_stride(int head_dim)
{
    return (size_t)(head_dim + 15) / 16 * 16;
}

/* A block of query rows of one KV head. Every array is aligned to 64 bytes. */
struct lf_attn_block {
    int head_dim;
    size_t o_stride;        /* lf_attn_o_stride(head_dim) */
    enum lf_dtype kv_dtype; /* of the pages that kernels see: LF_BF16 where the cache is fp8 */
    bool is_fp8;            /* of the cache */
    int n_rows;             /* 1..LF_ATTN_ROWS */
    float softcap;          /* 0: none */
    float softcap_arg;      /* scale / softcap */
    float log2_scale;       /* P = exp2(log2_scale · score − maximum) */
    float *q;               /* [LF_ATTN_ROWS][LF_ATTN_Q_STRIDE] as the implementation's pack_q left it */
    float *s;               /* [LF_ATTN_ROWS][LF_ATTN_TILE] scores, then P */
    float *lanes;           /* [LF_ATTN_ROWS][LF_ATTN_LANES] sums of the split's P, lane by lane */
    float *alpha;           /* [LF_ATTN_ROWS] factors of a rescaling */
    float *beta;            /* [LF_ATTN_ROWS] */
    float *page;            /* [LF_KV_BLOCK_TOKENS][head_dim] for an implementation's own use */
    /* pages of fp8 expanded, [64 · head_dim] each: one of K, those of a tile of V */
    float *k_page, *v_pages[LF_ATTN_TILE_PAGES];
    /* the split being computed: maximum in log2 units, Σ P, Σ P · v */
    float *m, *l, *o;             /* [LF_ATTN_ROWS], [LF_ATTN_ROWS], [n_rows][o_stride] */
    float *acc_m, *acc_l, *acc_o; /* the splits before it, combined */
};

/* One tile as a block sees it. Pages no row sees may be NULL. */
struct lf_attn_tile {
    const void *k[LF_ATTN_TILE_PAGES], *v[LF_ATTN_TILE_PAGES];
    /* Pages that come next in their place, to be fetched into the second-level cache meanwhile; NULL where none does.
     */
    const void *k_ahead[LF_ATTN_TILE_PAGES], *v_ahead[LF_ATTN_TILE_PAGES];
    bool full; /* every row sees every key */
    /* keys lo <= j < hi of the tile are visible to a row; lo >= hi: none */
    int16_t lo[LF_ATTN_ROWS], hi[LF_ATTN_ROWS];
};

/* Rows of a group: row0 .. row0 + n - 1, n <= group. Keys of a group: lo <= j < hi of the tile, what its rows see
 * together. */
struct lf_attn_kernel {
    const char *name;
    int group; /* rows computed together; LF_ATTN_ROWS is a multiple of it */
    /* Takes query row row_idx, [head_dim] floats, into b->q. */
    void (*pack_q)(struct lf_attn_block *b, int row_idx, const float *q);
    /* b->s[row][first + j] = q · k[j] for at least the keys lo <= j < hi of a page's 64, those of unused slots with
     * whatever they hold; what it leaves out keeps what was there. ahead: a page to fetch meanwhile, or NULL. */
    void (*scores)(struct lf_attn_block *b, int row0, int n, const void *page, const void *ahead, int first, int lo,
                   int hi);
    /* b->m moves on to the maximum with this tile's scores; b->alpha = exp2(b->m before − after). Applies softcap. */
    void (*next_max)(struct lf_attn_block *b, const struct lf_attn_tile *t);
    /* Scores to P, 0 for keys a row does not see; b->lanes = b->lanes · alpha + P. */
    void (*softmax)(struct lf_attn_block *b, const struct lf_attn_tile *t, int row0, int n, int lo, int hi);
    /* b->o = b->o · alpha + P · V. fetch: the pages ahead are to be fetched meanwhile. */
    void (*output)(struct lf_attn_block *b, const struct lf_attn_tile *t, int row0, int n, int lo, int hi, bool fetch);
    /* Ends a split: b->l from b->lanes. */
    void (*close)(struct lf_attn_block *b);
    /* Combines acc with the split in b->m, b->l, b->o. A split without a visible key changes nothing. */
    void (*combine)(struct lf_attn_block *b);
    lf_attn_expand_fn *expand;
    /* Called by the thread before and after a task; NULL where there is nothing to set up. */
    void (*begin)(const struct lf_attn_block *b);
    void (*end)(void);
};

extern const struct lf_attn_kernel lf_attn_kernel_c;
#if defined(__x86_64__)
extern const struct lf_attn_kernel lf_attn_kernel_avx2;
extern const struct lf_attn_kernel lf_attn_kernel_avx512;
extern const struct lf_attn_kernel lf_attn_kernel_avx512bf16;
extern const struct lf_attn_kernel lf_attn_kernel_amx;
#endif

#endif
