/* Integers that look random, one definition for C and for CUDA: a GPU must draw what the host would have drawn. */
#ifndef LF_CORE_MIX_H
#define LF_CORE_MIX_H

#include <stdint.h>

#ifdef __CUDACC__
#define LF_MIX_FN static __host__ __device__ inline
#else
#define LF_MIX_FN static inline
#endif

/* Mixes a 64-bit value (the finalizer of SplitMix64): a cheap hash of integers we made ourselves. */
LF_MIX_FN uint64_t lf_mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Counter-based random numbers: the value depends on (seed, counter) only, so a token's draw is the same in any batch.
 */
LF_MIX_FN uint64_t lf_random64(uint64_t seed, uint64_t counter)
{
    return lf_mix64(lf_mix64(seed) ^ lf_mix64(counter ^ 0xd1b54a32d192ed03u));
}

#endif
