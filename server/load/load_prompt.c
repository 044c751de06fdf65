#include "server/load/load_prompt.h"

#include "core/mix.h"

/* Ids that are ordinary tokens in every known vocabulary: past the control and byte tokens, within 4096. */
enum { FIRST_ID = 300, N_IDS = 3700 };

static void append_head(struct lf_buf *out, const char *method, const char *path, const char *host, const char *key)
{
    lf_buf_printf(out, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", method, path, host);
    if (key) lf_buf_printf(out, "Authorization: Bearer %s\r\n", key);
}

/* An answer with a schema ends where it is whole, any other one at its length. */
static void append_format(struct lf_buf *out, struct lf_str schema)
{
    if (schema.len == 0) {
        lf_buf_cstr(out, "\"ignore_eos\":true");
        return;
    }
    lf_buf_cstr(out, "\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"load\",\"schema\":");
    lf_buf_str(out, schema);
    lf_buf_cstr(out, "}}");
}

void lf_load_request(struct lf_buf *out, const struct lf_load_shape *shape, uint64_t index)
{
    struct lf_buf body;
    lf_buf_init(&body, out->ceiling);
    lf_buf_cstr(&body, "{\"prompt\":[");
    for (int i = 0; i < shape->n_prompt; i++) {
        uint64_t stream = i < shape->n_shared ? 0 : index + 1;
        uint64_t r = lf_random64(shape->seed + stream, (uint64_t)i);
        lf_buf_printf(&body, "%s%d", i ? "," : "", FIRST_ID + (int)(r % N_IDS));
    }
    lf_buf_printf(&body,
                  "],\"max_tokens\":%d,\"temperature\":0,\"stream\":true,"
                  "\"stream_options\":{\"include_usage\":true},",
                  shape->n_output);
    append_format(&body, shape->schema);
    lf_buf_char(&body, '}');
    append_head(out, "POST", "/v1/completions", shape->host, shape->key);
    lf_buf_printf(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n", body.len);
    lf_buf_str(out, lf_buf_view(&body));
    if (body.status != LF_OK) out->status = body.status;
    lf_buf_deinit(&body);
}

void lf_load_get(struct lf_buf *out, const char *host, const char *key, const char *path)
{
    append_head(out, "GET", path, host, key);
    lf_buf_cstr(out, "\r\n");
}
