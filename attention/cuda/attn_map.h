/* The task lists of a step for the CUDA kernels: plain host arithmetic, tested without a GPU. Inside attention/ only.
 *
 * Prefill tokens become tiles of LF_ATTN_PREFILL_ROWS packed query rows, decode tokens tiles of LF_ATTN_DECODE_ROWS. A
 * tile is one task that walks all its keys, or one task a part (a split, in decode also a group of splits, in prefill
 * also a tile's first few) whose partial rows the combine kernels combine: the same bits either way (attn_cuda.h), so
 * what is cut into parts is a question of speed alone. A tile is cut where multiprocessors would idle otherwise, as
 * long as there is room for partial rows. Of a decode tile the parts are groups where one is about a multiprocessor's
 * share of the step or less; of a prefill tile the first part is about that share, so that few partial rows do, and
 * others are splits.
 *
 * Waves. Where prefill reads expanded pages (attn_cuda.h, FP8), its tiles come wave by wave: neighbouring sequences
 * with prefill tokens whose pages there is room for at the same time. There is for those of any one sequence. Else all
 * are one wave.
 *
 * Order. In a wave prefill tiles go head by head, the longest first: CTAs that run at the same time then read the same
 * keys, which stay in the L2 cache; of those in parts the long first ones come first, and the last splits, which are
 * cut short, when all others have been taken, and fill the gaps at the end. Parts of decode tiles go from the last,
 * which are the longest, to the first, all heads and tiles of a part side by side: the pages of a block's heads lie
 * side by side too, and tiles of the same keys meet in the L2 cache.
 *
 * Stripes. Where contexts are divided (kv_view.h) keys are those of the stripe, counted among themselves
 * (attn_stripe.h): tables, tiles' ends, splits and parts are of these. A tile that has none of them is no task: it is
 * in the lists of what is combined, with 0 parts, and so its rows are written. */
#ifndef LF_ATTENTION_CUDA_ATTN_MAP_H
#define LF_ATTENTION_CUDA_ATTN_MAP_H

#include "attention/attention.h"
#include "attention/cuda/attn_cuda.h"

/* Room for everything a step can need; a function of the shape and the number of multiprocessors. */
struct lf_attn_map_caps {
    int n_seqs, n_tables; /* block table entries of a cache group */
    int n_prefill, n_decode, n_combine;
    int n_partial_rows;
    int n_wave_pages; /* expanded ones, of a head's K; 0: none are, and a step is one wave */
};

/* A launch of the prefill kernel: so many tasks of its list from `task` on. They read what these entries of the block
 * tables name. */
struct lf_attn_wave {
    int32_t task, n_tasks;
    int32_t table, n_pages;
};

/* A tile before it becomes tasks. */
struct lf_attn_tile_rec {
    int32_t seq_idx, row, n_rows;
    int32_t key_lo, key_hi;
    int32_t n_parts, n_left, slot; /* of one in parts, see attn_map.c; else slot is -1 */
    int32_t split;                 /* length of a prefill tile's splits; decode: 0 */
    int32_t first_end;             /* of the first part, where that has several of them */
    bool by_groups;                /* its parts are groups, not splits */
};

/* Host arrays of caps' sizes, owned. */
struct lf_attn_map {
    struct lf_attn_map_caps caps;
    int n_heads, n_kv_heads;
    struct lf_kv_stripe stripe;
    int n_sms;
    bool reads_codes; /* decode does */
    struct lf_attn_cuda_counts counts;
    int n_combine_prefill; /* of prefill tiles in parts or without keys, behind the counts.n_combine ones in combine */
    struct lf_attn_cuda_seq *seqs;
    int32_t *tables; /* of one cache group */
    int n_tables;
    struct lf_attn_cuda_task *prefill, *decode;
    struct lf_attn_cuda_combine *combine;
    struct lf_attn_wave *waves; /* as many as sequences at most */
    int n_waves;
    struct lf_attn_tile_rec *tiles; /* [n_tiles_max] scratch */
    int n_tiles_max;
};

/* Whether prefill reads expanded pages: of an FP8 cache, unless the kernels for wide heads do it. */
bool lf_attn_expands(const struct lf_attn_shape *shape);

/* shape: at most LF_ATTN_PREFILL_ROWS query heads share a KV head. */
void lf_attn_map_caps(struct lf_attn_map_caps *out, const struct lf_attn_shape *shape, int n_sms);
LF_MUST_CHECK enum lf_status lf_attn_map_init(struct lf_attn_map *map, const struct lf_attn_shape *shape, int n_sms,
                                              struct lf_err *err);
void lf_attn_map_deinit(struct lf_attn_map *map); /* accepts a zeroed one */
/* All but the tables. seqs as checked by lf_attn_schedule. With a window a sequence's table begins where the first
 * split does that a token of it sees. */
void lf_attn_map_build(struct lf_attn_map *map, const struct lf_kv_seq *seqs, int n_seqs, int window);
/* The tables of a cache group, of the seqs that the map was built of. */
void lf_attn_map_tables(struct lf_attn_map *map, const struct lf_kv_seq *seqs, int group);

/* Length of the splits of a prefill token's keys, in a stripe of so many; without, 0 or 1. */
int lf_attn_prefill_split(int position, int n_stripes);
/* The split that a key is in, of this length or (0) of decode tokens: its first key, and its end. */
int lf_attn_split_begin(int split, int key);
int lf_attn_split_end(int split, int key);
/* The same of the group of decode tokens' splits. */
int lf_attn_group_begin(int key);
int lf_attn_group_end(int key);

#endif
