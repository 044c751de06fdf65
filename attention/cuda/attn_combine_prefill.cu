/* Combines the partial rows of prefill tiles that were cut into parts, in the order of their parts, and writes output
 * and lse.
 *
 * Prefill tiles have many rows of few parts (eight up to 128K keys), where decode tiles have few rows of many:
 * here the rows are side by side and a row's splits one after another.
 *
 * Work partition: a warp takes a row, a lane four of its channels at a time; warps walk the rows of the list in strides
 * of the grid. The partial rows of BATCH splits are loaded together, then combined. Same operations as attn_combine()
 * in the same order as in the prefill kernel, hence the same bits. The list's length comes from the host: prompts are
 * never part of a captured graph. No shared memory. Bound by memory: 4 bytes read for every channel, row and split. CPU
 * reference: attn_cpu.c. */
#include "device/cuda/launch.cuh"
#include "attention/cuda/attn_rows.cuh"
#include "device/cuda/elem.cuh"

enum { WARPS = 8, THREADS = WARPS * WARP, BATCH = 16, CTAS_PER_SM = 8, LANE_CHANNELS = 4 };

/* A lane's part of a row: four channels. */
struct partial_row {
    float m, l;
    float4 o;
};

LF_GPU_FN void combine_split(partial_row &f, float2 ml, float4 o)
{
    combine_factors j = attn_combine(f.m, f.l, ml.x, ml.y);
    f.m = j.m;
    f.l = j.l;
    f.o = make_float4(attn_combine_o(j, f.o.x, o.x), attn_combine_o(j, f.o.y, o.y), attn_combine_o(j, f.o.z, o.z),
                      attn_combine_o(j, f.o.w, o.w));
}

/* Combines a row's splits: they begin at partial row `row` and lie `stride` rows apart. */
LF_GPU_FN partial_row combine_row(const lf_attn_cuda_args &p, int64_t row, int stride, int n_splits, int channel)
{
    partial_row f = {-INFINITY, 0.0f, make_float4(0.0f, 0.0f, 0.0f, 0.0f)};
    for (int split0 = 0; split0 < n_splits; split0 += BATCH) {
        float2 ml[BATCH];
        float4 o[BATCH];
#pragma unroll
        for (int s = 0; s < BATCH; s++) {
            int64_t at = row + (int64_t)min(split0 + s, n_splits - 1) * stride;
            ml[s] = ((const float2 *)p.partial_ml)[at];
            o[s] = *(const float4 *)(p.partial_o + at * p.head_dim + channel);
        }
#pragma unroll
        for (int s = 0; s < BATCH; s++)
            if (split0 + s < n_splits) combine_split(f, ml[s], o[s]);
    }
    return f;
}

template <class T>
__global__ void __launch_bounds__(THREADS) attn_combine_prefill(const __grid_constant__ lf_attn_cuda_args p)
{
    int first = blockIdx.x * WARPS + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    start_successor();
    bool waited = false;
    for (int item = first; item < p.n_combine_prefill * LF_ATTN_PREFILL_ROWS; item += gridDim.x * WARPS) {
        lf_attn_cuda_combine tile = p.combine_prefill[item / LF_ATTN_PREFILL_ROWS];
        int i = item % LF_ATTN_PREFILL_ROWS, head;
        if (i >= tile.n_rows) continue;
        if (!waited) wait_predecessor();
        waited = true;
        int64_t row = head_row_of(p, rows_of(p, p.seqs[tile.seq_idx], tile), i, &head);
        for (int channel = lane * LANE_CHANNELS; channel < p.head_dim; channel += WARP * LANE_CHANNELS) {
            partial_row f = combine_row(p, tile.slot + i, tile.n_rows, tile.n_parts, channel);
            finish_factors end = attn_finish(f.m, f.l, p.sinks ? p.sinks + head : NULL);
            row_place<T> to = place_of_row<T, true>(p, row);
            *(uint2 *)(to.out + channel) = make_uint2(pack<T>(f.o.x * end.factor, f.o.y * end.factor),
                                                      pack<T>(f.o.z * end.factor, f.o.w * end.factor));
            if (to.lse && channel == 0) *to.lse = end.lse;
        }
    }
    if (!waited) wait_predecessor();
}

int lf_attn_combine_prefill_setup(void)
{
    return load_kernels(attn_combine_prefill<bf16>, attn_combine_prefill<fp16>);
}

int lf_attn_combine_prefill(const struct lf_attn_cuda_args *args, void *stream)
{
    if (args->n_combine_prefill == 0) return 0;
    int n_ctas = min(args->n_combine_prefill * (LF_ATTN_PREFILL_ROWS / WARPS), CTAS_PER_SM * args->n_sms);
    return queue_kernel(args->fp16 ? attn_combine_prefill<fp16> : attn_combine_prefill<bf16>,
                        {(unsigned)n_ctas, THREADS}, launch_of(args, stream), *args);
}
