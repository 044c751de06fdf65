/* What the lanes of a warp do together, and a sum over a thread block: in an order that depends on the block's size
 * only. A quad is four neighbouring lanes: those that share an accumulator row (ptx_mma.cuh). */
#ifndef LF_DEVICE_CUDA_WARP_CUH
#define LF_DEVICE_CUDA_WARP_CUH

#include "device/cuda/ptx.cuh"

enum { WARP = 32, MAX_WARPS = 32 };
#define ALL_LANES 0xffffffffu

/* A value that is the same in all threads of the warp, told so to the compiler. */
LF_GPU_FN int uniform(int x)
{
    return __shfl_sync(ALL_LANES, x, 0);
}

/* op over each N neighbouring lanes, the same on all of them: lanes meet in pairs N / 2 apart, these in fours …; an op
 * of two does not depend on their order. */
template <int N, class V, class Op> LF_GPU_FN V lanes_reduce(V x, Op op)
{
#pragma unroll
    for (int step = N / 2; step > 0; step /= 2) x = op(x, __shfl_xor_sync(ALL_LANES, x, step));
    return x;
}

LF_GPU_FN float warp_sum(float x)
{
    return lanes_reduce<WARP>(x, [](float a, float b) { return a + b; });
}

/* op over the lanes up to this one. */
template <class V, class Op> LF_GPU_FN V warp_scan(V x, Op op)
{
#pragma unroll
    for (int step = 1; step < WARP; step *= 2) {
        V before = __shfl_up_sync(ALL_LANES, x, step);
        if (threadIdx.x % WARP >= (unsigned)step) x = op(x, before);
    }
    return x;
}

/* Over a quad, the nearest lanes first: the order of a row's sum, everywhere in attention. */

LF_GPU_FN float quad_sum(float x)
{
    x += __shfl_xor_sync(ALL_LANES, x, 1);
    return x + __shfl_xor_sync(ALL_LANES, x, 2);
}

LF_GPU_FN float quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 1));
    return fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 2));
}

LF_GPU_FN bool quad_any(int x)
{
    x |= __shfl_xor_sync(ALL_LANES, x, 1);
    return x | __shfl_xor_sync(ALL_LANES, x, 2);
}

/* In a quad, of which this is lane i: lane i's x[j] and lane j's x[i] change places. */
LF_GPU_FN void quad_transpose(float (&x)[4], int i)
{
    auto swap = [&](int a, int b, int step) {
        bool is_upper = i & step;
        float got = __shfl_xor_sync(ALL_LANES, is_upper ? x[a] : x[b], step);
        x[a] = is_upper ? got : x[a];
        x[b] = is_upper ? x[b] : got;
    };
    swap(0, 1, 1);
    swap(2, 3, 1);
    swap(0, 2, 2);
    swap(1, 3, 2);
}

/* The same on all threads; blockDim.x is a multiple of 32. Warps are added in ascending order. May be called again
 * only behind another __syncthreads(). */
LF_GPU_FN float block_sum(float x)
{
    __shared__ float sums[MAX_WARPS];
    x = warp_sum(x);
    if (threadIdx.x % WARP == 0) sums[threadIdx.x / WARP] = x;
    __syncthreads();
    float sum = 0.0f;
    for (unsigned w = 0; w < blockDim.x / WARP; w++) sum += sums[w];
    return sum;
}

#endif
