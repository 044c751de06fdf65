/* Combines partial rows in the order of their parts and writes output and lse: decode's split-KV combine.
 *
 * Work partition: a work item is 32 channels of a row, or of several rows one after another where a tile has more than
 * the GPU has room for side by side; CTAs are single warps that walk the items in strides of the grid. A row's partial
 * rows (128 bytes each) are fetched together, up to 288: all of 128K keys cut into single splits. Meanwhile the lanes
 * find the factors of the combine, a group of parts or two each (attn_cuda.h): inside a group one after the other, and
 * among groups side by side, since the maximum before and after a group is a prefix maximum, exact in any order. Only
 * the multiplications and additions of the combine itself are left to do one group after another: for its channel and
 * for the sum, by every lane. Same operations as attn_combine() in the same order, hence the same bits as a task that
 * walks all parts by itself.
 *
 * Overlap: before the predecessor is complete the lists are read.
 *
 * Shared memory: PARTS rows of 32 floats, and as many factors. Bound by latency: a few hundred parts, one or two
 * batches of them. CPU reference: attn_cpu.c. */
#include "device/cuda/launch.cuh"
#include "attention/cuda/attn_rows.cuh"
#include "device/cuda/elem.cuh"
#include "device/cuda/ptx_copy.cuh"

enum {
    PARTS = 288, /* of a batch */
    GROUP = LF_ATTN_DECODE_GROUP,
    LANE_GROUPS = 2, /* of a batch, for each lane */
    GROUPS = LANE_GROUPS * WARP,
    CHANNELS = 32,   /* of a work item */
    ROW_GROUPS = 16, /* of a tile: more only where CTAs would idle */
    CTAS_PER_SM = 8,
    UNIT_BYTES = 16, /* of a copy */
    CHANNEL_UNITS = CHANNELS * 4 / UNIT_BYTES
};
static_assert((int)CHANNELS == (int)WARP, "a lane holds a channel");

struct batch {
    float o[PARTS][CHANNELS];
    float2 factors[PARTS]; /* of the parts of the group before, of the part */
    float4 groups[GROUPS]; /* of the groups before, of the group; the group's l */
};

struct combined {
    float m, l, o; /* o of the lane's channel */
    bool any;      /* a group had keys */
};

/* First part of a group. */
LF_GPU_FN int part_of(const lf_attn_cuda_combine &tile, int group)
{
    return group == 0 ? 0 : tile.n_first + (group - 1) * tile.n_group;
}

/* Channels of a work item: 32 from `first` on, as far as they are below `end`. */
struct channels {
    int first, end;
};

/* Fetches the channels of n partial rows that lie `stride` rows apart. */
LF_GPU_FN void fetch_rows(batch &b, const lf_attn_cuda_args &p, int64_t row, int stride, int n, const channels &of)
{
    int lane = threadIdx.x % WARP, unit = lane % CHANNEL_UNITS;
    int channel = of.first + unit * 4, n_bytes = channel < of.end ? UNIT_BYTES : 0;
    const float *from = p.partial_o + row * p.head_dim + channel;
    int64_t step = (int64_t)stride * p.head_dim;
    for (int s = lane / CHANNEL_UNITS; s < n; s += WARP / CHANNEL_UNITS)
        cp_async_cg_16(shared_address(&b.o[s][unit * 4]), from + s * step, n_bytes);
    cp_async_commit_group();
}

/* Of a batch: groups and parts, counted from the tile's first. */
struct batch_range {
    int group0, n_groups, part0, part_end;
};

/* Factors of the batch's groups, of which a lane has N, and where they have several parts (G) of these; f.m and f.any
 * become those behind them. `ml` is the row's first. */
template <int N, int G>
LF_GPU_FN void find_factors(batch &b, combined &f, const lf_attn_cuda_combine &tile, const float2 *ml,
                            const batch_range &at)
{
    int lane = threadIdx.x % WARP, part[N], end[N];
    float2 of[N][G];
    float top[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        int group = at.group0 + i * WARP + lane;
        part[i] = part_of(tile, group);
        end[i] = min(part_of(tile, group + 1), at.part_end);
#pragma unroll
        for (int s = 0; s < G; s++)
            of[i][s] = part[i] + s < end[i] ? ml[(int64_t)(part[i] + s) * tile.n_rows] : make_float2(-INFINITY, 0.0f);
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
#pragma unroll
        for (int s = 1; s < G; s++) {
            combine_factors j = attn_combine(of[i][0].x, of[i][0].y, of[i][s].x, of[i][s].y);
            of[i][0] = make_float2(j.m, j.l);
            if (part[i] + s < end[i]) b.factors[part[i] - at.part0 + s] = make_float2(j.scale_a, j.scale_b);
        }
        top[i] = warp_scan(of[i][0].y != 0.0f ? of[i][0].x : -INFINITY, [](float a, float b) { return fmaxf(a, b); });
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        float2 group = of[i][0];
        unsigned with_keys = __ballot_sync(ALL_LANES, group.y != 0.0f);
        bool any_before = f.any || (with_keys & ((1u << lane) - 1)) != 0;
        float before = __shfl_up_sync(ALL_LANES, top[i], 1);
        before = lane == 0 ? f.m : fmaxf(f.m, before);
        combine_factors j = attn_combine(before, any_before ? 1.0f : 0.0f, group.x, group.y);
        b.groups[i * WARP + lane] = make_float4(j.scale_a, j.scale_b, group.y, 0.0f);
        f.m = fmaxf(f.m, __shfl_sync(ALL_LANES, top[i], WARP - 1));
        f.any = f.any || with_keys != 0;
    }
}

/* Combines group g of the batch, n parts from `part` on, with the lane's channel and the sum. */
LF_GPU_FN void combine_group(combined &f, const batch &b, int g, int part, int n)
{
    int lane = threadIdx.x % WARP;
    float4 c = b.groups[g];
    float o = b.o[part][lane];
#pragma unroll
    for (int s = 1; s < n; s++) {
        float2 scale = b.factors[part + s];
        o = __fmaf_rn(b.o[part + s][lane], scale.y, __fmul_rn(o, scale.x));
    }
    f.o = __fmaf_rn(o, c.y, __fmul_rn(f.o, c.x));
    f.l = __fmaf_rn(c.z, c.y, __fmul_rn(f.l, c.x));
}

/* All groups of the batch: only the first and the last may have fewer parts than G. */
template <int G>
LF_GPU_FN void combine_batch(combined &f, const batch &b, const lf_attn_cuda_combine &tile, const batch_range &at)
{
    int g = 0, part = 0, n_parts = at.part_end - at.part0;
    if (G > 1 && at.group0 == 0 && tile.n_first < G) {
        part = min(tile.n_first, n_parts);
        combine_group(f, b, g++, 0, part);
    }
    int n_full = (n_parts - part) / G;
#pragma unroll 8
    for (int i = 0; i < n_full; i++) combine_group(f, b, g + i, part + i * G, G);
    part += n_full * G;
    if (G > 1 && part < n_parts) combine_group(f, b, g + n_full, part, n_parts - part);
}

/* The lane's channel of row i, G parts a group. */
template <int G>
LF_GPU_FN combined combine_row(batch &b, const lf_attn_cuda_args &p, const lf_attn_cuda_combine &tile, int i,
                               const channels &c)
{
    constexpr int AT_ONCE = PARTS / G < GROUPS ? PARTS / G : GROUPS;
    int n_groups = 1 + max(0, tile.n_parts - tile.n_first + G - 1) / G;
    const float2 *ml = (const float2 *)p.partial_ml + tile.slot + i;
    combined f = {-INFINITY, 0.0f, 0.0f, false};
    for (int group0 = 0; group0 < n_groups; group0 += AT_ONCE) {
        batch_range at = {group0, min(AT_ONCE, n_groups - group0), part_of(tile, group0), 0};
        at.part_end = min(part_of(tile, group0 + at.n_groups), tile.n_parts);
        fetch_rows(b, p, tile.slot + (int64_t)at.part0 * tile.n_rows + i, tile.n_rows, at.part_end - at.part0, c);
        if (at.n_groups <= WARP)
            find_factors<1, G>(b, f, tile, ml, at);
        else
            find_factors<LANE_GROUPS, G>(b, f, tile, ml, at);
        cp_async_wait_group<0>();
        __syncwarp();
        combine_batch<G>(f, b, tile, at);
        __syncwarp();
    }
    return f;
}

template <class T>
LF_GPU_FN void output_row(batch &b, const lf_attn_cuda_args &p, const lf_attn_cuda_combine &tile, const rows_of_task &t,
                          int i, const channels &c)
{
    combined f = tile.n_group == 1 ? combine_row<1>(b, p, tile, i, c) : combine_row<GROUP>(b, p, tile, i, c);
    int head;
    int64_t row = head_row_of(p, t, i, &head);
    int channel = c.first + threadIdx.x % WARP;
    finish_factors end = attn_finish(f.m, f.l, p.sinks ? p.sinks + head : NULL);
    row_place<T> to = place_of_row<T, true>(p, row);
    if (channel < c.end) to.out[channel] = from_float<T>(f.o * end.factor);
    if (to.lse && channel == 0) *to.lse = end.lse;
}

template <class T>
__global__ void __launch_bounds__(WARP)
    attn_combine_decode(const __grid_constant__ lf_attn_cuda_args p, int most_groups)
{
    __shared__ __align__(16) batch b;
    int n_chunks = (p.head_dim + CHANNELS - 1) / CHANNELS;
    start_successor();
    int n_tiles = p.counts->n_combine, n_row_groups = min(p.counts->combine_rows, most_groups);
    int n_items = n_tiles * n_row_groups * n_chunks;
    bool waited = false;
    for (int item = blockIdx.x; item < n_items; item += gridDim.x) {
        int channel0 = item % n_chunks * CHANNELS, row_group = item / n_chunks / n_tiles;
        lf_attn_cuda_combine tile = p.combine[item / n_chunks % n_tiles];
        rows_of_task t = rows_of(p, p.seqs[tile.seq_idx], tile);
        if (!waited) wait_predecessor();
        waited = true;
        for (int i = row_group; i < tile.n_rows; i += n_row_groups)
            output_row<T>(b, p, tile, t, i, {channel0, p.head_dim});
    }
    if (!waited) wait_predecessor();
}

int lf_attn_combine_decode_setup(void)
{
    return load_kernels(attn_combine_decode<bf16>, attn_combine_decode<fp16>);
}

/* Work items for the rows of a tile, at most: of more than ROW_GROUPS CTAs would only queue, unless tiles are few. */
static int most_row_groups(const lf_attn_cuda_args *args, int n_chunks)
{
    return max(CTAS_PER_SM * args->n_sms / (args->max_combine * n_chunks), (int)ROW_GROUPS);
}

int lf_attn_combine_decode(const struct lf_attn_cuda_args *args, void *stream)
{
    if (args->max_combine == 0) return 0;
    int n_chunks = (args->head_dim + CHANNELS - 1) / CHANNELS;
    int most_groups = most_row_groups(args, n_chunks), n_row_groups = max(args->decode_rows, (int)ROW_GROUPS);
    int64_t n_rows = min((int64_t)args->max_combine * min(n_row_groups, most_groups), (int64_t)args->all_combine_rows);
    int64_t n_ctas = max((int64_t)1, min(n_rows * n_chunks, (int64_t)CTAS_PER_SM * args->n_sms));
    return queue_kernel(args->fp16 ? attn_combine_decode<fp16> : attn_combine_decode<bf16>, {(unsigned)n_ctas, WARP},
                        launch_of(args, stream), *args, most_groups);
}
