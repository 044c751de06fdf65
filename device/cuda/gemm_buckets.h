/* Buckets of tokens that GEMM algorithms are chosen for. Arithmetic only: plain C, no CUDA. */
#ifndef LF_DEVICE_CUDA_GEMM_BUCKETS_H
#define LF_DEVICE_CUDA_GEMM_BUCKETS_H

/* Tokens are counted in buckets 2, 3, 4, 6, 8, 12, 16 … = 2^k and 3 · 2^k, the last of them 3 · 2^20. What is chosen
 * for a bucket serves every count up to it and past the one below. */
enum { LF_GEMM_BUCKETS_N = 42 };
int lf_gemm_bucket_tokens(int bucket_idx);
int lf_gemm_bucket_of(int n_tokens); /* n_tokens >= 1; the last one where there are more than it holds */

#endif
