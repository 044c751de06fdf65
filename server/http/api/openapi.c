#include "server/http/api/openapi.h"

#include "core/check.h"
#include "core/json.h"
#include "server/http/api/dialect.h"
#include "server/http/api/error_codes.h"
#include "server/http/api/routes.h"
#include "server/http/conn/exchange.h"
#include "server/http/conn/server.h"

/* "name":"text", behind a comma. */
static void write_text(struct lf_buf *out, const char *name, const char *text)
{
    lf_buf_printf(out, ",\"%s\":", name);
    lf_json_write_string(out, lf_str_c(text));
}

/* ---- bodies ---- */

/* Every field may be null. */
static void write_field(struct lf_buf *out, const struct lf_field *f)
{
    lf_json_write_string(out, lf_str_c(f->name));
    lf_buf_cstr(out, ":{");
    switch (f->kind) {
    case LF_FIELD_BOOL:
        lf_buf_cstr(out, "\"type\":[\"boolean\",\"null\"],");
        break;
    case LF_FIELD_INT:
    case LF_FIELD_FLOAT:
        lf_buf_printf(out, "\"type\":[\"%s\",\"null\"],\"minimum\":%.10g,\"maximum\":%.10g,",
                      f->kind == LF_FIELD_INT ? "integer" : "number", f->range[0], f->range[1]);
        break;
    case LF_FIELD_READ:
        lf_buf_cstr(out, "\"title\":");
        lf_json_write_string(out, lf_str_c(f->type));
        lf_buf_char(out, ',');
        break;
    }
    lf_buf_cstr(out, "\"description\":");
    lf_json_write_string(out, lf_str_c(f->help));
    lf_buf_char(out, '}');
}

static bool has_fields(const struct lf_field_table *table, unsigned endpoint)
{
    for (int i = 0; i < table->n_fields; i++)
        if (table->fields[i].asks & endpoint) return true;
    return false;
}

static void write_body(struct lf_buf *out, const struct lf_route *r)
{
    unsigned endpoint;
    const struct lf_field_table *table = lf_route_fields(r, &endpoint);
    const char *comma = "";
    if (!table || !has_fields(table, endpoint)) return;
    lf_buf_printf(out, ",\"requestBody\":{\"required\":%s,\"content\":{", r->may_be_empty ? "false" : "true");
    if (r->takes_text) lf_buf_cstr(out, "\"text/plain\":{\"schema\":{\"type\":\"string\"}},");
    lf_buf_cstr(out, "\"application/json\":{\"schema\":{\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < table->n_fields; i++) {
        if (!(table->fields[i].asks & endpoint)) continue;
        lf_buf_cstr(out, comma);
        write_field(out, &table->fields[i]);
        comma = ",";
    }
    lf_buf_cstr(out, "}}}}}");
}

/* ---- answers ---- */

static bool streams(const struct lf_route *r)
{
    return r->takes_text || (r->dialect && r->generates);
}

/* A form of errors is its dialect's. */
static const char *error_of(const struct lf_route *r)
{
    bool other = r->dialect && r->dialect->whole->error != lf_api_err_write;
    return other ? "OtherError" : "Error";
}

static void write_answers(struct lf_buf *out, const struct lf_route *r)
{
    static const char *const errors[] = {"4XX", "5XX"};
    lf_buf_cstr(out, ",\"responses\":{\"2XX\":{\"description\":");
    lf_json_write_string(out, lf_str_c(r->answer));
    lf_buf_cstr(out, ",\"content\":{");
    if (streams(r)) lf_buf_cstr(out, "\"text/event-stream\":{},");
    if (r->answers_text)
        lf_buf_printf(out, "\"%s\":{\"schema\":{\"type\":\"string\"}}}}", r->answers_text);
    else
        lf_buf_cstr(out, "\"application/json\":{\"schema\":{\"type\":\"object\"}}}}");
    for (size_t i = 0; i < LF_N_ELEMS(errors); i++)
        lf_buf_printf(out,
                      ",\"%s\":{\"description\":\"a refusal; the schema lists its codes\",\"content\":{"
                      "\"application/json\":{\"schema\":{\"$ref\":\"#/components/schemas/%s\"}}}}",
                      errors[i], error_of(r));
    lf_buf_char(out, '}');
}

/* ---- operations ---- */

static void write_parameters(struct lf_buf *out, const struct lf_route *r)
{
    lf_buf_cstr(out, ",\"parameters\":[");
    if (lf_route_has_id(r))
        lf_buf_cstr(out, "{\"name\":\"id\",\"in\":\"path\",\"required\":true,\"schema\":{\"type\":\"string\"}}");
    if (r->takes_text) lf_buf_cstr(out, ",{\"name\":\"wait\",\"in\":\"query\",\"schema\":{\"type\":\"boolean\"}}");
    lf_buf_char(out, ']');
}

/* method: in lower case. */
static void write_operation(struct lf_buf *out, const struct lf_route *r, const char *method)
{
    lf_buf_printf(out, "\"%s\":{\"operationId\":\"%s", method, method);
    for (const char *p = r->path; *p; p++) lf_buf_char(out, lf_digit(*p) < 36 ? *p : '_');
    lf_buf_char(out, '"');
    write_text(out, "summary", r->summary);
    lf_buf_cstr(out, r->auth == LF_AUTH_KEY ? ",\"security\":[{\"bearer\":[]},{\"key\":[]},{}]" : ",\"security\":[]");
    write_parameters(out, r);
    write_body(out, r);
    write_answers(out, r);
    lf_buf_char(out, '}');
}

static void write_method(struct lf_buf *out, const struct lf_route *r)
{
    char method[8] = "";
    for (size_t i = 0; r->method[i] && i + 1 < sizeof method; i++) method[i] = (char)(r->method[i] | 0x20);
    write_operation(out, r, method);
    if (!r->posts) return;
    lf_buf_char(out, ',');
    write_operation(out, r, "post");
}

/* Rows of one path are neighbours. */
static void write_paths(struct lf_buf *out)
{
    lf_buf_cstr(out, ",\"paths\":{");
    for (int i = 0; i < lf_routes_n(); i++) {
        const struct lf_route *r = lf_route_at(i);
        bool goes_on = i > 0 && strcmp(lf_route_at(i - 1)->path, r->path) == 0;
        if (!goes_on) lf_buf_cstr(out, i ? "},\"" : "\"");
        if (!goes_on) lf_route_write_path(out, r, "{id}");
        if (!goes_on) lf_buf_cstr(out, "\":{");
        if (goes_on) lf_buf_char(out, ',');
        write_method(out, r);
    }
    lf_buf_cstr(out, "}}");
}

/* ---- errors ---- */

static bool was_listed(int i)
{
    for (int k = 0; k < i; k++)
        if (strcmp(lf_error_codes[k].code, lf_error_codes[i].code) == 0) return true;
    return false;
}

static void write_error(struct lf_buf *out)
{
    lf_buf_cstr(out, "\"Error\":{\"type\":\"object\",\"required\":[\"error\"],\"properties\":{\"error\":{\"type\":"
                     "\"object\",\"required\":[\"message\",\"type\",\"param\",\"code\"],\"properties\":{\"message\":{"
                     "\"type\":\"string\"},\"type\":{\"type\":\"string\"},\"param\":{\"type\":[\"string\",\"null\"]},"
                     "\"code\":{\"enum\":[");
    for (int i = 0; i < lf_error_codes_n; i++)
        if (!was_listed(i)) lf_buf_printf(out, "\"%s\",", lf_error_codes[i].code);
    lf_buf_cstr(out, "null]}}}}}");
}

static void write_components(struct lf_buf *out)
{
    lf_buf_cstr(out,
                ",\"components\":{\"securitySchemes\":{\"bearer\":{\"type\":\"http\",\"scheme\":\"bearer\"},\"key\":{"
                "\"type\":\"apiKey\",\"in\":\"header\",\"name\":\"X-Api-Key\"}},\"schemas\":{");
    write_error(out);
    lf_buf_cstr(out, ",\"OtherError\":{\"type\":\"object\",\"required\":[\"type\",\"error\"],\"properties\":{\"type\":{"
                     "\"const\":\"error\"},\"error\":{\"type\":\"object\",\"required\":[\"type\",\"message\"],"
                     "\"properties\":{\"type\":{\"type\":\"string\"},\"message\":{\"type\":\"string\"}}}}}}}");
}

void lf_openapi_write(struct lf_buf *out, const char *version)
{
    lf_buf_cstr(out, "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"LongFlash\"");
    write_text(out, "version", version);
    lf_buf_char(out, '}');
    write_paths(out);
    write_components(out);
    lf_buf_char(out, '}');
}

void lf_handle_openapi(struct lf_exchange *x)
{
    lf_openapi_write(lf_reply_json(&x->reply, 200), x->server->opts.version);
}
