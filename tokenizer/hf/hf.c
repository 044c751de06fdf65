/* Text through a tokenizer.json: added tokens in the text as it came; between them normalize, then added tokens in the
 * normalized text; between those cut into pieces and encode each. */
#include <stdlib.h>

#include "core/check.h"
#include "tokenizer/hf/hf.h"

struct hf_work {
    const struct lf_tokenizer *tok;
    struct lf_encode_work *encode;
    struct lf_regex_work regex;
    struct lf_marked text, other;
    struct lf_pretokenized pieces;
    bool specials;
};

void lf_hf_free(struct lf_hf *hf)
{
    if (!hf) return;
    lf_normalizer_deinit(&hf->normalizer);
    lf_pretokenizer_deinit(&hf->pretokenizer);
    lf_bpe_deinit(&hf->bpe);
    free(hf);
}

static enum lf_status explain(const struct hf_work *w, enum lf_status status, const char *what)
{
    status = lf_regex_explain(&w->regex, status, w->encode->err);
    return lf_encode_fail(w->encode, status, what);
}

static enum lf_status fail_grown(const struct hf_work *w, size_t n, const char *what)
{
    return lf_fail(w->encode->err, LF_CORRUPT, "%s: %zu bytes of text become more than %d times as many", what, n,
                   LF_TEXT_GROWTH);
}

static enum lf_status encode_normalized(struct hf_work *w, struct lf_str text, enum lf_place place)
{
    const struct lf_hf *hf = w->tok->hf;
    enum lf_status status = lf_pretokenizer_run(&hf->pretokenizer, &w->regex, &w->pieces, text, place);
    if (w->pieces.other_text.status == LF_LIMIT) return fail_grown(w, text.len, "pre-tokenizer");
    if (status != LF_OK) return explain(w, status, "the pre-tokenizer");
    const char *base = w->pieces.text.ptr;
    for (size_t i = 0; i < w->pieces.pieces.n; i++) {
        struct lf_piece piece = w->pieces.pieces.pieces[i];
        LF_TRY(lf_bpe_encode(&hf->bpe, &w->tok->vocab, w->encode, lf_str_from(base + piece.first, piece.len)));
    }
    return LF_OK;
}

/* The text between two added tokens of the raw text; user: for each byte whether it is a user's, or NULL. */
static enum lf_status encode_segment(struct hf_work *w, struct lf_str text, const uint8_t *user, enum lf_place place)
{
    const struct lf_tokenizer *tok = w->tok;
    struct lf_added_match match;
    size_t at = 0;
    if (text.len == 0) return LF_OK;
    lf_marked_begin(&w->text, text.len);
    lf_marked_begin(&w->other, text.len);
    lf_marked_copy(&w->text, text, (const char *)user);
    enum lf_status status = lf_marked_status(&w->text);
    if (status == LF_OK) status = lf_normalizer_run(&tok->hf->normalizer, &w->regex, &w->text, &w->other, place);
    if (lf_marked_status(&w->other) == LF_LIMIT) return fail_grown(w, text.len, "normalizer");
    if (status != LF_OK) return explain(w, status, "the normalizer");
    struct lf_str normalized = lf_buf_view(&w->text.text);
    struct lf_added_search search = {
        .text = normalized, .user = w->text.track ? (const uint8_t *)w->text.user.ptr : NULL, .specials = w->specials};
    struct lf_aho_matches *matches = &w->encode->inner_matches;
    status = lf_added_find(&tok->added, &tok->added.normalized, &search, matches, w->encode->on);
    if (status != LF_OK) return lf_encode_fail(w->encode, status, NULL);
    while (lf_added_next(&tok->added, matches, &search, at, &match)) {
        struct lf_str part = lf_str_from(normalized.ptr + at, match.first - at);
        LF_TRY(encode_normalized(w, part, at == 0 ? place : LF_PLACE_BEHIND_TOKEN));
        LF_TRY(lf_encode_push(w->encode, match.token->id));
        at = match.end;
    }
    return encode_normalized(w, lf_str_from(normalized.ptr + at, normalized.len - at),
                             at == 0 ? place : LF_PLACE_BEHIND_TOKEN);
}

static enum lf_status encode_all(struct hf_work *w, const struct lf_added_search *search)
{
    struct lf_added_match match;
    size_t at = 0;
    enum lf_place place = search->goes_on ? LF_PLACE_GOES_ON : LF_PLACE_OPENS;
    struct lf_aho_matches *matches = &w->encode->matches;
    enum lf_status status = lf_added_find(&w->tok->added, &w->tok->added.raw, search, matches, w->encode->on);
    if (status != LF_OK) return lf_encode_fail(w->encode, status, NULL);
    while (lf_added_next(&w->tok->added, matches, search, at, &match)) {
        struct lf_str segment = lf_str_from(search->text.ptr + at, match.first - at);
        LF_TRY(encode_segment(w, segment, search->user ? search->user + at : NULL, place));
        LF_TRY(lf_encode_push(w->encode, match.token->id));
        at = match.end;
        place = LF_PLACE_BEHIND_TOKEN;
    }
    struct lf_str rest = lf_str_from(search->text.ptr + at, search->text.len - at);
    return encode_segment(w, rest, search->user ? search->user + at : NULL, place);
}

enum lf_status lf_tokenizer_encode_hf(const struct lf_tokenizer *tok, struct lf_encode_work *work,
                                      const struct lf_added_search *search)
{
    struct hf_work w = {.tok = tok, .encode = work, .specials = search->specials};
    bool track = search->user && search->specials && tok->added.normalized_specials;
    struct lf_text_memory *memory = lf_work_memory(work->on);
    lf_regex_work_init(&w.regex, work->on, search->text.len);
    lf_marked_init(&w.text, track, memory);
    lf_marked_init(&w.other, track, memory);
    lf_pretokenized_init(&w.pieces, memory);
    enum lf_status status = encode_all(&w, search);
    lf_pretokenized_deinit(&w.pieces);
    lf_marked_deinit(&w.other);
    lf_marked_deinit(&w.text);
    lf_regex_work_deinit(&w.regex);
    return status;
}
