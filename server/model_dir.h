/* From what stands behind --model to a directory, and what a person may get wrong about it, said before anything is
 * opened: no such directory, a file in its place, a directory of something else. */
#ifndef LF_SERVER_MODEL_DIR_H
#define LF_SERVER_MODEL_DIR_H

#include <limits.h>

#include "core/status.h"
#include "server/hub.h"

struct lf_model_dir {
    char path[PATH_MAX];
    struct lf_hub_id hub; /* its name is "" where a directory was given */
};

/* A directory, or else a model of the Hugging Face cache (hub.h). typed may be NULL: LF_INVALID. LF_NOT_FOUND,
 * LF_INVALID, LF_IO, LF_LIMIT. */
LF_MUST_CHECK enum lf_status lf_model_dir_find(struct lf_model_dir *out, const char *typed, struct lf_err *err);
/* LF_OK: there is a config.json and, where they are needed, weights that can be read. Else LF_NOT_FOUND, LF_CORRUPT or
 * LF_UNSUPPORTED with what the directory holds instead and what to do. */
LF_MUST_CHECK enum lf_status lf_model_dir_check(const struct lf_model_dir *dir, bool need_weights, struct lf_err *err);
/* Where the tokenizer alone was wanted and could not be opened: LF_OK where the error that was met says why, else the
 * better one. missing: it was not found. */
LF_MUST_CHECK enum lf_status lf_model_dir_judge_tokenizer(const struct lf_model_dir *dir, bool missing,
                                                          struct lf_err *err);
/* The error for a model directory without a tokenizer: LF_NOT_FOUND. */
enum lf_status lf_model_dir_no_tokenizer(const struct lf_model_dir *dir, struct lf_err *err);
/* Adds to an error about a file that is not there the command that completes the download; returns the status. */
enum lf_status lf_model_dir_complete(const struct lf_model_dir *dir, enum lf_status status, struct lf_err *err);

#endif
