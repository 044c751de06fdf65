/* Our GEMM beside OpenBLAS and oneDNN (where they were found) and beside what the machine can do at most.
 *
 *     bench_gemm [--threads N] [--rounds N] [--model demo|0.5b|8b] [--rows T] [--layers N] [--only NAME,…]
 *                [--isa NAME] [--csv FILE] [--clock wall|cpu]
 *
 * A line is all matrices of a model's layers, one GEMM after the other, with T rows each: a decode step for T = 1
 * and 6, a prefill chunk for 64 and 512. Contenders and ceilings take turns in every round, and the best round of each
 * counts, so that other work on the machine hits all alike. --clock cpu, with --threads 1, counts only the time that
 * the benchmark had the CPU. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/mix.h"
#include "device/ops.h"
#include "tests/bench/gemm/ceilings.h"
#include "tests/bench/gemm/peers.h"

enum { MATRICES_MAX = 32, PEERS_MAX = 16, READ_BYTES = 512 * 1024 * 1024 };

struct model {
    const char *name;
    int n_layers;     /* as many as pass the cache by far; all of the demo's */
    int shapes[5][2]; /* n_in, n_out of a layer; ends with zeros */
};

static const struct model models[] = {
    {"demo", 6, {{256, 512}, {256, 256}, {256, 1536}, {768, 256}}},
    {"0.5b", 4, {{896, 1152}, {896, 896}, {896, 9728}, {4864, 896}}},
    {"8b", 1, {{4096, 4096}, {14336, 4096}}},
};

static struct lf_device *dev;
static const struct lf_ops *ops;
static struct bench_clock the_clock;
static const char *only; /* names of contenders, or NULL: all */

/* ---- ours ---- */

struct made {
    struct lf_buffer w_buf, scratch;
    struct lf_weight w;
    struct lf_gemm_params params;
};

static void must(enum lf_status status, const struct lf_err *err)
{
    if (status == LF_OK) return;
    fprintf(stderr, "%s\n", err->message);
    exit(1);
}

static void *checked(void *ptr)
{
    if (ptr != NULL) return ptr;
    fprintf(stderr, "out of memory\n");
    exit(1);
}

static struct lf_gemm_params params_of(const struct gemm *p, const struct made *m)
{
    return (struct lf_gemm_params){.alpha = 1,
                                   .y = p->y,
                                   .x = p->x,
                                   .w = &m->w,
                                   .n_tokens = p->n_rows,
                                   .x_stride = p->n_in,
                                   .y_stride = p->n_out,
                                   .scratch = m->scratch.ptr};
}

static void *make_ours(const struct gemm *p, enum lf_dtype dtype)
{
    struct lf_err err;
    struct made *m = checked(calloc(1, sizeof *m));
    m->w = (struct lf_weight){.format.dtype = dtype, .n_out = p->n_out, .n_in = p->n_in};
    must(lf_buffer_alloc(dev, &m->w_buf, ops->weight_bytes(&m->w.format, p->n_out, p->n_in), "weights", &err), &err);
    m->w.data = m->w_buf.ptr;
    must(lf_buffer_alloc(dev, &m->scratch, ops->gemm_scratch_bytes(p->n_rows, p->n_in), "scratch", &err), &err);
    void *row = checked(malloc((size_t)p->n_in * sizeof(float)));
    for (int r = 0; r < p->n_out; r++) {
        lf_from_f32(row, dtype, p->values + (size_t)r * (size_t)p->n_in, (size_t)p->n_in);
        ops->weight_pack(dev, &m->w, r, 1, row);
    }
    free(row);
    m->params = params_of(p, m);
    return m;
}

/* Coded weights: any bits are codes, and these are scales as well, of every width, and no denormals: speed depends on
 * nothing else. */
static void *make_coded(const struct gemm *p, const struct lf_format *format)
{
    struct lf_err err;
    struct made *m = checked(calloc(1, sizeof *m));
    m->w = (struct lf_weight){.format = *format, .n_out = p->n_out, .n_in = p->n_in};
    must(lf_buffer_alloc(dev, &m->w_buf, ops->weight_bytes(format, p->n_out, p->n_in), "weights", &err), &err);
    m->w.data = m->w_buf.ptr;
    must(lf_buffer_alloc(dev, &m->scratch, ops->gemm_scratch_bytes(p->n_rows, p->n_in), "scratch", &err), &err);
    uint64_t *words = m->w_buf.ptr;
    for (size_t i = 0; i < m->w_buf.bytes / 8; i++)
        words[i] = (lf_mix64(i) & 0x8787878787878787u) | 0x3838383838383838u;
    m->params = params_of(p, m);
    return m;
}

static void *make_f32(const struct gemm *p)
{
    return make_ours(p, LF_F32);
}

static void *make_bf16(const struct gemm *p)
{
    return make_ours(p, LF_BF16);
}

#define CODED(name, ...)                                                                                               \
    static void *make_##name(const struct gemm *p)                                                                     \
    {                                                                                                                  \
        return make_coded(p, &(struct lf_format){.dtype = LF_BF16, .group_rows = 1, .scales = LF_BF16, __VA_ARGS__});  \
    }
CODED(int8_32, .code = LF_CODE_I8, .group = 32)
CODED(int8_128, .code = LF_CODE_I8, .group = 128)
CODED(int4_32, .code = LF_CODE_I4, .group = 32)
CODED(int4_64, .code = LF_CODE_I4, .group = 64)
CODED(int4_128, .code = LF_CODE_I4, .group = 128)
CODED(mxfp4, .code = LF_CODE_E2M1, .group = 32)
CODED(fp8_128, .code = LF_CODE_E4M3, .group = 128)

static double bytes_of_ours(const void *made)
{
    return (double)((const struct made *)made)->w_buf.bytes;
}

static void run_ours(void *made)
{
    ops->gemm(dev, &((struct made *)made)->params);
}

static void free_ours(void *made)
{
    struct made *m = made;
    lf_buffer_free(dev, &m->w_buf);
    lf_buffer_free(dev, &m->scratch);
    free(m);
}

#define OURS(name, bf16, make)                                                                                         \
    {                                                                                                                  \
        name, bf16, make, run_ours, free_ours, bytes_of_ours                                                           \
    }
static const struct peer ours_f32 = OURS("ours f32", false, make_f32), ours_bf16 = OURS("ours bf16", true, make_bf16);
static const struct peer coded[] = {OURS("int8 g32", false, make_int8_32),   OURS("int8 g128", false, make_int8_128),
                                    OURS("int4 g32", false, make_int4_32),   OURS("int4 g64", false, make_int4_64),
                                    OURS("int4 g128", false, make_int4_128), OURS("mxfp4", false, make_mxfp4),
                                    OURS("fp8 g128", false, make_fp8_128)};

static const struct peer *const peers[] = {
    &ours_bf16,
#ifdef BENCH_DNNL
    &peer_dnnl_bf16,
#endif
#ifdef BENCH_SBGEMM
    &peer_openblas_sbgemm,
#endif
    &ours_f32,
#ifdef BENCH_DNNL
    &peer_dnnl_f32,
#endif
#ifdef BENCH_OPENBLAS
    &peer_openblas_sgemm,
#endif
    &coded[0],
    &coded[1],
    &coded[2],
    &coded[3],
    &coded[4],
    &coded[5],
    &coded[6],
};
enum { N_PEERS = sizeof peers / sizeof *peers };
_Static_assert((int)N_PEERS <= (int)PEERS_MAX, "more contenders than room for them");

/* ---- the measurement ---- */

static bool is_wanted(int peer)
{
    return only == NULL || strstr(only, peers[peer]->name) != NULL;
}

struct step {
    struct gemm gemms[MATRICES_MAX];
    void *made[PEERS_MAX][MATRICES_MAX];
    int n;
    double macs;
};

static float *random_floats(size_t n)
{
    float *out = checked(malloc(n * sizeof *out));
    uint64_t state = n;
    for (size_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        out[i] = (float)(int32_t)(state >> 32) / 2147483648.0f;
    }
    return out;
}

static void make_step(struct step *s, const struct model *model, int n_layers, int n_rows)
{
    *s = (struct step){.n = 0};
    for (int layer = 0; layer < n_layers; layer++) {
        for (int i = 0; i < 5 && model->shapes[i][0] != 0; i++) {
            int n_in = model->shapes[i][0], n_out = model->shapes[i][1];
            struct gemm *p = &s->gemms[s->n++];
            *p = (struct gemm){.values = random_floats((size_t)n_in * (size_t)n_out),
                               .x = random_floats((size_t)n_rows * (size_t)n_in),
                               .y = random_floats((size_t)n_rows * (size_t)n_out),
                               .n_rows = n_rows,
                               .n_in = n_in,
                               .n_out = n_out,
                               .n_threads = lf_device_info(dev)->n_threads};
            for (int j = 0; j < (int)N_PEERS; j++)
                if (is_wanted(j)) s->made[j][s->n - 1] = checked(peers[j]->make(p));
            s->macs += (double)n_rows * n_in * n_out;
        }
    }
}

static void free_step(struct step *s)
{
    for (int i = 0; i < s->n; i++) {
        for (int j = 0; j < (int)N_PEERS; j++)
            if (is_wanted(j)) peers[j]->free(s->made[j][i]);
        free((void *)(uintptr_t)s->gemms[i].values);
        free((void *)(uintptr_t)s->gemms[i].x);
        free(s->gemms[i].y);
    }
}

/* Nanoseconds a step, over at least 5 ms: short, so that some rounds go undisturbed. */
static double time_peer(const struct step *s, int peer)
{
    int64_t start = bench_clock_ns(the_clock), now = start;
    int n = 0;
    for (; now - start < 5 * LF_NS_PER_MS; n++, now = bench_clock_ns(the_clock))
        for (int i = 0; i < s->n; i++) peers[peer]->run(s->made[peer][i]);
    return (double)(now - start) / n;
}

static double weight_bytes(const struct step *s, int peer, int n_rows)
{
    if (peers[peer]->bytes == NULL) return s->macs / n_rows * (peers[peer]->bf16 ? 2.0 : 4.0);
    double bytes = 0.0;
    for (int i = 0; i < s->n; i++) bytes += peers[peer]->bytes(s->made[peer][i]);
    return bytes;
}

struct options {
    int n_threads, n_rounds, n_rows, n_layers, isa;
    const char *model, *csv;
};

static void bench_step(const struct model *model, int n_rows, const struct options *o, const struct lf_buffer *buf,
                       FILE *csv)
{
    static struct step s;
    make_step(&s, model, o->n_layers > 0 ? o->n_layers : model->n_layers, n_rows);
    double best[PEERS_MAX], fma = 0.0, pairs = 0.0, read_gbs = 0.0;
    for (int j = 0; j < (int)N_PEERS; j++) {
        best[j] = 1e30;
        if (is_wanted(j)) (void)time_peer(&s, j);
    }
    for (int round = 0; round < o->n_rounds; round++) {
        for (int j = 0; j < (int)N_PEERS; j++)
            if (is_wanted(j)) best[j] = fmin(best[j], time_peer(&s, j));
        fma = fmax(fma, ceiling_gflops(dev, the_clock, false));
        pairs = fmax(pairs, ceiling_gflops(dev, the_clock, true));
        read_gbs = fmax(read_gbs, ceiling_read_gbs(dev, the_clock, buf));
    }
    for (int j = 0; j < (int)N_PEERS; j++) {
        if (!is_wanted(j)) continue;
        bool bf16 = peers[j]->bf16;
        double gflops = 2.0 * s.macs / best[j];
        double gbs = weight_bytes(&s, j, n_rows) / best[j];
        double ceiling = bf16 && pairs > 0.0 ? pairs : fma;
        double of_flops = ceiling > 0.0 ? 100.0 * gflops / ceiling : 0.0;
        printf("%-5s T=%-4d %-14s %10.1f us %8.1f GFLOP/s %4.0f%% of %-7.1f %7.1f GB/s %4.0f%% of %.1f\n", model->name,
               n_rows, peers[j]->name, best[j] / 1e3, gflops, of_flops, ceiling, gbs, 100.0 * gbs / read_gbs, read_gbs);
        if (csv != NULL)
            fprintf(csv, "%s,%d,%s,%.1f,%.1f,%.1f,%.2f,%.2f\n", model->name, n_rows, peers[j]->name, best[j] / 1e3,
                    gflops, ceiling, gbs, read_gbs);
    }
    (void)fflush(stdout);
    free_step(&s);
}

static int to_count(const char *text)
{
    long n = strtol(text, NULL, 10);
    return n < 0 || n > 100000 ? 0 : (int)n;
}

static int isa_by_name(const char *name)
{
    int isa = LF_ISA_AMX;
    while (isa > LF_ISA_C && strcmp(name, lf_isa_name((enum lf_isa)isa)) != 0) isa--;
    return isa;
}

static bool parse(int argc, char **argv, struct options *o)
{
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc) return false;
        if (strcmp(argv[i], "--threads") == 0)
            o->n_threads = to_count(argv[i + 1]);
        else if (strcmp(argv[i], "--rounds") == 0)
            o->n_rounds = LF_MAX(1, to_count(argv[i + 1]));
        else if (strcmp(argv[i], "--rows") == 0)
            o->n_rows = to_count(argv[i + 1]);
        else if (strcmp(argv[i], "--layers") == 0)
            o->n_layers = LF_MIN(to_count(argv[i + 1]), (int)MATRICES_MAX / 4);
        else if (strcmp(argv[i], "--isa") == 0)
            o->isa = isa_by_name(argv[i + 1]);
        else if (strcmp(argv[i], "--model") == 0)
            o->model = argv[i + 1];
        else if (strcmp(argv[i], "--only") == 0)
            only = argv[i + 1];
        else if (strcmp(argv[i], "--csv") == 0)
            o->csv = argv[i + 1];
        else if (strcmp(argv[i], "--clock") == 0)
            the_clock.cpu_time = strcmp(argv[i + 1], "cpu") == 0;
        else
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    static const int rows[] = {1, 6, 64, 512};
    struct options o = {.n_rounds = 5, .isa = -1};
    struct lf_err err;
    if (!parse(argc, argv, &o)) {
        fprintf(stderr,
                "usage: %s [--threads N] [--rounds N] [--model demo|0.5b|8b] [--rows T] [--layers N] "
                "[--only NAME,...] [--isa NAME] [--csv FILE] [--clock wall|cpu]\n",
                argv[0]);
        return 2;
    }
    struct lf_device_opts opts = {.name = "cpu", .n_threads = o.n_threads, .max_isa = o.isa};
    must(lf_device_open(&dev, &opts, &err), &err);
    ops = lf_device_ops(dev);
    printf("%s, %d threads; best of %d rounds in turn\n", ops->name, lf_device_info(dev)->n_threads, o.n_rounds);
    struct lf_buffer buf;
    must(lf_buffer_alloc(dev, &buf, READ_BYTES, "read buffer", &err), &err);
    FILE *csv = o.csv == NULL ? NULL : checked(fopen(o.csv, "w"));
    if (csv != NULL) fprintf(csv, "model,rows,contender,us,gflops,ceiling_gflops,gbs,read_gbs\n");
    for (size_t m = 0; m < LF_N_ELEMS(models); m++) {
        if (o.model != NULL && strcmp(o.model, models[m].name) != 0) continue;
        for (size_t r = 0; r < (o.n_rows > 0 ? 1 : LF_N_ELEMS(rows)); r++)
            bench_step(&models[m], o.n_rows > 0 ? o.n_rows : rows[r], &o, &buf, csv);
    }
    if (csv != NULL) (void)fclose(csv);
    lf_buffer_free(dev, &buf);
    lf_device_close(dev);
    return 0;
}
