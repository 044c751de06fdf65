/* GEMMs of coded weights on a GPU, in every format, beside bf16's and a large copy, by turns in one run.
 *
 *     bench_gpu_quant [--tokens N] [--csv FILE] [--driver TEXT] [--commit TEXT]
 *
 * Up to 16 tokens: GEMV, with as many matrices by turns that none comes from L2; GB/s of what a matrix, x and y take in
 * memory, and of a copy's rate (read plus written). More: the matrix expanded and multiplied by cuBLASLt, beside
 * cuBLASLt alone; TFLOP/s. Medians; microseconds a call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "core/check.h"
#include "device/cuda/cuda_impl.h"
#include "device/cuda/gemm_cublaslt.h"
#include "device/cuda/coded_order.h"
#include "tests/bench/gpu_ops/bench_timing.h"

enum {
    BLOCK_BYTES = 16 << 20, /* of random numbers, repeated through the weights */
    TOKENS_MOST = 8192,
    N_OUT_MOST = 57344,
    N_IN_MOST = 14336,
    ALIGN = 4096,
    MATRICES_MOST = 16
};
static const size_t weights_bytes = (size_t)3 << 30, cold_bytes = (size_t)600 << 20;

struct shape {
    const char *name;
    int n_out, n_in;
};

static const struct shape shapes[] = {{"8b qkv", 6144, 4096},
                                      {"8b out", 4096, 4096},
                                      {"8b gate up", 28672, 4096},
                                      {"8b down", 4096, 14336},
                                      {"70b gate up", 57344, 8192}};

struct kind {
    const char *name;
    struct lf_format format;
};

#define I4(name, k, z)                                                                                                 \
    {                                                                                                                  \
        name,                                                                                                          \
        {                                                                                                              \
            .dtype = LF_BF16, .code = LF_CODE_I4, .group = k, .group_rows = 1, .zeros = z                              \
        }                                                                                                              \
    }
static const struct kind kinds[] = {
    {"bf16", {.dtype = LF_BF16}},
    I4("int4 128", 128, false),
    I4("int4 128 zeros", 128, true),
    I4("int4 64", 64, false),
    I4("int4 32", 32, false),
    {"mxfp4", {.dtype = LF_BF16, .code = LF_CODE_E2M1, .group = 32, .group_rows = 1}},
    {"fp8 blocks", {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group = 128, .group_rows = 128}},
    {"fp8 rows", {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group = 0, .group_rows = 1}},
};

struct bench {
    struct lf_device *dev;
    struct lf_buffer weights, x, y, expanded;
    double copy_gbs; /* read plus written */
    int only_tokens;
    struct bench_run run;
};

/* ---- setup ---- */

static uint32_t random_bits(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static float uniform(uint64_t *seed)
{
    return (float)(random_bits(seed) >> 7) / 16777216.0f - 0.5f;
}

static void copy_on(struct lf_device *dev, void *to, const void *from, size_t bytes)
{
    cudaError_t rc = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, lf_cuda_stream(dev));
    lf_cuda_check(dev, (int)rc, "copying");
}

static void fill(struct bench *b, void *to, size_t bytes, const void *block, size_t block_bytes)
{
    size_t n = LF_MIN(block_bytes, bytes);
    lf_upload(b->dev, to, block, n);
    for (; n < bytes; n *= 2) copy_on(b->dev, (char *)to + n, to, LF_MIN(n, bytes - n));
    bench_check(b->dev);
}

static uint64_t matrix_bytes(const struct kind *k, const struct shape *s)
{
    if (lf_format_is_plain(&k->format)) return (uint64_t)s->n_out * (uint64_t)s->n_in * 2;
    return lf_coded_order_of(&k->format, s->n_out, s->n_in).bytes;
}

static size_t stride_of(const struct kind *k, const struct shape *s)
{
    return (matrix_bytes(k, s) + ALIGN - 1) / ALIGN * ALIGN;
}

static int n_matrices(const struct kind *k, const struct shape *s)
{
    size_t stride = stride_of(k, s), n = (cold_bytes + stride - 1) / stride;
    return (int)LF_MIN(LF_MAX(n, (size_t)2), (size_t)MATRICES_MOST);
}

/* Codes are any bits (of FP8 none that are no number); scales are about 1/100. */
static void fill_codes(struct bench *b, const struct kind *k, const struct shape *s)
{
    static uint8_t block[BLOCK_BYTES];
    uint64_t seed = 1;
    size_t stride = stride_of(k, s);
    for (size_t i = 0; i < sizeof block; i++) {
        block[i] = (uint8_t)random_bits(&seed);
        if ((block[i] & 0x7f) == 0x7f) block[i] = 0;
    }
    fill(b, b->weights.ptr, (size_t)n_matrices(k, s) * stride, block, sizeof block);
    struct lf_coded_order o = lf_coded_order_of(&k->format, s->n_out, s->n_in);
    for (size_t i = 0; i < sizeof block / 4; i++) {
        float scale = 0.01f + 0.01f * uniform(&seed);
        if (k->format.code == LF_CODE_E4M3)
            memcpy(block + 4 * i, &scale, 4);
        else if (k->format.code == LF_CODE_I4)
            for (int j = 0; j < 2; j++) lf_from_f32(block + 4 * i + 2 * j, LF_BF16, &scale, 1);
        else
            memset(block + 4 * i, lf_e2m1_scale_byte(1.0f / 128.0f), 4);
    }
    for (size_t m = 0; m < (size_t)n_matrices(k, s); m++) {
        char *matrix = (char *)b->weights.ptr + m * stride;
        fill(b, matrix + o.scales_at, o.zeros_at - o.scales_at, block, sizeof block);
        if (k->format.zeros)
            lf_cuda_check(b->dev, (int)cudaMemset(matrix + o.zeros_at, 7, o.bytes - o.zeros_at), "zeros");
    }
}

static void fill_halves(struct bench *b, const struct lf_buffer *buf, float scale)
{
    static uint16_t halves[BLOCK_BYTES / 2];
    uint64_t seed = 2;
    for (size_t i = 0; i < LF_N_ELEMS(halves); i++) halves[i] = lf_bf16_from_f32(uniform(&seed) * scale);
    fill(b, buf->ptr, buf->bytes, halves, sizeof halves);
}

static void call_copy(struct lf_device *dev, const void *ctx, int call_idx)
{
    const struct bench *b = ctx;
    size_t half = b->weights.bytes / 4, at = (size_t)(call_idx % 2) * 2 * half;
    copy_on(dev, (char *)b->weights.ptr + at + half, (char *)b->weights.ptr + at, half);
}

/* ---- calls ---- */

struct op {
    const struct bench *b;
    const struct shape *s;
    const struct kind *k;
    int n_tokens;
};

static struct lf_gemm_params params_of(const struct op *op, const struct lf_weight *w)
{
    return (struct lf_gemm_params){.alpha = 1.0f,
                                   .y = op->b->y.ptr,
                                   .x = op->b->x.ptr,
                                   .w = w,
                                   .n_tokens = op->n_tokens,
                                   .x_stride = op->s->n_in,
                                   .y_stride = op->s->n_out};
}

static struct lf_weight weight_of(const struct op *op, int call_idx)
{
    size_t at = (size_t)(call_idx % n_matrices(op->k, op->s)) * stride_of(op->k, op->s);
    return (struct lf_weight){
        .data = (char *)op->b->weights.ptr + at, .format = op->k->format, .n_out = op->s->n_out, .n_in = op->s->n_in};
}

static void call_gemv(struct lf_device *dev, const void *ctx, int call_idx)
{
    const struct op *op = ctx;
    struct lf_weight w = weight_of(op, call_idx);
    struct lf_gemm_params p = params_of(op, &w);
    int n_sms = lf_device_info(dev)->n_sms;
    int rc = lf_format_is_plain(&op->k->format) ? lf_cuda_gemv(&p, n_sms, lf_cuda_launch(dev))
                                                : lf_cuda_gemv_quant(&p, n_sms, lf_cuda_launch(dev));
    lf_cuda_check(dev, rc, "GEMV");
}

static void call_gemm(struct lf_device *dev, const void *ctx, int call_idx)
{
    const struct op *op = ctx;
    struct lf_weight w = weight_of(op, call_idx), plain = w;
    if (!lf_format_is_plain(&op->k->format)) {
        plain.data = op->b->expanded.ptr;
        plain.format = lf_format_plain(LF_BF16);
        lf_cuda_check(dev, lf_cuda_expand(plain.data, &w, 0, w.n_out, lf_cuda_launch(dev)), "expand");
    }
    struct lf_gemm_params p = params_of(op, &plain);
    lf_cuda_gemm_run(dev, &p);
}

/* ---- reports ---- */

static void report(const struct op *op, double us, double dense_us)
{
    const struct bench *b = op->b;
    double around = 2.0 * op->n_tokens * ((double)op->s->n_in + op->s->n_out);
    double gbs = ((double)matrix_bytes(op->k, op->s) + around) / us * 1e-3;
    double tflops = 2.0 * op->n_tokens * (double)op->s->n_in * op->s->n_out / us * 1e-6;
    printf("%-12s %5d %-15s %9.2f us %7.0f GB/s %5.1f%% %7.1f TFLOP/s, %5.2f of bf16's\n", op->s->name, op->n_tokens,
           op->k->name, us, gbs, 100.0 * gbs / b->copy_gbs, tflops, dense_us / us);
    if (b->run.csv)
        fprintf(b->run.csv, "%s,%s,%s,%s,%s,%d,%d,%d,%s,%.3f,%.1f,%.1f,%.0f\n", b->run.date,
                lf_device_info(b->dev)->name, b->run.driver, b->run.commit, op->s->name, op->s->n_out, op->s->n_in,
                op->n_tokens, op->k->name, us, gbs, tflops, b->copy_gbs);
}

static double bench_kind(struct bench *b, const struct shape *s, const struct kind *k, int n_tokens, double bf16_us)
{
    struct op op = {b, s, k, n_tokens};
    bool is_few = n_tokens <= LF_CUDA_GEMV_TOKENS;
    struct bench_candidate c = {
        .call = is_few ? call_gemv : call_gemm, .ctx = &op, .n_calls = is_few ? 2 * n_matrices(k, s) : 2};
    bench_time(b->dev, &c, 1);
    report(&op, c.us, bf16_us > 0.0 ? bf16_us : c.us);
    return c.us;
}

static void bench_shape(struct bench *b, const struct shape *s)
{
    static const int tokens[] = {1, 4, 8, 16, 32, 128, 512, 2048, TOKENS_MOST};
    double bf16_us[LF_N_ELEMS(tokens)] = {0};
    for (size_t k = 0; k < LF_N_ELEMS(kinds); k++) {
        if (lf_format_is_plain(&kinds[k].format))
            fill_halves(b, &b->weights, 0.05f);
        else
            fill_codes(b, &kinds[k], s);
        for (size_t t = 0; t < LF_N_ELEMS(tokens); t++) {
            if (b->only_tokens != 0 && b->only_tokens != tokens[t]) continue;
            double us = bench_kind(b, s, &kinds[k], tokens[t], bf16_us[t]);
            if (k == 0) bf16_us[t] = us;
        }
    }
}

/* ---- main ---- */

int main(int argc, char **argv)
{
    struct bench b = {0};
    bench_open(&b.run, argc, argv, "bench_gpu_quant", "--tokens", "N");
    b.dev = b.run.dev;
    b.only_tokens = b.run.own ? (int)strtol(b.run.own, NULL, 10) : 0;
    b.weights = bench_alloc(b.dev, weights_bytes, "weights");
    b.x = bench_alloc(b.dev, (size_t)TOKENS_MOST * N_IN_MOST * 2, "x");
    b.y = bench_alloc(b.dev, (size_t)TOKENS_MOST * N_OUT_MOST * 2, "y");
    b.expanded = bench_alloc(b.dev, (size_t)N_OUT_MOST * 8192 * 2, "expanded weights");
    fill_halves(&b, &b.weights, 0.05f);
    fill_halves(&b, &b.x, 3.0f);
    struct bench_candidate copy = {.call = call_copy, .ctx = &b, .n_calls = 2};
    for (int i = 0; i < 2; i++) bench_time(b.dev, &copy, 1);
    b.copy_gbs = 2.0 * (double)(b.weights.bytes / 4) / copy.us * 1e-3;
    printf("a copy: %.0f GB/s, read plus written\n", b.copy_gbs);
    if (b.run.csv) fprintf(b.run.csv, "date,gpu,driver,commit,shape,n_out,n_in,tokens,format,us,gbs,tflops,copy_gbs\n");
    for (size_t s = 0; s < LF_N_ELEMS(shapes); s++) bench_shape(&b, &shapes[s]);
    bench_check(b.dev);
    lf_buffer_free(b.dev, &b.expanded);
    lf_buffer_free(b.dev, &b.y);
    lf_buffer_free(b.dev, &b.x);
    lf_buffer_free(b.dev, &b.weights);
    bench_close(&b.run);
    return 0;
}
