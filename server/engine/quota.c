#include "server/engine/quota.h"

#include <math.h>

#include "core/check.h"
#include "core/clock.h"

#define MINUTE_NS (60.0 * LF_NS_PER_S)

static double owed_at(const struct lf_quota *q, int64_t now_ns)
{
    return LF_MAX(q->owed - q->per_ns * (double)(now_ns - q->at_ns), 0.0);
}

/* -1: it has no account. */
static int find(const struct lf_quotas *quotas, uint64_t tenant)
{
    for (int i = 0; i < quotas->n; i++)
        if (quotas->list[i].tenant == tenant) return i;
    return -1;
}

static int least_owing(const struct lf_quotas *quotas, int64_t now_ns)
{
    int least = 0;
    for (int i = 1; i < quotas->n; i++)
        if (owed_at(&quotas->list[i], now_ns) < owed_at(&quotas->list[least], now_ns)) least = i;
    return least;
}

double lf_quota_owed(const struct lf_quotas *quotas, uint64_t tenant, int64_t now_ns)
{
    int i = find(quotas, tenant);
    return i < 0 ? 0 : owed_at(&quotas->list[i], now_ns);
}

bool lf_quota_allows(const struct lf_quotas *quotas, uint64_t tenant, int64_t per_minute, int64_t now_ns,
                     int *retry_after_s)
{
    double beyond = lf_quota_owed(quotas, tenant, now_ns) - (double)per_minute;
    if (beyond < 0) return true;
    *retry_after_s = (int)LF_MIN(floor(beyond / (double)per_minute * 60.0) + 1, 1e9);
    return false;
}

void lf_quota_charge(struct lf_quotas *quotas, uint64_t tenant, int64_t per_minute, int64_t n_tokens, int64_t now_ns)
{
    int i = find(quotas, tenant);
    double owed = i < 0 ? 0 : owed_at(&quotas->list[i], now_ns);
    if (i < 0) i = quotas->n < LF_API_KEYS_N ? quotas->n++ : least_owing(quotas, now_ns);
    quotas->list[i] = (struct lf_quota){.tenant = tenant,
                                        .owed = LF_MAX(owed + (double)n_tokens, 0.0),
                                        .per_ns = (double)per_minute / MINUTE_NS,
                                        .at_ns = now_ns};
}
