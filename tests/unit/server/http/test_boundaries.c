/* server/http/api/boundaries.c: where the texts of documents end in what a template has made of their messages. */
#include "tests/support/test.h"

#include "server/http/api/boundaries.h"

enum { N = 4 };

struct rig {
    struct lf_chat_message messages[N];
    struct lf_ask_document documents[N];
    struct lf_text_span spans[2 * N];
    struct lf_ask ask;
    struct lf_chat_text rendered;
    size_t at[N];
};

static void begin(struct rig *r)
{
    *r =
        (struct rig){.ask = {.messages = r->messages, .documents = r->documents}, .rendered = {.user_spans = r->spans}};
    lf_buf_init(&r->rendered.text, 4096);
}

static void message(struct rig *r, const char *content)
{
    r->messages[r->ask.n_messages++] = (struct lf_chat_message){.content = lf_str_c(content), .has_content = true};
}

static void document(struct rig *r, size_t message, size_t end)
{
    r->documents[r->ask.n_documents++] = (struct lf_ask_document){.message = message, .end = end};
}

static void templates(struct rig *r, const char *text)
{
    lf_buf_cstr(&r->rendered.text, text);
}

static void users(struct rig *r, const char *text)
{
    r->spans[r->rendered.n_user_spans++] = (struct lf_text_span){r->rendered.text.len, strlen(text)};
    lf_buf_cstr(&r->rendered.text, text);
}

/* What stands before each boundary, which ends there. */
static void expect(struct rig *r, size_t n, const char *const *heads)
{
    assert_int_equal(lf_boundaries_find(r->at, &r->rendered, &r->ask), n);
    for (size_t i = 0; i < n; i++)
        assert_true(lf_str_eq(lf_str_from(r->rendered.text.ptr, r->at[i]), lf_str_c(heads[i])));
    lf_buf_deinit(&r->rendered.text);
}

static void a_boundary_is_behind_the_text_without_the_white_space_at_its_end(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    message(&r, " doc \nand a question");
    document(&r, 0, 5);
    templates(&r, "<u>");
    users(&r, " doc \nand a question");
    templates(&r, "</u>");
    expect(&r, 1, (const char *const[]){"<u> doc"});
}

static void a_template_may_trim_a_message(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    message(&r, "\n doc ");
    document(&r, 0, 6);
    templates(&r, "<u>");
    users(&r, "doc");
    templates(&r, "</u>");
    expect(&r, 1, (const char *const[]){"<u>doc"});
}

static void the_templates_own_text_is_not_taken_for_it(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    message(&r, "doc?");
    document(&r, 0, 3);
    templates(&r, "a doc of ");
    users(&r, "user");
    templates(&r, "doc");
    users(&r, "doc?");
    expect(&r, 1, (const char *const[]){"a doc of userdocdoc"});
}

static void several_follow_each_other(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    message(&r, "one\ntwo\n?");
    message(&r, "one\n!");
    document(&r, 0, 3);
    document(&r, 0, 7);
    document(&r, 1, 3);
    templates(&r, "<");
    users(&r, "one\ntwo\n?");
    templates(&r, "|");
    users(&r, "one\n!");
    expect(&r, 3, (const char *const[]){"<one", "<one\ntwo", "<one\ntwo\n?|one"});
}

static void what_a_template_writes_otherwise_has_none(void **state)
{
    (void)state;
    struct rig r;
    begin(&r);
    message(&r, "doc");
    message(&r, " \n");
    document(&r, 0, 3);
    document(&r, 1, 2);
    users(&r, "DOC \n");
    expect(&r, 0, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_boundary_is_behind_the_text_without_the_white_space_at_its_end),
        cmocka_unit_test(a_template_may_trim_a_message),
        cmocka_unit_test(the_templates_own_text_is_not_taken_for_it),
        cmocka_unit_test(several_follow_each_other),
        cmocka_unit_test(what_a_template_writes_otherwise_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
