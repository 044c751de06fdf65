#include "server/http/routes.h"

#include "core/check.h"
#include "server/http/dialect.h"
#include "server/http/server.h"

#define GET  .method = "GET", .allow = "GET, HEAD, OPTIONS"
#define POST .method = "POST", .allow = "POST, OPTIONS"
#define KEY  .auth = LF_AUTH_KEY
/* health: no key, at any time, and on the places kept for it */
#define HEALTH                 GET, .auth = LF_AUTH_NONE, .before_ready = true
#define GENERATE(dialect_name) POST, KEY, .generates = true, .handle = lf_handle_generate, .dialect = &dialect_name

static const struct lf_route rows[] = {
    {.path = "/v1/completions", GENERATE(lf_dialect_completions)},
    {.path = "/v1/chat/completions", GENERATE(lf_dialect_chat)},
    {.path = "/v1/messages", GENERATE(lf_dialect_messages)},
    {.path = "/v1/models", GET, KEY, .handle = lf_handle_models},
    {.path = "/v1/models/", GET, KEY, .handle = lf_handle_model},
    {.path = "/tokenize", POST, KEY, .handle = lf_handle_tokenize},
    {.path = "/detokenize", POST, KEY, .handle = lf_handle_detokenize},
    {.path = "/apply-template", POST, KEY, .handle = lf_handle_apply_template},
    {.path = "/livez", HEALTH, .handle = lf_handle_livez},
    {.path = "/readyz", HEALTH, .handle = lf_handle_readyz},
    {.path = "/health", HEALTH, .handle = lf_handle_readyz},
    {.path = "/metrics", GET, KEY, .handle = lf_handle_metrics},
    {.path = "/v1/capacity", GET, KEY, .handle = lf_handle_capacity},
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
