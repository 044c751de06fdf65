/* A task is some of the rows. Turning a sheet reads it along its rows and writes across them, in tiles that stay in the
 * first cache. */
#include "model/unpack.h"

#include "core/check.h"

enum { TILE = 32, TASKS_PER_THREAD = 4 };

struct job {
    void *out;
    const void *from;
    size_t elem_bytes;
    int n_rows, n_in, row, n;
    int n_tasks;
};

static void run(struct lf_threads *threads, struct job *job, lf_task_fn *task)
{
    job->n_tasks = LF_MIN(job->n, TASKS_PER_THREAD * lf_threads_n(threads));
    lf_threads_run(threads, job->n_tasks, task, job);
}

/* Of the job's n rows the first one of a task; of the task behind the last: n. */
static int first_row(const struct job *job, int task_idx)
{
    return (int)((int64_t)job->n * task_idx / job->n_tasks);
}

/* Rows [first, end) of the job and columns [k, k_end). */
#define TURN_TILE(type)                                                                                                \
    for (int r = first; r < end; r++)                                                                                  \
        for (int c = k; c < k_end; c++)                                                                                \
    ((type *)job->out)[(size_t)r * (size_t)job->n_in + (size_t)c] =                                                    \
        ((const type *)job->from)[(size_t)c * (size_t)job->n_rows + (size_t)(job->row + r)]

static void turn_tile(const struct job *job, int first, int end, int k, int k_end)
{
    if (job->elem_bytes == sizeof(uint16_t))
        TURN_TILE(uint16_t);
    else
        TURN_TILE(uint32_t);
}

static void turn(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    const struct job *job = ctx;
    int end = first_row(job, task_idx + 1);
    for (int first = first_row(job, task_idx); first < end; first += TILE)
        for (int k = 0; k < job->n_in; k += TILE)
            turn_tile(job, first, LF_MIN(first + TILE, end), k, LF_MIN(k + TILE, job->n_in));
}

void lf_unpack_columns(struct lf_threads *threads, void *out, const void *sheet, size_t elem_bytes, int n_rows,
                       int n_in, int row, int n)
{
    struct job job = {
        .out = out, .from = sheet, .elem_bytes = elem_bytes, .n_rows = n_rows, .n_in = n_in, .row = row, .n = n};
    LF_ASSERT(elem_bytes == sizeof(uint16_t) || elem_bytes == sizeof(uint32_t));
    run(threads, &job, turn);
}
