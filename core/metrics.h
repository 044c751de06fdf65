/* Metrics in Prometheus' text format (version 0.0.4).
 *
 * Counters and histograms are atomics that any thread updates; server/http/api/metrics.c lists and renders them. Label
 * values come from fixed tables in the program, never from user input. */
#ifndef LF_CORE_METRICS_H
#define LF_CORE_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/str.h"

enum { LF_HISTOGRAM_BUCKETS_N = 40 };

struct lf_counter {
    _Atomic uint64_t n;
};

struct lf_histogram {
    const double *bounds; /* borrowed, ascending upper bounds, without +Inf */
    int n_bounds;
    _Atomic uint64_t counts[LF_HISTOGRAM_BUCKETS_N]; /* counts[n_bounds] is the +Inf bucket; not cumulative */
    _Atomic uint64_t sum_micro;                      /* sum of the observations × 10⁶ */
};

/* Bounds for latencies, 1 ms to 3600 s; for inter-token gaps, 0.5 ms to 60 s; for token counts, 1 to 1M; for the
 * choices of a request, 1 to 8. */
extern const double lf_bounds_latency_s[], lf_bounds_gap_s[], lf_bounds_tokens[], lf_bounds_choices[];
extern const int lf_bounds_latency_n, lf_bounds_gap_n, lf_bounds_tokens_n, lf_bounds_choices_n;

static inline void lf_counter_add(struct lf_counter *c, uint64_t n)
{
    atomic_fetch_add_explicit(&c->n, n, memory_order_relaxed);
}
static inline uint64_t lf_counter_get(const struct lf_counter *c)
{
    return atomic_load_explicit(&((struct lf_counter *)(uintptr_t)c)->n, memory_order_relaxed);
}
void lf_histogram_init(struct lf_histogram *h, const double *bounds, int n_bounds);
void lf_histogram_observe(struct lf_histogram *h, double x); /* x < 0 and NaN count as 0 */

/* Rendering. prefix is "longflash:" or "vllm:"; labels is "" or `model_name="demo"` (already escaped). */
void lf_metrics_head(struct lf_buf *out, const char *prefix, const char *name, const char *type, const char *help);
void lf_metrics_sample(struct lf_buf *out, const char *prefix, const char *name, const char *labels, double value);
void lf_metrics_histogram(struct lf_buf *out, const char *prefix, const char *name, const char *labels,
                          const struct lf_histogram *h, const char *help);

#endif
