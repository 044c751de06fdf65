/* The task lists of the CUDA kernels, checked as sets: every query row of every head meets every split of its keys
 * once. */
#include "tests/support/test.h"

#include "attention/cuda/attn_map.h"
#include "attention/cuda/attn_stripe.h"
#include "core/check.h"
#include "core/mix.h"
#include "core/limits.h"

enum { SMS = 132, MAX_SEQS = 24, MAX_LEN = 140000, MAX_ROWS = 4096, TABLE = MAX_LEN / LF_KV_BLOCK_TOKENS + 1 };

struct fixture {
    struct lf_attn_shape shape;
    struct lf_attn_map map;
    struct lf_kv_seq seqs[MAX_SEQS];
    int32_t blocks[MAX_SEQS][2 * TABLE]; /* of two cache groups */
    int n_seqs, n_rows;
};

static void fixture_init_windows(struct fixture *f, int n_heads, int n_kv_heads, enum lf_dtype kv_dtype, int max_window)
{
    memset(f, 0, sizeof *f);
    f->shape = (struct lf_attn_shape){.n_heads = n_heads,
                                      .n_kv_heads = n_kv_heads,
                                      .head_dim = 128,
                                      .kv_dtype = kv_dtype,
                                      .max_tokens = MAX_ROWS,
                                      .max_seqs = MAX_SEQS,
                                      .max_kv_len = MAX_LEN,
                                      .max_window = max_window,
                                      .n_schedules = 1,
                                      .n_groups = 1};
    assert_int_equal(lf_attn_map_init(&f->map, &f->shape, SMS, NULL), LF_OK);
}

static void fixture_init(struct fixture *f, int n_heads, int n_kv_heads, enum lf_dtype kv_dtype)
{
    fixture_init_windows(f, n_heads, n_kv_heads, kv_dtype, 0);
}

static void add(struct fixture *f, int n_rows, int kv_len, bool decode)
{
    int i = f->n_seqs++;
    for (int b = 0; b * LF_KV_BLOCK_TOKENS < kv_len; b++) {
        f->blocks[i][b] = 4000 * i + b;
        f->blocks[i][TABLE + b] = f->blocks[i][b] + 100000;
    }
    f->seqs[i] = (struct lf_kv_seq){.blocks = f->blocks[i],
                                    .table_stride = TABLE,
                                    .first_token = f->n_rows,
                                    .n_tokens = n_rows,
                                    .kv_len = kv_len,
                                    .is_decode = decode};
    f->n_rows += n_rows;
}

/* Partial rows that a task of a tile in parts writes must be written by no other. */
static void claim(char *claimed, const struct lf_attn_map *map, const struct lf_attn_cuda_task *t)
{
    assert_true(t->slot >= 0 && t->slot + t->n_rows <= map->caps.n_partial_rows);
    for (int r = 0; r < t->n_rows; r++) assert_int_equal(claimed[t->slot + r]++, 0);
}

static const struct lf_attn_cuda_combine *combine_of(const struct lf_attn_map *map, const struct lf_attn_cuda_task *t)
{
    const struct lf_attn_cuda_combine *found = NULL;
    for (int i = 0; i < map->counts.n_combine + map->n_combine_prefill; i++) {
        const struct lf_attn_cuda_combine *m = &map->combine[i];
        if (m->seq_idx != t->seq_idx || m->kv_head != t->kv_head || m->row != t->row) continue;
        assert_null(found);
        found = m;
    }
    return found;
}

/* Keys of the stripe at positions before this one. */
static int keys_before(const struct fixture *f, int position)
{
    return lf_kv_stripe_tokens(f->shape.stripe, position);
}

/* A decode tile whose parts are splits: the combine list says to which group each belongs. Returns a split's part. */
static int check_split(const struct lf_attn_cuda_combine *m, const struct lf_attn_cuda_task *t, int tile_lo,
                       int tile_hi)
{
    int part = 0, group_end = m->n_first;
    for (int key = tile_lo; key < t->key_lo; key = lf_attn_split_end(0, key)) {
        part++;
        assert_int_equal(lf_attn_split_end(0, key) == lf_attn_group_end(key), part == group_end);
        if (part == group_end) group_end += m->n_group;
    }
    assert_int_equal(t->key_hi, LF_MIN(lf_attn_split_end(0, t->key_lo), tile_hi));
    return part;
}

/* A prefill tile: its first part is any number of splits, as the others' slots say, and each of these is one. */
static int check_prefill_part(const struct lf_attn_cuda_combine *m, const struct lf_attn_cuda_task *t, int tile_lo,
                              int tile_hi)
{
    int part = (t->slot - m->slot) / t->n_rows;
    int n_first = (tile_hi - tile_lo + t->split - 1) / t->split - (m->n_parts - 1);
    assert_true(n_first >= 1);
    assert_int_equal(t->key_lo, part == 0 ? tile_lo : tile_lo + (n_first + part - 1) * t->split);
    assert_int_equal(t->key_hi, LF_MIN(tile_lo + (n_first + part) * t->split, tile_hi));
    return part;
}

/* One whose parts are groups. */
static int check_group(const struct lf_attn_cuda_task *t, int tile_lo, int tile_hi)
{
    int part = 0;
    assert_int_equal(t->key_lo, LF_MAX(tile_lo, lf_attn_group_begin(t->key_lo)));
    assert_int_equal(t->key_hi, LF_MIN(tile_hi, lf_attn_group_end(t->key_lo)));
    for (int key = tile_lo; key < t->key_lo; key = lf_attn_group_end(key)) part++;
    return part;
}

/* The tile's keys are those its rows see, from a split's start; a part is where its combine reads it. */
static void check_task(const struct fixture *f, const struct lf_attn_cuda_task *t, bool decode, int window)
{
    const struct lf_kv_seq *seq = &f->seqs[t->seq_idx];
    int group = f->shape.n_heads / f->shape.n_kv_heads, pos0 = seq->kv_len - seq->n_tokens;
    int first = pos0 + t->row / group, last = pos0 + (t->row + t->n_rows - 1) / group;
    int lowest = window > 0 && first >= window ? first - window + 1 : 0;
    int tile_lo = lf_attn_split_begin(t->split, keys_before(f, lowest)), tile_hi = keys_before(f, last + 1);
    assert_true(keys_before(f, lowest) < tile_hi);
    assert_int_equal(seq->is_decode, decode);
    assert_int_equal(t->split, decode ? 0 : lf_attn_prefill_split(first, f->shape.stripe.n));
    if (!decode) assert_int_equal(t->split, lf_attn_prefill_split(last, f->shape.stripe.n));
    assert_true(t->n_rows >= 1 && t->row + t->n_rows <= seq->n_tokens * group);
    assert_int_equal(t->key_lo, lf_attn_split_begin(t->split, t->key_lo));
    if (t->slot < 0) {
        assert_int_equal(t->key_lo, tile_lo);
        assert_int_equal(t->key_hi, tile_hi);
        return;
    }
    const struct lf_attn_cuda_combine *m = combine_of(&f->map, t);
    assert_non_null(m);
    assert_int_equal(m->n_rows, t->n_rows);
    bool by_splits = decode && m->n_group > 1;
    assert_int_equal(m->n_group, by_splits ? LF_ATTN_DECODE_GROUP : 1);
    assert_in_range(m->n_first, 1, m->n_group);
    int part = !decode     ? check_prefill_part(m, t, tile_lo, tile_hi)
               : by_splits ? check_split(m, t, tile_lo, tile_hi)
                           : check_group(t, tile_lo, tile_hi);
    assert_int_equal(t->slot, m->slot + part * t->n_rows);
    assert_true(part < m->n_parts);
}

static int64_t keys_times_rows(const struct lf_attn_cuda_task *t)
{
    return (int64_t)(t->key_hi - t->key_lo) * t->n_rows;
}

/* Rows of a tile without keys are in the list of what is combined, with no parts, once for each head. */
static void check_keyless(const struct fixture *f, int seq_idx, int row, int n_rows)
{
    struct lf_attn_cuda_task tile = {.seq_idx = seq_idx, .row = row};
    for (; tile.kv_head < f->shape.n_kv_heads; tile.kv_head++) {
        const struct lf_attn_cuda_combine *m = combine_of(&f->map, &tile);
        assert_non_null(m);
        assert_int_equal(m->n_rows, n_rows);
        assert_int_equal(m->n_parts, 0);
        assert_int_equal(m->n_group, 1);
        bool in_prefill = m - f->map.combine >= f->map.counts.n_combine;
        assert_int_equal(in_prefill, !f->seqs[seq_idx].is_decode);
    }
}

/* Sum over all rows, heads and their splits' keys, from the definition; *n_keyless: entries for tiles without. */
static int64_t expected_work(const struct fixture *f, bool decode, int window, int *n_keyless)
{
    int group = f->shape.n_heads / f->shape.n_kv_heads;
    int tile = decode ? LF_ATTN_DECODE_ROWS : LF_ATTN_PREFILL_ROWS / group * group;
    int64_t sum = 0;
    for (int i = 0; i < f->n_seqs; i++) {
        const struct lf_kv_seq *seq = &f->seqs[i];
        if (seq->is_decode != decode) continue;
        int n_rows = seq->n_tokens * group, pos0 = seq->kv_len - seq->n_tokens;
        for (int row = 0, n; row < n_rows; row += n) {
            int first = pos0 + row / group, split = decode ? 0 : lf_attn_prefill_split(first, f->shape.stripe.n);
            for (n = group; n < LF_MIN(tile, n_rows - row); n += group)
                if (!decode && lf_attn_prefill_split(pos0 + (row + n) / group, f->shape.stripe.n) != split) break;
            n = LF_MIN(n, LF_MIN(tile, n_rows - row));
            int last = pos0 + (row + n - 1) / group;
            int lowest = window > 0 && first >= window ? first - window + 1 : 0;
            int lo = keys_before(f, lowest), hi = keys_before(f, last + 1);
            if (lo == hi) check_keyless(f, i, row, n);
            if (lo == hi) *n_keyless += f->shape.n_kv_heads;
            if (lo < hi) sum += (int64_t)(hi - lf_attn_split_begin(split, lo)) * n * f->shape.n_kv_heads;
        }
    }
    return sum;
}

/* Of each cache group a sequence's table names the block of every key that a task reads, and of every new token,
 * whoever's stripe it is in. */
static void check_tables(struct fixture *f, int window)
{
    const struct lf_attn_map *map = &f->map;
    for (int group = 0; group < 2; group++) {
        lf_attn_map_tables(&f->map, f->seqs, group);
        assert_in_range(map->n_tables, f->shape.stripe.n > 1 ? 0 : f->n_seqs, map->caps.n_tables);
        for (int i = 0; i < f->n_seqs; i++) {
            const struct lf_kv_seq *seq = &f->seqs[i];
            int pos0 = seq->kv_len - seq->n_tokens, lowest = window > 0 ? LF_MAX(pos0 - window + 1, 0) : 0;
            int split = seq->is_decode ? 0 : LF_ATTN_PREFILL_SPLIT_STEP;
            int first = lf_attn_split_begin(split, keys_before(f, lowest)) / LF_KV_BLOCK_TOKENS;
            for (int b = first; b * LF_KV_BLOCK_TOKENS < keys_before(f, seq->kv_len); b++) {
                assert_in_range(map->seqs[i].table + b, 0, map->n_tables - 1);
                assert_int_equal(map->tables[map->seqs[i].table + b], seq->blocks[b] + 100000 * group);
            }
            for (int pos = pos0; pos < seq->kv_len; pos++) {
                int b = pos / lf_kv_block_tokens(f->shape.stripe.n);
                assert_in_range(map->seqs[i].table + b, 0, map->n_tables - 1);
                assert_int_equal(map->tables[map->seqs[i].table + b], seq->blocks[b] + 100000 * group);
            }
        }
    }
}

/* Waves follow each other in the list of prefill tasks and have all of it; what a wave's tasks read is among its
 * entries of the tables, for which there is room, and no entry is two waves'. */
static void check_waves(const struct lf_attn_map *map, int window)
{
    int task = 0, table = 0;
    for (int w = 0; w < map->n_waves; w++) {
        const struct lf_attn_wave *wave = &map->waves[w];
        assert_int_equal(wave->task, task);
        assert_true(wave->n_tasks > 0 && wave->table >= table);
        if (map->caps.n_wave_pages > 0) assert_in_range(wave->n_pages, 1, map->caps.n_wave_pages);
        task += wave->n_tasks;
        table = wave->table + wave->n_pages;
        for (int i = wave->task; i < task; i++) {
            const struct lf_attn_cuda_task *t = &map->prefill[i];
            const struct lf_attn_cuda_seq *s = &map->seqs[t->seq_idx];
            int pos = s->kv_len - s->n_tokens + t->row / (map->n_heads / map->n_kv_heads);
            int first = lf_kv_stripe_tokens(map->stripe, LF_MAX(pos - window + 1, 0));
            int lowest = window > 0 ? LF_MAX(t->key_lo, first) : t->key_lo;
            assert_true(s->table + lowest / LF_KV_BLOCK_TOKENS >= wave->table);
            assert_true(s->table + (t->key_hi - 1) / LF_KV_BLOCK_TOKENS < table);
        }
    }
    assert_int_equal(task, map->counts.n_prefill);
}

static void check(struct fixture *f, int window)
{
    lf_attn_map_build(&f->map, f->seqs, f->n_seqs, window);
    const struct lf_attn_map *map = &f->map;
    char *claimed = calloc((size_t)map->caps.n_partial_rows, 1);
    assert_non_null(claimed);
    int64_t prefill = 0, decode = 0;
    int combine_rows = 0;
    for (int i = 0; i < map->counts.n_combine; i++) combine_rows = LF_MAX(combine_rows, map->combine[i].n_rows);
    assert_int_equal(map->counts.combine_rows, combine_rows);
    for (int i = 0; i < map->counts.n_prefill; i++) {
        check_task(f, &map->prefill[i], false, window);
        prefill += keys_times_rows(&map->prefill[i]);
        if (map->prefill[i].slot >= 0) claim(claimed, map, &map->prefill[i]);
    }
    for (int i = 0; i < map->counts.n_decode; i++) {
        check_task(f, &map->decode[i], true, window);
        decode += keys_times_rows(&map->decode[i]);
        if (map->decode[i].slot >= 0) claim(claimed, map, &map->decode[i]);
    }
    int n_keyless = 0, n_without_parts = 0;
    assert_int_equal(prefill, expected_work(f, false, window, &n_keyless));
    assert_int_equal(decode, expected_work(f, true, window, &n_keyless));
    for (int i = 0; i < map->counts.n_combine + map->n_combine_prefill; i++)
        n_without_parts += map->combine[i].n_parts == 0;
    assert_int_equal(n_without_parts, n_keyless);
    assert_int_equal(map->counts.n_seqs, f->n_seqs);
    for (int i = 0; i < f->n_seqs; i++) {
        const struct lf_attn_cuda_seq *s = &map->seqs[i];
        assert_int_equal(s->first_token, f->seqs[i].first_token);
        assert_int_equal(s->n_tokens, f->seqs[i].n_tokens);
        assert_int_equal(s->kv_len, f->seqs[i].kv_len);
    }
    check_tables(f, window);
    check_waves(map, window);
    if (map->caps.n_wave_pages == 0) assert_int_equal(map->n_waves, map->counts.n_prefill > 0);
    free(claimed);
    f->n_seqs = f->n_rows = 0;
}

static int between(uint64_t *seed, int lo, int hi)
{
    return lo + (int)(lf_random64(5, (*seed)++) % (uint64_t)(hi - lo + 1));
}

static void random_steps_are_covered_exactly(void **state)
{
    (void)state;
    static const int heads[][2] = {{32, 8}, {28, 4}, {8, 8}, {8, 1}, {71, 1}};
    uint64_t seed = 1;
    for (size_t h = 0; h < LF_N_ELEMS(heads); h++) {
        struct fixture *f = malloc(sizeof *f);
        assert_non_null(f);
        fixture_init(f, heads[h][0], heads[h][1], h % 2 ? LF_E4M3 : LF_BF16);
        for (int round = 0; round < 40; round++) {
            int n = between(&seed, 1, MAX_SEQS);
            for (int i = 0; i < n; i++) {
                bool decode = between(&seed, 0, 2) > 0;
                int n_rows = decode ? between(&seed, 1, 3) : between(&seed, 1, MAX_ROWS / MAX_SEQS);
                int most = between(&seed, 0, 3) ? 3000 : MAX_LEN;
                add(f, n_rows, between(&seed, n_rows, most), decode);
            }
            check(f, round % 3 == 0 ? 4096 : (round % 3 == 1 ? 37 : 0));
        }
        lf_attn_map_deinit(&f->map);
        free(f);
    }
}

/* Where all layers have windows there is room for what a chunk sees of its longest one, at any offset in a split. */
static void room_for_expanded_pages_is_that_of_windows(void **state)
{
    (void)state;
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    uint64_t seed = 9;
    fixture_init_windows(f, 16, 8, LF_E4M3, 1024);
    assert_int_equal(f->map.caps.n_wave_pages, (1024 + MAX_ROWS + 1024) / LF_KV_BLOCK_TOKENS);
    for (int round = 0; round < 200; round++) {
        int n_rows = round % 2 ? MAX_ROWS : between(&seed, 1, MAX_ROWS);
        add(f, n_rows, between(&seed, n_rows, MAX_LEN), false);
        check(f, round % 3 == 0 ? between(&seed, 1, 1024) : 1024);
    }
    lf_attn_map_deinit(&f->map);

    fixture_init_windows(f, 16, 8, LF_E4M3, INT32_MAX);
    assert_int_equal(f->map.caps.n_wave_pages, (MAX_LEN + LF_KV_BLOCK_TOKENS - 1) / LF_KV_BLOCK_TOKENS);
    lf_attn_map_deinit(&f->map);
    free(f);
}

/* Sequences of any length, and as short as a page, so that some ranks have nothing of them; windows shorter than a row
 * of pages. */
static void check_stripe(struct fixture *f, uint64_t *seed)
{
    for (int round = 0; round < 18; round++) {
        int n = between(seed, 1, MAX_SEQS);
        for (int i = 0; i < n; i++) {
            bool decode = between(seed, 0, 2) > 0;
            int n_rows = decode ? between(seed, 1, 16) : between(seed, 1, MAX_ROWS / MAX_SEQS);
            int most = between(seed, 0, 2) ? 700 : MAX_LEN;
            add(f, n_rows, between(seed, n_rows, LF_MAX(n_rows, most)), decode);
        }
        check(f, round % 3 == 0 ? 4096 : (round % 3 == 1 ? 37 : 0));
    }
}

static void stripes_are_covered_exactly(void **state)
{
    (void)state;
    uint64_t seed = 11;
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    for (int n = 2; n <= 8; n += n < 4 ? 1 : 4) {
        for (int idx = 0; idx < n; idx++) {
            fixture_init(f, idx % 2 ? 28 : 8, idx % 2 ? 4 : 1, idx % 3 ? LF_BF16 : LF_E4M3);
            lf_attn_map_deinit(&f->map);
            f->shape.stripe = (struct lf_kv_stripe){idx, n};
            assert_int_equal(lf_attn_map_init(&f->map, &f->shape, SMS, NULL), LF_OK);
            check_stripe(f, &seed);
            lf_attn_map_deinit(&f->map);
        }
    }
    free(f);
}

/* Each sequence is within one page of rank 0: nothing of it is on the others. */
static void steps_of_which_a_stripe_has_nothing_fit_the_lists(void **state)
{
    (void)state;
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    for (int idx = 0; idx < 2; idx++) {
        fixture_init(f, 8, 8, LF_E4M3);
        lf_attn_map_deinit(&f->map);
        f->shape.stripe = (struct lf_kv_stripe){idx, 2};
        f->shape.max_tokens = MAX_SEQS * LF_KV_BLOCK_TOKENS;
        f->shape.max_kv_len = LF_KV_BLOCK_TOKENS;
        assert_int_equal(lf_attn_map_init(&f->map, &f->shape, 1, NULL), LF_OK);
        for (int n_decode = 0; n_decode <= MAX_SEQS; n_decode += MAX_SEQS / 2) {
            for (int i = 0; i < MAX_SEQS; i++) add(f, LF_KV_BLOCK_TOKENS, LF_KV_BLOCK_TOKENS, i < n_decode);
            check(f, 0);
            assert_int_equal(f->map.counts.n_prefill + f->map.counts.n_decode > 0, idx == 0);
        }
        lf_attn_map_deinit(&f->map);
    }
    free(f);
}

/* The same room for expanded pages, of a stripe's part of a window. */
static void room_for_expanded_pages_is_that_of_a_stripes_windows(void **state)
{
    (void)state;
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    uint64_t seed = 10;
    for (int n = 2; n <= 4; n++) {
        fixture_init_windows(f, 16, 8, LF_E4M3, 1024);
        lf_attn_map_deinit(&f->map);
        f->shape.stripe = (struct lf_kv_stripe){n - 2, n};
        assert_int_equal(lf_attn_map_init(&f->map, &f->shape, SMS, NULL), LF_OK);
        assert_true(f->map.caps.n_wave_pages <= (1024 + MAX_ROWS) / n / LF_KV_BLOCK_TOKENS + 20);
        for (int round = 0; round < 200; round++) {
            int n_rows = round % 2 ? MAX_ROWS : between(&seed, 1, MAX_ROWS);
            add(f, n_rows, between(&seed, n_rows, MAX_LEN), false);
            check(f, round % 3 == 0 ? between(&seed, 1, 1024) : 1024);
        }
        lf_attn_map_deinit(&f->map);
    }
    free(f);
}

/* attn_stripe.h, which kernels compute with, says what kv_view.h says. */
static void positions_of_keys_are_those_of_the_view(void **state)
{
    (void)state;
    for (int n = 1; n <= 8; n++) {
        for (int idx = 0; idx < n; idx++) {
            struct lf_kv_stripe stripe = {idx, n};
            assert_int_equal(lf_attn_stripe_keys(idx, n, -5), 0);
            for (int pos = 0, key = 0; pos < 5 * n * LF_KV_BLOCK_TOKENS; pos++) {
                assert_int_equal(lf_attn_stripe_keys(idx, n, pos), lf_kv_stripe_tokens(stripe, pos));
                assert_int_equal(lf_attn_stripe_keys(idx, n, pos), key);
                bool has = lf_kv_stripe_has(stripe, pos);
                assert_int_equal(lf_attn_stripe_position(idx, n, key) == pos, has);
                assert_true(lf_attn_stripe_position(idx, n, key) >= pos);
                key += has;
            }
        }
    }
}

static void an_empty_step_has_no_tasks(void **state)
{
    (void)state;
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    fixture_init(f, 32, 8, LF_BF16);
    check(f, 0);
    assert_int_equal(
        f->map.counts.n_prefill + f->map.counts.n_decode + f->map.counts.n_combine + f->map.n_combine_prefill, 0);
    lf_attn_map_deinit(&f->map);
    free(f);
}

static void few_long_tiles_are_split_and_many_are_not(void **state)
{
    (void)state;
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    fixture_init(f, 8, 1, LF_BF16);
    add(f, 256, 131072, false);
    lf_attn_map_build(&f->map, f->seqs, 1, 0);
    int n_tiles = 256 * 8 / 128, share = n_tiles * (131072 / SMS), split = lf_attn_prefill_split(131000, 0);
    assert_int_equal(f->map.n_combine_prefill, n_tiles);
    assert_int_equal(f->map.counts.n_prefill, n_tiles * (131072 / split));
    for (int i = 0; i < f->map.counts.n_prefill; i++) {
        const struct lf_attn_cuda_task *t = &f->map.prefill[i];
        assert_in_range(t->key_hi - t->key_lo, 1, i < n_tiles ? LF_MAX(share, split) : split);
    }
    lf_attn_map_deinit(&f->map);

    fixture_init(f, 32, 8, LF_BF16);
    add(f, MAX_ROWS, 131072, false);
    lf_attn_map_build(&f->map, f->seqs, 1, 0);
    assert_int_equal(f->map.counts.n_prefill, MAX_ROWS * 4 / 128 * 8);
    assert_int_equal(f->map.n_combine_prefill + f->map.counts.n_combine, 0);
    for (int i = 1; i < f->map.counts.n_prefill; i++) {
        const struct lf_attn_cuda_task *a = &f->map.prefill[i - 1], *b = &f->map.prefill[i];
        assert_true(a->kv_head < b->kv_head || (a->kv_head == b->kv_head && a->key_hi >= b->key_hi));
    }
    lf_attn_map_deinit(&f->map);
    free(f);
}

static void tiles_without_room_for_partial_rows_come_whole_and_first(void **state)
{
    (void)state;
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    fixture_init(f, 8, 1, LF_BF16);
    f->map.caps.n_partial_rows = 5 * LF_ATTN_PREFILL_ROWS;
    add(f, 16 * 16, 131072, false);
    lf_attn_map_build(&f->map, f->seqs, 1, 0);
    int n_whole = 0;
    while (n_whole < f->map.counts.n_prefill && f->map.prefill[n_whole].slot < 0) n_whole++;
    assert_int_equal(n_whole, 16 - 1); /* one has a first part of as many splits as leave room for the others */
    for (int i = n_whole; i < f->map.counts.n_prefill; i++) assert_true(f->map.prefill[i].slot >= 0);
    check(f, 0);
    lf_attn_map_deinit(&f->map);
    free(f);
}

static void many_short_prompts_over_long_caches_fit_the_lists(void **state)
{
    (void)state;
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    fixture_init(f, 32, 8, LF_BF16);
    lf_attn_map_deinit(&f->map);
    f->shape.max_tokens = 512;
    assert_int_equal(lf_attn_map_init(&f->map, &f->shape, SMS, NULL), LF_OK);
    for (int i = 0; i < MAX_SEQS; i++) add(f, 20, MAX_LEN, false);
    check(f, 0);
    assert_int_equal(f->map.n_combine_prefill, MAX_SEQS * 8);
    assert_true(f->map.counts.n_prefill >= 2 * MAX_SEQS * 8);
    lf_attn_map_deinit(&f->map);
    free(f);
}

/* Steps as large as the shape allows, of tiles with few rows and of tiles with many. */
static void add_full_step(struct fixture *f, int n_decode, int n_prompts, int rows, int kv_len)
{
    for (int i = 0; i < n_decode + n_prompts; i++) add(f, rows, kv_len, i < n_decode);
    assert_true(f->n_seqs <= f->shape.max_seqs && f->n_rows <= f->shape.max_tokens);
}

static void the_largest_steps_of_a_shape_fit_the_lists(void **state)
{
    (void)state;
    static const int groups[] = {1, 3, 8, 33, 64, 128}, sms[] = {1, 132}, kv_lens[] = {100, 20000, MAX_LEN};
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    for (size_t i = 0; i < LF_N_ELEMS(groups) * LF_N_ELEMS(sms) * LF_N_ELEMS(kv_lens); i++) {
        int group = groups[i % LF_N_ELEMS(groups)], n_sms = sms[i / LF_N_ELEMS(groups) % LF_N_ELEMS(sms)];
        int kv_len = kv_lens[i / LF_N_ELEMS(groups) / LF_N_ELEMS(sms)];
        for (int rows = 1; rows <= LF_ATTN_PREFILL_ROWS / group + 1; rows += LF_ATTN_PREFILL_ROWS / group) {
            fixture_init(f, 2 * group, 2, LF_BF16);
            lf_attn_map_deinit(&f->map);
            f->shape.max_tokens = rows * MAX_SEQS;
            assert_int_equal(lf_attn_map_init(&f->map, &f->shape, n_sms, NULL), LF_OK);
            for (int n_decode = 0; n_decode <= MAX_SEQS; n_decode += MAX_SEQS / 2) {
                add_full_step(f, n_decode, MAX_SEQS - n_decode, rows, kv_len);
                check(f, 0);
                add_full_step(f, n_decode, MAX_SEQS - n_decode, rows, kv_len);
                check(f, kv_len / 2);
                add_full_step(f, n_decode / MAX_SEQS, n_decode < MAX_SEQS, rows * MAX_SEQS, MAX_LEN);
                check(f, 0);
            }
            lf_attn_map_deinit(&f->map);
        }
    }
    free(f);
}

/* Where splits get longer a tile ends, so two tokens are two tiles. */
static void prompts_across_another_split_length_fit_the_lists(void **state)
{
    (void)state;
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    for (int edge = LF_ATTN_PREFILL_NEAR; edge < MAX_LEN; edge += 8192) {
        fixture_init(f, 2, 2, LF_BF16);
        lf_attn_map_deinit(&f->map);
        f->shape.max_tokens = 2 * MAX_SEQS;
        assert_int_equal(lf_attn_map_init(&f->map, &f->shape, 1, NULL), LF_OK);
        for (int i = 0; i < MAX_SEQS; i++) add(f, 2, edge + 1, false);
        bool changes = lf_attn_prefill_split(edge - 1, 0) != lf_attn_prefill_split(edge, 0);
        check(f, 0);
        assert_int_equal(f->map.counts.n_prefill, MAX_SEQS * 2 * (changes ? 2 : 1));
        lf_attn_map_deinit(&f->map);
    }
    free(f);
}

/* The splits of prompts in parts that are cut short fill the gaps at the end of a step. */
static void last_splits_of_prompts_come_last(void **state)
{
    (void)state;
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    fixture_init(f, 8, 1, LF_BF16);
    add(f, 64, 100000, false);
    lf_attn_map_build(&f->map, f->seqs, f->n_seqs, 0);
    int n = f->map.counts.n_prefill, n_last = f->map.n_combine_prefill;
    assert_true(n_last > 0);
    for (int i = 0; i < n; i++) {
        bool cut_short = f->map.prefill[i].key_hi % f->map.prefill[i].split != 0;
        assert_int_equal(cut_short, i >= n - n_last);
    }
    lf_attn_map_deinit(&f->map);
    free(f);
}

static void splits_are_cut_at_fixed_positions(void **state)
{
    (void)state;
    assert_int_equal(lf_attn_split_begin(LF_ATTN_PREFILL_SPLIT_NEAR, 40000),
                     40000 / LF_ATTN_PREFILL_SPLIT_NEAR * LF_ATTN_PREFILL_SPLIT_NEAR);
    assert_int_equal(lf_attn_split_end(LF_ATTN_PREFILL_SPLIT_MAX, 40000),
                     40000 / LF_ATTN_PREFILL_SPLIT_MAX * LF_ATTN_PREFILL_SPLIT_MAX + LF_ATTN_PREFILL_SPLIT_MAX);
    for (int last = LF_ATTN_PREFILL_NEAR; last < MAX_LEN; last += 97) { /* few splits, and the shortest that do */
        int split = lf_attn_prefill_split(last, 0);
        assert_int_equal(split % LF_ATTN_PREFILL_SPLIT_STEP, 0);
        if (split < LF_ATTN_PREFILL_SPLIT_MAX) assert_true(last < LF_ATTN_PREFILL_SPLITS * split);
        assert_true(last >= LF_ATTN_PREFILL_SPLITS * (split - LF_ATTN_PREFILL_SPLIT_STEP));
    }
    assert_int_equal(lf_attn_prefill_split(0, 0), LF_ATTN_PREFILL_SPLIT_NEAR);
    assert_int_equal(lf_attn_prefill_split(LF_ATTN_PREFILL_NEAR - 1, 0), LF_ATTN_PREFILL_SPLIT_NEAR);
    assert_int_equal(lf_attn_prefill_split(MAX_LEN * 100, 0), LF_ATTN_PREFILL_SPLIT_MAX);
    for (int key = 0; key < 5 * LF_ATTN_DECODE_SPLIT_MAX * LF_ATTN_DECODE_SPLIT_SHARE; key += 97) {
        int begin = lf_attn_split_begin(0, key), end = lf_attn_split_end(0, key);
        assert_true(begin <= key && key < end);
        assert_int_equal(begin % LF_KV_BLOCK_TOKENS, 0);
        assert_in_range(end - begin, LF_ATTN_DECODE_SPLIT_MIN, LF_ATTN_DECODE_SPLIT_MAX);
        assert_int_equal(lf_attn_split_begin(0, end - 1), begin);
        assert_int_equal(lf_attn_split_begin(0, end), end);
    }
}

static void groups_are_splits_of_one_length(void **state)
{
    (void)state;
    for (int key = 0; key < 5 * LF_ATTN_DECODE_SPLIT_MAX * LF_ATTN_DECODE_SPLIT_SHARE; key += 97) {
        int begin = lf_attn_group_begin(key), end = lf_attn_group_end(key), n = 0;
        assert_true(begin <= key && key < end);
        for (int at = begin; at < end; at = lf_attn_split_end(0, at), n++) {
            assert_int_equal(lf_attn_split_begin(0, at), at);
            assert_int_equal(lf_attn_split_end(0, at) - at, (end - begin) / LF_ATTN_DECODE_GROUP);
        }
        assert_int_equal(n, LF_ATTN_DECODE_GROUP);
        assert_int_equal(lf_attn_group_begin(end), end);
    }
}

static void tables_leave_out_what_is_before_a_window(void **state)
{
    (void)state;
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    fixture_init(f, 8, 2, LF_BF16);
    add(f, 1, 131072 + 100, true);
    add(f, 1, 131072 + 100, true);
    lf_attn_map_build(&f->map, f->seqs, f->n_seqs, 1024);
    assert_int_equal(f->map.n_tables, 2 * 18); /* keys 130,048 and on: the split that the first of 1,024 is in */
    check(f, 1024);
    lf_attn_map_deinit(&f->map);
    free(f);
}

static void long_contexts_of_many_heads_are_split_into_groups(void **state)
{
    (void)state;
    struct fixture *f = malloc(sizeof *f);
    assert_non_null(f);
    fixture_init(f, 32, 8, LF_BF16);
    add(f, 1, 131072, true);
    lf_attn_map_build(&f->map, f->seqs, f->n_seqs, 0);
    assert_int_equal(f->map.counts.n_combine, 8);
    assert_int_equal(f->map.counts.n_decode, 8 * f->map.combine[0].n_parts);
    assert_int_equal(f->map.combine[0].n_group, 1);
    assert_int_equal(f->map.combine[0].n_parts, 3 + 31); /* of up to 2,048 keys, and of 4,096 */
    check(f, 0);
    lf_attn_map_deinit(&f->map);

    fixture_init(f, 8, 1, LF_BF16);
    add(f, 1, 131072, true);
    lf_attn_map_build(&f->map, f->seqs, f->n_seqs, 0);
    assert_int_equal(f->map.combine[0].n_group, LF_ATTN_DECODE_GROUP);
    assert_int_equal(f->map.combine[0].n_parts, 272);
    check(f, 0);
    lf_attn_map_deinit(&f->map);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_steps_are_covered_exactly),
                                       cmocka_unit_test(room_for_expanded_pages_is_that_of_windows),
                                       cmocka_unit_test(stripes_are_covered_exactly),
                                       cmocka_unit_test(steps_of_which_a_stripe_has_nothing_fit_the_lists),
                                       cmocka_unit_test(room_for_expanded_pages_is_that_of_a_stripes_windows),
                                       cmocka_unit_test(positions_of_keys_are_those_of_the_view),
                                       cmocka_unit_test(an_empty_step_has_no_tasks),
                                       cmocka_unit_test(few_long_tiles_are_split_and_many_are_not),
                                       cmocka_unit_test(tiles_without_room_for_partial_rows_come_whole_and_first),
                                       cmocka_unit_test(many_short_prompts_over_long_caches_fit_the_lists),
                                       cmocka_unit_test(the_largest_steps_of_a_shape_fit_the_lists),
                                       cmocka_unit_test(prompts_across_another_split_length_fit_the_lists),
                                       cmocka_unit_test(last_splits_of_prompts_come_last),
                                       cmocka_unit_test(splits_are_cut_at_fixed_positions),
                                       cmocka_unit_test(groups_are_splits_of_one_length),
                                       cmocka_unit_test(tables_leave_out_what_is_before_a_window),
                                       cmocka_unit_test(long_contexts_of_many_heads_are_split_into_groups)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
