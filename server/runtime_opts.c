#include "server/runtime_opts.h"

#include <string.h>

#include "core/check.h"

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
