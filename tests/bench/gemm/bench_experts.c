/* The experts of a layer beside a dense MLP of as many multiplications, and beside a plain read loop.
 *
 *     bench_experts [--threads N] [--rounds N] [--isa NAME] [--clock wall|cpu] [--format bf16|int8|int4|mxfp4|fp8]
 * [SHAPE…]
 *
 * A line is the two GEMMs of a layer's experts with T tokens, each of which chooses its experts at random, and new ones
 * in every round. Beside it: the GEMMs of an MLP that is as wide as a token's experts are together, over the same
 * tokens, and a read loop over as many bytes as the experts have that were chosen. Both are at another place of the
 * same weights in every round, as a model's layers are: what was read a round ago may lie in a cache. All take turns in
 * every round, and the best round of each counts, so that other work on the machine hits all alike. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/mix.h"
#include "device/ops.h"
#include "tests/bench/gemm/ceilings.h"

static const struct shape {
    const char *name;
    int n_experts, k, hidden, intermediate;
} shapes[] = {
    {"qwen3-30b-a3b", 128, 8, 2048, 768}, {"gpt-oss-20b", 32, 4, 2880, 2880}, {"mixtral-8x7b", 8, 2, 4096, 14336}};

static const int token_counts[] = {1, 2, 4, 8, 16, 64, 256, 512};
enum { MAX_TOKENS = 512 };

static const struct named_format {
    const char *name;
    struct lf_format format;
} formats[] = {{"bf16", {.dtype = LF_BF16}},
               {"int8", {.dtype = LF_BF16, .code = LF_CODE_I8, .group = 32, .group_rows = 1}},
               {"int4", {.dtype = LF_BF16, .code = LF_CODE_I4, .group = 32, .group_rows = 1}},
               {"mxfp4", {.dtype = LF_BF16, .code = LF_CODE_E2M1, .group = 32, .group_rows = 1}},
               {"fp8", {.dtype = LF_BF16, .code = LF_CODE_E4M3, .group = 128, .group_rows = 128}}};

struct bench {
    const struct named_format *format;
    struct lf_device *dev;
    const struct lf_ops *ops;
    const struct shape *shape;
    struct bench_clock clock;
    struct lf_buffer gate_up_buf, down_buf, x, act, y, scratch;
    struct lf_weight gate_up, down, dense_gate_up, dense_down;
    float *logits, *weights;
    int32_t *rows, *places, first[1025];
};

static void must(enum lf_status status, const struct lf_err *err)
{
    if (status == LF_OK) return;
    fprintf(stderr, "bench_experts: %s\n", err->message);
    exit(1);
}

static struct lf_buffer take(struct bench *b, uint64_t bytes)
{
    struct lf_buffer buf = {0};
    struct lf_err err;
    must(lf_buffer_alloc(b->dev, &buf, (size_t)bytes, "the benchmark", &err), &err);
    return buf;
}

/* Numbers between 1/64 and 1/32 of either sign, in any order: panels are whole, so every place is some weight's. Of
 * coded weights they are codes and scales alike. */
static void fill(struct lf_buffer *buf)
{
    uint64_t *words = buf->ptr;
    for (size_t i = 0; i < buf->bytes / 8; i++) words[i] = (lf_mix64(i) & 0x8787878787878787u) | 0x3838383838383838u;
}

static void open_bench(struct bench *b, const struct shape *s)
{
    size_t rows = (size_t)MAX_TOKENS * (size_t)s->k;
    b->shape = s;
    b->gate_up = (struct lf_weight){
        .format = b->format->format, .n_out = 2 * s->intermediate, .n_in = s->hidden, .n_experts = s->n_experts};
    b->down = (struct lf_weight){
        .format = b->format->format, .n_out = s->hidden, .n_in = s->intermediate, .n_experts = s->n_experts};
    b->gate_up_buf = take(b, (uint64_t)s->n_experts * lf_weight_expert_bytes(b->ops, &b->gate_up));
    b->down_buf = take(b, (uint64_t)s->n_experts * lf_weight_expert_bytes(b->ops, &b->down));
    fill(&b->gate_up_buf);
    fill(&b->down_buf);
    b->gate_up.data = b->gate_up_buf.ptr;
    b->down.data = b->down_buf.ptr;
    /* The same bytes as one matrix of k experts' rows, or of their columns. */
    b->dense_gate_up = b->gate_up;
    b->dense_down = b->down;
    b->dense_gate_up.n_experts = b->dense_down.n_experts = 0;
    b->dense_gate_up.n_out *= s->k;
    b->dense_down.n_in *= s->k;
    b->x = take(b, MAX_TOKENS * (uint64_t)s->hidden * 4);
    b->act = take(b, rows * 2 * (uint64_t)s->intermediate * 4);
    b->y = take(b, rows * (uint64_t)s->hidden * 4);
    struct lf_expert_gemm_params p = {.w = &b->gate_up, .x_by_token = true, .n_tokens = MAX_TOKENS, .k = s->k};
    uint64_t bytes = b->ops->expert_gemm_scratch_bytes(&p);
    p = (struct lf_expert_gemm_params){.w = &b->down, .n_tokens = MAX_TOKENS, .k = s->k};
    bytes = LF_MAX(bytes, b->ops->expert_gemm_scratch_bytes(&p));
    b->scratch = take(b, LF_MAX(bytes, b->ops->gemm_scratch_bytes(MAX_TOKENS, b->dense_down.n_in)));
    b->logits = calloc((size_t)MAX_TOKENS * (size_t)s->n_experts, sizeof(float));
    b->weights = calloc(rows, sizeof(float));
    b->rows = calloc(rows, sizeof(int32_t));
    b->places = calloc(rows, sizeof(int32_t));
    if (!b->logits || !b->weights || !b->rows || !b->places) exit(1);
    for (size_t i = 0; i < b->x.bytes / 4; i++) ((float *)b->x.ptr)[i] = (float)(lf_mix64(i) % 2048) / 1024 - 1;
    memcpy(b->act.ptr, b->x.ptr, LF_MIN(b->act.bytes, b->x.bytes));
}

static void close_bench(struct bench *b)
{
    struct lf_buffer *const bufs[] = {&b->gate_up_buf, &b->down_buf, &b->x, &b->act, &b->y, &b->scratch};
    for (size_t i = 0; i < LF_N_ELEMS(bufs); i++) lf_buffer_free(b->dev, bufs[i]);
    free(b->logits);
    free(b->weights);
    free(b->rows);
    free(b->places);
}

/* Chooses experts; returns how many different ones. */
static int route(struct bench *b, int n_tokens, int round)
{
    const struct shape *s = b->shape;
    int n = 0;
    for (size_t i = 0; i < (size_t)n_tokens * (size_t)s->n_experts; i++)
        b->logits[i] = (float)(lf_random64((uint64_t)round, i) >> 40);
    struct lf_route_params p = {.logits = b->logits,
                                .route = LF_ROUTE_SOFTMAX,
                                .n_tokens = n_tokens,
                                .n_experts = s->n_experts,
                                .k = s->k,
                                .scale = 1,
                                .weights = b->weights,
                                .rows = b->rows,
                                .places = b->places,
                                .first = b->first};
    b->ops->route(b->dev, &p);
    for (int e = 0; e < s->n_experts; e++) n += b->first[e + 1] > b->first[e];
    return n;
}

static void run_experts(struct bench *b, int n_tokens)
{
    struct lf_expert_gemm_params p = {.y = b->act.ptr,
                                      .x = b->x.ptr,
                                      .x_by_token = true,
                                      .w = &b->gate_up,
                                      .rows = b->rows,
                                      .first = b->first,
                                      .n_tokens = n_tokens,
                                      .k = b->shape->k,
                                      .scratch = b->scratch.ptr};
    b->ops->expert_gemm(b->dev, &p);
    p.y = b->y.ptr;
    p.x = b->act.ptr;
    p.x_by_token = false;
    p.w = &b->down;
    b->ops->expert_gemm(b->dev, &p);
}

static void run_dense(struct bench *b, int n_tokens)
{
    struct lf_gemm_params p = {.y = b->act.ptr,
                               .x = b->x.ptr,
                               .w = &b->dense_gate_up,
                               .alpha = 1,
                               .n_tokens = n_tokens,
                               .x_stride = b->shape->hidden,
                               .y_stride = b->dense_gate_up.n_out,
                               .scratch = b->scratch.ptr};
    b->ops->gemm(b->dev, &p);
    p.y = b->y.ptr;
    p.x = b->act.ptr;
    p.w = &b->dense_down;
    p.x_stride = b->dense_down.n_in;
    p.y_stride = b->shape->hidden;
    b->ops->gemm(b->dev, &p);
}

/* Puts the dense matrices over other experts' bytes. */
static void move_dense(struct bench *b, int round)
{
    int first = (int)(lf_random64(99, (uint64_t)round) % (uint64_t)(b->shape->n_experts - b->shape->k + 1));
    b->dense_gate_up.data = (char *)b->gate_up.data + (size_t)first * lf_weight_expert_bytes(b->ops, &b->gate_up);
    b->dense_down.data = (char *)b->down.data + (size_t)first * lf_weight_expert_bytes(b->ops, &b->down);
}

/* GB/s of reading so many of the weights' bytes, somewhere. */
static double read_somewhere(struct bench *b, size_t bytes, int round)
{
    size_t n = LF_MIN(b->gate_up_buf.bytes, bytes), room = (b->gate_up_buf.bytes - n) / 64 + 1;
    size_t first = (size_t)(lf_random64(98, (uint64_t)round) % room) * 64;
    struct lf_buffer part = {(char *)b->gate_up_buf.ptr + first, n};
    return ceiling_read_gbs(b->dev, b->clock, &part);
}

static double seconds_of(struct bench *b, void (*run)(struct bench *, int), int n_tokens)
{
    int64_t start = bench_clock_ns(b->clock);
    run(b, n_tokens);
    return (double)(bench_clock_ns(b->clock) - start) / LF_NS_PER_S;
}

static void run_line(struct bench *b, int n_tokens, int n_rounds)
{
    const struct shape *s = b->shape;
    double experts = HUGE_VAL, dense = HUGE_VAL, gbs = 0, read_gbs = 0;
    double expert_bytes =
        (double)(lf_weight_expert_bytes(b->ops, &b->gate_up) + lf_weight_expert_bytes(b->ops, &b->down));
    for (int i = 0; i < n_rounds; i++) {
        double bytes = route(b, n_tokens, i) * expert_bytes;
        double t = seconds_of(b, run_experts, n_tokens);
        experts = LF_MIN(experts, t);
        gbs = LF_MAX(gbs, bytes / t / 1e9);
        move_dense(b, i);
        t = seconds_of(b, run_dense, n_tokens);
        dense = LF_MIN(dense, t);
        double read = read_somewhere(b, (size_t)bytes, i);
        read_gbs = LF_MAX(read_gbs, read);
    }
    double flops = 6.0 * n_tokens * s->k * s->hidden * s->intermediate;
    printf("%-14s %6d %10.3f %10.1f %10.3f %10.1f %9.2f %9.1f %9.1f %9.2f\n", s->name, n_tokens, experts * 1e3,
           flops / experts / 1e9, dense * 1e3, flops / dense / 1e9, dense / experts, gbs, read_gbs, gbs / read_gbs);
    fflush(stdout);
}

static int isa_by_name(const char *name)
{
    int isa = LF_ISA_AMX;
    while (isa > LF_ISA_C && strcmp(name, lf_isa_name((enum lf_isa)isa)) != 0) isa--;
    return isa;
}

static const struct named_format *format_by_name(const char *name)
{
    for (size_t i = 0; i < LF_N_ELEMS(formats); i++)
        if (strcmp(name, formats[i].name) == 0) return &formats[i];
    fprintf(stderr, "bench_experts: no format is called %s\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    struct bench b = {.format = formats};
    struct lf_device_opts opts = {.name = "cpu", .max_isa = -1};
    struct lf_err err;
    const char *only[8];
    int n_only = 0, n_rounds = 10;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--threads") == 0 && ++i)
            opts.n_threads = (int)strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--rounds") == 0 && ++i)
            n_rounds = (int)strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--format") == 0 && ++i)
            b.format = format_by_name(value);
        else if (strcmp(argv[i], "--isa") == 0 && ++i)
            opts.max_isa = isa_by_name(value);
        else if (strcmp(argv[i], "--clock") == 0 && ++i)
            b.clock.cpu_time = strcmp(value, "cpu") == 0;
        else if (n_only < (int)LF_N_ELEMS(only))
            only[n_only++] = argv[i];
    }
    must(lf_device_open(&b.dev, &opts, &err), &err);
    b.ops = lf_device_ops(b.dev);
    printf("# %s, %s, %d threads, best of %d rounds\n", b.format->name, b.ops->name, lf_device_info(b.dev)->n_threads,
           n_rounds);
    printf("# %-12s %6s %10s %10s %10s %10s %9s %9s %9s %9s\n", "shape", "tokens", "experts ms", "GFLOP/s", "dense ms",
           "GFLOP/s", "ratio", "GB/s", "read GB/s", "ratio");
    for (size_t i = 0; i < LF_N_ELEMS(shapes); i++) {
        bool wanted = n_only == 0;
        for (int j = 0; j < n_only; j++) wanted |= strcmp(only[j], shapes[i].name) == 0;
        if (!wanted) continue;
        open_bench(&b, &shapes[i]);
        for (size_t j = 0; j < LF_N_ELEMS(token_counts); j++) run_line(&b, token_counts[j], n_rounds);
        close_bench(&b);
    }
    lf_device_close(b.dev);
    return 0;
}
