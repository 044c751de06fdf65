/* The ops of a gated delta net on a CPU, beside the GEMMs of the same layer and a plain read loop.
 *
 *     bench_delta [--threads N] [--rounds N] [--isa NAME] [--clock wall|cpu] [SHAPE…]
 *
 * A prefill is a chunk of one sequence: microseconds a token of every op, the share of all the net's own ops in the
 * time of the layer with its GEMMs (projections and MLP, bf16), nanoseconds a token and value head of the recurrence,
 * and how many of the machine's multiply-adds those are, beside a GEMM in fp32 of 64 rows with a 128 × 128 matrix that
 * is in the first cache: what the chunked form of the rule consists of. A decode step has one token of each of some
 * sequences; their states are at another place in every round, as layers are, and the GB/s of S, read and written,
 * stand beside those of a loop that reads as many bytes. All take turns in every round, and the best round of each
 * counts, so that other work on the machine hits all alike. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/clock.h"
#include "device/ops.h"
#include "tests/bench/gemm/ceilings.h"

static const struct shape {
    const char *name;
    int n_k_heads, n_v_heads, hidden, intermediate; /* of the MLP, or of a token's experts together */
} shapes[] = {{"qwen3.5-4b", 16, 32, 2560, 9216},
              {"qwen3.5-27b", 16, 48, 5120, 17408},
              {"qwen3-next-80b-a3b", 16, 32, 2048, 11 * 512}};

enum { DIM = 128, WIDTH = 4, PREFILL = 512, DECODE_MAX = 16, PLACES = 24, TIMES_MAX = 16 };
static const int decode_counts[] = {1, 4, 16};

struct bench {
    struct lf_device *dev;
    const struct lf_ops *ops;
    struct bench_clock clock;
    const struct shape *shape;
    struct lf_delta_shape net;
    size_t channels;
    float *x, *y, *out, *ba, *w, *a_log, *dt;
    struct lf_buffer states, scratch, gemm_scratch, hidden, mlp, small;
    struct lf_buffer weights[4];
    struct lf_weight projection, back, gate_up, down;
    uint64_t layer_bytes;
};

static void must(enum lf_status status, const struct lf_err *err)
{
    if (status == LF_OK) return;
    fprintf(stderr, "%s\n", err->message);
    exit(1);
}

static struct lf_buffer buffer(struct bench *b, uint64_t bytes, const char *what)
{
    struct lf_buffer buf;
    struct lf_err err;
    must(lf_buffer_alloc(b->dev, &buf, bytes, what, &err), &err);
    return buf;
}

static float *random_floats(size_t n, float scale)
{
    static uint64_t seed = 5;
    float *out = aligned_alloc(64, (n * sizeof *out + 63) / 64 * 64);
    if (out == NULL) exit(1);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        out[i] = ((float)(seed >> 40) / 8388608.0f - 1.0f) * scale;
    }
    return out;
}

/* A matrix of zeros and small values: its bytes are what counts. */
static struct lf_weight matrix(struct bench *b, int i, int n_out, int n_in)
{
    b->weights[i] = buffer(b, b->ops->weight_bytes(&(struct lf_format){.dtype = LF_BF16}, n_out, n_in), "weights");
    uint16_t *w = b->weights[i].ptr;
    for (size_t j = 0; j < b->weights[i].bytes / sizeof *w; j++) w[j] = (uint16_t)(0x3c00 + j % 64);
    return (struct lf_weight){.data = w, .format.dtype = LF_BF16, .n_out = n_out, .n_in = n_in};
}

static void make(struct bench *b)
{
    const struct shape *s = b->shape;
    b->net = (struct lf_delta_shape){s->n_k_heads, s->n_v_heads, DIM, DIM, WIDTH};
    b->channels = (size_t)lf_delta_channels(&b->net);
    size_t n_out = (size_t)s->n_v_heads * DIM;
    b->layer_bytes = lf_delta_layer_bytes(&b->net, sizeof(float));
    b->states = buffer(b, (uint64_t)PLACES * DECODE_MAX * b->layer_bytes, "states");
    b->x = random_floats(PREFILL * (b->channels + n_out), 1.0f);
    b->y = random_floats(PREFILL * b->channels, 1.0f);
    b->out = random_floats(PREFILL * n_out, 1.0f);
    b->ba = random_floats((size_t)PREFILL * 2 * (size_t)s->n_v_heads, 2.0f);
    b->w = random_floats(b->channels * WIDTH, 0.5f);
    b->a_log = random_floats((size_t)s->n_v_heads, 1.0f);
    b->dt = random_floats((size_t)s->n_v_heads, 1.0f);
    b->scratch = buffer(b, b->ops->delta_scratch_bytes(&b->net, PREFILL, DECODE_MAX), "scratch");
    b->projection = matrix(b, 0, (int)(b->channels + n_out), s->hidden);
    b->back = matrix(b, 1, s->hidden, (int)n_out);
    b->gate_up = matrix(b, 2, 2 * s->intermediate, s->hidden);
    b->down = matrix(b, 3, s->hidden, s->intermediate);
    b->small = buffer(b, b->ops->weight_bytes(&(struct lf_format){.dtype = LF_F32}, DIM, DIM), "weights");
    b->hidden = buffer(b, (uint64_t)PREFILL * (uint64_t)s->hidden * sizeof(float), "hidden");
    b->mlp = buffer(b, (uint64_t)PREFILL * 2 * (uint64_t)s->intermediate * sizeof(float), "mlp");
    int n_in = LF_MAX(s->intermediate, LF_MAX(s->hidden, (int)n_out));
    b->gemm_scratch = buffer(b, b->ops->gemm_scratch_bytes(PREFILL, n_in), "scratch");
}

static void unmake(struct bench *b)
{
    struct lf_buffer *all[] = {&b->states, &b->scratch, &b->gemm_scratch, &b->hidden, &b->mlp, &b->small};
    for (size_t i = 0; i < LF_N_ELEMS(all); i++) lf_buffer_free(b->dev, all[i]);
    for (size_t i = 0; i < LF_N_ELEMS(b->weights); i++) lf_buffer_free(b->dev, &b->weights[i]);
    float *floats[] = {b->x, b->y, b->out, b->ba, b->w, b->a_log, b->dt};
    for (size_t i = 0; i < LF_N_ELEMS(floats); i++) free(floats[i]);
}

/* ---- what is timed ---- */

enum { CONV, DELTA, NORM, N_OPS, GEMMS = N_OPS, PEER, N_TIMES };

static void gemm(struct bench *b, const struct lf_weight *w, float *y, const float *x, int x_stride, int n_tokens)
{
    b->ops->gemm(b->dev, &(struct lf_gemm_params){.alpha = 1,
                                                  .y = y,
                                                  .x = x,
                                                  .w = w,
                                                  .n_tokens = n_tokens,
                                                  .x_stride = x_stride,
                                                  .y_stride = w->n_out,
                                                  .scratch = b->gemm_scratch.ptr});
}

/* Place `place` of the states: slots side by side, as one layer of all sequences. */
static void net_op(struct bench *b, int op, const struct lf_state_step *step, int n_tokens, int place)
{
    size_t n_out = (size_t)b->shape->n_v_heads * DIM;
    struct lf_state_view view = {.base = (char *)b->states.ptr + (uint64_t)place * DECODE_MAX * b->layer_bytes,
                                 .slot_bytes = b->layer_bytes};
    int stride = (int)(b->channels + n_out);
    if (op == CONV)
        b->ops->conv(b->dev, &(struct lf_conv_params){.y = b->y,
                                                      .x = b->x,
                                                      .x_stride = stride,
                                                      .w = b->w,
                                                      .n_tokens = n_tokens,
                                                      .shape = b->net,
                                                      .state = view,
                                                      .step = step});
    else if (op == DELTA)
        b->ops->delta(b->dev, &(struct lf_delta_params){.out = b->out,
                                                        .qkv = b->y,
                                                        .ba = b->ba,
                                                        .a_log = b->a_log,
                                                        .dt = b->dt,
                                                        .n_tokens = n_tokens,
                                                        .shape = b->net,
                                                        .state = view,
                                                        .step = step,
                                                        .scratch = b->scratch.ptr});
    else
        b->ops->gated_norm(b->dev, &(struct lf_gated_norm_params){.out = b->out,
                                                                  .x = b->out,
                                                                  .gate = b->x + b->channels,
                                                                  .gate_stride = stride,
                                                                  .weight = b->w,
                                                                  .eps = 1e-6f,
                                                                  .n_tokens = n_tokens,
                                                                  .n_heads = b->shape->n_v_heads,
                                                                  .dim = DIM});
}

static void layer_gemms(struct bench *b, int n_tokens)
{
    const struct shape *s = b->shape;
    float *hidden = b->hidden.ptr, *mlp = b->mlp.ptr;
    gemm(b, &b->projection, b->x, hidden, s->hidden, n_tokens);
    gemm(b, &b->back, hidden, b->out, s->n_v_heads * DIM, n_tokens);
    gemm(b, &b->gate_up, mlp, hidden, s->hidden, n_tokens);
    gemm(b, &b->down, hidden, mlp, 2 * s->intermediate, n_tokens);
}

/* 64 rows by a matrix of fp32, 128 × 128, as often as makes some milliseconds; nanoseconds of one. On one thread: the
 * loop of a small GEMM is not handed out. */
static double small_gemm_ns(struct bench *b)
{
    static float x[64 * DIM], y[64 * DIM];
    struct lf_weight w = {.format.dtype = LF_F32, .n_out = DIM, .n_in = DIM};
    w.data = b->small.ptr;
    enum { TIMES = 200 };
    int64_t start = bench_clock_ns(b->clock);
    for (int i = 0; i < TIMES; i++) gemm(b, &w, y, x, DIM, 64);
    return (double)(bench_clock_ns(b->clock) - start) / TIMES;
}

static void keep_best(double *best, double is)
{
    if (is < *best) *best = is;
}

static void prefill(struct bench *b, int rounds)
{
    double ns[N_TIMES], flops = 0.0, n = PREFILL;
    for (int i = 0; i < N_TIMES; i++) ns[i] = 1e30;
    struct lf_state_seq seq = {.n_tokens = PREFILL, .in = 0, .out = 0};
    struct lf_state_step step = {.seqs = &seq, .n_seqs = 1};
    for (int r = 0; r < rounds; r++) {
        for (int op = 0; op < N_OPS; op++) {
            int64_t start = bench_clock_ns(b->clock);
            net_op(b, op, &step, PREFILL, r % PLACES);
            keep_best(&ns[op], (double)(bench_clock_ns(b->clock) - start));
        }
        int64_t start = bench_clock_ns(b->clock);
        layer_gemms(b, PREFILL);
        keep_best(&ns[GEMMS], (double)(bench_clock_ns(b->clock) - start));
        keep_best(&ns[PEER], small_gemm_ns(b));
        flops = fmax(flops, ceiling_gflops(b->dev, b->clock, false));
    }
    double net = ns[CONV] + ns[DELTA] + ns[NORM], heads = n * b->shape->n_v_heads,
           threads = lf_device_info(b->dev)->n_threads;
    double macs = 3.0 * DIM * DIM * heads / ns[DELTA]; /* k̂'s and q̂'s reading, and the update */
    printf("%-19s prefill: us a token: conv %.1f, delta %.1f, norm %.1f, GEMMs %.1f; the net is %.1f %%\n",
           b->shape->name, ns[CONV] / n / 1e3, ns[DELTA] / n / 1e3, ns[NORM] / n / 1e3, ns[GEMMS] / n / 1e3,
           100.0 * net / (net + ns[GEMMS]));
    printf("%-19s delta: %.0f ns a token and head and thread; G multiply-adds a second and thread: %.1f; small GEMM "
           "%.1f, registers alone %.1f\n",
           "", ns[DELTA] * threads / heads, macs / threads, 64.0 * DIM * DIM / ns[PEER], flops / 2 / threads);
}

static void decode(struct bench *b, int rounds, int n_seqs)
{
    double ns[N_OPS], read = 0.0;
    for (int i = 0; i < N_OPS; i++) ns[i] = 1e30;
    struct lf_state_seq seqs[DECODE_MAX];
    for (int i = 0; i < n_seqs; i++)
        seqs[i] = (struct lf_state_seq){.first_token = i, .n_tokens = 1, .position = 7, .in = i, .out = i};
    struct lf_state_step step = {.seqs = seqs, .n_seqs = n_seqs};
    uint64_t state_bytes = lf_delta_state_bytes(&b->net) * (uint64_t)n_seqs;
    for (int r = 0; r < 20 * rounds; r++) {
        for (int op = 0; op < N_OPS; op++) {
            int64_t start = bench_clock_ns(b->clock);
            net_op(b, op, &step, n_seqs, r % PLACES);
            keep_best(&ns[op], (double)(bench_clock_ns(b->clock) - start));
        }
        struct lf_buffer piece = {.ptr = (char *)b->states.ptr +
                                         (uint64_t)((r + PLACES / 2) % PLACES) * DECODE_MAX * b->layer_bytes,
                                  .bytes = state_bytes};
        read = fmax(read, ceiling_read_gbs(b->dev, b->clock, &piece));
    }
    printf("%-19s decode of %2d: us a layer: conv %.1f, delta %.1f, norm %.1f; S read at %.1f GB/s and written at as "
           "many; "
           "a read loop %.1f\n",
           "", n_seqs, ns[CONV] / 1e3, ns[DELTA] / 1e3, ns[NORM] / 1e3, (double)state_bytes / ns[DELTA], read);
}

struct args {
    int n_threads, rounds, isa;
    struct bench_clock clock;
    int first_shape;
};

static struct args parse(int argc, char **argv)
{
    struct args a = {.n_threads = 0, .rounds = 10, .isa = -1};
    int i = 1;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        if (strcmp(argv[i], "--threads") == 0) a.n_threads = (int)strtol(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--rounds") == 0) a.rounds = (int)strtol(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--clock") == 0) a.clock.cpu_time = strcmp(argv[i + 1], "cpu") == 0;
        if (strcmp(argv[i], "--isa") != 0) continue;
        for (a.isa = LF_ISA_C; a.isa < LF_ISA_AMX && strcmp(argv[i + 1], lf_isa_name((enum lf_isa)a.isa)) != 0;)
            a.isa++;
    }
    a.first_shape = i;
    return a;
}

static bool is_asked(const char *name, const struct args *a, int argc, char **argv)
{
    for (int i = a->first_shape; i < argc; i++)
        if (strcmp(argv[i], name) == 0) return true;
    return a->first_shape >= argc;
}

int main(int argc, char **argv)
{
    struct args a = parse(argc, argv);
    struct bench b = {.clock = a.clock};
    struct lf_err err;
    struct lf_device_opts opts = {.name = "cpu", .n_threads = a.n_threads, .max_isa = a.isa};
    must(lf_device_open(&b.dev, &opts, &err), &err);
    b.ops = lf_device_ops(b.dev);
    printf("%s, %d threads\n", b.ops->name, lf_device_info(b.dev)->n_threads);
    for (size_t i = 0; i < LF_N_ELEMS(shapes); i++) {
        if (!is_asked(shapes[i].name, &a, argc, argv)) continue;
        b.shape = &shapes[i];
        make(&b);
        prefill(&b, a.rounds);
        for (size_t j = 0; j < LF_N_ELEMS(decode_counts); j++) decode(&b, a.rounds, decode_counts[j]);
        unmake(&b);
    }
    lf_device_close(b.dev);
    return 0;
}
