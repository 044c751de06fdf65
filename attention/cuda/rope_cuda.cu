/* RoPE, QK norm and KV append in one pass over a step's QKV.
 *
 * Work partition: a warp for each head of a token: query heads are rotated into q_out, key heads into their K page,
 * value heads are copied into their V page. A lane holds the words (two neighbouring channels) lane and lane + 32 of
 * the first half of the rotated channels, the same of the second, and up to four of those that are not rotated, in
 * registers between the norm's sum and the rotation. All lanes find the token's sequence together, 32 at a time. No
 * shared memory. Bound by memory for many rows (each element is read and written once), for a decode step by the
 * latency of count, sequence and block table. Needs head_dim and rotary_dim divisible by 4. CPU reference:
 * rope_rows.h. */
#include "attention/cuda/rope_slot.cuh"
#include "core/limits.h"
#include "device/cuda/elem.cuh"
#include "device/cuda/launch.cuh"
#include "device/cuda/warp.cuh"

enum {
    WARPS = 4,
    THREADS = WARPS * WARP,
    HALF_WORDS = LF_ATTN_CUDA_HEAD_DIM / 2 / 2 / WARP, /* a lane's share of half a head */
    REST_WORDS = LF_ATTN_CUDA_HEAD_DIM / 2 / WARP
};
static_assert(HALF_WORDS == 2 && REST_WORDS == 4, "the head comment says so");

/* first_token rises, so the sequences that begin at or before the row are a prefix, and the last of them is the
 * row's. */
LF_GPU_FN rope_slot find_slot(const lf_rope_cuda_args &p, int row)
{
    int lane = threadIdx.x % WARP, n_seqs = p.counts->n_seqs, n_before = 0;
    for (int base = 0; base < n_seqs; base += WARP) {
        bool before = base + lane < n_seqs && p.seqs[base + lane].first_token <= row;
        unsigned votes = __ballot_sync(ALL_LANES, before);
        n_before += __popc(votes);
        if (votes != ALL_LANES) break;
    }
    return rope_slot_in(p, row, n_before - 1);
}

/* A lane's words of a head. */
struct head_words {
    float2 low[HALF_WORDS], high[HALF_WORDS], rest[REST_WORDS];
};

template <class T> LF_GPU_FN void load_head(head_words &h, const uint32_t *x, int half, int rest)
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < HALF_WORDS; i++) {
        int w = lane + i * WARP;
        h.low[i] = w < half ? unpack<T>(x[w]) : make_float2(0.0f, 0.0f);
        h.high[i] = w < half ? unpack<T>(x[half + w]) : make_float2(0.0f, 0.0f);
    }
#pragma unroll
    for (int i = 0; i < REST_WORDS; i++) {
        int w = lane + i * WARP;
        h.rest[i] = w < rest ? unpack<T>(x[2 * half + w]) : make_float2(0.0f, 0.0f);
    }
}

template <class T> LF_GPU_FN void store_head(uint32_t *y, const head_words &h, int half, int rest)
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < HALF_WORDS; i++) {
        int w = lane + i * WARP;
        if (w >= half) continue;
        y[w] = pack<T>(h.low[i].x, h.low[i].y);
        y[half + w] = pack<T>(h.high[i].x, h.high[i].y);
    }
#pragma unroll
    for (int i = 0; i < REST_WORDS; i++) {
        int w = lane + i * WARP;
        if (w < rest) y[2 * half + w] = pack<T>(h.rest[i].x, h.rest[i].y);
    }
}

LF_GPU_FN float sum_of_squares(float2 x)
{
    return x.x * x.x + x.y * x.y;
}

LF_GPU_FN float2 scaled(float2 x, float factor, const float2 *weight)
{
    float2 w = __ldg(weight);
    return make_float2(x.x * factor * w.x, x.y * factor * w.y);
}

/* x · weight / √(mean x² + eps) over the whole head. */
LF_GPU_FN void norm_head(head_words &h, const float *weight, float eps, int half, int rest)
{
    int lane = threadIdx.x % WARP;
    const float2 *w2 = (const float2 *)weight;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < HALF_WORDS; i++) sum += sum_of_squares(h.low[i]) + sum_of_squares(h.high[i]);
#pragma unroll
    for (int i = 0; i < REST_WORDS; i++) sum += sum_of_squares(h.rest[i]);
    float factor = 1.0f / sqrtf(warp_sum(sum) / (float)(2 * (2 * half + rest)) + eps);
#pragma unroll
    for (int i = 0; i < HALF_WORDS; i++) {
        int w = lane + i * WARP;
        if (w >= half) continue;
        h.low[i] = scaled(h.low[i], factor, w2 + w);
        h.high[i] = scaled(h.high[i], factor, w2 + half + w);
    }
#pragma unroll
    for (int i = 0; i < REST_WORDS; i++) {
        int w = lane + i * WARP;
        if (w < rest) h.rest[i] = scaled(h.rest[i], factor, w2 + 2 * half + w);
    }
}

/* cos_sin: the table's row of the position, a pair of channels side by side with the next. */
LF_GPU_FN void rotate_head(head_words &h, const float4 *cos_sin, int half)
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < HALF_WORDS; i++) {
        int w = lane + i * WARP;
        if (w >= half) continue;
        float4 t = __ldg(cos_sin + w); /* cos, sin; cos, sin */
        float2 a = h.low[i], b = h.high[i];
        rotate(a.x, b.x, make_float2(t.x, t.y));
        rotate(a.y, b.y, make_float2(t.z, t.w));
        h.low[i] = a;
        h.high[i] = b;
    }
}

template <class T> __global__ void __launch_bounds__(THREADS) rope_append(const __grid_constant__ lf_rope_cuda_args p)
{
    int n_heads = p.n_heads + 2 * p.n_kv_heads, blocks_per_row = (n_heads + WARPS - 1) / WARPS;
    int row = blockIdx.x / blocks_per_row, head = blockIdx.x % blocks_per_row * WARPS + threadIdx.x / WARP;
    int half = p.rotary_dim / 4, rest = (p.head_dim - p.rotary_dim) / 2, words = p.head_dim / 2;
    start_successor();
    wait_predecessor();
    if (head >= n_heads) return;
    head_words h;
    load_head<T>(h, (const uint32_t *)p.qkv + ((size_t)row * n_heads + head) * words, half, rest);
    rope_slot at = find_slot(p, row);
    if (!at.valid) return;

    int kv_head = head - p.n_heads;
    bool is_value = kv_head >= p.n_kv_heads;
    uint32_t *to = (uint32_t *)rope_target<T>(p, at, row, head);
    if (!is_value) {
        const float *norm = head < p.n_heads ? p.q_norm : p.k_norm;
        if (norm) norm_head(h, norm, p.norm_eps, half, rest);
        rotate_head(h, (const float4 *)(p.table + (size_t)at.pos * p.rotary_dim), half);
    }
    store_head<T>(to, h, half, rest);
}

bool lf_rope_append_cuda_supports(int head_dim, int rotary_dim)
{
    return head_dim > 0 && head_dim <= LF_ATTN_CUDA_HEAD_DIM && head_dim % 4 == 0 && rotary_dim > 0 &&
           rotary_dim <= head_dim && rotary_dim % 4 == 0;
}

int lf_rope_append_cuda_setup(void)
{
    return load_kernels(rope_append<bf16>, rope_append<fp16>);
}

int lf_rope_append_cuda(const struct lf_rope_cuda_args *args, void *stream)
{
    if (args->n_tokens == 0) return 0;
    unsigned blocks_per_row = blocks_for(args->n_heads + 2 * args->n_kv_heads, WARPS);
    return queue_kernel(args->fp16 ? rope_append<fp16> : rope_append<bf16>,
                        {blocks_per_row * (unsigned)args->n_tokens, THREADS}, launch_of(args, stream), *args);
}
