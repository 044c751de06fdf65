/* Where the keys of a stripe are (kv/kv_view.h): plain arithmetic, of the host and of kernels.
 *
 * Keys of a stripe are counted among themselves, key k being slot k mod 64 of page k / 64 of a sequence. Pages, tiles,
 * splits and tasks are made of such counts. Positions they become only where somebody asks who sees them:
 *
 *     position of key k       64 · (n · (k / 64) + idx) + k mod 64
 *     keys before position p  64 · (p / 64n) + what of the rest p mod 64n is past 64 · idx, 0 to 64
 *
 * In a page positions follow one another, so that one position stands for those of a whole tile in it. A key past a
 * sequence's last one has a position past its last, so what hides the future hides those too. */
#ifndef LF_ATTENTION_CUDA_ATTN_STRIPE_H
#define LF_ATTENTION_CUDA_ATTN_STRIPE_H

#include <stdint.h>

#include "core/limits.h"

#ifdef __CUDACC__
#define LF_ATTN_STRIPE_FN static __host__ __device__ __forceinline__
#else
#define LF_ATTN_STRIPE_FN static inline
#endif

/* Whose rows of a step are whose (struct lf_attn_owners), in rows of heads: [n_tokens · n_heads]. */
enum { LF_ATTN_CUDA_OWNERS_N = 8 };
struct lf_attn_cuda_owners {
    int32_t n, first[LF_ATTN_CUDA_OWNERS_N + 1];
    void *out[LF_ATTN_CUDA_OWNERS_N];
    float *lse[LF_ATTN_CUDA_OWNERS_N];
};

/* Position of key `key` of stripe idx of n. */
LF_ATTN_STRIPE_FN int lf_attn_stripe_position(int idx, int n, int key)
{
    return key + (key / LF_KV_BLOCK_TOKENS * (n - 1) + idx) * LF_KV_BLOCK_TOKENS;
}

/* Keys of stripe idx of n that are before a position; none before one below 0. */
LF_ATTN_STRIPE_FN int lf_attn_stripe_keys(int idx, int n, int position)
{
    int p = position < 0 ? 0 : position, block = n * LF_KV_BLOCK_TOKENS;
    int rest = p % block - idx * LF_KV_BLOCK_TOKENS;
    int of_rest = rest < 0 ? 0 : rest > LF_KV_BLOCK_TOKENS ? LF_KV_BLOCK_TOKENS : rest;
    return p / block * LF_KV_BLOCK_TOKENS + of_rest;
}

#endif
