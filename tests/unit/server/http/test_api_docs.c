/* server/http/api/api_docs.c: what docs/api.md says is what the program does. */
#include "tests/support/test.h"

#include "core/json.h"
#include "server/http/api/ask.h"
#include "server/http/api/dialect.h"
#include "server/http/conn/http_server.h"
#include "server/http/api/openai_request.h"
#include "server/http/api/routes.h"
#include "server/http/api/unsupported_fields.h"

static const struct lf_ask_limits limits = {.max_choices = 8, .n_vocab = 100};

/* Reads a body as the route does. */
static enum lf_status read_body(struct lf_ask *ask, const struct lf_route *route, const char *body,
                                struct lf_api_err *err)
{
    struct lf_json json = {0};
    struct lf_err why;
    memset(err, 0, sizeof *err);
    assert_int_equal(lf_json_parse(&json, lf_str_c(body), &lf_json_limits_request, &why), LF_OK);
    enum lf_status status = route->dialect ? route->dialect->parse(ask, &json, &limits, err)
                            : route->parse ? route->parse(ask, &json, &limits, err)
                                           : lf_ask_read(ask, (enum lf_ask_kind)route->endpoint, &json, &limits, err);
    lf_json_deinit(&json);
    return status;
}

static bool knows(const struct lf_route *route, const char *field)
{
    char body[128];
    struct lf_ask ask = {0};
    struct lf_api_err err;
    snprintf(body, sizeof body, "{\"%s\": null}", field);
    (void)!read_body(&ask, route, body, &err); /* what is missing is refused behind the fields */
    bool known = ask.n_unknown == 0;
    lf_ask_deinit(&ask);
    return known;
}

static void every_route_says_what_it_is_for(void **state)
{
    (void)state;
    for (int i = 0; i < lf_routes_n(); i++) {
        unsigned endpoint = 0;
        const struct lf_route *r = lf_route_at(i);
        const struct lf_field_table *table = lf_route_fields(r, &endpoint);
        assert_true(r->summary && r->answer);
        assert_int_equal(table != NULL, lf_route_has_body(r));
        assert_int_equal(endpoint != 0, table != NULL);
    }
}

static void a_field_is_documented_where_it_is_read(void **state)
{
    (void)state;
    for (int i = 0; i < lf_routes_n(); i++) {
        unsigned endpoint;
        const struct lf_route *r = lf_route_at(i);
        const struct lf_field_table *table = lf_route_fields(r, &endpoint);
        if (!table) continue;
        assert_false(knows(r, "nobody_knows_this"));
        for (int k = 0; k < table->n_fields; k++) {
            const struct lf_field *f = &table->fields[k];
            if (!f->help || (f->kind == LF_FIELD_READ) != (f->type != NULL)) fail_msg("%s", f->name);
            if ((f->asks & endpoint) && !knows(r, f->name)) fail_msg("%s does not read %s", r->path, f->name);
        }
        for (int k = 0; k < table->unsupported->n; k++) {
            const struct lf_unsupported_field *f = &table->unsupported->rows[k];
            if ((f->asks & endpoint) && !knows(r, f->name)) fail_msg("%s does not know %s", r->path, f->name);
        }
    }
}

/* A field of the chat that another dialect of it ignored would change the answer in silence. */
static void check_knows_the_chat(const char *path)
{
    size_t tail;
    unsigned endpoint;
    const struct lf_route *chat = lf_route_find(LF_STR("/v1/chat/completions"), &tail);
    const struct lf_route *other = lf_route_find(lf_str_c(path), &tail);
    const struct lf_field_table *table = lf_route_fields(chat, &endpoint);
    int n = 0;
    for (int i = 0; i < table->n_fields; i++) {
        if (!(table->fields[i].asks & endpoint)) continue;
        if (!knows(other, table->fields[i].name)) fail_msg("%s: %s", path, table->fields[i].name);
        n++;
    }
    for (int i = 0; i < table->unsupported->n; i++) {
        const struct lf_unsupported_field *f = &table->unsupported->rows[i];
        if ((f->asks & endpoint) && !knows(other, f->name)) fail_msg("%s: %s", path, f->name);
    }
    assert_true(n > 25);
}

static void dialects_know_whatever_the_chat_knows(void **state)
{
    (void)state;
    check_knows_the_chat("/v1/messages");
    check_knows_the_chat("/v1/responses");
}

/* The numbers behind "at most" stand in another place than the check: at the bound a list is taken, beyond it refused.
 */
static void lists_are_taken_up_to_what_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *path, *name, *element;
    } rows[] = {{"/v1/completions", "stop", "\"x\""},
                {"/v1/completions", "stop_token_ids", "7"},
                {"/v1/messages", "stop_sequences", "\"x\""}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned endpoint;
        size_t tail;
        const struct lf_route *r = lf_route_find(lf_str_c(rows[i].path), &tail);
        const struct lf_field_table *table = lf_route_fields(r, &endpoint);
        int most = 0;
        for (int k = 0; k < table->n_fields; k++)
            if (strcmp(table->fields[k].name, rows[i].name) == 0) most = (int)table->fields[k].range[1];
        assert_true(most > 0);
        for (int n = most; n <= most + 1; n++) {
            struct lf_buf body;
            struct lf_ask ask = {0};
            struct lf_api_err err;
            lf_buf_init(&body, 64 * 1024);
            lf_buf_printf(&body, "{\"%s\": [%s", rows[i].name, rows[i].element);
            for (int k = 1; k < n; k++) lf_buf_printf(&body, ", %s", rows[i].element);
            lf_buf_cstr(&body, "]}");
            (void)!read_body(&ask, r, body.ptr, &err);
            assert_int_equal(strcmp(err.param, rows[i].name) == 0, n > most);
            lf_ask_deinit(&ask);
            lf_buf_deinit(&body);
        }
    }
}

static void defaults_and_refusals_are_the_real_ones(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "| `temperature` | number from 0 to 2 | 1 | ",
        "| `n` | integer from 1 to 128 | 1 | ",
        "| `max_tokens` | integer from 1 to 16777216 |  | ", /* /v1/messages */
        "| `add_special_tokens` | true or false | true | ",
        "    max_new_tokens: not implemented, and ignoring it would change the answer; here that is max_tokens.\n",
        "| `do_sample` | `/v1/completions`, `/v1/chat/completions` | `null` `true` | temperature |\n",
        "| `GET /v1/models/ID` | yes | 503 | ",
        "| `GET /livez` | no | answers | ",
        "| 429 | `queue_full` | ",
        "| 503 | `engine_failed` | ",
        "| `prefill_ms` | ",
        "| `eta_ms` | ",
        "\n### POST /v1/messages → 200\n\n```json\n{",
        "\n### GET /livez → 200\n\n```json\n{\"status\": \"ok\"}\n```\n",
    };
    struct lf_buf page;
    lf_buf_init(&page, 256 * 1024);
    lf_http_api_docs(&page);
    assert_int_equal(page.status, LF_OK);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (!strstr(page.ptr, lines[i])) fail_msg("missing: %s", lines[i]);
    lf_buf_deinit(&page);
}

/* Each metric of the page is in the list, and the other way round: both are written by the same calls. */
static void the_list_of_metrics_has_names_types_and_labels(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "| `num_requests_running` | gauge |  | ",
        "| `request_success_total` | counter | `finished_reason`: stop, length, abort, error | ",
        "| `time_to_first_token_seconds` | histogram |  | ",
        "| `http_requests_total` | counter | `route`, `status`: ",
    };
    struct lf_buf page;
    lf_buf_init(&page, 64 * 1024);
    lf_http_metrics_docs(&page);
    assert_int_equal(page.status, LF_OK);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (!strstr(page.ptr, lines[i])) fail_msg("missing: %s", lines[i]);
    for (const char *line = page.ptr; *line; line = strchr(line, '\n') + 1) assert_int_equal(*line, '|');
    lf_buf_deinit(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_route_says_what_it_is_for),
        cmocka_unit_test(a_field_is_documented_where_it_is_read),
        cmocka_unit_test(lists_are_taken_up_to_what_is_said),
        cmocka_unit_test(defaults_and_refusals_are_the_real_ones),
        cmocka_unit_test(dialects_know_whatever_the_chat_knows),
        cmocka_unit_test(the_list_of_metrics_has_names_types_and_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
