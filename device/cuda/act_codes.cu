/* Gated activations that are written as e4m3 codes and scales (x_codes.h): what act.cu's kernel and then
 * quant_rows.cu's would make, to the bit.
 *
 * By blocks a thread has eight neighbouring columns, sixteen lanes a block of them; rows side by side in the grid's y.
 * By rows a thread block has a token, whose activations, rounded to elements, stay in registers until the largest of
 * them is known. Bound by memory: 5 bytes an element. CPU twin: none, a CPU takes no activations as codes. */
#include "device/cuda/gate.cuh"
#include "device/cuda/launch.cuh"
#include "device/cuda/quant.cuh"

enum {
    UNIT = 8, /* columns of a thread at a time */
    LANES = LF_FP8_BLOCK / UNIT,
    BLOCK_THREADS = 128,
    MAX_THREADS = 1024,
    FEW_UNITS = 2, /* of a thread, by rows: rows of up to 16,384 columns */
    MOST_UNITS = 4
};
static_assert((int)LF_GATE_CODES_DIM == MAX_THREADS * MOST_UNITS * UNIT, "a row is in registers");

/* Eight columns from `unit` on of a row of gate_up; zeros where there are none. */
template <class T, lf_act ACT> LF_GPU_FN uint4 gate_unit(const lf_gate_mul_params &p, size_t row, int unit)
{
    int n_units = p.dim / UNIT;
    if (unit >= n_units) return make_uint4(0, 0, 0, 0);
    const uint4 *in = (const uint4 *)p.gate_up + row * 2 * n_units;
    uint4 gate = in[unit], up = in[n_units + unit];
    return make_uint4(gate_mul_pair<T, ACT>(gate.x, up.x, p.limit), gate_mul_pair<T, ACT>(gate.y, up.y, p.limit),
                      gate_mul_pair<T, ACT>(gate.z, up.z, p.limit), gate_mul_pair<T, ACT>(gate.w, up.w, p.limit));
}

template <class T> LF_GPU_FN quant_unit<T, UNIT> widened(uint4 words)
{
    quant_unit<T, UNIT> u;
    u.take({words.x, words.y, words.z, words.w});
    return u;
}

template <class T>
LF_GPU_FN void store_unit(const lf_gate_mul_params &p, size_t row, int unit, uint4 words, float inverse)
{
    quant_unit<T, UNIT> u = widened<T>(words);
    if (unit < p.dim / UNIT)
        *(uint2 *)(p.codes.codes + row * p.dim + unit * UNIT) = make_uint2(u.codes(0, inverse), u.codes(4, inverse));
}

template <class T, lf_act ACT>
__global__ void __launch_bounds__(BLOCK_THREADS) gate_codes_blocks(const lf_gate_mul_params p)
{
    int unit = blockIdx.x * BLOCK_THREADS + threadIdx.x;
    start_successor();
    wait_predecessor();
    for (int row = blockIdx.y; row < p.n_tokens; row += gridDim.y) {
        uint4 words = gate_unit<T, ACT>(p, row, unit);
        float scale = scale_of(lanes_reduce<LANES>(widened<T>(words).largest(), larger));
        if (unit % LANES == 0 && unit < p.dim / UNIT)
            p.codes.scales[(size_t)(unit / LANES) * p.codes.scale_stride + row] = scale;
        store_unit<T>(p, row, unit, words, __frcp_rn(scale));
    }
}

template <class T, lf_act ACT, int UNITS>
__global__ void __launch_bounds__(MAX_THREADS) gate_codes_rows(const lf_gate_mul_params p)
{
    uint4 words[UNITS];
    float most = 0.0f;
    start_successor();
    wait_predecessor();
#pragma unroll
    for (int i = 0; i < UNITS; i++) {
        words[i] = gate_unit<T, ACT>(p, blockIdx.x, threadIdx.x + i * blockDim.x);
        most = larger(most, widened<T>(words[i]).largest());
    }
    float scale = scale_of(block_largest(most));
    if (threadIdx.x == 0) p.codes.scales[blockIdx.x] = scale;
#pragma unroll
    for (int i = 0; i < UNITS; i++)
        store_unit<T>(p, blockIdx.x, threadIdx.x + i * blockDim.x, words[i], __frcp_rn(scale));
}

/* ---- host ---- */

typedef void codes_kernel(const lf_gate_mul_params);
enum codes_kind { CODES_BLOCKS, CODES_ROWS, CODES_LONG_ROWS, CODES_KINDS_N };

template <class T, lf_act ACT> static codes_kernel *kernel_of(codes_kind kind)
{
    if (kind == CODES_BLOCKS) return gate_codes_blocks<T, ACT>;
    return kind == CODES_ROWS ? gate_codes_rows<T, ACT, FEW_UNITS> : gate_codes_rows<T, ACT, MOST_UNITS>;
}

template <class T> static codes_kernel *find_kernel(lf_act act, codes_kind kind)
{
    switch (act) {
    case LF_ACT_GELU_TANH:
        return kernel_of<T, LF_ACT_GELU_TANH>(kind);
    case LF_ACT_GELU:
        return kernel_of<T, LF_ACT_GELU>(kind);
    case LF_ACT_SWIGLU_OAI:
        return kernel_of<T, LF_ACT_SWIGLU_OAI>(kind);
    default:
        return kernel_of<T, LF_ACT_SILU>(kind);
    }
}

int lf_cuda_gate_codes_setup(void)
{
    int rc = 0;
    for (int act = 0; act < LF_ACTS_N; act++)
        for (int kind = 0; kind < CODES_KINDS_N && rc == 0; kind++)
            rc = load_kernels(find_kernel<bf16>((lf_act)act, (codes_kind)kind),
                              find_kernel<fp16>((lf_act)act, (codes_kind)kind));
    return rc;
}

static launch_shape shape_of(const struct lf_gate_mul_params *p, codes_kind kind)
{
    int n_units = p->dim / UNIT;
    if (kind == CODES_BLOCKS)
        return {dim3(blocks_for(n_units, BLOCK_THREADS), (unsigned)min(p->n_tokens, (int)MOST_GRID_Y)), BLOCK_THREADS};
    int threads = (int)blocks_for(n_units, kind == CODES_ROWS ? FEW_UNITS : MOST_UNITS);
    return {dim3((unsigned)p->n_tokens), blocks_for(threads, WARP) * WARP};
}

int lf_cuda_gate_codes(const struct lf_gate_mul_params *p, struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    codes_kind kind = p->codes.by == LF_FP8_BLOCKS                    ? CODES_BLOCKS
                      : p->dim <= MAX_THREADS * FEW_UNITS * (int)UNIT ? CODES_ROWS
                                                                      : CODES_LONG_ROWS;
    return queue_kernel(how.fp16 ? find_kernel<fp16>(p->act, kind) : find_kernel<bf16>(p->act, kind), shape_of(p, kind),
                        how, *p);
}
