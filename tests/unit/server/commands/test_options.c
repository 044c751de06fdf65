#include "tests/support/test.h"

#include "server/config.h"
#include "server/docs/command_table.h"
#include "server/docs/docs.h"
#include "server/option_hints.h"
#include "server/options.h"

static void names_are_unique_within_a_command(void **state)
{
    (void)state;
    for (int i = 0; i < lf_options_n(); i++)
        for (int j = 0; j < i; j++)
            if (strcmp(lf_option_at(i)->name, lf_option_at(j)->name) == 0)
                assert_int_equal(lf_option_at(i)->commands & lf_option_at(j)->commands, 0);
}

static void every_default_is_a_value_the_option_takes(void **state)
{
    (void)state;
    static const enum lf_command commands[] = {LF_COMMAND_SERVE,     LF_COMMAND_PLAN,     LF_COMMAND_RUN,
                                               LF_COMMAND_LOAD,      LF_COMMAND_TOKENIZE, LF_COMMAND_HEALTH,
                                               LF_COMMAND_DOCUMENTS, LF_COMMAND_QUANTIZE};
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        struct lf_config c;
        struct lf_err err;
        char *const none[] = {NULL};
        assert_int_equal(lf_config_read(&c, commands[i], 0, none, none, &err), LF_OK);
        lf_config_deinit(&c);
    }
}

static void an_option_is_found_for_its_commands_only(void **state)
{
    (void)state;
    assert_non_null(lf_option_find("port", 4, LF_COMMAND_SERVE));
    assert_null(lf_option_find("port", 4, LF_COMMAND_PLAN));
    assert_null(lf_option_find("por", 3, LF_COMMAND_SERVE));
    assert_ptr_not_equal(lf_option_find("concurrency", 11, LF_COMMAND_PLAN),
                         lf_option_find("concurrency", 11, LF_COMMAND_LOAD));
}

static void a_slip_finds_the_nearest_name(void **state)
{
    (void)state;
    assert_string_equal(lf_option_nearest("max-seq", LF_COMMAND_SERVE)->name, "max-seqs");
    assert_string_equal(lf_option_nearest("modle", LF_COMMAND_SERVE)->name, "model");
    assert_null(lf_option_nearest("something-else", LF_COMMAND_SERVE));
}

/* Each of their names is found, in one row alone, is none of ours, and leads to an option that there is. */
static void hints_are_of_options_that_we_do_not_have(void **state)
{
    (void)state;
    struct lf_buf text;
    lf_buf_init(&text, LF_ERR_MESSAGE_BYTES - 64);
    assert_true(lf_option_hints_n > 40);
    for (int i = 0; i < lf_option_hints_n; i++) {
        const struct lf_option_hint *h = &lf_option_hints[i];
        assert_true(h->ours || h->say);
        if (h->ours && !lf_option_find(h->ours, strlen(h->ours), 0)) fail_msg("%s: no option %s", h->theirs, h->ours);
        for (const char *name = h->theirs; *name;) {
            size_t len = strcspn(name, " ");
            if (lf_option_hint_find(name, len) != h) fail_msg("%s stands in two rows", name);
            assert_int_equal(name[0], '-');
            if (name[1] == '-' && lf_option_find(name + 2, len - 2, 0)) fail_msg("%s is ours", name);
            name += len + (name[len] == ' ');
        }
        lf_buf_clear(&text);
        lf_option_hint_print(h, LF_COMMAND_HEALTH, &text); /* which has none of them: the longest form */
        assert_int_equal(text.status, LF_OK);
        assert_true(text.len > 0);
    }
    assert_null(lf_option_hint_find("--max-model", strlen("--max-model")));
    assert_null(lf_option_hint_find("--ctx-size -n", strlen("--ctx-size -n")));
    assert_null(lf_option_hint_find("", 0));
    lf_buf_deinit(&text);
}

static void names_turn_into_variables_and_keys(void **state)
{
    (void)state;
    char name[64];
    const struct lf_option *o = lf_option_find("api-keys-file", 13, 0);
    lf_option_env_name(o, name);
    assert_string_equal(name, "LONGFLASH_API_KEYS_FILE");
    lf_option_json_name(o, name);
    assert_string_equal(name, "api_keys_file");
}

static void help_names_every_option_of_a_command_within_its_width(void **state)
{
    (void)state;
    struct lf_buf page;
    lf_buf_init(&page, 64 * 1024);
    lf_help_print("serve", &page);
    assert_int_equal(page.status, LF_OK);
    for (int i = 0; i < lf_options_n(); i++) {
        char text[80];
        if (!(lf_option_at(i)->commands & LF_COMMAND_SERVE)) continue;
        snprintf(text, sizeof(text), "  --%s", lf_option_at(i)->name);
        if (!strstr(page.ptr, text)) fail_msg("%s is missing", text);
    }
    assert_null(strstr(page.ptr, "--find-limit"));
    for (char *line = page.ptr; *line;) {
        size_t len = strcspn(line, "\n");
        if (len > 120) fail_msg("%.*s", (int)len, line);
        line += len + (line[len] == '\n');
    }
    lf_buf_deinit(&page);
}

static int occurrences(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what)) n++;
    return n;
}

/* Rows, not names: some names have two rows, for different commands. */
static void the_references_have_every_row(void **state)
{
    (void)state;
    struct lf_buf man, page;
    lf_buf_init(&man, 256 * 1024);
    lf_buf_init(&page, 256 * 1024);
    lf_docs_man(&man);
    lf_docs_options(&page);
    for (int i = 0; i < lf_options_n(); i++) {
        char variable[64], in_man[128], in_page[128];
        int n = 0;
        for (int k = 0; k < lf_options_n(); k++) n += strcmp(lf_option_at(i)->name, lf_option_at(k)->name) == 0;
        lf_option_env_name(lf_option_at(i), variable);
        snprintf(in_man, sizeof(in_man), "Environment: \\fB%s\\fR", variable);
        snprintf(in_page, sizeof(in_page), "| `--%s` ", lf_option_at(i)->name);
        if (lf_option_at(i)->type == LF_OPTION_FLAG)
            snprintf(in_page, sizeof(in_page), "| `--%s` |", lf_option_at(i)->name);
        if (occurrences(man.ptr, in_man) != n) fail_msg("%s is not there %d times", in_man, n);
        if (occurrences(page.ptr, in_page) != n) fail_msg("%s is not there %d times", in_page, n);
    }
    assert_int_equal(man.status, LF_OK);
    assert_int_equal(page.status, LF_OK);
    lf_buf_deinit(&man);
    lf_buf_deinit(&page);
}

/* A page is in lines that begin with a request or with text; a stray dot would swallow one. */
static void the_man_page_has_no_unknown_requests(void **state)
{
    (void)state;
    static const char *const known[] = {".TH ", ".SH ", ".SS ",  ".TP\n", ".PP\n", ".B ",
                                        ".BR ", ".I ",  ".EX\n", ".EE\n", ".br\n", ".\\\""};
    struct lf_buf man;
    lf_buf_init(&man, 256 * 1024);
    lf_docs_man(&man);
    for (const char *line = man.ptr; *line; line = strchr(line, '\n') + 1) {
        bool ok = *line != '.' && *line != '\'';
        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
            ok |= strncmp(line, known[i], strlen(known[i])) == 0;
        if (!ok) fail_msg("%.60s", line);
    }
    for (const char *c = man.ptr; *c; c++) assert_true((unsigned char)*c < 127);
    lf_buf_deinit(&man);
}

static void every_row_says_what_it_is(void **state)
{
    (void)state;
    for (int i = 0; i < lf_options_n(); i++) {
        const struct lf_option *o = lf_option_at(i);
        assert_true(o->help && strlen(o->help) > 3);
        assert_true(strlen(o->help) <= 120); /* one line; the rest is detail */
        assert_true(o->type == LF_OPTION_FLAG || o->arg);
        assert_true(o->type != LF_OPTION_CHOICE || o->choices);
        if (o->shown) assert_true(*o->fallback == '\0' || strcmp(o->fallback, "0") == 0);
        if (o->detail) assert_int_equal(o->detail[strlen(o->detail) - 1], '.');
    }
    for (int i = 0; i < lf_command_rows_n; i++) {
        const struct lf_command_row *row = &lf_command_rows[i];
        assert_true(row->summary && row->text && row->args);
        assert_ptr_equal(lf_command_row_find(row->name), row);
    }
    assert_null(lf_command_row_find("serv"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_unique_within_a_command),
        cmocka_unit_test(every_default_is_a_value_the_option_takes),
        cmocka_unit_test(an_option_is_found_for_its_commands_only),
        cmocka_unit_test(a_slip_finds_the_nearest_name),
        cmocka_unit_test(hints_are_of_options_that_we_do_not_have),
        cmocka_unit_test(names_turn_into_variables_and_keys),
        cmocka_unit_test(help_names_every_option_of_a_command_within_its_width),
        cmocka_unit_test(the_references_have_every_row),
        cmocka_unit_test(the_man_page_has_no_unknown_requests),
        cmocka_unit_test(every_row_says_what_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
