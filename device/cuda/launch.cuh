/* Launching a kernel, overlapped with the end of its predecessor where the GPU can (programmatic dependent launch).
 *
 * A kernel launched by queue_kernel says at its start that its successor may come (start_successor) and then, before it
 * touches anything another kernel writes or reads, waits for its predecessors to be complete (wait_predecessor). Every
 * thread does, whatever it does later, so "my predecessor is complete" includes all kernels before it. Between the two
 * it may read what no kernel before it in the step writes: weights; a step's lists, which copies bring; what earlier
 * steps have left. For a step begins with copies, and these wait for all that was queued before. */
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

/* In clusters of n_blocks neighbouring blocks (more than one needs sm_90), with so much dynamic shared memory. */
template <class... Params, class... Args>
static int queue_any(void (*kernel)(Params...), dim3 grid, unsigned threads, unsigned n_blocks, size_t shared_bytes,
                     lf_cuda_launch how, Args... args)
{
    cudaLaunchAttribute attributes[2] = {};
    unsigned n = 0;
    if (how.overlaps) {
        attributes[n].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[n++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (n_blocks > 1) {
        attributes[n].id = cudaLaunchAttributeClusterDimension;
        attributes[n].val.clusterDim.x = n_blocks;
        attributes[n].val.clusterDim.y = 1;
        attributes[n++].val.clusterDim.z = 1;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = (cudaStream_t)how.stream;
    config.attrs = attributes;
    config.numAttrs = n;
    return (int)cudaLaunchKernelEx(&config, kernel, args...);
}

template <class... Params, class... Args>
static int queue_kernel(void (*kernel)(Params...), dim3 grid, unsigned threads, lf_cuda_launch how, Args... args)
{
    return queue_any(kernel, grid, threads, 1, 0, how, args...);
}

template <class... Params, class... Args>
static int queue_shared(void (*kernel)(Params...), dim3 grid, unsigned threads, size_t shared_bytes, lf_cuda_launch how,
                        Args... args)
{
    return queue_any(kernel, grid, threads, 1, shared_bytes, how, args...);
}

/* Loads a kernel's code now instead of at its first launch. All kernels ask for the same division of L1, as much shared
 * memory as there is: a multiprocessor changes it only when it is empty, so kernels that differ cannot overlap. */
template <class... Params> static int load_kernel(void (*kernel)(Params...))
{
    cudaFuncAttributes attributes;
    int rc = (int)cudaFuncGetAttributes(&attributes, kernel);
    if (rc != 0) return rc;
    return (int)cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                     cudaSharedmemCarveoutMaxShared);
}

#endif
