/* Which experts compute which token (struct lf_route_params): the k largest of each token's logits, and the T·k expert
 * rows sorted by expert, within one by token.
 *
 * Choice. A warp a token, its logits in registers as integers of the same order. In each of k rounds the warp finds
 * the largest, then the lowest expert that has it, and takes that out. NaN counts as minus infinity there, so there are
 * always k different experts; the weights become NaN by themselves.
 *
 * Order. Up to FEW rows: all in one block, where a row's place is the number of rows before it, counted. More: three
 * kernels. The first leaves the choices in `places`; in the second a block an expert counts and collects that expert's
 * rows, each warp from its part of the list; the third turns `rows` round into `places`. Nothing depends on which
 * thread comes first. Bound by latency for few rows, else by reading the list, from L2, E times. CPU twin: route of
 * device/cpu. */
#include <limits.h>

#include "core/limits.h"
#include "device/cuda/launch.cuh"
#include "device/cuda/warp.cuh"

enum {
    THREADS = 1024,
    WARPS = THREADS / WARP,
    FEW = 512,        /* rows of one block */
    CHOOSE_WARPS = 8, /* tokens of a block */
    PLACES_THREADS = 256,
    SLOTS = LF_EXPERTS_PER_TOKEN_N / WARP /* choice j is lane j mod 32's number j / 32 */
};
static_assert((int)SLOTS * (int)WARP == (int)LF_EXPERTS_PER_TOKEN_N && FEW <= THREADS / 2, "lanes and halves");

/* A logit as an integer of the same order: +0 and -0 alike, NaN as minus infinity; 0 is no logit's. */
LF_GPU_FN uint32_t order_of(float x)
{
    uint32_t bits = __float_as_uint(x != x ? -INFINITY : x + 0.0f);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

LF_GPU_FN float logit_of(uint32_t order)
{
    return __uint_as_float(order >> 31 ? order & 0x7fffffffu : ~order);
}

struct choices {
    int expert[SLOTS];
    float weight[SLOTS];
};

/* The softmax's numerators, in place of the logits, and what they are divided by. */
LF_GPU_FN void weigh(choices &c, const lf_route_params &p, float top, float sum_of_all)
{
    float sum = 0.0f;
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        bool is_there = s * WARP + threadIdx.x % WARP < (unsigned)p.k;
        float e = is_there ? expf(c.weight[s] - top) : 0.0f;
        c.weight[s] = p.route == LF_ROUTE_TOPK_SOFTMAX ? e : e / sum_of_all;
        sum += c.weight[s];
    }
    sum = warp_sum(sum);
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        bool is_there = s * WARP + threadIdx.x % WARP < (unsigned)p.k;
        if (p.route != LF_ROUTE_SOFTMAX) c.weight[s] /= sum;
        c.weight[s] *= p.scale;
        if (p.expert_scale != NULL && is_there) c.weight[s] *= p.expert_scale[c.expert[s]];
    }
}

/* By one warp; N · 32 experts at most. */
template <int N> LF_GPU_FN choices choose(const lf_route_params &p, int token)
{
    int lane = threadIdx.x % WARP;
    uint32_t left[N], top = 0;
    bool is_nan = false;
    choices c = {};
    const float *logits = p.logits + (size_t)token * p.n_experts;
#pragma unroll
    for (int i = 0; i < N; i++) {
        int e = i * WARP + lane;
        float x = e < p.n_experts ? logits[e] : 0.0f;
        left[i] = e < p.n_experts ? order_of(x) : 0;
        top = max(top, left[i]);
        is_nan |= x != x;
    }
    top = __reduce_max_sync(ALL_LANES, top);
    float sum = 0.0f;
    if (p.route != LF_ROUTE_TOPK_SOFTMAX) {
#pragma unroll
        for (int i = 0; i < N; i++)
            if (left[i]) sum += expf(logit_of(left[i]) - logit_of(top));
        sum = warp_sum(is_nan ? NAN : sum);
    }
    for (int j = 0; j < p.k; j++) {
        uint32_t best = 0;
        unsigned at = ~0u;
#pragma unroll
        for (int i = 0; i < N; i++) best = max(best, left[i]);
        best = __reduce_max_sync(ALL_LANES, best);
#pragma unroll
        for (int i = N - 1; i >= 0; i--)
            if (left[i] == best) at = i * WARP + lane;
        at = __reduce_min_sync(ALL_LANES, at);
#pragma unroll
        for (int i = 0; i < N; i++)
            if (at == (unsigned)(i * WARP + lane)) left[i] = 0;
#pragma unroll
        for (int s = 0; s < SLOTS; s++)
            if (j == s * WARP + lane) c.expert[s] = (int)at;
    }
#pragma unroll
    for (int s = 0; s < SLOTS; s++) c.weight[s] = logits[c.expert[s]];
    weigh(c, p, logit_of(top), sum);
    return c;
}

/* ---- few rows: one block ---- */

/* Number of the list's entries below x; four at a time, the list is filled up with INT_MAX. */
LF_GPU_FN int count_below(const int4 *list, int n, int x)
{
    int below = 0;
#pragma unroll 4
    for (int i = 0; i < (n + 3) / 4; i++) {
        int4 four = list[i];
        below += (four.x < x) + (four.y < x) + (four.z < x) + (four.w < x);
    }
    return below;
}

template <int N> __global__ void __launch_bounds__(THREADS) route_few(const __grid_constant__ lf_route_params p)
{
    __shared__ int4 list[FEW / 4]; /* expert · FEW + row before sorting: all different, in the order wanted */
    int lane = threadIdx.x % WARP, n = p.n_tokens * p.k, i = threadIdx.x;
    start_successor();
    if (i < FEW) ((int *)list)[i] = INT_MAX;
    __syncthreads();
    wait_predecessor();
    for (int token = threadIdx.x / WARP; token < p.n_tokens; token += WARPS) {
        choices c = choose<N>(p, token);
#pragma unroll
        for (int s = 0; s < SLOTS; s++) {
            int at = token * p.k + s * WARP + lane;
            if (s * WARP + lane >= p.k) continue;
            p.weights[at] = c.weight[s];
            ((int *)list)[at] = c.expert[s] * FEW + at;
        }
    }
    __syncthreads();
    for (int e = i - FEW; i >= FEW && e <= p.n_experts; e += THREADS - FEW) p.first[e] = count_below(list, n, e * FEW);
    if (i < n) {
        int place = count_below(list, n, ((int *)list)[i]);
        p.places[i] = place;
        p.rows[place] = i;
    }
}

/* ---- more ---- */

template <int N>
__global__ void __launch_bounds__(CHOOSE_WARPS *WARP) route_choose(const __grid_constant__ lf_route_params p)
{
    int lane = threadIdx.x % WARP, token = blockIdx.x * CHOOSE_WARPS + threadIdx.x / WARP;
    start_successor();
    wait_predecessor();
    if (token >= p.n_tokens) return;
    choices c = choose<N>(p, token);
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        int at = token * p.k + s * WARP + lane;
        if (s * WARP + lane >= p.k) continue;
        p.weights[at] = c.weight[s];
        p.places[at] = c.expert[s];
    }
}

/* Block e: rows and first of expert e. */
__global__ void __launch_bounds__(THREADS) route_sort(const __grid_constant__ lf_route_params p)
{
    __shared__ int below[WARPS], own[WARPS];
    int e = blockIdx.x, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, n = p.n_tokens * p.k;
    int part = (n + THREADS - 1) / THREADS * WARP, begin = min(warp * part, n), end = min(begin + part, n);
    start_successor();
    wait_predecessor();
    int n_below = 0, n_own = 0;
#pragma unroll 8
    for (int i = begin + lane; i < end; i += WARP) {
        int expert = p.places[i];
        n_below += expert < e;
        n_own += expert == e;
    }
    n_below = __reduce_add_sync(ALL_LANES, n_below);
    n_own = __reduce_add_sync(ALL_LANES, n_own);
    if (lane == 0) {
        below[warp] = n_below;
        own[warp] = n_own;
    }
    __syncthreads();
    int first = __reduce_add_sync(ALL_LANES, below[lane]), at = first;
    at += __reduce_add_sync(ALL_LANES, lane < warp ? own[lane] : 0);
    if (threadIdx.x == 0) {
        p.first[e] = first;
        if (e == p.n_experts - 1) p.first[p.n_experts] = n;
    }
    if (n_own == 0) return;
#pragma unroll 4
    for (int base = begin; base < end; base += WARP) {
        bool is_own = base + lane < end && p.places[base + lane] == e;
        unsigned owners = __ballot_sync(ALL_LANES, is_own);
        if (is_own) p.rows[at + __popc(owners & ((1u << lane) - 1))] = base + lane;
        at += __popc(owners);
    }
}
static_assert((int)WARPS == (int)WARP, "a lane a warp");

__global__ void __launch_bounds__(PLACES_THREADS) route_places(const __grid_constant__ lf_route_params p)
{
    int i = blockIdx.x * PLACES_THREADS + threadIdx.x;
    start_successor();
    wait_predecessor();
    if (i < p.n_tokens * p.k) p.places[p.rows[i]] = i;
}

/* ---- host ---- */

typedef void route_kernel(const lf_route_params);

struct route_entry {
    int n_experts; /* at most */
    route_kernel *few, *choose;
};

#define ENTRY(n)                                                                                                       \
    {                                                                                                                  \
        n *WARP, route_few<n>, route_choose<n>                                                                         \
    }
static const route_entry entries[] = {ENTRY(1), ENTRY(2), ENTRY(4), ENTRY(8), ENTRY(16), ENTRY(LF_EXPERTS_N / WARP)};

int lf_cuda_route_setup(void)
{
    int rc = load_kernels(route_sort, route_places);
    for (const route_entry &entry : entries)
        if (rc == 0) rc = load_kernels(entry.few, entry.choose);
    return rc;
}

int lf_cuda_route(const struct lf_route_params *p, struct lf_cuda_launch how)
{
    const route_entry *entry = entries;
    while (entry->n_experts < p->n_experts) entry++;
    int n = p->n_tokens * p->k;
    if (n <= FEW) return queue_kernel(entry->few, {1, THREADS}, how, *p);
    int rc = queue_kernel(entry->choose, {blocks_for(p->n_tokens, CHOOSE_WARPS), CHOOSE_WARPS * WARP}, how, *p);
    if (rc == 0) rc = queue_kernel(route_sort, {(unsigned)p->n_experts, THREADS}, how, *p);
    return rc == 0 ? queue_kernel(route_places, {blocks_for(n, PLACES_THREADS), PLACES_THREADS}, how, *p) : rc;
}
