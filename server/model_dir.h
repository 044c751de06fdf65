/* What a person may get wrong about --model, said before anything is opened: no such directory, a file in its place, a
 * directory of something else. */
#ifndef LF_SERVER_MODEL_DIR_H
#define LF_SERVER_MODEL_DIR_H

#include "core/status.h"

/* LF_OK: dir is a directory with a config.json. Else LF_NOT_FOUND or LF_INVALID with what was expected. */
LF_MUST_CHECK enum lf_status lf_model_dir_check(const char *dir, struct lf_err *err);
/* The error for a model directory without a tokenizer: LF_NOT_FOUND. */
enum lf_status lf_model_dir_no_tokenizer(const char *dir, struct lf_err *err);

#endif
