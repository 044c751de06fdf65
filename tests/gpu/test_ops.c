/* Every op of a GPU's table against float64 and against the plain C reference, and what device.h promises of
 * memory, copies and graphs. Skipped (77) where no GPU opens.
 *
 *     test_ops [PATTERN]   (of the names of tests, as "gemm*")
 *
 * Tolerances are bounds: a sum of n float products is off by at most n·2⁻²² of the sum of their magnitudes (tensor
 * cores cut where others round), and what is rounded to activations by half a unit in their last place. */
#include "tests/gpu/gpu_gemm.h"

#include "device/cuda/cuda.h"
#include "device/cuda/gemm_buckets.h"

enum { REPEATS = 200 };

static struct lf_device *cpu; /* the plain C reference */

/* ---- memory and copies ---- */

static void large_and_odd_copies_come_back(void **state)
{
    (void)state;
    /* one byte, past a segment, past the ring of 16 MiB and past both halves of a download */
    static const size_t sizes[] = {1, 63, 4096, (4u << 20) - 1, (4u << 20) + 1, (16u << 20) + 5, 70000001};
    for (size_t s = 0; s < LF_N_ELEMS(sizes); s++) {
        size_t n = sizes[s];
        struct lf_buffer buf = {0};
        assert_int_equal(lf_buffer_alloc(gpu, &buf, n + 8, "copies", NULL), LF_OK);
        unsigned char *up = malloc(n), *down = malloc(n + 8);
        assert_true(up != NULL && down != NULL);
        uint64_t seed = n;
        for (size_t i = 0; i < n; i++) up[i] = (unsigned char)(fixture_random(&seed) >> 7);
        lf_upload(gpu, (char *)buf.ptr + 3, up, n);
        lf_download(gpu, down, buf.ptr, n + 8);
        assert_int_equal(down[0] | down[1] | down[2] | down[n + 3] | down[n + 7], 0); /* a buffer begins as zeros */
        assert_memory_equal(down + 3, up, n);
        memset(up, 0, n); /* the upload had taken the bytes */
        lf_upload(gpu, buf.ptr, down + 3, n);
        memset(down, 0, n);
        lf_download(gpu, down, buf.ptr, n);
        lf_download(gpu, up, buf.ptr, n);
        assert_memory_equal(down, up, n);
        free(down);
        free(up);
        lf_buffer_free(gpu, &buf);
    }
    gpu_sync();
}

static void a_packed_row_reads_back_exactly(void **state)
{
    (void)state;
    uint64_t seed = 1;
    static const int shapes[][2] = {{1, 1}, {3, 5}, {65, 33}, {130, 256}, {64, 1025}, {700, 8191}};
    for (size_t s = 0; s < LF_N_ELEMS(shapes); s++) {
        for (size_t d = 0; d < LF_N_ELEMS(fixture_dtypes); d++) {
            int n_out = shapes[s][0], n_in = shapes[s][1];
            struct gpu_weight gw = gpu_weight(&seed, fixture_dtypes[d], n_out, n_in, 1.0f);
            struct fixture_out row = fixture_out((size_t)n_in);
            for (int r = 0; r < n_out; r += 1 + n_out / 20) {
                gpu_ops->weight_row(gpu, &gw.w, r, row.ptr);
                assert_memory_equal(row.ptr, gw.values + (size_t)r * (size_t)n_in, (size_t)n_in * sizeof(float));
            }
            fixture_out_check_and_free(&row);
            gpu_weight_free(&gw);
        }
    }
}

/* ---- GEMM ---- */

/* The same GEMM by the plain C reference. */
static float *gemm_on_cpu(const struct gemm_case *c, const struct gemm_data *d)
{
    const struct lf_ops *ops = lf_device_ops(cpu);
    struct lf_weight w = {.format.dtype = LF_F32, .n_out = c->n_out, .n_in = c->n_in};
    size_t bytes = (size_t)ops->weight_bytes(&w.format, c->n_out, c->n_in);
    w.data = fixture_alloc(bytes);
    memset(w.data, 0, bytes);
    ops->weight_pack(cpu, &w, 0, c->n_out, d->gw.values);
    float *y = fixture_alloc((size_t)c->n_tokens * (size_t)d->p.y_stride * sizeof(float));
    void *scratch = fixture_alloc(ops->gemm_scratch_bytes(c->n_tokens, c->n_in));
    struct lf_gemm_params p = d->p;
    p.y = y;
    p.x = d->x_values;
    p.w = &w;
    p.bias = c->bias ? d->bias_values : NULL;
    p.residual = c->residual || c->in_place ? d->residual_values : NULL;
    p.scratch = scratch;
    ops->gemm(cpu, &p);
    free(scratch);
    free(w.data);
    return y;
}

static void check_gemm_value(const struct gemm_case *c, const struct gemm_data *d, int row, int col, float got,
                             float on_cpu)
{
    const float *x = d->x_values + (size_t)row * (size_t)d->p.x_stride;
    const float *w = d->gw.values + (size_t)col * (size_t)c->n_in;
    double sum = 0.0, magnitude = 0.0, bias_rounding = 0.0;
    for (int k = 0; k < c->n_in; k++) {
        sum += (double)x[k] * (double)w[k];
        magnitude += fabs((double)x[k] * (double)w[k]);
    }
    double alpha = (double)d->p.alpha, bias = c->bias ? (double)d->bias_values[col] : 0.0;
    double residual = c->residual || c->in_place
                          ? (double)d->residual_values[(size_t)row * (size_t)d->p.y_stride + (size_t)col]
                          : 0.0;
    if (c->bias && !c->y_float) bias_rounding = gpu_rounding(gpu_act, alpha * bias);
    sum = alpha * (sum + bias) + residual;
    magnitude = fabs(alpha) * (magnitude + fabs(bias)) + fabs(residual);
    double allowed = ldexp((c->n_in + 3) * magnitude, -22) + bias_rounding + 1e-30;
    if (!c->y_float) allowed += gpu_rounding(gpu_act, fabs(sum) + allowed);
    if (!(fabs((double)got - sum) <= allowed) || !(fabs((double)got - (double)on_cpu) <= 2.0 * allowed))
        fail_msg("T=%d n_in=%d n_out=%d row %d column %d: %g, expected %g within %g (plain C %g)", c->n_tokens, c->n_in,
                 c->n_out, row, col, (double)got, sum, allowed, (double)on_cpu);
}

static void run_gemm_case(const struct gemm_case *c, uint64_t *seed)
{
    struct gemm_data d;
    gemm_make(&d, c, seed);
    (void)snprintf(gpu_case, sizeof gpu_case,
                   "T=%d n_in=%d n_out=%d float %d bias %d residual %d in place %d gaps %d %d", c->n_tokens, c->n_in,
                   c->n_out, c->y_float, c->bias, c->residual, c->in_place, c->x_gap, c->y_gap);
    gpu_ops->gemm(gpu, &d.p);
    float *y = gpu_read(&d.y), *on_cpu = gemm_on_cpu(c, &d);
    for (int r = 0; r < c->n_tokens; r++) {
        size_t at = (size_t)r * (size_t)d.p.y_stride;
        for (int n = 0; n < c->n_out; n++) check_gemm_value(c, &d, r, n, y[at + (size_t)n], on_cpu[at + (size_t)n]);
        for (int n = c->n_out; n < d.p.y_stride; n++)
            assert_true(c->in_place ? y[at + (size_t)n] == d.residual_values[at + (size_t)n]
                                    : isnan(y[at + (size_t)n]));
    }
    free(on_cpu);
    free(y);
    gemm_free(&d);
}

static void gemm_is_right_for_named_shapes(void **state)
{
    (void)state;
    uint64_t seed = 2;
    static const int shapes[][3] = {
        {1, 8, 1},      {1, 16, 64},  {2, 24, 65},   {3, 32, 63},   {4, 40, 128},   {5, 136, 100},  {6, 256, 256},
        {7, 64, 17},    {8, 512, 70}, {9, 512, 64},  {16, 96, 64},  {17, 520, 130}, {32, 1024, 64}, {33, 1032, 96},
        {64, 256, 192}, {95, 40, 64}, {96, 600, 66}, {97, 80, 200}, {193, 536, 66}, {1, 4096, 96},  {300, 8, 8},
        {1, 1, 1},      {2, 3, 5},    {5, 33, 7},    {12, 513, 71}, {40, 77, 33},   {16, 2880, 48}, {3, 14336, 40},
    };
    for (size_t s = 0; s < LF_N_ELEMS(shapes); s++) {
        for (int kind = 0; kind < 4; kind++) {
            struct gemm_case c = {.n_tokens = shapes[s][0],
                                  .n_in = shapes[s][1],
                                  .n_out = shapes[s][2],
                                  .y_float = kind > 0,
                                  .bias = (s + (size_t)kind) % 2 == 0,
                                  .residual = kind == 2,
                                  .in_place = kind == 3,
                                  .x_gap = s % 3 == 0 ? 8 : 0,
                                  .y_gap = s % 4 == 0 ? 3 : 0};
            run_gemm_case(&c, &seed);
            c.alpha = -0.22f;
            run_gemm_case(&c, &seed);
        }
    }
}

static void gemm_is_right_for_all_row_counts(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int t = 1; t <= 64; t++) {
        struct gemm_case c = {.n_tokens = t,
                              .n_in = 8 * fixture_between(&seed, 1, 60),
                              .n_out = fixture_between(&seed, 1, 200),
                              .y_float = t % 2 == 0,
                              .bias = t % 3 == 0,
                              .residual = t % 4 == 0,
                              .alpha = t % 5 == 0 ? 12.5f : 1.0f};
        run_gemm_case(&c, &seed);
    }
    run_gemm_case(&(struct gemm_case){.n_tokens = 513, .n_in = 256, .n_out = 96, .y_float = true, .residual = true},
                  &seed);
    run_gemm_case(&(struct gemm_case){.n_tokens = 513, .n_in = 104, .n_out = 200, .bias = true}, &seed);
}

/* Tokens first .. first + n - 1 of d's, alone. */
static char *gemm_tokens(const struct gemm_data *d, int first, int n)
{
    struct lf_gemm_params p = d->p;
    struct gpu_tensor y = gpu_poisoned(d->y.dtype, (size_t)n * (size_t)p.y_stride);
    p.x = d->x.ptr + (size_t)first * (size_t)p.x_stride * 2;
    p.y = y.ptr;
    if (p.residual) p.residual += (size_t)first * (size_t)p.y_stride;
    p.n_tokens = n;
    gpu_ops->gemm(gpu, &p);
    char *raw = gpu_read_raw(&y);
    gpu_free(&y);
    return raw;
}

static void tokens_of_a_gemm_are_the_same_in_every_batch_up_to_16(void **state)
{
    (void)state;
    uint64_t seed = 4;
    /* tiles of 32 weight rows and of 16, tails of n_in and n_out, several tiles a block */
    static const int shapes[][2] = {{4096, 4096}, {4096, 6144}, {1032, 70}, {256, 9001}, {14336, 512}};
    for (size_t s = 0; s < LF_N_ELEMS(shapes); s++) {
        for (int y_float = 0; y_float < 2; y_float++) {
            struct gemm_case c = {
                .n_tokens = 16, .n_in = shapes[s][0], .n_out = shapes[s][1], .y_float = y_float, .residual = y_float};
            struct gemm_data d;
            gemm_make(&d, &c, &seed);
            size_t row_bytes = (size_t)c.n_out * (y_float ? sizeof(float) : 2);
            char *all = gemm_tokens(&d, 0, 16);
            for (int n = 1; n < 16; n++) {
                int first = fixture_between(&seed, 0, 16 - n);
                char *some = gemm_tokens(&d, first, n);
                assert_memory_equal(some, all + (size_t)first * row_bytes, (size_t)n * row_bytes);
                free(some);
            }
            free(all);
            gemm_free(&d);
        }
    }
}

static void gemms_repeat(void **state)
{
    (void)state;
    uint64_t seed = 5;
    static const int n_tokens[] = {1, 7, 16, 40, 300};
    for (size_t t = 0; t < LF_N_ELEMS(n_tokens); t++) {
        struct gemm_case c = {.n_tokens = n_tokens[t], .n_in = 2048, .n_out = 1040, .y_float = true, .bias = true};
        struct gemm_data d;
        gemm_make(&d, &c, &seed);
        char *first = gemm_tokens(&d, 0, c.n_tokens);
        for (int i = 1; i < gpu_times(REPEATS); i++) {
            char *again = gemm_tokens(&d, 0, c.n_tokens);
            assert_memory_equal(again, first, (size_t)c.n_tokens * (size_t)c.n_out * sizeof(float));
            free(again);
        }
        free(first);
        gemm_free(&d);
    }
}

/* In one kernel and in two, tiles of 16 and of 32 weight rows, halves of 8 and not; each activation in both. */
static void gated_gemms_have_the_bits_of_gemm_and_activation(void **state)
{
    (void)state;
    uint64_t seed = 15;
    static const int shapes[][2] = {{256, 28672}, {520, 144}, {264, 2 * 77}, {1024, 9024}};
    static const int n_tokens[] = {1, 3, 8, 9, 16, 17, 130};
    for (size_t s = 0; s < LF_N_ELEMS(shapes); s++) {
        for (size_t t = 0; t < LF_N_ELEMS(n_tokens); t++) {
            struct gemm_case c = {.n_tokens = n_tokens[t],
                                  .n_in = shapes[s][0],
                                  .n_out = shapes[s][1],
                                  .bias = t % 2 == 0,
                                  .alpha = t % 3 == 0 ? 0.3f : 1.0f};
            struct gemm_data d;
            gemm_make(&d, &c, &seed);
            size_t n = (size_t)c.n_tokens * (size_t)c.n_out / 2;
            struct gpu_tensor at_once = gpu_poisoned(gpu_act, n), in_two = gpu_poisoned(gpu_act, n);
            struct lf_gate_mul_params gate = {.out = at_once.ptr,
                                              .gate_up = d.p.y,
                                              .n_tokens = c.n_tokens,
                                              .dim = c.n_out / 2,
                                              .act = (enum lf_act)((s + t) % LF_ACTS_N),
                                              .limit = 7.0f};
            gpu_ops->gemm_gate_mul(gpu, &d.p, &gate);
            gate.out = in_two.ptr;
            gpu_ops->gemm(gpu, &d.p);
            gpu_ops->gate_mul(gpu, &gate);
            char *got = gpu_read_raw(&at_once), *expected = gpu_read_raw(&in_two);
            assert_memory_equal(got, expected, n * 2);
            free(expected);
            free(got);
            gpu_free(&in_two);
            gpu_free(&at_once);
            gemm_free(&d);
        }
    }
}

static void prepared_gemms_are_the_same(void **state)
{
    (void)state;
    uint64_t seed = 6;
    struct gemm_case c = {.n_tokens = 48, .n_in = 520, .n_out = 264, .bias = true};
    struct gemm_data d;
    gemm_make(&d, &c, &seed);
    char *before = gemm_tokens(&d, 0, c.n_tokens);
    gpu_ops->gemm_prepare(gpu, &d.p);
    char *after = gemm_tokens(&d, 0, c.n_tokens);
    assert_memory_equal(before, after, (size_t)c.n_tokens * (size_t)c.n_out * 2);
    free(after);
    free(before);
    gemm_free(&d);
}

/* ---- rows ---- */

static void embed_widens_and_scales_rows_of_the_table(void **state)
{
    (void)state;
    uint64_t seed = 7;
    static const int dims[] = {1, 6, 64, 256, 4096};
    for (size_t s = 0; s < LF_N_ELEMS(dims); s++) {
        enum { VOCAB = 300, T = 70 };
        size_t dim = (size_t)dims[s];
        struct gpu_weight gw = gpu_weight(&seed, s % 2 ? LF_F32 : LF_BF16, VOCAB, dims[s], 1.0f);
        int32_t ids[T], given[T]; /* every third one is named as what row T - 1 - i has drawn */
        for (int i = 0; i < T; i++) ids[i] = fixture_between(&seed, 0, VOCAB - 1);
        for (int i = 0; i < T; i++) given[i] = i % 3 == 0 ? -1 - (T - 1 - i) : ids[i];
        struct gpu_tensor out = gpu_poisoned(LF_F32, T * dim), dev_ids = gpu_ids(given, T), sampled;
        int32_t drawn[T];
        for (int i = 0; i < T; i++) drawn[T - 1 - i] = ids[i];
        sampled = gpu_ids(drawn, T);
        struct lf_embed_params p = {.scale = 1,
                                    .out = (float *)(void *)out.ptr,
                                    .table = &gw.w,
                                    .ids = (int32_t *)(void *)dev_ids.ptr,
                                    .sampled = (int32_t *)(void *)sampled.ptr,
                                    .n_tokens = T};
        int32_t rows[T]; /* of the tokens that are picked */
        for (int i = 0; i < T; i++) rows[i] = fixture_between(&seed, 0, T - 1);
        struct gpu_tensor dev_rows = gpu_ids(rows, T);
        for (int scaled = 0; scaled < 2; scaled++) {
            for (int part = 0; part < 4; part++) { /* all columns, some from an even one on, from an odd one */
                size_t column = part < 2 ? 0 : part == 2 ? dim / 8 * 4 : dim / 2 / 2 * 2 + (dim > 1), n = dim - column;
                p.scale = scaled ? 11.3137f : 1.0f;
                p.column = (int)column;
                p.n_columns = part == 0 ? 0 : (int)n;
                p.rows = part % 2 ? (int32_t *)(void *)dev_rows.ptr : NULL;
                gpu_ops->embed(gpu, &p);
                float *got = gpu_read(&out);
                for (size_t i = 0; i < T * n; i++) {
                    int32_t id = ids[part % 2 ? rows[i / n] : (int32_t)(i / n)];
                    assert_true(got[i] == p.scale * gw.values[(size_t)id * dim + column + i % n]);
                }
                free(got);
            }
        }
        gpu_free(&dev_rows);
        gpu_free(&sampled);
        gpu_free(&dev_ids);
        gpu_free(&out);
        gpu_weight_free(&gw);
    }
}

/* in_place: out is the residual */
struct norm_case {
    int n_tokens, dim;
    bool weight, residual, out_float, in_place, scale;
};

/* x, weight, residual and out of a case, and what they hold. */
struct norm_data {
    struct gpu_tensor x, weight, residual, scale, out;
    float *x_values, *weight_values, *residual_values, *scale_value;
};

static void check_norm(const struct norm_case *c, const struct norm_data *d, const float *got, const float *on_cpu)
{
    size_t dim = (size_t)c->dim;
    for (size_t r = 0; r < (size_t)c->n_tokens; r++) {
        double squares = 0.0;
        for (size_t i = 0; i < dim; i++) squares += (double)d->x_values[r * dim + i] * (double)d->x_values[r * dim + i];
        double scale = 1.0 / sqrt(squares / (double)dim + (double)1e-5f);
        for (size_t i = 0; i < dim; i++) {
            size_t at = r * dim + i;
            double normed = (double)d->x_values[at] * scale * (c->weight ? (double)d->weight_values[i] : 1.0);
            double by = c->scale ? (double)*d->scale_value : 1.0;
            double expected = by * (normed + (c->residual ? (double)d->residual_values[at] : 0.0));
            double allowed = fabs(by * normed) * ((double)dim + 8) * ldexp(1.0, -24) + fabs(expected) * ldexp(1.0, -23);
            allowed += gpu_rounding(c->out_float ? LF_F32 : gpu_act, fabs(expected) + allowed);
            if (!(fabs((double)got[at] - expected) <= allowed) ||
                !(fabs((double)got[at] - (double)on_cpu[at]) <= 2.0 * allowed))
                fail_msg("T=%d dim=%d weight %d residual %d float %d: row %zu column %zu: %g, expected %g within %g",
                         c->n_tokens, c->dim, c->weight, c->residual, c->out_float, r, i, (double)got[at], expected,
                         allowed);
        }
    }
}

static void run_norm_case(const struct norm_case *c, uint64_t *seed)
{
    size_t dim = (size_t)c->dim, n = (size_t)c->n_tokens * dim;
    struct norm_data d;
    d.x = gpu_random(LF_F32, seed, n, c->n_tokens % 2 ? 1.0f : 1e3f, &d.x_values);
    d.weight = gpu_random(LF_F32, seed, dim, 1.0f, &d.weight_values);
    d.residual = gpu_random(LF_F32, seed, n, 3.0f, &d.residual_values);
    d.scale = gpu_random(LF_F32, seed, 1, 1.0f, &d.scale_value);
    d.out = gpu_poisoned(c->out_float ? LF_F32 : gpu_act, n);
    const struct gpu_tensor *out = c->in_place ? &d.residual : &d.out;
    struct lf_rmsnorm_params p = {.out = out->ptr,
                                  .x = (float *)(void *)d.x.ptr,
                                  .weight = c->weight ? (float *)(void *)d.weight.ptr : NULL,
                                  .eps = 1e-5f,
                                  .n_tokens = c->n_tokens,
                                  .dim = c->dim,
                                  .residual = c->residual ? (float *)(void *)d.residual.ptr : NULL,
                                  .out_float = c->out_float,
                                  .scale = c->scale ? (float *)(void *)d.scale.ptr : NULL};
    gpu_ops->rmsnorm(gpu, &p);
    float *got = gpu_read(out), *on_cpu = fixture_alloc(n * sizeof(float));
    p.out = on_cpu;
    p.x = d.x_values;
    p.weight = c->weight ? d.weight_values : NULL;
    p.residual = c->residual ? d.residual_values : NULL;
    p.scale = c->scale ? d.scale_value : NULL;
    lf_device_ops(cpu)->rmsnorm(cpu, &p);
    check_norm(c, &d, got, on_cpu);
    free(on_cpu);
    free(got);
    gpu_free(&d.out);
    gpu_free(&d.scale);
    gpu_free(&d.residual);
    gpu_free(&d.weight);
    gpu_free(&d.x);
    free(d.scale_value);
    free(d.residual_values);
    free(d.weight_values);
    free(d.x_values);
}

static void rmsnorm_is_right(void **state)
{
    (void)state;
    uint64_t seed = 8;
    static const int dims[] = {1, 3, 4, 37, 256, 1000, 4096, 5120, 8192, 16384, 20000};
    static const struct norm_case kinds[] = {{.weight = true},
                                             {.weight = false},
                                             {.weight = true, .out_float = true},
                                             {.weight = false, .out_float = true},
                                             {.weight = true, .out_float = true, .residual = true},
                                             {.weight = false, .out_float = true, .residual = true},
                                             {.weight = true, .out_float = true, .residual = true, .in_place = true},
                                             {.weight = true, .out_float = true, .residual = true, .scale = true},
                                             {.weight = true, .out_float = true, .scale = true}};
    for (size_t s = 0; s < LF_N_ELEMS(dims); s++) {
        for (size_t k = 0; k < LF_N_ELEMS(kinds); k++) {
            struct norm_case c = kinds[k];
            c.dim = dims[s];
            c.n_tokens = (s + k) % 2 ? 5 : 32;
            run_norm_case(&c, &seed);
        }
    }
}

#define OAI_LIMIT 7.0f

/* What a gate lets through. *steep: what its exponential is taken of; an error of that is a relative one of the
 * result. */
static double gated(enum lf_act act, double g, double up, double *steep)
{
    double u = sqrt(2.0 / acos(-1.0)) * (g + 0.044715 * g * g * g);
    *steep = act == LF_ACT_GELU_TANH ? 2 * u : act == LF_ACT_GELU ? g * g : act == LF_ACT_SILU ? g : 1.702 * g;
    if (act == LF_ACT_SILU) return g / (1.0 + exp(-g)) * up;
    if (act == LF_ACT_GELU) return 0.5 * g * erfc(-g / sqrt(2.0)) * up;
    if (act == LF_ACT_GELU_TANH) return g / (1.0 + exp(-2 * u)) * up;
    g = fmin(g, (double)OAI_LIMIT);
    return g / (1.0 + exp(-1.702 * g)) * (fmin(fmax(up, -(double)OAI_LIMIT), (double)OAI_LIMIT) + 1.0);
}

/* on_cpu is not rounded. */
static void check_gate(enum lf_act act, float got, float on_cpu, float gate, float up)
{
    double steep, expected = gated(act, (double)gate, (double)up, &steep);
    /* the fast exponential: a few ulps of e^-a, and of a */
    double allowed = fabs(expected) * ldexp(32.0 + 8.0 * fmin(fabs(steep), 100.0), -24) + 1e-30;
    allowed += gpu_rounding(gpu_act, fabs(expected) + allowed);
    if (!(fabs((double)got - expected) <= allowed) || !(fabs((double)got - (double)on_cpu) <= 2.0 * allowed))
        fail_msg("act %d of (%g, %g) is %.9g, expected %.9g within %g (plain C %.9g)", (int)act, (double)gate,
                 (double)up, (double)got, expected, allowed, (double)on_cpu);
}

/* Of these values, [t, 2 · dim]. */
static void run_gate_case(enum lf_act act, size_t t, size_t dim, float *values)
{
    struct gpu_tensor x = gpu_tensor(gpu_act, values, t * 2 * dim), out = gpu_poisoned(gpu_act, t * dim);
    struct lf_gate_mul_params p = {
        .out = out.ptr, .gate_up = x.ptr, .n_tokens = (int)t, .dim = (int)dim, .act = act, .limit = OAI_LIMIT};
    gpu_ops->gate_mul(gpu, &p);
    float *got = gpu_read(&out), *on_cpu = fixture_alloc(t * dim * sizeof(float));
    p.out = on_cpu;
    p.gate_up = values;
    lf_device_ops(cpu)->gate_mul(cpu, &p);
    for (size_t r = 0; r < t; r++)
        for (size_t i = 0; i < dim; i++)
            check_gate(act, got[r * dim + i], on_cpu[r * dim + i], values[r * 2 * dim + i],
                       values[(r * 2 + 1) * dim + i]);
    free(on_cpu);
    free(got);
    gpu_free(&out);
    gpu_free(&x);
}

/* gate in the activations' type, up as floats of their own: values, [2, t, dim]. */
static void run_gate_by_floats(enum lf_act act, size_t t, size_t dim, float *values)
{
    struct gpu_tensor gate = gpu_tensor(gpu_act, values, t * dim), up = gpu_tensor(LF_F32, values + t * dim, t * dim);
    struct gpu_tensor out = gpu_poisoned(gpu_act, t * dim);
    struct lf_gate_mul_params p = {.out = out.ptr,
                                   .gate_up = gate.ptr,
                                   .n_tokens = (int)t,
                                   .dim = (int)dim,
                                   .act = act,
                                   .limit = OAI_LIMIT,
                                   .up = (float *)(void *)up.ptr};
    gpu_ops->gate_mul(gpu, &p);
    float *got = gpu_read(&out), *on_cpu = fixture_alloc(t * dim * sizeof(float));
    p.out = on_cpu;
    p.gate_up = values;
    p.up = values + t * dim;
    lf_device_ops(cpu)->gate_mul(cpu, &p);
    for (size_t i = 0; i < t * dim; i++) check_gate(act, got[i], on_cpu[i], values[i], values[t * dim + i]);
    free(on_cpu);
    free(got);
    gpu_free(&out);
    gpu_free(&up);
    gpu_free(&gate);
}

static void gate_mul_is_right(void **state)
{
    (void)state;
    uint64_t seed = 9;
    static const int dims[] = {1, 7, 8, 130, 4864, 14336};
    for (int act = 0; act < LF_ACTS_N; act++) {
        for (size_t s = 0; s < LF_N_ELEMS(dims); s++) {
            size_t dim = (size_t)dims[s], t = s % 2 ? 3 : 70;
            float *values = fixture_floats(&seed, t * 2 * dim, 4.0f);
            run_gate_case((enum lf_act)act, t, dim, values);
            run_gate_by_floats((enum lf_act)act, t, dim, values);
            free(values);
        }
    }
}

static void gate_mul_holds_over_the_whole_range(void **state)
{
    (void)state;
    enum { N = 40008 };
    float *values = fixture_alloc(2 * N * sizeof(float));
    for (int act = 0; act < LF_ACTS_N; act++) {
        for (int i = 0; i < N; i++) values[i] = (float)(i - N / 2) * 0.005f; /* -100 .. 100 */
        for (int i = 0; i < N; i++) values[N + i] = 1.5f - (float)(i % 40);
        run_gate_case((enum lf_act)act, 1, N, values);

        float special[12] = {NAN, INFINITY, 0.0f, -0.0f, 1.0f, 1.0f, 1.0f, 2.0f, 1.0f, 1.0f, NAN, 1.0f};
        struct gpu_tensor x = gpu_tensor(gpu_act, special, 12), out = gpu_poisoned(gpu_act, 6);
        struct lf_gate_mul_params p = {
            .out = out.ptr, .gate_up = x.ptr, .n_tokens = 1, .dim = 6, .act = (enum lf_act)act, .limit = OAI_LIMIT};
        gpu_ops->gate_mul(gpu, &p);
        float *got = gpu_read(&out);
        assert_true(isnan(got[0]) && got[1] > 0.0f && isnan(got[4]) && !isnan(got[5]));
        assert_true(isinf(got[1]) || act == LF_ACT_SWIGLU_OAI); /* whose gate has a limit */
        assert_true(got[2] == 0.0f && got[3] == 0.0f);
        free(got);
        gpu_free(&out);
        gpu_free(&x);
    }
    free(values);
}

static void softcap_is_right(void **state)
{
    (void)state;
    uint64_t seed = 14;
    static const int sizes[] = {1, 7, 128, 129, 30001, 1 << 20};
    for (size_t s = 0; s < LF_N_ELEMS(sizes); s++) {
        size_t n = (size_t)sizes[s];
        float *values = fixture_floats(&seed, n, s % 2 ? 60.0f : 0.01f);
        if (n > 7) values[3] = 1e30f, values[4] = -INFINITY, values[5] = 0.0f, values[6] = NAN;
        struct gpu_tensor x = gpu_tensor(LF_F32, values, n);
        gpu_ops->softcap(gpu, &(struct lf_softcap_params){.x = (float *)(void *)x.ptr, .n = (int64_t)n, .cap = 30.0f});
        float *got = gpu_read(&x);
        lf_device_ops(cpu)->softcap(cpu, &(struct lf_softcap_params){.x = values, .n = (int64_t)n, .cap = 30.0f});
        for (size_t i = 0; i < n; i++) {
            double off = fabs((double)got[i] - (double)values[i]); /* both are right within 12 roundings */
            assert_true(isnan(values[i]) ? isnan(got[i]) : off <= fabs((double)values[i]) * ldexp(24.0, -24));
        }
        free(got);
        free(values);
        gpu_free(&x);
    }
}

static void round_rounds(void **state)
{
    (void)state;
    uint64_t seed = 18;
    static const int sizes[] = {1, 127, 4096, 70001};
    for (size_t s = 0; s < LF_N_ELEMS(sizes); s++) {
        size_t n = (size_t)sizes[s];
        float *values;
        struct gpu_tensor x = gpu_random(LF_F32, &seed, n, 10.0f, &values), out = gpu_poisoned(gpu_act, n);
        gpu_ops->round(gpu, &(struct lf_round_params){out.ptr, (float *)(void *)x.ptr, (int64_t)n});
        uint16_t *expected = malloc(n * sizeof *expected);
        assert_non_null(expected);
        lf_from_f32(expected, gpu_act, values, n);
        char *got = gpu_read_raw(&out);
        assert_memory_equal(got, expected, n * sizeof *expected);
        free(got);
        free(expected);
        free(values);
        gpu_free(&out);
        gpu_free(&x);
    }
}

static void gather_copies_rows(void **state)
{
    (void)state;
    uint64_t seed = 10;
    enum { T = 40 };
    static const int dims[] = {1, 17, 256, 4096};
    for (size_t s = 0; s < 2 * LF_N_ELEMS(dims); s++) {
        size_t dim = (size_t)dims[s / 2];
        enum lf_dtype dtype = s % 2 ? LF_F32 : gpu_act;
        float *values;
        int32_t rows[2 * T];
        for (int i = 0; i < 2 * T; i++) rows[i] = fixture_between(&seed, 0, T - 1);
        struct gpu_tensor x = gpu_random(dtype, &seed, T * dim, 1.0f, &values), ids = gpu_ids(rows, 2 * T);
        struct gpu_tensor out = gpu_poisoned(dtype, 2 * T * dim);
        gpu_ops->gather(
            gpu, &(struct lf_gather_params){out.ptr, x.ptr, (int32_t *)(void *)ids.ptr, 2 * T, dims[s / 2], dtype});
        float *got = gpu_read(&out);
        for (size_t i = 0; i < 2 * T; i++)
            assert_memory_equal(got + i * dim, values + (size_t)rows[i] * dim, dim * sizeof(float));
        free(got);
        free(values);
        gpu_free(&out);
        gpu_free(&ids);
        gpu_free(&x);
    }
}

/* A norm and an activation of any of 70 tokens, alone and together. */
static void tokens_of_norm_and_silu_stay_alone_and_repeat(void **state)
{
    (void)state;
    uint64_t seed = 11;
    enum { T = 70, D = 1000 };
    float *values, *w_values;
    struct gpu_tensor x = gpu_random(LF_F32, &seed, T * D, 1.0f, &values);
    struct gpu_tensor w = gpu_random(LF_F32, &seed, D, 1.0f, &w_values);
    struct gpu_tensor normed = gpu_poisoned(gpu_act, T * D), out = gpu_poisoned(gpu_act, T * D / 2);
    char *first[2] = {NULL, NULL};
    for (int i = 0; i < gpu_times(REPEATS); i++) {
        int at = i == 0 ? 0 : fixture_between(&seed, 0, T - 1), n = i == 0 ? T : fixture_between(&seed, 1, T - at);
        struct lf_rmsnorm_params p = {.out = normed.ptr + (size_t)at * D * 2,
                                      .x = (float *)(void *)x.ptr + at * D,
                                      .weight = (float *)(void *)w.ptr,
                                      .eps = 1e-6f,
                                      .n_tokens = n,
                                      .dim = D};
        gpu_ops->rmsnorm(gpu, &p);
        gpu_ops->gate_mul(gpu, &(struct lf_gate_mul_params){.out = out.ptr + (size_t)at * D,
                                                            .gate_up = normed.ptr + (size_t)at * D * 2,
                                                            .n_tokens = n,
                                                            .dim = D / 2});
        char *a = gpu_read_raw(&normed), *b = gpu_read_raw(&out);
        if (i == 0) {
            first[0] = a;
            first[1] = b;
            continue;
        }
        assert_memory_equal(a, first[0], T * D * 2);
        assert_memory_equal(b, first[1], T * D);
        free(a);
        free(b);
    }
    free(first[0]);
    free(first[1]);
    free(values);
    free(w_values);
    gpu_free(&out);
    gpu_free(&normed);
    gpu_free(&w);
    gpu_free(&x);
}

static void no_tokens_is_no_work(void **state)
{
    (void)state;
    struct lf_weight w = {.format.dtype = LF_F32, .n_out = 1, .n_in = 1};
    gpu_ops->gemm(gpu, &(struct lf_gemm_params){.alpha = 1, .w = &w, .x_stride = 1, .y_stride = 1});
    gpu_ops->embed(gpu, &(struct lf_embed_params){.scale = 1, .table = &w});
    gpu_ops->rmsnorm(gpu, &(struct lf_rmsnorm_params){.out = &w, .dim = 1});
    gpu_ops->gate_mul(gpu, &(struct lf_gate_mul_params){.dim = 1});
    gpu_ops->softcap(gpu, &(struct lf_softcap_params){.cap = 1.0f});
    gpu_ops->round(gpu, &(struct lf_round_params){.out = &w});
    gpu_ops->gather(gpu, &(struct lf_gather_params){.dim = 1});
    gpu_sync();
}

/* ---- graphs ---- */

/* norm, GEMM with residual, gather: what a layer's end looks like. */
static void chain(const struct gemm_data *d, const struct gpu_tensor *h, const struct gpu_tensor *w,
                  const struct gpu_tensor *ids, const struct gpu_tensor *out)
{
    struct lf_rmsnorm_params norm = {.out = d->x.ptr,
                                     .x = (float *)(void *)h->ptr,
                                     .weight = (float *)(void *)w->ptr,
                                     .eps = 1e-6f,
                                     .n_tokens = d->p.n_tokens,
                                     .dim = d->gw.w.n_in};
    gpu_ops->rmsnorm(gpu, &norm);
    gpu_ops->gemm(gpu, &d->p);
    gpu_ops->gather(gpu, &(struct lf_gather_params){out->ptr, d->y.ptr, (int32_t *)(void *)ids->ptr, d->p.n_tokens,
                                                    d->gw.w.n_out, LF_F32});
}

static void a_graph_replays_with_what_lies_at_its_addresses(void **state)
{
    (void)state;
    uint64_t seed = 12;
    static const int sizes[] = {1, 16, 24};
    for (size_t s = 0; s < LF_N_ELEMS(sizes); s++) {
        struct gemm_case c = {.n_tokens = sizes[s], .n_in = 512, .n_out = 264, .y_float = true};
        struct gemm_data d;
        gemm_make(&d, &c, &seed);
        size_t t = (size_t)c.n_tokens, n = t * 264;
        float *h_values, *w_values;
        int32_t order[24];
        for (int i = 0; i < c.n_tokens; i++) order[i] = c.n_tokens - 1 - i;
        struct gpu_tensor h = gpu_random(LF_F32, &seed, t * 512, 1.0f, &h_values);
        struct gpu_tensor w = gpu_random(LF_F32, &seed, 512, 1.0f, &w_values), ids = gpu_ids(order, t);
        struct gpu_tensor out = gpu_poisoned(LF_F32, n), expected = gpu_poisoned(LF_F32, n);
        gpu_ops->gemm_prepare(gpu, &d.p);
        gpu_sync();
        assert_true(lf_graph_begin(gpu));
        chain(&d, &h, &w, &ids, &out);
        struct lf_graph *graph = lf_graph_end(gpu);
        assert_non_null(graph);
        float *untouched = gpu_read(&out);
        assert_true(isnan(untouched[0])); /* recording runs nothing */
        free(untouched);
        for (int i = 0; i < 20; i++) {
            for (size_t k = 0; k < t * 512; k++) h_values[k] = fixture_normal(&seed);
            lf_upload(gpu, h.ptr, h_values, t * 512 * sizeof(float));
            lf_graph_launch(gpu, graph);
            chain(&d, &h, &w, &ids, &expected);
            char *a = gpu_read_raw(&out), *b = gpu_read_raw(&expected);
            assert_memory_equal(a, b, n * sizeof(float));
            free(a);
            free(b);
        }
        lf_graph_destroy(gpu, graph);
        free(w_values);
        free(h_values);
        gpu_free(&expected);
        gpu_free(&out);
        gpu_free(&ids);
        gpu_free(&w);
        gpu_free(&h);
        gemm_free(&d);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_and_odd_copies_come_back),
        cmocka_unit_test(a_packed_row_reads_back_exactly),
        cmocka_unit_test(gemm_is_right_for_named_shapes),
        cmocka_unit_test(gemm_is_right_for_all_row_counts),
        cmocka_unit_test(tokens_of_a_gemm_are_the_same_in_every_batch_up_to_16),
        cmocka_unit_test(gemms_repeat),
        cmocka_unit_test(prepared_gemms_are_the_same),
        cmocka_unit_test(embed_widens_and_scales_rows_of_the_table),
        cmocka_unit_test(rmsnorm_is_right),
        cmocka_unit_test(gated_gemms_have_the_bits_of_gemm_and_activation),
        cmocka_unit_test(gate_mul_is_right),
        cmocka_unit_test(gate_mul_holds_over_the_whole_range),
        cmocka_unit_test(softcap_is_right),
        cmocka_unit_test(round_rounds),
        cmocka_unit_test(gather_copies_rows),
        cmocka_unit_test(tokens_of_norm_and_silu_stay_alone_and_repeat),
        cmocka_unit_test(no_tokens_is_no_work),
        cmocka_unit_test(a_graph_replays_with_what_lies_at_its_addresses),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    cpu = fixture_open(LF_ISA_C, 0);
    int rc = gpu_run(tests);
    lf_device_close(cpu);
    return rc;
}
