/* E4M3 codes of K and V as operands B of bf16 MMAs (mma_m16n8k16, ptx_mma.cuh), out of what ldmatrix loads.
 *
 * ldmatrix moves 16 bits at a time, two codes. A word that a lane gets of K is four neighbouring channels of a key; of
 * V, transposed, two neighbouring channels of one key and the same of the next. Either way its bytes 0 and 2 are one
 * operand's pair and bytes 1 and 3 another's, which costs no permutation:
 *
 *     K    lane's word: channels 4t … 4t+3 (t: lane mod 4)    pairs: (4t, 4t+2), (4t+1, 4t+3)
 *          where an operand has channels (2t, 2t+1), (2t+8, 2t+9): queries get the same other order
 *     V    lane's word: key a: c, c+1; key a+1: c, c+1        pairs: keys (a, a+1) of channel c, of channel c+1
 *          so of 16 channels the even ones are one tile of the output and the odd ones the next
 *
 * Scales, a byte a token, multiply whole columns of scores and of P.
 *
 * A code's bits, where bf16 has its sign, exponent and mantissa, are its number times 2^-120 (codes.cuh), for small
 * codes a subnormal one. That is left so: multiplying each would cost as much as a third of what there is to do.
 * Queries times 2^60 and a factor of scores 2^60 times as large, P times 2^60 and outputs times 2^60 at the end of a
 * split, make up for it, all exact: queries of 2^67 and values of 2^68 are where that ends. */
#ifndef LF_ATTENTION_CUDA_ATTN_CODES_CUH
#define LF_ATTENTION_CUDA_ATTN_CODES_CUH

#include "attention/cuda/attn_rows.cuh"
#include "attention/cuda/kv_fp8.cuh"

/* An element of a page that is a code. */
struct e4m3 {
    uint8_t code;
};

template <class KV> LF_GPU_MEMBER constexpr bool is_codes()
{
    return sizeof(KV) == sizeof(e4m3);
}

/* Bytes 0 and 2 of a word as elements, bytes 1 and 3. */
struct code_pairs {
    uint32_t even, odd;
};

LF_GPU_FN uint32_t small_pair(uint32_t bytes)
{
    using bits = code_bits<bf16>;
    return lop3_and_or(bytes >> bits::E4M3_SHIFT, bits::E4M3_MASK, bytes & MINUS);
}

/* Times 2^-120. */
LF_GPU_FN code_pairs pairs_of(uint32_t codes)
{
    return {small_pair(codes << 8), small_pair(codes)};
}

/* What makes up for half of that: twice in a word of bf16, and as a float. */
enum : uint32_t { HALF_FACTOR_PAIR = 0x5d805d80u };
#define HALF_FACTOR 0x1p60f

LF_GPU_FN uint32_t enlarged(uint32_t pair)
{
    return fma_rn_x2<bf16>(pair, HALF_FACTOR_PAIR, MINUS);
}

/* Of products of enlarged queries and small keys. */
LF_GPU_FN score_scale scale_of_codes(score_scale c)
{
    (c.cap > 0.0f ? c.cap_arg : c.factor) *= HALF_FACTOR;
    return c;
}

/* Of four neighbouring channels of a query, two in each word: enlarged. */
LF_GPU_FN uint32_t even_of(uint32_t low, uint32_t high)
{
    return enlarged(__byte_perm(low, high, 0x5410));
}

LF_GPU_FN uint32_t odd_of(uint32_t low, uint32_t high)
{
    return enlarged(__byte_perm(low, high, 0x7632));
}

/* Sixteen channels of a query, enlarged: the even ones, then the odd ones. */
LF_GPU_FN void order_as_codes(uint4 (&x)[2])
{
    uint4 a = x[0], b = x[1];
    x[0] = make_uint4(even_of(a.x, a.y), even_of(a.z, a.w), even_of(b.x, b.y), even_of(b.z, b.w));
    x[1] = make_uint4(odd_of(a.x, a.y), odd_of(a.z, a.w), odd_of(b.x, b.y), odd_of(b.z, b.w));
}

/* Multiplies columns of accumulators of 8 · N keys by the keys' scales, bytes in shared memory, and by a factor. */
template <int N> LF_GPU_FN void scale_keys(float (&s)[N][4], uint32_t scales, float factor)
{
    scales += threadIdx.x % 4 * 2;
#pragma unroll
    for (int n = 0; n < N; n++) {
        uint32_t two = ld_shared_u16(scales + 8 * n);
        float first = factor * __uint_as_float((two & 0xffu) << 23);
        float second = factor * __uint_as_float((two & 0xff00u) << 15);
        s[n][0] *= first;
        s[n][1] *= second;
        s[n][2] *= first;
        s[n][3] *= second;
    }
}

/* The output of a split in its own size. */
template <int N> LF_GPU_FN void enlarge_outputs(float (&o)[N][4])
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) o[n][e] *= HALF_FACTOR;
}

#endif
