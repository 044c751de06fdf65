/* quantize: writes a model again, with quantized matrices. */
#include <stdio.h>
#include <unistd.h>

#include "core/check.h"
#include "device/device.h"
#include "model/export.h"
#include "server/commands.h"
#include "server/model_dir.h"

/* A line that is written over, where somebody watches. */
static void show_progress(void *ctx, uint64_t done, uint64_t total)
{
    int *last = ctx, percent = total ? (int)(100 * (double)done / (double)total) : 100;
    if (percent == *last || !isatty(STDERR_FILENO)) return;
    *last = percent;
    fprintf(stderr, "\r%d%%%s", percent, percent == 100 ? "\n" : "");
}

static enum lf_status run(const struct lf_config *c, struct lf_err *err)
{
    static const enum lf_code codes[] = {LF_CODE_E4M3, LF_CODE_I8, LF_CODE_I4}; /* by choice */
    struct lf_device_opts dev_opts = {.name = "cpu", .n_threads = c->threads, .max_isa = -1};
    struct lf_device *dev = NULL;
    struct lf_hparams hp = {0};
    struct lf_model_dir dir;
    int percent = -1;
    if (!c->out) return lf_fail(err, LF_INVALID, "--out: expected a directory to make");
    LF_TRY(lf_model_dir_find(&dir, c->model, err));
    LF_TRY(lf_model_dir_check(&dir, true, err));
    LF_TRY(lf_hparams_read(&hp, dir.path, err));
    struct lf_export_opts opts = {.dir = dir.path,
                                  .out = c->out,
                                  .code = codes[c->quantize_to],
                                  .progress = show_progress,
                                  .progress_ctx = &percent};
    enum lf_status status = lf_device_open(&dev, &dev_opts, err);
    if (status == LF_OK) status = lf_model_dir_complete(&dir, lf_export(&hp, dev, &opts, err), err);
    lf_device_close(dev);
    lf_hparams_deinit(&hp);
    return status;
}

int lf_quantize_command(const struct lf_config *config)
{
    struct lf_err err;
    if (config->n_args > 0) {
        fprintf(stderr, "longflash: quantize takes no arguments, got \"%.60s\" (a model is given as --model)\n",
                config->args[0]);
        return LF_EXIT_REFUSED;
    }
    if (run(config, &err) != LF_OK) return lf_report(&err);
    printf("%s is written\n", config->out);
    return LF_EXIT_OK;
}
