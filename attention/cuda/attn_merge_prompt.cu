/* Folds the partial rows of split prompt tiles in the order of their spans and writes output and lse.
 *
 * Prompt tiles have many rows of few spans (one for every 16,384 keys), where generated ones have few rows of many:
 * here the rows are side by side and a row's spans one after another.
 *
 * Work split: a warp takes a row, a lane four of its channels at a time; warps walk the rows of the list in strides of
 * the grid. The partial rows of BATCH spans are asked for together, then folded. Same operations as attn_join() in the
 * same order as the prefill kernel's own fold, hence the same bits. The list's length is the host's: prompts are never
 * part of a captured graph. No shared memory. Bound by memory: 4 bytes read for every channel, row and span. CPU twin:
 * attn_cpu.c. */
#include "device/cuda/launch.cuh"
#include "attention/cuda/attn_mma.cuh"

enum { WARPS = 8, THREADS = WARPS * LANES, BATCH = 8, CTAS_PER_SM = 8, LANE_CHANNELS = 4 };

/* What a lane knows of a row: its four channels. */
struct row_fold {
    float m, l;
    float4 o;
};

LF_GPU_FN void fold_span(row_fold &f, float2 ml, float4 o)
{
    lf_attn_join j = attn_join(f.m, f.l, ml.x, ml.y);
    f.m = j.m;
    f.l = j.l;
    f.o = make_float4(attn_join_o(j, f.o.x, o.x), attn_join_o(j, f.o.y, o.y), attn_join_o(j, f.o.z, o.z),
                      attn_join_o(j, f.o.w, o.w));
}

/* Folds a row's spans: they begin at partial row `row` and lie `stride` rows apart. */
LF_GPU_FN row_fold fold_row(const lf_attn_cuda_args &p, int64_t row, int stride, int n_spans, int channel)
{
    row_fold f = {-INFINITY, 0.0f, make_float4(0.0f, 0.0f, 0.0f, 0.0f)};
    for (int span0 = 0; span0 < n_spans; span0 += BATCH) {
        float2 ml[BATCH];
        float4 o[BATCH];
#pragma unroll
        for (int s = 0; s < BATCH; s++) {
            int64_t at = row + (int64_t)min(span0 + s, n_spans - 1) * stride;
            ml[s] = ((const float2 *)p.partial_ml)[at];
            o[s] = *(const float4 *)(p.partial_o + at * p.head_dim + channel);
        }
#pragma unroll
        for (int s = 0; s < BATCH; s++)
            if (span0 + s < n_spans) fold_span(f, ml[s], o[s]);
    }
    return f;
}

template <class T>
__global__ void __launch_bounds__(THREADS) attn_merge_prompt(const __grid_constant__ lf_attn_cuda_args p)
{
    int first = blockIdx.x * WARPS + threadIdx.x / LANES, lane = threadIdx.x % LANES;
    start_successor();
    wait_predecessor();
    for (int unit = first; unit < p.n_merge_prompt * LF_ATTN_PREFILL_ROWS; unit += gridDim.x * WARPS) {
        lf_attn_cuda_merge tile = p.merge_prompt[unit / LF_ATTN_PREFILL_ROWS];
        int i = unit % LF_ATTN_PREFILL_ROWS, head;
        if (i >= tile.n_rows) continue;
        int64_t row = head_row_of(p, rows_of(p, p.seqs[tile.seq_idx], tile), i, &head);
        for (int channel = lane * LANE_CHANNELS; channel < p.head_dim; channel += LANES * LANE_CHANNELS) {
            row_fold f = fold_row(p, tile.slot + i, tile.n_rows, tile.n_parts, channel);
            lf_attn_finish end = attn_finish(f.m, f.l, p.sinks ? p.sinks + head : NULL);
            *(uint2 *)((T *)p.out + row * p.head_dim + channel) = make_uint2(
                pack<T>(f.o.x * end.factor, f.o.y * end.factor), pack<T>(f.o.z * end.factor, f.o.w * end.factor));
            if (p.lse && channel == 0) p.lse[row] = end.lse;
        }
    }
}

int lf_attn_merge_prompt_setup(void)
{
    int rc = load_kernel(attn_merge_prompt<bf16>);
    return rc == 0 ? load_kernel(attn_merge_prompt<fp16>) : rc;
}

int lf_attn_merge_prompt(const struct lf_attn_cuda_args *args, void *stream)
{
    if (args->n_merge_prompt == 0) return 0;
    int n_ctas = min(args->n_merge_prompt * (LF_ATTN_PREFILL_ROWS / WARPS), CTAS_PER_SM * args->n_sms);
    lf_cuda_launch how = {stream, args->fp16, args->overlaps};
    return queue_kernel(args->fp16 ? attn_merge_prompt<fp16> : attn_merge_prompt<bf16>, dim3((unsigned)n_ctas), THREADS,
                        how, *args);
}
