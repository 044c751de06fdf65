/* See attn_map.h. */
#include "attention/cuda/attn_map.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/limits.h"
#include "core/sort.h"

/* Tasks of single splits of prefill tiles for whose partial rows there is room, and tasks below which parts pay, each
 * per multiprocessor; keys that take a multiprocessor about as long as writing and combining partial rows; of a
 * multiprocessor's share of the keys, the quarters that a group may have; groups of a share that even each other out.
 */
enum { SPLIT_TASKS = 8, WHOLE_TASKS = 2, COMBINE_KEYS = 128, GROUP_QUARTERS = 5, MANY_GROUPS = 8 };

static int div_up(int a, int b)
{
    return a / b + (a % b != 0);
}

int lf_attn_prefill_split(int position, int n_stripes)
{
    int key = position / LF_MAX(n_stripes, 1); /* about: a stripe has up to a page more */
    if (key < LF_ATTN_PREFILL_NEAR) return LF_ATTN_PREFILL_SPLIT_NEAR;
    int length = div_up(key + 1, LF_ATTN_PREFILL_SPLITS * LF_ATTN_PREFILL_SPLIT_STEP) * LF_ATTN_PREFILL_SPLIT_STEP;
    return LF_MIN(length, LF_ATTN_PREFILL_SPLIT_MAX);
}

/* Of the split that a key is in. */
static int split_length(int split, int key)
{
    if (split > 0) return split;
    int length = LF_ATTN_DECODE_SPLIT_MIN;
    while (length < LF_ATTN_DECODE_SPLIT_MAX && 2 * length <= key / LF_ATTN_DECODE_SPLIT_SHARE) length *= 2;
    return length;
}

/* Of a sequence's first n tokens, in the stripe that has the most of them: new tokens may be written into any one. */
static int most_pages(struct lf_kv_stripe stripe, int n)
{
    return div_up(n, lf_kv_block_tokens(stripe.n));
}

int lf_attn_split_begin(int split, int key)
{
    return key - key % split_length(split, key);
}

int lf_attn_split_end(int split, int key)
{
    return lf_attn_split_begin(split, key) + split_length(split, key);
}

int lf_attn_group_begin(int key)
{
    return key - key % (LF_ATTN_DECODE_GROUP * split_length(0, key));
}

int lf_attn_group_end(int key)
{
    return lf_attn_group_begin(key) + LF_ATTN_DECODE_GROUP * split_length(0, key);
}

bool lf_attn_expands(const struct lf_attn_shape *shape)
{
    return shape->kv_dtype == LF_E4M3 && shape->head_dim <= LF_ATTN_EXPAND_HEAD_DIM;
}

/* Query rows of a prefill tile: whole tokens. */
static int prefill_rows(int group)
{
    return LF_ATTN_PREFILL_ROWS / group * group;
}

/* Pages that a sequence's new tokens in prefill see, from the beginning of a split on (add_seq). */
static int wave_pages(const struct lf_attn_shape *shape)
{
    int64_t n = (int64_t)most_pages(shape->stripe, shape->max_kv_len) * LF_KV_BLOCK_TOKENS;
    int64_t seen = (int64_t)shape->max_window + shape->max_tokens;
    if (!lf_attn_expands(shape)) return 0;
    if (shape->stripe.n > 1) seen = seen / shape->stripe.n + 3 * LF_KV_BLOCK_TOKENS;
    seen += LF_ATTN_PREFILL_SPLIT_STEP;
    if (shape->max_window > 0) n = LF_MIN(n, seen);
    return LF_MAX(1, div_up((int)n, LF_KV_BLOCK_TOKENS));
}

void lf_attn_map_caps(struct lf_attn_map_caps *out, const struct lf_attn_shape *shape, int n_sms)
{
    int group = shape->n_heads / shape->n_kv_heads;
    int prefill_tiles = shape->max_tokens / (prefill_rows(group) / group) + 2 * shape->max_seqs +
                        shape->max_tokens / (LF_ATTN_PREFILL_SPLITS * LF_ATTN_PREFILL_SPLIT_STEP);
    int decode_tiles = (int)(((int64_t)shape->max_tokens * group) / LF_ATTN_DECODE_ROWS) + shape->max_seqs;
    int split_tasks = SPLIT_TASKS * n_sms;
    *out = (struct lf_attn_map_caps){
        .n_seqs = shape->max_seqs,
        .n_tables = shape->max_seqs * LF_MAX(1, most_pages(shape->stripe, shape->max_kv_len)),
        .n_prefill = prefill_tiles * shape->n_kv_heads + split_tasks,
        .n_partial_rows = split_tasks * LF_ATTN_PREFILL_ROWS,
        .n_wave_pages = wave_pages(shape),
    };
    out->n_decode = decode_tiles * shape->n_kv_heads + out->n_partial_rows;
    out->n_combine = decode_tiles * shape->n_kv_heads + split_tasks;
    if (shape->stripe.n > 1) out->n_combine += prefill_tiles * shape->n_kv_heads; /* those without keys */
}

enum lf_status lf_attn_map_init(struct lf_attn_map *map, const struct lf_attn_shape *shape, int n_sms,
                                struct lf_err *err)
{
    memset(map, 0, sizeof *map);
    lf_attn_map_caps(&map->caps, shape, n_sms);
    const struct lf_attn_map_caps *caps = &map->caps;
    map->n_heads = shape->n_heads;
    map->n_kv_heads = shape->n_kv_heads;
    map->stripe = shape->stripe;
    map->n_sms = n_sms;
    map->reads_codes = caps->n_wave_pages > 0;
    map->n_tiles_max = LF_MAX(caps->n_prefill, caps->n_decode) / shape->n_kv_heads;
    map->seqs = calloc((size_t)caps->n_seqs, sizeof *map->seqs);
    map->tables = calloc((size_t)caps->n_tables, sizeof *map->tables);
    map->prefill = calloc((size_t)caps->n_prefill, sizeof *map->prefill);
    map->decode = calloc((size_t)caps->n_decode, sizeof *map->decode);
    map->combine = calloc((size_t)caps->n_combine, sizeof *map->combine);
    map->waves = calloc((size_t)caps->n_seqs, sizeof *map->waves);
    map->tiles = calloc((size_t)map->n_tiles_max, sizeof *map->tiles);
    bool has_tasks = map->prefill && map->decode && map->combine && map->tiles;
    if (has_tasks && map->seqs && map->tables && map->waves) return LF_OK;
    lf_attn_map_deinit(map);
    return lf_fail(err, LF_NO_MEMORY, "no memory for attention's task lists");
}

void lf_attn_map_deinit(struct lf_attn_map *map)
{
    free(map->seqs);
    free(map->tables);
    free(map->prefill);
    free(map->decode);
    free(map->combine);
    free(map->waves);
    free(map->tiles);
    memset(map, 0, sizeof *map);
}

/* ---- building ---- */

/* The first key that position `first` sees, if there is one. */
static int first_key(const struct lf_attn_map *map, int first, int window)
{
    return lf_kv_stripe_tokens(map->stripe, window > 0 && first >= window ? first - window + 1 : 0);
}

static void add_seq(struct lf_attn_map *map, const struct lf_kv_seq *seq, int i, int window)
{
    int first_new = seq->kv_len - seq->n_tokens, lowest = first_key(map, first_new, window);
    lowest =
        lf_attn_split_begin(seq->is_decode ? 0 : LF_ATTN_PREFILL_SPLIT_STEP, lowest); /* nothing before it is read */
    int first_block = LF_MIN(lowest / LF_KV_BLOCK_TOKENS, first_new / lf_kv_block_tokens(map->stripe.n));
    int n_blocks = most_pages(map->stripe, seq->kv_len) - first_block;
    LF_ASSERT(map->n_tables + n_blocks <= map->caps.n_tables);
    map->seqs[i] = (struct lf_attn_cuda_seq){.table = map->n_tables - first_block,
                                             .first_token = seq->first_token,
                                             .n_tokens = seq->n_tokens,
                                             .kv_len = seq->kv_len};
    map->n_tables += n_blocks;
}

void lf_attn_map_tables(struct lf_attn_map *map, const struct lf_kv_seq *seqs, int group)
{
    int at = 0;
    for (int i = 0; i < map->counts.n_seqs; i++) {
        const int32_t *table = seqs[i].blocks + (size_t)group * (size_t)seqs[i].table_stride;
        int first_block = at - map->seqs[i].table, end = most_pages(map->stripe, seqs[i].kv_len);
        memcpy(map->tables + at, table + first_block, (size_t)(end - first_block) * sizeof *map->tables);
        at += end - first_block;
    }
    LF_ASSERT(at == map->n_tables);
}

/* Tokens from this position on, before `end`, whose splits are as long. */
static int same_split_length(int position, int end, int n_stripes)
{
    int length = lf_attn_prefill_split(position, n_stripes), n = LF_MAX(n_stripes, 1);
    if (position / n < LF_ATTN_PREFILL_NEAR) return LF_MIN(end, n * LF_ATTN_PREFILL_NEAR) - position;
    if (length == LF_ATTN_PREFILL_SPLIT_MAX) return end - position;
    return LF_MIN(end, n * LF_ATTN_PREFILL_SPLITS * length) - position;
}

/* The tile that begins with this row of a sequence. Returns whether it has keys. */
static bool tile_init(const struct lf_attn_map *map, struct lf_attn_tile_rec *t, const struct lf_kv_seq *seq,
                      int seq_idx, int row, int window)
{
    int group = map->n_heads / map->n_kv_heads, n_rows = seq->n_tokens * group, pos0 = seq->kv_len - seq->n_tokens;
    int first = pos0 + row / group, key = first_key(map, first, window), n_stripes = map->stripe.n;
    t->by_groups = false;
    t->seq_idx = seq_idx;
    t->row = row;
    t->n_rows = LF_MIN(seq->is_decode ? LF_ATTN_DECODE_ROWS : prefill_rows(group), n_rows - row);
    if (!seq->is_decode) t->n_rows = LF_MIN(t->n_rows, same_split_length(first, seq->kv_len, n_stripes) * group);
    t->split = seq->is_decode ? 0 : lf_attn_prefill_split(first, n_stripes);
    t->key_lo = lf_attn_split_begin(t->split, key);
    t->key_hi = lf_kv_stripe_tokens(map->stripe, pos0 + (row + t->n_rows - 1) / group + 1);
    t->first_end = t->key_lo;
    return key < t->key_hi;
}

/* Lists a tile for the combine kernel, in all heads. how: its first head's slot, its parts. */
static void add_combines(struct lf_attn_map *map, const struct lf_attn_tile_rec *t, bool decode,
                         struct lf_attn_cuda_combine how)
{
    struct lf_attn_cuda_combine *entries = decode ? map->combine : map->combine + map->counts.n_combine;
    int *n_entries = decode ? &map->counts.n_combine : &map->n_combine_prefill;
    if (decode) map->counts.combine_rows = LF_MAX(map->counts.combine_rows, t->n_rows);
    how.seq_idx = t->seq_idx;
    how.row = t->row;
    how.n_rows = t->n_rows;
    for (how.kv_head = 0; how.kv_head < map->n_kv_heads; how.kv_head++, how.slot += how.n_parts * how.n_rows) {
        LF_ASSERT(map->counts.n_combine + map->n_combine_prefill < map->caps.n_combine);
        entries[(*n_entries)++] = how;
    }
}

/* Cuts the query rows of one kind, prefill or decode, of sequences first_seq .. end_seq - 1 into tiles; returns how
 * many have keys. */
static int cut_tiles(struct lf_attn_map *map, const struct lf_kv_seq *seqs, int first_seq, int end_seq, int window,
                     bool decode)
{
    int group = map->n_heads / map->n_kv_heads, n = 0;
    for (int i = first_seq; i < end_seq; i++) {
        if (seqs[i].is_decode != decode) continue;
        struct lf_attn_tile_rec t;
        for (int row = 0; row < seqs[i].n_tokens * group; row += t.n_rows) {
            if (!tile_init(map, &t, &seqs[i], i, row, window)) continue;
            LF_ASSERT(n < map->n_tiles_max);
            map->tiles[n++] = t;
        }
    }
    return n;
}

/* Lists the tiles of one kind that have no keys for the combine kernel. */
static void add_keyless_tiles(struct lf_attn_map *map, const struct lf_kv_seq *seqs, int n_seqs, int window,
                              bool decode)
{
    int group = map->n_heads / map->n_kv_heads;
    for (int i = 0; i < n_seqs && map->stripe.n > 1; i++) {
        if (seqs[i].is_decode != decode) continue;
        struct lf_attn_tile_rec t;
        for (int row = 0; row < seqs[i].n_tokens * group; row += t.n_rows)
            if (!tile_init(map, &t, &seqs[i], i, row, window))
                add_combines(map, &t, decode, (struct lf_attn_cuda_combine){.n_first = 1, .n_group = 1});
    }
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

/* The part of a tile that key is in ends there. */
static int part_end(const struct lf_attn_tile_rec *t, int key)
{
    if (key < t->first_end) return t->first_end;
    return LF_MIN(t->key_hi, t->by_groups ? lf_attn_group_end(key) : lf_attn_split_end(t->split, key));
}

static int n_parts_of(const struct lf_attn_tile_rec *t)
{
    int n = 0;
    for (int key = t->key_lo; key < t->key_hi; key = part_end(t, key)) n++;
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

static bool has_room(const struct lf_attn_map *map, const struct lf_attn_tile_rec *t, int partial_rows)
{
    return partial_rows + (int64_t)map->n_kv_heads * t->n_parts * t->n_rows <= map->caps.n_partial_rows;
}

/* Takes partial rows for a tile in all heads, if it has several parts and there is room: the rows of part s and a head
 * begin at slot + (head · n_parts + s) · n_rows. And says how they are combined. */
static void take_slots(struct lf_attn_map *map, struct lf_attn_tile_rec *t, bool decode, int *partial_rows)
{
    t->n_parts = t->n_left = n_parts_of(t);
    t->slot = -1;
    if (t->n_parts == 1 || !has_room(map, t, *partial_rows)) return;
    t->slot = *partial_rows;
    *partial_rows += map->n_kv_heads * t->n_parts * t->n_rows;
    bool grouped = decode && !t->by_groups; /* by the combine kernel */
    int n_missing = grouped ? (t->key_lo - lf_attn_group_begin(t->key_lo)) / split_length(0, t->key_lo) : 0;
    add_combines(map, t, decode,
                 (struct lf_attn_cuda_combine){.slot = t->slot,
                                               .n_parts = t->n_parts,
                                               .n_first = grouped ? LF_ATTN_DECODE_GROUP - n_missing : 1,
                                               .n_group = grouped ? LF_ATTN_DECODE_GROUP : 1});
}

/* The tile's s-th part, keys lo … hi - 1, or with slot -1 all of it. */
static void add_part(const struct list *list, const struct lf_attn_tile_rec *t, int head, int s, int lo, int hi)
{
    struct lf_attn_cuda_task task = {.seq_idx = t->seq_idx,
                                     .kv_head = head,
                                     .row = t->row,
                                     .n_rows = t->n_rows,
                                     .key_lo = lo,
                                     .key_hi = hi,
                                     .slot = t->slot < 0 ? -1 : t->slot + (head * t->n_parts + s) * t->n_rows,
                                     .split = t->split};
    add_task(list, &task);
}

enum prefill_turn { WHOLE, FIRST_PART, FURTHER_PARTS, LAST_PART, TURNS_N };

/* What of a tile comes in a turn, for one head. */
static void add_in_turn(const struct list *list, const struct lf_attn_tile_rec *t, int head, enum prefill_turn turn)
{
    if (t->slot < 0 && turn == WHOLE) add_part(list, t, head, 0, t->key_lo, t->key_hi);
    if (t->slot < 0) return;
    for (int key = t->key_lo, s = 0; key < t->key_hi; key = part_end(t, key), s++) {
        enum prefill_turn its = s == t->n_parts - 1 ? LAST_PART : s == 0 ? FIRST_PART : FURTHER_PARTS;
        if (its == turn) add_part(list, t, head, s, key, part_end(t, key));
    }
}

/* Keys that the first part of a prefill tile may have: with few tiles as many as fall to each multiprocessor; with more
 * tiles than these half as many, since some of those parts are taken when others are done. */
static int64_t first_part_keys(const struct lf_attn_map *map, int n_tiles)
{
    int64_t keys = 0, n_tasks = (int64_t)n_tiles * map->n_kv_heads;
    for (int i = 0; i < n_tiles; i++) keys += n_keys(&map->tiles[i]);
    keys = keys * map->n_kv_heads / map->n_sms;
    return n_tasks <= map->n_sms ? keys : keys / 2;
}

/* Cuts a tile into a part of at most so many keys and single splits; where there is no room for these, or for more than
 * so many tasks, into a longer one and fewer, or it stays whole. */
static void cut_prefill_tile(struct lf_attn_map *map, struct lf_attn_tile_rec *t, int64_t most, int n_tasks,
                             int *partial_rows)
{
    t->first_end = t->key_lo + (int)LF_MIN(most, n_keys(t)) / t->split * t->split;
    for (; t->slot < 0 && t->first_end < t->key_hi; t->first_end += t->split) {
        if ((n_parts_of(t) - 1) * map->n_kv_heads <= n_tasks) take_slots(map, t, false, partial_rows);
        if (t->slot >= 0) return;
    }
}

/* Prefill: head by head, in an order in which the longest comes first. Tiles in parts have a long first one, and then
 * single splits, of which the last, cut short, come last of all. Tiles for whose partial rows or tasks there is no room
 * are whole. *n_tasks: of the step's tiles, if those not yet cut stay whole. */
static void add_prefill_tiles(struct lf_attn_map *map, int n_tiles, int *n_tasks, int *partial_rows)
{
    int64_t most = first_part_keys(map, n_tiles);
    const struct list list = {map->prefill, &map->counts.n_prefill, map->caps.n_prefill};
    bool in_parts = (int64_t)n_tiles * map->n_kv_heads < (int64_t)WHOLE_TASKS * map->n_sms;
    for (int i = n_tiles - 1; i >= 0; i--) {
        struct lf_attn_tile_rec *t = &map->tiles[i];
        t->slot = -1;
        if (in_parts) cut_prefill_tile(map, t, most, list.cap - *n_tasks, partial_rows);
        if (t->slot >= 0) *n_tasks += (t->n_parts - 1) * map->n_kv_heads;
    }
    for (enum prefill_turn turn = 0; turn < (in_parts ? TURNS_N : FIRST_PART); turn++)
        for (int head = 0; head < map->n_kv_heads; head++)
            for (int i = 0; i < n_tiles; i++) add_in_turn(&list, &map->tiles[i], head, turn);
}

/* Behind a sequence's entries in the tables. */
static int table_end(const struct lf_attn_map *map, int seq_idx)
{
    return map->seqs[seq_idx].table + most_pages(map->stripe, map->seqs[seq_idx].kv_len);
}

/* Behind the last sequence of the wave that begins with seqs[first]; `table`: where its entries begin. */
static int wave_end(const struct lf_attn_map *map, const struct lf_kv_seq *seqs, int n_seqs, int first, int table)
{
    int end = first;
    if (map->caps.n_wave_pages == 0) return n_seqs;
    while (end < n_seqs && !seqs[end].is_decode && table_end(map, end) - table <= map->caps.n_wave_pages) end++;
    LF_ASSERT(end > first || seqs[first].is_decode);
    return LF_MAX(end, first + 1);
}

static void add_prefill_waves(struct lf_attn_map *map, const struct lf_kv_seq *seqs, int n_seqs, int window,
                              int *partial_rows)
{
    int n_tasks = cut_tiles(map, seqs, 0, n_seqs, window, false) * map->n_kv_heads;
    map->n_waves = 0;
    for (int first = 0, end; first < n_seqs; first = end) {
        int table = first == 0 ? 0 : table_end(map, first - 1), task = map->counts.n_prefill;
        end = wave_end(map, seqs, n_seqs, first, table);
        int n = cut_tiles(map, seqs, first, end, window, false);
        if (n == 0) continue;
        lf_sort(map->tiles, (size_t)n, sizeof *map->tiles, comes_before);
        add_prefill_tiles(map, n, &n_tasks, partial_rows);
        map->waves[map->n_waves++] = (struct lf_attn_wave){.task = task,
                                                           .n_tasks = map->counts.n_prefill - task,
                                                           .table = table,
                                                           .n_pages = table_end(map, end - 1) - table};
    }
}

static bool begins_part(const struct lf_attn_tile_rec *t, int key)
{
    if (t->slot < 0 || key < t->key_lo || key >= t->key_hi) return false;
    return key == t->key_lo || key == (t->by_groups ? lf_attn_group_begin(key) : lf_attn_split_begin(0, key));
}

/* The parts that begin at a key, of all tiles of a sequence, in all heads: each is of its tile the one before the last
 * added. */
static void add_decode_parts(struct lf_attn_map *map, const struct list *list, int first_tile, int end, int key)
{
    for (int i = first_tile; i < end; i++) map->tiles[i].n_left -= begins_part(&map->tiles[i], key) ? 1 : 0;
    for (int head = 0; head < map->n_kv_heads; head++) {
        for (int i = first_tile; i < end; i++) {
            const struct lf_attn_tile_rec *t = &map->tiles[i];
            if (begins_part(t, key)) add_part(list, t, head, t->n_left, key, part_end(t, key));
        }
    }
}

/* Whether groups are small enough parts. Not where decode reads codes, has few of them for each multiprocessor, and the
 * combine kernel has many tiles: a multiprocessor with more work than others is then one that has no memory to wait
 * for, and does not catch up when these are done. */
static bool suits_groups(const struct lf_attn_map *map, int64_t group, int n_tiles, int64_t share)
{
    if (4 * group > GROUP_QUARTERS * share) return false;
    return !map->reads_codes || share >= MANY_GROUPS * group || 4 * n_tiles * map->n_kv_heads <= map->n_sms;
}

/* Decides into which parts a decode tile, of n_tiles, is cut; share is the keys of a multiprocessor. A tile that is not
 * much more stays whole. Others are cut into splits, or into groups where one is about a share or less, or splits are
 * too many. */
static void cut_decode_tile(struct lf_attn_map *map, struct lf_attn_tile_rec *t, int n_tiles, int64_t share,
                            int *partial_rows)
{
    int last = t->key_hi - 1, group = lf_attn_group_end(last) - lf_attn_group_begin(last);
    t->slot = -1;
    if (n_keys(t) <= share + COMBINE_KEYS) return;
    t->by_groups = suits_groups(map, group, n_tiles, share);
    take_slots(map, t, true, partial_rows);
    if (t->slot >= 0 || t->by_groups) return;
    t->by_groups = true;
    take_slots(map, t, true, partial_rows);
}

/* Decode: sequence by sequence, the last and longest parts first; heads and tiles side by side. */
static void add_decode_tiles(struct lf_attn_map *map, int n_tiles, int *partial_rows)
{
    const struct list list = {map->decode, &map->counts.n_decode, map->caps.n_decode};
    int64_t share = 0; /* keys for each multiprocessor */
    for (int i = 0; i < n_tiles; i++) share += n_keys(&map->tiles[i]);
    share = share * map->n_kv_heads / map->n_sms;
    for (int first = 0, end; first < n_tiles; first = end) {
        int lo = map->tiles[first].key_lo, hi = map->tiles[first].key_hi;
        for (end = first; end < n_tiles && map->tiles[end].seq_idx == map->tiles[first].seq_idx; end++) {
            struct lf_attn_tile_rec *t = &map->tiles[end];
            cut_decode_tile(map, t, n_tiles, share, partial_rows);
            lo = LF_MIN(lo, t->key_lo);
            hi = LF_MAX(hi, t->key_hi);
            for (int head = 0; t->slot < 0 && head < map->n_kv_heads; head++)
                add_part(&list, t, head, 0, t->key_lo, t->key_hi);
        }
        for (int key = hi; key > lo;) {
            key = lf_attn_split_begin(0, key - 1);
            add_decode_parts(map, &list, first, end, key);
        }
    }
}

void lf_attn_map_build(struct lf_attn_map *map, const struct lf_kv_seq *seqs, int n_seqs, int window)
{
    int partial_rows = 0;
    map->counts = (struct lf_attn_cuda_counts){.n_seqs = n_seqs};
    map->n_combine_prefill = 0;
    map->n_tables = 0;
    for (int i = 0; i < n_seqs; i++) add_seq(map, &seqs[i], i, window);

    int n = cut_tiles(map, seqs, 0, n_seqs, window, true);
    lf_sort(map->tiles, (size_t)n, sizeof *map->tiles, comes_before);
    add_decode_tiles(map, n, &partial_rows);
    add_keyless_tiles(map, seqs, n_seqs, window, true);
    add_prefill_waves(map, seqs, n_seqs, window, &partial_rows);
    add_keyless_tiles(map, seqs, n_seqs, window, false);
}
