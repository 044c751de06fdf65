/* GEMV of coded weights: x · wᵀ for 1 to 16 tokens, w of four bits or FP8 (coded_order.h), which become bf16 or fp16 on
 * their way from shared memory to the tensor cores (codes.cuh). What gemv.cuh says of instructions, order of k,
 * pipeline, blocks and epilogues holds here too; this is what differs.
 *
 * Scales. The tensor cores sum a group's products of codes and x, exact factors both, and the sum is multiplied by the
 * group's scale in float: nothing is rounded that a GEMM of the same weights in float would not round. A scale of E2M1
 * is a power of two and part of the factor that an element needs anyway.
 *
 * Two tiles at once. A quarter of the bytes are a quarter of the time, in which the same x has to come from L2: for 16
 * tokens more than there is of weights. So each block owns neighbouring tiles and takes them in pairs, with one read of
 * x for both. A warp's turn is a unit: 128 columns of one tile, 1 KiB of four-bit codes or 2 KiB of FP8, and their
 * scales.
 *
 * Two blocks a multiprocessor, each with a ring of up to 84 KiB, for another reason: while one adds up its sums, or
 * waits for x, the other multiplies. Here that takes longer than it takes memory to bring the next unit. It leaves no
 * room for blocks of the next GEMV, and is faster all the same (docs/notebook/gemv-quant.md).
 *
 * Bits. As in gemv.cuh: warp w takes blocks w, w + 8, … of 128 columns in ascending order, groups in a block likewise,
 * and the eight warps' sums are added in their order. Nothing of that depends on the number of tokens.
 *
 * Needs n_in and x's row stride divisible by 8 (E4M3: n_in by 16), w and x aligned to 16 bytes. */
#ifndef LF_DEVICE_CUDA_GEMV_QUANT_CUH
#define LF_DEVICE_CUDA_GEMV_QUANT_CUH

#include "device/cuda/codes.cuh"
#include "device/cuda/gemv.cuh"

enum {
    QUANT_PAIR = 2,              /* tiles */
    QUANT_BLOCKS = 2,            /* on a multiprocessor */
    QUANT_RING_BYTES = 84 << 10, /* at most */
};
static_assert((int)LF_CODED_BLOCK_K == (int)GEMV_GROUP_K && (int)LF_CODED_RUN == (int)GEMV_RUN, "a unit is a group");

struct quant_params {
    gemv_params g; /* w: codes */
    const char *scales, *zeros;
    bool has_zeros;
    int n_blocks;
    int scale_rows, scale_row_stride, scale_block_stride; /* of E4M3, strides in floats */
};

/* A Code is how a unit is brought into a slot of the ring and multiplied; slots are 32-bit addresses of shared memory.
 *
 *     SLOT_BYTES                                             what a unit has there
 *     struct place                                           where a tile's units are, the lane's part
 *     static place find(p, row0, row1)                       row0, row1: the first rows of the tile's runs
 *     static void bring(slot, p, const place &, int block)   asks for a unit
 *     static int x_at(int s, int t)                          the first column of a block that lane t has in step s
 *     static float after()                                   what a sum is multiplied by at last
 *     static void multiply<NT>(acc, slot, p, x)              acc += the unit's products */

template <int NT> LF_GPU_FN void quant_mma_zero(float (&part)[NT][4])
{
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) part[n][i] = 0.0f;
}

/* Eight columns of the tile's 16 rows. */
template <class T, int NT>
LF_GPU_FN void quant_mma(float (&sum)[NT][4], const uint4 &u, const uint4 &v, const uint4 (&x)[NT])
{
#pragma unroll
    for (int n = 0; n < NT; n++) {
        mma_m16n8k16<T>(sum[n], {u.x, v.x, u.y, v.y}, x[n].x, x[n].y);
        mma_m16n8k16<T>(sum[n], {u.z, v.z, u.w, v.w}, x[n].z, x[n].w);
    }
}

template <int NT> LF_GPU_FN void quant_add(float (&acc)[NT][4], const float (&part)[NT][4], float scale0, float scale1)
{
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) acc[n][i] = fmaf(i < 2 ? scale0 : scale1, part[n][i], acc[n][i]);
}

template <int NT> LF_GPU_FN void quant_scale(float (&acc)[NT][4], float by)
{
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) acc[n][i] *= by;
}

LF_GPU_FN int quant_lane()
{
    return threadIdx.x % WARP;
}

/* A lane's 16 bytes of a run's codes in a slot, by words. */
struct quant_words {
    uint32_t of[4];
};

LF_GPU_FN quant_words quant_load(uint32_t address)
{
    uint4 x = ld_shared_v4(address);
    return {{x.x, x.y, x.z, x.w}};
}

/* ---- four bits: runs of 8 rows, blocks of 512 bytes ---- */

struct quant_runs {
    uint32_t block[2]; /* the runs' first in the order */
    uint32_t unit;     /* what the lane brings, if anything: the first 16 bytes of scales, or 8 of zero points */
};

enum { RUN_BYTES = WARP * 16, CODES_BYTES = 2 * RUN_BYTES, FIRST_ZEROS_LANE = 16 };

/* A unit's scales are 2 · LANES times 16 bytes, its zero points as often 8. */
template <int LANES> LF_GPU_FN quant_runs quant_find_runs(const quant_params &p, int row0, int row1)
{
    int of_run = quant_lane() % FIRST_ZEROS_LANE, last = (p.g.n_out - 1) / GEMV_RUN;
    quant_runs at;
    at.block[0] = (uint32_t)(min(row0 / GEMV_RUN, last) * p.n_blocks);
    at.block[1] = (uint32_t)(min(row1 / GEMV_RUN, last) * p.n_blocks);
    at.unit = (of_run < LANES ? at.block[0] : at.block[1]) * LANES + of_run % LANES;
    return at;
}

template <int LANES>
LF_GPU_FN void quant_bring_runs(uint32_t to, const quant_params &p, const quant_runs &at, int block)
{
    int lane = quant_lane();
    uint32_t unit = at.unit + block * LANES;
#pragma unroll
    for (int r = 0; r < 2; r++)
        cp_async_cg_16(to + r * RUN_BYTES + lane * 16,
                       p.g.w + lane * 16 + (uint64_t)(at.block[r] + block) * LF_CODED_BLOCK_BYTES);
    if (lane < 2 * LANES) cp_async_cg_16(to + CODES_BYTES + lane * 16, p.scales + (uint64_t)unit * 16);
    if (p.has_zeros && lane >= FIRST_ZEROS_LANE && lane < FIRST_ZEROS_LANE + 2 * LANES)
        cp_async_ca<8>(to + CODES_BYTES + LANES * 32 + (lane - FIRST_ZEROS_LANE) * 8, p.zeros + (uint64_t)unit * 8);
}

template <class T> LF_GPU_FN float quant_element(uint32_t address)
{
    return unpack<T>(ld_shared_u16(address)).x;
}

template <class T, int GROUPS> struct i4_code {
    enum { SLOT_BYTES = CODES_BYTES + GROUPS * 48, STEPS = GEMV_GROUP_STEPS / GROUPS };
    using place = quant_runs;

    LF_GPU_MEMBER static place find(const quant_params &p, int row0, int row1)
    {
        return quant_find_runs<GROUPS>(p, row0, row1);
    }

    LF_GPU_MEMBER static void bring(uint32_t to, const quant_params &p, const place &at, int block)
    {
        quant_bring_runs<GROUPS>(to, p, at, block);
    }

    LF_GPU_MEMBER static int x_at(int s, int t)
    {
        return s * GEMV_STEP + t * 8;
    }

    LF_GPU_MEMBER static float after()
    {
        return 1.0f;
    }

    template <int NT>
    LF_GPU_MEMBER static void multiply(float (&acc)[NT][4], uint32_t from, const quant_params &p, const gemv_x<NT> &x)
    {
        int lane = quant_lane(), row = lane / 4 * GROUPS;
        uint32_t scales = from + CODES_BYTES + row * 2, zeros = from + CODES_BYTES + GROUPS * 32 + row;
        quant_words u = quant_load(from + lane * 16), v = quant_load(from + RUN_BYTES + lane * 16);
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            float part[NT][4];
            uint32_t zero[2];
            quant_mma_zero<NT>(part);
#pragma unroll
            for (int r = 0; r < 2; r++)
                zero[r] = i4_zeros<T>(p.has_zeros ? ld_shared_u8(zeros + r * GROUPS * 8 + group) : LF_I4_ZERO);
#pragma unroll
            for (int s = group * STEPS; s < (group + 1) * STEPS; s++)
                quant_mma<T, NT>(part, i4_elements<T>(u.of[s], zero[0]), i4_elements<T>(v.of[s], zero[1]), x.of[s]);
            quant_add<NT>(acc, part, quant_element<T>(scales + group * 2),
                          quant_element<T>(scales + GROUPS * 16 + group * 2));
        }
    }
};

struct e2m1_code {
    enum { LANES = 2, SLOT_BYTES = CODES_BYTES + LANES * 32 };
    using place = quant_runs;

    LF_GPU_MEMBER static place find(const quant_params &p, int row0, int row1)
    {
        return quant_find_runs<LANES>(p, row0, row1);
    }

    LF_GPU_MEMBER static void bring(uint32_t to, const quant_params &p, const place &at, int block)
    {
        quant_bring_runs<LANES>(to, p, at, block);
    }

    LF_GPU_MEMBER static int x_at(int s, int t)
    {
        return s * GEMV_STEP + t * 8;
    }

    LF_GPU_MEMBER static float after()
    {
        return (float)(1ull << LF_E2M1_SHIFT);
    }

    template <int NT>
    LF_GPU_MEMBER static void multiply(float (&acc)[NT][4], uint32_t from, const quant_params &, const gemv_x<NT> &x)
    {
        int lane = quant_lane();
        quant_words u = quant_load(from + lane * 16), v = quant_load(from + RUN_BYTES + lane * 16);
        uint32_t scales = from + CODES_BYTES + lane / 4 * 4;
        uint32_t scales0 = ld_shared_u32(scales), scales1 = ld_shared_u32(scales + LANES * 16);
#pragma unroll
        for (int s = 0; s < GEMV_GROUP_STEPS; s++)
            quant_mma<bf16, NT>(acc, e2m1_elements(u.of[s], e2m1_factor(scales0, s)),
                                e2m1_elements(v.of[s], e2m1_factor(scales1, s)), x.of[s]);
    }
};

/* ---- FP8: row-major ---- */

template <class T> struct e4m3_code {
    enum {
        HALF_K = GEMV_GROUP_K / 2, /* columns of a lane's two loads of a row are so far apart */
        HALVES = 2,
        SCALES_AT = 2 * HALVES * RUN_BYTES,
        SLOT_BYTES = SCALES_AT + 2 * GEMV_RUN * 4
    };
    struct place {
        const char *row[2]; /* the lane's, at its columns of the first block */
        const char *scale;  /* of the row of the slot's scales that the lane brings */
    };

    LF_GPU_MEMBER static place find(const quant_params &p, int row0, int row1)
    {
        int lane = quant_lane(), last = p.g.n_out - 1;
        int own = (lane / GEMV_RUN % 2 ? row1 : row0) + lane % GEMV_RUN;
        place at;
        at.row[0] = p.g.w + (size_t)min(row0 + lane / 4, last) * p.g.n_in + lane % 4 * 16;
        at.row[1] = p.g.w + (size_t)min(row1 + lane / 4, last) * p.g.n_in + lane % 4 * 16;
        at.scale = p.scales + (size_t)(min(own, last) / p.scale_rows) * p.scale_row_stride * sizeof(float);
        return at;
    }

    LF_GPU_MEMBER static void bring(uint32_t to, const quant_params &p, const place &at, int block)
    {
        int lane = quant_lane(), k = block * GEMV_GROUP_K, left = p.g.n_in - k - lane % 4 * 16;
#pragma unroll
        for (int r = 0; r < 2; r++)
#pragma unroll
            for (int half = 0; half < HALVES; half++) {
                bool is_there = half * HALF_K < left;
                cp_async_cg_16(to + (r * HALVES + half) * RUN_BYTES + lane * 16,
                               is_there ? at.row[r] + k + half * HALF_K : p.g.w, is_there ? 16 : 0);
            }
        if (lane < 2 * GEMV_RUN)
            cp_async_ca<4>(to + SCALES_AT + lane * 4,
                           at.scale + (size_t)(block * p.scale_block_stride) * sizeof(float));
    }

    LF_GPU_MEMBER static int x_at(int s, int t)
    {
        return s / 2 * HALF_K + t * 16 + s % 2 * 8;
    }

    LF_GPU_MEMBER static float after()
    {
        return 1.0f;
    }

    template <int NT>
    LF_GPU_MEMBER static void multiply(float (&acc)[NT][4], uint32_t from, const quant_params &, const gemv_x<NT> &x)
    {
        int lane = quant_lane();
        uint32_t scales = from + SCALES_AT + lane / 4 * 4;
        float part[NT][4];
        quant_mma_zero<NT>(part);
#pragma unroll
        for (int half = 0; half < HALVES; half++) {
            uint32_t at = from + half * RUN_BYTES + lane * 16;
            quant_words u = quant_load(at), v = quant_load(at + HALVES * RUN_BYTES);
#pragma unroll
            for (int i = 0; i < 2; i++)
                quant_mma<T, NT>(part, e4m3_elements<T>(u.of[2 * i], u.of[2 * i + 1]),
                                 e4m3_elements<T>(v.of[2 * i], v.of[2 * i + 1]), x.of[2 * half + i]);
        }
        quant_add<NT>(acc, part, __uint_as_float(ld_shared_u32(scales)),
                      __uint_as_float(ld_shared_u32(scales + GEMV_RUN * 4)));
    }
};

/* ---- the main loop ---- */

/* UNITS: of a warp in the ring, an even number, so that a pair's tiles keep their places in it. */
template <class CODE> struct quant_ring {
    static constexpr int PAIR_BYTES = QUANT_PAIR * CODE::SLOT_BYTES;
    static constexpr int UNITS = QUANT_RING_BYTES / GEMV_WARPS / PAIR_BYTES * QUANT_PAIR;
    static constexpr int WARP_BYTES = UNITS * CODE::SLOT_BYTES;
    static constexpr size_t BYTES = (size_t)GEMV_WARPS * WARP_BYTES;
};

/* A warp's position in its units: tiles from `tile` up to the block's last, and the group of the warp's. */
template <class CODE> struct quant_cursor {
    int tile, group;
    typename CODE::place at[QUANT_PAIR];
};

LF_GPU_FN int quant_block(int group)
{
    return group * GEMV_WARPS + threadIdx.x / WARP;
}

template <class CODE, class Epilogue>
LF_GPU_FN void quant_begin(quant_cursor<CODE> &at, const quant_params &p, const typename Epilogue::args &f, int tile)
{
    at.tile = tile;
    at.group = 0;
#pragma unroll
    for (int i = 0; i < QUANT_PAIR; i++) {
        int row = Epilogue::first_weight_row(f, tile + i);
        at.at[i] = CODE::find(p, row, row + Epilogue::run_stride(f));
    }
}

template <class CODE, class Epilogue>
LF_GPU_FN void quant_advance(quant_cursor<CODE> &at, const quant_params &p, const typename Epilogue::args &f)
{
    if (++at.group == p.g.groups_per_warp) quant_begin<CODE, Epilogue>(at, p, f, at.tile + QUANT_PAIR);
}

/* The unit of the pair's tile i; where there is none, nothing. */
template <class CODE>
LF_GPU_FN void quant_prefetch(uint32_t to, const quant_params &p, const quant_cursor<CODE> &at, int i, int end)
{
    int block = quant_block(at.group);
    if (at.tile + i < end && block < p.n_blocks) CODE::bring(to, p, at.at[i], block);
    cp_async_commit_group();
}

/* What the lane has of its tokens' x, one group of the warp's after the other. A lane without a token keeps zeros. */
template <class CODE, int NT> struct quant_tokens {
    enum { STRIDE = GEMV_WARPS * GEMV_GROUP_K * 2 }; /* bytes from a group to the next */
    const char *at[NT];                              /* in the group that comes next */

    LF_GPU_MEMBER static bool has(const quant_params &p, int n)
    {
        return n * GEMV_TOKENS + quant_lane() / 4 < p.g.n_tokens;
    }

    LF_GPU_MEMBER void begin(const quant_params &p)
    {
        int k = quant_block(0) * GEMV_GROUP_K + CODE::x_at(0, threadIdx.x % 4);
#pragma unroll
        for (int n = 0; n < NT; n++) {
            int token = has(p, n) ? n * GEMV_TOKENS + quant_lane() / 4 : 0;
            at[n] = p.g.x + ((size_t)token * p.g.x_stride + k) * 2;
        }
    }

    /* Zeros behind n_in. Whole blocks, nearly all there are, need no bounds. */
    LF_GPU_MEMBER void load(gemv_x<NT> &x, const quant_params &p, int group)
    {
        int first = quant_block(group) * GEMV_GROUP_K;
        bool is_whole = first + GEMV_GROUP_K <= p.g.n_in, is_last = group + 1 == p.g.groups_per_warp;
#pragma unroll
        for (int n = 0; n < NT; n++) {
            if (has(p, n) && is_whole) {
#pragma unroll
                for (int s = 0; s < GEMV_GROUP_STEPS; s++) x.of[s][n] = *(const uint4 *)(at[n] + CODE::x_at(s, 0) * 2);
            } else if (has(p, n)) {
                load_part(x, p, n, first);
            }
            at[n] += is_last ? -STRIDE * group : +STRIDE;
        }
    }

  private:
    LF_GPU_MEMBER void load_part(gemv_x<NT> &x, const quant_params &p, int n, int first) const
    {
#pragma unroll
        for (int s = 0; s < GEMV_GROUP_STEPS; s++) {
            bool is_there = first + CODE::x_at(s, threadIdx.x % 4) < p.g.n_in;
            x.of[s][n] = is_there ? *(const uint4 *)(at[n] + CODE::x_at(s, 0) * 2) : make_uint4(0, 0, 0, 0);
        }
    }
};

template <class T, class CODE, int NT, class Epilogue>
__global__ void __launch_bounds__(GEMV_THREADS, 2)
    gemv_quant(const __grid_constant__ quant_params p, const __grid_constant__ typename Epilogue::args f)
{
    using ring_of = quant_ring<CODE>;
    constexpr int SLOT_BYTES = CODE::SLOT_BYTES;
    extern __shared__ uint4 ring[];
    __shared__ gemv_sums<NT> sums[QUANT_PAIR];
    const uint32_t begin = kept(shared_address(ring) + threadIdx.x / WARP * ring_of::WARP_BYTES);
    const uint32_t behind = begin + ring_of::WARP_BYTES;
    int first = (int)((int64_t)p.g.n_tiles * blockIdx.x / gridDim.x);
    int end = (int)((int64_t)p.g.n_tiles * (blockIdx.x + 1) / gridDim.x);
    float acc[QUANT_PAIR][NT][4] = {};
    quant_cursor<CODE> next;
    quant_begin<CODE, Epilogue>(next, p, f, first);
    start_successor();
#pragma unroll 1
    for (uint32_t slot = begin; slot < behind; slot += ring_of::PAIR_BYTES) {
        quant_prefetch<CODE>(slot, p, next, 0, end);
        quant_prefetch<CODE>(slot + SLOT_BYTES, p, next, 1, end);
        quant_advance<CODE, Epilogue>(next, p, f);
    }
    Epilogue epilogue(p.g, f), epilogues[QUANT_PAIR] = {epilogue, epilogue};
    wait_predecessor();
    uint32_t slot = begin;
    gemv_x<NT> x = {};
    quant_tokens<CODE, NT> tokens;
    tokens.begin(p);
    tokens.load(x, p, 0);
    for (int tile = first; tile < end; tile += QUANT_PAIR) {
#pragma unroll
        for (int i = 0; i < QUANT_PAIR; i++)
            if (tile + i < end) epilogues[i].prefetch(p.g, tile + i);
        for (int group = 0; group < p.g.groups_per_warp; group++) {
            bool is_there = quant_block(group) < p.n_blocks;
#pragma unroll
            for (int i = 0; i < QUANT_PAIR; i++) {
                cp_async_wait_group<ring_of::UNITS - 1>();
                __syncwarp();
                if (is_there && tile + i < end) CODE::template multiply<NT>(acc[i], slot + i * SLOT_BYTES, p, x);
                if (i == 1) tokens.load(x, p, group + 1 < p.g.groups_per_warp ? group + 1 : 0);
                __syncwarp();
                quant_prefetch<CODE>(slot + i * SLOT_BYTES, p, next, i, end);
            }
            quant_advance<CODE, Epilogue>(next, p, f);
            slot = slot + ring_of::PAIR_BYTES < behind ? slot + ring_of::PAIR_BYTES : begin;
        }
#pragma unroll
        for (int i = 0; i < QUANT_PAIR; i++) {
            if (CODE::after() != 1.0f) quant_scale<NT>(acc[i], CODE::after());
            gemv_store_sums<NT>(sums[i], acc[i]);
        }
        if (tile == first) gemv_find_scales<NT, QUANT_PAIR>(sums, p.g);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < QUANT_PAIR; i++)
            if (tile + i < end) epilogues[i].write(p.g, sums[i], tile + i);
        __syncthreads();
    }
}

/* ---- host ---- */

template <class T, class CODE, class Epilogue> static int quant_load()
{
    size_t bytes = quant_ring<CODE>::BYTES;
    int rc = load_kernel(gemv_quant<T, CODE, 1, Epilogue>, bytes);
    return rc == 0 ? load_kernel(gemv_quant<T, CODE, 2, Epilogue>, bytes) : rc;
}

template <class T, template <class> class Epilogue> static int quant_setup_type()
{
    int rc = quant_load<T, i4_code<T, 1>, Epilogue<T>>();
    if (rc == 0) rc = quant_load<T, i4_code<T, 2>, Epilogue<T>>();
    if (rc == 0) rc = quant_load<T, i4_code<T, 4>, Epilogue<T>>();
    return rc == 0 ? quant_load<T, e4m3_code<T>, Epilogue<T>>() : rc;
}

/* As gemv_setup. */
template <template <class> class Epilogue> static int quant_setup(bool *fits)
{
    int rc = quant_setup_type<bf16, Epilogue>();
    if (rc == 0) rc = quant_setup_type<fp16, Epilogue>();
    if (rc == 0) rc = quant_load<bf16, e2m1_code, Epilogue<bf16>>();
    *fits = rc == 0;
    if (rc != cudaErrorInvalidValue) return rc;
    (void)cudaGetLastError(); /* the ring is larger than what a block may have */
    return 0;
}

static inline quant_params quant_args(const struct lf_gemm_params *p, int n_tiles)
{
    const struct lf_format *format = &p->w->format;
    struct lf_coded_order order = lf_coded_order_of(format, p->w->n_out, p->w->n_in);
    quant_params args = {};
    args.g = gemv_args(p, n_tiles);
    args.scales = args.g.w + order.scales_at;
    args.zeros = format->zeros ? args.g.w + order.zeros_at : nullptr;
    args.has_zeros = format->zeros;
    args.n_blocks = (p->w->n_in + LF_CODED_BLOCK_K - 1) / LF_CODED_BLOCK_K;
    args.scale_rows = order.scale_rows;
    args.scale_row_stride = order.n_groups;
    args.scale_block_stride = order.n_groups > 1;
    return args;
}

template <class T, class CODE, class Epilogue>
static int quant_queue(const quant_params &p, const typename Epilogue::args &f, unsigned n_blocks, lf_cuda_launch how)
{
    size_t shared_bytes = quant_ring<CODE>::BYTES;
    auto kernel = p.g.n_tokens <= GEMV_TOKENS ? gemv_quant<T, CODE, 1, Epilogue> : gemv_quant<T, CODE, 2, Epilogue>;
    return queue_kernel(kernel, {n_blocks, GEMV_THREADS, shared_bytes}, how, p, f);
}

template <class T, class Epilogue>
static int quant_queue_code(const quant_params &p, const struct lf_format *format, int groups,
                            const typename Epilogue::args &f, unsigned n_blocks, lf_cuda_launch how)
{
    if (format->code == LF_CODE_E4M3) return quant_queue<T, e4m3_code<T>, Epilogue>(p, f, n_blocks, how);
    if (groups == 1) return quant_queue<T, i4_code<T, 1>, Epilogue>(p, f, n_blocks, how);
    if (groups == 2) return quant_queue<T, i4_code<T, 2>, Epilogue>(p, f, n_blocks, how);
    return quant_queue<T, i4_code<T, 4>, Epilogue>(p, f, n_blocks, how);
}

/* As gemv_launch. */
template <template <class> class Epilogue>
static int quant_launch(const struct lf_gemm_params *p, int n_tiles, const typename Epilogue<bf16>::args &f,
                        int n_blocks, lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    quant_params args = quant_args(p, n_tiles);
    const struct lf_format *format = &p->w->format;
    int groups = lf_coded_order_of(format, p->w->n_out, p->w->n_in).groups;
    unsigned grid = (unsigned)min(n_tiles, QUANT_BLOCKS * n_blocks);
    if (format->code == LF_CODE_E2M1) return quant_queue<bf16, e2m1_code, Epilogue<bf16>>(args, f, grid, how);
    return how.fp16 ? quant_queue_code<fp16, Epilogue<fp16>>(args, format, groups, f, grid, how)
                    : quant_queue_code<bf16, Epilogue<bf16>>(args, format, groups, f, grid, how);
}

#endif
