#include "server/http/api/document_pins.h"

#include "core/check.h"
#include "core/log.h"
#include "core/work.h"
#include "server/engine/engine.h"
#include "server/http/api/document_json.h"
#include "server/http/api/document_reading.h"
#include "server/http/api/place.h"
#include "server/http/conn/server.h"

/* ---- wishes ---- */

static enum lf_status read_tier(struct lf_reading *r, const char *name, struct lf_json_value v, const char *expected)
{
    r->ask->pin_given = true;
    for (int pin = LF_PIN_DISK; pin < LF_PIN_N; pin++) {
        if (!lf_json_string_is(v, lf_pin_name((enum lf_pin)pin))) continue;
        r->ask->pin = (enum lf_pin)pin;
        r->ask->pin_default = false;
        return LF_OK;
    }
    return lf_place_expected(r->err, name, v, expected);
}

enum lf_status lf_document_read_tier(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    return read_tier(r, name, v, "\"device\", \"memory\" or \"disk\"");
}

enum lf_status lf_document_read_pin(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    bool is_pinned;
    if (!lf_json_bool(v, &is_pinned)) return read_tier(r, name, v, "true, false, \"device\", \"memory\" or \"disk\"");
    r->ask->pin_given = true;
    r->ask->pin_default = is_pinned;
    r->ask->pin = LF_PIN_NONE;
    return LF_OK;
}

static enum lf_pin lowest(const struct lf_engine_state *engine)
{
    int pin = LF_PIN_DISK;
    while (pin < LF_PIN_DEVICE && !engine->pins[pin].n_most) pin++;
    return (enum lf_pin)pin;
}

enum lf_status lf_document_tier(enum lf_pin *out, struct lf_http_server *s, const struct lf_ask *ask,
                                struct lf_api_err *err)
{
    struct lf_engine_state engine;
    lf_engine_snapshot(s->engine, &engine);
    enum lf_pin pin = ask->pin_default ? lowest(&engine) : ask->pin;
    /* on a CPU the cache is the tier in memory */
    if (pin == LF_PIN_MEMORY && !engine.pins[pin].n_most && engine.is_host) pin = LF_PIN_DEVICE;
    *out = pin;
    if (pin == LF_PIN_NONE || engine.pins[pin].n_most) return LF_OK;
    return lf_refuse(err, 400, "tier", "no_such_tier", "There is no tier \"%s\" here: it takes %s.", lf_pin_name(pin),
                     pin == LF_PIN_DISK     ? "--cache-dir"
                     : pin == LF_PIN_MEMORY ? "--cache-memory"
                                            : "the prefix cache, and more than one block");
}

/* ---- pinning ---- */

/* The request that brings it there; its place until now is let go of when the next one holds. */
static enum lf_status submit(struct lf_http_server *s, struct lf_document *doc, const struct lf_document_view *view,
                             enum lf_pin pin, struct lf_work *work, struct lf_request **out, struct lf_api_err *err)
{
    struct lf_document_beginning b;
    struct lf_engine_state engine;
    LF_TRY(lf_document_begin_again(&b, s, doc, work, err));
    lf_engine_snapshot(s->engine, &engine);
    b.params.pin = pin;
    for (int p = LF_PIN_DISK; p <= (int)view->pin; p++) b.params.pin_spare[p] = b.params.n_prompt / engine.block_tokens;
    enum lf_status status = lf_document_submit(s, &b.params, out, err);
    lf_document_beginning_deinit(&b);
    return status;
}

static enum lf_status keep(struct lf_http_server *s, struct lf_document *doc, enum lf_pin pin, int64_t *pinning,
                           struct lf_api_err *err)
{
    struct lf_err why;
    enum lf_status status = lf_keeper_pin(&s->keeper, doc, pin, pinning, &why);
    if (status == LF_OK) return LF_OK;
    if (status != LF_NOT_FOUND) return lf_document_refuse_disk(status, &why, err);
    return lf_refuse(err, 404, NULL, "document_not_found", "The document has just come to its end.");
}

enum lf_status lf_document_pin_to(struct lf_http_server *s, struct lf_document *doc, enum lf_pin pin,
                                  struct lf_work *work, struct lf_api_err *err)
{
    struct lf_document_view view;
    struct lf_request *req = NULL;
    int64_t pinning = 0;
    lf_document_look(s->documents, doc, &view);
    if (view.pin == pin) return LF_OK;
    if (pin == LF_PIN_NONE) return keep(s, doc, pin, &pinning, err);
    if (view.state == LF_DOCUMENT_FAILED)
        return lf_refuse(err, 409, NULL, "document_unread",
                         "The document could not be read, so there is nothing to pin.");
    LF_TRY(submit(s, doc, &view, pin, work, &req, err));
    enum lf_status status = keep(s, doc, pin, &pinning, err);
    struct lf_document *again = lf_document_ref(s->documents, doc);
    if (status == LF_OK && lf_readings_add(&s->readings, again, req, LF_READING_PINS, pinning) == LF_OK) return LF_OK;
    if (status == LF_OK) (void)!keep(s, doc, LF_PIN_NONE, &pinning, err);
    if (status == LF_OK) status = lf_refuse_work(err, LF_NO_MEMORY);
    lf_document_unref(s->documents, again);
    lf_request_put(req);
    return status;
}

/* ---- places ---- */

bool lf_document_places(struct lf_http_server *s, const struct lf_document_view *view, struct lf_document_places *out)
{
    struct lf_engine_state engine;
    int n[LF_PIN_N];
    lf_engine_snapshot(s->engine, &engine);
    if (!view->keys && view->n_tokens >= engine.block_tokens) return false;
    lf_engine_places(s->engine, view->keys, view->n_keys, n);
    for (int pin = LF_PIN_DISK; pin < LF_PIN_N; pin++)
        out->n_tokens[pin] = engine.pins[pin].n_most ? (int64_t)n[pin] * engine.block_tokens : -1;
    return true;
}
