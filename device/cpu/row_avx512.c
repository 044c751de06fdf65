/* Row kernels with AVX-512. Masks make a row's tail the same instructions as its body. */
#include "device/cpu/row_kernels.h"

#include <immintrin.h>
#include <math.h>
#include <stddef.h>

#include "device/cpu/unroll.h"

enum { LANES = 16 };

/* Lanes of the vector at i that lie inside n. */
LF_KERNEL __mmask16 lanes_at(int i, int n)
{
    return (__mmask16)(n - i >= LANES ? 0xffffu : (1u << (n - i)) - 1);
}

static void rmsnorm(float *out, const float *x, const float *weight, float eps, int dim)
{
    __m512 sum[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
    int i = 0;
    for (; i + 4 * LANES <= dim; i += 4 * LANES) {
        LF_UNROLL
        for (int j = 0; j < 4; j++) {
            __m512 v = _mm512_loadu_ps(x + i + j * LANES);
            sum[j] = _mm512_fmadd_ps(v, v, sum[j]);
        }
    }
    for (; i < dim; i += LANES) {
        __m512 v = _mm512_maskz_loadu_ps(lanes_at(i, dim), x + i);
        sum[0] = _mm512_fmadd_ps(v, v, sum[0]);
    }
    __m512 total = _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3]));
    __m512 scale = _mm512_set1_ps(1.0f / sqrtf(_mm512_reduce_add_ps(total) / (float)dim + eps));
    for (i = 0; i < dim; i += LANES) {
        __mmask16 m = lanes_at(i, dim);
        __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(m, x + i), scale);
        _mm512_mask_storeu_ps(out + i, m, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(m, weight + i)));
    }
}

/* As in row_avx2.c; SCALEF multiplies by 2^n and makes infinities itself. */
LF_KERNEL __m512 exp_lanes(__m512 x)
{
    x = _mm512_min_ps(_mm512_set1_ps(89.0f), x);
    x = _mm512_max_ps(_mm512_set1_ps(-104.0f), x);
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693145752f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(1.42860677e-6f), r);
    __m512 p = _mm512_set1_ps(1.0f / 720);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
}

static void silu_mul(float *out, const float *gate, const float *up, int dim)
{
    for (int i = 0; i < dim; i += LANES) {
        __mmask16 m = lanes_at(i, dim);
        __m512 g = _mm512_maskz_loadu_ps(m, gate + i);
        __m512 e = exp_lanes(_mm512_sub_ps(_mm512_setzero_ps(), g));
        __m512 s = _mm512_div_ps(g, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
        _mm512_mask_storeu_ps(out + i, m, _mm512_mul_ps(s, _mm512_maskz_loadu_ps(m, up + i)));
    }
}

static void finish(float *y, const float *acc, const float *bias, const float *residual, int n)
{
    for (int i = 0; i < n; i += LANES) {
        __mmask16 m = lanes_at(i, n);
        __m512 v = _mm512_maskz_loadu_ps(m, acc + i);
        if (bias != NULL) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(m, bias + i));
        if (residual != NULL) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(m, residual + i));
        _mm512_mask_storeu_ps(y + i, m, v);
    }
}

void lf_rows_use_avx512(struct lf_row_kernels *rows)
{
    rows->rmsnorm = rmsnorm;
    rows->silu_mul = silu_mul;
    rows->finish = finish;
}
