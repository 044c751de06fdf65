/* Attention of prompt rows over paged KV, sm_80 and later.
 *
 * Idea. A CTA has a tile of up to 128 packed rows in shared memory and streams their keys past it, a tile of keys at a
 * time, the next one on its way (cp.async) while this one is computed (mma.sync). Scores stay in registers: rounded,
 * they are the next product's operand A. Where a span of keys ends and another follows, the rows' partial results are
 * joined to those of the spans before it, which wait in global memory (attn_cuda.h).
 *
 * Work split: warps share out the rows, 16 · M each. CTAs that outnumber the GPU's room take further tasks from a
 * counter, so that long tiles, which come first, do not hold up the rest.
 * Shared memory: Q, and n_stages tiles of K and of V. Bound by the tensor cores, and by shared memory that feeds them.
 * Needs head_dim divisible by 16 up to 256; it is padded with zeros to 64, 96, 128 or 256 in shared memory.
 * CPU twin: attn_cpu.c. */
#include "device/cuda/launch.cuh"
#include "attention/attn_mma.cuh"

enum { ROWS = LF_ATTN_PREFILL_ROWS, ROW_TILES = ROWS / 16, COUNTER_BYTES = 256, MAX_CTAS_PER_SM = 2 };

template <class T, int D> struct shape {
    static constexpr int WARPS = D <= 128 ? 4 : 8, THREADS = WARPS * LANES;
    static constexpr int M = ROW_TILES / WARPS; /* row tiles of a warp */
    static constexpr int KEYS = D <= 128 ? 64 : 32;
    static constexpr int UNITS = D / UNIT_ELEMS;
    static constexpr int Q_BYTES = ROWS * D * (int)sizeof(T), K_BYTES = KEYS * D * (int)sizeof(T);
    static constexpr int CTAS = D <= 128 ? MAX_CTAS_PER_SM : 1;
    using partial = partial_tiles<D / 8>;
    static_assert(PAGE % KEYS == 0 && LF_ATTN_PREFILL_SPAN % KEYS == 0, "a tile of keys is in one page and one span");
    static_assert(ROWS * UNITS % THREADS == 0 && KEYS * UNITS % THREADS == 0, "every thread copies as much");

    static size_t shared_bytes(int n_stages)
    {
        return (size_t)Q_BYTES + (size_t)n_stages * 2 * K_BYTES;
    }
};

/* Fetches the task's queries; rows and channels that are not there become zeros. */
template <class T, int D>
LF_GPU_FN void fetch_queries(const lf_attn_cuda_args &p, const rows_of_task &t, uint32_t q_tile)
{
    using S = shape<T, D>;
#pragma unroll 4
    for (int i = threadIdx.x; i < ROWS * S::UNITS; i += S::THREADS) {
        int row = i / S::UNITS, unit = i % S::UNITS, head;
        bool is_there = row < t.n_rows && unit * UNIT_ELEMS < p.head_dim;
        const T *from = (const T *)p.q;
        if (is_there) from += head_row_of(p, t, row, &head) * p.head_dim + unit * UNIT_ELEMS;
        cp_async_cg_16(q_tile + tile_offset<D>(row, unit), from, is_there ? UNIT_BYTES : 0);
    }
}

/* Fetches K and V of the keys from key0 on, all of one page; keys at or past kv_len become zeros. */
template <class T, int D>
LF_GPU_FN void fetch_keys(const lf_attn_cuda_args &p, int kv_head, int block, int key0, int kv_len, uint32_t k_tile)
{
    using S = shape<T, D>;
    constexpr int TURNS = S::KEYS * S::UNITS / S::THREADS, STEP = S::THREADS / S::UNITS; /* keys of a turn */
    int key = threadIdx.x / S::UNITS, unit = threadIdx.x % S::UNITS;
    const T *k = page_of<T>(p, block, 0, kv_head) + key0 % PAGE * p.head_dim;
    int64_t to_v = (int64_t)p.n_kv_heads * PAGE * p.head_dim;
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        if (S::THREADS % S::UNITS != 0) { /* turns are no whole rows */
            int i = threadIdx.x + turn * S::THREADS;
            key = i / S::UNITS - turn * STEP;
            unit = i % S::UNITS;
        }
        int at = key + turn * STEP, n_bytes = key0 + at < kv_len && unit * UNIT_ELEMS < p.head_dim ? UNIT_BYTES : 0;
        const T *from = k + at * p.head_dim + unit * UNIT_ELEMS;
        uint32_t to = k_tile + tile_offset<D>(at, unit);
        cp_async_cg_16(to, from, n_bytes);
        cp_async_cg_16(to + S::K_BYTES, from + to_v, n_bytes);
    }
}

/* What a warp computes with. */
template <int D, int M> struct warp_rows {
    float o[M][D / 8][4];
    row_state state[M];
    int pos[M][2];
    int first_pos, last_pos; /* of all its rows */
};

template <int D, int M> LF_GPU_FN void clear_rows(warp_rows<D, M> &rows)
{
#pragma unroll
    for (int mi = 0; mi < M; mi++) {
        clear_tiles(rows.o[mi]);
        row_state_init(rows.state[mi]);
    }
}

/* A warp's rows against a tile of keys. */
template <class T, int D, int M>
LF_GPU_FN void attend_keys(warp_rows<D, M> &rows, uint32_t q_lane, uint32_t k_tile, int key0, const score_scale &scale,
                           int window)
{
    using S = shape<T, D>;
    constexpr int KEYS = S::KEYS, ROW_BYTES = D * (int)sizeof(T);
    float s[M][KEYS / 8][4];
    uint32_t k_lane = tile_lane_k<D>(k_tile), v_lane = tile_lane_qv<D>(k_tile + S::K_BYTES);
#pragma unroll
    for (int mi = 0; mi < M; mi++) clear_tiles(s[mi]);
#pragma unroll
    for (int ks = 0; ks < D / 16; ks++) {
        uint32_t q[M][4], b[4];
#pragma unroll
        for (int mi = 0; mi < M; mi++) ldmatrix_x4(q[mi], tile_unit<D>(q_lane + mi * 16 * ROW_BYTES, 2 * ks));
#pragma unroll
        for (int n = 0; n < KEYS / 16; n++) {
            ldmatrix_x4(b, tile_unit<D>(k_lane + n * 16 * ROW_BYTES, 2 * ks));
#pragma unroll
            for (int mi = 0; mi < M; mi++) {
                mma_m16n8k16<T>(s[mi][2 * n], q[mi], b[0], b[1]);
                mma_m16n8k16<T>(s[mi][2 * n + 1], q[mi], b[2], b[3]);
            }
        }
    }
    bool all_seen = key0 + KEYS - 1 <= rows.first_pos && (window == 0 || key0 > rows.last_pos - window);
    uint32_t weights[M][KEYS / 16][4];
#pragma unroll
    for (int mi = 0; mi < M; mi++) {
        float rescale[2];
        if (scale.cap > 0.0f) cap_scores(s[mi], scale);
        if (!all_seen) mask_scores(s[mi], key0, rows.pos[mi], window);
        if (soften(s[mi], rows.state[mi], scale.factor, rescale)) rescale_rows(rows.o[mi], rescale);
#pragma unroll
        for (int n = 0; n < KEYS / 16; n++) weights_of<T>(weights[mi][n], s[mi][2 * n], s[mi][2 * n + 1]);
    }
#pragma unroll
    for (int n = 0; n < KEYS / 16; n++) {
#pragma unroll
        for (int c = 0; c < D / 16; c++) {
            uint32_t b[4];
            ldmatrix_x4_trans(b, tile_unit<D>(v_lane + n * 16 * ROW_BYTES, 2 * c));
#pragma unroll
            for (int mi = 0; mi < M; mi++) {
                mma_m16n8k16<T>(rows.o[mi][2 * c], weights[mi][n], b[0], b[1]);
                mma_m16n8k16<T>(rows.o[mi][2 * c + 1], weights[mi][n], b[2], b[3]);
            }
        }
    }
}

/* Joins the span to those before it; the fold waits for the next span or is written. The rows start anew. */
template <class T, int D, int M>
LF_GPU_FN void end_span(warp_rows<D, M> &rows, const lf_attn_cuda_args &p, const rows_of_task &t, int warp_row,
                        bool is_first, bool is_last, int slot)
{
    partial_tiles<D / 8> *fold = (partial_tiles<D / 8> *)((char *)p.fold + COUNTER_BYTES) + blockIdx.x * ROW_TILES;
#pragma unroll
    for (int mi = 0; mi < M; mi++) {
        int tile = warp_row / 16 + mi;
        rows.state[mi].l[0] = row_sum(rows.state[mi].l[0]);
        rows.state[mi].l[1] = row_sum(rows.state[mi].l[1]);
        if (!is_first) join_partial(fold[tile], rows.o[mi], rows.state[mi]);
        if (!is_last) put_partial(fold[tile], rows.o[mi], rows.state[mi]);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int i = 16 * tile + threadIdx.x % LANES / 4 + 8 * h;
            if (is_last && i < t.n_rows) write_row<T>(p, t, slot, i, h, rows.o[mi], rows.state[mi]);
        }
    }
    clear_rows(rows);
}

template <class T, int D>
LF_GPU_FN void run_task(const lf_attn_cuda_args &p, const lf_attn_cuda_task &task, const lf_attn_cuda_seq &seq,
                        uint32_t q_tile, int n_stages)
{
    using S = shape<T, D>;
    constexpr int M = S::M, KEYS = S::KEYS;
    rows_of_task t = rows_of(p, seq, task);
    score_scale scale = score_scale_of(p);
    const int32_t *table = p.tables + seq.table;
    int first_seen = p.window > 0 ? max(task.key_lo, position_of(t, 0) - p.window + 1) : task.key_lo;
    int tile = first_seen / KEYS, n_tiles = (task.key_hi + KEYS - 1) / KEYS;
    uint32_t k_tiles = q_tile + S::Q_BYTES;
    fetch_queries<T, D>(p, t, q_tile);
    fetch_keys<T, D>(p, task.kv_head, table[tile * KEYS / PAGE], tile * KEYS, t.kv_len, k_tiles);
    cp_async_commit_group();

    warp_rows<D, M> rows;
    int warp_row = threadIdx.x / LANES * 16 * M;
#pragma unroll
    for (int mi = 0; mi < M; mi++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            rows.pos[mi][h] =
                position_of(t, min(warp_row + 16 * mi + (int)threadIdx.x % LANES / 4 + 8 * h, t.n_rows - 1));
    rows.first_pos = position_of(t, min(warp_row, t.n_rows - 1));
    rows.last_pos = position_of(t, min(warp_row + 16 * M, t.n_rows) - 1);
    clear_rows(rows);
    uint32_t q_lane = tile_lane_qv<D>(q_tile + warp_row * D * (int)sizeof(T));

    bool is_first = true;
    for (int stage = 0; tile < n_tiles; tile++) {
        int next = tile + 1, key0 = tile * KEYS, block = next < n_tiles ? table[next * KEYS / PAGE] : 0;
        cp_async_wait_group<0>();
        __syncthreads();
        if (n_stages == 2 && next < n_tiles)
            fetch_keys<T, D>(p, task.kv_head, block, next * KEYS, t.kv_len, k_tiles + (1 - stage) * 2 * S::K_BYTES);
        cp_async_commit_group();
        if (key0 <= rows.last_pos)
            attend_keys<T, D, M>(rows, q_lane, k_tiles + stage * 2 * S::K_BYTES, key0, scale, p.window);
        if (n_stages == 1) {
            __syncthreads();
            if (next < n_tiles) fetch_keys<T, D>(p, task.kv_head, block, next * KEYS, t.kv_len, k_tiles);
            cp_async_commit_group();
        } else {
            stage = 1 - stage;
        }
        bool is_last = next == n_tiles;
        if (!is_last && next * KEYS % LF_ATTN_PREFILL_SPAN != 0) continue;
        end_span<T, D, M>(rows, p, t, warp_row, is_first, is_last, task.slot);
        is_first = false;
    }
}

template <class T, int D>
__global__ void __launch_bounds__(shape<T, D>::THREADS, shape<T, D>::CTAS)
    attn_prefill(const __grid_constant__ lf_attn_cuda_args p, int n_stages)
{
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ int next_task;
    start_successor();
    wait_predecessor();
    int n_tasks = p.counts->n_prefill;
    for (int i = blockIdx.x; i < n_tasks; i = next_task) {
        lf_attn_cuda_task task = p.prefill[i];
        run_task<T, D>(p, task, p.seqs[task.seq_idx], shared_address(shared), n_stages);
        __syncthreads();
        if (threadIdx.x == 0)
            next_task = (int)gridDim.x < n_tasks ? (int)gridDim.x + atomicAdd((int *)p.fold, 1) : n_tasks;
        __syncthreads();
    }
}

/* ---- host ---- */

/* Tiles of keys that find room twice where this keeps as many CTAs on a multiprocessor. */
template <class T, int D> static int launch(const lf_attn_cuda_args *args, void *stream)
{
    using S = shape<T, D>;
    int device = 0, cta_bytes = 0, rc = (int)cudaGetDevice(&device), n_ctas = 0;
    if (rc == 0) rc = (int)cudaDeviceGetAttribute(&cta_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    int n_stages = S::shared_bytes(2) <= (size_t)cta_bytes ? 2 : 1;
    if (rc == 0)
        rc = (int)cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n_ctas, attn_prefill<T, D>, S::THREADS,
                                                                S::shared_bytes(n_stages));
    if (rc != 0) return rc;
    int grid = min(args->max_prefill, min(n_ctas, (int)S::CTAS) * args->n_sms);
    bool counts = grid < args->max_prefill;
    if (counts) rc = (int)cudaMemsetAsync(args->fold, 0, sizeof(int), (cudaStream_t)stream);
    if (rc != 0) return rc;
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)grid);
    config.blockDim = dim3(S::THREADS);
    config.dynamicSmemBytes = S::shared_bytes(n_stages);
    config.stream = (cudaStream_t)stream;
    config.attrs = &overlap;
    config.numAttrs = args->overlaps && !counts ? 1 : 0;
    return (int)cudaLaunchKernelEx(&config, attn_prefill<T, D>, *args, n_stages);
}

template <class T> static int launch_for_dim(const lf_attn_cuda_args *args, void *stream)
{
    if (args->head_dim <= 64) return launch<T, 64>(args, stream);
    if (args->head_dim <= 96) return launch<T, 96>(args, stream);
    if (args->head_dim <= 128) return launch<T, 128>(args, stream);
    return launch<T, 256>(args, stream);
}

template <class T, int D> static int allow_shared(int cta_bytes)
{
    int bytes = (int)shape<T, D>::shared_bytes(2);
    return (int)cudaFuncSetAttribute(attn_prefill<T, D>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     min(bytes, cta_bytes));
}

template <class T> static int setup(int cta_bytes)
{
    int rc = allow_shared<T, 64>(cta_bytes);
    if (rc == 0) rc = allow_shared<T, 96>(cta_bytes);
    if (rc == 0) rc = allow_shared<T, 128>(cta_bytes);
    return rc == 0 ? allow_shared<T, 256>(cta_bytes) : rc;
}

bool lf_attn_prefill_mma_supports(int head_dim)
{
    return head_dim >= 16 && head_dim <= 256 && head_dim % 16 == 0;
}

int lf_attn_prefill_mma_setup(void)
{
    int device = 0, cta_bytes = 0, rc = (int)cudaGetDevice(&device);
    if (rc == 0) rc = (int)cudaDeviceGetAttribute(&cta_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (rc == 0) rc = setup<bf16>(cta_bytes);
    return rc == 0 ? setup<fp16>(cta_bytes) : rc;
}

size_t lf_attn_prefill_mma_fold_bytes(int head_dim, int n_sms)
{
    size_t tiles = (size_t)MAX_CTAS_PER_SM * (size_t)n_sms * ROW_TILES;
    size_t tile_bytes = head_dim <= 64    ? sizeof(partial_tiles<64 / 8>)
                        : head_dim <= 96  ? sizeof(partial_tiles<96 / 8>)
                        : head_dim <= 128 ? sizeof(partial_tiles<128 / 8>)
                                          : sizeof(partial_tiles<256 / 8>);
    return COUNTER_BYTES + tiles * tile_bytes;
}

int lf_attn_prefill_mma(const struct lf_attn_cuda_args *args, void *stream)
{
    if (args->max_prefill == 0) return 0;
    return args->fp16 ? launch_for_dim<fp16>(args, stream) : launch_for_dim<bf16>(args, stream);
}
