#include "device/cuda/gemm_plan.h"

#include <stdbool.h>
#include <stdint.h>

#include "core/check.h"

enum { FLAT = 16, TALL = 32, FEW_TOKENS = 8 };

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

/* Weight rows of the block that has most. */
static int64_t most_rows(int n_out, int n_blocks, int tile_rows)
{
    int64_t n_tiles = ((int64_t)n_out + tile_rows - 1) / tile_rows;
    return (n_tiles + n_blocks - 1) / n_blocks * tile_rows;
}

int lf_gemv_tile_rows(int n_rows, int n_out, int n_blocks)
{
    LF_ASSERT(n_rows >= 1 && n_out >= 1 && n_blocks >= 1);
    int64_t flat = most_rows(n_out, n_blocks, FLAT), tall = most_rows(n_out, n_blocks, TALL);
    bool for_all = ((int64_t)n_out + TALL - 1) / TALL >= n_blocks;
    return n_rows > FEW_TOKENS && for_all && tall * 50 <= flat * 51 ? TALL : FLAT;
}
