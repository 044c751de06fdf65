/* y = x · wᵀ (+ bias) (+ residual) for 1 to 16 rows: every weight is read once, and reading them is what it costs.
 *
 * Work split: the tensor cores take 16 weight rows as the left operand and the step's rows, eight or sixteen, zero
 * behind the last, as the right one. A thread block of eight warps owns tiles of 16 · MT weight rows, every
 * gridDim.x-th one. Along k a tile is cut into groups of 128; warp w takes groups w, w + 8, … in ascending order, and
 * the eight sums of an output are added in the order of the warps. So a row's bits depend on its own x, on w and on
 * n_in, not on how many rows there are, on MT or on the grid.
 *
 * Order of k. A product does not mind in which order k runs as long as both operands agree: lane 4g + t reads 16 bytes
 * of rows g and g + 8 at k = 32 · step + 8t, and of x's row g at the same k, and calls these eight elements its own of
 * two instructions. So weights go from memory to registers to the tensor cores without a detour.
 *
 * Pipeline. A warp has 16 loads of 16 bytes in flight a lane, in two halves that are refilled by turns and run on
 * across tiles: 128 KiB on a multiprocessor. The first are asked for before the predecessor has ended (launch.cuh):
 * weights are never written. x comes from L1 at the moment of use; weights leave it alone.
 *
 * Shared memory: the warps' sums of a tile, twice. Bound by memory. Needs n_in and x's row stride divisible by 8, w and
 * x aligned to 16 bytes. CPU twin: gemm of device/cpu. */
#include "device/cuda/launch.cuh"
#include "device/cuda/ptx_gemv.cuh"

enum {
    WARP_LANES = 32,
    WARPS = 8,
    THREADS = WARPS * WARP_LANES,
    TILE = 16,  /* weight rows of one instruction */
    TOKENS = 8, /* rows of x of one instruction */
    STEP = 32,  /* k of one load: four lanes of 8 elements */
    GROUP_STEPS = 4,
    LOADS = 8, /* of a half of the pipeline */
};

struct lf_gemv_args {
    const char *w, *x;
    void *y;
    const float *bias, *residual;
    int n_rows, n_in, n_out, n_tiles, groups_per_warp;
    int x_stride, y_stride;
    int lead;
    bool y_float;
};

/* A place in a warp's way through its tiles: the next chunk of steps. */
struct way {
    int tile, chunk;
};

/* A half of the pipeline: MT · 16 weight rows by STEPS steps. */
template <int MT> struct weights {
    static constexpr int STEPS = LOADS / (2 * MT);
    uint4 low[STEPS][MT], high[STEPS][MT]; /* rows g and g + 8 of each 16 */
};

__device__ inline int first_k(int chunk, int steps)
{
    int step = chunk * steps, group = step / GROUP_STEPS * WARPS + threadIdx.x / WARP_LANES;
    return (group * GROUP_STEPS + step % GROUP_STEPS) * STEP + threadIdx.x % 4 * 8;
}

template <int MT> __device__ inline void load_weights(weights<MT> &h, const lf_gemv_args &p, way at)
{
    int g = threadIdx.x % WARP_LANES / 4, k0 = first_k(at.chunk, weights<MT>::STEPS);
    bool any = at.tile < p.n_tiles;
#pragma unroll
    for (int s = 0; s < weights<MT>::STEPS; s++) {
#pragma unroll
        for (int m = 0; m < MT; m++) {
            int k = k0 + s * STEP, row = (at.tile * MT + m) * TILE + g;
            const char *from = p.w + ((size_t)row * p.n_in + k) * 2;
            const uint4 zero = make_uint4(0, 0, 0, 0);
            h.low[s][m] = any && k < p.n_in && row < p.n_out ? ld_global_nc_no_allocate(from) : zero;
            h.high[s][m] =
                any && k < p.n_in && row + 8 < p.n_out ? ld_global_nc_no_allocate(from + (size_t)8 * p.n_in * 2) : zero;
        }
    }
}

template <int MT> __device__ inline void advance(way &at, const lf_gemv_args &p)
{
    if (++at.chunk < p.groups_per_warp * (GROUP_STEPS / weights<MT>::STEPS)) return;
    at.chunk = 0;
    at.tile += gridDim.x;
}

template <class T, int MT, int NT>
__device__ inline void multiply(float acc[MT][NT][4], const weights<MT> &h, const lf_gemv_args &p, way at)
{
    int g = threadIdx.x % WARP_LANES / 4, k0 = first_k(at.chunk, weights<MT>::STEPS);
    uint4 x[weights<MT>::STEPS][NT];
#pragma unroll
    for (int s = 0; s < weights<MT>::STEPS; s++) {
#pragma unroll
        for (int n = 0; n < NT; n++) {
            int k = k0 + s * STEP, row = n * TOKENS + g;
            bool any = row < p.n_rows && k < p.n_in;
            x[s][n] = any ? *(const uint4 *)(p.x + ((size_t)row * p.x_stride + k) * 2) : make_uint4(0, 0, 0, 0);
        }
    }
#pragma unroll
    for (int s = 0; s < weights<MT>::STEPS; s++) {
#pragma unroll
        for (int m = 0; m < MT; m++) {
            uint4 u = h.low[s][m], v = h.high[s][m];
#pragma unroll
            for (int n = 0; n < NT; n++) {
                mma_m16n8k16<T>(acc[m][n], u.x, v.x, u.y, v.y, x[s][n].x, x[s][n].y);
                mma_m16n8k16<T>(acc[m][n], u.z, v.z, u.w, v.w, x[s][n].z, x[s][n].w);
            }
        }
    }
}

/* The warps' sums of a tile, [row of x][weight row]; the pad keeps the lanes' stores in different banks. */
template <int MT, int NT> struct sums {
    float of[WARPS][NT * TOKENS][MT * TILE + 4];
};

template <class T> __device__ inline void write_y(const lf_gemv_args &p, int row, int col, float sum)
{
    size_t at = (size_t)row * p.y_stride + col;
    if (p.bias) sum += p.bias[col];
    if (p.residual) sum += p.residual[at];
    if (p.y_float)
        ((float *)p.y)[at] = sum;
    else
        ((T *)p.y)[at] = from_float<T>(sum);
}

/* Joins the warps' sums of a tile, writes the outputs, and zeroes acc. */
template <class T, int MT, int NT>
__device__ inline void finish_tile(float acc[MT][NT][4], sums<MT, NT> &s, const lf_gemv_args &p, int tile)
{
    int warp = threadIdx.x / WARP_LANES, g = threadIdx.x % WARP_LANES / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int m = 0; m < MT; m++) {
#pragma unroll
        for (int n = 0; n < NT; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                s.of[warp][n * TOKENS + 2 * t + i % 2][m * TILE + g + i / 2 * 8] = acc[m][n][i];
                acc[m][n][i] = 0.0f;
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < p.n_rows * MT * TILE; i += THREADS) {
        int row = i / (MT * TILE), r = i % (MT * TILE), col = tile * MT * TILE + r;
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; w++) sum += s.of[w][row][r];
        if (col < p.n_out) write_y<T>(p, row, col, sum);
    }
}

/* Up to eight rows the bound is one warp more than there are: it makes the compiler keep to 96 registers, and the next
 * product and a small kernel before it find room beside this one. */
template <class T, int MT, int NT>
__global__ void __launch_bounds__(NT == 1 ? THREADS + WARP_LANES : THREADS, 2)
    gemv(const __grid_constant__ lf_gemv_args p)
{
    __shared__ sums<MT, NT> shared[2];
    float acc[MT][NT][4] = {};
    weights<MT> half[2];
    way ask = {(int)blockIdx.x, 0}, done = ask;
    int turn = 0;
#pragma unroll
    for (int i = 0; i < 2; i++, advance<MT>(ask, p)) load_weights<MT>(half[i], p, ask);
    wait_predecessor();
    int n_tiles = (p.n_tiles - (int)blockIdx.x + (int)gridDim.x - 1) / (int)gridDim.x;
    int until_start = n_tiles * p.groups_per_warp * (GROUP_STEPS / weights<MT>::STEPS) - 2 - p.lead;
    if (until_start <= 0) start_successor();
    while (done.tile < p.n_tiles) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int tile = done.tile;
            if (tile >= p.n_tiles) break;
            multiply<T, MT, NT>(acc, half[i], p, done);
            load_weights<MT>(half[i], p, ask);
            if (--until_start == 0) start_successor();
            advance<MT>(ask, p);
            advance<MT>(done, p);
            if (done.tile == tile) continue;
            finish_tile<T, MT, NT>(acc, shared[turn], p, tile);
            turn = 1 - turn; /* whoever still reads the other has passed the next tile's barrier */
        }
    }
}

template <class T, int MT> static int setup_for()
{
    int rc = load_kernel(gemv<T, MT, 1>);
    return rc == 0 ? load_kernel(gemv<T, MT, 2>) : rc;
}

int lf_cuda_gemv_setup(void)
{
    int rc = setup_for<bf16, 1>();
    if (rc == 0) rc = setup_for<bf16, 2>();
    if (rc == 0) rc = setup_for<fp16, 1>();
    if (rc == 0) rc = setup_for<fp16, 2>();
    return rc;
}

template <class T> static int launch(const lf_gemv_args &args, int tile_rows, int n_blocks, lf_cuda_launch how)
{
    dim3 grid((unsigned)n_blocks);
    if (tile_rows == TILE)
        return queue_kernel(args.n_rows <= TOKENS ? gemv<T, 1, 1> : gemv<T, 1, 2>, grid, THREADS, how, args);
    return queue_kernel(args.n_rows <= TOKENS ? gemv<T, 2, 1> : gemv<T, 2, 2>, grid, THREADS, how, args);
}

bool lf_cuda_gemv_supports(const struct lf_gemm_params *p)
{
    return p->n_rows <= LF_CUDA_GEMV_ROWS && p->w->n_in % 8 == 0 && p->x_stride % 8 == 0 &&
           ((size_t)p->w->data | (size_t)p->x) % 16 == 0;
}

int lf_cuda_gemv(const struct lf_gemm_params *p, struct lf_cuda_gemv_plan plan, struct lf_cuda_launch how)
{
    if (p->n_rows == 0) return 0;
    int n_groups = (p->w->n_in + GROUP_STEPS * STEP - 1) / (GROUP_STEPS * STEP);
    lf_gemv_args args = {};
    args.w = (const char *)p->w->data;
    args.x = (const char *)p->x;
    args.y = p->y;
    args.bias = p->bias;
    args.residual = p->residual;
    args.n_rows = p->n_rows;
    args.n_in = p->w->n_in;
    args.n_out = p->w->n_out;
    args.n_tiles = (p->w->n_out + plan.tile_rows - 1) / plan.tile_rows;
    args.groups_per_warp = (n_groups + WARPS - 1) / WARPS;
    args.x_stride = p->x_stride;
    args.y_stride = p->y_stride;
    args.y_float = p->y_float;
    args.lead = plan.lead;
    int n_blocks = args.n_tiles < plan.n_blocks ? args.n_tiles : plan.n_blocks;
    return how.fp16 ? launch<fp16>(args, plan.tile_rows, n_blocks, how)
                    : launch<bf16>(args, plan.tile_rows, n_blocks, how);
}
