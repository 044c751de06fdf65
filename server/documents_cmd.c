/* documents: what --cache-dir has kept, for when no server runs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/check.h"
#include "core/json.h"
#include "core/limits.h"
#include "kv/tiers/disk_lock.h"
#include "kv/tiers/disk_walk.h"
#include "server/commands.h"
#include "server/kept_documents.h"

enum { PREFIX_DIGITS = 8, LINE_BYTES = 64 * 1024, DOCUMENTS_BYTES = 64 * 1024 * 1024 };

struct job {
    const struct lf_config *config;
    bool verifies;
    int n_found;                        /* identities and kinds */
    bool is_broken;                     /* something is */
    char last[LF_DISK_NAME_BYTES];      /* the identity before, of which there may be several kinds */
    char (*chosen)[LF_DISK_NAME_BYTES]; /* to remove */
    int n_chosen;
    bool no_memory;
};

/* ---- printing ---- */

static void print_bytes(struct lf_buf *out, uint64_t bytes)
{
    if (bytes >= (uint64_t)1 << 30)
        lf_buf_printf(out, "%.2f GiB", (double)bytes / (double)(1 << 30));
    else
        lf_buf_printf(out, "%.2f MiB", (double)bytes / (double)(1 << 20));
}

static void print_time(struct lf_buf *out, int64_t unix_s)
{
    char text[32];
    struct tm tm;
    time_t t = (time_t)unix_s;
    gmtime_r(&t, &tm);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
    lf_buf_cstr(out, text);
}

static void print_text(const struct job *job, const struct lf_disk_found *f, struct lf_buf *out)
{
    if (strcmp(job->last, f->identity) != 0) lf_buf_printf(out, "%s\n  %s\n", f->identity, f->about);
    if (!*f->kind) {
        lf_buf_cstr(out, "  no blocks\n");
        return;
    }
    lf_buf_printf(out, "  %s: %u blocks, %" PRIu64 " tokens, ", f->kind, f->n_listed,
                  (uint64_t)f->n_listed * LF_KV_BLOCK_TOKENS);
    print_bytes(out, f->disk_bytes);
    lf_buf_cstr(out, " on disk, written ");
    print_time(out, f->written_s);
    lf_buf_char(out, '\n');
    if (job->verifies) lf_buf_printf(out, "  %u whole, %u broken\n", f->n_listed - f->n_broken, f->n_broken);
    if (f->n_bad_records > 0) lf_buf_printf(out, "  %u records that cannot be read\n", f->n_bad_records);
}

static void print_json(const struct job *job, const struct lf_disk_found *f, struct lf_buf *out)
{
    lf_buf_printf(out, "%s{\"identity\":\"%s\",\"about\":", job->n_found ? ",\n " : "", f->identity);
    lf_json_write_string(out, lf_str_c(f->about));
    lf_buf_printf(out, ",\"kind\":\"%s\",\"slots\":%u,\"blocks\":%u,\"tokens\":%" PRIu64, f->kind, f->n_slots,
                  f->n_listed, (uint64_t)f->n_listed * LF_KV_BLOCK_TOKENS);
    lf_buf_printf(out, ",\"bad_records\":%u,\"bytes_on_disk\":%" PRIu64 ",\"written\":%" PRId64, f->n_bad_records,
                  f->disk_bytes, f->written_s);
    if (job->verifies) lf_buf_printf(out, ",\"whole\":%u,\"broken\":%u", f->n_listed - f->n_broken, f->n_broken);
    lf_buf_char(out, '}');
}

static bool print_found(void *ctx, const struct lf_disk_found *f)
{
    struct job *job = ctx;
    struct lf_buf out;
    lf_buf_init(&out, LINE_BYTES);
    if (job->config->json)
        print_json(job, f, &out);
    else
        print_text(job, f, &out);
    fwrite(lf_buf_view(&out).ptr, 1, out.len, stdout);
    lf_buf_deinit(&out);
    memcpy(job->last, f->identity, sizeof(job->last));
    job->n_found++;
    job->is_broken |= f->n_broken > 0 || f->n_bad_records > 0;
    return true;
}

static enum lf_status print_documents(struct job *job, struct lf_err *err)
{
    struct lf_kept_documents found;
    struct lf_buf out;
    lf_buf_init(&out, DOCUMENTS_BYTES);
    enum lf_status status =
        lf_kept_documents_print(&out, job->config->cache_dir, job->config->json, job->n_found == 0, &found, err);
    if (status == LF_OK) fwrite(lf_buf_view(&out).ptr, 1, out.len, stdout);
    lf_buf_deinit(&out);
    job->n_found += found.n;
    job->is_broken |= found.n_broken > 0;
    return status;
}

static enum lf_status print_all(struct job *job, struct lf_err *err)
{
    const struct lf_config *c = job->config;
    if (c->json) printf("[");
    LF_TRY(lf_disk_walk(c->cache_dir, job->verifies, print_found, job, err));
    LF_TRY(print_documents(job, err));
    if (c->json)
        printf("]\n");
    else if (job->n_found == 0)
        printf("nothing is kept in %s\n", c->cache_dir);
    return LF_OK;
}

static enum lf_status verify(struct job *job, struct lf_err *err)
{
    int lock;
    LF_TRY(lf_disk_lock_to_read(&lock, job->config->cache_dir, err));
    job->verifies = true;
    enum lf_status status = print_all(job, err);
    if (lock >= 0) close(lock);
    return status;
}

/* ---- removing ---- */

static bool is_named(const struct lf_config *c, const char *identity)
{
    for (int i = 1; i < c->n_args; i++)
        if (strncmp(identity, c->args[i], strlen(c->args[i])) == 0) return true;
    return c->all;
}

static bool choose(void *ctx, const struct lf_disk_found *f)
{
    struct job *job = ctx;
    if (strcmp(job->last, f->identity) == 0 || !is_named(job->config, f->identity)) return true;
    void *grown = realloc(job->chosen, ((size_t)job->n_chosen + 1) * sizeof(*job->chosen));
    job->no_memory = !grown;
    if (!grown) return false;
    job->chosen = grown;
    memcpy(job->chosen[job->n_chosen++], f->identity, sizeof(f->identity));
    memcpy(job->last, f->identity, sizeof(job->last));
    return true;
}

static enum lf_status check_document(const struct lf_config *c, const char *name, struct lf_err *err)
{
    int n;
    LF_TRY(lf_kept_documents_remove(c->cache_dir, name, true, &n, err));
    if (n > 0) return LF_OK;
    return lf_fail(err, LF_NOT_FOUND, "rm: %s has no document \"%.128s\"", c->cache_dir, name);
}

/* Each argument is a document, or the beginning of one identity, and of no other. */
static enum lf_status check_names(const struct job *job, struct lf_err *err)
{
    const struct lf_config *c = job->config;
    for (int i = 1; i < c->n_args; i++) {
        int n = 0;
        if (lf_kept_document_name(c->args[i])) {
            LF_TRY(check_document(c, lf_kept_document_name(c->args[i]), err));
            continue;
        }
        for (int k = 0; k < job->n_chosen; k++)
            n += strncmp(job->chosen[k], c->args[i], strlen(c->args[i])) == 0 ? 1 : 0;
        if (n == 0)
            return lf_fail(err, LF_NOT_FOUND, "rm: %s has no identity that begins with \"%.64s\"", c->cache_dir,
                           c->args[i]);
        if (n > 1)
            return lf_fail(err, LF_INVALID, "rm: %d identities begin with \"%.64s\"; expected more of its digits", n,
                           c->args[i]);
    }
    return LF_OK;
}

static enum lf_status remove_documents(const struct lf_config *c, struct lf_err *err)
{
    int n;
    if (c->all) return lf_kept_documents_remove(c->cache_dir, NULL, false, &n, err);
    for (int i = 1; i < c->n_args; i++)
        if (lf_kept_document_name(c->args[i]))
            LF_TRY(lf_kept_documents_remove(c->cache_dir, lf_kept_document_name(c->args[i]), false, &n, err));
    return LF_OK;
}

static enum lf_status remove_locked(struct job *job, struct lf_err *err)
{
    const char *dir = job->config->cache_dir;
    LF_TRY(lf_disk_walk(dir, false, choose, job, err));
    if (job->no_memory) return lf_fail(err, LF_NO_MEMORY, "no memory for a list of identities");
    LF_TRY(check_names(job, err));
    for (int i = 0; i < job->n_chosen; i++) {
        LF_TRY(lf_disk_remove(dir, job->chosen[i], err));
        printf("removed %s\n", job->chosen[i]);
    }
    return remove_documents(job->config, err);
}

static enum lf_status check_rm(const struct lf_config *c, struct lf_err *err)
{
    if (c->all == (c->n_args > 1))
        return lf_fail(err, LF_INVALID,
                       "rm: expected the identities and documents/NAME to remove, or else --all; ls shows them");
    for (int i = 1; i < c->n_args; i++)
        if (!lf_kept_document_name(c->args[i]) && strlen(c->args[i]) < PREFIX_DIGITS)
            return lf_fail(err, LF_INVALID, "rm: expected %d digits of an identity at least, got \"%s\"", PREFIX_DIGITS,
                           c->args[i]);
    return LF_OK;
}

static enum lf_status remove_some(struct job *job, struct lf_err *err)
{
    const char *dir = job->config->cache_dir;
    int lock;
    LF_TRY(check_rm(job->config, err));
    if (access(dir, F_OK) != 0) return lf_fail(err, LF_NOT_FOUND, "%s: there is no such directory", dir);
    LF_TRY(lf_disk_lock(&lock, dir, err));
    enum lf_status status = remove_locked(job, err);
    free(job->chosen);
    close(lock);
    return status;
}

/* ---- the command ---- */

static enum lf_status run(struct job *job, struct lf_err *err)
{
    const struct lf_config *c = job->config;
    const char *verb = c->n_args > 0 ? c->args[0] : "";
    bool rm = strcmp(verb, "rm") == 0, ls = strcmp(verb, "ls") == 0;
    if (!rm && !ls && strcmp(verb, "verify") != 0)
        return lf_fail(err, LF_INVALID, "documents: expected ls, verify or rm, got \"%.60s\"", verb);
    if (!rm && (c->n_args > 1 || c->all))
        return lf_fail(err, LF_INVALID, "documents %s is about all there is: it takes no names and no --all", verb);
    if (rm && c->json) return lf_fail(err, LF_INVALID, "documents rm has no --json");
    if (!c->cache_dir) return lf_fail(err, LF_INVALID, "documents: expected --cache-dir DIR");
    return rm ? remove_some(job, err) : ls ? print_all(job, err) : verify(job, err);
}

int lf_documents_command(const struct lf_config *config)
{
    struct job job = {.config = config};
    struct lf_err err;
    if (run(&job, &err) != LF_OK) return lf_report(&err);
    return job.verifies && job.is_broken ? LF_EXIT_FAILED : LF_EXIT_OK;
}
