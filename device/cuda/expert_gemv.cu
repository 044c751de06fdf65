/* Grouped GEMV: x · w[e]ᵀ of the expert rows of few tokens, where reading the weights is what it costs. The arithmetic,
 * the ring and the order of k are gemv.cuh's, so a row has the bits that it has as a token of gemv with its expert's
 * matrix. What differs is which weights and rows a tile has: 16 rows of one expert's matrix, and up to 16 expert rows
 * (expert_list.cuh). Up to 16 tokens, of which each brings an expert one row at most, a weight is read once; more
 * tokens read it once for each 16 rows of its expert, which is what GPUs do that have no better kernel.
 *
 * Which weights are read is known only when route has run. For rows by token that is as late as can be: nothing is
 * asked for before the predecessor is complete. Rows that lie sorted were written behind a GEMM by token, and all of
 * those (expert_rows.cu and expert_gemm_sm90.cu too) let their successor come only when they have themselves waited for
 * route: so its lists are complete when this kernel begins (they are read past L1, which may be older), and the first
 * weights are on their way while the predecessor still runs.
 *
 * One block a multiprocessor: with the list it takes more than half of the shared memory. Needs n_in divisible by 8, w
 * and x aligned to 16 bytes. */
#include "device/cuda/expert_list.cuh"
#include "device/cuda/gemv.cuh"

struct expert_gemv_args {
    gemv_params g; /* n_tiles: of one expert; x and w: of all */
    size_t expert_bytes;
    const int32_t *rows, *first;
    const float *bias;
    void *y;
    bool y_float, x_by_token;
    int k, n_experts;
};

enum { LIST_ROWS = 2 * GEMV_TOKENS };
using tile_list = expert_list<LIST_ROWS>;

/* Where the lane's tokens of a tile are in x; NULL: there is none. */
template <int NT> struct expert_x {
    const char *of[NT];

    LF_GPU_MEMBER void find(const expert_gemv_args &a, const expert_tile &tile)
    {
#pragma unroll
        for (int n = 0; n < NT; n++) {
            int r = n * GEMV_TOKENS + threadIdx.x % WARP / 4, row = tile.row + r;
            of[n] = nullptr;
            if (r >= tile.n_rows) continue;
            of[n] = a.g.x + (size_t)(a.x_by_token ? __ldcg(a.rows + row) / a.k : row) * a.g.n_in * 2;
        }
    }

    /* As gemv_load_x. */
    LF_GPU_MEMBER void load(gemv_x<NT> &x, const gemv_params &p, int group) const
    {
        int k0 = gemv_first_k(group), left = (p.n_in - k0 + GEMV_STEP - 1) / GEMV_STEP;
        int n_steps = gemv_is_whole(p, group) ? GEMV_GROUP_STEPS : left;
#pragma unroll
        for (int n = 0; n < NT; n++) {
            int n_there = of[n] ? n_steps : 0;
            const uint4 *from = (const uint4 *)(of[n] + (size_t)k0 * 2);
#pragma unroll
            for (int s = 0; s < GEMV_GROUP_STEPS; s++) x.of[s][n] = s < n_there ? from[s * 4] : make_uint4(0, 0, 0, 0);
        }
    }
};

/* As gemv_begin, for a tile of the list. */
LF_GPU_FN gemv_cursor expert_begin(const expert_gemv_args &a, const gemv_params &p, const tile_list &list, int tile,
                                   int &at)
{
    if (tile >= p.n_tiles) return {tile, 0, p.w, 0};
    expert_tile t = list.find(tile, a.g.n_tiles, at);
    int row = t.column_tile * GEMV_TILE + threadIdx.x % WARP / 4, last = p.n_out - 1;
    int row0 = min(row, last), row1 = min(row + GEMV_RUN, last);
    const char *from = p.w + t.expert * a.expert_bytes + ((size_t)row0 * p.n_in + gemv_first_k(0)) * 2;
    return {tile, 0, from, (int64_t)(row1 - row0) * p.n_in * 2};
}

/* A thread an output. */
template <class T, int NT>
LF_GPU_FN void write_tile(const expert_gemv_args &a, const gemv_sums<NT> &s, const expert_tile &tile)
{
    int r = threadIdx.x / GEMV_TILE, c = threadIdx.x % GEMV_TILE, col = tile.column_tile * GEMV_TILE + c;
    if (r >= tile.n_rows || col >= a.g.n_out) return;
    size_t at = (size_t)(tile.row + r) * a.g.n_out + col;
    float y = s.at(r, c);
    if (a.bias) y += a.bias[(size_t)tile.expert * a.g.n_out + col];
    if (a.y_float)
        ((float *)a.y)[at] = y;
    else
        ((T *)a.y)[at] = from_float<T>(y);
}

/* The main loop of gemv (gemv.cuh says why it is as it is). */
template <class T, int NT>
__global__ void __launch_bounds__(GEMV_THREADS, 1) expert_gemv(const __grid_constant__ expert_gemv_args a)
{
    constexpr int BUFFERS = NT == 1 ? 2 : 1;
    extern __shared__ uint4 ring[];
    __shared__ gemv_sums<NT> sums[BUFFERS];
    __shared__ tile_list list;
    if (a.x_by_token) wait_predecessor();
    start_successor();
    if (threadIdx.x < WARP) list.build(a.first, a.n_experts);
    for (int i = threadIdx.x; i < BUFFERS * NT * GEMV_TOKENS; i += GEMV_THREADS)
        sums[i / (NT * GEMV_TOKENS)].scale[i % (NT * GEMV_TOKENS)] = 1.0f;
    __syncthreads();
    gemv_params p = a.g;
    p.n_tiles = list.n_tiles(a.g.n_tiles);
    int at_next = 0, at_now = 0, slot = 0, buffer = 0;
    float acc[NT][4] = {};
    gemv_cursor next = expert_begin(a, p, list, blockIdx.x, at_next);
    auto advance = [&]() {
        if (++next.group == p.groups_per_warp) next = expert_begin(a, p, list, next.tile + gridDim.x, at_next);
    };
#pragma unroll 1
    for (int s = 0; s < GEMV_GROUPS; s++, advance()) gemv_prefetch_weights(gemv_slot(ring, s), p, next);
    wait_predecessor();
    if ((int)blockIdx.x >= p.n_tiles) return;
    expert_tile now = list.find(blockIdx.x, a.g.n_tiles, at_now);
    expert_x<NT> from;
    gemv_x<NT> x;
    from.find(a, now);
    from.load(x, p, 0);
    for (int tile = blockIdx.x; tile < p.n_tiles; tile += gridDim.x) {
        expert_tile then = now;
        for (int group = 0; group < p.groups_per_warp; group++) {
            bool is_last = group + 1 == p.groups_per_warp;
            gemv_multiply<T, NT>(acc, gemv_slot(ring, slot), x);
            if (is_last && tile + (int)gridDim.x < p.n_tiles) {
                then = list.find(tile + gridDim.x, a.g.n_tiles, at_now);
                from.find(a, then);
            }
            from.load(x, p, is_last ? 0 : group + 1);
            gemv_prefetch_weights(gemv_slot(ring, slot), p, next);
            advance();
            slot = slot + 1 < GEMV_GROUPS ? slot + 1 : 0;
        }
        gemv_store_sums<NT>(sums[buffer], acc);
        __syncthreads();
        write_tile<T, NT>(a, sums[buffer], now);
        if (BUFFERS == 1) __syncthreads();
        buffer = BUFFERS - 1 - buffer;
        now = then;
    }
}

/* ---- host ---- */

int lf_cuda_expert_gemv_setup(bool *fits)
{
    int rc = load_kernel(expert_gemv<bf16, 1>, GEMV_RING_BYTES);
    if (rc == 0) rc = load_kernel(expert_gemv<bf16, 2>, GEMV_RING_BYTES);
    if (rc == 0) rc = load_kernel(expert_gemv<fp16, 1>, GEMV_RING_BYTES);
    if (rc == 0) rc = load_kernel(expert_gemv<fp16, 2>, GEMV_RING_BYTES);
    *fits = rc == 0;
    if (rc != cudaErrorInvalidValue) return rc;
    (void)cudaGetLastError(); /* the ring is larger than what a block may have */
    return 0;
}

bool lf_cuda_expert_gemv_supports(const struct lf_expert_gemm_params *p)
{
    return p->w->n_in % 8 == 0 && ((size_t)p->w->data | (size_t)p->x) % 16 == 0;
}

int lf_cuda_expert_gemv(const struct lf_expert_gemm_params *p, size_t expert_bytes, int n_blocks,
                        struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    int n_groups = (p->w->n_in + GEMV_GROUP_K - 1) / GEMV_GROUP_K;
    expert_gemv_args a = {};
    a.g.w = (const char *)p->w->data;
    a.g.x = (const char *)p->x;
    a.g.n_in = p->w->n_in;
    a.g.n_out = p->w->n_out;
    a.g.n_tiles = (p->w->n_out + GEMV_TILE - 1) / GEMV_TILE;
    a.g.groups_per_warp = (n_groups + GEMV_WARPS - 1) / GEMV_WARPS;
    a.expert_bytes = expert_bytes;
    a.rows = p->rows;
    a.first = p->first;
    a.bias = p->bias;
    a.y = p->y;
    a.y_float = p->y_float;
    a.x_by_token = p->x_by_token;
    a.k = p->k;
    a.n_experts = p->w->n_experts;
    launch_shape shape = {(unsigned)n_blocks, GEMV_THREADS, GEMV_RING_BYTES};
    if (p->n_tokens <= GEMV_TOKENS)
        return queue_kernel(how.fp16 ? expert_gemv<fp16, 1> : expert_gemv<bf16, 1>, shape, how, a);
    return queue_kernel(how.fp16 ? expert_gemv<fp16, 2> : expert_gemv<bf16, 2>, shape, how, a);
}
