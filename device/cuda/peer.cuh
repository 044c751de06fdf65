/* What kernels that talk to those of other GPUs have in common (peer.cu, peer_combine.cu): waiting, meeting, packets
 * and pieces. */
#ifndef LF_DEVICE_CUDA_PEER_CUH
#define LF_DEVICE_CUDA_PEER_CUH

#include "device/cuda/launch.cuh"
#include "device/cuda/peer.h"
#include "device/cuda/ptx_peer.cuh"

enum {
    PIECE_THREADS = 512,
    PIECE_BLOCKS_AN_SM = 2, /* at least, of those that let pieces follow one another: 256 are there together */
    LOADS_IN_FLIGHT = 4,    /* of a thread that copies */
    PACKETS_A_BLOCK = 256,
    LEAST_BLOCK_BYTES = 4 * 1024, /* a message of fewer is not cut further */
    LOOKS_A_CLOCK = 64,           /* looks at a flag, from one look at the clock to the next; */
    LOOKS_A_HOST = 4096           /* and at the host's word, which is far away */
};

/* ---- waiting ---- */

LF_GPU_FN lf_peer_memory *own(const lf_peers &p)
{
    return p.of[p.rank];
}

LF_GPU_FN bool has_stopped(const lf_peers &p)
{
    return ld_relaxed_sys(p.stop) != 0;
}

/* Whether to go on waiting for a rank since `start`, at the n-th look. */
LF_GPU_FN bool may_wait(const lf_peers &p, int other, unsigned n, uint64_t start)
{
    if (n % LOOKS_A_CLOCK != 0) return true;
    if (has_stopped(p)) return false;
    bool is_late = globaltimer() - start > p.timeout_ns;
    bool is_told = n % LOOKS_A_HOST == 0 && ld_relaxed_sys(&p.report->abort) != 0;
    if (!is_late && !is_told) return true;
    st_relaxed_sys(p.stop, 1);
    if (is_late) st_relaxed_sys(&p.report->waited_for, 1 + (uint32_t)(p.first + other * p.stride));
    return false;
}

/* Until ready(); false: given up. */
template <class Ready> LF_GPU_FN bool wait_until(const lf_peers &p, int other, Ready ready)
{
    if (ready()) return true;
    uint64_t start = globaltimer();
    for (unsigned n = 1; may_wait(p, other, n, start); n++)
        if (ready()) return true;
    return false;
}

/* This block is in the round: it has read and written all that it was to before. */
LF_GPU_FN void arrive(const lf_peers &p, uint32_t round)
{
    int other = threadIdx.x;
    __syncthreads();
    if (other < p.n_ranks && other != p.rank) st_release_sys(&p.of[other]->flags[blockIdx.x][p.rank], round);
}

/* Until all blocks of this number are in it, or further. The same on all threads; false: given up. */
LF_GPU_FN bool wait_for_all(const lf_peers &p, uint32_t round)
{
    bool is_late = false;
    int other = threadIdx.x;
    if (other < p.n_ranks && other != p.rank) {
        const uint32_t *flag = &own(p)->flags[blockIdx.x][other];
        is_late = !wait_until(p, other, [&] { return (int32_t)(ld_acquire_sys(flag) - round) >= 0; });
    }
    return !__syncthreads_or(is_late);
}

/* The blocks of this number meet. What a thread has written before it, all of theirs read behind it. */
LF_GPU_FN bool meet(const lf_peers &p, uint32_t round)
{
    arrive(p, round);
    return wait_for_all(p, round);
}

/* ---- packets ---- */

/* Of pushed messages: each kernel that pushes has one, whatever its kind, so that turns follow one another; and a block
 * writes packets of its own numbers alone, blockIdx.x · PACKETS_A_BLOCK and on. A turn is never 0, what memory has at
 * first, and is even behind the odd one. */
LF_GPU_FN uint32_t turn_after(uint32_t count)
{
    return count + 1 == 0 ? 2 : count + 1;
}

/* Packets of a rank, in the memory of some rank. */
LF_GPU_FN uint4 *packets_of(const lf_peers &p, int where, int from, uint32_t turn)
{
    uint4 *few = (uint4 *)(p.of[where] + 1);
    return few + ((size_t)(turn % 2) * p.n_ranks + from) * (LF_PEER_NORM_FLOATS / 2);
}

LF_GPU_FN bool has_come(const uint4 &packet, uint32_t turn)
{
    return packet.y == turn && packet.w == turn;
}

/* ---- pieces ---- */

/* What of a message a block has: units [begin, end), a piece of them at a time. */
struct share {
    size_t begin, end;
};

LF_GPU_FN share share_of(size_t n_units)
{
    size_t each = (n_units + gridDim.x - 1) / gridDim.x, begin = min(n_units, blockIdx.x * each);
    return {begin, min(n_units, begin + each)};
}

template <class V> LF_GPU_FN V *piece_of(const lf_peers &p, int rank, uint32_t piece)
{
    return (V *)p.of[rank]->pieces[piece % 2][blockIdx.x];
}

/* f(i) for i of [first, end), by all threads. */
template <class F> LF_GPU_FN void for_each(int first, int end, F f)
{
    for (int i = first + (int)threadIdx.x; i < end; i += PIECE_THREADS) f(i);
}

/* store(i, load(i)) for i of [0, n), by all threads, several loads before the first of them is stored. */
template <class Load, class Store> LF_GPU_FN void copy_each(int n, Load load, Store store)
{
    for (int first = threadIdx.x; first < n; first += LOADS_IN_FLIGHT * PIECE_THREADS) {
        decltype(load(0)) v[LOADS_IN_FLIGHT] = {};
#pragma unroll
        for (int k = 0; k < LOADS_IN_FLIGHT; k++)
            if (first + k * PIECE_THREADS < n) v[k] = load(first + k * PIECE_THREADS);
#pragma unroll
        for (int k = 0; k < LOADS_IN_FLIGHT; k++)
            if (first + k * PIECE_THREADS < n) store(first + k * PIECE_THREADS, v[k]);
    }
}

/* The n-th of the other ranks. Each rank begins with another one, and so does each block: all links are busy at once,
 * and nobody's alone. */
LF_GPU_FN int other_rank(const lf_peers &p, int n, int n_ranks)
{
    return (p.rank + 1 + (int)((n + blockIdx.x) % (n_ranks - 1))) % n_ranks;
}

/* ---- pieces that follow one another ---- */

/* Of a share: units [begin, end), and where it lies in the memory of every rank. */
struct slot {
    size_t begin, end;
    uint32_t piece, half;
};

template <class V> LF_GPU_FN V *slot_of(const lf_peers &p, int rank, const slot &s)
{
    return (V *)(piece_of<char>(p, rank, s.piece) + s.half * LF_PEER_PIECE_BYTES);
}

/* The share in pieces of up to `most` units, which fit in a slot. Of each: put(slot) before its round, get(slot) behind
 * it, and meanwhile(slot), which needs nobody, before the wait. While a piece is got the next one is on its way:
 *
 *     put 0   put 1   get 0   put 2   get 1   put 3   get 2   …         a round begins behind each put
 *
 * Slots are four. Who puts k again in the slot of k - 4 has waited for round k - 2 of everybody, which they begin
 * behind getting k - 4. A turn of `pieces` has two slots, so their number is even, or one: whoever is behind gets the
 * last two, which are one turn's, while the next kernel puts in the other turn's. */
template <class Put, class Meanwhile, class Get>
LF_GPU_FN void in_flight(const lf_peers &p, share s, size_t most, Put put, Meanwhile meanwhile, Get get)
{
    lf_peer_counts *counts = &own(p)->counts[blockIdx.x];
    uint32_t round = counts->round, piece = counts->piece;
    if (__syncthreads_or(has_stopped(p))) return;
    size_t length = s.end - s.begin;
    uint32_t n = (uint32_t)max((size_t)1, (length + most - 1) / most);
    if (n > 1) n += n % 2;
    size_t each = (length + n - 1) / n;
    auto slot_at = [&](uint32_t k) -> slot {
        size_t begin = min(s.begin + k * each, s.end);
        return {begin, min(begin + each, s.end), piece + k / 2, k % 2};
    };
    for (uint32_t k = 0; k < n + 2; k++) {
        if (k >= 2) {
            slot before = slot_at(k - 2);
            meanwhile(before);
            if (!wait_for_all(p, round + k - 1)) return;
            get(before);
        }
        if (k < n) {
            put(slot_at(k));
            arrive(p, round + k + 1);
        }
    }
    if (threadIdx.x != 0) return;
    counts->round = round + n;
    counts->piece = piece + (n + 1) / 2;
}

/* ---- host ---- */

static unsigned piece_blocks(size_t bytes)
{
    return (unsigned)min((size_t)LF_PEER_BLOCKS, max((size_t)1, bytes / LEAST_BLOCK_BYTES));
}

#endif
