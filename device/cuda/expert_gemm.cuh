/* What the grouped GEMMs of Hopper share: of plain weights (expert_gemm_sm90.cu) and of coded ones
 * (expert_gemm_coded_sm90.cu). Tiles of up to 128 rows of one expert, two warpgroups of consumers with 64 rows each, 64
 * of the depth a step, rows gathered by token; the arithmetic on sums, which is the same in both, so that rows of coded
 * weights have the bits that they have with the same weights expanded.
 *
 * A SHAPE has COLUMNS of a tile and AFTER, which sums are multiplied by at last. Operands of a step lie in the swizzle
 * of 128 bytes. */
#ifndef LF_DEVICE_CUDA_EXPERT_GEMM_CUH
#define LF_DEVICE_CUDA_EXPERT_GEMM_CUH

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
    HALF_ROWS = 64,  /* of a consumer */
    TILE_ROWS = N_CONSUMERS * HALF_ROWS,
    STEP = 64, /* of the depth */
    ROW_BYTES = STEP * 2,
    HALF_BYTES = HALF_ROWS * ROW_BYTES,
    X_BYTES = TILE_ROWS * ROW_BYTES,
    UNITS = ROW_BYTES / 16, /* of 16 bytes, a thread each */
};

/* Where a role is in a ring. */
template <int N_SLOTS> struct ring_cursor {
    int slot, parity;

    LF_GPU_MEMBER void advance()
    {
        if (++slot < N_SLOTS) return;
        slot = 0;
        parity ^= 1;
    }
};

struct gemm_args {
    void *y;
    const float *bias;
    const char *x; /* by token */
    const int32_t *rows, *first;
    int n_in, n_out, n_experts, k;
    int columns, column_tiles, n_steps; /* columns: of a tile */
    int row0;                           /* the sorted row that x begins with */
    bool y_float;
};

/* The tiles of this CTA. */
template <int ROWS> LF_GPU_FN expert_walk<ROWS> walk_of(const expert_list<ROWS> &list, const gemm_args &args)
{
    return {list, args.column_tiles, (int)blockIdx.x, (int)gridDim.x};
}

LF_GPU_FN int halves_of(const expert_tile &tile)
{
    return (tile.n_rows + HALF_ROWS - 1) / HALF_ROWS;
}

/* Rows by token: a thread of THREADS copies 16 bytes of rows APART apart into their places of the swizzle. */
template <int THREADS, int ROWS = TILE_ROWS> struct gathered_rows {
    static constexpr int APART = THREADS / UNITS, MOST = ROWS / APART;
    static_assert(APART % 8 == 0, "the swizzle of a thread's rows is one and the same");

    uint32_t at[MOST]; /* where they begin in x */
    int n;

    LF_GPU_MEMBER void find(const gemm_args &args, const expert_tile &tile, int thread)
    {
        int first = thread / UNITS;
        n = max(0, (tile.n_rows - first + APART - 1) / APART);
#pragma unroll
        for (int i = 0; i < MOST; i++)
            if (i < n) at[i] = (uint32_t)(args.rows[tile.row + first + i * APART] / args.k) * args.n_in * 2;
    }

    /* A step of them, asked for: a group of copies. */
    LF_GPU_MEMBER void bring(const gemm_args &args, uint32_t x, int step, int thread) const
    {
        int unit = thread % UNITS, first = thread / UNITS, depth = step * STEP + unit * 8;
        uint32_t dst = x + first * ROW_BYTES + (unit ^ first % 8) * 16;
        bool is_there = depth < args.n_in;
#pragma unroll
        for (int i = 0; i < MOST; i++)
            if (i < n)
                cp_async_cg_16(dst + i * APART * ROW_BYTES, args.x + (is_there ? at[i] + depth * 2 : 0),
                               is_there ? 16 : 0);
        cp_async_commit_group();
    }
};

/* What a consumer warpgroup has of a tile. Row half h of a thread is row 64 · group + 16 · warp + lane / 4 + 8h of the
 * tile. */
template <class T, class SHAPE> struct tile_sums {
    static constexpr int COLUMNS = SHAPE::COLUMNS;

    const gemm_args &args;
    int group, warp, lane;
    float sums[COLUMNS / 2];

    LF_GPU_MEMBER bool has_rows(const expert_tile &tile) const
    {
        return uniform(tile.n_rows) > group * HALF_ROWS;
    }

    LF_GPU_MEMBER void hold_sums()
    {
#pragma unroll
        for (int i = 0; i < COLUMNS / 2; i++) hold(sums[i]);
    }

    LF_GPU_MEMBER void clear()
    {
#pragma unroll
        for (int i = 0; i < COLUMNS / 2; i++) sums[i] = 0.0f;
        hold_sums();
    }

    /* sums += x · wᵀ of a step, started. Descriptors of the operands; x of this group's rows. */
    LF_GPU_MEMBER void start_step(uint32_t x, uint32_t w)
    {
#pragma unroll
        for (int i = 0; i < STEP / 16; i++)
            wgmma_ss<T>(sums, wgmma_descriptor(x, i * 32), wgmma_descriptor(w, i * 32), true);
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
                    x[i] = sums[4 * (j + i) + 2 * h] * SHAPE::AFTER + b[i].x;
                    y[i] = sums[4 * (j + i) + 2 * h + 1] * SHAPE::AFTER + b[i].y;
                }
                bool is_there = r + 8 * h < tile.n_rows && col0 + 8 * (j + quad) < args.n_out;
                store(at + 8 * j + (size_t)(8 * h) * args.n_out, is_there, quad, x, y);
            }
        }
    }
};

/* ---- host ---- */

/* columns: of a tile. */
static inline gemm_args expert_gemm_args(const struct lf_expert_gemm_params *p, int columns)
{
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
    args.columns = columns;
    args.column_tiles = (p->w->n_out + columns - 1) / columns;
    args.n_steps = (p->w->n_in + STEP - 1) / STEP;
    args.y_float = p->y_float;
    return args;
}

/* Of rows that lie sorted. */
static inline int encode_expert_rows(tensor_map_encoder encode, CUtensorMap *map, const struct lf_expert_gemm_params *p,
                                     bool fp16)
{
    const cuuint64_t depth = (cuuint64_t)p->w->n_in, strides[1] = {depth * 2};
    const cuuint64_t dims[2] = {depth, (cuuint64_t)p->n_tokens * (p->x_by_token ? 1 : (cuuint64_t)p->k)};
    const cuuint32_t box[2] = {STEP, HALF_ROWS};
    return encode_tensor_map(encode, map, fp16, p->x, 2, dims, strides, box);
}

#endif
