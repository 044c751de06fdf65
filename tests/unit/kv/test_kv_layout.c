#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "core/check.h"
#include "core/limits.h"
#include "kv/kv_layout.h"

static struct lf_kv_layer_spec specs[LF_LAYERS_N + 1];

/* A model of n layers, of which every period-th, from the first-th on, is full; window 0: all are. */
static struct lf_kv_layout make(int n, int first, int period, int window, int n_kv_heads, int head_dim)
{
    struct lf_kv_layout layout;
    struct lf_err err = {0};
    for (int i = 0; i < n; i++) {
        bool full = i >= first && (i - first) % period == 0;
        specs[i] = (struct lf_kv_layer_spec){
            .window = full ? 0 : window, .n_kv_heads = n_kv_heads, .head_dim = head_dim, .alias_of = -1};
    }
    if (lf_kv_layout_make(&layout, specs, n, LF_BF16, &err) != LF_OK) fail_msg("%s", err.message);
    return layout;
}

/* What must hold of every layout: each layer has a place of its own in a group of its kind, unless it is an alias. */
static void check(const struct lf_kv_layout *l, enum lf_dtype dtype)
{
    static bool taken[LF_KV_GROUPS_N][LF_LAYERS_N];
    int n_layers = 0, n_own = 0, n_states = 0;
    memset(taken, 0, sizeof(taken));
    assert_in_range(l->n_groups, 1, LF_KV_GROUPS_N);
    for (int g = 0; g < l->n_groups; g++) {
        const struct lf_kv_group *group = &l->groups[g];
        uint64_t scales = dtype == LF_E4M3 ? ((uint64_t)group->head_dim + 127) / 128 : 0;
        uint64_t page = LF_KV_BLOCK_TOKENS * ((uint64_t)group->head_dim * lf_dtype_bytes(dtype) + scales);
        uint64_t used = (uint64_t)group->n_layers * 2 * (uint64_t)group->n_kv_heads * page;
        assert_true(group->n_layers > 0 && used <= l->block_bytes);
        assert_int_equal(l->block_bytes % page, 0);
        if (l->states.n_layers > 0) assert_int_equal(l->block_bytes % 256, 0);
        assert_int_equal(lf_kv_layout_waste(l, g, dtype), l->block_bytes - used);
        assert_true(g == 0 || group->window == 0 || l->groups[g - 1].window >= 0);
        assert_false(g > 0 && group->window == 0 && l->groups[g - 1].window > 0); /* full ones first */
        n_layers += group->n_layers;
    }
    for (int i = 0; i < l->n_layers; i++) {
        struct lf_kv_place at = l->places[i];
        if (specs[i].state_bytes > 0) {
            assert_int_equal(at.group, -1);
            assert_int_equal(at.layer, n_states++);
            continue;
        }
        const struct lf_kv_group *group = &l->groups[at.group];
        assert_in_range(at.group, 0, l->n_groups - 1);
        assert_in_range(at.layer, 0, group->n_layers - 1);
        assert_int_equal(group->window, specs[i].window);
        assert_int_equal(group->n_kv_heads, specs[i].n_kv_heads);
        assert_int_equal(group->head_dim, specs[i].head_dim);
        if (specs[i].alias_of >= 0) {
            assert_memory_equal(&at, &l->places[specs[i].alias_of], sizeof(at));
            continue;
        }
        assert_false(taken[at.group][at.layer]);
        taken[at.group][at.layer] = true;
        n_own++;
    }
    assert_int_equal(n_layers, n_own);
    assert_int_equal(l->states.n_layers, n_states);
    assert_int_equal(l->states.slot_blocks == 0, n_states == 0);
    assert_int_equal(lf_kv_states_waste(l),
                     (uint64_t)l->states.slot_blocks * l->block_bytes - (uint64_t)n_states * l->states.layer_bytes);
    assert_true(lf_kv_states_waste(l) < l->block_bytes);
}

static void layers_that_are_all_alike_are_one_group_of_exactly_their_bytes(void **state)
{
    (void)state;
    static const struct {
        int n_layers, window, n_kv_heads, head_dim;
    } rows[] = {{32, 0, 8, 128}, {36, 0, 8, 128}, {1, 0, 1, 2}, {32, 4096, 8, 128}, {7, 1, 3, 96}, {1024, 0, 1, 32}};
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        int first = rows[i].window ? LF_LAYERS_N : 0;
        struct lf_kv_layout l = make(rows[i].n_layers, first, 1, rows[i].window, rows[i].n_kv_heads, rows[i].head_dim);
        struct lf_kv_view view = {.dtype = LF_BF16,
                                  .n_layers = rows[i].n_layers,
                                  .n_kv_heads = rows[i].n_kv_heads,
                                  .head_dim = rows[i].head_dim};
        view.block_pages = lf_kv_layers_pages(&view);
        check(&l, LF_BF16);
        assert_int_equal(l.n_groups, 1);
        assert_int_equal(l.block_bytes, lf_kv_block_bytes(&view));
        for (int j = 0; j < rows[i].n_layers; j++) assert_int_equal(l.places[j].layer, j);
        assert_int_equal(lf_kv_layout_waste(&l, 0, LF_BF16), 0);
        lf_kv_layout_deinit(&l);
    }
}

/* n_groups, of them full, layers in group 0 and in the last, and whether anything is wasted. */
static void expect(struct lf_kv_layout l, int n_groups, int n_full, int first_layers, int last_layers, bool wastes)
{
    uint64_t waste = 0;
    int full = 0;
    check(&l, LF_BF16);
    for (int g = 0; g < l.n_groups; g++) {
        waste += lf_kv_layout_waste(&l, g, LF_BF16);
        full += l.groups[g].window == 0;
    }
    assert_int_equal(l.n_groups, n_groups);
    assert_int_equal(full, n_full);
    assert_int_equal(l.groups[0].n_layers, first_layers);
    assert_int_equal(l.groups[n_groups - 1].n_layers, last_layers);
    assert_int_equal(waste > 0, wastes);
    lf_kv_layout_deinit(&l);
}

static void published_models_are_cut_as_by_hand(void **state)
{
    (void)state;
    expect(make(48, 5, 6, 1024, 8, 256), 6, 1, 8, 8, false);             /* Gemma 3 12B: 8 full, 40 with a window */
    expect(make(62, 5, 6, 1024, 16, 128), 7, 1, 10, 8, true);            /* 27B: 10 and 52 */
    expect(make(26, 5, 6, 512, 1, 256), 7, 1, 4, 3, true);               /* 1B: 4 and 22 */
    expect(make(24, 1, 2, 128, 8, 64), 2, 1, 12, 12, false);             /* gpt-oss-20b: every other one */
    expect(make(36, 1, 2, 128, 8, 64), 2, 1, 18, 18, false);             /* gpt-oss-120b */
    expect(make(32, LF_LAYERS_N, 1, 4096, 8, 128), 1, 0, 32, 32, false); /* Mistral 7B: all with a window */
    expect(make(64, 3, 4, 4096, 8, 128), 4, 1, 16, 16, false);           /* OLMo 3 32B: 16 and 48 */
}

/* Of n layers every fourth is attention, the others have a state: as Qwen3-Next. */
static void with_states(int n, uint64_t state_bytes, int n_kv_heads, int head_dim)
{
    for (int i = 0; i < n; i++) {
        specs[i] = (struct lf_kv_layer_spec){.state_bytes = state_bytes, .alias_of = -1};
        if (i % 4 == 3)
            specs[i] = (struct lf_kv_layer_spec){.n_kv_heads = n_kv_heads, .head_dim = head_dim, .alias_of = -1};
    }
}

/* Two sizes of heads, of which one's page with its scales is twice the other's. */
static void fp8_pages_of_two_head_dims_share_blocks_as_those_of_bf16_do(void **state)
{
    (void)state;
    static const enum lf_dtype types[] = {LF_BF16, LF_E4M3};
    for (int head_dim = 128; head_dim <= 256; head_dim *= 2) {
        struct lf_kv_layout of[2];
        for (int i = 0; i < 30; i++)
            specs[i] = (struct lf_kv_layer_spec){.window = i % 6 == 5 ? 0 : 1024,
                                                 .n_kv_heads = i % 6 == 5 ? 2 : 8,
                                                 .head_dim = i % 6 == 5 ? 2 * head_dim : head_dim,
                                                 .alias_of = -1};
        for (int k = 0; k < 2; k++) assert_int_equal(lf_kv_layout_make(&of[k], specs, 30, types[k], NULL), LF_OK);
        check(&of[1], LF_E4M3);
        assert_int_equal(of[0].n_groups, of[1].n_groups);
        assert_memory_equal(of[0].groups, of[1].groups, sizeof(of[0].groups));
        assert_memory_equal(of[0].places, of[1].places, 30 * sizeof(*of[0].places));
        assert_int_equal(of[1].block_bytes, of[0].block_bytes / 2 / 128 * 129);
        for (int k = 0; k < 2; k++) lf_kv_layout_deinit(&of[k]);
    }
}

/* Pages of fp8 are multiples of 64 bytes, states of 256. */
static void states_behind_blocks_of_fp8_are_aligned(void **state)
{
    (void)state;
    static const int dims[] = {16, 48, 64, 80, 96, 112, 128, 160, 192, 256, 272};
    for (size_t d = 0; d < LF_N_ELEMS(dims); d++) {
        for (int n_kv_heads = 1; n_kv_heads <= 3; n_kv_heads++) {
            struct lf_kv_layout l;
            with_states(12, 3 * 256, n_kv_heads, dims[d]);
            assert_int_equal(lf_kv_layout_make(&l, specs, 12, LF_E4M3, NULL), LF_OK);
            check(&l, LF_E4M3);
            lf_kv_layout_deinit(&l);
        }
    }
}

static void qwen2_with_windows_from_a_layer_on_is_cut_without_waste(void **state)
{
    (void)state;
    struct lf_kv_layout l;
    for (int i = 0; i < 28; i++)
        specs[i] =
            (struct lf_kv_layer_spec){.window = i < 21 ? 0 : 4096, .n_kv_heads = 4, .head_dim = 128, .alias_of = -1};
    assert_int_equal(lf_kv_layout_make(&l, specs, 28, LF_BF16, NULL), LF_OK);
    expect(l, 4, 3, 7, 7, false);
}

/* Local layers with 8 KV heads of 256, global ones with 2 of 512: half the bytes. */
static void gemma4_shapes(void)
{
    for (int i = 0; i < 30; i++) {
        bool full = i % 6 == 5;
        specs[i] = (struct lf_kv_layer_spec){
            .window = full ? 0 : 1024, .n_kv_heads = full ? 2 : 8, .head_dim = full ? 512 : 256, .alias_of = -1};
    }
}

static void layers_of_different_shapes_share_blocks_that_hold_pages_of_both(void **state)
{
    (void)state;
    struct lf_kv_layout l;
    gemma4_shapes();
    assert_int_equal(lf_kv_layout_make(&l, specs, 30, LF_BF16, NULL), LF_OK);
    check(&l, LF_BF16);
    assert_int_equal(l.groups[0].head_dim, 512);
    assert_int_equal(l.groups[0].n_layers, 5);
    assert_int_equal(lf_kv_layout_waste(&l, 0, LF_BF16), 0); /* of what there is most of, nothing */
    assert_int_equal(l.block_bytes, 5 * 2 * 2 * 64 * 512 * 2);
    assert_int_equal(l.n_groups, 14);
    lf_kv_layout_deinit(&l);
    /* Head sizes of which neither divides the other: pages of 12,288 and 16,384 bytes. */
    specs[0] = (struct lf_kv_layer_spec){.window = 64, .n_kv_heads = 3, .head_dim = 96, .alias_of = -1};
    specs[1] = (struct lf_kv_layer_spec){.n_kv_heads = 1, .head_dim = 128, .alias_of = -1};
    assert_int_equal(lf_kv_layout_make(&l, specs, 2, LF_BF16, NULL), LF_OK);
    check(&l, LF_BF16);
    assert_int_equal(l.block_bytes, 2 * 49152);
    lf_kv_layout_deinit(&l);
}

static void aliases_take_no_room_and_lie_where_their_source_does(void **state)
{
    (void)state;
    struct lf_kv_layout l;
    struct lf_kv_layout plain = make(12, 2, 3, 128, 2, 64);
    for (int i = 12; i < 20; i++) {
        specs[i] = specs[i - 3];
        specs[i].alias_of = i - 3; /* of an alias too */
    }
    assert_int_equal(lf_kv_layout_make(&l, specs, 20, LF_BF16, NULL), LF_OK);
    check(&l, LF_BF16);
    assert_int_equal(l.n_groups, plain.n_groups);
    assert_int_equal(l.block_bytes, plain.block_bytes);
    assert_memory_equal(l.groups, plain.groups, sizeof(l.groups));
    assert_false(lf_kv_layout_same(&l, &plain));
    assert_true(lf_kv_layout_same(&l, &l));
    lf_kv_layout_deinit(&l);
    lf_kv_layout_deinit(&plain);
}

static void layers_with_states_are_in_no_group_and_make_slots_of_whole_blocks(void **state)
{
    (void)state;
    struct lf_kv_layout l, attention = make(12, 0, 1, 0, 2, 256), other;
    const uint64_t bytes = 32 * 128 * 128 * 4 + 3 * 8192 * 2; /* Qwen3-Next 80B: 36 such layers */
    with_states(48, bytes, 2, 256);
    assert_int_equal(lf_kv_layout_make(&l, specs, 48, LF_BF16, NULL), LF_OK);
    check(&l, LF_BF16);
    assert_int_equal(l.n_groups, 1);
    assert_int_equal(l.block_bytes, attention.block_bytes); /* states make blocks no larger */
    assert_memory_equal(l.groups, attention.groups, sizeof(l.groups));
    assert_int_equal(l.states.n_layers, 36);
    assert_int_equal(l.states.layer_bytes, bytes);
    assert_int_equal(l.states.slot_blocks, 50); /* 77,266,944 bytes in blocks of 1.5 MiB */
    assert_int_equal(lf_kv_states_slot_blocks(&l.states, 2 * l.block_bytes), 25);
    assert_int_equal(lf_kv_states_slot_blocks(&attention.states, 4096), 0);
    with_states(48, bytes + 256, 2, 256);
    assert_int_equal(lf_kv_layout_make(&other, specs, 48, LF_BF16, NULL), LF_OK);
    assert_true(lf_kv_layout_same(&l, &l) && !lf_kv_layout_same(&l, &other));
    lf_kv_layout_deinit(&other);
    lf_kv_layout_deinit(&attention);
    lf_kv_layout_deinit(&l);
}

static void states_and_windows_and_aliases_stand_side_by_side(void **state)
{
    (void)state;
    struct lf_kv_layout l, none;
    with_states(48, 4096, 2, 64);
    for (int i = 7; i < 48; i += 8) specs[i].window = 128;
    specs[47].alias_of = 39;
    specs[40].window = -1; /* does not count where there is a state */
    assert_int_equal(lf_kv_layout_make(&l, specs, 48, LF_BF16, NULL), LF_OK);
    check(&l, LF_BF16);
    assert_int_equal(l.n_groups, 2);
    assert_int_equal(l.states.n_layers, 36);
    int n = 0;
    for (int i = 0; i < 48; i++) /* the same model without its states */
        if (specs[i].state_bytes == 0) specs[n++] = specs[i];
    specs[n - 1].alias_of = n - 3;
    assert_int_equal(lf_kv_layout_make(&none, specs, n, LF_BF16, NULL), LF_OK);
    assert_int_equal(l.block_bytes, none.block_bytes);
    assert_memory_equal(l.groups, none.groups, sizeof(l.groups));
    lf_kv_layout_deinit(&none);
    lf_kv_layout_deinit(&l);
}

static void the_scheduler_is_told_the_window_of_each_group(void **state)
{
    (void)state;
    struct lf_kv_layout l = make(48, 5, 6, 1024, 8, 256);
    struct lf_kv_windows w = lf_kv_layout_windows(&l);
    assert_int_equal(w.n, 6);
    assert_int_equal(w.tokens[0], 0);
    for (int g = 1; g < 6; g++) assert_int_equal(w.tokens[g], 1024);
    assert_int_equal(lf_kv_windows_need(&w, 2048), 2048 + 5 * 18);
    lf_kv_layout_deinit(&l);
}

static void refuses(int n_layers, enum lf_status expected, const char *word)
{
    struct lf_kv_layout l = {0};
    struct lf_err err = {0};
    assert_int_equal(lf_kv_layout_make(&l, specs, n_layers, LF_BF16, &err), expected);
    if (!strstr(err.message, word)) fail_msg("\"%s\" has no \"%s\"", err.message, word);
    assert_null(l.places);
}

static void hostile_layers_are_refused(void **state)
{
    (void)state;
    struct lf_kv_layout plain = make(4, 0, 1, 0, 2, 64);
    lf_kv_layout_deinit(&plain);
    const struct lf_kv_layer_spec good = specs[0];
    static const struct {
        struct lf_kv_layer_spec spec;
        const char *word;
    } rows[] = {
        {{.window = -1, .n_kv_heads = 2, .head_dim = 64, .alias_of = -1}, "layer 2 has a window of -1"},
        {{.n_kv_heads = 0, .head_dim = 64, .alias_of = -1}, "0 KV heads"},
        {{.n_kv_heads = LF_HEADS_N + 1, .head_dim = 64, .alias_of = -1}, "KV heads"},
        {{.n_kv_heads = 2, .head_dim = 0, .alias_of = -1}, "head_dim of 0"},
        {{.n_kv_heads = 2, .head_dim = 63, .alias_of = -1}, "head_dim of 63"},
        {{.n_kv_heads = 2, .head_dim = LF_HIDDEN_N + 2, .alias_of = -1}, "head_dim"},
        {{.n_kv_heads = 2, .head_dim = 64, .alias_of = 2}, "no earlier one"},
        {{.n_kv_heads = 2, .head_dim = 64, .alias_of = 3}, "no earlier one"},
        {{.n_kv_heads = 2, .head_dim = 64, .alias_of = -2}, "no earlier one"},
        {{.n_kv_heads = 1, .head_dim = 64, .alias_of = 1}, "differ"},
        {{.window = 9, .n_kv_heads = 2, .head_dim = 64, .alias_of = 1}, "differ"},
        {{.state_bytes = 255, .alias_of = -1}, "layer 2 has a state of 255 bytes"},
        {{.state_bytes = LF_STATE_LAYER_BYTES + 256, .alias_of = -1}, "a multiple of 256"},
        {{.state_bytes = UINT64_MAX - 255, .alias_of = -1}, "state"},
        {{.state_bytes = 256, .alias_of = 1}, "layer 2 has a state, and reads the keys of layer 1"},
    };
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        specs[2] = rows[i].spec;
        refuses(4, LF_INVALID, rows[i].word);
    }
    specs[2] = (struct lf_kv_layer_spec){.state_bytes = LF_STATE_LAYER_BYTES, .alias_of = -1};
    specs[3].alias_of = 2;
    refuses(4, LF_INVALID, "layer 3 reads the keys of layer 2, which has a state");
    specs[3] = specs[2];
    struct lf_kv_layout largest;
    assert_int_equal(lf_kv_layout_make(&largest, specs, 4, LF_BF16, NULL), LF_OK);
    check(&largest, LF_BF16);
    lf_kv_layout_deinit(&largest);
    specs[3].state_bytes = 256;
    refuses(4, LF_UNSUPPORTED, "different sizes");
    /* one layer of keys, of 32 KiB a block: as many blocks as there are keys for, and one more */
    specs[1] = specs[2] = specs[3] =
        (struct lf_kv_layer_spec){.state_bytes = 16384 * 21845 / 256 * 256, .alias_of = -1};
    assert_int_equal(lf_kv_layout_make(&largest, specs, 4, LF_BF16, NULL), LF_OK);
    assert_int_equal(largest.states.slot_blocks, LF_SLOT_BLOCKS_N);
    lf_kv_layout_deinit(&largest);
    for (int i = 1; i < 4; i++) specs[i].state_bytes += 16384;
    refuses(4, LF_UNSUPPORTED, "as long as 32769 blocks of keys; more than 32768");
    specs[0] = specs[1] = specs[2];
    specs[3] = specs[2];
    refuses(4, LF_UNSUPPORTED, "states alone");
    specs[2] = good;
    refuses(0, LF_INVALID, "0 layers");
    refuses(LF_LAYERS_N + 1, LF_INVALID, "layers");
    for (int i = 0; i < 2; i++)
        specs[i] =
            (struct lf_kv_layer_spec){.n_kv_heads = 1, .head_dim = i ? LF_HIDDEN_N : LF_HIDDEN_N - 2, .alias_of = -1};
    refuses(2, LF_LIMIT, "head_dims");
}

static void sixteen_kinds_are_sixteen_groups_and_more_are_refused(void **state)
{
    (void)state;
    struct lf_kv_layout l;
    for (int i = 0; i < 34; i++)
        specs[i] = (struct lf_kv_layer_spec){.window = 64 * (i % 17), .n_kv_heads = 2, .head_dim = 64, .alias_of = -1};
    specs[16] = specs[33] = specs[0];
    assert_int_equal(lf_kv_layout_make(&l, specs, 34, LF_BF16, NULL), LF_OK);
    check(&l, LF_BF16);
    assert_int_equal(l.n_groups, LF_KV_GROUPS_N);
    lf_kv_layout_deinit(&l);
    specs[16].window = 64 * 16;
    refuses(34, LF_UNSUPPORTED, "16 kinds");
}

/* Bytes of a sequence of 128K tokens, and what they would be with a group for each kind, in blocks for the largest. */
static void compare_with_a_group_for_each_kind(const struct lf_kv_layout *l, enum lf_dtype dtype)
{
    uint64_t largest = 0, blocks = 0;
    for (int g = 0; g < l->n_groups; g++) {
        struct lf_kv_group kind = l->groups[g];
        bool is_first = true;
        for (int i = 0; i < l->n_groups; i++) {
            const struct lf_kv_group *other = &l->groups[i];
            bool same = other->window == kind.window && other->n_kv_heads == kind.n_kv_heads &&
                        other->head_dim == kind.head_dim;
            if (same && i < g) is_first = false;
            if (same && i != g) kind.n_layers += other->n_layers;
        }
        if (!is_first) continue;
        uint64_t page = LF_KV_BLOCK_TOKENS * (uint64_t)kind.head_dim * lf_dtype_bytes(dtype);
        largest = LF_MAX(largest, (uint64_t)kind.n_layers * 2 * (uint64_t)kind.n_kv_heads * page);
        blocks += (uint64_t)lf_kv_windows_held(&(struct lf_kv_windows){.n = 1, .tokens = {kind.window}}, 0, 2048);
    }
    struct lf_kv_windows w = lf_kv_layout_windows(l);
    double cost = (double)lf_kv_windows_need(&w, 2048) * (double)l->block_bytes;
    double page_of_all = 64.0 * 3 * 128 * (double)lf_dtype_bytes(dtype);
    assert_true(cost <= 1.01 * (double)blocks * ((double)largest + page_of_all));
}

/* Any mixture: what must hold holds, and no sequence takes more than with the simplest cut. */
static void random_mixtures_hold(void **state)
{
    (void)state;
    uint32_t x = 1;
    for (int round = 0; round < 300; round++) {
        struct lf_kv_layer_spec kinds[4];
        struct lf_kv_layout l;
        int n = 1 + (int)((x = x * 1664525u + 1013904223u) >> 26);
        for (int i = 0; i < 4; i++) {
            uint32_t bits = (x = x * 1664525u + 1013904223u) >> 8;
            kinds[i] = (struct lf_kv_layer_spec){.window = (int)(bits % 3) * 500,
                                                 .n_kv_heads = 1 + (int)(bits / 3 % 8),
                                                 .head_dim = 32 * (1 + (int)(bits / 24 % 4)),
                                                 .alias_of = -1};
        }
        for (int i = 0; i < n; i++) specs[i] = kinds[(x = x * 1664525u + 1013904223u) >> 30];
        enum lf_dtype dtype = round % 2 ? LF_F32 : LF_BF16;
        assert_int_equal(lf_kv_layout_make(&l, specs, n, dtype, NULL), LF_OK);
        check(&l, dtype);
        compare_with_a_group_for_each_kind(&l, dtype);
        lf_kv_layout_deinit(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_that_are_all_alike_are_one_group_of_exactly_their_bytes),
        cmocka_unit_test(published_models_are_cut_as_by_hand),
        cmocka_unit_test(fp8_pages_of_two_head_dims_share_blocks_as_those_of_bf16_do),
        cmocka_unit_test(states_behind_blocks_of_fp8_are_aligned),
        cmocka_unit_test(qwen2_with_windows_from_a_layer_on_is_cut_without_waste),
        cmocka_unit_test(layers_of_different_shapes_share_blocks_that_hold_pages_of_both),
        cmocka_unit_test(aliases_take_no_room_and_lie_where_their_source_does),
        cmocka_unit_test(layers_with_states_are_in_no_group_and_make_slots_of_whole_blocks),
        cmocka_unit_test(states_and_windows_and_aliases_stand_side_by_side),
        cmocka_unit_test(the_scheduler_is_told_the_window_of_each_group),
        cmocka_unit_test(hostile_layers_are_refused),
        cmocka_unit_test(sixteen_kinds_are_sixteen_groups_and_more_are_refused),
        cmocka_unit_test(random_mixtures_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
