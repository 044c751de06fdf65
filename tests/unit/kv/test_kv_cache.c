#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/check.h"
#include "core/quant.h"
#include "kv/kv_cache.h"
#include "kv/kv_parts.h"

/* The linker sends the program's calloc here; the n-th one is refused. 0: none. */
static int fails_in;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    return fails_in > 0 && --fails_in == 0 ? NULL : __real_calloc(n, size);
}

/* And lf_device_info: what it says of a CPU may be said of a GPU too. */
static bool as_gpu;

const struct lf_device_info *__real_lf_device_info(const struct lf_device *dev);
const struct lf_device_info *__wrap_lf_device_info(const struct lf_device *dev);
const struct lf_device_info *__wrap_lf_device_info(const struct lf_device *dev)
{
    static struct lf_device_info info;
    info = *__real_lf_device_info(dev);
    if (as_gpu) info.is_host = false;
    return &info;
}

static struct lf_device *open_device(void)
{
    struct lf_device_opts opts = {.name = "cpu", .n_threads = 1, .max_isa = -1};
    struct lf_device *dev = NULL;
    assert_int_equal(lf_device_open(&dev, &opts, NULL), LF_OK);
    return dev;
}

static const struct lf_kv_cache_opts good = {
    .dtype = LF_BF16, .n_blocks = 5, .n_layers = 3, .n_kv_heads = 2, .head_dim = 6, .prefix_cache = true};

static void open_takes_exactly_the_planned_bytes_and_close_gives_them_back(void **state)
{
    (void)state;
    struct lf_device *dev = open_device();
    struct lf_kv_cache cache;
    uint64_t before = lf_device_allocated_bytes(dev);
    assert_int_equal(lf_kv_cache_open(&cache, dev, &good, NULL), LF_OK);
    assert_int_equal(cache.buffer.bytes, 5 * lf_kv_block_bytes(&cache.view));
    assert_int_equal(lf_kv_block_bytes(&cache.view), 3 * 2 * 2 * 64 * 6 * 2);
    assert_non_null(cache.prefix);
    assert_int_equal(lf_block_pool_n_available(&cache.pool), 5);
    lf_kv_cache_close(&cache);
    assert_int_equal(lf_device_allocated_bytes(dev), before);
    lf_kv_cache_close(&cache); /* a closed one is a zeroed one */
    lf_device_close(dev);
}

static enum lf_status open_as(struct lf_device *dev, bool is_gpu, enum lf_dtype dtype, enum lf_kv_order *order)
{
    struct lf_kv_cache cache;
    struct lf_kv_cache_opts o = good;
    o.dtype = dtype;
    as_gpu = is_gpu;
    enum lf_status status = lf_kv_cache_open(&cache, dev, &o, NULL);
    as_gpu = false;
    if (status != LF_OK) return status;
    *order = cache.view.order;
    lf_kv_cache_close(&cache);
    return LF_OK;
}

static void pages_lie_in_lanes_on_a_cpu_and_in_rows_on_a_gpu(void **state)
{
    (void)state;
    struct lf_device *dev = open_device();
    enum lf_kv_order order = LF_KV_ROWS;
    assert_int_equal(open_as(dev, false, LF_BF16, &order), LF_OK);
    assert_int_equal(order, LF_KV_LANES);
    assert_int_equal(open_as(dev, true, LF_BF16, &order), LF_OK);
    assert_int_equal(order, LF_KV_ROWS);
    assert_int_equal(open_as(dev, true, LF_F16, &order), LF_OK);
    assert_int_equal(open_as(dev, true, LF_F32, &order), LF_UNSUPPORTED);
    lf_device_close(dev);
}

/* Two layers with 3 heads of 96 and a window, one with one of 128: blocks of 98,304 bytes. */
static struct lf_kv_layout two_groups(void)
{
    const struct lf_kv_layer_spec specs[3] = {{.window = 64, .n_kv_heads = 3, .head_dim = 96, .alias_of = -1},
                                              {.n_kv_heads = 1, .head_dim = 128, .alias_of = -1},
                                              {.window = 64, .n_kv_heads = 3, .head_dim = 96, .alias_of = -1}};
    struct lf_kv_layout layout;
    assert_int_equal(lf_kv_layout_make(&layout, specs, 3, LF_BF16, NULL), LF_OK);
    return layout;
}

static void each_group_has_a_view_of_the_same_blocks(void **state)
{
    (void)state;
    struct lf_device *dev = open_device();
    struct lf_kv_layout layout = two_groups();
    struct lf_kv_cache_opts o = {.dtype = LF_BF16, .n_blocks = 5, .layout = &layout};
    struct lf_kv_cache cache;
    assert_int_equal(lf_kv_cache_open(&cache, dev, &o, NULL), LF_OK);
    assert_int_equal(cache.n_groups, layout.n_groups);
    assert_int_equal(cache.buffer.bytes, 5 * layout.block_bytes);
    for (int g = 0; g < layout.n_groups; g++) {
        struct lf_kv_view v = lf_kv_cache_view(&cache, g);
        assert_int_equal(v.group, g);
        assert_int_equal(v.n_layers, layout.groups[g].n_layers);
        assert_int_equal(v.n_kv_heads, layout.groups[g].n_kv_heads);
        assert_int_equal(v.head_dim, layout.groups[g].head_dim);
        assert_int_equal(lf_kv_block_bytes(&v), layout.block_bytes);
        assert_true(v.base == cache.buffer.ptr && v.n_blocks == 5 && v.order == cache.view.order);
        assert_true(lf_kv_layers_pages(&v) <= v.block_pages);
        assert_ptr_equal(lf_kv_page(&v, 4, 0, LF_KV_K, 0), (char *)cache.buffer.ptr + 4 * layout.block_bytes);
    }
    lf_kv_cache_close(&cache);
    lf_kv_layout_deinit(&layout);
    lf_device_close(dev);
}

/* A layer of attention and two with states of 40,448 bytes: blocks of 49,152, slots of two. */
static struct lf_kv_layout with_states(void)
{
    const struct lf_kv_layer_spec specs[3] = {{.state_bytes = 40448, .alias_of = -1},
                                              {.n_kv_heads = 2, .head_dim = 96, .alias_of = -1},
                                              {.state_bytes = 40448, .alias_of = -1}};
    struct lf_kv_layout layout;
    assert_int_equal(lf_kv_layout_make(&layout, specs, 3, LF_BF16, NULL), LF_OK);
    assert_int_equal(layout.block_bytes, 49152);
    assert_int_equal(layout.states.slot_blocks, 2);
    return layout;
}

static void a_stripe_is_of_all_groups_and_a_block_stands_for_more_tokens(void **state)
{
    (void)state;
    struct lf_device *dev = open_device();
    struct lf_kv_layout layout = two_groups();
    for (int n = 0; n <= 4; n++) {
        struct lf_kv_cache_opts o = {.dtype = LF_BF16, .n_blocks = 5, .layout = &layout};
        struct lf_kv_cache cache;
        o.stripe = (struct lf_kv_stripe){.idx = LF_MAX(n - 1, 0), .n = n};
        assert_int_equal(lf_kv_cache_open(&cache, dev, &o, NULL), LF_OK);
        assert_int_equal(cache.block_tokens, 64 * LF_MAX(n, 1));
        assert_int_equal(cache.buffer.bytes, 5 * layout.block_bytes); /* a page of 64 tokens, as ever */
        for (int g = 0; g < cache.n_groups; g++) {
            struct lf_kv_view v = lf_kv_cache_view(&cache, g);
            assert_int_equal(v.stripe.n, n);
            assert_int_equal(v.stripe.idx, o.stripe.idx);
        }
        lf_kv_cache_close(&cache);
    }
    lf_kv_layout_deinit(&layout);
    lf_device_close(dev);
}

static void slots_lie_behind_the_blocks_and_are_a_pool_of_their_own(void **state)
{
    (void)state;
    struct lf_device *dev = open_device();
    struct lf_kv_layout layout = with_states();
    struct lf_kv_cache_opts o = {
        .dtype = LF_BF16, .n_blocks = 5, .n_slots = 3, .layout = &layout, .prefix_cache = true};
    struct lf_kv_cache cache;
    int32_t slot, block;
    uint64_t before = lf_device_allocated_bytes(dev);
    assert_int_equal(lf_kv_cache_open(&cache, dev, &o, NULL), LF_OK);
    assert_int_equal(cache.buffer.bytes, (5 + 3 * 2) * layout.block_bytes);
    assert_int_equal(lf_block_pool_n_available(&cache.pool), 5);
    assert_int_equal(lf_block_pool_n_available(&cache.slots), 3);
    assert_true(cache.snapshots && cache.snapshots != cache.prefix);
    assert_true(lf_block_pool_take(&cache.slots, &slot) && lf_block_pool_take(&cache.pool, &block));
    assert_int_equal(lf_block_pool_n_available(&cache.slots), 2);
    assert_int_equal(lf_block_pool_n_available(&cache.pool), 4);
    struct lf_prefix_key roots[2];
    lf_prefix_cache_root(cache.prefix, "salt", 4, &roots[0]);
    lf_prefix_cache_root(cache.snapshots, "salt", 4, &roots[1]);
    assert_memory_equal(&roots[0], &roots[1], sizeof(roots[0])); /* one chain of keys finds both */
    for (int i = 0; i < 2; i++) {
        struct lf_state_view v = lf_kv_cache_state_view(&cache, i);
        assert_ptr_equal(v.base, (char *)cache.buffer.ptr + 5 * layout.block_bytes);
        assert_int_equal(v.slot_bytes, 2 * layout.block_bytes);
        assert_int_equal(v.offset, i * 40448);
        assert_int_equal(((uintptr_t)v.base + v.slot_bytes + v.offset) % 256, 0);
    }
    lf_kv_cache_close(&cache);
    o.prefix_cache = false;
    assert_int_equal(lf_kv_cache_open(&cache, dev, &o, NULL), LF_OK);
    assert_true(!cache.snapshots && cache.slots.n_blocks == 3);
    lf_kv_cache_close(&cache);
    assert_int_equal(lf_device_allocated_bytes(dev), before);
    lf_kv_layout_deinit(&layout);
    lf_device_close(dev);
}

/* A slot moves as the blocks that it is long, and can be poisoned; nothing else changes. */
static void a_slot_goes_out_and_comes_back_as_blocks(void **state)
{
    (void)state;
    struct lf_device *dev = open_device();
    struct lf_kv_layout layout = with_states();
    struct lf_kv_cache_opts o = {.dtype = LF_BF16, .n_blocks = 5, .n_slots = 3, .layout = &layout};
    struct lf_kv_cache cache;
    static uint8_t out[2][49152], zeros[49152];
    assert_int_equal(lf_kv_cache_open(&cache, dev, &o, NULL), LF_OK);
    struct lf_state_view v = lf_kv_cache_state_view(&cache, 1);
    char *slots[3];
    for (int i = 0; i < 3; i++) slots[i] = (char *)v.base + (size_t)i * v.slot_bytes;
    for (size_t i = 0; i < v.slot_bytes; i++) slots[1][i] = (char)(i * 7 % 251);
    for (int i = 0; i < 2; i++) assert_int_equal(lf_kv_cache_copy_out(&cache, 0, out[i], 5 + 1 * 2 + i, NULL), LF_OK);
    assert_memory_equal(out, slots[1], sizeof(out));
    for (int i = 0; i < 2; i++) assert_int_equal(lf_kv_cache_copy_in(&cache, 1, 5 + 2 * 2 + i, out[i], NULL), LF_OK);
    assert_memory_equal(slots[2], slots[1], sizeof(out));
    for (int i = 0; i < 2; i++) lf_kv_cache_poison(&cache, 5 + 1 * 2 + i);
    for (size_t i = 0; i < v.slot_bytes; i += 4) {
        float x;
        memcpy(&x, slots[1] + i, 4);
        assert_true(isnan(x));
    }
    assert_memory_equal(slots[2], out, sizeof(out));
    for (int i = 0; i < 7; i++) /* blocks, and the first slot */
        assert_memory_equal((char *)cache.buffer.ptr + (size_t)i * sizeof(zeros), zeros, sizeof(zeros));
    lf_kv_cache_close(&cache);
    lf_kv_layout_deinit(&layout);
    lf_device_close(dev);
}

static void slots_must_fit_the_layout(void **state)
{
    (void)state;
    struct lf_device *dev = open_device();
    struct lf_kv_layout layout = with_states();
    struct lf_kv_cache_opts o = {.dtype = LF_BF16, .n_blocks = 5, .layout = &layout};
    struct lf_kv_cache cache;
    struct lf_err err;
    assert_int_equal(lf_kv_cache_open(&cache, dev, &o, &err), LF_INVALID);
    assert_non_null(strstr(err.message, "layers with states need at least 1"));
    o.n_slots = INT32_MAX / 2;
    assert_int_equal(lf_kv_cache_open(&cache, dev, &o, &err), LF_LIMIT);
    o = good;
    o.n_slots = 1;
    assert_int_equal(lf_kv_cache_open(&cache, dev, &o, &err), LF_INVALID);
    assert_non_null(strstr(err.message, "no layer has a state"));
    lf_kv_layout_deinit(&layout);
    lf_device_close(dev);
}

static void bad_options_are_refused_and_leave_nothing(void **state)
{
    (void)state;
    struct lf_device *dev = open_device();
    uint64_t before = lf_device_allocated_bytes(dev);
    struct lf_kv_cache cache;
    struct lf_err err;
    struct lf_kv_cache_opts o;
#define REFUSED(status, change)                                                                                        \
    o = good, change, assert_int_equal(lf_kv_cache_open(&cache, dev, &o, &err), status),                               \
    assert_true(err.message[0] != 0)
    REFUSED(LF_UNSUPPORTED, o.dtype = LF_F16);
    REFUSED(LF_INVALID, o.n_blocks = 0);
    REFUSED(LF_INVALID, o.n_layers = 0);
    REFUSED(LF_INVALID, o.n_layers = LF_LAYERS_N + 1);
    REFUSED(LF_INVALID, o.n_kv_heads = LF_HEADS_N + 1);
    REFUSED(LF_INVALID, o.n_kv_heads = -1);
    REFUSED(LF_INVALID, o.head_dim = 7);
    REFUSED(LF_INVALID, o.head_dim = 0);
    REFUSED(LF_INVALID, o.head_dim = LF_HEAD_DIM + 2);
    REFUSED(LF_INVALID, o.stripe.n = LF_RANKS_N + 1);
    REFUSED(LF_INVALID, o.stripe.n = -1);
    REFUSED(LF_INVALID, (o.stripe.n = 2, o.stripe.idx = 2));
    REFUSED(LF_INVALID, o.stripe.idx = 1);
    REFUSED(LF_INVALID, o.stripe.idx = -1);
    assert_int_equal(lf_device_allocated_bytes(dev), before);
    lf_device_close(dev);
}

static void poison_fills_its_block_and_no_other(void **state)
{
    (void)state;
    struct lf_device *dev = open_device();
    static const enum lf_dtype types[] = {LF_F32, LF_BF16, LF_E4M3};
    for (size_t k = 0; k < LF_N_ELEMS(types); k++) {
        struct lf_kv_cache_opts o = good;
        struct lf_kv_cache cache;
        o.dtype = types[k];
        assert_int_equal(lf_kv_cache_open(&cache, dev, &o, NULL), LF_OK);
        memset(cache.view.base, 0, cache.buffer.bytes);
        lf_kv_cache_poison(&cache, 2);
        size_t n = lf_kv_block_bytes(&cache.view) / lf_dtype_bytes(types[k]); /* scales too */
        for (size_t i = 0; i < 5 * n; i++) {
            float x = types[k] == LF_F32    ? ((const float *)cache.view.base)[i]
                      : types[k] == LF_BF16 ? lf_f32_from_bf16(((const uint16_t *)cache.view.base)[i])
                                            : lf_code_number(LF_CODE_E4M3, ((const uint8_t *)cache.view.base)[i]);
            if (i / n == 2)
                assert_true(isnan(x));
            else
                assert_true(!isnan(x));
        }
        lf_kv_cache_close(&cache);
    }
    lf_device_close(dev);
}

/* Leaves other bytes where the next call has its variables. */
static void dirty_stack(int with)
{
    volatile unsigned char bytes[8192];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)with;
}

static void caches_of_one_model_share_their_keys(void **state)
{
    (void)state;
    struct lf_device *dev = open_device();
    struct lf_prefix_key keys[2];
    for (int i = 0; i < 2; i++) {
        struct lf_kv_cache cache;
        dirty_stack(0x55 * (i + 1));
        assert_int_equal(lf_kv_cache_open(&cache, dev, &good, NULL), LF_OK);
        lf_prefix_cache_root(cache.prefix, NULL, 0, &keys[i]);
        lf_kv_cache_close(&cache);
    }
    assert_memory_equal(&keys[0], &keys[1], sizeof(keys[0]));
    lf_device_close(dev);
}

static void caches_of_different_types_share_no_keys(void **state)
{
    (void)state;
    struct lf_device *dev = open_device();
    struct lf_prefix_key keys[8];
    struct lf_kv_layout groups = two_groups(), states = with_states(), one;
    const struct lf_kv_layer_spec spec = {.n_kv_heads = 2, .head_dim = 6, .alias_of = -1},
                                  alike[3] = {spec, spec, spec};
    assert_int_equal(lf_kv_layout_make(&one, alike, 3, LF_BF16, NULL), LF_OK);
    for (int i = 0; i < 8; i++) {
        struct lf_kv_cache_opts o = good;
        struct lf_kv_cache cache;
        if (i == 1) o.dtype = LF_F32;
        if (i == 2) o.identity = "x", o.identity_bytes = 1;
        if (i == 3) o.layout = &groups;
        if (i == 4) o.layout = &one;
        if (i == 5) o.layout = &states, o.n_slots = 1;
        if (i >= 6) o.stripe = (struct lf_kv_stripe){.idx = i - 6, .n = 2};
        assert_int_equal(lf_kv_cache_open(&cache, dev, &o, NULL), LF_OK);
        lf_prefix_cache_root(cache.prefix, NULL, 0, &keys[i]);
        lf_kv_cache_close(&cache);
    }
    assert_memory_not_equal(&keys[0], &keys[1], sizeof(keys[0]));
    assert_memory_not_equal(&keys[0], &keys[2], sizeof(keys[0]));
    assert_memory_not_equal(&keys[0], &keys[3], sizeof(keys[0]));
    assert_memory_equal(&keys[0], &keys[4], sizeof(keys[0])); /* one group: as it always was */
    assert_memory_not_equal(&keys[0], &keys[5], sizeof(keys[0]));
    assert_memory_not_equal(&keys[0], &keys[6], sizeof(keys[0]));
    assert_memory_not_equal(&keys[6], &keys[7], sizeof(keys[0]));
    /* What states are laid out like counts, how many slots there are does not. */
    for (int i = 0; i < 3; i++) {
        struct lf_kv_cache_opts o = {
            .dtype = LF_BF16, .n_blocks = 5, .n_slots = 1 + i, .layout = &states, .prefix_cache = true};
        struct lf_kv_cache cache;
        if (i == 2) states.states.layer_bytes -= 256;
        assert_int_equal(lf_kv_cache_open(&cache, dev, &o, NULL), LF_OK);
        lf_prefix_cache_root(cache.prefix, NULL, 0, &keys[i]);
        lf_kv_cache_close(&cache);
    }
    assert_memory_equal(&keys[0], &keys[1], sizeof(keys[0]));
    assert_memory_not_equal(&keys[0], &keys[2], sizeof(keys[0]));
    lf_kv_layout_deinit(&groups);
    lf_kv_layout_deinit(&states);
    lf_kv_layout_deinit(&one);
    lf_device_close(dev);
}

static void a_cache_past_the_address_space_is_refused(void **state)
{
    (void)state;
    struct lf_device *dev = open_device();
    struct lf_kv_cache cache;
    struct lf_kv_cache_opts o = {.dtype = LF_F32,
                                 .n_blocks = INT32_MAX,
                                 .n_layers = LF_LAYERS_N,
                                 .n_kv_heads = LF_HEADS_N,
                                 .head_dim = LF_HEAD_DIM};
    assert_int_equal(lf_kv_cache_open(&cache, dev, &o, NULL), LF_LIMIT);
    lf_device_close(dev);
}

static void open_fails_cleanly_at_every_allocation(void **state)
{
    (void)state;
    struct lf_device *dev = open_device();
    uint64_t before = lf_device_allocated_bytes(dev);
    struct lf_kv_cache cache;
    struct lf_kv_layout layout = with_states();
    const struct lf_kv_cache_opts slots = {
        .dtype = LF_BF16, .n_blocks = 5, .n_slots = 3, .layout = &layout, .prefix_cache = true};
    for (int i = 0; i < 2; i++) {
        int n = 0;
        for (enum lf_status status = LF_NO_MEMORY; status != LF_OK; n++) {
            fails_in = n + 1;
            status = lf_kv_cache_open(&cache, dev, i ? &slots : &good, NULL);
            fails_in = 0;
            if (status == LF_OK) break;
            assert_int_equal(status, LF_NO_MEMORY);
            assert_int_equal(lf_device_allocated_bytes(dev), before);
        }
        assert_true(n >= 4 * (i + 1));
        lf_kv_cache_close(&cache);
    }
    lf_kv_layout_deinit(&layout);
    lf_device_close(dev);
}

static void the_bookkeeping_is_what_the_plan_says(void **state)
{
    (void)state;
    uint64_t without = lf_kv_host_bytes(1000, 64, false), with = lf_kv_host_bytes(1000, 64, true);
    assert_int_equal(without, 1000 * sizeof(struct lf_block));
    assert_true(with > without + UINT64_C(1000) * 64 * 4 && with < without + UINT64_C(1000) * 400);
    assert_int_equal(with, without + lf_prefix_cache_host_bytes(1000, 64));
    struct lf_device *dev = open_device();
    struct lf_kv_cache cache;
    struct lf_kv_cache_opts o = good;
    o.prefix_cache = false;
    assert_int_equal(lf_kv_cache_open(&cache, dev, &o, NULL), LF_OK);
    assert_null(cache.prefix);
    lf_kv_cache_close(&cache);
    lf_device_close(dev);
}

/* From several lanes; no other block is touched. */
static void a_block_goes_out_and_comes_back(void **state)
{
    (void)state;
    struct lf_device *dev = open_device();
    struct lf_kv_cache cache;
    uint8_t out[3 * 2 * 2 * 64 * 6 * 2], zeros[sizeof(out)] = {0};
    assert_int_equal(lf_kv_cache_open(&cache, dev, &good, NULL), LF_OK);
    assert_int_equal(lf_kv_block_bytes(&cache.view), sizeof(out));
    uint8_t *blocks = cache.buffer.ptr;
    for (size_t i = 0; i < sizeof(out); i++) blocks[sizeof(out) + i] = (uint8_t)(i * 7 + 1);
    assert_int_equal(lf_kv_cache_copy_out(&cache, 0, out, 1, NULL), LF_OK);
    assert_memory_equal(out, blocks + sizeof(out), sizeof(out));
    assert_int_equal(lf_kv_cache_copy_in(&cache, LF_COPY_LANES_N - 1, 3, out, NULL), LF_OK);
    assert_memory_equal(blocks + 3 * sizeof(out), out, sizeof(out));
    for (size_t i = 0; i < 5; i++)
        if (i != 1 && i != 3) assert_memory_equal(blocks + i * sizeof(out), zeros, sizeof(out));
    lf_kv_cache_close(&cache);
    lf_device_close(dev);
}

/* Of three caches, each with bytes of its own: all on any lane, one behind the other in the order of ranks. */
static void parts_of_a_block_lie_behind_one_another(void **state)
{
    (void)state;
    enum { N = 3, BYTES = 3 * 2 * 2 * 64 * 6 * 2 };
    struct lf_device *dev = open_device();
    struct lf_kv_cache caches[N];
    struct lf_kv_parts parts = {.n = N};
    static uint8_t out[N * BYTES], zeros[BYTES];
    for (int r = 0; r < N; r++) {
        assert_int_equal(lf_kv_cache_open(&caches[r], dev, &good, NULL), LF_OK);
        parts.of[r] = &caches[r];
        for (size_t i = 0; i < BYTES; i++)
            ((uint8_t *)caches[r].buffer.ptr)[1 * BYTES + i] = (uint8_t)(i * 7 + 1 + (size_t)r);
    }
    assert_int_equal(lf_kv_parts_bytes(&parts), sizeof(out));
    for (int lane = 0; lane < 4; lane++) {
        memset(out, 0, sizeof(out));
        assert_int_equal(lf_kv_parts_copy_out(&parts, lane, out, 1, NULL), LF_OK);
        for (int r = 0; r < N; r++)
            assert_memory_equal(out + r * BYTES, (uint8_t *)caches[r].buffer.ptr + BYTES, BYTES);
    }
    assert_int_equal(lf_kv_parts_copy_in(&parts, 2, 3, out, NULL), LF_OK);
    for (int r = 0; r < N; r++) {
        const uint8_t *blocks = caches[r].buffer.ptr;
        assert_memory_equal(blocks + (size_t)3 * BYTES, out + r * BYTES, BYTES);
        assert_memory_equal(blocks + (size_t)2 * BYTES, zeros, BYTES);
        assert_memory_equal(blocks + (size_t)4 * BYTES, zeros, BYTES);
        lf_kv_cache_close(&caches[r]);
    }
    lf_device_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_takes_exactly_the_planned_bytes_and_close_gives_them_back),
        cmocka_unit_test(pages_lie_in_lanes_on_a_cpu_and_in_rows_on_a_gpu),
        cmocka_unit_test(bad_options_are_refused_and_leave_nothing),
        cmocka_unit_test(a_block_goes_out_and_comes_back),
        cmocka_unit_test(parts_of_a_block_lie_behind_one_another),
        cmocka_unit_test(a_stripe_is_of_all_groups_and_a_block_stands_for_more_tokens),
        cmocka_unit_test(slots_lie_behind_the_blocks_and_are_a_pool_of_their_own),
        cmocka_unit_test(a_slot_goes_out_and_comes_back_as_blocks),
        cmocka_unit_test(slots_must_fit_the_layout),
        cmocka_unit_test(poison_fills_its_block_and_no_other),
        cmocka_unit_test(a_cache_past_the_address_space_is_refused),
        cmocka_unit_test(open_fails_cleanly_at_every_allocation),
        cmocka_unit_test(the_bookkeeping_is_what_the_plan_says),
        cmocka_unit_test(each_group_has_a_view_of_the_same_blocks),
        cmocka_unit_test(caches_of_one_model_share_their_keys),
        cmocka_unit_test(caches_of_different_types_share_no_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
