/* What every attention kernel does alike: where pages and query rows are, what a score is, when the exponents of a row
 * get another offset, where splits of decode tokens end. */
#ifndef LF_ATTENTION_CUDA_ATTN_ROWS_CUH
#define LF_ATTENTION_CUDA_ATTN_ROWS_CUH

#include "attention/cuda/attn_cuda.h"
#include "attention/cuda/attn_combine.cuh"
#include "attention/cuda/attn_stripe.cuh"
#include "core/limits.h"
#include "device/cuda/elem.cuh"
#include "device/cuda/warp.cuh"

enum { PAGE = LF_KV_BLOCK_TOKENS };

/* When a row's exponents get a new offset, and how far that is ahead of the tile's maximum. SUM: of the row's P in a
 * tile, in one thread. bf16 has the exponents of float: P may be 2^16 as well as 2^-48, and a row whose scores go on to
 * grow is at peace for 64 powers of two. fp16 ends at 2^16. */
template <class T> struct offset_bounds {
    static constexpr float SUM = 0x1p16f, LEAD = 48.0f;
};
template <> struct offset_bounds<fp16> {
    static constexpr float SUM = 0x1p12f, LEAD = 0.0f;
};

/* ---- pages and rows ---- */

/* First element of a page. */
template <class T> LF_GPU_FN const T *page_of(const lf_attn_cuda_args &p, int block, int part, int kv_head)
{
    int64_t page = (int64_t)block * p.block_pages + ((int64_t)p.layer * 2 + part) * p.n_kv_heads + kv_head;
    return (const T *)p.kv + page * PAGE * p.head_dim;
}

/* The same of an FP8 cache. */
LF_GPU_FN const uint8_t *codes_page_of(const lf_attn_cuda_args &p, int block, int part, int kv_head)
{
    int64_t page = (int64_t)block * p.block_pages + ((int64_t)p.layer * 2 + part) * p.n_kv_heads + kv_head;
    return (const uint8_t *)p.kv + page * p.fp8_page_bytes;
}

/* A task's query rows: which token and head a packed row is. */
struct rows_of_task {
    int group, first_head; /* query heads of a KV head; the first of this one's */
    int first_token, pos0; /* of the sequence's first new token: index in the step, position */
    int row, n_rows;       /* packed query rows */
    int n_keys;            /* that the cache has of the sequence */
};

/* `task`: an entry of the list of tasks, or of one of those to combine. */
template <bool STRIPED = false, class Task>
LF_GPU_FN rows_of_task rows_of(const lf_attn_cuda_args &p, const lf_attn_cuda_seq &seq, const Task &task)
{
    int group = p.n_heads / p.n_kv_heads;
    int n_keys = keys_before<STRIPED>(p, seq.kv_len);
    return {group, task.kv_head * group, seq.first_token, seq.kv_len - seq.n_tokens, task.row, task.n_rows, n_keys};
}

LF_GPU_FN int position_of(const rows_of_task &t, int i)
{
    return t.pos0 + (t.row + i) / t.group;
}

/* Index of row i's (token, head) in q, out, lse, and its head. */
LF_GPU_FN int64_t head_row_of(const lf_attn_cuda_args &p, const rows_of_task &t, int i, int *head)
{
    int row = t.row + i;
    *head = t.first_head + row % t.group;
    return (int64_t)(t.first_token + row / t.group) * p.n_heads + *head;
}

/* The first key that a row of the task may see. */
template <bool STRIPED>
LF_GPU_FN int first_seen_key(const lf_attn_cuda_args &p, const lf_attn_cuda_task &task, const rows_of_task &t)
{
    return p.window > 0 ? max(task.key_lo, keys_before<STRIPED>(p, position_of(t, 0) - p.window + 1)) : task.key_lo;
}

/* ---- scores ---- */

/* Factors that turn q · k into log2(e) · score. */
struct score_scale {
    float factor;       /* of q · k, or of what softcap made of it */
    float cap, cap_arg; /* softcap, and twice log2(e) · scale / softcap; cap 0: none */
};

LF_GPU_FN score_scale score_scale_of(const lf_attn_cuda_args &p)
{
    if (p.softcap > 0.0f) return {LF_ATTN_LOG2E, p.softcap, 2.0f * LF_ATTN_LOG2E * p.scale / p.softcap};
    return {p.scale * LF_ATTN_LOG2E, 0.0f, 0.0f};
}

/* cap · tanh x with x = arg / (2 log2 e): 1 - 2 / (1 + e^2x), right at both ends. */
LF_GPU_FN float capped(float cap, float arg)
{
    return cap - 2.0f * cap * rcp_approx_ftz(1.0f + ex2_approx_ftz(arg));
}

/* ---- offsets of exponents ---- */

/* Of a row that the four threads of a quad have: where its sum of P in a tile passed the bound, the tile's maximum
 * (top: this thread's, of scores) becomes m, and in later tiles than the first that it sees of a split the lead is
 * added: scores that have grown grow on. *offset is what to subtract from exponents. Rescales l, and returns what o
 * must be rescaled by. */
template <class T>
LF_GPU_FN float move_offset(float top, float sum, float factor, bool is_first, float &m, float &l, float &offset)
{
    float old = m;
    top = quad_max(top);
    if (quad_any(!(sum <= offset_bounds<T>::SUM)))
        m = top * factor + (is_first || old == -INFINITY ? 0.0f : offset_bounds<T>::LEAD);
    offset = m == -INFINITY ? 0.0f : m; /* a row that has seen no key */
    float scale = ex2_approx_ftz(old - offset);
    l *= scale;
    return scale;
}

/* ---- splits of decode tokens ---- */

/* Length of the split of decode tokens that key is in (attn_map.c). */
LF_GPU_FN int decode_split_length(int key)
{
    int scale = LF_ATTN_DECODE_SPLIT_SHARE;
    int clamped = min(max(key, LF_ATTN_DECODE_SPLIT_MIN * scale), LF_ATTN_DECODE_SPLIT_MAX * scale);
    return 1 << (31 - __clz(clamped / scale));
}

/* Ends of its split and of its group. */
LF_GPU_FN int decode_split_end(int key)
{
    int length = decode_split_length(key);
    return (key & -length) + length;
}

LF_GPU_FN int decode_group_end(int key)
{
    int length = LF_ATTN_DECODE_GROUP * decode_split_length(key);
    return (key & -length) + length;
}

#endif
