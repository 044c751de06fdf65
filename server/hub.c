#include "server/hub.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/check.h"
#include "core/file.h"

enum { COMMIT_BYTES = 64, REF_BYTES = 1024, SHORT_COMMIT_N = 7 };

/* ---- ids ---- */

static bool valid_part(const char *s, size_t len)
{
    if (len == 0 || len > LF_HUB_PART_BYTES || s[0] == '-' || s[0] == '.' || s[len - 1] == '-' || s[len - 1] == '.')
        return false;
    for (size_t i = 0; i < len; i++) {
        bool letter = isalnum((unsigned char)s[i]) || s[i] == '_' || s[i] == '-' || s[i] == '.';
        if (!letter || (i > 0 && s[i] == s[i - 1] && (s[i] == '-' || s[i] == '.'))) return false;
    }
    return true;
}

/* A name of a ref, which is a path below refs/: no part of it leads elsewhere. */
static bool valid_revision(const char *s)
{
    if (!*s || strlen(s) >= LF_HUB_REVISION_BYTES || s[0] == '/' || s[strlen(s) - 1] == '/') return false;
    for (const char *p = s; *p; p++) {
        bool begins = p == s || p[-1] == '/';
        if ((unsigned char)*p <= ' ' || *p == '\\' || *p == 0x7f || (begins && (*p == '.' || *p == '/'))) return false;
    }
    return true;
}

bool lf_hub_parse(struct lf_hub_id *out, const char *text)
{
    size_t len = strcspn(text, "@"), org = strcspn(text, "/");
    const char *revision = text[len] == '@' ? text + len + 1 : NULL;
    *out = (struct lf_hub_id){.name = ""};
    if (len >= sizeof(out->name) || (revision && !valid_revision(revision))) return false;
    if (org < len && !(valid_part(text, org) && valid_part(text + org + 1, len - org - 1))) return false;
    if (org >= len && !valid_part(text, len)) return false;
    memcpy(out->name, text, len);
    if (revision) memcpy(out->revision, revision, strlen(revision));
    return true;
}

void lf_hub_print_download(const struct lf_hub_id *id, struct lf_buf *out)
{
    lf_buf_printf(out, "hf download %s", id->name);
    if (id->revision[0]) lf_buf_printf(out, " --revision %s", id->revision);
}

/* ---- the cache ---- */

static const char *setting(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static bool cache_at(char out[PATH_MAX], const char *base, const char *tail)
{
    bool of_home = base[0] == '~' && (base[1] == '/' || base[1] == '\0') && setting("HOME");
    int n = snprintf(out, PATH_MAX, "%s%s%s", of_home ? setting("HOME") : "", of_home ? base + 1 : base, tail);
    return n > 0 && n < PATH_MAX;
}

static enum lf_status find_cache(char out[PATH_MAX], struct lf_err *err)
{
    static const struct {
        const char *variable, *tail;
    } places[] = {{"HF_HUB_CACHE", ""},
                  {"HUGGINGFACE_HUB_CACHE", ""},
                  {"HF_HOME", "/hub"},
                  {"XDG_CACHE_HOME", "/huggingface/hub"},
                  {"HOME", "/.cache/huggingface/hub"}};
    for (size_t i = 0; i < LF_N_ELEMS(places); i++) {
        const char *base = setting(places[i].variable);
        if (!base) continue;
        if (cache_at(out, base, places[i].tail)) return LF_OK;
        return lf_fail(err, LF_LIMIT, "%s: the path is too long", places[i].variable);
    }
    return lf_fail(err, LF_NOT_FOUND,
                   "neither HF_HUB_CACHE, HF_HOME nor HOME is set: no Hugging Face cache to look in");
}

/* A model's folder of the cache being looked at. */
struct search {
    const struct lf_hub_id *id;
    char cache[PATH_MAX], folder[PATH_MAX];
};

static enum lf_status miss(const struct search *s, struct lf_err *err, const char *what)
{
    struct lf_buf command;
    lf_buf_init(&command, 512);
    lf_hub_print_download(s->id, &command);
    enum lf_status status = lf_fail(err, LF_NOT_FOUND, "--model %.200s: %s; to download it: %s", s->id->name, what,
                                    lf_buf_view(&command).ptr);
    lf_buf_deinit(&command);
    return status;
}

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* CACHE/models--org--name */
static enum lf_status find_folder(struct search *s, struct lf_err *err)
{
    char name[2 * LF_HUB_NAME_BYTES] = "models--";
    LF_TRY(find_cache(s->cache, err));
    size_t n = strlen(name);
    for (const char *p = s->id->name; *p; p++) {
        name[n++] = *p == '/' ? '-' : *p;
        if (*p == '/') name[n++] = '-';
    }
    if (lf_path_join(s->folder, sizeof(s->folder), s->cache, name) != LF_OK)
        return lf_fail(err, LF_LIMIT, "the path of the Hugging Face cache is too long");
    if (is_directory(s->folder)) return LF_OK;
    char what[512];
    snprintf(what, sizeof(what), "no such directory, and no model of that name in the Hugging Face cache %.200s",
             s->cache);
    return miss(s, err, what);
}

/* The commit in refs/<name>, as far as it is one; "" where there is no such file. */
static enum lf_status read_ref(const struct search *s, const char *name, char out[COMMIT_BYTES + 1], struct lf_err *err)
{
    char refs[PATH_MAX], path[PATH_MAX];
    struct lf_buf text;
    size_t n = 0;
    out[0] = '\0';
    if (lf_path_join(refs, sizeof(refs), s->folder, "refs") != LF_OK ||
        lf_path_join(path, sizeof(path), refs, name) != LF_OK)
        return lf_fail(err, LF_LIMIT, "the path of the ref %.100s is too long", name);
    if (is_directory(path)) return LF_OK;
    lf_buf_init(&text, REF_BYTES);
    enum lf_status status = lf_file_read(&text, path, REF_BYTES, err);
    while (status == LF_OK && n < text.len && n < COMMIT_BYTES && isalnum((unsigned char)text.ptr[n])) {
        out[n] = text.ptr[n];
        n++;
    }
    out[n] = '\0';
    lf_buf_deinit(&text);
    return status == LF_NOT_FOUND ? LF_OK : status;
}

/* How many snapshots begin with the prefix, one of them, and all of them as a list. */
struct snapshots {
    int n;
    char one[COMMIT_BYTES + 1];
    struct lf_buf all;
};

static void list_snapshots(const struct search *s, const char *prefix, struct snapshots *out)
{
    char path[PATH_MAX];
    out->n = 0;
    DIR *dir = lf_path_join(path, sizeof(path), s->folder, "snapshots") == LF_OK ? opendir(path) : NULL;
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        size_t len = strlen(e->d_name);
        if (e->d_name[0] == '.' || len > COMMIT_BYTES) continue;
        lf_buf_printf(&out->all, "%s%.12s", out->all.len ? ", " : "", e->d_name);
        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0) continue;
        memcpy(out->one, e->d_name, len + 1);
        out->n++;
    }
    if (dir) closedir(dir);
}

/* The commit where no ref says it: the revision itself, or the only snapshot. */
static enum lf_status guess_commit(const struct search *s, char out[COMMIT_BYTES + 1], struct lf_err *err)
{
    const char *revision = s->id->revision;
    struct snapshots found = {0};
    char what[400];
    lf_buf_init(&found.all, 200);
    list_snapshots(s, revision, &found);
    bool may = !revision[0] || strlen(revision) >= SHORT_COMMIT_N;
    if (found.n == 1 && may) memcpy(out, found.one, sizeof(found.one));
    const char *all = found.all.len > 0 ? lf_buf_view(&found.all).ptr : "none";
    if (revision[0])
        snprintf(what, sizeof(what), "the Hugging Face cache has %s revision %.100s of it (snapshots: %s)",
                 found.n > 1 && may ? "more than one" : "no", revision, all);
    else
        snprintf(what, sizeof(what), "the Hugging Face cache has no refs/main of it; %s@COMMIT takes a snapshot (%s)",
                 s->id->name, all);
    lf_buf_deinit(&found.all);
    return found.n == 1 && may ? LF_OK : miss(s, err, what);
}

enum lf_status lf_hub_find(char out[PATH_MAX], const struct lf_hub_id *id, struct lf_err *err)
{
    struct search s = {.id = id};
    char commit[COMMIT_BYTES + 1], snapshots[PATH_MAX], what[200];
    LF_TRY(find_folder(&s, err));
    LF_TRY(read_ref(&s, id->revision[0] ? id->revision : "main", commit, err));
    if (!commit[0]) LF_TRY(guess_commit(&s, commit, err));
    if (lf_path_join(snapshots, sizeof(snapshots), s.folder, "snapshots") != LF_OK ||
        lf_path_join(out, PATH_MAX, snapshots, commit) != LF_OK)
        return lf_fail(err, LF_LIMIT, "the path of the snapshot %s is too long", commit);
    if (is_directory(out)) return LF_OK;
    snprintf(what, sizeof(what), "the Hugging Face cache has no snapshot of its commit %.12s", commit);
    return miss(&s, err, what);
}
