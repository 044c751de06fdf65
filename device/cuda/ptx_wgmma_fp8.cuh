/* wgmma of e4m3 operands (sm_90a): 64 rows, N columns, 32 elements of depth, float accumulators. Beside ptx_wgmma.cuh,
 * whose words on accumulators, operand tiles, fences and groups hold here too; rows of 128 bytes are 128 elements, so
 * four instructions take a tile's depth. Both operands lie with the depth innermost: there are no transposed ones.
 *
 * An accumulator keeps some 14 bits while instructions add to it (the products are aligned to the largest of them and
 * cut), so its sums go to floats of one's own every so often (arXiv 2412.19437, 3.3.2). */
#ifndef LF_DEVICE_CUDA_PTX_WGMMA_FP8_CUH
#define LF_DEVICE_CUDA_PTX_WGMMA_FP8_CUH

#include "device/cuda/ptx_wgmma.cuh"

#define LF_ACC4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define LF_REGS4      "%0, %1, %2, %3"
#define LF_REGS8      LF_REGS4 ", %4, %5, %6, %7"
#define LF_REGS16     LF_REGS8 ", %8, %9, %10, %11, %12, %13, %14, %15"

/* d = A·Bᵀ or, with `add_to`, d += A·Bᵀ. */
#define LF_WGMMA_E4M3(n, regs, size, desc_a, desc_b, add, ...)                                                         \
    LF_GPU_FN void wgmma_e4m3(float(&d)[size], uint64_t a, uint64_t b, bool add_to)                                    \
    {                                                                                                                  \
        asm volatile("{\n"                                                                                             \
                     ".reg .pred add;\n"                                                                               \
                     "setp.ne.b32 add, %" add ", 0;\n"                                                                 \
                     "wgmma.mma_async.sync.aligned.m64n" n "k32.f32.e4m3.e4m3 {" regs "}, %" desc_a ", %" desc_b       \
                     ", add, 1, 1;\n"                                                                                  \
                     "}\n"                                                                                             \
                     : __VA_ARGS__                                                                                     \
                     : "l"(a), "l"(b), "r"((int)add_to));                                                              \
    }

LF_WGMMA_E4M3("8", LF_REGS4, 4, "4", "5", "6", LF_ACC4(d, 0))
LF_WGMMA_E4M3("16", LF_REGS8, 8, "8", "9", "10", LF_ACC8(d, 0))
LF_WGMMA_E4M3("32", LF_REGS16, 16, "16", "17", "18", LF_ACC16(d, 0))
LF_WGMMA_E4M3("64", LF_REGS32, 32, "32", "33", "34", LF_ACC32(d))
LF_WGMMA_E4M3("96", LF_REGS48, 48, "48", "49", "50", LF_ACC48(d))
LF_WGMMA_E4M3("128", LF_REGS64, 64, "64", "65", "66", LF_ACC64(d))

/* The same with A in registers: of rows t / 4 and + 8, bytes 4 · (t mod 4) and the next three in a[0] and a[1], those
 * 16 behind them in a[2] and a[3]; as ldmatrix_x4 loads 16 rows of 32 bytes. */
#define LF_WGMMA_E4M3_RS(n, regs, size, a0, a1, a2, a3, desc_b, add, ...)                                              \
    LF_GPU_FN void wgmma_e4m3(float(&d)[size], const uint32_t(&a)[4], uint64_t b, bool add_to)                         \
    {                                                                                                                  \
        asm volatile("{\n"                                                                                             \
                     ".reg .pred add;\n"                                                                               \
                     "setp.ne.b32 add, %" add ", 0;\n"                                                                 \
                     "wgmma.mma_async.sync.aligned.m64n" n "k32.f32.e4m3.e4m3 {" regs "}, {%" a0 ", %" a1 ", %" a2     \
                     ", %" a3 "}, %" desc_b ", add, 1, 1;\n"                                                           \
                     "}\n"                                                                                             \
                     : __VA_ARGS__                                                                                     \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add_to));                          \
    }

LF_WGMMA_E4M3_RS("64", LF_REGS32, 32, "32", "33", "34", "35", "36", "37", LF_ACC32(d))
LF_WGMMA_E4M3_RS("128", LF_REGS64, 64, "64", "65", "66", "67", "68", "69", LF_ACC64(d))

#endif
