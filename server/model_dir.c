#include "server/model_dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/check.h"
#include "core/file.h"
#include "server/demo_model.h"
#include "server/dir_kind.h"
#include "server/model_url.h"

#define PARTS "expected a directory with config.json, *.safetensors and tokenizer.json or tokenizer.model"

static enum lf_status refuse_url(const char *typed, struct lf_err *err)
{
    struct lf_hub_id id;
    struct lf_buf command;
    bool found = lf_model_url_parse(&id, typed);
    if (lf_dir_kind_is_gguf_name(typed) || lf_dir_kind_is_gguf_name(id.name))
        return lf_dir_kind_of_gguf_name(typed, err);
    if (!found)
        return lf_fail(err, LF_INVALID,
                       "--model %.200s is a URL, and nothing is downloaded; expected a directory, or ORG/NAME of a "
                       "model in this machine's Hugging Face cache",
                       typed);
    lf_buf_init(&command, 512);
    lf_hub_print_download(&id, &command);
    enum lf_status status =
        lf_fail(err, LF_INVALID, "--model %.100s is a URL, and nothing is downloaded; %s, then --model %s%s%s", typed,
                lf_buf_view(&command).ptr, id.name, id.revision[0] ? "@" : "", id.revision);
    lf_buf_deinit(&command);
    return status;
}

/* What is no directory: a URL, the name of a model in the cache, or a path that leads nowhere. */
static enum lf_status find_by_name(struct lf_model_dir *out, const char *typed, int why, struct lf_err *err)
{
    enum lf_status status = LF_NOT_FOUND;
    bool is_demo = strcmp(typed, LF_DEMO_MODEL) == 0; /* nobody's name */
    if (lf_model_url_is(typed)) return refuse_url(typed, err);
    bool is_name = !is_demo && lf_hub_parse(&out->hub, typed);
    if (is_name) status = lf_hub_find(out->path, &out->hub, err);
    if (status == LF_NOT_FOUND && lf_dir_kind_is_gguf_name(typed)) return lf_dir_kind_of_gguf_name(typed, err);
    if (is_name) return status;
    return lf_fail(err, LF_NOT_FOUND, "--model %.200s: %s; " PARTS, typed, strerror(why));
}

enum lf_status lf_model_dir_find(struct lf_model_dir *out, const char *typed, struct lf_err *err)
{
    struct stat st;
    *out = (struct lf_model_dir){.path = ""};
    if (!typed) return lf_fail(err, LF_INVALID, "--model: expected a directory, or the name of a model");
    if (stat(typed, &st) == 0) {
        if (!S_ISDIR(st.st_mode)) return lf_dir_kind_of_file(typed, PARTS, err);
        if (strlen(typed) >= sizeof(out->path)) return lf_fail(err, LF_LIMIT, "--model: the path is too long");
        memcpy(out->path, typed, strlen(typed) + 1);
        return LF_OK;
    }
    int e = errno;
    if (e == ENOENT || e == ENOTDIR) return find_by_name(out, typed, e, err);
    return lf_fail(err, LF_IO, "--model %.200s: %s; " PARTS, typed, strerror(e));
}

enum lf_status lf_model_dir_complete(const struct lf_model_dir *dir, enum lf_status status, struct lf_err *err)
{
    if (status != LF_NOT_FOUND || !dir->hub.name[0]) return status;
    struct lf_buf command;
    struct lf_err missing = *err;
    lf_buf_init(&command, 512);
    lf_hub_print_download(&dir->hub, &command);
    (void)lf_fail(err, status, "%.350s; to complete it: %s", missing.message, lf_buf_view(&command).ptr);
    lf_buf_deinit(&command);
    return status;
}

/* The first directory below it that has a config.json. */
static bool find_below(const char *path, char out[NAME_MAX + 1])
{
    char below[PATH_MAX], config[PATH_MAX];
    bool found = false;
    DIR *d = opendir(path);
    for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        if (e->d_name[0] == '.' || (found && strcmp(e->d_name, out) > 0)) continue;
        if (lf_path_join(below, sizeof(below), path, e->d_name) != LF_OK ||
            lf_path_join(config, sizeof(config), below, "config.json") != LF_OK)
            continue;
        struct stat st;
        if (stat(config, &st) != 0) continue;
        snprintf(out, NAME_MAX + 1, "%s", e->d_name);
        found = true;
    }
    if (d) closedir(d);
    return found;
}

enum lf_status lf_model_dir_check(const struct lf_model_dir *dir, bool need_weights, struct lf_err *err)
{
    struct lf_dir_kind kind;
    char below[NAME_MAX + 1];
    LF_TRY(lf_dir_kind_read(&kind, dir->path, err));
    LF_TRY(lf_model_dir_complete(dir, lf_dir_kind_check(&kind, dir->path, need_weights, err), err));
    if (lf_dir_kind_has_config(&kind)) return LF_OK;
    if (find_below(dir->path, below))
        return lf_fail(err, LF_NOT_FOUND, "--model %.200s has no config.json, but %.150s/%.80s has one", dir->path,
                       dir->path, below);
    (void)lf_fail(err, LF_NOT_FOUND, "--model %.200s %s; " PARTS, dir->path,
                  lf_dir_kind_is_empty(&kind) ? "is empty" : "has no config.json");
    return lf_model_dir_complete(dir, LF_NOT_FOUND, err);
}

enum lf_status lf_model_dir_judge_tokenizer(const struct lf_model_dir *dir, bool missing, struct lf_err *err)
{
    struct lf_dir_kind kind;
    if (missing) return lf_model_dir_check(dir, false, err);
    LF_TRY(lf_dir_kind_read(&kind, dir->path, err));
    return lf_dir_kind_check_pointers(&kind, dir->path, false, err);
}

enum lf_status lf_model_dir_no_tokenizer(const struct lf_model_dir *dir, struct lf_err *err)
{
    struct lf_dir_kind kind;
    LF_TRY(lf_dir_kind_read(&kind, dir->path, err));
    (void)lf_fail(
        err, LF_NOT_FOUND,
        "--model %.200s has no tokenizer that can be read%s: expected tokenizer.json or tokenizer.model in it, "
        "or --load dummy and token ids for texts",
        dir->path, lf_dir_kind_tokenizer(&kind));
    return lf_model_dir_complete(dir, LF_NOT_FOUND, err);
}
