/* Codes of weights (core/format.h) become pairs of elements of 16 bits, exactly: eight neighbouring columns of a row
 * are four words, the operands of tensor cores. No table, no conversion instruction.
 *
 * I4: a code is put below the mantissa of 128 (bf16) or 1024 (fp16), where a step is 1; what is taken off again is the
 * zero point with the same 128. E4M3 and E2M1: sign, exponent and mantissa are moved to where T has its own; what is
 * missing is the difference of the exponents' biases, a factor, and subnormal codes are subnormals of T, so that the
 * product is right for them too. In E2M1 the scale, a power of two, is in this factor. */
#ifndef LF_DEVICE_CUDA_CODES_CUH
#define LF_DEVICE_CUDA_CODES_CUH

#include "device/cuda/elem.cuh"
#include "device/cuda/ptx_mma.cuh"
#include "device/cuda/coded_order.h"

/* The bits of T's 128 or 1024, of 1 and of -0, and the factor that makes up for the biases' difference; twice in a
 * word.
 */
template <class T> struct code_bits;

enum : uint32_t { MINUS = 0x80008000u };

template <> struct code_bits<bf16> {
    static constexpr uint32_t ONE = 0x3f803f80u, I4_BASE = 0x43004300u, E4M3_FACTOR = 0x7b807b80u; /* 2^120 */
    static constexpr int E4M3_SHIFT = 4;
    static constexpr uint32_t E4M3_MASK = 0x07f007f0u;
};

template <> struct code_bits<fp16> {
    static constexpr uint32_t ONE = 0x3c003c00u, I4_BASE = 0x64006400u, E4M3_FACTOR = 0x5c005c00u; /* 2^8 */
    static constexpr int E4M3_SHIFT = 1;
    static constexpr uint32_t E4M3_MASK = 0x3f803f80u;
};

/* The number that i4_elements adds: less a group's zero point and the base. */
template <class T> LF_GPU_FN uint32_t i4_zeros(uint32_t zero)
{
    return (MINUS | code_bits<T>::I4_BASE) + zero * 0x00010001u;
}

template <class T> LF_GPU_FN uint32_t i4_pair(uint32_t shifted, uint32_t zeros)
{
    using bits = code_bits<T>;
    return fma_rn_x2<T>(lop3_and_or(shifted, 0x000f000fu, bits::I4_BASE), bits::ONE, zeros);
}

template <class T> LF_GPU_FN uint4 i4_elements(uint32_t word, uint32_t zeros)
{
    return make_uint4(i4_pair<T>(word, zeros), i4_pair<T>(word >> 4, zeros), i4_pair<T>(word >> 8, zeros),
                      i4_pair<T>(word >> 12, zeros));
}

/* The pair's bytes are the upper ones of the halves. */
template <class T> LF_GPU_FN uint32_t e4m3_pair(uint32_t bytes)
{
    using bits = code_bits<T>;
    uint32_t moved = lop3_and_or(bytes >> bits::E4M3_SHIFT, bits::E4M3_MASK, bytes & MINUS);
    return fma_rn_x2<T>(moved, bits::E4M3_FACTOR, MINUS);
}

template <class T> LF_GPU_FN uint4 e4m3_elements(uint32_t low, uint32_t high)
{
    return make_uint4(e4m3_pair<T>(__byte_perm(low, 0, 0x1404)), e4m3_pair<T>(__byte_perm(low, 0, 0x3424)),
                      e4m3_pair<T>(__byte_perm(high, 0, 0x1404)), e4m3_pair<T>(__byte_perm(high, 0, 0x3424)));
}

/* The factor of byte `i` of four scale bytes. */
LF_GPU_FN uint32_t e2m1_factor(uint32_t scales, int i)
{
    return (scales >> 8 * i & 0xffu) * 0x00800080u;
}

/* bf16, times 2^-LF_E2M1_SHIFT. */
LF_GPU_FN uint4 e2m1_elements(uint32_t word, uint32_t factor)
{
    constexpr uint32_t MASK = 0x81c081c0u, MANTISSA = 0x00400040u;
    uint32_t last =
        lop3_and_or(__funnelshift_l(word, word, 2), MANTISSA, __funnelshift_l(word, word, 10) & (MASK & ~MANTISSA));
    return make_uint4(fma_rn_x2<bf16>(word & MASK, factor, MINUS),
                      fma_rn_x2<bf16>(__funnelshift_r(word, word, 4) & MASK, factor, MINUS),
                      fma_rn_x2<bf16>(__funnelshift_r(word, word, 10) & MASK, factor, MINUS),
                      fma_rn_x2<bf16>(last, factor, MINUS));
}

#endif
