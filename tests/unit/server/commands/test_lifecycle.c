/* The server's life: readiness, draining, signals, memory as planned. */
#include "tests/support/test.h"

#include <signal.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/json.h"
#include "server/load/load_client.h"
#include "server/load/load_prompt.h"
#include "tests/unit/server/commands/spawn.h"

static const char *program;

struct live {
    struct spawned process;
    struct lf_url url;
};

static void start_server(struct live *live, const char *const *more)
{
    const char *args[32] = {"serve", "--port", "0", "--ctx", "16K", "--kv-tokens", "32K"};
    char line[512];
    struct lf_err err;
    for (int i = 0; more && more[i]; i++) args[7 + i] = more[i];
    spawn_start(&live->process, program, args, NULL);
    spawn_wait_line(&live->process, "ready in", line, sizeof(line));
    char *url = strstr(line, "http://");
    assert_non_null(url);
    url[strcspn(url, " ")] = '\0';
    assert_int_equal(lf_url_parse(&live->url, url, &err), LF_OK);
}

static void make_ready(void *ctx, struct lf_buf *out, uint64_t idx)
{
    (void)ctx;
    (void)idx;
    lf_load_get(out, "127.0.0.1", NULL, "/readyz");
}

static void make_prompt(void *ctx, struct lf_buf *out, uint64_t idx)
{
    lf_load_request(out, ctx, idx);
}

static void ask(struct live *live, const struct lf_load_spec *what, struct lf_load_result *result)
{
    struct lf_load_spec spec = *what;
    struct lf_err err;
    spec.url = &live->url;
    spec.timeout_ms = 120 * 1000;
    assert_int_equal(lf_load_run(result, &spec, &err), LF_OK);
}

static void expect_ready(struct live *live)
{
    struct lf_load_result r;
    struct lf_buf body;
    lf_buf_init(&body, 4096);
    ask(live, &(struct lf_load_spec){.n_clients = 1, .n_requests = 1, .make = make_ready, .body = &body}, &r);
    assert_int_equal(r.n_ok, 1);
    lf_load_result_deinit(&r);
    lf_buf_deinit(&body);
}

/* n streaming requests at once, all of which must be served. */
static void expect_served(struct live *live, int n)
{
    struct lf_load_shape shape = {.n_prompt = 200, .n_output = 8, .seed = 1, .host = "127.0.0.1"};
    struct lf_load_result r;
    ask(live, &(struct lf_load_spec){.n_clients = n, .n_requests = n, .make = make_prompt, .make_ctx = &shape}, &r);
    if (r.n_failed) fail_msg("%d of %d failed: %s", r.n_failed, n, r.first_bad);
    assert_int_equal(r.n_tokens, n * 8);
    lf_load_result_deinit(&r);
}

static void term_ends_an_idle_server_with_0(void **state)
{
    (void)state;
    struct live live;
    struct finished end;
    start_server(&live, NULL);
    expect_ready(&live);
    expect_served(&live, 3);
    kill(live.process.pid, SIGTERM);
    spawn_finish(&live.process, &end, 20 * SPAWN_SLOWER);
    assert_int_equal(end.exit_status, 0);
}

static void term_while_loading_ends_it_with_0(void **state)
{
    (void)state;
    for (int ms = 0; ms < 100; ms += 10) {
        struct spawned s;
        struct finished end;
        spawn_start(&s, program, (const char *const[]){"serve", "--port", "0", "--ctx", "16K", NULL}, NULL);
        lf_clock_sleep_ms(ms * SPAWN_SLOWER + 5 * SPAWN_SLOWER);
        kill(s.pid, SIGTERM);
        spawn_finish(&s, &end, 20 * SPAWN_SLOWER);
        /* Before main has blocked the signals, the system's own way to end it is as good. */
        if (end.exit_status != 0 && end.signal != SIGTERM) fail_msg("after %d ms: exit %d", ms, end.exit_status);
    }
}

/* Requests are in flight when TERM comes: all of them are answered, then the server ends. */
static void term_drains_what_is_in_flight(void **state)
{
    (void)state;
    struct live live;
    struct finished end;
    struct spawned load;
    struct finished load_end;
    char url[64], seconds[16];
    snprintf(seconds, sizeof(seconds), "%d", 30 * SPAWN_SLOWER); /* to drain: the usual time, sanitizers aside */
    start_server(&live, (const char *const[]){"--drain-timeout", seconds, NULL});
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", live.url.port);
    spawn_start(&load, program,
                (const char *const[]){"load", "--url", url, "--concurrency", "4", "--lengths", "1K", "--output-tokens",
                                      "200", "--rounds", "1", NULL},
                NULL);
    lf_clock_sleep_ms(300);
    kill(live.process.pid, SIGTERM);
    spawn_finish(&live.process, &end, 60 * SPAWN_SLOWER);
    assert_int_equal(end.exit_status, 0);
    spawn_finish(&load, &load_end, 60 * SPAWN_SLOWER);
    if (!strstr(load_end.out, "    4      0 |")) fail_msg("%s%s", load_end.out, load_end.err);
}

static void hup_reloads_keys_and_the_log_and_serves_on(void **state)
{
    (void)state;
    struct live live;
    struct finished end;
    char log[] = "/tmp/lf_test_log_XXXXXX", moved[64];
    int fd = mkstemp(log);
    assert_true(fd >= 0);
    close(fd);
    snprintf(moved, sizeof(moved), "%s.1", log);
    start_server(&live, (const char *const[]){"--log-file", log, NULL});
    assert_int_equal(rename(log, moved), 0);
    kill(live.process.pid, SIGHUP);
    for (int i = 0; i < 100 && access(log, F_OK) != 0; i++) lf_clock_sleep_ms(20);
    assert_int_equal(access(log, F_OK), 0);
    expect_served(&live, 1);
    kill(live.process.pid, SIGTERM);
    spawn_finish(&live.process, &end, 20 * SPAWN_SLOWER);
    assert_int_equal(end.exit_status, 0);
    unlink(log);
    unlink(moved);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* The number behind `name` in /proc/PID/status, bytes. */
static uint64_t memory_of(pid_t pid, const char *name)
{
    char path[64], line[256];
    uint64_t kib = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        if (strncmp(line, name, strlen(name)) == 0) kib = strtoull(line + strlen(name) + 1, NULL, 10);
    fclose(f);
    return kib * 1024;
}

/* Idle memory is the plan's within 1%, less what it keeps for requests, and some requests take little of that; with the
 * demo at its full context. */
static void memory_is_what_the_plan_said(void **state)
{
    (void)state;
    struct live live;
    struct finished end;
    struct spawned plan;
    struct lf_json json;
    struct lf_err err;
    int64_t planned, texts;
    static const char *const config[] = {"--config", "configs/demo.json"};
    spawn_start(&plan, program, (const char *const[]){"plan", config[0], config[1], "--json", NULL}, NULL);
    spawn_finish(&plan, &end, 20);
    assert_int_equal(lf_json_parse(&json, lf_str_c(end.out), &lf_json_limits_request, &err), LF_OK);
    assert_true(lf_json_int64(lf_json_get(lf_json_root(&json), "total_bytes"), &planned));
    assert_true(lf_json_int64(lf_json_get(lf_json_root(&json), "text_bytes"), &texts));
    lf_json_deinit(&json);
    planned -= texts;
    char line[512];
    spawn_start(&live.process, program, (const char *const[]){"serve", "--port", "0", config[0], config[1], NULL},
                NULL);
    spawn_wait_line(&live.process, "ready in", line, sizeof(line));
    char *url = strstr(line, "http://");
    url[strcspn(url, " ")] = '\0';
    assert_int_equal(lf_url_parse(&live.url, url, &err), LF_OK);
    double idle = (double)memory_of(live.process.pid, "VmRSS");
    expect_served(&live, 16);
    double peak = (double)memory_of(live.process.pid, "VmHWM");
    kill(live.process.pid, SIGTERM);
    spawn_finish(&live.process, &end, 20);
    printf("planned %.2f MiB, idle %.2f MiB (%+.2f%%), peak %.2f MiB (%+.2f%%)\n", (double)planned / 1048576,
           idle / 1048576, 100 * (idle / (double)planned - 1), peak / 1048576, 100 * (peak / (double)planned - 1));
    assert_true(peak > 0.99 * (double)planned && peak < 1.01 * (double)planned);
    assert_true(idle > 0.99 * (double)planned && idle < 1.01 * (double)planned);
}
#endif

int main(int argc, char **argv)
{
    if (argc != 2) return 1;
    program = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(term_ends_an_idle_server_with_0),
        cmocka_unit_test(term_while_loading_ends_it_with_0),
        cmocka_unit_test(term_drains_what_is_in_flight),
        cmocka_unit_test(hup_reloads_keys_and_the_log_and_serves_on),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        cmocka_unit_test(memory_is_what_the_plan_said),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
