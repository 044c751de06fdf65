/* Where the keys of decode come from: the walk of a CTA over its tasks, and the rings of slices that its warps fill
 * ahead of it. attn_decode.cuh says what for. */
#ifndef LF_ATTENTION_CUDA_ATTN_DECODE_RING_CUH
#define LF_ATTENTION_CUDA_ATTN_DECODE_RING_CUH

#include "device/cuda/launch.cuh"
#include "attention/cuda/attn_codes.cuh"
#include "attention/cuda/attn_mma.cuh"

enum { STREAMS = 2, SLICE = PAGE / STREAMS, MAX_STAGES = 6, PAIR_STAGES = 3 };
static_assert(STREAMS == 2 && SLICE % 16 == 0, "two streams are combined; an MMA is 16 keys deep");
static_assert(LF_ATTN_DECODE_SPLIT_MIN % PAGE == 0, "splits are whole pages");

/* CTAs of a multiprocessor, at most: they need registers, and room for rings deep enough. Of codes there are twice as
 * many keys in the same time. */
template <class KV> constexpr int most_ctas(int d, int r)
{
    if (is_codes<KV>() && r == 1) return d <= 64 ? 4 : 2;
    return r <= 2 && d <= 128 ? 2 : 1;
}

template <class KV, int D, int R> struct shape {
    static constexpr int THREADS = STREAMS * R * WARP, ROWS = 16 * R;
    static constexpr int ROW_BYTES = D * (int)sizeof(KV), SLICE_BYTES = SLICE * ROW_BYTES;
    static constexpr int UNITS = ROW_BYTES / UNIT_BYTES, ROWS_AT_ONCE = WARP / UNITS; /* of a warp's copies */
    static constexpr int TILE = ROW_BYTES / 2; /* a row in elements of two bytes, as attn_mma.cuh has tiles */
    /* K, V, and where there are scales K's and V's, padded to what swizzled tiles are aligned to. */
    static constexpr int STAGE_BYTES = 2 * SLICE_BYTES + (is_codes<KV>() ? 128 : 0);
    static constexpr bool SHARES_Q = D > 128; /* in shared memory, else in registers */
    static constexpr int Q_BYTES = SHARES_Q ? ROWS * D * 2 : 0;
    static constexpr int CTAS = most_ctas<KV>(D, R);
    using partial = partial_tiles<D / 8>;

    static size_t shared_bytes(int n_stages)
    {
        return (size_t)n_stages * STREAMS * STAGE_BYTES + Q_BYTES + 2 * R * sizeof(partial);
    }
};

/* A warp's part in its CTA. */
struct warp_role {
    int stream, member; /* of the R warps of a stream */
    int lane;
    uint32_t ring;   /* the stream's */
    uint32_t q_tile; /* the CTA's, where queries are shared */
    int n_stages;
};

/* Copies a warp keeps in flight. A stream of one warp replaces a slice as soon as it has read it; several would have to
 * wait for each other twice a slice, so they replace the one before, which all are done with when they meet. */
template <int R> LF_GPU_FN int n_in_flight(const warp_role &w)
{
    return R == 1 ? w.n_stages : w.n_stages - 1;
}

/* All but the newest n - 1 groups have arrived. The usual n come first: a jump through a table would cost more. */
LF_GPU_FN void wait_for_oldest(int n)
{
    if (n == PAIR_STAGES)
        cp_async_wait_group<PAIR_STAGES - 1>();
    else if (n == MAX_STAGES)
        cp_async_wait_group<MAX_STAGES - 1>();
    else if (n == 5)
        cp_async_wait_group<4>();
    else if (n > PAIR_STAGES)
        cp_async_wait_group<PAIR_STAGES>();
    else if (n == 2)
        cp_async_wait_group<1>();
    else
        cp_async_wait_group<0>();
    static_assert(PAIR_STAGES == 3, "the cases below it");
}

/* The i-th task of a CTA: every other stride in reverse order, so that a CTA with a longer task has a shorter one
 * next. */
LF_GPU_FN int task_of(int round)
{
    int column = round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
    return round * gridDim.x + column;
}

/* Of lane i: what the slice in stage i of the ring lacks as long as the predecessor may be writing it. */
struct missing {
    unsigned long long page; /* address of its page's K */
    unsigned tokens;         /* a bit each */
};

/* The page that is fetched next, of a pass over a task. A lane holds the table entry of page (base + lane). */
template <bool STRIPED> struct cursor {
    int round, task_idx, n_tasks, row0, n_rows; /* the pass begins at row0 of the task's rows */
    int page, n_pages;
    int n_old, n_keys;    /* tokens in the cache: that no predecessor may be writing, all */
    const char *from;     /* this lane's first unit of K in block 0 */
    const int32_t *table; /* of the sequence */
    int base, entry;
    missing late; /* of what was fetched before the predecessor was complete */
};

/* The first token of a page of which a lane fetches a unit, and where in the page that is, in bytes. */
template <class KV, int D, int R> LF_GPU_FN int lane_token(const warp_role &w)
{
    return w.stream * SLICE + w.member * (SLICE / R) + w.lane / shape<KV, D, R>::UNITS;
}

template <class KV, int D, int R> LF_GPU_FN int lane_bytes(const lf_attn_cuda_args &p, const warp_role &w)
{
    return lane_token<KV, D, R>(w) * p.head_dim * (int)sizeof(KV) + w.lane % shape<KV, D, R>::UNITS * UNIT_BYTES;
}

template <class KV> LF_GPU_FN uint32_t page_bytes(const lf_attn_cuda_args &p)
{
    return is_codes<KV>() ? p.fp8_page_bytes : PAGE * p.head_dim * (int)sizeof(KV);
}

template <class KV, int D, int R, bool STRIPED>
LF_GPU_FN void begin_pass(cursor<STRIPED> &c, const lf_attn_cuda_args &p, const warp_role &w)
{
    if (c.task_idx >= c.n_tasks) return;
    lf_attn_cuda_task task = p.decode[c.task_idx];
    lf_attn_cuda_seq seq = p.seqs[task.seq_idx];
    c.n_rows = task.n_rows;
    c.page = first_seen_key<STRIPED>(p, task, rows_of<STRIPED>(p, seq, task)) / PAGE;
    c.n_pages = (task.key_hi + PAGE - 1) / PAGE;
    c.n_old = keys_before<STRIPED>(p, p.overlaps ? seq.kv_len - seq.n_tokens : seq.kv_len);
    c.n_keys = keys_before<STRIPED>(p, seq.kv_len);
    uint64_t page = (uint64_t)p.layer * 2 * p.n_kv_heads + task.kv_head;
    c.from = (const char *)p.kv + page * page_bytes<KV>(p) + lane_bytes<KV, D, R>(p, w);
    c.table = p.tables + seq.table;
    c.base = -WARP;
}

template <bool STRIPED> LF_GPU_FN int block_of(cursor<STRIPED> &c, int lane)
{
    if (c.page >= c.base + WARP) {
        int lane_page = c.page + lane;
        c.base = c.page;
        c.entry = lane_page < c.n_pages ? c.table[lane_page] : 0;
    }
    return __shfl_sync(ALL_LANES, c.entry, c.page - c.base);
}

/* From the K of a page to its V, in bytes. */
template <class KV> LF_GPU_FN uint32_t bytes_to_v(const lf_attn_cuda_args &p)
{
    return (uint32_t)p.n_kv_heads * page_bytes<KV>(p);
}

/* Copies a lane's units, every `step` bytes, of K and of V. Rows from n_seen on become zeros; those from n_old on that
 * are before it are left alone. */
template <class KV, int D, int R>
LF_GPU_FN void copy_units(uint32_t stage, const char *k, int64_t v_offset, int64_t step, const warp_role &w, int n_old,
                          int n_seen)
{
    using S = shape<KV, D, R>;
    constexpr int TURNS = SLICE / S::ROWS_AT_ONCE / R;
    int row = w.member * (SLICE / R) + w.lane / S::UNITS;
    const char *v = k + v_offset;
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
        bool is_seen = i * S::ROWS_AT_ONCE < n_seen;
        if (is_seen && i * S::ROWS_AT_ONCE >= n_old) continue;
        uint32_t to = stage + tile_offset<S::TILE>(row + i * S::ROWS_AT_ONCE, w.lane % S::UNITS);
        cp_async_cg_16_once(to, k + i * step, is_seen ? UNIT_BYTES : 0);
        cp_async_cg_16_once(to + S::SLICE_BYTES, v + i * step, is_seen ? UNIT_BYTES : 0);
    }
}

/* Fetches the scales of a slice, four units, two of K's and then two of V's: those of its first n_seen tokens, behind
 * which are zeros. A unit with tokens from n_old on among these is left alone. page: of K. */
template <class KV, int D, int R>
LF_GPU_FN void copy_scales(const lf_attn_cuda_args &p, const warp_role &w, uint32_t stage, const char *page, int n_old,
                           int n_seen)
{
    using S = shape<KV, D, R>;
    constexpr int PARTS = SLICE / UNIT_BYTES;
    if (w.member != 0 || w.lane >= 2 * PARTS) return;
    int first = w.lane % PARTS * UNIT_BYTES, n_here = min(max(n_seen - first, 0), (int)UNIT_BYTES);
    if (max(n_old - first, 0) < n_here) return;
    const char *from = page + w.lane / PARTS * bytes_to_v<KV>(p) + PAGE * p.head_dim + w.stream * SLICE + first;
    cp_async_cg_16(stage + 2 * S::SLICE_BYTES + w.lane * UNIT_BYTES, from, n_here);
}

/* Fetches this warp's part of the stream's slice of a page, K and V, as far as its tokens are among the sequence's
 * first n_tokens. Keys at or past n_keys become zeros; those between are left alone. Returns the lane's first unit of
 * K. */
template <class KV, int D, int R, bool STRIPED>
LF_GPU_FN const char *fetch_slice(const lf_attn_cuda_args &p, const warp_role &w, uint32_t stage, cursor<STRIPED> &c,
                                  int n_tokens)
{
    using S = shape<KV, D, R>;
    uint32_t v_offset = bytes_to_v<KV>(p), block_bytes = p.block_pages * page_bytes<KV>(p);
    int first = c.page * PAGE + lane_token<KV, D, R>(w), n_seen = c.n_keys - first, n_old = n_tokens - first;
    const char *k = c.from + (uint64_t)(uint32_t)block_of(c, w.lane) * block_bytes;
    if constexpr (is_codes<KV>()) {
        int slice = c.page * PAGE + w.stream * SLICE;
        copy_scales<KV, D, R>(p, w, stage, k - lane_bytes<KV, D, R>(p, w), n_tokens - slice, c.n_keys - slice);
    }
    if (p.head_dim == D) {
        copy_units<KV, D, R>(stage, k, v_offset, S::ROWS_AT_ONCE * S::ROW_BYTES, w, n_old, n_seen);
    } else {
        if (w.lane % S::UNITS * UNIT_BYTES >= p.head_dim * (int)sizeof(KV)) n_seen = n_old = 0;
        copy_units<KV, D, R>(stage, k, v_offset, S::ROWS_AT_ONCE * p.head_dim * (int)sizeof(KV), w, n_old, n_seen);
    }
    return k;
}

/* On to the page that is fetched next, of this task or a later one. */
template <class KV, int D, int R, bool STRIPED>
LF_GPU_FN void advance(cursor<STRIPED> &c, const lf_attn_cuda_args &p, const warp_role &w)
{
    if (++c.page < c.n_pages) return;
    c.row0 += 16 * R;
    if (c.row0 >= c.n_rows) {
        c.row0 = 0;
        c.task_idx = task_of(++c.round);
    }
    begin_pass<KV, D, R>(c, p, w);
}

/* Fetches what comes next as one group; an empty one at the end of the list. */
template <class KV, int D, int R, bool STRIPED>
LF_GPU_FN void fetch_next(const lf_attn_cuda_args &p, const warp_role &w, uint32_t stage, cursor<STRIPED> &c)
{
    if (c.task_idx < c.n_tasks) {
        fetch_slice<KV, D, R>(p, w, stage, c, c.n_keys);
        advance<KV, D, R>(c, p, w);
    }
    cp_async_commit_group();
}

/* ---- the beginning ---- */

/* The lowest n of 32 bits, none for less than 0. */
LF_GPU_FN unsigned low_bits(int n)
{
    return n < 32 ? (1u << max(n, 0)) - 1 : ~0u;
}

/* Fills the ring while the predecessor may still be writing the tokens of this step: with all others. */
template <class KV, int D, int R, bool STRIPED>
LF_GPU_FN void fetch_old(const lf_attn_cuda_args &p, const warp_role &w, cursor<STRIPED> &c)
{
    static_assert(SLICE == 32, "a bit for each token");
#pragma unroll 1
    for (int i = 0; i < n_in_flight<R>(w); i++) {
        if (c.task_idx < c.n_tasks) {
            int first = c.page * PAGE + w.stream * SLICE;
            unsigned tokens = low_bits(c.n_keys - first) & ~low_bits(c.n_old - first);
            const char *k = fetch_slice<KV, D, R>(p, w, w.ring + i * shape<KV, D, R>::STAGE_BYTES, c, c.n_old);
            if (w.lane == i) c.late = {(unsigned long long)(k - lane_bytes<KV, D, R>(p, w)), tokens};
            advance<KV, D, R>(c, p, w);
        }
        cp_async_commit_group();
    }
}

/* Fetches these tokens, if there are any, and waits for all that the ring holds. Their slots in it were left alone, so
 * it does not matter which copy arrives first. The lane is read anew: what ptxas sees computed from the same here and
 * for each page it moves into the loop. */
template <class KV, int D, int R>
LF_GPU_FN void fetch_new(const lf_attn_cuda_args &p, const warp_role &w, const missing &late)
{
    using S = shape<KV, D, R>;
    unsigned stages = __ballot_sync(ALL_LANES, late.tokens != 0);
    if (stages == 0) return;
    int lane = laneid(), unit = lane % S::UNITS;
#pragma unroll 1
    for (; stages != 0; stages &= stages - 1) {
        int i = __ffs(stages) - 1;
        unsigned tokens = __shfl_sync(ALL_LANES, late.tokens, i);
        const char *page = (const char *)__shfl_sync(ALL_LANES, late.page, i);
        int first = __ffs(tokens) - 1, n_seen = first + __popc(tokens);
        int end = unit * UNIT_BYTES < p.head_dim * (int)sizeof(KV) ? n_seen : 0;
        int row = first + w.member * S::ROWS_AT_ONCE + lane / S::UNITS;
        uint32_t stage = w.ring + i * S::STAGE_BYTES;
        if constexpr (is_codes<KV>()) copy_scales<KV, D, R>(p, w, stage, page, n_seen, n_seen);
#pragma unroll 1
        do {
            const char *k = page + (w.stream * SLICE + row) * p.head_dim * (int)sizeof(KV) + unit * UNIT_BYTES;
            uint32_t to = stage + tile_offset<S::TILE>(row, unit);
            if (row < end) {
                cp_async_cg_16(to, k, UNIT_BYTES);
                cp_async_cg_16(to + S::SLICE_BYTES, k + bytes_to_v<KV>(p), UNIT_BYTES);
            }
            row += R * S::ROWS_AT_ONCE;
        } while (row < end);
    }
    cp_async_commit_group();
    cp_async_wait_group<0>();
}

#endif
