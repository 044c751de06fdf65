/* Activations to e4m3 codes and scales (gemm_fp8_sm90.h): by blocks of 128 columns, or by rows. Bound by memory: three
 * bytes an element.
 *
 * By blocks sixteen lanes have a block of a token, eight columns each. A thread block has sixteen tokens, so that the
 * scales of a block of columns, which lie token by token, are written 64 bytes at a time; and four blocks of columns,
 * so that a thread has four loads under way. By rows a thread block has a token and reads it twice, out of the
 * first-level cache the second time; where tokens are few, and the way through one is what takes time, with four times
 * as many threads. */
#include "device/cuda/gemm_fp8_sm90.h"
#include "device/cuda/launch.cuh"
#include "device/cuda/quant.cuh"

enum {
    UNIT = 8, /* columns of a lane */
    LANES = LF_FP8_BLOCK / UNIT,
    QUANT_THREADS = 256,
    WIDE_THREADS = 1024,            /* by rows, of few tokens */
    WIDE_TOKENS = 128,              /* that many of them keep no multiprocessor waiting */
    TOKENS = QUANT_THREADS / LANES, /* of a thread block */
    BLOCKS = 4,                     /* of columns, of a thread block */
};

/* Eight neighbouring columns. */
template <class T> struct unit : quant_unit<T, UNIT> {
    LF_GPU_MEMBER void load(const T *from, bool is_there)
    {
        uint4 words = is_there ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
        this->take({words.x, words.y, words.z, words.w});
    }

    LF_GPU_MEMBER void store(uint8_t *to, float inverse) const
    {
        *(uint2 *)to = make_uint2(this->codes(0, inverse), this->codes(4, inverse));
    }
};

template <class T> __global__ void __launch_bounds__(QUANT_THREADS) quant_blocks(const lf_quant_params p)
{
    start_successor();
    wait_predecessor();
    int token = blockIdx.y * TOKENS + threadIdx.x / LANES, lane = threadIdx.x % LANES;
    int block0 = blockIdx.x * BLOCKS, n_blocks = (p.n_in + LF_FP8_BLOCK - 1) / LF_FP8_BLOCK;
    bool has_token = token < p.n_tokens;
    const T *x = (const T *)p.x + (size_t)(has_token ? token : 0) * p.x_stride;
    unit<T> units[BLOCKS];
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
        int column = (block0 + i) * LF_FP8_BLOCK + lane * UNIT;
        units[i].load(x + column, has_token && column < p.n_in);
    }
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) {
        int block = block0 + i, column = block * LF_FP8_BLOCK + lane * UNIT;
        float scale = scale_of(lanes_reduce<LANES>(units[i].largest(), larger));
        if (!has_token || block >= n_blocks) continue;
        if (lane == 0) p.to.scales[(size_t)block * p.to.scale_stride + token] = scale;
        if (column < p.n_in) units[i].store(p.to.codes + (size_t)token * p.n_in + column, __frcp_rn(scale));
    }
}

template <class T, int THREADS> __global__ void __launch_bounds__(THREADS) quant_rows(const lf_quant_params p)
{
    start_successor();
    wait_predecessor();
    const T *x = (const T *)p.x + (size_t)blockIdx.x * p.x_stride;
    float most = 0.0f;
    unit<T> u;
    for (int column = threadIdx.x * UNIT; column < p.n_in; column += THREADS * UNIT) {
        u.load(x + column, true);
        most = fmaxf(most, u.largest());
    }
    most = block_largest(most);
    float scale = scale_of(most);
    if (threadIdx.x == 0) p.to.scales[blockIdx.x] = scale;
    for (int column = threadIdx.x * UNIT; column < p.n_in; column += THREADS * UNIT) {
        u.load(x + column, true);
        u.store(p.to.codes + (size_t)blockIdx.x * p.n_in + column, __frcp_rn(scale));
    }
}

int lf_cuda_quant_rows_setup(void)
{
    return load_kernels(quant_blocks<bf16>, quant_blocks<fp16>, quant_rows<bf16, QUANT_THREADS>,
                        quant_rows<fp16, QUANT_THREADS>, quant_rows<bf16, WIDE_THREADS>,
                        quant_rows<fp16, WIDE_THREADS>);
}

bool lf_cuda_quant_rows_supports(const struct lf_quant_params *p)
{
    return p->n_in % UNIT == 0 && p->x_stride % UNIT == 0 && (size_t)p->x % 16 == 0 && (size_t)p->to.codes % 8 == 0;
}

template <int THREADS> static int queue_rows(const lf_quant_params &p, lf_cuda_launch how)
{
    return queue_kernel(how.fp16 ? quant_rows<fp16, THREADS> : quant_rows<bf16, THREADS>, {dim3(p.n_tokens), THREADS},
                        how, p);
}

int lf_cuda_quant_rows(const struct lf_quant_params *p, struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    if (p->to.by == LF_FP8_ROWS)
        return p->n_tokens <= WIDE_TOKENS ? queue_rows<WIDE_THREADS>(*p, how) : queue_rows<QUANT_THREADS>(*p, how);
    dim3 grid(blocks_for(p->n_in, LF_FP8_BLOCK * BLOCKS), blocks_for(p->n_tokens, TOKENS));
    return queue_kernel(how.fp16 ? quant_blocks<fp16> : quant_blocks<bf16>, {grid, QUANT_THREADS}, how, *p);
}
