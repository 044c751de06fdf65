/* plan: what a configuration takes, before a weight is read. */
#include <stdio.h>

#include "server/commands.h"
#include "server/runtime.h"

int lf_plan_command(const struct lf_config *config)
{
    struct lf_runtime rt = {0};
    struct lf_err err;
    if (config->n_args > 0) {
        fprintf(stderr, "longflash: plan takes no arguments, got \"%.60s\" (a model is given as --model)\n",
                config->args[0]);
        return LF_EXIT_REFUSED;
    }
    if (lf_runtime_open(&rt, config, false, &err) != LF_OK) return lf_report(&err);
    int exit_status;
    if (lf_runtime_plan(&rt, true, &err) != LF_OK) {
        exit_status = lf_report(&err);
    } else {
        struct lf_buf page;
        lf_buf_init(&page, 64 * 1024);
        if (config->json) {
            lf_plan_print_json(&rt.plan, &rt.hp, &page);
            lf_buf_char(&page, '\n');
        } else {
            lf_plan_print(&rt.plan, &rt.hp, &page);
        }
        exit_status = rt.plan.fits ? LF_EXIT_OK : LF_EXIT_REFUSED;
        if (fwrite(page.ptr, 1, page.len, stdout) != page.len) exit_status = LF_EXIT_FAILED;
        lf_buf_deinit(&page);
    }
    lf_runtime_close(&rt);
    return exit_status;
}
