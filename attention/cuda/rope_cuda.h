/* RoPE, QK norm and KV append on a GPU, one layer and all tokens of a step: what the host and rope_cuda.cu agree on.
 * Inside attention/ only.
 *
 * A token's warps find its sequence among the step's sequences in device memory (attn_cuda.h), whose first_token rises;
 * one that belongs to none, the padding of a graph's bucket, writes nothing. So a captured graph replays with other
 * sequences. */
#ifndef LF_ATTENTION_CUDA_ROPE_CUDA_H
#define LF_ATTENTION_CUDA_ROPE_CUDA_H

#include "attention/cuda/attn_cuda.h"
#include "device/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All pointers are device addresses. Pages are in the order LF_KV_ROWS, in the type of the activations or in FP8. */
struct lf_rope_cuda_args {
    void *q_out;                              /* [n_tokens, n_heads, head_dim] */
    const void *qkv;                          /* [n_tokens, (n_heads + 2 · n_kv_heads) · head_dim]; see v_of_k */
    const float *q_norm, *k_norm;             /* [head_dim] each, or both NULL; see norm_whole_row */
    const float *table;                       /* [positions, rotary_dim / 2, 2]: cos, sin (rope.h) */
    const float *q_scale;                     /* [positions] or NULL: queries times it, once rotated */
    const struct lf_attn_cuda_counts *counts; /* n_seqs is read */
    const struct lf_attn_cuda_seq *seqs;      /* [n_seqs], first_token rising */
    const int32_t *tables;                    /* block tables of the layer's cache group, see attn_cuda.h */
    void *kv;                                 /* block 0 */
    float norm_eps;
    bool norm_whole_row; /* one norm of all heads: q_norm [n_heads · head_dim], k_norm [n_kv_heads · head_dim] */
    bool v_norm, v_of_k; /* as of lf_rope_append_params: with the latter qkv has n_kv_heads less */
    int32_t n_tokens;    /* of the launch: the step's tokens or the graph's bucket */
    int32_t n_heads, n_kv_heads, head_dim, rotary_dim;
    int32_t block_pages, layer;
    bool fp16;
    bool overlaps;          /* lf_cuda_overlaps of device/cuda/cuda.h */
    int32_t fp8_page_bytes; /* of a page of FP8 (kv_fp8.cuh); 0: pages are in the type of the activations */
    /* Which tokens the pages have, those of others are not appended; stripe_n at most 1: all. Not for fp16. */
    int32_t stripe_idx, stripe_n;
    /* Of a stripe: who gets what (struct lf_rope_peers); qkv has the step's rows from first_row on. */
    int32_t n_peers, first_row;
    void *peer_q[8], *peer_kv[8];
};

bool lf_rope_append_cuda_supports(int head_dim, int rotary_dim); /* multiples of 4 up to 512 */
int lf_rope_append_cuda_setup(void);                             /* loads the kernels, outside of a capture */
int lf_rope_append_cuda_stripe_setup(void);                      /* the same for a stripe of contexts */
/* Puts the kernel into stream (a cudaStream_t); a cudaError_t. Neither allocates nor waits. */
int lf_rope_append_cuda(const struct lf_rope_cuda_args *args, void *stream);

/* qkv_cuda.cu: the GEMM whose y is qkv and lf_rope_append_cuda at once, the same bits; args->qkv and gemm->y are not
 * touched. For few tokens, without norms, all channels rotated; not for FP8 pages, whose scales want whole heads, nor
 * for stripes, whose rows come from other ranks. *fits: a block may have the shared memory. */
int lf_qkv_cuda_setup(bool *fits);
bool lf_qkv_cuda_supports(const struct lf_gemm_params *gemm, const struct lf_rope_cuda_args *args);
/* n_blocks: of the grid at most. */
int lf_qkv_cuda(const struct lf_gemm_params *gemm, const struct lf_rope_cuda_args *args, int n_blocks, void *stream);

#ifdef __cplusplus
}
#endif

#endif
