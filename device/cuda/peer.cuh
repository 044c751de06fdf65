/* What kernels that talk to those of other GPUs have in common (peer.cu, peer_combine.cu): waiting, meeting, packets
 * and pieces. */
#ifndef LF_DEVICE_CUDA_PEER_CUH
#define LF_DEVICE_CUDA_PEER_CUH

#include "device/cuda/launch.cuh"
#include "device/cuda/peer.h"
#include "device/cuda/ptx_peer.cuh"

enum {
    PIECE_THREADS = 512,
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

/* The blocks of this number meet. What a thread has written before it, all of theirs read behind it. The same on all
 * threads; false: given up. */
LF_GPU_FN bool meet(const lf_peers &p, uint32_t round)
{
    bool is_late = false;
    int other = threadIdx.x;
    __syncthreads();
    if (other < p.n_ranks && other != p.rank) {
        st_release_sys(&p.of[other]->flags[blockIdx.x][p.rank], round);
        const uint32_t *flag = &own(p)->flags[blockIdx.x][other];
        is_late = !wait_until(p, other, [&] { return (int32_t)(ld_acquire_sys(flag) - round) >= 0; });
    }
    return !__syncthreads_or(is_late);
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

/* ---- host ---- */

static unsigned piece_blocks(size_t bytes)
{
    return (unsigned)min((size_t)LF_PEER_BLOCKS, max((size_t)1, bytes / LEAST_BLOCK_BYTES));
}

#endif
