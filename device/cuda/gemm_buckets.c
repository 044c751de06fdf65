#include "device/cuda/gemm_buckets.h"

#include "core/check.h"

int lf_gemm_bucket_tokens(int bucket_idx)
{
    LF_ASSERT(bucket_idx >= 0 && bucket_idx < LF_GEMM_BUCKETS_N);
    int power = 1 << (bucket_idx / 2 + 1);
    return bucket_idx % 2 == 0 ? power : power + power / 2;
}

int lf_gemm_bucket_of(int n_tokens)
{
    int bucket = 0;
    LF_ASSERT(n_tokens >= 1);
    while (bucket < LF_GEMM_BUCKETS_N - 1 && lf_gemm_bucket_tokens(bucket) < n_tokens) bucket++;
    return bucket;
}
