/* Grouped GEMM of coded weights on Hopper (coded_order.h), any number of tokens. expert_gemm_sm90.cu says what tiles,
 * rows and sums are; here weights become bf16 or fp16 on their way through shared memory, and nowhere else.
 *
 * Roles. Loaders bring codes, scales and zero points, 128 of the depth a block, into a ring of their own, as far ahead
 * as it has room. Two warpgroups of expanders take blocks by turns, and each has a place for one: it turns codes into
 * two steps of operands (codes.cuh), in the swizzle that wgmma wants, all of what it reads at once, for a warp is alone
 * and would wait for each. Two warpgroups of consumers multiply a block as a whole and give its places back at once;
 * while one of them waits the other has instructions under way. Threads do not meet: each ring has its barriers.
 *
 * Rows of x have a place more than weights: an expander asks for those of its next block when it has published one, a
 * turn ahead, while consumers are at the block before or at this one, and then waits for its place.
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
    N_EXPANDERS = 2, /* warpgroups */
    CODED_THREADS = LOADER_THREADS + (N_EXPANDERS + N_CONSUMERS) * GROUP_THREADS,
    RUN_BYTES = LF_CODED_BLOCK_BYTES,
    STEPS = LF_CODED_BLOCK_K / STEP, /* of a block */
    WORDS = LF_CODED_BLOCK_K / 32,   /* a lane's of a run: eight columns of each 32 */
    N_W = N_EXPANDERS,               /* blocks of weights: an expander's own */
    N_X = N_W + 1,                   /* of rows */
    N_CODES_MOST = 16,               /* of codes */
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
 *     expand<COLUMNS>(to, from, args, warp)           by a warp of four; to: the operands of a step, then those of the
 *                                                     next; what lies behind the last column is something finite, or
 *                                                     nobody's */

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

/* Four-bit codes of N runs, from `run` on. Words of odd rows are turned: s and its neighbour. CODE::scales is what
 * belongs to the words of a row, in that order; CODE::elements makes of word s four pairs. */
template <class CODE, int COLUMNS, int N>
LF_GPU_FN void expand_some(uint32_t to, uint32_t from, const coded_args &args, int run)
{
    int lane = laneid(), r = lane / 4, t = lane % 4, odd = r % 2;
    uint4 words[N];
    typename CODE::scales scales[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        words[i] = ld_shared_v4(from + (run + i) * RUN_BYTES + lane * 16);
        scales[i].template load<COLUMNS>(from, args, (run + i) * LF_CODED_RUN + r, odd);
    }
    uint32_t even_at = operand_at(to + run * LF_CODED_RUN * ROW_BYTES, r, 4 * odd + t);
    uint32_t odd_at = operand_at(to + run * LF_CODED_RUN * ROW_BYTES, r, 4 * (1 - odd) + t);
#pragma unroll
    for (int i = 0; i < N; i++) {
        const uint4 &x = words[i];
        const uint32_t turned[WORDS] = {odd ? x.y : x.x, odd ? x.x : x.y, odd ? x.w : x.z, odd ? x.z : x.w};
#pragma unroll
        for (int s = 0; s < WORDS; s++)
            st_shared_v4((s % 2 ? odd_at : even_at) + s / (WORDS / STEPS) * (COLUMNS * ROW_BYTES) +
                             i * LF_CODED_RUN * ROW_BYTES,
                         CODE::elements(turned[s], scales[i], s, odd));
    }
}

/* A warp's runs, CODE::AT_ONCE at a time where there are registers for no more. */
template <class CODE, int COLUMNS>
LF_GPU_FN void expand_runs(uint32_t to, uint32_t from, const coded_args &args, int warp)
{
    constexpr int N = coded_runs<COLUMNS>::N / GROUP_WARPS, AT_ONCE = N < CODE::AT_ONCE ? N : (int)CODE::AT_ONCE;
#pragma unroll
    for (int i = 0; i + AT_ONCE <= N; i += AT_ONCE) expand_some<CODE, COLUMNS, AT_ONCE>(to, from, args, warp * N + i);
    if constexpr (N % AT_ONCE != 0)
        expand_some<CODE, COLUMNS, N % AT_ONCE>(to, from, args, warp * N + N / AT_ONCE * AT_ONCE);
}

struct e2m1_expert {
    static constexpr float AFTER = (float)(1ull << LF_E2M1_SHIFT);
    enum { SCALE_UNITS = 2, AT_ONCE = 4 };

    struct scales {
        uint32_t bytes;

        template <int COLUMNS> LF_GPU_MEMBER void load(uint32_t from, const coded_args &, int row, int)
        {
            bytes = ld_shared_u32(from + coded_runs<COLUMNS>::CODES_BYTES + row * 4);
        }
    };

    template <int COLUMNS> static constexpr int SLOT_BYTES = coded_runs<COLUMNS>::N *(RUN_BYTES + SCALE_UNITS * 16);

    template <int COLUMNS>
    LF_GPU_MEMBER static void bring(uint32_t to, const coded_args &args, const expert_tile &tile, int block, int thread)
    {
        coded_runs<COLUMNS> runs(args, tile, block);
        runs.bring_codes(to, args, thread);
        runs.bring_scales(to + coded_runs<COLUMNS>::CODES_BYTES, args, SCALE_UNITS, thread);
    }

    LF_GPU_MEMBER static uint4 elements(uint32_t word, const scales &scales, int s, int odd)
    {
        return e2m1_elements(word, e2m1_factor(scales.bytes, s ^ odd));
    }

    template <int COLUMNS>
    LF_GPU_MEMBER static void expand(uint32_t to, uint32_t from, const coded_args &args, int warp)
    {
        expand_runs<e2m1_expert, COLUMNS>(to, from, args, warp);
    }
};

template <class T> struct i4_expert {
    static constexpr float AFTER = 1.0f;
    enum { MOST_GROUPS = 4, AT_ONCE = 2 };

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

    struct scales {
        uint32_t of[WORDS]; /* a scale, and in the upper half a zero point */

        template <int COLUMNS> LF_GPU_MEMBER void load(uint32_t from, const coded_args &args, int row, int odd)
        {
#pragma unroll
            for (int s = 0; s < WORDS; s++) {
                int group = row * args.groups + (s ^ odd) * args.groups / WORDS;
                uint32_t zero = args.zeros ? ld_shared_u8(from + ZEROS_AT<COLUMNS> + group) : (uint32_t)LF_I4_ZERO;
                of[s] = ld_shared_u16(from + coded_runs<COLUMNS>::CODES_BYTES + group * 2) | zero << 16;
            }
        }
    };

    /* A number and a scale have so few bits that their product is rounded once here too. */
    LF_GPU_MEMBER static uint4 elements(uint32_t word, const scales &scales, int s, int)
    {
        uint32_t scale = __byte_perm(scales.of[s], 0, 0x1010);
        uint4 x = i4_elements<T>(word, i4_zeros<T>(scales.of[s] >> 16));
        return make_uint4(fma_rn_x2<T>(x.x, scale, MINUS), fma_rn_x2<T>(x.y, scale, MINUS),
                          fma_rn_x2<T>(x.z, scale, MINUS), fma_rn_x2<T>(x.w, scale, MINUS));
    }

    template <int COLUMNS>
    LF_GPU_MEMBER static void expand(uint32_t to, uint32_t from, const coded_args &args, int warp)
    {
        expand_runs<i4_expert, COLUMNS>(to, from, args, warp);
    }
};

/* FP8 whose scales no sum can be multiplied by, 128 columns of a row each (gemm_fp8.c): rows of 128 bytes in the
 * swizzle, so that what lanes read of eight rows lies apart. */
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
#pragma unroll 4
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

    /* N times eight of a warp's rows: a lane has 16 columns of either step, of a row of each eight. */
    template <int N> LF_GPU_MEMBER static void expand_rows(uint32_t to, uint32_t from, uint32_t scales_at, int w_bytes)
    {
        int lane = laneid(), unit = lane / 8, row = lane % 8;
        uint4 codes[N][STEPS];
        float scales[N];
#pragma unroll
        for (int i = 0; i < N; i++) {
#pragma unroll
            for (int step = 0; step < STEPS; step++)
                codes[i][step] =
                    ld_shared_v4(operand_at(from, row, step * (CODE_UNITS / STEPS) + unit) + i * 8 * LF_CODED_BLOCK_K);
            scales[i] = __uint_as_float(ld_shared_u32(scales_at + (row + i * 8) * 4));
        }
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                const uint4 &x = codes[i][step];
                uint32_t at = to + step * w_bytes + i * 8 * ROW_BYTES;
                store(operand_at(at, row, 2 * unit), e4m3_elements<T>(x.x, x.y), scales[i]);
                store(operand_at(at, row, 2 * unit + 1), e4m3_elements<T>(x.z, x.w), scales[i]);
            }
    }

    /* By sixteen rows, for which there are registers. */
    template <int COLUMNS> LF_GPU_MEMBER static void expand(uint32_t to, uint32_t from, const coded_args &, int warp)
    {
        constexpr int ROWS = COLUMNS / GROUP_WARPS, W_BYTES = COLUMNS * ROW_BYTES;
        uint32_t scales = from + COLUMNS * LF_CODED_BLOCK_K + warp * ROWS * 4;
        to += warp * ROWS * ROW_BYTES;
        from += warp * ROWS * LF_CODED_BLOCK_K;
        int row = 0;
#pragma unroll
        for (; row + 16 <= ROWS; row += 16)
            expand_rows<2>(to + row * ROW_BYTES, from + row * LF_CODED_BLOCK_K, scales + row * 4, W_BYTES);
        if (ROWS % 16 != 0)
            expand_rows<1>(to + row * ROW_BYTES, from + row * LF_CODED_BLOCK_K, scales + row * 4, W_BYTES);
    }
};

/* ---- the kernel ---- */

/* Blocks of operands, and of codes what room there is. */
template <class CODE_, int COLUMNS_> struct coded_shape {
    using CODE = CODE_;
    static constexpr int COLUMNS = COLUMNS_, W_BYTES = COLUMNS * ROW_BYTES;
    static constexpr float AFTER = CODE::AFTER;
    static constexpr int SLOT_BYTES = CODE::template SLOT_BYTES<COLUMNS>, BARRIER_BYTES = 2 * sizeof(uint64_t);
    static constexpr int OPERAND_BYTES = STEPS * (N_X * X_BYTES + N_W * W_BYTES) + (N_X + N_W) * BARRIER_BYTES;
    static constexpr int OTHER_BYTES = OPERAND_BYTES + (int)sizeof(expert_list<TILE_ROWS>) + 1024 + 128;
    static constexpr int N_FIT = (SMEM_BYTES - OTHER_BYTES) / (SLOT_BYTES + BARRIER_BYTES);
    static constexpr int N_CODES = N_FIT < N_CODES_MOST ? N_FIT : (int)N_CODES_MOST;
    static_assert(N_CODES > N_EXPANDERS, "each expander has a block in hand");

    struct memory {
        alignas(1024) char x[N_X][STEPS][X_BYTES];
        alignas(1024) char w[N_W][STEPS][W_BYTES];
        alignas(128) char codes[N_CODES][SLOT_BYTES];
        uint64_t x_full[N_X], x_empty[N_X];
        uint64_t w_full[N_W], w_empty[N_W];
        uint64_t codes_full[N_CODES], codes_empty[N_CODES];
        expert_list<TILE_ROWS> list;
    };
    static_assert(sizeof(memory) + 1024 <= SMEM_BYTES, "what a multiprocessor has");
};

template <class SHAPE> struct loader {
    const coded_args &args;
    typename SHAPE::memory &smem;
    int thread; /* of the loaders */
    ring_cursor<SHAPE::N_CODES> ring;

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

/* One warpgroup of them: blocks `group`, group + N_EXPANDERS … of this CTA's, counted through its tiles. */
template <class SHAPE, bool BY_TOKEN> struct expander {
    const coded_args &args;
    typename SHAPE::memory &smem;
    const CUtensorMap *x_map;
    int group, thread, warp, lane; /* the last three of the warpgroup */
    ring_cursor<N_X> x;
    ring_cursor<SHAPE::N_CODES> codes;
    int parity; /* of its place for weights */
    gathered_rows<GROUP_THREADS> rows;

    /* Of rows that lie sorted, by one thread. A step behind the last one is not brought, nor multiplied. */
    LF_GPU_MEMBER void bring_sorted(const expert_tile &tile, int block) const
    {
        uint32_t full = shared_address(&smem.x_full[x.slot]), to = shared_address(smem.x[x.slot]);
        int first = block * STEPS, n = min((int)STEPS, args.g.n_steps - first);
        mbarrier_arrive_expect_tx(full, n * halves_of(tile) * HALF_BYTES);
        for (int i = 0; i < n; i++)
            for (int h = 0; h < halves_of(tile); h++)
                cp_async_bulk_tensor_2d(to + i * X_BYTES + h * HALF_BYTES, x_map, full, (first + i) * STEP,
                                        tile.row + h * HALF_ROWS);
    }

    LF_GPU_MEMBER void bring_rows(const expert_tile &tile, int block) const
    {
        mbarrier_try_wait_parity(shared_address(&smem.x_empty[x.slot]), x.parity ^ 1);
        if constexpr (BY_TOKEN) {
#pragma unroll
            for (int i = 0; i < STEPS; i++)
                rows.bring(args.g, shared_address(smem.x[x.slot]) + i * X_BYTES, block * STEPS + i, thread);
        } else if (thread == 0) {
            bring_sorted(tile, block);
        }
    }

    LF_GPU_MEMBER void expand() const
    {
        mbarrier_try_wait_parity(shared_address(&smem.codes_full[codes.slot]), codes.parity);
        mbarrier_try_wait_parity(shared_address(&smem.w_empty[group]), parity ^ 1);
        SHAPE::CODE::template expand<SHAPE::COLUMNS>(shared_address(smem.w[group]),
                                                     shared_address(smem.codes[codes.slot]), args, warp);
    }

    /* Each warp for itself. */
    LF_GPU_MEMBER void publish() const
    {
        if (BY_TOKEN) cp_async_wait_group<0>();
        fence_proxy_async();
        __syncwarp();
        if (lane != 0) return;
        mbarrier_arrive(shared_address(&smem.codes_empty[codes.slot]));
        mbarrier_arrive(shared_address(&smem.w_full[group]));
        if (BY_TOKEN) mbarrier_arrive(shared_address(&smem.x_full[x.slot]));
    }

    LF_GPU_MEMBER void advance()
    {
#pragma unroll
        for (int i = 0; i < N_EXPANDERS; i++) {
            x.advance();
            codes.advance();
        }
        parity ^= 1;
    }

    LF_GPU_MEMBER void run()
    {
        auto walk = walk_of(smem.list, args.g);
        int block = group;
        for (expert_tile tile; walk.take(tile); block -= args.n_blocks) {
            if (block >= args.n_blocks) continue;
            if (BY_TOKEN) rows.find(args.g, tile, thread);
#pragma unroll 1
            for (; block < args.n_blocks; block += N_EXPANDERS, advance()) {
                bring_rows(tile, block);
                expand();
                publish();
            }
        }
    }
};

template <class T, class SHAPE> struct consumer : tile_sums<T, SHAPE> {
    typename SHAPE::memory &smem;
    ring_cursor<N_X> x;
    ring_cursor<N_W> w;

    LF_GPU_MEMBER consumer(const gemm_args &args, typename SHAPE::memory &memory, int group, int warp, int lane)
        : tile_sums<T, SHAPE>{args, group, warp, lane}, smem(memory), x{0, 0}, w{0, 0}
    {
    }

    LF_GPU_MEMBER void take_block() const
    {
        mbarrier_try_wait_parity(shared_address(&smem.x_full[x.slot]), x.parity);
        mbarrier_try_wait_parity(shared_address(&smem.w_full[w.slot]), w.parity);
    }

    /* Each warp for itself. */
    LF_GPU_MEMBER void release_block()
    {
        if (this->lane == 0) {
            mbarrier_arrive(shared_address(&smem.x_empty[x.slot]));
            mbarrier_arrive(shared_address(&smem.w_empty[w.slot]));
        }
        x.advance();
        w.advance();
    }

    /* N of its steps: a matrix's last block may have one. */
    template <int N> LF_GPU_MEMBER void multiply_block()
    {
        uint32_t x_at = wgmma_descriptor_low(shared_address(smem.x[0][0]), 16) +
                        (x.slot * STEPS * X_BYTES + this->group * HALF_BYTES) / 16;
        uint32_t w_at = wgmma_descriptor_low(shared_address(smem.w[0][0]), 16) + w.slot * (STEPS * SHAPE::W_BYTES / 16);
        take_block();
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < N; i++) this->start_step(x_at + i * (X_BYTES / 16), w_at + i * (SHAPE::W_BYTES / 16));
        wgmma_commit_group();
        wgmma_wait_group<0>();
        this->hold_sums();
        release_block();
    }

    LF_GPU_MEMBER void multiply()
    {
        this->clear();
#pragma unroll 1
        for (int i = 0; i < this->args.n_steps / STEPS; i++) multiply_block<STEPS>();
        if (this->args.n_steps % STEPS != 0) multiply_block<1>();
    }

    LF_GPU_MEMBER void run(int n_blocks)
    {
        auto walk = walk_of(smem.list, this->args);
        for (expert_tile tile; walk.take(tile);) {
            if (this->has_rows(tile)) {
                multiply();
                this->write(tile);
                continue;
            }
            for (int i = 0; i < n_blocks; i++) {
                take_block();
                __syncwarp(); /* no lane is left waiting for a phase that has gone */
                release_block();
            }
        }
    }
};

template <class SHAPE, bool BY_TOKEN> LF_GPU_FN void init_barriers(typename SHAPE::memory &smem)
{
    for (int i = 0; i < N_X; i++) {
        mbarrier_init(shared_address(&smem.x_full[i]), BY_TOKEN ? (int)GROUP_WARPS : 1);
        mbarrier_init(shared_address(&smem.x_empty[i]), N_CONSUMERS * GROUP_WARPS);
    }
    for (int i = 0; i < N_W; i++) {
        mbarrier_init(shared_address(&smem.w_full[i]), GROUP_WARPS);
        mbarrier_init(shared_address(&smem.w_empty[i]), N_CONSUMERS * GROUP_WARPS);
    }
    for (int i = 0; i < SHAPE::N_CODES; i++) {
        mbarrier_init(shared_address(&smem.codes_full[i]), LOADER_THREADS);
        mbarrier_init(shared_address(&smem.codes_empty[i]), GROUP_WARPS);
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
    int group = uniform((int)threadIdx.x / GROUP_THREADS), thread = threadIdx.x % GROUP_THREADS;
    int warp = uniform(thread / WARP);
    if (group == 0) {
        setmaxnreg_dec<72>();
        loader<SHAPE> self = {args, smem, thread, {0, 0}};
        self.run();
        wait_predecessor();
    } else if (group <= N_EXPANDERS) {
        setmaxnreg_dec<80>();
        wait_predecessor();
        int turn = group - 1;
        expander<SHAPE, BY_TOKEN> self = {args, smem, &x_map, turn, thread, warp, laneid(), {turn, 0}, {turn, 0}, 0};
        self.run();
    } else {
        setmaxnreg_inc<120>();
        wait_predecessor();
        consumer<T, SHAPE> self(args.g, smem, group - 1 - N_EXPANDERS, warp, laneid());
        self.run(args.n_blocks);
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
