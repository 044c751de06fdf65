/* Collectives of GPUs that reach each other's memory. Sums run over ranks from 0 on, in all kernels: a row's bits do
 * not depend on the message's size.
 *
 *     pushed       each rank stores what it has into all others' memory, in packets that say their turn, so that the
 *                  data is its own flag: one way over the link, no barrier. Twice the bytes.        few floats
 *     in pieces    write a piece into one's own memory; round; read the others': of an all-reduce each rank adds up its
 *                  part of the piece, and lets the others read that behind another round.          many
 *     in flight    in pieces, of which the next is on its way while one is read (in_flight).           a gather's
 *
 * Two buffers by turns, as among CPUs (cpu/comm_cpu.c): who writes one again has, in the turn between, heard of
 * everybody what they sent behind reading it. Turns are counted in device memory, so a kernel may be in a graph.
 *
 * Work split: blocks are independent of each other, and each waits for those of its number only. They are started in
 * order on every GPU, so the least that is not done is running everywhere, and a grid need not fit. Nobody waits for
 * ever: who has waited timeout_ns, or is told by the host, notes for whom, and all kernels behind it return at once.
 * Bound by the link: latency where there is little, its bandwidth where there is much. CPU twin: cpu/comm_cpu.c. */
#include "device/cuda/peer.h"

#include "device/cuda/elem.cuh"
#include "device/cuda/launch.cuh"
#include "device/cuda/peer.cuh"
#include "device/cuda/warp.cuh"

enum { FEW_THREADS = 128, FEW_FLOATS = 4 /* of a thread */ };
enum { GATHER_BYTES = 32 * 1024 /* of a piece */ };
static_assert((int)GATHER_BYTES <= LF_PEER_PIECE_BYTES, "pieces fit in slots");
static_assert((int)LF_PEER_NORM_FLOATS <= LF_PEER_BLOCKS * FEW_THREADS * FEW_FLOATS, "blocks have counts");
static_assert(FEW_THREADS * FEW_FLOATS / 2 == PACKETS_A_BLOCK, "each block has packets of its own");
static_assert(LF_PEER_FEW_FLOATS <= LF_PEER_NORM_FLOATS, "what there is room for");

/* ---- pushed ---- */

struct few_args {
    lf_peers peers;
    float *y;
    const float *x, *residual;
    int n;
    bool is_vector; /* all of it in sixteen bytes */
    lf_fused_norm norm;
    int width;
};

/* Four floats from `at` on; those behind the end are 0. */
LF_GPU_FN float4 load_four(const float *x, int at, int n, bool is_vector)
{
    if (is_vector) return *(const float4 *)(x + at);
    return make_float4(x[at], at + 1 < n ? x[at + 1] : 0.0f, at + 2 < n ? x[at + 2] : 0.0f,
                       at + 3 < n ? x[at + 3] : 0.0f);
}

LF_GPU_FN void store_four(float *y, int at, int n, bool is_vector, float4 v)
{
    if (is_vector) {
        *(float4 *)(y + at) = v;
        return;
    }
    y[at] = v.x;
    if (at + 1 < n) y[at + 1] = v.y;
    if (at + 2 < n) y[at + 2] = v.z;
    if (at + 3 < n) y[at + 3] = v.w;
}

LF_GPU_FN void push(uint4 *packets, int unit, float4 v, uint32_t turn)
{
    st_volatile_v4(packets + 2 * unit, make_uint4(__float_as_uint(v.x), turn, __float_as_uint(v.y), turn));
    st_volatile_v4(packets + 2 * unit + 1, make_uint4(__float_as_uint(v.z), turn, __float_as_uint(v.w), turn));
}

/* *v: what the rank has pushed for this unit. */
LF_GPU_FN bool take(const few_args &a, int from, int unit, uint32_t turn, float4 *v)
{
    const uint4 *packets = packets_of(a.peers, a.peers.rank, from, turn) + 2 * unit;
    uint4 low, high;
    bool is_there = wait_until(a.peers, from, [&] {
        low = ld_volatile_v4(packets);
        high = ld_volatile_v4(packets + 1);
        return has_come(low, turn) && has_come(high, turn);
    });
    *v = make_float4(__uint_as_float(low.x), __uint_as_float(low.z), __uint_as_float(high.x), __uint_as_float(high.z));
    return is_there;
}

LF_GPU_FN float4 operator+(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/* y ∘ weight, and the row sum of squares of y in parts, to which neighbouring lanes contribute. All lanes call it. */
LF_GPU_FN void write_norm(const few_args &a, int at, bool is_own, float4 y)
{
    float squares = is_own ? y.x * y.x + y.y * y.y + y.z * y.z + y.w * y.w : 0.0f;
    squares = lanes_reduce<LF_NORM_PART / FEW_FLOATS>(squares, [](float s, float t) { return s + t; });
    if (!is_own) return;
    int row = at / a.width, column = at % a.width;
    float4 w = __ldg((const float4 *)(a.norm.weight + column));
    *(uint2 *)((bf16 *)a.norm.h + at) = make_uint2(pack<bf16>(y.x * w.x, y.y * w.y), pack<bf16>(y.z * w.z, y.w * w.w));
    if (column % LF_NORM_PART == 0)
        a.norm.sum_squares[(size_t)row * (a.width / LF_NORM_PART) + column / LF_NORM_PART] = squares;
}

template <bool HAS_NORM> __global__ void __launch_bounds__(FEW_THREADS) reduce_few(const __grid_constant__ few_args a)
{
    start_successor();
    wait_predecessor();
    const lf_peers &p = a.peers;
    int unit = blockIdx.x * FEW_THREADS + threadIdx.x, at = unit * FEW_FLOATS;
    uint32_t *count = &own(p)->counts[blockIdx.x].few, turn = turn_after(*count);
    bool is_own = at < a.n && !has_stopped(p);
    float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f), sum = x, y = x;
    if (is_own) {
        x = load_four(a.x, at, a.n, a.is_vector);
        for (int r = 0; r < p.n_ranks; r++)
            if (r != p.rank) push(packets_of(p, r, p.rank, turn), unit, x, turn);
        if (a.residual) y = load_four(a.residual, at, a.n, a.is_vector);
    }
    for (int r = 0; r < p.n_ranks && is_own; r++) {
        float4 v = x;
        if (r != p.rank) is_own = take(a, r, unit, turn, &v);
        sum = r == 0 ? v : sum + v;
    }
    if (is_own) {
        y = a.residual ? y + sum : sum;
        store_four(a.y, at, a.n, a.is_vector, y);
    }
    if (HAS_NORM) write_norm(a, at, is_own, y);
    __syncthreads(); /* all have read the count */
    if (threadIdx.x == 0) *count = turn;
}

/* ---- in pieces ---- */

struct many_args {
    lf_peers peers;
    float *y;
    const float *x, *residual;
    size_t n_units; /* float4s, or floats */
};

/* A rank's part of n units of a piece. */
struct part {
    int first, end;
};

LF_GPU_FN part part_of(int n, int rank, int n_ranks)
{
    int each = (n + n_ranks - 1) / n_ranks, first = min(n, rank * each);
    return {first, min(n, first + each)};
}

/* Adds up this rank's part. Loads of all ranks are in flight before the first is used. */
template <class V, int N> LF_GPU_FN void add_part(const many_args &a, size_t at, int n, uint32_t piece)
{
    const lf_peers &p = a.peers;
    const V *x = (const V *)a.x + at, *residual = (const V *)a.residual + at;
    V *y = (V *)a.y + at, *mine = piece_of<V>(p, p.rank, piece);
    const V *from[N];
#pragma unroll
    for (int r = 0; r < N; r++) from[r] = r == p.rank ? x : piece_of<V>(p, r, piece);
    part own_part = part_of(n, p.rank, N);
    for_each(own_part.first, own_part.end, [&](int i) {
        V v[N];
#pragma unroll
        for (int r = 0; r < N; r++) v[r] = __ldcg(from[r] + i);
        V sum = v[0];
#pragma unroll
        for (int r = 1; r < N; r++) sum = sum + v[r];
        if (a.residual) sum = residual[i] + sum;
        y[i] = sum;
        mine[i] = sum;
    });
}

/* N: ranks. */
template <class V, int N>
__global__ void __launch_bounds__(PIECE_THREADS) reduce_many(const __grid_constant__ many_args a)
{
    enum { PIECE = LF_PEER_PIECE_BYTES / sizeof(V) };
    start_successor();
    wait_predecessor();
    const lf_peers &p = a.peers;
    lf_peer_counts *counts = &own(p)->counts[blockIdx.x];
    uint32_t round = counts->round, piece = counts->piece;
    share s = share_of(a.n_units);
    if (__syncthreads_or(has_stopped(p))) return;
    for (size_t at = s.begin; at < s.end; at += PIECE, piece++) {
        int n = (int)min((size_t)PIECE, s.end - at);
        V *mine = piece_of<V>(p, p.rank, piece), *y = (V *)a.y + at;
        const V *x = (const V *)a.x + at;
        part own_part = part_of(n, p.rank, N);
        for_each(0, own_part.first, [&](int i) { mine[i] = x[i]; });
        for_each(own_part.end, n, [&](int i) { mine[i] = x[i]; });
        if (!meet(p, ++round)) return;
        add_part<V, N>(a, at, n, piece);
        if (!meet(p, ++round)) return;
#pragma unroll
        for (int r = 0; r < N; r++) {
            part theirs = part_of(n, r, N);
            const V *from = piece_of<V>(p, r, piece);
            if (r != p.rank) for_each(theirs.first, theirs.end, [&](int i) { y[i] = __ldcg(from + i); });
        }
    }
    if (threadIdx.x != 0) return;
    counts->round = round;
    counts->piece = piece;
}

struct gather_args {
    lf_peers peers;
    void *out;
    const void *x;
    uint32_t first[LF_RANKS_N + 1]; /* in units */
    uint32_t n_rows, longest;       /* longest: of the ranks' parts, in units */
};

/* Rows of a rank as they are in its x: a unit's place there, and in out. */
struct columns {
    uint32_t first, width, n;
};

LF_GPU_FN columns columns_of(const gather_args &a, int rank)
{
    uint32_t width = a.first[rank + 1] - a.first[rank];
    return {a.first[rank], width, a.n_rows * width};
}

template <class W> LF_GPU_FN void place(const gather_args &a, const columns &c, uint32_t idx, W v)
{
    uint32_t row = idx / c.width, column = idx % c.width;
    ((W *)a.out)[(size_t)row * a.first[a.peers.n_ranks] + c.first + column] = v;
}

/* This rank's, where others read it. */
template <class W> LF_GPU_FN void show_own(const gather_args &a, const slot &s)
{
    const W *x = (const W *)a.x + s.begin;
    W *mine = slot_of<W>(a.peers, a.peers.rank, s);
    int n = (int)min(s.end, (size_t)columns_of(a, a.peers.rank).n) - (int)s.begin;
    copy_each(
        n, [&](int i) { return x[i]; }, [&](int i, W v) { mine[i] = v; });
}

template <class W> LF_GPU_FN void place_own(const gather_args &a, const slot &s)
{
    const W *x = (const W *)a.x;
    columns c = columns_of(a, a.peers.rank);
    uint32_t at = (uint32_t)s.begin;
    copy_each((int)min(s.end, (size_t)c.n) - (int)at, [&](int i) { return x[at + i]; },
              [&](int i, W v) { place(a, c, at + i, v); });
}

/* All others' in one list, so that loads of several are in flight. */
template <class W> LF_GPU_FN void place_others(const gather_args &a, const slot &s)
{
    const lf_peers &p = a.peers;
    uint32_t at = (uint32_t)s.begin, length = (uint32_t)(s.end - s.begin);
    copy_each((int)length * (p.n_ranks - 1),
              [&](int i) {
                  int r = other_rank(p, i / length, p.n_ranks);
                  return at + i % length < columns_of(a, r).n ? __ldcg(slot_of<W>(p, r, s) + i % length) : W{};
              },
              [&](int i, W v) {
                  columns c = columns_of(a, other_rank(p, i / length, p.n_ranks));
                  if (at + i % length < c.n) place(a, c, at + i % length, v);
              });
}

/* W: a unit. */
template <class W>
__global__ void __launch_bounds__(PIECE_THREADS, PIECE_BLOCKS_AN_SM) gather_all(const __grid_constant__ gather_args a)
{
    start_successor();
    wait_predecessor();
    in_flight(
        a.peers, share_of(a.longest), GATHER_BYTES / sizeof(W), [&](const slot &s) { show_own<W>(a, s); },
        [&](const slot &s) { place_own<W>(a, s); }, [&](const slot &s) { place_others<W>(a, s); });
}

/* ---- host ---- */

typedef void many_kernel(const many_args);

template <class V> static many_kernel *many_for(int n_ranks)
{
    static many_kernel *const of[] = {reduce_many<V, 2>, reduce_many<V, 3>, reduce_many<V, 4>, reduce_many<V, 5>,
                                      reduce_many<V, 6>, reduce_many<V, 7>, reduce_many<V, 8>};
    return of[n_ranks - 2];
}

int lf_cuda_peer_setup(void)
{
    int rc =
        load_kernels(reduce_few<true>, reduce_few<false>, gather_all<uint4>, gather_all<uint32_t>, gather_all<uint8_t>);
    for (int n = 2; n <= LF_GPU_RANKS_N && rc == 0; n++) rc = load_kernels(many_for<float4>(n), many_for<float>(n));
    return rc;
}

int lf_cuda_peer_all_reduce(const struct lf_peers *peers, const struct lf_all_reduce_params *p,
                            struct lf_cuda_launch how)
{
    if (p->n == 0) return 0;
    size_t addresses = (size_t)p->y | (size_t)p->x | (size_t)p->residual;
    bool is_vector = (addresses | p->n * sizeof(float)) % sizeof(float4) == 0;
    if (p->n <= LF_PEER_FEW_FLOATS || p->norm.h) {
        few_args args = {*peers, p->y, p->x, p->residual, (int)p->n, is_vector, p->norm, p->width};
        unsigned n_blocks = blocks_for((int64_t)p->n, FEW_THREADS * FEW_FLOATS);
        return queue_kernel(p->norm.h ? reduce_few<true> : reduce_few<false>, {n_blocks, FEW_THREADS}, how, args);
    }
    many_args args = {*peers, p->y, p->x, p->residual, is_vector ? p->n / 4 : p->n};
    auto kernel = is_vector ? many_for<float4>(peers->n_ranks) : many_for<float>(peers->n_ranks);
    return queue_kernel(kernel, {piece_blocks(p->n * sizeof(float)), PIECE_THREADS}, how, args);
}

size_t lf_cuda_peer_gather_unit(const struct lf_peers *peers, const struct lf_all_gather_params *p)
{
    size_t all = (size_t)p->out | (size_t)p->x;
    for (int r = 0; r <= peers->n_ranks; r++) all |= p->first[r];
    return all % sizeof(uint4) == 0 ? sizeof(uint4) : all % sizeof(uint32_t) == 0 ? sizeof(uint32_t) : 1;
}

int lf_cuda_peer_all_gather(const struct lf_peers *peers, const struct lf_all_gather_params *p,
                            struct lf_cuda_launch how)
{
    size_t unit = lf_cuda_peer_gather_unit(peers, p);
    gather_args args = {*peers, p->out, p->x, {}, (uint32_t)p->n_rows, 0};
    for (int r = 0; r <= peers->n_ranks; r++) args.first[r] = (uint32_t)(p->first[r] / unit);
    for (int r = 0; r < peers->n_ranks; r++)
        args.longest = max(args.longest, args.n_rows * (args.first[r + 1] - args.first[r]));
    auto kernel = unit == sizeof(uint4)      ? gather_all<uint4>
                  : unit == sizeof(uint32_t) ? gather_all<uint32_t>
                                             : gather_all<uint8_t>;
    return queue_kernel(kernel, {piece_blocks(args.longest * unit), PIECE_THREADS}, how, args);
}
