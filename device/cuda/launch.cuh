/* Launching a kernel, overlapped with the end of its predecessor where the GPU can (programmatic dependent launch).
 *
 * A kernel launched by queue_kernel says at its start that its successor may come (start_successor) and then, before it
 * touches anything another kernel writes or reads, waits for its predecessors to be complete (wait_predecessor). Every
 * thread does, whatever it does later, so "my predecessor is complete" includes all kernels before it. Between the two
 * it may read what no kernel ever writes: weights. */
#ifndef LF_DEVICE_CUDA_LAUNCH_CUH
#define LF_DEVICE_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

#include "device/cuda/kernels.h"

__device__ inline void start_successor()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ inline void wait_predecessor()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

template <class... Params, class... Args>
static int queue_kernel(void (*kernel)(Params...), dim3 grid, unsigned threads, lf_cuda_launch how, Args... args)
{
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.stream = (cudaStream_t)how.stream;
    config.attrs = &overlap;
    config.numAttrs = how.overlaps ? 1 : 0;
    return (int)cudaLaunchKernelEx(&config, kernel, args...);
}

/* Loads a kernel's code now instead of at its first launch. */
template <class... Params> static int load_kernel(void (*kernel)(Params...))
{
    cudaFuncAttributes attributes;
    return (int)cudaFuncGetAttributes(&attributes, kernel);
}

#endif
