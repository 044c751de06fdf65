#include "tokenizer/config.h"

#include "core/check.h"
#include "core/file.h"

enum { CONFIG_FILE_BYTES = 16 * 1024 * 1024, ARENA_CHUNK_BYTES = 16 * 1024, ARENA_BYTES = 64 * 1024 * 1024 };

enum lf_status lf_json_file(struct lf_json *json, struct lf_buf *text, const char *dir, const char *name,
                            size_t max_bytes, struct lf_err *err)
{
    memset(json, 0, sizeof *json);
    lf_buf_init(text, max_bytes);
    LF_TRY(lf_file_read_in(text, dir, name, max_bytes, err));
    enum lf_status status = lf_json_parse(json, lf_str_without_bom(lf_buf_view(text)), &lf_json_limits_file, err);
    if (status == LF_INVALID) status = LF_CORRUPT;
    return status == LF_OK ? LF_OK : lf_fail_within(err, status, "%s", name);
}

enum lf_status lf_text_keep(struct lf_str *out, struct lf_arena *arena, struct lf_str text, struct lf_err *err)
{
    char *copy = lf_arena_strdup(arena, text);
    *out = lf_str_from(copy, copy ? text.len : 0);
    return copy ? LF_OK : lf_fail(err, LF_NO_MEMORY, "no memory for the tokenizer");
}

enum lf_status lf_json_keep(struct lf_str *out, struct lf_arena *arena, struct lf_json_value v, const char *what,
                            struct lf_err *err)
{
    struct lf_buf buf;
    if (lf_json_type(v) != LF_JSON_STRING)
        return lf_fail(err, LF_CORRUPT, "%s: a string is expected, not %s", what, lf_json_type_name(v));
    lf_buf_init(&buf, ARENA_BYTES);
    bool ok = lf_json_string(v, &buf);
    enum lf_status status = ok ? lf_text_keep(out, arena, lf_buf_view(&buf), err) : LF_NO_MEMORY;
    lf_buf_deinit(&buf);
    return status == LF_OK ? LF_OK : lf_fail(err, LF_NO_MEMORY, "%s: no memory for the text", what);
}

enum lf_status lf_json_keep_letter(struct lf_str *out, struct lf_arena *arena, struct lf_json_value v, const char *what,
                                   struct lf_err *err)
{
    LF_TRY(lf_json_keep(out, arena, v, what, err));
    if (lf_utf8_count(*out) == 1) return LF_OK;
    return lf_fail(err, LF_CORRUPT, "%s: one letter is expected, not %lld", what, (long long)lf_utf8_count(*out));
}

static enum lf_status read_flag(bool *out, struct lf_json_value object, const char *name, struct lf_err *err)
{
    struct lf_json_value v = lf_json_get(object, name);
    if (lf_json_is_absent(v) || lf_json_bool(v, out)) return LF_OK;
    return lf_fail(err, LF_CORRUPT, "added token: %s shall be true or false, not %s", name, lf_json_type_name(v));
}

enum lf_status lf_listed_token_read(struct lf_listed_token *out, struct lf_arena *arena, struct lf_json_value object,
                                    struct lf_err *err)
{
    LF_TRY(lf_json_keep(&out->text, arena, lf_json_get(object, "content"), "added token: content", err));
    LF_TRY(read_flag(&out->special, object, "special", err));
    out->normalized = !out->special;
    LF_TRY(read_flag(&out->lstrip, object, "lstrip", err));
    LF_TRY(read_flag(&out->rstrip, object, "rstrip", err));
    LF_TRY(read_flag(&out->single_word, object, "single_word", err));
    return read_flag(&out->normalized, object, "normalized", err);
}

static enum lf_status list_token(struct lf_tokenizer_config *config, const struct lf_listed_token *token,
                                 struct lf_err *err)
{
    struct lf_listed_token *kept = lf_arena_alloc(&config->arena, sizeof *kept);
    if (!kept) return lf_fail(err, LF_NO_MEMORY, "no memory for the added tokens");
    *kept = *token;
    kept->next = NULL;
    *config->tokens_end = kept;
    config->tokens_end = &kept->next;
    return LF_OK;
}

/* bos_token and its like: a string, or an object with content. Listed as a special token. */
static enum lf_status read_special(struct lf_tokenizer_config *config, struct lf_json_value v, struct lf_str *name,
                                   struct lf_err *err)
{
    struct lf_listed_token token = {.id = -1, .special = true, .named = true};
    if (lf_json_is_absent(v)) return LF_OK;
    if (lf_json_type(v) == LF_JSON_OBJECT) {
        LF_TRY(lf_listed_token_read(&token, &config->arena, v, err));
        token.special = true;
    } else {
        LF_TRY(lf_json_keep(&token.text, &config->arena, v, "special token", err));
    }
    if (token.text.len == 0) return LF_OK;
    if (name && name->len == 0) *name = token.text;
    return list_token(config, &token, err);
}

/* The named special tokens, which stand in tokenizer_config.json and special_tokens_map.json alike. */
static enum lf_status read_specials(struct lf_tokenizer_config *config, struct lf_json_value root, struct lf_err *err)
{
    static const char *const others[] = {"pad_token", "sep_token", "cls_token", "mask_token"};
    LF_TRY(read_special(config, lf_json_get(root, "bos_token"), &config->bos, err));
    LF_TRY(read_special(config, lf_json_get(root, "eos_token"), &config->eos, err));
    LF_TRY(read_special(config, lf_json_get(root, "unk_token"), &config->unk, err));
    for (size_t i = 0; i < LF_N_ELEMS(others); i++)
        LF_TRY(read_special(config, lf_json_get(root, others[i]), NULL, err));
    static const char *const lists[] = {"additional_special_tokens", "extra_special_tokens"};
    for (size_t i = 0; i < LF_N_ELEMS(lists); i++) {
        struct lf_json_value list = lf_json_get(root, lists[i]);
        bool members = lf_json_type(list) == LF_JSON_OBJECT;
        for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it))
            LF_TRY(read_special(config, members ? lf_json_member(it) : it, NULL, err));
    }
    return LF_OK;
}

static enum lf_status read_decoder_tokens(struct lf_tokenizer_config *config, struct lf_json_value list,
                                          struct lf_err *err)
{
    for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it)) {
        struct lf_listed_token token = {0};
        struct lf_str digits = lf_json_raw(it);
        if (digits.len == 0 || digits.len > 9) return lf_fail(err, LF_CORRUPT, "added_tokens_decoder: bad id");
        for (size_t i = 0; i < digits.len; i++) {
            if (digits.ptr[i] < '0' || digits.ptr[i] > '9')
                return lf_fail(err, LF_CORRUPT, "added_tokens_decoder: \"%.*s\" is no id", (int)digits.len, digits.ptr);
            token.id = token.id * 10 + (digits.ptr[i] - '0');
        }
        LF_TRY(lf_listed_token_read(&token, &config->arena, lf_json_member(it), err));
        LF_TRY(list_token(config, &token, err));
    }
    return LF_OK;
}

static enum lf_status read_answer(enum lf_answer *out, struct lf_json_value root, const char *name, struct lf_err *err)
{
    struct lf_json_value v = lf_json_get(root, name);
    bool yes;
    if (lf_json_is_absent(v)) return LF_OK;
    if (!lf_json_bool(v, &yes))
        return lf_fail(err, LF_CORRUPT, "%s shall be true or false, not %s", name, lf_json_type_name(v));
    *out = yes ? LF_ANSWER_YES : LF_ANSWER_NO;
    return LF_OK;
}

/* A string, or a list of {name, template} of which "default" counts. */
static enum lf_status read_template(struct lf_tokenizer_config *config, struct lf_json_value v, struct lf_err *err)
{
    if (lf_json_is_absent(v) || config->chat_template.len > 0) return LF_OK;
    if (lf_json_type(v) == LF_JSON_STRING)
        return lf_json_keep(&config->chat_template, &config->arena, v, "chat_template", err);
    if (lf_json_type(v) != LF_JSON_ARRAY)
        return lf_fail(err, LF_CORRUPT, "chat_template: a string or a list is expected, not %s", lf_json_type_name(v));
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it)) {
        if (!lf_json_string_is(lf_json_get(it, "name"), "default")) continue;
        return lf_json_keep(&config->chat_template, &config->arena, lf_json_get(it, "template"), "chat_template", err);
    }
    return LF_OK;
}

static enum lf_status take_config(struct lf_tokenizer_config *config, struct lf_json_value root, struct lf_err *err)
{
    config->found = true;
    LF_TRY(read_decoder_tokens(config, lf_json_get(root, "added_tokens_decoder"), err));
    LF_TRY(read_specials(config, root, err));
    LF_TRY(read_answer(&config->add_bos, root, "add_bos_token", err));
    LF_TRY(read_answer(&config->add_eos, root, "add_eos_token", err));
    LF_TRY(read_answer(&config->legacy, root, "legacy", err));
    LF_TRY(read_answer(&config->add_prefix_space, root, "add_prefix_space", err));
    struct lf_json_value name = lf_json_get(root, "tokenizer_class");
    if (!lf_json_is_absent(name))
        LF_TRY(lf_json_keep(&config->class_name, &config->arena, name, "tokenizer_class", err));
    return read_template(config, lf_json_get(root, "chat_template"), err);
}

/* added_tokens.json: {"text": id, …}. */
static enum lf_status take_added(struct lf_tokenizer_config *config, struct lf_json_value root, struct lf_err *err)
{
    if (config->tokens && config->tokens->id >= 0) return LF_OK; /* added_tokens_decoder says more */
    for (struct lf_json_value it = lf_json_first(root); lf_json_more(root, it); it = lf_json_next(root, it)) {
        struct lf_listed_token token = {.id = -1};
        LF_TRY(lf_json_keep(&token.text, &config->arena, it, "added token", err));
        if (!lf_json_int64(lf_json_member(it), &token.id) || token.id < 0)
            return lf_fail(err, LF_CORRUPT, "the id of an added token shall be a number, not %s",
                           lf_json_type_name(lf_json_member(it)));
        LF_TRY(list_token(config, &token, err));
    }
    return LF_OK;
}

static enum lf_status take_template(struct lf_tokenizer_config *config, struct lf_json_value root, struct lf_err *err)
{
    return read_template(config, lf_json_get(root, "chat_template"), err);
}

typedef enum lf_status take_fn(struct lf_tokenizer_config *config, struct lf_json_value root, struct lf_err *err);

static enum lf_status read_file(struct lf_tokenizer_config *config, const char *dir, const char *name, take_fn *take,
                                struct lf_err *err)
{
    struct lf_json json;
    struct lf_buf text;
    enum lf_status status = lf_json_file(&json, &text, dir, name, CONFIG_FILE_BYTES, err);
    if (status == LF_OK) {
        struct lf_json_value root = lf_json_root(&json);
        if (lf_json_type(root) != LF_JSON_OBJECT)
            status = lf_fail(err, LF_CORRUPT, "an object is expected, not %s", lf_json_type_name(root));
        else
            status = take(config, root, err);
        if (status != LF_OK) lf_fail_within(err, status, "%s", name);
    }
    lf_json_deinit(&json);
    lf_buf_deinit(&text);
    return status == LF_NOT_FOUND ? LF_OK : status;
}

static enum lf_status read_jinja(struct lf_tokenizer_config *config, const char *dir, struct lf_err *err)
{
    struct lf_buf text;
    lf_buf_init(&text, LF_TEMPLATE_SOURCE_BYTES);
    enum lf_status status = lf_file_read_in(&text, dir, "chat_template.jinja", LF_TEMPLATE_SOURCE_BYTES, err);
    if (status == LF_OK)
        status = lf_text_keep(&config->chat_template, &config->arena, lf_str_without_bom(lf_buf_view(&text)), err);
    lf_buf_deinit(&text);
    return status == LF_NOT_FOUND ? LF_OK : status;
}

enum lf_status lf_tokenizer_config_read(struct lf_tokenizer_config *config, const char *dir, struct lf_err *err)
{
    *config = (struct lf_tokenizer_config){.add_bos = LF_ANSWER_NONE,
                                           .add_eos = LF_ANSWER_NONE,
                                           .legacy = LF_ANSWER_NONE,
                                           .add_prefix_space = LF_ANSWER_NONE};
    lf_arena_init(&config->arena, ARENA_CHUNK_BYTES, ARENA_BYTES);
    config->tokens_end = &config->tokens;
    enum lf_status status;
    LF_TRY_GOTO(read_jinja(config, dir, err), fail);
    LF_TRY_GOTO(read_file(config, dir, "tokenizer_config.json", take_config, err), fail);
    LF_TRY_GOTO(read_file(config, dir, "special_tokens_map.json", read_specials, err), fail);
    LF_TRY_GOTO(read_file(config, dir, "added_tokens.json", take_added, err), fail);
    LF_TRY_GOTO(read_file(config, dir, "chat_template.json", take_template, err), fail);
    return LF_OK;
fail:
    lf_tokenizer_config_deinit(config);
    return status;
}

void lf_tokenizer_config_deinit(struct lf_tokenizer_config *config)
{
    lf_arena_deinit(&config->arena);
    memset(config, 0, sizeof *config);
}
