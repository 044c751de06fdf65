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

/* What several of them do not have yet. Blocks of ranks that are processes lie in the memory of each: what is kept of
 * them together would have to come to one. */
enum lf_status lf_opts_check_ranks(const struct lf_config *c, int n_ranks, bool is_apart, struct lf_err *err)
{
    if (n_ranks > 1 && is_apart && (c->cache_dir || c->cache_memory))
        return lf_fail(err, LF_UNSUPPORTED,
                       "%s is not implemented for ranks that are processes yet: expected --parallel without --rank, "
                       "which makes them threads of one process",
                       c->cache_dir ? "--cache-dir" : "--cache-memory");
    if (n_ranks > 1 && c->profile)
        return lf_fail(err, LF_UNSUPPORTED,
                       "--profile is not implemented for several ranks yet: expected --ops, or no --parallel");
    return LF_OK;
}
