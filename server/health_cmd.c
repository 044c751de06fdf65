/* health: asks /readyz, for a container's health check. */
#include <stdio.h>

#include "core/check.h"
#include "server/commands.h"
#include "server/load/load_client.h"
#include "server/load/load_prompt.h"

enum { HEALTH_TIMEOUT_MS = 3000 };

static void make(void *ctx, struct lf_buf *out, uint64_t idx)
{
    const struct lf_url *url = ctx;
    (void)idx;
    lf_load_get(out, url->host, NULL, "/readyz");
}

static enum lf_status ask(const struct lf_config *config, struct lf_err *err)
{
    struct lf_url url;
    struct lf_buf body;
    struct lf_load_result result;
    LF_TRY(lf_url_parse(&url, config->url, err));
    lf_buf_init(&body, 64 * 1024);
    struct lf_load_spec spec = {.url = &url,
                                .n_clients = 1,
                                .n_requests = 1,
                                .timeout_ms = HEALTH_TIMEOUT_MS,
                                .make = make,
                                .make_ctx = &url,
                                .body = &body};
    enum lf_status status = lf_load_run(&result, &spec, err);
    if (status == LF_OK) {
        if (result.n_ok == 1)
            printf("%s\n", lf_buf_view(&body).ptr);
        else
            status = lf_fail(err, LF_TIMEOUT, "%s: not ready: %s", config->url, result.first_bad);
        lf_load_result_deinit(&result);
    }
    lf_buf_deinit(&body);
    return status;
}

int lf_health_command(const struct lf_config *config)
{
    struct lf_err err = {0};
    if (config->n_args > 0 || !config->url) {
        fprintf(stderr, "longflash: health takes no arguments but --url http://host:port\n");
        return LF_EXIT_REFUSED;
    }
    if (ask(config, &err) == LF_OK) return LF_EXIT_OK;
    fprintf(stderr, "longflash: %s\n", err.message);
    return err.status == LF_INVALID ? LF_EXIT_REFUSED : LF_EXIT_FAILED;
}
