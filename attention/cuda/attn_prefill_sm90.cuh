/* Parts of the Hopper prefill kernel (attn_prefill_sm90.cu): the shapes of its tiles, its shared memory, the order in
 * which it walks keys, and the producer that feeds it.
 *
 * The walk. A CTA takes the next task of the list whenever it has brought the last tile of one (task_queue), so
 * that all end at about the same time and the tasks in work are neighbours in the list: they read the same keys. A
 * task's splits ascend; the key tiles of a split descend, from the causal edge to the first tile that some row sees. In
 * a step the scores of a tile are computed and PV of the tile before. So the copy engine brings K(0), K(1), V(0), K(2),
 * V(1) … through one ring of slots, in the order in which they are used, across the ends of splits and tasks. */
#ifndef LF_ATTENTION_CUDA_ATTN_PREFILL_SM90_CUH
#define LF_ATTENTION_CUDA_ATTN_PREFILL_SM90_CUH

#include "attention/cuda/attn_rows.cuh"
#include "device/cuda/ptx_tma.cuh"

enum {
    PREFILL_THREADS = 384, /* a producer warpgroup, of which one warp works, and two of consumers */
    CHUNK_COLUMNS = 64,    /* a row of a chunk is 128 bytes: what the swizzle works on */
    ROW_BYTES = 128,
    SMEM_LIMIT = 232448 /* bytes a CTA may have */
};

/* Which task is the next; at the head of `scratch`. 0 and 0 before a launch, and again after it. */
struct task_queue {
    unsigned n_taken; /* beyond the first of each CTA */
    unsigned n_done;  /* CTAs that take no more */
};
static_assert(sizeof(task_queue) <= LF_ATTN_SCRATCH_HEAD, "zeroed by attn_cuda.c");

/* Tiles for a head_dim of D. Columns are padded to whole chunks; what lies past D is never multiplied. */
template <int D> struct prefill_shape {
    static constexpr int N_CHUNKS = (D + CHUNK_COLUMNS - 1) / CHUNK_COLUMNS;
    static constexpr int KEYS = D <= 128 ? 128 : 64;
    static constexpr int CHUNK_BYTES = KEYS * ROW_BYTES;
    static constexpr int TILE_BYTES = N_CHUNKS * CHUNK_BYTES;
    static constexpr int Q_CHUNK_BYTES = LF_ATTN_PREFILL_ROWS * ROW_BYTES;
    static constexpr int Q_BYTES = N_CHUNKS * Q_CHUNK_BYTES;
    static constexpr int FIT = (SMEM_LIMIT - 2048 - Q_BYTES) / TILE_BYTES;
    static constexpr int N_SLOTS = FIT < 8 ? FIT : 8;
    static_assert(D % 16 == 0 && N_SLOTS >= 4 && LF_ATTN_PREFILL_SPLIT_STEP % KEYS == 0 && KEYS % PAGE == 0, "tiles");
};

template <int D> struct prefill_smem {
    alignas(1024) char q[prefill_shape<D>::Q_BYTES];
    alignas(1024) char slots[prefill_shape<D>::N_SLOTS][prefill_shape<D>::TILE_BYTES];
    uint64_t full[prefill_shape<D>::N_SLOTS], empty[prefill_shape<D>::N_SLOTS];
    uint64_t q_full, q_empty; /* of the queries and the index of their task */
    int task_idx;
    uint64_t tail; /* the tile of values that ends at the last key is here, not yet cleared behind it */
};

/* Where a role is in the ring. */
struct ring_cursor {
    int slot, parity;
};

template <int N> LF_GPU_FN void advance(ring_cursor *r)
{
    if (++r->slot == N) {
        r->slot = 0;
        r->parity ^= 1;
    }
}

/* A task's keys, in tiles of KEYS. */
template <int KEYS> struct key_walk {
    int first_tile; /* no row of the task sees a key before it */
    int first_page; /* nor before this page, which is in that tile */
    int key_lo, key_hi;
    int split; /* length of a split */

    template <bool STRIPED>
    LF_GPU_MEMBER static key_walk of(const lf_attn_cuda_args &args, const lf_attn_cuda_task &task, int first_position,
                                     int window)
    {
        int lo = window > 0 && first_position >= window ? first_position - window + 1 : 0;
        lo = keys_before<STRIPED>(args, lo);
        return {lo / KEYS, lo / PAGE, task.key_lo, task.key_hi, task.split};
    }
    LF_GPU_MEMBER int tile_begin(int begin) const
    {
        int tile = begin / KEYS;
        return tile > first_tile ? tile : first_tile;
    }
    LF_GPU_MEMBER int tile_last(int begin) const
    {
        int end = begin + split;
        return ((end < key_hi ? end : key_hi) - 1) / KEYS;
    }
};

/* The producer: one warp, of which lane 0 issues the copies. */
template <int D, bool STRIPED> struct producer {
    using shape = prefill_shape<D>;
    enum { KEYS = shape::KEYS, N_PAGES = shape::KEYS / PAGE };

    const lf_attn_cuda_args &args;
    prefill_smem<D> &smem;
    const CUtensorMap *q_map, *kv_map;
    int lane;
    ring_cursor ring;
    int tail_parity;

    /* A tile of keys or values to be brought. */
    struct tile {
        int pages[N_PAGES];  /* rows of the map where K of the pages begins */
        int n_rows[N_PAGES]; /* of each, up to the sequence's last key */
    };

    /* Pages before first_page are nobody's to look at, nor are those behind the end: a neighbour's keys lie there in
     * their place, masked. */
    LF_GPU_MEMBER tile find(const int32_t *table, int first_page, int n_keys, int kv_head, int tile_idx) const
    {
        tile t;
        int last = (n_keys - 1) / PAGE;
#pragma unroll
        for (int i = 0; i < N_PAGES; i++) {
            int page = max(tile_idx * N_PAGES + i, first_page);
            int block =
                table[page < last ? page : last]; /* behind the end the last one again: its values are cleared */
            t.pages[i] = (block * args.block_pages + args.layer * 2 * args.n_kv_heads + kv_head) * PAGE;
            t.n_rows[i] = min(max(n_keys - page * PAGE, 0), PAGE);
        }
        return t;
    }

    LF_GPU_MEMBER void copy(const tile &t, int row_offset, uint32_t bar) const
    {
        uint32_t dst = shared_address(smem.slots[ring.slot]);
        mbarrier_arrive_expect_tx(bar, shape::TILE_BYTES);
#pragma unroll
        for (int i = 0; i < N_PAGES; i++)
#pragma unroll
            for (int c = 0; c < shape::N_CHUNKS; c++)
                cp_async_bulk_tensor_2d(dst + c * shape::CHUNK_BYTES + i * PAGE * ROW_BYTES, kv_map, bar,
                                        c * CHUNK_COLUMNS, t.pages[i] + row_offset);
    }

    LF_GPU_MEMBER void wait_empty() const
    {
        mbarrier_try_wait_parity(shared_address(&smem.empty[ring.slot]), ring.parity ^ 1);
    }

    LF_GPU_MEMBER void bring_keys(const tile &t)
    {
        if (lane == 0) {
            wait_empty();
            copy(t, 0, shared_address(&smem.full[ring.slot]));
        }
        advance<shape::N_SLOTS>(&ring);
    }

    LF_GPU_MEMBER void bring_values(const tile &t)
    {
        int row_offset = args.n_kv_heads * PAGE;
        if (t.n_rows[N_PAGES - 1] < PAGE)
            bring_tail(t, row_offset);
        else if (lane == 0) {
            wait_empty();
            copy(t, row_offset, shared_address(&smem.full[ring.slot]));
        }
        advance<shape::N_SLOTS>(&ring);
    }

    /* Values with rows past the last key: they may be NaN, and P = 0 would not remove them. In every page: the
     * sequence's last may also stand in for one before the window. */
    LF_GPU_MEMBER void bring_tail(const tile &t, int row_offset)
    {
        wait_empty();
        if (lane == 0) copy(t, row_offset, shared_address(&smem.tail));
        mbarrier_try_wait_parity(shared_address(&smem.tail), tail_parity);
        tail_parity ^= 1;
        char *slot = smem.slots[ring.slot];
#pragma unroll
        for (int i = 0; i < N_PAGES; i++)
            for (int c = 0; c < shape::N_CHUNKS; c++) {
                int4 *rows = (int4 *)(slot + c * shape::CHUNK_BYTES + (i * PAGE + t.n_rows[i]) * ROW_BYTES);
                int n = (PAGE - t.n_rows[i]) * (ROW_BYTES / 16);
                for (int j = lane; j < n; j += WARP) rows[j] = make_int4(0, 0, 0, 0);
            }
        fence_proxy_async();
        __syncwarp();
        if (lane == 0) mbarrier_arrive(shared_address(&smem.full[ring.slot]));
    }

    LF_GPU_MEMBER void bring_queries(const lf_attn_cuda_seq &seq, const lf_attn_cuda_task &task, int group)
    {
        uint32_t bar = shared_address(&smem.q_full), dst = shared_address(smem.q);
        mbarrier_arrive_expect_tx(bar, LF_ATTN_PREFILL_ROWS / group * group * ROW_BYTES * shape::N_CHUNKS);
#pragma unroll
        for (int c = 0; c < shape::N_CHUNKS; c++)
            cp_async_bulk_tensor_4d(dst + c * shape::Q_CHUNK_BYTES, q_map, bar, c * CHUNK_COLUMNS, 0, task.kv_head,
                                    seq.first_token + task.row / group);
    }

    /* Tells the consumers their next task, or by an index past the end that there is none, as soon as they have read
     * the queries of the one before. */
    LF_GPU_MEMBER void announce(int task_idx, int parity)
    {
        mbarrier_try_wait_parity(shared_address(&smem.q_empty), parity ^ 1);
        if (lane == 0) smem.task_idx = task_idx;
    }

    LF_GPU_MEMBER int next_task() const
    {
        int n = lane == 0 ? (int)atomicAdd(&((task_queue *)args.scratch)->n_taken, 1) : 0;
        return (int)gridDim.x + __shfl_sync(ALL_LANES, n, 0);
    }

    /* The last CTA to end leaves the queue as it was. */
    LF_GPU_MEMBER void end() const
    {
        task_queue *queue = (task_queue *)args.scratch;
        if (lane != 0) return;
        mbarrier_arrive(shared_address(&smem.q_full));
        if (atomicInc(&queue->n_done, gridDim.x - 1) == gridDim.x - 1) atomicExch(&queue->n_taken, 0);
    }

    LF_GPU_MEMBER void run()
    {
        int group = args.n_heads / args.n_kv_heads, n_tasks = args.counts->n_prefill, parity = 0, i = blockIdx.x;
        for (; i < n_tasks; i = next_task(), parity ^= 1) {
            const lf_attn_cuda_task task = args.prefill[i];
            const lf_attn_cuda_seq seq = args.seqs[task.seq_idx];
            const int32_t *table = args.tables + seq.table;
            int first = seq.kv_len - seq.n_tokens + task.row / group, n_keys = keys_before<STRIPED>(args, seq.kv_len);
            auto walk = key_walk<KEYS>::template of<STRIPED>(args, task, first, args.window);
            for (int split = task.key_lo; split < task.key_hi; split += walk.split) {
                int begin = walk.tile_begin(split), end = walk.tile_last(split);
                tile before = find(table, walk.first_page, n_keys, task.kv_head, end);
                bring_keys(before);
                if (split == task.key_lo) { /* behind keys, for which nobody need be done with the task before */
                    announce(i, parity);
                    if (lane == 0) bring_queries(seq, task, group);
                }
                for (int k = end - 1; k >= begin; k--) {
                    tile now = find(table, walk.first_page, n_keys, task.kv_head, k);
                    bring_keys(now);
                    bring_values(before);
                    before = now;
                }
                bring_values(before);
            }
        }
        announce(i, parity);
        end();
    }
};

#endif
