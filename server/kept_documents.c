#include "server/kept_documents.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/json.h"
#include "server/documents/document_folder.h"

static const char prefix[] = "documents/";
enum { KEY_DIGITS = 8 /* that are shown of a key's hash */ };

const char *lf_kept_document_name(const char *arg)
{
    size_t n = sizeof prefix - 1;
    return strncmp(arg, prefix, n) == 0 ? arg + n : NULL;
}

/* ---- printing ---- */

struct printing {
    struct lf_buf *out;
    bool json;
    const char *comma;
    struct lf_kept_documents *found;
};

static const char *state_of(enum lf_status status)
{
    if (status == LF_OK) return "whole";
    if (status == LF_UNSUPPORTED) return "of a later version";
    return status == LF_CORRUPT ? "broken" : "cannot be read";
}

/* Whose it is, by the beginning of the hash; "": of nobody in particular. */
static void write_owner(struct lf_buf *out, const struct lf_document_file *f)
{
    static const uint8_t nobody[LF_SHA256_BYTES];
    if (memcmp(f->tenant, nobody, sizeof nobody) == 0) return;
    for (int i = 0; i < KEY_DIGITS / 2; i++) lf_buf_printf(out, "%02x", f->tenant[i]);
}

static void print_json(struct printing *p, uint64_t number, enum lf_status status, const struct lf_document_file *f)
{
    lf_buf_printf(p->out, "%s{\"document\":", p->comma);
    lf_json_write_string(p->out, f->name);
    lf_buf_printf(p->out, ",\"file\":\"%016" PRIx64 ".doc\",\"state\":\"%s\",\"key\":\"", number, state_of(status));
    write_owner(p->out, f);
    lf_buf_printf(p->out, "\",\"tokens\":%" PRId64 ",\"bytes\":%zu,\"created\":%" PRId64 ",\"expires\":%" PRId64 "}",
                  f->n_tokens, f->content.text.len, f->created_s, f->expires_s);
    p->comma = ",\n ";
}

static void print_text(struct printing *p, uint64_t number, enum lf_status status, const struct lf_document_file *f)
{
    if (p->found->n == 1) lf_buf_cstr(p->out, "documents\n");
    if (status != LF_OK) {
        lf_buf_printf(p->out, "  file %016" PRIx64 ".doc: %s\n", number, state_of(status));
        return;
    }
    lf_buf_cstr(p->out, "  ");
    lf_buf_str(p->out, f->name);
    lf_buf_printf(p->out, ": %" PRId64 " tokens, %zu bytes, whole", f->n_tokens, f->content.text.len);
    size_t before = p->out->len;
    lf_buf_cstr(p->out, ", of key ");
    size_t named = p->out->len;
    write_owner(p->out, f);
    if (p->out->len == named) p->out->len = before;
    lf_buf_char(p->out, '\n');
}

static bool print_one(void *ctx, uint64_t number, enum lf_status status, const struct lf_document_file *f)
{
    struct printing *p = ctx;
    p->found->n++;
    p->found->n_broken += status != LF_OK && status != LF_UNSUPPORTED ? 1 : 0;
    if (p->json)
        print_json(p, number, status, f);
    else
        print_text(p, number, status, f);
    return p->out->status == LF_OK;
}

enum lf_status lf_kept_documents_print(struct lf_buf *out, const char *dir, bool json, bool is_first,
                                       struct lf_kept_documents *found, struct lf_err *err)
{
    struct printing p = {out, json, is_first ? "" : ",\n ", found};
    *found = (struct lf_kept_documents){0};
    LF_TRY(lf_document_folder_walk(dir, false, NULL, print_one, &p, err));
    return out->status == LF_OK ? LF_OK : lf_fail(err, out->status, "no memory to print %d documents", found->n);
}

/* ---- removing ---- */

struct removing {
    const char *dir, *name;
    bool counts_only;
    int n;
    enum lf_status status;
    struct lf_err *err;
};

static bool remove_one(void *ctx, uint64_t number, enum lf_status status, const struct lf_document_file *f)
{
    struct removing *r = ctx;
    bool is_meant = !r->name || (status == LF_OK && lf_str_eq(f->name, lf_str_c(r->name)));
    if (!is_meant) return true;
    r->n++;
    if (r->counts_only) return true;
    r->status = lf_document_folder_remove(r->dir, number, r->err);
    if (r->status == LF_OK && status == LF_OK) printf("removed %s%.*s\n", prefix, (int)f->name.len, f->name.ptr);
    if (r->status == LF_OK && status != LF_OK) printf("removed %s%016" PRIx64 ".doc\n", prefix, number);
    return r->status == LF_OK;
}

enum lf_status lf_kept_documents_remove(const char *dir, const char *name, bool counts_only, int *n, struct lf_err *err)
{
    struct removing r = {.dir = dir, .name = name, .counts_only = counts_only, .err = err};
    LF_TRY(lf_document_folder_walk(dir, false, NULL, remove_one, &r, err));
    *n = r.n;
    return r.status;
}

/* ---- reading ---- */

enum { TEXT_BYTES = 1 << 30 };

struct reading {
    struct lf_kept_document *out;
    const char *name;
    int64_t now_s;
    int n;
};

static bool read_one(void *ctx, uint64_t number, enum lf_status status, const struct lf_document_file *f)
{
    struct reading *r = ctx;
    (void)number;
    if (status != LF_OK || !lf_str_eq(f->name, lf_str_c(r->name))) return true;
    if (f->expires_s && f->expires_s <= r->now_s) return true;
    struct lf_kept_document *doc = r->out;
    bool is_same_key = r->n > 0 && memcmp(doc->tenant, f->tenant, sizeof doc->tenant) == 0;
    r->n = is_same_key ? r->n : r->n + 1; /* of two of one key the later one holds */
    lf_buf_deinit(&doc->text);
    lf_buf_deinit(&doc->system);
    lf_buf_init(&doc->text, TEXT_BYTES);
    lf_buf_init(&doc->system, TEXT_BYTES);
    lf_buf_str(&doc->text, f->content.text);
    lf_buf_str(&doc->system, f->content.system);
    doc->created_s = f->created_s;
    memcpy(doc->tenant, f->tenant, sizeof doc->tenant);
    return doc->text.status == LF_OK && doc->system.status == LF_OK;
}

enum lf_status lf_kept_document_read(struct lf_kept_document *out, const char *dir, const char *name, int64_t now_s,
                                     struct lf_err *err)
{
    struct reading r = {.out = out, .name = name, .now_s = now_s};
    *out = (struct lf_kept_document){0};
    lf_buf_init(&out->text, TEXT_BYTES);
    lf_buf_init(&out->system, TEXT_BYTES);
    LF_TRY(lf_document_folder_walk(dir, false, NULL, read_one, &r, err));
    if (out->text.status != LF_OK || out->system.status != LF_OK)
        return lf_fail(err, LF_NO_MEMORY, "no memory for the document");
    if (r.n == 0) return lf_fail(err, LF_NOT_FOUND, "%s has no document %.200s; see longflash documents ls", dir, name);
    if (r.n > 1) return lf_fail(err, LF_INVALID, "several keys have a document %.200s in %s", name, dir);
    return LF_OK;
}

void lf_kept_document_deinit(struct lf_kept_document *doc)
{
    lf_buf_deinit(&doc->text);
    lf_buf_deinit(&doc->system);
}
