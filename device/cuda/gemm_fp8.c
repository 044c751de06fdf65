/* FP8 weights by FP8 activations, on Hopper: codes are multiplied by codes (gemm_fp8_sm90.h). Those of x are what made
 * it has written (x_codes), or x is quantized into the scratch here (quant_rows.cu): the same bits.
 *
 * Which matrices. Scales are blocks of 128 x 128, or one a row; x is scaled likewise, by token and 128 columns or by
 * token. Others (128 columns of one row) have products that no block's scale factors out of: they stay with GEMVs and
 * expansion (gemm_coded.c), where activations keep their 16 bits.
 *
 * Why for few tokens too. A GEMV of activations in 16 bits is more exact, and up to 8 tokens a step of it is faster
 * (docs/notebook/gemm-fp8.md). But a token's bits would then depend on how many are beside it, and a prompt's on how it
 * is cut. Here they do not, for any number. */
#include "device/cuda/gemm_fp8.h"

#include "core/check.h"
#include "device/cuda/coded_order.h"
#include "device/cuda/cuda_impl.h"
#include "device/cuda/gemm_coded.h"
#include "device/cuda/gemm_fp8_sm90.h"

enum { SCRATCH_BYTES = 64 << 20 /* at most */ };
enum { CHUNK = 256 /* tokens of a tile: a chunk is a multiple where that fits */ };

int lf_cuda_fp8_op_chunk(int n_in)
{
    uint64_t of_token = lf_x_codes_bytes(LF_SCALES_STRIDE, n_in) / LF_SCALES_STRIDE + 1;
    int n = (int)((SCRATCH_BYTES - LF_CODES_ALIGN) / of_token);
    return n > CHUNK ? n / CHUNK * CHUNK : LF_MAX(n / LF_SCALES_STRIDE * LF_SCALES_STRIDE, (int)LF_SCALES_STRIDE);
}

uint64_t lf_cuda_fp8_op_scratch(int max_tokens, int max_n_in)
{
    uint64_t least = lf_x_codes_bytes(LF_SCALES_STRIDE, max_n_in);
    return max_tokens <= lf_cuda_fp8_op_chunk(max_n_in) ? lf_x_codes_bytes(max_tokens, max_n_in)
                                                        : LF_MAX(least, SCRATCH_BYTES);
}

bool lf_cuda_fp8_op_scales(const struct lf_weight *w, enum lf_fp8_scales *by)
{
    const struct lf_format *f = &w->format;
    if (f->code != LF_CODE_E4M3) return false;
    *by = f->group_rows > 1 ? LF_FP8_BLOCKS : LF_FP8_ROWS;
    if (*by == LF_FP8_BLOCKS) return f->group_rows == LF_FP8_BLOCK && f->group == LF_FP8_BLOCK;
    return lf_format_n_groups(f, w->n_in) == 1;
}

static struct lf_quant_params quant_of(const struct lf_gemm_params *p, enum lf_fp8_scales by)
{
    return (struct lf_quant_params){.to = lf_x_codes_at(p->scratch, p->n_tokens, p->w->n_in, by),
                                    .x = p->x,
                                    .n_tokens = p->n_tokens,
                                    .n_in = p->w->n_in,
                                    .x_stride = p->x_stride};
}

static struct lf_fp8_gemm_params gemm_of(const struct lf_gemm_params *p, const struct lf_x_codes *x)
{
    const struct lf_weight *w = p->w;
    size_t scales_at = lf_coded_order_of(&w->format, w->n_out, w->n_in).scales_at;
    return (struct lf_fp8_gemm_params){.y = p->y,
                                       .y_float = p->y_float,
                                       .by = x->by,
                                       .x = x->codes,
                                       .x_scales = x->scales,
                                       .x_scale_stride = x->scale_stride,
                                       .w = w->data,
                                       .w_scales = (const float *)(const void *)((const char *)w->data + scales_at),
                                       .bias = p->bias,
                                       .residual = p->residual,
                                       .alpha = p->alpha,
                                       .n_tokens = p->n_tokens,
                                       .n_in = w->n_in,
                                       .n_out = w->n_out,
                                       .y_stride = p->y_stride};
}

bool lf_cuda_fp8_op_takes(const struct lf_device *dev, const struct lf_gemm_params *p)
{
    enum lf_fp8_scales by;
    if (!dev->cuda->has_fp8 || !lf_cuda_fp8_op_scales(p->w, &by) || !lf_coded_order_has(&p->w->format, p->w->n_in))
        return false;
    struct lf_quant_params quant = quant_of(p, by);
    struct lf_fp8_gemm_params gemm = gemm_of(p, &quant.to);
    return lf_cuda_quant_rows_supports(&quant) && lf_cuda_gemm_fp8_supports(&gemm);
}

/* Dense tensors of few tokens: shapes decide. */
bool lf_cuda_fp8_op_quantizes_x(const struct lf_device *dev, const struct lf_weight *w, enum lf_fp8_scales *by)
{
    struct lf_gemm_params p = {.w = w, .n_tokens = 1, .x_stride = w->n_in, .y_stride = w->n_out, .alpha = 1.0f};
    return lf_cuda_fp8_op_takes(dev, &p) && lf_cuda_fp8_op_scales(w, by);
}

static void multiply(struct lf_device *dev, const struct lf_gemm_params *p, const struct lf_x_codes *x)
{
    struct lf_fp8_gemm_params gemm = gemm_of(p, x);
    if (lf_cuda_ok(dev))
        lf_cuda_check(dev, lf_cuda_gemm_fp8(&gemm, dev->info.n_sms, -1, lf_cuda_launch(dev)), "FP8 GEMM");
}

static void run_chunk(struct lf_device *dev, const struct lf_gemm_params *p, enum lf_fp8_scales by)
{
    struct lf_quant_params quant = quant_of(p, by);
    lf_cuda_check(dev, lf_cuda_quant_rows(&quant, lf_cuda_launch(dev)), "quantizing activations");
    multiply(dev, p, &quant.to);
}

void lf_cuda_fp8_op(struct lf_device *dev, const struct lf_gemm_params *p)
{
    enum lf_fp8_scales by;
    LF_ASSERT(lf_cuda_fp8_op_scales(p->w, &by) && p->norm.h == NULL && p->x_sum_squares == NULL);
    LF_ASSERT(!p->x_codes.codes || p->x_codes.by == by);
    if (p->x_codes.codes) {
        multiply(dev, p, &p->x_codes);
        return;
    }
    LF_ASSERT(p->scratch != NULL);
    int n = lf_cuda_fp8_op_chunk(p->w->n_in);
    for (int first = 0; first < p->n_tokens && lf_cuda_ok(dev); first += n) {
        struct lf_gemm_params chunk = lf_cuda_gemm_tokens(p, first, LF_MIN(n, p->n_tokens - first));
        run_chunk(dev, &chunk, by);
    }
}

int lf_cuda_fp8_op_setup(struct lf_device *dev)
{
    dev->cuda->has_fp8 = dev->info.sm == 90;
    if (!dev->cuda->has_fp8) return 0;
    int rc = lf_cuda_quant_rows_setup();
    return rc == 0 ? lf_cuda_gemm_fp8_setup() : rc;
}
