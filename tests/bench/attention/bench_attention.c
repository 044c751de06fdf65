/* Attention beside what the same cores can do at most, measured in turn in one run.
 *
 *     bench_attention [--threads N] [--isa NAME] [--max-len N] [--reps N] [--cpu-time] [--csv FILE]
 *                     [--only prefill|decode|latency] [--kv bf16|f32|fp8]
 *
 * Each line of prefill gives GFLOP/s (4 · d per visible key and query head), the rate of register-only FMA and
 * VDPBF16PS loops run just before and after, and the ratios; medians of --reps. Decode gives GB/s of K and V beside a
 * plain read loop over the same memory. Keys and queries are random. --cpu-time counts the process's CPU time over its
 * threads instead of the wall clock: for one thread on a busy machine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attention/attention.h"
#include "bench_peak.h"
#include "core/check.h"
#include "core/clock.h"
#include "device/cpu/threads.h"

enum { MAX_REPS = 101, MAX_SEQS = 64 };

struct bench {
    struct lf_device *dev;
    enum lf_isa isa;
    int max_len, reps;
    bool cpu_time;
    const char *only; /* or NULL */
    int only_kv;      /* an lf_dtype, or -1: all */
    FILE *csv;
};

struct shape {
    const char *name;
    int n_heads, n_kv_heads, head_dim;
    int n_layers; /* of the cache decode reads; prefill measures one */
};

struct workload {
    struct shape shape;
    enum lf_dtype dtype;
    int n_seqs, n_rows, kv_len, n_layers;
    struct lf_kv_view kv;
    struct lf_kv_seq seqs[MAX_SEQS];
    struct lf_buffer cache, q, out, workspace;
    int32_t *tables;
    struct lf_attn *attn;
    struct lf_attn_params params;
};

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "bench_attention: %s\n", what);
    exit(1);
}

static double now_s(const struct bench *b)
{
    struct timespec t;
    clock_gettime(b->cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    double s = (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
    return b->cpu_time ? s / lf_device_info(b->dev)->n_threads : s;
}

static void alloc(const struct bench *b, struct lf_buffer *buf, size_t bytes, const char *what)
{
    struct lf_err err;
    if (lf_buffer_alloc(b->dev, buf, bytes, what, &err) != LF_OK) die(err.message);
}

static void fill_random(float *x, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        float a = (float)(int32_t)(seed >> 32) * 0x1p-31f;
        x[i] = a * 1.7320508f; /* variance 1 */
    }
}

static void fill_cache(struct workload *w)
{
    size_t n = (size_t)w->kv.n_blocks * lf_kv_block_elems(&w->kv), step = 4096;
    float x[4096];
    if (w->dtype == LF_E4M3) { /* random codes of numbers up to 2, scales of 1 */
        uint8_t *bytes = w->kv.base;
        for (size_t i = 0; i < lf_kv_block_bytes(&w->kv) * (size_t)w->kv.n_blocks; i++) {
            size_t at = i % lf_kv_page_bytes(&w->kv);
            bytes[i] = at < lf_kv_page_elems(&w->kv) ? (uint8_t)(0x20 + i * 2654435761u % 0x20) : 127;
        }
        return;
    }
    for (size_t at = 0; at < n; at += step) {
        fill_random(x, step, at + 1);
        lf_from_f32((char *)w->kv.base + at * lf_dtype_bytes(w->dtype), w->dtype, x, LF_MIN(step, n - at));
    }
}

static void workload_init(const struct bench *b, struct workload *w)
{
    int n_blocks = (w->kv_len + LF_KV_BLOCK_TOKENS - 1) / LF_KV_BLOCK_TOKENS, total = n_blocks * w->n_seqs;
    size_t q_bytes = (size_t)w->n_rows * (size_t)w->n_seqs * (size_t)w->shape.n_heads * (size_t)w->shape.head_dim * 4;
    w->kv = (struct lf_kv_view){.dtype = w->dtype,
                                .n_blocks = total,
                                .n_layers = w->n_layers,
                                .n_kv_heads = w->shape.n_kv_heads,
                                .head_dim = w->shape.head_dim};
    w->kv.block_pages = lf_kv_layers_pages(&w->kv);
    alloc(b, &w->cache, lf_kv_block_bytes(&w->kv) * (size_t)total, "cache");
    alloc(b, &w->q, q_bytes, "q");
    alloc(b, &w->out, q_bytes, "out");
    w->kv.base = w->cache.ptr;
    fill_cache(w);
    fill_random(w->q.ptr, q_bytes / 4, 99);
    w->tables = malloc((size_t)total * sizeof(int32_t));
    if (!w->tables) die("no memory");
    for (int i = 0; i < total; i++) w->tables[i] = (int32_t)((int64_t)i * 7919 % total); /* 7919 is prime */
    if (total % 7919 == 0) die("no order of blocks");
    for (int i = 0; i < w->n_seqs; i++)
        w->seqs[i] = (struct lf_kv_seq){.blocks = w->tables + (size_t)i * (size_t)n_blocks,
                                        .first_token = i * w->n_rows,
                                        .n_tokens = w->n_rows,
                                        .kv_len = w->kv_len};
    struct lf_attn_shape shape = {.n_heads = w->shape.n_heads,
                                  .n_kv_heads = w->shape.n_kv_heads,
                                  .head_dim = w->shape.head_dim,
                                  .kv_dtype = w->dtype,
                                  .max_tokens = w->n_rows * w->n_seqs,
                                  .max_seqs = w->n_seqs,
                                  .max_kv_len = w->kv_len,
                                  .n_schedules = 1,
                                  .n_groups = 1};
    struct lf_err err;
    alloc(b, &w->workspace, lf_attn_workspace_bytes(&shape, lf_device_info(b->dev)), "workspace");
    if (lf_attn_create(&w->attn, b->dev, b->isa, &shape, w->workspace, &err) != LF_OK) die(err.message);
    w->params = (struct lf_attn_params){
        .out = w->out.ptr, .q = w->q.ptr, .kv = &w->kv, .scale = 1.0f / sqrtf((float)w->shape.head_dim)};
}

static void workload_deinit(const struct bench *b, struct workload *w)
{
    lf_attn_destroy(w->attn);
    free(w->tables);
    lf_buffer_free(b->dev, &w->cache);
    lf_buffer_free(b->dev, &w->q);
    lf_buffer_free(b->dev, &w->out);
    lf_buffer_free(b->dev, &w->workspace);
}

/* ---- the ceilings, on all threads at once ---- */

struct ceiling {
    enum lf_isa isa;
    int kind; /* 0 FMA, 1 VDPBF16PS, 2 read */
    const char *memory;
    size_t bytes;
    int n_tasks;
    double done[512];
};

static void ceiling_task(void *ctx, int task_idx, int worker_idx)
{
    struct ceiling *c = ctx;
    (void)worker_idx;
    if (c->kind == 2) {
        size_t part = c->bytes / (size_t)c->n_tasks;
        volatile double keep = bench_read(c->isa, c->memory + part * (size_t)task_idx, part);
        (void)keep;
        c->done[task_idx] = (double)part;
    } else {
        c->done[task_idx] = c->kind ? bench_peak_dpbf16(c->isa, 200000) : bench_peak_fma(c->isa, 200000);
    }
}

/* Operations or bytes a second, in units of 10⁹. */
static double ceiling_rate(const struct bench *b, int kind, const struct lf_buffer *memory)
{
    struct lf_threads *threads = lf_device_threads(b->dev);
    struct ceiling c = {.isa = b->isa, .kind = kind, .n_tasks = lf_threads_n(threads)};
    if (memory) {
        c.memory = memory->ptr;
        c.bytes = memory->bytes;
        c.n_tasks *= 8; /* as attention hands out work */
    }
    double start = now_s(b), done = 0.0;
    lf_threads_run(threads, c.n_tasks, ceiling_task, &c);
    double s = now_s(b) - start;
    for (int i = 0; i < c.n_tasks; i++) done += c.done[i];
    return done / s * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof(*x), by_value);
    return x[n / 2];
}

/* ---- the measurements ---- */

static double run_s(const struct bench *b, struct workload *w)
{
    double start = now_s(b);
    lf_attn_schedule(w->attn, 0, w->seqs, w->n_seqs, (struct lf_attn_kind){.n_groups = 1});
    for (int layer = 0; layer < w->n_layers; layer++) {
        w->params.layer = layer;
        lf_attn_run(w->attn, 0, &w->params);
    }
    return now_s(b) - start;
}

static void prefill(const struct bench *b, const struct shape *shape, enum lf_dtype dtype, int len)
{
    struct workload w = {.shape = *shape, .dtype = dtype, .n_seqs = 1, .n_rows = len, .kv_len = len, .n_layers = 1};
    double flop = 4.0 * ((double)len * (len + 1) / 2) * shape->head_dim * shape->n_heads;
    double rate[MAX_REPS], fma[MAX_REPS], dp[MAX_REPS], of_fma[MAX_REPS], of_dp[MAX_REPS];
    workload_init(b, &w);
    run_s(b, &w);
    for (int i = 0; i < b->reps; i++) {
        double fma0 = ceiling_rate(b, 0, NULL), dp0 = ceiling_rate(b, 1, NULL);
        double s = run_s(b, &w);
        fma[i] = (fma0 + ceiling_rate(b, 0, NULL)) / 2;
        dp[i] = (dp0 + ceiling_rate(b, 1, NULL)) / 2;
        rate[i] = flop / s * 1e-9;
        of_fma[i] = fma[i] > 0 ? rate[i] / fma[i] : 0.0;
        of_dp[i] = dp[i] > 0 ? rate[i] / dp[i] : 0.0;
    }
    double r = median(rate, b->reps), f = median(fma, b->reps), d = median(dp, b->reps);
    double x = median(of_fma, b->reps), y = median(of_dp, b->reps);
    printf("prefill %-12s %-4s %6d  %8.1f GFLOP/s  fma %8.1f  dpbf16 %8.1f  of fma %5.1f%%  of dpbf16 %5.1f%%\n",
           shape->name, lf_dtype_name(dtype), len, r, f, d, x * 100, y * 100);
    if (b->csv)
        fprintf(b->csv, "prefill,%s,%s,%s,%d,1,%.2f,%.2f,%.2f,,\n", lf_isa_name(b->isa), shape->name,
                lf_dtype_name(dtype), len, r, f, d);
    workload_deinit(b, &w);
}

static void decode(const struct bench *b, const struct shape *shape, enum lf_dtype dtype, int n_seqs, int len)
{
    struct workload w = {
        .shape = *shape, .dtype = dtype, .n_seqs = n_seqs, .n_rows = 1, .kv_len = len, .n_layers = shape->n_layers};
    double rate[MAX_REPS], read[MAX_REPS], ratio[MAX_REPS];
    workload_init(b, &w);
    double bytes = (double)w.cache.bytes;
    run_s(b, &w);
    for (int i = 0; i < b->reps; i++) {
        double before = ceiling_rate(b, 2, &w.cache);
        rate[i] = bytes / run_s(b, &w) * 1e-9;
        read[i] = (before + ceiling_rate(b, 2, &w.cache)) / 2;
        ratio[i] = rate[i] / read[i];
    }
    double r = median(rate, b->reps), m = median(read, b->reps), x = median(ratio, b->reps);
    printf("decode  %-12s %-4s %6d × %-2d %6.2f GB/s  read loop %6.2f GB/s  %5.1f%%\n", shape->name,
           lf_dtype_name(dtype), len, n_seqs, r, m, x * 100);
    if (b->csv)
        fprintf(b->csv, "decode,%s,%s,%s,%d,%d,,,,%.3f,%.3f\n", lf_isa_name(b->isa), shape->name, lf_dtype_name(dtype),
                len, n_seqs, r, m);
    workload_deinit(b, &w);
}

/* Microseconds of a run, the schedule made before each or once for all. */
static double calls_us(const struct bench *b, struct workload *w, int n_calls, bool schedule_each)
{
    double start = now_s(b);
    for (int i = 0; i < n_calls; i++) {
        if (schedule_each) lf_attn_schedule(w->attn, 0, w->seqs, w->n_seqs, (struct lf_attn_kind){.n_groups = 1});
        lf_attn_run(w->attn, 0, &w->params);
    }
    return (now_s(b) - start) / n_calls * 1e6;
}

/* A step too short for its arithmetic to matter, in its first layer, which makes the task list of the schedule, and in
 * the others: medians of both, in turn. */
static void latency(const struct bench *b, const struct shape *shape, int n_seqs, int len)
{
    struct workload w = {
        .shape = *shape, .dtype = LF_BF16, .n_seqs = n_seqs, .n_rows = 1, .kv_len = len, .n_layers = 1};
    enum { CALLS = 50, TURNS = 21 };
    double first[TURNS], others[TURNS];
    workload_init(b, &w);
    run_s(b, &w);
    for (int i = 0; i < TURNS; i++) {
        first[i] = calls_us(b, &w, CALLS, true);
        others[i] = calls_us(b, &w, CALLS, false);
    }
    printf("latency %-12s bf16 %6d × %-2d with its schedule %8.2f µs  run alone %8.2f µs\n", shape->name, len, n_seqs,
           median(first, TURNS), median(others, TURNS));
    workload_deinit(b, &w);
}

static const struct shape DEMO = {"d64 4/2", 4, 2, 64, 6}, LARGE = {"d128 32/8", 32, 8, 128, 4},
                          WIDE = {"d256 16/8", 16, 8, 256, 2};
static const enum lf_dtype DTYPES[] = {LF_BF16, LF_F32, LF_E4M3};

static bool wants_kv(const struct bench *b, enum lf_dtype dtype)
{
    return b->only_kv < 0 || b->only_kv == (int)dtype;
}

static void all_prefill(const struct bench *b)
{
    for (size_t i = 0; i < LF_N_ELEMS(DTYPES); i++)
        for (int len = 512; len <= b->max_len && wants_kv(b, DTYPES[i]); len *= 2) {
            prefill(b, &DEMO, DTYPES[i], len);
            if (len <= b->max_len / 4) prefill(b, &LARGE, DTYPES[i], len);
            if (len <= b->max_len / 4) prefill(b, &WIDE, DTYPES[i], len);
        }
}

static void all_decode(const struct bench *b)
{
    for (size_t i = 0; i < LF_N_ELEMS(DTYPES); i++) { /* the same bytes in f32 and bf16, 384 and 512 MiB; fp8 half */
        int halved = DTYPES[i] == LF_F32;
        if (!wants_kv(b, DTYPES[i])) continue;
        decode(b, &DEMO, DTYPES[i], 1, 131072 >> halved);
        decode(b, &DEMO, DTYPES[i], 16, 8192 >> halved);
        decode(b, &LARGE, DTYPES[i], 2, 16384 >> halved);
        decode(b, &WIDE, DTYPES[i], 2, 16384 >> halved);
    }
}

static void all_latency(const struct bench *b)
{
    latency(b, &DEMO, 1, 100);
    latency(b, &DEMO, 16, 100);
    latency(b, &DEMO, 1, 4000);
    latency(b, &LARGE, 16, 1000);
}

static bool wanted(const struct bench *b, const char *what)
{
    return !b->only || strcmp(b->only, what) == 0;
}

static enum lf_isa isa_of(const char *name)
{
    for (int i = LF_ISA_C; i <= LF_ISA_AMX; i++)
        if (strcmp(lf_isa_name((enum lf_isa)i), name) == 0) return (enum lf_isa)i;
    die("no such --isa");
}

static void parse(struct bench *b, int argc, char **argv, struct lf_device_opts *opts, const char **isa)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--cpu-time") == 0) {
            b->cpu_time = true;
            continue;
        }
        if (!value)
            die("--threads N, --isa NAME, --max-len N, --reps N, --cpu-time, --only WHAT, --kv TYPE, --csv FILE");
        if (strcmp(argv[i], "--threads") == 0)
            opts->n_threads = (int)strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--isa") == 0)
            *isa = value;
        else if (strcmp(argv[i], "--max-len") == 0)
            b->max_len = (int)strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--reps") == 0)
            b->reps = (int)LF_MIN(strtol(value, NULL, 10), MAX_REPS);
        else if (strcmp(argv[i], "--only") == 0)
            b->only = value;
        else if (strcmp(argv[i], "--kv") == 0)
            b->only_kv = strcmp(value, "f32") == 0 ? LF_F32 : strcmp(value, "fp8") == 0 ? LF_E4M3 : LF_BF16;
        else if (strcmp(argv[i], "--csv") == 0)
            b->csv = fopen(value, "w");
        else
            die("unknown option");
        i++;
    }
    if (b->reps < 1 || b->max_len < 1) die("--reps and --max-len are at least 1");
}

int main(int argc, char **argv)
{
    struct bench b = {.max_len = 16384, .reps = 3, .only_kv = -1};
    struct lf_device_opts opts = {.name = "cpu", .max_isa = -1};
    struct lf_err err;
    const char *isa = NULL;
    parse(&b, argc, argv, &opts, &isa);
    if (lf_device_open(&b.dev, &opts, &err) != LF_OK) die(err.message);
    b.isa = isa ? isa_of(isa) : lf_device_info(b.dev)->isa;
    printf("%s, %d threads%s\n", lf_isa_name(b.isa), lf_device_info(b.dev)->n_threads, b.cpu_time ? ", CPU time" : "");
    if (b.csv) fprintf(b.csv, "what,isa,shape,kv,len,seqs,gflops,fma_gflops,dpbf16_gflops,gbs,read_gbs\n");
    if (wanted(&b, "prefill")) all_prefill(&b);
    if (wanted(&b, "decode")) all_decode(&b);
    if (wanted(&b, "latency")) all_latency(&b);
    lf_device_close(b.dev);
    if (b.csv) fclose(b.csv);
    return 0;
}
