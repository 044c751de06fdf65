/* The chunked delta rule, second half: the state from chunk to chunk, and the outputs (delta_chunk.cuh).
 *
 * Work split: a thread block, one warpgroup, has 64 columns of one head's S for the whole of a sequence, transposed in
 * the accumulators of wgmma: rows are columns of v, 16 a warp. So Sᵀ, rounded, is operand A out of registers, and V'ᵀ
 * becomes one by rounding; W, Q, P and K, shared by the four warps, are operands B as tiles in shared memory. Nothing
 * of the state ever leaves the registers between chunks.
 *
 *     V'ᵀ = Uᵀ - Sᵀ·Wᵀ     Oᵀ = (Sᵀ·Qᵀ) · diag(e^G/|q|) + V'ᵀ·Pᵀ     Sᵀ = e^(G_63) Sᵀ + (V'ᵀ · diag(e^(G_63-G)/|k|))·K
 *
 * A chunk's chain is Sᵀ·Wᵀ, V', K: 512 cycles of tensor cores; Sᵀ·Qᵀ fills what V' takes to be rounded. Each scheduler
 * has one warp, so whatever else a warp does is in the chain too: tiles lie in the scratch as they are read here, and
 * three bulk copies bring all that a chunk needs, two chunks ahead, into one of three slots. (With cp.async, and the
 * fence between proxies that it needs, a chunk took 4 µs: the fence waits for all that is on its way.) A slot is filled
 * again when all warps are past the barrier behind the chunk that read it. */
#include <stddef.h>

#include "device/cuda/delta.cuh"
#include "device/cuda/delta_chunk.cuh"
#include "device/cuda/ptx_tma.cuh"
#include "device/cuda/ptx_wgmma.cuh"
#include "device/cuda/warp.cuh"

enum {
    WARPS = 4,
    THREADS = WARPS * WARP,
    COLUMNS = 64, /* of v, of a thread block */
    SLOTS = 3,
    OUT_STRIDE = 24 /* elements of a token's 16 columns in a warp's staging: 16-byte rows, no two in a bank */
};

struct scan_slot { /* what a chunk brings */
    unsigned char w[TILE_BYTES], p[HALF_BYTES];
    float out_scale[CHUNK], v_scale[CHUNK], decay, unused[127];
    key_record keys;
    uint4 u[WARPS][4][WARP];
};

struct scan_shared {
    scan_slot slots[SLOTS];
    uint16_t out[WARPS][CHUNK][OUT_STRIDE];
    uint64_t full[SLOTS]; /* barriers at which a slot's bytes are counted */
};
enum { ALIGN = 1024 }; /* of tiles of wgmma */
static_assert(sizeof(scan_slot) % ALIGN == 0 && offsetof(scan_slot, keys) % ALIGN == 0, "tiles are aligned");
static_assert(offsetof(scan_slot, unused) == offsetof(chunk_record, unused), "copied as one");

template <class T> struct scanning {
    const chunk_args &args;
    scan_shared &smem;
    int head, half, warp, lane;
    float s[64];        /* Sᵀ: s[4j + 2h + e] is column t / 4 + 8h of the warp's, row 8j + 2 (t mod 4) + e of S */
    float v[32], o[32]; /* V'ᵀ, Oᵀ: the same, of tokens */
    uint32_t a[8][4], va[4][4];

    /* ---- the state in memory ---- */

    LF_GPU_MEMBER float *at(int slot) const
    {
        int column = half * COLUMNS + warp * 16 + lane / 4, row = lane % 4 * 2;
        return state_of_head(args.p.state, args.p.shape, slot, head) + row * DIM + column;
    }

    LF_GPU_MEMBER void load(int slot)
    {
        const float *from = slot < 0 ? nullptr : at(slot);
#pragma unroll
        for (int i = 0; i < 64; i++) s[i] = from ? from[(i / 4 * 8 + i % 2) * DIM + i / 2 % 2 * 8] : 0.0f;
    }

    LF_GPU_MEMBER void store(int slot) const
    {
        float *to = at(slot);
#pragma unroll
        for (int i = 0; i < 64; i++) to[(i / 4 * 8 + i % 2) * DIM + i / 2 % 2 * 8] = s[i];
    }

    /* ---- tiles ---- */

    LF_GPU_MEMBER uint32_t full(int slot) const
    {
        return shared_address(&smem.full[slot]);
    }

    /* One thread's: starts the copies of a chunk into a slot. */
    LF_GPU_MEMBER void start_copies(int chunk_idx, int slot) const
    {
        enum {
            HEAD_BYTES = offsetof(scan_slot, unused) + 3 * sizeof(float) /* 16 bytes of decay and what is behind */
        };
        const chunk_record *from = record_of(args, chunk_idx, head);
        int k_head = head / (args.p.shape.n_v_heads / args.p.shape.n_k_heads);
        scan_slot &to = smem.slots[slot];
        mbarrier_arrive_expect_tx(full(slot), HEAD_BYTES + sizeof to.keys + sizeof to.u);
        cp_async_bulk(shared_address(to.w), from->w, HEAD_BYTES, full(slot));
        cp_async_bulk(shared_address(&to.keys), key_record_of(args, chunk_idx, k_head), sizeof to.keys, full(slot));
        cp_async_bulk(shared_address(to.u), from->u[half * WARPS], sizeof to.u, full(slot));
    }

    /* ---- products ---- */

    /* d = Sᵀ · tileᵀ, started. */
    LF_GPU_MEMBER void start_from_state(float (&d)[32], const unsigned char *tile)
    {
        uint32_t rows = wgmma_descriptor_low(shared_address(tile), 16);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < DIM / 16; i++)
            wgmma_rs<T, B_ROWS_N>(d, a[i], wgmma_descriptor(rows, i / 4 * HALF_BYTES + i % 4 * 32), i != 0);
        wgmma_commit_group();
    }

    /* Accumulators of 16 tokens (or rows of S) as operand A. */
    LF_GPU_MEMBER static void round_to(uint32_t (&to)[4], const float *x)
    {
#pragma unroll
        for (int r = 0; r < 4; r++) to[r] = kept(pack<T>(x[2 * r], x[2 * r + 1])); /* here, not behind the next wait */
    }

    /* v = V'ᵀ of Sᵀ·Wᵀ, and rounded as operand A. */
    LF_GPU_MEMBER void subtract(const scan_slot &slot)
    {
#pragma unroll
        for (int pair = 0; pair < 4; pair++) {
            uint4 words = slot.u[warp][pair][lane];
            float2 u[4] = {unpack<T>(words.x), unpack<T>(words.y), unpack<T>(words.z), unpack<T>(words.w)};
#pragma unroll
            for (int r = 0; r < 4; r++) {
                v[pair * 8 + 2 * r] = u[r].x - v[pair * 8 + 2 * r];
                v[pair * 8 + 2 * r + 1] = u[r].y - v[pair * 8 + 2 * r + 1];
            }
            round_to(va[pair], v + pair * 8);
        }
    }

    /* x's tokens, columns of the accumulators, times scale. */
    LF_GPU_MEMBER void scale_tokens(float (&x)[32], const float *scale) const
    {
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float2 by = *(const float2 *)&scale[j * 8 + lane % 4 * 2];
#pragma unroll
            for (int h = 0; h < 2; h++) x[j * 4 + h * 2] *= by.x, x[j * 4 + h * 2 + 1] *= by.y;
        }
    }

    LF_GPU_MEMBER void start_outputs(const scan_slot &slot)
    {
        uint32_t rows = wgmma_descriptor_low(shared_address(slot.p), 16);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < CHUNK / 16; i++) wgmma_rs<T, B_ROWS_N>(o, va[i], wgmma_descriptor(rows, i * 32), true);
        wgmma_commit_group();
    }

    /* Operand A of it is where Sᵀ was. */
    LF_GPU_MEMBER void start_state(const scan_slot &slot)
    {
        uint32_t rows = wgmma_descriptor_low(shared_address(slot.keys.k), HALF_BYTES);
        wgmma_fence();
#pragma unroll
        for (int i = 0; i < CHUNK / 16; i++)
            wgmma_rs<T, B_ROWS_DEPTH>(s, a[i], wgmma_descriptor(rows, i * 16 * 128), true);
        wgmma_commit_group();
    }

    /* Oᵀ to the tokens' rows, through the warp's own staging: 32 bytes of each. */
    LF_GPU_MEMBER void write_outputs(lf_state_chunk chunk) const
    {
        uint16_t(*rows)[OUT_STRIDE] = smem.out[warp];
        /* Lanes of neighbouring columns: one takes the even token of both, one the odd. */
        int odd = lane / 4 % 2;
        uint32_t take = odd ? 0x3276 : 0x5410;
#pragma unroll
        for (int i = 0; i < 16; i++) {
            uint32_t mine = pack<T>(o[2 * i], o[2 * i + 1]), got = __shfl_xor_sync(ALL_LANES, mine, 4);
            int token = i / 2 * 8 + lane % 4 * 2 + odd, column = i % 2 * 8 + lane / 8 * 2;
            *(uint32_t *)&rows[token][column] = __byte_perm(mine, got, take);
        }
        __syncwarp();
        size_t stride = (size_t)args.p.shape.n_v_heads * DIM;
        T *out = (T *)args.p.out + (int64_t)chunk.first_token * stride + head * DIM + half * COLUMNS + warp * 16;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int token = i * 16 + lane / 2, column = lane % 2 * 8;
            if (token < chunk.n_tokens)
                *(uint4 *)(out + token * stride + column) = *(const uint4 *)&rows[token][column];
        }
        __syncwarp();
    }

    /* One behind the other: a chunk, whose tiles are here. */
    LF_GPU_MEMBER void run_chunk(const scan_slot &slot, lf_state_chunk chunk)
    {
#pragma unroll
        for (int i = 0; i < DIM / 16; i++) round_to(a[i], s + i * 8);
        /* Before there is a product in flight: ptxas waits for all of them where s is used beside one. */
        float decay = slot.decay;
#pragma unroll
        for (int i = 0; i < 64; i++) s[i] *= decay;
        start_from_state(v, slot.w);
        start_from_state(o, slot.keys.q);
        wgmma_wait_group<1>();
#pragma unroll
        for (int i = 0; i < 32; i++) hold(v[i]);
        subtract(slot);
        scale_tokens(v, slot.v_scale);
        wgmma_wait_group<0>();
#pragma unroll
        for (int i = 0; i < 32; i++) hold(o[i]);
#pragma unroll
        for (int i = 0; i < CHUNK / 16; i++) round_to(a[i], v + i * 8);
        scale_tokens(o, slot.out_scale);
        start_outputs(slot);
        start_state(slot);
        wgmma_wait_group<1>();
#pragma unroll
        for (int i = 0; i < 32; i++) hold(o[i]);
        write_outputs(chunk);
        wgmma_wait_group<0>();
#pragma unroll
        for (int i = 0; i < 64; i++) hold(s[i]);
    }
};

template <class T> __global__ void __launch_bounds__(THREADS, 1) scan_chunks(const __grid_constant__ chunk_args args)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    start_successor();
    wait_predecessor();
    int begin = args.step.first_chunks[blockIdx.z], first = max(begin, args.first);
    int end = min(args.step.first_chunks[blockIdx.z + 1], args.first + args.n);
    if (first >= end) return;
    const lf_state_seq seq = args.step.seqs[args.step.long_seqs[blockIdx.z]];
    scanning<T> b = {args,
                     *(scan_shared *)(shared + (ALIGN - shared_address(shared) % ALIGN) % ALIGN),
                     (int)blockIdx.y,
                     (int)blockIdx.x,
                     uniform(threadIdx.x / WARP),
                     laneid()};
    if (threadIdx.x == 0) {
        for (int i = 0; i < SLOTS; i++) mbarrier_init(b.full(i), 1);
        fence_mbarrier_init();
        for (int i = 0; i < SLOTS && first + i < end; i++) b.start_copies(first + i, i);
    }
    b.load(first == begin ? seq.in : seq.out);
    const lf_state_mark *mark = args.step.marks + seq.first_mark, *no_mark = mark + seq.n_marks;
    __syncthreads(); /* the barriers are there */
    for (int at = first, slot = 0, parity = 0; at < end; at++) {
        lf_state_chunk chunk = args.step.chunks[at];
        mbarrier_try_wait_parity(b.full(slot), parity);
        b.run_chunk(b.smem.slots[slot], chunk);
        int done = chunk.first_token + chunk.n_tokens - seq.first_token;
        while (mark != no_mark && mark->n_tokens < done) mark++;
        if (mark != no_mark && mark->n_tokens == done) b.store(mark->slot);
        __syncthreads(); /* all warps are done with the slot */
        if (threadIdx.x == 0 && at + SLOTS < end) b.start_copies(at + SLOTS, slot);
        if (++slot == SLOTS) slot = 0, parity ^= 1;
    }
    b.store(seq.out);
}

/* ---- host ---- */

enum { SHARED_BYTES = sizeof(scan_shared) + ALIGN };

int lf_cuda_delta_scan_sm90_setup(void)
{
    int rc = load_kernel(scan_chunks<bf16>, SHARED_BYTES);
    return rc == 0 ? load_kernel(scan_chunks<fp16>, SHARED_BYTES) : rc;
}

int lf_cuda_delta_scan_sm90(const struct lf_delta_params *p, int first, int n, struct lf_cuda_launch how)
{
    if (n == 0) return 0;
    chunk_args args = {*p, *p->step, first, n};
    dim3 grid(DIM / COLUMNS, (unsigned)p->shape.n_v_heads, (unsigned)p->step->n_long);
    return queue_kernel(how.fp16 ? scan_chunks<fp16> : scan_chunks<bf16>, {grid, THREADS, SHARED_BYTES}, how, args);
}
