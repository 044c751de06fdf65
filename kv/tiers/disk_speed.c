#include "kv/tiers/disk_speed.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/file.h"
#include "core/hash.h"
#include "core/str.h"

enum { LINE_BYTES = 1024, SUM_DIGITS = 16 };
static const char magic[] = "LFspeed1";
#define LEAST_NS 1e-3
#define MOST_NS  1e15

static bool path_of(char out[PATH_MAX], const char *dir, const char *identity, const char *name)
{
    char folder[PATH_MAX];
    return lf_path_join(folder, sizeof folder, dir, identity) == LF_OK &&
           lf_path_join(out, PATH_MAX, folder, name) == LF_OK;
}

static void sum_of(struct lf_str text, char digits[SUM_DIGITS + 1])
{
    uint8_t sha[LF_SHA256_BYTES];
    lf_sha256(text.ptr, text.len, sha);
    for (int i = 0; i < SUM_DIGITS / 2; i++) snprintf(digits + 2 * i, 3, "%02x", sha[i]);
}

/* text is terminated. */
static bool parse(double *ns, int n, char *text)
{
    char sum[SUM_DIGITS + 1], *last = strrchr(text, ' '), *at = text + sizeof magic - 1;
    double found[LF_DISK_SPEED_N];
    if (!last || strncmp(text, magic, sizeof magic - 1) != 0) return false;
    sum_of(lf_str_from(text, (size_t)(last - text)), sum);
    if (strncmp(last + 1, sum, SUM_DIGITS) != 0 || strcmp(last + 1 + SUM_DIGITS, "\n") != 0) return false;
    *last = '\0';
    for (int i = 0; i < n; i++) {
        char *end;
        found[i] = strtod(at, &end);
        bool is_time = found[i] == 0 || (found[i] >= LEAST_NS && found[i] <= MOST_NS);
        if (end == at || !is_time) return false;
        at = end;
    }
    if (*at) return false;
    memcpy(ns, found, (size_t)n * sizeof *ns);
    return true;
}

bool lf_disk_speed_read(double *ns, int n, const char *dir, const char *identity)
{
    char path[PATH_MAX];
    struct lf_buf text;
    LF_ASSERT(n >= 1 && n <= LF_DISK_SPEED_N);
    if (!path_of(path, dir, identity, "speed")) return false;
    lf_buf_init(&text, LINE_BYTES);
    bool is_there = lf_file_read(&text, path, LINE_BYTES - 1, NULL) == LF_OK;
    if (is_there) lf_buf_char(&text, '\0');
    is_there = is_there && text.status == LF_OK && strlen(text.ptr) + 1 == text.len && parse(ns, n, text.ptr);
    lf_buf_deinit(&text);
    return is_there;
}

enum lf_status lf_disk_speed_write(const double *ns, int n, const char *dir, const char *identity, struct lf_err *err)
{
    char path[PATH_MAX], written[PATH_MAX], line[LINE_BYTES], sum[SUM_DIGITS + 1];
    size_t at = (size_t)snprintf(line, sizeof line, "%s", magic);
    LF_ASSERT(n >= 1 && n <= LF_DISK_SPEED_N);
    for (int i = 0; i < n; i++) at += (size_t)snprintf(line + at, sizeof line - at, " %.17g", ns[i]);
    LF_ASSERT(at + SUM_DIGITS + 2 < sizeof line);
    sum_of(lf_str_from(line, at), sum);
    if (!path_of(path, dir, identity, "speed") || !path_of(written, dir, identity, "speed.tmp"))
        return lf_fail(err, LF_IO, "%s: the path is too long", dir);
    FILE *f = fopen(written, "we");
    bool ok = f && fprintf(f, "%s %s\n", line, sum) > 0;
    if (f && fclose(f) != 0) ok = false;
    if (ok && rename(written, path) == 0) return LF_OK;
    enum lf_status status = lf_fail(err, LF_IO, "cannot write %s: %s", path, strerror(errno));
    (void)remove(written);
    return status;
}
