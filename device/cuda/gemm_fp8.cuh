/* What the FP8 GEMMs of many and of few tokens share (gemm_fp8_sm90.h): arguments, the ring's cursor, the arithmetic on
 * sums, which is the same in both so that bits are. */
#ifndef LF_DEVICE_CUDA_GEMM_FP8_CUH
#define LF_DEVICE_CUDA_GEMM_FP8_CUH

#include "device/cuda/elem.cuh"
#include "device/cuda/gemm_fp8_sm90.h"
#include "device/cuda/launch.cuh"
#include "device/cuda/ptx_tma.cuh"
#include "device/cuda/ptx_wgmma_fp8.cuh"
#include "device/cuda/tensor_map.cuh"
#include "device/cuda/warp.cuh"

enum {
    FP8_STEP = LF_FP8_BLOCK, /* of the depth: a row of 128 bytes */
    FP8_WARPGROUP = 128,     /* threads */
    FP8_CONSUMERS = 2,       /* warpgroups */
    FP8_THREADS = (1 + FP8_CONSUMERS) * FP8_WARPGROUP,
    FP8_MMA_ROWS = 64,
};

struct fp8_args {
    lf_fp8_gemm_params p;
    int n_steps;
    int column_tiles;    /* along w */
    int row_units;       /* many tokens: tiles along them, a cluster's together */
    int w_rows, n_slots; /* few tokens: of a tile; of the ring */
    bool fp16;           /* few tokens: y, unless it is float */
};

/* Where a role is in a ring of n slots. */
struct fp8_cursor {
    int slot, parity;

    LF_GPU_MEMBER void advance(int n)
    {
        if (++slot < n) return;
        slot = 0;
        parity ^= 1;
    }
};

/* The first multiple of 1,024 in shared memory from here on. */
LF_GPU_FN char *fp8_aligned(char *raw)
{
    return raw + (1024 - shared_address(raw) % 1024) % 1024;
}

/* sum + a step's sum, by both of its scales where there are blocks. */
template <lf_fp8_scales BY> LF_GPU_FN float fp8_promote(float sum, float step, float scale)
{
    return BY == LF_FP8_BLOCKS ? fmaf(step, scale, sum) : sum + step;
}

/* A complete sum as y has it, but for the residual. Scales of rows; else 1, 1. */
template <lf_fp8_scales BY> LF_GPU_FN float fp8_output(float sum, float x_scale, float w_scale, float bias, float alpha)
{
    float value = BY == LF_FP8_BLOCKS ? sum : sum * x_scale * w_scale;
    return alpha * (value + bias);
}

/* ---- host ---- */

static inline int fp8_blocks_for(int n, int a_block)
{
    return (n + a_block - 1) / a_block;
}

/* Of few tokens; gemm_fp8_few_sm90.cu. */
int lf_cuda_gemm_fp8_few_setup(tensor_map_encoder encode);
int lf_cuda_gemm_fp8_few(const struct lf_fp8_gemm_params *p, int n_blocks, struct lf_cuda_launch how);

#endif
