/* Coded weights (coded_order.h) as a row-major matrix of bf16 or fp16: what a GEMM of many tokens by a library reads.
 * Each value is rounded once: scale · (number - zero) in float. A thread has 8 neighbouring columns of a row, one word
 * of four-bit codes or two of FP8; a warp has 32 columns of 8 rows, or 256 of one, so that it writes whole sectors.
 * Bound by writing. */
#include "device/cuda/codes.cuh"
#include "device/cuda/launch.cuh"

enum { EXPAND_THREADS = 256, EXPAND_COLUMNS = 8, QUAD_COLUMNS = 32 };

struct expand_args {
    const char *codes, *scales, *zeros;
    void *out;
    int n_in, row_first, n_rows;
    int groups;                                           /* I4 */
    int scale_rows, scale_row_stride, scale_block_stride; /* E4M3 */
    int n_threads;                                        /* that have something to do */
};

template <class T> LF_GPU_FN uint32_t scaled_pair(uint32_t pair, float scale)
{
    float2 v = unpack<T>(pair);
    return pack<T>(scale * v.x, scale * v.y);
}

template <class T> LF_GPU_FN void expand_store(const expand_args &a, int row, int column, const uint4 &x, float scale)
{
    if (row >= a.n_rows || column >= a.n_in) return;
    *(uint4 *)((T *)a.out + (size_t)row * a.n_in + column) = make_uint4(
        scaled_pair<T>(x.x, scale), scaled_pair<T>(x.y, scale), scaled_pair<T>(x.z, scale), scaled_pair<T>(x.w, scale));
}

/* A lane's 16 bytes of a block: four times eight columns. CODE: LF_CODE_I4 or LF_CODE_E2M1. */
template <class T, lf_code CODE>
__global__ void __launch_bounds__(EXPAND_THREADS) expand_runs(const __grid_constant__ expand_args a)
{
    int64_t i = (int64_t)blockIdx.x * EXPAND_THREADS + threadIdx.x;
    start_successor();
    wait_predecessor();
    if (i >= a.n_threads) return;
    int n_blocks = (a.n_in + LF_CODED_BLOCK_K - 1) / LF_CODED_BLOCK_K;
    int unit = (int)(i / 32), lane = (int)(i % 32), r = lane / 4, t = lane % 4;
    size_t block = (size_t)(a.row_first / LF_CODED_RUN) * n_blocks + unit, at = (block * LF_CODED_RUN + r) * a.groups;
    int row = unit / n_blocks * LF_CODED_RUN + r, column = unit % n_blocks * LF_CODED_BLOCK_K + t * EXPAND_COLUMNS;
    uint4 codes = ((const uint4 *)a.codes)[block * 32 + lane];
    const uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
    for (int s = 0; s < 4; s++) {
        size_t group = at + s * a.groups / 4;
        if (CODE == LF_CODE_I4) {
            uint32_t zero = a.zeros ? (uint8_t)a.zeros[group] : LF_I4_ZERO;
            float scale = to_float(((const T *)a.scales)[group]);
            expand_store<T>(a, row, column + s * QUAD_COLUMNS, i4_elements<T>(words[s], i4_zeros<T>(zero)), scale);
        } else {
            uint32_t factor = (uint8_t)a.scales[group] * 0x00800080u;
            expand_store<T>(a, row, column + s * QUAD_COLUMNS, e2m1_elements(words[s], factor),
                            (float)(1ull << LF_E2M1_SHIFT));
        }
    }
}

template <class T> __global__ void __launch_bounds__(EXPAND_THREADS) expand_rows(const __grid_constant__ expand_args a)
{
    int64_t i = (int64_t)blockIdx.x * EXPAND_THREADS + threadIdx.x;
    start_successor();
    wait_predecessor();
    if (i >= a.n_threads) return;
    int chunks = a.n_in / (2 * EXPAND_COLUMNS), row = (int)(i / chunks),
        column = (int)(i % chunks) * 2 * EXPAND_COLUMNS;
    uint4 x = *(const uint4 *)(a.codes + (size_t)(a.row_first + row) * a.n_in + column);
    size_t at = (size_t)((a.row_first + row) / a.scale_rows) * a.scale_row_stride;
    float scale = ((const float *)a.scales)[at + (size_t)(column / LF_CODED_BLOCK_K) * a.scale_block_stride];
    expand_store<T>(a, row, column, e4m3_elements<T>(x.x, x.y), scale);
    expand_store<T>(a, row, column + EXPAND_COLUMNS, e4m3_elements<T>(x.z, x.w), scale);
}

/* ---- host ---- */

int lf_cuda_expand_setup(void)
{
    return load_kernels(expand_runs<bf16, LF_CODE_I4>, expand_runs<fp16, LF_CODE_I4>, expand_runs<bf16, LF_CODE_E2M1>,
                        expand_rows<bf16>, expand_rows<fp16>);
}

typedef void expand_kernel(const expand_args);

static expand_kernel *kernel_for(enum lf_code code, bool is_fp16)
{
    if (code == LF_CODE_E2M1) return expand_runs<bf16, LF_CODE_E2M1>;
    if (code == LF_CODE_I4) return is_fp16 ? expand_runs<fp16, LF_CODE_I4> : expand_runs<bf16, LF_CODE_I4>;
    return is_fp16 ? expand_rows<fp16> : expand_rows<bf16>;
}

int lf_cuda_expand(void *out, const struct lf_weight *w, int row_first, int n_rows, struct lf_cuda_launch how)
{
    const struct lf_format *format = &w->format;
    struct lf_coded_order order = lf_coded_order_of(format, w->n_out, w->n_in);
    if (n_rows == 0) return 0;
    expand_args a = {};
    a.codes = (const char *)w->data;
    a.scales = a.codes + order.scales_at;
    a.zeros = format->zeros ? a.codes + order.zeros_at : nullptr;
    a.out = out;
    a.n_in = w->n_in;
    a.row_first = row_first;
    a.n_rows = n_rows;
    a.groups = order.groups;
    a.scale_rows = order.scale_rows;
    a.scale_row_stride = order.n_groups;
    a.scale_block_stride = order.n_groups > 1;
    int units = (n_rows + LF_CODED_RUN - 1) / LF_CODED_RUN * order.n_blocks;
    a.n_threads = format->code == LF_CODE_E4M3 ? n_rows * (w->n_in / (2 * EXPAND_COLUMNS)) : units * 32;
    return queue_kernel(kernel_for(format->code, how.fp16), {blocks_for(a.n_threads, EXPAND_THREADS), EXPAND_THREADS},
                        how, a);
}
