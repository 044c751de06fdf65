/* Attention of prefill tokens over paged KV, sm_80 and later.
 *
 * Idea. A CTA has a tile of up to 128 packed query rows in shared memory and streams their keys past it, a tile of keys
 * at a time, the next one on its way (cp.async) while this one is computed (mma.sync). Scores stay in registers: P,
 * rounded, is operand A of PV. Where a split of keys ends and another follows, the rows' partial results are combined
 * with those of the splits before it, which are kept in global memory (attn_cuda.h).
 *
 * The softmax is optimistic, as in attn_prefill_sm90.cu: P is computed with the offset that a row has, and only where
 * the sum of a thread's part of a row passes a bound (attn_rows.cuh), and in a split's first tile, are the scores
 * computed again, for their maximum to become the offset. So the usual tile has no maximum, no rescaling, and scores
 * that need not be kept once P is computed.
 *
 * Bits. A row's arithmetic depends on its position, keys and head only: tiles lie at fixed keys, and a tile or a key
 * that a row does not see adds P = +0 to sums that started at +0.
 *
 * Work partition: warps share the query rows, 16 · M each. CTAs that outnumber the GPU's room take further tasks from a
 * counter, so that long tiles, which come first, do not hold up the rest.
 *
 * Shared memory: Q, and two tiles each of K and of V.
 *
 * Bound by the tensor cores and what keeps them idle: on an H100 they work 52% to 59% of the time. A warp computes a
 * GEMM or a softmax; overlapping the two takes several warps, few instructions beside the MMAs (addresses are lane
 * offsets, a tile's base and immediates), and at head_dim 256, where there are two warps a scheduler, a PV that runs
 * under the next tile's softmax. There ldmatrix, of 16 rows at a time, takes 72% of what shared memory gives.
 *
 * Needs head_dim divisible by 8 up to 256; it is padded with zeros to 64, 96, 128 or 256 in shared memory.
 * CPU reference: attn_cpu.c. */
#include "device/cuda/launch.cuh"
#include "attention/cuda/attn_mma.cuh"

enum { ROWS = LF_ATTN_PREFILL_ROWS, ROW_TILES = ROWS / 16, COUNTER_BYTES = 256, SHARED_EXTRA = 128 };

template <class T, int D, int N_KEYS> struct shape {
    static constexpr int WARPS = D <= 128 ? 4 : 8, THREADS = WARPS * WARP;
    static constexpr int M = ROW_TILES / WARPS; /* row tiles of a warp */
    static constexpr int KEYS = N_KEYS;         /* of a tile */
    static constexpr int CTAS = D <= 64 ? 3 : D <= 128 ? 2 : 1;
    /* A tile's PV is computed while the next tile's scores become P. That takes registers for both tiles' P; more CTAs,
     * where there is room for them, do the same and better. */
    static constexpr bool DELAYS_PV = D > 128;
    static constexpr int UNITS = D / UNIT_ELEMS, ROW_BYTES = D * (int)sizeof(T);
    static constexpr int Q_BYTES = ROWS * ROW_BYTES, TILE_BYTES = KEYS * ROW_BYTES;
    static constexpr int SHARED_BYTES = Q_BYTES + 4 * TILE_BYTES;
    /* Keys copied at a time: as many as there are threads for, in eights, so that a thread's unit is permuted the same
     * way in every copy. */
    static constexpr int STEP = THREADS / UNITS / 8 * 8, COPIERS = STEP * UNITS;
    static_assert(PAGE % KEYS == 0 && LF_ATTN_PREFILL_SPLIT_STEP % KEYS == 0,
                  "a tile of keys is in one page and one split");
    static_assert(STEP > 0 && KEYS % STEP == 0, "every thread copies as much");
};

/* A lane's offsets into a tile, by the units of a row that ldmatrix reads. */
template <int D> struct lane_offsets {
    static constexpr int PERIOD = tile_swizzle<D>::PERIOD;
    uint32_t of[PERIOD / 2];

    LF_GPU_MEMBER explicit lane_offsets(uint32_t first)
    {
#pragma unroll
        for (int i = 0; i < PERIOD / 2; i++) of[i] = kept(tile_unit<D>(first, 2 * i));
    }
    /* Of units `unit` and `unit` + 1; `unit` is even. */
    LF_GPU_MEMBER uint32_t at(int unit) const
    {
        return of[unit % PERIOD / 2] + (uint32_t)(unit / PERIOD * PERIOD * UNIT_BYTES);
    }
};

/* ---- copies ---- */

/* Fetches the task's queries; rows and channels that are not there become zeros. */
template <class T, int D, int KEYS>
LF_GPU_FN void fetch_queries(const lf_attn_cuda_args &p, const rows_of_task &t, uint32_t q_tile)
{
    using S = shape<T, D, KEYS>;
#pragma unroll 4
    for (int i = threadIdx.x; i < ROWS * S::UNITS; i += S::THREADS) {
        int row = i / S::UNITS, unit = i % S::UNITS, head;
        bool is_there = row < t.n_rows && unit * UNIT_ELEMS < p.head_dim;
        const T *from = (const T *)p.q;
        if (is_there) from += head_row_of(p, t, row, &head) * p.head_dim + unit * UNIT_ELEMS;
        cp_async_cg_16(q_tile + tile_offset<D>(row, unit), from, is_there ? UNIT_BYTES : 0);
    }
}

/* What a thread copies of every tile of keys: a unit of keys `key`, key + STEP, … */
template <class T, int D, int N_KEYS> struct key_copier {
    using S = shape<T, D, N_KEYS>;
    const char *from;         /* of block 0, K */
    uint32_t block_bytes, to; /* a block is less than 4 GiB */
    int n_keys;               /* of the sequence */

    LF_GPU_MEMBER key_copier(const lf_attn_cuda_args &p, int kv_head, int n) : n_keys(n)
    {
        int key = threadIdx.x / S::UNITS, unit = threadIdx.x % S::UNITS;
        to = kept(tile_offset<D>(key, unit));
        from = (const char *)(page_of<T>(p, 0, 0, kv_head) + key * p.head_dim + unit * UNIT_ELEMS);
        block_bytes = p.block_pages * PAGE * p.head_dim * (uint32_t)sizeof(T);
    }

    /* Fetches K (part 0) or V (part 1) of the keys from key0 on; those at or past n_keys become zeros. */
    LF_GPU_MEMBER void fetch(const lf_attn_cuda_args &p, int part, int block, int key0, uint32_t tile) const
    {
        if (S::COPIERS < S::THREADS && threadIdx.x >= S::COPIERS) return;
        int row_bytes = p.head_dim * (int)sizeof(T);
        const char *page = from + (uint64_t)(uint32_t)block * block_bytes;
        if (part == 1) page += p.n_kv_heads * PAGE * row_bytes;
        if (S::KEYS < PAGE) page += key0 % PAGE * row_bytes;
        if (row_bytes == S::ROW_BYTES && key0 + S::KEYS <= n_keys) { /* offsets are constants */
#pragma unroll
            for (int at = 0; at < S::KEYS; at += S::STEP)
                cp_async_cg_16(tile + to + at * S::ROW_BYTES, page + at * S::ROW_BYTES, UNIT_BYTES);
            return;
        }
        int key = key0 + (int)threadIdx.x / S::UNITS, unit = threadIdx.x % S::UNITS;
#pragma unroll 1
        for (int at = 0; at < S::KEYS; at += S::STEP)
            cp_async_cg_16(tile + to + at * S::ROW_BYTES, page + at * row_bytes,
                           unit * UNIT_ELEMS < p.head_dim && key + at < n_keys ? UNIT_BYTES : 0);
    }
};

/* ---- a warp's rows ---- */

template <class T, int D, int N_KEYS> struct warp_rows {
    using S = shape<T, D, N_KEYS>;
    static constexpr float BOUND = offset_bounds<T>::SUM;
    enum { M = S::M, KEYS = S::KEYS };

    const lf_attn_cuda_args &p;
    lane_offsets<D> k_lane, qv_lane;
    uint32_t q_tile;      /* the warp's rows */
    int first_pos;        /* of its first row */
    uint32_t pos_offsets; /* what to add to first_pos for each of the thread's rows, a byte each */
    float factor;         /* makes a score an exponent of two */
    float o[M][D / 8][4];
    float m[M][2], l[M][2];          /* exponents' offsets, shares of the sums */
    uint32_t probs[M][KEYS / 16][4]; /* of the last tile */

    LF_GPU_MEMBER warp_rows(const lf_attn_cuda_args &args, const rows_of_task &t, uint32_t q, int warp)
        : p(args), k_lane(tile_lane_k<D>(0)), qv_lane(tile_lane_qv<D>(0)), q_tile(q + warp * 16 * M * S::ROW_BYTES)
    {
        int first = warp * 16 * M, end = t.n_rows - 1;
        first_pos = uniform(position_of(t, min(first, end)));
        pos_offsets = 0;
#pragma unroll
        for (int i = 0; i < 2 * M; i++) {
            int row = first + 8 * i + (int)threadIdx.x % WARP / 4;
            pos_offsets |= (uint32_t)(position_of(t, min(row, end)) - first_pos) << 8 * i;
        }
        pos_offsets = kept(pos_offsets);
        factor = score_scale_of(p).factor;
    }

    /* No row's position is beyond. */
    LF_GPU_MEMBER int last_pos() const
    {
        return first_pos + 16 * M - 1;
    }

    LF_GPU_MEMBER void begin_split()
    {
#pragma unroll
        for (int mi = 0; mi < M; mi++) {
            clear_tiles(o[mi]);
            m[mi][0] = m[mi][1] = -INFINITY;
            l[mi][0] = l[mi][1] = 0.0f;
        }
    }

    /* Scores of a tile: QK^T, capped, and -inf where a row does not see the key. key0: position of the first. */
    LF_GPU_MEMBER void score(float (&s)[M][KEYS / 8][4], uint32_t k_tile, int key0) const
    {
#pragma unroll
        for (int mi = 0; mi < M; mi++) clear_tiles(s[mi]);
#pragma unroll
        for (int ks = 0; ks < D / 16; ks++) {
            uint32_t q[M][4], k[KEYS / 16][4]; /* read first, all of them: that takes fewer registers */
#pragma unroll
            for (int mi = 0; mi < M; mi++) ldmatrix_x4(q[mi], q_tile + qv_lane.at(2 * ks) + mi * 16 * S::ROW_BYTES);
#pragma unroll
            for (int n = 0; n < KEYS / 16; n++) ldmatrix_x4(k[n], k_tile + k_lane.at(2 * ks) + n * 16 * S::ROW_BYTES);
#pragma unroll
            for (int n = 0; n < KEYS / 16; n++) {
#pragma unroll
                for (int mi = 0; mi < M; mi++) {
                    mma_m16n8k16<T>(s[mi][2 * n], q[mi], k[n][0], k[n][1]);
                    mma_m16n8k16<T>(s[mi][2 * n + 1], q[mi], k[n][2], k[n][3]);
                }
            }
        }
        bool sees_all = key0 + KEYS - 1 <= first_pos && (p.window == 0 || key0 > last_pos() - p.window);
        if (sees_all && p.softcap == 0.0f) return;
#pragma unroll
        for (int mi = 0; mi < M; mi++) {
            int pos[2] = {first_pos + (int)(pos_offsets >> 16 * mi & 255),
                          first_pos + (int)(pos_offsets >> (16 * mi + 8) & 255)};
            if (p.softcap > 0.0f) cap_scores(s[mi], score_scale_of(p));
            if (!sees_all) mask_scores(s[mi], key0, pos, p.window);
        }
    }

    /* Scores to P = 2^(s · factor - offset), and each thread's part of their sums. */
    LF_GPU_MEMBER void exponentiate(uint32_t (&out)[M][KEYS / 16][4], const float (&s)[M][KEYS / 8][4],
                                    const float (&offset)[M][2], float (&sum)[M][2]) const
    {
#pragma unroll
        for (int mi = 0; mi < M; mi++) {
            sum[mi][0] = sum[mi][1] = 0.0f;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    float a = ex2_approx_ftz(__fmaf_rn(s[mi][n][2 * h], factor, -offset[mi][h]));
                    float b = ex2_approx_ftz(__fmaf_rn(s[mi][n][2 * h + 1], factor, -offset[mi][h]));
                    sum[mi][h] += a + b;
                    out[mi][n / 2][n % 2 * 2 + h] = pack<T>(a, b);
                }
            }
        }
    }

    /* Makes the tile's maximum the offset of rows whose sum passed the bound; their l and o are rescaled. */
    LF_GPU_MEMBER void update_offset(const float (&s)[M][KEYS / 8][4], const float (&sum)[M][2], bool is_first,
                                     float (&offset)[M][2])
    {
#pragma unroll
        for (int mi = 0; mi < M; mi++) {
            float scale[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float top = -INFINITY;
#pragma unroll
                for (int n = 0; n < KEYS / 8; n++) top = fmaxf(top, fmaxf(s[mi][n][2 * h], s[mi][n][2 * h + 1]));
                scale[h] = move_offset<T>(top, sum[mi][h], factor, is_first, m[mi][h], l[mi][h], offset[mi][h]);
            }
            rescale_rows(o[mi], scale);
        }
    }

    /* O += P · V. */
    LF_GPU_MEMBER void multiply_pv(uint32_t v_tile)
    {
#pragma unroll
        for (int n = 0; n < KEYS / 16; n++) {
#pragma unroll
            for (int c = 0; c < D / 16; c++) {
                uint32_t v[4];
                ldmatrix_x4_trans(v, v_tile + qv_lane.at(2 * c) + n * 16 * S::ROW_BYTES);
#pragma unroll
                for (int mi = 0; mi < M; mi++) {
                    mma_m16n8k16<T>(o[mi][2 * c], probs[mi][n], v[0], v[1]);
                    mma_m16n8k16<T>(o[mi][2 * c + 1], probs[mi][n], v[2], v[3]);
                }
            }
        }
    }

    /* Adds the tile's sums and, where it is not delayed, its PV. */
    LF_GPU_MEMBER void finish_tile(const float (&sum)[M][2], uint32_t v_tile)
    {
#pragma unroll
        for (int mi = 0; mi < M; mi++)
#pragma unroll
            for (int h = 0; h < 2; h++) l[mi][h] += sum[mi][h];
        if (!S::DELAYS_PV) multiply_pv(v_tile);
    }

    /* A tile of keys from position key0 on, is_first: of a split. Adds its PV, or where PV is delayed that of the tile
     * before: v_tile is the values' tile. */
    LF_GPU_MEMBER void attend(uint32_t k_tile, uint32_t v_tile, int key0, bool is_first)
    {
        float s[M][KEYS / 8][4], sum[M][2], offset[M][2];
        bool passed = true;
#pragma unroll
        for (int mi = 0; mi < M; mi++) sum[mi][0] = sum[mi][1] = INFINITY;
        if (!is_first) {
            uint32_t next[M][KEYS / 16][4];
            score(s, k_tile, key0);
            if (S::DELAYS_PV) multiply_pv(v_tile);
            exponentiate(next, s, m, sum);
            passed = false;
#pragma unroll
            for (int mi = 0; mi < M; mi++) {
                passed = passed || !(sum[mi][0] <= BOUND) || !(sum[mi][1] <= BOUND);
#pragma unroll
                for (int n = 0; n < KEYS / 16; n++)
#pragma unroll
                    for (int e = 0; e < 4; e++) probs[mi][n][e] = next[mi][n][e];
            }
            passed = __any_sync(ALL_LANES, passed);
        }
        if (passed) {
            score(s, k_tile, key0);
            update_offset(s, sum, is_first, offset);
            exponentiate(probs, s, offset, sum);
        }
        finish_tile(sum, v_tile);
    }

    /* Combines the split with those before it; the result is kept for the next split or written. */
    template <bool STRIPED>
    LF_GPU_MEMBER void end_split(const lf_attn_cuda_task &task, int warp, bool is_first, bool is_last)
    {
        rows_of_task t = rows_of(p, p.seqs[task.seq_idx], task);
        partial_tiles<D / 8> *scratch =
            (partial_tiles<D / 8> *)((char *)p.scratch + COUNTER_BYTES) + blockIdx.x * ROW_TILES;
#pragma unroll
        for (int mi = 0; mi < M; mi++) {
            int tile = warp * M + mi;
            row_state state;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                state.m[h] = m[mi][h];
                state.l[h] = quad_sum(l[mi][h]);
            }
            if (!is_first) combine_partial(scratch[tile], o[mi], state);
            if (!is_last) save_partial(scratch[tile], o[mi], state);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                int i = 16 * tile + threadIdx.x % WARP / 4 + 8 * h;
                if (is_last && i < t.n_rows) write_row<T, STRIPED>(p, t, task.slot, i, h, o[mi], state);
            }
        }
    }
};

template <class T, int D, int KEYS, bool STRIPED>
LF_GPU_FN void run_task(const lf_attn_cuda_args &p, int task_idx, uint32_t q_tile)
{
    using S = shape<T, D, KEYS>;
    constexpr int TILE_BYTES = S::TILE_BYTES;
    const lf_attn_cuda_task &task = p.prefill[task_idx];
    const lf_attn_cuda_seq &seq = p.seqs[task.seq_idx];
    rows_of_task t = rows_of<STRIPED>(p, seq, task);
    int split_tiles = uniform(task.split / KEYS);
    int tile = uniform(first_seen_key<STRIPED>(p, task, t) / KEYS), n_tiles = uniform((task.key_hi + KEYS - 1) / KEYS);
    int warp = uniform((int)threadIdx.x / WARP), table = seq.table;
    auto block_of = [&](int i) { return i < n_tiles ? p.tables[table + i * KEYS / PAGE] : 0; };

    /* A step computes a tile and fetches K of the next one, and V of the next one or, where PV is delayed, of its
     * own. */
    uint32_t k_tiles = q_tile + S::Q_BYTES, v_tiles = k_tiles + 2 * TILE_BYTES, stage = 0;
    key_copier<T, D, KEYS> copier(p, task.kv_head, uniform(t.n_keys));
    fetch_queries<T, D, KEYS>(p, t, q_tile);
    int block = block_of(tile);
    copier.fetch(p, 0, block, tile * KEYS, k_tiles);
    if (!S::DELAYS_PV) copier.fetch(p, 1, block, tile * KEYS, v_tiles);
    cp_async_commit_group();

    warp_rows<T, D, KEYS> rows(p, t, q_tile, warp);
    for (bool is_first = true; tile < n_tiles; is_first = false) {
        int begin = tile, end = min(n_tiles, (tile / split_tiles + 1) * split_tiles);
        bool pv_pending = false; /* of the last tile */
        rows.begin_split();
        for (; tile < end; tile++) {
            uint32_t other = stage ^ TILE_BYTES, v_tile = v_tiles + (S::DELAYS_PV ? other : stage);
            int next_block = block_of(tile + 1);
            cp_async_wait_group<0>();
            __syncthreads();
            if (S::DELAYS_PV) copier.fetch(p, 1, block, tile * KEYS, v_tiles + stage);
            if (tile + 1 < n_tiles) {
                copier.fetch(p, 0, next_block, (tile + 1) * KEYS, k_tiles + other);
                if (!S::DELAYS_PV) copier.fetch(p, 1, next_block, (tile + 1) * KEYS, v_tiles + other);
            }
            cp_async_commit_group();
            block = next_block;
            int key0 = key_position<STRIPED>(p, tile * KEYS);
            bool sees = key0 <= rows.last_pos();
            if (sees) rows.attend(k_tiles + stage, v_tile, key0, tile == begin);
            if (!sees && pv_pending) rows.multiply_pv(v_tile);
            pv_pending = S::DELAYS_PV && sees;
            stage = other;
        }
        if (S::DELAYS_PV) {
            cp_async_wait_group<0>();
            __syncthreads();
            if (pv_pending) rows.multiply_pv(v_tiles + (stage ^ TILE_BYTES));
        }
        rows.template end_split<STRIPED>(p.prefill[task_idx], warp, is_first, end == n_tiles);
    }
}

template <class T, int D, int KEYS, bool STRIPED>
__global__ void __launch_bounds__(shape<T, D, KEYS>::THREADS, shape<T, D, KEYS>::CTAS)
    attn_prefill(const __grid_constant__ lf_attn_cuda_args p)
{
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ int next_task;
    start_successor();
    wait_predecessor();
    int n_tasks = p.counts->n_prefill;
    for (int i = blockIdx.x; i < n_tasks; i = next_task) {
        run_task<T, D, KEYS, STRIPED>(p, i, shared_address(shared));
        __syncthreads();
        if (threadIdx.x == 0)
            next_task = (int)gridDim.x < n_tasks ? (int)gridDim.x + atomicAdd((int *)p.scratch, 1) : n_tasks;
        __syncthreads();
    }
}

/* ---- host ---- */

template <class T, bool STRIPED, int D, int KEYS> static int launch(const lf_attn_cuda_args *args, void *stream)
{
    using S = shape<T, D, KEYS>;
    int n_ctas = 0;
    int rc = (int)cudaOccupancyMaxActiveBlocksPerMultiprocessor(&n_ctas, attn_prefill<T, D, KEYS, STRIPED>, S::THREADS,
                                                                S::SHARED_BYTES);
    if (rc != 0) return rc;
    int grid = min(args->max_prefill, min(n_ctas, (int)S::CTAS) * args->n_sms);
    bool counts = grid < args->max_prefill;
    if (counts) rc = (int)cudaMemsetAsync(args->scratch, 0, sizeof(int), (cudaStream_t)stream);
    if (rc != 0) return rc;
    lf_cuda_launch how = launch_of(args, stream);
    how.overlaps = how.overlaps && !counts;
    return queue_kernel(attn_prefill<T, D, KEYS, STRIPED>, {(unsigned)grid, S::THREADS, S::SHARED_BYTES}, how, *args);
}

template <class T, int D, int KEYS> static bool has_room(const shared_limits &gpu)
{
    return shape<T, D, KEYS>::SHARED_BYTES + SHARED_EXTRA <= gpu.block_bytes;
}

/* At head_dim 256 the tiles of keys are as long as there is room for: 64 from sm_90 on, 32 on sm_80, 16 elsewhere. */
template <class T, bool STRIPED> static int launch_for_dim(const lf_attn_cuda_args *args, void *stream)
{
    if (args->head_dim <= 64) return launch<T, STRIPED, 64, 64>(args, stream);
    if (args->head_dim <= 96) return launch<T, STRIPED, 96, 64>(args, stream);
    if (args->head_dim <= 128) return launch<T, STRIPED, 128, 64>(args, stream);
    shared_limits gpu;
    int rc = get_shared_limits(&gpu);
    if (rc != 0) return rc;
    if (has_room<T, 256, 64>(gpu)) return launch<T, STRIPED, 256, 64>(args, stream);
    if (has_room<T, 256, 32>(gpu)) return launch<T, STRIPED, 256, 32>(args, stream);
    return launch<T, STRIPED, 256, 16>(args, stream);
}

template <class T, bool STRIPED, int D, int KEYS> static int load(const shared_limits &gpu)
{
    if (!has_room<T, D, KEYS>(gpu)) return 0;
    return load_kernel(attn_prefill<T, D, KEYS, STRIPED>, shape<T, D, KEYS>::SHARED_BYTES);
}

template <class T, bool STRIPED> static int setup()
{
    shared_limits gpu;
    int rc = get_shared_limits(&gpu);
    if (rc == 0) rc = load<T, STRIPED, 64, 64>(gpu);
    if (rc == 0) rc = load<T, STRIPED, 96, 64>(gpu);
    if (rc == 0) rc = load<T, STRIPED, 128, 64>(gpu);
    if (rc == 0) rc = load<T, STRIPED, 256, 64>(gpu);
    if (rc == 0) rc = load<T, STRIPED, 256, 32>(gpu);
    return rc == 0 ? load<T, STRIPED, 256, 16>(gpu) : rc;
}

bool lf_attn_prefill_mma_supports(int head_dim)
{
    return head_dim >= UNIT_ELEMS && head_dim <= 256 && head_dim % UNIT_ELEMS == 0;
}

int lf_attn_prefill_mma_setup(void)
{
    int rc = setup<bf16, false>();
    return rc == 0 ? setup<fp16, false>() : rc;
}

int lf_attn_prefill_mma_stripe_setup(void)
{
    return setup<bf16, true>();
}

template <int D, int KEYS> static size_t scratch_bytes(int n_sms)
{
    size_t n_tiles = (size_t)shape<bf16, D, KEYS>::CTAS * (size_t)n_sms * ROW_TILES;
    return COUNTER_BYTES + n_tiles * sizeof(partial_tiles<D / 8>);
}

size_t lf_attn_prefill_mma_scratch_bytes(int head_dim, int n_sms)
{
    if (head_dim <= 64) return scratch_bytes<64, 64>(n_sms);
    if (head_dim <= 96) return scratch_bytes<96, 64>(n_sms);
    return head_dim <= 128 ? scratch_bytes<128, 64>(n_sms) : scratch_bytes<256, 64>(n_sms);
}

int lf_attn_prefill_mma(const struct lf_attn_cuda_args *args, void *stream)
{
    if (args->max_prefill == 0) return 0;
    if (args->stripe_n > 1) return args->fp16 ? (int)cudaErrorNotSupported : launch_for_dim<bf16, true>(args, stream);
    return args->fp16 ? launch_for_dim<fp16, false>(args, stream) : launch_for_dim<bf16, false>(args, stream);
}
