#include "model/sample_rows.h"

#include "core/check.h"
#include "device/cpu/threads.h"

enum { LANES_N = 8 }; /* rows at once: each needs scratch of its own */

struct rows_job {
    struct lf_sampled *out;
    const struct lf_batch *batch;
    float *logits;
    int n_vocab, n_lanes;
    char *scratch;
};

static size_t lane_bytes(int n_vocab)
{
    return (lf_sampler_scratch_bytes(n_vocab) + 63) / 64 * 64;
}

uint64_t lf_sample_rows_scratch_bytes(int n_vocab)
{
    return (uint64_t)LANES_N * lane_bytes(n_vocab);
}

void lf_sample_row(struct lf_sampled *out, const struct lf_batch_out *o, float *logits, int n_vocab, void *scratch)
{
    if (!o->sampling) {
        lf_logprobs(out, logits, n_vocab, o->given, o->n_given_top, scratch);
        return;
    }
    const struct lf_sample_input in = {.logits = logits,
                                       .n_vocab = n_vocab,
                                       .prompt = o->prompt,
                                       .n_prompt = o->n_prompt,
                                       .output = o->output,
                                       .n_output = o->n_output,
                                       .banned = o->banned,
                                       .n_banned = o->n_banned,
                                       .mask = o->mask,
                                       .position = o->position};
    lf_sample(out, o->sampling, &in, scratch);
}

static void sample_lane(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    const struct rows_job *job = ctx;
    void *scratch = job->scratch + (size_t)task_idx * lane_bytes(job->n_vocab);
    for (int i = task_idx; i < job->batch->n_out; i += job->n_lanes)
        lf_sample_row(&job->out[i], &job->batch->outs[i], job->logits + (size_t)i * (size_t)job->n_vocab, job->n_vocab,
                      scratch);
}

void lf_sample_rows(struct lf_device *dev, struct lf_sampled *out, const struct lf_batch *batch, float *logits,
                    int n_vocab, void *scratch)
{
    struct rows_job job = {.out = out,
                           .batch = batch,
                           .logits = logits,
                           .n_vocab = n_vocab,
                           .n_lanes = LF_MIN(batch->n_out, (int)LANES_N),
                           .scratch = scratch};
    if (job.n_lanes > 0) lf_threads_run(lf_device_threads(dev), job.n_lanes, sample_lane, &job);
}
