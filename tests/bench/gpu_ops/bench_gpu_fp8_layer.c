/* The FP8 GEMMs of few tokens in their chain: a layer of an 8B's decode step without RoPE and attention, in a graph of
 * several layers with early launches, as a step is.
 *
 *     bench_gpu_fp8_layer [--tokens N] [--csv FILE] [--driver TEXT] [--commit TEXT]
 *
 * Half a layer is norm, GEMM, small kernel, GEMM: q, k, v, a quantization in attention's place, and o; gate and up,
 * activation, and down. Norm and activation write codes. "one behind another" is the whole layer without early
 * launches. Medians; microseconds a layer; beside what its weights take at the rate of a copy. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "core/check.h"
#include "device/cuda/cuda_impl.h"
#include "device/cuda/gemm_fp8_sm90.h"
#include "tests/bench/gpu_ops/bench_timing.h"

enum { DIM = 4096, QKV = 6144, HIDDEN = 14336, N_LAYERS = 8, N_CALLS = 16, SCALES_N = 2 * HIDDEN };
enum { BLOCK_BYTES = 16 << 20 }; /* of random codes, repeated through the weights */
enum half { ATTENTION = 1, MLP = 2 };

static const size_t qkv_bytes = (size_t)QKV * DIM, o_bytes = (size_t)DIM * DIM, up_bytes = (size_t)2 * HIDDEN * DIM,
                    down_bytes = (size_t)DIM * HIDDEN;

struct bench {
    struct lf_device *dev;
    struct lf_buffer weights, scales, norm, stream, made, codes; /* made: of a GEMM, activations */
    double copy_gbs;                                             /* read plus written */
    int only_tokens;
    struct bench_run run;
};

struct chain {
    const struct bench *b;
    int halves, n_tokens;
    enum lf_fp8_scales by;
    bool overlaps;
};

static size_t layer_bytes(int halves)
{
    return (halves & ATTENTION ? qkv_bytes + o_bytes : 0) + (halves & MLP ? up_bytes + down_bytes : 0);
}

/* ---- the chain ---- */

static struct lf_cuda_launch launch_of(const struct chain *c)
{
    struct lf_cuda_launch how = lf_cuda_launch(c->b->dev);
    how.overlaps = c->overlaps;
    return how;
}

static struct lf_x_codes codes_of(const struct chain *c, int dim)
{
    return lf_x_codes_at(c->b->codes.ptr, c->n_tokens, dim, c->by);
}

static void queue_norm(const struct chain *c)
{
    struct lf_rmsnorm_params p = {.x = c->b->stream.ptr,
                                  .weight = c->b->norm.ptr,
                                  .eps = 1e-5f,
                                  .n_tokens = c->n_tokens,
                                  .dim = DIM,
                                  .codes = codes_of(c, DIM)};
    lf_cuda_check(c->b->dev, lf_cuda_rmsnorm(&p, launch_of(c)), "norm");
}

/* Onto the residual stream, or into activations. */
static void queue_gemm(const struct chain *c, size_t w_at, int n_in, int n_out, bool onto_stream)
{
    struct lf_x_codes x = codes_of(c, n_in);
    struct lf_fp8_gemm_params p = {.y = onto_stream ? c->b->stream.ptr : c->b->made.ptr,
                                   .y_float = onto_stream,
                                   .by = c->by,
                                   .x = x.codes,
                                   .x_scales = x.scales,
                                   .x_scale_stride = x.scale_stride,
                                   .w = (const uint8_t *)c->b->weights.ptr + w_at,
                                   .w_scales = c->b->scales.ptr,
                                   .residual = onto_stream ? c->b->stream.ptr : NULL,
                                   .alpha = 1.0f,
                                   .n_tokens = c->n_tokens,
                                   .n_in = n_in,
                                   .n_out = n_out,
                                   .y_stride = n_out};
    lf_cuda_check(c->b->dev, lf_cuda_gemm_fp8(&p, lf_device_info(c->b->dev)->n_sms, -1, launch_of(c)), "FP8 GEMM");
}

static void queue_quant(const struct chain *c)
{
    struct lf_quant_params p = {
        .to = codes_of(c, DIM), .x = c->b->made.ptr, .n_tokens = c->n_tokens, .n_in = DIM, .x_stride = QKV};
    lf_cuda_check(c->b->dev, lf_cuda_quant_rows(&p, launch_of(c)), "quantization");
}

static void queue_gate(const struct chain *c)
{
    struct lf_gate_mul_params p = {.gate_up = c->b->made.ptr,
                                   .n_tokens = c->n_tokens,
                                   .dim = HIDDEN,
                                   .act = LF_ACT_SILU,
                                   .codes = codes_of(c, HIDDEN)};
    lf_cuda_check(c->b->dev, lf_cuda_gate_codes(&p, launch_of(c)), "activation");
}

static void call_layer(struct lf_device *dev, const void *ctx, int call_idx)
{
    const struct chain *c = ctx;
    size_t at = (size_t)(call_idx % N_LAYERS) * layer_bytes(ATTENTION | MLP);
    (void)dev;
    if (c->halves & ATTENTION) {
        queue_norm(c);
        queue_gemm(c, at, DIM, QKV, false);
        queue_quant(c);
        queue_gemm(c, at + qkv_bytes, DIM, DIM, true);
    }
    if (c->halves & MLP) {
        queue_norm(c);
        queue_gemm(c, at + qkv_bytes + o_bytes, DIM, 2 * HIDDEN, false);
        queue_gate(c);
        queue_gemm(c, at + qkv_bytes + o_bytes + up_bytes, HIDDEN, DIM, true);
    }
}

/* ---- setup ---- */

static void copy_on(struct lf_device *dev, void *to, const void *from, size_t bytes)
{
    cudaError_t rc = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, lf_cuda_stream(dev));
    lf_cuda_check(dev, (int)rc, "copying");
}

static void fill_weights(struct bench *b)
{
    static uint8_t block[BLOCK_BYTES];
    uint64_t seed = 1;
    for (size_t i = 0; i < sizeof block; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        block[i] = (uint8_t)(seed >> 40);
        if ((block[i] & 0x7f) == 0x7f) block[i] = 0; /* no number */
    }
    lf_upload(b->dev, b->weights.ptr, block, sizeof block);
    for (size_t n = sizeof block; n < b->weights.bytes; n *= 2)
        copy_on(b->dev, (char *)b->weights.ptr + n, b->weights.ptr, LF_MIN(n, b->weights.bytes - n));
}

static void fill_floats(struct bench *b, const struct lf_buffer *to, float x)
{
    static float values[SCALES_N];
    for (size_t i = 0; i < SCALES_N; i++) values[i] = x;
    for (size_t at = 0; at < to->bytes; at += sizeof values)
        lf_upload(b->dev, (char *)to->ptr + at, values, LF_MIN(sizeof values, to->bytes - at));
}

static void allocate(struct bench *b)
{
    const size_t t = LF_FP8_FEW_TOKENS;
    b->weights = bench_alloc(b->dev, N_LAYERS * layer_bytes(ATTENTION | MLP), "weights");
    b->scales = bench_alloc(b->dev, SCALES_N * sizeof(float), "scales");
    b->norm = bench_alloc(b->dev, DIM * sizeof(float), "a norm's weight");
    b->stream = bench_alloc(b->dev, t * DIM * sizeof(float), "the residual stream");
    b->made = bench_alloc(b->dev, t * 2 * HIDDEN * 2, "activations");
    b->codes = bench_alloc(b->dev, lf_x_codes_bytes((int)t, HIDDEN), "codes");
    fill_weights(b);
    fill_floats(b, &b->scales, 1e-4f); /* outputs are about 1 */
    fill_floats(b, &b->norm, 1.0f);
    bench_check(b->dev);
}

static void free_all(struct bench *b)
{
    struct lf_buffer *const all[] = {&b->weights, &b->scales, &b->norm, &b->stream, &b->made, &b->codes};
    for (size_t i = 0; i < LF_N_ELEMS(all); i++) lf_buffer_free(b->dev, all[i]);
}

static void call_copy(struct lf_device *dev, const void *ctx, int call_idx)
{
    const struct bench *b = ctx;
    size_t half = b->weights.bytes / 2;
    (void)call_idx;
    copy_on(dev, (char *)b->weights.ptr + half, b->weights.ptr, half);
}

static void measure_copy(struct bench *b)
{
    struct bench_candidate c = {.call = call_copy, .ctx = b, .n_calls = 2};
    for (int i = 0; i < 2; i++) bench_time(b->dev, &c, 1);
    b->copy_gbs = 2.0 * (double)(b->weights.bytes / 2) / c.us * 1e-3;
    printf("a copy: %.0f GB/s, read plus written\n", b->copy_gbs);
}

/* ---- reports ---- */

static void report(const struct chain *c, const char *what, double us)
{
    const struct bench *b = c->b;
    const char *by = c->by == LF_FP8_ROWS ? "rows" : "blocks";
    double at_copy_us = (double)layer_bytes(c->halves) / b->copy_gbs * 1e-3;
    printf("%5d tokens by %-6s %-20s %9.2f us a layer, weights at a copy's rate %6.2f\n", c->n_tokens, by, what, us,
           at_copy_us);
    if (b->run.csv)
        fprintf(b->run.csv, "%s,%s,%s,%s,%d,%s,%s,%.3f,%.3f\n", b->run.date, lf_device_info(b->dev)->name,
                b->run.driver, b->run.commit, c->n_tokens, by, what, us, at_copy_us);
}

static void bench_tokens(struct bench *b, int n_tokens, enum lf_fp8_scales by)
{
    static const char *const names[] = {"qkv, o", "gate and up, down", "layer", "one behind another"};
    static const int halves[] = {ATTENTION, MLP, ATTENTION | MLP, ATTENTION | MLP};
    struct chain chains[LF_N_ELEMS(names)];
    struct bench_candidate candidates[LF_N_ELEMS(names)];
    fill_floats(b, &b->stream, 1.0f);
    for (size_t i = 0; i < LF_N_ELEMS(names); i++) {
        chains[i] = (struct chain){b, halves[i], n_tokens, by, i < 3};
        candidates[i] = (struct bench_candidate){.call = call_layer, .ctx = &chains[i], .n_calls = N_CALLS};
    }
    bench_time(b->dev, candidates, (int)LF_N_ELEMS(names));
    for (size_t i = 0; i < LF_N_ELEMS(names); i++) report(&chains[i], names[i], candidates[i].us);
}

int main(int argc, char **argv)
{
    static const int tokens[] = {1, 4, 8, 16, 32, LF_FP8_FEW_TOKENS};
    struct bench b = {0};
    bench_open(&b.run, argc, argv, "bench_gpu_fp8_layer", "--tokens", "N");
    b.dev = b.run.dev;
    b.only_tokens = b.run.own ? (int)strtol(b.run.own, NULL, 10) : 0;
    if (!b.dev->cuda->has_fp8) {
        fprintf(stderr, "bench_gpu_fp8_layer: the kernels are for Hopper\n");
        return 77;
    }
    allocate(&b);
    if (b.run.csv) fprintf(b.run.csv, "date,gpu,driver,commit,tokens,by,chain,us,at_copy_us\n");
    measure_copy(&b);
    for (int by = LF_FP8_ROWS; by >= (int)LF_FP8_BLOCKS; by--)
        for (size_t t = 0; t < LF_N_ELEMS(tokens); t++)
            if (b.only_tokens == 0 || b.only_tokens == tokens[t]) bench_tokens(&b, tokens[t], (enum lf_fp8_scales)by);
    bench_check(b.dev);
    free_all(&b);
    bench_close(&b.run);
    return 0;
}
