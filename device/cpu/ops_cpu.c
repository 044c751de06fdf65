/* The op table of the CPU. An op spreads its rows over the worker threads, in runs that are worth handing out; what is
 * computed for a row is a row kernel's (row_kernels.h) or the GEMM's (gemm.h). Plain C comes first, each better
 * instruction set replaces the entries it has. */
#include "device/cpu/ops_cpu.h"

#include <math.h>
#include <string.h>

#include "core/check.h"
#include "device/cpu/cpuid.h"
#include "device/cpu/delta.h"
#include "device/cpu/experts.h"
#include "device/cpu/gemm.h"
#include "device/cpu/row_kernels.h"
#include "device/cpu/threads.h"
#include "device/device_impl.h"

/* Elements that are worth a task of their own: some two microseconds of each op. A panel's column is one cache line an
 * element or two, so embed's elements weigh more. */
enum {
    NORM_PER_TASK = 16 * 1024,
    GATE_PER_TASK = 8 * 1024,
    SOFTCAP_RUN = 8 * 1024,
    ROUND_RUN = 8 * 1024,
    COPY_PER_TASK = 32 * 1024,
    EMBED_PER_TASK = 2 * 1024
};

struct row_loop {
    struct lf_device *dev;
    const void *params;
    void (*row)(const struct row_loop *loop, int row);
    int n_rows;
    int rows_per_task;
};

static void row_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    const struct row_loop *loop = ctx;
    int first = task_idx * loop->rows_per_task;
    int end = LF_MIN(first + loop->rows_per_task, loop->n_rows);
    for (int r = first; r < end; r++) loop->row(loop, r);
}

static void run_rows(struct row_loop *loop, int elems_per_row, int elems_per_task)
{
    LF_ASSERT(loop->n_rows >= 0 && elems_per_row > 0);
    loop->rows_per_task = LF_MAX(1, elems_per_task / elems_per_row);
    int n_tasks = (int)(((int64_t)loop->n_rows + loop->rows_per_task - 1) / loop->rows_per_task);
    lf_threads_run(loop->dev->threads, n_tasks, row_task, loop);
}

static void embed_row(const struct row_loop *loop, int row)
{
    const struct lf_embed_params *p = loop->params;
    int n = lf_embed_width(p);
    float *out = p->out + (size_t)row * (size_t)n;
    int32_t id = p->ids[p->rows ? p->rows[row] : row];
    if (p->is_part) id -= p->first_id;
    if (p->is_part && (id < 0 || id >= p->table->n_out)) {
        memset(out, 0, (size_t)n * sizeof(*out));
        return;
    }
    lf_cpu_weight_row_part(loop->dev, p->table, id, p->column, n, out);
    if (p->scale != 1.0f) loop->dev->rows.scale(out, n, p->scale);
}

static void embed(struct lf_device *dev, const struct lf_embed_params *p)
{
    struct row_loop loop = {.dev = dev, .params = p, .row = embed_row, .n_rows = p->n_tokens};
    run_rows(&loop, lf_embed_width(p), EMBED_PER_TASK);
}

static void rmsnorm_row(const struct row_loop *loop, int row)
{
    const struct lf_rmsnorm_params *p = loop->params;
    size_t at = (size_t)row * (size_t)p->dim;
    float *out = (float *)p->out + at;
    loop->dev->rows.rmsnorm(out, p->x + at, p->weight, p->residual ? p->residual + at : NULL, p->eps, p->dim);
    if (p->scale) loop->dev->rows.scale(out, p->dim, *p->scale);
}

static void rmsnorm(struct lf_device *dev, const struct lf_rmsnorm_params *p)
{
    LF_ASSERT((p->residual == NULL && p->scale == NULL) || p->out_float);
    struct row_loop loop = {.dev = dev, .params = p, .row = rmsnorm_row, .n_rows = p->n_tokens};
    run_rows(&loop, p->dim, NORM_PER_TASK);
}

static void gate_mul_row(const struct row_loop *loop, int row)
{
    const struct lf_gate_mul_params *p = loop->params;
    size_t dim = (size_t)p->dim, at = (size_t)row * dim;
    const float *gate = (const float *)p->gate_up + (p->up ? at : 2 * at);
    const float *up = p->up ? p->up + at : gate + dim;
    loop->dev->rows.gate_mul[p->act]((float *)p->out + at, gate, up, p->dim, p->limit);
}

static void gate_mul(struct lf_device *dev, const struct lf_gate_mul_params *p)
{
    LF_ASSERT((int)p->act >= 0 && p->act < LF_ACTS_N && (p->act != LF_ACT_SWIGLU_OAI || p->limit > 0.0f));
    struct row_loop loop = {.dev = dev, .params = p, .row = gate_mul_row, .n_rows = p->n_tokens};
    run_rows(&loop, p->dim, GATE_PER_TASK);
}

/* A run of elements, whose length is the same on every machine. */
static void softcap_run(const struct row_loop *loop, int run)
{
    const struct lf_softcap_params *p = loop->params;
    int64_t at = (int64_t)run * SOFTCAP_RUN;
    loop->dev->rows.softcap(p->x + at, (int)LF_MIN(p->n - at, (int64_t)SOFTCAP_RUN), p->cap);
}

static void softcap(struct lf_device *dev, const struct lf_softcap_params *p)
{
    LF_ASSERT(p->cap > 0.0f && p->n >= 0);
    int n_runs = (int)((p->n + SOFTCAP_RUN - 1) / SOFTCAP_RUN);
    struct row_loop loop = {.dev = dev, .params = p, .row = softcap_run, .n_rows = n_runs};
    run_rows(&loop, SOFTCAP_RUN, SOFTCAP_RUN);
}

static void round_run(const struct row_loop *loop, int run)
{
    const struct lf_round_params *p = loop->params;
    int64_t at = (int64_t)run * ROUND_RUN;
    memcpy((float *)p->out + at, p->x + at, (size_t)LF_MIN(p->n - at, (int64_t)ROUND_RUN) * sizeof(float));
}

static void round_floats(struct lf_device *dev, const struct lf_round_params *p)
{
    LF_ASSERT(p->n >= 0 && p->out != p->x);
    int n_runs = (int)((p->n + ROUND_RUN - 1) / ROUND_RUN);
    struct row_loop loop = {.dev = dev, .params = p, .row = round_run, .n_rows = n_runs};
    run_rows(&loop, ROUND_RUN, COPY_PER_TASK);
}

static void gather_row(const struct row_loop *loop, int row)
{
    const struct lf_gather_params *p = loop->params;
    size_t dim = (size_t)p->dim;
    memcpy((float *)p->out + (size_t)row * dim, (const float *)p->x + (size_t)p->rows[row] * dim, dim * sizeof(float));
}

static void gather(struct lf_device *dev, const struct lf_gather_params *p)
{
    struct row_loop loop = {.dev = dev, .params = p, .row = gather_row, .n_rows = p->n_rows};
    run_rows(&loop, p->dim, COPY_PER_TASK);
}

/* A row: one head of one token. */
static void gated_norm_row(const struct row_loop *loop, int row)
{
    const struct lf_gated_norm_params *p = loop->params;
    size_t dim = (size_t)p->dim, at = (size_t)row * dim, head = (size_t)(row % p->n_heads);
    const float *gate = (const float *)p->gate + (size_t)(row / p->n_heads) * (size_t)p->gate_stride + head * dim;
    loop->dev->delta.gated_norm((float *)p->out + at, (const float *)p->x + at, gate, p->weight, p->eps, p->dim);
}

static void gated_norm(struct lf_device *dev, const struct lf_gated_norm_params *p)
{
    LF_ASSERT(p->n_tokens >= 0 && p->n_heads > 0 && (int64_t)p->n_tokens * p->n_heads <= INT32_MAX);
    struct row_loop loop = {.dev = dev, .params = p, .row = gated_norm_row, .n_rows = p->n_tokens * p->n_heads};
    run_rows(&loop, p->dim, GATE_PER_TASK);
}

static void gate_sigmoid_row(const struct row_loop *loop, int row)
{
    const struct lf_gate_sigmoid_params *p = loop->params;
    size_t at = (size_t)row * (size_t)p->dim;
    const float *x = (const float *)p->x + at, *residual = p->residual == NULL ? NULL : p->residual + at;
    float *out = (float *)p->out + at;
    if (p->of_token) {
        float weight = 1.0f / (1.0f + expf(-((const float *)p->gate)[row]));
        loop->dev->rows.weighted_sum(out, residual, &x, &weight, 1, p->dim);
    } else {
        loop->dev->delta.gate_sigmoid(out, x, (const float *)p->gate + at, residual, p->dim);
    }
}

static void gate_sigmoid(struct lf_device *dev, const struct lf_gate_sigmoid_params *p)
{
    LF_ASSERT(p->residual == NULL || p->is_float);
    struct row_loop loop = {.dev = dev, .params = p, .row = gate_sigmoid_row, .n_rows = p->n_tokens};
    run_rows(&loop, p->dim, GATE_PER_TASK);
}

static void use_c(struct lf_device *dev)
{
    dev->gemm[LF_F32] = &lf_gemm_c_f32;
    dev->gemm[LF_F16] = &lf_gemm_c_f16;
    dev->gemm[LF_BF16] = &lf_gemm_c_bf16;
    dev->quant = lf_quant_c;
    dev->rows = lf_rows_c;
    dev->delta = lf_delta_c;
}

#ifdef LF_X86
static void use_avx2(struct lf_device *dev)
{
    dev->gemm[LF_F32] = &lf_gemm_avx2_f32;
    dev->gemm[LF_F16] = &lf_gemm_avx2_f16;
    dev->gemm[LF_BF16] = &lf_gemm_avx2_bf16;
    lf_quant_use_avx2(&dev->quant);
    lf_rows_use_avx2(&dev->rows);
    lf_delta_use_avx2(&dev->delta);
}

static void use_avx512(struct lf_device *dev)
{
    dev->gemm[LF_F32] = &lf_gemm_avx512_f32;
    dev->gemm[LF_F16] = &lf_gemm_avx512_f16;
    dev->gemm[LF_BF16] = &lf_gemm_avx512_bf16;
    if (lf_cpuid_has_vnni()) lf_quant_use_avx512vnni(&dev->quant);
    lf_rows_use_avx512(&dev->rows);
    lf_delta_use_avx512(&dev->delta);
}

static void use_avx512bf16(struct lf_device *dev)
{
    dev->gemm[LF_BF16] = &lf_gemm_avx512bf16_bf16;
    lf_rows_use_avx512bf16(&dev->rows);
}
#endif

#ifdef LF_HAVE_AMX
static void use_amx(struct lf_device *dev)
{
    dev->gemm[LF_BF16] = &lf_gemm_amx_bf16;
    if (lf_cpuid_has_vnni() && lf_cpuid_has_amx_int8()) lf_quant_use_amx(&dev->quant);
}
#endif

void lf_ops_cpu_init(struct lf_device *dev, enum lf_isa isa)
{
    dev->ops = (struct lf_ops){.name = lf_isa_name(isa),
                               .supports_format = lf_cpu_supports_format,
                               .weight_bytes = lf_cpu_weight_bytes,
                               .weight_pack = lf_cpu_weight_pack,
                               .weight_row = lf_cpu_weight_row,
                               .gemm_scratch_bytes = lf_cpu_gemm_scratch_bytes,
                               .embed = embed,
                               .rmsnorm = rmsnorm,
                               .gemm = lf_cpu_gemm,
                               .gate_mul = gate_mul,
                               .gemm_gate_mul = lf_gemm_then_gate_mul,
                               .softcap = softcap,
                               .round = round_floats,
                               .gather = gather,
                               .expert_gemm_scratch_bytes = lf_cpu_expert_gemm_scratch_bytes,
                               .route = lf_cpu_route,
                               .expert_gemm = lf_cpu_expert_gemm,
                               .expert_sum = lf_cpu_expert_sum,
                               .delta_scratch_bytes = lf_cpu_delta_scratch_bytes,
                               .conv = lf_cpu_conv,
                               .delta = lf_cpu_delta,
                               .gated_norm = gated_norm,
                               .gate_sigmoid = gate_sigmoid};
    use_c(dev);
#ifdef LF_X86
    if (isa >= LF_ISA_AVX2) use_avx2(dev);
    if (isa >= LF_ISA_AVX512) use_avx512(dev);
    if (isa >= LF_ISA_AVX512_BF16) use_avx512bf16(dev);
#endif
#ifdef LF_HAVE_AMX
    if (isa >= LF_ISA_AMX) use_amx(dev);
#endif
}
