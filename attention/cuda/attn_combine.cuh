/* Arithmetic of partial rows, common to every CUDA kernel that makes, combines or finishes them: which task computed a
 * split must not show in a row's bits, so the combine is written down once. See attn_cuda.h for what a partial row is.
 *
 * m need not be the maximum exactly: any offset at which nothing overflows serves, and the kernels keep one while a
 * row's P stays within bounds: decode rescales only when the maximum has grown by more than LF_ATTN_LAZY over it. */
#ifndef LF_ATTENTION_CUDA_ATTN_COMBINE_CUH
#define LF_ATTENTION_CUDA_ATTN_COMBINE_CUH

#include "attention/cuda/attn_cuda.h"
#include "device/cuda/ptx.cuh"

#define LF_ATTN_LOG2E 1.4426950408889634f
#define LF_ATTN_LN2   0.6931471805599453f
#define LF_ATTN_LAZY  8.0f

/* How partial rows a and b combine: o = fma(b.o, scale_b, a.o · scale_a), and m, l. */
struct combine_factors {
    float m, l, scale_a, scale_b;
};

LF_GPU_FN combine_factors attn_combine(float a_m, float a_l, float b_m, float b_l)
{
    if (b_l == 0.0f) return {a_m, a_l, 1.0f, 0.0f};
    if (a_l == 0.0f) return {b_m, b_l, 0.0f, 1.0f};
    float m = fmaxf(a_m, b_m);
    float scale_a = ex2_approx_ftz(a_m - m), scale_b = ex2_approx_ftz(b_m - m);
    return {m, __fmaf_rn(b_l, scale_b, __fmul_rn(a_l, scale_a)), scale_a, scale_b};
}

LF_GPU_FN float attn_combine_o(combine_factors j, float a_o, float b_o)
{
    return __fmaf_rn(b_o, j.scale_b, __fmul_rn(a_o, j.scale_a));
}

/* Where a row of [n_tokens · n_heads] goes: in out and lse, or, where MAY_HAVE_OWNERS, in its owner's. */
template <class T> struct row_place {
    T *out;
    float *lse; /* NULL: not asked for */
};

template <class T, bool MAY_HAVE_OWNERS> LF_GPU_FN row_place<T> place_of_row(const lf_attn_cuda_args &p, int64_t row)
{
    T *out = (T *)p.out;
    float *lse = p.lse;
    if (MAY_HAVE_OWNERS && p.owners.n > 0) {
        int r = 0;
        while (r + 1 < p.owners.n && row >= p.owners.first[r + 1]) r++;
        out = (T *)p.owners.out[r];
        lse = p.owners.lse[r];
        row -= p.owners.first[r];
    }
    return {out + row * p.head_dim, lse ? lse + row : nullptr};
}

/* What a row's o is multiplied by in the end, and the natural logarithm of the denominator, to which `sink` adds
 * e^*sink. A row without keys has factor 0, and lse -inf or the sink. */
struct finish_factors {
    float factor, lse;
};

LF_GPU_FN finish_factors attn_finish(float m, float l, const float *sink)
{
    if (l == 0.0f) return {0.0f, sink ? *sink : -INFINITY};
    combine_factors j = {m, l, 1.0f, 0.0f};
    if (sink) j = attn_combine(m, l, __fmul_rn(*sink, LF_ATTN_LOG2E), 1.0f);
    return {__fdiv_rn(j.scale_a, j.l), __fmul_rn(j.m + log2f(j.l), LF_ATTN_LN2)};
}

#endif
