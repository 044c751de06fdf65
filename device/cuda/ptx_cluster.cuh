/* Thread block clusters (sm_90): PTX instructions that CUDA C++ has no words for, one per function. Before sm_90 a
 * block is a cluster of its own. */
#ifndef LF_DEVICE_CUDA_PTX_CLUSTER_CUH
#define LF_DEVICE_CUDA_PTX_CLUSTER_CUH

#include "device/cuda/ptx.cuh"

LF_GPU_FN unsigned cluster_ctarank()
{
    unsigned rank = 0;
#if __CUDA_ARCH__ >= 900
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return rank;
}

LF_GPU_FN unsigned cluster_nctarank()
{
    unsigned n = 1;
#if __CUDA_ARCH__ >= 900
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
#endif
    return n;
}

/* All threads of all blocks; what they wrote before it is seen behind it. */
LF_GPU_FN void barrier_cluster()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
#else
    __syncthreads();
#endif
}

/* The address at which block rank has its own of a shared variable. */
template <class V> LF_GPU_FN V *mapa(V *shared, unsigned rank)
{
#if __CUDA_ARCH__ >= 900
    uint64_t mapped;
    asm("mapa.u64 %0, %1, %2;" : "=l"(mapped) : "l"(shared), "r"(rank));
    return (V *)mapped;
#else
    (void)rank;
    return shared;
#endif
}

#endif
