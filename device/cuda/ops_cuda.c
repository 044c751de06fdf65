/* The op table of a GPU: checks, then a launcher. Each op is skipped once the device has failed. Weights:
 * weights_cuda.c. */
#include "core/check.h"
#include "device/cuda/cuda_impl.h"
#include "device/cuda/delta_cuda.h"
#include "device/cuda/experts_cuda.h"
#include "device/cuda/experts_fp8.h"
#include "device/cuda/gemm_coded.h"
#include "device/cuda/gemm_cublaslt.h"
#include "device/cuda/gemm_fp8.h"
#include "device/cuda/weights_cuda.h"

enum { GEMM_SCRATCH_BYTES = 64 };
_Static_assert((int)LF_CUDA_GEMV_TOKENS <= (int)LF_FUSED_NORM_TOKENS, "what fused_norm_tokens says");

static uint64_t gemm_scratch_bytes(int max_tokens, int max_n_in)
{
    /* cuBLASLt's workspace is the device's: context_bytes */
    return GEMM_SCRATCH_BYTES + lf_cuda_gemm_coded_scratch(max_tokens, max_n_in);
}

static bool quantizes_x(const struct lf_device *dev, const struct lf_weight *w, enum lf_fp8_scales *by)
{
    if (w->n_in < LF_FP8_BLOCK) return false;
    return w->n_experts > 0 ? lf_cuda_experts_fp8_takes(dev, w, by) : lf_cuda_fp8_op_quantizes_x(dev, w, by);
}

/* ---- ops ---- */

static void embed(struct lf_device *dev, const struct lf_embed_params *p)
{
    LF_ASSERT(p->n_tokens >= 0 && p->column >= 0 && lf_embed_width(p) > 0);
    LF_ASSERT(lf_embed_width(p) <= p->table->n_in - p->column);
    if (lf_cuda_ok(dev)) lf_cuda_check(dev, lf_cuda_embed(p, lf_cuda_launch(dev)), "embed");
}

static void rmsnorm(struct lf_device *dev, const struct lf_rmsnorm_params *p)
{
    LF_ASSERT(p->n_tokens >= 0 && p->dim > 0 && p->out != p->x);
    LF_ASSERT((p->residual == NULL && p->scale == NULL) || p->out_float);
    LF_ASSERT(p->codes.codes == NULL || (!p->out_float && p->dim % 4 == 0 && p->dim <= LF_NORM_CODES_DIM));
    if (lf_cuda_ok(dev)) lf_cuda_check(dev, lf_cuda_rmsnorm(p, lf_cuda_launch(dev)), "rmsnorm");
}

static void check_gemm(const struct lf_gemm_params *p)
{
    LF_ASSERT(p->n_tokens >= 0 && p->w->n_in > 0 && p->w->n_out > 0);
    LF_ASSERT(p->x_stride >= p->w->n_in && p->y_stride >= p->w->n_out);
    LF_ASSERT(p->residual == NULL || p->y_float);
    LF_ASSERT(p->norm.h == NULL || (p->y_float && p->y_stride == p->w->n_out));
    LF_ASSERT(p->x_codes.codes == NULL || (p->x_sum_squares == NULL && !lf_format_is_plain(&p->w->format)));
}

/* A norm before its scale may be far from 1, which bf16 takes and fp16 does not. */
static int fused_norm_tokens(const struct lf_device *dev, const struct lf_gemm_params *p)
{
    struct lf_gemm_params most = *p;
    most.n_tokens = LF_CUDA_GEMV_TOKENS;
    bool is_gemv = lf_format_is_plain(&p->w->format) ? dev->cuda->has_gemv && lf_cuda_gemv_supports(&most)
                                                     : lf_cuda_gemm_coded_is_gemv(dev, &most);
    return is_gemv && dev->info.act_dtype == LF_BF16 ? LF_CUDA_GEMV_TOKENS : 0;
}

static void gemm(struct lf_device *dev, const struct lf_gemm_params *p)
{
    check_gemm(p);
    if (!lf_cuda_ok(dev) || p->n_tokens == 0) return;
    if (!lf_format_is_plain(&p->w->format)) {
        lf_cuda_gemm_coded(dev, p);
        return;
    }
    if (!dev->cuda->has_gemv || !lf_cuda_gemv_supports(p)) {
        LF_ASSERT(p->norm.h == NULL && p->x_sum_squares == NULL);
        lf_cuda_gemm_run(dev, p);
        return;
    }
    lf_cuda_check(dev, lf_cuda_gemv(p, dev->info.n_sms, lf_cuda_launch(dev)), "GEMV");
}

static void check_gate_mul(const struct lf_gate_mul_params *p)
{
    LF_ASSERT(p->n_tokens >= 0 && p->dim > 0 && (int)p->act >= 0 && p->act < LF_ACTS_N);
    LF_ASSERT(p->act != LF_ACT_SWIGLU_OAI || p->limit > 0.0f);
    LF_ASSERT(p->codes.codes == NULL || (!p->up && p->dim % 8 == 0 && p->dim <= LF_GATE_CODES_DIM));
}

static void gemm_gate_mul(struct lf_device *dev, const struct lf_gemm_params *p, const struct lf_gate_mul_params *gate)
{
    check_gemm(p);
    check_gate_mul(gate);
    LF_ASSERT(gate->gate_up == p->y && 2 * gate->dim == p->w->n_out && !gate->up);
    if (!lf_cuda_ok(dev) || p->n_tokens == 0) return;
    bool is_fp16 = dev->info.act_dtype == LF_F16, is_coded = !lf_format_is_plain(&p->w->format);
    if (gate->codes.codes) /* no GEMV has the largest of a whole row */
        lf_gemm_then_gate_mul(dev, p, gate);
    else if (dev->cuda->has_gemv && lf_cuda_gemv_gate_mul_supports(p))
        lf_cuda_check(dev, lf_cuda_gemv_gate_mul(p, gate, dev->info.n_sms, lf_cuda_launch(dev)), "GEMV");
    else if (is_coded && lf_cuda_gemm_coded_is_gemv(dev, p) && lf_cuda_gemv_quant_gate_mul_supports(p, is_fp16))
        lf_cuda_check(dev, lf_cuda_gemv_quant_gate_mul(p, gate, dev->info.n_sms, lf_cuda_launch(dev)), "GEMV");
    else
        lf_gemm_then_gate_mul(dev, p, gate);
}

static void gemm_prepare(struct lf_device *dev, const struct lf_gemm_params *p)
{
    check_gemm(p);
    if (!lf_cuda_ok(dev) || p->n_tokens == 0) return;
    (lf_format_is_plain(&p->w->format) ? lf_cuda_gemm_prepare : lf_cuda_gemm_coded_prepare)(dev, p);
}

static void gate_mul(struct lf_device *dev, const struct lf_gate_mul_params *p)
{
    check_gate_mul(p);
    if (!lf_cuda_ok(dev)) return;
    int (*launch)(const struct lf_gate_mul_params *, struct lf_cuda_launch) =
        p->codes.codes ? lf_cuda_gate_codes : lf_cuda_gate_mul;
    lf_cuda_check(dev, launch(p, lf_cuda_launch(dev)), "gate_mul");
}

static void softcap(struct lf_device *dev, const struct lf_softcap_params *p)
{
    LF_ASSERT(p->n >= 0 && (p->cap > 0.0f || p->n == 0));
    if (lf_cuda_ok(dev)) lf_cuda_check(dev, lf_cuda_softcap(p, lf_cuda_launch(dev)), "softcap");
}

static void round_floats(struct lf_device *dev, const struct lf_round_params *p)
{
    LF_ASSERT(p->n >= 0);
    if (lf_cuda_ok(dev))
        lf_cuda_check(dev, lf_cuda_scale(p->out, false, p->x, 1.0f, p->n, lf_cuda_launch(dev)), "round");
}

static void gather(struct lf_device *dev, const struct lf_gather_params *p)
{
    LF_ASSERT(p->n_rows >= 0 && p->dim > 0);
    if (!lf_cuda_ok(dev)) return;
    size_t row_bytes = (size_t)p->dim * lf_dtype_bytes(p->dtype);
    lf_cuda_check(dev, lf_cuda_gather(p->out, p->x, p->rows, p->n_rows, row_bytes, lf_cuda_launch(dev)), "gather");
}

static void sample(struct lf_device *dev, const struct lf_sample_params *p)
{
    LF_ASSERT(p->n_rows >= 0 && p->n_vocab > 0 && p->n_vocab <= LF_VOCAB_N);
    if (lf_cuda_ok(dev)) lf_cuda_check(dev, lf_cuda_sample(p, lf_cuda_launch(dev)), "sample");
}

static void sample_counts(struct lf_device *dev, const struct lf_sample_counts_params *p)
{
    LF_ASSERT(p->n_vocab > 0 && p->n_prompt >= 0 && p->n_output >= 0);
    if (lf_cuda_ok(dev)) lf_cuda_check(dev, lf_cuda_sample_counts(p, lf_cuda_launch(dev)), "sample_counts");
}

static enum lf_status load_kernels(struct lf_device *dev, struct lf_err *err)
{
    int rc = lf_cuda_norm_setup();
    if (rc == 0) rc = lf_cuda_act_setup();
    if (rc == 0) rc = lf_cuda_gate_codes_setup();
    if (rc == 0) rc = lf_cuda_embed_setup();
    if (rc == 0) rc = lf_cuda_gemv_setup(&dev->cuda->has_gemv);
    if (rc == 0) rc = lf_cuda_gemv_quant_setup(&dev->cuda->has_gemv_quant);
    if (rc == 0) rc = lf_cuda_expand_setup();
    if (rc == 0) rc = lf_cuda_fp8_op_setup(dev);
    if (rc == 0) rc = lf_cuda_sample_setup();
    if (rc == 0) rc = lf_experts_cuda_setup(dev);
    if (rc == 0) rc = lf_delta_cuda_setup(dev);
    if (rc == 0) return LF_OK;
    (void)cudaGetLastError();
    return lf_fail(err, LF_DEVICE, "loading kernels: %s", cudaGetErrorString((cudaError_t)rc));
}

void lf_ops_cuda_fill(struct lf_device *dev)
{
    dev->ops = (struct lf_ops){.name = dev->info.name,
                               .gemm_scratch_bytes = gemm_scratch_bytes,
                               .gemm_prepare = gemm_prepare,
                               .fused_norm_tokens = fused_norm_tokens,
                               .quantizes_x = quantizes_x,
                               .embed = embed,
                               .rmsnorm = rmsnorm,
                               .gemm = gemm,
                               .gate_mul = gate_mul,
                               .gemm_gate_mul = gemm_gate_mul,
                               .softcap = softcap,
                               .round = round_floats,
                               .gather = gather,
                               .sample = sample,
                               .sample_counts = sample_counts};
    lf_weights_cuda_fill(&dev->ops);
    lf_experts_cuda_fill(&dev->ops);
    lf_delta_cuda_fill(&dev->ops);
}

enum lf_status lf_ops_cuda_init(struct lf_device *dev, struct lf_err *err)
{
    lf_ops_cuda_fill(dev);
    LF_TRY(load_kernels(dev, err));
    return lf_cuda_gemm_create(dev, err);
}

void lf_ops_cuda_deinit(struct lf_device *dev)
{
    lf_cuda_gemm_destroy(dev);
}
