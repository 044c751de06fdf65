/* GEMV (gemv.cuh) with the epilogues of gemv_epilogues.cuh. And, for shapes that nobody else takes, a GEMM that takes
 * any. */
#include "device/cuda/gemv_epilogues.cuh"

/* Outputs of float are the residual stream, what is added to it behind this GEMV (by a norm, or over ranks), or, where
 * they are more, logits. */
enum { MOST_WIDE = 16 * 1024 - 1 };

/* ---- any shape, any number of tokens: a warp an output ---- */

struct any_args {
    lf_gemm_params p;
    const void *w;
    int n_in, n_out;
};

template <class T> __global__ void __launch_bounds__(GEMV_THREADS) gemm_any(const __grid_constant__ any_args a)
{
    const lf_gemm_params &p = a.p;
    int lane = threadIdx.x % WARP, col = blockIdx.x * GEMV_WARPS + threadIdx.x / WARP;
    start_successor();
    wait_predecessor();
    if (col >= a.n_out) return;
    const T *w = (const T *)a.w + (size_t)col * a.n_in;
    for (int token = blockIdx.y; token < p.n_tokens; token += gridDim.y) {
        const T *x = (const T *)p.x + (size_t)token * p.x_stride;
        size_t at = (size_t)token * p.y_stride + col;
        float sum = 0.0f;
        for (int k = lane; k < a.n_in; k += WARP) sum += to_float(w[k]) * to_float(x[k]);
        sum = warp_sum(sum);
        if (p.bias) sum += p.bias[col];
        if (lane != 0) continue;
        sum *= p.alpha;
        if (p.residual) sum += p.residual[at];
        if (p.y_float)
            ((float *)p.y)[at] = sum;
        else
            ((T *)p.y)[at] = from_float<T>(sum);
    }
}

/* ---- host ---- */

int lf_cuda_gemv_setup(bool *fits)
{
    int rc = load_kernels(gemm_any<bf16>, gemm_any<fp16>);
    if (rc == 0) rc = gemv_setup<plain>(fits);
    if (rc == 0 && *fits) rc = gemv_setup<silu_gated>(fits);
    return rc == 0 && *fits ? gemv_setup<gated>(fits) : rc;
}

bool lf_cuda_gemv_supports(const struct lf_gemm_params *p)
{
    return p->n_tokens <= LF_CUDA_GEMV_TOKENS && lf_format_is_plain(&p->w->format) && p->w->n_in % 8 == 0 &&
           p->x_stride % 8 == 0 && ((size_t)p->w->data | (size_t)p->x) % 16 == 0;
}

bool lf_cuda_gemv_gate_mul_supports(const struct lf_gemm_params *p)
{
    return lf_cuda_gemv_supports(p) && !p->y_float && p->w->n_out % GEMV_TILE == 0;
}

int lf_cuda_gemv(const struct lf_gemm_params *p, int n_blocks, struct lf_cuda_launch how)
{
    plain_args f = {p->y, p->bias, p->residual, p->y_stride, p->y_float, p->norm};
    bool wide = p->y_float && p->w->n_out <= MOST_WIDE;
    return gemv_launch<plain>(gemv_args(p, (p->w->n_out + GEMV_TILE - 1) / GEMV_TILE), f, n_blocks, wide, how);
}

int lf_cuda_gemv_gate_mul(const struct lf_gemm_params *p, const struct lf_gate_mul_params *gate, int n_blocks,
                          struct lf_cuda_launch how)
{
    gated_args f = {gate->out, p->bias, gate->dim, gate->act, gate->limit};
    gemv_params args = gemv_args(p, p->w->n_out / GEMV_TILE);
    if (gate->act == LF_ACT_SILU) return gemv_launch<silu_gated>(args, f, n_blocks, false, how);
    return gemv_launch<gated>(args, f, n_blocks, false, how);
}

int lf_cuda_gemm_any(const struct lf_gemm_params *p, struct lf_cuda_launch how)
{
    if (p->n_tokens == 0) return 0;
    dim3 grid(blocks_for(p->w->n_out, GEMV_WARPS), (unsigned)min(p->n_tokens, (int)MOST_GRID_Y));
    any_args a = {*p, p->w->data, p->w->n_in, p->w->n_out};
    return queue_kernel(how.fp16 ? gemm_any<fp16> : gemm_any<bf16>, {grid, GEMV_THREADS}, how, a);
}
