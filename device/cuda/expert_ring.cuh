/* The ring of the grouped GEMMs on Hopper whose operands are multiplied as they come (expert_gemm_sm90.cu,
 * expert_gemm_fp8_sm90.cu), and who fills it: one warpgroup, across the ends of tiles. A step is 128 bytes of the depth
 * of x and of w, whatever elements these are.
 *
 * Rows that are gathered: a thread says that a step is there LAG steps later, when its copies of that step are complete
 * and fenced: so LAG + 1 steps are under way, and the ring must have more slots than that.
 *
 * Rows that lie sorted: as in expert_gemv.cu the first weights are on their way before the predecessor has ended.
 *
 * A SHAPE has ROWS and COLUMNS of a tile, N_SLOTS, and `side`, what is brought beside operands by all threads, if
 * anything (no_side). */
#ifndef LF_DEVICE_CUDA_EXPERT_RING_CUH
#define LF_DEVICE_CUDA_EXPERT_RING_CUH

#include "device/cuda/expert_gemm.cuh"
#include "device/cuda/ptx_copy_barrier.cuh"

enum { GEMM_THREADS = (1 + N_CONSUMERS) * GROUP_THREADS, LAG = 2 };

struct no_side {
    static constexpr bool IS_THERE = false;

    LF_GPU_MEMBER void find(const expert_tile &, int) {}

    template <class MEMORY> LF_GPU_MEMBER void bring(MEMORY &, int, int, int) const {}
};

template <class SHAPE> struct ring_memory {
    static constexpr int N_SLOTS = SHAPE::N_SLOTS, X_BYTES = SHAPE::ROWS * ROW_BYTES;
    static constexpr int W_BYTES = SHAPE::COLUMNS * ROW_BYTES;
    static_assert(LAG + 1 < N_SLOTS, "slots that are neither under way nor published");

    alignas(1024) char x[N_SLOTS][X_BYTES];
    alignas(1024) char w[N_SLOTS][W_BYTES];
    uint64_t full[N_SLOTS], empty[N_SLOTS];
    expert_list<SHAPE::ROWS> list;

    /* By one thread. */
    LF_GPU_MEMBER void init(bool by_token)
    {
        bool by_all = by_token || SHAPE::side::IS_THERE;
        for (int i = 0; i < N_SLOTS; i++) {
            mbarrier_init(shared_address(&full[i]), by_all ? 1 + GROUP_THREADS : 1);
            mbarrier_init(shared_address(&empty[i]), N_CONSUMERS * GROUP_WARPS);
        }
        fence_mbarrier_init();
    }
};

/* In dynamic shared memory, of 1,024 bytes more. */
template <class MEMORY> LF_GPU_FN MEMORY &ring_in(char *raw)
{
    return *(MEMORY *)(((uintptr_t)raw + 1023) & ~(uintptr_t)1023);
}

template <class SHAPE, bool BY_TOKEN> struct ring_producer {
    static constexpr bool BY_ALL = BY_TOKEN || SHAPE::side::IS_THERE; /* threads; else by one */
    using cursor = ring_cursor<SHAPE::N_SLOTS>;

    const gemm_args &args;
    typename SHAPE::memory &smem;
    const CUtensorMap *x_map, *w_map;
    int thread; /* of the warpgroup */
    cursor ring, done;
    int n_begun; /* steps whose copies are not known to be complete */
    typename SHAPE::side side;
    gathered_rows<GROUP_THREADS, SHAPE::ROWS> rows;

    LF_GPU_MEMBER uint32_t full(const cursor &at) const
    {
        return shared_address(&smem.full[at.slot]);
    }

    /* bytes: of the step, all that comes by the copy engine. */
    LF_GPU_MEMBER void bring_weights(const expert_tile &tile, int step, int bytes) const
    {
        mbarrier_arrive_expect_tx(full(ring), bytes);
        cp_async_bulk_tensor_3d(shared_address(smem.w[ring.slot]), w_map, full(ring), step * STEP,
                                tile.column_tile * args.columns, tile.expert);
    }

    /* Of rows by token, copied: says that the oldest step is there. */
    LF_GPU_MEMBER void publish()
    {
        fence_proxy_async();
        mbarrier_arrive(full(done));
        done.advance();
        n_begun--;
    }

    LF_GPU_MEMBER void gather(int step)
    {
        side.bring(smem, ring.slot, step, thread);
        rows.bring(args, shared_address(smem.x[ring.slot]), step, thread);
        if (++n_begun <= LAG) return;
        cp_async_wait_group<LAG>();
        publish();
    }

    /* Of rows that lie sorted. What comes beside them is nothing that the copy engine or wgmma reads, so it says itself
     * that it is there. */
    LF_GPU_MEMBER void bring_rows(const expert_tile &tile, int step) const
    {
        for (int h = 0; h < halves_of(tile) && thread == 0; h++)
            cp_async_bulk_tensor_2d(shared_address(smem.x[ring.slot]) + h * HALF_BYTES, x_map, full(ring), step * STEP,
                                    tile.row - args.row0 + h * HALF_ROWS);
        if (!SHAPE::side::IS_THERE) return;
        side.bring(smem, ring.slot, step, thread);
        cp_async_mbarrier_arrive_noinc(full(ring));
    }

    LF_GPU_MEMBER int step_bytes(const expert_tile &tile) const
    {
        return SHAPE::memory::W_BYTES + (BY_TOKEN ? 0 : halves_of(tile) * HALF_BYTES);
    }

    LF_GPU_MEMBER void bring(const expert_tile &tile, int step)
    {
        mbarrier_try_wait_parity(shared_address(&smem.empty[ring.slot]), ring.parity ^ 1);
        if (thread == 0) bring_weights(tile, step, step_bytes(tile));
        if constexpr (BY_TOKEN)
            gather(step);
        else
            bring_rows(tile, step);
        ring.advance();
    }

    /* The first steps of the first tile, as many as there are slots: weights now, rows when the predecessor is
     * complete. Returns how many. */
    LF_GPU_MEMBER int bring_first(const expert_tile &tile)
    {
        int n = min((int)SHAPE::N_SLOTS, args.n_steps);
        cursor begin = ring;
        for (int step = 0; step < n; step++, ring.advance())
            if (thread == 0) bring_weights(tile, step, step_bytes(tile));
        wait_predecessor();
        ring = begin;
        for (int step = 0; step < n; step++, ring.advance()) bring_rows(tile, step);
        return n;
    }

    LF_GPU_MEMBER void run()
    {
        auto walk = walk_of(smem.list, args);
        bool has_waited = BY_TOKEN;
        for (expert_tile tile; walk.take(tile);) {
            int step = 0;
            if constexpr (BY_TOKEN) rows.find(args, tile, thread);
            side.find(tile, thread);
            if (!has_waited) step = bring_first(tile);
            has_waited = true;
            for (; step < args.n_steps; step++) bring(tile, step);
        }
        if (!has_waited) wait_predecessor();
        cp_async_wait_group<0>();
        while (n_begun > 0) publish();
    }
};

#endif
