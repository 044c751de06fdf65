/* See gram_index.h. */
#include "server/engine/gram_index.h"

#include <string.h>

int lf_gram_index_log2(int n_tokens)
{
    int log2 = 4;
    while (log2 < 30 && (1 << log2) < n_tokens) log2++;
    return log2;
}

void lf_gram_index_init(struct lf_gram_index *x, const int32_t *ids, uint32_t *latest, int log2_latest,
                        uint32_t *before)
{
    *x = (struct lf_gram_index){.ids = ids, .latest = latest, .before = before, .log2_latest = log2_latest};
    memset(latest, 0, sizeof(*latest) << log2_latest);
}

/* Of the gram that ends before position end. The multipliers are odd and have no pattern. */
static uint32_t hash_of(const struct lf_gram_index *x, int end)
{
    uint64_t h = 0;
    for (int i = end - LF_GRAM_N; i < end; i++) h = (h ^ (uint32_t)x->ids[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> (64 - x->log2_latest));
}

void lf_gram_index_extend(struct lf_gram_index *x, int n)
{
    for (; x->n < n; x->n++) {
        int end = x->n + 1;
        if (end < LF_GRAM_N) continue;
        uint32_t *latest = &x->latest[hash_of(x, end)];
        x->before[x->n] = *latest;
        *latest = (uint32_t)end;
    }
}

/* Tokens before p that agree with the last ones. */
static int n_agree_at(const struct lf_gram_index *x, int p)
{
    int n = 0;
    while (n < LF_GRAM_MATCH_N && n < p && x->ids[p - 1 - n] == x->ids[x->n - 1 - n]) n++;
    return n;
}

int lf_gram_index_find(const struct lf_gram_index *x)
{
    int best = 0, n_best = LF_GRAM_N - 1;
    uint32_t p = x->n >= LF_GRAM_N ? x->before[x->n - 1] : 0;
    for (int i = 0; i < LF_GRAM_TRIES_N && p > 0; i++, p = x->before[p - 1]) {
        int n = n_agree_at(x, (int)p);
        if (n <= n_best) continue;
        best = (int)p;
        n_best = n;
    }
    return best;
}
