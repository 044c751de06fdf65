#include "server/load/load_stats.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"

void lf_samples_deinit(struct lf_samples *s)
{
    free(s->values);
    memset(s, 0, sizeof(*s));
}

enum lf_status lf_samples_add(struct lf_samples *s, double value)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 256;
        if (cap > SIZE_MAX / sizeof(double)) return LF_NO_MEMORY;
        double *values = realloc(s->values, cap * sizeof(double));
        if (!values) return LF_NO_MEMORY;
        s->values = values;
        s->cap = cap;
    }
    s->values[s->n++] = value;
    return LF_OK;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double lf_samples_percentile(struct lf_samples *s, double p)
{
    if (s->n == 0) return 0;
    qsort(s->values, s->n, sizeof(double), ascending);
    double rank = ceil(p / 100.0 * (double)s->n);
    size_t idx = rank < 1 ? 0 : (size_t)rank - 1;
    return s->values[LF_MIN(idx, s->n - 1)];
}
