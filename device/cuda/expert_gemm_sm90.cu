/* Grouped GEMM on Hopper: x · w[e]ᵀ of the expert rows of many tokens. Copy engine (TMA), warpgroup MMA (wgmma), warp
 * specialization.
 *
 * Work. A tile is up to 128 rows of one expert by 96, 128 or 256 of its columns (expert_list.cuh), 64 of the depth a
 * step. CTAs are persistent, one on each multiprocessor, and own every gridDim.x-th tile. Producers keep a ring of
 * steps in shared memory full, across the ends of tiles; two warpgroups of consumers have 64 rows each, sums in
 * registers. Where a tile has 64 rows or fewer, the second has nothing to multiply: what a tile costs goes by halves.
 *
 * Operands. Weights come through a map of all experts' matrices, so what lies behind one's last column is zeros, not
 * the next expert. Rows that lie sorted come through a map too. Rows that lie by token are gathered: each thread of the
 * producers' warpgroup copies 16 bytes of rows 16 apart (cp.async) into their places of the swizzle. It says that a
 * step is there LAG steps later, when its copies of that step are complete and fenced: so LAG + 1 steps are under way,
 * and the ring must have more slots than that. Rows that are not there are not copied; their sums are nobody's.
 *
 * Rows that lie sorted: as in expert_gemv.cu the first weights are on their way before the predecessor has ended.
 *
 * Bits. A row's sums run along the depth in the order of the tensor core's instructions, and nothing of that depends on
 * where the row stands or what the others are: its bits are its own, in any step that comes here.
 *
 * Few rows an expert: bound by reading the weights, once for each 128 rows; the ring holds 84 or 96 KiB of them. One
 * token's rows are of as many experts, so how many tiles there are is known before route has run: it takes the width
 * that leaves the multiprocessor with the most columns the fewest. Else by the tensor cores. Registers: 128 sums a
 * thread of the consumers. Shared memory: four steps of 48 KiB, six of 32 or seven of 28, and the list. Pairs of CTAs
 * that share the weights of 256 rows (multicast) were slower at any size: 0.6 of this at 512 rows an expert. Needs
 * sm_90a, n_in and n_out divisible by 8. Any shape: expert_rows.cu. */
#include <limits.h>

#include "device/cuda/elem.cuh"
#include "device/cuda/expert_list.cuh"
#include "device/cuda/launch.cuh"
#include "device/cuda/ptx_copy.cuh"
#include "device/cuda/ptx_tma.cuh"
#include "device/cuda/ptx_wgmma.cuh"
#include "device/cuda/tensor_map.cuh"

enum {
    GROUP_THREADS = 128,
    GROUP_WARPS = GROUP_THREADS / WARP,
    N_CONSUMERS = 2, /* warpgroups */
    GEMM_THREADS = (1 + N_CONSUMERS) * GROUP_THREADS,
    HALF_ROWS = 64, /* of a consumer */
    TILE_ROWS = N_CONSUMERS * HALF_ROWS,
    STEP = 64, /* of the depth */
    ROW_BYTES = STEP * 2,
    HALF_BYTES = HALF_ROWS * ROW_BYTES,
    X_BYTES = TILE_ROWS * ROW_BYTES,
    LAG = 2,
    UNITS = ROW_BYTES / 16,                 /* of 16 bytes, a thread each */
    ROWS_APART = GROUP_THREADS / UNITS,     /* rows that the producers copy at once */
    ROWS_A_THREAD = TILE_ROWS / ROWS_APART, /* of a step */
};
static_assert(ROWS_APART % 8 == 0, "the swizzle of a thread's rows is one and the same");

/* Tiles of so many columns. */
template <int COLUMNS> struct gemm_shape {
    static constexpr int N_SLOTS = COLUMNS == 256 ? 4 : COLUMNS == 128 ? 6 : 7, W_BYTES = COLUMNS * ROW_BYTES;
    static_assert(LAG + 1 < N_SLOTS, "slots that are neither under way nor published");

    struct memory {
        alignas(1024) char x[N_SLOTS][X_BYTES];
        alignas(1024) char w[N_SLOTS][W_BYTES];
        uint64_t full[N_SLOTS], empty[N_SLOTS];
        expert_list<TILE_ROWS> list;
    };

    /* Where a role is in the ring. */
    struct cursor {
        int slot, parity;

        LF_GPU_MEMBER void advance()
        {
            if (++slot < N_SLOTS) return;
            slot = 0;
            parity ^= 1;
        }
    };

    LF_GPU_MEMBER static expert_walk<TILE_ROWS> walk(const memory &smem, int column_tiles)
    {
        return {smem.list, column_tiles, (int)blockIdx.x, (int)gridDim.x};
    }
};

struct gemm_args {
    void *y;
    const float *bias;
    const char *x; /* by token */
    const int32_t *rows, *first;
    int n_in, n_out, n_experts, k;
    int columns, column_tiles, n_steps; /* columns: of a tile */
    bool y_float;
};

/* The thread's rows of a tile, by token: rows apart, where they begin in x. */
struct gathered_rows {
    uint32_t at[ROWS_A_THREAD];
    int n;

    LF_GPU_MEMBER void find(const gemm_args &args, const expert_tile &tile, int thread)
    {
        int first = thread / UNITS;
        n = max(0, (tile.n_rows - first + ROWS_APART - 1) / ROWS_APART);
#pragma unroll
        for (int i = 0; i < ROWS_A_THREAD; i++)
            if (i < n) at[i] = (uint32_t)(args.rows[tile.row + first + i * ROWS_APART] / args.k) * args.n_in * 2;
    }
};

template <class SHAPE, bool BY_TOKEN> struct producer {
    using cursor = typename SHAPE::cursor;

    const gemm_args &args;
    typename SHAPE::memory &smem;
    const CUtensorMap *x_map, *w_map;
    int thread; /* of the warpgroup */
    cursor ring, done;
    int n_begun; /* steps whose copies are not known to be complete */
    gathered_rows rows;

    LF_GPU_MEMBER uint32_t full(const cursor &at) const
    {
        return shared_address(&smem.full[at.slot]);
    }

    /* bytes: of the step, all that comes by the copy engine. */
    LF_GPU_MEMBER void bring_weights(const expert_tile &tile, int step, int bytes) const
    {
        mbarrier_arrive_expect_tx(full(ring), bytes);
        cp_async_bulk_tensor_3d(shared_address(smem.w[ring.slot]), w_map, full(ring), step * STEP,
                                tile.column_tile * args.columns, tile.expert);
    }

    /* Of rows by token, copied: says that the oldest step is there. */
    LF_GPU_MEMBER void publish()
    {
        fence_proxy_async();
        mbarrier_arrive(full(done));
        done.advance();
        n_begun--;
    }

    LF_GPU_MEMBER void gather(int step)
    {
        int unit = thread % UNITS, first = thread / UNITS, depth = step * STEP + unit * 8;
        uint32_t dst = shared_address(smem.x[ring.slot]) + first * ROW_BYTES + (unit ^ first % 8) * 16;
        bool is_there = depth < args.n_in;
#pragma unroll
        for (int i = 0; i < ROWS_A_THREAD; i++)
            if (i < rows.n)
                cp_async_cg_16(dst + i * ROWS_APART * ROW_BYTES, args.x + (is_there ? rows.at[i] + depth * 2 : 0),
                               is_there ? 16 : 0);
        cp_async_commit_group();
        if (++n_begun <= LAG) return;
        cp_async_wait_group<LAG>();
        publish();
    }

    LF_GPU_MEMBER int n_halves(const expert_tile &tile) const
    {
        return (tile.n_rows + HALF_ROWS - 1) / HALF_ROWS;
    }

    /* Of rows that lie sorted. */
    LF_GPU_MEMBER void bring_rows(const expert_tile &tile, int step) const
    {
        for (int h = 0; h < n_halves(tile); h++)
            cp_async_bulk_tensor_2d(shared_address(smem.x[ring.slot]) + h * HALF_BYTES, x_map, full(ring), step * STEP,
                                    tile.row + h * HALF_ROWS);
    }

    /* By all threads where rows are gathered, else by one. */
    LF_GPU_MEMBER void bring(const expert_tile &tile, int step)
    {
        mbarrier_try_wait_parity(shared_address(&smem.empty[ring.slot]), ring.parity ^ 1);
        if constexpr (BY_TOKEN) {
            if (thread == 0) bring_weights(tile, step, SHAPE::W_BYTES);
            gather(step);
        } else {
            bring_weights(tile, step, SHAPE::W_BYTES + n_halves(tile) * HALF_BYTES);
            bring_rows(tile, step);
        }
        ring.advance();
    }

    /* The first steps of the first tile, as many as there are slots: weights now, rows when the predecessor is
     * complete. Returns how many. */
    LF_GPU_MEMBER int bring_first(const expert_tile &tile)
    {
        int n = min((int)SHAPE::N_SLOTS, args.n_steps);
        cursor begin = ring;
        for (int step = 0; step < n; step++, ring.advance())
            bring_weights(tile, step, SHAPE::W_BYTES + n_halves(tile) * HALF_BYTES);
        wait_predecessor();
        ring = begin;
        for (int step = 0; step < n; step++, ring.advance()) bring_rows(tile, step);
        return n;
    }

    LF_GPU_MEMBER void run()
    {
        auto walk = SHAPE::walk(smem, args.column_tiles);
        bool has_waited = BY_TOKEN;
        for (expert_tile tile; walk.take(tile);) {
            int step = 0;
            if constexpr (BY_TOKEN) rows.find(args, tile, thread);
            if (!has_waited) step = bring_first(tile);
            has_waited = true;
            for (; step < args.n_steps; step++) bring(tile, step);
        }
        if (!has_waited) wait_predecessor();
        cp_async_wait_group<0>();
        while (n_begun > 0) publish();
    }
};

/* One consumer warpgroup. Row half h of a thread is row 64 · group + 16 · warp + lane / 4 + 8h of the tile. */
template <class T, class SHAPE> struct consumer {
    static constexpr int COLUMNS = SHAPE::W_BYTES / ROW_BYTES;

    const gemm_args &args;
    typename SHAPE::memory &smem;
    int group, warp, lane;
    typename SHAPE::cursor ring;
    float sums[COLUMNS / 2];

    LF_GPU_MEMBER int take_slot()
    {
        int slot = ring.slot;
        mbarrier_try_wait_parity(shared_address(&smem.full[slot]), ring.parity);
        ring.advance();
        return slot;
    }

    /* Each warp for itself. */
    LF_GPU_MEMBER void release_slot(int slot) const
    {
        if (lane == 0) mbarrier_arrive(shared_address(&smem.empty[slot]));
    }

    /* sums += x · wᵀ of a step, started. */
    LF_GPU_MEMBER void start(int slot)
    {
        uint32_t x = wgmma_descriptor_low(shared_address(smem.x[0]), 16) + (slot * X_BYTES + group * HALF_BYTES) / 16;
        uint32_t w = wgmma_descriptor_low(shared_address(smem.w[0]), 16) + slot * (SHAPE::W_BYTES / 16);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < STEP / 16; i++)
            wgmma_ss<T>(sums, wgmma_descriptor(x, i * 32), wgmma_descriptor(w, i * 32), true);
        wgmma_commit_group();
    }

    LF_GPU_MEMBER void hold_sums()
    {
#pragma unroll
        for (int i = 0; i < COLUMNS / 2; i++) hold(sums[i]);
    }

    LF_GPU_MEMBER void multiply()
    {
#pragma unroll
        for (int i = 0; i < COLUMNS / 2; i++) sums[i] = 0.0f;
        hold_sums();
        int before = take_slot();
        start(before);
        for (int step = 1; step < args.n_steps; step++) {
            int slot = take_slot();
            start(slot);
            wgmma_wait_group<1>();
            release_slot(before);
            before = slot;
        }
        wgmma_wait_group<0>();
        hold_sums();
        release_slot(before);
    }

    LF_GPU_MEMBER void pass()
    {
        for (int step = 0; step < args.n_steps; step++) release_slot(take_slot());
    }

    /* Pairs of columns from four times eight, turned round: the lane's eight neighbouring columns of a row, if the row
     * is there. */
    LF_GPU_MEMBER void store(size_t at, bool is_there, int quad, float (&x)[4], float (&y)[4]) const
    {
        if (args.y_float) {
            quad_transpose(x, quad);
            quad_transpose(y, quad);
            float4 *out = (float4 *)((float *)args.y + at);
            if (!is_there) return;
            out[0] = make_float4(x[0], y[0], x[1], y[1]);
            out[1] = make_float4(x[2], y[2], x[3], y[3]);
        } else {
            float words[4];
#pragma unroll
            for (int i = 0; i < 4; i++) words[i] = __uint_as_float(pack<T>(x[i], y[i]));
            quad_transpose(words, quad);
            if (is_there) *(float4 *)((T *)args.y + at) = make_float4(words[0], words[1], words[2], words[3]);
        }
    }

    /* A lane has two columns of each eight. Four times eight at once are turned round in the quad, so that a lane has
     * one of them whole: few stores of 16 bytes, where a store takes its time by the rows that it touches. */
    LF_GPU_MEMBER void write(const expert_tile &tile) const
    {
        int r = group * HALF_ROWS + warp * 16 + lane / 4, quad = lane % 4, col0 = tile.column_tile * COLUMNS;
        const float *bias = args.bias ? args.bias + (size_t)tile.expert * args.n_out + col0 + quad * 2 : nullptr;
        size_t at = (size_t)(tile.row + r) * args.n_out + col0 + quad * 8;
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j += 4) {
            if (col0 + 8 * j >= args.n_out) break;
            float2 b[4] = {};
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (bias && col0 + 8 * (j + i) < args.n_out) b[i] = *(const float2 *)(bias + 8 * (j + i));
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float x[4], y[4];
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    x[i] = sums[4 * (j + i) + 2 * h] + b[i].x;
                    y[i] = sums[4 * (j + i) + 2 * h + 1] + b[i].y;
                }
                bool is_there = r + 8 * h < tile.n_rows && col0 + 8 * (j + quad) < args.n_out;
                store(at + 8 * j + (size_t)(8 * h) * args.n_out, is_there, quad, x, y);
            }
        }
    }

    LF_GPU_MEMBER void run()
    {
        auto walk = SHAPE::walk(smem, args.column_tiles);
        for (expert_tile tile; walk.take(tile);) {
            if (uniform(tile.n_rows) <= group * HALF_ROWS) {
                pass();
                continue;
            }
            multiply();
            write(tile);
        }
    }
};

template <class T, bool BY_TOKEN, int COLUMNS>
__global__ void __launch_bounds__(GEMM_THREADS, 1)
    expert_gemm(const __grid_constant__ CUtensorMap x_map, const __grid_constant__ CUtensorMap w_map,
                const __grid_constant__ gemm_args args)
{
    extern __shared__ char raw[];
    using shape = gemm_shape<COLUMNS>;
    auto &smem = *(typename shape::memory *)(((uintptr_t)raw + 1023) & ~(uintptr_t)1023);
    if (threadIdx.x == 0) {
        for (int i = 0; i < shape::N_SLOTS; i++) {
            mbarrier_init(shared_address(&smem.full[i]), BY_TOKEN ? 1 + GROUP_THREADS : 1);
            mbarrier_init(shared_address(&smem.empty[i]), N_CONSUMERS * GROUP_WARPS);
        }
        fence_mbarrier_init();
    }
    if (BY_TOKEN) wait_predecessor();
    start_successor(); /* in this order: expert_gemv.cu says why */
    if (threadIdx.x / WARP == 1) smem.list.build(args.first, args.n_experts);
    __syncthreads();
    int role = uniform((int)threadIdx.x / GROUP_THREADS);
    if (role == 0) {
        setmaxnreg_dec<72>();
        if (BY_TOKEN || threadIdx.x == 0) {
            producer<shape, BY_TOKEN> self = {args, smem, &x_map, &w_map, (int)threadIdx.x, {0, 0}, {0, 0}, 0};
            self.run();
        } else {
            wait_predecessor();
        }
    } else {
        setmaxnreg_inc<216>();
        wait_predecessor();
        consumer<T, shape> self = {args, smem, role - 1, uniform((int)threadIdx.x % GROUP_THREADS / WARP), laneid()};
        self.run();
    }
}

/* ---- host ---- */

typedef void gemm_kernel(const CUtensorMap, const CUtensorMap, const gemm_args);

static tensor_map_encoder encode_tiled; /* found by _setup */

struct gemm_entry {
    int columns;
    size_t smem_bytes;
    int rows_most;              /* of an expert, on average, that it is for */
    gemm_kernel *kernels[2][2]; /* bf16, fp16; sorted, by token */
};

#define ENTRY(columns, rows_most)                                                                                      \
    {                                                                                                                  \
        columns, sizeof(gemm_shape<columns>::memory) + 1024, rows_most,                                                \
        {                                                                                                              \
            {expert_gemm<bf16, false, columns>, expert_gemm<bf16, true, columns>},                                     \
            {                                                                                                          \
                expert_gemm<fp16, false, columns>, expert_gemm<fp16, true, columns>                                    \
            }                                                                                                          \
        }                                                                                                              \
    }
/* The last one is for one token alone. */
static const gemm_entry entries[LF_CUDA_EXPERT_TILES] = {ENTRY(128, 128), ENTRY(256, INT_MAX), ENTRY(96, 0)};

int lf_cuda_expert_gemm_sm90_setup(void)
{
    int rc = find_tensor_map_encoder(&encode_tiled);
    for (const gemm_entry &entry : entries)
        for (const auto &kernels : entry.kernels)
            for (gemm_kernel *kernel : kernels)
                if (rc == 0) rc = load_kernel(kernel, entry.smem_bytes);
    return rc;
}

bool lf_cuda_expert_gemm_sm90_supports(const struct lf_expert_gemm_params *p)
{
    uint64_t x_bytes = (uint64_t)p->n_tokens * (uint64_t)p->w->n_in * 2; /* offsets of rows by token have 32 bits */
    return p->w->n_in % 8 == 0 && p->w->n_out % 8 == 0 &&
           ((size_t)p->w->data | (size_t)p->x | (size_t)p->y) % 16 == 0 && (size_t)p->bias % 8 == 0 &&
           x_bytes <= UINT32_MAX;
}

/* Columns that the multiprocessor with the most of them has of one token's experts. */
static int most_columns(const gemm_entry *entry, const struct lf_expert_gemm_params *p, int n_blocks)
{
    int n_tiles = p->k * ((p->w->n_out + entry->columns - 1) / entry->columns);
    return (n_tiles + n_blocks - 1) / n_blocks * entry->columns;
}

/* By rows of an expert on average; of one token's, by what they leave idle. */
static const gemm_entry *entry_for(const struct lf_expert_gemm_params *p, int n_blocks)
{
    int64_t n_rows = (int64_t)p->n_tokens * p->k / p->w->n_experts;
    const gemm_entry *entry = entries, *narrow = &entries[LF_CUDA_EXPERT_TILES - 1];
    if (p->n_tokens == 1 && most_columns(narrow, p, n_blocks) < most_columns(entry, p, n_blocks)) return narrow;
    while (entry->rows_most < n_rows) entry++;
    return entry;
}

int lf_cuda_expert_gemm_sm90(const struct lf_expert_gemm_params *p, size_t expert_bytes, int n_blocks, int tiles,
                             struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    const gemm_entry *entry = tiles >= 0 ? &entries[tiles] : entry_for(p, n_blocks);
    gemm_args args = {};
    args.y = p->y;
    args.bias = p->bias;
    args.x = (const char *)p->x;
    args.rows = p->rows;
    args.first = p->first;
    args.n_in = p->w->n_in;
    args.n_out = p->w->n_out;
    args.n_experts = p->w->n_experts;
    args.k = p->k;
    args.column_tiles = (p->w->n_out + entry->columns - 1) / entry->columns;
    args.columns = entry->columns;
    args.n_steps = (p->w->n_in + STEP - 1) / STEP;
    args.y_float = p->y_float;

    CUtensorMap x_map, w_map;
    const cuuint64_t depth = (cuuint64_t)args.n_in;
    const cuuint64_t w_dims[3] = {depth, (cuuint64_t)args.n_out, (cuuint64_t)args.n_experts};
    const cuuint64_t w_strides[2] = {depth * 2, expert_bytes};
    const cuuint32_t w_box[3] = {STEP, (cuuint32_t)entry->columns, 1};
    int rc = encode_tensor_map(encode_tiled, &w_map, how.fp16, p->w->data, 3, w_dims, w_strides, w_box);
    if (rc != 0) return rc;
    const cuuint64_t x_dims[2] = {depth, (cuuint64_t)p->n_tokens * (p->x_by_token ? 1 : (cuuint64_t)p->k)};
    const cuuint32_t x_box[2] = {STEP, HALF_ROWS};
    rc = encode_tensor_map(encode_tiled, &x_map, how.fp16, p->x, 2, x_dims, w_strides, x_box);
    if (rc != 0) return rc;

    gemm_kernel *kernel = entry->kernels[how.fp16][p->x_by_token];
    launch_shape shape = {(unsigned)n_blocks, GEMM_THREADS, entry->smem_bytes};
    return queue_kernel(kernel, shape, how, x_map, w_map, args);
}
