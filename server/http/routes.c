#include "server/http/routes.h"

#include "core/check.h"
#include "server/http/server.h"

#define GET  "GET", "GET, HEAD, OPTIONS"
#define POST "POST", "POST, OPTIONS"

/* path, method, allow, auth, before_ready, generates, handler */
static const struct lf_route rows[] = {
    {"/v1/completions", POST, LF_AUTH_KEY, false, true, lf_handle_completions},
    {"/v1/chat/completions", POST, LF_AUTH_KEY, false, true, lf_handle_chat_completions},
    {"/v1/models", GET, LF_AUTH_KEY, false, false, lf_handle_models},
    {"/v1/models/", GET, LF_AUTH_KEY, false, false, lf_handle_model},
    {"/tokenize", POST, LF_AUTH_KEY, false, false, lf_handle_tokenize},
    {"/detokenize", POST, LF_AUTH_KEY, false, false, lf_handle_detokenize},
    {"/apply-template", POST, LF_AUTH_KEY, false, false, lf_handle_apply_template},
    {"/livez", GET, LF_AUTH_NONE, true, false, lf_handle_livez},
    {"/readyz", GET, LF_AUTH_NONE, true, false, lf_handle_readyz},
    {"/health", GET, LF_AUTH_NONE, true, false, lf_handle_readyz},
    {"/metrics", GET, LF_AUTH_KEY, false, false, lf_handle_metrics},
    {"/v1/capacity", GET, LF_AUTH_KEY, false, false, lf_handle_capacity},
};
_Static_assert(LF_N_ELEMS(rows) <= LF_ROUTES_N, "the metrics have a row for each route");

const struct lf_route *lf_route_find(struct lf_str path, size_t *tail_at)
{
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        struct lf_str row = lf_str_c(rows[i].path);
        bool below = row.ptr[row.len - 1] == '/' && path.len > row.len && lf_str_starts(path, row);
        if (!below && !lf_str_eq(path, row)) continue;
        *tail_at = row.len;
        return &rows[i];
    }
    return NULL;
}

int lf_route_idx(const struct lf_route *route)
{
    return route ? (int)(route - rows) : LF_ROUTES_N;
}

int lf_routes_n(void)
{
    return (int)LF_N_ELEMS(rows);
}

const struct lf_route *lf_route_at(int i)
{
    return &rows[i];
}
