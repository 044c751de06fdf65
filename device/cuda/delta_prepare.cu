/* The chunked delta rule, first half: W, U and P of every chunk and head (delta_chunk.cuh has the formulas).
 *
 * Work split: a thread block has a chunk of a key head, and the value heads of it one behind the other: K·Kᵀ and Q·Kᵀ
 * are computed once and stay in the accumulators, in warps 0 to 3 and 4 to 7. Which 16 rows a warp has turns with the
 * block, since lower rows have more to do. Of each value head
 *
 *     warps 0-3: A into shared memory     4-7: P, as a tile
 *     warps 0-3: inverses of the blocks of 16 on the diagonal, floats, a column a lane     4-7: P goes out
 *     warps 0-1: T_10 = -T_11 A_10 T_00 and the same of blocks 2, 3     warps 0-3: the square below, of 32
 *     all: T·β·e^G/|k| and T·β rounded, then W = ·K and Uᵀ = Vᵀ·ᵀ on tensor cores, half of T's blocks being zero
 *
 * Blocks of T are multiplied on tensor cores as bf16 in two parts (three products: 16 bits), all transposed, so that a
 * product is the next one's operand as it lies in registers. Two blocks of 112 KB share a multiprocessor: while one
 * waits, the other computes. */
#include "device/cuda/delta.cuh"
#include "device/cuda/delta_chunk.cuh"
#include "device/cuda/ptx_copy.cuh"
#include "device/cuda/ptx_mma.cuh"
#include "device/cuda/warp.cuh"

enum {
    WARPS = 8,
    THREADS = WARPS * WARP,
    BLOCK = 16,
    A_STRIDE = CHUNK + 4, /* floats; rows of four banks on */
    T_STRIDE = CHUNK + 8  /* elements; rows of 16 bytes on */
};
#define LOG2_E 1.4426950408889634f

struct prepare_shared {
    unsigned char k[TILE_BYTES];
    unsigned char q_or_w[TILE_BYTES]; /* Q until Q·Kᵀ is done, then each head's W */
    unsigned char v[2][TILE_BYTES];   /* by turns */
    unsigned char p[HALF_BYTES];
    float a[CHUNK][A_STRIDE]; /* A, then T, of which the diagonal blocks and what is below are defined */
    uint16_t tw[CHUNK][T_STRIDE], tu[CHUNK][T_STRIDE]; /* T · β e^G / |k| and T · β, elements */
    float g[LF_CUDA_DELTA_SHARED_BY][CHUNK];           /* G · log2 e */
    float beta[LF_CUDA_DELTA_SHARED_BY][CHUNK];
    float k_scale[CHUNK], q_scale[CHUNK]; /* 1 / |k|; k_dim^-½ / |q| */
};

/* Starts the copies of a tile: DIM elements of each of the chunk's tokens; rows behind them are zeros. */
template <class T> LF_GPU_FN void copy_tile(uint32_t tile, const T *src, size_t stride, int n_tokens)
{
#pragma unroll
    for (int i = 0; i < CHUNK * (DIM / 8) / THREADS; i++) {
        int at = i * THREADS + (int)threadIdx.x, row = at / (DIM / 8), unit = at % (DIM / 8);
        bool is_token = row < n_tokens;
        cp_async_cg_16(tile + tile_at(row, unit), src + (is_token ? row * stride : 0) + unit * 8, is_token ? 16 : 0);
    }
}

/* The first of a head's channels of q, k or v in a row of qkv. */
LF_GPU_FN int q_at(int k_head)
{
    return k_head * DIM;
}
LF_GPU_FN int k_at(const lf_delta_shape &shape, int k_head)
{
    return (shape.n_k_heads + k_head) * DIM;
}
LF_GPU_FN int v_at(const lf_delta_shape &shape, int head)
{
    return (2 * shape.n_k_heads + head) * DIM;
}

/* ---- operands of mma_m16n8k16 from tiles; lane l names row l mod 8 of matrix l / 8 ---- */

/* A: rows of 16 · strip, elements of 16 · step. */
LF_GPU_FN void load_a(uint32_t (&r)[4], uint32_t tile, int strip, int step)
{
    int lane = threadIdx.x % WARP;
    ldmatrix_x4(r, tile + tile_at(strip * 16 + lane / 8 % 2 * 8 + lane % 8, step * 2 + lane / 16));
}

/* B of two tiles of 8 columns, which are rows of the tile: {b0, b1} of the first, then of the second. */
LF_GPU_FN void load_b(uint32_t (&r)[4], uint32_t tile, int pair, int step)
{
    int lane = threadIdx.x % WARP;
    ldmatrix_x4(r, tile + tile_at(pair * 16 + lane / 16 * 8 + lane % 8, step * 2 + lane / 8 % 2));
}

/* The same of two tiles of columns of 16 · pair, rows 16 · step being the depth. */
LF_GPU_FN void load_b_trans(uint32_t (&r)[4], uint32_t tile, int pair, int step)
{
    int lane = threadIdx.x % WARP;
    ldmatrix_x4_trans(r, tile + tile_at(step * 16 + lane / 8 % 2 * 8 + lane % 8, pair * 2 + lane / 16));
}

/* A whose rows are the tile's columns 16 · strip. */
LF_GPU_FN void load_a_trans(uint32_t (&r)[4], uint32_t tile, int strip, int step)
{
    int lane = threadIdx.x % WARP;
    ldmatrix_x4_trans(r, tile + tile_at(step * 16 + lane / 16 * 8 + lane % 8, strip * 2 + lane / 8 % 2));
}

/* A and B from rows of T_STRIDE elements. */
LF_GPU_FN void load_t_a(uint32_t (&r)[4], const uint16_t (*t)[T_STRIDE], int strip, int step)
{
    int lane = threadIdx.x % WARP;
    ldmatrix_x4(r, shared_address(&t[strip * 16 + lane / 8 % 2 * 8 + lane % 8][step * 16 + lane / 16 * 8]));
}

LF_GPU_FN void load_t_b(uint32_t (&r)[4], const uint16_t (*t)[T_STRIDE], int pair, int step)
{
    int lane = threadIdx.x % WARP;
    ldmatrix_x4(r, shared_address(&t[pair * 16 + lane / 16 * 8 + lane % 8][step * 16 + lane / 8 % 2 * 8]));
}

/* ---- products of blocks of 16 floats, as bf16 in two parts ---- */

LF_GPU_FN void split(uint32_t &high, uint32_t &low, float x, float y)
{
    high = pack<bf16>(x, y);
    float2 h = unpack<bf16>(high);
    low = pack<bf16>(x - h.x, y - h.y);
}

struct block_sums { /* of a transposed block: d[n][2h + e] has row t / 4 + 8h, column 8n + 2 (t mod 4) + e */
    float d[2][4];
};

struct block_a {
    uint32_t high[4], low[4];
};

/* Transposed: a block of the matrix in shared memory as operand A of the transposed product. */
LF_GPU_FN block_a block_transposed(const float (*m)[A_STRIDE], int i, int j)
{
    int lane = threadIdx.x % WARP, column = j * BLOCK + lane / 4, row = i * BLOCK + lane % 4 * 2;
    block_a a;
#pragma unroll
    for (int r = 0; r < 4; r++) {
        int at = row + r / 2 * 8, of = column + r % 2 * 8;
        split(a.high[r], a.low[r], m[at][of], m[at + 1][of]);
    }
    return a;
}

LF_GPU_FN block_a block_of(const block_sums &s)
{
    block_a a;
#pragma unroll
    for (int r = 0; r < 4; r++) split(a.high[r], a.low[r], s.d[r / 2][r % 2 * 2], s.d[r / 2][r % 2 * 2 + 1]);
    return a;
}

/* sums += a · (block (i, j))ᵀ */
LF_GPU_FN void add_product(block_sums &sums, const block_a &a, const float (*m)[A_STRIDE], int i, int j)
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int n = 0; n < 2; n++) {
        const float *row = &m[i * BLOCK + n * 8 + lane / 4][j * BLOCK + lane % 4 * 2];
        uint32_t high[2], low[2];
        split(high[0], low[0], row[0], row[1]);
        split(high[1], low[1], row[8], row[9]);
        mma_m16n8k16<bf16>(sums.d[n], a.low, high[0], high[1]);
        mma_m16n8k16<bf16>(sums.d[n], a.high, low[0], low[1]);
        mma_m16n8k16<bf16>(sums.d[n], a.high, high[0], high[1]);
    }
}

LF_GPU_FN void store_negative(float (*m)[A_STRIDE], int i, int j, const block_sums &sums)
{
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int r = 0; r < 4; r++)
            m[i * BLOCK + n * 8 + lane % 4 * 2 + r % 2][j * BLOCK + lane / 4 + r / 2 * 8] = -sums.d[n][r];
}

/* ---- the inverse of I + A ---- */

/* The diagonal block of this warp, in place: a lane has a column, both halves of the warp the same ones. */
LF_GPU_FN void invert_diagonal(float (*m)[A_STRIDE], int block)
{
    int column = threadIdx.x % BLOCK;
    float t[BLOCK];
#pragma unroll
    for (int i = 0; i < BLOCK; i++) {
        float even = i == column ? 1.0f : 0.0f, odd = 0.0f;
#pragma unroll
        for (int j = 0; j < i; j++) {
            float a = m[block * BLOCK + i][block * BLOCK + j];
            if (j % 2 == 0)
                even -= a * t[j];
            else
                odd -= a * t[j];
        }
        t[i] = even + odd;
    }
    __syncwarp();
    if (threadIdx.x % WARP < BLOCK)
#pragma unroll
        for (int i = 0; i < BLOCK; i++) m[block * BLOCK + i][block * BLOCK + column] = t[i];
}

/* T_ij = -T_ii A_ij T_jj of neighbouring blocks. */
LF_GPU_FN void invert_pair(float (*m)[A_STRIDE], int i, int j)
{
    block_sums x = {}, t = {};
    add_product(x, block_transposed(m, j, j), m, i, j);
    add_product(t, block_of(x), m, i, i);
    __syncwarp(); /* A_ij has been read */
    store_negative(m, i, j, t);
}

/* Block (i, j), i 2 or 3, j 0 or 1, of -T_BB A_BA T_AA, where A and B are the halves. */
LF_GPU_FN block_sums invert_square(const float (*m)[A_STRIDE], int i, int j)
{
    block_sums t = {};
    for (int k = 2; k <= i; k++) {
        block_sums x = {};
        for (int l = j; l < 2; l++) add_product(x, block_transposed(m, l, j), m, k, l);
        add_product(t, block_of(x), m, i, k);
    }
    return t;
}

/* ---- a thread block ---- */

template <class T> struct preparing {
    const chunk_args &args;
    prepare_shared &smem;
    lf_state_chunk chunk;
    int chunk_idx, k_head, n_heads, warp, lane;
    int strip;       /* rows 16 · strip of K·Kᵀ or Q·Kᵀ are the warp's */
    float dot[8][4]; /* these */

    LF_GPU_MEMBER void copy(unsigned char *tile, int channel) const
    {
        int stride = channels_of(args.p.shape);
        copy_tile<T>(shared_address(tile), (const T *)args.p.qkv + (int64_t)chunk.first_token * stride + channel,
                     (size_t)stride, chunk.n_tokens);
    }

    LF_GPU_MEMBER void copy_values(int i) const
    {
        if (i < n_heads) copy(smem.v[i % 2], v_at(args.p.shape, k_head * n_heads + i));
        cp_async_commit_group();
    }

    /* 1 / |row| of eight rows of K and of Q. */
    LF_GPU_MEMBER void norms() const
    {
        for (int i = 0; i < CHUNK / WARPS; i++) {
            int row = warp * (CHUNK / WARPS) + i, at = tile_at(row, lane / 2) + lane % 2 * 8;
            uint2 k = *(const uint2 *)(smem.k + at), q = *(const uint2 *)(smem.q_or_w + at);
            float2 k0 = unpack<T>(k.x), k1 = unpack<T>(k.y), q0 = unpack<T>(q.x), q1 = unpack<T>(q.y);
            float kk = warp_sum(k0.x * k0.x + k0.y * k0.y + k1.x * k1.x + k1.y * k1.y);
            float qq = warp_sum(q0.x * q0.x + q0.y * q0.y + q1.x * q1.x + q1.y * q1.y);
            if (lane != 0) continue;
            smem.k_scale[row] = 1.0f / sqrtf(kk + NORM_EPS);
            smem.q_scale[row] = 1.0f / sqrtf(qq + NORM_EPS) / sqrtf((float)DIM);
        }
    }

    /* β and G of a head: two tokens a lane. Tokens that are not there change nothing: β is 0 and so is g. */
    LF_GPU_MEMBER void gates_of_head(int i) const
    {
        gates two[2] = {};
        for (int e = 0; e < 2; e++)
            if (2 * lane + e < chunk.n_tokens)
                two[e] = gates_of(args.p, (int64_t)chunk.first_token + 2 * lane + e, k_head * n_heads + i);
        float sum = warp_scan((two[0].g + two[1].g) * LOG2_E, [](float a, float b) { return a + b; });
        smem.g[i][2 * lane] = sum - two[1].g * LOG2_E;
        smem.g[i][2 * lane + 1] = sum;
        smem.beta[i][2 * lane] = two[0].beta;
        smem.beta[i][2 * lane + 1] = two[1].beta;
    }

    LF_GPU_MEMBER void dots()
    {
        uint32_t k = shared_address(smem.k), rows = warp < 4 ? k : shared_address(smem.q_or_w);
#pragma unroll
        for (int n = 0; n < 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) dot[n][e] = 0.0f;
#pragma unroll
        for (int step = 0; step < DIM / 16; step++) {
            uint32_t a[4];
            load_a(a, rows, strip, step);
#pragma unroll
            for (int pair = 0; pair < 4; pair++) {
                if (pair > strip) continue;
                uint32_t b[4];
                load_b(b, k, pair, step);
                mma_m16n8k16<T>(dot[2 * pair], a, b[0], b[1]);
                mma_m16n8k16<T>(dot[2 * pair + 1], a, b[2], b[3]);
            }
        }
    }

    /* A of a head, warps 0 to 3; P, the others. */
    LF_GPU_MEMBER void weigh(int head) const
    {
        const float *g = smem.g[head], *beta = smem.beta[head];
        bool is_p = warp >= 4;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int i = strip * 16 + lane / 4 + 8 * h;
            float g_i = g[i], row_scale = is_p ? smem.q_scale[i] : beta[i] * smem.k_scale[i];
#pragma unroll
            for (int n = 0; n < 8; n++) {
                if (!is_p && n >= 2 * strip + 2) continue; /* above the diagonal */
                int j = n * 8 + lane % 4 * 2;
                float2 g_j = *(const float2 *)&g[j], scale = *(const float2 *)&smem.k_scale[j];
                float x = row_scale * scale.x * ex2_approx_ftz(g_i - g_j.x) * dot[n][2 * h];
                float y = row_scale * scale.y * ex2_approx_ftz(g_i - g_j.y) * dot[n][2 * h + 1];
                if (is_p) {
                    *(uint32_t *)(smem.p + tile_at(i, n) + lane % 4 * 4) = pack<T>(j <= i ? x : 0.0f, j < i ? y : 0.0f);
                } else {
                    *(float2 *)&smem.a[i][j] = make_float2(j < i ? x : 0.0f, j + 1 < i ? y : 0.0f);
                }
            }
        }
    }

    /* T's columns scaled and rounded, a quarter of a row a thread. */
    LF_GPU_MEMBER void round_inverse(int head) const
    {
        int i = threadIdx.x / 4, first = threadIdx.x % 4 * 16;
        if (first > i) return; /* a block above the diagonal: nobody reads it */
#pragma unroll
        for (int c = 0; c < 16; c += 2) {
            int j = first + c;
            float2 t = *(const float2 *)&smem.a[i][j], beta = *(const float2 *)&smem.beta[head][j];
            float2 g = *(const float2 *)&smem.g[head][j], scale = *(const float2 *)&smem.k_scale[j];
            t.x *= beta.x, t.y *= beta.y;
            *(uint32_t *)&smem.tu[i][j] = pack<T>(t.x, t.y);
            *(uint32_t *)&smem.tw[i][j] =
                pack<T>(t.x * ex2_approx_ftz(g.x) * scale.x, t.y * ex2_approx_ftz(g.y) * scale.y);
        }
    }

    /* 16 channels of W, into the tile in shared memory. */
    LF_GPU_MEMBER void multiply_w() const
    {
        float sums[4][2][4] = {};
#pragma unroll
        for (int step = 0; step < 4; step++) {
            uint32_t b[4];
            load_b_trans(b, shared_address(smem.k), warp, step);
#pragma unroll
            for (int m = step; m < 4; m++) {
                uint32_t a[4];
                load_t_a(a, smem.tw, m, step);
                mma_m16n8k16<T>(sums[m][0], a, b[0], b[1]);
                mma_m16n8k16<T>(sums[m][1], a, b[2], b[3]);
            }
        }
#pragma unroll
        for (int m = 0; m < 4; m++)
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    *(uint32_t *)(smem.q_or_w + tile_at(m * 16 + lane / 4 + 8 * h, warp * 2 + n) + lane % 4 * 4) =
                        pack<T>(sums[m][n][2 * h], sums[m][n][2 * h + 1]);
    }

    /* 16 rows of Uᵀ, to where they belong. */
    LF_GPU_MEMBER void multiply_u(const unsigned char *values, chunk_record *to) const
    {
        float sums[8][4] = {};
#pragma unroll
        for (int step = 0; step < 4; step++) {
            uint32_t a[4];
            load_a_trans(a, shared_address(values), warp, step);
#pragma unroll
            for (int pair = step; pair < 4; pair++) {
                uint32_t b[4];
                load_t_b(b, smem.tu, pair, step);
                mma_m16n8k16<T>(sums[2 * pair], a, b[0], b[1]);
                mma_m16n8k16<T>(sums[2 * pair + 1], a, b[2], b[3]);
            }
        }
#pragma unroll
        for (int pair = 0; pair < 4; pair++) {
            const float *x = sums[2 * pair], *y = sums[2 * pair + 1];
            to->u[warp][pair][lane] =
                make_uint4(pack<T>(x[0], x[1]), pack<T>(x[2], x[3]), pack<T>(y[0], y[1]), pack<T>(y[2], y[3]));
        }
    }

    LF_GPU_MEMBER void write_scales(int head, chunk_record *to) const
    {
        int i = threadIdx.x;
        float last = smem.g[head][CHUNK - 1];
        if (i < CHUNK) {
            to->out_scale[i] = ex2_approx_ftz(smem.g[head][i]) * smem.q_scale[i];
            to->v_scale[i] = ex2_approx_ftz(last - smem.g[head][i]) * smem.k_scale[i];
        }
        if (i == 0) to->decay = ex2_approx_ftz(last);
    }

    /* A tile of shared memory goes out, by n_threads threads from `first` on. */
    LF_GPU_MEMBER void write_tile(unsigned char *to, const unsigned char *tile, int bytes, int first,
                                  int n_threads) const
    {
        for (int at = ((int)threadIdx.x - first) * 16; at < bytes; at += n_threads * 16)
            *(uint4 *)(to + at) = *(const uint4 *)(tile + at);
    }

    LF_GPU_MEMBER void write_keys() const
    {
        key_record *to = key_record_of(args, chunk_idx, k_head);
        write_tile(to->q, smem.q_or_w, TILE_BYTES, 0, THREADS);
        write_tile(to->k, smem.k, TILE_BYTES, 0, THREADS);
    }

    /* One behind the other: value head i of the key head, whose values have been asked for. */
    LF_GPU_MEMBER void run_head(int i)
    {
        chunk_record *to = record_of(args, chunk_idx, k_head * n_heads + i);
        weigh(i);
        __syncthreads();
        if (warp < 4)
            invert_diagonal(smem.a, warp);
        else
            write_tile(to->p, smem.p, HALF_BYTES, THREADS / 2, THREADS / 2);
        __syncthreads();
        if (warp < 2) invert_pair(smem.a, 2 * warp + 1, 2 * warp);
        __syncthreads();
        block_sums square;
        if (warp < 4) square = invert_square(smem.a, 2 + warp / 2, warp % 2);
        __syncthreads(); /* A of the square has been read */
        if (warp < 4) store_negative(smem.a, 2 + warp / 2, warp % 2, square);
        copy_values(i + 1);
        cp_async_wait_group<1>();
        __syncthreads();
        round_inverse(i);
        __syncthreads();
        multiply_w();
        multiply_u(smem.v[i % 2], to);
        write_scales(i, to);
        __syncthreads();
        write_tile(to->w, smem.q_or_w, TILE_BYTES, 0, THREADS);
    }
};

template <class T> __global__ void __launch_bounds__(THREADS, 2) prepare_chunks(const __grid_constant__ chunk_args args)
{
    extern __shared__ __align__(128) unsigned char shared[];
    const lf_delta_shape &shape = args.p.shape;
    int chunk_idx = args.first + blockIdx.x, warp = threadIdx.x / WARP;
    start_successor();
    wait_predecessor();
    preparing<T> b = {args,      *(prepare_shared *)shared, args.step.chunks[chunk_idx],
                      chunk_idx, (int)blockIdx.y,           shape.n_v_heads / shape.n_k_heads,
                      warp,      (int)(threadIdx.x % WARP), (warp + (int)blockIdx.x) % 4};
    b.copy(b.smem.k, k_at(shape, b.k_head));
    b.copy(b.smem.q_or_w, q_at(b.k_head));
    cp_async_commit_group();
    b.copy_values(0);
    for (int i = warp; i < b.n_heads; i += WARPS) b.gates_of_head(i);
    cp_async_wait_group<1>();
    __syncthreads();
    b.norms();
    b.dots();
    b.write_keys();
    __syncthreads();
    for (int i = 0; i < b.n_heads; i++) b.run_head(i);
}

/* ---- host ---- */

int lf_cuda_delta_prepare_setup(void)
{
    int rc = load_kernel(prepare_chunks<bf16>, sizeof(prepare_shared));
    return rc == 0 ? load_kernel(prepare_chunks<fp16>, sizeof(prepare_shared)) : rc;
}

int lf_cuda_delta_prepare(const struct lf_delta_params *p, int first, int n, struct lf_cuda_launch how)
{
    if (n == 0) return 0;
    chunk_args args = {*p, *p->step, first, n};
    auto kernel = how.fp16 ? prepare_chunks<fp16> : prepare_chunks<bf16>;
    return queue_kernel(kernel, {dim3((unsigned)n, (unsigned)p->shape.n_k_heads), THREADS, sizeof(prepare_shared)}, how,
                        args);
}
