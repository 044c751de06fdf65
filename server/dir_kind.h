/* What a directory is that is no model, by the names of its files. */
#ifndef LF_SERVER_DIR_KIND_H
#define LF_SERVER_DIR_KIND_H

#include <limits.h>
#include <stdbool.h>

#include "core/status.h"

enum { LF_DIR_SIGNS_N = 32 };

/* Which of the signs that dir_kind.c lists are there, and the first name of each. */
struct lf_dir_kind {
    int n_entries;
    bool has[LF_DIR_SIGNS_N];
    char name[LF_DIR_SIGNS_N][NAME_MAX + 1];
    char pointer[NAME_MAX + 1]; /* a file that is a Git LFS pointer; "": none */
    bool weights_pointer;       /* it is one of the weights */
};

LF_MUST_CHECK enum lf_status lf_dir_kind_read(struct lf_dir_kind *out, const char *dir, struct lf_err *err);
/* LF_OK where it may be a model, or where nothing is known of it but that there is no config.json. Else a sentence. */
LF_MUST_CHECK enum lf_status lf_dir_kind_check(const struct lf_dir_kind *kind, const char *dir, bool need_weights,
                                               struct lf_err *err);
/* The part of it that holds for a directory of any kind: no file is a Git LFS pointer. */
LF_MUST_CHECK enum lf_status lf_dir_kind_check_pointers(const struct lf_dir_kind *kind, const char *dir,
                                                        bool need_weights, struct lf_err *err);
bool lf_dir_kind_has_config(const struct lf_dir_kind *kind);
bool lf_dir_kind_is_empty(const struct lf_dir_kind *kind);
/* " (tekken.json is …)" where there is a tokenizer of a form that is not read, else "". */
const char *lf_dir_kind_tokenizer(const struct lf_dir_kind *kind);
/* Whether a name that is not there says by itself that GGUF would be in it ("…-GGUF", "….gguf", in whatever case), and
 * the error for it: LF_UNSUPPORTED. */
bool lf_dir_kind_is_gguf_name(const char *name);
enum lf_status lf_dir_kind_of_gguf_name(const char *typed, struct lf_err *err);
/* The error for a file in a directory's place: LF_INVALID. expected: what else to say where the file is none of those
 * known. */
enum lf_status lf_dir_kind_of_file(const char *path, const char *expected, struct lf_err *err);

#endif
