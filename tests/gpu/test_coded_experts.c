/* Grouped GEMMs of coded weights on a GPU: the bits of those of the same weights expanded, in every format, tile and
 * number of tokens, and with the ops of a layer overlapping. What those of plain weights are is test_experts.c's. FP8
 * weights in blocks or rows meet FP8 activations (device/cuda/experts_fp8.h): the bits of the GEMM of one matrix, whose
 * own tests are test_gemm_fp8.c and test_fp8_op.c.
 * Skipped (77) where no GPU opens, and where experts do not stay coded.
 *
 *     test_coded_experts [PATTERN]   (of the names of tests) */
#include "tests/gpu/gpu_quant.h"
#include "tests/gpu/gpu_routing.h"

#include "device/cuda/cuda_impl.h"
#include "device/cuda/coded_order.h"
#include "device/cuda/expert_gemm_coded_sm90.h"
#include "device/cuda/expert_gemm_fp8_sm90.h"
#include "device/cuda/experts_fp8.h"
#include "device/cuda/gemm_fp8_sm90.h"

enum { REPEATS = 50, BY_TABLE = -1 };

struct shape {
    int n_tokens, n_experts, k, n_in, n_out;
    bool by_token, y_float, bias;
    enum kind kind;
};

static const struct lf_format formats[] = {
    {LF_BF16, LF_CODE_E4M3, 128, 1, false, LF_F32}, {LF_BF16, LF_CODE_I4, 32, 1, false, LF_F32},
    {LF_BF16, LF_CODE_I4, 64, 1, true, LF_F32},     {LF_BF16, LF_CODE_I4, 128, 1, true, LF_F32},
    {LF_BF16, LF_CODE_I4, 0, 1, false, LF_F32},     {LF_BF16, LF_CODE_E2M1, 32, 1, false, LF_F32},
};
static const struct lf_format fp8_formats[] = {{LF_BF16, LF_CODE_E4M3, 128, 128, false, LF_F32},
                                               {LF_BF16, LF_CODE_E4M3, 0, 1, false, LF_F32}};

/* The same matrices twice. */
struct experts {
    struct lf_weight coded, plain;
    struct gpu_tensor coded_bytes, plain_bytes;
    float *values; /* [E, n_out, n_in], as those that are multiplied have them */
};

static struct gpu_tensor room_for(struct lf_weight *w)
{
    struct gpu_tensor t = gpu_poisoned(LF_F16, (size_t)lf_weight_expert_bytes(gpu_ops, w) * (size_t)w->n_experts / 2);
    w->data = t.ptr;
    return t;
}

/* One expert's canonical rows, packed; their values to `out`. */
static void pack_coded(uint64_t *seed, const struct lf_weight *w, float *out)
{
    const struct lf_format *f = &w->format;
    size_t n = (size_t)w->n_out * (size_t)w->n_in, n_groups = (size_t)lf_format_n_groups(f, w->n_in);
    uint8_t *codes = fixture_alloc(n), *zeros = fixture_alloc((size_t)w->n_out * n_groups);
    float *scales = quant_scales(seed, f, w->n_out, (int)n_groups);
    for (size_t i = 0; i < n; i++) codes[i] = quant_code(seed, f->code);
    for (size_t i = 0; i < (size_t)w->n_out * n_groups; i++) zeros[i] = (uint8_t)fixture_between(seed, 0, 16);
    struct lf_quant_rows rows = {codes, scales, f->zeros ? zeros : NULL};
    lf_dequantize_rows(f, w->n_out, w->n_in, &rows, out);
    gpu_ops->weight_pack(gpu, w, 0, w->n_out, &rows);
    free(scales);
    free(zeros);
    free(codes);
}

static struct experts experts_make(uint64_t *seed, const struct lf_format *f, const struct shape *c)
{
    struct experts e = {.coded = {.format = *f, .n_out = c->n_out, .n_in = c->n_in, .n_experts = c->n_experts}};
    size_t n = (size_t)c->n_out * (size_t)c->n_in;
    e.plain = e.coded;
    e.plain.format = lf_format_plain(gpu_act);
    e.coded_bytes = room_for(&e.coded);
    e.plain_bytes = room_for(&e.plain);
    e.values = fixture_alloc((size_t)c->n_experts * n * sizeof *e.values);
    char *packed = fixture_alloc(n * 2);
    enum lf_fp8_scales by;
    bool is_fp8 = lf_cuda_experts_fp8_takes(gpu, &e.coded, &by); /* whose weights nobody rounds */
    for (int i = 0; i < c->n_experts; i++) {
        struct lf_weight coded = lf_weight_of_expert(gpu_ops, &e.coded, i);
        struct lf_weight plain = lf_weight_of_expert(gpu_ops, &e.plain, i);
        float *values = e.values + (size_t)i * n;
        pack_coded(seed, &coded, values);
        lf_from_f32(packed, gpu_act, values, n);
        if (!is_fp8) lf_to_f32(values, packed, gpu_act, n);
        gpu_ops->weight_pack(gpu, &plain, 0, c->n_out, packed);
    }
    free(packed);
    return e;
}

static void experts_free(struct experts *e)
{
    gpu_free(&e->coded_bytes);
    gpu_free(&e->plain_bytes);
    free(e->values);
}

/* ---- one GEMM ---- */

struct data {
    struct shape c;
    struct experts e;
    struct routing routing;
    struct gpu_tensor x, rows, first, bias;
    float *x_values, *bias_values;
    struct lf_expert_gemm_params p; /* but for y and w */
};

static struct data data_make(uint64_t *seed, const struct lf_format *f, const struct shape *c)
{
    struct data d = {.c = *c};
    char name[LF_FORMAT_NAME_BYTES];
    lf_format_name(name, f);
    (void)snprintf(gpu_case, sizeof gpu_case, "%s, T=%d E=%d k=%d n_in=%d n_out=%d by token %d float %d bias %d", name,
                   c->n_tokens, c->n_experts, c->k, c->n_in, c->n_out, c->by_token, c->y_float, c->bias);
    d.routing = routing_make(seed, c->kind, LF_ROUTE_SOFTMAX, c->n_tokens, c->n_experts, c->k);
    d.e = experts_make(seed, f, c);
    size_t n_rows = (size_t)c->n_tokens * (size_t)c->k, n_x = c->by_token ? (size_t)c->n_tokens : n_rows;
    d.x = gpu_random(gpu_act, seed, n_x * (size_t)c->n_in, 1.0f, &d.x_values);
    d.rows = gpu_ids(d.routing.rows, n_rows);
    d.first = gpu_ids(d.routing.first, (size_t)c->n_experts + 1);
    d.bias = gpu_random(LF_F32, seed, (size_t)c->n_experts * (size_t)c->n_out, 1.0f, &d.bias_values);
    d.p = (struct lf_expert_gemm_params){.y_float = c->y_float,
                                         .x = d.x.ptr,
                                         .x_by_token = c->by_token,
                                         .bias = c->bias ? (const float *)(void *)d.bias.ptr : NULL,
                                         .rows = (const int32_t *)(void *)d.rows.ptr,
                                         .first = (const int32_t *)(void *)d.first.ptr,
                                         .n_tokens = c->n_tokens,
                                         .k = c->k};
    return d;
}

static void data_free(struct data *d)
{
    routing_free(&d->routing);
    experts_free(&d->e);
    gpu_free(&d->x);
    gpu_free(&d->rows);
    gpu_free(&d->first);
    gpu_free(&d->bias);
    free(d->x_values);
    free(d->bias_values);
}

static size_t y_elements(const struct data *d)
{
    return (size_t)d->c.n_tokens * (size_t)d->c.k * (size_t)d->c.n_out;
}

/* tiles: BY_TABLE, or of a launcher. */
static char *run(const struct data *d, const struct lf_weight *w, int tiles)
{
    struct gpu_tensor y = gpu_poisoned(d->c.y_float ? LF_F32 : gpu_act, y_elements(d));
    struct lf_expert_gemm_params p = d->p;
    size_t expert_bytes = (size_t)lf_weight_expert_bytes(gpu_ops, w);
    p.w = w;
    p.y = y.ptr;
    if (tiles == BY_TABLE)
        gpu_ops->expert_gemm(gpu, &p);
    else
        assert_int_equal(lf_cuda_expert_gemm_coded_sm90(&p, expert_bytes, gpu->info.n_sms, tiles, lf_cuda_launch(gpu)),
                         0);
    char *raw = gpu_read_raw(&y);
    gpu_free(&y);
    return raw;
}

static void same_bytes(const struct data *d, const char *got, const char *expected, int tiles)
{
    size_t size = d->c.y_float ? sizeof(float) : 2, n_out = (size_t)d->c.n_out;
    for (size_t i = 0; i < y_elements(d); i++)
        if (memcmp(got + i * size, expected + i * size, size) != 0) {
            float a, b;
            lf_to_f32(&a, got + i * size, d->c.y_float ? LF_F32 : gpu_act, 1);
            lf_to_f32(&b, expected + i * size, d->c.y_float ? LF_F32 : gpu_act, 1);
            fail_msg("%s, tiles %d: row %zu column %zu: %g, expanded %g", gpu_case, tiles, i / n_out, i % n_out,
                     (double)a, (double)b);
        }
}

/* A value in float64. */
static void check_value(const struct data *d, const char *y, int row, int col)
{
    int n_in = d->c.n_in, expert = 0;
    while (d->routing.first[expert + 1] <= row) expert++;
    size_t w_row = (size_t)expert * (size_t)d->c.n_out + (size_t)col, at = (size_t)row * (size_t)d->c.n_out;
    const float *x = d->x_values + (size_t)(d->c.by_token ? d->routing.rows[row] / d->c.k : row) * (size_t)n_in;
    double sum = d->c.bias ? (double)d->bias_values[w_row] : 0.0, magnitude = fabs(sum);
    enum lf_fp8_scales by;
    for (int i = 0; i < n_in; i++) {
        double product = (double)x[i] * (double)d->e.values[w_row * (size_t)n_in + (size_t)i];
        sum += product;
        magnitude += fabs(product);
    }
    float got;
    lf_to_f32(&got, y + (at + (size_t)col) * (d->c.y_float ? sizeof(float) : 2), d->c.y_float ? LF_F32 : gpu_act, 1);
    /* of FP8 as gpu_quant has it */
    bool is_fp8 = lf_cuda_experts_fp8_takes(gpu, &d->e.coded, &by);
    double allowed = (is_fp8 ? 0x1p-11 : ldexp(n_in + 2, -22)) * magnitude + 1e-30;
    if (!d->c.y_float) allowed += gpu_rounding(gpu_act, fabs(sum) + allowed);
    if (!(fabs((double)got - sum) <= allowed))
        fail_msg("%s: row %d column %d: %g, expected %g within %g", gpu_case, row, col, (double)got, sum, allowed);
}

/* Whether the shape is one whose codes are expanded: one group a row of FP8 meets activations of FP8, which is below.
 */
static bool run_case(uint64_t *seed, const struct lf_format *f, const struct shape *c)
{
    enum lf_fp8_scales by;
    if (!gpu_ops->supports_format(gpu, f, c->n_out, c->n_in, c->n_experts)) return false;
    struct data d = data_make(seed, f, c);
    if (lf_cuda_experts_fp8_takes(gpu, &d.e.coded, &by)) {
        data_free(&d);
        return false;
    }
    char *expected = run(&d, &d.e.plain, BY_TABLE);
    for (int tiles = BY_TABLE; tiles < LF_CUDA_EXPERT_CODED_TILES; tiles++) {
        char *got = run(&d, &d.e.coded, tiles);
        same_bytes(&d, got, expected, tiles);
        for (int i = 0; i < 50; i++)
            check_value(&d, got, fixture_between(seed, 0, c->n_tokens * c->k - 1),
                        fixture_between(seed, 0, c->n_out - 1));
        free(got);
    }
    free(expected);
    data_free(&d);
    return true;
}

/* Steps of 64, blocks of 128, tiles of 64, 96 and 128 columns: one less, one more. */
static const struct shape shapes[] = {
    {.n_tokens = 1, .n_experts = 1, .k = 1, .n_in = 16, .n_out = 8},
    {.n_tokens = 1, .n_experts = 32, .k = 4, .n_in = 448, .n_out = 264},
    {.n_tokens = 2, .n_experts = 16, .k = 8, .n_in = 128, .n_out = 128},
    {.n_tokens = 7, .n_experts = 128, .k = 8, .n_in = 144, .n_out = 72},
    {.n_tokens = 16, .n_experts = 5, .k = 2, .n_in = 1024, .n_out = 520, .kind = CROWDED},
    {.n_tokens = 63, .n_experts = 3, .k = 1, .n_in = 64, .n_out = 96},
    {.n_tokens = 65, .n_experts = 9, .k = 1, .n_in = 256, .n_out = 248, .kind = CROWDED},
    {.n_tokens = 300, .n_experts = 60, .k = 4, .n_in = 208, .n_out = 136, .kind = SPARSE},
    {.n_tokens = 513, .n_experts = 16, .k = 4, .n_in = 992, .n_out = 304},
    {.n_tokens = 1500, .n_experts = 1024, .k = 3, .n_in = 64, .n_out = 64},
};

static void need_coded(void)
{
    if (gpu->info.sm != 90) skip();
}

static void rows_have_the_bits_of_expanded_weights(void **state)
{
    (void)state;
    uint64_t seed = 1;
    need_coded();
    for (size_t f = 0; f < LF_N_ELEMS(formats); f++) {
        int n_run = 0;
        for (size_t s = 0; s < LF_N_ELEMS(shapes); s++)
            for (int i = 0; i < 2; i++) {
                struct shape c = shapes[s];
                c.by_token = i == 0;
                c.y_float = (f + s) % 2 == 0;
                c.bias = (f + s) % 3 == 0;
                n_run += run_case(&seed, &formats[f], &c);
            }
        assert_true(n_run > 4 || (formats[f].code == LF_CODE_E2M1 && gpu_act == LF_F16));
    }
}

static void so_they_have_in_models_shapes(void **state)
{
    (void)state;
    uint64_t seed = 2;
    static const struct shape models[] = {
        {.n_experts = 3, .k = 2, .n_in = 2048, .n_out = 1536, .by_token = true},
        {.n_experts = 3, .k = 2, .n_in = 768, .n_out = 2048, .y_float = true},
        {.n_experts = 2, .k = 1, .n_in = 2880, .n_out = 5760, .by_token = true, .bias = true},
        {.n_experts = 2, .k = 1, .n_in = 2880, .n_out = 2880, .y_float = true, .bias = true}};
    static const int tokens[] = {1, 40, 700};
    need_coded();
    for (size_t s = 0; s < LF_N_ELEMS(models); s++)
        for (size_t t = 0; t < LF_N_ELEMS(tokens); t++) {
            struct shape c = models[s];
            c.n_tokens = tokens[t];
            run_case(&seed, &formats[s < 2 ? 0 : LF_N_ELEMS(formats) - 1], &c);
        }
}

/* ---- FP8 by FP8 ---- */

struct fp8_data {
    struct data d;
    struct gpu_tensor codes, scratch;
    struct lf_quant_params quant; /* of all rows of x into `codes` */
};

static int n_x_rows(const struct shape *c)
{
    return c->by_token ? c->n_tokens : c->n_tokens * c->k;
}

static struct fp8_data fp8_make(uint64_t *seed, const struct lf_format *f, const struct shape *c)
{
    struct fp8_data d = {.d = data_make(seed, f, c)};
    enum lf_fp8_scales by;
    int n = n_x_rows(c);
    assert_true(lf_cuda_experts_fp8_takes(gpu, &d.d.e.coded, &by));
    d.codes = gpu_poisoned(LF_F32, (size_t)lf_x_codes_bytes(n, c->n_in) / 4 + 1);
    d.d.p.w = &d.d.e.coded;
    d.scratch = gpu_poisoned(LF_F32, (size_t)gpu_ops->expert_gemm_scratch_bytes(&d.d.p) / 4 + 1);
    d.d.p.scratch = d.scratch.ptr;
    d.quant = (struct lf_quant_params){.to = lf_x_codes_at(d.codes.ptr, n, c->n_in, by),
                                       .x = d.d.x.ptr,
                                       .n_tokens = n,
                                       .n_in = c->n_in,
                                       .x_stride = c->n_in};
    return d;
}

static void fp8_free(struct fp8_data *d)
{
    gpu_free(&d->codes);
    gpu_free(&d->scratch);
    data_free(&d->d);
}

/* Each expert's rows as the tokens of a GEMM of its matrix. */
static char *run_one_by_one(const struct fp8_data *d)
{
    const struct data *g = &d->d;
    const struct shape *c = &g->c;
    size_t n_in = (size_t)c->n_in, n_rows = (size_t)c->n_tokens * (size_t)c->k, y_bytes = c->y_float ? 4 : 2;
    struct gpu_tensor x = gpu_poisoned(gpu_act, n_rows * n_in),
                      y = gpu_poisoned(c->y_float ? LF_F32 : gpu_act, y_elements(g));
    struct gpu_tensor scratch = gpu_poisoned(LF_F32, gpu_ops->gemm_scratch_bytes((int)n_rows, c->n_in) / sizeof(float));
    char *given = gpu_read_raw(&g->x), *sorted = fixture_alloc(n_rows * n_in * 2);
    for (size_t i = 0; i < n_rows; i++) {
        size_t from = c->by_token ? (size_t)(g->routing.rows[i] / c->k) : i;
        memcpy(sorted + i * n_in * 2, given + from * n_in * 2, n_in * 2);
    }
    lf_upload(gpu, x.ptr, sorted, n_rows * n_in * 2);
    for (int e = 0; e < c->n_experts; e++) {
        size_t first = (size_t)g->routing.first[e];
        struct lf_weight w = lf_weight_of_expert(gpu_ops, &g->e.coded, e);
        struct lf_gemm_params p = {.y = y.ptr + first * (size_t)c->n_out * y_bytes,
                                   .y_float = c->y_float,
                                   .x = x.ptr + first * n_in * 2,
                                   .w = &w,
                                   .bias = c->bias ? g->p.bias + (size_t)e * (size_t)c->n_out : NULL,
                                   .alpha = 1.0f,
                                   .n_tokens = g->routing.first[e + 1] - (int)first,
                                   .x_stride = c->n_in,
                                   .y_stride = c->n_out,
                                   .scratch = scratch.ptr};
        if (p.n_tokens > 0) gpu_ops->gemm(gpu, &p);
    }
    char *raw = gpu_read_raw(&y);
    free(given);
    free(sorted);
    gpu_free(&x);
    gpu_free(&y);
    gpu_free(&scratch);
    return raw;
}

/* By a launcher, tiles as there; sorted rows in `parts`, whose codes lie each for itself. */
static char *run_tiles(const struct fp8_data *d, int tiles, int parts)
{
    const struct data *g = &d->d;
    struct gpu_tensor y = gpu_poisoned(g->c.y_float ? LF_F32 : gpu_act, y_elements(g));
    struct lf_expert_gemm_params p = g->p;
    const struct lf_weight *w = p.w;
    size_t scales_at = lf_coded_order_of(&w->format, w->n_out, w->n_in).scales_at;
    const float *w_scales = (const float *)(const void *)((const char *)w->data + scales_at);
    int n_rows = g->c.n_tokens * g->c.k, n = g->c.by_token ? n_rows : (n_rows + parts - 1) / parts;
    p.y = y.ptr;
    p.x = NULL;
    for (int row = 0; row < n_rows; row += n) {
        struct lf_quant_params quant = d->quant;
        int part = LF_MIN(n, n_rows - row);
        if (!g->c.by_token) {
            quant.n_tokens = part;
            quant.to = lf_x_codes_at(d->codes.ptr, part, g->c.n_in, quant.to.by);
            quant.x = g->x.ptr + (size_t)row * (size_t)g->c.n_in * 2;
        }
        assert_int_equal(lf_cuda_quant_rows(&quant, lf_cuda_launch(gpu)), 0);
        p.x_codes = quant.to;
        assert_int_equal(lf_cuda_expert_gemm_fp8_sm90(&p, w_scales, (size_t)lf_weight_expert_bytes(gpu_ops, w), row,
                                                      part, gpu->info.n_sms, tiles, lf_cuda_launch(gpu)),
                         0);
    }
    char *raw = gpu_read_raw(&y);
    gpu_free(&y);
    return raw;
}

static void expect(const struct fp8_data *d, char *got, const char *expected, int tiles)
{
    same_bytes(&d->d, got, expected, tiles);
    free(got);
}

static void fp8_case(uint64_t *seed, const struct lf_format *f, const struct shape *c)
{
    struct fp8_data d = fp8_make(seed, f, c);
    struct lf_expert_gemm_params with_codes = d.d.p;
    char *expected = run_one_by_one(&d);
    expect(&d, run(&d.d, &d.d.e.coded, BY_TABLE), expected, BY_TABLE);
    assert_int_equal(lf_cuda_quant_rows(&d.quant, lf_cuda_launch(gpu)), 0);
    with_codes.x = NULL;
    with_codes.scratch = NULL;
    with_codes.x_codes = d.quant.to;
    struct data given = d.d;
    given.p = with_codes;
    expect(&d, run(&given, &d.d.e.coded, BY_TABLE), expected, BY_TABLE);
    for (int tiles = 0; tiles < LF_CUDA_EXPERT_FP8_TILES; tiles++)
        for (int parts = 1; parts <= (c->by_token ? 1 : 3); parts++)
            expect(&d, run_tiles(&d, tiles, parts), expected, tiles);
    quant_round_e4m3(d.d.x_values, n_x_rows(c), c->n_in, lf_format_group(f, c->n_in));
    for (int i = 0; i < 50; i++)
        check_value(&d.d, expected, fixture_between(seed, 0, c->n_tokens * c->k - 1),
                    fixture_between(seed, 0, c->n_out - 1));
    free(expected);
    fp8_free(&d);
}

static void rows_of_fp8_have_the_bits_of_one_matrix(void **state)
{
    (void)state;
    uint64_t seed = 4;
    need_coded();
    for (size_t f = 0; f < LF_N_ELEMS(fp8_formats); f++)
        for (size_t s = 0; s < (size_t)gpu_times(LF_N_ELEMS(shapes)); s++)
            for (int i = 0; i < 2; i++) {
                struct shape c = shapes[s];
                c.by_token = i == 0;
                c.y_float = (f + s) % 2 == 0;
                c.bias = (f + s) % 3 == 0;
                fp8_case(&seed, &fp8_formats[f], &c);
            }
}

static void so_they_have_in_models_shapes_of_fp8(void **state)
{
    (void)state;
    uint64_t seed = 5;
    static const struct shape models[] = {
        {.n_experts = 8, .k = 2, .n_in = 2048, .n_out = 1536, .by_token = true},
        {.n_experts = 8, .k = 2, .n_in = 768, .n_out = 2048, .y_float = true},
        {.n_experts = 2, .k = 1, .n_in = 2880, .n_out = 5760, .by_token = true, .bias = true}};
    static const int tokens[] = {1, 40, 1200};
    need_coded();
    for (size_t s = 0; s < LF_N_ELEMS(models); s++)
        for (size_t t = 0; t < LF_N_ELEMS(tokens); t++)
            for (size_t f = 0; f < LF_N_ELEMS(fp8_formats); f++) {
                struct shape c = models[s];
                c.n_tokens = tokens[t];
                fp8_case(&seed, &fp8_formats[f], &c);
            }
}

/* ---- the ops of layers, each of which may begin before the one before it has ended ---- */

enum { LAYERS = 3, TOKENS = 200, EXPERTS = 40, K = 4, HIDDEN = 528, WIDTH = 272 };

struct layers {
    struct data up, down;
    struct gpu_tensor weights, places, gate_up, gated, rows, scratch;
    struct lf_route_params route;
    bool with_codes; /* gated activations are written as codes */
};

static void layers_make(struct layers *l, uint64_t *seed, const struct lf_format *f)
{
    struct shape up = {
        .n_tokens = TOKENS, .n_experts = EXPERTS, .k = K, .n_in = HIDDEN, .n_out = 2 * WIDTH, .by_token = true};
    struct shape down = {
        .n_tokens = TOKENS, .n_experts = EXPERTS, .k = K, .n_in = WIDTH, .n_out = HIDDEN, .y_float = true};
    size_t n = TOKENS * K;
    l->up = data_make(seed, f, &up);
    l->down = data_make(seed, f, &down);
    l->weights = gpu_poisoned(LF_F32, n);
    l->places = gpu_poisoned(LF_F32, n);
    l->gate_up = gpu_poisoned(gpu_act, n * 2 * WIDTH);
    l->gated = gpu_poisoned(gpu_act, n * WIDTH);
    l->rows = gpu_poisoned(LF_F32, n * HIDDEN);
    l->route = l->up.routing.p;
    l->route.logits = (const float *)(void *)l->up.routing.dev_logits.ptr;
    l->route.expert_scale = NULL;
    l->route.weights = (float *)(void *)l->weights.ptr;
    l->route.rows = (int32_t *)(void *)l->up.rows.ptr;
    l->route.places = (int32_t *)(void *)l->places.ptr;
    l->route.first = (int32_t *)(void *)l->up.first.ptr;
    l->up.p.w = &l->up.e.coded;
    l->up.p.y = l->gate_up.ptr;
    l->down.p.w = &l->down.e.coded;
    l->down.p.x = l->gated.ptr;
    l->down.p.y = l->rows.ptr;
    l->down.p.rows = l->up.p.rows;
    l->down.p.first = l->up.p.first;
    uint64_t up_bytes = gpu_ops->expert_gemm_scratch_bytes(&l->up.p);
    uint64_t down_bytes = gpu_ops->expert_gemm_scratch_bytes(&l->down.p);
    l->scratch = gpu_poisoned(LF_F32, (size_t)LF_MAX(up_bytes, down_bytes) / sizeof(float) + 1);
    l->up.p.scratch = l->down.p.scratch = l->scratch.ptr;
}

static void layers_free(struct layers *l)
{
    data_free(&l->up);
    data_free(&l->down);
    gpu_free(&l->weights);
    gpu_free(&l->places);
    gpu_free(&l->gate_up);
    gpu_free(&l->gated);
    gpu_free(&l->rows);
    gpu_free(&l->scratch);
}

/* Layer i begins with logits that lie i tokens further on, so that experts differ. */
static void run_layers(struct layers *l, int n_tokens, bool one_by_one, const struct gpu_tensor *out)
{
    const float *logits = l->route.logits;
    enum lf_fp8_scales by = LF_FP8_BLOCKS;
    l->route.n_tokens = l->up.p.n_tokens = l->down.p.n_tokens = n_tokens;
    l->down.p.x_codes.codes = NULL;
    if (l->with_codes && gpu_ops->quantizes_x(gpu, l->down.p.w, &by))
        l->down.p.x_codes = lf_x_codes_at(l->gated.ptr, n_tokens * K, WIDTH, by);
    for (int i = 0; i < LAYERS; i++) {
        struct lf_gate_mul_params gate = {.out = l->gated.ptr,
                                          .gate_up = l->gate_up.ptr,
                                          .n_tokens = n_tokens * K,
                                          .dim = WIDTH,
                                          .codes = l->down.p.x_codes};
        struct lf_expert_sum_params sum = {.y = (float *)(void *)out->ptr + (size_t)i * TOKENS * HIDDEN,
                                           .x = (const float *)(void *)l->rows.ptr,
                                           .weights = l->route.weights,
                                           .places = l->route.places,
                                           .n_tokens = n_tokens,
                                           .k = K,
                                           .dim = HIDDEN};
        struct lf_route_params route = l->route;
        route.logits = logits + (size_t)i * EXPERTS;
        gpu_ops->route(gpu, &route);
        if (one_by_one) gpu_sync();
        gpu_ops->expert_gemm(gpu, &l->up.p);
        if (one_by_one) gpu_sync();
        gpu_ops->gate_mul(gpu, &gate);
        if (one_by_one) gpu_sync();
        gpu_ops->expert_gemm(gpu, &l->down.p);
        if (one_by_one) gpu_sync();
        gpu_ops->expert_sum(gpu, &sum);
        if (one_by_one) gpu_sync();
    }
}

static void check_layers(const struct lf_format *f, uint64_t *seed)
{
    static const int tokens[] = {1, 3, 16, TOKENS - LAYERS};
    enum lf_fp8_scales by;
    struct layers l;
    layers_make(&l, seed, f);
    for (int with_codes = 0; with_codes < 2; with_codes++) {
        l.with_codes = with_codes;
        if (with_codes && !gpu_ops->quantizes_x(gpu, l.down.p.w, &by)) break;
        for (size_t t = 0; t < LF_N_ELEMS(tokens); t++) {
            size_t n = (size_t)LAYERS * TOKENS * HIDDEN;
            struct gpu_tensor out = gpu_poisoned(LF_F32, n), expected = gpu_poisoned(LF_F32, n);
            run_layers(&l, tokens[t], true, &expected);
            float *b = gpu_read(&expected);
            for (int i = 0; i < gpu_times(REPEATS); i++) run_layers(&l, tokens[t], false, &out);
            float *a = gpu_read(&out);
            for (int i = 0; i < LAYERS; i++)
                assert_memory_equal(a + (size_t)i * TOKENS * HIDDEN, b + (size_t)i * TOKENS * HIDDEN,
                                    (size_t)tokens[t] * HIDDEN * sizeof(float));
            free(a);
            free(b);
            gpu_free(&out);
            gpu_free(&expected);
        }
    }
    layers_free(&l);
}

static void layers_overlap(void **state)
{
    (void)state;
    uint64_t seed = 3;
    need_coded();
    for (size_t f = 0; f < LF_N_ELEMS(formats); f++)
        if (gpu_ops->supports_format(gpu, &formats[f], HIDDEN, WIDTH, EXPERTS)) check_layers(&formats[f], &seed);
    for (size_t f = 0; f < LF_N_ELEMS(fp8_formats); f++) check_layers(&fp8_formats[f], &seed);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_the_bits_of_expanded_weights),
        cmocka_unit_test(so_they_have_in_models_shapes),
        cmocka_unit_test(rows_of_fp8_have_the_bits_of_one_matrix),
        cmocka_unit_test(so_they_have_in_models_shapes_of_fp8),
        cmocka_unit_test(layers_overlap),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    cpu = fixture_open(LF_ISA_C, 0);
    int rc = gpu_run(tests);
    lf_device_close(cpu);
    return rc;
}
