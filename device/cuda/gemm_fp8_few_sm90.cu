/* FP8 GEMM of up to 64 tokens on Hopper (gemm_fp8_sm90.h): the same sums as gemm_fp8_sm90.cu's with operands changed
 * round. Rows of w are the 64 of wgmma, tokens its 8 to 64 columns, so an instruction wastes little where there are few
 * tokens, and there is nothing to it but reading w once.
 *
 * Work. A tile is up to 128 rows of w, half of them each consumer warpgroup's: as many as leave the busiest
 * multiprocessor the fewest. A warpgroup that has fewer than 64 multiplies what lies behind them too, and writes none
 * of it. Tokens come again with each tile, out of L2. Four steps of the depth are under way at a time in accumulators
 * of their own, for one step takes some 200 cycles from its barrier to its sums; they are added in the depth's order.
 *
 * The first weights are asked for before the predecessor has ended. */
#include "device/cuda/gemm_fp8.cuh"

enum {
    FLIGHT = 4, /* steps under way */
    STEPS = 16, /* without a pause: ptxas wants none under way where a loop begins again (C7514) */
    MOST_SLOTS = 32,
    RING_BYTES = 208 * 1024,
    BEHIND_BYTES = FP8_MMA_ROWS * FP8_STEP, /* that a warpgroup of few rows reads behind the ring */
    ROWS_ALIGN = 16,                        /* of a tile: eight of each warpgroup, an atom of the swizzle */
};

/* A slot is w's rows, then the tokens; behind all slots the scales and barriers. */
template <int TOKENS> struct few_ring {
    static constexpr int X_BYTES = TOKENS * FP8_STEP, SCALE_BYTES = TOKENS * 4;

    char *slots;
    float *scales;          /* [n][TOKENS] */
    uint64_t *full, *empty; /* [n] */
    int n, slot_bytes, w_bytes;

    LF_GPU_MEMBER few_ring(char *memory, const fp8_args &args)
        : slots(memory), n(args.n_slots), slot_bytes(args.w_rows * FP8_STEP + X_BYTES), w_bytes(args.w_rows * FP8_STEP)
    {
        scales = (float *)(slots + n * slot_bytes + BEHIND_BYTES);
        full = (uint64_t *)(scales + MOST_SLOTS * TOKENS);
        empty = full + MOST_SLOTS;
    }
};

static constexpr size_t few_bytes(int n_slots, int slot_bytes, int tokens)
{
    return 1024 + (size_t)n_slots * slot_bytes + BEHIND_BYTES + MOST_SLOTS * (tokens * 4 + 16);
}

template <int TOKENS, lf_fp8_scales BY> struct few_producer {
    const fp8_args &args;
    const few_ring<TOKENS> &ring;
    const CUtensorMap *x_map, *w_map;
    fp8_cursor at;

    LF_GPU_MEMBER int scale_bytes() const
    {
        return BY == LF_FP8_BLOCKS ? min(TOKENS, args.p.x_scale_stride) * 4 : 0;
    }

    LF_GPU_MEMBER void bring_weights(int tile, int step) const
    {
        uint32_t full = shared_address(&ring.full[at.slot]);
        mbarrier_arrive_expect_tx(full, ring.slot_bytes + scale_bytes());
        cp_async_bulk_tensor_2d(shared_address(ring.slots + at.slot * ring.slot_bytes), w_map, full, step * FP8_STEP,
                                tile * args.w_rows);
    }

    LF_GPU_MEMBER void bring_tokens(int step) const
    {
        uint32_t full = shared_address(&ring.full[at.slot]);
        cp_async_bulk_tensor_2d(shared_address(ring.slots + at.slot * ring.slot_bytes + ring.w_bytes), x_map, full,
                                step * FP8_STEP, 0);
        if (BY == LF_FP8_BLOCKS)
            cp_async_bulk(shared_address(ring.scales + at.slot * TOKENS),
                          args.p.x_scales + (size_t)step * args.p.x_scale_stride, scale_bytes(), full);
    }

    /* As many steps of the first tile as there are slots: weights now, tokens when the predecessor is complete. */
    LF_GPU_MEMBER int bring_first(int tile)
    {
        int n = min(ring.n, args.n_steps);
        for (int step = 0; step < n; step++, at.advance(ring.n)) bring_weights(tile, step);
        wait_predecessor();
        at = {0, 0};
        for (int step = 0; step < n; step++, at.advance(ring.n)) bring_tokens(step);
        return n;
    }

    LF_GPU_MEMBER void run()
    {
        int tile = blockIdx.x, step = bring_first(tile);
        for (; tile < args.column_tiles; tile += gridDim.x, step = 0)
            for (; step < args.n_steps; step++, at.advance(ring.n)) {
                mbarrier_try_wait_parity(shared_address(&ring.empty[at.slot]), at.parity ^ 1);
                bring_weights(tile, step);
                bring_tokens(step);
            }
    }
};

/* One consumer warpgroup. Row half i of a thread is row 16 · warp + lane / 4 + 8i of the group's rows of w; of each
 * eight tokens it has 2 · (lane mod 4) and the next. */
template <int TOKENS, lf_fp8_scales BY> struct few_consumer {
    static constexpr int N_SUMS = TOKENS / 2;
    static constexpr bool IS_EARLY = TOKENS <= 16; /* what outputs need is fetched before the sums; of more tokens there
                                                      are no registers for it */

    const fp8_args &args;
    const few_ring<TOKENS> &ring;
    int group, warp, lane;
    fp8_cursor at;
    const float *w_scales[2]; /* of the row halves */
    float sums[N_SUMS];
    float bias[2], row_scale[2], residual[N_SUMS]; /* of the tile; the first two of the row halves */

    struct step {
        int slot;
        float w[2];
        float acc[N_SUMS];
    };

    LF_GPU_MEMBER int group_rows() const
    {
        return args.w_rows / FP8_CONSUMERS;
    }

    LF_GPU_MEMBER void start(step &s, int k)
    {
        s.slot = at.slot;
#pragma unroll
        for (int i = 0; i < 2; i++) s.w[i] = BY == LF_FP8_BLOCKS ? __ldg(w_scales[i] + k) : 0.0f;
        mbarrier_try_wait_parity(shared_address(&ring.full[s.slot]), at.parity);
        at.advance(ring.n);
        uint32_t slot = shared_address(ring.slots) + s.slot * ring.slot_bytes;
        uint32_t w = wgmma_descriptor_low(slot + group * group_rows() * FP8_STEP, 16);
        uint32_t x = wgmma_descriptor_low(slot + ring.w_bytes, 16);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < FP8_STEP / 32; i++)
            wgmma_e4m3(s.acc, wgmma_descriptor(w, i * 32), wgmma_descriptor(x, i * 32), i > 0);
        wgmma_commit_group();
    }

    /* A step that is complete. */
    LF_GPU_MEMBER void promote(step &s)
    {
#pragma unroll
        for (int i = 0; i < N_SUMS; i++) hold(s.acc[i]);
#pragma unroll
        for (int j = 0; j < TOKENS / 8; j++) {
            float2 x = make_float2(0.0f, 0.0f);
            if (BY == LF_FP8_BLOCKS) x = *(const float2 *)(ring.scales + s.slot * TOKENS + 8 * j + lane % 4 * 2);
#pragma unroll
            for (int i = 0; i < 4; i++)
                sums[4 * j + i] =
                    fp8_promote<BY>(sums[4 * j + i], s.acc[4 * j + i], (i % 2 == 0 ? x.x : x.y) * s.w[i / 2]);
        }
        __syncwarp();
        if (lane == 0) mbarrier_arrive(shared_address(&ring.empty[s.slot]));
    }

    /* N steps from k on, FLIGHT of them under way until the last has been started. */
    template <int N> LF_GPU_MEMBER void multiply_steps(int k)
    {
        step s[FLIGHT];
#pragma unroll
        for (int i = 0; i < N + FLIGHT - 1; i++) {
            if (i < N) start(s[i % FLIGHT], k + i);
            if (i < FLIGHT - 1) continue;
            wgmma_wait_group<FLIGHT - 1>();
            if (i >= N) wgmma_wait_group<0>();
            promote(s[(i + 1) % FLIGHT]);
        }
    }

    LF_GPU_MEMBER void multiply()
    {
        int k = 0;
        for (; k + STEPS <= args.n_steps; k += STEPS) multiply_steps<STEPS>(k);
        for (; k + FLIGHT <= args.n_steps; k += FLIGHT) multiply_steps<FLIGHT>(k);
        for (; k < args.n_steps; k++) {
            step s;
            start(s, k);
            wgmma_wait_group<0>();
            promote(s);
        }
    }

    LF_GPU_MEMBER int row_of(int tile, int half) const
    {
        int within = warp * 16 + lane / 4 + half * 8, row = tile * args.w_rows + group * group_rows() + within;
        return within < group_rows() && row < args.p.n_out ? row : -1;
    }

    LF_GPU_MEMBER int token_of(int i) const
    {
        return i / 4 * 8 + lane % 4 * 2 + i % 2;
    }

    LF_GPU_MEMBER size_t place_of(int token, int row) const
    {
        return (size_t)token * args.p.y_stride + row;
    }

    /* What the tile's outputs need beside their sums. */
    LF_GPU_MEMBER void fetch(int tile)
    {
        const lf_fp8_gemm_params &p = args.p;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int row = row_of(tile, half);
            bias[half] = p.bias && row >= 0 ? __ldg(p.bias + row) : 0.0f;
            row_scale[half] = BY == LF_FP8_ROWS && row >= 0 ? __ldg(p.w_scales + row) : 1.0f;
        }
#pragma unroll
        for (int i = 0; i < N_SUMS; i++) {
            int row = row_of(tile, i / 2 % 2), token = token_of(i);
            residual[i] = p.residual && row >= 0 && token < p.n_tokens ? p.residual[place_of(token, row)] : 0.0f;
        }
    }

    LF_GPU_MEMBER void write_one(int i, int token, int row) const
    {
        const lf_fp8_gemm_params &p = args.p;
        float x = BY == LF_FP8_ROWS ? p.x_scales[token] : 1.0f;
        float value = fp8_output<BY>(sums[i], x, row_scale[i / 2 % 2], bias[i / 2 % 2], p.alpha);
        size_t place = place_of(token, row);
        if (p.y_float)
            ((float *)p.y)[place] = value + residual[i];
        else if (args.fp16)
            ((fp16 *)p.y)[place] = from_float<fp16>(value);
        else
            ((bf16 *)p.y)[place] = from_float<bf16>(value);
    }

    LF_GPU_MEMBER void write(int tile) const
    {
#pragma unroll
        for (int i = 0; i < N_SUMS; i++) {
            int row = row_of(tile, i / 2 % 2), token = token_of(i);
            if (row >= 0 && token < args.p.n_tokens) write_one(i, token, row);
        }
    }

    LF_GPU_MEMBER void run()
    {
        for (int tile = blockIdx.x; tile < args.column_tiles; tile += gridDim.x) {
            int first = tile * args.w_rows + group * group_rows() + warp * 16 + lane / 4;
#pragma unroll
            for (int i = 0; i < 2; i++)
                w_scales[i] =
                    args.p.w_scales + (size_t)(min(first + 8 * i, args.p.n_out - 1) / LF_FP8_BLOCK) * args.n_steps;
#pragma unroll
            for (int i = 0; i < N_SUMS; i++) sums[i] = 0.0f;
            if (IS_EARLY) fetch(tile);
            multiply();
            if (!IS_EARLY) fetch(tile);
            write(tile);
        }
    }
};

template <int TOKENS, lf_fp8_scales BY>
__global__ void __launch_bounds__(FP8_THREADS, 1)
    gemm_fp8_few(const __grid_constant__ CUtensorMap x_map, const __grid_constant__ CUtensorMap w_map,
                 const __grid_constant__ fp8_args args)
{
    extern __shared__ char raw[];
    few_ring<TOKENS> ring(fp8_aligned(raw), args);
    if (threadIdx.x == 0) {
        for (int i = 0; i < ring.n; i++) {
            mbarrier_init(shared_address(&ring.full[i]), 1);
            mbarrier_init(shared_address(&ring.empty[i]), FP8_CONSUMERS * FP8_WARPGROUP / WARP);
        }
        fence_mbarrier_init();
    }
    start_successor();
    __syncthreads();
    int role = uniform((int)threadIdx.x / FP8_WARPGROUP);
    if (role == 0) {
        setmaxnreg_dec<40>();
        if (threadIdx.x == 0) {
            few_producer<TOKENS, BY> self = {args, ring, &x_map, &w_map, {0, 0}};
            self.run();
        } else {
            wait_predecessor();
        }
    } else {
        setmaxnreg_inc<232>();
        wait_predecessor();
        few_consumer<TOKENS, BY> self = {args, ring, role - 1, uniform((int)threadIdx.x % FP8_WARPGROUP / WARP),
                                         laneid()};
        self.run();
    }
}

/* ---- host ---- */

typedef void few_kernel(const CUtensorMap, const CUtensorMap, const fp8_args);

static tensor_map_encoder encode_tiled;

struct few_entry {
    int tokens;
    few_kernel *kernels[2]; /* by blocks, by rows */
};

#define ENTRY(tokens)                                                                                                  \
    {                                                                                                                  \
        tokens,                                                                                                        \
        {                                                                                                              \
            gemm_fp8_few<tokens, LF_FP8_BLOCKS>, gemm_fp8_few<tokens, LF_FP8_ROWS>                                     \
        }                                                                                                              \
    }
static const few_entry entries[] = {ENTRY(8), ENTRY(16), ENTRY(32), ENTRY(LF_FP8_FEW_TOKENS)};

int lf_cuda_gemm_fp8_few_setup(tensor_map_encoder encode)
{
    int rc = 0;
    encode_tiled = encode;
    for (const few_entry &e : entries)
        for (few_kernel *kernel : e.kernels)
            if (rc == 0) rc = load_kernel(kernel, few_bytes(0, 0, e.tokens) + RING_BYTES);
    return rc;
}

/* Rows of a tile: the busiest multiprocessor has the fewest rows, in tiles as large as they may be then. */
static int tile_rows(int n_out, int n_blocks)
{
    int best = 0, best_rows = INT32_MAX;
    for (int rows = FP8_CONSUMERS * FP8_MMA_ROWS; rows >= ROWS_ALIGN; rows -= ROWS_ALIGN) {
        int tiles = fp8_blocks_for(n_out, rows), busiest = fp8_blocks_for(tiles, n_blocks) * rows;
        if (busiest >= best_rows) continue;
        best = rows;
        best_rows = busiest;
    }
    return best;
}

int lf_cuda_gemm_fp8_few(const struct lf_fp8_gemm_params *p, int n_blocks, struct lf_cuda_launch how)
{
    const few_entry *e = entries;
    while (e->tokens < p->n_tokens) e++;
    int rows = tile_rows(p->n_out, n_blocks), slot_bytes = (rows + e->tokens) * FP8_STEP;
    int n_slots = RING_BYTES / slot_bytes < MOST_SLOTS ? RING_BYTES / slot_bytes : MOST_SLOTS;
    fp8_args args = {*p, fp8_blocks_for(p->n_in, FP8_STEP), fp8_blocks_for(p->n_out, rows), 0, rows, n_slots, how.fp16};
    CUtensorMap x_map, w_map;
    int rc = encode_byte_matrix(encode_tiled, &x_map, p->x, p->n_tokens, p->n_in, e->tokens);
    if (rc == 0) rc = encode_byte_matrix(encode_tiled, &w_map, p->w, p->n_out, p->n_in, rows);
    if (rc != 0) return rc;
    int n_tiles = args.column_tiles;
    launch_shape shape = {dim3(n_tiles < n_blocks ? n_tiles : n_blocks), FP8_THREADS,
                          few_bytes(n_slots, slot_bytes, e->tokens)};
    return queue_kernel(e->kernels[p->by], shape, how, x_map, w_map, args);
}
