/* FP8 GEMM of many tokens on Hopper, and who multiplies how many (gemm_fp8_sm90.h). Copy engine (TMA) with multicast,
 * warpgroup MMA (wgmma), warp specialization.
 *
 * Work. A tile is 128 or 256 tokens by 128 rows of w, 128 of the depth a step, so a step has one scale of w. CTAs are
 * persistent, one on each multiprocessor. A cluster's CTAs stand side by side along w and share the tokens: each brings
 * its part of them to all. Tiles run through a group of token tiles before they move on along w, so what the CTAs read
 * at a time is about as many rows of x as of w, and L2 has the rest.
 *
 * Promotion. A step's sums, from zero, are in the tensor core's accumulator; then they are added to sums of the
 * thread's own. With one accumulator a warpgroup cannot multiply meanwhile: the other one does. Of 256 tokens each
 * warpgroup has two halves of 64, one after the other through the same accumulator: 64 + 128 registers, and w is
 * brought once for 256 tokens. What other forms cost is in docs/notebook/gemm-fp8.md;
 * sustained it is bound by the card's power, and additions take a tenth to a fifth of its rate.
 *
 * Outputs of 16 bits go through shared memory, and the copy engine writes them while the next tile is multiplied.
 * Floats go from registers, for a residual may have to be read. Rows behind the last token come as zeros and are
 * nobody's. */
#include "device/cuda/gemm_fp8.cuh"
#include "device/cuda/ptx_cluster.cuh"
#include "device/cuda/ptx_mma.cuh"

enum {
    TILE_COLUMNS = LF_FP8_BLOCK, /* rows of w */
    W_BYTES = TILE_COLUMNS * FP8_STEP,
    GROUP_ROWS = 2048, /* tokens that tiles run through before they move on along w */
    N_SUMS = TILE_COLUMNS / 2,
    RING_BYTES = 160 * 1024,
    BOX_COLUMNS = 64, /* of y, in 16 bits: rows of 128 bytes in the swizzle of 128 */
    BOX_BYTES = FP8_MMA_ROWS * 128,
};

/* HALVES: of 64 tokens, each consumer's. BLOCKS: a cluster's, side by side along w. */
template <int HALVES_, int BLOCKS_, lf_fp8_scales BY_> struct fp8_shape {
    static constexpr int HALVES = HALVES_, BLOCKS = BLOCKS_;
    static constexpr lf_fp8_scales BY = BY_;
    static constexpr int ROWS = FP8_CONSUMERS * HALVES * FP8_MMA_ROWS, X_BYTES = ROWS * FP8_STEP;
    static constexpr int N_SLOTS = RING_BYTES / (X_BYTES + W_BYTES);

    struct memory {
        alignas(1024) char x[N_SLOTS][X_BYTES];
        alignas(1024) char w[N_SLOTS][W_BYTES];
        alignas(1024) char y[FP8_CONSUMERS][HALVES][TILE_COLUMNS / BOX_COLUMNS][BOX_BYTES];
        alignas(16) float scales[N_SLOTS][ROWS]; /* of blocks: the tokens' */
        uint64_t full[N_SLOTS], empty[N_SLOTS];
    };
};

struct fp8_tile {
    int row, column; /* the first token, the first row of w */
};

/* The tiles of one CTA: every n-th unit, a unit being a cluster's tiles side by side. */
template <class SHAPE> struct fp8_walk {
    const fp8_args &args;
    int unit, n, rank;

    LF_GPU_MEMBER fp8_walk(const fp8_args &a)
        : args(a), unit(blockIdx.x / SHAPE::BLOCKS), n(gridDim.x / SHAPE::BLOCKS), rank(blockIdx.x % SHAPE::BLOCKS)
    {
    }

    LF_GPU_MEMBER bool take(fp8_tile &tile)
    {
        constexpr int most = GROUP_ROWS / SHAPE::ROWS;
        if (unit >= args.row_units * args.column_tiles) return false;
        int group = unit / (most * args.column_tiles), first = group * most;
        int rows = min(most, args.row_units - first), within = unit - first * args.column_tiles;
        tile.row = (first + within % rows) * SHAPE::ROWS;
        tile.column = (within / rows * SHAPE::BLOCKS + rank) * TILE_COLUMNS;
        unit += n;
        return true;
    }
};

template <class SHAPE> struct fp8_producer {
    const fp8_args &args;
    typename SHAPE::memory &smem;
    const CUtensorMap *x_map, *w_map;
    fp8_cursor ring;

    /* Bytes of tokens' scales that there are; the stride is a multiple of 16 bytes. */
    LF_GPU_MEMBER int scale_bytes(const fp8_tile &tile) const
    {
        return SHAPE::BY == LF_FP8_BLOCKS ? min(SHAPE::ROWS, args.p.x_scale_stride - tile.row) * 4 : 0;
    }

    LF_GPU_MEMBER void bring(const fp8_tile &tile, int step)
    {
        constexpr int part = SHAPE::ROWS / SHAPE::BLOCKS;
        uint32_t full = shared_address(&smem.full[ring.slot]), x = shared_address(smem.x[ring.slot]);
        int n_scales = scale_bytes(tile), depth = step * FP8_STEP;
        mbarrier_try_wait_parity(shared_address(&smem.empty[ring.slot]), ring.parity ^ 1);
        mbarrier_arrive_expect_tx(full, SHAPE::X_BYTES + W_BYTES + n_scales);
        cp_async_bulk_tensor_2d(shared_address(smem.w[ring.slot]), w_map, full, depth, tile.column);
        if constexpr (SHAPE::BLOCKS == 1) {
            cp_async_bulk_tensor_2d(x, x_map, full, depth, tile.row);
        } else {
            int mine = (int)cluster_ctarank() * part;
            cp_async_bulk_tensor_2d_multicast(x + mine * FP8_STEP, x_map, full, (1 << SHAPE::BLOCKS) - 1, depth,
                                              tile.row + mine);
        }
        if constexpr (SHAPE::BY == LF_FP8_BLOCKS)
            cp_async_bulk(shared_address(smem.scales[ring.slot]),
                          args.p.x_scales + (size_t)step * args.p.x_scale_stride + tile.row, n_scales, full);
        ring.advance(SHAPE::N_SLOTS);
    }

    LF_GPU_MEMBER void run()
    {
        fp8_walk<SHAPE> walk(args);
        for (fp8_tile tile; walk.take(tile);)
            for (int step = 0; step < args.n_steps; step++) bring(tile, step);
    }
};

/* One consumer warpgroup. Row half i of a thread in half h of the group is token
 * 64 · (HALVES · group + h) + 16 · warp + lane / 4 + 8i of the tile. */
template <class SHAPE> struct fp8_consumer {
    static constexpr int HALVES = SHAPE::HALVES;
    static constexpr lf_fp8_scales BY = SHAPE::BY;

    const fp8_args &args;
    typename SHAPE::memory &smem;
    const CUtensorMap *y_map;
    int group, warp, lane;
    fp8_cursor ring;
    const float *w_scale; /* of the tile's next step, which is asked for a step ahead */
    float w_next;
    float sums[HALVES][N_SUMS];

    /* A step that is there: its slot, and by blocks the products of its scales, of each row half. */
    struct step {
        int slot;
        float scales[HALVES][2];
    };

    LF_GPU_MEMBER int first_row() const
    {
        return group * HALVES * FP8_MMA_ROWS + warp * 16 + lane / 4;
    }

    LF_GPU_MEMBER step take_step(bool is_last)
    {
        step s;
        s.slot = ring.slot;
        float w = w_next;
        if (BY == LF_FP8_BLOCKS) w_next = __ldg(w_scale += is_last ? 0 : 1);
        mbarrier_try_wait_parity(shared_address(&smem.full[s.slot]), ring.parity);
        ring.advance(SHAPE::N_SLOTS);
        if constexpr (BY == LF_FP8_BLOCKS)
#pragma unroll
            for (int i = 0; i < 2 * HALVES; i++)
                s.scales[i / 2][i % 2] = smem.scales[s.slot][first_row() + i / 2 * FP8_MMA_ROWS + i % 2 * 8] * w;
        return s;
    }

    /* Each warp for itself; to all who brought something. */
    LF_GPU_MEMBER void release(const step &s) const
    {
        __syncwarp(); /* all lanes have read their scales */
        if (SHAPE::BLOCKS == 1) {
            if (lane == 0) mbarrier_arrive(shared_address(&smem.empty[s.slot]));
        } else if (lane < SHAPE::BLOCKS) {
            mbarrier_arrive_cluster(shared_address(&smem.empty[s.slot]), (unsigned)lane);
        }
    }

    /* acc = x · wᵀ of a step's half, started. */
    LF_GPU_MEMBER void start(float (&acc)[N_SUMS], const step &s, int half)
    {
        uint32_t x = wgmma_descriptor_low(shared_address(smem.x[0]), 16) +
                     (s.slot * SHAPE::X_BYTES + (group * HALVES + half) * FP8_MMA_ROWS * FP8_STEP) / 16;
        uint32_t w = wgmma_descriptor_low(shared_address(smem.w[0]), 16) + s.slot * (W_BYTES / 16);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < FP8_STEP / 32; i++)
            wgmma_e4m3(acc, wgmma_descriptor(x, i * 32), wgmma_descriptor(w, i * 32), i > 0);
        wgmma_commit_group();
    }

    LF_GPU_MEMBER void promote(float (&acc)[N_SUMS], const step &s, int half)
    {
#pragma unroll
        for (int i = 0; i < N_SUMS; i++) hold(acc[i]);
#pragma unroll
        for (int i = 0; i < N_SUMS; i++)
            sums[half][i] = fp8_promote<BY>(sums[half][i], acc[i], s.scales[half][i / 2 % 2]);
    }

    LF_GPU_MEMBER void multiply_step(bool is_last)
    {
        float acc[N_SUMS];
        step s = take_step(is_last);
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            start(acc, s, h);
            wgmma_wait_group<0>();
            if (h == HALVES - 1) release(s);
            promote(acc, s, h);
        }
    }

    LF_GPU_MEMBER void multiply(const fp8_tile &tile)
    {
        /* a cluster's last tile may lie behind the last row of w */
        if (BY == LF_FP8_BLOCKS) {
            w_scale = args.p.w_scales + (size_t)(min(tile.column, args.p.n_out - 1) / LF_FP8_BLOCK) * args.n_steps;
            w_next = __ldg(w_scale);
        }
#pragma unroll
        for (int i = 0; i < HALVES * N_SUMS; i++) sums[i / N_SUMS][i % N_SUMS] = 0.0f;
        for (int i = 0; i < args.n_steps; i++) multiply_step(i == args.n_steps - 1);
    }

    /* Of row halves that there are; by blocks it is in the sums. */
    LF_GPU_MEMBER void tokens_scales(int row, float (&scales)[2]) const
    {
#pragma unroll
        for (int i = 0; i < 2; i++)
            scales[i] = BY == LF_FP8_ROWS && row + 8 * i < args.p.n_tokens ? args.p.x_scales[row + 8 * i] : 1.0f;
    }

    /* What belongs to the thread's two columns of the eight at `column`. */
    struct columns {
        float2 bias, w_scale;
    };

    LF_GPU_MEMBER columns columns_at(int column) const
    {
        int at = column + lane % 4 * 2;
        bool is_there = at < args.p.n_out;
        const float2 none = make_float2(0.0f, 0.0f);
        return {args.p.bias && is_there ? __ldg((const float2 *)(args.p.bias + at)) : none,
                BY == LF_FP8_ROWS && is_there ? __ldg((const float2 *)(args.p.w_scales + at)) : none};
    }

    /* Row half i of half h, columns 8j of the tile and on: the thread's two. */
    LF_GPU_MEMBER float2 output(int h, int j, int i, float x_scale, const columns &c) const
    {
        const float *sum = &sums[h][4 * j + 2 * i];
        return make_float2(fp8_output<BY>(sum[0], x_scale, c.w_scale.x, c.bias.x, args.p.alpha),
                           fp8_output<BY>(sum[1], x_scale, c.w_scale.y, c.bias.y, args.p.alpha));
    }

    /* ---- floats: from registers, with what is added ---- */

    /* Where the lane's eight columns of 32 from 8j on lie in y, SIZE_MAX where there are none. */
    LF_GPU_MEMBER size_t place(int row, int column, int j) const
    {
        int at = column + 8 * (j + lane % 4);
        return row < args.p.n_tokens && at < args.p.n_out ? (size_t)row * args.p.y_stride + at : SIZE_MAX;
    }

    /* 32 columns from 8j on of one row: pairs are turned round in the quad, so that a lane has eight neighbours. */
    LF_GPU_MEMBER void write_row(size_t at, int h, int j, int i, float x_scale, const columns (&c)[4],
                                 const float4 (&add)[2]) const
    {
        float x[4], y[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            float2 pair = output(h, j + k, i, x_scale, c[k]);
            x[k] = pair.x;
            y[k] = pair.y;
        }
        quad_transpose(x, lane % 4);
        quad_transpose(y, lane % 4);
        if (at == SIZE_MAX) return;
        float4 *out = (float4 *)((float *)args.p.y + at);
        out[0] = make_float4(x[0] + add[0].x, y[0] + add[0].y, x[1] + add[0].z, y[1] + add[0].w);
        out[1] = make_float4(x[2] + add[1].x, y[2] + add[1].y, x[3] + add[1].z, y[3] + add[1].w);
    }

    /* 32 columns of all rows. A residual is asked for before any of them is written. */
    LF_GPU_MEMBER void write_columns(int row, int column, int j, const float (&x_scale)[HALVES][2]) const
    {
        columns c[4];
#pragma unroll
        for (int k = 0; k < 4; k++) c[k] = columns_at(column + 8 * (j + k));
        float4 add[2 * HALVES][2] = {};
        size_t at[2 * HALVES];
#pragma unroll
        for (int k = 0; k < 2 * HALVES; k++) {
            at[k] = place(row + k / 2 * FP8_MMA_ROWS + k % 2 * 8, column, j);
            if (!args.p.residual || at[k] == SIZE_MAX) continue;
            add[k][0] = *(const float4 *)(args.p.residual + at[k]);
            add[k][1] = *(const float4 *)(args.p.residual + at[k] + 4);
        }
#pragma unroll
        for (int k = 0; k < 2 * HALVES; k++) write_row(at[k], k / 2, j, k % 2, x_scale[k / 2][k % 2], c, add[k]);
    }

    LF_GPU_MEMBER void write_floats(const fp8_tile &tile) const
    {
        float x_scale[HALVES][2];
#pragma unroll
        for (int h = 0; h < HALVES; h++) tokens_scales(tile.row + first_row() + h * FP8_MMA_ROWS, x_scale[h]);
#pragma unroll
        for (int j = 0; j < TILE_COLUMNS / 8; j += 4) write_columns(tile.row + first_row(), tile.column, j, x_scale);
    }

    /* ---- 16 bits: by shared memory ---- */

    LF_GPU_MEMBER void meet() const
    {
        bar_sync(1 + group, FP8_WARPGROUP);
    }

    /* Sixteen columns from 8j on, to their place in the boxes: pairs of columns are matrices of eight rows. */
    template <class T> LF_GPU_MEMBER void stage(int column, int j, const float (&x_scale)[HALVES][2]) const
    {
        const columns c[2] = {columns_at(column + 8 * j), columns_at(column + 8 * (j + 1))};
        int row = warp * 16 + lane % 16, unit = j % 8 + lane / 16;
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            uint32_t words[4], box = shared_address(smem.y[group][h][j * 8 / BOX_COLUMNS]);
#pragma unroll
            for (int k = 0; k < 4; k++) {
                float2 pair = output(h, j + k / 2, k % 2, x_scale[h][k % 2], c[k / 2]);
                words[k] = pack<T>(pair.x, pair.y);
            }
            stmatrix_x4(box + row * 128 + ((unit ^ row % 8) << 4), words[0], words[1], words[2], words[3]);
        }
    }

    LF_GPU_MEMBER void store_boxes(const fp8_tile &tile) const
    {
#pragma unroll
        for (int i = 0; i < HALVES * (TILE_COLUMNS / BOX_COLUMNS); i++) {
            int h = i % HALVES, box = i / HALVES;
            cp_async_bulk_tensor_2d_store(y_map, shared_address(smem.y[group][h][box]), tile.column + box * BOX_COLUMNS,
                                          tile.row + (group * HALVES + h) * FP8_MMA_ROWS);
        }
        cp_async_bulk_commit_group();
    }

    /* The copy engine writes the tile while the next one is multiplied. */
    template <class T> LF_GPU_MEMBER void write_boxes(const fp8_tile &tile) const
    {
        bool is_first = warp == 0 && lane == 0;
        if (is_first) cp_async_bulk_wait_group_read<0>();
        meet();
        float x_scale[HALVES][2];
#pragma unroll
        for (int h = 0; h < HALVES; h++) tokens_scales(tile.row + first_row() + h * FP8_MMA_ROWS, x_scale[h]);
#pragma unroll
        for (int j = 0; j < TILE_COLUMNS / 8; j += 2) stage<T>(tile.column, j, x_scale);
        fence_proxy_async();
        meet();
        if (is_first) store_boxes(tile);
    }

    template <class T> LF_GPU_MEMBER void run()
    {
        fp8_walk<SHAPE> walk(args);
        for (fp8_tile tile; walk.take(tile);) {
            multiply(tile);
            if (args.p.y_float)
                write_floats(tile);
            else
                write_boxes<T>(tile);
        }
        if (warp == 0 && lane == 0) cp_async_bulk_wait_group<0>();
    }
};

template <class T, class SHAPE>
__global__ void __launch_bounds__(FP8_THREADS, 1)
    gemm_fp8(const __grid_constant__ CUtensorMap x_map, const __grid_constant__ CUtensorMap w_map,
             const __grid_constant__ CUtensorMap y_map, const __grid_constant__ fp8_args args)
{
    extern __shared__ char raw[];
    auto &smem = *(typename SHAPE::memory *)fp8_aligned(raw);
    if (threadIdx.x == 0) {
        for (int i = 0; i < SHAPE::N_SLOTS; i++) {
            mbarrier_init(shared_address(&smem.full[i]), 1);
            mbarrier_init(shared_address(&smem.empty[i]), SHAPE::BLOCKS * FP8_CONSUMERS * FP8_WARPGROUP / WARP);
        }
        fence_mbarrier_init();
    }
    start_successor();
    if (SHAPE::BLOCKS > 1)
        barrier_cluster();
    else
        __syncthreads();
    wait_predecessor();
    int role = uniform((int)threadIdx.x / FP8_WARPGROUP);
    if (role == 0) {
        setmaxnreg_dec<24>();
        if (threadIdx.x == 0) {
            fp8_producer<SHAPE> self = {args, smem, &x_map, &w_map, {0, 0}};
            self.run();
        }
        __syncwarp();
    } else {
        setmaxnreg_inc<240>();
        fp8_consumer<SHAPE> self = {args,    smem, &y_map, role - 1, uniform((int)threadIdx.x % FP8_WARPGROUP / WARP),
                                    laneid()};
        self.template run<T>();
    }
    if (SHAPE::BLOCKS > 1) barrier_cluster(); /* nobody writes into a block that has ended */
}

/* ---- host ---- */

typedef void fp8_kernel(const CUtensorMap, const CUtensorMap, const CUtensorMap, const fp8_args);

static tensor_map_encoder encode_tiled; /* found by _setup */

struct fp8_entry {
    int rows, blocks; /* of a tile; of a cluster */
    size_t smem_bytes;
    fp8_kernel *kernels[2][2]; /* by blocks, by rows; bf16, fp16 */
};

template <int HALVES, int BLOCKS> constexpr fp8_entry entry()
{
    using by_blocks = fp8_shape<HALVES, BLOCKS, LF_FP8_BLOCKS>;
    using by_rows = fp8_shape<HALVES, BLOCKS, LF_FP8_ROWS>;
    return {
        by_blocks::ROWS,
        BLOCKS,
        sizeof(typename by_blocks::memory) + 1024,
        {{gemm_fp8<bf16, by_blocks>, gemm_fp8<fp16, by_blocks>}, {gemm_fp8<bf16, by_rows>, gemm_fp8<fp16, by_rows>}}};
}

/* In the order of LF_FP8_TILES, which begin with those of few tokens. */
enum { SMALL, LARGE, LARGE_PAIRS };
static const fp8_entry entries[LF_FP8_TILES - 1] = {entry<1, 1>(), entry<2, 1>(), entry<2, 2>()};

int lf_cuda_gemm_fp8_setup(void)
{
    int rc = find_tensor_map_encoder(&encode_tiled);
    for (const fp8_entry &e : entries)
        for (const auto &kernels : e.kernels)
            for (fp8_kernel *kernel : kernels)
                if (rc == 0) rc = load_kernel(kernel, e.smem_bytes);
    return rc == 0 ? lf_cuda_gemm_fp8_few_setup(encode_tiled) : rc;
}

bool lf_cuda_gemm_fp8_supports(const struct lf_fp8_gemm_params *p)
{
    size_t addresses = (size_t)p->x | (size_t)p->w | (size_t)p->y | (size_t)p->x_scales | (size_t)p->residual;
    return p->n_in > 0 && p->n_in % 16 == 0 && p->n_out % 8 == 0 && p->y_stride % 8 == 0 && addresses % 16 == 0 &&
           ((size_t)p->bias | (size_t)p->w_scales) % 8 == 0 &&
           (p->by == LF_FP8_ROWS || (p->x_scale_stride % 4 == 0 && p->x_scale_stride >= p->n_tokens));
}

/* Tokens of the tiles that the busiest multiprocessor has. */
static int64_t cost(const fp8_entry *e, const struct lf_fp8_gemm_params *p, int n_blocks)
{
    int64_t units = (int64_t)fp8_blocks_for(p->n_tokens, e->rows) * fp8_blocks_for(p->n_out, TILE_COLUMNS * e->blocks);
    int clusters = n_blocks / e->blocks;
    return (units + clusters - 1) / clusters * e->rows;
}

/* A token costs an eighth more in small tiles. */
static const fp8_entry *entry_for(const struct lf_fp8_gemm_params *p, int n_blocks, int tiles)
{
    if (tiles > 0) return &entries[tiles - 1];
    const fp8_entry *small = &entries[SMALL], *large = &entries[p->by == LF_FP8_ROWS ? LARGE_PAIRS : LARGE];
    return 9 * cost(small, p, n_blocks) < 8 * cost(large, p, n_blocks) ? small : large;
}

static int encode_outputs(CUtensorMap *map, const struct lf_fp8_gemm_params *p, bool fp16)
{
    const cuuint64_t dims[2] = {(cuuint64_t)p->n_out, (cuuint64_t)p->n_tokens},
                     strides[1] = {(cuuint64_t)p->y_stride * 2};
    const cuuint32_t box[2] = {BOX_COLUMNS, FP8_MMA_ROWS};
    return encode_tensor_map(encode_tiled, map, fp16, p->y, 2, dims, strides, box);
}

int lf_cuda_gemm_fp8(const struct lf_fp8_gemm_params *p, int n_blocks, int tiles, struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    if (tiles == 0 || (tiles < 0 && p->n_tokens <= LF_FP8_FEW_TOKENS)) return lf_cuda_gemm_fp8_few(p, n_blocks, how);
    const fp8_entry *e = entry_for(p, n_blocks, tiles);
    fp8_args args = {};
    args.p = *p;
    args.n_steps = fp8_blocks_for(p->n_in, FP8_STEP);
    args.row_units = fp8_blocks_for(p->n_tokens, e->rows);
    args.column_tiles = fp8_blocks_for(p->n_out, TILE_COLUMNS * e->blocks);
    CUtensorMap x_map, w_map, y_map = {};
    int rc = encode_byte_matrix(encode_tiled, &x_map, p->x, p->n_tokens, p->n_in, e->rows / e->blocks);
    if (rc == 0) rc = encode_byte_matrix(encode_tiled, &w_map, p->w, p->n_out, p->n_in, TILE_COLUMNS);
    if (rc == 0 && !p->y_float) rc = encode_outputs(&y_map, p, how.fp16);
    if (rc != 0) return rc;
    launch_shape shape = {dim3(n_blocks / e->blocks * e->blocks), FP8_THREADS, e->smem_bytes, (unsigned)e->blocks};
    return queue_kernel(e->kernels[p->by][how.fp16], shape, how, x_map, w_map, y_map, args);
}
