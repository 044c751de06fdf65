/* What the Hopper prefill kernel does with the query rows of a finished split: combine them with the task's splits so
 * far, and write a task's rows, or its partial rows, to memory. */
#ifndef LF_ATTENTION_CUDA_ATTN_PREFILL_ROWS_CUH
#define LF_ATTENTION_CUDA_ATTN_PREFILL_ROWS_CUH

#include "attention/cuda/attn_cuda.h"
#include "attention/cuda/attn_combine.cuh"
#include "device/cuda/elem.cuh"
#include "device/cuda/warp.cuh"

enum { CONSUMER_THREADS = 256 };

/* e of x = 2^e · [1, 2); x is positive and no subnormal. */
LF_GPU_FN float exponent_of(float x)
{
    return (float)((int)(__float_as_uint(x) >> 23) - 127);
}

/* Where a thread's two rows go. */
struct row_target {
    int row[2];   /* of [n_tokens · n_heads] rows, or of the partial rows; -1: not a row of the task */
    bool partial; /* rows are partial rows */
    bool begun;   /* earlier splits are in the scratch */
    bool ends;    /* this is the task's last split */
};

/* A thread's part of the combined result so far: it alone writes and reads it, in words of 16 bytes that lie beside its
 * neighbours'. */
template <int D> struct split_scratch {
    static constexpr int WORDS = D / 8 + 1;
    float4 *base;

    LF_GPU_MEMBER static split_scratch of(float *scratch, int consumer_thread)
    {
        return {(float4 *)(scratch + LF_ATTN_SCRATCH_HEAD / sizeof(float)) +
                (size_t)blockIdx.x * WORDS * CONSUMER_THREADS + consumer_thread};
    }
    LF_GPU_MEMBER float4 &word(int i) const
    {
        return base[i * CONSUMER_THREADS];
    }
};

template <int D>
LF_GPU_FN void scratch_store(const split_scratch<D> &scratch, const float (&o)[D / 2], const float (&m)[2],
                             const float (&l)[2])
{
    scratch.word(0) = make_float4(m[0], m[1], l[0], l[1]);
#pragma unroll
    for (int i = 0; i < D / 8; i++)
        scratch.word(i + 1) = make_float4(o[4 * i], o[4 * i + 1], o[4 * i + 2], o[4 * i + 3]);
}

/* What scratch_store() stored: o into the first of `to`, and m and l. */
template <int D, int N> LF_GPU_FN void scratch_load(const split_scratch<D> &scratch, float (&to)[N], float4 &ml)
{
    ml = scratch.word(0);
#pragma unroll
    for (int i = 0; i < D / 8 && 4 * i < N; i++) {
        float4 a = scratch.word(i + 1);
        to[4 * i] = a.x;
        to[4 * i + 1] = a.y;
        to[4 * i + 2] = a.z;
        to[4 * i + 3] = a.w;
    }
}

/* Combines the split in o, m, l with those before it, whose o `before` is. */
template <int D, class Before>
LF_GPU_FN void combine_before(const Before &before, float4 ml, float (&o)[D / 2], float (&m)[2], float (&l)[2])
{
    combine_factors j0 = attn_combine(ml.x, ml.z, m[0], l[0]), j1 = attn_combine(ml.y, ml.w, m[1], l[1]);
    m[0] = j0.m;
    m[1] = j1.m;
    l[0] = j0.l;
    l[1] = j1.l;
#pragma unroll
    for (int i = 0; i < D / 8; i++) {
        float4 a = before(i);
        o[4 * i] = attn_combine_o(j0, a.x, o[4 * i]);
        o[4 * i + 1] = attn_combine_o(j0, a.y, o[4 * i + 1]);
        o[4 * i + 2] = attn_combine_o(j1, a.z, o[4 * i + 2]);
        o[4 * i + 3] = attn_combine_o(j1, a.w, o[4 * i + 3]);
    }
}

/* Word `mine` of each of the four lanes that share a row, in the lanes' order: lane t of the four has w[0 .. 3] of
 * columns 2t, 2t + 1 of four groups of eight columns, and gets all eight columns of group t. */
LF_GPU_FN uint4 transpose_quad(uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3)
{
    bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
    uint32_t a = __shfl_xor_sync(ALL_LANES, odd ? w0 : w1, 1), b = __shfl_xor_sync(ALL_LANES, odd ? w2 : w3, 1);
    uint32_t x0 = odd ? a : w0, x1 = odd ? w1 : a; /* group 0 or 1: lower lane's word, upper lane's */
    uint32_t y0 = odd ? b : w2, y1 = odd ? w3 : b; /* group 2 or 3 */
    uint32_t c = __shfl_xor_sync(ALL_LANES, high ? x0 : y0, 2), d = __shfl_xor_sync(ALL_LANES, high ? x1 : y1, 2);
    return high ? make_uint4(c, d, y0, y1) : make_uint4(x0, x1, c, d);
}

/* Writes row half `half` of o times `factor` as elements. */
template <class T, int D> LF_GPU_FN void store_row(T *row, const float (&o)[D / 2], int half, float factor)
{
    int t = threadIdx.x % 4;
    uint32_t w[D / 8];
#pragma unroll
    for (int j = 0; j < D / 8; j++) w[j] = pack<T>(o[4 * j + 2 * half] * factor, o[4 * j + 2 * half + 1] * factor);
#pragma unroll
    for (int j = 0; j + 4 <= D / 8; j += 4) {
        uint4 word = transpose_quad(w[j], w[j + 1], w[j + 2], w[j + 3]);
        if (row) *(uint4 *)(row + (j + t) * 8) = word;
    }
#pragma unroll
    for (int j = D / 32 * 4; j < D / 8; j++)
        if (row) *(uint32_t *)(row + j * 8 + t * 2) = w[j];
}

template <int D>
LF_GPU_FN void store_partial(const lf_attn_cuda_args &args, int row, const float (&o)[D / 2], int half, float m,
                             float l)
{
    if (row < 0) return;
    int t = threadIdx.x % 4;
    float *out = args.partial_o + (size_t)row * D + t * 2;
#pragma unroll
    for (int j = 0; j < D / 8; j++)
        *(float2 *)(out + j * 8) = make_float2(o[4 * j + 2 * half], o[4 * j + 2 * half + 1]);
    if (t == 0) *(float2 *)(args.partial_ml + (size_t)row * 2) = make_float2(m, l);
}

template <class T, int D, bool STRIPED>
LF_GPU_FN void store_result(const lf_attn_cuda_args &args, int row, const float (&o)[D / 2], int half, float m, float l)
{
    const float *sink = args.sinks && row >= 0 ? args.sinks + row % args.n_heads : nullptr;
    finish_factors f = attn_finish(m, l, sink);
    if constexpr (STRIPED) {
        row_place<T> to = {nullptr, nullptr};
        if (row >= 0) to = place_of_row<T, true>(args, row);
        store_row<T, D>(to.out, o, half, f.factor);
        if (to.lse && threadIdx.x % 4 == 0) *to.lse = f.lse;
    } else {
        store_row<T, D>(row < 0 ? nullptr : (T *)args.out + (size_t)row * D, o, half, f.factor);
        if (args.lse && row >= 0 && threadIdx.x % 4 == 0) args.lse[row] = f.lse;
    }
}

/* Moves m to where l is in [1, 2), by a power of two: of offsets that are far from the maximum no combine makes sense.
 */
template <int D> LF_GPU_FN void normalize_rows(float (&o)[D / 2], float (&m)[2], float (&l)[2])
{
    float scale[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float e = l[h] > 0.0f ? exponent_of(l[h]) : 0.0f;
        m[h] += e;
        scale[h] = ex2_approx_ftz(-e);
        l[h] *= scale[h];
    }
#pragma unroll
    for (int i = 0; i < D / 2; i++) o[i] *= scale[i / 2 % 2];
}

/* Ends a split: o, m and l are combined with those of the splits before. */
template <class T, int D, bool STRIPED>
LF_GPU_FN void end_split(const lf_attn_cuda_args &args, const split_scratch<D> &scratch, const row_target &to,
                         float (&o)[D / 2], float (&m)[2], float (&l)[2])
{
    if (!to.ends) {
        scratch_store<D>(scratch, o, m, l);
        return;
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (to.partial)
            store_partial<D>(args, to.row[h], o, h, m[h], l[h]);
        else
            store_result<T, D, STRIPED>(args, to.row[h], o, h, m[h], l[h]);
    }
}

#endif
