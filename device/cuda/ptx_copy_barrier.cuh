/* PTX instructions of sm_90 that count copies without registers (ptx_copy.cuh) at the barriers of ptx_tma.cuh: one per
 * function, named after it. */
#ifndef LF_DEVICE_CUDA_PTX_COPY_BARRIER_CUH
#define LF_DEVICE_CUDA_PTX_COPY_BARRIER_CUH

#include "device/cuda/ptx.cuh"

/* Arrives when this thread's cp.async copies so far are complete; `bar` was made to expect the arrival. */
LF_GPU_FN void cp_async_mbarrier_arrive_noinc(uint32_t bar)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}

#endif
