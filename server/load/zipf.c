#include "server/load/zipf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"

enum lf_status lf_zipf_init(struct lf_zipf *zipf, int n, double s)
{
    LF_ASSERT(n >= 1);
    double sum = 0;
    double *ends = calloc((size_t)n, sizeof(*ends));
    if (!ends) return LF_NO_MEMORY;
    for (int i = 0; i < n; i++) ends[i] = sum += pow(i + 1, -s);
    for (int i = 0; i < n; i++) ends[i] /= sum;
    *zipf = (struct lf_zipf){.ends = ends, .n = n};
    return LF_OK;
}

void lf_zipf_deinit(struct lf_zipf *zipf)
{
    free(zipf->ends);
    memset(zipf, 0, sizeof(*zipf));
}

int lf_zipf_choose(const struct lf_zipf *zipf, uint64_t random)
{
    double at = (double)(random >> 11) / (double)(1ull << 53);
    int first = 0, last = zipf->n - 1;
    while (first < last) {
        int middle = first + (last - first) / 2;
        if (at < zipf->ends[middle])
            last = middle;
        else
            first = middle + 1;
    }
    return first;
}
