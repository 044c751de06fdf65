/* Quotas: tokens a minute, of tenants that have such a limit.
 *
 * An account is what a tenant owes: it grows by the tokens that are computed for it and shrinks, all the time, by those
 * that it may have. A request is let in while less is owed than a minute's worth. So a document of any length is read
 * once, though it is more than a minute's tokens; what follows waits until that has been paid off, and over a long time
 * nobody has more than he may.
 *
 * What a request takes is known by and by: at first all of its prompt is charged, then what was not in the cache, then
 * its answer and what was tried beside it (mailbox.c). A tenant that owes nothing needs no account, so there is one for
 * as many as there can be keys; beyond that, when keys have been exchanged many times, who owes least is forgotten.
 *
 * Under the mailbox's lock. */
#ifndef LF_SERVER_ENGINE_QUOTA_H
#define LF_SERVER_ENGINE_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "core/limits.h"

struct lf_quota {
    uint64_t tenant;
    double owed, per_ns; /* tokens */
    int64_t at_ns;       /* lf_clock_ns() at which so much was owed */
};

struct lf_quotas {
    struct lf_quota list[LF_API_KEYS_N];
    int n;
};

/* Whether a tenant that may have per_minute tokens (> 0) may ask for more now. *retry_after_s: at least 1, where not.
 */
bool lf_quota_allows(const struct lf_quotas *quotas, uint64_t tenant, int64_t per_minute, int64_t now_ns,
                     int *retry_after_s);
/* It has had n_tokens more; below 0: it was charged so many too much. */
void lf_quota_charge(struct lf_quotas *quotas, uint64_t tenant, int64_t per_minute, int64_t n_tokens, int64_t now_ns);
/* What it owes. */
double lf_quota_owed(const struct lf_quotas *quotas, uint64_t tenant, int64_t now_ns);

#endif
