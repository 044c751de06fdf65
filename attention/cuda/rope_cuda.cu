/* RoPE, QK norm and KV append in one pass over a step's QKV.
 *
 * Work partition: a warp for each head of a token: query heads are rotated into q_out, key heads into their K page,
 * value heads are copied into their V page. A lane holds the words (two neighbouring channels) lane and lane + 32 of
 * the first half of the rotated channels, the same of the second, and up to four of those that are not rotated (twice
 * as many of a head of more than 256 channels), in registers between the norm's sum and the rotation. All lanes find
 * the token's sequence together, 32 at a time. Where the norm is over all heads of a row, a thread block takes a row:
 * it adds up the squares, then its warps take a head each as before. No shared memory but for that sum. Bound by memory
 * for many rows (each element is read and written once), for a decode step by the latency of count, sequence and block
 * table. Needs head_dim and rotary_dim divisible by 4. CPU reference: rope_rows.h.
 *
 * Over a stripe of contexts (attn_stripe.h) queries of all rows are rotated, and keys and values written whose
 * positions the stripe has. Or each rank has some of the rows, and memory of the others: it rotates those, stores
 * queries on all ranks, and keys and values in the cache of the stripe that they belong to. What it stores has come
 * when ranks have met behind it.
 *
 * Of an FP8 cache heads of keys and values are rounded as for one of T, then quantized (kv_fp8.cuh), with a scale from
 * the magnitudes of the whole head, which its warp has in registers. CPU reference: kv_fp8.h. */
#include "attention/cuda/kv_fp8.cuh"
#include "attention/cuda/rope_slot.cuh"
#include "core/limits.h"
#include "device/cuda/elem.cuh"
#include "device/cuda/launch.cuh"
#include "device/cuda/warp.cuh"

enum {
    WARPS = 4,
    THREADS = WARPS * WARP,
    ROW_WARPS = 8, /* of a block that takes a row */
    ROW_THREADS = ROW_WARPS * WARP,
    NARROW = 2,
    WIDE = 4, /* a lane's words of half a head: up to 256 channels, up to 512 */
    NARROW_DIM = NARROW * 2 * 2 * WARP
};
static_assert(NARROW_DIM == 256 && WIDE * 2 * 2 * WARP == LF_ATTN_CUDA_HEAD_DIM, "the head comment says so");

/* first_token rises, so the sequences that begin at or before the row are a prefix, and the last of them is the
 * row's. */
template <bool STRIPED> LF_GPU_FN rope_slot find_slot(const lf_rope_cuda_args &p, int row)
{
    int lane = threadIdx.x % WARP, n_seqs = p.counts->n_seqs, n_before = 0;
    for (int base = 0; base < n_seqs; base += WARP) {
        bool before = base + lane < n_seqs && p.seqs[base + lane].first_token <= row;
        unsigned votes = __ballot_sync(ALL_LANES, before);
        n_before += __popc(votes);
        if (votes != ALL_LANES) break;
    }
    return rope_slot_in<STRIPED>(p, row, n_before - 1);
}

/* A lane's words of a head. */
template <int H> struct head_words {
    static constexpr int HALF_WORDS = H, REST_WORDS = 2 * H;
    float2 low[HALF_WORDS], high[HALF_WORDS], rest[REST_WORDS];
};

template <class T, int H> LF_GPU_FN void load_head(head_words<H> &h, const uint32_t *x, int half, int rest)
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < h.HALF_WORDS; i++) {
        int w = lane + i * WARP;
        h.low[i] = w < half ? unpack<T>(x[w]) : make_float2(0.0f, 0.0f);
        h.high[i] = w < half ? unpack<T>(x[half + w]) : make_float2(0.0f, 0.0f);
    }
#pragma unroll
    for (int i = 0; i < h.REST_WORDS; i++) {
        int w = lane + i * WARP;
        h.rest[i] = w < rest ? unpack<T>(x[2 * half + w]) : make_float2(0.0f, 0.0f);
    }
}

template <class T, int H> LF_GPU_FN void store_head(uint32_t *y, const head_words<H> &h, int half, int rest)
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < h.HALF_WORDS; i++) {
        int w = lane + i * WARP;
        if (w >= half) continue;
        y[w] = pack<T>(h.low[i].x, h.low[i].y);
        y[half + w] = pack<T>(h.high[i].x, h.high[i].y);
    }
#pragma unroll
    for (int i = 0; i < h.REST_WORDS; i++) {
        int w = lane + i * WARP;
        if (w < rest) y[2 * half + w] = pack<T>(h.rest[i].x, h.rest[i].y);
    }
}

LF_GPU_FN uint32_t largest_of(uint32_t most, float2 x)
{
    return max(most, max(magnitude(x.x), magnitude(x.y)));
}

/* Rounded to T, as store_head() would. */
template <class T> LF_GPU_FN float2 rounded(float2 x)
{
    return unpack<T>(pack<T>(x.x, x.y));
}

template <class T, int H> LF_GPU_FN void round_head(head_words<H> &h)
{
#pragma unroll
    for (int i = 0; i < h.HALF_WORDS; i++) {
        h.low[i] = rounded<T>(h.low[i]);
        h.high[i] = rounded<T>(h.high[i]);
    }
#pragma unroll
    for (int i = 0; i < h.REST_WORDS; i++) h.rest[i] = rounded<T>(h.rest[i]);
}

/* The bits of the head's largest magnitude. Words that the head does not have are zeros. */
template <int H> LF_GPU_FN uint32_t head_magnitude(const head_words<H> &h)
{
    uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < h.HALF_WORDS; i++) most = largest_of(largest_of(most, h.low[i]), h.high[i]);
#pragma unroll
    for (int i = 0; i < h.REST_WORDS; i++) most = largest_of(most, h.rest[i]);
    return lanes_reduce<WARP>(most, [](uint32_t a, uint32_t b) { return max(a, b); });
}

LF_GPU_FN uint16_t code_pair(float2 x, float factor, bool is_nan)
{
    return is_nan ? 0 : (uint16_t)(kv_code(x.x * factor) | kv_code(x.y * factor) << 8);
}

/* The head as token `slot` of a page of FP8; one with an element that is not finite is NaN. */
template <class T, int H>
LF_GPU_FN void store_codes(uint8_t *page, int slot, int head_dim, head_words<H> &h, int half, int rest)
{
    int lane = threadIdx.x % WARP;
    round_head<T>(h);
    uint32_t most = head_magnitude(h);
    bool is_nan = most >= FLOAT_INFINITY;
    int exponent = kv_exponent(most);
    float factor = power_of_two(-exponent);
    uint16_t *y = (uint16_t *)(page + (size_t)slot * head_dim);
#pragma unroll
    for (int i = 0; i < h.HALF_WORDS; i++) {
        int w = lane + i * WARP;
        if (w >= half) continue;
        y[w] = code_pair(h.low[i], factor, is_nan);
        y[half + w] = code_pair(h.high[i], factor, is_nan);
    }
#pragma unroll
    for (int i = 0; i < h.REST_WORDS; i++) {
        int w = lane + i * WARP;
        if (w < rest) y[2 * half + w] = code_pair(h.rest[i], factor, is_nan);
    }
    if (lane == 0) kv_scales(page, head_dim)[slot] = is_nan ? KV_SCALE_NAN : (uint8_t)(exponent + KV_EXPONENT_BIAS);
}

/* A head to where it belongs: in q_out, on all ranks where there are peers, or in its page. */
template <class T, int H, bool STRIPED>
LF_GPU_FN void write_head(const lf_rope_cuda_args &p, const rope_slot &at, int row, int head, head_words<H> &h,
                          int half, int rest)
{
    if (p.fp8_page_bytes != 0 && head >= p.n_heads)
        store_codes<T>(rope_codes_page(p, at, head), at.pos % LF_KV_BLOCK_TOKENS, p.head_dim, h, half, rest);
    else if (STRIPED && p.n_peers > 0 && head < p.n_heads)
        for (int r = 0; r < p.n_peers; r++) {
            T *q_out = (T *)p.peer_q[(p.stripe_idx + 1 + r) % p.n_peers]; /* not all to the same one first */
            store_head<T>((uint32_t *)(q_out + ((size_t)row * p.n_heads + head) * p.head_dim), h, half, rest);
        }
    else
        store_head<T>((uint32_t *)rope_target<T>(p, at, row, head), h, half, rest);
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

/* 1 / √(mean x² + eps) over n channels, given the sum of their squares. */
LF_GPU_FN float norm_factor(float sum, int n, float eps)
{
    return 1.0f / sqrtf(sum / (float)n + eps);
}

/* The same over the whole head. */
template <int H> LF_GPU_FN float head_factor(const head_words<H> &h, float eps, int half, int rest)
{
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < h.HALF_WORDS; i++) sum += sum_of_squares(h.low[i]) + sum_of_squares(h.high[i]);
#pragma unroll
    for (int i = 0; i < h.REST_WORDS; i++) sum += sum_of_squares(h.rest[i]);
    return norm_factor(warp_sum(sum), 2 * (2 * half + rest), eps);
}

/* x · factor · weight. */
template <int H> LF_GPU_FN void norm_head(head_words<H> &h, const float *weight, float factor, int half, int rest)
{
    int lane = threadIdx.x % WARP;
    const float2 *w2 = (const float2 *)weight;
#pragma unroll
    for (int i = 0; i < h.HALF_WORDS; i++) {
        int w = lane + i * WARP;
        if (w >= half) continue;
        h.low[i] = scaled(h.low[i], factor, w2 + w);
        h.high[i] = scaled(h.high[i], factor, w2 + half + w);
    }
#pragma unroll
    for (int i = 0; i < h.REST_WORDS; i++) {
        int w = lane + i * WARP;
        if (w < rest) h.rest[i] = scaled(h.rest[i], factor, w2 + 2 * half + w);
    }
}

/* cos_sin: the table's row of the position, a pair of channels side by side with the next. */
template <int H> LF_GPU_FN void rotate_head(head_words<H> &h, const float4 *cos_sin, int half)
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < h.HALF_WORDS; i++) {
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

template <int H> LF_GPU_FN void scale_head(head_words<H> &h, float by)
{
#pragma unroll
    for (int i = 0; i < h.HALF_WORDS; i++) {
        h.low[i] = make_float2(h.low[i].x * by, h.low[i].y * by);
        h.high[i] = make_float2(h.high[i].x * by, h.high[i].y * by);
    }
#pragma unroll
    for (int i = 0; i < h.REST_WORDS; i++) h.rest[i] = make_float2(h.rest[i].x * by, h.rest[i].y * by);
}

/* Heads of a row of qkv, and which of them a head that is written comes from. */
LF_GPU_FN int n_stored_heads(const lf_rope_cuda_args &p)
{
    return p.n_heads + (p.v_of_k ? 1 : 2) * p.n_kv_heads;
}

LF_GPU_FN int stored_head(const lf_rope_cuda_args &p, int head)
{
    return p.v_of_k && head >= p.n_heads + p.n_kv_heads ? head - p.n_kv_heads : head;
}

/* What a position does to a head of queries or keys. */
template <int H>
LF_GPU_FN void turn_head(head_words<H> &h, const lf_rope_cuda_args &p, const rope_slot &at, int head, int half)
{
    rotate_head(h, (const float4 *)(p.table + (size_t)at.pos * p.rotary_dim), half);
    if (p.q_scale && head < p.n_heads) scale_head(h, __ldg(p.q_scale + at.pos));
}

template <class T, int H, bool STRIPED>
__global__ void __launch_bounds__(THREADS) rope_append(const __grid_constant__ lf_rope_cuda_args p)
{
    int n_heads = p.n_heads + 2 * p.n_kv_heads, blocks_per_row = (n_heads + WARPS - 1) / WARPS;
    int row = blockIdx.x / blocks_per_row, head = blockIdx.x % blocks_per_row * WARPS + threadIdx.x / WARP;
    int half = p.rotary_dim / 4, rest = (p.head_dim - p.rotary_dim) / 2, words = p.head_dim / 2;
    start_successor();
    wait_predecessor();
    if (head >= n_heads) return;
    head_words<H> h;
    size_t from = (size_t)row * n_stored_heads(p) + stored_head(p, head);
    load_head<T>(h, (const uint32_t *)p.qkv + from * words, half, rest);
    if (STRIPED) row += p.first_row; /* among the step's from here on */
    rope_slot at = find_slot<STRIPED>(p, row);
    if (!at.valid || (STRIPED && !at.kept && head >= p.n_heads)) return;

    int kv_head = head - p.n_heads;
    bool is_value = kv_head >= p.n_kv_heads;
    if (!is_value) {
        const float *norm = head < p.n_heads ? p.q_norm : p.k_norm;
        if (norm) norm_head(h, norm, head_factor(h, p.norm_eps, half, rest), half, rest);
        turn_head(h, p, at, head, half);
    } else if (p.v_norm) {
        scale_head(h, head_factor(h, p.norm_eps, half, rest));
    }
    write_head<T, H, STRIPED>(p, at, row, head, h, half, rest);
}

/* norm_factor of n_words words, by the whole thread block. */
template <class T> LF_GPU_FN float row_factor(const uint32_t *x, int n_words, float eps)
{
    float sum = 0.0f;
#pragma unroll 4
    for (int i = threadIdx.x; i < n_words; i += ROW_THREADS) sum += sum_of_squares(unpack<T>(x[i]));
    sum = block_sum(sum);
    __syncthreads(); /* for the next sum */
    return norm_factor(sum, 2 * n_words, eps);
}

/* The same with norms over whole rows: of all heads of queries, of all heads of keys. */
template <class T, int H, bool STRIPED>
__global__ void __launch_bounds__(ROW_THREADS) rope_append_row(const __grid_constant__ lf_rope_cuda_args p)
{
    int n_heads = p.n_heads + 2 * p.n_kv_heads, n_turned = p.n_heads + p.n_kv_heads, row = blockIdx.x;
    int half = p.rotary_dim / 4, rest = (p.head_dim - p.rotary_dim) / 2, words = p.head_dim / 2;
    const uint32_t *x = (const uint32_t *)p.qkv + (size_t)row * n_stored_heads(p) * words;
    start_successor();
    wait_predecessor();
    if (STRIPED) row += p.first_row; /* among the step's from here on */
    rope_slot at = find_slot<STRIPED>(p, row);
    if (!at.valid) return;
    if (STRIPED && !at.kept) n_heads = p.n_heads;
    float q_factor = row_factor<T>(x, p.n_heads * words, p.norm_eps);
    float k_factor = row_factor<T>(x + p.n_heads * words, p.n_kv_heads * words, p.norm_eps);
    for (int head = threadIdx.x / WARP; head < n_heads; head += ROW_WARPS) {
        head_words<H> h;
        load_head<T>(h, x + stored_head(p, head) * words, half, rest);
        if (head < n_turned) {
            bool is_query = head < p.n_heads;
            const float *norm = is_query ? p.q_norm + head * p.head_dim : p.k_norm + (head - p.n_heads) * p.head_dim;
            norm_head(h, norm, is_query ? q_factor : k_factor, half, rest);
            turn_head(h, p, at, head, half);
        } else if (p.v_norm) {
            scale_head(h, head_factor(h, p.norm_eps, half, rest));
        }
        write_head<T, H, STRIPED>(p, at, row, head, h, half, rest);
    }
}

bool lf_rope_append_cuda_supports(int head_dim, int rotary_dim)
{
    return head_dim > 0 && head_dim <= LF_ATTN_CUDA_HEAD_DIM && head_dim % 4 == 0 && rotary_dim > 0 &&
           rotary_dim <= head_dim && rotary_dim % 4 == 0;
}

template <class T, bool STRIPED> static int load_type()
{
    return load_kernels(rope_append<T, NARROW, STRIPED>, rope_append<T, WIDE, STRIPED>,
                        rope_append_row<T, NARROW, STRIPED>, rope_append_row<T, WIDE, STRIPED>);
}

int lf_rope_append_cuda_setup(void)
{
    int rc = load_type<bf16, false>();
    return rc == 0 ? load_type<fp16, false>() : rc;
}

int lf_rope_append_cuda_stripe_setup(void)
{
    return load_type<bf16, true>();
}

template <class T, int H, bool STRIPED> static int launch(const struct lf_rope_cuda_args *args, void *stream)
{
    unsigned blocks_per_row = blocks_for(args->n_heads + 2 * args->n_kv_heads, WARPS), n = (unsigned)args->n_tokens;
    if (args->norm_whole_row)
        return queue_kernel(rope_append_row<T, H, STRIPED>, {n, ROW_THREADS}, launch_of(args, stream), *args);
    return queue_kernel(rope_append<T, H, STRIPED>, {blocks_per_row * n, THREADS}, launch_of(args, stream), *args);
}

template <class T, bool STRIPED = false> static int launch_for_dim(const struct lf_rope_cuda_args *args, void *stream)
{
    return args->head_dim <= NARROW_DIM ? launch<T, NARROW, STRIPED>(args, stream)
                                        : launch<T, WIDE, STRIPED>(args, stream);
}

int lf_rope_append_cuda(const struct lf_rope_cuda_args *args, void *stream)
{
    if (args->n_tokens == 0) return 0;
    if (args->stripe_n > 1) return args->fp16 ? (int)cudaErrorNotSupported : launch_for_dim<bf16, true>(args, stream);
    return args->fp16 ? launch_for_dim<fp16>(args, stream) : launch_for_dim<bf16>(args, stream);
}
