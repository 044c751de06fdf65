/* PTX instructions that CUDA C++ has no words for: a function each, named after the instruction, and nobody else writes
 * `asm`. Here those of a thread, sm_80 and later; the others by what they do:
 *
 *     ptx_copy.cuh     cp.async: global to shared memory; ptx_copy_barrier.cuh: sm_90 sm_80
 *     ptx_mma.cuh      ldmatrix, mma.sync: matrices of a warp                  sm_80
 *     ptx_cluster.cuh  clusters of thread blocks, the grid before and behind   sm_90, and what stands for it before
 *     ptx_tma.cuh      mbarrier, cp.async.bulk.tensor: the copy engine         sm_90
 *     ptx_wgmma.cuh    wgmma: matrices of a warpgroup; ptx_wgmma_fp8.cuh: e4m3 sm_90a
 *
 * Shared memory addresses are 32-bit (`shared_address`). */
#ifndef LF_DEVICE_CUDA_PTX_CUH
#define LF_DEVICE_CUDA_PTX_CUH

#include <stdint.h>

#define LF_GPU_FN      static __device__ __forceinline__
#define LF_GPU_MEMBER  __device__ __forceinline__                 /* of a struct, or a specialization */
#define LF_GPU_HOST_FN static __host__ __device__ __forceinline__ /* both sides call it */

LF_GPU_FN uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* The lane of this thread, read once: threadIdx.x is read anew, in tens of cycles, wherever registers are short. */
LF_GPU_FN int laneid()
{
    int lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

/* Named barriers among n_threads threads. */

LF_GPU_FN void bar_sync(int id, int n_threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

LF_GPU_FN void bar_arrive(int id, int n_threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

/* A 16-byte store to shared memory. */
LF_GPU_FN void st_shared_v4(uint32_t address, uint4 x)
{
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
                 : "memory");
}

/* Loads of 16 bytes, of a word, half and byte from shared memory. */

LF_GPU_FN uint4 ld_shared_v4(uint32_t address)
{
    uint4 x;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "r"(address)
                 : "memory");
    return x;
}

LF_GPU_FN uint32_t ld_shared_u32(uint32_t address)
{
    uint32_t x;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
    return x;
}

LF_GPU_FN uint32_t ld_shared_u16(uint32_t address)
{
    uint16_t x;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(x) : "r"(address) : "memory");
    return x;
}

LF_GPU_FN uint32_t ld_shared_u8(uint32_t address)
{
    uint32_t x;
    asm volatile("ld.shared.u8 %0, [%1];" : "=r"(x) : "r"(address) : "memory");
    return x;
}

/* (a & b) | c, in one instruction where the compiler would take two for two constants. */
LF_GPU_FN uint32_t lop3_and_or(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

/* 2^x, within 2 ulp; 2^-inf is 0. */
LF_GPU_FN float ex2_approx_ftz(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 1 / x, within 1 ulp; 1 / inf is 0. */
LF_GPU_FN float rcp_approx_ftz(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* No instruction, but what the compiler may not look through. */

/* A value whose origin is hidden: it is computed here, not wherever it is used. */
LF_GPU_FN uint32_t kept(uint32_t x)
{
    asm volatile("" : "+r"(x));
    return x;
}

/* An accumulator that is not used, or moved, before this place: behind a wait. */
LF_GPU_FN void hold(float &x)
{
    asm volatile("" : "+f"(x)::"memory");
}

#endif
