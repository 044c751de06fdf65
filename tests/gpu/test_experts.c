/* What experts compute on a GPU: grouped GEMMs of every kind against float64 and against the slow kernel, sums; what
 * ops.h promises of bits and of graphs. Skipped (77) where no GPU opens.
 *
 *     test_experts [PATTERN]   (of the names of tests, as "grouped*")
 *
 * Tolerances are those of test_ops.c; where a whole result is compared, the sum of the magnitudes of a product is
 * bounded by the product of the norms. */
#include "tests/gpu/gpu_routing.h"

#include "device/cuda/cuda_impl.h"

enum { REPEATS = 50 };

/* ---- random numbers, faster than the fixture's: millions of weights ---- */

static float *uniform(uint64_t *seed, size_t n, float scale)
{
    float *out = fixture_alloc(n * sizeof *out);
    for (size_t i = 0; i < n; i++) out[i] = ((float)fixture_random(seed) / 1073741824.0f - 1.0f) * scale;
    return out;
}

/* ---- grouped GEMM ---- */

struct gemm_shape {
    int n_tokens, n_experts, k, n_in, n_out;
    enum kind kind;
    bool by_token, y_float, bias;
};

struct gemm_data {
    struct gemm_shape c;
    struct routing routing;
    struct lf_weight w;
    struct gpu_tensor w_tensor, x, rows, first, bias;
    float *w_values, *x_values, *bias_values; /* w: [E, n_out, n_in], without the gaps between experts */
    struct lf_expert_gemm_params p;           /* but for y */
};

/* In experts' order, each packed by itself. */
static void make_weights(struct gemm_data *d, uint64_t *seed)
{
    const struct gemm_shape *c = &d->c;
    size_t n = (size_t)c->n_out * (size_t)c->n_in, n_all = n * (size_t)c->n_experts;
    d->w = (struct lf_weight){.format.dtype = gpu_act, .n_out = c->n_out, .n_in = c->n_in, .n_experts = c->n_experts};
    size_t stride = (size_t)lf_weight_expert_bytes(gpu_ops, &d->w);
    d->w_values = uniform(seed, n_all, 1.0f);
    d->w_tensor = gpu_poisoned(gpu_act, stride * (size_t)c->n_experts / 2);
    d->w.data = d->w_tensor.ptr;
    char *packed = malloc(n * 2);
    assert_non_null(packed);
    for (int e = 0; e < c->n_experts; e++) {
        struct lf_weight one = lf_weight_of_expert(gpu_ops, &d->w, e);
        lf_from_f32(packed, gpu_act, d->w_values + (size_t)e * n, n);
        lf_to_f32(d->w_values + (size_t)e * n, packed, gpu_act, n);
        gpu_ops->weight_pack(gpu, &one, 0, c->n_out, packed);
    }
    free(packed);
}

static void gemm_make(struct gemm_data *d, const struct gemm_shape *c, uint64_t *seed)
{
    memset(d, 0, sizeof *d);
    d->c = *c;
    (void)snprintf(gpu_case, sizeof gpu_case, "T=%d E=%d k=%d n_in=%d n_out=%d kind %d by token %d float %d bias %d",
                   c->n_tokens, c->n_experts, c->k, c->n_in, c->n_out, (int)c->kind, c->by_token, c->y_float, c->bias);
    d->routing = routing_make(seed, c->kind, LF_ROUTE_SOFTMAX, c->n_tokens, c->n_experts, c->k);
    make_weights(d, seed);
    size_t n_rows = (size_t)c->n_tokens * (size_t)c->k, n_x = (c->by_token ? (size_t)c->n_tokens : n_rows);
    d->x_values = uniform(seed, n_x * (size_t)c->n_in, 2.0f);
    d->x = gpu_tensor(gpu_act, d->x_values, n_x * (size_t)c->n_in);
    d->rows = gpu_ids(d->routing.rows, n_rows);
    d->first = gpu_ids(d->routing.first, (size_t)c->n_experts + 1);
    d->bias = gpu_random(LF_F32, seed, (size_t)c->n_experts * (size_t)c->n_out, 1.0f, &d->bias_values);
    d->p = (struct lf_expert_gemm_params){.y_float = c->y_float,
                                          .x = d->x.ptr,
                                          .x_by_token = c->by_token,
                                          .w = &d->w,
                                          .bias = c->bias ? (const float *)(void *)d->bias.ptr : NULL,
                                          .rows = (const int32_t *)(void *)d->rows.ptr,
                                          .first = (const int32_t *)(void *)d->first.ptr,
                                          .n_tokens = c->n_tokens,
                                          .k = c->k};
}

static void gemm_free(struct gemm_data *d)
{
    routing_free(&d->routing);
    gpu_free(&d->w_tensor);
    gpu_free(&d->x);
    gpu_free(&d->rows);
    gpu_free(&d->first);
    gpu_free(&d->bias);
    free(d->w_values);
    free(d->x_values);
    free(d->bias_values);
}

static struct gpu_tensor poisoned_y(const struct gemm_data *d)
{
    size_t n = (size_t)d->c.n_tokens * (size_t)d->c.k * (size_t)d->c.n_out;
    return gpu_poisoned(d->c.y_float ? LF_F32 : gpu_act, n);
}

/* The ways to compute it. */
enum way { BY_TABLE, ANY, GEMV, HOPPER_128, HOPPER_256, HOPPER_96, N_WAYS };
static const char *const way_names[] = {
    "the table", "any", "GEMV", "Hopper, 128 columns", "Hopper, 256 columns", "Hopper, 96 columns"};

static bool way_supports(enum way way, const struct lf_expert_gemm_params *p)
{
    if (way == GEMV) return gpu->cuda->has_expert_gemv && lf_cuda_expert_gemv_supports(p);
    if (way >= HOPPER_128) return gpu->cuda->has_expert_gemm && lf_cuda_expert_gemm_sm90_supports(p);
    return true;
}

static char *gemm_raw(const struct gemm_data *d, enum way way)
{
    struct gpu_tensor y = poisoned_y(d);
    struct lf_expert_gemm_params p = d->p;
    size_t expert_bytes = (size_t)lf_weight_expert_bytes(gpu_ops, p.w);
    struct lf_cuda_launch how = lf_cuda_launch(gpu);
    int rc = 0, n_sms = gpu->info.n_sms;
    p.y = y.ptr;
    if (way == BY_TABLE) gpu_ops->expert_gemm(gpu, &p);
    if (way == ANY) rc = lf_cuda_expert_gemm_any(&p, expert_bytes, how);
    if (way == GEMV) rc = lf_cuda_expert_gemv(&p, expert_bytes, n_sms, how);
    if (way >= HOPPER_128) rc = lf_cuda_expert_gemm_sm90(&p, expert_bytes, n_sms, (int)way - (int)HOPPER_128, how);
    assert_int_equal(rc, 0);
    char *raw = gpu_read_raw(&y);
    gpu_free(&y);
    return raw;
}

static float *gemm_run(const struct gemm_data *d, enum way way)
{
    size_t n = (size_t)d->c.n_tokens * (size_t)d->c.k * (size_t)d->c.n_out;
    char *raw = gemm_raw(d, way);
    float *y = fixture_alloc(n * sizeof *y);
    lf_to_f32(y, raw, d->c.y_float ? LF_F32 : gpu_act, n);
    free(raw);
    return y;
}

static int expert_of(const struct routing *r, int row)
{
    int e = 0;
    while (r->first[e + 1] <= row) e++;
    return e;
}

static const float *x_of(const struct gemm_data *d, int row)
{
    size_t from = (size_t)(d->c.by_token ? d->routing.rows[row] / d->c.k : row);
    return d->x_values + from * (size_t)d->c.n_in;
}

static double norm(const float *x, int n)
{
    double squares = 0.0;
    for (int i = 0; i < n; i++) squares += (double)x[i] * (double)x[i];
    return sqrt(squares);
}

/* What a value may be off by, if the magnitudes of its products add up to `magnitude`. */
static double allowed_of(const struct gemm_data *d, double value, double magnitude)
{
    double allowed = ldexp((d->c.n_in + 2) * magnitude, -22) + 1e-30;
    return d->c.y_float ? allowed : allowed + gpu_rounding(gpu_act, fabs(value) + allowed);
}

static void check_value(const struct gemm_data *d, const float *y, int row, int col, const char *way)
{
    int n_in = d->c.n_in, expert = expert_of(&d->routing, row);
    size_t w_row = (size_t)expert * (size_t)d->c.n_out + (size_t)col;
    const float *x = x_of(d, row), *w = d->w_values + w_row * (size_t)n_in;
    double sum = d->c.bias ? (double)d->bias_values[w_row] : 0.0, magnitude = fabs(sum);
    for (int i = 0; i < n_in; i++) {
        sum += (double)x[i] * (double)w[i];
        magnitude += fabs((double)x[i] * (double)w[i]);
    }
    double got = (double)y[(size_t)row * (size_t)d->c.n_out + (size_t)col], allowed = allowed_of(d, sum, magnitude);
    if (!(fabs(got - sum) <= allowed))
        fail_msg("%s, %s: row %d (expert %d) column %d: %g, expected %g within %g", gpu_case, way, row, expert, col,
                 got, sum, allowed);
}

/* All of y against the slow kernel's. */
static void check_all(const struct gemm_data *d, const float *y, const float *slow, const char *way)
{
    int n_rows = d->c.n_tokens * d->c.k, n_out = d->c.n_out;
    size_t n_w = (size_t)d->c.n_experts * (size_t)n_out;
    double *w_norms = fixture_alloc(n_w * sizeof *w_norms);
    for (size_t i = 0; i < n_w; i++) w_norms[i] = norm(d->w_values + i * (size_t)d->c.n_in, d->c.n_in);
    for (int row = 0, expert = 0; row < n_rows; row++) {
        while (d->routing.first[expert + 1] <= row) expert++;
        double x_norm = norm(x_of(d, row), d->c.n_in);
        for (int col = 0; col < n_out; col++) {
            size_t at = (size_t)row * (size_t)n_out + (size_t)col, w_row = (size_t)expert * (size_t)n_out + (size_t)col;
            double bias = d->c.bias ? fabs((double)d->bias_values[w_row]) : 0.0;
            double allowed = 2.0 * allowed_of(d, (double)slow[at], x_norm * w_norms[w_row] + bias);
            if (!(fabs((double)y[at] - (double)slow[at]) <= allowed))
                fail_msg("%s, %s: row %d (expert %d, rows %d to %d) column %d: %g, slowly %g within %g", gpu_case, way,
                         row, expert, d->routing.first[expert], d->routing.first[expert + 1], col, (double)y[at],
                         (double)slow[at], allowed);
        }
    }
    free(w_norms);
}

static void run_gemm_case(const struct gemm_shape *c, uint64_t *seed)
{
    struct gemm_data d;
    gemm_make(&d, c, seed);
    int n_rows = c->n_tokens * c->k;
    float *slow = gemm_run(&d, ANY);
    for (int i = 0; i < 300; i++) {
        int row = i < 10 ? n_rows - 1 : fixture_between(seed, 0, n_rows - 1);
        check_value(&d, slow, row, fixture_between(seed, 0, c->n_out - 1), way_names[ANY]);
    }
    for (int way = 0; way < N_WAYS; way++) {
        if (way == ANY || !way_supports((enum way)way, &d.p)) continue;
        float *y = gemm_run(&d, (enum way)way);
        check_all(&d, y, slow, way_names[way]);
        for (int i = 0; i < 100; i++)
            check_value(&d, y, fixture_between(seed, 0, n_rows - 1), fixture_between(seed, 0, c->n_out - 1),
                        way_names[way]);
        free(y);
    }
    free(slow);
    gemm_free(&d);
}

/* Each shape by token and sorted, float and not, with and without a bias. */
static void run_gemm_kinds(const struct gemm_shape *c, uint64_t *seed)
{
    for (int i = 0; i < 4; i++) {
        struct gemm_shape v = *c;
        v.by_token = i % 2 == 0;
        v.y_float = i / 2 == 0;
        v.bias = (i + c->n_tokens) % 3 != 0;
        run_gemm_case(&v, seed);
    }
}

static void grouped_gemms_of_few_tokens_are_right(void **state)
{
    (void)state;
    uint64_t seed = 2;
    static const int shapes[][4] = {/* E, k, n_in, n_out */
                                    {1, 1, 8, 1},      {4, 2, 24, 65},   {8, 3, 64, 256},  {33, 4, 136, 17},
                                    {128, 8, 256, 96}, {60, 32, 40, 48}, {5, 5, 1032, 70}, {1024, 64, 16, 8}};
    static const int tokens[] = {1, 2, 7, 8, 9, 16};
    for (size_t s = 0; s < LF_N_ELEMS(shapes); s++)
        for (size_t t = 0; t < LF_N_ELEMS(tokens); t++) {
            struct gemm_shape c = {.n_tokens = tokens[t],
                                   .n_experts = shapes[s][0],
                                   .k = shapes[s][1],
                                   .n_in = shapes[s][2],
                                   .n_out = shapes[s][3],
                                   .kind = (s + t) % 3 == 0   ? CROWDED
                                           : (s + t) % 3 == 1 ? SPARSE
                                                              : SPREAD};
            run_gemm_kinds(&c, &seed);
        }
}

/* Tiles of 128 rows and 128 or 256 columns, halves of 64 rows, steps of 64 of the depth: one less, one more, several.
 */
static void grouped_gemms_of_many_tokens_are_right(void **state)
{
    (void)state;
    uint64_t seed = 3;
    static const struct gemm_shape shapes[] = {
        {.n_tokens = 17, .n_experts = 4, .k = 2, .n_in = 8, .n_out = 8},
        {.n_tokens = 17, .n_experts = 128, .k = 8, .n_in = 64, .n_out = 256},
        {.n_tokens = 63, .n_experts = 1, .k = 1, .n_in = 64, .n_out = 256},
        {.n_tokens = 64, .n_experts = 3, .k = 3, .n_in = 72, .n_out = 264, .kind = CROWDED},
        {.n_tokens = 65, .n_experts = 9, .k = 1, .n_in = 256, .n_out = 248, .kind = CROWDED},
        {.n_tokens = 128, .n_experts = 2, .k = 1, .n_in = 320, .n_out = 512, .kind = CROWDED},
        {.n_tokens = 129, .n_experts = 7, .k = 2, .n_in = 328, .n_out = 520, .kind = CROWDED},
        {.n_tokens = 300, .n_experts = 60, .k = 4, .n_in = 200, .n_out = 136, .kind = SPARSE},
        {.n_tokens = 513, .n_experts = 16, .k = 4, .n_in = 1000, .n_out = 304},
        {.n_tokens = 40, .n_experts = 5, .k = 2, .n_in = 77, .n_out = 33}, /* no fast kernel takes it */
        {.n_tokens = 100, .n_experts = 6, .k = 3, .n_in = 64, .n_out = 70},
        {.n_tokens = 1500, .n_experts = 1024, .k = 3, .n_in = 64, .n_out = 64},
        {.n_tokens = 8192, .n_experts = 32, .k = 4, .n_in = 136, .n_out = 264},
        {.n_tokens = 8192, .n_experts = 128, .k = 8, .n_in = 64, .n_out = 72, .kind = SPARSE}};
    for (size_t s = 0; s < LF_N_ELEMS(shapes); s++) run_gemm_kinds(&shapes[s], &seed);
}

static void grouped_gemms_of_models_shapes_are_right(void **state)
{
    (void)state;
    uint64_t seed = 4;
    static const struct gemm_shape shapes[] = {
        {.n_experts = 8, .k = 4, .n_in = 2048, .n_out = 1536, .by_token = true},
        {.n_experts = 8, .k = 4, .n_in = 768, .n_out = 2048, .y_float = true},
        {.n_experts = 4, .k = 2, .n_in = 2880, .n_out = 5760, .by_token = true, .bias = true},
        {.n_experts = 4, .k = 2, .n_in = 2880, .n_out = 2880, .y_float = true, .bias = true}};
    static const int tokens[] = {1, 16, 40, 333};
    for (size_t s = 0; s < LF_N_ELEMS(shapes); s++)
        for (size_t t = 0; t < LF_N_ELEMS(tokens); t++) {
            struct gemm_shape c = shapes[s];
            c.n_tokens = tokens[t];
            run_gemm_case(&c, &seed);
        }
}

/* ---- bits ---- */

/* The sorted rows of tokens first .. first + n - 1 alone, as rows of all tokens' choices: [n · k, n_out], token by
 * token. */
static char *rows_of_tokens(const struct gemm_data *d, int first, int n)
{
    const struct gemm_shape *c = &d->c;
    size_t row_bytes = (size_t)c->n_out * (c->y_float ? sizeof(float) : 2), n_rows = (size_t)n * (size_t)c->k;
    struct routing part = d->routing;
    struct gemm_data one = *d;
    part.rows = fixture_alloc(n_rows * sizeof(int32_t));
    part.places = fixture_alloc(n_rows * sizeof(int32_t));
    part.first = fixture_alloc(((size_t)c->n_experts + 1) * sizeof(int32_t));
    part.weights = fixture_alloc(n_rows * sizeof(float));
    struct lf_route_params p = d->routing.p;
    p.logits += (size_t)first * (size_t)c->n_experts;
    p.n_tokens = n;
    p.weights = part.weights;
    p.rows = part.rows;
    p.places = part.places;
    p.first = part.first;
    lf_device_ops(cpu)->route(cpu, &p);
    struct gpu_tensor rows = gpu_ids(part.rows, n_rows), starts = gpu_ids(part.first, (size_t)c->n_experts + 1);
    one.c.n_tokens = one.p.n_tokens = n;
    one.p.x = (const char *)d->p.x + (size_t)first * (size_t)c->n_in * 2;
    one.p.rows = (const int32_t *)(void *)rows.ptr;
    one.p.first = (const int32_t *)(void *)starts.ptr;
    char *sorted = gemm_raw(&one, BY_TABLE), *out = malloc(n_rows * row_bytes);
    assert_non_null(out);
    for (size_t i = 0; i < n_rows; i++)
        memcpy(out + i * row_bytes, sorted + (size_t)part.places[i] * row_bytes, row_bytes);
    free(sorted);
    gpu_free(&rows);
    gpu_free(&starts);
    free(part.rows);
    free(part.places);
    free(part.first);
    free(part.weights);
    return out;
}

/* From one token to so many that tiles are wide. */
static void rows_are_the_same_in_every_batch(void **state)
{
    (void)state;
    uint64_t seed = 5;
    static const int shapes[][4] = {{128, 8, 2048, 96}, {8, 2, 768, 264}, {32, 4, 360, 1000}};
    for (size_t s = 0; s < LF_N_ELEMS(shapes); s++) {
        const int *shape = shapes[s];
        struct gemm_shape c = {.n_tokens = 1400,
                               .n_experts = shape[0],
                               .k = shape[1],
                               .n_in = shape[2],
                               .n_out = shape[3],
                               .by_token = true,
                               .y_float = s % 3 == 0,
                               .bias = s % 3 == 1};
        struct gemm_data d;
        gemm_make(&d, &c, &seed);
        size_t token_bytes = (size_t)c.k * (size_t)c.n_out * (c.y_float ? sizeof(float) : 2);
        char *all = rows_of_tokens(&d, 0, c.n_tokens);
        for (int i = 0; i < gpu_times(20); i++) {
            int n = fixture_between(&seed, 1, i % 3 == 0 ? 16 : i % 3 == 1 ? 300 : c.n_tokens - 1);
            if (i == 0) n = 1; /* which has tiles of its own */
            int first = fixture_between(&seed, 0, c.n_tokens - n);
            char *some = rows_of_tokens(&d, first, n);
            assert_memory_equal(some, all + (size_t)first * token_bytes, (size_t)n * token_bytes);
            free(some);
        }
        free(all);
        gemm_free(&d);
    }
}

/* A row has the bits of a token of gemm with its expert's matrix. */
static void rows_of_the_gemv_are_those_of_gemm(void **state)
{
    (void)state;
    uint64_t seed = 6;
    static const int shapes[][4] = {{16, 4, 2048, 64}, {6, 2, 776, 100}};
    for (size_t s = 0; s < LF_N_ELEMS(shapes); s++) {
        struct gemm_shape c = {.n_tokens = 12,
                               .n_experts = shapes[s][0],
                               .k = shapes[s][1],
                               .n_in = shapes[s][2],
                               .n_out = shapes[s][3],
                               .y_float = true,
                               .bias = true};
        struct gemm_data d;
        gemm_make(&d, &c, &seed);
        if (!way_supports(GEMV, &d.p)) skip();
        float *y = gemm_run(&d, GEMV);
        for (int e = 0; e < c.n_experts; e++) {
            int row = d.routing.first[e], n = d.routing.first[e + 1] - row;
            struct lf_weight w = lf_weight_of_expert(gpu_ops, &d.w, e);
            struct gpu_tensor out = gpu_poisoned(LF_F32, (size_t)n * (size_t)c.n_out);
            struct lf_gemm_params p = {.alpha = 1.0f,
                                       .y = out.ptr,
                                       .y_float = true,
                                       .x = d.x.ptr + (size_t)row * (size_t)c.n_in * 2,
                                       .w = &w,
                                       .bias = d.p.bias + (size_t)e * (size_t)c.n_out,
                                       .n_tokens = n,
                                       .x_stride = c.n_in,
                                       .y_stride = c.n_out};
            gpu_ops->gemm(gpu, &p);
            float *expected = gpu_read(&out);
            for (size_t i = 0; i < (size_t)n * (size_t)c.n_out; i++)
                assert_true(y[(size_t)row * (size_t)c.n_out + i] == expected[i]);
            free(expected);
            gpu_free(&out);
        }
        free(y);
        gemm_free(&d);
    }
}

static void grouped_gemms_repeat(void **state)
{
    (void)state;
    uint64_t seed = 7;
    static const int tokens[] = {1, 8, 16, 100, 1000};
    for (size_t t = 0; t < LF_N_ELEMS(tokens); t++)
        for (int by_token = 0; by_token < 2; by_token++) {
            struct gemm_shape c = {.n_tokens = tokens[t],
                                   .n_experts = 32,
                                   .k = 4,
                                   .n_in = 1024,
                                   .n_out = 520,
                                   .by_token = by_token,
                                   .y_float = true};
            struct gemm_data d;
            gemm_make(&d, &c, &seed);
            size_t bytes = (size_t)c.n_tokens * (size_t)c.k * (size_t)c.n_out * sizeof(float);
            char *first = gemm_raw(&d, BY_TABLE);
            for (int i = 1; i < gpu_times(REPEATS); i++) {
                char *again = gemm_raw(&d, BY_TABLE);
                assert_memory_equal(again, first, bytes);
                free(again);
            }
            free(first);
            gemm_free(&d);
        }
}

/* ---- sums ---- */

static void run_sum_case(uint64_t *seed, int n_tokens, int k, int dim, bool residual, bool in_place)
{
    struct routing r = routing_make(seed, SPREAD, LF_ROUTE_SOFTMAX_RENORM, n_tokens, k + 3, k);
    size_t n_rows = (size_t)n_tokens * (size_t)k, n = (size_t)n_tokens * (size_t)dim;
    float *x_values, *residual_values;
    struct gpu_tensor x = gpu_random(LF_F32, seed, n_rows * (size_t)dim, 1.0f, &x_values);
    struct gpu_tensor h = gpu_random(LF_F32, seed, n, 3.0f, &residual_values), out = gpu_poisoned(LF_F32, n);
    struct gpu_tensor places = gpu_ids(r.places, n_rows), weights = gpu_tensor(LF_F32, r.weights, n_rows);
    (void)snprintf(gpu_case, sizeof gpu_case, "sum T=%d k=%d dim=%d", n_tokens, k, dim);
    struct gpu_tensor *y = in_place ? &h : &out;
    gpu_ops->expert_sum(gpu, &(struct lf_expert_sum_params){.y = (float *)(void *)y->ptr,
                                                            .residual = residual ? (float *)(void *)h.ptr : NULL,
                                                            .x = (float *)(void *)x.ptr,
                                                            .weights = (float *)(void *)weights.ptr,
                                                            .places = (int32_t *)(void *)places.ptr,
                                                            .n_tokens = n_tokens,
                                                            .k = k,
                                                            .dim = dim});
    float *got = gpu_read(y);
    for (size_t i = 0; i < n; i++) {
        size_t token = i / (size_t)dim, col = i % (size_t)dim;
        double sum = residual ? (double)residual_values[i] : 0.0, magnitude = fabs(sum);
        for (size_t j = token * (size_t)k; j < (token + 1) * (size_t)k; j++) {
            double part = (double)r.weights[j] * (double)x_values[(size_t)r.places[j] * (size_t)dim + col];
            sum += part;
            magnitude += fabs(part);
        }
        if (!(fabs((double)got[i] - sum) <= ldexp((k + 2) * magnitude, -23) + 1e-37))
            fail_msg("%s: token %zu channel %zu: %g, expected %g", gpu_case, token, col, (double)got[i], sum);
    }
    free(got);
    free(x_values);
    free(residual_values);
    gpu_free(&places);
    gpu_free(&weights);
    gpu_free(&out);
    gpu_free(&h);
    gpu_free(&x);
    routing_free(&r);
}

static void sums_of_experts_are_right(void **state)
{
    (void)state;
    uint64_t seed = 8;
    static const int shapes[][3] = {{1, 8, 2048}, {1, 4, 2880}, {3, 1, 1},   {5, 2, 70},
                                    {17, 64, 36}, {40, 9, 512}, {70, 3, 77}, {70000, 2, 4}};
    for (size_t s = 0; s < LF_N_ELEMS(shapes); s++)
        for (int i = 0; i < 3; i++) run_sum_case(&seed, shapes[s][0], shapes[s][1], shapes[s][2], i > 0, i > 1);
}

/* ---- no tokens, graphs ---- */

static void no_tokens_is_no_work(void **state)
{
    (void)state;
    struct lf_weight w = {.format.dtype = LF_F32, .n_out = 1, .n_in = 1, .n_experts = 8};
    gpu_ops->expert_gemm(gpu, &(struct lf_expert_gemm_params){.w = &w, .k = 2});
    gpu_ops->expert_sum(gpu, &(struct lf_expert_sum_params){.k = 2, .dim = 1});
    gpu_sync();
}

/* A layer's experts. Several layers in a row, so that each op may begin before those before it have ended, with the
 * same places for their routings, as a model has them. */
enum { LAYER_TOKENS = 300, LAYER_EXPERTS = 40, LAYER_K = 4, LAYER_HIDDEN = 520, LAYER_WIDTH = 264, LAYERS = 3 };

struct layers {
    int n_tokens;
    bool one_by_one; /* waits for each op */
    struct gemm_data up, down;
    struct gpu_tensor logits[LAYERS], weights, places, gate_up, gated, rows;
    struct lf_route_params route;
};

static void wait_if(const struct layers *l)
{
    if (l->one_by_one) gpu_sync();
}

static void run_layers(struct layers *l, const struct gpu_tensor *out)
{
    for (int i = 0; i < LAYERS; i++) {
        float *y = (float *)(void *)out->ptr + (size_t)i * (size_t)l->n_tokens * LAYER_HIDDEN;
        l->route.logits = (const float *)(void *)l->logits[i].ptr;
        gpu_ops->route(gpu, &l->route);
        wait_if(l);
        gpu_ops->expert_gemm(gpu, &l->up.p);
        wait_if(l);
        gpu_ops->gate_mul(gpu, &(struct lf_gate_mul_params){.out = l->gated.ptr,
                                                            .gate_up = l->gate_up.ptr,
                                                            .n_tokens = l->n_tokens * LAYER_K,
                                                            .dim = LAYER_WIDTH});
        wait_if(l);
        gpu_ops->expert_gemm(gpu, &l->down.p);
        wait_if(l);
        gpu_ops->expert_sum(gpu, &(struct lf_expert_sum_params){.y = y,
                                                                .x = (const float *)(void *)l->rows.ptr,
                                                                .weights = l->route.weights,
                                                                .places = l->route.places,
                                                                .n_tokens = l->n_tokens,
                                                                .k = LAYER_K,
                                                                .dim = LAYER_HIDDEN});
        wait_if(l);
    }
}

static void layers_make(struct layers *l, uint64_t *seed)
{
    size_t n = LAYER_TOKENS * LAYER_K;
    struct gemm_shape up = {.n_tokens = LAYER_TOKENS,
                            .n_experts = LAYER_EXPERTS,
                            .k = LAYER_K,
                            .n_in = LAYER_HIDDEN,
                            .n_out = 2 * LAYER_WIDTH,
                            .by_token = true};
    struct gemm_shape down = up;
    down.n_in = LAYER_WIDTH;
    down.n_out = LAYER_HIDDEN;
    down.y_float = true;
    down.by_token = false;
    gemm_make(&l->up, &up, seed);
    gemm_make(&l->down, &down, seed);
    for (int i = 0; i < LAYERS; i++) l->logits[i] = gpu_poisoned(LF_F32, LAYER_TOKENS * LAYER_EXPERTS);
    l->weights = gpu_poisoned(LF_F32, n);
    l->places = gpu_poisoned(LF_F32, n);
    l->gate_up = gpu_poisoned(gpu_act, n * 2 * LAYER_WIDTH);
    l->gated = gpu_poisoned(gpu_act, n * LAYER_WIDTH);
    l->rows = gpu_poisoned(LF_F32, n * LAYER_HIDDEN);
    l->route = l->up.routing.p;
    l->route.weights = (float *)(void *)l->weights.ptr;
    l->route.rows = (int32_t *)(void *)l->up.rows.ptr;
    l->route.places = (int32_t *)(void *)l->places.ptr;
    l->route.first = (int32_t *)(void *)l->up.first.ptr;
    l->up.p.y = l->gate_up.ptr;
    l->down.p.x = l->gated.ptr;
    l->down.p.y = l->rows.ptr;
    l->down.p.rows = l->up.p.rows;
    l->down.p.first = l->up.p.first;
}

static void layers_free(struct layers *l)
{
    gemm_free(&l->up);
    gemm_free(&l->down);
    for (int i = 0; i < LAYERS; i++) gpu_free(&l->logits[i]);
    gpu_free(&l->weights);
    gpu_free(&l->places);
    gpu_free(&l->gate_up);
    gpu_free(&l->gated);
    gpu_free(&l->rows);
}

static void draw_logits(struct layers *l, uint64_t *seed, int round)
{
    float *values = l->up.routing.logits;
    size_t n = (size_t)l->n_tokens * LAYER_EXPERTS;
    for (int i = 0; i < LAYERS; i++) {
        enum kind kind = (enum kind)((round + i) % WILD);
        for (size_t j = 0; j < n; j++) values[j] = logit(seed, kind, &l->up.routing, (int)(j % LAYER_EXPERTS));
        lf_upload(gpu, l->logits[i].ptr, values, n * sizeof *values);
    }
}

/* Who computes what changes from one replay to the next, and from layer to layer. */
static void graphs_of_layers_route_what_lies_at_their_addresses(void **state)
{
    (void)state;
    uint64_t seed = 9;
    static const int tokens[] = {1, 2, 8, 16, 24, LAYER_TOKENS};
    struct layers l = {.n_tokens = LAYER_TOKENS};
    layers_make(&l, &seed);
    for (size_t t = 0; t < LF_N_ELEMS(tokens); t++) {
        size_t n = (size_t)tokens[t] * LAYER_HIDDEN * LAYERS;
        struct gpu_tensor out = gpu_poisoned(LF_F32, n), expected = gpu_poisoned(LF_F32, n);
        l.n_tokens = l.route.n_tokens = l.up.p.n_tokens = l.down.p.n_tokens = tokens[t];
        (void)snprintf(gpu_case, sizeof gpu_case, "layers, T=%d", tokens[t]);
        l.one_by_one = false;
        gpu_sync();
        assert_true(lf_graph_begin(gpu));
        run_layers(&l, &out);
        struct lf_graph *graph = lf_graph_end(gpu);
        assert_non_null(graph);
        l.one_by_one = true;
        for (int i = 0; i < gpu_times(REPEATS); i++) {
            draw_logits(&l, &seed, i);
            lf_graph_launch(gpu, graph);
            run_layers(&l, &expected);
            float *a = gpu_read(&out), *b = gpu_read(&expected);
            assert_memory_equal(a, b, n * sizeof(float));
            for (size_t j = 0; j < n; j++) assert_true(isfinite(a[j]));
            free(a);
            free(b);
        }
        lf_graph_destroy(gpu, graph);
        gpu_free(&expected);
        gpu_free(&out);
    }
    layers_free(&l);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grouped_gemms_of_few_tokens_are_right),
        cmocka_unit_test(grouped_gemms_of_many_tokens_are_right),
        cmocka_unit_test(grouped_gemms_of_models_shapes_are_right),
        cmocka_unit_test(rows_are_the_same_in_every_batch),
        cmocka_unit_test(rows_of_the_gemv_are_those_of_gemm),
        cmocka_unit_test(grouped_gemms_repeat),
        cmocka_unit_test(sums_of_experts_are_right),
        cmocka_unit_test(no_tokens_is_no_work),
        cmocka_unit_test(graphs_of_layers_route_what_lies_at_their_addresses),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    cpu = fixture_open(LF_ISA_C, 0);
    int rc = gpu_run(tests);
    lf_device_close(cpu);
    return rc;
}
