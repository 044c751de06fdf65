/* The ring of the grouped GEMMs on Hopper whose operands are multiplied as they come (expert_gemm_sm90.cu,
 * expert_gemm_fp8_sm90.cu), and who fills it: one warpgroup, across the ends of tiles. A step is 128 bytes of the depth
 * of x and of w, whatever elements these are.
 *
 * Rows that are gathered: a thread says that a step is there LAG steps later, when its copies of that step are complete
 * and fenced: so LAG + 1 steps are under way, and the ring must have more slots than that.
 *
 * Rows that lie sorted: as in expert_gemv.cu the first weights are on their way before the predecessor has ended.
 *
 * A SHAPE has ROWS and COLUMNS of a tile, and N_SLOTS. */
#ifndef LF_DEVICE_CUDA_EXPERT_RING_CUH
#define LF_DEVICE_CUDA_EXPERT_RING_CUH

#include "device/cuda/expert_gemm.cuh"

enum { GEMM_THREADS = (1 + N_CONSUMERS) * GROUP_THREADS, LAG = 2 };

template <class SHAPE> struct ring_memory {
    static constexpr int N_SLOTS = SHAPE::N_SLOTS, X_BYTES = SHAPE::ROWS * ROW_BYTES;
    static constexpr int W_BYTES = SHAPE::COLUMNS * ROW_BYTES;
    static_assert(LAG + 1 < N_SLOTS, "slots that are neither under way nor published");

    alignas(1024) char x[N_SLOTS][X_BYTES];
    alignas(1024) char w[N_SLOTS][W_BYTES];
    uint64_t full[N_SLOTS], empty[N_SLOTS];
    expert_list<SHAPE::ROWS> list;

    /* In dynamic shared memory of 1,024 bytes more. */
    LF_GPU_MEMBER static ring_memory &in(char *raw)
    {
        return *(ring_memory *)(((uintptr_t)raw + 1023) & ~(uintptr_t)1023);
    }

    /* By one thread. */
    LF_GPU_MEMBER void init(bool by_token)
    {
        for (int i = 0; i < N_SLOTS; i++) {
            mbarrier_init(shared_address(&full[i]), by_token ? 1 + GROUP_THREADS : 1);
            mbarrier_init(shared_address(&empty[i]), N_CONSUMERS * GROUP_WARPS);
        }
        fence_mbarrier_init();
    }
};

template <class SHAPE, bool BY_TOKEN> struct ring_producer {
    using cursor = ring_cursor<SHAPE::N_SLOTS>;

    const gemm_args &args;
    typename SHAPE::memory &smem;
    const CUtensorMap *x_map, *w_map;
    int thread; /* of the warpgroup */
    cursor ring, done;
    int n_begun; /* steps whose copies are not known to be complete */
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
        rows.bring(args, shared_address(smem.x[ring.slot]), step, thread);
        if (++n_begun <= LAG) return;
        cp_async_wait_group<LAG>();
        publish();
    }

    /* Of rows that lie sorted. */
    LF_GPU_MEMBER void bring_rows(const expert_tile &tile, int step) const
    {
        for (int h = 0; h < halves_of(tile); h++)
            cp_async_bulk_tensor_2d(shared_address(smem.x[ring.slot]) + h * HALF_BYTES, x_map, full(ring), step * STEP,
                                    tile.row - args.row0 + h * HALF_ROWS);
    }

    /* By all threads where rows are gathered, else by one. */
    LF_GPU_MEMBER void bring(const expert_tile &tile, int step)
    {
        mbarrier_try_wait_parity(shared_address(&smem.empty[ring.slot]), ring.parity ^ 1);
        if constexpr (BY_TOKEN) {
            if (thread == 0) bring_weights(tile, step, SHAPE::memory::W_BYTES);
            gather(step);
        } else {
            bring_weights(tile, step, SHAPE::memory::W_BYTES + halves_of(tile) * HALF_BYTES);
            bring_rows(tile, step);
        }
        ring.advance();
    }

    /* The first steps of the first tile, as many as there are slots: weights now, rows when the predecessor is
     * complete. Returns how many. */
    LF_GPU_MEMBER int bring_first(const expert_tile &tile)
    {
        int n = min((int)SHAPE::N_SLOTS, args.n_steps);
        cursor begin = ring;
        for (int step = 0; step < n; step++, ring.advance())
            bring_weights(tile, step, SHAPE::memory::W_BYTES + halves_of(tile) * HALF_BYTES);
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
