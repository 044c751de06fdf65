/* Attention of generated rows over paged KV, sm_80 and later: a task's keys are streamed once past its rows.
 *
 * Idea. Bytes decide, so all of a KV head's rows of a few tokens meet a key while it is in shared memory, and many
 * copies are in flight at any time, also from one task to the next. Two pages of 64 keys, a pair, are cut into four
 * slices of 32; each belongs to a stream, a warp that fetches its slices itself into a ring of its own (cp.async, K and
 * V one after the other), computes 16 rows × 32 keys with mma.sync and keeps its own (m, l, o). A step of a stream is a
 * chain of latencies, about a microsecond; four of them side by side outrun the memory. No warp waits for another until
 * a span ends; then the four are joined, each warp a quarter of the channels, and the span to those before it
 * (attn_cuda.h). Which warps share a task therefore does not show in a row's bits, nor does the number of its
 * neighbours.
 *
 * Work split: one CTA a multiprocessor; CTAs walk the task list in strides of the grid. A stream is R warps of MT · 16
 * rows each, so a CTA of 128 · R threads takes 16 · MT · R rows at a time; a task with more is walked again. One tile of
 * 16 rows is decode as such, more is for several new tokens a step or for many query heads on one KV head; two tiles a
 * warp halve what is read from shared memory, which the tensor cores would wait for.
 *
 * Overlap: before its predecessor is complete the kernel reads what that cannot be writing: the lists, and pages that
 * have no token of this step. Its ring is small enough for the next product's block to be on the multiprocessor too.
 *
 * Shared memory: the rings, n_slots · 4 halves (K or V) of a slice; queries where they do not fit into registers; the
 * streams' m and l; a group's fold, float. A stream that has ended a span leaves its o in the slots that it has just
 * read. Bound by memory. Needs head_dim divisible by 16 up to 256; it is padded with zeros to 64, 128 or 256 on the way
 * into shared memory. CPU twin: attn_cpu.c. */
#include "device/cuda/launch.cuh"
#include "attention/attn_mma.cuh"

enum { STREAMS = 4, SLICE = PAGE / 2, PAIR = 2 * PAGE, MAX_SLOTS = 6, SMALL_SLOTS = 3 };
static_assert(STREAMS * SLICE == PAIR && SLICE % 16 == 0, "four slices a pair; a product is 16 keys deep");
static_assert(LF_ATTN_DECODE_SPAN_MIN % PAIR == 0, "spans are whole pairs");

template <class T, int D, int R, int MT> struct shape {
    static constexpr int THREADS = STREAMS * R * LANES, TILES = R * MT, ROWS = 16 * TILES;
    static constexpr int HALF_BYTES = SLICE * D * (int)sizeof(T);
    static constexpr bool SHARES_Q = MT > 1 || D > 128; /* in shared memory, else in registers */
    static constexpr int Q_BYTES = SHARES_Q ? ROWS * D * (int)sizeof(T) : 0;
    static constexpr int N = D / 8 / STREAMS;                   /* columns of 8 channels of a warp when streams join */
    static constexpr int KEPT_BYTES = MT * (N + 1) * THREADS * 16; /* of a fold */
    static constexpr int SUMS_BYTES = STREAMS * ROWS * (int)sizeof(float2);
    static_assert(HALF_BYTES == 16 * D * (int)sizeof(float), "a slot holds a stream's o of 16 rows");

    static constexpr size_t shared_bytes(int n_slots)
    {
        return (size_t)n_slots * STREAMS * HALF_BYTES + Q_BYTES + KEPT_BYTES + SUMS_BYTES;
    }
};

/* What a warp knows. */
struct warp_place {
    int stream, member;    /* of the R warps of a stream */
    unsigned char *rings;  /* of all streams */
    uint32_t ring;         /* the stream's */
    uint32_t q_tile;       /* the CTA's, where queries are shared */
    float2 *sums;          /* [STREAMS][ROWS]: m and l when streams join */
    float4 *group, *whole; /* folds: of a group in shared memory, of groups in global */
    int n_slots;
};

/* Copies a warp keeps in flight. A stream of one warp replaces a half slice as soon as it has read it; several would
 * have to wait for each other twice, so they replace the one before, which all are done with when they meet. */
template <int R> LF_GPU_FN int n_in_flight(const warp_place &w)
{
    return R == 1 ? w.n_slots : w.n_slots - 1;
}

/* All but the newest n - 1 groups have arrived. */
LF_GPU_FN void wait_for_oldest(int n)
{
    switch (n) {
    case 1:
        cp_async_wait_group<0>();
        break;
    case 2:
        cp_async_wait_group<1>();
        break;
    case 3:
        cp_async_wait_group<2>();
        break;
    case 4:
        cp_async_wait_group<3>();
        break;
    case 5:
        cp_async_wait_group<4>();
        break;
    default:
        cp_async_wait_group<5>();
        break;
    }
    static_assert(MAX_SLOTS == 6, "the cases above");
}

/* What is fetched next: K or V of a pair of a pass over a task. A lane holds the table entry of page (base + lane). */
struct cursor {
    int task_idx, n_tasks, row0, n_rows; /* the pass begins at row0 of the task's rows */
    int pair, n_pairs, n_old_pages;      /* the old ones have no token of this step */
    int part;                            /* 0: K, 1: V */
    int kv_head, kv_len;
    const int32_t *table; /* of the sequence */
    int base, entry;
};

/* The first pair that a row of the task sees. */
LF_GPU_FN int first_pair(const lf_attn_cuda_args &p, const lf_attn_cuda_task &task, const rows_of_task &t)
{
    return (p.window > 0 ? max(task.key_lo, position_of(t, 0) - p.window + 1) : task.key_lo) / PAIR;
}

LF_GPU_FN void begin_pass(cursor &c, const lf_attn_cuda_args &p)
{
    if (c.task_idx >= c.n_tasks) return;
    lf_attn_cuda_task task = p.decode[c.task_idx];
    lf_attn_cuda_seq seq = p.seqs[task.seq_idx];
    c.n_rows = task.n_rows;
    c.pair = first_pair(p, task, rows_of(p, seq, task));
    c.n_pairs = (task.key_hi + PAIR - 1) / PAIR;
    c.n_old_pages = (seq.kv_len - seq.n_rows) / PAGE;
    c.kv_head = task.kv_head;
    c.kv_len = seq.kv_len;
    c.table = p.tables + seq.table;
    c.base = -LANES;
}

/* The stream's page of a pair. */
LF_GPU_FN int page_of_pair(const warp_place &w, int pair)
{
    return 2 * pair + w.stream / 2;
}

LF_GPU_FN int block_of(cursor &c, int page)
{
    if (page >= c.base + LANES) {
        int lane_page = 2 * c.pair + threadIdx.x % LANES;
        c.base = 2 * c.pair;
        c.entry = lane_page * PAGE < c.kv_len ? c.table[lane_page] : 0;
    }
    return __shfl_sync(0xffffffffu, c.entry, page - c.base);
}

/* Fetches this warp's part of the stream's slice of a pair, K or V. Keys at or past kv_len become zeros. */
template <class T, int D, int R>
LF_GPU_FN void fetch_half(const lf_attn_cuda_args &p, const warp_place &w, uint32_t slot, cursor &c)
{
    constexpr int UNITS = D / UNIT_ELEMS, ROWS_AT_ONCE = LANES / UNITS, TURNS = SLICE / ROWS_AT_ONCE / R;
    int lane = threadIdx.x % LANES, unit = lane % UNITS, row = w.member * (SLICE / R) + lane / UNITS;
    int page = page_of_pair(w, c.pair), token = w.stream % 2 * SLICE + row, n_seen = c.kv_len - page * PAGE - token;
    if (unit * UNIT_ELEMS >= p.head_dim) n_seen = 0;
    const T *from = page_of<T>(p, block_of(c, page), c.part, c.kv_head) + token * p.head_dim + unit * UNIT_ELEMS;
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
        int n_bytes = i * ROWS_AT_ONCE < n_seen ? UNIT_BYTES : 0;
        cp_async_cg_16(slot + tile_offset<D>(row + i * ROWS_AT_ONCE, unit), from + i * ROWS_AT_ONCE * p.head_dim,
                       n_bytes);
    }
}

/* Fetches what comes next, of this task or a later one, as one group; an empty one at the end of the list. */
template <class T, int D, int R, int MT>
LF_GPU_FN void fetch_next(const lf_attn_cuda_args &p, const warp_place &w, int slot, cursor &c)
{
    if (c.task_idx < c.n_tasks) {
        fetch_half<T, D, R>(p, w, w.ring + slot * shape<T, D, R, MT>::HALF_BYTES, c);
        c.part ^= 1;
        if (c.part == 0 && ++c.pair == c.n_pairs) {
            c.row0 += shape<T, D, R, MT>::ROWS;
            if (c.row0 >= c.n_rows) {
                c.row0 = 0;
                c.task_idx += gridDim.x;
            }
            begin_pass(c, p);
        }
    }
    cp_async_commit_group();
}

/* A warp's queries as operands A, straight from memory; rows and channels that are not there are zeros. */
template <class T, int D>
LF_GPU_FN void load_queries(uint32_t (&q)[D / 16][4], const lf_attn_cuda_args &p, const rows_of_task &t, int row0)
{
    int column = threadIdx.x % 4 * 2;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int i = row0 + threadIdx.x % LANES / 4 + 8 * h, head;
        bool is_row = i < t.n_rows;
        const uint32_t *from =
            (const uint32_t *)((const T *)p.q + head_row_of(p, t, is_row ? i : 0, &head) * p.head_dim + column);
#pragma unroll
        for (int ks = 0; ks < D / 16; ks++) {
            bool is_there = is_row && ks * 16 < p.head_dim;
            q[ks][h] = is_there ? from[ks * 8] : 0;
            q[ks][h + 2] = is_there ? from[ks * 8 + 4] : 0;
        }
    }
}

/* The queries of a pass in shared memory, for all warps; rows and channels that are not there are zeros. */
template <class T, int D, int ROWS, int THREADS>
LF_GPU_FN void share_queries(uint32_t q_tile, const lf_attn_cuda_args &p, const rows_of_task &t, int row0)
{
    constexpr int UNITS = D / UNIT_ELEMS;
#pragma unroll 4
    for (int i = threadIdx.x; i < ROWS * UNITS; i += THREADS) {
        int row = i / UNITS, unit = i % UNITS, head;
        uint4 x = make_uint4(0, 0, 0, 0);
        if (row0 + row < t.n_rows && unit * UNIT_ELEMS < p.head_dim)
            x = *(const uint4 *)((const T *)p.q + head_row_of(p, t, row0 + row, &head) * p.head_dim +
                                 unit * UNIT_ELEMS);
        st_shared_v4(q_tile + tile_offset<D>(row, unit), x);
    }
    __syncthreads();
}

/* What a warp computes with: MT tiles of 16 rows. */
template <int D, int MT, bool SHARES_Q> struct warp_rows {
    uint32_t q[SHARES_Q ? 1 : D / 16][4];
    uint32_t q_lane; /* else, what this lane hands to ldmatrix for its warp's first tile */
    float o[MT][D / 8][4];
    row_state state[MT];
    int pos[MT][2];
    int first_pos, last_pos; /* of all its rows */
};

template <int D, int MT, bool SHARES_Q> LF_GPU_FN void clear_rows(warp_rows<D, MT, SHARES_Q> &rows)
{
#pragma unroll
    for (int mt = 0; mt < MT; mt++) {
        clear_tiles(rows.o[mt]);
        row_state_init(rows.state[mt]);
    }
}

/* Products of a slice's keys with the queries. */
template <class T, int D, int MT, bool SHARES_Q>
LF_GPU_FN void multiply_keys(float (&s)[MT][SLICE / 8][4], const warp_rows<D, MT, SHARES_Q> &rows, uint32_t keys)
{
    constexpr int TILE_BYTES = 16 * D * (int)sizeof(T);
    uint32_t b[4], lane_keys = tile_lane_k<D>(keys);
#pragma unroll
    for (int mt = 0; mt < MT; mt++) clear_tiles(s[mt]);
#pragma unroll
    for (int ks = 0; ks < D / 16; ks++) {
        uint32_t q[MT][4];
#pragma unroll
        for (int mt = 0; mt < MT; mt++) {
            if (SHARES_Q) {
                ldmatrix_x4(q[mt], tile_unit<D>(rows.q_lane + mt * TILE_BYTES, 2 * ks));
            } else {
#pragma unroll
                for (int i = 0; i < 4; i++) q[mt][i] = rows.q[SHARES_Q ? 0 : ks][i];
            }
        }
#pragma unroll
        for (int n = 0; n < SLICE / 16; n++) {
            ldmatrix_x4(b, tile_unit<D>(lane_keys + n * TILE_BYTES, 2 * ks));
#pragma unroll
            for (int mt = 0; mt < MT; mt++) {
                mma_m16n8k16<T>(s[mt][2 * n], q[mt], b[0], b[1]);
                mma_m16n8k16<T>(s[mt][2 * n + 1], q[mt], b[2], b[3]);
            }
        }
    }
}

/* Products become weights, and the rows' m, l and o follow. */
template <int D, int MT, bool SHARES_Q>
LF_GPU_FN void weigh_keys(float (&s)[MT][SLICE / 8][4], warp_rows<D, MT, SHARES_Q> &rows, int key0,
                          const score_scale &scale, int window)
{
    bool all_seen = key0 + SLICE - 1 <= rows.first_pos && (window == 0 || key0 > rows.last_pos - window);
#pragma unroll
    for (int mt = 0; mt < MT; mt++) {
        float rescale[2];
        if (scale.cap > 0.0f) cap_scores(s[mt], scale);
        if (!all_seen) mask_scores(s[mt], key0, rows.pos[mt], window);
        if (soften(s[mt], rows.state[mt], scale.factor, rescale)) rescale_rows(rows.o[mt], rescale);
    }
}

template <class T, int D, int MT, bool SHARES_Q>
LF_GPU_FN void add_values(warp_rows<D, MT, SHARES_Q> &rows, const float (&s)[MT][SLICE / 8][4], uint32_t values)
{
    constexpr int TILE_BYTES = 16 * D * (int)sizeof(T);
    uint32_t b[4], lane_values = tile_lane_qv<D>(values);
#pragma unroll
    for (int n = 0; n < SLICE / 16; n++) {
        uint32_t weights[MT][4];
#pragma unroll
        for (int mt = 0; mt < MT; mt++) weights_of<T>(weights[mt], s[mt][2 * n], s[mt][2 * n + 1]);
#pragma unroll
        for (int c = 0; c < D / 16; c++) {
            ldmatrix_x4_trans(b, tile_unit<D>(lane_values + n * TILE_BYTES, 2 * c));
#pragma unroll
            for (int mt = 0; mt < MT; mt++) {
                mma_m16n8k16<T>(rows.o[mt][2 * c], weights[mt], b[0], b[1]);
                mma_m16n8k16<T>(rows.o[mt][2 * c + 1], weights[mt], b[2], b[3]);
            }
        }
    }
}

/* ---- the end of a span ---- */

template <int N> LF_GPU_FN void join_tiles(const float4 (&left)[N], float2 (&ml)[2], float (&o)[N][4], row_state &r)
{
    lf_attn_join j[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        j[h] = attn_join(ml[h].x, ml[h].y, r.m[h], r.l[h]);
        r.m[h] = j[h].m;
        r.l[h] = j[h].l;
    }
#pragma unroll
    for (int n = 0; n < N; n++) {
        o[n][0] = attn_join_o(j[0], left[n].x, o[n][0]);
        o[n][1] = attn_join_o(j[0], left[n].y, o[n][1]);
        o[n][2] = attn_join_o(j[1], left[n].z, o[n][2]);
        o[n][3] = attn_join_o(j[1], left[n].w, o[n][3]);
    }
}

/* A fold in memory, the place of a thread: each keeps what it will need itself, so nobody waits for anybody. */
template <int N, int THREADS> LF_GPU_FN void keep_fold(float4 *place, const float (&o)[N][4], const row_state &r)
{
#pragma unroll
    for (int n = 0; n < N; n++) place[n * THREADS] = make_float4(o[n][0], o[n][1], o[n][2], o[n][3]);
    place[N * THREADS] = make_float4(r.m[0], r.l[0], r.m[1], r.l[1]);
}

/* The fold ⊕ o, r. */
template <int N, int THREADS> LF_GPU_FN void join_fold(const float4 *place, float (&o)[N][4], row_state &r)
{
    float4 left[N], sums = place[N * THREADS];
#pragma unroll
    for (int n = 0; n < N; n++) left[n] = place[n * THREADS];
    float2 ml[2] = {make_float2(sums.x, sums.y), make_float2(sums.z, sums.w)};
    join_tiles(left, ml, o, r);
}

/* This warp's channels of 16 rows, joined over the streams, whose m and l begin at `sums` and o at `o_place`. */
template <int N, int ROWS>
LF_GPU_FN void join_streams(float (&o)[N][4], row_state &r, const float2 *sums, const float4 *o_place, int o_stride)
{
    int lane = threadIdx.x % LANES, row = lane / 4;
    float4 left[N];
    float2 ml[2];
#pragma unroll
    for (int s = 0; s < STREAMS; s++) {
#pragma unroll
        for (int n = 0; n < N; n++) {
            left[n] = make_float4(o[n][0], o[n][1], o[n][2], o[n][3]);
            float4 x = o_place[s * o_stride + n * LANES + lane];
            o[n][0] = x.x, o[n][1] = x.y, o[n][2] = x.z, o[n][3] = x.w;
        }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float2 x = sums[s * ROWS + row + 8 * h];
            ml[h] = make_float2(r.m[h], r.l[h]);
            r.m[h] = x.x;
            r.l[h] = x.y;
        }
        if (s > 0) join_tiles(left, ml, o, r);
    }
}

/* Where a span is in its task. */
struct span_place {
    bool begins_group, ends_group; /* a task's end ends a group */
    bool is_first_group, ends_task;
};

/* Joins the streams' results of a span, folds the span into its group, an ended group into those before it, and writes
 * the task's rows at its end. `slot` holds the values just read, and the slot before them the keys: both are free. All
 * warps call it; afterwards all rows start anew. */
template <class T, int D, int R, int MT, bool SHARES_Q>
LF_GPU_FN void end_span(warp_rows<D, MT, SHARES_Q> &rows, const warp_place &w, int slot, span_place at,
                        const lf_attn_cuda_args &p, const rows_of_task &t, int row0, int task_slot)
{
    using S = shape<T, D, R, MT>;
    constexpr int N = S::N, THREADS = S::THREADS;
    int lane = threadIdx.x % LANES, stride = w.n_slots * S::HALF_BYTES / UNIT_BYTES;
    int left = slot < w.member ? slot - w.member + w.n_slots : slot - w.member;
    float4 *o_place = (float4 *)(w.rings + left * S::HALF_BYTES), *own_place = o_place + w.stream * stride;
#pragma unroll
    for (int mt = 0; mt < MT; mt++) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float l = row_sum(rows.state[mt].l[h]);
            float2 *sum = w.sums + w.stream * S::ROWS + 16 * (w.member * MT + mt) + lane / 4 + 8 * h;
            if (lane % 4 == 0) *sum = make_float2(rows.state[mt].m[h], l);
        }
    }
    if (R > 1)
        bar_sync(1 + w.stream, R * LANES); /* the stream's warps have read the slots */
    else
        __syncwarp();
#pragma unroll
    for (int mt = 0; mt < MT; mt++) {
        int tile = w.member * MT + mt;
        float4 *group = w.group + mt * (N + 1) * THREADS, *whole = w.whole + mt * (N + 1) * THREADS;
#pragma unroll
        for (int n = 0; n < D / 8; n++)
            own_place[n * LANES + lane] =
                make_float4(rows.o[mt][n][0], rows.o[mt][n][1], rows.o[mt][n][2], rows.o[mt][n][3]);
        __syncthreads();
        float o[N][4] = {};
        row_state r = {};
        join_streams<N, S::ROWS>(o, r, w.sums + 16 * tile, o_place + w.stream * N * LANES, stride);
        __syncthreads();
        if (!at.begins_group) join_fold<N, THREADS>(group, o, r);
        if (!at.ends_group) {
            keep_fold<N, THREADS>(group, o, r);
            continue;
        }
        if (!at.is_first_group) join_fold<N, THREADS>(whole, o, r);
        if (!at.ends_task) keep_fold<N, THREADS>(whole, o, r);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int i = row0 + 16 * tile + lane / 4 + 8 * h;
            if (at.ends_task && i < t.n_rows) write_row<T>(p, t, task_slot, i, h, o, r, 8 * N * w.stream);
        }
    }
    clear_rows(rows);
}

/* ---- a task ---- */

/* Waits for the half slice in `slot`; then a slot is free to be fetched into, which is returned. */
template <int R> LF_GPU_FN int take_slot(const warp_place &w, int slot)
{
    wait_for_oldest(n_in_flight<R>(w));
    if (R == 1) {
        __syncwarp();
        return slot;
    }
    bar_sync(1 + w.stream, R * LANES);
    return slot == 0 ? w.n_slots - 1 : slot - 1;
}

/* Rows row0 … row0 + ROWS - 1 of a task over its keys; `slot` of the ring holds the first. */
template <class T, int D, int R, int MT>
LF_GPU_FN void run_pass(const lf_attn_cuda_args &p, const lf_attn_cuda_task &task, const rows_of_task &t, int row0,
                        const warp_place &w, cursor &c, int &slot)
{
    using S = shape<T, D, R, MT>;
    warp_rows<D, MT, S::SHARES_Q> rows;
    int warp_row = row0 + 16 * MT * w.member, lane_row = warp_row + threadIdx.x % LANES / 4;
    bool has_rows = warp_row < t.n_rows;
    if constexpr (S::SHARES_Q) {
        share_queries<T, D, S::ROWS, S::THREADS>(w.q_tile, p, t, row0);
        rows.q_lane = tile_lane_qv<D>(w.q_tile + 16 * MT * w.member * D * (int)sizeof(T));
    } else {
        load_queries<T, D>(rows.q, p, t, warp_row);
    }
#pragma unroll
    for (int i = 0; i < 2 * MT; i++) rows.pos[i / 2][i % 2] = position_of(t, min(lane_row + 8 * i, t.n_rows - 1));
    rows.first_pos = position_of(t, min(warp_row, t.n_rows - 1));
    rows.last_pos = position_of(t, min(warp_row + 16 * MT, t.n_rows) - 1);
    clear_rows(rows);

    score_scale scale = score_scale_of(p);
    int pair = first_pair(p, task, t), n_pairs = (task.key_hi + PAIR - 1) / PAIR;
    int span_end = decode_span_end(pair * PAIR);
    span_place at = {true, false, true, false};
    for (; pair < n_pairs; pair++) {
        int key0 = page_of_pair(w, pair) * PAGE + w.stream % 2 * SLICE, next_key = (pair + 1) * PAIR;
        bool is_seen = has_rows && key0 <= rows.last_pos;
        at.ends_task = pair + 1 == n_pairs;
        bool ends_span = at.ends_task || next_key == span_end;
        float s[MT][SLICE / 8][4];

        int free_slot = take_slot<R>(w, slot);
        if (R > 1) fetch_next<T, D, R, MT>(p, w, free_slot, c);
        if (is_seen) multiply_keys<T>(s, rows, w.ring + slot * S::HALF_BYTES);
        if (R == 1) {
            __syncwarp();
            fetch_next<T, D, R, MT>(p, w, free_slot, c);
        }
        slot = slot + 1 == w.n_slots ? 0 : slot + 1;
        if (is_seen) weigh_keys(s, rows, key0, scale, p.window);

        free_slot = take_slot<R>(w, slot);
        if (R > 1 && !ends_span) fetch_next<T, D, R, MT>(p, w, free_slot, c);
        if (is_seen) add_values<T>(rows, s, w.ring + slot * S::HALF_BYTES);
        if (R == 1) __syncwarp();
        if (ends_span) {
            at.ends_group = at.ends_task || decode_group_end(next_key - 1) == next_key;
            end_span<T, D, R, MT>(rows, w, slot, at, p, t, row0, task.slot);
            at.begins_group = at.ends_group;
            at.is_first_group = at.is_first_group && !at.ends_group;
            span_end = decode_span_end(next_key);
        }
        if (R == 1 || ends_span) fetch_next<T, D, R, MT>(p, w, free_slot, c);
        slot = slot + 1 == w.n_slots ? 0 : slot + 1;
    }
}

template <class T, int D, int R, int MT>
__global__ void __launch_bounds__(shape<T, D, R, MT>::THREADS, 1)
    attn_decode(const __grid_constant__ lf_attn_cuda_args p, int n_slots)
{
    extern __shared__ __align__(128) unsigned char shared[];
    using S = shape<T, D, R, MT>;
    int warp = threadIdx.x / LANES;
    unsigned char *behind_rings = shared + n_slots * STREAMS * S::HALF_BYTES;
    warp_place w = {warp / R, warp % R, shared, 0, 0, NULL, NULL, NULL, n_slots};
    w.ring = shared_address(shared) + w.stream * n_slots * S::HALF_BYTES;
    w.q_tile = shared_address(behind_rings);
    w.group = (float4 *)(behind_rings + S::Q_BYTES) + threadIdx.x;
    w.sums = (float2 *)(behind_rings + S::Q_BYTES + S::KEPT_BYTES);
    w.whole = (float4 *)((char *)p.fold + LF_ATTN_PREFILL_FOLD_HEAD + (size_t)blockIdx.x * S::KEPT_BYTES) + threadIdx.x;

    start_successor();
    cursor c = {};
    c.n_tasks = p.counts->n_decode;
    c.task_idx = blockIdx.x;
    begin_pass(c, p);
    int n_fetched = 0, n_first = n_in_flight<R>(w), i = blockIdx.x;
    for (; n_fetched < n_first && c.task_idx < c.n_tasks && page_of_pair(w, c.pair) < c.n_old_pages; n_fetched++)
        fetch_next<T, D, R, MT>(p, w, n_fetched, c);
    lf_attn_cuda_task task = {};
    rows_of_task t = {};
    if (i < c.n_tasks) {
        task = p.decode[i];
        t = rows_of(p, p.seqs[task.seq_idx], task);
    }
    wait_predecessor();
    for (; n_fetched < n_first; n_fetched++) fetch_next<T, D, R, MT>(p, w, n_fetched, c);
    int slot = 0;
    while (i < c.n_tasks) {
        for (int row0 = 0; row0 < t.n_rows; row0 += S::ROWS) run_pass<T, D, R, MT>(p, task, t, row0, w, c, slot);
        i += gridDim.x;
        if (i < c.n_tasks) {
            task = p.decode[i];
            t = rows_of(p, p.seqs[task.seq_idx], task);
        }
    }
}

/* ---- host ---- */

/* Limits of the current device. */
struct gpu_limits {
    int cta_bytes, sm_bytes;
};

static int limits_of_gpu(gpu_limits *out)
{
    int device = 0, rc = (int)cudaGetDevice(&device);
    if (rc == 0) rc = (int)cudaDeviceGetAttribute(&out->cta_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (rc == 0) rc = (int)cudaDeviceGetAttribute(&out->sm_bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
    return rc;
}

template <class T, int D, int R, int MT> static bool fits(const gpu_limits &gpu, int n_slots)
{
    return shape<T, D, R, MT>::shared_bytes(n_slots) <= (size_t)gpu.cta_bytes;
}

/* A ring of 96 KiB is deep enough for tasks of few rows, and leaves room for a block of the next kernel. */
template <class T, int D, int R, int MT> static int launch(const lf_attn_cuda_args *args, void *stream)
{
    gpu_limits gpu;
    int rc = limits_of_gpu(&gpu);
    if (rc != 0) return rc;
    int n_slots = R == 1 && D >= 128 ? SMALL_SLOTS : MAX_SLOTS;
#ifdef LF_EXPERIMENT
    if (getenv("LF_SLOTS")) n_slots = getenv("LF_SLOTS")[0] - '0';
#endif
    while (n_slots > 1 && !fits<T, D, R, MT>(gpu, n_slots)) n_slots--;
    lf_cuda_launch how = {stream, args->fp16, args->overlaps};
    return queue_shared(attn_decode<T, D, R, MT>, dim3((unsigned)min(args->max_decode, args->n_sms)),
                        shape<T, D, R, MT>::THREADS, shape<T, D, R, MT>::shared_bytes(n_slots), how, *args, n_slots);
}

template <class T, int D> static int launch_for_rows(const lf_attn_cuda_args *args, void *stream)
{
    gpu_limits gpu;
    int rc = limits_of_gpu(&gpu);
    if (rc != 0) return rc;
    if constexpr (D <= 128)
        if (args->decode_rows > 32 && fits<T, D, 2, 2>(gpu, 2)) return launch<T, D, 2, 2>(args, stream);
    if (args->decode_rows > 16 && fits<T, D, 2, 1>(gpu, 2)) return launch<T, D, 2, 1>(args, stream);
    return launch<T, D, 1, 1>(args, stream);
}

template <class T> static int launch_for_dim(const lf_attn_cuda_args *args, void *stream)
{
    if (args->head_dim <= 64) return launch_for_rows<T, 64>(args, stream);
    if (args->head_dim <= 128) return launch_for_rows<T, 128>(args, stream);
    return launch_for_rows<T, 256>(args, stream);
}

template <class T, int D, int R, int MT> static int load(const gpu_limits &gpu)
{
    int rc = load_kernel(attn_decode<T, D, R, MT>);
    if (rc != 0) return rc;
    return (int)cudaFuncSetAttribute(attn_decode<T, D, R, MT>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     gpu.cta_bytes);
}

template <class T, int D> static int setup_dim(const gpu_limits &gpu)
{
    int rc = load<T, D, 1, 1>(gpu);
    if (rc == 0) rc = load<T, D, 2, 1>(gpu);
    if constexpr (D <= 128)
        if (rc == 0) rc = load<T, D, 2, 2>(gpu);
    return rc;
}

template <class T> static int setup(const gpu_limits &gpu)
{
    int rc = setup_dim<T, 64>(gpu);
    if (rc == 0) rc = setup_dim<T, 128>(gpu);
    return rc == 0 ? setup_dim<T, 256>(gpu) : rc;
}

bool lf_attn_decode_mma_supports(int head_dim)
{
    return head_dim >= 16 && head_dim <= 256 && head_dim % 16 == 0;
}

size_t lf_attn_decode_mma_fold_bytes(int head_dim, int n_sms)
{
    size_t kept = head_dim <= 64    ? shape<bf16, 64, 2, 2>::KEPT_BYTES
                  : head_dim <= 128 ? shape<bf16, 128, 2, 2>::KEPT_BYTES
                                    : shape<bf16, 256, 2, 1>::KEPT_BYTES;
    return LF_ATTN_PREFILL_FOLD_HEAD + (size_t)n_sms * kept;
}

int lf_attn_decode_mma_setup(void)
{
    gpu_limits gpu;
    int rc = limits_of_gpu(&gpu);
    if (rc == 0) rc = setup<bf16>(gpu);
    return rc == 0 ? setup<fp16>(gpu) : rc;
}

int lf_attn_decode_mma(const struct lf_attn_cuda_args *args, void *stream)
{
    if (args->max_decode == 0) return 0;
    return args->fp16 ? launch_for_dim<fp16>(args, stream) : launch_for_dim<bf16>(args, stream);
}
