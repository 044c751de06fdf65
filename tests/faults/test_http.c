/* The allocation sweep over the HTTP server: from bind to ready and the end, without a client. What a request allocates
 * is swept in test_parsers.c; here libmicrohttpd is refused memory too. */
#include "core/log.h"
#include "server/http/conn/http_server.h"
#include "tests/faults/sweep.h"
#include "tests/support/scripted_engine.h"
#include "tests/support/fake_tokenizer.h"

static enum lf_status serve_nobody(const void *ctx)
{
    const struct lf_http_opts opts = {.host = "127.0.0.1",
                                      .max_body_bytes = 1 << 20,
                                      .n_connections = 16,
                                      .n_connections_per_address = 8,
                                      .n_threads = 1,
                                      .request_deadline_ms = 1000,
                                      .max_choices = 4,
                                      .metrics_prefix = "longflash:",
                                      .api_keys_env = "one,two",
                                      .model_id = "m"};
    struct lf_http_server *server = NULL;
    struct lf_err err = {0};
    enum lf_status status = lf_http_server_create(&server, &opts, &err);
    if (status != LF_OK && err.message[0] == 0) return LF_CORRUPT;
    if (status == LF_OK) {
        lf_http_server_ready(server, fake_tokenizer(), NULL, (struct lf_engine *)(uintptr_t)ctx);
        lf_http_server_drain(server);
    }
    lf_http_server_destroy(server);
    return status == LF_IO ? LF_NO_MEMORY : status; /* the resolver and libmicrohttpd do not say what they lacked */
}

static void from_bind_to_the_end(void **state)
{
    (void)state;
    const struct scripted_engine_opts opts = {.ctx = 64, .n_blocks = 4, .max_seqs = 2, .queue_n = 4, .per_tenant_n = 4};
    struct lf_engine *engine = scripted_engine_create(&opts);
    sweep("HTTP server", serve_nobody, engine, 4);
    lf_engine_destroy(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(from_bind_to_the_end)};
    lf_log_set_level(LF_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
