/* Grouped GEMM on Hopper, FP8 by FP8: expert_gemm_sm90.cu says what tiles, rows and sums are, gemm_fp8_sm90.h what the
 * codes and scales, and in which order sums run. A row has the bits that the GEMM of one matrix gives it.
 *
 * Work. A tile is up to 128 or 256 rows of one expert by 128 or 96 of its columns, a step 128 of the depth: as many
 * bytes as 64 elements of 16 bits, so ring, gather and swizzle are theirs (expert_ring.cuh), and two codes count as an
 * element there. A consumer has every second 64 rows of a tile, one or two, one after the other through the same
 * accumulator: of few rows each has as many as the other.
 *
 * Promotion. As in gemm_fp8_sm90.cu a step's sums go from the tensor core's accumulator to sums of the thread's own,
 * and the other warpgroup multiplies meanwhile. By blocks they are multiplied by the scales of their rows and of the
 * columns' block, which tiles of 96 columns may have two of. Scales of rows that begin anywhere no bulk copy could
 * bring; the ring has them beside the operands, copied by 4 bytes: asked for by whoever has the row, even a step ahead,
 * they were late where the memory is busy.
 *
 * Few rows an expert: bound by reading the weights. Needs sm_90a. */
#include "device/cuda/expert_gemm_fp8_sm90.h"

#include <limits.h>

#include "device/cuda/expert_ring.cuh"
#include "device/cuda/gemm_fp8.cuh"

struct fp8_expert_args {
    gemm_args g; /* without a bias: it is added where gemm_fp8.cuh adds it, so that it is rounded as there */
    const float *bias;
    const float *x_scales, *w_scales; /* w_scales: of the first expert */
    int x_scale_stride;
    size_t expert_bytes;
    int row_end; /* sorted rows from g.row0 on */
};

LF_GPU_FN const float *w_scales_of(const fp8_expert_args &args, int expert)
{
    return (const float *)((const char *)args.w_scales + expert * args.expert_bytes);
}

/* What a step has of scales: of the tile's rows, a thread of the producers every 128th; by blocks also those of w. */
template <class SHAPE> struct fp8_expert_scales {
    static constexpr bool IS_THERE = true;
    static constexpr int N = SHAPE::ROWS / GROUP_THREADS;

    const fp8_expert_args &args;
    int n, at[N];   /* rows; where theirs are among a step's */
    const float *w; /* of one of the SCALES threads that bring one */

    LF_GPU_MEMBER void find(const expert_tile &tile, int thread)
    {
        n = max(0, (tile.n_rows - thread + GROUP_THREADS - 1) / GROUP_THREADS);
#pragma unroll
        for (int i = 0; i < N; i++) {
            int row = tile.row + thread + i * GROUP_THREADS;
            if (i < n) at[i] = SHAPE::BY_TOKEN ? args.g.rows[row] / args.g.k : row - args.g.row0;
        }
        int column = min(tile.column_tile * SHAPE::COLUMNS + thread * (SHAPE::COLUMNS - 1), args.g.n_out - 1);
        w = w_scales_of(args, tile.expert) + (size_t)(column / LF_FP8_BLOCK) * args.g.n_steps;
    }

    /* By rows they are the same in each step. */
    template <class MEMORY> LF_GPU_MEMBER void bring(MEMORY &smem, int slot, int step, int thread) const
    {
        constexpr bool BY_BLOCKS = SHAPE::BY == LF_FP8_BLOCKS;
        const float *x = args.x_scales + (BY_BLOCKS ? (size_t)step * args.x_scale_stride : 0);
#pragma unroll
        for (int i = 0; i < N; i++)
            if (i < n) cp_async_ca<4>(shared_address(&smem.x_scales[slot][thread + i * GROUP_THREADS]), x + at[i]);
        if (BY_BLOCKS && thread < SHAPE::SCALES) cp_async_ca<4>(shared_address(&smem.w_scales[slot][thread]), w + step);
    }
};

template <class SHAPE> struct fp8_expert_memory : ring_memory<SHAPE> {
    float x_scales[SHAPE::N_SLOTS][SHAPE::ROWS], w_scales[SHAPE::N_SLOTS][SHAPE::SCALES];
};

template <int ROWS_, int COLUMNS_, bool BY_TOKEN_, lf_fp8_scales BY_> struct fp8_expert_shape {
    static constexpr int ROWS = ROWS_, COLUMNS = COLUMNS_, N_SLOTS = ROWS == 256 ? 4 : COLUMNS == 128 ? 6 : 7;
    static constexpr int HALVES = ROWS / TILE_ROWS;                    /* of a consumer, at most */
    static constexpr int SCALES = COLUMNS % LF_FP8_BLOCK == 0 ? 1 : 2; /* of w in a step */
    static constexpr bool BY_TOKEN = BY_TOKEN_;
    static constexpr lf_fp8_scales BY = BY_;
    static constexpr float AFTER = 1.0f;
    using side = fp8_expert_scales<fp8_expert_shape>;
    using memory = fp8_expert_memory<fp8_expert_shape>;
};

template <class T, class SHAPE> struct fp8_expert_consumer {
    static constexpr int HALVES = SHAPE::HALVES, SCALES = SHAPE::SCALES, N_SUMS = SHAPE::COLUMNS / 2;
    static constexpr lf_fp8_scales BY = SHAPE::BY;

    const fp8_expert_args &args;
    typename SHAPE::memory &smem;
    int group, warp, lane;
    ring_cursor<SHAPE::N_SLOTS> ring;
    float sums[HALVES][N_SUMS];

    /* Of the tile's rows, in 64s. */
    LF_GPU_MEMBER int part_of(int half) const
    {
        return half * N_CONSUMERS + group;
    }

    /* A step that is there: its slot; of the row halves their scales, by blocks times those of w. */
    struct step {
        int slot;
        float scales[HALVES][2][SCALES];
    };

    LF_GPU_MEMBER void take_step(step &s)
    {
        s.slot = ring.slot;
        mbarrier_try_wait_parity(shared_address(&smem.full[s.slot]), ring.parity);
        ring.advance();
#pragma unroll
        for (int i = 0; i < 2 * HALVES; i++)
#pragma unroll
            for (int k = 0; k < SCALES; k++) {
                float x = smem.x_scales[s.slot][part_of(i / 2) * HALF_ROWS + warp * 16 + lane / 4 + i % 2 * 8];
                s.scales[i / 2][i % 2][k] = BY == LF_FP8_BLOCKS ? x * smem.w_scales[s.slot][k] : x;
            }
    }

    /* Each warp for itself. */
    LF_GPU_MEMBER void release(int slot) const
    {
        __syncwarp(); /* all lanes have read their scales */
        if (lane == 0) mbarrier_arrive(shared_address(&smem.empty[slot]));
    }

    /* acc = x · wᵀ of a step's half, started. */
    LF_GPU_MEMBER void start(float (&acc)[N_SUMS], int slot, int half)
    {
        uint32_t x = wgmma_descriptor_low(shared_address(smem.x[0]), 16) +
                     (slot * SHAPE::memory::X_BYTES + part_of(half) * HALF_BYTES) / 16;
        uint32_t w = wgmma_descriptor_low(shared_address(smem.w[0]), 16) + slot * (SHAPE::memory::W_BYTES / 16);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < FP8_STEP / 32; i++)
            wgmma_e4m3(acc, wgmma_descriptor(x, i * 32), wgmma_descriptor(w, i * 32), i > 0);
        wgmma_commit_group();
    }

    /* first: columns of the tile that have the first scale of w. */
    LF_GPU_MEMBER void promote(float (&acc)[N_SUMS], const step &s, int half, int first)
    {
#pragma unroll
        for (int i = 0; i < N_SUMS; i++) hold(acc[i]);
#pragma unroll
        for (int i = 0; i < N_SUMS; i++) {
            const float(&scales)[SCALES] = s.scales[half][i / 2 % 2];
            float scale = SCALES > 1 && i / 4 * 8 >= first ? scales[SCALES - 1] : scales[0];
            sums[half][i] = fp8_promote<BY>(sums[half][i], acc[i], scale);
        }
    }

    /* With N halves that have rows. */
    template <int N> LF_GPU_MEMBER void multiply(const expert_tile &tile)
    {
        int first = LF_FP8_BLOCK - tile.column_tile * SHAPE::COLUMNS % LF_FP8_BLOCK;
        step s;
#pragma unroll
        for (int i = 0; i < N * N_SUMS; i++) sums[i / N_SUMS][i % N_SUMS] = 0.0f;
#pragma unroll 1
        for (int k = 0; k < args.g.n_steps; k++) {
            float acc[N_SUMS];
            take_step(s);
#pragma unroll
            for (int h = 0; h < N; h++) {
                start(acc, s.slot, h);
                wgmma_wait_group<0>();
                if (h == N - 1) release(s.slot);
                promote(acc, s, h, first);
            }
        }
#pragma unroll
        for (int h = 0; h < N; h++) write(tile, s, h);
    }

    /* By rows a complete sum is multiplied by its two scales now. */
    LF_GPU_MEMBER void write(const expert_tile &tile, const step &last, int half)
    {
        tile_sums<T, SHAPE> out = {args.g, part_of(half), warp, lane};
        const float *w = w_scales_of(args, tile.expert);
#pragma unroll
        for (int j = 0; j < SHAPE::COLUMNS / 8; j++) {
            int column = tile.column_tile * SHAPE::COLUMNS + 8 * j + lane % 4 * 2;
            float2 scale = make_float2(1.0f, 1.0f), bias = make_float2(0.0f, 0.0f);
            if (args.bias && column < args.g.n_out)
                bias = __ldg((const float2 *)(args.bias + (size_t)tile.expert * args.g.n_out + column));
            if (BY == LF_FP8_ROWS && column < args.g.n_out) scale = __ldg((const float2 *)(w + column));
#pragma unroll
            for (int i = 0; i < 4; i++)
                out.sums[4 * j + i] =
                    fp8_output<BY>(sums[half][4 * j + i], last.scales[half][i / 2][0], i % 2 == 0 ? scale.x : scale.y,
                                   i % 2 == 0 ? bias.x : bias.y, 1.0f);
        }
        out.write(tile);
    }

    LF_GPU_MEMBER void pass()
    {
        for (int k = 0; k < args.g.n_steps; k++) {
            mbarrier_try_wait_parity(shared_address(&smem.full[ring.slot]), ring.parity);
            release(ring.slot);
            ring.advance();
        }
    }

    LF_GPU_MEMBER void run()
    {
        auto walk = walk_of(smem.list, args.g);
        for (expert_tile tile; walk.take(tile);) {
            int n_rows = uniform(tile.n_rows);
            if (HALVES > 1 && n_rows > part_of(1) * HALF_ROWS)
                multiply<HALVES>(tile);
            else if (n_rows > part_of(0) * HALF_ROWS)
                multiply<1>(tile);
            else
                pass();
        }
    }
};

template <class T, class SHAPE>
__global__ void __launch_bounds__(GEMM_THREADS, 1)
    expert_gemm_fp8(const __grid_constant__ CUtensorMap x_map, const __grid_constant__ CUtensorMap w_map,
                    const __grid_constant__ fp8_expert_args args)
{
    extern __shared__ char raw[];
    constexpr bool BY_TOKEN = SHAPE::BY_TOKEN;
    auto &smem = ring_in<typename SHAPE::memory>(raw);
    if (threadIdx.x == 0) smem.init(BY_TOKEN);
    if (BY_TOKEN) wait_predecessor();
    start_successor(); /* in this order: expert_gemv.cu says why */
    if (threadIdx.x / WARP == 1) smem.list.build(args.g.first, args.g.n_experts, args.g.row0, args.row_end);
    __syncthreads();
    int role = uniform((int)threadIdx.x / GROUP_THREADS);
    if (role == 0) {
        setmaxnreg_dec<72>();
        ring_producer<SHAPE, BY_TOKEN> self = {args.g, smem,   &x_map, &w_map, (int)threadIdx.x,
                                               {0, 0}, {0, 0}, 0,      {args}};
        self.run();
    } else {
        setmaxnreg_inc<216>();
        wait_predecessor();
        fp8_expert_consumer<T, SHAPE> self = {
            args, smem, role - 1, uniform((int)threadIdx.x % GROUP_THREADS / WARP), laneid(), {0, 0}};
        self.run();
    }
}

/* ---- host ---- */

typedef void fp8_expert_kernel(const CUtensorMap, const CUtensorMap, const fp8_expert_args);

static tensor_map_encoder encode_tiled; /* found by _setup */

struct fp8_expert_entry {
    int rows, columns;
    size_t smem_bytes;
    fp8_expert_kernel *kernels[2][2][2]; /* by blocks, by rows; rows that lie sorted, by token; bf16, fp16 */
};

template <int ROWS, int COLUMNS> constexpr fp8_expert_entry entry()
{
    using sorted_blocks = fp8_expert_shape<ROWS, COLUMNS, false, LF_FP8_BLOCKS>;
    using token_blocks = fp8_expert_shape<ROWS, COLUMNS, true, LF_FP8_BLOCKS>;
    using sorted_rows = fp8_expert_shape<ROWS, COLUMNS, false, LF_FP8_ROWS>;
    using token_rows = fp8_expert_shape<ROWS, COLUMNS, true, LF_FP8_ROWS>;
    return {ROWS,
            COLUMNS,
            sizeof(typename sorted_blocks::memory) + 1024,
            {{{expert_gemm_fp8<bf16, sorted_blocks>, expert_gemm_fp8<fp16, sorted_blocks>},
              {expert_gemm_fp8<bf16, token_blocks>, expert_gemm_fp8<fp16, token_blocks>}},
             {{expert_gemm_fp8<bf16, sorted_rows>, expert_gemm_fp8<fp16, sorted_rows>},
              {expert_gemm_fp8<bf16, token_rows>, expert_gemm_fp8<fp16, token_rows>}}}};
}

enum { FEW_ROWS, MANY_ROWS, NARROW };
static const fp8_expert_entry entries[LF_CUDA_EXPERT_FP8_TILES] = {entry<128, 128>(), entry<256, 128>(),
                                                                   entry<128, 96>()};

int lf_cuda_expert_gemm_fp8_sm90_setup(void)
{
    int rc = find_tensor_map_encoder(&encode_tiled);
    for (const fp8_expert_entry &e : entries)
        for (const auto &by : e.kernels)
            for (const auto &kernels : by)
                for (fp8_expert_kernel *kernel : kernels)
                    if (rc == 0) rc = load_kernel(kernel, e.smem_bytes);
    return rc;
}

/* Columns that the multiprocessor with the most of them has of one token's experts. */
static int most_columns(const fp8_expert_entry *e, const struct lf_expert_gemm_params *p, int n_blocks)
{
    int n_tiles = p->k * (int)blocks_for(p->w->n_out, e->columns);
    return (n_tiles + n_blocks - 1) / n_blocks * e->columns;
}

/* By rows of an expert on average, of which many must there be where they are gathered (docs/notebook/experts.md); of
 * one token's, by what they leave idle. */
static const fp8_expert_entry *entry_for(const struct lf_expert_gemm_params *p, int n_blocks)
{
    int64_t n_rows = (int64_t)p->n_tokens * p->k / p->w->n_experts;
    const fp8_expert_entry *few = &entries[FEW_ROWS], *narrow = &entries[NARROW];
    if (p->n_tokens == 1 && most_columns(narrow, p, n_blocks) < most_columns(few, p, n_blocks)) return narrow;
    return n_rows >= (p->x_by_token ? 8 : 1) * TILE_ROWS ? &entries[MANY_ROWS] : few;
}

/* Two codes as an element of 16 bits. */
static int encode_weights(CUtensorMap *map, const struct lf_expert_gemm_params *pairs, size_t expert_bytes, int columns)
{
    const struct lf_weight *w = pairs->w;
    const cuuint64_t dims[3] = {(cuuint64_t)w->n_in, (cuuint64_t)w->n_out, (cuuint64_t)w->n_experts};
    const cuuint64_t strides[2] = {(cuuint64_t)w->n_in * 2, expert_bytes};
    const cuuint32_t box[3] = {STEP, (cuuint32_t)columns, 1};
    return encode_tensor_map(encode_tiled, map, false, w->data, 3, dims, strides, box);
}

static int encode_rows(CUtensorMap *map, const struct lf_expert_gemm_params *pairs, int n_rows)
{
    const cuuint64_t depth = (cuuint64_t)pairs->w->n_in, strides[1] = {depth * 2};
    const cuuint64_t dims[2] = {depth, (cuuint64_t)(pairs->x_by_token ? pairs->n_tokens : n_rows)};
    const cuuint32_t box[2] = {STEP, HALF_ROWS};
    return encode_tensor_map(encode_tiled, map, false, pairs->x, 2, dims, strides, box);
}

int lf_cuda_expert_gemm_fp8_sm90(const struct lf_expert_gemm_params *p, const float *w_scales, size_t expert_bytes,
                                 int row0, int n_rows, int n_blocks, int tiles, struct lf_cuda_launch how)
{
    if (n_rows == 0) return 0;
    const fp8_expert_entry *e = tiles >= 0 ? &entries[tiles] : entry_for(p, n_blocks);
    struct lf_weight w = *p->w;
    struct lf_expert_gemm_params pairs = *p;
    pairs.w = &w;
    pairs.x = p->x_codes.codes;
    w.n_in /= 2;
    fp8_expert_args args = {};
    args.g = expert_gemm_args(&pairs, e->columns);
    args.g.row0 = row0;
    args.g.bias = nullptr;
    args.bias = p->bias;
    args.x_scales = p->x_codes.scales;
    args.x_scale_stride = p->x_codes.scale_stride;
    args.w_scales = w_scales;
    args.expert_bytes = expert_bytes;
    args.row_end = row0 + n_rows;
    CUtensorMap x_map, w_map;
    int rc = encode_weights(&w_map, &pairs, expert_bytes, e->columns);
    if (rc == 0) rc = encode_rows(&x_map, &pairs, n_rows);
    if (rc != 0) return rc;
    fp8_expert_kernel *kernel = e->kernels[p->x_codes.by][p->x_by_token][how.fp16];
    return queue_kernel(kernel, {(unsigned)n_blocks, GEMM_THREADS, e->smem_bytes}, how, x_map, w_map, args);
}
