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
 * Scales, a byte a token, multiply whole columns of scores and of P. */
#ifndef LF_ATTENTION_CUDA_ATTN_CODES_CUH
#define LF_ATTENTION_CUDA_ATTN_CODES_CUH

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

LF_GPU_FN code_pairs pairs_of(uint32_t codes)
{
    return {e4m3_pair<bf16>(codes << 8), e4m3_pair<bf16>(codes)};
}

/* Of four neighbouring channels of a query, two in each word. */
LF_GPU_FN uint32_t even_of(uint32_t low, uint32_t high)
{
    return __byte_perm(low, high, 0x5410);
}

LF_GPU_FN uint32_t odd_of(uint32_t low, uint32_t high)
{
    return __byte_perm(low, high, 0x7632);
}

/* Sixteen channels of a query: the even ones, then the odd ones. */
LF_GPU_FN void order_as_codes(uint4 (&x)[2])
{
    uint4 a = x[0], b = x[1];
    x[0] = make_uint4(even_of(a.x, a.y), even_of(a.z, a.w), even_of(b.x, b.y), even_of(b.z, b.w));
    x[1] = make_uint4(odd_of(a.x, a.y), odd_of(a.z, a.w), odd_of(b.x, b.y), odd_of(b.z, b.w));
}

/* Multiplies columns of accumulators of 8 · N keys by the keys' scales, bytes in shared memory. */
template <int N> LF_GPU_FN void scale_keys(float (&s)[N][4], uint32_t scales)
{
    scales += threadIdx.x % 4 * 2;
#pragma unroll
    for (int n = 0; n < N; n++) {
        uint32_t two = ld_shared_u16(scales + 8 * n);
        float first = __uint_as_float((two & 0xffu) << 23), second = __uint_as_float((two & 0xff00u) << 15);
        s[n][0] *= first;
        s[n][1] *= second;
        s[n][2] *= first;
        s[n][3] *= second;
    }
}

#endif
