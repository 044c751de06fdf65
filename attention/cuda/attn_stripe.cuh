/* Keys and positions in kernels that have a template parameter STRIPED: whether the pages they read are a stripe's
 * (attn_stripe.h). Where they are not, a key is its position and nothing is computed: those kernels are the same
 * instructions as if there were no stripes. `Args` say stripe_idx and stripe_n. */
#ifndef LF_ATTENTION_CUDA_ATTN_STRIPE_CUH
#define LF_ATTENTION_CUDA_ATTN_STRIPE_CUH

#include "attention/cuda/attn_stripe.h"
#include "device/cuda/ptx.cuh"

template <bool STRIPED, class Args> LF_GPU_FN int key_position(const Args &p, int key)
{
    if constexpr (STRIPED) return lf_attn_stripe_position(p.stripe_idx, p.stripe_n, key);
    return key;
}

/* How many keys there are before a position; without stripes one below 0 stays what it is. */
template <bool STRIPED, class Args> LF_GPU_FN int keys_before(const Args &p, int position)
{
    if constexpr (STRIPED) return lf_attn_stripe_keys(p.stripe_idx, p.stripe_n, position);
    return position;
}

/* By how much the positions of the next page are further on than without stripes. */
template <bool STRIPED, class Args> LF_GPU_FN int page_gap(const Args &p)
{
    if constexpr (STRIPED) return (p.stripe_n - 1) * LF_KV_BLOCK_TOKENS;
    return 0;
}

#endif
