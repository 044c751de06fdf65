/* The FP8 GEMM on a GPU (device/cuda/gemm_fp8_sm90.h): every kernel against float64 and all of them against each other
 * bit by bit, in any number of tokens; quantizing against plain C. Skipped (77) where no GPU opens; on others than
 * Hopper the tests of GEMMs are skipped.
 *
 *     gpu_gemm_fp8 [PATTERN]   (of the names of tests, as "quant*")
 *
 * What a sum may be off by: the tensor core cuts the products of an instruction to some 14 bits under the largest, so
 * 2^-13 of the sum of their magnitudes is allowed. */
#include "tests/gpu/gpu_fixture.h"

#include "core/quant.h"
#include "device/cuda/cuda_impl.h"
#include "device/cuda/gemm_fp8_sm90.h"

static const enum lf_fp8_scales kinds[] = {LF_FP8_BLOCKS, LF_FP8_ROWS};
static const char *const tile_names[LF_FP8_TILES] = {"few tokens", "128 tokens", "256 tokens", "256 tokens in pairs"};

static int n_blocks(int n)
{
    return (n + LF_FP8_BLOCK - 1) / LF_FP8_BLOCK;
}

static struct gpu_tensor upload_bytes(const void *bytes, size_t n)
{
    struct gpu_tensor t = gpu_poisoned(LF_F32, (n + 3) / 4);
    lf_upload(gpu, t.ptr, bytes, n);
    return t;
}

/* Codes of about N(0, 60²), a few of them the largest. */
static uint8_t *random_codes(uint64_t *seed, size_t n)
{
    uint8_t *codes = fixture_alloc(n);
    for (size_t i = 0; i < n; i++) codes[i] = lf_e4m3_from_f32(60.0f * fixture_normal(seed));
    return codes;
}

static float *random_scales(uint64_t *seed, size_t n)
{
    float *scales = fixture_alloc(n * sizeof *scales);
    for (size_t i = 0; i < n; i++) scales[i] = 0.5f + (float)fixture_random(seed) / 2147483648.0f;
    return scales;
}

/* ---- GEMM ---- */

struct fp8_case {
    int n_tokens, n_in, n_out;
    bool y_float, bias, residual;
    int y_gap;
    float alpha;
};

struct fp8_data {
    struct fp8_case c;
    uint8_t *x, *w;
    float *x_scales[2], *w_scales[2], *bias, *residual; /* by blocks, by rows */
    struct gpu_tensor x_gpu, w_gpu, x_scales_gpu[2], w_scales_gpu[2], bias_gpu, residual_gpu;
    int scale_stride, y_stride;
};

static void data_make(struct fp8_data *d, const struct fp8_case *c, uint64_t *seed)
{
    size_t t = (size_t)c->n_tokens, k = (size_t)c->n_in, n = (size_t)c->n_out;
    size_t x_blocks = (size_t)n_blocks(c->n_in), w_blocks = (size_t)n_blocks(c->n_out);
    *d = (struct fp8_data){.c = *c, .scale_stride = (c->n_tokens + 3) / 4 * 4, .y_stride = c->n_out + c->y_gap};
    const size_t x_n[2] = {x_blocks * (size_t)d->scale_stride, t}, w_n[2] = {w_blocks * x_blocks, n};
    (void)snprintf(gpu_case, sizeof gpu_case, "T=%d n_in=%d n_out=%d float %d bias %d residual %d gap %d", c->n_tokens,
                   c->n_in, c->n_out, c->y_float, c->bias, c->residual, c->y_gap);
    d->x = random_codes(seed, t * k);
    d->w = random_codes(seed, n * k);
    d->x_gpu = upload_bytes(d->x, t * k);
    d->w_gpu = upload_bytes(d->w, n * k);
    for (int by = 0; by < 2; by++) {
        d->x_scales[by] = random_scales(seed, x_n[by]);
        d->w_scales[by] = random_scales(seed, w_n[by]);
        d->x_scales_gpu[by] = upload_bytes(d->x_scales[by], x_n[by] * sizeof(float));
        d->w_scales_gpu[by] = upload_bytes(d->w_scales[by], w_n[by] * sizeof(float));
    }
    d->bias_gpu = gpu_random(LF_F32, seed, n, 1000.0f, &d->bias);
    d->residual_gpu = gpu_random(LF_F32, seed, t * (size_t)d->y_stride, 1000.0f, &d->residual);
}

static void data_free(struct fp8_data *d)
{
    gpu_free(&d->x_gpu);
    gpu_free(&d->w_gpu);
    gpu_free(&d->bias_gpu);
    gpu_free(&d->residual_gpu);
    for (int by = 0; by < 2; by++) {
        gpu_free(&d->x_scales_gpu[by]);
        gpu_free(&d->w_scales_gpu[by]);
        free(d->x_scales[by]);
        free(d->w_scales[by]);
    }
    free(d->x);
    free(d->w);
    free(d->bias);
    free(d->residual);
}

/* y as it is; -1: the tiles that the kernel itself takes. Freed by the caller. */
static char *run_raw(const struct fp8_data *d, enum lf_fp8_scales by, int tiles)
{
    size_t n = (size_t)d->c.n_tokens * (size_t)d->y_stride;
    struct gpu_tensor y = gpu_poisoned(d->c.y_float ? LF_F32 : gpu_act, n);
    struct lf_fp8_gemm_params p = {.y = y.ptr,
                                   .y_float = d->c.y_float,
                                   .by = by,
                                   .x = (const uint8_t *)d->x_gpu.ptr,
                                   .x_scales = (const float *)(const void *)d->x_scales_gpu[by].ptr,
                                   .x_scale_stride = d->scale_stride,
                                   .w = (const uint8_t *)d->w_gpu.ptr,
                                   .w_scales = (const float *)(const void *)d->w_scales_gpu[by].ptr,
                                   .bias = d->c.bias ? (const float *)(const void *)d->bias_gpu.ptr : NULL,
                                   .residual = d->c.residual ? (const float *)(const void *)d->residual_gpu.ptr : NULL,
                                   .alpha = d->c.alpha,
                                   .n_tokens = d->c.n_tokens,
                                   .n_in = d->c.n_in,
                                   .n_out = d->c.n_out,
                                   .y_stride = d->y_stride};
    assert_true(lf_cuda_gemm_fp8_supports(&p));
    assert_int_equal(lf_cuda_gemm_fp8(&p, gpu->info.n_sms, tiles, lf_cuda_launch(gpu)), 0);
    char *raw = gpu_read_raw(&y);
    gpu_free(&y);
    return raw;
}

/* Nobody writes between a row's end and the next row. */
static void check_gaps(const struct fp8_data *d, const char *raw)
{
    size_t elem = d->c.y_float ? sizeof(float) : 2, row = (size_t)d->y_stride * elem, used = (size_t)d->c.n_out * elem;
    for (size_t t = 0; t < (size_t)d->c.n_tokens; t++)
        for (size_t i = used; i < row; i++) assert_int_equal((unsigned char)raw[t * row + i], 0xff);
}

static double scale_of(const struct fp8_data *d, enum lf_fp8_scales by, int t, int n, int k)
{
    if (by == LF_FP8_ROWS) return (double)d->x_scales[by][t] * (double)d->w_scales[by][n];
    int block = k / LF_FP8_BLOCK;
    return (double)d->x_scales[by][(size_t)block * (size_t)d->scale_stride + (size_t)t] *
           (double)d->w_scales[by][(size_t)(n / LF_FP8_BLOCK) * (size_t)n_blocks(d->c.n_in) + (size_t)block];
}

static void check_value(const struct fp8_data *d, enum lf_fp8_scales by, const float *y, int t, int n,
                        const char *tiles)
{
    const struct fp8_case *c = &d->c;
    size_t at = (size_t)t * (size_t)d->y_stride + (size_t)n;
    double sum = 0.0, magnitude = 0.0;
    for (int k = 0; k < c->n_in; k++) {
        double x = (double)lf_code_number(LF_CODE_E4M3, d->x[(size_t)t * (size_t)c->n_in + (size_t)k]);
        double w = (double)lf_code_number(LF_CODE_E4M3, d->w[(size_t)n * (size_t)c->n_in + (size_t)k]);
        double product = x * w * scale_of(d, by, t, n, k);
        sum += product;
        magnitude += fabs(product);
    }
    double expected = (double)c->alpha * (sum + (c->bias ? (double)d->bias[n] : 0.0));
    if (c->residual) expected += (double)d->residual[at];
    double allowed = fabs((double)c->alpha) * ldexp(magnitude, -13) + ldexp(fabs(expected) + 4000.0, -20);
    if (!c->y_float) allowed += gpu_rounding(gpu_act, fabs(expected) + allowed);
    bool is_past = gpu_act == LF_F16 && !c->y_float && fabs(expected) + allowed > 65504.0; /* fp16 has no such number */
    if (!is_past && !(fabs((double)y[at] - expected) <= allowed))
        fail_msg("%s, %s by %s: token %d column %d: %g, expected %g within %g", gpu_case, tiles,
                 by == LF_FP8_ROWS ? "rows" : "blocks", t, n, (double)y[at], expected, allowed);
}

static void run_case(const struct fp8_case *c, uint64_t *seed)
{
    struct fp8_data d;
    data_make(&d, c, seed);
    size_t n = (size_t)c->n_tokens * (size_t)d.y_stride, bytes = n * (c->y_float ? sizeof(float) : 2);
    float *y = fixture_alloc(n * sizeof *y);
    for (size_t by = 0; by < LF_N_ELEMS(kinds); by++) {
        char *first = NULL;
        for (int tiles = c->n_tokens <= LF_FP8_FEW_TOKENS ? 0 : 1; tiles < LF_FP8_TILES; tiles++) {
            char *raw = run_raw(&d, kinds[by], tiles);
            check_gaps(&d, raw);
            lf_to_f32(y, raw, c->y_float ? LF_F32 : gpu_act, n);
            for (int i = 0; i < 40; i++)
                check_value(&d, kinds[by], y, i < 4 ? c->n_tokens - 1 : fixture_between(seed, 0, c->n_tokens - 1),
                            i < 4 ? c->n_out - 1 - i : fixture_between(seed, 0, c->n_out - 1), tile_names[tiles]);
            if (first != NULL) assert_memory_equal(raw, first, bytes);
            if (first != NULL) free(raw);
            if (first == NULL) first = raw;
        }
        free(first);
    }
    free(y);
    data_free(&d);
}

static void need_hopper(void)
{
    if (gpu->info.sm != 90) skip();
    assert_int_equal(lf_cuda_gemm_fp8_setup(), 0);
}

/* Tiles of 128 rows of w and 64, 128 and 256 tokens, steps of 128: one less, one more, several. All kernels, and the
 * same bits from all of them. Of few tokens also, with 132 multiprocessors: tiles of 56 rows, which two warpgroups
 * share unequally, and several for a block. */
static void gemms_are_right_and_the_same_from_every_kernel(void **state)
{
    (void)state;
    static const struct fp8_case shapes[] = {
        {.n_tokens = 1, .n_in = 16, .n_out = 8, .alpha = 1.0f, .y_float = true},
        {.n_tokens = 1, .n_in = 128, .n_out = 128, .alpha = 1.0f},
        {.n_tokens = 7, .n_in = 640, .n_out = 136, .alpha = 0.5f, .bias = true},
        {.n_tokens = 9, .n_in = 2576, .n_out = 1000, .alpha = 1.0f, .y_float = true, .residual = true, .y_gap = 8},
        {.n_tokens = 3, .n_in = 528, .n_out = 28672, .alpha = 1.0f},
        {.n_tokens = 12, .n_in = 1296, .n_out = 7368, .alpha = 1.0f, .y_float = true, .residual = true},
        {.n_tokens = 20, .n_in = 1296, .n_out = 7368, .alpha = 1.0f, .bias = true},
        {.n_tokens = 33, .n_in = 144, .n_out = 264, .alpha = 1.0f, .y_gap = 24},
        {.n_tokens = 64, .n_in = 2048, .n_out = 120, .alpha = -3.0f, .bias = true, .y_float = true, .residual = true},
        {.n_tokens = 65, .n_in = 256, .n_out = 384, .alpha = 1.0f, .bias = true},
        {.n_tokens = 128, .n_in = 1024, .n_out = 256, .alpha = 1.0f},
        {.n_tokens = 130, .n_in = 400, .n_out = 392, .alpha = 1.0f, .y_float = true, .bias = true, .y_gap = 16},
        {.n_tokens = 257, .n_in = 272, .n_out = 520, .alpha = 1.0f, .y_float = true, .residual = true},
        {.n_tokens = 700, .n_in = 768, .n_out = 1160, .alpha = 1.0f, .bias = true}};
    uint64_t seed = 1;
    need_hopper();
    for (size_t i = 0; i < LF_N_ELEMS(shapes); i++) run_case(&shapes[i], &seed);
}

/* ---- bits ---- */

/* d's tokens first .. first + n - 1 alone. */
static struct fp8_data some_tokens(const struct fp8_data *d, int first, int n)
{
    struct fp8_data part = *d;
    size_t blocks = (size_t)n_blocks(d->c.n_in), k = (size_t)d->c.n_in;
    part.c.n_tokens = n;
    part.scale_stride = (n + 3) / 4 * 4;
    float *scales = fixture_alloc(blocks * (size_t)part.scale_stride * sizeof *scales);
    memset(scales, 0xff, blocks * (size_t)part.scale_stride * sizeof *scales);
    for (size_t b = 0; b < blocks; b++)
        memcpy(scales + b * (size_t)part.scale_stride, d->x_scales[0] + b * (size_t)d->scale_stride + first,
               (size_t)n * sizeof *scales);
    part.x_gpu = upload_bytes(d->x + (size_t)first * k, (size_t)n * k);
    part.x_scales_gpu[LF_FP8_BLOCKS] = upload_bytes(scales, blocks * (size_t)part.scale_stride * sizeof *scales);
    part.x_scales_gpu[LF_FP8_ROWS] = upload_bytes(d->x_scales[1] + first, (size_t)n * sizeof *scales);
    free(scales);
    return part;
}

static void a_token_has_the_same_bits_in_any_number_of_tokens(void **state)
{
    (void)state;
    static const int tokens[] = {1, 2, 5, 8, 9, 16, 17, 32, 33, 64, 65, 100, 128, 129, 255, 256, 257, 511, 1000};
    uint64_t seed = 2;
    struct fp8_case c = {.n_tokens = 1100, .n_in = 1424, .n_out = 520, .alpha = 1.0f, .y_float = true};
    struct fp8_data d;
    need_hopper();
    data_make(&d, &c, &seed);
    for (size_t by = 0; by < LF_N_ELEMS(kinds); by++) {
        char *all = run_raw(&d, kinds[by], -1);
        for (size_t i = 0; i < LF_N_ELEMS(tokens); i++) {
            int first = fixture_between(&seed, 0, c.n_tokens - tokens[i]);
            struct fp8_data part = some_tokens(&d, first, tokens[i]);
            char *raw = run_raw(&part, kinds[by], -1);
            size_t row_bytes = (size_t)d.y_stride * sizeof(float);
            assert_memory_equal(raw, all + (size_t)first * row_bytes, (size_t)tokens[i] * row_bytes);
            free(raw);
            gpu_free(&part.x_gpu);
            gpu_free(&part.x_scales_gpu[0]);
            gpu_free(&part.x_scales_gpu[1]);
        }
        free(all);
    }
    data_free(&d);
}

/* Codes and scales of NaN, and scales far from 1: what one token has is its own. */
static void a_token_of_nan_harms_no_other(void **state)
{
    (void)state;
    static const int tokens[] = {8, 64, 100, 300};
    uint64_t seed = 3;
    need_hopper();
    for (size_t i = 0; i < LF_N_ELEMS(tokens); i++) {
        struct fp8_case c = {.n_tokens = tokens[i], .n_in = 384, .n_out = 136, .alpha = 1.0f, .y_float = true};
        struct fp8_data d;
        data_make(&d, &c, &seed);
        char *before = run_raw(&d, LF_FP8_BLOCKS, -1);
        size_t row_bytes = (size_t)d.y_stride * sizeof(float);
        const float huge = 1e38f, nan_scale = NAN;
        lf_upload(gpu, d.x_gpu.ptr + (size_t)c.n_in + 5, "\x7f", 1);                             /* token 1 */
        lf_upload(gpu, d.x_scales_gpu[0].ptr + 3 * sizeof(float), &nan_scale, sizeof nan_scale); /* token 3 */
        lf_upload(gpu, d.x_scales_gpu[0].ptr + 4 * sizeof(float), &huge, sizeof huge);           /* token 4 */
        char *raw = run_raw(&d, LF_FP8_BLOCKS, -1);
        for (int t = 0; t < c.n_tokens; t++) {
            const float *row = (const float *)(const void *)(raw + (size_t)t * row_bytes);
            if (t == 1 || t == 3)
                for (int n = 0; n < c.n_out; n++) assert_true(isnan(row[n]));
            else if (t != 4)
                assert_memory_equal(row, before + (size_t)t * row_bytes, row_bytes);
        }
        free(raw);
        free(before);
        data_free(&d);
    }
}

/* ---- early launches ---- */

static float largest_of(const float *x, int n)
{
    float most = 0.0f;
    for (int i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i])); /* NaN does not count */
    return most;
}

enum { CHAIN_DIM = 2048, CHAIN_LENGTH = 40, CHAIN_TOKENS = 64 };

struct chain {
    struct gpu_tensor w[2], scales, x, codes, x_scales;
    int n_tokens;
    enum lf_fp8_scales by;
};

/* x is quantized, multiplied, and the product written over it. */
static void queue_link(const struct chain *c, int i, struct lf_cuda_launch how)
{
    struct lf_x_codes to = {(uint8_t *)c->codes.ptr, (float *)(void *)c->x_scales.ptr, CHAIN_TOKENS, c->by};
    struct lf_quant_params quant = {
        .to = to, .x = c->x.ptr, .n_tokens = c->n_tokens, .n_in = CHAIN_DIM, .x_stride = CHAIN_DIM};
    struct lf_fp8_gemm_params gemm = {.y = c->x.ptr,
                                      .by = c->by,
                                      .x = to.codes,
                                      .x_scales = to.scales,
                                      .x_scale_stride = to.scale_stride,
                                      .w = (const uint8_t *)c->w[i % 2].ptr,
                                      .w_scales = (const float *)(const void *)c->scales.ptr,
                                      .alpha = 1.0f / 2824.0f, /* x keeps its size: √CHAIN_DIM · 60 · a scale */
                                      .n_tokens = c->n_tokens,
                                      .n_in = CHAIN_DIM,
                                      .n_out = CHAIN_DIM,
                                      .y_stride = CHAIN_DIM};
    assert_int_equal(lf_cuda_quant_rows(&quant, how), 0);
    assert_int_equal(lf_cuda_gemm_fp8(&gemm, gpu->info.n_sms, -1, how), 0);
}

static char *run_chain(struct chain *c, float *x, bool overlaps)
{
    struct lf_cuda_launch how = lf_cuda_launch(gpu);
    how.overlaps = overlaps;
    c->x = gpu_tensor(gpu_act, x, (size_t)c->n_tokens * CHAIN_DIM);
    for (int i = 0; i < CHAIN_LENGTH; i++) queue_link(c, i, how);
    char *raw = gpu_read_raw(&c->x);
    gpu_free(&c->x);
    return raw;
}

/* A GEMM begins while the one before the last kernel still runs; what it multiplies is what this makes. */
static void a_chain_is_the_same_with_early_launches(void **state)
{
    (void)state;
    static const int tokens[] = {1, 16, 32, CHAIN_TOKENS};
    const size_t n = (size_t)CHAIN_DIM * CHAIN_DIM;
    uint64_t seed = 5;
    struct chain c = {0};
    need_hopper();
    assert_int_equal(lf_cuda_quant_rows_setup(), 0);
    for (int i = 0; i < 2; i++) {
        uint8_t *w = random_codes(&seed, n);
        c.w[i] = upload_bytes(w, n);
        free(w);
    }
    float *scales = random_scales(&seed, CHAIN_DIM), *x = fixture_floats(&seed, CHAIN_TOKENS * CHAIN_DIM, 1.0f);
    c.scales = upload_bytes(scales, CHAIN_DIM * sizeof *scales);
    c.codes = gpu_poisoned(LF_F32, CHAIN_TOKENS * CHAIN_DIM / 4);
    c.x_scales = gpu_poisoned(LF_F32, CHAIN_TOKENS * (CHAIN_DIM / LF_FP8_BLOCK));
    for (size_t i = 0; i < LF_N_ELEMS(tokens) * LF_N_ELEMS(kinds); i++) {
        c.n_tokens = tokens[i / LF_N_ELEMS(kinds)];
        c.by = kinds[i % LF_N_ELEMS(kinds)];
        size_t n_y = (size_t)c.n_tokens * CHAIN_DIM;
        char *alone = run_chain(&c, x, false), *early = run_chain(&c, x, true);
        float *y = fixture_alloc(n_y * sizeof *y);
        lf_to_f32(y, alone, gpu_act, n_y);
        for (size_t k = 0; k < n_y; k++) assert_true(isfinite(y[k]));
        assert_true(largest_of(y, (int)n_y) > 0.01f);
        assert_memory_equal(early, alone, n_y * 2);
        free(y);
        free(alone);
        free(early);
    }
    free(scales);
    free(x);
    struct gpu_tensor *const all[] = {&c.w[0], &c.w[1], &c.scales, &c.codes, &c.x_scales};
    for (size_t i = 0; i < LF_N_ELEMS(all); i++) gpu_free(all[i]);
}

/* ---- quantizing ---- */

static bool same_code(uint8_t a, uint8_t b)
{
    return a == b || ((a & 0x7f) == 0x7f && (b & 0x7f) == 0x7f);
}

/* One group of a row against plain C. */
static void check_group(const float *x, int n, float scale, const uint8_t *codes)
{
    float expected = fmaxf(largest_of(x, n) / 448.0f, 0x1p-126f), inverse = 1.0f / expected;
    if (memcmp(&scale, &expected, sizeof scale) != 0)
        fail_msg("%s: scale %g, expected %g", gpu_case, (double)scale, (double)expected);
    for (int i = 0; i < n; i++)
        if (!same_code(codes[i], lf_e4m3_from_f32(x[i] * inverse)))
            fail_msg("%s: %g over %g is %d, expected %d", gpu_case, (double)x[i], (double)scale, codes[i],
                     lf_e4m3_from_f32(x[i] * inverse));
}

/* Rows of any magnitude, with zeros, NaN and infinities here and there. */
static float *wild_rows(uint64_t *seed, int n_rows, int stride)
{
    float *x = fixture_floats(seed, (size_t)n_rows * (size_t)stride, 1.0f);
    for (int r = 0; r < n_rows; r++) {
        float by = ldexpf(1.0f, fixture_between(seed, -130, 100));
        int wild = fixture_between(seed, 0, 9), at = r * stride + fixture_between(seed, 0, stride - 1);
        for (int i = 0; i < stride; i++) x[r * stride + i] *= wild == 0 ? 0.0f : wild < 4 ? by : 1.0f;
        if (wild == 8) x[at] = NAN;
        if (wild == 9) x[at] = INFINITY;
    }
    return x;
}

static void quantize(enum lf_fp8_scales by, int n_tokens, int n_in, int gap, uint64_t *seed)
{
    int x_stride = n_in + gap, stride = (n_tokens + 3) / 4 * 4, blocks = n_blocks(n_in);
    size_t n_scales = by == LF_FP8_ROWS ? (size_t)n_tokens : (size_t)blocks * (size_t)stride;
    (void)snprintf(gpu_case, sizeof gpu_case, "quantizing %d x %d by %d", n_tokens, n_in, (int)by);
    float *values = wild_rows(seed, n_tokens, x_stride);
    struct gpu_tensor x = gpu_tensor(gpu_act, values, (size_t)n_tokens * (size_t)x_stride);
    struct gpu_tensor scales = gpu_poisoned(LF_F32, n_scales);
    struct gpu_tensor codes = gpu_poisoned(LF_F32, (size_t)n_tokens * (size_t)n_in / 4);
    struct lf_quant_params p = {
        .to = {.codes = (uint8_t *)codes.ptr, .scales = (float *)(void *)scales.ptr, .scale_stride = stride, .by = by},
        .x = x.ptr,
        .n_tokens = n_tokens,
        .n_in = n_in,
        .x_stride = x_stride};
    assert_true(lf_cuda_quant_rows_supports(&p));
    assert_int_equal(lf_cuda_quant_rows(&p, lf_cuda_launch(gpu)), 0);
    uint8_t *c = (uint8_t *)gpu_read_raw(&codes);
    float *s = (float *)(void *)gpu_read_raw(&scales);
    for (int t = 0; t < n_tokens; t++) {
        const float *row = values + (size_t)t * (size_t)x_stride;
        const uint8_t *row_codes = c + (size_t)t * (size_t)n_in;
        if (by == LF_FP8_ROWS) check_group(row, n_in, s[t], row_codes);
        for (int b = 0; by == LF_FP8_BLOCKS && b < blocks; b++)
            check_group(row + b * LF_FP8_BLOCK, LF_MIN((int)LF_FP8_BLOCK, n_in - b * LF_FP8_BLOCK),
                        s[(size_t)b * (size_t)stride + (size_t)t], row_codes + b * LF_FP8_BLOCK);
    }
    free(c);
    free(s);
    free(values);
    gpu_free(&x);
    gpu_free(&scales);
    gpu_free(&codes);
}

static void quantizing_is_that_of_plain_c(void **state)
{
    (void)state;
    static const int shapes[][3] = {{1, 8, 0}, {1, 4096, 0}, {15, 136, 8}, {16, 512, 0}, {17, 640, 16}, {130, 1416, 0}};
    uint64_t seed = 4;
    assert_int_equal(lf_cuda_quant_rows_setup(), 0);
    for (size_t i = 0; i < LF_N_ELEMS(shapes); i++)
        for (size_t by = 0; by < LF_N_ELEMS(kinds); by++)
            quantize(kinds[by], shapes[i][0], shapes[i][1], shapes[i][2], &seed);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantizing_is_that_of_plain_c),
        cmocka_unit_test(gemms_are_right_and_the_same_from_every_kernel),
        cmocka_unit_test(a_token_has_the_same_bits_in_any_number_of_tokens),
        cmocka_unit_test(a_token_of_nan_harms_no_other),
        cmocka_unit_test(a_chain_is_the_same_with_early_launches),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return gpu_run(tests);
}
