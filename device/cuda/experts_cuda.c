/* The ops of experts on a GPU: checks, then a launcher, as in ops_cuda.c.
 *
 * Of the grouped GEMMs Hopper has one for any number of tokens (expert_gemm_sm90.cu), one of FP8 weights by FP8
 * activations (experts_fp8.c), and one of other coded weights (expert_gemm_coded_sm90.cu): only there do they stay
 * coded. Other GPUs take the one that is made for up to 16 (expert_gemv.cu). And there is one for any shape and GPU,
 * slowly (expert_rows.cu). Which one it is depends on the GPU and the shape alone, and in each a row's bits are its
 * own: so they are in any number of tokens. */
#include "device/cuda/experts_cuda.h"

#include "core/check.h"
#include "core/limits.h"
#include "device/cuda/coded_order.h"
#include "device/cuda/expert_gemm_coded_sm90.h"
#include "device/cuda/expert_gemm_fp8_sm90.h"
#include "device/cuda/experts_fp8.h"

enum { COLUMNS_ALIGN = 8 /* of coded matrices */ };

static void route(struct lf_device *dev, const struct lf_route_params *p)
{
    LF_ASSERT(p->n_tokens >= 0 && p->n_experts >= 1 && p->n_experts <= LF_EXPERTS_N);
    LF_ASSERT(p->k >= 1 && p->k <= p->n_experts && p->k <= LF_EXPERTS_PER_TOKEN_N);
    if (lf_cuda_ok(dev)) lf_cuda_check(dev, lf_cuda_route(p, lf_cuda_launch(dev)), "route");
}

static int launch_gemm(const struct lf_device *dev, const struct lf_expert_gemm_params *p)
{
    struct lf_cuda_launch how = lf_cuda_launch(dev);
    const struct lf_cuda *cuda = dev->cuda;
    size_t expert_bytes = (size_t)lf_weight_expert_bytes(&dev->ops, p->w);
    int n_sms = dev->info.n_sms;
    bool fits = cuda->has_expert_gemm && lf_cuda_expert_gemm_sm90_supports(p);
    LF_ASSERT(fits || lf_format_is_plain(&p->w->format));
    if (!lf_format_is_plain(&p->w->format)) return lf_cuda_expert_gemm_coded_sm90(p, expert_bytes, n_sms, -1, how);
    if (fits) return lf_cuda_expert_gemm_sm90(p, expert_bytes, n_sms, -1, how);
    if (cuda->has_expert_gemv && lf_cuda_expert_gemv_supports(p))
        return lf_cuda_expert_gemv(p, expert_bytes, n_sms, how);
    return lf_cuda_expert_gemm_any(p, expert_bytes, how);
}

static void expert_gemm(struct lf_device *dev, const struct lf_expert_gemm_params *p)
{
    LF_ASSERT(p->n_tokens >= 0 && p->w->n_experts >= 1 && p->w->n_experts <= LF_EXPERTS_N);
    LF_ASSERT(lf_format_is_plain(&p->w->format) ||
              lf_experts_cuda_has_format(dev, &p->w->format, p->w->n_out, p->w->n_in));
    LF_ASSERT(p->w->n_in > 0 && p->w->n_out > 0 && p->k >= 1 && p->k <= p->w->n_experts);
    enum lf_fp8_scales by;
    if (lf_cuda_experts_fp8_takes(dev, p->w, &by)) {
        lf_cuda_experts_fp8(dev, p);
        return;
    }
    LF_ASSERT(p->x_codes.codes == NULL);
    if (lf_cuda_ok(dev)) lf_cuda_check(dev, launch_gemm(dev, p), "GEMM of experts");
}

static void expert_sum(struct lf_device *dev, const struct lf_expert_sum_params *p)
{
    LF_ASSERT(p->n_tokens >= 0 && p->dim > 0 && p->k >= 1);
    if (lf_cuda_ok(dev)) lf_cuda_check(dev, lf_cuda_expert_sum(p, lf_cuda_launch(dev)), "expert_sum");
}

int lf_experts_cuda_setup(struct lf_device *dev)
{
    int rc = lf_cuda_route_setup();
    if (rc == 0) rc = lf_cuda_expert_rows_setup();
    if (rc == 0) rc = lf_cuda_expert_gemv_setup(&dev->cuda->has_expert_gemv);
    dev->cuda->has_expert_gemm = dev->info.sm == 90;
    if (rc == 0 && dev->cuda->has_expert_gemm) rc = lf_cuda_expert_gemm_sm90_setup();
    if (rc == 0 && dev->cuda->has_expert_gemm) rc = lf_cuda_expert_gemm_fp8_sm90_setup();
    return rc == 0 && dev->cuda->has_expert_gemm ? lf_cuda_expert_gemm_coded_sm90_setup() : rc;
}

bool lf_experts_cuda_has_format(const struct lf_device *dev, const struct lf_format *format, int n_out, int n_in)
{
    /* A GPU that is only described is taken for one of Hopper's. */
    bool has_kernels = dev->info.is_described || dev->cuda->has_expert_gemm;
    bool has_code = format->code != LF_CODE_E2M1 || dev->info.act_dtype == LF_BF16;
    return has_kernels && has_code && lf_coded_order_has(format, n_in) && n_in % COLUMNS_ALIGN == 0 &&
           n_out % COLUMNS_ALIGN == 0;
}

void lf_experts_cuda_fill(struct lf_ops *ops)
{
    ops->expert_gemm_scratch_bytes = lf_cuda_experts_fp8_scratch;
    ops->route = route;
    ops->expert_gemm = expert_gemm;
    ops->expert_sum = expert_sum;
}
