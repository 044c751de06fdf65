#include "server/runtime_opts.h"

#include <string.h>

#include "core/check.h"

enum { H100_SMS = 132 };

static bool is_gpu(const char *device)
{
    return strcmp(device, "auto") == 0 || strcmp(device, "cuda") == 0 || strncmp(device, "cuda:", 5) == 0;
}

/* --device, or what stands in its place. */
enum lf_status lf_opts_device(struct lf_device_opts *out, const struct lf_config *config, struct lf_err *err)
{
    if (config->device == NULL) return lf_fail(err, LF_INVALID, "--device: expected a name: auto, cpu or cuda:0");
    if (config->gpu_memory == 0 && config->gpu_sms != 0)
        return lf_fail(err, LF_INVALID, "--gpu-sms %d describes a GPU of which --gpu-memory is not given",
                       config->gpu_sms);
    if (config->gpu_memory == 0 && config->gpus != 0)
        return lf_fail(err, LF_INVALID, "--gpus %d are of a kind of which --gpu-memory is not given", config->gpus);
    if (config->gpu_memory == 0) return LF_OK;
    if (!is_gpu(config->device))
        return lf_fail(err, LF_INVALID, "--gpu-memory describes a GPU, but --device is %s", config->device);
    out->name = "cuda";
    out->gpu_memory_bytes = config->gpu_memory;
    out->gpu_n_sms = config->gpu_sms > 0 ? config->gpu_sms : H100_SMS;
    out->n_gpus = LF_MAX(config->gpus, 1);
    return LF_OK;
}

/* --max-position, --rope-scaling. */
enum lf_status lf_opts_stretch(struct lf_stretch *out, const struct lf_config *config, struct lf_err *err)
{
    const char *scaling = config->rope_scaling;
    uint64_t n = 0;
    *out = (struct lf_stretch){.max_position = config->max_position, .yarn = scaling != NULL};
    if (!scaling || strcmp(scaling, "yarn") == 0) return LF_OK;
    if (strncmp(scaling, "yarn:", 5) != 0 || !lf_config_parse_size(scaling + 5, &n) || n < 1 || n > LF_CONTEXT_TOKENS)
        return lf_fail(err, LF_INVALID,
                       "--rope-scaling: expected yarn, or yarn:TOKENS with the length that the model was trained on "
                       "before, got \"%.40s\"",
                       scaling);
    out->yarn_original = (int)n;
    return LF_OK;
}

/* What several of them do not have yet. */
enum lf_status lf_opts_check_ranks(const struct lf_config *c, int n_ranks, struct lf_err *err)
{
    if (n_ranks > 1 && c->cache_dir)
        return lf_fail(err, LF_UNSUPPORTED,
                       "--cache-dir is not implemented for several ranks yet: expected one of it and --parallel");
    if (n_ranks > 1 && c->cache_memory)
        return lf_fail(err, LF_UNSUPPORTED,
                       "--cache-memory is not implemented for several ranks yet: expected one of it and --parallel");
    if (n_ranks > 1 && c->profile)
        return lf_fail(err, LF_UNSUPPORTED,
                       "--profile is not implemented for several ranks yet: expected --ops, or no --parallel");
    return LF_OK;
}
