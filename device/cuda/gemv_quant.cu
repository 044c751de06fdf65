/* GEMV of coded weights (gemv_quant.cuh) with the epilogues of gemv_epilogues.cuh. */
#include "device/cuda/gemv_quant.cuh"

#include "device/cuda/gemv_epilogues.cuh"

int lf_cuda_gemv_quant_setup(bool *fits)
{
    int rc = quant_setup<plain>(fits);
    if (rc == 0 && *fits) rc = quant_setup<silu_gated>(fits);
    return rc == 0 && *fits ? quant_setup<gated>(fits) : rc;
}

bool lf_cuda_gemv_quant_supports(const struct lf_gemm_params *p, bool fp16)
{
    return p->n_tokens <= LF_CUDA_GEMV_TOKENS && !lf_format_is_plain(&p->w->format) &&
           lf_coded_order_has(&p->w->format, p->w->n_in) && p->x_stride % 8 == 0 &&
           ((size_t)p->w->data | (size_t)p->x) % 16 == 0 && !(p->w->format.code == LF_CODE_E2M1 && fp16);
}

bool lf_cuda_gemv_quant_gate_mul_supports(const struct lf_gemm_params *p, bool fp16)
{
    return lf_cuda_gemv_quant_supports(p, fp16) && !p->y_float && p->w->n_out % GEMV_TILE == 0;
}

int lf_cuda_gemv_quant(const struct lf_gemm_params *p, int n_blocks, struct lf_cuda_launch how)
{
    plain_args f = {p->y, p->bias, p->residual, p->y_stride, p->y_float, p->norm};
    int n_tiles = (p->w->n_out + GEMV_TILE - 1) / GEMV_TILE;
    return quant_launch<plain>(p, n_tiles, f, n_blocks, how);
}

int lf_cuda_gemv_quant_gate_mul(const struct lf_gemm_params *p, const struct lf_gate_mul_params *gate, int n_blocks,
                                struct lf_cuda_launch how)
{
    gated_args f = {gate->out, p->bias, gate->dim, gate->act, gate->limit};
    int n_tiles = p->w->n_out / GEMV_TILE;
    if (gate->act == LF_ACT_SILU) return quant_launch<silu_gated>(p, n_tiles, f, n_blocks, how);
    return quant_launch<gated>(p, n_tiles, f, n_blocks, how);
}
