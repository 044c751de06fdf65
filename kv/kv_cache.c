/* See kv_cache.h. Ties together the bytes (one device buffer), the pool and the prefix cache. */
#include "kv/kv_cache.h"

#include <string.h>

#include "core/check.h"
#include "core/hash.h"

static enum lf_status check_opts(const struct lf_kv_cache_opts *o, bool is_host, struct lf_err *err)
{
    if (is_host ? o->dtype == LF_F16 : o->dtype == LF_F32)
        return lf_fail(err, LF_UNSUPPORTED, "a KV cache on this device holds %s, not %s",
                       is_host ? "f32 or bf16" : "bf16 or f16", lf_dtype_name(o->dtype));
    if (o->n_blocks < 1 || o->n_layers < 1 || o->n_layers > LF_LAYERS_N || o->n_kv_heads < 1 ||
        o->n_kv_heads > LF_HEADS_N)
        return lf_fail(err, LF_INVALID, "KV cache of %d blocks, %d layers, %d heads: each must be at least 1",
                       o->n_blocks, o->n_layers, o->n_kv_heads);
    if (o->head_dim < 2 || o->head_dim % 2 != 0 || o->head_dim > LF_HEAD_DIM)
        return lf_fail(err, LF_INVALID, "KV cache with head_dim %d: must be even, 2 to %d", o->head_dim, LF_HEAD_DIM);
    return LF_OK;
}

/* What makes two caches' contents interchangeable: the model, and how its keys and values are stored. */
static void hash_identity(const struct lf_kv_cache_opts *o, uint8_t out[LF_SHA256_BYTES])
{
    int32_t shape[4] = {(int32_t)o->dtype, o->n_layers, o->n_kv_heads, o->head_dim};
    struct lf_sha256 sha;
    lf_sha256_init(&sha);
    lf_sha256_update(&sha, shape, sizeof(shape));
    if (o->identity_bytes > 0) lf_sha256_update(&sha, o->identity, o->identity_bytes);
    lf_sha256_final(&sha, out);
}

uint64_t lf_kv_host_bytes(int n_blocks, bool prefix_cache)
{
    uint64_t pool_bytes = (uint64_t)n_blocks * sizeof(struct lf_block);
    return pool_bytes + (prefix_cache ? lf_prefix_cache_host_bytes(n_blocks) : 0);
}

enum lf_status lf_kv_cache_open(struct lf_kv_cache *cache, struct lf_device *dev, const struct lf_kv_cache_opts *opts,
                                struct lf_err *err)
{
    memset(cache, 0, sizeof(*cache));
    bool is_host = lf_device_info(dev)->is_host;
    LF_TRY(check_opts(opts, is_host, err));
    cache->dev = dev;
    cache->view.order = is_host ? LF_KV_LANES : LF_KV_ROWS;
    cache->view.dtype = opts->dtype;
    cache->view.n_blocks = opts->n_blocks;
    cache->view.n_layers = opts->n_layers;
    cache->view.n_kv_heads = opts->n_kv_heads;
    cache->view.head_dim = opts->head_dim;
    size_t bytes;
    if (__builtin_mul_overflow(lf_kv_block_bytes(&cache->view), (size_t)opts->n_blocks, &bytes))
        return lf_fail(err, LF_LIMIT, "a KV cache of %d blocks passes the address space", opts->n_blocks);

    enum lf_status status;
    uint8_t identity[LF_SHA256_BYTES];
    hash_identity(opts, identity);
    LF_TRY_GOTO(lf_buffer_alloc(dev, &cache->buffer, bytes, "KV cache", err), fail);
    cache->view.base = cache->buffer.ptr;
    LF_TRY_GOTO(lf_block_pool_init(&cache->pool, opts->n_blocks, err), fail);
    if (opts->prefix_cache)
        LF_TRY_GOTO(lf_prefix_cache_create(&cache->prefix, &cache->pool, identity, sizeof(identity), err), fail);
    return LF_OK;
fail:
    lf_kv_cache_close(cache);
    return status;
}

void lf_kv_cache_close(struct lf_kv_cache *cache)
{
    lf_prefix_cache_destroy(cache->prefix);
    lf_block_pool_deinit(&cache->pool);
    if (cache->buffer.ptr) lf_buffer_free(cache->dev, &cache->buffer);
    memset(cache, 0, sizeof(*cache));
}

enum lf_status lf_kv_cache_copy_out(const struct lf_kv_cache *cache, int lane, void *dst, int32_t block,
                                    struct lf_err *err)
{
    LF_ASSERT(block >= 0 && block < cache->view.n_blocks);
    const void *src = lf_kv_page(&cache->view, block, 0, LF_KV_K, 0);
    return lf_copy_out(cache->dev, lane, dst, src, lf_kv_block_bytes(&cache->view), err);
}

enum lf_status lf_kv_cache_copy_in(struct lf_kv_cache *cache, int lane, int32_t block, const void *src,
                                   struct lf_err *err)
{
    LF_ASSERT(block >= 0 && block < cache->view.n_blocks);
    void *dst = lf_kv_page(&cache->view, block, 0, LF_KV_K, 0);
    return lf_copy_in(cache->dev, lane, dst, src, lf_kv_block_bytes(&cache->view), err);
}

void lf_kv_cache_poison(struct lf_kv_cache *cache, int32_t block)
{
    enum { PIECE_BYTES = 4096 };
    LF_ASSERT(block >= 0 && block < cache->view.n_blocks);
    uint8_t nan[PIECE_BYTES];
    if (cache->view.dtype == LF_F32) {
        const uint32_t bits = 0x7fc00000u;
        for (size_t i = 0; i < PIECE_BYTES; i += sizeof(bits)) memcpy(nan + i, &bits, sizeof(bits));
    } else {
        const uint16_t bits = 0x7fc0u; /* a NaN of fp16 too */
        for (size_t i = 0; i < PIECE_BYTES; i += sizeof(bits)) memcpy(nan + i, &bits, sizeof(bits));
    }
    char *dst = lf_kv_page(&cache->view, block, 0, LF_KV_K, 0);
    size_t left = lf_kv_block_bytes(&cache->view);
    while (left > 0) {
        size_t n = LF_MIN(left, (size_t)PIECE_BYTES);
        lf_upload(cache->dev, dst, nan, n);
        dst += n;
        left -= n;
    }
}
