/* The ops of experts of a GPU in the shapes of two models, beside what the same GPU does at most, by turns in one run.
 *
 *     bench_gpu_experts [--tokens N] [--csv FILE] [--driver TEXT] [--commit TEXT]
 *
 * Random logits choose the experts, so each has about as much to do; weights come from memory each time (several layers
 * by turns, with other experts each); the same of FP8 in blocks and of MXFP4. For the grouped GEMMs: GB/s of what must
 * be read and written at least (the weights of the experts that have rows, once), and of a large copy's rate; TFLOP/s,
 * and of the rate of cuBLASLt's dense GEMM with one matrix and as many rows, timed beside them. Medians; microseconds a
 * call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "core/check.h"
#include "device/cuda/coded_order.h"
#include "device/cuda/cuda_impl.h"
#include "device/cuda/expert_gemm_fp8_sm90.h"
#include "device/cuda/gemm_fp8_sm90.h"
#include "device/cuda/gemm_cublaslt.h"
#include "tests/bench/gpu_ops/bench_timing.h"

enum {
    BLOCK_BYTES = 16 << 20, /* of random numbers, repeated through the weights */
    N_LAYERS = 4,           /* with weights and experts of their own */
    TOKENS_MOST = 8192,
    EXPERTS_MOST = 128,
    ROWS_MOST = 65536,
    HIDDEN_MOST = 2880,
    X_MOST = 2048 /* channels of ROWS_MOST rows */
};

struct shape {
    const char *name;
    int hidden, n_experts, k, width;
};

static const struct shape shapes[] = {{"qwen3-30b-a3b", 2048, 128, 8, 768}, {"gpt-oss-20b", 2880, 32, 4, 2880}};

struct bench {
    struct lf_device *dev;
    struct lf_buffer weights, x, y, codes, scratch, logits, routing;
    double copy_gbs; /* read plus written */
    int only_tokens;
    struct bench_run run;
};

/* ---- setup ---- */

static float uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (float)(*seed >> 40) / 16777216.0f - 0.5f;
}

static void copy_on(struct lf_device *dev, void *to, const void *from, size_t bytes)
{
    cudaError_t rc = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, lf_cuda_stream(dev));
    lf_cuda_check(dev, (int)rc, "copying");
}

static void fill(struct bench *b, const struct lf_buffer *buf, const void *block, size_t block_bytes)
{
    size_t n = LF_MIN(block_bytes, buf->bytes);
    lf_upload(b->dev, buf->ptr, block, n);
    for (; n < buf->bytes; n *= 2) copy_on(b->dev, (char *)buf->ptr + n, buf->ptr, LF_MIN(n, buf->bytes - n));
    bench_check(b->dev);
}

static void fill_all(struct bench *b)
{
    static uint16_t halves[BLOCK_BYTES / 2];
    static float floats[(size_t)N_LAYERS * TOKENS_MOST * EXPERTS_MOST];
    uint64_t seed = 1;
    for (size_t i = 0; i < LF_N_ELEMS(halves); i++) halves[i] = lf_bf16_from_f32(uniform(&seed) * 0.05f);
    for (size_t i = 0; i < LF_N_ELEMS(floats); i++) floats[i] = uniform(&seed);
    fill(b, &b->weights, halves, sizeof halves);
    fill(b, &b->x, halves, sizeof halves);
    fill(b, &b->y, halves, sizeof halves);
    fill(b, &b->logits, floats, sizeof floats);
}

static void call_copy(struct lf_device *dev, const void *ctx, int call_idx)
{
    const struct bench *b = ctx;
    size_t half = b->weights.bytes / 4, at = (size_t)(call_idx % 2) * 2 * half;
    copy_on(dev, (char *)b->weights.ptr + at + half, (char *)b->weights.ptr + at, half);
}

/* ---- a layer's ops ---- */

/* FP8: x is quantized, then multiplied; FP8_CODES: x is there as codes; then by the launcher's tiles. */
enum way { BY_TABLE, GEMV, HOPPER_128, HOPPER_256, HOPPER_96, FP8, FP8_CODES, FP8_128, FP8_256, FP8_96, MXFP4, DENSE };

static const struct lf_format fp8 = {LF_BF16, LF_CODE_E4M3, 128, 128, false, LF_F32};
static const struct lf_format mxfp4 = {LF_BF16, LF_CODE_E2M1, 32, 1, false, LF_F32};

struct op {
    const struct bench *b;
    const struct shape *s;
    int n_tokens;
    enum way way;
    int n_in, n_out; /* of a grouped GEMM */
    bool by_token, y_float;
};

static bool is_fp8(enum way way)
{
    return way >= FP8 && way <= FP8_96;
}

static int n_x_rows(const struct op *op)
{
    return op->by_token ? op->n_tokens : op->n_tokens * op->s->k;
}

static struct lf_x_codes codes_of(const struct op *op)
{
    return lf_x_codes_at(op->b->codes.ptr, n_x_rows(op), op->n_in, LF_FP8_BLOCKS);
}

/* x as codes, once. */
static void quantize(const struct op *op)
{
    struct lf_device *dev = op->b->dev;
    struct lf_quant_params p = {
        .to = codes_of(op), .x = op->b->x.ptr, .n_tokens = n_x_rows(op), .n_in = op->n_in, .x_stride = op->n_in};
    lf_cuda_check(dev, lf_cuda_quant_rows(&p, lf_cuda_launch(dev)), "quantizing");
    bench_check(dev);
}

static int32_t *routing_of(const struct op *op, int call_idx)
{
    size_t ints = op->b->routing.bytes / sizeof(int32_t) / N_LAYERS;
    return (int32_t *)op->b->routing.ptr + (size_t)(call_idx % N_LAYERS) * ints;
}

/* In a layer's part of the routing: rows, places, first, weights. */
static struct lf_route_params route_of(const struct op *op, int call_idx)
{
    int32_t *at = routing_of(op, call_idx);
    size_t n = (size_t)op->n_tokens * (size_t)op->s->k, n_logits = (size_t)TOKENS_MOST * EXPERTS_MOST;
    return (struct lf_route_params){.logits =
                                        (const float *)op->b->logits.ptr + (size_t)(call_idx % N_LAYERS) * n_logits,
                                    .route = LF_ROUTE_SOFTMAX_RENORM,
                                    .n_tokens = op->n_tokens,
                                    .n_experts = op->s->n_experts,
                                    .k = op->s->k,
                                    .scale = 1.0f,
                                    .rows = at,
                                    .places = at + n,
                                    .first = at + 2 * n,
                                    .weights = (float *)(void *)(at + 2 * n + (size_t)op->s->n_experts + 1)};
}

static void call_route(struct lf_device *dev, const void *ctx, int call_idx)
{
    struct lf_route_params p = route_of(ctx, call_idx);
    lf_device_ops(dev)->route(dev, &p);
}

static void call_dense(struct lf_device *dev, const struct op *op, const struct lf_weight *w)
{
    struct lf_gemm_params p = {.alpha = 1.0f,
                               .y = op->b->y.ptr,
                               .y_float = op->y_float,
                               .x = op->b->x.ptr,
                               .w = w,
                               .n_tokens = op->n_tokens * op->s->k,
                               .x_stride = op->n_in,
                               .y_stride = op->n_out};
    lf_cuda_gemm_run(dev, &p);
}

static void call_gemm(struct lf_device *dev, const void *ctx, int call_idx)
{
    const struct op *op = ctx;
    struct lf_weight w = {.format.dtype = LF_BF16, .n_out = op->n_out, .n_in = op->n_in, .n_experts = op->s->n_experts};
    if (is_fp8(op->way)) w.format = fp8;
    if (op->way == MXFP4) w.format = mxfp4;
    size_t expert_bytes = (size_t)lf_weight_expert_bytes(lf_device_ops(dev), &w);
    size_t layer = (size_t)op->s->n_experts * expert_bytes;
    w.data = (char *)op->b->weights.ptr + (size_t)(call_idx % N_LAYERS) * layer;
    if (op->way == DENSE) {
        call_dense(dev, op, &w);
        return;
    }
    struct lf_route_params route = route_of(op, call_idx);
    struct lf_expert_gemm_params p = {.y = op->b->y.ptr,
                                      .y_float = op->y_float,
                                      .x = op->b->x.ptr,
                                      .x_by_token = op->by_token,
                                      .w = &w,
                                      .rows = route.rows,
                                      .first = route.first,
                                      .n_tokens = op->n_tokens,
                                      .k = op->s->k,
                                      .scratch = op->b->scratch.ptr};
    if (is_fp8(op->way) && op->way != FP8) p.x_codes = codes_of(op);
    int n_sms = lf_device_info(dev)->n_sms, rc = 0;
    bool by_table = op->way == BY_TABLE || op->way == FP8 || op->way == FP8_CODES || op->way == MXFP4;
    if (by_table) lf_device_ops(dev)->expert_gemm(dev, &p);
    if (op->way == GEMV) rc = lf_cuda_expert_gemv(&p, expert_bytes, n_sms, lf_cuda_launch(dev));
    if (op->way >= HOPPER_128 && op->way <= HOPPER_96)
        rc = lf_cuda_expert_gemm_sm90(&p, expert_bytes, n_sms, (int)op->way - (int)HOPPER_128, lf_cuda_launch(dev));
    if (op->way >= FP8_128 && op->way <= FP8_96) {
        size_t scales_at = lf_coded_order_of(&fp8, w.n_out, w.n_in).scales_at;
        const float *scales = (const float *)(const void *)((const char *)w.data + scales_at);
        rc = lf_cuda_expert_gemm_fp8_sm90(&p, scales, expert_bytes, 0, p.n_tokens * p.k, n_sms,
                                          (int)op->way - (int)FP8_128, lf_cuda_launch(dev));
    }
    lf_cuda_check(dev, rc, "GEMM of experts");
}

static void call_sum(struct lf_device *dev, const void *ctx, int call_idx)
{
    const struct op *op = ctx;
    struct lf_route_params route = route_of(op, call_idx);
    size_t residual_bytes = (size_t)TOKENS_MOST * HIDDEN_MOST * sizeof(float); /* behind all x */
    float *residual = (float *)(void *)((char *)op->b->x.ptr + op->b->x.bytes - residual_bytes);
    lf_device_ops(dev)->expert_sum(dev, &(struct lf_expert_sum_params){.y = residual,
                                                                       .residual = residual,
                                                                       .x = op->b->y.ptr,
                                                                       .weights = route.weights,
                                                                       .places = route.places,
                                                                       .n_tokens = op->n_tokens,
                                                                       .k = op->s->k,
                                                                       .dim = op->s->hidden});
}

/* ---- reports ---- */

/* flops 0: an op that computes next to nothing; dense_us: of the same arithmetic, 0: none. */
static void report(const struct bench *b, const struct op *op, const char *name, const char *way, double us,
                   double bytes, double flops, double dense_us)
{
    double gbs = bytes / us * 1e-3, tflops = flops / us * 1e-6;
    printf("%-14s %5d %-8s %-12s %10.2f us %7.0f GB/s %5.1f%%", op->s->name, op->n_tokens, name, way, us, gbs,
           100.0 * gbs / b->copy_gbs);
    if (flops > 0) printf(" %7.1f TFLOP/s %6.1f%%", tflops, 100.0 * dense_us / us);
    printf("\n");
    if (b->run.csv)
        fprintf(b->run.csv, "%s,%s,%s,%s,%s,%d,%s,%s,%.3f,%.1f,%.1f\n", b->run.date, lf_device_info(b->dev)->name,
                b->run.driver, b->run.commit, op->s->name, op->n_tokens, name, way, us, gbs, tflops);
}

/* Experts that have rows, on average over the layers. Routes them, too: what follows needs it. */
static double experts_with_rows(const struct op *op)
{
    int32_t first[EXPERTS_MOST + 1];
    int n = 0;
    for (int layer = 0; layer < N_LAYERS; layer++) {
        struct lf_route_params p = route_of(op, layer);
        call_route(op->b->dev, op, layer);
        lf_download(op->b->dev, first, p.first, ((size_t)op->s->n_experts + 1) * sizeof *first);
        bench_check(op->b->dev);
        for (int e = 0; e < op->s->n_experts; e++) n += first[e + 1] > first[e];
    }
    return (double)n / N_LAYERS;
}

static void bench_gemm(const struct bench *b, struct op op, const char *name, double n_experts)
{
    static const char *const names[] = {"table",     "GEMV",    "Hopper 128", "Hopper 256", "Hopper 96", "FP8",
                                        "FP8 codes", "FP8 128", "FP8 256",    "FP8 96",     "MXFP4",     "cuBLASLt"};
    struct op ops[LF_N_ELEMS(names)];
    struct bench_candidate c[LF_N_ELEMS(names)];
    bool is_hopper = b->dev->cuda->has_expert_gemm;
    if (is_hopper) quantize(&op);
    int n = 0, way_of[LF_N_ELEMS(names)];
    for (int way = 0; way < (int)LF_N_ELEMS(names); way++) {
        bool is_gemv = way == GEMV, is_any = way == BY_TABLE || way == DENSE;
        if (is_gemv ? op.n_tokens > 32 || !b->dev->cuda->has_expert_gemv : !is_any && !is_hopper) continue;
        way_of[n] = way;
        ops[n] = op;
        ops[n].way = (enum way)way;
        c[n] = (struct bench_candidate){
            .call = call_gemm, .ctx = &ops[n], .n_calls = op.n_tokens <= 32 ? 8 * N_LAYERS : N_LAYERS};
        n++;
    }
    bench_time(b->dev, c, n);
    double rows = (double)op.n_tokens * op.s->k, flops = 2.0 * rows * op.n_in * op.n_out;
    double around = 2.0 * (op.by_token ? op.n_tokens : rows) * op.n_in + rows * op.n_out * (op.y_float ? 4 : 2);
    for (int i = 0; i < n; i++) {
        double matrices = way_of[i] == DENSE ? 1.0 : n_experts;
        double elem = is_fp8((enum way)way_of[i]) ? 1.0 : way_of[i] == MXFP4 ? 0.5 + 1.0 / 32.0 : 2.0;
        double bytes = around + matrices * elem * op.n_in * op.n_out;
        report(b, &op, name, names[way_of[i]], c[i].us, bytes, flops, c[n - 1].us);
    }
}

static void bench_one(const struct bench *b, struct op op, const char *name,
                      void (*call)(struct lf_device *, const void *, int), double bytes)
{
    struct bench_candidate c = {.call = call, .ctx = &op, .n_calls = 8 * N_LAYERS};
    bench_time(b->dev, &c, 1);
    report(b, &op, name, "table", c.us, bytes, 0.0, 0.0);
}

static void bench_shape(const struct bench *b, const struct shape *s, int n_tokens)
{
    struct op op = {.b = b, .s = s, .n_tokens = n_tokens};
    double t = n_tokens, rows = t * s->k, n_experts = experts_with_rows(&op);
    bench_one(b, op, "route", call_route, 4.0 * t * s->n_experts + 12.0 * rows);
    struct op gate_up = op, down = op;
    gate_up.n_in = down.n_out = s->hidden;
    gate_up.n_out = 2 * s->width;
    down.n_in = s->width;
    gate_up.by_token = down.y_float = true;
    bench_gemm(b, gate_up, "gate_up", n_experts);
    bench_gemm(b, down, "down", n_experts);
    bench_one(b, op, "sum", call_sum, 4.0 * (rows + 2.0 * t) * s->hidden);
}

/* ---- main ---- */

int main(int argc, char **argv)
{
    static const int tokens[] = {1, 8, 16, 32, 512, 2048, TOKENS_MOST};
    struct bench b = {0};
    bench_open(&b.run, argc, argv, "bench_gpu_experts", "--tokens", "N");
    b.dev = b.run.dev;
    b.only_tokens = b.run.own ? (int)strtol(b.run.own, NULL, 10) : 0;
    b.weights = bench_alloc(b.dev, (size_t)N_LAYERS * 32 * 2 * 2880 * HIDDEN_MOST * 2, "weights");
    b.x = bench_alloc(b.dev, (size_t)ROWS_MOST * X_MOST * 2 + (size_t)TOKENS_MOST * HIDDEN_MOST * sizeof(float), "x");
    b.y = bench_alloc(b.dev, (size_t)ROWS_MOST * HIDDEN_MOST * sizeof(float), "y");
    b.codes = bench_alloc(b.dev, lf_x_codes_bytes(ROWS_MOST, X_MOST), "codes");
    b.scratch = bench_alloc(b.dev, lf_x_codes_bytes(ROWS_MOST, X_MOST), "scratch");
    b.logits = bench_alloc(b.dev, (size_t)N_LAYERS * TOKENS_MOST * EXPERTS_MOST * sizeof(float), "logits");
    b.routing = bench_alloc(b.dev, (size_t)N_LAYERS * (3 * ROWS_MOST + 1024) * sizeof(int32_t), "routing");
    fill_all(&b);
    struct bench_candidate copy = {.call = call_copy, .ctx = &b, .n_calls = 2};
    bench_time(b.dev, &copy, 1);
    b.copy_gbs = 2.0 * (double)(b.weights.bytes / 4) / copy.us * 1e-3;
    printf("a copy: %.0f GB/s, read plus written\n", b.copy_gbs);
    if (b.run.csv) fprintf(b.run.csv, "date,gpu,driver,commit,model,tokens,op,way,us,gbs,tflops\n");
    for (size_t s = 0; s < LF_N_ELEMS(shapes); s++)
        for (size_t t = 0; t < LF_N_ELEMS(tokens); t++)
            if (b.only_tokens == 0 || b.only_tokens == tokens[t]) bench_shape(&b, &shapes[s], tokens[t]);
    bench_check(b.dev);
    lf_buffer_free(b.dev, &b.routing);
    lf_buffer_free(b.dev, &b.logits);
    lf_buffer_free(b.dev, &b.scratch);
    lf_buffer_free(b.dev, &b.codes);
    lf_buffer_free(b.dev, &b.y);
    lf_buffer_free(b.dev, &b.x);
    lf_buffer_free(b.dev, &b.weights);
    bench_close(&b.run);
    return 0;
}
