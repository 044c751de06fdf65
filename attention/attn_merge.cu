/* Folds partial rows in the order of their parts and writes output and lse.
 *
 * Work split: a unit is 32 channels of one row, a CTA's of four warps; CTAs walk the units in strides of the grid, the
 * first rows of all tiles first. Eight threads, four channels each, take every sixteenth group of parts: they ask for
 * three groups at once and fold each (attn_cuda.h: at most four parts a group). What the groups give meets in shared
 * memory, where one warp folds them: its lanes find the factors, a group each, since the maximum before and after a group
 * is a prefix maximum, exact in any order; only the two multiplications and additions of the fold itself are left to do
 * one group after another: for its channel and for the sum, by every lane. Same operations as attn_join() in the same
 * order, hence the same bits as a task that walks all parts by itself.
 *
 * Overlap: the lists are read before the predecessor is complete. Small enough to be on a multiprocessor beside decode
 * and the block of the next product.
 * Shared memory: 48 groups of 32 floats and their factors, 7 KiB. Bound by latency. CPU twin: attn_cpu.c. */
#include "device/cuda/launch.cuh"
#include "attention/attn_mma.cuh"

enum {
    THREADS = 128,
    CHANNELS = 32, /* of a unit */
    QUADS = CHANNELS / 4,
    GROUP_LANES = THREADS / QUADS,
    GROUPS_AT_ONCE = 3,
    GROUPS = GROUPS_AT_ONCE * GROUP_LANES, /* of a batch */
    ROW_GROUPS = 16,
    CTAS_PER_SM = 8
};
static_assert((int)CHANNELS == (int)LANES && GROUPS <= 2 * LANES, "a lane holds a channel, and two groups");

struct batch {
    float o[GROUPS][CHANNELS];
    float2 ml[2 * LANES];
    float2 factors[2 * LANES]; /* of the groups before, of the group */
};

struct fold {
    float m, l, o; /* o of the lane's channel */
    bool any;      /* a group had keys */
};

/* Folds the groups of this thread's lane, four channels of row i each, into the batch that begins with group0. */
LF_GPU_FN void fold_groups(batch &b, const lf_attn_cuda_args &p, const lf_attn_cuda_merge &tile, int i, int channel0,
                           int group0)
{
    int quad = threadIdx.x % QUADS, channel = channel0 + 4 * quad;
    float4 o[GROUPS_AT_ONCE][LF_ATTN_DECODE_GROUP];
    float2 ml[GROUPS_AT_ONCE][LF_ATTN_DECODE_GROUP];
    int n_parts[GROUPS_AT_ONCE];
#pragma unroll
    for (int k = 0; k < GROUPS_AT_ONCE; k++) {
        int group = group0 + threadIdx.x / QUADS + k * GROUP_LANES;
        int part = group == 0 ? 0 : tile.n_first + (group - 1) * tile.n_group;
        n_parts[k] = min(group == 0 ? tile.n_first : tile.n_group, tile.n_parts - part);
#pragma unroll
        for (int s = 0; s < LF_ATTN_DECODE_GROUP; s++) {
            int64_t row = tile.slot + (int64_t)(part + s) * tile.n_rows + i;
            bool is_there = s < n_parts[k], has_channel = is_there && channel < p.head_dim;
            ml[k][s] = is_there ? ((const float2 *)p.partial_ml)[row] : make_float2(-INFINITY, 0.0f);
            o[k][s] = has_channel ? *(const float4 *)(p.partial_o + row * p.head_dim + channel)
                                  : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
    }
#pragma unroll
    for (int k = 0; k < GROUPS_AT_ONCE; k++) {
        int place = threadIdx.x / QUADS + k * GROUP_LANES;
        float2 sum = ml[k][0];
        float4 x = o[k][0];
#pragma unroll
        for (int s = 1; s < LF_ATTN_DECODE_GROUP; s++) {
            if (s >= n_parts[k]) break;
            lf_attn_join j = attn_join(sum.x, sum.y, ml[k][s].x, ml[k][s].y);
            sum = make_float2(j.m, j.l);
            x = make_float4(attn_join_o(j, x.x, o[k][s].x), attn_join_o(j, x.y, o[k][s].y),
                            attn_join_o(j, x.z, o[k][s].z), attn_join_o(j, x.w, o[k][s].w));
        }
        *(float4 *)&b.o[place][4 * quad] = x;
        if (quad == 0) b.ml[place] = sum;
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

/* Factors of a batch of n groups; f.m and f.any become those behind them. */
LF_GPU_FN void find_factors(batch &b, fold &f, int n)
{
    int lane = threadIdx.x % LANES;
    float2 ml[2];
    float top[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        ml[i] = i * LANES + lane < n ? b.ml[i * LANES + lane] : make_float2(-INFINITY, 0.0f);
        top[i] = prefix_max(ml[i].y != 0.0f ? ml[i].x : -INFINITY);
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        unsigned with_keys = __ballot_sync(0xffffffffu, ml[i].y != 0.0f);
        bool any_before = f.any || (with_keys & ((1u << lane) - 1)) != 0;
        float before = __shfl_up_sync(0xffffffffu, top[i], 1);
        before = lane == 0 ? f.m : fmaxf(f.m, before);
        lf_attn_join j = attn_join(before, any_before ? 1.0f : 0.0f, ml[i].x, ml[i].y);
        b.factors[i * LANES + lane] = make_float2(j.scale_a, j.scale_b);
        f.m = fmaxf(f.m, __shfl_sync(0xffffffffu, top[i], LANES - 1));
        f.any = f.any || with_keys != 0;
    }
    __syncwarp();
}

/* A unit: 32 channels of row i. */
template <class T>
LF_GPU_FN void merge_row(batch &b, const lf_attn_cuda_args &p, const lf_attn_cuda_merge &tile, int i, int channel0)
{
    int lane = threadIdx.x % LANES, behind_first = tile.n_parts - tile.n_first;
    int n_groups = behind_first <= 0 ? 1 : 1 + (behind_first + tile.n_group - 1) / tile.n_group;
    fold f = {-INFINITY, 0.0f, 0.0f, false};
    for (int group0 = 0; group0 < n_groups; group0 += GROUPS) {
        fold_groups(b, p, tile, i, channel0, group0);
        __syncthreads();
        int n = min((int)GROUPS, n_groups - group0);
        if (threadIdx.x < LANES) {
            find_factors(b, f, n);
            int g = 0;
            if (group0 == 0) {
                f.o = b.o[0][lane];
                f.l = b.ml[0].y;
                g = 1;
            }
#pragma unroll 8
            for (; g < n; g++) {
                float2 c = b.factors[g];
                f.o = __fmaf_rn(b.o[g][lane], c.y, __fmul_rn(f.o, c.x));
                f.l = __fmaf_rn(b.ml[g].y, c.y, __fmul_rn(f.l, c.x));
            }
        }
        __syncthreads();
    }
    if (threadIdx.x >= LANES) return;
    lf_attn_cuda_seq seq = p.seqs[tile.seq_idx];
    int group = p.n_heads / p.n_kv_heads, packed = tile.row + i, head = tile.kv_head * group + packed % group;
    int64_t row = (int64_t)(seq.first_row + packed / group) * p.n_heads + head;
    int channel = channel0 + lane;
    lf_attn_finish end = attn_finish(f.m, f.l, p.sinks ? p.sinks + head : NULL);
    if (channel < p.head_dim) ((T *)p.out)[row * p.head_dim + channel] = from_float<T>(f.o * end.factor);
    if (p.lse && channel == 0) p.lse[row] = end.lse;
}

template <class T> __global__ void __launch_bounds__(THREADS) attn_merge(const __grid_constant__ lf_attn_cuda_args p)
{
    __shared__ __align__(16) batch b;
    int n_chunks = (p.head_dim + CHANNELS - 1) / CHANNELS;
    start_successor();
    int n_tiles = p.counts->n_merge, n_units = n_tiles * ROW_GROUPS * n_chunks;
    bool waited = false;
    for (int unit = blockIdx.x; unit < n_units; unit += gridDim.x) {
        int row_group = unit / n_chunks / n_tiles, channel0 = unit % n_chunks * CHANNELS;
        lf_attn_cuda_merge tile = p.merge[unit / n_chunks % n_tiles];
        if (!waited) wait_predecessor();
        waited = true;
        for (int i = row_group; i < tile.n_rows; i += ROW_GROUPS) merge_row<T>(b, p, tile, i, channel0);
    }
    if (!waited) wait_predecessor();
}

int lf_attn_merge_cuda_setup(void)
{
    int rc = load_kernel(attn_merge<bf16>);
    return rc == 0 ? load_kernel(attn_merge<fp16>) : rc;
}

int lf_attn_merge_cuda(const struct lf_attn_cuda_args *args, void *stream)
{
    if (args->max_merge == 0) return 0;
    int64_t n_units = (int64_t)args->max_merge * ROW_GROUPS * ((args->head_dim + CHANNELS - 1) / CHANNELS);
    int64_t n_ctas = min(n_units, (int64_t)CTAS_PER_SM * args->n_sms);
    lf_cuda_launch how = {stream, args->fp16, args->overlaps};
    return queue_kernel(args->fp16 ? attn_merge<fp16> : attn_merge<bf16>, dim3((unsigned)n_ctas), THREADS, how, *args);
}
