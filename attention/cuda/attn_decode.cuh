/* Attention of decode tokens over paged KV, sm_80 and later: a task's keys are streamed once past its query rows.
 *
 * Idea. Memory bandwidth is the bound, so all of a KV head's query rows of a few tokens meet a key while it is in
 * shared memory, and many copies are in flight at any time, also from one task to the next. A page of 64 keys is cut
 * into two slices of 32; each belongs to a stream, a warp that fetches its slices itself into a ring of its own
 * (cp.async), computes 16 rows × 32 keys with mma.sync and keeps its own (m, l, o). Neither stream waits for the other
 * until a split ends; then the two are combined, the split with those of its group, and an ended group with those
 * before it (attn_cuda.h). Which warps share a task therefore does not show in a row's bits, nor does the number of its
 * neighbours.
 *
 * Work partition: CTAs walk the task list in strides of the grid, every other stride in reverse order. A stream is R
 * warps of 16 rows each, so a CTA of 64 · R threads takes 16 · R rows at a time; a task with more is walked again. R =
 * 1 is plain decode, more is for several new tokens a step or for many query heads on one KV head.
 *
 * With R = 4 a page must take less than a microsecond and a half, what memory needs for it. Most instructions are not
 * MMAs, so these are kept few: addresses are incremented instead of computed, the lane is in a register, queries are
 * too, and the next slice is fetched while the MMAs of the last are under way.
 *
 * Overlap: before its predecessor is complete the kernel reads what that cannot be writing: the lists, and the tokens
 * of earlier steps, with which it fills the rings. This step's follow when the predecessor is complete: of a page that
 * both have tokens in, a few rows out of the second-level cache.
 *
 * Pages hold elements KV: of T, or e4m3, the codes of an FP8 cache, which become bf16 in registers (attn_codes.cuh). A
 * slice of these has its tokens' scales beside it: K's multiply scores, V's P, both exactly. So sums and bits are those
 * of a bf16 cache of the same numbers, as far as tensor cores add 16 products in any order alike.
 *
 * Shared memory: the rings, (n_stages · 2) slices of K and of V; queries where they do not fit into registers; one
 * stream's results and a group's combined result, float. The combined result of earlier groups is in global memory, and
 * only tasks of several groups touch it. Bound by memory up to 64 rows of queries, 16 tokens × 4 query heads. Needs
 * head_dim divisible by 8 up to 256; it is padded with zeros to 64, 128 or 256 on the way into shared memory. CPU
 * reference: attn_cpu.c. */
#ifndef LF_ATTENTION_CUDA_ATTN_DECODE_CUH
#define LF_ATTENTION_CUDA_ATTN_DECODE_CUH

#include "attention/cuda/attn_decode_ring.cuh"

/* A warp's queries as operands A, read from global memory; rows from n_rows on and channels not there are zeros. */
template <class T, class KV, int D>
LF_GPU_FN void load_queries(uint32_t (&q)[D / 16][4], const lf_attn_cuda_args &p, const rows_of_task &t, int row0,
                            int n_rows)
{
    int column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int i = row0 + threadIdx.x % WARP / 4 + 8 * h, head;
        bool is_row = i < n_rows;
        const T *row = (const T *)p.q + head_row_of(p, t, is_row ? i : 0, &head) * p.head_dim;
        const uint32_t *from = (const uint32_t *)(row + column);
#pragma unroll
        for (int ks = 0; ks < D / 16; ks++) {
            if (is_codes<KV>()) { /* head_dim is a multiple of 16 */
                uint2 x = is_row && ks * 16 < p.head_dim ? *(const uint2 *)(row + ks * 16 + 2 * column) : uint2{};
                q[ks][h] = even_of(x.x, x.y);
                q[ks][h + 2] = odd_of(x.x, x.y);
            } else {
                q[ks][h] = is_row && ks * 16 < p.head_dim ? from[ks * 8] : 0;
                q[ks][h + 2] = is_row && ks * 16 + 8 < p.head_dim ? from[ks * 8 + 4] : 0;
            }
        }
    }
}

/* The queries of a pass in shared memory, for all warps, and zeros likewise. */
template <class T, class KV, int D, int R>
LF_GPU_FN void share_queries(uint32_t q_tile, const lf_attn_cuda_args &p, const rows_of_task &t, int row0, int n_rows)
{
    using S = shape<KV, D, R>;
    constexpr int UNITS = D / UNIT_ELEMS;
#pragma unroll 2
    for (int i = threadIdx.x; i < S::ROWS * UNITS / 2; i += S::THREADS) {
        int row = i / (UNITS / 2), unit = i % (UNITS / 2) * 2, head;
        uint4 x[2] = {};
        if (row0 + row < n_rows) {
            const T *from = (const T *)p.q + head_row_of(p, t, row0 + row, &head) * p.head_dim + unit * UNIT_ELEMS;
            if (unit * UNIT_ELEMS < p.head_dim) x[0] = *(const uint4 *)from;
            if ((unit + 1) * UNIT_ELEMS < p.head_dim) x[1] = *(const uint4 *)(from + UNIT_ELEMS);
        }
        if (is_codes<KV>()) order_as_codes(x);
        st_shared_v4(q_tile + tile_offset<D>(row, unit), x[0]);
        st_shared_v4(q_tile + tile_offset<D>(row, unit + 1), x[1]);
    }
    __syncthreads();
}

/* What a warp computes with: 16 rows. */
template <int D, bool SHARES_Q> struct warp_rows {
    uint32_t q[SHARES_Q ? 1 : D / 16][4];
    uint32_t q_lane;         /* else, the address that this lane gives ldmatrix for its warp's tile */
    uint32_t k_lane, v_lane; /* the same for K and V, relative to their tile */
    float o[D / 8][4];
    row_state state;
    int pos[2];
    int first_pos, last_pos; /* of all its rows */
};

template <int D, bool SHARES_Q> LF_GPU_FN void clear_rows(warp_rows<D, SHARES_Q> &rows)
{
    clear_tiles(rows.o);
    row_state_init(rows.state);
}

/* The operand A of 16 channels. */
template <int D, bool SHARES_Q> LF_GPU_FN void q_operand(uint32_t (&q)[4], const warp_rows<D, SHARES_Q> &rows, int ks)
{
    if (SHARES_Q) {
        ldmatrix_x4(q, tile_unit<D>(rows.q_lane, 2 * ks));
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) q[i] = rows.q[SHARES_Q ? 0 : ks][i];
    }
}

/* QK^T of a slice's keys. */
template <class T, int D, bool SHARES_Q>
LF_GPU_FN void multiply_qk(T, float (&s)[SLICE / 8][4], const warp_rows<D, SHARES_Q> &rows, uint32_t k_slice)
{
    constexpr int BLOCK_BYTES = 16 * D * (int)sizeof(T); /* of 16 keys */
    uint32_t b[4];
    clear_tiles(s);
#pragma unroll
    for (int ks = 0; ks < D / 16; ks++) {
        uint32_t q[4];
        q_operand(q, rows, ks);
#pragma unroll
        for (int n = 0; n < SLICE / 16; n++) {
            ldmatrix_x4(b, tile_unit<D>(k_slice + rows.k_lane + n * BLOCK_BYTES, 2 * ks));
            mma_m16n8k16<T>(s[2 * n], q, b[0], b[1]);
            mma_m16n8k16<T>(s[2 * n + 1], q, b[2], b[3]);
        }
    }
}

/* The same of codes: a word of a matrix is four channels of a key, which stand in for the two pairs of each operand
 * (attn_codes.cuh); a matrix is 16 channels of 8 keys. */
template <int D, bool SHARES_Q>
LF_GPU_FN void multiply_qk(e4m3, float (&s)[SLICE / 8][4], const warp_rows<D, SHARES_Q> &rows, uint32_t k_slice)
{
    uint32_t b[4], q[2][4];
    clear_tiles(s);
#pragma unroll
    for (int j = 0; j < D / 32; j++) {
        q_operand(q[0], rows, 2 * j);
        q_operand(q[1], rows, 2 * j + 1);
#pragma unroll
        for (int n = 0; n < SLICE / 16; n++) {
            ldmatrix_x4(b, tile_unit<D / 2>(k_slice + rows.k_lane + n * 16 * D, 2 * j));
#pragma unroll
            for (int i = 0; i < 4; i++) {
                code_pairs k = pairs_of(b[i]);
                mma_m16n8k16<bf16>(s[2 * n + i / 2], q[i % 2], k.even, k.odd);
            }
        }
    }
    scale_keys(s, k_slice + 2 * SLICE * D, 1.0f);
}

/* P · V of 16 keys is added to o; n: which of the slice. */
template <class T, int D, bool SHARES_Q>
LF_GPU_FN void add_pv(T, warp_rows<D, SHARES_Q> &rows, const uint32_t (&probs)[4], uint32_t v_slice, int n)
{
    uint32_t b[4];
#pragma unroll
    for (int c = 0; c < D / 16; c++) {
        ldmatrix_x4_trans(b, tile_unit<D>(v_slice + rows.v_lane + n * 16 * D * (int)sizeof(T), 2 * c));
        mma_m16n8k16<T>(rows.o[2 * c], probs, b[0], b[1]);
        mma_m16n8k16<T>(rows.o[2 * c + 1], probs, b[2], b[3]);
    }
}

/* The same of codes: a matrix of 8 keys is 16 channels, the even ones of which are tile 2c of o and the odd ones the
 * next. */
template <int D, bool SHARES_Q>
LF_GPU_FN void add_pv(e4m3, warp_rows<D, SHARES_Q> &rows, const uint32_t (&probs)[4], uint32_t v_slice, int n)
{
    uint32_t b[4];
#pragma unroll
    for (int j = 0; j < D / 32; j++) {
        ldmatrix_x4_trans(b, tile_unit<D / 2>(v_slice + rows.v_lane + n * 16 * D, 2 * j));
#pragma unroll
        for (int i = 0; i < 2; i++) {
            code_pairs first = pairs_of(b[2 * i]), second = pairs_of(b[2 * i + 1]);
            mma_m16n8k16<bf16>(rows.o[4 * j + 2 * i], probs, first.even, second.even);
            mma_m16n8k16<bf16>(rows.o[4 * j + 2 * i + 1], probs, first.odd, second.odd);
        }
    }
}

/* Scores become P, and PV of the slice is added to o. key0: position of its first key. */
template <class T, class KV, int D, bool SHARES_Q>
LF_GPU_FN void softmax_pv(warp_rows<D, SHARES_Q> &rows, float (&s)[SLICE / 8][4], uint32_t v_slice, int key0,
                          const score_scale &scale, int window)
{
    float rescale[2];
    bool all_seen = key0 + SLICE - 1 <= rows.first_pos && (window == 0 || key0 > rows.last_pos - window);
    if (scale.cap > 0.0f) cap_scores(s, scale);
    if (!all_seen) mask_scores(s, key0, rows.pos, window);
    if (softmax_step(s, rows.state, scale.factor, rescale)) rescale_rows(rows.o, rescale);
    if (is_codes<KV>()) scale_keys(s, v_slice + SLICE * D + SLICE, HALF_FACTOR);
#pragma unroll
    for (int n = 0; n < SLICE / 16; n++) {
        uint32_t probs[4];
        p_operand<T>(probs, s[2 * n], s[2 * n + 1]);
        add_pv(KV{}, rows, probs, v_slice, n);
    }
}

/* What begins and ends with a split of a task. */
struct split_edges {
    bool begins_group, ends_group; /* a task's end ends a group */
    bool is_first_group, ends_task;
};

/* Partial results of a warp's rows: the first stream's and the group's in shared memory, the groups' before it in
 * global. */
template <int N> struct warp_scratch {
    partial_tiles<N> *left, *group, *whole;
};

/* Combines the streams' results of a split in the second stream's registers, then the split with its group, an ended
 * group with those before it, and writes the task's last. All warps call it; afterwards all rows are cleared. */
template <class T, class KV, int D, bool STRIPED, bool SHARES_Q>
LF_GPU_FN void end_split(warp_rows<D, SHARES_Q> &rows, const warp_scratch<D / 8> &scratch, const warp_role &w,
                         split_edges at, const lf_attn_cuda_args &p, const rows_of_task &t, int warp_row, int slot)
{
    if (is_codes<KV>()) enlarge_outputs(rows.o);
    rows.state.l[0] = quad_sum(rows.state.l[0]);
    rows.state.l[1] = quad_sum(rows.state.l[1]);
    if (w.stream == 0) save_partial(*scratch.left, rows.o, rows.state);
    __syncthreads();
    if (w.stream == 1) combine_partial(*scratch.left, rows.o, rows.state);
    __syncthreads();
    if (w.stream == 1) {
        if (!at.begins_group) combine_partial(*scratch.group, rows.o, rows.state);
        if (!at.ends_group) save_partial(*scratch.group, rows.o, rows.state);
        if (at.ends_group && !at.is_first_group) combine_partial(*scratch.whole, rows.o, rows.state);
        if (at.ends_group && !at.ends_task) save_partial(*scratch.whole, rows.o, rows.state);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int i = warp_row + w.lane / 4 + 8 * h;
            if (at.ends_task && i < t.n_rows)
                write_row<T, STRIPED, is_codes<KV>()>(p, t, slot, i, h, rows.o, rows.state);
        }
    }
    clear_rows(rows);
}

/* Rows row0 … row0 + 16 · R - 1 of a task over its keys; `stage` of the ring holds the first. A CTA's first pass waits
 * for the predecessor and has the ring completed. */
template <class T, class KV, int D, int R, bool STRIPED>
LF_GPU_FN void run_pass(const lf_attn_cuda_args &p, const lf_attn_cuda_task &task, const rows_of_task &t, int row0,
                        const warp_role &w, const warp_scratch<D / 8> &scratch, cursor<STRIPED> &c, int &stage,
                        bool is_first)
{
    using S = shape<KV, D, R>;
    warp_rows<D, S::SHARES_Q> rows;
    int warp_row = row0 + 16 * w.member, lane_row = warp_row + w.lane / 4;
    bool has_rows = warp_row < t.n_rows;
    if (is_first) wait_predecessor();
    if constexpr (S::SHARES_Q) {
        share_queries<T, KV, D, R>(w.q_tile, p, t, row0, t.n_rows);
        rows.q_lane = tile_lane_qv<D>(w.q_tile + 16 * w.member * D * 2);
    } else {
        load_queries<T, KV, D>(rows.q, p, t, warp_row, t.n_rows);
    }
    if (is_first) fetch_new<KV, D, R>(p, w, c.late);
    rows.k_lane = tile_lane_k<S::TILE>(0, w.lane);
    rows.v_lane = tile_lane_qv<S::TILE>(0, w.lane);
#pragma unroll
    for (int h = 0; h < 2; h++) rows.pos[h] = position_of(t, min(lane_row + 8 * h, t.n_rows - 1));
    rows.first_pos = position_of(t, min(warp_row, t.n_rows - 1));
    rows.last_pos = position_of(t, min(warp_row + 16, t.n_rows) - 1);
    clear_rows(rows);

    score_scale scale = is_codes<KV>() ? scale_of_codes(score_scale_of(p)) : score_scale_of(p);
    int n_pages = (task.key_hi + PAGE - 1) / PAGE, page = first_seen_key<STRIPED>(p, task, t) / PAGE;
    int split_end = decode_split_end(page * PAGE);
    split_edges at = {true, false, true, false};
    for (; page < n_pages; page++) {
        uint32_t slice = w.ring + stage * S::STAGE_BYTES;
        int key0 = key_position<STRIPED>(p, page * PAGE + w.stream * SLICE),
            before = stage == 0 ? w.n_stages - 1 : stage - 1;
        bool is_seen = has_rows && key0 <= rows.last_pos;
        float s[SLICE / 8][4];
        wait_for_oldest(n_in_flight<R>(w));
        if (R == 1)
            __syncwarp();
        else
            bar_sync(1 + w.stream, R * WARP);
        if (is_seen) multiply_qk(KV{}, s, rows, slice);
        if (R > 1) fetch_next<KV, D, R>(p, w, w.ring + before * S::STAGE_BYTES, c);
        if (is_seen) softmax_pv<T, KV, D>(rows, s, slice + S::SLICE_BYTES, key0, scale, p.window);
        if (R == 1) {
            __syncwarp();
            fetch_next<KV, D, R>(p, w, slice, c);
        }
        stage = stage + 1 == w.n_stages ? 0 : stage + 1;

        int next_key = (page + 1) * PAGE;
        at.ends_task = page + 1 == n_pages;
        if (!at.ends_task && next_key < split_end) continue;
        at.ends_group = at.ends_task || next_key == decode_group_end(next_key - 1);
        end_split<T, KV, D, STRIPED>(rows, scratch, w, at, p, t, warp_row, task.slot);
        at.begins_group = at.ends_group;
        at.is_first_group = at.is_first_group && !at.ends_group;
        split_end = decode_split_end(next_key);
    }
}

template <class T, class KV, int D, int R, bool STRIPED>
__global__ void __launch_bounds__(shape<KV, D, R>::THREADS, shape<KV, D, R>::CTAS)
    attn_decode(const __grid_constant__ lf_attn_cuda_args p, int n_stages)
{
    extern __shared__ __align__(128) unsigned char shared[];
    using S = shape<KV, D, R>;
    int warp = threadIdx.x / WARP;
    int rings_bytes = n_stages * STREAMS * S::STAGE_BYTES;
    warp_role w = {warp / R, warp % R, laneid(), 0, 0, n_stages};
    w.ring = shared_address(shared) + w.stream * n_stages * S::STAGE_BYTES;
    w.q_tile = shared_address(shared) + rings_bytes;
    partial_tiles<D / 8> *left = (partial_tiles<D / 8> *)(shared + rings_bytes + S::Q_BYTES) + w.member;
    partial_tiles<D / 8> *whole = (partial_tiles<D / 8> *)((char *)p.scratch + LF_ATTN_SCRATCH_HEAD);
    warp_scratch<D / 8> scratch = {left, left + R, whole + blockIdx.x * R + w.member};

    start_successor();
    cursor<STRIPED> c = {};
    c.n_tasks = p.counts->n_decode;
    c.task_idx = blockIdx.x;
    begin_pass<KV, D, R>(c, p, w);
    lf_attn_cuda_task task = {};
    rows_of_task t = {};
    int round = 0, row0 = 0, stage = 0;
    if (task_of(0) < c.n_tasks) {
        task = p.decode[task_of(0)];
        t = rows_of<STRIPED>(p, p.seqs[task.seq_idx], task);
    }
    fetch_old<KV, D, R>(p, w, c);
    if (task_of(0) >= c.n_tasks) wait_predecessor();
    bool is_first = true;
    while (task_of(round) < c.n_tasks) {
        run_pass<T, KV, D, R>(p, task, t, row0, w, scratch, c, stage, is_first);
        is_first = false;
        row0 += S::ROWS;
        if (row0 < t.n_rows) continue;
        row0 = 0;
        round++;
        if (task_of(round) >= c.n_tasks) break;
        task = p.decode[task_of(round)];
        t = rows_of<STRIPED>(p, p.seqs[task.seq_idx], task);
    }
}

/* ---- host ---- */

enum { CTA_RESERVED_BYTES = 1024 }; /* of each resident CTA, for the system */

template <class KV, int D, int R> static bool fits(const shared_limits &gpu, int n_stages, int ctas)
{
    size_t bytes = shape<KV, D, R>::shared_bytes(n_stages);
    return bytes <= (size_t)gpu.block_bytes && ctas * (bytes + CTA_RESERVED_BYTES) <= (size_t)gpu.sm_bytes;
}

/* As many CTAs for each multiprocessor as fit, so that one computes while another begins or ends a task; with rings as
 * deep as there is room for. */
template <class T, class KV, bool STRIPED, int D, int R> static int launch(const lf_attn_cuda_args *args, void *stream)
{
    using S = shape<KV, D, R>;
    shared_limits gpu;
    int rc = get_shared_limits(&gpu), ctas = S::CTAS, n_stages = MAX_STAGES;
    if (rc != 0) return rc;
    while (ctas > 1 && !fits<KV, D, R>(gpu, 2, ctas)) ctas--;
    while (n_stages > 1 && !fits<KV, D, R>(gpu, n_stages, ctas)) n_stages--;
    unsigned n_ctas = (unsigned)min(args->max_decode, ctas * args->n_sms);
    launch_shape on = {n_ctas, S::THREADS, S::shared_bytes(n_stages)};

    return queue_kernel(attn_decode<T, KV, D, R, STRIPED>, on, launch_of(args, stream), *args, n_stages);
}

template <class T, class KV, bool STRIPED, int D, int R> static int load(const shared_limits &gpu)
{
    return load_kernel(attn_decode<T, KV, D, R, STRIPED>, (size_t)gpu.block_bytes);
}

/* Warps of a stream where tasks have the most rows. */
template <int D> static constexpr int most_warps()
{
    return D <= 128 ? 4 : 2;
}

template <class T, class KV, bool STRIPED, int D>
static int launch_for_rows(const lf_attn_cuda_args *args, void *stream)
{
    shared_limits gpu;
    int rc = get_shared_limits(&gpu);
    if (rc != 0) return rc;
    if (args->decode_rows > 32 && fits<KV, D, most_warps<D>()>(gpu, 2, 1))
        return launch<T, KV, STRIPED, D, most_warps<D>()>(args, stream);
    if (args->decode_rows > 16 && fits<KV, D, 2>(gpu, 2, 1)) return launch<T, KV, STRIPED, D, 2>(args, stream);
    return launch<T, KV, STRIPED, D, 1>(args, stream);
}

template <class T, class KV, bool STRIPED = false>
static int launch_for_dim(const lf_attn_cuda_args *args, void *stream)
{
    if (args->head_dim <= 64) return launch_for_rows<T, KV, STRIPED, 64>(args, stream);
    if (args->head_dim <= 128) return launch_for_rows<T, KV, STRIPED, 128>(args, stream);
    return launch_for_rows<T, KV, STRIPED, 256>(args, stream);
}

template <class T, class KV, bool STRIPED, int D> static int setup_dim(const shared_limits &gpu)
{
    int rc = load<T, KV, STRIPED, D, 1>(gpu);
    if (rc == 0) rc = load<T, KV, STRIPED, D, 2>(gpu);
    return rc == 0 ? load<T, KV, STRIPED, D, most_warps<D>()>(gpu) : rc;
}

template <class T, class KV, bool STRIPED = false> static int setup()
{
    shared_limits gpu;
    int rc = get_shared_limits(&gpu);
    if (rc == 0) rc = setup_dim<T, KV, STRIPED, 64>(gpu);
    if (rc == 0) rc = setup_dim<T, KV, STRIPED, 128>(gpu);
    return rc == 0 ? setup_dim<T, KV, STRIPED, 256>(gpu) : rc;
}

#endif
