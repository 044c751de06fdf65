#include "model/quantize.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/check.h"
#include "core/quant.h"

enum { GROUP = 32, TASKS_PER_THREAD = 4 };

struct lf_format lf_quantize_format(enum lf_code code)
{
    int group = code == LF_CODE_I8 || code == LF_CODE_I4 ? GROUP : 0;
    return (struct lf_format){.dtype = LF_BF16, .code = code, .group = group, .group_rows = 1, .scales = LF_BF16};
}

/* ---- which ---- */

/* Whether the value decides how others are computed: logits of a router, b and a of a delta net, a gate of one number.
 */
static bool decides(const struct lf_program *program, int value)
{
    for (int i = 0; i < program->n_ops; i++) {
        const struct lf_op *op = &program->ops[i];
        if (op->kind == LF_OP_ROUTE && op->in[LF_OP_X] == value) return true;
        if (op->kind == LF_OP_DELTA && op->in[LF_OP_GATE] == value) return true;
    }
    return program->values[value].width == 1;
}

void lf_quantize_choose(const struct lf_program *program, bool *chosen)
{
    for (int i = 0; i < program->n_slots; i++) chosen[i] = false;
    for (int i = 0; i < program->n_ops; i++) {
        const struct lf_op *op = &program->ops[i];
        if (op->kind != LF_OP_GEMM && op->kind != LF_OP_EXPERT_GEMM) continue;
        int slot = op->weight[LF_OP_W];
        chosen[slot] = program->slots[slot].layer >= 0 && !decides(program, op->out[LF_OP_Y]);
    }
}

/* ---- rows ---- */

void lf_quantizer_deinit(struct lf_quantizer *q)
{
    free(q->widened);
    free(q->codes);
    free(q->scales);
    *q = (struct lf_quantizer){0};
}

/* ptr, or another with room for n elements of a size; what it held goes. NULL: no memory. */
static void *need(void *ptr, size_t *room, size_t n, size_t elem_bytes)
{
    if (n <= *room) return ptr;
    free(ptr);
    void *other = malloc(n * elem_bytes);
    *room = other ? n : 0;
    return other;
}

struct job {
    struct lf_quantizer *q;
    const struct lf_format *format;
    enum lf_dtype dtype;
    const char *src;
    int n_rows, n_in, n_tasks;
    atomic_bool failed; /* an element is not finite */
};

static void quantize_task(void *ctx, int task_idx, int worker_idx)
{
    struct job *job = ctx;
    size_t n_in = (size_t)job->n_in, n_groups = (size_t)lf_format_n_groups(job->format, job->n_in);
    float *row = job->q->widened + (size_t)worker_idx * n_in;
    size_t end = (size_t)((int64_t)job->n_rows * (task_idx + 1) / job->n_tasks);
    for (size_t r = (size_t)((int64_t)job->n_rows * task_idx / job->n_tasks); r < end; r++) {
        lf_to_f32(row, job->src + r * n_in * lf_dtype_bytes(job->dtype), job->dtype, n_in);
        if (!lf_quantize_rows(job->format, 1, job->n_in, row, job->q->codes + r * n_in, job->q->scales + r * n_groups))
            atomic_store_explicit(&job->failed, true, memory_order_relaxed);
    }
}

enum lf_status lf_quantizer_run(struct lf_quantizer *q, struct lf_threads *threads, const struct lf_format *format,
                                enum lf_dtype dtype, int n_rows, int n_in, const void *src, const char *name,
                                struct lf_quant_rows *out, struct lf_err *err)
{
    size_t n = (size_t)n_rows * (size_t)n_in, n_threads = (size_t)lf_threads_n(threads);
    size_t n_scales = (size_t)n_rows * (size_t)lf_format_n_groups(format, n_in);
    LF_ASSERT(format->group_rows == 1);
    q->widened = need(q->widened, &q->n_widened, n_threads * (size_t)n_in, sizeof(*q->widened));
    q->codes = need(q->codes, &q->n_codes, n, sizeof(*q->codes));
    q->scales = need(q->scales, &q->n_scales, n_scales, sizeof(*q->scales));
    if (!q->widened || !q->codes || !q->scales) return lf_fail(err, LF_NO_MEMORY, "no memory for quantizing weights");
    struct job job = {.q = q, .format = format, .dtype = dtype, .src = src, .n_rows = n_rows, .n_in = n_in};
    job.n_tasks = LF_MIN(n_rows, TASKS_PER_THREAD * (int)n_threads);
    lf_threads_run(threads, job.n_tasks, quantize_task, &job);
    if (atomic_load_explicit(&job.failed, memory_order_relaxed))
        return lf_fail(err, LF_CORRUPT, "tensor %s has an element that is infinite or NaN: it cannot be quantized",
                       name);
    *out = (struct lf_quant_rows){.codes = q->codes, .scales = q->scales};
    return LF_OK;
}
