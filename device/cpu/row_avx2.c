/* Row kernels with AVX2, FMA and F16C. A row's tail goes through the same instructions as its body, on a copy filled up
 * with zeros, so a value does not depend on where in a vector it stood. */
#include "device/cpu/row_kernels.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "device/cpu/gemm.h"
#include "device/cpu/unroll.h"

enum { LANES = 8 };

static __m256 load_tail(const float *x, int n)
{
    float lanes[LANES] = {0};
    memcpy(lanes, x, (size_t)n * sizeof(float));
    return _mm256_loadu_ps(lanes);
}

static void store_tail(float *out, __m256 v, int n)
{
    float lanes[LANES];
    _mm256_storeu_ps(lanes, v);
    memcpy(out, lanes, (size_t)n * sizeof(float));
}

LF_KERNEL float sum_lanes(__m256 v)
{
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

static void rmsnorm(float *out, const float *x, const float *weight, float eps, int dim)
{
    __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    int i = 0;
    for (; i + 4 * LANES <= dim; i += 4 * LANES) {
        LF_UNROLL
        for (int j = 0; j < 4; j++) {
            __m256 v = _mm256_loadu_ps(x + i + j * LANES);
            sum[j] = _mm256_fmadd_ps(v, v, sum[j]);
        }
    }
    for (; i < dim; i += LANES) {
        __m256 v = i + LANES <= dim ? _mm256_loadu_ps(x + i) : load_tail(x + i, dim - i);
        sum[0] = _mm256_fmadd_ps(v, v, sum[0]);
    }
    float total = sum_lanes(_mm256_add_ps(_mm256_add_ps(sum[0], sum[1]), _mm256_add_ps(sum[2], sum[3])));
    float scale = 1.0f / sqrtf(total / (float)dim + eps);
    __m256 scales = _mm256_set1_ps(scale);
    for (i = 0; i + LANES <= dim; i += LANES) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), scales);
        _mm256_storeu_ps(out + i, _mm256_mul_ps(v, _mm256_loadu_ps(weight + i)));
    }
    for (; i < dim; i++) out[i] = x[i] * scale * weight[i];
}

LF_KERNEL __m256 power_of_2(__m256i n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

/* e^x = 2^n · e^r with n = round(x / ln 2) and |r| <= ln 2 / 2; e^r by its series up to r⁶ / 6!, whose remainder is
 * under 1.3e-7 of the value. x is clamped to where the result is a normal number or infinity; NaN stays NaN (the
 * clamping instructions return their second operand for it). */
LF_KERNEL __m256 exp_lanes(__m256 x)
{
    x = _mm256_min_ps(_mm256_set1_ps(88.8f), x);
    x = _mm256_max_ps(_mm256_set1_ps(-87.3f), x);
    __m256 n =
        _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    /* ln 2 in two parts: the first has few bits, so that n times it is exact */
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693145752f), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(1.42860677e-6f), r);
    __m256 p = _mm256_set1_ps(1.0f / 720);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 120));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 24));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 6));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    /* 2¹²⁸ is past the exponents of float while 2¹²⁸ · e^r may not be: the power in two halves */
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    return _mm256_mul_ps(_mm256_mul_ps(p, power_of_2(half)), power_of_2(_mm256_sub_epi32(whole, half)));
}

LF_KERNEL __m256 silu_lanes(__m256 gate, __m256 up)
{
    __m256 e = exp_lanes(_mm256_xor_ps(gate, _mm256_set1_ps(-0.0f)));
    return _mm256_mul_ps(_mm256_div_ps(gate, _mm256_add_ps(_mm256_set1_ps(1.0f), e)), up);
}

static void silu_mul(float *out, const float *gate, const float *up, int dim)
{
    int i = 0;
    for (; i + LANES <= dim; i += LANES)
        _mm256_storeu_ps(out + i, silu_lanes(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
    if (i < dim) store_tail(out + i, silu_lanes(load_tail(gate + i, dim - i), load_tail(up + i, dim - i)), dim - i);
}

/* f16 is widened eight at a time; the others are a copy or a shift and gain nothing. */
static void panel_col(float *out, const void *col, enum lf_dtype dtype, int n_in)
{
    if (dtype != LF_F16) {
        lf_rows_c.panel_col(out, col, dtype, n_in);
        return;
    }
    const uint16_t *w = col;
    for (int k = 0; k < n_in; k += LANES) {
        uint16_t halves[LANES] = {0};
        int n = n_in - k < LANES ? n_in - k : LANES;
        for (int i = 0; i < n; i++) halves[i] = w[(size_t)(k + i) * LF_PANEL_COLS];
        __m256 v = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)halves));
        if (n == LANES)
            _mm256_storeu_ps(out + k, v);
        else
            store_tail(out + k, v, n);
    }
}

static void finish(float *y, const float *acc, const float *bias, const float *residual, int n)
{
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        __m256 v = _mm256_loadu_ps(acc + i);
        if (bias != NULL) v = _mm256_add_ps(v, _mm256_loadu_ps(bias + i));
        if (residual != NULL) v = _mm256_add_ps(v, _mm256_loadu_ps(residual + i));
        _mm256_storeu_ps(y + i, v);
    }
    if (i < n)
        lf_rows_c.finish(y + i, acc + i, bias == NULL ? NULL : bias + i, residual == NULL ? NULL : residual + i, n - i);
}

void lf_rows_use_avx2(struct lf_row_kernels *rows)
{
    rows->rmsnorm = rmsnorm;
    rows->silu_mul = silu_mul;
    rows->panel_col = panel_col;
    rows->finish = finish;
}
