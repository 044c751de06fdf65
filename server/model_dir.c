#include "server/model_dir.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "core/check.h"
#include "core/file.h"

#define PARTS "expected a directory with config.json, *.safetensors and tokenizer.json or tokenizer.model"

/* What cannot be looked at counts as being there: reading it will say why. */
static bool has(const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    if (lf_path_join(path, sizeof(path), dir, name) != LF_OK) return false;
    return stat(path, &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

enum lf_status lf_model_dir_check(const char *dir, struct lf_err *err)
{
    struct stat st;
    if (stat(dir, &st) != 0) {
        int e = errno;
        return lf_fail(err, e == ENOENT || e == ENOTDIR ? LF_NOT_FOUND : LF_IO, "--model %.200s: %s; " PARTS, dir,
                       strerror(e));
    }
    if (!S_ISDIR(st.st_mode)) return lf_fail(err, LF_INVALID, "--model %.200s is a file; " PARTS, dir);
    if (has(dir, "config.json")) return LF_OK;
    if (has(dir, "model/config.json"))
        return lf_fail(err, LF_NOT_FOUND, "--model %.200s has no config.json, but %.200s/model has one", dir, dir);
    return lf_fail(err, LF_NOT_FOUND, "--model %.200s has no config.json; " PARTS, dir);
}

enum lf_status lf_model_dir_no_tokenizer(const char *dir, struct lf_err *err)
{
    return lf_fail(err, LF_NOT_FOUND,
                   "--model %.200s has no tokenizer: expected tokenizer.json or tokenizer.model in it, or --load dummy "
                   "and token ids for texts",
                   dir);
}
