/* Attention of prefill and of decode tokens for heads of more than 256 channels, sm_80 and later.
 *
 * Idea. Such a row's output is too much for the registers of a warp, so the eight warps of a CTA share all rows: each
 * has 64 of the output's channels. A tile of keys takes three steps with a barrier between them. Scores are computed
 * 16 rows × 16 keys a warp (mma.sync) and put into shared memory; there the four threads of a row turn them into P in
 * their place; then each warp adds P times its channels of V. While scores and P are computed the tile's V is on its
 * way (cp.async), and meanwhile the next tile's K. An FP8 cache's tiles become elements on the way into shared memory.
 *
 * One kernel for both kinds: they differ in where splits end, and in groups, which prefill has none of: each of its
 * splits is one. What a task keeps between splits and groups lies in global memory (attn_cuda.h says what it is).
 *
 * Bits. A row's arithmetic depends on its position, keys, kind and head only: tiles lie at fixed keys, a tile or a key
 * that a row does not see adds P = +0 to sums that started at +0, and how many rows a CTA takes at a time does not
 * show.
 *
 * Work partition: a CTA of 256 threads on each multiprocessor walks the tasks in strides of the grid, 16 · R rows of a
 * task at a time. R = 1 is plain decode.
 *
 * Shared memory: Q, a tile of K and of V, the scores. Decode should be bound by memory, prefill by
 * reading Q and K from shared memory for the scores: three loads of 16 rows for every four MMAs. Needs head_dim
 * divisible by 8, 264 to 512; channels behind the last are zeros up to the next 16. CPU reference: attn_cpu.c. */
#include "device/cuda/launch.cuh"
#include "attention/cuda/attn_mma.cuh"
#include "attention/cuda/kv_fp8.cuh"

enum {
    D = LF_ATTN_CUDA_HEAD_DIM,
    WARPS = 8,
    THREADS = WARPS * WARP,
    CHANNELS = D / WARPS, /* of a warp's part of the output */
    N_TILES = CHANNELS / 8,
    ROW_BYTES = D * 2,
    UNITS = D / UNIT_ELEMS, /* of a row */
    ROW_THREADS = 4,        /* of a row of scores */
    LEVELS = 2              /* of what a task keeps: its group, the groups before */
};
static_assert(sizeof(bf16) == 2 && sizeof(fp16) == 2, "ROW_BYTES");

/* Where things are in shared memory, in bytes, for 16 · R rows and so many keys a tile. */
template <int R, int KEYS> struct shape {
    static constexpr int ROWS = 16 * R, KEY_TILES = KEYS / 16;
    static constexpr int S_STRIDE = KEYS * 4 + 16; /* of a row of scores; its P lie in the first half */
    static constexpr int K = ROWS * ROW_BYTES, V = K + KEYS * ROW_BYTES, S = V + KEYS * ROW_BYTES;
    static constexpr int RESCALE = S + ROWS * S_STRIDE; /* [ROWS] float: what o is multiplied by */
    static constexpr int ML = RESCALE + ROWS * 4;       /* [LEVELS + 1, ROWS] float2: m, l; the split's first */
    static constexpr int FACTORS = ML + (LEVELS + 1) * ROWS * 8; /* [LEVELS, ROWS] float2: scales of a combine */
    static constexpr int BYTES = FACTORS + LEVELS * ROWS * 8;
    /* Row tiles of a warp for whose scores it has the same keys. */
    static constexpr int ROW_STEP = WARPS / KEY_TILES, M = (R + ROW_STEP - 1) / ROW_STEP;
    static_assert(PAGE % KEYS == 0 && LF_ATTN_PREFILL_SPLIT_STEP % KEYS == 0 && LF_ATTN_DECODE_SPLIT_MIN % KEYS == 0,
                  "a tile of keys is in one page and one split");
    static_assert(ROWS * ROW_THREADS <= THREADS && S_STRIDE / UNIT_BYTES % 2 == 1, "rows of scores");
};

/* Of one task and rows row0 … of it. */
struct pass {
    lf_attn_cuda_task task;
    rows_of_task t;
    int table, row0;
    bool decode;
};

LF_GPU_FN int split_end(const lf_attn_cuda_task &task, bool decode, int key)
{
    return decode ? decode_split_end(key) : (key / task.split + 1) * task.split;
}

/* ---- copies ---- */

/* Units of a row that are read: a multiple of 2. */
LF_GPU_FN int units_of(const lf_attn_cuda_args &p)
{
    return (p.head_dim + 15) / 16 * 2;
}

template <class T, int R> LF_GPU_FN void fetch_queries(const lf_attn_cuda_args &p, const pass &a, uint32_t q_tile)
{
    int unit = threadIdx.x % UNITS, head;
    if (unit >= units_of(p)) return;
    for (int row = threadIdx.x / UNITS; row < 16 * R; row += THREADS / UNITS) {
        bool is_there = a.row0 + row < a.t.n_rows && unit * UNIT_ELEMS < p.head_dim;
        const T *from = (const T *)p.q;
        if (is_there) from += head_row_of(p, a.t, a.row0 + row, &head) * p.head_dim + unit * UNIT_ELEMS;
        cp_async_cg_16(q_tile + tile_offset<D>(row, unit), from, is_there ? UNIT_BYTES : 0);
    }
}

/* The same of an FP8 cache, by way of registers: as elements, without a group. */
template <int KEYS>
LF_GPU_FN void fetch_codes(const lf_attn_cuda_args &p, const pass &a, int part, int key0, uint32_t tile)
{
    int unit = threadIdx.x % (UNITS / 2), first = unit * LF_ATTN_FP8_UNIT, n_keys = a.t.n_keys - key0;
    if (key0 >= a.task.key_hi || first >= p.head_dim) return;
    const uint8_t *page = codes_page_of(p, p.tables[a.table + key0 / PAGE], part, a.task.kv_head);
    const uint8_t *scales = kv_scales(page, p.head_dim) + key0 % PAGE;
    page += (size_t)(key0 % PAGE) * p.head_dim + first;
#pragma unroll 4
    for (int key = threadIdx.x / (UNITS / 2); key < KEYS; key += THREADS / (UNITS / 2)) {
        kv_elements x = {};
        if (key < n_keys) x = kv_expand(*(const uint4 *)(page + (size_t)key * p.head_dim), scales[key]);
        st_shared_v4(tile + tile_offset<D>(key, 2 * unit), x.low);
        st_shared_v4(tile + tile_offset<D>(key, 2 * unit + 1), x.high);
    }
}

/* K (part 0) or V (part 1) of the keys from key0 on, as one group; those past the sequence's last become zeros. Behind
 * the task's last tile an empty group. */
template <class T, int KEYS>
LF_GPU_FN void fetch_keys(const lf_attn_cuda_args &p, const pass &a, int part, int key0, uint32_t tile)
{
    int unit = threadIdx.x % UNITS;
    if (p.fp8_page_bytes != 0) {
        fetch_codes<KEYS>(p, a, part, key0, tile);
    } else if (key0 < a.task.key_hi && unit < units_of(p)) {
        const T *page = page_of<T>(p, p.tables[a.table + key0 / PAGE], part, a.task.kv_head);
        int first = unit * UNIT_ELEMS, n_keys = first < p.head_dim ? a.t.n_keys - key0 : 0;
        if (n_keys > 0) page += key0 % PAGE * p.head_dim + first;
#pragma unroll 4
        for (int key = threadIdx.x / UNITS; key < KEYS; key += THREADS / UNITS)
            cp_async_cg_16(tile + tile_offset<D>(key, unit), key < n_keys ? page + key * p.head_dim : page,
                           key < n_keys ? UNIT_BYTES : 0);
    }
    cp_async_commit_group();
}

/* ---- scores and P ---- */

/* QK^T of a tile, into shared memory. */
template <class T, int R, int KEYS> LF_GPU_FN void score(unsigned char *shared, int n_steps)
{
    using S = shape<R, KEYS>;
    int warp = uniform((int)threadIdx.x / WARP), lane = threadIdx.x % WARP;
    int key_tile = warp % S::KEY_TILES, row_tile = warp / S::KEY_TILES;
    if (row_tile >= R) return;
    float s[S::M][2][4];
#pragma unroll
    for (int mi = 0; mi < S::M; mi++) clear_tiles(s[mi]);
    uint32_t q_tile = shared_address(shared), k_tile = q_tile + S::K + key_tile * 16 * ROW_BYTES;
    uint32_t q_lane = tile_lane_qv<D>(q_tile + row_tile * 16 * ROW_BYTES), k_lane = tile_lane_k<D>(k_tile);
#pragma unroll 4
    for (int ks = 0; ks < n_steps; ks++) {
        uint32_t k[4], q[4];
        ldmatrix_x4(k, tile_unit<D>(k_lane, 2 * ks));
#pragma unroll
        for (int mi = 0; mi < S::M; mi++) {
            ldmatrix_x4(q, tile_unit<D>(q_lane, 2 * ks) + mi * S::ROW_STEP * 16 * ROW_BYTES);
            mma_m16n8k16<T>(s[mi][0], q, k[0], k[1]);
            mma_m16n8k16<T>(s[mi][1], q, k[2], k[3]);
        }
    }
#pragma unroll
    for (int mi = 0; mi < S::M; mi++) {
        int row = (row_tile + mi * S::ROW_STEP) * 16 + lane / 4, column = key_tile * 16 + lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < 2; n++) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                unsigned char *to = shared + S::S + (row + 8 * h) * S::S_STRIDE + (column + 8 * n) * 4;
                *(float2 *)to = make_float2(s[mi][n][2 * h], s[mi][n][2 * h + 1]);
            }
        }
    }
}

/* A row of scores in one of its four threads: those of four neighbouring keys of every sixteen. */
struct score_row {
    float m, l; /* the exponents' offset, this thread's share of the sum */
    int pos;
};

/* One step of the online softmax, as softmax_step() of attn_mma.cuh: a row's scores become its P, in their place, and
 * what its o must be multiplied by is left for all warps. key0: position of the first key. */
template <class T, int R, int KEYS>
LF_GPU_FN void make_probs(unsigned char *shared, score_row &row, int key0, const score_scale &scale, int window)
{
    using S = shape<R, KEYS>;
    int i = threadIdx.x / ROW_THREADS, part = threadIdx.x % ROW_THREADS;
    if (i >= S::ROWS) return; /* whole warps */
    unsigned char *at = shared + S::S + i * S::S_STRIDE;
    float4 s[S::KEY_TILES];
    float top = -INFINITY;
#pragma unroll
    for (int n = 0; n < S::KEY_TILES; n++) {
        s[n] = *(const float4 *)(at + (part + 4 * n) * UNIT_BYTES);
        float *e = &s[n].x;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            int key = key0 + 16 * n + 4 * part + k;
            if (scale.cap > 0.0f) e[k] = capped(scale.cap, e[k] * scale.cap_arg);
            e[k] = key <= row.pos && (window == 0 || key > row.pos - window) ? e[k] : -INFINITY;
            top = fmaxf(top, e[k]);
        }
    }
    top = quad_max(top) * scale.factor;
    bool outgrown = top > row.m + LF_ATTN_LAZY;
    float rescale = outgrown ? ex2_approx_ftz(row.m - top) : 1.0f;
    row.m = outgrown ? top : row.m;
    row.l *= rescale;
    float offset = row.m == -INFINITY ? 0.0f : row.m;
    if (part == 0) *(float *)(shared + S::RESCALE + i * 4) = rescale;
    __syncwarp(); /* the row has been read */
#pragma unroll
    for (int n = 0; n < S::KEY_TILES; n++) {
        float *e = &s[n].x;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            e[k] = ex2_approx_ftz(__fmaf_rn(e[k], scale.factor, -offset));
            row.l += e[k];
        }
        *(uint2 *)(at + (part + 4 * n) * (UNIT_BYTES / 2)) = make_uint2(pack<T>(e[0], e[1]), pack<T>(e[2], e[3]));
    }
}

/* ---- outputs: a warp's channels of all rows ---- */

template <int R> struct outputs {
    float o[R][N_TILES][4];
};

template <int R> LF_GPU_FN void clear_outputs(outputs<R> &out)
{
#pragma unroll
    for (int r = 0; r < R; r++) clear_tiles(out.o[r]);
}

/* The row of the CTA's that half h of this thread's accumulators in row tile r are of. */
LF_GPU_FN int row_of(int r, int h)
{
    return 16 * r + threadIdx.x % WARP / 4 + 8 * h;
}

/* O is rescaled, then O += P · V; n_tiles: of 16 channels, of this warp. */
template <class T, int R, int KEYS> LF_GPU_FN void add_pv(outputs<R> &out, unsigned char *shared, int n_tiles)
{
    using S = shape<R, KEYS>;
    int warp = uniform((int)threadIdx.x / WARP), lane = threadIdx.x % WARP;
#pragma unroll
    for (int r = 0; r < R; r++) {
        float rescale[2];
#pragma unroll
        for (int h = 0; h < 2; h++) rescale[h] = *(const float *)(shared + S::RESCALE + row_of(r, h) * 4);
        if (__any_sync(ALL_LANES, rescale[0] != 1.0f || rescale[1] != 1.0f)) rescale_rows(out.o[r], rescale);
    }
    uint32_t p_lane = shared_address(shared) + S::S + lane % 16 * S::S_STRIDE + lane / 16 * UNIT_BYTES;
    uint32_t v_lane = tile_lane_qv<D>(shared_address(shared) + S::V);
#pragma unroll
    for (int n = 0; n < S::KEY_TILES; n++) {
        uint32_t probs[R][4];
#pragma unroll
        for (int r = 0; r < R; r++) ldmatrix_x4(probs[r], p_lane + r * 16 * S::S_STRIDE + n * 2 * UNIT_BYTES);
#pragma unroll
        for (int c = 0; c < CHANNELS / 16; c++) {
            if (c >= n_tiles) break;
            uint32_t v[4];
            ldmatrix_x4_trans(v, tile_unit<D>(v_lane, warp * (CHANNELS / UNIT_ELEMS) + 2 * c) + n * 16 * ROW_BYTES);
#pragma unroll
            for (int r = 0; r < R; r++) {
                mma_m16n8k16<T>(out.o[r][2 * c], probs[r], v[0], v[1]);
                mma_m16n8k16<T>(out.o[r][2 * c + 1], probs[r], v[2], v[3]);
            }
        }
    }
}

/* ---- ends of splits ---- */

enum { OF_SPLIT, OF_GROUP, OF_WHOLE }; /* of m and l */

struct split_edges {
    bool begins_group, ends_group; /* a task's end ends a group */
    bool is_first_group, ends_task;
};

/* m and l of the split, from the row's threads; these begin anew. */
template <int R, int KEYS> LF_GPU_FN void hand_over(unsigned char *shared, score_row &row)
{
    using S = shape<R, KEYS>;
    int i = threadIdx.x / ROW_THREADS;
    if (i >= S::ROWS) return;
    float l = quad_sum(row.l);
    if (threadIdx.x % ROW_THREADS == 0) ((float2 *)(shared + S::ML))[i] = make_float2(row.m, l);
    row.m = -INFINITY;
    row.l = 0.0f;
}

/* m and l of each row's group, or of all, and the factors with which o is combined. A thread a row. */
template <int R, int KEYS> LF_GPU_FN void combine_sums(unsigned char *shared, split_edges at)
{
    using S = shape<R, KEYS>;
    int i = threadIdx.x;
    if (i >= S::ROWS) return;
    float2 *ml = (float2 *)(shared + S::ML) + i, *factors = (float2 *)(shared + S::FACTORS) + i, b = ml[0];
    bool combines[LEVELS] = {!at.begins_group, at.ends_group && !at.is_first_group};
#pragma unroll
    for (int level = 0; level < LEVELS; level++) {
        if (!combines[level]) continue;
        float2 a = ml[(level + 1) * S::ROWS];
        combine_factors j = attn_combine(a.x, a.y, b.x, b.y);
        factors[level * S::ROWS] = make_float2(j.scale_a, j.scale_b);
        b = make_float2(j.m, j.l);
    }
    ml[(at.ends_group ? OF_WHOLE : OF_GROUP) * S::ROWS] = b;
}

/* Where this thread keeps its accumulators of a level: words that lie beside its neighbours'. */
template <int R> LF_GPU_FN float4 *kept_outputs(const lf_attn_cuda_args &p, int level)
{
    return (float4 *)((char *)p.scratch + LF_ATTN_SCRATCH_HEAD) +
           (size_t)(blockIdx.x * LEVELS + level) * R * N_TILES * THREADS + threadIdx.x;
}

template <int R, int KEYS>
LF_GPU_FN void combine_outputs(outputs<R> &out, const float4 *left, unsigned char *shared, int level)
{
    using S = shape<R, KEYS>;
    const float2 *factors = (const float2 *)(shared + S::FACTORS) + level * S::ROWS;
#pragma unroll
    for (int r = 0; r < R; r++) {
        float2 f0 = factors[row_of(r, 0)], f1 = factors[row_of(r, 1)];
        combine_factors j0 = {0.0f, 0.0f, f0.x, f0.y}, j1 = {0.0f, 0.0f, f1.x, f1.y};
#pragma unroll
        for (int n = 0; n < N_TILES; n++) {
            float4 a = left[(r * N_TILES + n) * THREADS];
            out.o[r][n][0] = attn_combine_o(j0, a.x, out.o[r][n][0]);
            out.o[r][n][1] = attn_combine_o(j0, a.y, out.o[r][n][1]);
            out.o[r][n][2] = attn_combine_o(j1, a.z, out.o[r][n][2]);
            out.o[r][n][3] = attn_combine_o(j1, a.w, out.o[r][n][3]);
        }
    }
}

template <int R> LF_GPU_FN void keep_outputs(float4 *to, const outputs<R> &out)
{
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int n = 0; n < N_TILES; n++)
            to[(r * N_TILES + n) * THREADS] =
                make_float4(out.o[r][n][0], out.o[r][n][1], out.o[r][n][2], out.o[r][n][3]);
}

/* Half h of row tile r: a partial row, or output and lse. */
template <class T, bool STRIPED, int R>
LF_GPU_FN void write_half(const lf_attn_cuda_args &p, const pass &a, const outputs<R> &out, int r, int h, float2 ml)
{
    int i = a.row0 + row_of(r, h), first = threadIdx.x / WARP * CHANNELS + threadIdx.x % 4 * 2, head;
    if (i >= a.t.n_rows) return;
    if (a.task.slot >= 0) {
        int64_t row = a.task.slot + i;
        if (first == 0) ((float2 *)p.partial_ml)[row] = ml;
#pragma unroll
        for (int n = 0; n < N_TILES; n++)
            if (first + 8 * n < p.head_dim)
                *(float2 *)(p.partial_o + row * p.head_dim + first + 8 * n) =
                    make_float2(out.o[r][n][2 * h], out.o[r][n][2 * h + 1]);
        return;
    }
    int64_t row = head_row_of(p, a.t, i, &head);
    finish_factors last = attn_finish(ml.x, ml.y, p.sinks ? p.sinks + head : NULL);
    row_place<T> to = place_of_row<T, STRIPED>(p, row);
    if (to.lse && first == 0) *to.lse = last.lse;
#pragma unroll
    for (int n = 0; n < N_TILES; n++)
        if (first + 8 * n < p.head_dim)
            *(uint32_t *)(to.out + first + 8 * n) =
                pack<T>(out.o[r][n][2 * h] * last.factor, out.o[r][n][2 * h + 1] * last.factor);
}

/* Combines the split with its group, an ended group with those before it, and writes the task's last. All threads call
 * it; afterwards all rows begin anew. */
template <class T, int R, int KEYS, bool STRIPED>
LF_GPU_FN void end_split(const lf_attn_cuda_args &p, const pass &a, unsigned char *shared, outputs<R> &out,
                         score_row &row, split_edges at)
{
    using S = shape<R, KEYS>;
    hand_over<R, KEYS>(shared, row);
    __syncthreads();
    combine_sums<R, KEYS>(shared, at);
    __syncthreads();
    float4 *group = kept_outputs<R>(p, 0), *whole = kept_outputs<R>(p, 1);
    if (!at.begins_group) combine_outputs<R, KEYS>(out, group, shared, 0);
    if (at.ends_group && !at.is_first_group) combine_outputs<R, KEYS>(out, whole, shared, 1);
    if (!at.ends_task) keep_outputs(at.ends_group ? whole : group, out);
    if (at.ends_task) {
        const float2 *ml = (const float2 *)(shared + S::ML) + OF_WHOLE * S::ROWS;
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int h = 0; h < 2; h++) write_half<T, STRIPED>(p, a, out, r, h, ml[row_of(r, h)]);
    }
    clear_outputs(out);
}

/* ---- a pass ---- */

/* Rows row0 … row0 + 16 · R - 1 of a task over its keys. */
template <class T, int R, int KEYS, bool STRIPED>
LF_GPU_FN void run_pass(const lf_attn_cuda_args &p, const pass &a, unsigned char *shared)
{
    using S = shape<R, KEYS>;
    uint32_t q_tile = shared_address(shared), k_tile = q_tile + S::K, v_tile = q_tile + S::V;
    int key0 = first_seen_key<STRIPED>(p, a.task, a.t) / KEYS * KEYS, n_steps = units_of(p) / 2;
    int n_tiles = n_steps - (int)threadIdx.x / WARP * (CHANNELS / 16);
    int my_row = a.row0 + (int)threadIdx.x / ROW_THREADS;
    score_row row = {-INFINITY, 0.0f, position_of(a.t, min(my_row, a.t.n_rows - 1))};
    score_scale scale = score_scale_of(p);
    split_edges at = {true, false, true, false};
    outputs<R> out;
    clear_outputs(out);
    fetch_queries<T, R>(p, a, q_tile);
    fetch_keys<T, KEYS>(p, a, 0, key0, k_tile);
    fetch_keys<T, KEYS>(p, a, 1, key0, v_tile);
    for (int end = split_end(a.task, a.decode, key0); key0 < a.task.key_hi; key0 += KEYS) {
        int next = key0 + KEYS;
        cp_async_wait_group<1>();
        __syncthreads();
        score<T, R, KEYS>(shared, n_steps);
        __syncthreads();
        fetch_keys<T, KEYS>(p, a, 0, next, k_tile);
        make_probs<T, R, KEYS>(shared, row, key_position<STRIPED>(p, key0), scale, p.window);
        cp_async_wait_group<1>();
        __syncthreads();
        add_pv<T, R, KEYS>(out, shared, n_tiles);
        __syncthreads();
        fetch_keys<T, KEYS>(p, a, 1, next, v_tile);

        at.ends_task = next >= a.task.key_hi;
        if (!at.ends_task && next < end) continue;
        at.ends_group = at.ends_task || !a.decode || next == decode_group_end(key0);
        end_split<T, R, KEYS, STRIPED>(p, a, shared, out, row, at);
        at.begins_group = at.ends_group;
        at.is_first_group = at.is_first_group && !at.ends_group;
        end = split_end(a.task, a.decode, next);
    }
    cp_async_wait_group<0>();
    __syncthreads();
}

template <class T, int R, int KEYS, bool STRIPED>
__global__ void __launch_bounds__(THREADS, 1) attn_wide(const __grid_constant__ lf_attn_cuda_args p, bool decode)
{
    extern __shared__ __align__(128) unsigned char shared[];
    start_successor();
    wait_predecessor();
    int n_tasks = decode ? p.counts->n_decode : p.counts->n_prefill;
    for (int i = blockIdx.x; i < n_tasks; i += gridDim.x) {
        pass a = {(decode ? p.decode : p.prefill)[i], {}, 0, 0, decode};
        const lf_attn_cuda_seq &seq = p.seqs[a.task.seq_idx];
        a.t = rows_of<STRIPED>(p, seq, a.task);
        a.table = seq.table;
        for (; a.row0 < a.t.n_rows; a.row0 += 16 * R) run_pass<T, R, KEYS, STRIPED>(p, a, shared);
    }
}

/* ---- host ---- */

template <int R, int KEYS> static bool has_room(const shared_limits &gpu)
{
    return shape<R, KEYS>::BYTES <= gpu.block_bytes;
}

template <class T, bool STRIPED, int R, int KEYS>
static int launch(const lf_attn_cuda_args *args, bool decode, int n_tasks, void *stream)
{
    launch_shape on = {(unsigned)min(n_tasks, args->n_sms), THREADS, shape<R, KEYS>::BYTES};
    return queue_kernel(attn_wide<T, R, KEYS, STRIPED>, on, launch_of(args, stream), *args, decode);
}

/* Most rows, or those of plain decode; a tile has as many keys either way, so a row's bits are the same. */
template <class T, bool STRIPED, int R, int KEYS>
static int launch_for_rows(const lf_attn_cuda_args *args, bool decode, int n_tasks, void *stream)
{
    if (decode && args->decode_rows <= 16) return launch<T, STRIPED, 1, KEYS>(args, decode, n_tasks, stream);
    return launch<T, STRIPED, R, KEYS>(args, decode, n_tasks, stream);
}

/* As many rows and keys as there is room for: sm_90, sm_80, others. */
template <class T, bool STRIPED> static int launch_for_gpu(const lf_attn_cuda_args *args, bool decode, void *stream)
{
    shared_limits gpu;
    int rc = get_shared_limits(&gpu), n_tasks = decode ? args->max_decode : args->max_prefill;
    if (rc != 0 || n_tasks == 0) return rc;
    if (has_room<4, 64>(gpu)) return launch_for_rows<T, STRIPED, 4, 64>(args, decode, n_tasks, stream);
    if (has_room<4, 32>(gpu)) return launch_for_rows<T, STRIPED, 4, 32>(args, decode, n_tasks, stream);
    return launch_for_rows<T, STRIPED, 2, 16>(args, decode, n_tasks, stream);
}

template <class T, bool STRIPED, int R, int KEYS> static int load(const shared_limits &gpu)
{
    if (!has_room<R, KEYS>(gpu)) return 0;
    int rc = load_kernel(attn_wide<T, 1, KEYS, STRIPED>, shape<1, KEYS>::BYTES);
    return rc == 0 ? load_kernel(attn_wide<T, R, KEYS, STRIPED>, shape<R, KEYS>::BYTES) : rc;
}

template <class T, bool STRIPED> static int setup()
{
    shared_limits gpu;
    int rc = get_shared_limits(&gpu);
    if (rc == 0) rc = load<T, STRIPED, 4, 64>(gpu);
    if (rc == 0) rc = load<T, STRIPED, 4, 32>(gpu);
    return rc == 0 ? load<T, STRIPED, 2, 16>(gpu) : rc;
}

bool lf_attn_wide_supports(int head_dim)
{
    return head_dim > 256 && head_dim <= D && head_dim % UNIT_ELEMS == 0;
}

size_t lf_attn_wide_scratch_bytes(int head_dim, int n_sms)
{
    (void)head_dim;
    return LF_ATTN_SCRATCH_HEAD + (size_t)n_sms * LEVELS * sizeof(outputs<4>) * THREADS;
}

int lf_attn_wide_setup(void)
{
    int rc = setup<bf16, false>();
    return rc == 0 ? setup<fp16, false>() : rc;
}

int lf_attn_wide_stripe_setup(void)
{
    return setup<bf16, true>();
}

static int launch_for_type(const lf_attn_cuda_args *args, bool decode, void *stream)
{
    if (args->stripe_n > 1)
        return args->fp16 ? (int)cudaErrorNotSupported : launch_for_gpu<bf16, true>(args, decode, stream);
    return args->fp16 ? launch_for_gpu<fp16, false>(args, decode, stream)
                      : launch_for_gpu<bf16, false>(args, decode, stream);
}

int lf_attn_prefill_wide(const struct lf_attn_cuda_args *args, void *stream)
{
    return launch_for_type(args, false, stream);
}

int lf_attn_decode_wide(const struct lf_attn_cuda_args *args, void *stream)
{
    return launch_for_type(args, true, stream);
}
