/* How fast blocks go to a disk and come back, beside a plain read of the same bytes.
 *
 *     bench_disk_tier DIR [--block-bytes 524288] [--total-bytes 2147483648] [--batch-bytes 33554432] [--rounds 5]
 *
 * Saves blocks to two files in DIR (which it makes anew and removes), then loads them all back with 1, 2 and 4 loaders;
 * before each load the data file is read from one end to the other by O_DIRECT reads of 1 MiB. Prints the rate of the
 * saves, then for each number of loaders the medians of both rates over the rounds, and of the ratios of the pairs. A
 * load reads the block and its record, compares the SHA-256 of all bytes and copies them into the cache. "processor" is
 * the time of all threads and the kernel for it: on a busy machine it says what the rates do not. "engine" is what the
 * engine's thread spends for each block: has, job, submit, back, done. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/file.h"
#include "core/mix.h"
#include "kv/tiers/disk_tier.h"

enum { PLAIN_BYTES = 1 << 20, ROUNDS_MAX_N = 99, JOBS_MAX_N = 64 };
#define CACHE_BYTES ((uint64_t)256 << 20)

struct bench {
    const char *dir;
    uint64_t block_bytes, total_bytes, batch_bytes;
    int n_rounds, n_jobs, n_blocks;
    char data_path[PATH_MAX], index_path[PATH_MAX];
    struct lf_disk_table *table;
    struct lf_tier *tier;
    uint8_t *cache; /* n_jobs places: block i is at i % n_jobs */
    pthread_mutex_t lock;
    pthread_cond_t woken;
    bool is_woken; /* under the lock */
    int64_t engine_ns;
    double cpu_s; /* of the process, in the latest measurement */
};

static double cpu_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void stop(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static enum lf_status copy_out(void *ctx, int lane, void *dst, int32_t block, struct lf_err *err)
{
    const struct bench *b = ctx;
    (void)lane, (void)err;
    memcpy(dst, b->cache + (uint64_t)block * b->block_bytes, b->block_bytes);
    return LF_OK;
}

static enum lf_status copy_in(void *ctx, int lane, int32_t block, const void *src, struct lf_err *err)
{
    struct bench *b = ctx;
    (void)lane, (void)err;
    memcpy(b->cache + (uint64_t)block * b->block_bytes, src, b->block_bytes);
    return LF_OK;
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

static uint64_t *words_of(struct bench *b, int place)
{
    return (uint64_t *)(void *)(b->cache + (uint64_t)place * b->block_bytes);
}

/* Fills the cache, or looks whether it still holds what it was filled with. */
static void fill(struct bench *b)
{
    for (int p = 0; p < b->n_jobs; p++)
        for (uint64_t i = 0; i < b->block_bytes / 8; i++) words_of(b, p)[i] = lf_random64((uint64_t)p, i);
}

static void check(struct bench *b)
{
    for (int p = 0; p < LF_MIN(b->n_jobs, b->n_blocks); p++)
        for (uint64_t i = 0; i < b->block_bytes / 8; i++)
            if (words_of(b, p)[i] != lf_random64((uint64_t)p, i)) stop("load", "other bytes came back");
}

static void set_job(const struct bench *b, struct lf_tier_job *job, enum lf_tier_way way, int number)
{
    memset(&job->prev, 0, sizeof(job->prev));
    memset(job->ids, 0, sizeof(job->ids));
    job->ids[0] = number;
    lf_sha256(&number, sizeof(number), job->key.bytes);
    job->way = way;
    job->block = number % b->n_jobs;
    job->idx = number;
}

/* Submits one more, if there is a job for it. */
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

static struct lf_disk_tier_opts tier_opts(struct bench *b, int n_loaders)
{
    return (struct lf_disk_tier_opts){.table = b->table,
                                      .block_bytes = b->block_bytes,
                                      .copy = {.out = copy_out, .in = copy_in, .ctx = b},
                                      .wake = wake,
                                      .wake_ctx = b,
                                      .n_jobs = b->n_jobs,
                                      .n_loaders = n_loaders,
                                      .batch_bytes = b->batch_bytes};
}

/* Bytes a second for all blocks. */
static double move_all(struct bench *b, enum lf_tier_way way, int n_loaders)
{
    struct lf_err err;
    const struct lf_disk_tier_opts opts = tier_opts(b, n_loaders);
    if (lf_disk_tier_create(&b->tier, &opts, &err) != LF_OK) stop("create", err.message);
    int64_t began_ns = lf_clock_ns();
    double began_cpu_s = cpu_now_s();
    int n_submitted = 0, n_back = 0;
    b->engine_ns = 0;
    while (n_back < b->n_blocks) {
        while (end_one(b)) n_back++;
        while (n_submitted < b->n_blocks && submit_one(b, way, n_submitted)) n_submitted++;
        if (n_back < b->n_blocks) await(b);
    }
    double ns = (double)(lf_clock_ns() - began_ns);
    b->cpu_s = cpu_now_s() - began_cpu_s;
    lf_tier_destroy(b->tier);
    return (double)b->n_blocks * (double)b->block_bytes / ns * 1e9;
}

/* Bytes a second of the data file, as it is read past the page cache from its beginning to its end. */
static double read_plain(struct bench *b)
{
    struct lf_err err;
    uint64_t total = (uint64_t)b->n_blocks * lf_disk_slot_bytes(b->block_bytes);
    void *buf = aligned_alloc(LF_DISK_ALIGN_BYTES, PLAIN_BYTES);
    int fd = open(b->data_path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (!buf || fd < 0) stop(b->data_path, strerror(errno));
    int64_t began_ns = lf_clock_ns();
    double began_cpu_s = cpu_now_s();
    for (uint64_t at = 0; at < total; at += PLAIN_BYTES)
        if (lf_file_pread(fd, buf, LF_MIN(total - at, (uint64_t)PLAIN_BYTES), at, b->data_path, &err) != LF_OK)
            stop("read", err.message);
    double ns = (double)(lf_clock_ns() - began_ns);
    b->cpu_s = cpu_now_s() - began_cpu_s;
    close(fd);
    free(buf);
    return (double)total / ns * 1e9;
}

/* SHA-256 alone, on this thread: by the clock, and by the processor time that the machine gave it. */
static void print_hash_rate(const struct bench *b)
{
    uint8_t sha[LF_SHA256_BYTES];
    uint64_t n = (uint64_t)b->n_jobs * b->block_bytes;
    int64_t began_ns = lf_clock_ns();
    double began_cpu_s = cpu_now_s();
    lf_sha256(b->cache, n, sha);
    double cpu_s = cpu_now_s() - began_cpu_s;
    printf("SHA-256 on one thread: %.0f MB/s, %.0f by its processor time\n",
           (double)n / (double)(lf_clock_ns() - began_ns) * 1e3, (double)n / cpu_s / 1e6);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    return x[n / 2];
}

static void measure_loads(struct bench *b, int n_loaders)
{
    double plain[ROUNDS_MAX_N], load[ROUNDS_MAX_N], ratio[ROUNDS_MAX_N], engine[ROUNDS_MAX_N];
    double plain_cpu[ROUNDS_MAX_N], load_cpu[ROUNDS_MAX_N], gb = (double)b->n_blocks * (double)b->block_bytes / 1e9;
    for (int i = 0; i < b->n_rounds; i++) {
        memset(b->cache, 0, (uint64_t)b->n_jobs * b->block_bytes);
        plain[i] = read_plain(b);
        plain_cpu[i] = b->cpu_s / gb;
        load[i] = move_all(b, LF_TIER_LOAD, n_loaders);
        load_cpu[i] = b->cpu_s / gb;
        ratio[i] = load[i] / plain[i];
        engine[i] = (double)b->engine_ns / b->n_blocks;
        check(b);
    }
    printf(
        "%d loader%s: plain read %.0f MB/s, load %.0f MB/s, ratio %.2f; processor %.2f and %.2f s a GB; engine %.2f us "
        "a block\n",
        n_loaders, n_loaders > 1 ? "s" : " ", median(plain, b->n_rounds) / 1e6, median(load, b->n_rounds) / 1e6,
        median(ratio, b->n_rounds), median(plain_cpu, b->n_rounds), median(load_cpu, b->n_rounds),
        median(engine, b->n_rounds) / 1e3);
}

static void open_table(struct bench *b)
{
    struct lf_disk_file *index, *data;
    struct lf_err err;
    if (lf_disk_file_open(&index, b->index_path, false, &err) != LF_OK ||
        lf_disk_file_open(&data, b->data_path, true, &err) != LF_OK ||
        lf_disk_table_open(&b->table, index, data, (uint32_t)b->n_blocks, b->block_bytes, &err) != LF_OK)
        stop("open", err.message);
}

static bool parse(struct bench *b, int argc, char **argv)
{
    const struct {
        const char *name;
        uint64_t *at;
    } opts[] = {
        {"--block-bytes", &b->block_bytes}, {"--total-bytes", &b->total_bytes}, {"--batch-bytes", &b->batch_bytes}};
    for (int i = 2; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 10);
        for (size_t o = 0; o < LF_N_ELEMS(opts); o++)
            if (strcmp(argv[i], opts[o].name) == 0) *opts[o].at = value;
        if (strcmp(argv[i], "--rounds") == 0) b->n_rounds = (int)LF_MIN(value, (uint64_t)ROUNDS_MAX_N);
    }
    return argc >= 2 && argc % 2 == 0 && b->block_bytes >= 8 && b->block_bytes % 8 == 0 &&
           b->total_bytes >= b->block_bytes && b->total_bytes / b->block_bytes < 1u << 30 && b->n_rounds >= 1;
}

int main(int argc, char **argv)
{
    struct bench b = {
        .block_bytes = 512 << 10, .total_bytes = (uint64_t)2 << 30, .batch_bytes = 32 << 20, .n_rounds = 5};
    const int loaders[] = {1, 2, 4};
    if (!parse(&b, argc, argv)) {
        fprintf(stderr, "bench_disk_tier DIR [--block-bytes N] [--total-bytes N] [--batch-bytes N] [--rounds N]\n");
        return 2;
    }
    pthread_mutex_init(&b.lock, NULL);
    pthread_cond_init(&b.woken, NULL);
    b.n_blocks = (int)(b.total_bytes / b.block_bytes);
    b.n_jobs = (int)LF_MAX(LF_MIN(CACHE_BYTES / b.block_bytes, (uint64_t)JOBS_MAX_N), 1u);
    b.cache = aligned_alloc(LF_DISK_ALIGN_BYTES, LF_ROUND_UP((uint64_t)b.n_jobs * b.block_bytes, LF_DISK_ALIGN_BYTES));
    if (!b.cache) stop("cache", "no memory");
    snprintf(b.index_path, sizeof(b.index_path), "%s/bench_disk_tier.index", argv[1]);
    snprintf(b.data_path, sizeof(b.data_path), "%s/bench_disk_tier.data", argv[1]);
    (void)unlink(b.index_path);
    (void)unlink(b.data_path);
    open_table(&b);
    fill(&b);
    printf("%d blocks of %llu bytes\n", b.n_blocks, (unsigned long long)b.block_bytes);
    print_hash_rate(&b);
    double rate = move_all(&b, LF_TIER_SAVE, 1);
    printf("saved %.0f MB/s; engine %.2f us a block\n", rate / 1e6, (double)b.engine_ns / b.n_blocks / 1e3);
    for (size_t i = 0; i < LF_N_ELEMS(loaders); i++) measure_loads(&b, loaders[i]);
    lf_disk_table_close(b.table);
    (void)unlink(b.index_path);
    (void)unlink(b.data_path);
    free(b.cache);
    return 0;
}
