/* PTX instructions that CUDA C++ has no words for: one per function, named after it. sm_90a unless said otherwise.
 *
 * Shared memory addresses are 32-bit (`shared_address`). Barriers are mbarrier objects in shared memory; a parity names
 * the phase waited for: phase 0, 2, 4 … have parity 0, and waiting for parity 1 on a fresh barrier returns at once. */
#ifndef LF_DEVICE_CUDA_PTX_CUH
#define LF_DEVICE_CUDA_PTX_CUH

#include <cuda.h>
#include <stdint.h>

#define LF_GPU_FN     static __device__ __forceinline__
#define LF_GPU_MEMBER __device__ __forceinline__ /* of a struct */

LF_GPU_FN uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

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

/* Named barriers among n_threads threads. */

LF_GPU_FN void bar_sync(int id, int n_threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

LF_GPU_FN void bar_arrive(int id, int n_threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}

/* Orders this thread's ordinary accesses to shared memory before later ones of wgmma and of the copy engine. */
LF_GPU_FN void fence_proxy_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Bulk tensor copies (TMA) of a map's box at coordinates c0 (fastest) …; the bytes are counted at `bar`. */

LF_GPU_FN void cp_async_bulk_tensor_2d(uint32_t dst, const CUtensorMap *map, uint32_t bar, int c0, int c1)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], "
                 "[%2];" ::"r"(dst),
                 "l"(map), "r"(bar), "r"(c0), "r"(c1)
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

/* Registers a thread of this warpgroup may use, from here on. */

template <int N> LF_GPU_FN void setmaxnreg_inc()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> LF_GPU_FN void setmaxnreg_dec()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

/* Order of wgmma instructions (which themselves are in attention/cuda/attn_wgmma.cuh). */

LF_GPU_FN void wgmma_fence()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

LF_GPU_FN void wgmma_commit_group()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until at most N of this thread's groups are unfinished. */
template <int N> LF_GPU_FN void wgmma_wait_group()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* Arithmetic, sm_80 and later. */

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

/* Two rounded halves of a word: `lo` in bits 0 to 15. */

LF_GPU_FN uint32_t cvt_rn_bf16x2(float lo, float hi)
{
    uint32_t y;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(hi), "f"(lo));
    return y;
}

LF_GPU_FN uint32_t cvt_rn_f16x2(float lo, float hi)
{
    uint32_t y;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(hi), "f"(lo));
    return y;
}

#endif
