/* See bad_words.h. */
#include "server/http/api/bad_words.h"

#include "core/check.h"
#include "core/work.h"

enum lf_status lf_bad_words_read(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    struct lf_ask *ask = r->ask;
    if (lf_json_type(v) != LF_JSON_ARRAY) return lf_ask_expected(r, name, v, "an array of strings");
    if (lf_json_len(v) > LF_BAD_WORDS_N)
        return lf_refuse(r->err, 400, name, "invalid_value", "%s: at most %d strings, got %u.", name, LF_BAD_WORDS_N,
                         lf_json_len(v));
    ask->bad_words = lf_arena_array(&ask->arena, (size_t)lf_json_len(v) + 1, sizeof *ask->bad_words);
    if (!ask->bad_words) return lf_refuse_work(r->err, LF_NO_MEMORY);
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it)) {
        struct lf_str *word = &ask->bad_words[ask->n_bad_words];
        if (lf_json_type(it) != LF_JSON_STRING) return lf_ask_expected(r, name, v, "an array of strings");
        LF_TRY(lf_ask_text(ask, word, it, name, r->err));
        if (word->len == 0 || word->len > LF_BAD_WORD_BYTES)
            return lf_refuse(r->err, 400, name, "invalid_value", "%s: expected strings of 1 to %d bytes, got %zu.",
                             name, LF_BAD_WORD_BYTES, word->len);
        ask->n_bad_words++;
    }
    return LF_OK;
}

/* One spelling behind the others, its length before it; *at: where it stands. */
static enum lf_status add(struct lf_ids *out, size_t *at, struct lf_str text, const struct lf_ask *ask,
                          const struct lf_prompt_source *source, struct lf_api_err *err)
{
    struct lf_err why = {0};
    unsigned flags = LF_ENCODE_GOES_ON | (ask->parse_special ? LF_ENCODE_SPECIALS : 0u);
    *at = out->n;
    if (lf_ids_push(out, 0) != LF_OK) return lf_refuse_work(err, LF_NO_MEMORY);
    enum lf_status status = lf_tokenizer_encode(source->tok, out, text, NULL, 0, flags, 0, source->work, &why);
    if (status == LF_NO_MEMORY || status == LF_CANCELLED || status == LF_TIMEOUT) return lf_refuse_work(err, status);
    if (status != LF_OK) return lf_refuse(err, 400, "bad_words", "invalid_value", "bad_words: %s", why.message);
    size_t n = out->n - *at - 1;
    if (n == 0) out->n = *at; /* nothing spells it, so it cannot come */
    if (n > 0) out->ids[*at] = (int32_t)n;
    return LF_OK;
}

static bool are_equal(const struct lf_ids *ids, size_t a, size_t b)
{
    size_t n = (size_t)ids->ids[a] + 1;
    return ids->ids[b] == ids->ids[a] && memcmp(ids->ids + a, ids->ids + b, n * sizeof *ids->ids) == 0;
}

static enum lf_status add_word(struct lf_ids *out, struct lf_str word, const struct lf_ask *ask,
                               const struct lf_prompt_source *source, struct lf_api_err *err)
{
    char spaced[1 + LF_BAD_WORD_BYTES] = " ";
    struct lf_str core = lf_str_trim(word);
    size_t first, second;
    if (core.len == 0) return add(out, &first, word, ask, source, err); /* white space alone is meant as it is */
    struct lf_str bare = lf_str_from(core.ptr, (size_t)(word.ptr + word.len - core.ptr));
    LF_TRY(add(out, &first, bare, ask, source, err));
    memcpy(spaced + 1, bare.ptr, bare.len);
    LF_TRY(add(out, &second, lf_str_from(spaced, bare.len + 1), ask, source, err));
    if (second > first && out->n > second && are_equal(out, first, second)) out->n = second;
    return LF_OK;
}

enum lf_status lf_bad_words_encode(struct lf_ask *ask, const struct lf_prompt_source *source, struct lf_api_err *err)
{
    struct lf_ids ids = {.memory = lf_work_memory(source->work)};
    enum lf_status status = LF_OK;
    for (int i = 0; i < ask->n_bad_words && status == LF_OK; i++)
        status = add_word(&ids, ask->bad_words[i], ask, source, err);
    int32_t *copy = status == LF_OK && ids.n ? lf_arena_array(&ask->arena, ids.n, sizeof *copy) : NULL;
    if (status == LF_OK && ids.n && !copy) status = lf_refuse_work(err, LF_NO_MEMORY);
    if (copy) {
        memcpy(copy, ids.ids, ids.n * sizeof *copy);
        ask->bad_ids = copy;
        ask->n_bad_ids = (int)ids.n;
    }
    lf_ids_deinit(&ids);
    return status;
}
