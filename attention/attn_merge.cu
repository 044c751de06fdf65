/* Folds partial rows in the order of their spans and writes output and lse.
 *
 * Work split: a unit is 32 channels of one row, a warp's; CTAs are single warps that walk the units in strides of the
 * grid. All of a unit's partial rows (128 bytes each) are asked for at once. Meanwhile the lanes find the factors of
 * the fold, a span each: the maximum before and after a span is a prefix maximum, exact in any order, so only the two
 * multiplications and additions of the fold itself are left to do one span after another: for its channel and for the
 * sum, by every lane. Same operations as attn_join() in the same order, hence the same bits as a task that walks all
 * spans by itself.
 * Overlap: the lists are read before the predecessor is complete.
 * Shared memory: SPANS rows of 32 floats, and as many factors. Bound by latency: a few hundred spans, one or two
 * batches of them. CPU twin: attn_cpu.c. */
#include "device/cuda/launch.cuh"
#include "attention/attn_mma.cuh"

enum {
    SPANS = 192, /* of a batch */
    WAVE = 64,   /* of them, waited for together */
    WAVES = SPANS / WAVE,
    CHANNELS = 32, /* of a unit */
    ROW_GROUPS = 16,
    CTAS_PER_SM = 8,
    CHANNEL_UNITS = CHANNELS * 4 / UNIT_BYTES
};
static_assert(WAVES == 3, "the waits of merge_row");
static_assert((int)CHANNELS == (int)LANES && SPANS % LANES == 0, "a lane holds a channel, and a span of every LANES");

struct batch {
    float o[SPANS][CHANNELS];
    float4 factors[SPANS]; /* of the rows before, of the span, the span's l */
};

struct fold {
    float m, l, o; /* o of the lane's channel */
    bool any;      /* a span had keys */
};

/* Asks for the channels of n partial rows that lie `stride` rows apart, a group of copies each WAVE. */
LF_GPU_FN void fetch_rows(batch &b, const lf_attn_cuda_args &p, int64_t row, int stride, int n, int channel0)
{
    int lane = threadIdx.x % LANES, unit = lane % CHANNEL_UNITS;
    int channel = channel0 + unit * 4, n_bytes = channel < p.head_dim ? UNIT_BYTES : 0;
    const float *from = p.partial_o + row * p.head_dim + channel;
    int64_t step = (int64_t)stride * p.head_dim;
#pragma unroll
    for (int wave = 0; wave < WAVES; wave++) {
        for (int s = wave * WAVE + lane / CHANNEL_UNITS; s < min(n, (wave + 1) * WAVE); s += LANES / CHANNEL_UNITS)
            cp_async_cg_16(shared_address(&b.o[s][unit * 4]), from + s * step, n_bytes);
        cp_async_commit_group();
    }
}

/* The prefix maximum over the lanes. */
LF_GPU_FN float prefix_max(float x)
{
#pragma unroll
    for (int step = 1; step < LANES; step *= 2) {
        float other = __shfl_up_sync(0xffffffffu, x, step);
        if (threadIdx.x % LANES >= step) x = fmaxf(x, other);
    }
    return x;
}

/* Factors of N · 32 spans; f.m and f.any become those behind them. */
template <int N> LF_GPU_FN void find_factors(float4 *factors, fold &f, const float2 *ml)
{
    int lane = threadIdx.x % LANES;
    float top[N];
#pragma unroll
    for (int i = 0; i < N; i++) top[i] = prefix_max(ml[i].y != 0.0f ? ml[i].x : -INFINITY);
#pragma unroll
    for (int i = 0; i < N; i++) {
        unsigned with_keys = __ballot_sync(0xffffffffu, ml[i].y != 0.0f);
        bool any_before = f.any || (with_keys & ((1u << lane) - 1)) != 0;
        float before = __shfl_up_sync(0xffffffffu, top[i], 1);
        before = lane == 0 ? f.m : fmaxf(f.m, before);
        lf_attn_join j = attn_join(before, any_before ? 1.0f : 0.0f, ml[i].x, ml[i].y);
        factors[i * LANES + lane] = make_float4(j.scale_a, j.scale_b, ml[i].y, 0.0f);
        f.m = fmaxf(f.m, __shfl_sync(0xffffffffu, top[i], LANES - 1));
        f.any = f.any || with_keys != 0;
    }
}

template <class T>
LF_GPU_FN void merge_row(batch &b, const lf_attn_cuda_args &p, const lf_attn_cuda_task &task, const rows_of_task &t,
                         int i, int channel0)
{
    int lane = threadIdx.x % LANES;
    fold f = {-INFINITY, 0.0f, 0.0f, false};
    for (int span0 = 0; span0 < task.n_spans; span0 += SPANS) {
        int n = min((int)SPANS, task.n_spans - span0);
        int64_t row = task.slot + (int64_t)span0 * task.n_rows + i;
        float2 ml[SPANS / LANES];
#pragma unroll
        for (int s = 0; s < SPANS / LANES; s++) {
            int span = s * LANES + lane;
            ml[s] = span < n ? ((const float2 *)p.partial_ml)[row + (int64_t)span * task.n_rows]
                             : make_float2(-INFINITY, 0.0f);
        }
        fetch_rows(b, p, row, task.n_rows, n, channel0);
        if (n <= LANES)
            find_factors<1>(b.factors, f, ml);
        else
            find_factors<SPANS / LANES>(b.factors, f, ml);
#pragma unroll
        for (int wave = 0; wave < WAVES; wave++) {
            if (wave == 0)
                cp_async_wait_group<WAVES - 1>();
            else if (wave == 1)
                cp_async_wait_group<WAVES - 2>();
            else
                cp_async_wait_group<WAVES - 3>();
            __syncwarp();
#pragma unroll 8
            for (int s = wave * WAVE; s < min(n, (wave + 1) * WAVE); s++) {
                float4 c = b.factors[s];
                f.o = __fmaf_rn(b.o[s][lane], c.y, __fmul_rn(f.o, c.x));
                f.l = __fmaf_rn(c.z, c.y, __fmul_rn(f.l, c.x));
            }
        }
        __syncwarp();
    }
    int head, channel = channel0 + lane;
    int64_t row = head_row_of(p, t, i, &head);
    lf_attn_finish end = attn_finish(f.m, f.l, p.sinks ? p.sinks + head : NULL);
    if (channel < p.head_dim) ((T *)p.out)[row * p.head_dim + channel] = from_float<T>(f.o * end.factor);
    if (p.lse && channel == 0) p.lse[row] = end.lse;
}

template <class T> __global__ void __launch_bounds__(LANES) attn_merge(const __grid_constant__ lf_attn_cuda_args p)
{
    __shared__ __align__(16) batch b;
    int n_chunks = (p.head_dim + CHANNELS - 1) / CHANNELS;
    start_successor();
    int n_units = p.counts->n_merge * ROW_GROUPS * n_chunks;
    bool waited = false;
    for (int unit = blockIdx.x; unit < n_units; unit += gridDim.x) {
        int row_group = unit / n_chunks % ROW_GROUPS, channel0 = unit % n_chunks * CHANNELS;
        lf_attn_cuda_task task = p.merge[unit / n_chunks / ROW_GROUPS];
        rows_of_task t = rows_of(p, p.seqs[task.seq_idx], task);
        if (!waited) wait_predecessor();
        waited = true;
        for (int i = row_group; i < task.n_rows; i += ROW_GROUPS) merge_row<T>(b, p, task, t, i, channel0);
    }
    if (!waited) wait_predecessor();
}

int lf_attn_merge_cuda(const struct lf_attn_cuda_args *args, void *stream)
{
    if (args->max_merge == 0) return 0;
    int64_t n_units = (int64_t)args->max_merge * ROW_GROUPS * ((args->head_dim + CHANNELS - 1) / CHANNELS);
    int64_t n_ctas = min(n_units, (int64_t)CTAS_PER_SM * args->n_sms);
    lf_cuda_launch how = {stream, args->fp16, args->overlaps};
    return queue_kernel(args->fp16 ? attn_merge<fp16> : attn_merge<bf16>, dim3((unsigned)n_ctas), LANES, how, *args);
}
