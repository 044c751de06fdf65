/* Coded GEMM with AVX2 and FMA. The bits are those of gemm_quant_cpu.c.
 *
 * VPMADDUBSW multiplies u8 by s8 and adds neighbours in 16 bits, where 255 · 127 · 2 does not fit. So
 *
 *     I8      |w| · (x with w's sign): 128 · 127 · 2 < 2^15; neighbours are added to 32 bits at once
 *     I4      15 · 127 · 2 = 3,810: eight of them fit, 32 k, before they are added to 32 bits
 *     E2M1    24 · 127 · 2 = 6,096: four fit
 *
 * Up to two rows read packed nibbles as they are; for more, a group's codes are unpacked once to bytes in the order of
 * I8, 8 KiB at most. Strips of columns as in gemm_vec.h: 1 row 64, 2 rows 32, 3 and 4 rows 16 columns. */
#include <immintrin.h>
#include <string.h>

#include "device/cpu/gemm_quant.h"
#include "device/cpu/unroll.h"

enum {
    ROWS = 4, /* of one pass over a group */
    DIRECT_ROWS = 2,
    VEC_COLS = 8,
    STRIP_VECS_MAX = 8,
    LINE = 64
};

/* How a group's codes lie where a strip reads them. */
enum codes { BYTES, NIBBLES, FP4 };

/* A packed group, ready for strips. */
struct group {
    const char *codes;
    const float *scales;
    const uint8_t *zeros; /* or NULL: zero */
    int zero;
    int n; /* k */
};

LF_KERNEL __m256i load(const void *p)
{
    return _mm256_load_si256(p);
}

LF_KERNEL __m256i four_x(const int8_t *x)
{
    int four;
    memcpy(&four, x, sizeof four);
    return _mm256_set1_epi32(four);
}

/* u8 numbers of eight codes a cell: k 0 to 3, and k 4 to 7. */
LF_KERNEL __m256i low_codes(enum codes form, const char *at)
{
    if (form == BYTES) return load(at);
    __m256i u = _mm256_and_si256(load(at), _mm256_set1_epi8(15));
    const __m256i e2m1 =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    return form == FP4 ? _mm256_shuffle_epi8(e2m1, u) : u;
}

LF_KERNEL __m256i high_codes(enum codes form, const char *at)
{
    if (form == BYTES) return load(at + LF_QUANT_QUAD_BYTES);
    __m256i u = _mm256_and_si256(_mm256_srli_epi16(load(at), 4), _mm256_set1_epi8(15));
    const __m256i e2m1 =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    return form == FP4 ? _mm256_shuffle_epi8(e2m1, u) : u;
}

/* ---- sums of products ---- */

/* sums[r][v] = Σ x · w, w signed. */
LF_KERNEL void dot_i8(const struct group *g, int n_rows, int n_vecs, const char *codes, const int8_t *x,
                      size_t x_stride, __m256i sums[ROWS][STRIP_VECS_MAX])
{
    const __m256i ones = _mm256_set1_epi16(1), flip = _mm256_set1_epi8((char)LF_I8_ZERO);
    for (int k = 0; k < g->n; k += 4, codes += LF_QUANT_QUAD_BYTES) {
        LF_UNROLL
        for (int v = 0; v < n_vecs; v++) {
            __m256i w = _mm256_xor_si256(load(codes + v * 32), flip), magnitude = _mm256_abs_epi8(w);
            LF_UNROLL
            for (int r = 0; r < n_rows; r++) {
                __m256i xs = _mm256_sign_epi8(four_x(x + (size_t)r * x_stride + k), w);
                __m256i pairs = _mm256_maddubs_epi16(magnitude, xs);
                sums[r][v] = _mm256_add_epi32(sums[r][v], _mm256_madd_epi16(pairs, ones));
            }
        }
    }
}

/* Eight k: pairs[r][v] += x · u in 16 bits. */
LF_KERNEL void dot_8(enum codes form, int n_rows, int n_vecs, const char *codes, const int8_t *x, size_t x_stride,
                     __m256i pairs[ROWS][STRIP_VECS_MAX])
{
    LF_UNROLL
    for (int v = 0; v < n_vecs; v++) {
        __m256i low = low_codes(form, codes + v * 32), high = high_codes(form, codes + v * 32);
        LF_UNROLL
        for (int r = 0; r < n_rows; r++) {
            const int8_t *at = x + (size_t)r * x_stride;
            pairs[r][v] = _mm256_add_epi16(pairs[r][v], _mm256_maddubs_epi16(low, four_x(at)));
            pairs[r][v] = _mm256_add_epi16(pairs[r][v], _mm256_maddubs_epi16(high, four_x(at + 4)));
        }
    }
}

/* sums[r][v] = Σ x · u, u at most 24; fits: how many k fit 16 bits. */
LF_KERNEL void dot_u4(const struct group *g, enum codes form, int fits, int n_rows, int n_vecs, const char *codes,
                      const int8_t *x, size_t x_stride, __m256i sums[ROWS][STRIP_VECS_MAX])
{
    size_t step = form == BYTES ? 2 * LF_QUANT_QUAD_BYTES : LF_QUANT_QUAD_BYTES;
    for (int k = 0; k < g->n; k += fits) {
        __m256i pairs[ROWS][STRIP_VECS_MAX];
        LF_UNROLL
        for (int r = 0; r < n_rows; r++) {
            LF_UNROLL
            for (int v = 0; v < n_vecs; v++) pairs[r][v] = _mm256_setzero_si256();
        }
        for (int i = 0; i < fits; i += 8, codes += step) dot_8(form, n_rows, n_vecs, codes, x + k + i, x_stride, pairs);
        LF_UNROLL
        for (int r = 0; r < n_rows; r++) {
            LF_UNROLL
            for (int v = 0; v < n_vecs; v++)
                sums[r][v] = _mm256_add_epi32(sums[r][v], _mm256_madd_epi16(pairs[r][v], _mm256_set1_epi16(1)));
        }
    }
}

/* ---- a group into the accumulators ---- */

/* acc = fma(s - zero · sum of x, x_scale · w_scale, acc) of one row's eight columns from col on. */
LF_KERNEL void add_to(const struct group *g, int col, __m256i s, const struct lf_x_group *x, float *acc)
{
    __m256i zero =
        g->zeros ? _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(g->zeros + col))) : _mm256_set1_epi32(g->zero);
    s = _mm256_sub_epi32(s, _mm256_mullo_epi32(zero, _mm256_set1_epi32(x->sum)));
    __m256 scale = _mm256_mul_ps(_mm256_set1_ps(x->scale), _mm256_load_ps(g->scales + col));
    _mm256_store_ps(acc + col, _mm256_fmadd_ps(_mm256_cvtepi32_ps(s), scale, _mm256_load_ps(acc + col)));
}

/* Rows of one pass: codes int8, groups and accumulators, and how far rows are from each other. */
struct rows {
    const int8_t *x;
    const struct lf_x_group *groups;
    float *acc;
    size_t x_stride, groups_stride;
};

LF_KERNEL void run_strip(const struct group *g, enum lf_code code, enum codes form, int n_rows, int n_vecs, int col,
                         const struct rows *rows)
{
    __m256i sums[ROWS][STRIP_VECS_MAX];
    LF_UNROLL
    for (int r = 0; r < n_rows; r++) {
        LF_UNROLL
        for (int v = 0; v < n_vecs; v++) sums[r][v] = _mm256_setzero_si256();
    }
    const char *codes = g->codes + col * 4;
    if (code == LF_CODE_I8)
        dot_i8(g, n_rows, n_vecs, codes, rows->x, rows->x_stride, sums);
    else
        dot_u4(g, form, code == LF_CODE_I4 ? 32 : 16, n_rows, n_vecs, codes, rows->x, rows->x_stride, sums);
    LF_UNROLL
    for (int r = 0; r < n_rows; r++) {
        LF_UNROLL
        for (int v = 0; v < n_vecs; v++)
            add_to(g, col + v * VEC_COLS, sums[r][v], rows->groups + (size_t)r * rows->groups_stride,
                   rows->acc + (size_t)r * LF_PANEL_COLS);
    }
}

LF_KERNEL void run_rows(const struct group *g, enum lf_code code, enum codes form, int n_rows, const struct rows *rows)
{
    const int n_vecs = n_rows == 1 ? 8 : n_rows == 2 ? 4 : 2;
    for (int col = 0; col < LF_PANEL_COLS; col += n_vecs * VEC_COLS)
        run_strip(g, code, form, n_rows, n_vecs, col, rows);
}

/* ---- groups ---- */

struct unpacked {
    _Alignas(64) char codes[LF_QUANT_GROUP_MAX * LF_PANEL_COLS];
    float scales[LF_PANEL_COLS];
};

LF_KERNEL void unpack_codes(enum codes form, struct group *g, struct unpacked *to)
{
    const char *from = g->codes;
    for (char *at = to->codes; at < to->codes + g->n * LF_PANEL_COLS; from += LF_QUANT_QUAD_BYTES) {
        for (int i = 0; i < LF_QUANT_QUAD_BYTES; i += 32, at += 32) {
            _mm256_store_si256((__m256i *)(void *)at, low_codes(form, from + i));
            _mm256_store_si256((__m256i *)(void *)(at + LF_QUANT_QUAD_BYTES), high_codes(form, from + i));
        }
        at += LF_QUANT_QUAD_BYTES;
    }
    g->codes = to->codes;
}

/* 2^(e - 127), whose smallest is a denormal. */
LF_KERNEL void widen_exponents(const uint8_t *e, float *scales)
{
    for (int c = 0; c < LF_PANEL_COLS; c += VEC_COLS) {
        __m256i bits = _mm256_slli_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(e + c))), 23);
        bits = _mm256_max_epi32(bits, _mm256_set1_epi32(0x400000));
        _mm256_store_si256((__m256i *)(void *)(scales + c), bits);
    }
}

LF_KERNEL struct group open_group(const struct lf_quant_order *o, enum lf_code code, const char *at,
                                  struct unpacked *to)
{
    struct group g = {.codes = at + o->codes_at,
                      .scales = (const float *)(const void *)at,
                      .zeros = o->zeros ? (const uint8_t *)at + o->zeros_at : NULL,
                      .zero = code == LF_CODE_I8 ? 0 : lf_quant_zero(code),
                      .n = o->group};
    if (code == LF_CODE_E2M1) {
        widen_exponents((const uint8_t *)at, to->scales);
        g.scales = to->scales;
    }
    return g;
}

LF_KERNEL void run_pass(const struct group *g, enum lf_code code, enum codes form, int n_rows, const struct rows *rows)
{
    switch (n_rows) {
    case 1:
        run_rows(g, code, form, 1, rows);
        break;
    case 2:
        run_rows(g, code, form, 2, rows);
        break;
    case 3:
        if (form == BYTES) run_rows(g, code, BYTES, 3, rows);
        break;
    default:
        if (form == BYTES) run_rows(g, code, BYTES, 4, rows);
        break;
    }
}

LF_KERNEL void run_group(const struct lf_gemm_tile *t, const struct group *g, enum lf_code code, enum codes form,
                         int at)
{
    int n_passes = (t->n_rows + ROWS - 1) / ROWS;
    for (int i = 0, row = 0; i < n_passes; i++) {
        struct rows rows = {.x = (const int8_t *)t->x + (size_t)row * t->x_stride + (size_t)(at * g->n),
                            .groups = t->x_groups + (size_t)row * t->x_groups_stride + at,
                            .acc = t->acc + (size_t)row * LF_PANEL_COLS,
                            .x_stride = t->x_stride,
                            .groups_stride = t->x_groups_stride};
        int n = (t->n_rows - row + n_passes - i - 1) / (n_passes - i);
        run_pass(g, code, form, n, &rows);
        row += n;
    }
}

LF_KERNEL void run_tile(const struct lf_gemm_tile *t, enum lf_code code)
{
    const enum codes packed = code == LF_CODE_I8 ? BYTES : code == LF_CODE_I4 ? NIBBLES : FP4;
    struct unpacked to;
    if (!t->load) memset(t->acc, 0, (size_t)t->n_rows * LF_PANEL_COLS * sizeof(float));
    for (int i = 0; i < t->n_k / t->order->group; i++) {
        struct group g = open_group(t->order, code, (const char *)t->panel + (size_t)i * t->order->group_bytes, &to);
        if (code == LF_CODE_I8) {
            run_group(t, &g, code, BYTES, i);
        } else if (t->n_rows <= DIRECT_ROWS) {
            run_group(t, &g, code, packed, i);
        } else {
            unpack_codes(packed, &g, &to);
            run_group(t, &g, code, BYTES, i);
        }
    }
}

static void tile_i8(const struct lf_gemm_tile *t)
{
    run_tile(t, LF_CODE_I8);
}

static void tile_i4(const struct lf_gemm_tile *t)
{
    run_tile(t, LF_CODE_I4);
}

static void tile_e2m1(const struct lf_gemm_tile *t)
{
    run_tile(t, LF_CODE_E2M1);
}

static const struct lf_gemm_kernel i8 = {.tile = tile_i8, .max_rows = LF_GEMM_ROWS_MAX, .x = LF_X_INT8};
static const struct lf_gemm_kernel i4 = {.tile = tile_i4, .max_rows = LF_GEMM_ROWS_MAX, .x = LF_X_INT8};
static const struct lf_gemm_kernel e2m1 = {.tile = tile_e2m1, .max_rows = LF_GEMM_ROWS_MAX, .x = LF_X_INT8};

/* ---- activations ---- */

/* The bits of the largest magnitude of n floats, a multiple of 8. */
LF_KERNEL uint32_t largest(const float *x, int n)
{
    __m256i most = _mm256_setzero_si256();
    for (int i = 0; i < n; i += 8) {
        __m256i bits = _mm256_and_si256(_mm256_loadu_si256((const void *)(x + i)), _mm256_set1_epi32(0x7fffffff));
        most = _mm256_max_epi32(most, bits);
    }
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

LF_KERNEL __m256i nearest_8(const float *x, __m256 inverse)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inverse));
}

/* Codes of n floats, a multiple of 32; returns their sum. */
LF_KERNEL int32_t encode(int8_t *codes, const float *x, int n, float scale)
{
    __m256 inverse = _mm256_set1_ps(scale);
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < n; i += 32) {
        __m256i a = _mm256_packs_epi32(nearest_8(x + i, inverse), nearest_8(x + i + 8, inverse));
        __m256i b = _mm256_packs_epi32(nearest_8(x + i + 16, inverse), nearest_8(x + i + 24, inverse));
        __m256i c = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        _mm256_storeu_si256((void *)(codes + i), c);
        __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), c);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

static struct lf_x_group quantize_group(int8_t *codes, const float *x, int n, float unit)
{
    uint32_t bits = largest(x, n);
    float most;
    memcpy(&most, &bits, sizeof most);
    if (bits >= 0x7f800000u || most < LF_X_TINY) {
        memset(codes, 0, (size_t)n);
        return (struct lf_x_group){.scale = bits >= 0x7f800000u ? __builtin_nanf("") : 0};
    }
    struct lf_x_group g = {.scale = most / 127.0f * unit};
    g.sum = encode(codes, x, n, 127.0f / most);
    return g;
}

void lf_quant_x_avx2(int8_t *codes, struct lf_x_group *groups, const float *x, int n, int group, float unit)
{
    float last[LF_QUANT_GROUP_MAX] = {0};
    for (int k = 0; k < n; k += group) {
        const float *from = x + k;
        if (n - k < group) from = memcpy(last, from, (size_t)(n - k) * sizeof(float));
        *groups++ = quantize_group(codes + k, from, group, unit);
    }
}

void lf_quant_use_avx2(struct lf_quant_kernels *kernels)
{
    kernels->gemm[LF_CODE_I8] = &i8;
    kernels->gemm[LF_CODE_I4] = &i4;
    kernels->gemm[LF_CODE_E2M1] = &e2m1;
    kernels->quant_x = lf_quant_x_avx2;
}
