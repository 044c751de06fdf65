/* How fast blocks go to the host's memory and come back, beside the same memory copied raw in the same run.
 *
 *     bench_memory_tier [--device cuda] [--layers 32] [--kv-heads 8] [--head-dim 128] [--tokens 131072] [--rounds 5]
 *
 * The shape is an 8B model's: 128K tokens are 2,048 blocks of 8 MiB, 16 GiB on the device and as much on the host.
 * Prints how long pinning took, then for each round the raw rate to the device (two lanes, pieces of 32 MiB, in order),
 * the rate of loads through the tier (into other blocks than they came from), their ratio, and the same of saves; last
 * the medians. Some blocks are compared with what was saved. "engine" is what the engine's thread spends for each
 * block. On a CPU (--device cpu) it measures memcpy. Exit status 77 where the device does not open. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/mix.h"
#include "kv/kv_cache.h"
#include "kv/tiers/memory_tier.h"

enum { ROUNDS_MAX_N = 99, RAW_LANES_N = 2, COMPARED_N = 8, N_LOADERS = 4 };
#define PIECE_BYTES ((uint64_t)32 << 20)

struct bench {
    const char *device;
    uint64_t n_layers, n_kv_heads, head_dim, n_tokens, n_rounds;
    struct lf_device *dev;
    struct lf_kv_cache kv;
    uint64_t block_bytes;
    int n_blocks;
    struct lf_buffer slots;
    struct lf_tier *tier;
    int64_t began_ns, engine_ns;
    uint64_t n_saved_in; /* rounds: each saves other keys */
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool is_woken; /* under the lock */
};

static void stop(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static enum lf_status copy_out(void *ctx, int lane, void *dst, int32_t block, struct lf_err *err)
{
    return lf_kv_cache_copy_out(ctx, lane, dst, block, err);
}

static enum lf_status copy_in(void *ctx, int lane, int32_t block, const void *src, struct lf_err *err)
{
    return lf_kv_cache_copy_in(ctx, lane, block, src, err);
}

static enum lf_status pin(void *ctx, void *ptr, uint64_t bytes, struct lf_err *err)
{
    return lf_host_pin(((struct lf_kv_cache *)ctx)->dev, ptr, bytes, err);
}

static void unpin(void *ctx, void *ptr)
{
    lf_host_unpin(((struct lf_kv_cache *)ctx)->dev, ptr);
}

static void wake(void *ctx)
{
    struct bench *b = ctx;
    pthread_mutex_lock(&b->lock);
    b->is_woken = true;
    pthread_cond_signal(&b->woken);
    pthread_mutex_unlock(&b->lock);
}

static void await(struct bench *b)
{
    pthread_mutex_lock(&b->lock);
    while (!b->is_woken) pthread_cond_wait(&b->woken, &b->lock);
    b->is_woken = false;
    pthread_mutex_unlock(&b->lock);
}

/* ---- raw ---- */

struct raw {
    struct bench *bench;
    pthread_t thread;
    int lane;
    bool out;
};

static void *move_raw(void *arg)
{
    const struct raw *r = arg;
    struct bench *b = r->bench;
    uint64_t per_piece = LF_MAX(PIECE_BYTES / b->block_bytes, 1u), n = (uint64_t)b->n_blocks;
    struct lf_err err;
    for (uint64_t i = (uint64_t)r->lane * per_piece; i < n; i += RAW_LANES_N * per_piece) {
        uint64_t bytes = LF_MIN(per_piece, n - i) * b->block_bytes;
        char *host = (char *)b->slots.ptr + i * b->block_bytes, *there = (char *)b->kv.buffer.ptr + i * b->block_bytes;
        enum lf_status status = r->out ? lf_copy_out(b->dev, r->lane, host, there, bytes, &err)
                                       : lf_copy_in(b->dev, r->lane, there, host, bytes, &err);
        if (status != LF_OK) stop("raw", err.message);
    }
    return NULL;
}

/* Bytes a second. Pieces are as large as what is pinned at once, and begin where that does. */
static double raw_rate(struct bench *b, bool out)
{
    struct raw raws[RAW_LANES_N];
    int64_t began_ns = lf_clock_ns();
    for (int i = 0; i < RAW_LANES_N; i++) {
        raws[i] = (struct raw){.bench = b, .lane = i, .out = out};
        if (pthread_create(&raws[i].thread, NULL, move_raw, &raws[i]) != 0) stop("raw", "no thread");
    }
    for (int i = 0; i < RAW_LANES_N; i++) pthread_join(raws[i].thread, NULL);
    return (double)b->n_blocks * (double)b->block_bytes / (double)(lf_clock_ns() - began_ns) * 1e9;
}

/* ---- through the tier ---- */

/* Saved from block `number`, loaded to the one that mirrors it. */
static void set_job(const struct bench *b, struct lf_tier_job *job, enum lf_tier_way way, int number)
{
    uint64_t name = b->n_saved_in << 32 | (uint64_t)number;
    memset(&job->prev, 0, sizeof(job->prev));
    memset(job->ids, 0, sizeof(job->ids));
    job->origin = (struct lf_prefix_origin){0};
    lf_sha256(&name, sizeof(name), job->key.bytes);
    job->way = way;
    job->block = way == LF_TIER_SAVE ? number : b->n_blocks - 1 - number;
}

static bool submit_one(struct bench *b, enum lf_tier_way way, int number)
{
    struct lf_tier_job job;
    set_job(b, &job, way, number); /* an engine knows keys and ids already */
    int64_t began_ns = lf_clock_ns();
    struct lf_tier_job *to = lf_tier_job(b->tier);
    if (!to) return false;
    LF_ASSERT(lf_tier_has(b->tier, &job.key) == (way == LF_TIER_LOAD));
    struct lf_list node = to->node;
    *to = job;
    to->node = node;
    lf_tier_submit(b->tier, to);
    b->engine_ns += lf_clock_ns() - began_ns;
    return true;
}

static bool end_one(struct bench *b)
{
    int64_t began_ns = lf_clock_ns();
    struct lf_tier_job *job = lf_tier_back(b->tier);
    if (!job) return false;
    if (job->status != LF_OK) stop("a block", lf_status_name(job->status));
    lf_tier_done(b->tier, job);
    b->engine_ns += lf_clock_ns() - began_ns;
    return true;
}

static double tier_rate(struct bench *b, enum lf_tier_way way)
{
    int64_t began_ns = lf_clock_ns();
    int n_submitted = 0, n_back = 0;
    b->engine_ns = 0;
    while (n_back < b->n_blocks) {
        while (end_one(b)) n_back++;
        while (n_submitted < b->n_blocks && submit_one(b, way, n_submitted)) n_submitted++;
        if (n_back < b->n_blocks) await(b);
    }
    return (double)b->n_blocks * (double)b->block_bytes / (double)(lf_clock_ns() - began_ns) * 1e9;
}

/* ---- some blocks, compared ---- */

static int compared(const struct bench *b, int i)
{
    return (int)((int64_t)i * (b->n_blocks - 1) / (COMPARED_N - 1));
}

static void fill(const struct bench *b, uint64_t *words, int number)
{
    for (uint64_t i = 0; i < b->block_bytes / 8; i++) words[i] = lf_random64(b->n_saved_in << 32 | (uint64_t)number, i);
}

static void put_or_compare(struct bench *b, bool puts)
{
    uint64_t *want = malloc(b->block_bytes), *got = malloc(b->block_bytes);
    struct lf_err err;
    if (!want || !got) stop("compare", "no memory");
    for (int i = 0; i < COMPARED_N; i++) {
        int number = compared(b, i), block = puts ? number : b->n_blocks - 1 - number;
        void *there = lf_kv_page(&b->kv.view, block, 0, LF_KV_K, 0);
        fill(b, want, number);
        if (puts) lf_upload(b->dev, there, want, b->block_bytes);
        if (!puts) lf_download(b->dev, got, there, b->block_bytes);
        if (lf_device_sync(b->dev, &err) != LF_OK) stop("compare", err.message);
        if (!puts && memcmp(got, want, b->block_bytes) != 0) stop("load", "other bytes came back");
    }
    free(got);
    free(want);
}

/* ---- all of it ---- */

static void open_all(struct bench *b)
{
    struct lf_err err;
    const struct lf_device_opts dev = {.name = b->device, .max_isa = -1};
    const struct lf_kv_cache_opts kv = {.dtype = LF_BF16,
                                        .n_blocks = (int)(b->n_tokens / LF_KV_BLOCK_TOKENS),
                                        .n_layers = (int)b->n_layers,
                                        .n_kv_heads = (int)b->n_kv_heads,
                                        .head_dim = (int)b->head_dim};
    if (lf_device_open(&b->dev, &dev, &err) != LF_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(77);
    }
    if (lf_kv_cache_open(&b->kv, b->dev, &kv, &err) != LF_OK) stop("cache", err.message);
    b->block_bytes = lf_kv_block_bytes(&b->kv.view);
    b->n_blocks = kv.n_blocks;
    if (lf_memory_slot_bytes(b->block_bytes) != b->block_bytes || PIECE_BYTES % b->block_bytes != 0)
        stop("shape", "expected blocks of a power of two of at most 32 MiB");
    if (lf_host_alloc(b->dev, &b->slots, (uint64_t)b->n_blocks * b->block_bytes, "slots", &err) != LF_OK)
        stop("slots", err.message);
    const struct lf_memory_tier_opts opts = {
        .slots = b->slots.ptr,
        .n_slots = (uint32_t)b->n_blocks,
        .block_bytes = b->block_bytes,
        .copy = {.out = copy_out, .in = copy_in, .pin = pin, .unpin = unpin, .ctx = &b->kv, .first_lane = RAW_LANES_N},
        .wake = wake,
        .wake_ctx = b,
        .n_jobs = 1024,
        .n_loaders = N_LOADERS};
    b->began_ns = lf_clock_ns();
    if (lf_memory_tier_create(&b->tier, &opts, &err) != LF_OK) stop("tier", err.message);
}

static void await_pinned(const struct bench *b)
{
    struct lf_tier_stats stats = {0};
    while (stats.n_slots < (uint32_t)b->n_blocks) {
        lf_clock_sleep_ms(1);
        lf_tier_stats(b->tier, &stats);
    }
    double s = (double)(lf_clock_ns() - b->began_ns) / 1e9, gib = (double)b->slots.bytes / (1 << 30);
    printf("%d blocks of %.2f MiB, %.1f GiB; pinned in %.2f s, %.2f s a GiB\n", b->n_blocks,
           (double)b->block_bytes / (1 << 20), gib, s, s / gib);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *x, uint64_t n)
{
    qsort(x, n, sizeof *x, by_value);
    return x[n / 2];
}

static void measure(struct bench *b)
{
    enum { RAW_IN, LOAD, RATIO_IN, RAW_OUT, SAVE, RATIO_OUT, FIGURES_N };
    static double x[FIGURES_N][ROUNDS_MAX_N];
    const char *const line = "raw in %6.2f GB/s, loads %6.2f, ratio %.3f; raw out %6.2f GB/s, saves %6.2f, ratio %.3f; "
                             "restored in %.3f s, engine %.2f us a block%s\n";
    double gb = (double)b->n_blocks * (double)b->block_bytes / 1e9;
    for (uint64_t r = 0; r < b->n_rounds; r++) {
        b->n_saved_in = r + 1;
        x[RAW_OUT][r] = raw_rate(b, true) / 1e9;
        put_or_compare(b, true);
        x[SAVE][r] = tier_rate(b, LF_TIER_SAVE) / 1e9;
        x[RAW_IN][r] = raw_rate(b, false) / 1e9;
        x[LOAD][r] = tier_rate(b, LF_TIER_LOAD) / 1e9;
        put_or_compare(b, false);
        x[RATIO_IN][r] = x[LOAD][r] / x[RAW_IN][r];
        x[RATIO_OUT][r] = x[SAVE][r] / x[RAW_OUT][r];
        printf(line, x[RAW_IN][r], x[LOAD][r], x[RATIO_IN][r], x[RAW_OUT][r], x[SAVE][r], x[RATIO_OUT][r],
               gb / x[LOAD][r], (double)b->engine_ns / b->n_blocks / 1e3, "");
    }
    double m[FIGURES_N];
    for (int i = 0; i < FIGURES_N; i++) m[i] = median(x[i], b->n_rounds);
    printf(line, m[RAW_IN], m[LOAD], m[RATIO_IN], m[RAW_OUT], m[SAVE], m[RATIO_OUT], gb / m[LOAD],
           (double)b->engine_ns / b->n_blocks / 1e3, " (medians)");
}

static bool parse(struct bench *b, int argc, char **argv)
{
    const struct {
        const char *name;
        uint64_t *at;
    } opts[] = {{"--layers", &b->n_layers},
                {"--kv-heads", &b->n_kv_heads},
                {"--head-dim", &b->head_dim},
                {"--tokens", &b->n_tokens},
                {"--rounds", &b->n_rounds}};
    for (int i = 1; i + 1 < argc; i += 2) {
        bool known = strcmp(argv[i], "--device") == 0;
        if (known) b->device = argv[i + 1];
        for (size_t o = 0; o < LF_N_ELEMS(opts); o++) {
            if (strcmp(argv[i], opts[o].name) != 0) continue;
            *opts[o].at = strtoull(argv[i + 1], NULL, 10);
            known = true;
        }
        if (!known) return false;
    }
    return argc % 2 == 1 && b->n_tokens >= COMPARED_N * LF_KV_BLOCK_TOKENS && b->n_rounds >= 1 &&
           b->n_rounds <= ROUNDS_MAX_N;
}

int main(int argc, char **argv)
{
    struct bench b = {
        .device = "cuda", .n_layers = 32, .n_kv_heads = 8, .head_dim = 128, .n_tokens = 131072, .n_rounds = 5};
    if (!parse(&b, argc, argv)) {
        fprintf(stderr, "bench_memory_tier [--device NAME] [--layers N] [--kv-heads N] [--head-dim N] [--tokens N] "
                        "[--rounds N]\n");
        return 2;
    }
    pthread_mutex_init(&b.lock, NULL);
    pthread_cond_init(&b.woken, NULL);
    open_all(&b);
    await_pinned(&b);
    measure(&b);
    int64_t began_ns = lf_clock_ns();
    lf_tier_destroy(b.tier);
    printf("unpinned in %.2f s\n", (double)(lf_clock_ns() - began_ns) / 1e9);
    lf_host_free(b.dev, &b.slots);
    lf_kv_cache_close(&b.kv);
    lf_device_close(b.dev);
    return 0;
}
