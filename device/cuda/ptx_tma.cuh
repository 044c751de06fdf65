/* PTX instructions of the copy engine (TMA, sm_90) and of the barriers at which it counts bytes: one per function,
 * named after it. Barriers are mbarrier objects in shared memory; a parity names the phase waited for: phase 0, 2, 4 …
 * have parity 0, and waiting for parity 1 on a fresh barrier returns at once. */
#ifndef LF_DEVICE_CUDA_PTX_TMA_CUH
#define LF_DEVICE_CUDA_PTX_TMA_CUH

#include <cuda.h>

#include "device/cuda/ptx.cuh"

/* Barriers between the copy engine and warps. */

LF_GPU_FN void mbarrier_init(uint32_t bar, int n_arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(n_arrivals) : "memory");
}

/* Makes fresh barriers visible to the copy engine. */
LF_GPU_FN void fence_mbarrier_init()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

LF_GPU_FN void mbarrier_arrive(uint32_t bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

LF_GPU_FN void mbarrier_arrive_expect_tx(uint32_t bar, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

/* At the barrier that lies at `bar` in block `rank` of the cluster, this one's own included. It says that what was read
 * may be overwritten; what this block wrote is not published by it. */
LF_GPU_FN void mbarrier_arrive_cluster(uint32_t bar, unsigned rank)
{
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
                 "}\n" ::"r"(bar),
                 "r"(rank)
                 : "memory");
}

/* Waits until the phase of this parity has completed. */
LF_GPU_FN void mbarrier_try_wait_parity(uint32_t bar, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again_%=:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again_%=;\n"
                 "}\n" ::"r"(bar),
                 "r"(parity)
                 : "memory");
}

/* Orders this thread's ordinary accesses to shared memory before later ones of wgmma and of the copy engine. */
LF_GPU_FN void fence_proxy_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* A bulk copy of n_bytes, a multiple of 16 as both addresses are; the bytes are counted at `bar`. */
LF_GPU_FN void cp_async_bulk(uint32_t dst, const void *src, int n_bytes, uint32_t bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(dst),
                 "l"(src), "r"(n_bytes), "r"(bar)
                 : "memory");
}

/* Bulk tensor copies (TMA) of a map's box at coordinates c0 (fastest) …; the bytes are counted at `bar`. */

LF_GPU_FN void cp_async_bulk_tensor_2d(uint32_t dst, const CUtensorMap *map, uint32_t bar, int c0, int c1)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
                 "[%2];" ::"r"(dst),
                 "l"(map), "r"(bar), "r"(c0), "r"(c1)
                 : "memory");
}

/* To the same place in each block of the cluster that `blocks` has a bit of, and counted at each one's own barrier. */
LF_GPU_FN void cp_async_bulk_tensor_2d_multicast(uint32_t dst, const CUtensorMap *map, uint32_t bar, uint16_t blocks,
                                                 int c0, int c1)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
                 "[%1, {%4, %5}], [%2], %3;" ::"r"(dst),
                 "l"(map), "r"(bar), "h"(blocks), "r"(c0), "r"(c1)
                 : "memory");
}

LF_GPU_FN void cp_async_bulk_tensor_3d(uint32_t dst, const CUtensorMap *map, uint32_t bar, int c0, int c1, int c2)
{
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
        "[%2];" ::"r"(dst),
        "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2)
        : "memory");
}

LF_GPU_FN void cp_async_bulk_tensor_4d(uint32_t dst, const CUtensorMap *map, uint32_t bar, int c0, int c1, int c2,
                                       int c3)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
                 "%6}], [%2];" ::"r"(dst),
                 "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}

/* From shared memory to a map's box; what of it lies outside of the tensor is not written. A thread's stores since the
 * last commit are a group. Ordinary stores that it reads need fence_proxy_async. */
LF_GPU_FN void cp_async_bulk_tensor_2d_store(const CUtensorMap *map, uint32_t src, int c0, int c1)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(src),
                 "r"(c0), "r"(c1)
                 : "memory");
}

LF_GPU_FN void cp_async_bulk_commit_group()
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Waits until at most N of this thread's groups have not read what they store; and until they are complete. */

template <int N> LF_GPU_FN void cp_async_bulk_wait_group_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

template <int N> LF_GPU_FN void cp_async_bulk_wait_group()
{
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

#endif
