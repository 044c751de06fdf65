#include "kv/tiers/eviction.h"

#include <stddef.h>

#include "core/check.h"

/* Class k has the depths from (2ᵏ - 1) · CLASS_TOKENS on. */
static int class_of(uint32_t depth)
{
    uint32_t at = depth / LF_EVICTION_CLASS_TOKENS + 1;
    int k = 31 - __builtin_clz(at);
    return LF_MIN(k, LF_EVICTION_CLASSES_N - 1);
}

/* At the middle of the class, (1.5 · 2ᵏ - 1) · CLASS_TOKENS. */
static uint32_t cost_of_class(int k)
{
    return 16 + ((3u << k) - 2) * 8 * LF_EVICTION_CLASS_TOKENS / LF_EVICTION_TWICE_TOKENS;
}

uint32_t lf_eviction_cost(uint32_t depth)
{
    return cost_of_class(class_of(depth));
}

static uint32_t value_of(const struct lf_eviction_item *item)
{
    return lf_eviction_cost(item->depth) * item->uses;
}

void lf_eviction_init(struct lf_eviction *e, uint32_t n_places)
{
    *e = (struct lf_eviction){.n_places = n_places};
    for (int t = 0; t < LF_EVICTION_TENANTS_N; t++)
        for (int k = 0; k < LF_EVICTION_CLASSES_N; k++)
            for (int u = 0; u < LF_EVICTION_USES_N; u++) lf_list_init(&e->tenants[t].queues[k][u]);
}

void lf_eviction_count_use(struct lf_eviction_item *item)
{
    if (item->uses < LF_EVICTION_USES_N) item->uses++;
}

/* Where a tenant is counted: its own entry, one that is nobody's, or with others. */
static int find_tenant(const struct lf_eviction *e, uint64_t id)
{
    int vacant = -1;
    for (int t = LF_EVICTION_TENANTS_N - 1; t >= 0; t--) {
        if (e->tenants[t].n == 0)
            vacant = t;
        else if (e->tenants[t].id == id)
            return t;
    }
    return vacant >= 0 ? vacant : (int)(id % LF_EVICTION_TENANTS_N);
}

void lf_eviction_add(struct lf_eviction *e, struct lf_eviction_item *item, uint64_t used)
{
    item->at = (uint8_t)find_tenant(e, item->tenant);
    item->used = used;
    item->uses = LF_MAX(item->uses, (uint8_t)1);
    struct lf_eviction_tenant *t = &e->tenants[item->at];
    if (t->n++ == 0) t->id = item->tenant;
    lf_list_push_back(&t->queues[class_of(item->depth)][item->uses - 1], &item->node);
    e->n++;
    e->value_sum += value_of(item);
}

void lf_eviction_remove(struct lf_eviction *e, struct lf_eviction_item *item)
{
    LF_ASSERT(e->tenants[item->at].n > 0);
    lf_list_remove(&item->node);
    e->tenants[item->at].n--;
    e->n--;
    e->value_sum -= value_of(item);
}

static struct lf_eviction_tenant *largest(struct lf_eviction *e)
{
    struct lf_eviction_tenant *most = &e->tenants[0];
    for (int t = 1; t < LF_EVICTION_TENANTS_N; t++)
        if (e->tenants[t].n > most->n) most = &e->tenants[t];
    return most;
}

/* The first of a queue if its score is less than best's. turn: writes that a value of 1 is worth. */
static struct lf_eviction_item *lesser(struct lf_eviction_item *best, struct lf_list *queue, double turn)
{
    struct lf_list *node = lf_list_first(queue);
    if (!node) return best;
    struct lf_eviction_item *item = LF_LIST_ENTRY(node, struct lf_eviction_item, node);
    double score = (double)item->used + turn * value_of(item);
    return !best || score < (double)best->used + turn * value_of(best) ? item : best;
}

struct lf_eviction_item *lf_eviction_next(struct lf_eviction *e)
{
    if (e->n == 0) return NULL;
    struct lf_eviction_tenant *t = largest(e);
    struct lf_eviction_item *next = NULL;
    double turn = (double)e->n_places * (double)e->n / (double)e->value_sum;
    for (int k = 0; k < LF_EVICTION_CLASSES_N; k++)
        for (int u = 0; u < LF_EVICTION_USES_N; u++) next = lesser(next, &t->queues[k][u], turn);
    return next;
}
