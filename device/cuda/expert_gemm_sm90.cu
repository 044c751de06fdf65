/* Grouped GEMM on Hopper: x · w[e]ᵀ of the expert rows of many tokens. Copy engine (TMA), warpgroup MMA (wgmma), warp
 * specialization.
 *
 * Work. A tile is up to 128 rows of one expert by 96, 128 or 256 of its columns (expert_list.cuh), 64 of the depth a
 * step. CTAs are persistent, one on each multiprocessor, and own every gridDim.x-th tile. Producers keep a ring of
 * steps in shared memory full, across the ends of tiles; two warpgroups of consumers have 64 rows each, sums in
 * registers. Where a tile has 64 rows or fewer, the second has nothing to multiply: what a tile costs goes by halves.
 *
 * Operands. Weights come through a map of all experts' matrices, so what lies behind one's last column is zeros, not
 * the next expert. Rows that lie sorted come through a map too. Rows that lie by token are gathered: each thread of the
 * producers' warpgroup copies 16 bytes of rows 16 apart (cp.async) into their places of the swizzle. Rows that
 * are not there are not copied; their sums are nobody's. The ring and who fills it: expert_ring.cuh.
 *
 * Bits. A row's sums run along the depth in the order of the tensor core's instructions, and nothing of that depends on
 * where the row stands or what the others are: its bits are its own, in any step that comes here.
 *
 * Few rows an expert: bound by reading the weights, once for each 128 rows; the ring holds 84 or 96 KiB of them. One
 * token's rows are of as many experts, so how many tiles there are is known before route has run: it takes the width
 * that leaves the multiprocessor with the most columns the fewest. Else by the tensor cores. Registers: 128 sums a
 * thread of the consumers. Shared memory: four steps of 48 KiB, six of 32 or seven of 28, and the list. Pairs of CTAs
 * that share the weights of 256 rows (multicast) were slower at any size: 0.6 of this at 512 rows an expert. Needs
 * sm_90a, n_in and n_out divisible by 8. Any shape: expert_rows.cu. */
#include "device/cuda/expert_ring.cuh"

/* Tiles of so many columns. */
template <int COLUMNS_> struct gemm_shape {
    static constexpr int ROWS = TILE_ROWS, COLUMNS = COLUMNS_, N_SLOTS = COLUMNS == 256 ? 4 : COLUMNS == 128 ? 6 : 7;
    static constexpr float AFTER = 1.0f;
    using side = no_side;
    using memory = ring_memory<gemm_shape>;
};

template <class T, class SHAPE> struct consumer : tile_sums<T, SHAPE> {
    typename SHAPE::memory &smem;
    ring_cursor<SHAPE::N_SLOTS> ring;

    LF_GPU_MEMBER consumer(const gemm_args &args, typename SHAPE::memory &memory, int group, int warp, int lane)
        : tile_sums<T, SHAPE>{args, group, warp, lane}, smem(memory), ring{0, 0}
    {
    }

    LF_GPU_MEMBER int take_slot()
    {
        int slot = ring.slot;
        mbarrier_try_wait_parity(shared_address(&smem.full[slot]), ring.parity);
        ring.advance();
        return slot;
    }

    /* Each warp for itself. */
    LF_GPU_MEMBER void release_slot(int slot) const
    {
        if (this->lane == 0) mbarrier_arrive(shared_address(&smem.empty[slot]));
    }

    LF_GPU_MEMBER void start(int slot)
    {
        int x_at = slot * X_BYTES + this->group * HALF_BYTES;
        uint32_t x = wgmma_descriptor_low(shared_address(smem.x[0]), 16) + x_at / 16;
        uint32_t w = wgmma_descriptor_low(shared_address(smem.w[0]), 16) + slot * (SHAPE::memory::W_BYTES / 16);
        wgmma_fence();
        this->start_step(x, w);
        wgmma_commit_group();
    }

    LF_GPU_MEMBER void multiply()
    {
        this->clear();
        int before = take_slot();
        start(before);
        for (int step = 1; step < this->args.n_steps; step++) {
            int slot = take_slot();
            start(slot);
            wgmma_wait_group<1>();
            release_slot(before);
            before = slot;
        }
        wgmma_wait_group<0>();
        this->hold_sums();
        release_slot(before);
    }

    LF_GPU_MEMBER void pass()
    {
        for (int step = 0; step < this->args.n_steps; step++) release_slot(take_slot());
    }

    LF_GPU_MEMBER void run()
    {
        auto walk = walk_of(smem.list, this->args);
        for (expert_tile tile; walk.take(tile);) {
            if (!this->has_rows(tile)) {
                pass();
                continue;
            }
            multiply();
            this->write(tile);
        }
    }
};

template <class T, bool BY_TOKEN, int COLUMNS>
__global__ void __launch_bounds__(GEMM_THREADS, 1)
    expert_gemm(const __grid_constant__ CUtensorMap x_map, const __grid_constant__ CUtensorMap w_map,
                const __grid_constant__ gemm_args args)
{
    extern __shared__ char raw[];
    using shape = gemm_shape<COLUMNS>;
    auto &smem = ring_in<typename shape::memory>(raw);
    if (threadIdx.x == 0) smem.init(BY_TOKEN);
    if (BY_TOKEN) wait_predecessor();
    start_successor(); /* in this order: expert_gemv.cu says why */
    if (threadIdx.x / WARP == 1) smem.list.build(args.first, args.n_experts);
    __syncthreads();
    int role = uniform((int)threadIdx.x / GROUP_THREADS);
    if (role == 0) {
        setmaxnreg_dec<72>();
        if (BY_TOKEN || threadIdx.x == 0) {
            ring_producer<shape, BY_TOKEN> self = {args, smem, &x_map, &w_map, (int)threadIdx.x, {0, 0}, {0, 0}, 0, {}};
            self.run();
        } else {
            wait_predecessor();
        }
    } else {
        setmaxnreg_inc<216>();
        wait_predecessor();
        consumer<T, shape> self(args, smem, role - 1, uniform((int)threadIdx.x % GROUP_THREADS / WARP), laneid());
        self.run();
    }
}

/* ---- host ---- */

typedef void gemm_kernel(const CUtensorMap, const CUtensorMap, const gemm_args);

static tensor_map_encoder encode_tiled; /* found by _setup */

struct gemm_entry {
    int columns;
    size_t smem_bytes;
    int rows_most;              /* of an expert, on average, that it is for */
    gemm_kernel *kernels[2][2]; /* bf16, fp16; sorted, by token */
};

#define ENTRY(columns, rows_most)                                                                                      \
    {                                                                                                                  \
        columns, sizeof(gemm_shape<columns>::memory) + 1024, rows_most,                                                \
        {                                                                                                              \
            {expert_gemm<bf16, false, columns>, expert_gemm<bf16, true, columns>},                                     \
            {                                                                                                          \
                expert_gemm<fp16, false, columns>, expert_gemm<fp16, true, columns>                                    \
            }                                                                                                          \
        }                                                                                                              \
    }
/* The last one is for one token alone. */
static const gemm_entry entries[LF_CUDA_EXPERT_TILES] = {ENTRY(128, 128), ENTRY(256, INT_MAX), ENTRY(96, 0)};

int lf_cuda_expert_gemm_sm90_setup(void)
{
    int rc = find_tensor_map_encoder(&encode_tiled);
    for (const gemm_entry &entry : entries)
        for (const auto &kernels : entry.kernels)
            for (gemm_kernel *kernel : kernels)
                if (rc == 0) rc = load_kernel(kernel, entry.smem_bytes);
    return rc;
}

bool lf_cuda_expert_gemm_sm90_supports(const struct lf_expert_gemm_params *p)
{
    uint64_t x_bytes = (uint64_t)p->n_tokens * (uint64_t)p->w->n_in * 2; /* offsets of rows by token have 32 bits */
    return p->w->n_in % 8 == 0 && p->w->n_out % 8 == 0 &&
           ((size_t)p->w->data | (size_t)p->x | (size_t)p->y) % 16 == 0 && (size_t)p->bias % 8 == 0 &&
           x_bytes <= UINT32_MAX;
}

/* Columns that the multiprocessor with the most of them has of one token's experts. */
static int most_columns(const gemm_entry *entry, const struct lf_expert_gemm_params *p, int n_blocks)
{
    int n_tiles = p->k * ((p->w->n_out + entry->columns - 1) / entry->columns);
    return (n_tiles + n_blocks - 1) / n_blocks * entry->columns;
}

/* By rows of an expert on average; of one token's, by what they leave idle. */
static const gemm_entry *entry_for(const struct lf_expert_gemm_params *p, int n_blocks)
{
    int64_t n_rows = (int64_t)p->n_tokens * p->k / p->w->n_experts;
    const gemm_entry *entry = entries, *narrow = &entries[LF_CUDA_EXPERT_TILES - 1];
    if (p->n_tokens == 1 && most_columns(narrow, p, n_blocks) < most_columns(entry, p, n_blocks)) return narrow;
    while (entry->rows_most < n_rows) entry++;
    return entry;
}

int lf_cuda_expert_gemm_sm90(const struct lf_expert_gemm_params *p, size_t expert_bytes, int n_blocks, int tiles,
                             struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    const gemm_entry *entry = tiles >= 0 ? &entries[tiles] : entry_for(p, n_blocks);
    gemm_args args = expert_gemm_args(p, entry->columns);
    CUtensorMap x_map, w_map;
    const cuuint64_t depth = (cuuint64_t)args.n_in;
    const cuuint64_t w_dims[3] = {depth, (cuuint64_t)args.n_out, (cuuint64_t)args.n_experts};
    const cuuint64_t w_strides[2] = {depth * 2, expert_bytes};
    const cuuint32_t w_box[3] = {STEP, (cuuint32_t)entry->columns, 1};
    int rc = encode_tensor_map(encode_tiled, &w_map, how.fp16, p->w->data, 3, w_dims, w_strides, w_box);
    if (rc != 0) return rc;
    rc = encode_expert_rows(encode_tiled, &x_map, p, how.fp16);
    if (rc != 0) return rc;

    gemm_kernel *kernel = entry->kernels[how.fp16][p->x_by_token];
    launch_shape shape = {(unsigned)n_blocks, GEMM_THREADS, entry->smem_bytes};
    return queue_kernel(kernel, shape, how, x_map, w_map, args);
}
