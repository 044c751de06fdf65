/* The delta rule token by token: decoding, short pieces of a prompt, and every shape that has no chunks.
 *
 * Bound by memory: at decode S is read once and written once, 128 KB a head of 128 × 128; what else a token brings is a
 * hundredth of it. Work split: columns of S are independent, so a warp has 16 of them and all rows, in registers: lane
 * l has four columns of one eighth of the rows, 64 bytes of a row side by side, all loads in flight before the first
 * use. A token is one pass: Sᵀk and Sᵀq are summed together, for
 *
 *     out = (e^g S + k̂ uᵀ)ᵀ q̂ = e^g · Sᵀ q̂ + u · (k̂·q̂)
 *
 * and their sums over the eight lanes are the only exchange. k's and q's norms are computed by every warp again: that
 * needs no barrier, and their rows are in the cache. The order of sums belongs to the shape. S is read before the
 * predecessor has ended: nothing before it in a step writes this layer's states (launch.cuh). CPU twin: device/cpu. */
#include <limits.h>

#include "device/cuda/delta.cuh"
#include "device/cuda/delta_cuda.h"
#include "device/cuda/elem.cuh"
#include "device/cuda/warp.cuh"

enum { WARPS = 4, THREADS = WARPS * WARP, WARP_COLUMNS = 16, ROW_LANES = 8, FAST_ROWS = 16, MOST_ROWS = 32 };

struct step_args {
    lf_delta_params p;
    lf_state_step step;
    int most_tokens;
};

/* n_rows elements from src on, two a word, zeros behind them; 2 · N of them where it is known, 16-byte aligned. */
template <class T, int N, bool IS_FAST> LF_GPU_FN void load_rows(uint32_t (&out)[N], const T *src, int n_rows)
{
    if constexpr (IS_FAST) {
#pragma unroll
        for (int i = 0; i < N / 4; i++) {
            uint4 words = ((const uint4 *)src)[i];
            out[4 * i] = words.x, out[4 * i + 1] = words.y, out[4 * i + 2] = words.z, out[4 * i + 3] = words.w;
        }
    } else {
        const uint16_t *halves = (const uint16_t *)src;
#pragma unroll
        for (int i = 0; i < N; i++) {
            out[i] = 2 * i < n_rows ? halves[2 * i] : 0;
            if (2 * i + 1 < n_rows) out[i] |= (uint32_t)halves[2 * i + 1] << 16;
        }
    }
}

/* Element i of words. */
template <class T> LF_GPU_FN float half_of(const uint32_t *words, int i)
{
    float2 x = unpack<T>(words[i / 2]);
    return i % 2 == 0 ? x.x : x.y;
}

/* One over the eight lanes of a column. */
LF_GPU_FN float rows_sum(float x)
{
#pragma unroll
    for (int step = WARP / 2; step >= WARP / ROW_LANES; step /= 2) x += __shfl_xor_sync(ALL_LANES, x, step);
    return x;
}

template <class T, int N, bool IS_FAST> struct columns {
    float4 s[N];             /* whole, so that they are loaded and stored whole */
    int n_rows, row, column; /* the lane's: rows row … and four columns */
    bool is_in;              /* there are such columns */

    LF_GPU_MEMBER void load(const float *from, int v_dim)
    {
#pragma unroll
        for (int i = 0; i < N; i++) {
            bool is_here = from && is_in && (IS_FAST || i < n_rows);
            s[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (is_here) s[i] = __ldcs((const float4 *)(from + (size_t)(row + i) * v_dim + column));
        }
    }

    LF_GPU_MEMBER void store(float *to, int v_dim) const
    {
        if (!is_in) return;
#pragma unroll
        for (int i = 0; i < N; i++)
            if (IS_FAST || i < n_rows) __stcs((float4 *)(to + (size_t)(row + i) * v_dim + column), s[i]);
    }

    LF_GPU_MEMBER void token(const lf_delta_params &p, int64_t token, int head)
    {
        const lf_delta_shape &d = p.shape;
        int k_head = head / (d.n_v_heads / d.n_k_heads);
        const T *in = (const T *)p.qkv + token * channels_of(d), *v_in = in + 2 * d.n_k_heads * d.k_dim;
        uint32_t q[N / 2], k[N / 2]; /* as they come: registers are how many warps there are */
        float qq = 0.0f, kk = 0.0f, qk = 0.0f, sq[4] = {}, sk[4] = {}, out[4];
        float2 v[2] = {};
        load_rows<T, N / 2, IS_FAST>(q, in + k_head * d.k_dim + row, n_rows);
        load_rows<T, N / 2, IS_FAST>(k, in + (d.n_k_heads + k_head) * d.k_dim + row, n_rows);
        if (is_in) {
            uint2 words = *(const uint2 *)(v_in + head * d.v_dim + column);
            v[0] = unpack<T>(words.x), v[1] = unpack<T>(words.y);
        }
        gates gate = gates_of(p, token, head);
#pragma unroll
        for (int i = 0; i < N; i++) {
            float q_i = half_of<T>(q, i), k_i = half_of<T>(k, i);
            qq += q_i * q_i, kk += k_i * k_i, qk += q_i * k_i;
            sk[0] += s[i].x * k_i, sk[1] += s[i].y * k_i, sk[2] += s[i].z * k_i, sk[3] += s[i].w * k_i;
            sq[0] += s[i].x * q_i, sq[1] += s[i].y * q_i, sq[2] += s[i].z * q_i, sq[3] += s[i].w * q_i;
        }
        float k_scale = 1.0f / sqrtf(rows_sum(kk) + NORM_EPS), decay = expf(gate.g);
        float q_scale = 1.0f / sqrtf((rows_sum(qq) + NORM_EPS) * (float)d.k_dim);
        qk = rows_sum(qk) * k_scale * q_scale;
        float u[4] = {v[0].x, v[0].y, v[1].x, v[1].y};
#pragma unroll
        for (int c = 0; c < 4; c++) {
            u[c] = gate.beta * (u[c] - decay * k_scale * rows_sum(sk[c]));
            out[c] = decay * q_scale * rows_sum(sq[c]) + u[c] * qk;
            u[c] *= k_scale;
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            float k_i = half_of<T>(k, i);
            s[i] = make_float4(decay * s[i].x + k_i * u[0], decay * s[i].y + k_i * u[1], decay * s[i].z + k_i * u[2],
                               decay * s[i].w + k_i * u[3]);
        }
        if (is_in && row == 0) {
            T *to = (T *)p.out + (token * d.n_v_heads + head) * d.v_dim + column;
            *(uint2 *)to = make_uint2(pack<T>(out[0], out[1]), pack<T>(out[2], out[3]));
        }
    }
};

template <class T, int N, bool IS_FAST>
__global__ void __launch_bounds__(THREADS, 1) step_tokens(const __grid_constant__ step_args args)
{
    const lf_delta_params &p = args.p;
    const lf_state_seq seq = args.step.seqs[blockIdx.z];
    int head = blockIdx.y, lane = threadIdx.x % WARP, v_dim = p.shape.v_dim;
    bool is_mine = seq.n_tokens > 0 && seq.n_tokens <= args.most_tokens;
    columns<T, N, IS_FAST> mine;
    mine.n_rows = p.shape.k_dim / ROW_LANES;
    mine.row = lane / 4 * mine.n_rows;
    mine.column = (blockIdx.x * WARPS + threadIdx.x / WARP) * WARP_COLUMNS + lane % 4 * 4;
    mine.is_in = mine.column < v_dim;
    start_successor();
    if (is_mine) mine.load(seq.in < 0 ? nullptr : state_of_head(p.state, p.shape, seq.in, head), v_dim);
    wait_predecessor();
    if (!is_mine) return;
    const lf_state_mark *mark = args.step.marks + seq.first_mark, *no_mark = mark + seq.n_marks;
    for (int i = 0; i < seq.n_tokens; i++) {
        mine.token(p, (int64_t)seq.first_token + i, head);
        if (mark == no_mark || mark->n_tokens != i + 1) continue;
        mine.store(state_of_head(p.state, p.shape, mark++->slot, head), v_dim);
    }
    mine.store(state_of_head(p.state, p.shape, seq.out, head), v_dim);
}

/* ---- host ---- */

typedef void step_kernel(const step_args);

template <class T> static step_kernel *find_kernel(bool is_fast)
{
    return is_fast ? step_tokens<T, FAST_ROWS, true> : step_tokens<T, MOST_ROWS, false>;
}

int lf_cuda_delta_step_setup(void)
{
    return load_kernels(find_kernel<bf16>(false), find_kernel<bf16>(true), find_kernel<fp16>(false),
                        find_kernel<fp16>(true));
}

int lf_cuda_delta_step(const struct lf_delta_params *p, int most_tokens, struct lf_cuda_launch how)
{
    if (p->n_tokens == 0 || p->step->n_seqs == 0) return 0;
    bool is_fast = p->shape.k_dim == FAST_ROWS * ROW_LANES && (uintptr_t)p->qkv % 16 == 0;
    dim3 grid(blocks_for(p->shape.v_dim, WARPS * WARP_COLUMNS), (unsigned)p->shape.n_v_heads,
              (unsigned)p->step->n_seqs);
    step_args args = {*p, *p->step, most_tokens};
    return queue_kernel(how.fp16 ? find_kernel<fp16>(is_fast) : find_kernel<bf16>(is_fast), {grid, THREADS}, how, args);
}
