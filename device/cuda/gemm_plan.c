#include "device/cuda/gemm_plan.h"

#include "core/check.h"

int lf_gemm_bucket_rows(int bucket_idx)
{
    LF_ASSERT(bucket_idx >= 0 && bucket_idx < LF_GEMM_BUCKETS_N);
    int power = 1 << (bucket_idx / 2 + 1);
    return bucket_idx % 2 == 0 ? power : power + power / 2;
}

int lf_gemm_bucket_of(int n_rows)
{
    int bucket = 0;
    LF_ASSERT(n_rows >= 1);
    while (bucket < LF_GEMM_BUCKETS_N - 1 && lf_gemm_bucket_rows(bucket) < n_rows) bucket++;
    return bucket;
}
