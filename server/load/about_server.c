#include "server/load/about_server.h"

#include <string.h>

#include "core/check.h"
#include "core/json.h"
#include "core/limits.h"

/* As far as there is room, for a terminal: whole characters, and none that moves its cursor. */
static void copy_name(char out[LF_SERVER_MODEL_BYTES], struct lf_str name)
{
    size_t n = LF_MIN(name.len, (size_t)LF_SERVER_MODEL_BYTES - 1);
    while (n > 0 && n < name.len && ((unsigned char)name.ptr[n] & 0xC0) == 0x80) n--;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        out[i] = c < ' ' || c == 0x7F ? '?' : name.ptr[i];
    }
    out[n] = '\0';
}

static bool read_model(char out[LF_SERVER_MODEL_BYTES], struct lf_json_value root)
{
    struct lf_buf name;
    lf_buf_init(&name, LF_JSON_FILE_BYTES);
    bool is_there = lf_json_string(lf_json_get(root, "model"), &name);
    if (is_there) copy_name(out, lf_buf_view(&name));
    lf_buf_deinit(&name);
    return is_there;
}

/* A count of `name` in the member `of`; false: there is none. */
static bool read_count(int *out, struct lf_json_value root, const char *of, const char *name)
{
    int64_t n = 0;
    bool is_there = lf_json_int64(lf_json_get(lf_json_get(root, of), name), &n) && n >= 1 && n <= INT32_MAX;
    if (is_there) *out = (int)n;
    return is_there;
}

bool lf_about_server_read(struct lf_about_server *out, struct lf_str body)
{
    struct lf_json json = {0};
    struct lf_about_server s = {.n_context_ranks = 1, .block_tokens = LF_KV_BLOCK_TOKENS};
    *out = (struct lf_about_server){0};
    if (lf_json_parse(&json, body, &lf_json_limits_request, NULL) == LF_OK) {
        struct lf_json_value root = lf_json_root(&json);
        (void)read_count(&s.n_context_ranks, root, "plan", "context_ranks");
        (void)read_count(&s.block_tokens, root, "blocks", "tokens");
        if (read_count(&s.n_ranks, root, "plan", "ranks") && read_model(s.model, root)) *out = s;
    }
    lf_json_deinit(&json);
    return out->n_ranks > 0;
}
