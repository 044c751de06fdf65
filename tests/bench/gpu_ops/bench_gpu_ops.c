/* The GPU's ops beside what the same memory can do at most, measured by turns in one run.
 *
 *     bench_gpu_ops [--only gemm|step|rows|sample] [--csv FILE] [--driver TEXT] [--commit TEXT]
 *
 * copy: a large copy within the GPU, bytes read plus bytes written; the other rates are fractions of it. gemm:
 * the matrices of an 8B shape, our kernel with its tiles (up to 16 rows) and cuBLASLt, weights from memory each time.
 * step: all GEMMs, norms and activations of a decode step, once, in one graph. rows: the ops that move rows.
 * sample: a step's sampling. Medians; microseconds a call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "core/check.h"
#include "device/cuda/cuda_impl.h"
#include "device/cuda/gemm_cublaslt.h"
#include "tests/bench/gpu_ops/bench_gpu_ops.h"

enum {
    BLOCK_BYTES = 16 << 20, /* of random numbers, repeated through the pool */
    ROWS_MOST = 4096,
    DIM = 4096,
    HIDDEN = 14336,
    QKV = 6144,
    VOCAB = 128256,
    N_LAYERS = 32
};
static const size_t pool_bytes = (size_t)16 << 30;

void bench_report(struct bench *b, const char *op, const char *variant, int n_rows, double us, double bytes)
{
    double gbs = bytes / us * 1e-3;
    printf("%-26s %-22s %5d %10.2f us %8.0f GB/s %6.1f%%\n", op, variant, n_rows, us, gbs, 100.0 * gbs / b->copy_gbs);
    if (b->run.csv)
        fprintf(b->run.csv, "%s,%s,%s,%s,%s,%s,%d,%.3f,%.1f,%.4f\n", b->run.date, lf_device_info(b->dev)->name,
                b->run.driver, b->run.commit, op, variant, n_rows, us, gbs, gbs / b->copy_gbs);
}

/* ---- setup ---- */

/* Halves and floats around 0 of a size that keeps sums of thousands small. */
static void fill_pool(struct bench *b)
{
    static uint16_t halves[BLOCK_BYTES / 2];
    uint64_t seed = 1;
    for (size_t i = 0; i < LF_N_ELEMS(halves); i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        halves[i] = lf_bf16_from_f32(((float)(seed >> 40) / 16777216.0f - 0.5f) * 0.05f);
    }
    lf_upload(b->dev, b->pool.ptr, halves, sizeof halves);
    for (size_t at = 0; at + sizeof halves <= b->x.bytes; at += sizeof halves)
        lf_upload(b->dev, (char *)b->x.ptr + at, halves, sizeof halves);
    cudaStream_t stream = lf_cuda_stream(b->dev);
    for (size_t n = BLOCK_BYTES; n < b->pool.bytes; n *= 2) {
        size_t bytes = LF_MIN(n, b->pool.bytes - n);
        lf_cuda_check(
            b->dev, (int)cudaMemcpyAsync((char *)b->pool.ptr + n, b->pool.ptr, bytes, cudaMemcpyDeviceToDevice, stream),
            "filling the pool");
    }
    bench_check(b->dev);
}

static void call_copy(struct lf_device *dev, const void *ctx, int call_idx)
{
    const struct bench *b = ctx;
    size_t half = b->pool.bytes / 8, at = (size_t)(call_idx % 4) * 2 * half;
    char *base = (char *)b->pool.ptr + at;
    lf_cuda_check(dev, (int)cudaMemcpyAsync(base + half, base, half, cudaMemcpyDeviceToDevice, lf_cuda_stream(dev)),
                  "copying");
}

static void measure_copy(struct bench *b)
{
    struct bench_candidate c = {.call = call_copy, .ctx = b, .n_calls = 1};
    bench_time(b->dev, &c, 1);
    b->copy_gbs = 2.0 * (double)(b->pool.bytes / 8) / c.us * 1e-3;
    bench_report(b, "copy", "2 GiB", 0, c.us, 2.0 * (double)(b->pool.bytes / 8));
}

/* ---- GEMM ---- */

struct gemm {
    const struct bench *b;
    const char *name;
    int n_in, n_out;
    bool y_float, residual;
    int n_rows;
    bool ours;
    size_t base; /* of its matrices in the pool */
};

static void call_gemm(struct lf_device *dev, const void *ctx, int call_idx)
{
    const struct gemm *pr = ctx;
    const struct bench *b = pr->b;
    size_t bytes = (size_t)pr->n_in * (size_t)pr->n_out * 2, n = LF_MAX((pool_bytes - pr->base) / bytes, 1u);
    struct lf_weight w = {.data = (char *)b->pool.ptr + pr->base + (size_t)call_idx % n * bytes,
                          .format.dtype = LF_BF16,
                          .n_out = pr->n_out,
                          .n_in = pr->n_in};
    struct lf_gemm_params p = {.alpha = 1,
                               .y = pr->y_float ? b->y.ptr : b->act.ptr,
                               .y_float = pr->y_float,
                               .x = b->x.ptr,
                               .w = &w,
                               .residual = pr->residual ? b->y.ptr : NULL,
                               .n_tokens = pr->n_rows,
                               .x_stride = pr->n_in,
                               .y_stride = pr->n_out};
    if (pr->ours)
        lf_cuda_check(dev, lf_cuda_gemv(&p, lf_device_info(dev)->n_sms, lf_cuda_launch(dev)), "GEMV");
    else
        lf_cuda_gemm_run(dev, &p);
}

static const struct gemm shapes[] = {
    {.name = "qkv 4096>6144", .n_in = DIM, .n_out = QKV},
    {.name = "out 4096>4096", .n_in = DIM, .n_out = DIM, .y_float = true, .residual = true},
    {.name = "gate_up 4096>28672", .n_in = DIM, .n_out = 2 * HIDDEN},
    {.name = "down 14336>4096", .n_in = HIDDEN, .n_out = DIM, .y_float = true, .residual = true},
    {.name = "head 4096>128256", .n_in = DIM, .n_out = VOCAB, .y_float = true}};

static void bench_gemm(struct bench *b, struct gemm shape)
{
    static const char *const names[] = {"cuBLASLt", "ours"};
    struct gemm variants[LF_N_ELEMS(names)];
    struct bench_candidate candidates[LF_N_ELEMS(names)];
    double bytes = 2.0 * shape.n_in * (shape.n_out + shape.n_rows) +
                   (double)shape.n_rows * shape.n_out * ((shape.y_float ? 4 : 2) + (shape.residual ? 4 : 0));
    int n_calls = LF_MAX((int)(6e8 / bytes), 3);
    for (size_t i = 0; i < LF_N_ELEMS(names); i++) {
        variants[i] = shape;
        variants[i].b = b;
        variants[i].ours = i == 1;
        candidates[i] = (struct bench_candidate){.call = call_gemm, .ctx = &variants[i], .n_calls = n_calls};
    }
    size_t n = shape.n_rows <= LF_CUDA_GEMV_TOKENS ? LF_N_ELEMS(names) : 1;
    bench_time(b->dev, candidates, (int)n);
    for (size_t i = 0; i < n; i++) bench_report(b, shape.name, names[i], shape.n_rows, candidates[i].us, bytes);
}

static void bench_gemms(struct bench *b)
{
    static const int rows[] = {1, 2, 4, 8, 16, 24, 64, 256};
    for (size_t s = 0; s < LF_N_ELEMS(shapes); s++)
        for (size_t r = 0; r < LF_N_ELEMS(rows); r++) {
            struct gemm shape = shapes[s];
            shape.n_rows = rows[r];
            bench_gemm(b, shape);
        }
}

/* ---- a decode step without its attention ---- */

struct step {
    const struct bench *b;
    int n_rows;
    bool ours, overlaps;
};

static void step_gemm(struct lf_device *dev, const struct step *st, int shape_idx, size_t *at)
{
    struct gemm pr = shapes[shape_idx];
    pr.b = st->b;
    pr.n_rows = st->n_rows;
    pr.base = *at;
    if (st->ours) {
        /* as call_gemm, with or without the overlap */
        struct lf_weight w = {
            .data = (char *)st->b->pool.ptr + *at, .format.dtype = LF_BF16, .n_out = pr.n_out, .n_in = pr.n_in};
        struct lf_gemm_params p = {.alpha = 1,
                                   .y = pr.y_float ? st->b->y.ptr : st->b->act.ptr,
                                   .y_float = pr.y_float,
                                   .x = st->b->x.ptr,
                                   .w = &w,
                                   .residual = pr.residual ? st->b->y.ptr : NULL,
                                   .n_tokens = pr.n_rows,
                                   .x_stride = pr.n_in,
                                   .y_stride = pr.n_out};
        struct lf_cuda_launch how = lf_cuda_launch(dev);
        how.overlaps = st->overlaps;
        lf_cuda_check(dev, lf_cuda_gemv(&p, lf_device_info(dev)->n_sms, how), "GEMV");
    } else {
        call_gemm(dev, &pr, 0);
    }
    *at += (size_t)pr.n_in * (size_t)pr.n_out * 2;
}

static void step_norm(struct lf_device *dev, const struct step *st)
{
    struct lf_rmsnorm_params p = {.out = st->b->x.ptr,
                                  .x = st->b->y.ptr,
                                  .weight = st->b->pool.ptr,
                                  .eps = 1e-5f,
                                  .n_tokens = st->n_rows,
                                  .dim = DIM};
    struct lf_cuda_launch how = lf_cuda_launch(dev);
    how.overlaps = st->overlaps;
    lf_cuda_check(dev, lf_cuda_rmsnorm(&p, how), "rmsnorm");
}

static void call_step(struct lf_device *dev, const void *ctx, int call_idx)
{
    const struct step *st = ctx;
    struct lf_cuda_launch how = lf_cuda_launch(dev);
    how.overlaps = st->overlaps;
    size_t at = 0;
    (void)call_idx;
    for (int l = 0; l < N_LAYERS; l++) {
        step_norm(dev, st);
        step_gemm(dev, st, 0, &at);
        step_gemm(dev, st, 1, &at);
        step_norm(dev, st);
        step_gemm(dev, st, 2, &at);
        struct lf_gate_mul_params silu = {
            .out = st->b->x.ptr, .gate_up = st->b->act.ptr, .n_tokens = st->n_rows, .dim = HIDDEN};
        lf_cuda_check(dev, lf_cuda_gate_mul(&silu, how), "gate_mul");
        step_gemm(dev, st, 3, &at);
    }
    step_norm(dev, st);
    step_gemm(dev, st, 4, &at);
}

static void bench_step(struct bench *b)
{
    static const int rows[] = {1, 2, 4, 8, 16};
    static const char *const names[] = {"cuBLASLt", "cuBLASLt overlapped", "ours", "ours overlapped"};
    double bytes = 2.0 * (N_LAYERS * ((double)DIM * (QKV + DIM + 3 * HIDDEN)) + (double)DIM * VOCAB);
    for (size_t r = 0; r < LF_N_ELEMS(rows); r++) {
        struct step steps[LF_N_ELEMS(names)];
        struct bench_candidate c[LF_N_ELEMS(names)];
        for (int i = 0; i < (int)LF_N_ELEMS(names); i++) {
            steps[i] = (struct step){.b = b, .n_rows = rows[r], .ours = i >= 2, .overlaps = i % 2 == 1};
            c[i] = (struct bench_candidate){.call = call_step, .ctx = &steps[i], .n_calls = 1};
        }
        bench_time(b->dev, c, (int)LF_N_ELEMS(names));
        for (size_t i = 0; i < LF_N_ELEMS(names); i++)
            bench_report(b, "step (no attention)", names[i], rows[r], c[i].us, bytes);
    }
}

/* ---- ops that move rows ---- */

struct row_op {
    const struct bench *b;
    int n_rows;
    enum { RMSNORM, GATE_MUL, EMBED, GATHER } kind;
};

/* x and y by turns at four places of the pool, so that many rows come from memory. */
static void call_row_op(struct lf_device *dev, const void *ctx, int call_idx)
{
    const struct row_op *op = ctx;
    const struct lf_ops *ops = lf_device_ops(dev);
    size_t place = op->b->pool.bytes / 16;
    char *from = (char *)op->b->pool.ptr + (size_t)(call_idx % 8) * 2 * place, *to = from + place;
    struct lf_weight table = {.data = from, .format.dtype = LF_BF16, .n_out = VOCAB, .n_in = DIM};
    if (op->kind == RMSNORM)
        ops->rmsnorm(dev, &(struct lf_rmsnorm_params){.out = to,
                                                      .x = (float *)(void *)from,
                                                      .weight = op->b->pool.ptr,
                                                      .eps = 1e-5f,
                                                      .n_tokens = op->n_rows,
                                                      .dim = DIM});
    if (op->kind == GATE_MUL)
        ops->gate_mul(dev,
                      &(struct lf_gate_mul_params){.out = to, .gate_up = from, .n_tokens = op->n_rows, .dim = HIDDEN});
    if (op->kind == EMBED)
        ops->embed(dev, &(struct lf_embed_params){.out = (float *)(void *)to,
                                                  .table = &table,
                                                  .ids = op->b->ids.ptr,
                                                  .n_tokens = op->n_rows,
                                                  .scale = 1});
    if (op->kind == GATHER)
        ops->gather(dev, &(struct lf_gather_params){to, from, op->b->ids.ptr, op->n_rows, DIM, LF_F32});
}

static void bench_rows(struct bench *b)
{
    static const char *const names[] = {"rmsnorm 4096", "gate_mul 14336", "embed 4096", "gather 4096 float"};
    static const double bytes[] = {6.0 * DIM, 6.0 * HIDDEN, 6.0 * DIM, 8.0 * DIM};
    static const int rows[] = {1, 8, 64, 2048};
    for (size_t k = 0; k < LF_N_ELEMS(names); k++)
        for (size_t r = 0; r < LF_N_ELEMS(rows); r++) {
            struct row_op op = {.b = b, .n_rows = rows[r], .kind = (int)k};
            struct bench_candidate c = {.call = call_row_op, .ctx = &op, .n_calls = 32};
            bench_time(b->dev, &c, 1);
            bench_report(b, names[k], "ours", rows[r], c.us, bytes[k] * rows[r]);
        }
}

/* ---- sampling ---- */

struct sampling {
    const struct bench *b;
    int n_rows;
    enum { GREEDY, TEMPERATURE, TOP_K, TOP_P, EVERYTHING, N_KINDS } kind;
};

static struct lf_sample_row sample_row(int kind, int row_idx)
{
    struct lf_sample_row row = {
        .top_p = 1.0f, .repetition_penalty = 1.0f, .n_logprobs = -1, .slot = -1, .mask = -1, .given = -1};
    row.position = (uint64_t)row_idx;
    row.seed = 7;
    if (kind >= TEMPERATURE) row.temperature = 0.8f;
    if (kind == TOP_K || kind == EVERYTHING) row.top_k = 50;
    if (kind == TOP_P || kind == EVERYTHING) row.top_p = 0.9f;
    if (kind == EVERYTHING) {
        row.min_p = 0.02f;
        row.n_logprobs = 20;
        row.slot = row_idx;
        row.repetition_penalty = 1.1f;
        row.presence_penalty = 0.1f;
    }
    return row;
}

/* Of the pool: logits at its start, the rest behind. */
static void call_sample(struct lf_device *dev, const void *ctx, int call_idx)
{
    const struct sampling *sm = ctx;
    char *base = sm->b->pool.ptr;
    size_t logits_bytes = (size_t)64 * VOCAB * sizeof(float);
    struct lf_sample_params p = {.logits = (float *)(void *)(base + (size_t)(call_idx % 2) * logits_bytes),
                                 .n_rows = sm->n_rows,
                                 .n_vocab = VOCAB,
                                 .rows = sm->b->x.ptr,
                                 .counts = sm->b->y.ptr,
                                 .ids_out = (int32_t *)(void *)(base + 2 * logits_bytes),
                                 .out = (struct lf_sampled *)(void *)(base + 2 * logits_bytes + 4096)};
    lf_device_ops(dev)->sample(dev, &p);
}

static void bench_sample(struct bench *b)
{
    static const char *const names[] = {"greedy", "temperature", "top_k 50", "top_p 0.9", "everything"};
    static const int rows[] = {1, 8, 64};
    static float logits[VOCAB];
    uint64_t seed = 3;
    for (int r = 0; r < 128; r++) {
        for (int i = 0; i < VOCAB; i++) { /* about normal, of deviation 2.5 */
            float sum = 0.0f;
            for (int k = 0; k < 4; k++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                sum += (float)(seed >> 40) / 16777216.0f - 0.5f;
            }
            logits[i] = 4.33f * sum;
        }
        lf_upload(b->dev, (char *)b->pool.ptr + (size_t)r * sizeof logits, logits, sizeof logits);
    }
    for (int k = 0; k < N_KINDS; k++)
        for (size_t r = 0; r < LF_N_ELEMS(rows); r++) {
            struct lf_sample_row params[64];
            struct sampling sm = {.b = b, .n_rows = rows[r]};
            struct bench_candidate c = {.call = call_sample, .ctx = &sm, .n_calls = 20};
            for (int i = 0; i < 64; i++) params[i] = sample_row(k, i);
            lf_upload(b->dev, b->x.ptr, params, sizeof params);
            bench_time(b->dev, &c, 1);
            bench_report(b, "sample 128256", names[k], rows[r], c.us, 4.0 * VOCAB * rows[r]);
        }
}

/* ---- main ---- */

static bool wanted(const struct bench *b, const char *what)
{
    return b->run.own == NULL || strcmp(b->run.own, what) == 0;
}

int main(int argc, char **argv)
{
    static int32_t ids[ROWS_MOST];
    struct bench b = {0};
    bench_open(&b.run, argc, argv, "bench_gpu_ops", "--only", "gemm|step|rows|sample");
    b.dev = b.run.dev;
    b.pool = bench_alloc(b.dev, pool_bytes, "the pool");
    b.x = bench_alloc(b.dev, (size_t)ROWS_MOST * HIDDEN * 2, "x");
    b.y = bench_alloc(b.dev, (size_t)256 * VOCAB * sizeof(float), "y");
    b.act = bench_alloc(b.dev, (size_t)ROWS_MOST * 2 * HIDDEN * 2, "activations");
    b.ids = bench_alloc(b.dev, sizeof ids, "ids");
    for (int i = 0; i < ROWS_MOST; i++) ids[i] = (int32_t)((unsigned)i * 2654435761u % 16384u);
    lf_upload(b.dev, b.ids.ptr, ids, sizeof ids);
    fill_pool(&b);
    if (b.run.csv) fprintf(b.run.csv, "date,gpu,driver,commit,op,variant,rows,us,gbs,of_copy\n");
    measure_copy(&b);
    if (wanted(&b, "gemm")) bench_gemms(&b);
    if (wanted(&b, "step")) bench_step(&b);
    if (wanted(&b, "rows")) bench_rows(&b);
    if (wanted(&b, "sample")) bench_sample(&b);
    bench_check(b.dev);
    lf_buffer_free(b.dev, &b.ids);
    lf_buffer_free(b.dev, &b.act);
    lf_buffer_free(b.dev, &b.y);
    lf_buffer_free(b.dev, &b.x);
    lf_buffer_free(b.dev, &b.pool);
    bench_close(&b.run);
    return 0;
}
