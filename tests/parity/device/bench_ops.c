#include "tests/parity/device/bench_ops.h"

#include <stdatomic.h>
#include <time.h>

#include "core/check.h"
#include "core/clock.h"
#include "device/cpu/threads.h"
#include "tests/parity/device/weight_fixture.h"

/* One op with its arguments, on whichever device is asked for; work is in flops or bytes a call. */
struct bench {
    const char *name;
    void (*call)(struct lf_device *dev, const void *params);
    const void *params;
    double work;
    const char *unit;
};

static void call_gemm(struct lf_device *dev, const void *p)
{
    lf_device_ops(dev)->gemm(dev, p);
}

static void call_embed(struct lf_device *dev, const void *p)
{
    lf_device_ops(dev)->embed(dev, p);
}

static void call_rmsnorm(struct lf_device *dev, const void *p)
{
    lf_device_ops(dev)->rmsnorm(dev, p);
}

static void call_gate_mul(struct lf_device *dev, const void *p)
{
    lf_device_ops(dev)->gate_mul(dev, p);
}

static void call_gather(struct lf_device *dev, const void *p)
{
    lf_device_ops(dev)->gather(dev, p);
}

/* With one thread the time that it had the CPU, which other work on the machine does not count in. */
static int64_t now_ns(struct lf_device *dev)
{
    if (lf_device_info(dev)->n_threads > 1) return lf_clock_ns();
    struct timespec ts;
    LF_ASSERT(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts) == 0);
    return (int64_t)ts.tv_sec * LF_NS_PER_S + ts.tv_nsec;
}

/* The fastest of some rounds, in nanoseconds a call. */
static double time_ns(struct lf_device *dev, const struct bench *b)
{
    double best = 1e30;
    for (int round = 0; round < 10; round++) {
        int n = 0;
        int64_t start = now_ns(dev), now = start;
        for (; now - start < 4 * LF_NS_PER_MS; n++, now = now_ns(dev)) b->call(dev, b->params);
        best = fmin(best, (double)(now - start) / n);
    }
    return best;
}

static void report(struct lf_device *reference, struct lf_device *dev, const struct bench *b)
{
    double slow = time_ns(reference, b), fast = time_ns(dev, b);
    printf("%-34s %10.1f us %8.1f %-7s  %6.1f x c\n", b->name, fast / 1e3, b->work / fast, b->unit, slow / fast);
    (void)fflush(stdout);
}

static void bench_gemm(struct lf_device *reference, struct lf_device *dev, enum lf_dtype dtype, int n_tokens, int n_in,
                       int n_out)
{
    uint64_t seed = 11;
    size_t t = (size_t)n_tokens;
    struct fixture_weight fw = fixture_weight(dev, &seed, lf_format_plain(dtype), n_out, n_in);
    float *x = fixture_floats(&seed, t * (size_t)n_in, 1.0f);
    float *y = fixture_alloc(t * (size_t)n_out * sizeof(float));
    void *scratch = fixture_alloc(lf_device_ops(dev)->gemm_scratch_bytes(n_tokens, n_in));
    struct lf_gemm_params p = {.alpha = 1,
                               .y = y,
                               .x = x,
                               .w = &fw.w,
                               .n_tokens = n_tokens,
                               .x_stride = n_in,
                               .y_stride = n_out,
                               .scratch = scratch};
    char name[64];
    (void)snprintf(name, sizeof name, "gemm %s %d x %d -> %d", lf_dtype_name(dtype), n_tokens, n_in, n_out);
    double flops = 2.0 * n_tokens * n_in * n_out;
    report(reference, dev,
           &(struct bench){.name = name, .call = call_gemm, .params = &p, .work = flops, .unit = "GFLOP/s"});
    free(scratch);
    free(y);
    free(x);
    fixture_weight_free(&fw);
}

static void bench_rows(struct lf_device *reference, struct lf_device *dev, int n_tokens, int dim)
{
    uint64_t seed = 12;
    size_t n = (size_t)n_tokens * (size_t)dim;
    float *x = fixture_floats(&seed, 2 * n, 1.0f), *out = fixture_alloc(n * sizeof(float));
    float *weight = fixture_floats(&seed, (size_t)dim, 1.0f);
    int32_t *ids = fixture_alloc((size_t)n_tokens * sizeof *ids);
    for (int i = 0; i < n_tokens; i++) ids[i] = fixture_between(&seed, 0, n_tokens - 1);
    char name[64];

    struct lf_rmsnorm_params norm = {
        .out = out, .x = x, .weight = weight, .eps = 1e-5f, .n_tokens = n_tokens, .dim = dim};
    (void)snprintf(name, sizeof name, "rmsnorm %d x %d", n_tokens, dim);
    report(reference, dev, &(struct bench){name, call_rmsnorm, &norm, 8.0 * (double)n, "GB/s"});
    struct lf_gate_mul_params silu = {.out = out, .gate_up = x, .n_tokens = n_tokens, .dim = dim};
    (void)snprintf(name, sizeof name, "gate_mul %d x %d", n_tokens, dim);
    report(reference, dev, &(struct bench){name, call_gate_mul, &silu, 12.0 * (double)n, "GB/s"});
    struct lf_gather_params gather = {.out = out, .x = x, .rows = ids, .n_rows = n_tokens, .dim = dim};
    (void)snprintf(name, sizeof name, "gather %d x %d", n_tokens, dim);
    report(reference, dev, &(struct bench){name, call_gather, &gather, 8.0 * (double)n, "GB/s"});
    free(ids);
    free(weight);
    free(out);
    free(x);
}

static void bench_embed(struct lf_device *reference, struct lf_device *dev, enum lf_dtype dtype, int n_tokens, int dim)
{
    enum { VOCAB = 4096 };
    uint64_t seed = 13;
    struct fixture_weight fw = fixture_weight(dev, &seed, lf_format_plain(dtype), VOCAB, dim);
    float *out = fixture_alloc((size_t)n_tokens * (size_t)dim * sizeof(float));
    int32_t *ids = fixture_alloc((size_t)n_tokens * sizeof *ids);
    for (int i = 0; i < n_tokens; i++) ids[i] = fixture_between(&seed, 0, VOCAB - 1);
    struct lf_embed_params p = {.scale = 1, .out = out, .table = &fw.w, .ids = ids, .n_tokens = n_tokens};
    char name[64];
    (void)snprintf(name, sizeof name, "embed %s %d x %d", lf_dtype_name(dtype), n_tokens, dim);
    double bytes = (double)n_tokens * dim * (double)(4 + lf_dtype_bytes(dtype));
    report(reference, dev, &(struct bench){name, call_embed, &p, bytes, "GB/s"});
    free(ids);
    free(out);
    fixture_weight_free(&fw);
}

struct meeting {
    _Atomic int n_arrived;
    int n;
};

/* Nobody leaves before all are there: every worker has seen the loop. */
static void meet_task(void *ctx, int task_idx, int worker_idx)
{
    (void)task_idx;
    (void)worker_idx;
    struct meeting *m = ctx;
    atomic_fetch_add(&m->n_arrived, 1);
    while (atomic_load(&m->n_arrived) < m->n) continue;
}

/* A parallel loop until all workers have met in it, and back, while they spin: the fastest of many. */
static void bench_loop(struct lf_device *dev)
{
    struct lf_threads *threads = lf_device_threads(dev);
    int64_t best = INT64_MAX;
    for (int i = 0; i < 2000; i++) {
        struct meeting m = {.n = lf_threads_n(threads)};
        int64_t start = lf_clock_ns();
        lf_threads_run(threads, m.n, meet_task, &m);
        int64_t ns = lf_clock_ns() - start;
        if (ns < best) best = ns;
    }
    printf("%-34s %10.2f us\n", "a loop in which all workers meet", (double)best / 1e3);
}

void bench_ops(struct lf_device *dev)
{
    struct lf_device *reference = fixture_open(LF_ISA_C, lf_device_info(dev)->n_threads);
    printf("%s, %d threads, against plain C with as many\n", lf_device_ops(dev)->name, lf_device_info(dev)->n_threads);
    bench_loop(dev);
    static const int rows[] = {1, 6, 512};
    for (size_t d = 0; d < LF_N_ELEMS(fixture_dtypes); d++)
        for (size_t r = 0; r < LF_N_ELEMS(rows); r++) bench_gemm(reference, dev, fixture_dtypes[d], rows[r], 896, 4864);
    for (size_t r = 0; r < LF_N_ELEMS(rows); r++) bench_gemm(reference, dev, LF_BF16, rows[r], 256, 1536);
    for (size_t r = 0; r < LF_N_ELEMS(rows); r++) bench_rows(reference, dev, rows[r], 768);
    for (size_t d = 0; d < LF_N_ELEMS(fixture_dtypes); d++) bench_embed(reference, dev, fixture_dtypes[d], 512, 256);
    lf_device_close(reference);
}
