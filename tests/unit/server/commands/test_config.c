#include "tests/support/test.h"

#include <unistd.h>

#include "core/limits.h"
#include "server/config.h"
#include "server/options.h"

static enum lf_status read_config(struct lf_config *c, enum lf_command command, const char *const *args,
                                  const char *const *env, struct lf_err *err)
{
    int n = 0;
    while (args[n]) n++;
    return lf_config_read(c, command, n, (char *const *)(uintptr_t)args, (char *const *)(uintptr_t)env, err);
}

static const char *const no_env[] = {NULL};

/* A file that lives until the end of the program's run, by its path. */
static const char *temporary_file(const char *text)
{
    static char paths[64][64];
    static int n;
    assert_true(n < 64);
    char *path = paths[n++];
    snprintf(path, sizeof(paths[0]), "/tmp/lf_test_config_XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

static void defaults_stand_where_nothing_is_said(void **state)
{
    (void)state;
    struct lf_config c;
    struct lf_err err;
    assert_int_equal(read_config(&c, LF_COMMAND_SERVE, (const char *const[]){NULL}, no_env, &err), LF_OK);
    assert_string_equal(c.model, "demo/model");
    assert_string_equal(c.host, "127.0.0.1");
    assert_int_equal(c.port, 8080);
    assert_int_equal(c.max_body, 10 * 1024 * 1024);
    assert_int_equal(c.n_connections, LF_CONNECTIONS_N);
    assert_int_equal(c.n_connections_per_address, LF_CONNECTIONS_PER_ADDRESS_N);
    assert_int_equal(c.text_memory, 0);
    assert_int_equal(c.request_timeout, 0);
    assert_int_equal(c.ctx, 0);
    assert_true(c.prefix_cache);
    assert_false(c.insecure_no_auth);
    assert_null(c.api_keys_file);
    assert_null(c.cors_origin);
    lf_config_deinit(&c);
}

static void limits_of_connections_and_texts_are_settings(void **state)
{
    (void)state;
    static const struct {
        const char *const args[3];
        bool taken;
    } rows[] = {
        {{"--connections", "16"}, true},
        {{"--connections", "15"}, false},
        {{"--connections", "64K"}, true},
        {{"--connections", "65537"}, false},
        {{"--connections-per-address", "0"}, true},
        {{"--connections-per-address", "64K"}, true},
        {{"--connections-per-address", "65537"}, false},
        {{"--text-memory", "0"}, true},
        {{"--text-memory", "1G"}, true},
        {{"--text-memory", "1025T"}, false},
        {{"--cache-disk", "0"}, true},
        {{"--cache-disk", "8G"}, true},
        {{"--cache-disk", "-1"}, false},
        {{"--cache-disk", "1025T"}, false},
        {{"--cache-memory", "32G"}, true},
        {{"--cache-meet", "on"}, true},
        {{"--cache-meet", "maybe"}, false},
        {{"--cache-memory", "-1"}, false},
        {{"--cache-memory", "1025T"}, false},
        {{"--request-timeout", "0"}, true},
        {{"--request-timeout", "86400"}, true},
        {{"--request-timeout", "86401"}, false},
    };
    struct lf_config c;
    struct lf_err err;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(read_config(&c, LF_COMMAND_SERVE, rows[i].args, no_env, &err) == LF_OK, rows[i].taken);
        if (!rows[i].taken) assert_non_null(strstr(err.message, rows[i].args[0]));
        lf_config_deinit(&c);
    }
    const char *path =
        temporary_file("{\"connections\": 100, \"connections_per_address\": 7, \"text_memory\": \"64M\"}");
    const char *const args[] = {"--config", path, "--request-timeout", "5", NULL};
    assert_int_equal(read_config(&c, LF_COMMAND_SERVE, args, no_env, &err), LF_OK);
    assert_int_equal(c.n_connections, 100);
    assert_int_equal(c.n_connections_per_address, 7);
    assert_int_equal(c.text_memory, 64 << 20);
    assert_int_equal(c.request_timeout, 5);
    lf_config_deinit(&c);
}

static void command_line_wins_over_environment_over_file(void **state)
{
    (void)state;
    const char *path = temporary_file("{\"comment\": \"x\", \"port\": 1, \"ctx\": 11, \"step_ms\": 111}");
    const char *const env[] = {"LONGFLASH_CTX=22", "LONGFLASH_STEP_MS=222", "PATH=/bin", NULL};
    const char *const args[] = {"--step-ms", "333", "--config", path, NULL};
    struct lf_config c;
    struct lf_err err;
    assert_int_equal(read_config(&c, LF_COMMAND_SERVE, args, env, &err), LF_OK);
    assert_int_equal(c.port, 1);
    assert_int_equal(c.ctx, 22);
    assert_int_equal(c.step_ms, 333);
    lf_config_deinit(&c);
    unlink(path);
}

/* A number or a word, wherever it is written. */
static void a_word_may_stand_in_a_numbers_place(void **state)
{
    (void)state;
    static const struct {
        const char *args[3], *env[2], *file;
        int expected;
    } rows[] = {
        {{NULL}, {NULL}, "{}", LF_SPECULATE_DEFAULT},
        {{"--speculate", "auto"}, {NULL}, "{}", LF_OPTION_WORD},
        {{"--speculate", "off"}, {"LONGFLASH_SPECULATE=8"}, "{}", 0},
        {{"--speculate=1"}, {NULL}, "{\"speculate\": \"auto\"}", 1},
        {{NULL}, {"LONGFLASH_SPECULATE=auto"}, "{\"speculate\": 16}", LF_OPTION_WORD},
        {{NULL}, {NULL}, "{\"speculate\": 16}", 16},
        {{NULL}, {NULL}, "{\"speculate\": false}", 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *path = temporary_file(rows[i].file);
        const char *const args[] = {"--config", path, rows[i].args[0], rows[i].args[1], NULL};
        struct lf_config c;
        struct lf_err err;
        assert_int_equal(read_config(&c, LF_COMMAND_RUN, args, rows[i].env, &err), LF_OK);
        assert_int_equal(c.speculate, rows[i].expected);
        lf_config_deinit(&c);
        unlink(path);
    }
}

static void sizes_take_suffixes(void **state)
{
    (void)state;
    uint64_t n = 7;
    assert_true(lf_config_parse_size("128K", &n) && n == 131072);
    assert_true(lf_config_parse_size("3g", &n) && n == (uint64_t)3 << 30);
    assert_true(lf_config_parse_size("1T", &n) && n == (uint64_t)1 << 40);
    assert_true(lf_config_parse_size("9223372036854775807", &n) && n == INT64_MAX);
    static const char *const bad[] = {"",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1KB",
                                      "1.5",
                                      "K",
                                      "0x10",
                                      "9223372036854775808",
                                      "99999999999T",
                                      "1K ",
                                      "99999999999999999999999"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        n = 7;
        assert_false(lf_config_parse_size(bad[i], &n));
        assert_int_equal(n, 7);
    }
}

static void lists_gather_and_a_higher_source_replaces_them(void **state)
{
    (void)state;
    const char *path = temporary_file("{\"cors_origin\": [\"http://a\", \"http://b\"], \"allowed_host\": \"x,y\"}");
    const char *const args[] = {"--config", path, "--cors-origin", "http://c", "--cors-origin=http://d,http://e", NULL};
    struct lf_config c;
    struct lf_err err;
    assert_int_equal(read_config(&c, LF_COMMAND_SERVE, args, no_env, &err), LF_OK);
    assert_string_equal(c.cors_origin[0], "http://c");
    assert_string_equal(c.cors_origin[1], "http://d");
    assert_string_equal(c.cors_origin[2], "http://e");
    assert_null(c.cors_origin[3]);
    assert_string_equal(c.allowed_host[0], "x");
    assert_string_equal(c.allowed_host[1], "y");
    assert_null(c.allowed_host[2]);
    lf_config_deinit(&c);
    unlink(path);
}

static void a_choice_keeps_its_commas(void **state)
{
    (void)state;
    struct lf_config c;
    struct lf_err err;
    const char *const args[] = {"--choice", "yes, of course", "--choice=no", "Why?", NULL};
    assert_int_equal(read_config(&c, LF_COMMAND_RUN, args, no_env, &err), LF_OK);
    assert_string_equal(c.choice[0], "yes, of course");
    assert_string_equal(c.choice[1], "no");
    assert_null(c.choice[2]);
    lf_config_deinit(&c);
}

static void a_list_at_its_limit_is_taken_and_one_more_refused(void **state)
{
    (void)state;
    for (int extra = 0; extra < 2; extra++) {
        char text[512] = "--cors-origin=a";
        for (int i = 1; i < LF_CONFIG_LIST_N + extra; i++) strncat(text, ",a", sizeof(text) - strlen(text) - 1);
        struct lf_config c;
        struct lf_err err;
        enum lf_status status = read_config(&c, LF_COMMAND_SERVE, (const char *const[]){text, NULL}, no_env, &err);
        assert_int_equal(status, extra ? LF_LIMIT : LF_OK);
        lf_config_deinit(&c);
    }
}

static void what_is_no_option_is_an_argument(void **state)
{
    (void)state;
    const char *const args[] = {"what", "--temperature", "0.5", "is", "--", "--it", NULL};
    struct lf_config c;
    struct lf_err err;
    assert_int_equal(read_config(&c, LF_COMMAND_RUN, args, no_env, &err), LF_OK);
    assert_int_equal(c.n_args, 3);
    assert_string_equal(c.args[2], "--it");
    assert_true(c.temperature == 0.5);
    lf_config_deinit(&c);
}

/* Each with a part of the message that names the source and what was expected. */
static void bad_command_lines_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *args[4];
        const char *message;
    } cases[] = {
        {{"--port", "abc"}, "--port: expected a whole number from 0 to 65535"},
        {{"--port", "65536"}, "--port: expected a whole number"},
        {{"--port", "-1"}, "--port: expected a whole number"},
        {{"--port", ""}, "--port: expected a whole number"},
        {{"--port=8080x"}, "got \"8080x\""},
        {{"--port"}, "--port: expected N behind it"},
        {{"--step-ms", "-1"}, "from 0 to"},
        {{"--max-body", "1023"}, "from 1024 to"},
        {{"--speculate", "0"}, "--speculate: expected a whole number from 1 to 16 (K, M, G: × 1024) or auto or off"},
        {{"--speculate", "17"}, "got \"17\""},
        {{"--speculate", "Auto"}, "got \"Auto\""},
        {{"--speculate", ""}, "--speculate: expected"},
        {{"--kv-dtype", "f16"}, "--kv-dtype: expected auto|f32|bf16|fp8, got \"f16\""},
        {{"--kv-dtype", ""}, "--kv-dtype: expected auto|f32|bf16|fp8"},
        {{"--kv-dtype", "F32"}, "expected auto|f32|bf16|fp8"},
        {{"--isa", "sse"}, "--isa: expected"},
        {{"--prefix-cache", "maybe"}, "--prefix-cache: expected on or off"},
        {{"--insecure-no-auth=yes"}, "takes no value"},
        {{"--poort", "1"}, "did you mean --port?"},
        {{"--wholly-unknown"}, "unknown option"},
        {{"--json"}, "this command has no such option"},
        {{"-p", "1"}, "two dashes"},
        {{"--max-model-len", "128K"}, "--max-model-len: unknown option; here that is --ctx TOKENS|auto"},
        {{"--max-model-len=131072"}, "--max-model-len: unknown option; here that is --ctx TOKENS|auto"},
        {{"--gpu-memory-utilization", "0.9"}, "here that is --memory BYTES, a size and not a share"},
        {{"--alias", "x"}, "here that is --served-model-name NAME"},
        {{"--speculative-config", "{}"}, "here that is --speculate auto|off|N, from the prompt"},
        {{"--draft-max", "8"}, "here that is --speculate auto|off|N, from the prompt"},
        {{"-md", "x.gguf"}, "unknown option; not implemented; --speculate takes tokens from the prompt"},
        {{"--max-num-seqs", "8"}, "here that is --max-seqs N"},
        {{"--max-num-batched-tokens", "8"}, "here that is --chunk TOKENS"},
        {{"--pipeline-parallel-size", "2"}, "unknown option; --parallel tp=N divides each layer over GPUs"},
        {{"--dtype", "half"}, "unknown option; it follows from the type"},
        {{"--enable-prefix-caching"}, "here that is --prefix-cache on|off, which is on"},
        {{"--api-key", "x"}, "here that is --api-keys-file FILE, or the variable LONGFLASH_API_KEYS"},
        {{"-c", "4096"}, "-c: unknown option; here that is --ctx"},
        {{"--ctx-size", "4096"}, "--ctx-size: unknown option; here that is --ctx"},
        {{"-ngl", "99"}, "-ngl: unknown option; here that is --device NAME"},
        {{"--n-gpu-layers", "99"}, "here that is --device NAME"},
        {{"--yarn-orig-ctx", "32768"}, "here that is --rope-scaling yarn[:TOKENS], by how much follows from"},
        {{"--max-position", "17M"}, "--max-position: expected a whole number from 0 to 16777216"},
        {{"-np", "4"}, "here that is --max-seqs N"},
        {{"--n-predict", "4"}, "here that is --max-tokens N, which this command does not have, a server is told by"},
        {{"-cx", "4"}, "two dashes"},
        {{"--"}, NULL},
        {{"--threads", "513"}, "from 0 to 512"},
        {{"--queue", "0"}, "from 1 to"},
        {{"--log-level", "loud"}, "debug|info|warn|error"},
        {{"--ctx", "1e5"}, "--ctx: expected"},
        {{"--memory", "12Q"}, "--memory: expected"},
        {{"--config", "/nonexistent.json"}, "/nonexistent.json"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lf_config c;
        struct lf_err err = {0};
        enum lf_status status = read_config(&c, LF_COMMAND_SERVE, cases[i].args, no_env, &err);
        lf_config_deinit(&c);
        if (!cases[i].message) {
            assert_int_equal(status, LF_OK);
            continue;
        }
        assert_int_not_equal(status, LF_OK);
        if (!strstr(err.message, cases[i].message)) fail_msg("case %zu: %s", i, err.message);
        assert_null(strchr(err.message, '\n'));
    }
}

static void bad_files_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", ": "},
        {"[]", "expected an object, got an array"},
        {"{\"port\": 1, \"port\": 2}", "appears twice"},
        {"{\"port\": \"x\"}", "port: expected a whole number"},
        {"{\"port\": 1.5}", "port: expected a whole number"},
        {"{\"port\": [1]}", "port: expected a string, a number or true/false, got an array"},
        {"{\"ports\": 1}", "\"ports\" is no setting"},
        {"{\"max-seqs\": 1}", "\"max-seqs\" is no setting"},
        {"{\"config\": \"x\"}", "\"config\" is no setting"},
        {"{\"help\": true}", "\"help\" is no setting"},
        {"{\"prefix_cache\": 2}", "prefix_cache: expected on or off"},
        {"{\"cors_origin\": [{}]}", "cors_origin: expected"},
        {"{\"port\": 1,}", ": "},
        {"{\"kv_dtype\": null, \"port\": 1}", NULL},
        {"{\"json\": true, \"find_limit\": false, \"port\": \"1\"}", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *path = temporary_file(cases[i].text);
        struct lf_config c;
        struct lf_err err = {0};
        enum lf_status status =
            read_config(&c, LF_COMMAND_SERVE, (const char *const[]){"--config", path, NULL}, no_env, &err);
        unlink(path);
        if (!cases[i].message) {
            assert_int_equal(status, LF_OK);
            assert_int_equal(c.port, 1);
            assert_int_equal(c.kv_dtype, LF_KV_AUTO);
            lf_config_deinit(&c);
            continue;
        }
        lf_config_deinit(&c);
        assert_int_not_equal(status, LF_OK);
        if (!strstr(err.message, cases[i].message) || !strstr(err.message, path))
            fail_msg("case %zu: %s", i, err.message);
    }
}

static void bad_variables_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *env, *message;
    } cases[] = {
        {"LONGFLASH_PORT=x", "LONGFLASH_PORT: expected a whole number"},
        {"LONGFLASH_PROT=1", "LONGFLASH_PROT: no setting"},
        {"LONGFLASH_=1", "no setting"},
        {"LONGFLASH_CONFIG=/nonexistent.json", "/nonexistent.json"},
        {"LONGFLASH_INSECURE_NO_AUTH=perhaps", "expected on or off"},
        {"LONGFLASH_PORT=", NULL},
        {"LONGFLASH_API_KEYS=a,b", NULL},
        {"LONGFLASH_JSON=on", NULL},
        {"LONGFLASHX=1", NULL},
        {"LONGFLASH_SERVICE_HOST=10.0.0.1", NULL},
        {"LONGFLASH_PORT_8080_TCP=tcp://10.0.0.1:8080", NULL},
        {"LONGFLASH_PORT=tcp://10.0.0.1:8080", NULL},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lf_config c;
        struct lf_err err = {0};
        enum lf_status status = read_config(&c, LF_COMMAND_SERVE, (const char *const[]){NULL},
                                            (const char *const[]){cases[i].env, NULL}, &err);
        lf_config_deinit(&c);
        if (cases[i].message)
            assert_non_null(strstr(err.message, cases[i].message));
        else
            assert_int_equal(status, LF_OK);
    }
}

static void the_keys_of_the_environment_are_borrowed(void **state)
{
    (void)state;
    struct lf_config c;
    struct lf_err err;
    const char *const env[] = {"LONGFLASH_API_KEYS=secret", NULL};
    assert_int_equal(read_config(&c, LF_COMMAND_LOAD, (const char *const[]){NULL}, env, &err), LF_OK);
    assert_string_equal(c.api_keys_env, "secret");
    assert_string_equal(c.levels, "1,4");
    lf_config_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_stand_where_nothing_is_said),
        cmocka_unit_test(limits_of_connections_and_texts_are_settings),
        cmocka_unit_test(command_line_wins_over_environment_over_file),
        cmocka_unit_test(a_word_may_stand_in_a_numbers_place),
        cmocka_unit_test(sizes_take_suffixes),
        cmocka_unit_test(lists_gather_and_a_higher_source_replaces_them),
        cmocka_unit_test(a_choice_keeps_its_commas),
        cmocka_unit_test(a_list_at_its_limit_is_taken_and_one_more_refused),
        cmocka_unit_test(what_is_no_option_is_an_argument),
        cmocka_unit_test(bad_command_lines_are_refused_by_name),
        cmocka_unit_test(bad_files_are_refused_by_name),
        cmocka_unit_test(bad_variables_are_refused_by_name),
        cmocka_unit_test(the_keys_of_the_environment_are_borrowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
