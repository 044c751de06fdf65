/* How kernels are written here, and launched.
 *
 *  1. Parameters are structs, by value: what the host passes as it is, and beside it what the launcher adds. No lists
 *     of pointers and numbers; a single number may stand alone. `const __grid_constant__` where functions take them by
 *     reference, else `const`.
 *  2. Types are bf16 and fp16 (elem.cuh), a template parameter T; the launcher chooses by `how.fp16`. Names of structs
 *     have no `struct` before them, and lf_ only where C sees them.
 *  3. Device functions are LF_GPU_FN, members LF_GPU_MEMBER. PTX stands in the ptx_ files alone (ptx.cuh lists them),
 *     what the lanes of a warp do together in warp.cuh.
 *  4. Every thread says start_successor(), then wait_predecessor() (below); GEMMs of experts have their own order
 *     (expert_gemv.cu), and a norm that writes codes reads its row before its successor starts (norm.cu).
 *  5. `_setup` has each kernel loaded with the most dynamic shared memory it will ask for: load_kernel, load_kernels.
 *  6. A launcher checks for an empty list, makes the grid, and returns queue_kernel(…): a cudaError_t, which its caller
 *     hands to lf_cuda_check. In attention/ `fp16` and `overlaps` are members of the arguments (launch_of).
 *
 * A kernel launched by queue_kernel may overlap the end of its predecessor where the GPU can (programmatic dependent
 * launch). It says at its start that its successor may come (start_successor) and then, before it touches anything
 * another kernel writes or reads, waits for its predecessors to be complete (wait_predecessor). Every thread does,
 * whatever it does later, so "my predecessor is complete" includes all kernels before it. Between the two it may read
 * what no kernel before it in the step writes: weights; a step's lists, which copies bring; what earlier steps have
 * left. For a step begins with copies, and these wait for all that was queued before. */
#ifndef LF_DEVICE_CUDA_LAUNCH_CUH
#define LF_DEVICE_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

#include "device/cuda/kernels.h"
#include "device/cuda/ptx.cuh"

LF_GPU_FN void start_successor()
{
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

LF_GPU_FN void wait_predecessor()
{
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

/* ---- host ---- */

struct launch_shape {
    dim3 grid;
    unsigned threads;
    size_t shared_bytes = 0;       /* dynamic */
    unsigned blocks_a_cluster = 1; /* neighbouring ones; more than one needs sm_90 */
};

enum { MOST_GRID_Y = 65535 };

/* Blocks for n things of which a block takes so many. */
static inline unsigned blocks_for(int64_t n, int a_block)
{
    return (unsigned)((n + a_block - 1) / a_block);
}

/* How a kernel is launched whose arguments say it. */
template <class Args> static lf_cuda_launch launch_of(const Args *args, void *stream)
{
    return {stream, args->fp16, args->overlaps};
}

template <class... Params, class... Args>
static int queue_kernel(void (*kernel)(Params...), const launch_shape &shape, lf_cuda_launch how, const Args &...args)
{
    cudaLaunchAttribute attributes[2] = {};
    unsigned n = 0;
    if (how.overlaps) {
        attributes[n].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[n++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (shape.blocks_a_cluster > 1) {
        attributes[n].id = cudaLaunchAttributeClusterDimension;
        attributes[n].val.clusterDim.x = shape.blocks_a_cluster;
        attributes[n].val.clusterDim.y = 1;
        attributes[n++].val.clusterDim.z = 1;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = shape.grid;
    config.blockDim = dim3(shape.threads);
    config.dynamicSmemBytes = shape.shared_bytes;
    config.stream = (cudaStream_t)how.stream;
    config.attrs = attributes;
    config.numAttrs = n;
    return (int)cudaLaunchKernelEx(&config, kernel, args...);
}

/* Loads a kernel's code now instead of at its first launch, and lets a block have so much dynamic shared memory. All
 * kernels ask for the same division of L1, as much shared memory as there is: a multiprocessor changes it only when it
 * is empty, so kernels that differ cannot overlap. */
template <class... Params> static int load_kernel(void (*kernel)(Params...), size_t shared_bytes = 0)
{
    cudaFuncAttributes attributes;
    int rc = (int)cudaFuncGetAttributes(&attributes, kernel);
    if (rc == 0)
        rc = (int)cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                       cudaSharedmemCarveoutMaxShared);
    if (rc != 0 || shared_bytes == 0) return rc;
    return (int)cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
}

/* Several, without dynamic shared memory; the first error. */
template <class... Kernels> static int load_kernels(Kernels... kernels)
{
    int rc = 0;
    ((rc = rc == 0 ? load_kernel(kernels) : rc), ...);
    return rc;
}

/* Shared memory of the current device. */
struct shared_limits {
    int block_bytes, sm_bytes; /* of a block at most, of a multiprocessor */
};

static inline int get_shared_limits(shared_limits *out)
{
    int device = 0, rc = (int)cudaGetDevice(&device);
    if (rc == 0) rc = (int)cudaDeviceGetAttribute(&out->block_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (rc == 0) rc = (int)cudaDeviceGetAttribute(&out->sm_bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
    return rc;
}

#endif
