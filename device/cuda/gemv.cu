/* y = x · wᵀ (+ bias) (+ residual) for 1 to 16 rows: every weight is read once, and reading them is what it costs.
 * With w = [gate, up] also y = silu(x · gateᵀ) · (x · upᵀ) at once: one kernel less between two products.
 *
 * Work split: the tensor cores take 16 weight rows as the left operand (where gate and up meet, eight of each) and the
 * step's rows, eight or sixteen, zero behind the last, as the right one. A thread block of eight warps owns every
 * gridDim.x-th of these tiles. Along k a tile is cut into groups of 128; warp w takes groups w, w + 8, … in ascending
 * order, and the eight sums of an output are added in the order of the warps. So a row's bits depend on its own x, on w
 * and on n_in, not on how many rows there are or on the grid. Tiles of 32 weight rows read x half as often, but their
 * blocks take a third longer: registers.
 *
 * Order of k. A product does not mind in which order k runs as long as both operands agree: lane 4g + t reads 16 bytes
 * of rows g and g + 8 at k = 32 · step + 8t, and of x's row g at the same k, and calls these eight elements its own of
 * two instructions. So weights go from memory to registers to the tensor cores without a detour.
 *
 * Pipeline. Each lane copies what it will multiply into a ring in shared memory (cp.async, past L1) some groups ahead
 * and across tiles; nobody else touches it, so the only thing waited for is its own copies. The first groups are asked
 * for before the predecessor has ended (launch.cuh): weights are never written. Rings are small enough for this block
 * and the next product's to be on a multiprocessor together. x comes from L1 or L2 at the moment of use.
 *
 * Shared memory: the ring, 96 KiB, and the warps' sums of a tile, up to 10 KiB. Bound by memory. Needs n_in and x's row
 * stride divisible by 8, w and x aligned to 16 bytes. CPU twin: gemm of device/cpu. */
#include "device/cuda/launch.cuh"
#include "device/cuda/ptx_gemv.cuh"
#include "device/cuda/silu.cuh"

enum {
    WARP_LANES = 32,
    WARPS = 8,
    THREADS = WARPS * WARP_LANES,
    TILE = 16, /* weight rows of one instruction, in two halves */
    HALF = TILE / 2,
    TOKENS = 8, /* rows of x of one instruction */
    STEP = 32,  /* k of one load: four lanes of 8 elements */
    GROUP_STEPS = 4,
    LOADS = 2 * GROUP_STEPS, /* of a lane in a group */
    GROUPS = 3,              /* of a warp in the ring */
    RING_BYTES = WARPS * GROUPS * LOADS * WARP_LANES * 16
};

struct lf_gemv_args {
    const char *w, *x;
    void *y;
    const float *bias, *residual;
    int n_rows, n_in, n_out, n_tiles, groups_per_warp;
    int half_stride, tile_stride; /* of weight rows: from a tile's first half to its second, and to the next tile */
    int x_stride, y_stride;
    bool y_float, gates; /* gates: the halves are gate and up, n_out counts both */
};

/* A place in a warp's way through its tiles: the next group, of the warp's. */
struct way {
    int tile, group;
};

/* Of the lane's first element in a warp's group. */
__device__ inline int first_k(int group)
{
    return (group * WARPS + threadIdx.x / WARP_LANES) * GROUP_STEPS * STEP + threadIdx.x % 4 * 8;
}

/* The lane's place in a slot of its warp's ring; its loads lie a warp apart. */
__device__ inline uint4 *ring_slot(uint4 *ring, int slot)
{
    return ring + ((threadIdx.x / WARP_LANES * GROUPS + slot) * LOADS) * WARP_LANES + threadIdx.x % WARP_LANES;
}

__device__ inline void ask_weights(uint4 *slot, const lf_gemv_args &p, way at)
{
    int g = threadIdx.x % WARP_LANES / 4, k0 = first_k(at.group);
    if (at.tile < p.n_tiles) {
#pragma unroll
        for (int i = 0; i < LOADS; i++) { /* step, half of the tile's rows */
            int k = k0 + i / 2 * STEP, row = at.tile * p.tile_stride + i % 2 * p.half_stride + g;
            bool any = k < p.n_in && row < p.n_out;
            cp_async_cg(slot + i * WARP_LANES, any ? p.w + ((size_t)row * p.n_in + k) * 2 : p.w, any ? 16 : 0);
        }
    }
    cp_async_commit_group();
}

__device__ inline void advance(way &at, const lf_gemv_args &p)
{
    if (++at.group < p.groups_per_warp) return;
    at.group = 0;
    at.tile += gridDim.x;
}

template <class T, int NT>
__device__ inline void multiply(float acc[NT][4], const uint4 *slot, const lf_gemv_args &p, way at)
{
    int g = threadIdx.x % WARP_LANES / 4, k0 = first_k(at.group);
    uint4 x[GROUP_STEPS][NT];
#pragma unroll
    for (int s = 0; s < GROUP_STEPS; s++) {
#pragma unroll
        for (int n = 0; n < NT; n++) {
            int k = k0 + s * STEP, row = n * TOKENS + g;
            bool any = row < p.n_rows && k < p.n_in;
            x[s][n] = any ? *(const uint4 *)(p.x + ((size_t)row * p.x_stride + k) * 2) : make_uint4(0, 0, 0, 0);
        }
    }
    cp_async_wait_group<GROUPS - 1>();
#pragma unroll
    for (int s = 0; s < GROUP_STEPS; s++) {
        uint4 u = slot[2 * s * WARP_LANES], v = slot[(2 * s + 1) * WARP_LANES];
#pragma unroll
        for (int n = 0; n < NT; n++) {
            mma_m16n8k16<T>(acc[n], u.x, v.x, u.y, v.y, x[s][n].x, x[s][n].y);
            mma_m16n8k16<T>(acc[n], u.z, v.z, u.w, v.w, x[s][n].z, x[s][n].w);
        }
    }
}

/* The warps' sums of a tile, [row of x][weight row]; the pad keeps the lanes' stores in different banks. */
template <int NT> struct sums {
    float of[WARPS][NT * TOKENS][TILE + 4];
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

/* The warps' sums of a tile's weight row r, in the order of the warps. */
template <int NT> __device__ inline float sum_of(const sums<NT> &s, int row, int r)
{
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum += s.of[w][row][r];
    return sum;
}

/* Writes output i of a tile of plain weight rows, or of pairs of gate and up; both are rounded before they meet. */
template <class T, int NT> __device__ inline void write_plain(const lf_gemv_args &p, const sums<NT> &s, int tile, int i)
{
    int row = i / TILE, r = i % TILE, col = tile * TILE + r;
    if (row < p.n_rows && col < p.n_out) write_y<T>(p, row, col, sum_of(s, row, r));
}

template <class T, int NT> __device__ inline void write_gated(const lf_gemv_args &p, const sums<NT> &s, int tile, int i)
{
    int row = i / HALF, r = i % HALF, col = tile * HALF + r;
    if (row >= p.n_rows || col >= p.half_stride) return;
    float gate = sum_of(s, row, r), up = sum_of(s, row, r + HALF);
    if (p.bias) {
        gate += p.bias[col];
        up += p.bias[col + p.half_stride];
    }
    ((T *)p.y)[(size_t)row * p.y_stride + col] =
        from_float<T>(silu_mul(to_float(from_float<T>(gate)), to_float(from_float<T>(up))));
}

/* Joins the warps' sums of a tile, writes the outputs, and zeroes acc. */
template <class T, int NT>
__device__ inline void finish_tile(float acc[NT][4], sums<NT> &s, const lf_gemv_args &p, int tile)
{
    int warp = threadIdx.x / WARP_LANES, g = threadIdx.x % WARP_LANES / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < NT; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s.of[warp][n * TOKENS + 2 * t + i % 2][g + i / 2 * HALF] = acc[n][i];
            acc[n][i] = 0.0f;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < p.n_rows * TILE; i += THREADS) {
        if (!p.gates)
            write_plain<T>(p, s, tile, i);
        else
            write_gated<T>(p, s, tile, i);
    }
    __syncthreads();
}

/* Two blocks a multiprocessor: this product's and the next one's. */
template <class T, int NT> __global__ void __launch_bounds__(THREADS, 2) gemv(const __grid_constant__ lf_gemv_args p)
{
    extern __shared__ uint4 ring[];
    __shared__ sums<NT> shared;
    float acc[NT][4] = {};
    way ask = {(int)blockIdx.x, 0}, at = ask;
    start_successor();
    for (int slot = 0; slot < GROUPS; slot++, advance(ask, p)) ask_weights(ring_slot(ring, slot), p, ask);
    wait_predecessor();
    for (int slot = 0; at.tile < p.n_tiles; slot = slot + 1 < GROUPS ? slot + 1 : 0) {
        int tile = at.tile;
        multiply<T, NT>(acc, ring_slot(ring, slot), p, at);
        ask_weights(ring_slot(ring, slot), p, ask);
        advance(ask, p);
        advance(at, p);
        if (at.tile != tile) finish_tile<T, NT>(acc, shared, p, tile);
    }
}

/* Shapes that nobody else takes, any number of rows: a warp an output. */
template <class T> __global__ void __launch_bounds__(THREADS) gemm_any(const __grid_constant__ lf_gemv_args p)
{
    int lane = threadIdx.x % WARP_LANES, col = blockIdx.x * WARPS + threadIdx.x / WARP_LANES;
    start_successor();
    wait_predecessor();
    if (col >= p.n_out) return;
    const T *w = (const T *)p.w + (size_t)col * p.n_in;
    for (int row = blockIdx.y; row < p.n_rows; row += gridDim.y) {
        const T *x = (const T *)p.x + (size_t)row * p.x_stride;
        float sum = 0.0f;
        for (int k = lane; k < p.n_in; k += WARP_LANES) sum += to_float(w[k]) * to_float(x[k]);
#pragma unroll
        for (int step = WARP_LANES / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (lane == 0) write_y<T>(p, row, col, sum);
    }
}

template <class T, int NT> static int setup_one()
{
    int rc = load_kernel(gemv<T, NT>);
    if (rc != 0) return rc;
    return (int)cudaFuncSetAttribute(gemv<T, NT>, cudaFuncAttributeMaxDynamicSharedMemorySize, RING_BYTES);
}

template <class T> static int setup_type()
{
    int rc = setup_one<T, 1>();
    return rc == 0 ? setup_one<T, 2>() : rc;
}

int lf_cuda_gemv_setup(bool *fits)
{
    int rc = load_kernel(gemm_any<bf16>);
    if (rc == 0) rc = load_kernel(gemm_any<fp16>);
    if (rc != 0) return rc;
    rc = setup_type<bf16>();
    if (rc == 0) rc = setup_type<fp16>();
    *fits = rc == 0;
    if (rc != cudaErrorInvalidValue) return rc;
    (void)cudaGetLastError(); /* the ring is larger than what a block may have */
    return 0;
}

template <class T> static int launch(const lf_gemv_args &args, dim3 grid, lf_cuda_launch how)
{
    return queue_shared(args.n_rows <= TOKENS ? gemv<T, 1> : gemv<T, 2>, grid, THREADS, RING_BYTES, how, args);
}

bool lf_cuda_gemv_supports(const struct lf_gemm_params *p)
{
    return p->n_rows <= LF_CUDA_GEMV_ROWS && p->w->n_in % 8 == 0 && p->x_stride % 8 == 0 &&
           ((size_t)p->w->data | (size_t)p->x) % 16 == 0;
}

bool lf_cuda_gemv_silu_mul_supports(const struct lf_gemm_params *p)
{
    return lf_cuda_gemv_supports(p) && !p->y_float && p->w->n_out % TILE == 0;
}

static lf_gemv_args args_of(const struct lf_gemm_params *p)
{
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
    args.groups_per_warp = (n_groups + WARPS - 1) / WARPS;
    args.x_stride = p->x_stride;
    args.y_stride = p->y_stride;
    args.y_float = p->y_float;
    args.half_stride = HALF;
    args.tile_stride = TILE;
    return args;
}

static int launch_tiles(lf_gemv_args args, int n_blocks, struct lf_cuda_launch how)
{
    if (args.n_rows == 0) return 0;
    args.n_tiles = (args.n_out + TILE - 1) / TILE;
    dim3 grid((unsigned)(args.n_tiles < n_blocks ? args.n_tiles : n_blocks));
    return how.fp16 ? launch<fp16>(args, grid, how) : launch<bf16>(args, grid, how);
}

int lf_cuda_gemv(const struct lf_gemm_params *p, int n_blocks, struct lf_cuda_launch how)
{
    return launch_tiles(args_of(p), n_blocks, how);
}

int lf_cuda_gemv_silu_mul(const struct lf_gemm_params *p, void *out, int n_blocks, struct lf_cuda_launch how)
{
    lf_gemv_args args = args_of(p);
    args.gates = true;
    args.y = out;
    args.half_stride = args.y_stride = args.n_out / 2;
    args.tile_stride = HALF;
    return launch_tiles(args, n_blocks, how);
}

int lf_cuda_gemm_any(const struct lf_gemm_params *p, struct lf_cuda_launch how)
{
    const int most = 65535;
    if (p->n_rows == 0) return 0;
    dim3 grid((unsigned)((p->w->n_out + WARPS - 1) / WARPS), (unsigned)(p->n_rows < most ? p->n_rows : most));
    return queue_kernel(how.fp16 ? gemm_any<fp16> : gemm_any<bf16>, grid, THREADS, how, args_of(p));
}
