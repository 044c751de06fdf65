#include "server/http/conn/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "core/check.h"
#include "core/log.h"
#include "server/http/conn/accept.h"
#include "server/http/conn/conn.h"

enum {
    OWN_N = 16,      /* kept for what the process opens later on */
    OF_THREAD_N = 2, /* of each of libmicrohttpd's threads: its epoll and its eventfd */
    SPARE_N = 64,    /* asked for beyond what is needed, where the hard limit allows */
    LOOKED_N = 4096, /* descriptors are looked for up to here: the lowest free one is always taken */
    REFUSED_SHARE = 8,
    CUT_SHARE = 4
};

struct lf_descriptors lf_descriptors_share(int n_free, int n_connections)
{
    int n = LF_MAX(n_free - LF_CONN_HEALTH_N, 0);
    struct lf_descriptors out = {.n_cut = LF_CONN_CUT_N, .n_refused = LF_REFUSED_N};
    if (n - out.n_cut - out.n_refused < n_connections) {
        out.n_cut = LF_MIN(LF_CONN_CUT_N, n / CUT_SHARE);
        out.n_refused = LF_MIN(LF_REFUSED_N, n / REFUSED_SHARE);
    }
    out.n_connections = LF_MIN(n_connections, n - out.n_cut - out.n_refused);
    return out;
}

static int count_used(rlim_t limit)
{
    int n = 0;
    for (int fd = 0; fd < LOOKED_N && (rlim_t)fd < limit; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* The soft limit, which is `need` afterwards where the hard one allows. */
static rlim_t raise_limit(rlim_t need)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return need;
    if (limit.rlim_cur >= need) return limit.rlim_cur;
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = LF_MIN(need, limit.rlim_max);
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

enum lf_status lf_descriptors_fit(struct lf_descriptors *out, int n_connections, int n_threads, struct lf_err *err)
{
    const int n_places = n_connections + LF_CONN_HEALTH_N + LF_CONN_CUT_N + LF_REFUSED_N;
    struct rlimit now = {.rlim_cur = LOOKED_N};
    (void)getrlimit(RLIMIT_NOFILE, &now);
    int n_own = count_used(now.rlim_cur) + OF_THREAD_N * n_threads + OWN_N;
    rlim_t limit = raise_limit((rlim_t)(n_places + n_own + SPARE_N));
    int n_free = limit > (rlim_t)n_own ? (int)LF_MIN(limit - (rlim_t)n_own, (rlim_t)n_places) : 0;
    struct lf_descriptors fit = lf_descriptors_share(n_free, n_connections);
    if (fit.n_connections < LF_MIN(LF_CONN_LEAST_N, n_connections))
        return lf_fail(err, LF_LIMIT,
                       "the limit of open files is %llu, of which the server itself needs %d: too few are left for "
                       "connections; raise it (ulimit -n, LimitNOFILE)",
                       (unsigned long long)limit, n_own);
    if (fit.n_connections < n_connections)
        LF_WARN("descriptors limit=%llu own=%d: %d connections at once instead of %d (ulimit -n)",
                (unsigned long long)limit, n_own, fit.n_connections, n_connections);
    *out = fit;
    return LF_OK;
}
