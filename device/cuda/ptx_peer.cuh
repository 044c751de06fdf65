/* PTX instructions for memory that other GPUs, or the host, read and write meanwhile: sm_80. */
#ifndef LF_DEVICE_CUDA_PTX_PEER_CUH
#define LF_DEVICE_CUDA_PTX_PEER_CUH

#include "device/cuda/ptx.cuh"

/* Each pair of words arrives as a whole. */
LF_GPU_FN void st_volatile_v4(uint4 *p, uint4 x)
{
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
                 : "memory");
}

LF_GPU_FN uint4 ld_volatile_v4(const uint4 *p)
{
    uint4 x;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
                 : "l"(p)
                 : "memory");
    return x;
}

/* What was written before it, by whoever this thread has met, is there for who acquires it. */
LF_GPU_FN void st_release_sys(uint32_t *p, uint32_t x)
{
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}

LF_GPU_FN uint32_t ld_acquire_sys(const uint32_t *p)
{
    uint32_t x;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
    return x;
}

LF_GPU_FN void st_relaxed_sys(uint32_t *p, uint32_t x)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}

LF_GPU_FN uint32_t ld_relaxed_sys(const uint32_t *p)
{
    uint32_t x;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
    return x;
}

/* Nanoseconds, the same clock for all of a GPU. */
LF_GPU_FN uint64_t globaltimer()
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

#endif
