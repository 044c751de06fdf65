/* See attn_map.h. */
#include "attention/attn_map.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/limits.h"
#include "core/sort.h"

/* Span tasks of prompt tiles that have a place for their partial rows, and tasks below which splitting pays, each per
 * multiprocessor. */
enum { SPLIT_TASKS = 4, WHOLE_TASKS = 2 };

static int div_up(int a, int b)
{
    return a / b + (a % b != 0);
}

int lf_attn_span_begin(bool generated, int key)
{
    if (!generated) return key - key % LF_ATTN_PREFILL_SPAN;
    return key - key % (key < LF_ATTN_DECODE_KNEE ? LF_ATTN_DECODE_SHORT : LF_ATTN_DECODE_LONG);
}

int lf_attn_span_end(bool generated, int key)
{
    int begin = lf_attn_span_begin(generated, key);
    if (!generated) return begin + LF_ATTN_PREFILL_SPAN;
    return begin + (key < LF_ATTN_DECODE_KNEE ? LF_ATTN_DECODE_SHORT : LF_ATTN_DECODE_LONG);
}

/* Packed rows of a prefill tile: whole tokens. */
static int prefill_rows(int group)
{
    return LF_ATTN_PREFILL_ROWS / group * group;
}

void lf_attn_map_caps(struct lf_attn_map_caps *out, const struct lf_attn_shape *shape, int n_sms)
{
    int group = shape->n_heads / shape->n_kv_heads;
    int prefill_tiles = shape->max_rows / (prefill_rows(group) / group) + shape->max_seqs;
    int decode_tiles = (int)(((int64_t)shape->max_rows * group) / LF_ATTN_DECODE_ROWS) + shape->max_seqs;
    int split = SPLIT_TASKS * n_sms;
    *out = (struct lf_attn_map_caps){
        .n_seqs = shape->max_seqs,
        .n_tables = shape->max_seqs * div_up(shape->max_kv_len, LF_KV_BLOCK_TOKENS),
        .n_prefill = prefill_tiles * shape->n_kv_heads + split,
        .n_partial_rows = split * LF_ATTN_PREFILL_ROWS,
    };
    out->n_decode = decode_tiles * shape->n_kv_heads + out->n_partial_rows;
    out->n_merge = decode_tiles * shape->n_kv_heads + split;
}

enum lf_status lf_attn_map_init(struct lf_attn_map *map, const struct lf_attn_shape *shape, int n_sms,
                                struct lf_err *err)
{
    memset(map, 0, sizeof *map);
    lf_attn_map_caps(&map->caps, shape, n_sms);
    const struct lf_attn_map_caps *caps = &map->caps;
    map->n_heads = shape->n_heads;
    map->n_kv_heads = shape->n_kv_heads;
    map->n_sms = n_sms;
    map->n_tiles_max = LF_MAX(caps->n_prefill, caps->n_decode) / shape->n_kv_heads;
    map->seqs = calloc((size_t)caps->n_seqs, sizeof *map->seqs);
    map->tables = calloc((size_t)caps->n_tables, sizeof *map->tables);
    map->prefill = calloc((size_t)caps->n_prefill, sizeof *map->prefill);
    map->decode = calloc((size_t)caps->n_decode, sizeof *map->decode);
    map->merge = calloc((size_t)caps->n_merge, sizeof *map->merge);
    map->tiles = calloc((size_t)map->n_tiles_max, sizeof *map->tiles);
    if (map->seqs && map->tables && map->prefill && map->decode && map->merge && map->tiles) return LF_OK;
    lf_attn_map_deinit(map);
    return lf_fail(err, LF_NO_MEMORY, "no memory for attention's task lists");
}

void lf_attn_map_deinit(struct lf_attn_map *map)
{
    free(map->seqs);
    free(map->tables);
    free(map->prefill);
    free(map->decode);
    free(map->merge);
    free(map->tiles);
    memset(map, 0, sizeof *map);
}

/* ---- building ---- */

static void add_seq(struct lf_attn_map *map, const struct lf_kv_seq *seq, int i)
{
    int n_blocks = div_up(seq->kv_len, LF_KV_BLOCK_TOKENS);
    LF_ASSERT(map->n_tables + n_blocks <= map->caps.n_tables);
    map->seqs[i] = (struct lf_attn_cuda_seq){
        .table = map->n_tables, .first_row = seq->first_row, .n_rows = seq->n_rows, .kv_len = seq->kv_len};
    memcpy(map->tables + map->n_tables, seq->blocks, (size_t)n_blocks * sizeof *map->tables);
    map->n_tables += n_blocks;
}

/* Cuts the rows of one kind into tiles; returns how many. */
static int cut_tiles(struct lf_attn_map *map, const struct lf_kv_seq *seqs, int n_seqs, int window, bool generated)
{
    int group = map->n_heads / map->n_kv_heads, n = 0;
    int tile_rows = generated ? LF_ATTN_DECODE_ROWS : prefill_rows(group);
    for (int i = 0; i < n_seqs; i++) {
        if (seqs[i].generated != generated) continue;
        int n_rows = seqs[i].n_rows * group, pos0 = seqs[i].kv_len - seqs[i].n_rows;
        for (int row = 0; row < n_rows; row += tile_rows) {
            LF_ASSERT(n < map->n_tiles_max);
            struct lf_attn_tile_rec *t = &map->tiles[n++];
            t->seq_idx = i;
            t->row = row;
            t->n_rows = LF_MIN(tile_rows, n_rows - row);
            int first = pos0 + row / group, last = pos0 + (row + t->n_rows - 1) / group;
            int lo = window > 0 && first >= window ? first - window + 1 : 0;
            t->key_lo = lf_attn_span_begin(generated, lo);
            t->key_hi = last + 1;
        }
    }
    return n;
}

static int n_keys(const void *tile)
{
    const struct lf_attn_tile_rec *t = tile;
    return t->key_hi - t->key_lo;
}

/* Longest first; among equals the earlier row, so that the order is one and the same everywhere. */
static bool comes_before(const void *a, const void *b)
{
    const struct lf_attn_tile_rec *x = a, *y = b;
    if (n_keys(x) != n_keys(y)) return n_keys(x) > n_keys(y);
    return x->seq_idx != y->seq_idx ? x->seq_idx < y->seq_idx : x->row < y->row;
}

static int n_spans_of(const struct lf_attn_tile_rec *t, bool generated)
{
    int n = 0;
    for (int key = t->key_lo; key < t->key_hi; key = lf_attn_span_end(generated, key)) n++;
    return n;
}

struct list {
    struct lf_attn_cuda_task *tasks;
    int32_t *n;
    int cap;
};

static void add_task(const struct list *list, const struct lf_attn_cuda_task *task)
{
    LF_ASSERT(*list->n < list->cap);
    list->tasks[(*list->n)++] = *task;
}

/* One task a span, and one that folds them. */
static void add_split(struct lf_attn_map *map, const struct list *list, const struct lf_attn_tile_rec *t, int head,
                      bool generated, int *partial_rows)
{
    const struct list merges = {map->merge, &map->counts.n_merge, map->caps.n_merge};
    struct lf_attn_cuda_task task = {
        .seq_idx = t->seq_idx, .kv_head = head, .row = t->row, .n_rows = t->n_rows, .n_spans = 1};
    struct lf_attn_cuda_task merge = task;
    merge.key_lo = t->key_lo;
    merge.key_hi = t->key_hi;
    merge.slot = *partial_rows;
    merge.n_spans = 0;
    for (int key = t->key_lo; key < t->key_hi; key = task.key_hi) {
        task.key_lo = key;
        task.key_hi = LF_MIN(lf_attn_span_end(generated, key), t->key_hi);
        task.slot = *partial_rows;
        *partial_rows += t->n_rows;
        merge.n_spans++;
        add_task(list, &task);
    }
    add_task(&merges, &merge);
}

static void add_tiles(struct lf_attn_map *map, const struct list *list, int n_tiles, bool generated, bool split,
                      int *partial_rows)
{
    for (int head = 0; head < map->n_kv_heads; head++) {
        for (int i = 0; i < n_tiles; i++) {
            const struct lf_attn_tile_rec *t = &map->tiles[i];
            int n_spans = n_spans_of(t, generated);
            if (split && n_spans > 1 && *partial_rows + n_spans * t->n_rows <= map->caps.n_partial_rows) {
                add_split(map, list, t, head, generated, partial_rows);
                continue;
            }
            struct lf_attn_cuda_task whole = {.seq_idx = t->seq_idx,
                                              .kv_head = head,
                                              .row = t->row,
                                              .n_rows = t->n_rows,
                                              .key_lo = t->key_lo,
                                              .key_hi = t->key_hi,
                                              .slot = -1,
                                              .n_spans = 1};
            add_task(list, &whole);
        }
    }
}

void lf_attn_map_build(struct lf_attn_map *map, const struct lf_kv_seq *seqs, int n_seqs, int window)
{
    int partial_rows = 0;
    map->counts = (struct lf_attn_cuda_counts){.n_seqs = n_seqs};
    map->n_tables = 0;
    for (int i = 0; i < n_seqs; i++) add_seq(map, &seqs[i], i);

    const struct list decode = {map->decode, &map->counts.n_decode, map->caps.n_decode};
    int n = cut_tiles(map, seqs, n_seqs, window, true);
    lf_sort(map->tiles, (size_t)n, sizeof *map->tiles, comes_before);
    add_tiles(map, &decode, n, true, true, &partial_rows);

    const struct list prefill = {map->prefill, &map->counts.n_prefill, map->caps.n_prefill};
    n = cut_tiles(map, seqs, n_seqs, window, false);
    lf_sort(map->tiles, (size_t)n, sizeof *map->tiles, comes_before);
    bool split = (int64_t)n * map->n_kv_heads < (int64_t)WHOLE_TASKS * map->n_sms;
    add_tiles(map, &prefill, n, false, split, &partial_rows);
}
