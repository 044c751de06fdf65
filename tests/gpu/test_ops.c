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
    struct lf_weight w = {.dtype = LF_F32, .n_out = c->n_out, .n_in = c->n_in};
    size_t bytes = (size_t)ops->weight_bytes(LF_F32, c->n_out, c->n_in);
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
    double bias = c->bias ? (double)d->bias_values[col] : 0.0;
    double residual = c->residual || c->in_place
                          ? (double)d->residual_values[(size_t)row * (size_t)d->p.y_stride + (size_t)col]
                          : 0.0;
    if (c->bias && !c->y_float) bias_rounding = gpu_rounding(gpu_act, bias);
    sum += bias + residual;
    magnitude += fabs(bias) + fabs(residual);
    double allowed = ldexp((c->n_in + 2) * magnitude, -22) + bias_rounding + 1e-30;
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
                              .residual = t % 4 == 0};
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

/* In one kernel and in two, tiles of 16 and of 32 weight rows, halves of 8 and not. */
static void gated_gemms_have_the_bits_of_gemm_and_activation(void **state)
{
    (void)state;
    uint64_t seed = 15;
    static const int shapes[][2] = {{256, 28672}, {520, 144}, {264, 2 * 77}, {1024, 9024}};
    static const int n_tokens[] = {1, 3, 8, 9, 16, 17, 130};
    for (size_t s = 0; s < LF_N_ELEMS(shapes); s++) {
        for (size_t t = 0; t < LF_N_ELEMS(n_tokens); t++) {
            struct gemm_case c = {
                .n_tokens = n_tokens[t], .n_in = shapes[s][0], .n_out = shapes[s][1], .bias = t % 2 == 0};
            struct gemm_data d;
            gemm_make(&d, &c, &seed);
            size_t n = (size_t)c.n_tokens * (size_t)c.n_out / 2;
            struct gpu_tensor at_once = gpu_poisoned(gpu_act, n), in_two = gpu_poisoned(gpu_act, n);
            gpu_ops->gemm_gate_mul(
                gpu, &d.p,
                &(struct lf_gate_mul_params){
                    .out = at_once.ptr, .gate_up = d.p.y, .n_tokens = c.n_tokens, .dim = c.n_out / 2});
            gpu_ops->gemm(gpu, &d.p);
            gpu_ops->gate_mul(gpu,
                              &(struct lf_gate_mul_params){
                                  .out = in_two.ptr, .gate_up = d.p.y, .n_tokens = c.n_tokens, .dim = c.n_out / 2});
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

static void embed_widens_rows_of_the_table(void **state)
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
        gpu_ops->embed(gpu, &p);
        float *got = gpu_read(&out);
        for (size_t t = 0; t < T; t++)
            assert_memory_equal(got + t * dim, gw.values + (size_t)ids[t] * dim, dim * sizeof(float));
        free(got);
        gpu_free(&sampled);
        gpu_free(&dev_ids);
        gpu_free(&out);
        gpu_weight_free(&gw);
    }
}

static void rmsnorm_is_right(void **state)
{
    (void)state;
    uint64_t seed = 8;
    static const int dims[] = {1, 3, 4, 37, 256, 1000, 4096, 5120, 8192, 16384, 20000};
    for (size_t s = 0; s < LF_N_ELEMS(dims); s++) {
        size_t dim = (size_t)dims[s], t = s % 2 ? 5 : 33;
        float *x_values, *w_values, *on_cpu = fixture_alloc(t * dim * sizeof(float));
        struct gpu_tensor x = gpu_random(LF_F32, &seed, t * dim, s % 3 ? 1.0f : 1e3f, &x_values);
        struct gpu_tensor w = gpu_random(LF_F32, &seed, dim, 1.0f, &w_values), out = gpu_poisoned(gpu_act, t * dim);
        struct lf_rmsnorm_params p = {.out = out.ptr,
                                      .x = (float *)(void *)x.ptr,
                                      .weight = (float *)(void *)w.ptr,
                                      .eps = 1e-5f,
                                      .n_tokens = (int)t,
                                      .dim = dims[s]};
        gpu_ops->rmsnorm(gpu, &p);
        float *got = gpu_read(&out);
        struct lf_rmsnorm_params q = {
            .out = on_cpu, .x = x_values, .weight = w_values, .eps = 1e-5f, .n_tokens = (int)t, .dim = dims[s]};
        lf_device_ops(cpu)->rmsnorm(cpu, &q);
        for (size_t r = 0; r < t; r++) {
            double squares = 0.0;
            for (size_t i = 0; i < dim; i++) squares += (double)x_values[r * dim + i] * (double)x_values[r * dim + i];
            double scale = 1.0 / sqrt(squares / (double)dim + (double)1e-5f);
            for (size_t i = 0; i < dim; i++) {
                double expected = (double)x_values[r * dim + i] * scale * (double)w_values[i];
                double allowed = fabs(expected) * ((double)dim + 8) * ldexp(1.0, -24);
                allowed += gpu_rounding(gpu_act, fabs(expected) + allowed);
                assert_true(fabs((double)got[r * dim + i] - expected) <= allowed);
                assert_true(fabs((double)got[r * dim + i] - (double)on_cpu[r * dim + i]) <= 2.0 * allowed);
            }
        }
        free(got);
        free(on_cpu);
        free(w_values);
        free(x_values);
        gpu_free(&out);
        gpu_free(&w);
        gpu_free(&x);
    }
}

static void gate_mul_is_right(void **state)
{
    (void)state;
    uint64_t seed = 9;
    static const int dims[] = {1, 7, 8, 130, 4864, 14336};
    for (size_t s = 0; s < LF_N_ELEMS(dims); s++) {
        size_t dim = (size_t)dims[s], t = s % 2 ? 3 : 70;
        float *values;
        struct gpu_tensor x = gpu_random(gpu_act, &seed, t * 2 * dim, 4.0f, &values);
        struct gpu_tensor out = gpu_poisoned(gpu_act, t * dim);
        float *on_cpu = fixture_alloc(t * dim * sizeof(float));
        gpu_ops->gate_mul(
            gpu, &(struct lf_gate_mul_params){.out = out.ptr, .gate_up = x.ptr, .n_tokens = (int)t, .dim = dims[s]});
        lf_device_ops(cpu)->gate_mul(
            cpu, &(struct lf_gate_mul_params){.out = on_cpu, .gate_up = values, .n_tokens = (int)t, .dim = dims[s]});
        float *got = gpu_read(&out);
        for (size_t r = 0; r < t; r++) {
            for (size_t i = 0; i < dim; i++) {
                double gate = (double)values[r * 2 * dim + i], up = (double)values[(r * 2 + 1) * dim + i];
                double expected = gate / (1.0 + exp(-gate)) * up;
                double allowed =
                    fabs(expected) * ldexp(1.0, -19) + 1e-30; /* the fast exponential: a few ulps of e^-a */
                allowed += gpu_rounding(gpu_act, fabs(expected) + allowed);
                assert_true(fabs((double)got[r * dim + i] - expected) <= allowed);
                assert_true(fabs((double)got[r * dim + i] - (double)on_cpu[r * dim + i]) <= 2.0 * allowed);
            }
        }
        free(got);
        free(on_cpu);
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
    struct lf_weight w = {.dtype = LF_F32, .n_out = 1, .n_in = 1};
    gpu_ops->gemm(gpu, &(struct lf_gemm_params){.alpha = 1, .w = &w, .x_stride = 1, .y_stride = 1});
    gpu_ops->embed(gpu, &(struct lf_embed_params){.scale = 1, .table = &w});
    gpu_ops->rmsnorm(gpu, &(struct lf_rmsnorm_params){.out = &w, .dim = 1});
    gpu_ops->gate_mul(gpu, &(struct lf_gate_mul_params){.dim = 1});
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
        cmocka_unit_test(embed_widens_rows_of_the_table),
        cmocka_unit_test(rmsnorm_is_right),
        cmocka_unit_test(gated_gemms_have_the_bits_of_gemm_and_activation),
        cmocka_unit_test(gate_mul_is_right),
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
