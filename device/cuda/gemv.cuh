/* GEMV: x · wᵀ for 1 to 16 tokens (small-M GEMM). Every weight is read once, and reading them is what it costs. This is
 * the main loop; what becomes of the sums, and which weight rows make a tile, is an Epilogue (below): gemv.cu has two,
 * attention a third.
 *
 * Work split: the tensor cores take 16 weight rows as the left operand, two runs of eight, and the step's tokens, eight
 * or sixteen, zero behind the last, as the right one. A thread block of eight warps owns every gridDim.x-th of these
 * tiles. Along k a tile is cut into groups of 128; warp w takes groups w, w + 8, … in ascending order, and the eight
 * sums of an output are added in the order of the warps. So a token's bits depend on its own x, on w and on n_in, not
 * on how many tokens there are or on the grid. Tiles of 32 weight rows read x half as often, but their blocks take a
 * third longer: registers.
 *
 * Order of k. A GEMM does not mind in which order k runs as long as both operands agree: lane 4g + t reads 16 bytes of
 * weight rows g of both runs at k = 32 · step + 8t, and of token g at the same k, and calls these eight elements its
 * own of two instructions. So weights go from memory to registers to the tensor cores without a detour.
 *
 * Pipeline. Each lane copies what it will multiply into a ring in shared memory (cp.async, past L1) some groups ahead
 * and across tiles; nobody else touches it, so the only thing waited for is its own copies. The first groups are asked
 * for before the predecessor has ended (launch.cuh): weights are never written. Rings are small enough for this block
 * and the next GEMV's to be on a multiprocessor of Hopper together. x comes from L1 or L2 into registers, a group
 * ahead.
 *
 * One block of a GEMV on each multiprocessor: where two share one, another has none, and a GEMV is over when its
 * slowest block is. Blocks are put where there is room, and behind attention, say, there is room for two on those
 * multiprocessors that are done first. Therefore the blocks of every other GEMV, those that add to the residual
 * stream, are wide: they ask for 10 KiB more than they use, so that each takes more than half of a multiprocessor's
 * shared memory (117 of 228 KiB) and leaves room for one block of a GEMV between (107). So no two of a kind meet: of
 * the wide ones two do not fit, and of the others two do not beside a wide one.
 *
 * Fused RMSNorm, the prologue: x may be x ∘ weight of a norm, with the row sum of squares of x in parts of 16 channels
 * (struct lf_fused_norm of ops.h). Its scale is a token's, so the outputs are multiplied by it, and the parts are added
 * while weights are under way.
 *
 * Shared memory: the ring, 96 KiB (wide blocks ask for 106), and the warps' sums of a tile, up to 10 KiB. Bound by
 * memory. Needs n_in and x's row stride divisible by 8, w and x aligned to 16 bytes. CPU twin: gemm of device/cpu. */
#ifndef LF_DEVICE_CUDA_GEMV_CUH
#define LF_DEVICE_CUDA_GEMV_CUH

#include "device/cuda/launch.cuh"
#include "device/cuda/ptx_copy.cuh"
#include "device/cuda/ptx_mma.cuh"
#include "device/cuda/warp.cuh"

enum {
    GEMV_WARPS = 8,
    GEMV_THREADS = GEMV_WARPS * WARP,
    GEMV_TILE = 16, /* weight rows of one instruction, in two runs */
    GEMV_RUN = GEMV_TILE / 2,
    GEMV_TOKENS = 8, /* of one instruction */
    GEMV_STEP = 32,  /* k of one load: four lanes of 8 elements */
    GEMV_GROUP_STEPS = 4,
    GEMV_GROUP_K = GEMV_GROUP_STEPS * GEMV_STEP,
    GEMV_GROUP_STRIDE = GEMV_WARPS * GEMV_GROUP_K * 2, /* bytes from a warp's group to its next */
    GEMV_LOADS = 2 * GEMV_GROUP_STEPS,                 /* of a lane in a group */
    GEMV_GROUPS = 3,                                   /* of a warp in the ring */
    GEMV_RING_BYTES = GEMV_WARPS * GEMV_GROUPS * GEMV_LOADS * WARP * 16,
    GEMV_WIDE_BYTES = GEMV_RING_BYTES + 10240 /* what a wide block asks for */
};
static_assert(LF_CUDA_GEMV_TOKENS * GEMV_TILE <= GEMV_THREADS, "a thread an output of a tile");
static_assert((int)GEMV_TILE == (int)LF_NORM_PART, "a tile makes one part of a norm's sum");

struct gemv_params {
    const char *w, *x;
    int n_tokens, n_in, n_out, n_tiles, groups_per_warp;
    int x_stride;
    const float *x_sum_squares; /* as of lf_gemm_params */
    float x_eps;
    float alpha; /* likewise: gemv_scaled */
};

/* The warps' sums of a tile, [token][weight row]; the pad keeps the lanes' stores in different banks. */
template <int NT> struct gemv_sums {
    float of[GEMV_WARPS][NT * GEMV_TOKENS][GEMV_TILE + 4];
    float scale[NT * GEMV_TOKENS]; /* of a token: of its norm, or 1 */

    /* Of the tile's weight row r, in the order of the warps. */
    LF_GPU_MEMBER float at(int token, int r) const
    {
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < GEMV_WARPS; w++) sum += of[w][token][r];
        return __fmul_rn(sum, scale[token]); /* not contracted with what comes next: the same in every Epilogue */
    }
};

/* A sum, its bias added, times alpha; not contracted with a residual, so that alpha 1 leaves the bits as they are. */
LF_GPU_FN float gemv_scaled(const gemv_params &p, float sum)
{
    return __fmul_rn(sum, p.alpha);
}

/* An Epilogue<T> is made from its `args`, plain data that the host passes, by each thread for itself, and before the
 * predecessor is complete: what it reads then are lists and weights.
 *
 *     static int first_weight_row(const args &, int tile)    the tile's first run of eight
 *     static int run_stride(const args &)                    from there to the second
 *     void prefetch(const gemv_params &, int tile)           the predecessor is complete: what the tile's write will
 *                                                            need may be on its way while the GEMV is computed
 *     template <int NT> void write(const gemv_params &, const gemv_sums<NT> &, int tile)      all threads call it */

/* A warp's position in its tiles: the next group, of the warp's, and where the lane reads the first. Weight rows behind
 * the last are read as the last, and their sums are nobody's. */
struct gemv_cursor {
    int tile, group;
    const char *from;
    int64_t run_bytes; /* from the lane's row of the first run to that of the second */
};

/* Of the lane's first element in a warp's group. */
LF_GPU_FN int gemv_first_k(int group)
{
    return (group * GEMV_WARPS + threadIdx.x / WARP) * GEMV_GROUP_K + threadIdx.x % 4 * 8;
}

/* Whether no lane's load of the group lies behind n_in. */
LF_GPU_FN bool gemv_is_whole(const gemv_params &p, int group)
{
    return (group * GEMV_WARPS + threadIdx.x / WARP + 1) * GEMV_GROUP_K <= p.n_in;
}

/* The lane's part of a slot of its warp's ring; its loads lie a warp apart. */
LF_GPU_FN uint4 *gemv_slot(uint4 *ring, int slot)
{
    return ring + ((threadIdx.x / WARP * GEMV_GROUPS + slot) * GEMV_LOADS) * WARP + threadIdx.x % WARP;
}

template <class Epilogue>
LF_GPU_FN gemv_cursor gemv_begin(const gemv_params &p, const typename Epilogue::args &f, int tile)
{
    int row = Epilogue::first_weight_row(f, tile) + threadIdx.x % WARP / 4, last = p.n_out - 1;
    int row0 = min(row, last), row1 = min(row + Epilogue::run_stride(f), last);
    const char *from = p.w + ((size_t)row0 * p.n_in + gemv_first_k(0)) * 2;
    return {tile, 0, from, (int64_t)(row1 - row0) * p.n_in * 2};
}

/* Asks for a group's weights; zeros behind n_in. Whole groups, nearly all there are, need no bounds. */
LF_GPU_FN void gemv_prefetch_weights(uint4 *slot, const gemv_params &p, const gemv_cursor &at)
{
    const char *first = at.from + at.group * GEMV_GROUP_STRIDE, *second = first + at.run_bytes;
    bool is_there = at.tile < p.n_tiles, is_whole = gemv_is_whole(p, at.group);
    if (is_there && is_whole) {
#pragma unroll
        for (int s = 0; s < GEMV_GROUP_STEPS; s++) {
            cp_async_cg_16(shared_address(slot + 2 * s * WARP), first + s * GEMV_STEP * 2);
            cp_async_cg_16(shared_address(slot + (2 * s + 1) * WARP), second + s * GEMV_STEP * 2);
        }
    } else if (is_there) {
#pragma unroll 1
        for (int s = 0; s < GEMV_GROUP_STEPS; s++) {
            bool any = gemv_first_k(at.group) + s * GEMV_STEP < p.n_in;
            int n_bytes = any ? 16 : 0;
            cp_async_cg_16(shared_address(slot + 2 * s * WARP), any ? first + s * GEMV_STEP * 2 : p.w, n_bytes);
            cp_async_cg_16(shared_address(slot + (2 * s + 1) * WARP), any ? second + s * GEMV_STEP * 2 : p.w, n_bytes);
        }
    }
    cp_async_commit_group();
}

template <class Epilogue>
LF_GPU_FN void gemv_advance(gemv_cursor &at, const gemv_params &p, const typename Epilogue::args &f)
{
    if (++at.group == p.groups_per_warp) at = gemv_begin<Epilogue>(p, f, at.tile + gridDim.x);
}

/* What a lane has of the tokens' x in a group. */
template <int NT> struct gemv_x {
    uint4 of[GEMV_GROUP_STEPS][NT];
};

/* Loads it; zeros where there is no token and behind n_in. */
template <int NT> LF_GPU_FN void gemv_load_x(gemv_x<NT> &x, const gemv_params &p, int group)
{
    int k0 = gemv_first_k(group), left = (p.n_in - k0 + GEMV_STEP - 1) / GEMV_STEP;
    int n_steps = gemv_is_whole(p, group) ? GEMV_GROUP_STEPS : left;
#pragma unroll
    for (int n = 0; n < NT; n++) {
        int token = n * GEMV_TOKENS + threadIdx.x % WARP / 4, n_there = token < p.n_tokens ? n_steps : 0;
        const uint4 *from = (const uint4 *)(p.x + ((size_t)token * p.x_stride + k0) * 2);
#pragma unroll
        for (int s = 0; s < GEMV_GROUP_STEPS; s++) x.of[s][n] = s < n_there ? from[s * 4] : make_uint4(0, 0, 0, 0);
    }
}

template <class T, int NT> LF_GPU_FN void gemv_multiply(float acc[NT][4], const uint4 *slot, const gemv_x<NT> &x)
{
    cp_async_wait_group<GEMV_GROUPS - 1>();
#pragma unroll
    for (int s = 0; s < GEMV_GROUP_STEPS; s++) {
        uint4 u = slot[2 * s * WARP], v = slot[(2 * s + 1) * WARP];
#pragma unroll
        for (int n = 0; n < NT; n++) {
            mma_m16n8k16<T>(acc[n], {u.x, v.x, u.y, v.y}, x.of[s][n].x, x.of[s][n].y);
            mma_m16n8k16<T>(acc[n], {u.z, v.z, u.w, v.w}, x.of[s][n].z, x.of[s][n].w);
        }
    }
}

/* The tokens' scales, a warp a token: 1, or that of their norm. */
template <int NT, int BUFFERS> LF_GPU_FN void gemv_find_scales(gemv_sums<NT> (&s)[BUFFERS], const gemv_params &p)
{
    int n_parts = (p.n_in + LF_NORM_PART - 1) / LF_NORM_PART;
    for (int token = threadIdx.x / WARP; token < p.n_tokens; token += GEMV_WARPS) {
        float sum = 0.0f, scale = 1.0f;
        if (p.x_sum_squares) {
            const float *part = p.x_sum_squares + (size_t)token * n_parts;
#pragma unroll 8
            for (int i = threadIdx.x % WARP; i < n_parts; i += WARP) sum += part[i];
            scale = 1.0f / sqrtf(warp_sum(sum) / (float)p.n_in + p.x_eps);
        }
        if (threadIdx.x % WARP < BUFFERS) s[threadIdx.x % WARP].scale[token] = scale;
    }
}

/* Hands a tile's sums to the other threads, and zeroes them here. */
template <int NT> LF_GPU_FN void gemv_store_sums(gemv_sums<NT> &s, float acc[NT][4])
{
    int warp = threadIdx.x / WARP, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < NT; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s.of[warp][n * GEMV_TOKENS + 2 * t + i % 2][g + i / 2 * GEMV_RUN] = acc[n][i];
            acc[n][i] = 0.0f;
        }
    }
}

/* Two blocks a multiprocessor: this GEMV's and the next one's. With two buffers for sums one barrier a tile is enough:
 * a buffer is written again only behind the next tile's, which all reach when they are done with this one's. */
template <class T, int NT, class Epilogue>
__global__ void __launch_bounds__(GEMV_THREADS, 2)
    gemv(const __grid_constant__ gemv_params p, const __grid_constant__ typename Epilogue::args f)
{
    constexpr int BUFFERS = NT == 1 ? 2 : 1;
    extern __shared__ uint4 ring[];
    __shared__ gemv_sums<NT> sums[BUFFERS];
    float acc[NT][4] = {};
    gemv_cursor next = gemv_begin<Epilogue>(p, f, (int)blockIdx.x);
    start_successor();
#pragma unroll 1
    for (int slot = 0; slot < GEMV_GROUPS; slot++, gemv_advance<Epilogue>(next, p, f))
        gemv_prefetch_weights(gemv_slot(ring, slot), p, next);
    Epilogue epilogue(p, f);
    wait_predecessor();
    int slot = 0, buffer = 0;
    gemv_x<NT> x;
    gemv_load_x(x, p, 0);
    for (int tile = blockIdx.x; tile < p.n_tiles; tile += gridDim.x) {
        epilogue.prefetch(p, tile);
        for (int group = 0; group < p.groups_per_warp; group++) {
            gemv_multiply<T, NT>(acc, gemv_slot(ring, slot), x);
            gemv_load_x(x, p, group + 1 < p.groups_per_warp ? group + 1 : 0);
            gemv_prefetch_weights(gemv_slot(ring, slot), p, next);
            gemv_advance<Epilogue>(next, p, f);
            slot = slot + 1 < GEMV_GROUPS ? slot + 1 : 0;
        }
        gemv_store_sums<NT>(sums[buffer], acc);
        if (tile == blockIdx.x) gemv_find_scales<NT, BUFFERS>(sums, p);
        __syncthreads();
        epilogue.write(p, sums[buffer], tile);
        if (BUFFERS == 1) __syncthreads();
        buffer = BUFFERS - 1 - buffer;
    }
}

/* ---- host ---- */

/* Loads the kernels of an Epilogue; *fits: a block may have the shared memory they need. */
template <class T, template <class> class Epilogue> static int gemv_setup_type()
{
    int rc = load_kernel(gemv<T, 1, Epilogue<T>>, GEMV_WIDE_BYTES);
    return rc == 0 ? load_kernel(gemv<T, 2, Epilogue<T>>, GEMV_WIDE_BYTES) : rc;
}

template <template <class> class Epilogue> static int gemv_setup(bool *fits)
{
    int rc = gemv_setup_type<bf16, Epilogue>();
    if (rc == 0) rc = gemv_setup_type<fp16, Epilogue>();
    *fits = rc == 0;
    if (rc != cudaErrorInvalidValue) return rc;
    (void)cudaGetLastError(); /* the ring is larger than what a block may have */
    return 0;
}

static inline gemv_params gemv_args(const struct lf_gemm_params *p, int n_tiles)
{
    int n_groups = (p->w->n_in + GEMV_GROUP_K - 1) / GEMV_GROUP_K;
    gemv_params args = {};
    args.w = (const char *)p->w->data;
    args.x = (const char *)p->x;
    args.n_tokens = p->n_tokens;
    args.n_in = p->w->n_in;
    args.n_out = p->w->n_out;
    args.n_tiles = n_tiles;
    args.groups_per_warp = (n_groups + GEMV_WARPS - 1) / GEMV_WARPS;
    args.x_stride = p->x_stride;
    args.x_sum_squares = p->x_sum_squares;
    args.x_eps = p->x_eps;
    args.alpha = p->alpha;
    return args;
}

template <class Epilogue, class T>
static int gemv_queue(const gemv_params &p, const typename Epilogue::args &f, unsigned n_blocks, bool wide,
                      lf_cuda_launch how)
{
    size_t shared_bytes = wide ? GEMV_WIDE_BYTES : GEMV_RING_BYTES;
    auto kernel = p.n_tokens <= GEMV_TOKENS ? gemv<T, 1, Epilogue> : gemv<T, 2, Epilogue>;
    return queue_kernel(kernel, {n_blocks, GEMV_THREADS, shared_bytes}, how, p, f);
}

/* n_blocks: of the grid at most; neither it nor `wide` changes a bit. */
template <template <class> class Epilogue>
static int gemv_launch(const gemv_params &p, const typename Epilogue<bf16>::args &f, int n_blocks, bool wide,
                       lf_cuda_launch how)
{
    if (p.n_tokens == 0) return 0;
    unsigned grid = (unsigned)min(p.n_tiles, n_blocks);
    return how.fp16 ? gemv_queue<Epilogue<fp16>, fp16>(p, f, grid, wide, how)
                    : gemv_queue<Epilogue<bf16>, bf16>(p, f, grid, wide, how);
}

#endif
