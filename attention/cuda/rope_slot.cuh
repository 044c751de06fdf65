/* Where a token's heads are written, and the rotation: common to RoPE's kernel (rope_cuda.cu) and the GEMM with RoPE as
 * its epilogue (qkv_cuda.cu). */
#ifndef LF_ATTENTION_CUDA_ROPE_SLOT_CUH
#define LF_ATTENTION_CUDA_ROPE_SLOT_CUH

#include "attention/cuda/attn_stripe.cuh"
#include "attention/cuda/rope_cuda.h"
#include "core/limits.h"
#include "device/cuda/ptx.cuh"

/* A token's slot in the KV cache. Rows of a step that belong to no sequence have none; nor have those of other stripes
 * a block, they are not `kept`. With peers all are, each in the cache of its stripe. */
struct rope_slot {
    bool valid;
    int pos, block;
    bool kept;
    void *kv; /* block 0 */
};

/* The row's slot in the sequence that the lists have at seq_idx: the last one that begins at or before it; -1: none
 * does. */
template <bool STRIPED = false> LF_GPU_FN rope_slot rope_slot_in(const lf_rope_cuda_args &p, int row, int seq_idx)
{
    if (seq_idx < 0) return {false, 0, 0, false, nullptr};
    lf_attn_cuda_seq seq = p.seqs[seq_idx];
    if (row >= seq.first_token + seq.n_tokens) return {false, 0, 0, false, nullptr};
    int pos = seq.kv_len - seq.n_tokens + (row - seq.first_token);
    if constexpr (STRIPED) {
        int page = pos / LF_KV_BLOCK_TOKENS, owner = page % p.stripe_n;
        bool kept = p.n_peers > 0 || owner == p.stripe_idx;
        return {true, pos, kept ? p.tables[seq.table + page / p.stripe_n] : 0, kept,
                p.n_peers > 0 ? p.peer_kv[owner] : p.kv};
    }
    return {true, pos, p.tables[seq.table + pos / LF_KV_BLOCK_TOKENS], true, p.kv};
}

/* First element of the row's head: in q_out, or, of heads of keys and values, which come behind those of queries, in
 * their page. */
template <class T> LF_GPU_FN T *rope_target(const lf_rope_cuda_args &p, rope_slot at, int row, int head)
{
    if (head < p.n_heads) return (T *)p.q_out + ((size_t)row * p.n_heads + head) * p.head_dim;
    size_t page = (size_t)at.block * p.block_pages + (size_t)p.layer * 2 * p.n_kv_heads + (head - p.n_heads);
    return (T *)at.kv + (page * LF_KV_BLOCK_TOKENS + at.pos % LF_KV_BLOCK_TOKENS) * p.head_dim;
}

/* Of an FP8 cache, the page of the row's head of keys or values. */
LF_GPU_FN uint8_t *rope_codes_page(const lf_rope_cuda_args &p, rope_slot at, int head)
{
    size_t page = (size_t)at.block * p.block_pages + (size_t)p.layer * 2 * p.n_kv_heads + (head - p.n_heads);
    return (uint8_t *)at.kv + page * p.fp8_page_bytes;
}

/* (a, b) by the angle whose cosine and sine are given. */
LF_GPU_FN void rotate(float &a, float &b, float2 cos_sin)
{
    float x = a;
    a = __fmaf_rn(x, cos_sin.x, -__fmul_rn(b, cos_sin.y));
    b = __fmaf_rn(b, cos_sin.x, __fmul_rn(x, cos_sin.y));
}

#endif
