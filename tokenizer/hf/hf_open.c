/* Opening a tokenizer.json: its parts, each checked, and the added tokens of all files as one list. */
#include <stdlib.h>

#include "core/check.h"
#include "tokenizer/hf/hf.h"
#include "tokenizer/vocab_merges.h"

struct added_list {
    struct lf_arena arena; /* owns the list */
    struct lf_listed_token *tokens;
    int64_t max_id;
    uint64_t n, n_bytes;
};

static void count(struct added_list *list, const struct lf_listed_token *token)
{
    if (token->id > list->max_id) list->max_id = token->id;
    list->n++;
    list->n_bytes += token->text.len;
}

/* "added_tokens", then those of the other files, as one list. */
static enum lf_status read_added(struct added_list *list, struct lf_json_value v,
                                 const struct lf_tokenizer_config *config, struct lf_err *err)
{
    struct lf_listed_token **end = &list->tokens;
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it)) {
        struct lf_listed_token *token = lf_arena_alloc(&list->arena, sizeof *token);
        if (!token) return lf_fail(err, LF_NO_MEMORY, "no memory for the added tokens");
        LF_TRY(lf_listed_token_read(token, &list->arena, it, err));
        if (!lf_json_int64(lf_json_get(it, "id"), &token->id) || token->id < 0 || token->id >= LF_VOCAB_N)
            return lf_fail(err, LF_CORRUPT, "added token \"%.*s\": an id from 0 to %d is expected",
                           (int)LF_MIN(token->text.len, 64u), token->text.ptr, LF_VOCAB_N - 1);
        count(list, token);
        *end = token;
        end = &token->next;
    }
    for (const struct lf_listed_token *t = config->tokens; t; t = t->next) {
        if (t->id >= LF_VOCAB_N)
            return lf_fail(err, LF_CORRUPT, "added token id %lld is out of range", (long long)t->id);
        count(list, t);
    }
    *end = config->tokens;
    return LF_OK;
}

/* What an added token looks like in the normalized text. */
static enum lf_status normalized_text(const struct lf_hf *hf, struct lf_marked *text, struct lf_marked *other,
                                      struct lf_str content, struct lf_err *err)
{
    struct lf_regex_work work;
    lf_regex_work_init(&work, NULL, content.len);
    lf_marked_begin(text, content.len);
    lf_marked_begin(other, content.len);
    lf_marked_append(text, content, false);
    enum lf_status status = lf_normalizer_run(&hf->normalizer, &work, text, other, LF_PLACE_OPENS);
    lf_regex_work_deinit(&work);
    return status == LF_OK ? LF_OK : lf_fail(err, status, "an added token cannot be normalized");
}

static enum lf_status add_one(struct lf_tokenizer *tok, struct lf_added_index *index, const struct lf_listed_token *t,
                              struct lf_marked *text, struct lf_marked *other, struct lf_err *err)
{
    int32_t id;
    LF_TRY(lf_tokenizer_place_listed(tok, t, false, &id, err));
    if (id < 0) return LF_OK;
    struct lf_added_token token = {.id = id,
                                   .special = t->special,
                                   .named = t->named,
                                   .lstrip = t->lstrip,
                                   .rstrip = t->rstrip,
                                   .single_word = t->single_word,
                                   .normalized = t->normalized};
    struct lf_str find = t->text;
    if (t->normalized && tok->hf->normalizer.n_steps > 0) {
        LF_TRY(normalized_text(tok->hf, text, other, t->text, err));
        find = lf_buf_view(&text->text);
    }
    if (find.len == 0) return LF_OK; /* normalized away: it can never be met */
    return lf_tokenizer_match(tok, index, &token, find, err);
}

static enum lf_status add_tokens(struct lf_tokenizer *tok, const struct added_list *list, struct lf_err *err)
{
    struct lf_added_index index = {calloc((size_t)tok->vocab.n_ids_cap, sizeof *index.by_id)};
    struct lf_marked text, other;
    enum lf_status status = LF_OK;
    if (!index.by_id) return lf_fail(err, LF_NO_MEMORY, "no memory for the added tokens");
    lf_marked_init(&text, false, NULL);
    lf_marked_init(&other, false, NULL);
    for (const struct lf_listed_token *t = list->tokens; status == LF_OK && t; t = t->next)
        status = add_one(tok, &index, t, &text, &other, err);
    lf_marked_deinit(&text);
    lf_marked_deinit(&other);
    free(index.by_id);
    return status == LF_OK ? lf_added_finish(&tok->added, err) : status;
}

static enum lf_status open_model(struct lf_tokenizer *tok, struct lf_json_value model, const struct added_list *list,
                                 struct lf_err *err)
{
    struct lf_json_value type = lf_json_get(model, "type");
    bool untyped = lf_json_is_absent(type) && lf_json_type(lf_json_get(model, "merges")) == LF_JSON_ARRAY;
    if (!untyped && !lf_json_string_is(type, "BPE")) {
        struct lf_str raw = lf_json_raw(type);
        return lf_fail(err, LF_UNSUPPORTED, "model \"%.*s\" is not implemented (BPE is)", (int)LF_MIN(raw.len, 64u),
                       raw.ptr);
    }
    return lf_bpe_open(&tok->hf->bpe, &tok->vocab, model, list->max_id, list->n, list->n_bytes, err);
}

static enum lf_status open_parts(struct lf_tokenizer *tok, struct lf_json_value root, struct added_list *list,
                                 const struct lf_tokenizer_config *config, struct lf_err *err)
{
    if (lf_json_type(root) != LF_JSON_OBJECT)
        return lf_fail(err, LF_CORRUPT, "an object is expected, not %s", lf_json_type_name(root));
    LF_TRY(read_added(list, lf_json_get(root, "added_tokens"), config, err));
    LF_TRY(lf_normalizer_open(&tok->hf->normalizer, &tok->arena, lf_json_get(root, "normalizer"), "normalizer", err));
    LF_TRY(lf_pretokenizer_open(&tok->hf->pretokenizer, &tok->arena, lf_json_get(root, "pre_tokenizer"),
                                "pre_tokenizer", err));
    LF_TRY(lf_hf_open_decoder(tok, lf_json_get(root, "decoder"), err));
    LF_TRY(open_model(tok, lf_json_get(root, "model"), list, err));
    LF_TRY(add_tokens(tok, list, err));
    return lf_hf_open_post(tok, lf_json_get(root, "post_processor"), err);
}

/* add_bos_token and add_eos_token, where given, decide over the template. */
static void settle_around(struct lf_tokenizer *tok, const struct lf_tokenizer_config *config)
{
    bool bos_there = tok->n_before > 0 && tok->before[0] == tok->bos;
    bool eos_there = tok->n_after > 0 && tok->after[tok->n_after - 1] == tok->eos;
    if (config->add_bos == LF_ANSWER_YES && tok->bos >= 0 && !bos_there) {
        tok->before = &tok->bos;
        tok->n_before = 1;
    }
    if (config->add_bos == LF_ANSWER_NO && bos_there) {
        tok->before++;
        tok->n_before--;
    }
    if (config->add_eos == LF_ANSWER_YES && tok->eos >= 0 && !eos_there) {
        tok->after = &tok->eos;
        tok->n_after = 1;
    }
    if (config->add_eos == LF_ANSWER_NO && eos_there) tok->n_after--;
}

/* From a tokenizer.json, which is called so or else. */
static enum lf_status open_root(struct lf_tokenizer *tok, struct lf_json_value root,
                                const struct lf_tokenizer_config *config, const char *name, struct lf_err *err)
{
    struct added_list list = {.max_id = -1};
    lf_arena_init(&list.arena, 64 * 1024, LF_JSON_FILE_BYTES);
    tok->hf = calloc(1, sizeof *tok->hf);
    enum lf_status status =
        tok->hf ? open_parts(tok, root, &list, config, err) : lf_fail(err, LF_NO_MEMORY, "no memory for a tokenizer");
    lf_arena_deinit(&list.arena);
    if (status != LF_OK) return lf_fail_within(err, status, "%s", name);
    tok->bos = lf_vocab_find(&tok->vocab, config->bos);
    tok->eos = lf_vocab_find(&tok->vocab, config->eos);
    LF_TRY(lf_text_keep(&tok->bos_text, &tok->arena, config->bos, err));
    LF_TRY(lf_text_keep(&tok->eos_text, &tok->arena, config->eos, err));
    settle_around(tok, config);
    return LF_OK;
}

enum lf_status lf_tokenizer_open_hf(struct lf_tokenizer *tok, const char *dir, const struct lf_tokenizer_config *config,
                                    struct lf_err *err)
{
    struct lf_json json;
    struct lf_buf text;
    enum lf_status status = lf_json_file(&json, &text, dir, "tokenizer.json", LF_JSON_FILE_BYTES, err);
    if (status == LF_OK) status = open_root(tok, lf_json_root(&json), config, "tokenizer.json", err);
    lf_json_deinit(&json);
    lf_buf_deinit(&text);
    return status;
}

enum lf_status lf_tokenizer_open_vocab_merges(struct lf_tokenizer *tok, const char *dir,
                                              const struct lf_tokenizer_config *config, struct lf_err *err)
{
    const char *name = "vocab.json and merges.txt";
    struct lf_json json = {0};
    struct lf_buf text;
    lf_buf_init(&text, 2 * (size_t)LF_JSON_FILE_BYTES);
    enum lf_status status = lf_vocab_merges_read(&text, dir, config, err);
    if (status == LF_OK) {
        status = lf_json_parse(&json, lf_buf_view(&text), &lf_json_limits_file, err);
        if (status == LF_INVALID) status = LF_CORRUPT;
        if (status != LF_OK) lf_fail_within(err, status, "%s", name);
    }
    if (status == LF_OK) status = open_root(tok, lf_json_root(&json), config, name, err);
    lf_json_deinit(&json);
    lf_buf_deinit(&text);
    return status;
}
