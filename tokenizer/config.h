/* What a model directory says about its tokenizer beside the tokenizer's own file: tokenizer_config.json,
 * special_tokens_map.json, added_tokens.json, chat_template.jinja and chat_template.json. Each may be missing. */
#ifndef LF_TOKENIZER_CONFIG_H
#define LF_TOKENIZER_CONFIG_H

#include "core/arena.h"
#include "core/json.h"

enum lf_answer { LF_ANSWER_NONE = -1, LF_ANSWER_NO, LF_ANSWER_YES };

/* An added token as a file lists it. */
struct lf_listed_token {
    int64_t id; /* -1: by its text */
    struct lf_str text;
    bool special, named, lstrip, rstrip, single_word, normalized;
    struct lf_listed_token *next;
};

struct lf_tokenizer_config {
    struct lf_arena arena;          /* owns the texts */
    struct lf_listed_token *tokens; /* in the order of the files; a later one of the same text counts for its flags */
    struct lf_listed_token **tokens_end;
    enum lf_answer add_bos, add_eos, legacy, add_prefix_space;
    struct lf_str bos, eos, unk; /* empty: not given */
    struct lf_str class_name;
    struct lf_str chat_template;
    bool found; /* there is a tokenizer_config.json */
};

LF_MUST_CHECK enum lf_status lf_tokenizer_config_read(struct lf_tokenizer_config *config, const char *dir,
                                                      struct lf_err *err);
void lf_tokenizer_config_deinit(struct lf_tokenizer_config *config); /* accepts a zeroed one */

/* For the reader of tokenizer.json, whose added tokens look the same: content and flags of an object. */
LF_MUST_CHECK enum lf_status lf_listed_token_read(struct lf_listed_token *out, struct lf_arena *arena,
                                                  struct lf_json_value object, struct lf_err *err);
/* A copy in memory of the arena. */
LF_MUST_CHECK enum lf_status lf_text_keep(struct lf_str *out, struct lf_arena *arena, struct lf_str text,
                                          struct lf_err *err);
/* The same of a JSON string; LF_CORRUPT for any other value, named by what. */
LF_MUST_CHECK enum lf_status lf_json_keep(struct lf_str *out, struct lf_arena *arena, struct lf_json_value v,
                                          const char *what, struct lf_err *err);
/* The same of one code point. */
LF_MUST_CHECK enum lf_status lf_json_keep_letter(struct lf_str *out, struct lf_arena *arena, struct lf_json_value v,
                                                 const char *what, struct lf_err *err);
/* Reads and parses dir/name. *json must be freed before *text. LF_NOT_FOUND where there is no such file. */
LF_MUST_CHECK enum lf_status lf_json_file(struct lf_json *json, struct lf_buf *text, const char *dir, const char *name,
                                          size_t max_bytes, struct lf_err *err);

#endif
