#include "server/model_url.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/check.h"

static const char *const schemes[] = {"https://", "http://", "hf://"};
static const char *const hosts[] = {"huggingface.co/", "www.huggingface.co/", "hf.co/"};
/* Kinds of pages below a model's own, which have a revision behind them. */
static const char *const pages[] = {"tree/", "blob/", "resolve/", "commit/"};
/* What else lies where an organization's name stands. */
static const char *const no_models[] = {"datasets/", "spaces/", "docs/", "blog/", "papers/", "collections/"};

/* What stands behind the prefix, in whatever case that is written; NULL where the text does not begin with it. */
static const char *behind(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncasecmp(text, prefix, n) == 0 ? text + n : NULL;
}

static const char *behind_any(const char *text, const char *const *prefixes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *rest = behind(text, prefixes[i]);
        if (rest) return rest;
    }
    return NULL;
}

/* What stands behind the host, or behind hf://, which has none; NULL where the hub is not meant. */
static const char *path_of(const char *text)
{
    const char *rest = behind_any(text, schemes, LF_N_ELEMS(schemes));
    const char *path = behind_any(rest ? rest : text, hosts, LF_N_ELEMS(hosts));
    return path ? path : behind(text, "hf://");
}

bool lf_model_url_is(const char *text)
{
    return strstr(text, "://") != NULL || path_of(text) != NULL;
}

/* Cuts the path behind org/name; what is cut off, without its slash. */
static const char *cut_name(char *path)
{
    char *slash = strchr(path, '/');
    char *end = slash ? strchr(slash + 1, '/') : NULL;
    if (!end) return "";
    *end = '\0';
    return end + 1;
}

bool lf_model_url_parse(struct lf_hub_id *out, const char *text)
{
    char path[2 * LF_HUB_NAME_BYTES + LF_HUB_REVISION_BYTES], id[2 * sizeof(path)];
    const char *found = path_of(text);
    size_t len = found ? strcspn(found, "?#") : 0;
    *out = (struct lf_hub_id){.name = ""};
    if (len == 0 || len >= sizeof(path) || behind_any(found, no_models, LF_N_ELEMS(no_models))) return false;
    snprintf(path, sizeof(path), "%.*s", (int)len, found);
    const char *rest = behind(path, "models/"); /* of the hub's own API */
    if (rest) memmove(path, rest, strlen(rest) + 1);
    const char *more = cut_name(path);
    const char *revision = behind_any(more, pages, LF_N_ELEMS(pages));
    int n = revision ? (int)strcspn(revision, "/") : 0;
    bool named = n > 0 && !(n == 4 && strncmp(revision, "main", 4) == 0);
    snprintf(id, sizeof(id), "%s%s%.*s", path, named ? "@" : "", named ? n : 0, named ? revision : "");
    return strchr(path, '/') != NULL && lf_hub_parse(out, id);
}
