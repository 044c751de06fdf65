/* Routing on a CPU: plain C for every instruction set, so that all of them choose the same experts. It is a thousandth
 * of a layer's work.
 *
 * Tokens are dealt to threads; each leaves the experts that it chose where its places will be. A counting sort in the
 * order of tokens then makes of these who stands where. */
#include <math.h>

#include "core/check.h"
#include "core/limits.h"
#include "device/cpu/experts.h"
#include "device/cpu/threads.h"
#include "device/device_impl.h"

enum { LOGITS_PER_TASK = 8 * 1024 };

/* The k largest of n logits, descending, of equal ones the lower index first. NaN is the least there is. */
static void choose(const float *logits, int n, int k, int32_t *chosen)
{
    float values[LF_EXPERTS_PER_TOKEN_N];
    for (int e = 0, n_chosen = 0; e < n; e++) {
        float v = isnan(logits[e]) ? -INFINITY : logits[e];
        int at = n_chosen;
        if (n_chosen == k && !(v > values[k - 1])) continue;
        if (n_chosen == k) at--;
        for (; at > 0 && v > values[at - 1]; at--) {
            values[at] = values[at - 1];
            chosen[at] = chosen[at - 1];
        }
        values[at] = v;
        chosen[at] = e;
        n_chosen = LF_MIN(n_chosen + 1, k);
    }
}

static void weigh(const struct lf_route_params *p, const float *logits, const int32_t *chosen, float *weights)
{
    float largest = logits[chosen[0]], all = 0, of_chosen = 0;
    for (int j = 0; j < p->k; j++) weights[j] = expf(logits[chosen[j]] - largest);
    if (p->route != LF_ROUTE_TOPK_SOFTMAX) {
        for (int e = 0; e < p->n_experts; e++) all += expf(logits[e] - largest);
        for (int j = 0; j < p->k; j++) weights[j] /= all;
    }
    if (p->route != LF_ROUTE_SOFTMAX) {
        for (int j = 0; j < p->k; j++) of_chosen += weights[j];
        for (int j = 0; j < p->k; j++) weights[j] /= of_chosen;
    }
    for (int j = 0; j < p->k; j++) weights[j] *= p->scale;
    for (int j = 0; j < p->k && p->expert_scale; j++) weights[j] *= p->expert_scale[chosen[j]];
}

struct route {
    const struct lf_route_params *p;
    int tokens_per_task;
};

static void route_task(void *ctx, int task_idx, int worker_idx)
{
    (void)worker_idx;
    const struct route *r = ctx;
    const struct lf_route_params *p = r->p;
    int first = task_idx * r->tokens_per_task, end = LF_MIN(first + r->tokens_per_task, p->n_tokens);
    for (int t = first; t < end; t++) {
        const float *logits = p->logits + (size_t)t * (size_t)p->n_experts;
        size_t at = (size_t)t * (size_t)p->k;
        choose(logits, p->n_experts, p->k, p->places + at);
        weigh(p, logits, p->places + at, p->weights + at);
    }
}

/* Places are experts on entry. */
static void sort_rows(const struct lf_route_params *p)
{
    int32_t next[LF_EXPERTS_N];
    int n_rows = p->n_tokens * p->k;
    for (int e = 0; e <= p->n_experts; e++) p->first[e] = 0;
    for (int i = 0; i < n_rows; i++) p->first[p->places[i] + 1]++;
    for (int e = 0; e < p->n_experts; e++) {
        p->first[e + 1] += p->first[e];
        next[e] = p->first[e];
    }
    for (int i = 0; i < n_rows; i++) {
        int32_t place = next[p->places[i]]++;
        p->rows[place] = i;
        p->places[i] = place;
    }
}

void lf_cpu_route(struct lf_device *dev, const struct lf_route_params *p)
{
    LF_ASSERT(p->n_tokens >= 0 && p->n_experts >= 1 && p->n_experts <= LF_EXPERTS_N);
    LF_ASSERT(p->k >= 1 && p->k <= LF_MIN(p->n_experts, LF_EXPERTS_PER_TOKEN_N));
    struct route r = {.p = p, .tokens_per_task = LF_MAX(1, LOGITS_PER_TASK / p->n_experts)};
    lf_threads_run(dev->threads, (p->n_tokens + r.tokens_per_task - 1) / r.tokens_per_task, route_task, &r);
    sort_rows(p);
}
