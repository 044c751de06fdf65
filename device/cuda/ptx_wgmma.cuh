/* PTX instructions of Hopper's warpgroups (sm_90a): one per function, named after it. wgmma in the shapes that
 * attention and experts need: 64 rows, N columns, 16 elements of depth, bf16 or fp16 in, float accumulators.
 *
 * Accumulators. A warp holds 16 of the 64 rows; its thread t has d[4j + 2h + e] of row t / 4 + 8h, column 8j + 2 (t mod
 * 4) + e. Operand A in registers has the same order, packed two columns a word: a[2h' + h] of depth step i is the pair
 * of accumulator row half h and columns 16i + 8h' … So scores become operand A of PV by rounding.
 *
 * Operand tiles in shared memory are rows of 128 bytes in the 128-byte swizzle: the 16-byte unit u of row r lies at
 * unit u xor (r mod 8). Wider tiles are several such chunks of 64 columns, one behind the other; 1024-byte aligned.
 *
 * Several MMAs in flight at once share nothing but operands: wgmma_fence before the first, commit and wait after. N
 * follows from the accumulator's size, so a shape that is not here does not compile. */
#ifndef LF_DEVICE_CUDA_PTX_WGMMA_CUH
#define LF_DEVICE_CUDA_PTX_WGMMA_CUH

#include <type_traits>

#include "device/cuda/elem.cuh"
#include "device/cuda/ptx.cuh"

/* Registers a thread of this warpgroup may use, from here on. */

template <int N> LF_GPU_FN void setmaxnreg_inc()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> LF_GPU_FN void setmaxnreg_dec()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

/* Order of wgmma instructions. */

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

/* Descriptor of an operand: start, bytes between chunks (for one whose rows run along the depth), 8 rows of 128 bytes
 * between row groups, 128-byte swizzle. Its lower word alone tells operands apart and moves on with the address. */
LF_GPU_FN uint32_t wgmma_descriptor_low(uint32_t address, uint32_t chunk_bytes)
{
    return (address & 0x3ffff) >> 4 | chunk_bytes >> 4 << 16;
}

LF_GPU_FN uint64_t wgmma_descriptor(uint32_t low, int bytes_on)
{
    return (uint64_t)(1024 >> 4 | 1 << 30) << 32 | (low + (uint32_t)bytes_on / 16);
}

#define LF_ACC8(d, i)                                                                                                  \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]),        \
        "+f"(d[i + 7])
#define LF_ACC16(d, i) LF_ACC8(d, i), LF_ACC8(d, i + 8)
#define LF_ACC32(d)    LF_ACC16(d, 0), LF_ACC16(d, 16)
#define LF_ACC40(d)    LF_ACC32(d), LF_ACC8(d, 32)
#define LF_ACC48(d)    LF_ACC32(d), LF_ACC16(d, 32)
#define LF_ACC56(d)    LF_ACC48(d), LF_ACC8(d, 48)
#define LF_ACC64(d)    LF_ACC48(d), LF_ACC16(d, 48)
#define LF_ACC128(d)   LF_ACC64(d), LF_ACC16(d, 64), LF_ACC16(d, 80), LF_ACC16(d, 96), LF_ACC16(d, 112)

#define LF_REGS32                                                                                                      \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, "             \
    "%22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define LF_REGS40 LF_REGS32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define LF_REGS48 LF_REGS32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define LF_REGS56 LF_REGS48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define LF_REGS64 LF_REGS48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define LF_REGS128                                                                                                     \
    LF_REGS64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, " \
              "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, "     \
              "%103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, "       \
              "%119, %120, %121, %122, %123, %124, %125, %126, %127"

/* d = A·B or, with `add`, d += A·B. A in registers; B in shared memory, its rows along N (B_ROWS_N, as K in Q·Kᵀ) or
 * along the depth (as V in P·V). */
enum { B_ROWS_N, B_ROWS_DEPTH };

#define LF_WGMMA_RS_ASM(n, type, regs, a0, a1, a2, a3, b, add, trans, ...)                                             \
    asm volatile("{\n"                                                                                                 \
                 ".reg .pred add;\n"                                                                                   \
                 "setp.ne.b32 add, %" add ", 0;\n"                                                                     \
                 "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" regs "}, {%" a0 ", %" a1 ", %" a2 \
                 ", %" a3 "}, %" b ", add, 1, 1, %" trans ";\n"                                                        \
                 "}\n"                                                                                                 \
                 : __VA_ARGS__                                                                                         \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(desc_b), "r"((int)add_to), "n"(B_ROWS))

/* `size` accumulators, then the numbers of the operands behind them, then the accumulators. */
#define LF_WGMMA_RS(n, regs, size, a0, a1, a2, a3, b, add, trans, ...)                                                 \
    template <class T, int B_ROWS>                                                                                     \
    LF_GPU_FN void wgmma_rs(float(&d)[size], const uint32_t(&a)[4], uint64_t desc_b, bool add_to)                      \
    {                                                                                                                  \
        if constexpr (std::is_same<T, bf16>::value)                                                                    \
            LF_WGMMA_RS_ASM(n, "bf16", regs, a0, a1, a2, a3, b, add, trans, __VA_ARGS__);                              \
        else                                                                                                           \
            LF_WGMMA_RS_ASM(n, "f16", regs, a0, a1, a2, a3, b, add, trans, __VA_ARGS__);                               \
    }

LF_WGMMA_RS("64", LF_REGS32, 32, "32", "33", "34", "35", "36", "37", "38", LF_ACC32(d))
LF_WGMMA_RS("80", LF_REGS40, 40, "40", "41", "42", "43", "44", "45", "46", LF_ACC40(d))
LF_WGMMA_RS("96", LF_REGS48, 48, "48", "49", "50", "51", "52", "53", "54", LF_ACC48(d))
LF_WGMMA_RS("112", LF_REGS56, 56, "56", "57", "58", "59", "60", "61", "62", LF_ACC56(d))
LF_WGMMA_RS("128", LF_REGS64, 64, "64", "65", "66", "67", "68", "69", "70", LF_ACC64(d))
LF_WGMMA_RS("256", LF_REGS128, 128, "128", "129", "130", "131", "132", "133", "134", LF_ACC128(d))

/* The same with A in shared memory too, its rows along M, and B's along N. */
#define LF_WGMMA_SS_ASM(n, type, regs, desc_a, desc_b, add, ...)                                                       \
    asm volatile("{\n"                                                                                                 \
                 ".reg .pred add;\n"                                                                                   \
                 "setp.ne.b32 add, %" add ", 0;\n"                                                                     \
                 "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" regs "}, %" desc_a ", %" desc_b   \
                 ", add, 1, 1, 0, 0;\n"                                                                                \
                 "}\n"                                                                                                 \
                 : __VA_ARGS__                                                                                         \
                 : "l"(a), "l"(b), "r"((int)add_to))

#define LF_WGMMA_SS(n, regs, size, desc_a, desc_b, add, ...)                                                           \
    template <class T> LF_GPU_FN void wgmma_ss(float(&d)[size], uint64_t a, uint64_t b, bool add_to)                   \
    {                                                                                                                  \
        if constexpr (std::is_same<T, bf16>::value)                                                                    \
            LF_WGMMA_SS_ASM(n, "bf16", regs, desc_a, desc_b, add, __VA_ARGS__);                                        \
        else                                                                                                           \
            LF_WGMMA_SS_ASM(n, "f16", regs, desc_a, desc_b, add, __VA_ARGS__);                                         \
    }

LF_WGMMA_SS("64", LF_REGS32, 32, "32", "33", "34", LF_ACC32(d))
LF_WGMMA_SS("96", LF_REGS48, 48, "48", "49", "50", LF_ACC48(d))
LF_WGMMA_SS("128", LF_REGS64, 64, "64", "65", "66", LF_ACC64(d))
LF_WGMMA_SS("256", LF_REGS128, 128, "128", "129", "130", LF_ACC128(d))

#endif
