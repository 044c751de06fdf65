/* PTX instructions of GEMV that CUDA C++ has no words for: one per function, named after it. sm_80. */
#ifndef LF_DEVICE_CUDA_PTX_GEMV_CUH
#define LF_DEVICE_CUDA_PTX_GEMV_CUH

#include <stdint.h>

#include "device/cuda/elem.cuh"

/* 16 bytes on their way to shared memory, past L1. */
__device__ inline void cp_async_cg(void *shared, const void *global)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(shared)),
                 "l"(global)
                 : "memory");
}

/* The same, or zeros where they are not wanted: then nothing is read. */
__device__ inline void cp_async_cg_if(bool wanted, void *shared, const void *global)
{
    asm volatile(
        "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(shared)),
        "l"(global), "r"(wanted ? 16 : 0)
        : "memory");
}

__device__ inline void cp_async_commit_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most N of this thread's groups are under way. */
template <int N> __device__ inline void cp_async_wait_group()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* d += a · b: a is 16 x 16, b 16 x 8, d 16 x 8 floats. */
template <class T>
__device__ inline void mma_m16n8k16(float d[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                    uint32_t b1);

template <>
__device__ inline void mma_m16n8k16<bf16>(float d[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                          uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

template <>
__device__ inline void mma_m16n8k16<fp16>(float d[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                          uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

#endif
