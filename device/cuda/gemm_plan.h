/* Buckets of rows that a GPU's products are chosen for. Arithmetic only: plain C, no CUDA. */
#ifndef LF_DEVICE_CUDA_GEMM_PLAN_H
#define LF_DEVICE_CUDA_GEMM_PLAN_H

/* Rows are counted in buckets 2, 3, 4, 6, 8, 12, 16 … = 2^k and 3 · 2^k, the last of them 3 · 2^20. What is chosen for
 * a bucket serves every count up to it and past the one below. */
enum { LF_GEMM_BUCKETS_N = 42 };
int lf_gemm_bucket_rows(int bucket_idx);
int lf_gemm_bucket_of(int n_rows); /* n_rows >= 1; the last one where there are more rows than it holds */

#endif
