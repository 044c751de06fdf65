/* Grouped GEMM of coded weights on Hopper (coded_order.h), any number of tokens. expert_gemm_sm90.cu says what tiles,
 * rows and sums are; here weights become bf16 or fp16 on their way through shared memory, and nowhere else.
 *
 * Roles. Loaders bring codes, scales and zero points, 128 of the depth a block, into a ring of their own, as far ahead
 * as it has room: where rows are few that is all that costs time. Two warpgroups of expanders turn a block into two
 * steps of operands (codes.cuh), in the swizzle that wgmma wants, and bring the rows of x beside them. Two warpgroups
 * of consumers multiply. Threads do not meet: each ring has its barriers.
 *
 * Values. A weight is scale · (number - zero), rounded once to the type of the activations, as expand.cu has it. A
 * scale of E2M1 is a power of two: its product with a code is exact, and what is missing of it, LF_E2M1_SHIFT, is put
 * to the sums. So a row has the bits that expert_gemm_sm90.cu gives it with the weights expanded, and in any company.
 *
 * Banks. The eight lanes of a store's phase have eight different units of 16 bytes: of E4M3 one unit of eight rows; of
 * runs, where a lane has four words of one row, lanes of odd rows take the other word first.
 *
 * Many rows: expanding costs issue slots and shared memory that the tensor cores wait for, the less the more rows share
 * it. Needs sm_90a, n_in and n_out divisible by 8 (E4M3: n_in by 16). */
#include "device/cuda/codes.cuh"
#include "device/cuda/expert_gemm.cuh"
#include "device/cuda/expert_gemm_coded_sm90.h"
#include "device/cuda/ptx_copy_barrier.cuh"

enum {
    LOADER_THREADS = GROUP_THREADS,
    EXPANDER_THREADS = 2 * GROUP_THREADS,
    EXPANDER_WARPS = EXPANDER_THREADS / WARP,
    CODED_THREADS = LOADER_THREADS + EXPANDER_THREADS + N_CONSUMERS * GROUP_THREADS,
    RUN_BYTES = LF_CODED_BLOCK_BYTES,
    STEPS = LF_CODED_BLOCK_K / STEP, /* of a block */
    STEP_WORDS = STEP / 32,          /* of a lane's in a run: a word is 8 of 32 columns */
    SMEM_BYTES = 227 * 1024,
};

struct coded_args {
    gemm_args g;
    const char *codes; /* of the first expert; likewise */
    const char *scales, *zeros;
    size_t expert_bytes;
    int n_blocks;                                         /* of 128 columns */
    int groups;                                           /* of I4: of a row in a block */
    int scale_rows, scale_row_stride, scale_block_stride; /* of E4M3, strides in floats */
};

/* ---- codes: how a block of a tile is brought, and expanded ----
 *
 *     SLOT_BYTES<COLUMNS>                             of a block, 16-byte aligned
 *     AFTER                                           what sums are multiplied by at last
 *     bring<COLUMNS>(to, args, tile, block, thread)   by the loaders
 *     expand<COLUMNS>(to, from, args, half, warp)     by a warp of the expanders: columns 64 · half … of the block */

LF_GPU_FN uint32_t operand_at(uint32_t w, int row, int unit)
{
    return w + row * ROW_BYTES + ((unit ^ row % 8) << 4);
}

/* The runs of a tile begin at run `first`; what lies behind the last one is the last one again, and nobody's. */
template <int COLUMNS> struct coded_runs {
    static constexpr int N = COLUMNS / LF_CODED_RUN, CODES_BYTES = N * RUN_BYTES;
    static_assert(N * LF_CODED_RUN == COLUMNS, "whole runs");

    size_t of_expert; /* bytes */
    int first, last, block;

    LF_GPU_MEMBER coded_runs(const coded_args &args, const expert_tile &tile, int b)
        : of_expert(tile.expert * args.expert_bytes), first(tile.column_tile * N),
          last((args.g.n_out - 1) / LF_CODED_RUN), block(b)
    {
    }

    LF_GPU_MEMBER size_t at(const coded_args &args, int run) const
    {
        return (size_t)min(first + run, last) * args.n_blocks + block;
    }

    LF_GPU_MEMBER void bring_codes(uint32_t to, const coded_args &args, int thread) const
    {
#pragma unroll
        for (int i = thread; i < N * WARP; i += LOADER_THREADS)
            cp_async_cg_16(to + i * 16,
                           args.codes + of_expert + at(args, i / WARP) * RUN_BYTES + (size_t)(i % WARP) * 16);
    }

    /* n times 16 bytes of scales a run. */
    LF_GPU_MEMBER void bring_scales(uint32_t to, const coded_args &args, int n, int thread) const
    {
        for (int i = thread; i < N * n; i += LOADER_THREADS)
            cp_async_cg_16(to + i * 16, args.scales + of_expert + (at(args, i / n) * n + i % n) * 16);
    }

    LF_GPU_MEMBER void bring_zeros(uint32_t to, const coded_args &args, int n, int thread) const
    {
        for (int i = thread; i < N * n; i += LOADER_THREADS)
            cp_async_ca<8>(to + i * 8, args.zeros + of_expert + (at(args, i / n) * n + i % n) * 8);
    }
};

/* Four-bit codes: a lane's words of a run. CODE::elements makes of word s of row r four pairs. */
template <class CODE, int COLUMNS>
LF_GPU_FN void expand_runs(uint32_t to, uint32_t from, const coded_args &args, int half, int warp)
{
    int lane = laneid(), r = lane / 4, t = lane % 4;
#pragma unroll
    for (int run = warp; run < coded_runs<COLUMNS>::N; run += EXPANDER_WARPS) {
        uint4 x = ld_shared_v4(from + run * RUN_BYTES + lane * 16);
        const uint32_t words[STEP_WORDS] = {half ? x.z : x.x, half ? x.w : x.y};
#pragma unroll
        for (int i = 0; i < STEP_WORDS; i++) {
            int turned = i ^ r % 2;
            uint32_t word = turned ? words[1] : words[0];
            st_shared_v4(
                operand_at(to, run * LF_CODED_RUN + r, 4 * turned + t),
                CODE::template elements<COLUMNS>(from, args, word, STEP_WORDS * half + turned, run * LF_CODED_RUN + r));
        }
    }
}

struct e2m1_expert {
    static constexpr float AFTER = (float)(1ull << LF_E2M1_SHIFT);
    enum { SCALE_UNITS = 2 };

    template <int COLUMNS> static constexpr int SLOT_BYTES = coded_runs<COLUMNS>::N *(RUN_BYTES + SCALE_UNITS * 16);

    template <int COLUMNS>
    LF_GPU_MEMBER static void bring(uint32_t to, const coded_args &args, const expert_tile &tile, int block, int thread)
    {
        coded_runs<COLUMNS> runs(args, tile, block);
        runs.bring_codes(to, args, thread);
        runs.bring_scales(to + coded_runs<COLUMNS>::CODES_BYTES, args, SCALE_UNITS, thread);
    }

    template <int COLUMNS>
    LF_GPU_MEMBER static uint4 elements(uint32_t from, const coded_args &, uint32_t word, int s, int row)
    {
        return e2m1_elements(word, e2m1_factor(ld_shared_u32(from + coded_runs<COLUMNS>::CODES_BYTES + row * 4), s));
    }

    template <int COLUMNS>
    LF_GPU_MEMBER static void expand(uint32_t to, uint32_t from, const coded_args &args, int half, int warp)
    {
        expand_runs<e2m1_expert, COLUMNS>(to, from, args, half, warp);
    }
};

template <class T> struct i4_expert {
    static constexpr float AFTER = 1.0f;
    enum { MOST_GROUPS = 4 };

    template <int COLUMNS>
    static constexpr int ZEROS_AT = coded_runs<COLUMNS>::CODES_BYTES + coded_runs<COLUMNS>::N *MOST_GROUPS * 16;
    template <int COLUMNS>
    static constexpr int SLOT_BYTES = ZEROS_AT<COLUMNS> + coded_runs<COLUMNS>::N *MOST_GROUPS * 8;

    template <int COLUMNS>
    LF_GPU_MEMBER static void bring(uint32_t to, const coded_args &args, const expert_tile &tile, int block, int thread)
    {
        coded_runs<COLUMNS> runs(args, tile, block);
        runs.bring_codes(to, args, thread);
        runs.bring_scales(to + coded_runs<COLUMNS>::CODES_BYTES, args, args.groups, thread);
        if (args.zeros) runs.bring_zeros(to + ZEROS_AT<COLUMNS>, args, args.groups, thread);
    }

    /* A number and a scale have so few bits that their product is rounded once here too. */
    template <int COLUMNS>
    LF_GPU_MEMBER static uint4 elements(uint32_t from, const coded_args &args, uint32_t word, int s, int row)
    {
        int group = row * args.groups + s * args.groups / 4;
        uint32_t zero = args.zeros ? ld_shared_u8(from + ZEROS_AT<COLUMNS> + group) : (uint32_t)LF_I4_ZERO;
        uint32_t scale = ld_shared_u16(from + coded_runs<COLUMNS>::CODES_BYTES + group * 2) * 0x00010001u;
        uint4 x = i4_elements<T>(word, i4_zeros<T>(zero));
        return make_uint4(fma_rn_x2<T>(x.x, scale, MINUS), fma_rn_x2<T>(x.y, scale, MINUS),
                          fma_rn_x2<T>(x.z, scale, MINUS), fma_rn_x2<T>(x.w, scale, MINUS));
    }

    template <int COLUMNS>
    LF_GPU_MEMBER static void expand(uint32_t to, uint32_t from, const coded_args &args, int half, int warp)
    {
        expand_runs<i4_expert, COLUMNS>(to, from, args, half, warp);
    }
};

/* FP8: rows of 128 bytes in the swizzle, so that what lanes read of eight rows lies apart. */
template <class T> struct e4m3_expert {
    static constexpr float AFTER = 1.0f;
    enum { CODE_UNITS = LF_CODED_BLOCK_K / 16 };

    template <int COLUMNS> static constexpr int SLOT_BYTES = COLUMNS *(LF_CODED_BLOCK_K + (int)sizeof(float));

    template <int COLUMNS>
    LF_GPU_MEMBER static void bring(uint32_t to, const coded_args &args, const expert_tile &tile, int block, int thread)
    {
        int row0 = tile.column_tile * COLUMNS, last = args.g.n_out - 1;
        const char *codes = args.codes + tile.expert * args.expert_bytes;
        const char *scales = args.scales + tile.expert * args.expert_bytes;
#pragma unroll
        for (int i = thread; i < COLUMNS * CODE_UNITS; i += LOADER_THREADS) {
            int row = i / CODE_UNITS, unit = i % CODE_UNITS, column = block * LF_CODED_BLOCK_K + unit * 16;
            bool is_there = column < args.g.n_in;
            size_t at = (size_t)min(row0 + row, last) * args.g.n_in + column;
            cp_async_cg_16(operand_at(to, row, unit), codes + (is_there ? at : 0), is_there ? 16 : 0);
        }
#pragma unroll
        for (int i = thread; i < COLUMNS; i += LOADER_THREADS) {
            size_t at = (size_t)(min(row0 + i, last) / args.scale_rows) * args.scale_row_stride;
            cp_async_ca<4>(to + COLUMNS * LF_CODED_BLOCK_K + i * 4,
                           scales + (at + (size_t)(block * args.scale_block_stride)) * sizeof(float));
        }
    }

    LF_GPU_MEMBER static uint32_t scaled(uint32_t pair, float scale)
    {
        float2 v = unpack<T>(pair);
        return pack<T>(scale * v.x, scale * v.y);
    }

    LF_GPU_MEMBER static void store(uint32_t to, const uint4 &x, float scale)
    {
        st_shared_v4(to, make_uint4(scaled(x.x, scale), scaled(x.y, scale), scaled(x.z, scale), scaled(x.w, scale)));
    }

    template <int COLUMNS>
    LF_GPU_MEMBER static void expand(uint32_t to, uint32_t from, const coded_args &, int half, int warp)
    {
        int lane = laneid(), unit = lane / 8;
#pragma unroll
        for (int run = warp; run < COLUMNS / 8; run += EXPANDER_WARPS) {
            int row = run * 8 + lane % 8;
            float scale = __uint_as_float(ld_shared_u32(from + COLUMNS * LF_CODED_BLOCK_K + row * 4));
            uint4 x = ld_shared_v4(operand_at(from, row, half * (CODE_UNITS / 2) + unit));
            store(operand_at(to, row, 2 * unit), e4m3_elements<T>(x.x, x.y), scale);
            store(operand_at(to, row, 2 * unit + 1), e4m3_elements<T>(x.z, x.w), scale);
        }
    }
};

/* ---- the kernel ---- */

/* As many steps as are worth it, and blocks in what is left. */
template <class CODE_, int COLUMNS_> struct coded_shape {
    using CODE = CODE_;
    static constexpr int COLUMNS = COLUMNS_, W_BYTES = COLUMNS * ROW_BYTES;
    static constexpr int N_SLOTS = COLUMNS == 128 ? 4 : COLUMNS == 96 ? 5 : 6, LAG = 2;
    static constexpr float AFTER = CODE::AFTER;
    static constexpr int SLOT_BYTES = CODE::template SLOT_BYTES<COLUMNS>;
    static constexpr int OTHER_BYTES = N_SLOTS * (X_BYTES + W_BYTES) + (int)sizeof(expert_list<TILE_ROWS>) + 2048;
    static constexpr int N_BLOCKS = (SMEM_BYTES - OTHER_BYTES) / SLOT_BYTES;
    static_assert(LAG < N_SLOTS && N_BLOCKS >= 3, "room for what is under way");

    struct memory {
        alignas(1024) char x[N_SLOTS][X_BYTES];
        alignas(1024) char w[N_SLOTS][W_BYTES];
        alignas(128) char codes[N_BLOCKS][SLOT_BYTES];
        uint64_t full[N_SLOTS], empty[N_SLOTS];
        uint64_t codes_full[N_BLOCKS], codes_empty[N_BLOCKS];
        expert_list<TILE_ROWS> list;
    };
};

template <class SHAPE> struct loader {
    const coded_args &args;
    typename SHAPE::memory &smem;
    int thread; /* of the loaders */
    ring_cursor<SHAPE::N_BLOCKS> ring;

    LF_GPU_MEMBER void run()
    {
        auto walk = walk_of(smem.list, args.g);
        for (expert_tile tile; walk.take(tile);)
            for (int block = 0; block < args.n_blocks; block++, ring.advance()) {
                mbarrier_try_wait_parity(shared_address(&smem.codes_empty[ring.slot]), ring.parity ^ 1);
                SHAPE::CODE::template bring<SHAPE::COLUMNS>(shared_address(smem.codes[ring.slot]), args, tile, block,
                                                            thread);
                cp_async_mbarrier_arrive_noinc(shared_address(&smem.codes_full[ring.slot]));
            }
    }
};

template <class SHAPE, bool BY_TOKEN> struct expander {
    const coded_args &args;
    typename SHAPE::memory &smem;
    const CUtensorMap *x_map;
    int thread; /* of the expanders */
    int warp, lane;
    ring_cursor<SHAPE::N_SLOTS> ring, done;
    ring_cursor<SHAPE::N_BLOCKS> blocks;
    int n_begun; /* steps that are not published */
    gathered_rows<EXPANDER_THREADS> rows;

    LF_GPU_MEMBER uint32_t full(const ring_cursor<SHAPE::N_SLOTS> &at) const
    {
        return shared_address(&smem.full[at.slot]);
    }

    /* The oldest step is there: of each warp an arrival. */
    LF_GPU_MEMBER void publish()
    {
        fence_proxy_async();
        __syncwarp();
        if (lane == 0) mbarrier_arrive(full(done));
        done.advance();
        n_begun--;
    }

    /* Of rows that lie sorted; counted beside the warps' arrivals. */
    LF_GPU_MEMBER void bring_rows(const expert_tile &tile, int step) const
    {
        mbarrier_arrive_expect_tx(full(ring), halves_of(tile) * HALF_BYTES);
        for (int h = 0; h < halves_of(tile); h++)
            cp_async_bulk_tensor_2d(shared_address(smem.x[ring.slot]) + h * HALF_BYTES, x_map, full(ring), step * STEP,
                                    tile.row + h * HALF_ROWS);
    }

    LF_GPU_MEMBER void make_step(const expert_tile &tile, int block, int half)
    {
        int step = block * STEPS + half;
        mbarrier_try_wait_parity(shared_address(&smem.empty[ring.slot]), ring.parity ^ 1);
        if (BY_TOKEN)
            rows.bring(args.g, shared_address(smem.x[ring.slot]), step, thread);
        else if (thread == 0)
            bring_rows(tile, step);
        SHAPE::CODE::template expand<SHAPE::COLUMNS>(shared_address(smem.w[ring.slot]),
                                                     shared_address(smem.codes[blocks.slot]), args, half, warp);
        ring.advance();
        n_begun++;
        if (BY_TOKEN && n_begun <= SHAPE::LAG) return;
        if (BY_TOKEN) cp_async_wait_group<SHAPE::LAG>();
        publish();
    }

    LF_GPU_MEMBER void make_block(const expert_tile &tile, int block)
    {
        mbarrier_try_wait_parity(shared_address(&smem.codes_full[blocks.slot]), blocks.parity);
#pragma unroll 1
        for (int half = 0; half < STEPS && block * STEPS + half < args.g.n_steps; half++) make_step(tile, block, half);
        __syncwarp();
        if (lane == 0) mbarrier_arrive(shared_address(&smem.codes_empty[blocks.slot]));
        blocks.advance();
    }

    LF_GPU_MEMBER void run()
    {
        auto walk = walk_of(smem.list, args.g);
        for (expert_tile tile; walk.take(tile);) {
            if (BY_TOKEN) rows.find(args.g, tile, thread);
            for (int block = 0; block < args.n_blocks; block++) make_block(tile, block);
        }
        cp_async_wait_group<0>();
        while (n_begun > 0) publish();
    }
};

template <class SHAPE, bool BY_TOKEN> LF_GPU_FN void init_barriers(typename SHAPE::memory &smem)
{
    for (int i = 0; i < SHAPE::N_SLOTS; i++) {
        mbarrier_init(shared_address(&smem.full[i]), EXPANDER_WARPS + (BY_TOKEN ? 0 : 1));
        mbarrier_init(shared_address(&smem.empty[i]), N_CONSUMERS * GROUP_WARPS);
    }
    for (int i = 0; i < SHAPE::N_BLOCKS; i++) {
        mbarrier_init(shared_address(&smem.codes_full[i]), LOADER_THREADS);
        mbarrier_init(shared_address(&smem.codes_empty[i]), EXPANDER_WARPS);
    }
    fence_mbarrier_init();
}

/* Registers: five groups have 96 a thread to share. */
template <class T, class SHAPE, bool BY_TOKEN>
__global__ void __launch_bounds__(CODED_THREADS, 1)
    expert_gemm_coded(const __grid_constant__ CUtensorMap x_map, const __grid_constant__ coded_args args)
{
    extern __shared__ char raw[];
    auto &smem = *(typename SHAPE::memory *)(((uintptr_t)raw + 1023) & ~(uintptr_t)1023);
    if (threadIdx.x == 0) init_barriers<SHAPE, BY_TOKEN>(smem);
    if (BY_TOKEN) wait_predecessor();
    start_successor(); /* in this order: expert_gemv.cu says why */
    if (threadIdx.x / WARP == 1) smem.list.build(args.g.first, args.g.n_experts);
    __syncthreads();
    int group = uniform((int)threadIdx.x / GROUP_THREADS), warp = uniform((int)threadIdx.x / WARP);
    if (group == 0) {
        setmaxnreg_dec<72>();
        loader<SHAPE> self = {args, smem, (int)threadIdx.x, {0, 0}};
        self.run();
        wait_predecessor();
    } else if (group <= EXPANDER_THREADS / GROUP_THREADS) {
        setmaxnreg_dec<72>();
        wait_predecessor();
        expander<SHAPE, BY_TOKEN> self = {
            args,   smem,   &x_map, (int)threadIdx.x - LOADER_THREADS, warp - GROUP_WARPS, laneid(), {0, 0},
            {0, 0}, {0, 0}, 0};
        self.run();
    } else {
        setmaxnreg_inc<128>();
        wait_predecessor();
        consumer<T, SHAPE> self = {args.g, smem, group - 3, warp % GROUP_WARPS, laneid()};
        self.run();
    }
}

/* ---- host ---- */

typedef void coded_kernel(const CUtensorMap, const coded_args);

static tensor_map_encoder encode_tiled; /* found by _setup */

/* Tiles of so many columns; the kernels sorted, by token. */
struct coded_entry {
    int columns;
    size_t smem_bytes;
    coded_kernel *kernels[2];
};

template <class T, class CODE, int COLUMNS> constexpr coded_entry entry()
{
    using shape = coded_shape<CODE, COLUMNS>;
    return {COLUMNS,
            sizeof(typename shape::memory) + 1024,
            {expert_gemm_coded<T, shape, false>, expert_gemm_coded<T, shape, true>}};
}

enum { N_ENTRIES = LF_CUDA_EXPERT_CODED_TILES };

template <class T, class CODE> struct coded_entries {
    static constexpr coded_entry of[N_ENTRIES] = {entry<T, CODE, 64>(), entry<T, CODE, 96>(), entry<T, CODE, 128>()};
};
template <class T, class CODE> constexpr coded_entry coded_entries<T, CODE>::of[N_ENTRIES];

static const coded_entry *entries_of(enum lf_code code, bool is_fp16)
{
    if (code == LF_CODE_E2M1) return coded_entries<bf16, e2m1_expert>::of;
    if (code == LF_CODE_I4)
        return is_fp16 ? coded_entries<fp16, i4_expert<fp16>>::of : coded_entries<bf16, i4_expert<bf16>>::of;
    return is_fp16 ? coded_entries<fp16, e4m3_expert<fp16>>::of : coded_entries<bf16, e4m3_expert<bf16>>::of;
}

static int load_entries(enum lf_code code, bool fp16)
{
    int rc = 0;
    const coded_entry *entries = entries_of(code, fp16);
    for (int i = 0; i < N_ENTRIES; i++)
        for (coded_kernel *kernel : entries[i].kernels)
            if (rc == 0) rc = load_kernel(kernel, entries[i].smem_bytes);
    return rc;
}

int lf_cuda_expert_gemm_coded_sm90_setup(void)
{
    int rc = find_tensor_map_encoder(&encode_tiled);
    for (int i = 0; i < 2; i++) {
        if (rc == 0) rc = load_entries(LF_CODE_I4, i > 0);
        if (rc == 0) rc = load_entries(LF_CODE_E4M3, i > 0);
    }
    return rc == 0 ? load_entries(LF_CODE_E2M1, false) : rc;
}

/* Columns that the multiprocessor with the most of them has, if every row is of an expert of its own. */
static int64_t most_columns(const coded_entry *entry, const struct lf_expert_gemm_params *p, int n_blocks)
{
    int64_t n_experts = min((int64_t)p->n_tokens * p->k, (int64_t)p->w->n_experts);
    int64_t n_tiles = n_experts * blocks_for(p->w->n_out, entry->columns);
    return (n_tiles + n_blocks - 1) / n_blocks * entry->columns;
}

/* Few rows: by what tiles leave idle, the widest of equal ones. */
static const coded_entry *entry_for(const coded_entry *entries, const struct lf_expert_gemm_params *p, int n_blocks)
{
    int best = N_ENTRIES - 1;
    if ((int64_t)p->n_tokens * p->k > p->w->n_experts) return &entries[best];
    for (int i = best - 1; i >= 0; i--)
        if (most_columns(&entries[i], p, n_blocks) < most_columns(&entries[best], p, n_blocks)) best = i;
    return &entries[best];
}

static coded_args coded_args_of(const struct lf_expert_gemm_params *p, size_t expert_bytes, int columns)
{
    const struct lf_weight *w = p->w;
    struct lf_coded_order order = lf_coded_order_of(&w->format, w->n_out, w->n_in);
    coded_args args = {};
    args.g = expert_gemm_args(p, columns);
    args.codes = (const char *)w->data;
    args.scales = args.codes + order.scales_at;
    args.zeros = w->format.zeros ? args.codes + order.zeros_at : nullptr;
    args.expert_bytes = expert_bytes;
    args.n_blocks = (w->n_in + LF_CODED_BLOCK_K - 1) / LF_CODED_BLOCK_K;
    args.groups = order.groups;
    args.scale_rows = order.scale_rows;
    args.scale_row_stride = order.n_groups;
    args.scale_block_stride = order.n_groups > 1;
    return args;
}

int lf_cuda_expert_gemm_coded_sm90(const struct lf_expert_gemm_params *p, size_t expert_bytes, int n_blocks, int tiles,
                                   struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    const coded_entry *entries = entries_of(p->w->format.code, how.fp16);
    const coded_entry *entry = tiles >= 0 ? &entries[tiles] : entry_for(entries, p, n_blocks);
    coded_args args = coded_args_of(p, expert_bytes, entry->columns);
    CUtensorMap x_map;
    int rc = encode_expert_rows(encode_tiled, &x_map, p, how.fp16);
    if (rc != 0) return rc;
    launch_shape shape = {(unsigned)n_blocks, CODED_THREADS, entry->smem_bytes};
    return queue_kernel(entry->kernels[p->x_by_token], shape, how, x_map, args);
}
