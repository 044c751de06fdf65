#include "server/device_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "device/comm.h"

enum { H100_SMS = 132 };

bool lf_device_choice_is_auto(const struct lf_config *config)
{
    return config->parallel && strcmp(config->parallel, "auto") == 0;
}

static bool is_gpu(const char *device)
{
    return strcmp(device, "auto") == 0 || strcmp(device, "cuda") == 0 || strncmp(device, "cuda:", 5) == 0;
}

/* What describes a GPU describes nothing without its memory. */
static enum lf_status check_undescribed(const struct lf_config *c, struct lf_err *err)
{
    if (c->gpu_sms != 0)
        return lf_fail(err, LF_INVALID, "--gpu-sms %d describes a GPU of which --gpu-memory is not given", c->gpu_sms);
    if (c->gpus != 0)
        return lf_fail(err, LF_INVALID, "--gpus %d are of a kind of which --gpu-memory is not given", c->gpus);
    return LF_OK;
}

enum lf_status lf_device_choice_describe(struct lf_device_opts *out, const struct lf_config *config, struct lf_err *err)
{
    if (config->device == NULL) return lf_fail(err, LF_INVALID, "--device: expected a name: auto, cpu or cuda:0");
    out->name = config->device;
    if (config->gpu_memory == 0) return check_undescribed(config, err);
    if (!is_gpu(config->device))
        return lf_fail(err, LF_INVALID, "--gpu-memory describes a GPU, but --device is %s", config->device);
    if (config->gpus != 0 && !lf_device_choice_is_auto(config))
        return lf_fail(err, LF_INVALID,
                       "--gpus %d are for --parallel auto to choose from, which is not given: expected that, or "
                       "--parallel tp=N without --gpus",
                       config->gpus);
    out->name = "cuda";
    out->gpu_memory_bytes = config->gpu_memory;
    out->gpu_n_sms = config->gpu_sms > 0 ? config->gpu_sms : H100_SMS;
    out->n_gpus = LF_MAX(config->gpus, 1);
    return LF_OK;
}

const char *lf_device_choice_name(char name[LF_DEVICE_NAME], const char *first, int rank)
{
    int idx = 0;
    if (strncmp(first, "cuda", 4) != 0) return first;
    if (first[4] == ':') idx = (int)strtol(first + 5, NULL, 10);
    (void)snprintf(name, LF_DEVICE_NAME, "cuda:%d", idx + rank);
    return name;
}

int lf_device_choice_n(const struct lf_device_info *first)
{
    const struct lf_gpu *gpus = first->gpus;
    int n = 1, n_most = LF_MIN(first->n_gpus, (int)LF_GPU_RANKS_N);
    while (n < n_most && strcmp(gpus[n].name, gpus[0].name) == 0 && gpus[n].n_sms == gpus[0].n_sms) n++;
    return n;
}

struct lf_device_info lf_device_choice_info(const struct lf_device_info *first, int n_ranks)
{
    struct lf_device_info info = *first;
    for (int i = 1; i < LF_MIN(n_ranks, first->n_gpus); i++)
        info.available_bytes = LF_MIN(info.available_bytes, first->gpus[i].available_bytes);
    return info;
}
