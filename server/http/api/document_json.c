#include "server/http/api/document_json.h"

#include "core/json.h"
#include "core/log.h"
#include "server/http/api/document_pins.h"
#include "server/http/api/shown.h"

static void write_members(struct lf_buf *out, const struct lf_document_view *v)
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
    if (v->pin == LF_PIN_NONE)
        lf_buf_cstr(out, ",\"pinned\":null");
    else
        lf_buf_printf(out, ",\"pinned\":\"%s\"", lf_pin_name(v->pin));
}

void lf_document_write(struct lf_buf *out, const struct lf_document_view *v)
{
    write_members(out, v);
    lf_buf_char(out, '}');
}

static void write_places(struct lf_buf *out, const struct lf_document_places *places)
{
    const char *comma = "{";
    for (int pin = LF_PIN_DEVICE; pin >= LF_PIN_DISK; pin--) {
        lf_buf_printf(out, "%s\"%s\":", comma, lf_pin_name((enum lf_pin)pin));
        if (places->n_tokens[pin] < 0)
            lf_buf_cstr(out, "null");
        else
            lf_buf_printf(out, "%lld", (long long)places->n_tokens[pin]);
        comma = ",";
    }
    lf_buf_char(out, '}');
}

void lf_document_write_placed(struct lf_buf *out, const struct lf_document_view *v,
                              const struct lf_document_places *places)
{
    write_members(out, v);
    lf_buf_cstr(out, ",\"tokens_on\":");
    if (places)
        write_places(out, places);
    else
        lf_buf_cstr(out, "null");
    lf_buf_char(out, '}');
}

enum lf_status lf_document_refuse_disk(enum lf_status status, const struct lf_err *why, struct lf_api_err *err)
{
    LF_WARN("a document is not kept: %s", why->message);
    if (status == LF_FULL)
        return lf_refuse(err, 507, NULL, "document_disk_full", "The disk that documents are kept on is full.");
    return lf_refuse(err, 500, NULL, "document_not_kept", "The disk that documents are kept on does not take it.");
}

enum lf_status lf_refuse_document(struct lf_api_err *err, const char *param, struct lf_str name)
{
    char shown[LF_SHOWN_BYTES];
    lf_shown(shown, name);
    return lf_refuse(err, 404, param, "document_not_found", "There is no document \"%s\"; see /v1/documents.", shown);
}
