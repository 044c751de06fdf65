/* Attention of which each GPU has some keys (struct lf_lse_combine_params), combined over what they open to each other.
 *
 *     pushed       few rows, which all get: each rank stores eight channels and their head's lse into all others'
 *                  memory, in three packets that are their own flags (peer.cu): one way over the link
 *     in pieces    each rank writes a part of its rows into the memory of who gets them, their owner or everybody,
 *                  where there is such a part for each rank; round; whoever got them combines
 *
 *     here         attention has written its rows to who gets them by itself (lf_comm_peer): the blocks meet once, and
 *                  each rank combines what it has
 *
 * A piece is written by others here, while those before it are on their way or combined (in_flight): whoever writes has
 * met everybody since they last read what was there.
 *
 * The order of a head's sums is that of ranks in both, and so are its roundings: the fused multiply-adds are written
 * out. Work split: a thread has eight channels of a head. Bound by the link. CPU twin: cpu/comm_cpu.c. */
#include "device/cuda/elem.cuh"
#include "device/cuda/launch.cuh"
#include "device/cuda/peer.cuh"

enum {
    FEW_THREADS = 64,
    ELEMS = 8,        /* of a thread: a unit */
    UNIT_PACKETS = 3, /* and room for a fourth */
    X_BYTES = 2       /* of an element */
};
static_assert(FEW_THREADS * (UNIT_PACKETS + 1) == PACKETS_A_BLOCK, "each block has packets of its own");
static_assert((int)LF_PEER_COMBINE_ELEMS <= LF_PEER_BLOCKS * FEW_THREADS * ELEMS, "blocks have counts and packets");

struct combine_args {
    lf_peers peers;
    uint4 *out;
    const uint4 *x;
    const float *lse;
    int head_units;                   /* of a head */
    int n_units;                      /* few: of all rows; here: of own rows */
    int first[LF_GPU_RANKS_N + 1];    /* pieces: heads before those that a rank gets */
    int end[LF_GPU_RANKS_N];          /* and behind them */
    int longest, n_heads, part_bytes; /* of the ranks' heads; of a part, at most */
};

/* A unit of all ranks. */
template <int N> struct parts {
    uint4 x[N];
    float lse[N];
};

/* Nothing of those is looked at that saw no key. */
template <class T, int N> LF_GPU_FN uint4 combine(const parts<N> &p)
{
    float most = -INFINITY, sum = 0.0f, out[ELEMS] = {};
#pragma unroll
    for (int r = 0; r < N; r++) most = fmaxf(most, p.lse[r]);
#pragma unroll
    for (int r = 0; r < N; r++) {
        if (p.lse[r] == -INFINITY) continue;
        float weight = expf(p.lse[r] - most);
        const uint32_t words[] = {p.x[r].x, p.x[r].y, p.x[r].z, p.x[r].w};
        sum += weight;
#pragma unroll
        for (int k = 0; k < ELEMS / 2; k++) {
            float2 x = unpack<T>(words[k]);
            out[2 * k] = __fmaf_rn(weight, x.x, out[2 * k]);
            out[2 * k + 1] = __fmaf_rn(weight, x.y, out[2 * k + 1]);
        }
    }
    float by = sum != 0.0f ? sum : 1.0f; /* of no keys out is 0 */
#pragma unroll
    for (int k = 0; k < ELEMS; k++) out[k] /= by;
    return make_uint4(pack<T>(out[0], out[1]), pack<T>(out[2], out[3]), pack<T>(out[4], out[5]),
                      pack<T>(out[6], out[7]));
}

/* ---- pushed ---- */

/* Where a rank's packets of this thread begin, in the memory of some rank; from one to the next: FEW_THREADS. */
LF_GPU_FN uint4 *packets_here(const lf_peers &p, int where, int from, uint32_t turn)
{
    return packets_of(p, where, from, turn) + blockIdx.x * PACKETS_A_BLOCK + threadIdx.x;
}

LF_GPU_FN void push(uint4 *packets, const uint4 &x, float lse, uint32_t turn)
{
    st_volatile_v4(packets, make_uint4(x.x, turn, x.y, turn));
    st_volatile_v4(packets + FEW_THREADS, make_uint4(x.z, turn, x.w, turn));
    st_volatile_v4(packets + 2 * FEW_THREADS, make_uint4(__float_as_uint(lse), turn, 0, turn));
}

LF_GPU_FN bool take(const lf_peers &p, int from, uint32_t turn, uint4 *x, float *lse)
{
    const uint4 *packets = packets_here(p, p.rank, from, turn);
    uint4 low, high, last;
    bool is_there = wait_until(p, from, [&] {
        low = ld_volatile_v4(packets);
        high = ld_volatile_v4(packets + FEW_THREADS);
        last = ld_volatile_v4(packets + 2 * FEW_THREADS);
        return has_come(low, turn) && has_come(high, turn) && has_come(last, turn);
    });
    *x = make_uint4(low.x, low.z, high.x, high.z);
    *lse = __uint_as_float(last.x);
    return is_there;
}

template <class T, int N>
__global__ void __launch_bounds__(FEW_THREADS) combine_few(const __grid_constant__ combine_args a)
{
    start_successor();
    wait_predecessor();
    const lf_peers &p = a.peers;
    int unit = blockIdx.x * FEW_THREADS + threadIdx.x;
    uint32_t *count = &own(p)->counts[blockIdx.x].few, turn = turn_after(*count);
    bool is_own = unit < a.n_units && !has_stopped(p);
    parts<N> of = {};
    if (is_own) {
        uint4 x = a.x[unit];
        float lse = a.lse[unit / a.head_units];
        for (int r = 0; r < N; r++)
            if (r != p.rank) push(packets_here(p, r, p.rank, turn), x, lse, turn);
#pragma unroll
        for (int r = 0; r < N; r++) {
            of.x[r] = x;
            of.lse[r] = lse;
            if (r != p.rank && is_own) is_own = take(p, r, turn, &of.x[r], &of.lse[r]);
        }
    }
    if (is_own) a.out[unit] = combine<T, N>(of);
    __syncthreads(); /* all have read the count */
    if (threadIdx.x == 0) *count = turn;
}

/* ---- in pieces ---- */

/* What a rank writes in a slot for the one in whose memory it is: heads, and their lse behind them. */
LF_GPU_FN uint4 *part_of(const combine_args &a, int where, int from, const slot &s)
{
    return (uint4 *)(slot_of<char>(a.peers, where, s) + from * a.part_bytes);
}

LF_GPU_FN float *lse_of_part(const combine_args &a, uint4 *part)
{
    return (float *)(part + a.n_heads * a.head_units);
}

/* How many of a rank's heads a slot has. */
LF_GPU_FN int n_heads_of(const combine_args &a, int rank, const slot &s)
{
    size_t n = a.end[rank] - a.first[rank];
    return n > s.begin ? (int)(min(s.end, n) - s.begin) : 0;
}

/* This rank's, of heads that the others get: all of them in one list, so that loads for several are in flight. */
template <int N> LF_GPU_FN void write_parts(const combine_args &a, const slot &s)
{
    const lf_peers &p = a.peers;
    int length = (int)(s.end - s.begin), units = length * a.head_units;
    for_each(0, length * (N - 1), [&](int i) {
        int to = other_rank(p, i / length, N), head = i % length;
        if (head < n_heads_of(a, to, s))
            lse_of_part(a, part_of(a, to, p.rank, s))[head] = a.lse[a.first[to] + s.begin + head];
    });
    copy_each(
        units * (N - 1),
        [&](int i) {
            int to = other_rank(p, i / units, N), unit = i % units;
            bool is_there = unit < n_heads_of(a, to, s) * a.head_units;
            return is_there ? a.x[(a.first[to] + s.begin) * a.head_units + unit] : uint4{};
        },
        [&](int i, uint4 x) {
            int to = other_rank(p, i / units, N), unit = i % units;
            if (unit < n_heads_of(a, to, s) * a.head_units) part_of(a, to, p.rank, s)[unit] = x;
        });
}

template <class T, int N> LF_GPU_FN void combine_own(const combine_args &a, const slot &s)
{
    int n = n_heads_of(a, a.peers.rank, s);
    size_t head = a.first[a.peers.rank] + s.begin;
    const uint4 *x = a.x + head * a.head_units;
    uint4 *out = a.out + s.begin * a.head_units;
    for_each(0, n * a.head_units, [&](int i) {
        parts<N> of;
#pragma unroll
        for (int r = 0; r < N; r++) {
            uint4 *part = part_of(a, a.peers.rank, r, s);
            bool is_own = r == a.peers.rank;
            of.x[r] = __ldcg(is_own ? x + i : part + i);
            of.lse[r] = __ldcg((is_own ? a.lse + head : lse_of_part(a, part)) + i / a.head_units);
        }
        out[i] = combine<T, N>(of);
    });
}

template <class T, int N>
__global__ void __launch_bounds__(PIECE_THREADS, PIECE_BLOCKS_AN_SM)
    combine_many(const __grid_constant__ combine_args a)
{
    start_successor();
    wait_predecessor();
    in_flight(
        a.peers, share_of(a.longest), a.n_heads, [&](const slot &s) { write_parts<N>(a, s); }, [](const slot &) {},
        [&](const slot &s) { combine_own<T, N>(a, s); });
}

/* ---- here already ---- */

/* What the other ranks' ops have written here: they come behind those. */
template <class T, int N>
__global__ void __launch_bounds__(PIECE_THREADS, PIECE_BLOCKS_AN_SM)
    combine_here(const __grid_constant__ combine_args a)
{
    start_successor();
    wait_predecessor();
    const lf_peers &p = a.peers;
    lf_peer_counts *counts = &own(p)->counts[blockIdx.x];
    uint32_t round = counts->round;
    if (__syncthreads_or(has_stopped(p)) || !meet(p, round + 1)) return;
    for (int i = blockIdx.x * PIECE_THREADS + threadIdx.x; i < a.n_units; i += gridDim.x * PIECE_THREADS) {
        parts<N> of;
#pragma unroll
        for (int r = 0; r < N; r++) {
            size_t unit = (size_t)r * a.n_units + i;
            of.x[r] = __ldcg(a.x + unit);
            of.lse[r] = __ldcg(a.lse + unit / a.head_units);
        }
        a.out[i] = combine<T, N>(of);
    }
    if (threadIdx.x == 0) counts->round = round + 1;
}

/* ---- host ---- */

typedef void combine_kernel(const combine_args);

template <class T> static combine_kernel *few_for(int n_ranks)
{
    static combine_kernel *const of[] = {combine_few<T, 2>, combine_few<T, 3>, combine_few<T, 4>, combine_few<T, 5>,
                                         combine_few<T, 6>, combine_few<T, 7>, combine_few<T, 8>};
    return of[n_ranks - 2];
}

template <class T> static combine_kernel *many_for(int n_ranks)
{
    static combine_kernel *const of[] = {combine_many<T, 2>, combine_many<T, 3>, combine_many<T, 4>, combine_many<T, 5>,
                                         combine_many<T, 6>, combine_many<T, 7>, combine_many<T, 8>};
    return of[n_ranks - 2];
}

template <class T> static combine_kernel *here_for(int n_ranks)
{
    static combine_kernel *const of[] = {combine_here<T, 2>, combine_here<T, 3>, combine_here<T, 4>, combine_here<T, 5>,
                                         combine_here<T, 6>, combine_here<T, 7>, combine_here<T, 8>};
    return of[n_ranks - 2];
}

int lf_cuda_combine_setup(void)
{
    int rc = 0;
    for (int n = 2; n <= LF_GPU_RANKS_N && rc == 0; n++)
        rc = load_kernels(few_for<bf16>(n), few_for<fp16>(n), many_for<bf16>(n), many_for<fp16>(n), here_for<bf16>(n),
                          here_for<fp16>(n));
    return rc;
}

/* Who gets which heads, and how many of them at a time. */
static void set_shares(combine_args *a, const struct lf_lse_combine_params *p)
{
    int n_ranks = a->peers.n_ranks, head_bytes = p->dim * X_BYTES;
    for (int r = 0; r < n_ranks; r++) {
        a->first[r] = p->first ? p->first[r] * p->n_heads : 0;
        a->end[r] = (p->first ? p->first[r + 1] : p->n_rows) * p->n_heads;
        a->longest = max(a->longest, a->end[r] - a->first[r]);
    }
    a->part_bytes = LF_PEER_PIECE_BYTES / n_ranks / (int)sizeof(uint4) * (int)sizeof(uint4);
    a->n_heads = a->part_bytes / (head_bytes + (int)sizeof(float));
}

int lf_cuda_peer_combine(const struct lf_peers *peers, const struct lf_lse_combine_params *p, struct lf_cuda_launch how)
{
    int64_t n_elems = (int64_t)p->n_rows * p->n_heads * p->dim;
    combine_args args = {};
    if (n_elems == 0 && !p->is_here) return 0;
    args.peers = *peers;
    args.out = (uint4 *)p->out;
    args.x = (const uint4 *)p->x;
    args.lse = p->lse;
    args.head_units = p->dim / ELEMS;
    if (p->is_here) {
        args.n_units = (int)(n_elems / ELEMS);
        auto kernel = how.fp16 ? here_for<fp16>(peers->n_ranks) : here_for<bf16>(peers->n_ranks);
        return queue_kernel(kernel, {LF_PEER_BLOCKS, PIECE_THREADS}, how, args); /* as many everywhere */
    }
    if (!p->first && n_elems <= LF_PEER_COMBINE_ELEMS) {
        args.n_units = (int)(n_elems / ELEMS);
        auto kernel = how.fp16 ? few_for<fp16>(peers->n_ranks) : few_for<bf16>(peers->n_ranks);
        return queue_kernel(kernel, {blocks_for(args.n_units, FEW_THREADS), FEW_THREADS}, how, args);
    }
    set_shares(&args, p);
    auto kernel = how.fp16 ? many_for<fp16>(peers->n_ranks) : many_for<bf16>(peers->n_ranks);
    unsigned n_blocks = piece_blocks((size_t)args.longest * (size_t)p->dim * X_BYTES);
    return queue_kernel(kernel, {n_blocks, PIECE_THREADS}, how, args);
}
