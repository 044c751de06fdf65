/* PTX instructions of sm_80 and later on matrices of a warp: one per function, named after it.
 *
 * Fragments (t = lane). mma_m16n8k16: thread t has rows t / 4 and t / 4 + 8 of A and D; of D columns 2 (t mod 4) + {0,
 * 1}, as d[0], d[1] and d[2], d[3]; of A the same columns, and those + 8, two in a word: row t / 4 in a[0] and a[2],
 * row t / 4 + 8 in a[1] and a[3]. B: column t / 4, depth 2 (t mod 4) + {0, 1} in b0, + 8 in b1. */
#ifndef LF_DEVICE_CUDA_PTX_MMA_CUH
#define LF_DEVICE_CUDA_PTX_MMA_CUH

#include "device/cuda/elem.cuh"
#include "device/cuda/ptx.cuh"

/* Four 8×8 matrices of 16-bit elements; lane l gives the address of row l mod 8 of matrix l / 8. */

LF_GPU_FN void ldmatrix_x4(uint32_t (&r)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

LF_GPU_FN void ldmatrix_x4_trans(uint32_t (&r)[4], uint32_t address)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

/* The other way; sm_90. */
LF_GPU_FN void stmatrix_x4(uint32_t address, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0), "r"(r1),
                 "r"(r2), "r"(r3)
                 : "memory");
#endif
}

/* d += a · b, elements bf16 or fp16, sums float. */
template <class T> LF_GPU_FN void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

template <> LF_GPU_MEMBER void mma_m16n8k16<bf16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <> LF_GPU_MEMBER void mma_m16n8k16<fp16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* a · b + c of two elements in a word, rounded once; subnormal ones are numbers too. */
template <class T> LF_GPU_FN uint32_t fma_rn_x2(uint32_t a, uint32_t b, uint32_t c);

template <> LF_GPU_MEMBER uint32_t fma_rn_x2<bf16>(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

template <> LF_GPU_MEMBER uint32_t fma_rn_x2<fp16>(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

#endif
