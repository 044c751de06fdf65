/* Attention of prefill tokens on Hopper: copy engine (TMA), warpgroup MMA (wgmma), warp specialization.
 *
 * Work. A task is a tile of 128 packed query rows over a range of keys (attn_cuda.h). CTAs are persistent, one on each
 * multiprocessor, and take tasks in the order of the list. A producer warp keeps a ring of key and value tiles in
 * shared memory full (attn_prefill_sm90.cuh has the order); two warpgroups of consumers hold 64 query rows each:
 * scores, P and outputs, all in registers.
 *
 * Steps. In a step a consumer issues S(n) = Q·K(n)ᵀ and, behind it, O += P(n-1)·V(n-1), and turns the scores into P(n)
 * as soon as the second GEMM no longer needs the registers of P(n-1). Named barriers give the two consumers turns at
 * issuing, so that one's GEMMs run under the other's softmax.
 *
 * The softmax is online, and optimistic. Any offset serves for a row's exponents as long as nothing overflows, so the
 * usual tile needs no maximum: P is computed with the offset that the row has. Where the sum of some thread's part of a
 * row passes a bound, the row gets another offset, in one of two ways:
 *
 * - Found (attn_rows.cuh). The tile's maximum is taken and made the offset, and P computed again. Where scores have
 *   grown once they may grow on, so the offset then leads the maximum by far. The worst are scores that grow by 2^64
 *   with every tile, 44 in natural units for every 128 keys, all the way: then each tile is exponentiated twice.
 * - Raised (bf16 without lse). The other offset is a power of two apart: P, l and o go down by powers of two, and
 *   nothing is exponentiated again. bf16 has the exponents of float, so there is room (raised_range): a row is brought
 *   down to 2^-72, where a tile may be 2^192 above the one before. Only beyond that, and in the first tile that a row
 *   sees, are maxima taken. The slowest input is the one whose scores grow by that with every tile, 133 and more in
 *   natural units: then each tile is exponentiated twice. Below that, the slowest are scores that pass the bound with
 *   every tile, by 72 and more (61 at head_dim 80 to 128). Products with values below 2^-54 may vanish where a row's
 *   scores have grown so far, and below 2^-62 wherever offsets are integers.
 *
 * What l sums must be what the tensor cores multiply, P as rounded, where P of a key that outweighs all others is no
 * power of two: the row is that key's values exactly then. Of head_dim 64 and 256 it always is (RAISED_INTEGER): four
 * are summed in pairs of elements, rounded again, which loses no more than rounding P does, and of one key's weight
 * nothing. At head_dim 80 to 128 packed sums take the registers that P should be made in, and on normal data the copies
 * cost more than the sums save. So there (RAISED) l sums P before rounding, but in a tile that moves its row's offset
 * by powers of two: a first offset is the maximum itself, with 2^16 of room, and what outgrows that is summed as
 * rounded. lse promises more digits than sums of P as rounded have, so where it is asked for offsets are found.
 *
 * Tiles that all rows see whole skip the mask.
 *
 * Bits. A row's arithmetic depends on its position, keys and head only: tiles lie at fixed keys, a tile or a key that a
 * row does not see adds P = +0 to sums that started at +0, and splits are combined as attn_combine.cuh says.
 *
 * Bound by instructions first, then by power: the tensor cores idle while a warp issues anything else, and at 700 W the
 * clock falls. So what counts is few instructions beside the MMAs: descriptors whose lower word alone moves, values of
 * the loop that the compiler knows to be the same in a warp (`uniform`), no maxima; and tasks in an order in which K
 * and V are found in L2.
 *
 * Registers: at head_dim 128, outputs 64, scores 64, P 32 a thread; at 256, 128, 32 and 16. Shared memory: queries and
 * a ring of 5 to 8 tiles, up to 227 KiB. Needs sm_90a, head_dim 64, 80, 96, 112, 128 or 256, pages of 64 tokens. CPU
 * reference: attn_task.c. */
#include <cuda_runtime.h>

#include "attention/cuda/attn_prefill_rows.cuh"
#include "attention/cuda/attn_prefill_sm90.cuh"
#include "device/cuda/launch.cuh"
#include "device/cuda/ptx_wgmma.cuh"

/* How a row gets another offset (see the top). */
enum offset_rule { FOUND, RAISED, RAISED_INTEGER };

/* Where P may be when offsets are raised. SUM: bound of a thread's part of a row in a tile, past which the row's offset
 * moves; LOST: the bound past which P may not be finite. FIRST, LEAD: by how many powers of two offsets are made larger
 * than the maximum in the first tile of a split that the row sees, and later. By more than 126 powers of two at once l
 * and o are lost, so LEAD is small enough for these to be nothing beside such a tile: 256 tiles of four threads' sums
 * up to SUM are 2^42, and it is 2^(127 - LEAD) or more. */
template <offset_rule RULE> struct raised_range {
    static constexpr float SUM = 0x1p32f, LOST = 0x1p120f, FIRST = 64.0f, LEAD = 72.0f;
};
/* A key that outweighs all before it is exact where it moves its row's offset, so the first tile has little room. */
template <> struct raised_range<RAISED> {
    static constexpr float SUM = 0x1p16f, LOST = 0x1p120f, FIRST = 0.0f, LEAD = 72.0f;
};

/* Both bf16 of a word times 2^-k: their exponents less k, and 0 where that would be below the least. */
LF_GPU_FN uint32_t scale_down_bf16(uint32_t word, int k)
{
    uint32_t less = (uint32_t)(-k * 128) & 0xffff;
    return __viaddmax_s16x2(word, less << 16 | less, 0);
}

/* A score_scale and the window, made without a branch. */
struct score_rule {
    float factor;
    float cap, cap_arg;
    int window;

    LF_GPU_MEMBER static score_rule of(const lf_attn_cuda_args &args)
    {
        bool has_cap = args.softcap > 0.0f;
        return {has_cap ? LF_ATTN_LOG2E : args.scale * LF_ATTN_LOG2E, args.softcap,
                has_cap ? 2.0f * LF_ATTN_LOG2E * args.scale / args.softcap : 0.0f, args.window};
    }
};

/* One consumer warpgroup. Row half h of a thread is row 64 · group + 16 · warp + lane / 4 + 8h of the tile. */
template <class T, int D, offset_rule RULE, bool STRIPED> struct consumer {
    using shape = prefill_shape<D>;
    using range = raised_range<RULE>;
    static constexpr bool FETCHES_EARLY = D <= shape::KEYS;
    static constexpr float BOUND = RULE != FOUND ? range::SUM : offset_bounds<T>::SUM;
    enum { KEYS = shape::KEYS, N_SLOTS = shape::N_SLOTS };

    const lf_attn_cuda_args &args;
    prefill_smem<D> &smem;
    int group_idx; /* 0 or 1 */
    score_rule rule;
    ring_cursor ring;

    float o[D / 2], s[KEYS / 2];
    uint32_t p[KEYS / 16][4];
    float m[2], l[2];
    float4 ml_before; /* m, l of the splits before, where FETCHES_EARLY */
    int position[2];  /* of the thread's rows */

    LF_GPU_MEMBER void hold_scores()
    {
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++) hold(s[i]);
    }
    LF_GPU_MEMBER void hold_outputs()
    {
#pragma unroll
        for (int i = 0; i < D / 2; i++) hold(o[i]);
    }

    LF_GPU_MEMBER void begin_split()
    {
#pragma unroll
        for (int i = 0; i < D / 2; i++) o[i] = 0.0f;
        m[0] = m[1] = -INFINITY;
        l[0] = l[1] = 0.0f;
    }

    /* Each warp for itself: it has read its queries and the task. */
    LF_GPU_MEMBER void release_queries() const
    {
        if (threadIdx.x % WARP == 0) mbarrier_arrive(shared_address(&smem.q_empty));
    }

    /* Rows of the tile that are not the task's become zeros: what lies there, or NaN, would pass for scores that have
     * outgrown their offset, and cost a second look at each tile. */
    LF_GPU_MEMBER void clear_foreign_rows(int n_rows) const
    {
        int first = max(n_rows - 64 * group_idx, 0);
        if (first >= 64) return;
        for (int c = 0; c < shape::N_CHUNKS; c++) {
            int4 *rows = (int4 *)(smem.q + c * shape::Q_CHUNK_BYTES + (64 * group_idx + first) * ROW_BYTES);
            for (int i = threadIdx.x % 128; i < (64 - first) * (ROW_BYTES / 16); i += 128)
                rows[i] = make_int4(0, 0, 0, 0);
        }
        fence_proxy_async();
        bar_sync(3 + group_idx, 128);
    }

    /* S = Q·Kᵀ out of a slot, started. */
    LF_GPU_MEMBER void start_scores(int slot)
    {
        uint32_t keys = wgmma_descriptor_low(shared_address(smem.slots[0]), 16) + slot * (shape::TILE_BYTES / 16);
        uint32_t queries = wgmma_descriptor_low(shared_address(smem.q), 16) + group_idx * (64 * ROW_BYTES / 16);
#pragma unroll
        for (int i = 0; i < D / 16; i++) {
            uint64_t k = wgmma_descriptor(keys, i / 4 * shape::CHUNK_BYTES + i % 4 * 32);
            wgmma_ss<T>(s, wgmma_descriptor(queries, i / 4 * shape::Q_CHUNK_BYTES + i % 4 * 32), k, i != 0);
        }
        wgmma_commit_group();
    }

    /* O += P·V out of a slot, started. */
    LF_GPU_MEMBER void start_outputs(int slot)
    {
        uint32_t values =
            wgmma_descriptor_low(shared_address(smem.slots[0]), shape::CHUNK_BYTES) + slot * (shape::TILE_BYTES / 16);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < KEYS / 16; i++)
            wgmma_rs<T, B_ROWS_DEPTH>(o, p[i], wgmma_descriptor(values, i * 16 * ROW_BYTES), true);
        wgmma_commit_group();
    }

    LF_GPU_MEMBER void mask(int first_key)
    {
        if (rule.cap > 0.0f) {
#pragma unroll
            for (int i = 0; i < KEYS / 2; i++) s[i] = capped(rule.cap, s[i] * rule.cap_arg);
        }
        int key = key_position<STRIPED>(args, first_key) + threadIdx.x % 4 * 2, gap = page_gap<STRIPED>(args);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int last = position[h] - key, first = rule.window > 0 ? last - rule.window + 1 : -KEYS;
#pragma unroll
            for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    int skipped = 8 * j / PAGE * gap;
                    if (8 * j + e > last - skipped || 8 * j + e < first - skipped) s[4 * j + 2 * h + e] = -INFINITY;
                }
        }
    }

    /* Scores to P, and this thread's part of the rows' sums: of P as rounded where offsets are integers. */
    LF_GPU_MEMBER void exponentiate(const float (&offset)[2], float (&sum)[2])
    {
        sum[0] = sum[1] = 0.0f;
#pragma unroll
        for (int i = 0; i < KEYS / 16; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int h = e % 2;
                float a = ex2_approx_ftz(__fmaf_rn(s[8 * i + 2 * e], rule.factor, -offset[h]));
                float b = ex2_approx_ftz(__fmaf_rn(s[8 * i + 2 * e + 1], rule.factor, -offset[h]));
                p[i][e] = pack<T>(a, b);
                if constexpr (RULE != RAISED_INTEGER) sum[h] += a + b;
            }
        if constexpr (RULE == RAISED_INTEGER) add_rounded(sum);
    }

    LF_GPU_MEMBER void add_rounded(float (&sum)[2]) const
    {
#pragma unroll
        for (int i = 0; i < KEYS / 16; i += 2)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                uint32_t first = add_pairs<T>(p[i][h], p[i][h + 2]);
                float2 x = unpack<T>(add_pairs<T>(first, add_pairs<T>(p[i + 1][h], p[i + 1][h + 2])));
                sum[h] += x.x + x.y;
            }
    }

    /* This thread's part of a row's largest score. */
    LF_GPU_MEMBER float top_score(int h) const
    {
        float top = -INFINITY;
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++) top = fmaxf(top, fmaxf(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]));
        return top;
    }

    /* P with a new offset for the rows whose sums passed the bound; their l and o are rescaled. */
    LF_GPU_MEMBER void update_offsets(float (&sum)[2], bool is_first)
    {
        float scale[2], offset[2];
#pragma unroll
        for (int h = 0; h < 2; h++)
            scale[h] = move_offset<T>(top_score(h), sum[h], rule.factor, is_first, m[h], l[h], offset[h]);
        scale_outputs(scale);
        exponentiate(offset, sum);
    }

    /* The same where offsets are raised, for the rows whose P is lost. */
    LF_GPU_MEMBER void find_offsets(const bool (&lost)[2], float (&sum)[2])
    {
        float scale[2], offset[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float top = quad_max(top_score(h)) * rule.factor, old = m[h];
            if (RULE == RAISED_INTEGER) top = ceilf(top);
            if (lost[h]) m[h] = top + (old == -INFINITY ? range::FIRST : range::LEAD);
            offset[h] = m[h] == -INFINITY ? 0.0f : m[h]; /* a row that has seen no key */
            scale[h] = ex2_approx_ftz(old - offset[h]);
            l[h] *= scale[h];
        }
        scale_outputs(scale);
        exponentiate(offset, sum);
    }

    /* Rows whose sums passed the bound go down by powers of two. Of the others nothing changes. most: of the row's four
     * threads' sums. */
    LF_GPU_MEMBER void raise_offsets(const float (&most)[2], float (&sum)[2])
    {
        float scale[2];
        int k[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float old = m[h], by = exponent_of(most[h]) + range::LEAD;
            if (most[h] > range::SUM) m[h] = old + by;
            /* what it went down by: far from 0 not every sum is a float */
            k[h] = most[h] > range::SUM ? __float2int_rn(m[h] - old) : 0;
            scale[h] = ex2_approx_ftz((float)-k[h]);
            l[h] *= scale[h];
            if (RULE == RAISED_INTEGER)
                sum[h] = sum[h] * ex2_approx_ftz((float)-(k[h] / 2)) * ex2_approx_ftz((float)(k[h] / 2 - k[h]));
        }
        scale_outputs(scale);
#pragma unroll
        for (int i = 0; i < KEYS / 16; i++)
#pragma unroll
            for (int e = 0; e < 4; e++) p[i][e] = scale_down_bf16(p[i][e], k[e % 2]);
        if constexpr (RULE == RAISED) {
            float rounded[2] = {0.0f, 0.0f};
            add_rounded(rounded);
#pragma unroll
            for (int h = 0; h < 2; h++) sum[h] = k[h] > 0 ? rounded[h] : sum[h];
        }
    }

    /* Some row of the warp passed the bound. Which of the two ways a row goes is its own affair. */
    LF_GPU_MEMBER void move_offsets(float (&sum)[2], bool is_first)
    {
        if constexpr (RULE != FOUND) {
            float most[2] = {quad_max(sum[0]), quad_max(sum[1])};
            /* a maximum has no NaN, each thread's own sum has */
            bool lost[2] = {quad_any(!(sum[0] <= range::LOST)), quad_any(!(sum[1] <= range::LOST))};
            if (__any_sync(ALL_LANES, lost[0] || lost[1])) {
                find_offsets(lost, sum);
                most[0] = quad_max(sum[0]);
                most[1] = quad_max(sum[1]);
                if (is_first || !__any_sync(ALL_LANES, most[0] > range::SUM || most[1] > range::SUM)) return;
            }
            raise_offsets(most, sum);
        } else
            update_offsets(sum, is_first);
    }

    LF_GPU_MEMBER void scale_outputs(const float (&scale)[2])
    {
#pragma unroll
        for (int i = 0; i < D / 2; i++) o[i] *= scale[i / 2 % 2];
    }

    /* Takes the next slot of the ring, waits until it is full. */
    LF_GPU_MEMBER int take_slot()
    {
        int slot = ring.slot;
        mbarrier_try_wait_parity(shared_address(&smem.full[slot]), ring.parity);
        advance<N_SLOTS>(&ring);
        return slot;
    }

    LF_GPU_MEMBER void release_slot(int slot) const
    {
        if (threadIdx.x % 128 == 0) mbarrier_arrive(shared_address(&smem.empty[slot]));
    }

    /* A split's first key tile. */
    LF_GPU_MEMBER void open_split(int first_key)
    {
        begin_split();
        int k_slot = take_slot();
        bar_sync(1 + group_idx, CONSUMER_THREADS);
        hold_scores();
        wgmma_fence();
        start_scores(k_slot);
        bar_arrive(2 - group_idx, CONSUMER_THREADS);
        wgmma_wait_group<0>();
        hold_scores();
        release_slot(k_slot);
        mask(first_key);
        float sum[2] = {INFINITY, INFINITY};
        move_offsets(sum, true);
        l[0] += sum[0];
        l[1] += sum[1];
    }

    /* A further key tile: its scores, and PV of the tile before. `edge`: some row does not see all of it, or scores are
     * capped. */
    LF_GPU_MEMBER void step(int first_key, bool edge)
    {
        int k_slot = take_slot();
        bar_sync(1 + group_idx, CONSUMER_THREADS);
        hold_scores();
        hold_outputs();
        wgmma_fence();
        start_scores(k_slot);
        int v_slot = take_slot();
        start_outputs(v_slot);
        bar_arrive(2 - group_idx, CONSUMER_THREADS);
        wgmma_wait_group<1>();
        hold_scores();
        release_slot(k_slot);
        if (edge) mask(first_key);
        wgmma_wait_group<0>();
        hold_outputs();
        release_slot(v_slot);
        float sum[2];
        exponentiate(m, sum);
        if (__any_sync(ALL_LANES, !(sum[0] <= BOUND) || !(sum[1] <= BOUND))) move_offsets(sum, false);
        l[0] += sum[0];
        l[1] += sum[1];
    }

    /* PV of the last tile of a split. The scores are done with: where a row's outputs fit into their registers, those
     * of the task's splits before come into these meanwhile. */
    LF_GPU_MEMBER void drain(const split_scratch<D> &scratch, bool begun)
    {
        int v_slot = take_slot();
        hold_outputs();
        start_outputs(v_slot);
        if (begun && FETCHES_EARLY) scratch_load<D>(scratch, s, ml_before);
        wgmma_wait_group<0>();
        hold_outputs();
        release_slot(v_slot);
    }

    /* Completes a split's sums and combines it with the task's splits before. */
    LF_GPU_MEMBER void join_before(const split_scratch<D> &scratch, bool begun)
    {
        l[0] = quad_sum(l[0]);
        l[1] = quad_sum(l[1]);
        if constexpr (RULE != FOUND) normalize_rows<D>(o, m, l);
        if (!begun) return;
        if constexpr (FETCHES_EARLY)
            combine_before<D>([&](int i) { return make_float4(s[4 * i], s[4 * i + 1], s[4 * i + 2], s[4 * i + 3]); },
                              ml_before, o, m, l);
        else
            combine_before<D>([&](int i) { return scratch.word(i + 1); }, scratch.word(0), o, m, l);
    }

    LF_GPU_MEMBER row_target target_of(const lf_attn_cuda_task &task, const lf_attn_cuda_seq &seq, int group) const
    {
        row_target to;
        to.partial = task.slot >= 0;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int i = group_idx * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + 8 * h, row = task.row + i;
            int of_out = (seq.first_token + row / group) * args.n_heads + task.kv_head * group + row % group;
            to.row[h] = i >= task.n_rows ? -1 : to.partial ? task.slot + i : of_out;
        }
        return to;
    }

    LF_GPU_MEMBER void run()
    {
        int group = args.n_heads / args.n_kv_heads, n_tasks = args.counts->n_prefill, parity = 0;
        int tile_row = group_idx * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
        auto scratch = split_scratch<D>::of(args.scratch, group_idx * 128 + threadIdx.x % 128);
        if (group_idx == 1) bar_arrive(1, CONSUMER_THREADS); /* the first turn */
        for (;; parity ^= 1) {
            mbarrier_try_wait_parity(shared_address(&smem.q_full), parity);
            int task_idx = uniform(threadIdx.x % WARP == 0 ? *(volatile int *)&smem.task_idx : 0);
            if (task_idx >= n_tasks) break;
            const lf_attn_cuda_task task = args.prefill[task_idx];
            const lf_attn_cuda_seq seq = args.seqs[task.seq_idx];
            clear_foreign_rows(task.n_rows);
            int position0 = seq.kv_len - seq.n_tokens, first = position0 + task.row / group;
            int last = position0 + (task.row + task.n_rows - 1) / group;
            position[0] = position0 + (task.row + tile_row) / group;
            position[1] = position0 + (task.row + tile_row + 8) / group;
            row_target to = target_of(task, seq, group);
            auto walk = key_walk<KEYS>::template of<STRIPED>(args, task, first, rule.window);
            int seen_by_all = rule.window > 0 ? last - rule.window + 1 : 0; /* from this position to `first` */
            for (int split = task.key_lo; split < task.key_hi; split += walk.split) {
                int begin = uniform(walk.tile_begin(split)), end = uniform(walk.tile_last(split));
                open_split(end * KEYS);
                for (int k = end - 1; k >= begin; k--) {
                    int lowest = key_position<STRIPED>(args, k * KEYS);
                    int highest = key_position<STRIPED>(args, k * KEYS + KEYS - 1);
                    bool edge = lowest < seen_by_all || highest > first || rule.cap > 0.0f;
                    step(k * KEYS, edge);
                }
                if (split + walk.split >= task.key_hi) release_queries();
                to.begun = split > task.key_lo;
                drain(scratch, to.begun);
                to.ends = split + walk.split >= task.key_hi;
                join_before(scratch, to.begun);
                end_split<T, D, STRIPED>(args, scratch, to, o, m, l);
            }
        }
        if (group_idx == 0) bar_sync(1, CONSUMER_THREADS); /* the turn nobody took */
    }
};

template <class T, int D, offset_rule RULE, bool STRIPED>
__global__ void __launch_bounds__(PREFILL_THREADS, 1)
    attn_prefill(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap kv_map,
                 const __grid_constant__ lf_attn_cuda_args args)
{
    extern __shared__ char raw[];
    auto &smem = *(prefill_smem<D> *)(((uintptr_t)raw + 1023) & ~(uintptr_t)1023);
    start_successor();
    if (threadIdx.x == 0) {
        for (int i = 0; i < prefill_shape<D>::N_SLOTS; i++) {
            mbarrier_init(shared_address(&smem.full[i]), 1);
            mbarrier_init(shared_address(&smem.empty[i]), 2);
        }
        mbarrier_init(shared_address(&smem.q_full), 1);
        mbarrier_init(shared_address(&smem.q_empty), CONSUMER_THREADS / WARP);
        mbarrier_init(shared_address(&smem.tail), 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    wait_predecessor();
    int role = uniform((int)threadIdx.x / 128);
    if (role == 0) {
        setmaxnreg_dec<40>();
        if (threadIdx.x < WARP) {
            producer<D, STRIPED> self = {args, smem, &q_map, &kv_map, (int)threadIdx.x, {0, 0}, 0};
            self.run();
        }
    } else {
        setmaxnreg_inc<232>();
        consumer<T, D, RULE, STRIPED> self = {args, smem, role - 1, score_rule::of(args)};
        self.run();
    }
}

/* ---- host ---- */

typedef void prefill_kernel(const CUtensorMap, const CUtensorMap, const lf_attn_cuda_args);

enum { OF_BF16, OF_FP16, WITH_LSE, OF_STRIPE, KERNELS_N };

struct prefill_entry {
    int head_dim;
    size_t smem_bytes;
    prefill_kernel *kernels[KERNELS_N]; /* bf16, fp16, bf16 with lse, bf16 over a stripe */
};

#define ENTRY(d, rule)                                                                                                 \
    {                                                                                                                  \
        d, sizeof(prefill_smem<d>) + 1024,                                                                             \
        {                                                                                                              \
            attn_prefill<bf16, d, rule, false>, attn_prefill<fp16, d, FOUND, false>,                                   \
                attn_prefill<bf16, d, FOUND, false>, attn_prefill<bf16, d, FOUND, true>                                \
        }                                                                                                              \
    }
static const prefill_entry entries[] = {ENTRY(64, RAISED_INTEGER), ENTRY(80, RAISED),  ENTRY(96, RAISED),
                                        ENTRY(112, RAISED),        ENTRY(128, RAISED), ENTRY(256, RAISED_INTEGER)};

static const prefill_entry *find_entry(int head_dim)
{
    for (const prefill_entry &e : entries)
        if (e.head_dim == head_dim) return &e;
    return nullptr;
}

/* The driver's cuTensorMapEncodeTiled, found by _setup. */
static decltype(&cuTensorMapEncodeTiled) encode_tiled;

bool lf_attn_prefill_sm90_supports(int head_dim)
{
    return find_entry(head_dim) != nullptr;
}

size_t lf_attn_prefill_sm90_scratch_bytes(int head_dim, int n_sms)
{
    return LF_ATTN_SCRATCH_HEAD + (size_t)n_sms * CONSUMER_THREADS * ((size_t)head_dim / 8 + 1) * sizeof(float4);
}

static int setup(int first_kernel, int end)
{
    void *encode = nullptr;
    cudaDriverEntryPointQueryResult found;
    int rc = (int)cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found);
    if (rc == 0 && found != cudaDriverEntryPointSuccess) rc = (int)cudaErrorNotSupported;
    for (const prefill_entry &entry : entries)
        for (int i = first_kernel; i < end && rc == 0; i++) rc = load_kernel(entry.kernels[i], entry.smem_bytes);
    if (rc == 0) encode_tiled = (decltype(encode_tiled))encode;
    return rc;
}

int lf_attn_prefill_sm90_setup(void)
{
    return setup(OF_BF16, OF_STRIPE);
}

int lf_attn_prefill_sm90_stripe_setup(void)
{
    return setup(OF_STRIPE, KERNELS_N);
}

/* A map of elements whose innermost box is a row of a chunk. dims and box from the innermost outwards; tensors are
 * dense, strides follow from dims. */
static int encode_map(CUtensorMap *map, bool fp16, const void *base, int rank, const cuuint64_t *dims,
                      const cuuint32_t *box)
{
    static const cuuint32_t ones[4] = {1, 1, 1, 1};
    cuuint64_t strides[3], bytes = 2;
    for (int i = 0; i + 1 < rank; i++) strides[i] = bytes *= dims[i];
    CUresult r =
        encode_tiled(map, fp16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, (cuuint32_t)rank,
                     (void *)base, dims, strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                     CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return r == CUDA_SUCCESS ? (int)cudaSuccess : (int)cudaErrorInvalidValue;
}

int lf_attn_prefill_sm90(const struct lf_attn_cuda_args *args, void *stream)
{
    const prefill_entry *entry = find_entry(args->head_dim);
    bool is_other_type = args->fp16 && args->stripe_n > 1;
    if (!entry || !encode_tiled || is_other_type) return (int)cudaErrorNotSupported;
    int n_ctas = min(args->max_prefill, args->n_sms);
    if (n_ctas <= 0) return 0;

    cuuint32_t group = (cuuint32_t)(args->n_heads / args->n_kv_heads);
    cuuint64_t columns = (cuuint64_t)args->head_dim;
    CUtensorMap q_map, kv_map;
    const cuuint64_t q_dims[4] = {columns, group, (cuuint64_t)args->n_kv_heads, (cuuint64_t)args->n_tokens};
    const cuuint32_t q_box[4] = {CHUNK_COLUMNS, group, 1, LF_ATTN_PREFILL_ROWS / group};
    int rc = encode_map(&q_map, args->fp16, args->q, 4, q_dims, q_box);
    if (rc != 0) return rc;
    const cuuint64_t kv_dims[2] = {columns, (cuuint64_t)args->n_blocks * (cuuint64_t)args->block_pages * PAGE};
    const cuuint32_t kv_box[2] = {CHUNK_COLUMNS, PAGE};
    rc = encode_map(&kv_map, args->fp16, args->kv, 2, kv_dims, kv_box);
    if (rc != 0) return rc;

    int kernel = args->stripe_n > 1 ? OF_STRIPE : args->fp16 ? OF_FP16 : args->lse ? WITH_LSE : OF_BF16;
    return queue_kernel(entry->kernels[kernel], {(unsigned)n_ctas, PREFILL_THREADS, entry->smem_bytes},
                        launch_of(args, stream), q_map, kv_map, *args);
}
