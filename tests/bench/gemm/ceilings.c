#include "tests/bench/gemm/ceilings.h"

#include <time.h>

#include "core/check.h"
#include "core/clock.h"
#include "device/cpu/threads.h"

int64_t bench_clock_ns(struct bench_clock clock)
{
    if (!clock.cpu_time) return lf_clock_ns();
    struct timespec ts;
    LF_ASSERT(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts) == 0);
    return (int64_t)ts.tv_sec * LF_NS_PER_S + ts.tv_nsec;
}

#ifdef __x86_64__
#include <immintrin.h>

#include "device/cpu/unroll.h"

enum { LOOPS = 20000, ACCS_512 = 24, ACCS_256 = 12, ACCS_PAIRS = 24 };

/* Each returns a sum of its accumulators, so that none can be left out. */
__attribute__((target("avx2,fma"))) static float fma_256(float seed)
{
    __m256 acc[ACCS_256], a = _mm256_set1_ps(seed), b = _mm256_set1_ps(0.5f), sum = _mm256_setzero_ps();
    LF_UNROLL
    for (int i = 0; i < ACCS_256; i++) acc[i] = _mm256_set1_ps((float)i);
    for (int n = 0; n < LOOPS; n++) {
        LF_UNROLL
        for (int i = 0; i < ACCS_256; i++) acc[i] = _mm256_fmadd_ps(acc[i], b, a);
    }
    LF_UNROLL
    for (int i = 0; i < ACCS_256; i++) sum = _mm256_add_ps(sum, acc[i]);
    return _mm256_cvtss_f32(sum);
}

__attribute__((target("avx512f"))) static float fma_512(float seed)
{
    __m512 acc[ACCS_512], a = _mm512_set1_ps(seed), b = _mm512_set1_ps(0.5f), sum = _mm512_setzero_ps();
    LF_UNROLL
    for (int i = 0; i < ACCS_512; i++) acc[i] = _mm512_set1_ps((float)i);
    for (int n = 0; n < LOOPS; n++) {
        LF_UNROLL
        for (int i = 0; i < ACCS_512; i++) acc[i] = _mm512_fmadd_ps(acc[i], b, a);
    }
    LF_UNROLL
    for (int i = 0; i < ACCS_512; i++) sum = _mm512_add_ps(sum, acc[i]);
    return _mm512_cvtss_f32(sum);
}

__attribute__((target("avx512f,avx512bf16,avx512vl"))) static float pairs_512(float seed)
{
    __m512 acc[ACCS_PAIRS], sum = _mm512_setzero_ps();
    __m512bh a = (__m512bh)_mm512_castps_si512(_mm512_set1_ps(seed)), b = a;
    LF_UNROLL
    for (int i = 0; i < ACCS_PAIRS; i++) acc[i] = _mm512_set1_ps((float)i);
    for (int n = 0; n < LOOPS; n++) {
        LF_UNROLL
        for (int i = 0; i < ACCS_PAIRS; i++) acc[i] = _mm512_dpbf16_ps(acc[i], a, b);
    }
    LF_UNROLL
    for (int i = 0; i < ACCS_PAIRS; i++) sum = _mm512_add_ps(sum, acc[i]);
    return _mm512_cvtss_f32(sum);
}

struct flops {
    float (*loop)(float seed);
    float sums[LF_THREADS_N];
};

static void flops_task(void *ctx, int task_idx, int worker_idx)
{
    (void)task_idx;
    struct flops *f = ctx;
    f->sums[worker_idx] = f->loop(f->sums[worker_idx]);
}

double ceiling_gflops(struct lf_device *dev, struct bench_clock clock, bool pairs)
{
    enum lf_isa isa = lf_device_info(dev)->isa;
    struct flops f = {.loop = fma_256};
    double per_task = 2.0 * 8 * ACCS_256 * LOOPS;
    if (isa < LF_ISA_AVX2 || (pairs && isa < LF_ISA_AVX512_BF16)) return 0.0;
    if (isa >= LF_ISA_AVX512) {
        f.loop = fma_512;
        per_task = 2.0 * 16 * ACCS_512 * LOOPS;
    }
    if (pairs) {
        f.loop = pairs_512;
        per_task = 2.0 * 32 * ACCS_PAIRS * LOOPS;
    }
    int n_tasks = 32 * lf_device_info(dev)->n_threads;
    int64_t start = bench_clock_ns(clock);
    lf_threads_run(lf_device_threads(dev), n_tasks, flops_task, &f);
    return per_task * n_tasks / (double)(bench_clock_ns(clock) - start);
}
#else
double ceiling_gflops(struct lf_device *dev, struct bench_clock clock, bool pairs)
{
    (void)dev;
    (void)clock;
    (void)pairs;
    return 0.0;
}
#endif

enum { PIECE = 64 * 1024 };

struct reading {
    const char *bytes;
    uint64_t sums[LF_THREADS_N * 8]; /* a cache line each */
};

/* Adds up one word of every cache line: what limits it is that the lines arrive. */
static void read_task(void *ctx, int task_idx, int worker_idx)
{
    struct reading *r = ctx;
    const uint64_t *words = (const uint64_t *)(const void *)(r->bytes + (size_t)task_idx * PIECE);
    uint64_t sum[4] = {0};
    for (size_t i = 0; i < PIECE / sizeof *words; i += 32)
        for (size_t j = 0; j < 4; j++) sum[j] += words[i + j * 8];
    r->sums[worker_idx * 8] += sum[0] + sum[1] + sum[2] + sum[3];
}

double ceiling_read_gbs(struct lf_device *dev, struct bench_clock clock, const struct lf_buffer *buf)
{
    static struct reading r;
    r.bytes = buf->ptr;
    int n_tasks = (int)(buf->bytes / PIECE);
    int64_t start = bench_clock_ns(clock);
    lf_threads_run(lf_device_threads(dev), n_tasks, read_task, &r);
    return (double)n_tasks * PIECE / (double)(bench_clock_ns(clock) - start);
}
