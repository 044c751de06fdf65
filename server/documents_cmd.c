/* documents: what --cache-dir has kept, for when no server runs. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/check.h"
#include "core/json.h"
#include "core/limits.h"
#include "kv/tiers/disk_lock.h"
#include "kv/tiers/disk_stream.h"
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
    int first_name;                     /* of the arguments that are beginnings of identities */
    char (*chosen)[LF_DISK_NAME_BYTES]; /* that these name: to remove, to export */
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
    lf_buf_printf(out, "  %s: %u blocks, %" PRIu64 " tokens, ", f->kind, f->n_listed, f->n_tokens);
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
                  f->n_listed, f->n_tokens);
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

/* ---- identities by name ---- */

/* Where none is named, all are; who removes sees to it that this was meant. */
static bool is_named(const struct job *job, const char *identity)
{
    const struct lf_config *c = job->config;
    for (int i = job->first_name; i < c->n_args; i++)
        if (strncmp(identity, c->args[i], strlen(c->args[i])) == 0) return true;
    return c->n_args <= job->first_name;
}

static bool choose(void *ctx, const struct lf_disk_found *f)
{
    struct job *job = ctx;
    if (strcmp(job->last, f->identity) == 0 || !is_named(job, f->identity)) return true;
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

/* The name of the document that argument i is, NULL: it is none. Only rm takes such. */
static const char *document_of(const struct job *job, int i)
{
    const struct lf_config *c = job->config;
    return strcmp(c->args[0], "rm") == 0 ? lf_kept_document_name(c->args[i]) : NULL;
}

/* Each argument is a document, or the beginning of one identity, and of no other. */
static enum lf_status check_names(const struct job *job, struct lf_err *err)
{
    const struct lf_config *c = job->config;
    for (int i = job->first_name; i < c->n_args; i++) {
        int n = 0;
        if (document_of(job, i)) {
            LF_TRY(check_document(c, document_of(job, i), err));
            continue;
        }
        for (int k = 0; k < job->n_chosen; k++)
            n += strncmp(job->chosen[k], c->args[i], strlen(c->args[i])) == 0 ? 1 : 0;
        if (n == 0)
            return lf_fail(err, LF_NOT_FOUND, "%s: %s has no identity that begins with \"%.64s\"", c->args[0],
                           c->cache_dir, c->args[i]);
        if (n > 1)
            return lf_fail(err, LF_INVALID, "%s: %d identities begin with \"%.64s\"; expected more of its digits",
                           c->args[0], n, c->args[i]);
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

static enum lf_status check_digits(const struct job *job, struct lf_err *err)
{
    const struct lf_config *c = job->config;
    for (int i = job->first_name; i < c->n_args; i++)
        if (!document_of(job, i) && strlen(c->args[i]) < PREFIX_DIGITS)
            return lf_fail(err, LF_INVALID, "%s: expected %d digits of an identity at least, got \"%s\"", c->args[0],
                           PREFIX_DIGITS, c->args[i]);
    return LF_OK;
}

/* Fills job->chosen. The directory is locked. */
static enum lf_status choose_all(struct job *job, struct lf_err *err)
{
    LF_TRY(lf_disk_walk(job->config->cache_dir, false, choose, job, err));
    if (job->no_memory) return lf_fail(err, LF_NO_MEMORY, "no memory for a list of identities");
    return check_names(job, err);
}

/* ---- removing ---- */

static enum lf_status remove_locked(struct job *job, struct lf_err *err)
{
    const char *dir = job->config->cache_dir;
    LF_TRY(choose_all(job, err));
    for (int i = 0; i < job->n_chosen; i++) {
        LF_TRY(lf_disk_remove(dir, job->chosen[i], err));
        printf("removed %s\n", job->chosen[i]);
    }
    return remove_documents(job->config, err);
}

static enum lf_status lock_to_write(int *lock, const char *dir, struct lf_err *err)
{
    if (access(dir, F_OK) != 0) return lf_fail(err, LF_NOT_FOUND, "%s: there is no such directory", dir);
    return lf_disk_lock(lock, dir, err);
}

static enum lf_status remove_some(struct job *job, struct lf_err *err)
{
    const struct lf_config *c = job->config;
    int lock;
    job->first_name = 1;
    if (c->json) return lf_fail(err, LF_INVALID, "documents rm has no --json");
    if (c->all == (c->n_args > 1))
        return lf_fail(err, LF_INVALID,
                       "rm: expected the identities and documents/NAME to remove, or else --all; ls shows them");
    LF_TRY(check_digits(job, err));
    LF_TRY(lock_to_write(&lock, c->cache_dir, err));
    enum lf_status status = remove_locked(job, err);
    close(lock);
    return status;
}

/* ---- from one machine to another ---- */

static bool is_chosen(void *ctx, const char *identity)
{
    const struct job *job = ctx;
    for (int i = 0; i < job->n_chosen; i++)
        if (strcmp(job->chosen[i], identity) == 0) return true;
    return false;
}

static enum lf_status failed(const char *what, const char *path, struct lf_err *err)
{
    return lf_fail(err, LF_IO, "cannot %s %s: %s", what, path, strerror(errno));
}

/* A file for one export alone: one that is left from an export that was killed is taken, what is no file is not, and
 * what a link leads to is not touched. */
static enum lf_status open_part(int *out, const char *part, struct lf_err *err)
{
    struct stat st, named;
    int fd = open(part, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) return failed("write", part, err);
    bool is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    bool is_ours = is_file && flock(fd, LOCK_EX | LOCK_NB) == 0 && lstat(part, &named) == 0 &&
                   named.st_dev == st.st_dev && named.st_ino == st.st_ino;
    if (is_ours && ftruncate(fd, 0) == 0) {
        *out = fd;
        return LF_OK;
    }
    enum lf_status status = is_ours   ? failed("write", part, err)
                            : is_file ? lf_fail(err, LF_INVALID, "another export writes %.200s", part)
                                      : lf_fail(err, LF_INVALID, "%.200s is there, and no file", part);
    close(fd);
    return status;
}

/* Into a file beside it, which takes its place when it is whole and on disk. */
static enum lf_status export_to_file(struct job *job, struct lf_disk_moved *moved, const char *path, struct lf_err *err)
{
    char part[PATH_MAX];
    struct stat st;
    struct lf_disk_end to = {.name = part};
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return lf_fail(err, LF_INVALID, "%.200s is no file: expected one, or \"-\" for standard output", path);
    if (snprintf(part, sizeof(part), "%s.part", path) >= (int)sizeof(part))
        return lf_fail(err, LF_LIMIT, "%.200s…: the path is too long", path);
    LF_TRY(open_part(&to.fd, part, err));
    enum lf_status status = lf_disk_export(moved, job->config->cache_dir, &to, is_chosen, job, err);
    if (status == LF_OK && fsync(to.fd) != 0) status = failed("sync", part, err);
    if (status == LF_OK && rename(part, path) != 0) status = failed("rename", part, err);
    if (status != LF_OK) (void)unlink(part);
    close(to.fd); /* and with it the lock, which goes when the name has gone */
    return status;
}

static void print_moved(const char *what, const struct lf_disk_moved *moved, FILE *out)
{
    struct lf_buf size;
    lf_buf_init(&size, 64);
    print_bytes(&size, moved->bytes);
    fprintf(out, "%s %" PRIu64 " blocks, %" PRIu64 " tokens, %s", what, moved->n_blocks, moved->n_tokens,
            lf_buf_view(&size).ptr);
    if (moved->n_there > 0) fprintf(out, ", %" PRIu64 " of them were there", moved->n_there);
    if (moved->n_gone > 0) fprintf(out, ", %" PRIu64 " others made room", moved->n_gone);
    if (moved->n_broken > 0) fprintf(out, ", %" PRIu64 " broken ones left out", moved->n_broken);
    fputc('\n', out);
    lf_buf_deinit(&size);
}

static enum lf_status check_file(const struct lf_config *c, const char *verb, struct lf_err *err)
{
    if (c->json) return lf_fail(err, LF_INVALID, "documents %s has no --json", verb);
    if (c->n_args < 2) return lf_fail(err, LF_INVALID, "%s: expected a file, or \"-\"", verb);
    return LF_OK;
}

static enum lf_status export_some(struct job *job, struct lf_err *err)
{
    const struct lf_config *c = job->config;
    struct lf_disk_moved moved;
    int lock;
    job->first_name = 2;
    LF_TRY(check_file(c, "export", err));
    if (c->all) return lf_fail(err, LF_INVALID, "export: all are exported where none is named; it has no --all");
    LF_TRY(check_digits(job, err));
    LF_TRY(lf_disk_lock_to_read(&lock, c->cache_dir, err));
    bool to_stdout = strcmp(c->args[1], "-") == 0;
    const struct lf_disk_end out = {STDOUT_FILENO, "standard output"};
    enum lf_status status = choose_all(job, err);
    if (status == LF_OK && to_stdout) status = lf_disk_export(&moved, c->cache_dir, &out, is_chosen, job, err);
    if (status == LF_OK && !to_stdout) status = export_to_file(job, &moved, c->args[1], err);
    if (lock >= 0) close(lock);
    if (status == LF_OK) print_moved("exported", &moved, to_stdout ? stderr : stdout);
    return status;
}

static enum lf_status import_all(struct job *job, struct lf_err *err)
{
    const struct lf_config *c = job->config;
    struct lf_disk_moved moved;
    int lock;
    LF_TRY(check_file(c, "import", err));
    if (c->n_args > 2) return lf_fail(err, LF_INVALID, "import: one file at a time, and all of it");
    bool from_stdin = strcmp(c->args[1], "-") == 0;
    struct lf_disk_end from = {STDIN_FILENO, from_stdin ? "standard input" : c->args[1]};
    if (!from_stdin) from.fd = open(from.name, O_RDONLY | O_CLOEXEC);
    if (from.fd < 0) return failed("read", from.name, err);
    enum lf_status status = lock_to_write(&lock, c->cache_dir, err);
    if (status == LF_OK) {
        status = lf_disk_import(&moved, c->cache_dir, &from, c->all, err);
        close(lock);
        if (status == LF_OK || moved.n_blocks > 0) print_moved("imported", &moved, stdout);
    }
    if (!from_stdin) close(from.fd);
    return status;
}

/* ---- the command ---- */

static enum lf_status print_list(struct job *job, struct lf_err *err)
{
    const struct lf_config *c = job->config;
    if (c->n_args > 1 || c->all)
        return lf_fail(err, LF_INVALID, "documents %s is about all there is: it takes no names and no --all",
                       c->args[0]);
    return strcmp(c->args[0], "ls") == 0 ? print_all(job, err) : verify(job, err);
}

static const struct {
    const char *name;
    enum lf_status (*run)(struct job *job, struct lf_err *err);
} verbs[] = {
    {"ls", print_list}, {"verify", print_list}, {"rm", remove_some}, {"export", export_some}, {"import", import_all}};

static enum lf_status run(struct job *job, struct lf_err *err)
{
    const struct lf_config *c = job->config;
    const char *verb = c->n_args > 0 ? c->args[0] : "";
    for (size_t i = 0; i < LF_N_ELEMS(verbs); i++) {
        if (strcmp(verbs[i].name, verb) != 0) continue;
        if (!c->cache_dir) return lf_fail(err, LF_INVALID, "documents: expected --cache-dir DIR");
        return verbs[i].run(job, err);
    }
    return lf_fail(err, LF_INVALID, "documents: expected ls, verify, rm, export or import, got \"%.60s\"", verb);
}

int lf_documents_command(const struct lf_config *config)
{
    struct job job = {.config = config};
    struct lf_err err;
    enum lf_status status = run(&job, &err);
    free(job.chosen);
    if (status != LF_OK) return lf_report(&err);
    return job.verifies && job.is_broken ? LF_EXIT_FAILED : LF_EXIT_OK;
}
