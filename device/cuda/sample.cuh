/* What sampling is made of: numbers and their order, sums over a cluster, a walk over a row's logits. For sample.cu,
 * whose head says how they come together. */
#ifndef LF_DEVICE_CUDA_SAMPLE_CUH
#define LF_DEVICE_CUDA_SAMPLE_CUH

#include <float.h>

#include "core/mix.h"
#include "device/cuda/launch.cuh"
#include "device/cuda/ptx_cluster.cuh"
#include "device/cuda/warp.cuh"

enum {
    THREADS = 512,
    WARPS = THREADS / WARP,
    BLOCKS = 8,  /* of a cluster */
    SPLITS = 8,  /* of an interval */
    LIST = 1024, /* candidates that are sorted */
    UNROLL = 8,
    LOCAL_BYTES = 80 * 1024 /* of logits in shared memory at most */
};
static_assert(LIST == 2 * THREADS, "a thread scans two");

static const float PROB_ONE = 2199023255552.0f; /* 2^41, what P = 1 counts as: the sum of 2^22 fits */
static const float LOGPROB_FLOOR = -9999.0f, GREEDY_TEMPERATURE = 1e-5f;
static const uint32_t COUNT_IN_PROMPT = 0x80000000u;

struct sample_shared {
    uint64_t list[LIST];
    uint64_t warp_part[WARPS][SPLITS + 1];
    uint64_t part[2][SPLITS + 1]; /* of the block, by turns: a neighbour may still read the other */
    uint64_t total[SPLITS + 1];   /* of the cluster */
    uint64_t best[WARPS];         /* of each warp: its largest candidate, -0 as 0 */
    uint64_t bests[BLOCKS * WARPS];
    uint64_t answer; /* of the leader */
    unsigned n_list, found;
    int32_t bias_ids[LF_LOGIT_BIAS_N];
};

/* What all threads of a row know. */
struct row_work {
    sample_shared *s;
    float *logits; /* of the row */
    float *values; /* the block's part of them, [id - base]: in shared memory, or where logits are */
    int n_vocab;
    int base;       /* the block's first id */
    int first, end; /* of this warp's segment, end not past n_vocab */
    int turn;       /* of part[] */
    float max, low; /* the largest logit and the least that is finite */
    float inv_t;
};

/* ---- numbers ---- */

LF_GPU_FN float sane(float x)
{
    if (!(x >= -FLT_MAX)) return -INFINITY; /* NaN too */
    return x > FLT_MAX ? FLT_MAX : x;
}

/* Falling order of candidates. bare_zero: -0 counts as 0. */
LF_GPU_FN uint64_t rank_of(float x, int id, bool bare_zero)
{
    uint32_t bits = __float_as_uint(bare_zero ? __fadd_rn(x, 0.0f) : x);
    uint32_t key = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (uint64_t)key << 32 | (uint32_t)~id;
}

LF_GPU_FN float logit_of(uint64_t rank)
{
    uint32_t key = (uint32_t)(rank >> 32);
    return __uint_as_float(key & 0x80000000u ? key & ~0x80000000u : ~key);
}

LF_GPU_FN int id_of(uint64_t rank)
{
    return (int)~(uint32_t)rank;
}

/* e^((x - max) · inv_t), at most 1: the operations of exp_lanes() in model/sampler.c. */
LF_GPU_FN float prob_of(float x, float max, float inv_t)
{
    const float magic = 12582912.0f;
    float in = __fmul_rn(__fsub_rn(x, max), inv_t);
    float t = __fmul_rn(in > -88.1f ? in : -88.1f, 1.44269504f);
    float whole = __fsub_rn(__fadd_rn(t, magic), magic), f = __fsub_rn(t, whole);
    float p = 1.5403530e-4f;
    p = __fadd_rn(__fmul_rn(p, f), 1.3333558e-3f);
    p = __fadd_rn(__fmul_rn(p, f), 9.6181291e-3f);
    p = __fadd_rn(__fmul_rn(p, f), 5.5504109e-2f);
    p = __fadd_rn(__fmul_rn(p, f), 2.4022651e-1f);
    p = __fadd_rn(__fmul_rn(p, f), 6.9314718e-1f);
    p = __fadd_rn(__fmul_rn(p, f), 1.0f);
    return __fmul_rn(p, __uint_as_float((uint32_t)((int)whole + 127) << 23));
}

LF_GPU_FN uint64_t fixed_of(float prob)
{
    return __float2ull_rn(prob * PROB_ONE);
}

LF_GPU_FN float floored(double logprob)
{
    return logprob >= (double)LOGPROB_FLOOR ? (float)logprob : LOGPROB_FLOOR;
}

/* ---- reductions ---- */

struct reduce_sum {
    LF_GPU_MEMBER static uint64_t of(uint64_t a, uint64_t b)
    {
        return a + b;
    }
};

struct reduce_max {
    LF_GPU_MEMBER static uint64_t of(uint64_t a, uint64_t b)
    {
        return a > b ? a : b;
    }
};

template <class J> LF_GPU_FN uint64_t reduce_warp(uint64_t x)
{
    return lanes_reduce<WARP>(x, J::of);
}

/* What each warp has put into warp_part[], N values, reduced over the cluster into total[]. */
template <class J, int N> LF_GPU_FN void reduce_cluster(row_work &r)
{
    sample_shared *s = r.s;
    __syncthreads();
    uint64_t *part = s->part[r.turn];
    r.turn = 1 - r.turn;
    if (threadIdx.x < N) {
        uint64_t x = s->warp_part[0][threadIdx.x];
#pragma unroll
        for (int w = 1; w < WARPS; w++) x = J::of(x, s->warp_part[w][threadIdx.x]);
        part[threadIdx.x] = x;
    }
    barrier_cluster();
    if (threadIdx.x < N) {
        uint64_t x[BLOCKS];
#pragma unroll
        for (unsigned b = 0; b < BLOCKS; b++) x[b] = b < cluster_nctarank() ? mapa(part, b)[threadIdx.x] : 0;
#pragma unroll
        for (unsigned b = 1; b < BLOCKS; b++) x[0] = J::of(x[0], x[b]); /* 0 changes neither sum nor maximum */
        s->total[threadIdx.x] = x[0];
    }
    __syncthreads();
}

/* Eight sums of 32 lanes at a time: in each of three steps a lane gives half of its values away and adds what it gets
 * for the rest. Into warp_part[warp][0 .. 7]. */
LF_GPU_FN void store_eight_sums(sample_shared *s, uint64_t v[SPLITS])
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int half = SPLITS / 2, mask = WARP / 2; half > 0; half /= 2, mask /= 2) {
        bool upper = lane & mask;
#pragma unroll
        for (int i = 0; i < SPLITS / 2; i++) {
            if (i >= half) continue;
            uint64_t give = upper ? v[i] : v[i + half], keep = upper ? v[i + half] : v[i];
            v[i] = keep + __shfl_xor_sync(ALL_LANES, give, mask);
        }
    }
    uint64_t sum = v[0];
    sum += __shfl_xor_sync(ALL_LANES, sum, 2);
    sum += __shfl_xor_sync(ALL_LANES, sum, 1);
    if (lane % 4 == 0) s->warp_part[threadIdx.x / WARP][lane / 4] = sum;
}

/* The same sum in all threads of the cluster. */
LF_GPU_FN uint64_t sum_cluster(row_work &r, uint64_t x)
{
    x = reduce_warp<reduce_sum>(x);
    if (threadIdx.x % WARP == 0) r.s->warp_part[threadIdx.x / WARP][0] = x;
    reduce_cluster<reduce_sum, 1>(r);
    return r.s->total[0];
}

/* ---- passes ---- */

/* Calls visit(id, x[id]) for each of the lane's ids, in rising order; eight loads are under way at a time. x begins at
 * the block's first id. */
template <class V> LF_GPU_FN void visit_part(const row_work &r, const float *part, V visit)
{
    for (int base = r.first + threadIdx.x % WARP; base < r.end; base += UNROLL * WARP) {
        float x[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; i++)
            if (base + i * WARP < r.end) x[i] = part[base + i * WARP - r.base];
#pragma unroll
        for (int i = 0; i < UNROLL; i++)
            if (base + i * WARP < r.end) visit(base + i * WARP, x[i]);
    }
}

/* Of the logits as prepare() leaves them. */
template <class V> LF_GPU_FN void visit_logits(const row_work &r, V visit)
{
    visit_part(r, r.values, visit);
}

#endif
