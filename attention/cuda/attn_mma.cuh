/* What the portable attention kernels share: tiles in shared memory, scores and the online softmax on the accumulators
 * of a warp (16 rows × 8 N keys, the fragments of ptx_mma.cuh), partial rows.
 *
 * Tiles in shared memory are rows of D elements. The 16-byte units of a row are permuted by an exclusive or of their
 * number with bits of the row's, so that eight rows' units of one number lie in eight different groups of banks. */
#ifndef LF_ATTENTION_CUDA_ATTN_MMA_CUH
#define LF_ATTENTION_CUDA_ATTN_MMA_CUH

#include "attention/cuda/attn_rows.cuh"
#include "device/cuda/ptx_copy.cuh"
#include "device/cuda/ptx_mma.cuh"

enum { UNIT_ELEMS = 8, UNIT_BYTES = 16 };

/* ---- tiles in shared memory ---- */

/* After how many units the permutation repeats: rows are a multiple of this many units. */
template <int D> struct tile_swizzle {
    static constexpr int UNITS = D / UNIT_ELEMS;
    static constexpr int PERIOD = UNITS % 8 == 0 ? 8 : UNITS % 4 == 0 ? 4 : 2;
};

/* Byte offset of a unit. */
template <int D> LF_GPU_FN uint32_t tile_offset(int row, int unit)
{
    constexpr int PERIOD = tile_swizzle<D>::PERIOD;
    return (uint32_t)((row * tile_swizzle<D>::UNITS + (unit ^ (row * PERIOD / 8 & (PERIOD - 1)))) * UNIT_BYTES);
}

/* Address of unit number + `unit`, given that of a number below PERIOD; `unit` is a multiple of 2, the number below 2.
 */
template <int D> LF_GPU_FN uint32_t tile_unit(uint32_t address, int unit)
{
    constexpr int PERIOD = tile_swizzle<D>::PERIOD;
    return (address ^ (uint32_t)((unit & (PERIOD - 1)) * UNIT_BYTES)) + (uint32_t)((unit & ~(PERIOD - 1)) * UNIT_BYTES);
}

/* The address that a lane gives ldmatrix for 16 rows × 2 units. Rows are columns of B (K): matrices are the two units
 * of rows 0 … 7, then of 8 … 15. */
template <int D> LF_GPU_FN uint32_t tile_lane_k(uint32_t tile, int lane = threadIdx.x % WARP)
{
    return tile + tile_offset<D>(lane / 16 * 8 + lane % 8, lane / 8 % 2);
}

/* Rows are A's (Q), or B's depth (V, transposed): matrices are the two row groups of the first unit, then of the
 * second. */
template <int D> LF_GPU_FN uint32_t tile_lane_qv(uint32_t tile, int lane = threadIdx.x % WARP)
{
    return tile + tile_offset<D>(lane % 16, lane / 16);
}

/* ---- scores ---- */

template <int N> LF_GPU_FN void cap_scores(float (&s)[N][4], const score_scale &c)
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) s[n][e] = capped(c.cap, s[n][e] * c.cap_arg);
}

/* Selects away what rows at positions pos[0], pos[1] do not see; key0 is the position of the tile's first key. */
template <int N> LF_GPU_FN void mask_scores(float (&s)[N][4], int key0, const int (&pos)[2], int window)
{
    int column = key0 + threadIdx.x % 4 * 2;
#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int key = column + 8 * n + e % 2, at = pos[e / 2];
            bool sees = key <= at && (window == 0 || key > at - window);
            s[n][e] = sees ? s[n][e] : -INFINITY;
        }
    }
}

/* Of the two rows that a thread has of a warp's 16: the exponents' offset, and this thread's share of the sum. */
struct row_state {
    float m[2], l[2];
};

LF_GPU_FN void row_state_init(row_state &r)
{
    r.m[0] = r.m[1] = -INFINITY;
    r.l[0] = r.l[1] = 0.0f;
}

/* One step of the online softmax: scores become P = 2^(s · factor - m). Where a row's maximum has outgrown its offset,
 * m becomes the maximum, l is rescaled, and rescale (else 1) is what the row's o must be multiplied by; true if any row
 * of the warp has one. A row without a visible key keeps m = -inf and gets P = 0. A row's arithmetic depends on no
 * other row. */
template <int N> LF_GPU_FN bool softmax_step(float (&s)[N][4], row_state &r, float factor, float (&rescale)[2])
{
    bool moves = false;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float top = fmaxf(s[0][2 * h], s[0][2 * h + 1]);
#pragma unroll
        for (int n = 1; n < N; n++) top = fmaxf(top, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
        top = quad_max(top) * factor;
        bool outgrown = top > r.m[h] + LF_ATTN_LAZY;
        rescale[h] = outgrown ? ex2_approx_ftz(r.m[h] - top) : 1.0f;
        r.m[h] = outgrown ? top : r.m[h];
        r.l[h] *= rescale[h];
        moves = moves || outgrown;
        float offset = r.m[h] == -INFINITY ? 0.0f : r.m[h];
#pragma unroll
        for (int n = 0; n < N; n++) {
#pragma unroll
            for (int e = 2 * h; e < 2 * h + 2; e++) {
                s[n][e] = ex2_approx_ftz(__fmaf_rn(s[n][e], factor, -offset));
                r.l[h] += s[n][e];
            }
        }
    }
    return __any_sync(ALL_LANES, moves);
}

/* P of 16 keys, two accumulator tiles, as operand A. */
template <class T> LF_GPU_FN void p_operand(uint32_t (&a)[4], const float (&s0)[4], const float (&s1)[4])
{
    a[0] = pack<T>(s0[0], s0[1]);
    a[1] = pack<T>(s0[2], s0[3]);
    a[2] = pack<T>(s1[0], s1[1]);
    a[3] = pack<T>(s1[2], s1[3]);
}

template <int N> LF_GPU_FN void rescale_rows(float (&o)[N][4], const float (&rescale)[2])
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) o[n][e] *= rescale[e / 2];
}

template <int N> LF_GPU_FN void clear_tiles(float (&o)[N][4])
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) o[n][e] = 0.0f;
}

/* ---- partial rows ---- */

/* Partial rows of a warp in memory, whole sums in l; combine_partial() combines `left` (the earlier keys) with o and
 * r. */
template <int N> struct partial_tiles {
    float4 o[N][WARP];
    float2 ml[2][WARP];
};

template <int N> LF_GPU_FN void save_partial(partial_tiles<N> &to, const float (&o)[N][4], const row_state &r)
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int n = 0; n < N; n++) to.o[n][lane] = make_float4(o[n][0], o[n][1], o[n][2], o[n][3]);
#pragma unroll
    for (int h = 0; h < 2; h++) to.ml[h][lane] = make_float2(r.m[h], r.l[h]);
}

template <int N> LF_GPU_FN void combine_partial(const partial_tiles<N> &left, float (&o)[N][4], row_state &r)
{
    int lane = threadIdx.x % WARP;
    combine_factors j[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float2 ml = left.ml[h][lane];
        j[h] = attn_combine(ml.x, ml.y, r.m[h], r.l[h]);
        r.m[h] = j[h].m;
        r.l[h] = j[h].l;
    }
#pragma unroll
    for (int n = 0; n < N; n++) {
        float4 a = left.o[n][lane];
        o[n][0] = attn_combine_o(j[0], a.x, o[n][0]);
        o[n][1] = attn_combine_o(j[0], a.y, o[n][1]);
        o[n][2] = attn_combine_o(j[1], a.z, o[n][2]);
        o[n][3] = attn_combine_o(j[1], a.w, o[n][3]);
    }
}

/* Two neighbouring channels of N tiles that this thread has of accumulator half h, and which they are. In order a tile
 * is 8 channels; else each two tiles are the even and the odd ones of 16 (attn_codes.cuh). */
template <bool IN_CODES> LF_GPU_FN int channel_of(int n)
{
    int i = threadIdx.x % 4;
    return IN_CODES ? n / 2 * 16 + 4 * i + 2 * (n % 2) : 8 * n + 2 * i;
}

template <bool IN_CODES, int N> LF_GPU_FN float2 channels_of(const float (&o)[N][4], int n, int h)
{
    if (IN_CODES) return make_float2(o[n / 2 * 2][2 * h + n % 2], o[n / 2 * 2 + 1][2 * h + n % 2]);
    return make_float2(o[n][2 * h], o[n][2 * h + 1]);
}

/* Writes row i (0 … n_rows - 1 of the task) of accumulator half h: a partial row, or output and lse. */
template <class T, bool STRIPED, bool IN_CODES = false, int N>
LF_GPU_FN void write_row(const lf_attn_cuda_args &p, const rows_of_task &t, int slot, int i, int h,
                         const float (&o)[N][4], const row_state &r)
{
    bool is_first = threadIdx.x % 4 == 0;
    if (slot >= 0) {
        int64_t row = slot + i;
        if (is_first) ((float2 *)p.partial_ml)[row] = make_float2(r.m[h], r.l[h]);
        float *to = p.partial_o + row * p.head_dim;
#pragma unroll
        for (int n = 0; n < N; n++) {
            int c = channel_of<IN_CODES>(n);
            if (c < p.head_dim) *(float2 *)(to + c) = channels_of<IN_CODES>(o, n, h);
        }
        return;
    }
    int head;
    int64_t row = head_row_of(p, t, i, &head);
    finish_factors last = attn_finish(r.m[h], r.l[h], p.sinks ? p.sinks + head : NULL);
    row_place<T> place = place_of_row<T, STRIPED>(p, row);
    if (place.lse && is_first) *place.lse = last.lse;
    uint32_t *to = (uint32_t *)place.out;
#pragma unroll
    for (int n = 0; n < N; n++) {
        int c = channel_of<IN_CODES>(n);
        float2 x = channels_of<IN_CODES>(o, n, h);
        if (c < p.head_dim) to[c / 2] = pack<T>(x.x * last.factor, x.y * last.factor);
    }
}

#endif
