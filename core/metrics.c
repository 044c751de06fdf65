#include "core/metrics.h"

#include <math.h>
#include <stdio.h>

#include "core/check.h"

const double lf_bounds_latency_s[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,    2.5, 5,
                                      10,    20,     40,    60,   120,   240,  480, 600,  900, 1800, 3600};
const int lf_bounds_latency_n = (int)LF_N_ELEMS(lf_bounds_latency_s);
const double lf_bounds_gap_s[] = {0.0005, 0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075,
                                  0.1,    0.15,  0.2,    0.3,   0.5,    0.75, 1,     2.5,  5,    10,   60};
const int lf_bounds_gap_n = (int)LF_N_ELEMS(lf_bounds_gap_s);
const double lf_bounds_tokens[] = {1,    2,    4,    8,     16,    32,    64,     128,    256,    512,    1024,
                                   2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576};
const int lf_bounds_tokens_n = (int)LF_N_ELEMS(lf_bounds_tokens);
const double lf_bounds_choices[] = {1, 2, 4, 8};
const int lf_bounds_choices_n = (int)LF_N_ELEMS(lf_bounds_choices);

void lf_histogram_init(struct lf_histogram *h, const double *bounds, int n_bounds)
{
    LF_ASSERT(n_bounds < LF_HISTOGRAM_BUCKETS_N);
    h->bounds = bounds;
    h->n_bounds = n_bounds;
    for (int i = 0; i < LF_HISTOGRAM_BUCKETS_N; i++) atomic_init(&h->counts[i], 0);
    atomic_init(&h->sum_micro, 0);
}

void lf_histogram_observe(struct lf_histogram *h, double x)
{
    if (!(x > 0)) x = 0;
    int i = 0;
    while (i < h->n_bounds && x > h->bounds[i]) i++;
    atomic_fetch_add_explicit(&h->counts[i], 1, memory_order_relaxed);
    double micro = fmin(x * 1e6, 1e18);
    atomic_fetch_add_explicit(&h->sum_micro, (uint64_t)micro, memory_order_relaxed);
}

void lf_metrics_head(struct lf_buf *out, const char *prefix, const char *name, const char *type, const char *help)
{
    lf_buf_printf(out, "# HELP %s%s %s\n# TYPE %s%s %s\n", prefix, name, help, prefix, name, type);
}

void lf_metrics_sample(struct lf_buf *out, const char *prefix, const char *name, const char *labels, double value)
{
    bool braces = labels && labels[0];
    lf_buf_printf(out, "%s%s%s%s%s %.15g\n", prefix, name, braces ? "{" : "", braces ? labels : "", braces ? "}" : "",
                  value);
}

void lf_metrics_histogram(struct lf_buf *out, const char *prefix, const char *name, const char *labels,
                          const struct lf_histogram *h, const char *help)
{
    const char *comma = labels && labels[0] ? "," : "";
    if (!labels) labels = "";
    lf_metrics_head(out, prefix, name, "histogram", help);
    uint64_t total = 0;
    for (int i = 0; i <= h->n_bounds; i++) {
        total += atomic_load_explicit(&((struct lf_histogram *)(uintptr_t)h)->counts[i], memory_order_relaxed);
        char bound[32] = "+Inf";
        if (i < h->n_bounds) snprintf(bound, sizeof bound, "%.15g", h->bounds[i]);
        lf_buf_printf(out, "%s%s_bucket{%s%sle=\"%s\"} %llu\n", prefix, name, labels, comma, bound,
                      (unsigned long long)total);
    }
    uint64_t sum = atomic_load_explicit(&((struct lf_histogram *)(uintptr_t)h)->sum_micro, memory_order_relaxed);
    char full[128];
    snprintf(full, sizeof full, "%s_sum", name);
    lf_metrics_sample(out, prefix, full, labels, (double)sum / 1e6);
    snprintf(full, sizeof full, "%s_count", name);
    lf_metrics_sample(out, prefix, full, labels, (double)total);
}
