/* PTX instructions of sm_80 and later that copy from global to shared memory without registers: one per function, named
 * after it. A thread's copies since the last commit are a group. */
#ifndef LF_DEVICE_CUDA_PTX_COPY_CUH
#define LF_DEVICE_CUDA_PTX_COPY_CUH

#include "device/cuda/ptx.cuh"

/* 16 bytes, past the first-level cache; n_bytes 0 writes zeros and reads nothing. */
LF_GPU_FN void cp_async_cg_16(uint32_t dst, const void *src, int n_bytes = 16)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(n_bytes)
                 : "memory");
}

/* The same of what is read once: it is the first to go where the second-level cache needs room. */
LF_GPU_FN void cp_async_cg_16_once(uint32_t dst, const void *src, int n_bytes)
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2, %3;" ::"r"(dst), "l"(src),
                 "r"(n_bytes), "l"(policy)
                 : "memory");
}

/* 4 bytes or 8, through the first-level cache: what is too small for the other. */
template <int BYTES> LF_GPU_FN void cp_async_ca(uint32_t dst, const void *src)
{
    static_assert(BYTES == 4 || BYTES == 8, "sizes of an element or two");
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(dst), "l"(src), "n"(BYTES) : "memory");
}

LF_GPU_FN void cp_async_commit_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most N of this thread's groups are unfinished. */
template <int N> LF_GPU_FN void cp_async_wait_group()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

#endif
