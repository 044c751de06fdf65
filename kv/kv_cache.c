/* See kv_cache.h. Ties together the bytes (one device buffer), the pools and the prefix caches. */
#include "kv/kv_cache.h"

#include <string.h>

#include "core/check.h"
#include "core/hash.h"

static enum lf_status check_opts(const struct lf_kv_cache_opts *o, bool is_host, struct lf_err *err)
{
    if (is_host ? o->dtype == LF_F16 : o->dtype == LF_F32)
        return lf_fail(err, LF_UNSUPPORTED, "a KV cache on this device holds %s, not %s",
                       is_host ? "f32, bf16 or fp8" : "bf16, f16 or fp8", lf_dtype_name(o->dtype));
    if (o->n_blocks < 1) return lf_fail(err, LF_INVALID, "KV cache of %d blocks: at least 1", o->n_blocks);
    bool has_states = o->layout && o->layout->states.n_layers > 0;
    if (has_states ? o->n_slots < 1 : o->n_slots != 0)
        return lf_fail(err, LF_INVALID, "KV cache of %d slots: %s", o->n_slots,
                       has_states ? "layers with states need at least 1" : "no layer has a state");
    struct lf_kv_stripe stripe = o->stripe;
    if (stripe.n < 0 || stripe.n > LF_RANKS_N || stripe.idx < 0 || stripe.idx >= LF_MAX(stripe.n, 1))
        return lf_fail(err, LF_INVALID, "KV cache with stripe %d of %d: 0 to n - 1 of at most %d", stripe.idx, stripe.n,
                       LF_RANKS_N);
    return LF_OK;
}

static enum lf_status check_group(const struct lf_kv_group *g, struct lf_err *err)
{
    if (g->n_layers < 1 || g->n_layers > LF_LAYERS_N || g->n_kv_heads < 1 || g->n_kv_heads > LF_HEADS_N)
        return lf_fail(err, LF_INVALID, "KV cache of %d layers, %d heads: each must be at least 1", g->n_layers,
                       g->n_kv_heads);
    if (g->head_dim < 2 || g->head_dim % 2 != 0 || g->head_dim > LF_HEAD_DIM)
        return lf_fail(err, LF_INVALID, "KV cache with head_dim %d: must be even, 2 to %d", g->head_dim, LF_HEAD_DIM);
    return LF_OK;
}

/* The groups, and the view of the first. */
static enum lf_status set_groups(struct lf_kv_cache *cache, const struct lf_kv_cache_opts *o, struct lf_err *err)
{
    struct lf_kv_view *v = &cache->view;
    struct lf_kv_group alike = {.n_layers = o->n_layers, .n_kv_heads = o->n_kv_heads, .head_dim = o->head_dim};
    cache->n_groups = o->layout ? o->layout->n_groups : 1;
    for (int i = 0; i < cache->n_groups; i++) {
        cache->groups[i] = o->layout ? o->layout->groups[i] : alike;
        LF_TRY(check_group(&cache->groups[i], err));
    }
    cache->block_tokens = lf_kv_block_tokens(o->stripe.n);
    v->stripe = o->stripe;
    v->dtype = o->dtype;
    v->n_blocks = o->n_blocks;
    *v = lf_kv_cache_view(cache, 0);
    v->block_pages = lf_kv_layers_pages(v);
    if (!o->layout) return LF_OK;
    uint64_t page_bytes = lf_kv_page_bytes(v);
    cache->states = o->layout->states;
    v->block_pages = (int)(o->layout->block_bytes / page_bytes);
    LF_ASSERT(o->layout->block_bytes == (uint64_t)v->block_pages * page_bytes);
    return LF_OK;
}

/* A block, or a part of a slot. */
static char *block_at(const struct lf_kv_cache *cache, int32_t block)
{
    LF_ASSERT(block >= 0 && block < cache->view.n_blocks + cache->slots.n_blocks * cache->states.slot_blocks);
    return (char *)cache->view.base + (size_t)block * lf_kv_block_bytes(&cache->view);
}

struct lf_kv_windows lf_kv_cache_windows(const struct lf_kv_cache *cache)
{
    struct lf_kv_windows w = {.n = cache->n_groups, .block_tokens = cache->block_tokens};
    for (int i = 0; i < cache->n_groups; i++) w.tokens[i] = cache->groups[i].window;
    return w;
}

struct lf_kv_view lf_kv_cache_view(const struct lf_kv_cache *cache, int group)
{
    const struct lf_kv_group *g = &cache->groups[group];
    struct lf_kv_view v = cache->view;
    size_t block_bytes = lf_kv_block_bytes(&v);
    LF_ASSERT(group >= 0 && group < cache->n_groups);
    v.n_layers = g->n_layers;
    v.n_kv_heads = g->n_kv_heads;
    v.head_dim = g->head_dim;
    v.group = group;
    v.block_pages = (int)(block_bytes / lf_kv_page_bytes(&v));
    return v;
}

struct lf_state_view lf_kv_cache_state_view(const struct lf_kv_cache *cache, int state_layer)
{
    LF_ASSERT(state_layer >= 0 && state_layer < cache->states.n_layers);
    return (struct lf_state_view){.base = block_at(cache, cache->view.n_blocks),
                                  .slot_bytes = (uint64_t)cache->states.slot_blocks * lf_kv_block_bytes(&cache->view),
                                  .offset = (uint64_t)state_layer * cache->states.layer_bytes};
}

/* What makes two caches' contents interchangeable: the model, and how its keys and values are stored: four numbers, or,
 * where there are several groups or states, their shapes and where each layer lies; and of which tokens they are. */
static void hash_identity(const struct lf_kv_cache_opts *o, const struct lf_kv_cache *cache,
                          uint8_t out[LF_SHA256_BYTES])
{
    const struct lf_kv_group *g = &cache->groups[0];
    int32_t shape[4] = {(int32_t)o->dtype, g->n_layers, g->n_kv_heads, g->head_dim};
    struct lf_sha256 sha;
    lf_sha256_init(&sha);
    lf_sha256_update(&sha, shape, sizeof(shape));
    for (int i = 0; cache->n_groups > 1 && i < cache->n_groups; i++) {
        int32_t more[5] = {i, cache->groups[i].window, cache->groups[i].n_layers, cache->groups[i].n_kv_heads,
                           cache->groups[i].head_dim};
        lf_sha256_update(&sha, more, sizeof(more));
    }
    if (cache->states.n_layers > 0) {
        uint64_t states[3] = {(uint64_t)cache->states.n_layers, cache->states.layer_bytes,
                              (uint64_t)cache->states.slot_blocks};
        lf_sha256_update(&sha, states, sizeof(states));
    }
    if (cache->n_groups > 1 || cache->states.n_layers > 0) {
        lf_sha256_update(&sha, &o->layout->block_bytes, sizeof(o->layout->block_bytes));
        lf_sha256_update(&sha, o->layout->places, (size_t)o->layout->n_layers * sizeof(*o->layout->places));
    }
    if (o->stripe.n > 1) lf_sha256_update(&sha, &o->stripe, sizeof(o->stripe));
    if (o->identity_bytes > 0) lf_sha256_update(&sha, o->identity, o->identity_bytes);
    lf_sha256_final(&sha, out);
}

uint64_t lf_kv_host_bytes(int n_blocks, int block_tokens, bool prefix_cache)
{
    uint64_t pool_bytes = (uint64_t)n_blocks * sizeof(struct lf_block);
    return pool_bytes + (prefix_cache ? lf_prefix_cache_host_bytes(n_blocks, block_tokens) : 0);
}

/* Of the blocks and the slots behind them, whose parts have numbers as blocks have. */
static enum lf_status count_bytes(size_t *out, const struct lf_kv_cache *cache, const struct lf_kv_cache_opts *o,
                                  struct lf_err *err)
{
    int32_t n;
    if (__builtin_mul_overflow(o->n_slots, cache->states.slot_blocks, &n) ||
        __builtin_add_overflow(n, o->n_blocks, &n) ||
        __builtin_mul_overflow(lf_kv_block_bytes(&cache->view), (size_t)n, out))
        return lf_fail(err, LF_LIMIT, "a KV cache of %d blocks and %d slots passes the address space", o->n_blocks,
                       o->n_slots);
    return LF_OK;
}

/* A pool, and what finds its content by keys. */
static enum lf_status make_pool(struct lf_block_pool *pool, struct lf_prefix_cache **prefix, int n,
                                const struct lf_kv_cache_opts *o, const struct lf_kv_cache *cache, struct lf_err *err)
{
    uint8_t identity[LF_SHA256_BYTES];
    hash_identity(o, cache, identity);
    LF_TRY(lf_block_pool_init(pool, n, err));
    if (!o->prefix_cache) return LF_OK;
    return lf_prefix_cache_create(prefix, pool, identity, sizeof(identity), cache->block_tokens, err);
}

enum lf_status lf_kv_cache_open(struct lf_kv_cache *cache, struct lf_device *dev, const struct lf_kv_cache_opts *opts,
                                struct lf_err *err)
{
    memset(cache, 0, sizeof(*cache));
    bool is_host = lf_device_info(dev)->is_host;
    LF_TRY(check_opts(opts, is_host, err));
    cache->dev = dev;
    cache->view.order = is_host ? LF_KV_LANES : LF_KV_ROWS;
    size_t bytes = 0;
    enum lf_status status;
    LF_TRY_GOTO(set_groups(cache, opts, err), fail);
    LF_TRY_GOTO(count_bytes(&bytes, cache, opts, err), fail);
    LF_TRY_GOTO(lf_buffer_alloc(dev, &cache->buffer, bytes, "KV cache", err), fail);
    cache->view.base = cache->buffer.ptr;
    LF_TRY_GOTO(make_pool(&cache->pool, &cache->prefix, opts->n_blocks, opts, cache, err), fail);
    if (opts->n_slots > 0)
        LF_TRY_GOTO(make_pool(&cache->slots, &cache->snapshots, opts->n_slots, opts, cache, err), fail);
    return LF_OK;
fail:
    lf_kv_cache_close(cache);
    return status;
}

void lf_kv_cache_close(struct lf_kv_cache *cache)
{
    lf_prefix_cache_destroy(cache->snapshots);
    lf_block_pool_deinit(&cache->slots);
    lf_prefix_cache_destroy(cache->prefix);
    lf_block_pool_deinit(&cache->pool);
    if (cache->buffer.ptr) lf_buffer_free(cache->dev, &cache->buffer);
    memset(cache, 0, sizeof(*cache));
}

enum lf_status lf_kv_cache_copy_out(const struct lf_kv_cache *cache, int lane, void *dst, int32_t block,
                                    struct lf_err *err)
{
    return lf_copy_out(cache->dev, lane, dst, block_at(cache, block), lf_kv_block_bytes(&cache->view), err);
}

enum lf_status lf_kv_cache_copy_in(struct lf_kv_cache *cache, int lane, int32_t block, const void *src,
                                   struct lf_err *err)
{
    return lf_copy_in(cache->dev, lane, block_at(cache, block), src, lf_kv_block_bytes(&cache->view), err);
}

void lf_kv_cache_poison(struct lf_kv_cache *cache, int32_t block)
{
    enum { PIECE_BYTES = 4096 };
    uint8_t nan[PIECE_BYTES];
    if (cache->view.dtype == LF_E4M3) {
        memset(nan, 0xff, sizeof(nan)); /* a NaN of every type */
    } else if (cache->view.dtype == LF_F32) {
        const uint32_t bits = 0x7fc00000u;
        for (size_t i = 0; i < PIECE_BYTES; i += sizeof(bits)) memcpy(nan + i, &bits, sizeof(bits));
    } else {
        const uint16_t bits = 0x7fc0u; /* a NaN of fp16 too */
        for (size_t i = 0; i < PIECE_BYTES; i += sizeof(bits)) memcpy(nan + i, &bits, sizeof(bits));
    }
    char *dst = block_at(cache, block);
    size_t left = lf_kv_block_bytes(&cache->view);
    while (left > 0) {
        size_t n = LF_MIN(left, (size_t)PIECE_BYTES);
        lf_upload(cache->dev, dst, nan, n);
        dst += n;
        left -= n;
    }
}
