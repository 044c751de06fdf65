/* y = alpha · (x · wᵀ (+ bias)) (+ residual) of coded weights. FP8 on Hopper is gemm_fp8.c's, this is the rest. Up to
 * 16 tokens it is one GEMV (gemv_quant.cuh), up to SLICED_TOKENS several, 16 tokens each: cheaper than what comes next,
 * and a token keeps the bits that it has alone.
 *
 * More tokens: a strip of the matrix's rows is expanded into the scratch (expand.cu) and multiplied by cuBLASLt, strip
 * by strip. Expanding costs some 2.5 bytes of traffic a weight, whatever the number of tokens: 3 to 8% at 8,192 of
 * them, more than the GEMM itself below 500 (docs/notebook/gemv-quant.md). */
#include "device/cuda/gemm_coded.h"

#include "core/check.h"
#include "core/limits.h"
#include "device/cuda/coded_order.h"
#include "device/cuda/cuda_impl.h"
#include "device/cuda/gemm_cublaslt.h"
#include "device/cuda/gemm_fp8.h"

enum { SLICED_TOKENS = 64, STRIP_BYTES = 64 << 20, STRIP_ROWS = 256 /* a strip's are a multiple of it */ };
_Static_assert(STRIP_BYTES / 2 / LF_HIDDEN_N >= LF_CODED_RUN, "a strip of the longest rows has a run");

uint64_t lf_cuda_gemm_coded_scratch(int max_tokens, int max_n_in)
{
    uint64_t fp8 = lf_cuda_fp8_op_scratch(max_tokens, max_n_in);
    return LF_MAX(fp8, max_tokens > SLICED_TOKENS ? (uint64_t)STRIP_BYTES : 0);
}

bool lf_cuda_gemm_coded_is_gemv(const struct lf_device *dev, const struct lf_gemm_params *p)
{
    return dev->cuda->has_gemv_quant && lf_cuda_gemv_quant_supports(p, dev->info.act_dtype == LF_F16) &&
           !lf_cuda_fp8_op_takes(dev, p);
}

static void run_slices(struct lf_device *dev, const struct lf_gemm_params *p)
{
    for (int first = 0; first < p->n_tokens; first += LF_CUDA_GEMV_TOKENS) {
        struct lf_gemm_params slice =
            lf_cuda_gemm_tokens(p, first, LF_MIN((int)LF_CUDA_GEMV_TOKENS, p->n_tokens - first));
        if (!lf_cuda_ok(dev)) return;
        lf_cuda_check(dev, lf_cuda_gemv_quant(&slice, dev->info.n_sms, lf_cuda_launch(dev)), "GEMV");
    }
}

static int strip_rows(const struct lf_weight *w)
{
    int n = STRIP_BYTES / 2 / w->n_in;
    n -= n % (n < STRIP_ROWS ? (int)LF_CODED_RUN : (int)STRIP_ROWS); /* rows so long that 256 do not fit: whole runs */
    LF_ASSERT(n > 0 && w->n_in <= LF_HIDDEN_N);
    return LF_MIN(n, w->n_out);
}

/* p of a strip's rows, expanded. */
static struct lf_gemm_params strip_of(const struct lf_device *dev, const struct lf_gemm_params *p, int row,
                                      struct lf_weight *w)
{
    struct lf_gemm_params strip = *p;
    *w = (struct lf_weight){.data = p->scratch, .format = lf_format_plain(dev->info.act_dtype), .n_in = p->w->n_in};
    w->n_out = LF_MIN(strip_rows(p->w), p->w->n_out - row);
    strip.w = w;
    strip.y = (char *)p->y + (size_t)row * (p->y_float ? sizeof(float) : 2);
    if (p->bias) strip.bias = p->bias + row;
    if (p->residual) strip.residual = p->residual + row;
    return strip;
}

static void run_strips(struct lf_device *dev, const struct lf_gemm_params *p)
{
    LF_ASSERT(p->scratch != NULL && p->norm.h == NULL && p->x_sum_squares == NULL);
    for (int row = 0; row < p->w->n_out && lf_cuda_ok(dev); row += strip_rows(p->w)) {
        struct lf_weight w;
        struct lf_gemm_params strip = strip_of(dev, p, row, &w);
        lf_cuda_check(dev, lf_cuda_expand(p->scratch, p->w, row, w.n_out, lf_cuda_launch(dev)), "expand");
        lf_cuda_gemm_run(dev, &strip);
    }
}

void lf_cuda_gemm_coded(struct lf_device *dev, const struct lf_gemm_params *p)
{
    struct lf_gemm_params few = *p;
    few.n_tokens = LF_MIN(p->n_tokens, (int)LF_CUDA_GEMV_TOKENS);
    bool is_fp8 = lf_cuda_fp8_op_takes(dev, p);
    LF_ASSERT(is_fp8 || p->x_codes.codes == NULL);
    if (is_fp8)
        lf_cuda_fp8_op(dev, p);
    else if (p->n_tokens <= SLICED_TOKENS && lf_cuda_gemm_coded_is_gemv(dev, &few))
        run_slices(dev, p);
    else
        run_strips(dev, p);
}

/* Strips have two shapes: the first one's and the last one's. */
void lf_cuda_gemm_coded_prepare(struct lf_device *dev, const struct lf_gemm_params *p)
{
    struct lf_weight w;
    if (p->n_tokens <= SLICED_TOKENS || lf_cuda_fp8_op_takes(dev, p)) return;
    int rows = strip_rows(p->w), last = (p->w->n_out - 1) / rows * rows;
    for (int row = 0; row <= last && lf_cuda_ok(dev); row += LF_MAX(last, 1)) {
        struct lf_gemm_params strip = strip_of(dev, p, row, &w);
        lf_cuda_gemm_prepare(dev, &strip);
    }
}
