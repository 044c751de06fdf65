#include "server/http/api/document_json.h"

#include "core/json.h"
#include "server/http/api/shown.h"

void lf_document_write(struct lf_buf *out, const struct lf_document_view *v)
{
    static const char *const states[] = {"reading", "ready", "failed"};
    lf_buf_cstr(out, "{\"object\":\"document\",\"name\":");
    lf_json_write_string(out, v->name);
    lf_buf_printf(out, ",\"state\":\"%s\",\"tokens\":%lld,\"tokens_read\":%lld", states[v->state],
                  (long long)v->n_tokens, (long long)v->n_read);
    if (v->state == LF_DOCUMENT_READING && v->eta_ms) lf_buf_printf(out, ",\"eta_ms\":%lld", (long long)v->eta_ms);
    if (v->state == LF_DOCUMENT_FAILED) {
        lf_buf_cstr(out, ",\"reason\":");
        lf_json_write_string(out, lf_str_c(v->reason));
    }
    lf_buf_printf(out, ",\"bytes\":%zu,\"hits\":%lld,\"created\":%lld,\"expires\":", v->n_bytes, (long long)v->n_hits,
                  (long long)v->created_s);
    if (v->expires_s)
        lf_buf_printf(out, "%lld", (long long)v->expires_s);
    else
        lf_buf_cstr(out, "null");
    lf_buf_cstr(out, ",\"etag\":");
    lf_json_write_string(out, lf_str_c(v->etag.text));
    lf_buf_char(out, '}');
}

enum lf_status lf_refuse_document(struct lf_api_err *err, const char *param, struct lf_str name)
{
    char shown[LF_SHOWN_BYTES];
    lf_shown(shown, name);
    return lf_refuse(err, 404, param, "document_not_found", "There is no document \"%s\"; see /v1/documents.", shown);
}
