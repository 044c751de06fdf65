/* The ops of experts against float64, and a row's bits against the same row's alone, for one instruction set.
 *
 *     test_experts ISA
 *
 * Tolerances are bounds, as in test_ops.c. An expert's row has the very bits that a GEMM with the expert's matrix gives
 * it, so what test_bits.c shows of GEMMs holds of experts: alone, in any batch, on any number of threads. */
#include "tests/parity/device/weight_fixture.h"

#include "core/check.h"
#include "core/limits.h"

static struct lf_device *devs[3]; /* 1, 2 and 3 threads */
static const struct lf_ops *ops;
static enum lf_isa isa;

/* ---- routing ---- */

struct routing {
    int n_tokens, n_experts, k;
    struct fixture_out weights, rows, places, first;
};

static struct routing route(struct lf_device *dev, const float *logits, enum lf_route kind, float scale, int n_tokens,
                            int n_experts, int k)
{
    size_t n = (size_t)n_tokens * (size_t)k;
    struct routing r = {
        n_tokens, n_experts, k, fixture_out(n), fixture_out(n), fixture_out(n), fixture_out((size_t)n_experts + 1)};
    struct lf_route_params p = {.logits = logits,
                                .route = kind,
                                .n_tokens = n_tokens,
                                .n_experts = n_experts,
                                .k = k,
                                .scale = scale,
                                .weights = r.weights.ptr,
                                .rows = (int32_t *)(void *)r.rows.ptr,
                                .places = (int32_t *)(void *)r.places.ptr,
                                .first = (int32_t *)(void *)r.first.ptr};
    ops->route(dev, &p);
    return r;
}

static const int32_t *ints(const struct fixture_out *out)
{
    return (const int32_t *)(const void *)out->ptr;
}

static void free_routing(struct routing *r)
{
    fixture_out_check_and_free(&r->weights);
    fixture_out_check_and_free(&r->rows);
    fixture_out_check_and_free(&r->places);
    fixture_out_check_and_free(&r->first);
}

/* The expert of a sorted row. */
static int expert_of(const struct routing *r, int row)
{
    int e = 0;
    while (ints(&r->first)[e + 1] <= row) e++;
    return e;
}

/* Rows are sorted by expert, within one by token; places is where each choice went; no token has an expert twice. */
static void check_order(const struct routing *r)
{
    int n = r->n_tokens * r->k;
    const int32_t *rows = ints(&r->rows), *places = ints(&r->places), *first = ints(&r->first);
    assert_true(first[0] == 0 && first[r->n_experts] == n);
    for (int e = 0; e < r->n_experts; e++) {
        assert_true(first[e] <= first[e + 1]);
        for (int i = first[e]; i < first[e + 1]; i++) {
            assert_true(rows[i] >= 0 && rows[i] < n && places[rows[i]] == i);
            assert_true(i == first[e] || rows[i] / r->k > rows[i - 1] / r->k);
        }
    }
}

/* Of one token: its choices by a plain selection, their weights in float64. */
static void check_choices(const struct routing *r, const float *logits, enum lf_route kind, double scale, int token)
{
    bool taken[LF_EXPERTS_N] = {false};
    int chosen[LF_EXPERTS_PER_TOKEN_N];
    double all = 0, of_chosen = 0;
    for (int j = 0; j < r->k; j++) {
        int best = -1;
        for (int e = 0; e < r->n_experts; e++)
            if (!taken[e] && (best < 0 || logits[e] > logits[best])) best = e;
        taken[best] = true;
        chosen[j] = best;
        of_chosen += exp((double)logits[best] - (double)logits[chosen[0]]);
    }
    for (int e = 0; e < r->n_experts; e++) all += exp((double)logits[e] - (double)logits[chosen[0]]);
    for (int j = 0; j < r->k; j++) {
        int place = ints(&r->places)[token * r->k + j];
        assert_int_equal(expert_of(r, place), chosen[j]);
        double e = exp((double)logits[chosen[j]] - (double)logits[chosen[0]]);
        double expected = e / (kind == LF_ROUTE_SOFTMAX ? all : of_chosen) * scale;
        /* the sum's error, and those of the difference (whose half is below 2^-24 · |x|), exponential and quotients */
        double x = fabs((double)logits[chosen[j]] - (double)logits[chosen[0]]);
        double allowed = fabs(expected) * ldexp(r->n_experts + 8 + x, -23) + 3e-38; /* it may be denormal */
        double off = fabs((double)r->weights.ptr[token * r->k + j] - expected);
        if (!(off <= allowed)) fail_msg("weight %d is off by %g of %g, %g allowed", j, off, expected, allowed);
    }
}

static const enum lf_route routes[] = {LF_ROUTE_SOFTMAX, LF_ROUTE_SOFTMAX_RENORM, LF_ROUTE_TOPK_SOFTMAX};

static void a_token_goes_to_the_experts_of_its_largest_logits(void **state)
{
    (void)state;
    uint64_t seed = 41;
    static const int shapes[][3] = {{1, 1, 1},
                                    {1, 8, 2},
                                    {7, 5, 5},
                                    {70, 128, 8},
                                    {300, 32, 4},
                                    {33, 60, 7},
                                    {3, LF_EXPERTS_N, LF_EXPERTS_PER_TOKEN_N},
                                    {200, 256, 1}};
    for (size_t i = 0; i < LF_N_ELEMS(shapes) * 6; i++) {
        int n_tokens = shapes[i / 6][0], n_experts = shapes[i / 6][1], k = shapes[i / 6][2];
        enum lf_route kind = routes[i % 3];
        float scale = i % 2 ? 1.0f : 2.5f;
        float *logits = fixture_floats(&seed, (size_t)n_tokens * (size_t)n_experts, i % 6 < 3 ? 2.0f : 20.0f);
        if (i % 2) /* whole numbers: many are equal */
            for (int j = 0; j < n_tokens * n_experts; j++) logits[j] = roundf(logits[j]);
        struct routing r = route(devs[i % 3], logits, kind, scale, n_tokens, n_experts, k);
        check_order(&r);
        for (int t = 0; t < n_tokens; t++)
            check_choices(&r, logits + (size_t)t * (size_t)n_experts, kind, (double)scale, t);
        free_routing(&r);
        free(logits);
    }
}

static void weights_sum_to_one_where_they_are_renormalised(void **state)
{
    (void)state;
    uint64_t seed = 42;
    float *logits = fixture_floats(&seed, 50 * 16, 3.0f);
    for (size_t i = 0; i < LF_N_ELEMS(routes); i++) {
        struct routing r = route(devs[1], logits, routes[i], 1.0f, 50, 16, 4);
        for (int t = 0; t < 50; t++) {
            double sum = 0;
            for (int j = 0; j < 4; j++) sum += (double)r.weights.ptr[t * 4 + j];
            assert_true(routes[i] == LF_ROUTE_SOFTMAX ? sum < 1 : fabs(sum - 1) < 1e-6);
        }
        free_routing(&r);
    }
    free(logits);
}

/* Last of all, and of an expert that was chosen without it. */
static void an_expert_may_have_a_scale_of_its_own(void **state)
{
    (void)state;
    enum { T = 40, E = 16, K = 4 };
    uint64_t seed = 44;
    float *logits = fixture_floats(&seed, T * E, 3.0f), *scales = fixture_floats(&seed, E, 2.0f);
    for (size_t i = 0; i < LF_N_ELEMS(routes); i++) {
        struct routing plain = route(devs[1], logits, routes[i], 0.5f, T, E, K);
        struct routing r = {T, E, K, fixture_out(T * K), fixture_out(T * K), fixture_out(T * K), fixture_out(E + 1)};
        ops->route(devs[1], &(struct lf_route_params){.logits = logits,
                                                      .route = routes[i],
                                                      .n_tokens = T,
                                                      .n_experts = E,
                                                      .k = K,
                                                      .scale = 0.5f,
                                                      .expert_scale = scales,
                                                      .weights = r.weights.ptr,
                                                      .rows = (int32_t *)(void *)r.rows.ptr,
                                                      .places = (int32_t *)(void *)r.places.ptr,
                                                      .first = (int32_t *)(void *)r.first.ptr});
        assert_memory_equal(r.places.ptr, plain.places.ptr, T * K * sizeof(int32_t));
        for (int j = 0; j < T * K; j++) {
            float scale = scales[expert_of(&r, ints(&r.places)[j])];
            assert_true(r.weights.ptr[j] == plain.weights.ptr[j] * scale);
        }
        free_routing(&plain);
        free_routing(&r);
    }
    free(scales);
    free(logits);
}

/* A broken token still has places, says so in its weights, and changes nothing for the others. */
static void a_token_of_nan_has_experts_and_no_influence(void **state)
{
    (void)state;
    enum { T = 40, E = 12, K = 3 };
    uint64_t seed = 43;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    float *logits = fixture_floats(&seed, T * E, 2.0f);
    for (size_t i = 0; i < 3 * LF_N_ELEMS(routes); i++) {
        struct routing good = route(devs[0], logits, routes[i % 3], 1.0f, T, E, K);
        float *broken = fixture_alloc(T * E * sizeof(float));
        memcpy(broken, logits, T * E * sizeof(float));
        for (int t = 0; t < T; t += 2)
            for (int e = 0; e < E; e++) broken[t * E + e] = bad[i / 3];
        struct routing r = route(devs[2], broken, routes[i % 3], 1.0f, T, E, K);
        check_order(&r);
        for (int t = 0; t < T; t++) {
            if (t % 2) assert_memory_equal(r.weights.ptr + t * K, good.weights.ptr + t * K, K * sizeof(float));
            for (int j = 0; j < K && t % 2 == 0; j++) assert_true(isnan(r.weights.ptr[t * K + j]));
            for (int j = 0; j < K && t % 2; j++)
                assert_int_equal(expert_of(&r, ints(&r.places)[t * K + j]),
                                 expert_of(&good, ints(&good.places)[t * K + j]));
        }
        free_routing(&good);
        free_routing(&r);
        free(broken);
    }
    /* one NaN among numbers is no choice while there are others */
    float some[4] = {1, NAN, 3, 2};
    struct routing r = route(devs[0], some, LF_ROUTE_TOPK_SOFTMAX, 1.0f, 1, 4, 3);
    for (int j = 0; j < 3; j++) assert_true(expert_of(&r, ints(&r.places)[j]) != 1 && !isnan(r.weights.ptr[j]));
    free_routing(&r);
    free(logits);
}

/* ---- GEMM ---- */

struct experts_case {
    struct lf_format format;
    int n_tokens, n_experts, k, n_in, n_out;
    bool by_token, bias;
};

struct experts_data {
    struct experts_case c;
    struct lf_weight w;
    struct test_guarded packed;  /* an unmapped page behind the last expert */
    struct fixture_weight *each; /* [n_experts] the same matrices one by one */
    struct test_guarded x, scratch;
    size_t scratch_bytes;
    float *bias;
    struct routing routing;
};

static void pack_experts(struct experts_data *d, uint64_t *seed)
{
    const struct experts_case *c = &d->c;
    d->w = (struct lf_weight){.format = c->format, .n_out = c->n_out, .n_in = c->n_in, .n_experts = c->n_experts};
    size_t expert_bytes = (size_t)lf_weight_expert_bytes(ops, &d->w), bytes = (size_t)c->n_experts * expert_bytes;
    assert_int_equal(expert_bytes % LF_EXPERT_ALIGN_BYTES, 0);
    char *all = calloc(1, bytes);
    d->each = calloc((size_t)c->n_experts, sizeof *d->each);
    assert_true(all && d->each);
    for (int e = 0; e < c->n_experts; e++) {
        d->each[e] = fixture_weight(devs[0], seed, c->format, c->n_out, c->n_in);
        memcpy(all + (size_t)e * expert_bytes, d->each[e].w.data, ops->weight_bytes(&d->w.format, c->n_out, c->n_in));
    }
    d->packed = test_guarded_copy(all, bytes);
    d->w.data = d->packed.ptr;
    free(all);
}

/* Experts that nobody chose hold NaN from here on: whoever reads them shows it. */
static void spoil_unchosen(struct experts_data *d)
{
    for (int e = 0; e < d->c.n_experts; e++) {
        if (ints(&d->routing.first)[e + 1] > ints(&d->routing.first)[e]) continue;
        struct lf_weight one = lf_weight_of_expert(ops, &d->w, e);
        memset(one.data, 0xff, ops->weight_bytes(&one.format, one.n_out, one.n_in));
    }
}

static struct experts_data make_experts(const struct experts_case *c, uint64_t *seed)
{
    struct experts_data d = {.c = *c};
    size_t rows = (size_t)c->n_tokens * (size_t)c->k, x_rows = c->by_token ? (size_t)c->n_tokens : rows;
    pack_experts(&d, seed);
    float *logits = fixture_floats(seed, (size_t)c->n_tokens * (size_t)c->n_experts, 1.0f);
    /* the first experts get most tokens, the last ones few or none */
    for (int i = 0; i < c->n_tokens * c->n_experts; i++) logits[i] -= 0.3f * (float)(i % c->n_experts);
    d.routing = route(devs[0], logits, LF_ROUTE_SOFTMAX, 1.0f, c->n_tokens, c->n_experts, c->k);
    free(logits);
    spoil_unchosen(&d);
    float *x = fixture_floats(seed, x_rows * (size_t)c->n_in, 1.0f);
    d.x = test_guarded_copy(x, x_rows * (size_t)c->n_in * sizeof(float));
    free(x);
    d.bias = fixture_floats(seed, (size_t)c->n_experts * (size_t)c->n_out, 1.0f);
    struct lf_expert_gemm_params p = {.w = &d.w, .x_by_token = c->by_token, .n_tokens = c->n_tokens, .k = c->k};
    d.scratch_bytes = (size_t)(ops->expert_gemm_scratch_bytes(&p) + 63) / 64 * 64;
    char *none = calloc(1, d.scratch_bytes + 64);
    assert_non_null(none);
    d.scratch = test_guarded_copy(none, d.scratch_bytes);
    free(none);
    return d;
}

static void free_experts(struct experts_data *d)
{
    for (int e = 0; e < d->c.n_experts; e++) fixture_weight_free(&d->each[e]);
    free(d->each);
    free(d->bias);
    free_routing(&d->routing);
    test_guarded_free(&d->packed);
    test_guarded_free(&d->x);
    test_guarded_free(&d->scratch);
}

static void multiply(struct lf_device *dev, const struct experts_data *d, float *y)
{
    struct lf_expert_gemm_params p = {.y = y,
                                      .y_float = true,
                                      .x = d->x.ptr,
                                      .x_by_token = d->c.by_token,
                                      .w = &d->w,
                                      .bias = d->c.bias ? d->bias : NULL,
                                      .rows = ints(&d->routing.rows),
                                      .first = ints(&d->routing.first),
                                      .n_tokens = d->c.n_tokens,
                                      .k = d->c.k,
                                      .scratch = d->scratch.ptr};
    ops->expert_gemm(dev, &p);
}

static const float *x_of(const struct experts_data *d, int row)
{
    int at = d->c.by_token ? ints(&d->routing.rows)[row] / d->c.k : row;
    return (const float *)(const void *)d->x.ptr + (size_t)at * (size_t)d->c.n_in;
}

static void check_row(const struct experts_data *d, const float *y, int row)
{
    const struct experts_case *c = &d->c;
    int e = expert_of(&d->routing, row);
    double *x = fixture_alloc((size_t)c->n_in * sizeof *x);
    fixture_x_as_read(isa, &c->format, x_of(d, row), c->n_in, x);
    for (int n = 0; n < c->n_out; n++) {
        const float *w = d->each[e].values + (size_t)n * (size_t)c->n_in;
        double sum = c->bias ? (double)d->bias[e * c->n_out + n] : 0, magnitude = fabs(sum);
        for (int k = 0; k < c->n_in; k++) {
            sum += x[k] * (double)w[k];
            magnitude += fabs(x[k] * (double)w[k]);
        }
        double allowed = ldexp((c->n_in + 2) * magnitude, -23) + 1e-30;
        if (!(fabs((double)y[n] - sum) <= allowed))
            fail_msg("%s T=%d E=%d k=%d n_in=%d n_out=%d: row %d of expert %d, column %d is %g, expected %g",
                     lf_code_name(c->format.code), c->n_tokens, c->n_experts, c->k, c->n_in, c->n_out, row, e, n,
                     (double)y[n], sum);
    }
    free(x);
}

/* The bits that a GEMM of this row alone gives. */
static void check_bits(const struct experts_data *d, const float *y, int row)
{
    const struct experts_case *c = &d->c;
    int e = expert_of(&d->routing, row);
    struct lf_weight one = lf_weight_of_expert(ops, &d->w, e);
    float *alone = fixture_alloc((size_t)c->n_out * sizeof(float));
    void *scratch = fixture_alloc(ops->gemm_scratch_bytes(1, c->n_in));
    struct lf_gemm_params p = {.y = alone,
                               .y_float = true,
                               .x = x_of(d, row),
                               .w = &one,
                               .bias = c->bias ? d->bias + (size_t)e * (size_t)c->n_out : NULL,
                               .alpha = 1,
                               .n_tokens = 1,
                               .x_stride = c->n_in,
                               .y_stride = c->n_out,
                               .scratch = scratch};
    ops->gemm(devs[0], &p);
    assert_memory_equal(y, alone, (size_t)c->n_out * sizeof(float));
    free(scratch);
    free(alone);
}

static void run_case(const struct experts_case *c, uint64_t *seed)
{
    struct experts_data d = make_experts(c, seed);
    int n_rows = c->n_tokens * c->k;
    size_t n = (size_t)n_rows * (size_t)c->n_out;
    struct fixture_out y = fixture_out(n), again = fixture_out(n);
    memset(d.scratch.ptr, 0xff, d.scratch_bytes);
    multiply(devs[0], &d, y.ptr);
    for (int row = 0; row < n_rows; row++) {
        check_row(&d, y.ptr + (size_t)row * (size_t)c->n_out, row);
        check_bits(&d, y.ptr + (size_t)row * (size_t)c->n_out, row);
    }
    for (size_t i = 1; i < LF_N_ELEMS(devs); i++) {
        multiply(devs[i], &d, again.ptr);
        assert_memory_equal(again.ptr, y.ptr, n * sizeof(float));
    }
    fixture_out_check_and_free(&y);
    fixture_out_check_and_free(&again);
    free_experts(&d);
}

static void each_row_meets_the_matrix_of_its_expert(void **state)
{
    (void)state;
    uint64_t seed = 44;
    /* T, E, k, n_in, n_out: a row or many blocks of rows for an expert, edges of tiles, panels, pairs and K blocks */
    static const int shapes[][5] = {{1, 1, 1, 1, 1},     {1, 8, 2, 32, 64},   {2, 128, 8, 48, 40},
                                    {5, 4, 4, 33, 65},   {20, 6, 2, 513, 70}, {64, 3, 1, 31, 130},
                                    {100, 5, 3, 64, 64}, {250, 2, 2, 17, 96}, {33, 16, 4, 1030, 66}};
    for (size_t s = 0; s < LF_N_ELEMS(shapes) * FIXTURE_FORMATS_N; s++) {
        const int *shape = shapes[s / FIXTURE_FORMATS_N];
        struct experts_case c = {
            fixture_formats[s % FIXTURE_FORMATS_N], shape[0], shape[1], shape[2], shape[3], shape[4], s % 2, s % 4 < 2};
        run_case(&c, &seed);
    }
}

static void random_shapes_too(void **state)
{
    (void)state;
    uint64_t seed = 45;
    for (int i = 0; i < 90; i++) {
        int n_experts = fixture_between(&seed, 1, 20);
        struct experts_case c = {.format = fixture_formats[i % FIXTURE_FORMATS_N],
                                 .n_tokens = fixture_between(&seed, 1, 60),
                                 .n_experts = n_experts,
                                 .k = fixture_between(&seed, 1, n_experts < 6 ? n_experts : 6),
                                 .n_in = fixture_between(&seed, 1, 150),
                                 .n_out = fixture_between(&seed, 1, 140),
                                 .by_token = fixture_random(&seed) % 2 == 0,
                                 .bias = fixture_random(&seed) % 2 == 0};
        run_case(&c, &seed);
    }
}

/* ---- the sum ---- */

static void run_sum(struct lf_device *dev, int n_tokens, int k, int dim, int residual, uint64_t *seed)
{
    size_t t = (size_t)n_tokens, d = (size_t)dim, rows = t * (size_t)k;
    float *x = fixture_floats(seed, rows * d, 2.0f), *weights = fixture_floats(seed, rows, 1.0f);
    float *before = fixture_floats(seed, t * d, 3.0f);
    int32_t *places = fixture_alloc(rows * sizeof(int32_t));
    for (size_t i = 0; i < rows; i++) places[i] = (int32_t)i;
    for (size_t i = rows - 1; i > 0; i--) {
        size_t other = fixture_random(seed) % (i + 1);
        int32_t swapped = places[i];
        places[i] = places[other];
        places[other] = swapped;
    }
    struct test_guarded guarded = test_guarded_copy(x, rows * d * sizeof(float));
    struct fixture_out y = fixture_out(t * d), alone = fixture_out(t * d);
    if (residual == 2) memcpy(y.ptr, before, t * d * sizeof(float));
    struct lf_expert_sum_params p = {.y = y.ptr,
                                     .residual = residual == 0   ? NULL
                                                 : residual == 2 ? y.ptr
                                                                 : before,
                                     .x = (const float *)(const void *)guarded.ptr,
                                     .weights = weights,
                                     .places = places,
                                     .n_tokens = n_tokens,
                                     .k = k,
                                     .dim = dim};
    ops->expert_sum(dev, &p);
    for (size_t i = 0; i < t; i++) {
        struct lf_expert_sum_params one = p;
        one.y = alone.ptr + i * d;
        one.residual = residual == 0 ? NULL : before + i * d;
        one.weights = weights + i * (size_t)k;
        one.places = places + i * (size_t)k;
        one.n_tokens = 1;
        ops->expert_sum(devs[0], &one);
        for (size_t c = 0; c < d; c++) {
            double sum = residual == 0 ? 0 : (double)before[i * d + c], magnitude = fabs(sum);
            for (size_t j = 0; j < (size_t)k; j++) {
                double term = (double)weights[i * (size_t)k + j] * (double)x[(size_t)places[i * (size_t)k + j] * d + c];
                sum += term;
                magnitude += fabs(term);
            }
            assert_true(fabs((double)y.ptr[i * d + c] - sum) <= ldexp((k + 2) * magnitude, -23));
        }
    }
    assert_memory_equal(y.ptr, alone.ptr, t * d * sizeof(float));
    fixture_out_check_and_free(&y);
    fixture_out_check_and_free(&alone);
    test_guarded_free(&guarded);
    free(places);
    free(before);
    free(weights);
    free(x);
}

static void the_sum_of_a_tokens_rows_is_right_and_its_own(void **state)
{
    (void)state;
    uint64_t seed = 46;
    static const int dims[] = {1, 7, 16, 37, 64, 300, 2048};
    for (size_t s = 0; s < LF_N_ELEMS(dims); s++)
        for (int i = 0; i < 9; i++) run_sum(devs[i % 3], i * i + 1, i / 3 * 3 + 1, dims[s], i % 3, &seed);
    run_sum(devs[1], 2, LF_EXPERTS_PER_TOKEN_N, 50, 1, &seed);
}

static void no_tokens_is_no_work(void **state)
{
    (void)state;
    struct lf_weight w = {.format.dtype = LF_F32, .n_out = 1, .n_in = 1, .n_experts = 2};
    int32_t first[3] = {9, 9, 9};
    ops->route(devs[0], &(struct lf_route_params){.n_experts = 2, .k = 1, .first = first});
    assert_true(first[0] == 0 && first[1] == 0 && first[2] == 0);
    ops->expert_gemm(devs[0], &(struct lf_expert_gemm_params){.w = &w, .k = 1, .first = first});
    ops->expert_sum(devs[0], &(struct lf_expert_sum_params){.dim = 1, .k = 1});
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s c|avx2|avx512|avx512-bf16|amx\n", argv[0]);
        return 2;
    }
    isa = fixture_isa(argv[1]);
    for (int i = 0; i < 3; i++) devs[i] = fixture_open(isa, i + 1);
    ops = lf_device_ops(devs[0]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_goes_to_the_experts_of_its_largest_logits),
        cmocka_unit_test(weights_sum_to_one_where_they_are_renormalised),
        cmocka_unit_test(an_expert_may_have_a_scale_of_its_own),
        cmocka_unit_test(a_token_of_nan_has_experts_and_no_influence),
        cmocka_unit_test(each_row_meets_the_matrix_of_its_expert),
        cmocka_unit_test(random_shapes_too),
        cmocka_unit_test(the_sum_of_a_tokens_rows_is_right_and_its_own),
        cmocka_unit_test(no_tokens_is_no_work),
    };
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < 3; i++) lf_device_close(devs[i]);
    return rc;
}
