#include "tests/support/test.h"

#include "server/options.h"

static void names_are_unique_within_a_command(void **state)
{
    (void)state;
    for (int i = 0; i < lf_options_n; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(lf_options[i].name, lf_options[j].name) == 0)
                assert_int_equal(lf_options[i].commands & lf_options[j].commands, 0);
}

static void every_default_is_a_value_the_option_takes(void **state)
{
    (void)state;
    static const enum lf_command commands[] = {LF_COMMAND_SERVE, LF_COMMAND_PLAN,     LF_COMMAND_RUN,
                                               LF_COMMAND_LOAD,  LF_COMMAND_TOKENIZE, LF_COMMAND_HEALTH};
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
    lf_help_print(LF_COMMAND_SERVE, &page);
    assert_int_equal(page.status, LF_OK);
    for (int i = 0; i < lf_options_n; i++) {
        char text[80];
        if (!(lf_options[i].commands & LF_COMMAND_SERVE)) continue;
        snprintf(text, sizeof(text), "  --%s", lf_options[i].name);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_unique_within_a_command),
        cmocka_unit_test(every_default_is_a_value_the_option_takes),
        cmocka_unit_test(an_option_is_found_for_its_commands_only),
        cmocka_unit_test(a_slip_finds_the_nearest_name),
        cmocka_unit_test(names_turn_into_variables_and_keys),
        cmocka_unit_test(help_names_every_option_of_a_command_within_its_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
