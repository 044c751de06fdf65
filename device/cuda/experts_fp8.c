/* Experts of FP8 weights by FP8 activations, on Hopper: as gemm_fp8.c has it for one matrix, with the same scales and
 * the same sums. Codes are what made x has written (x_codes), or x is quantized into the scratch here.
 *
 * Rows by token are quantized all at once: they are no more than the step's tokens. Sorted rows are as many for each of
 * a token's experts; so that the scratch is bounded, they are quantized and multiplied so many at a time, wherever an
 * expert's rows are cut by that. No row's bits depend on it. */
#include "device/cuda/experts_fp8.h"

#include "core/check.h"
#include "device/cuda/coded_order.h"
#include "device/cuda/cuda_impl.h"
#include "device/cuda/expert_gemm_fp8_sm90.h"
#include "device/cuda/gemm_fp8.h"
#include "device/cuda/gemm_fp8_sm90.h"

static int n_rows_of(const struct lf_expert_gemm_params *p)
{
    return p->x_by_token ? p->n_tokens : p->n_tokens * p->k;
}

/* Rows of x that are quantized at a time. */
static int chunk_rows(const struct lf_expert_gemm_params *p)
{
    int n = n_rows_of(p);
    return p->x_by_token ? n : LF_MIN(n, lf_cuda_fp8_op_chunk(p->w->n_in));
}

uint64_t lf_cuda_experts_fp8_scratch(const struct lf_expert_gemm_params *p)
{
    return lf_x_codes_bytes(chunk_rows(p), p->w->n_in);
}

bool lf_cuda_experts_fp8_takes(const struct lf_device *dev, const struct lf_weight *w, enum lf_fp8_scales *by)
{
    return dev->cuda->has_expert_gemm && dev->cuda->has_fp8 && lf_cuda_fp8_op_scales(w, by) &&
           lf_coded_order_has(&w->format, w->n_in) && w->n_out % 8 == 0;
}

/* Of rows [row0, row0 + n) of x, whose codes are these. */
static void multiply(struct lf_device *dev, const struct lf_expert_gemm_params *p, const struct lf_x_codes *x, int row0,
                     int n)
{
    const struct lf_weight *w = p->w;
    size_t scales_at = lf_coded_order_of(&w->format, w->n_out, w->n_in).scales_at;
    size_t expert_bytes = (size_t)lf_weight_expert_bytes(&dev->ops, w);
    struct lf_expert_gemm_params q = *p;
    q.x_codes = *x;
    if (p->x_by_token) n = p->n_tokens * p->k;
    if (!lf_cuda_ok(dev)) return;
    int rc = lf_cuda_expert_gemm_fp8_sm90(&q, (const float *)(const void *)((const char *)w->data + scales_at),
                                          expert_bytes, row0, n, dev->info.n_sms, -1, lf_cuda_launch(dev));
    lf_cuda_check(dev, rc, "FP8 GEMM of experts");
}

void lf_cuda_experts_fp8(struct lf_device *dev, const struct lf_expert_gemm_params *p)
{
    enum lf_fp8_scales by;
    int n_rows = n_rows_of(p), n_in = p->w->n_in, chunk = chunk_rows(p);
    LF_ASSERT(lf_cuda_fp8_op_scales(p->w, &by) && (!p->x_codes.codes || p->x_codes.by == by));
    if (p->x_codes.codes) {
        multiply(dev, p, &p->x_codes, 0, n_rows);
        return;
    }
    LF_ASSERT(p->scratch != NULL);
    for (int row = 0; row < n_rows && lf_cuda_ok(dev); row += chunk) {
        int n = LF_MIN(chunk, n_rows - row);
        struct lf_quant_params quant = {.to = lf_x_codes_at(p->scratch, n, n_in, by),
                                        .x = (const char *)p->x + (size_t)row * (size_t)n_in * 2,
                                        .n_tokens = n,
                                        .n_in = n_in,
                                        .x_stride = n_in};
        lf_cuda_check(dev, lf_cuda_quant_rows(&quant, lf_cuda_launch(dev)), "quantizing rows of experts");
        multiply(dev, p, &quant.to, row, n);
    }
}
