/* Sums over a warp and over a thread block, in an order that depends on the block's size only. */
#ifndef LF_DEVICE_CUDA_REDUCE_CUH
#define LF_DEVICE_CUDA_REDUCE_CUH

enum { WARP = 32, MAX_WARPS = 32 };

/* The same on all lanes: lanes are added in pairs, pairs in fours, and a sum of two does not depend on their order. */
__device__ inline float warp_sum(float x)
{
#pragma unroll
    for (int step = WARP / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

/* The same on all threads; blockDim.x is a multiple of 32. Warps are added in ascending order. May be called again
 * only behind another __syncthreads(). */
__device__ inline float block_sum(float x)
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
