/* Short words for the rows of options.c and command_options.c, and nothing else. */
#ifndef LF_SERVER_OPTION_WORDS_H
#define LF_SERVER_OPTION_WORDS_H

#include <limits.h>

#include "core/check.h"
#include "core/limits.h"
#include "server/options.h"

#define FIELD(f)    offsetof(struct lf_config, f)
#define SERVE       LF_COMMAND_SERVE
#define PLAN        LF_COMMAND_PLAN
#define RUN         LF_COMMAND_RUN
#define LOAD        LF_COMMAND_LOAD
#define TOKENIZE    LF_COMMAND_TOKENIZE
#define HEALTH      LF_COMMAND_HEALTH
#define DOCUMENTS   LF_COMMAND_DOCUMENTS
#define QUANTIZE    LF_COMMAND_QUANTIZE
#define MODELS      (SERVE | PLAN | RUN)
#define ALL         (MODELS | LOAD | TOKENIZE | HEALTH | DOCUMENTS | QUANTIZE)
#define BYTES_N     ((int64_t)1 << 50)
#define KV_TOKENS_N ((int64_t)INT32_MAX * LF_KV_BLOCK_TOKENS)

#endif
