#include "tokenizer/added.h"

#include <stdlib.h>

#include "tokenizer/unicode.h"

void lf_added_deinit(struct lf_added *added)
{
    free(added->tokens);
    lf_buf_deinit(&added->texts);
    lf_trie_deinit(&added->raw);
    lf_trie_deinit(&added->normalized);
    memset(added, 0, sizeof *added);
}

enum lf_status lf_added_put(struct lf_added *added, const struct lf_added_token *token, struct lf_str text,
                            struct lf_err *err)
{
    if (text.len == 0 || text.len > LF_TOKEN_BYTES)
        return lf_fail(err, LF_CORRUPT, "added token %d has a text of %zu bytes, 1 to %d are expected", token->id,
                       text.len, LF_TOKEN_BYTES);
    if (added->n_tokens == added->tokens_cap) {
        int32_t cap = added->tokens_cap ? added->tokens_cap * 2 : 16;
        struct lf_added_token *tokens = cap > LF_VOCAB_N ? NULL : realloc(added->tokens, (size_t)cap * sizeof *tokens);
        if (!tokens) return lf_fail(err, LF_NO_MEMORY, "no memory for %d added tokens", cap);
        added->tokens = tokens;
        added->tokens_cap = cap;
    }
    if (added->n_tokens == 0) lf_buf_init(&added->texts, UINT32_MAX);
    struct lf_added_token *put = &added->tokens[added->n_tokens];
    *put = *token;
    put->text_off = (uint32_t)added->texts.len;
    put->text_len = (uint32_t)text.len;
    lf_buf_str(&added->texts, text);
    if (added->texts.status != LF_OK) return lf_fail(err, added->texts.status, "no memory for the added tokens");
    added->n_tokens++;
    if (token->normalized && token->special) added->normalized_specials = true;
    return LF_OK;
}

static enum lf_status build(const struct lf_added *added, struct lf_trie *trie, bool normalized,
                            struct lf_trie_entry *entries, struct lf_err *err)
{
    size_t n = 0;
    for (int32_t i = 0; i < added->n_tokens; i++) {
        const struct lf_added_token *token = &added->tokens[i];
        if (token->normalized != normalized) continue;
        entries[n++] = (struct lf_trie_entry){lf_str_from(added->texts.ptr + token->text_off, token->text_len), i};
    }
    return lf_trie_build(trie, entries, n, err);
}

enum lf_status lf_added_finish(struct lf_added *added, struct lf_err *err)
{
    if (added->n_tokens == 0) return LF_OK;
    struct lf_trie_entry *entries = malloc((size_t)added->n_tokens * sizeof *entries);
    if (!entries) return lf_fail(err, LF_NO_MEMORY, "no memory for %d added tokens", added->n_tokens);
    enum lf_status status = build(added, &added->raw, false, entries, err);
    if (status == LF_OK) status = build(added, &added->normalized, true, entries, err);
    free(entries);
    lf_buf_deinit(&added->texts);
    return status;
}

static bool word_before(struct lf_str text, size_t at)
{
    uint32_t cp;
    size_t first = lf_utf8_before(text, at);
    return first < at && lf_utf8_decode(text.ptr + first, at - first, &cp) > 0 && lf_unicode_is_word(cp);
}

static bool word_at(struct lf_str text, size_t at)
{
    uint32_t cp;
    return at < text.len && lf_utf8_decode(text.ptr + at, text.len - at, &cp) > 0 && lf_unicode_is_word(cp);
}

static bool allowed(const struct lf_added_search *search, const struct lf_added_token *token, size_t first, size_t end)
{
    if (token->special && !search->specials) return false;
    if (token->special && search->user && memchr(search->user + first, 1, end - first)) return false;
    return !token->single_word || (!word_before(search->text, first) && !word_at(search->text, end));
}

static size_t strip_left(struct lf_str text, size_t at, size_t from)
{
    while (at > from) {
        uint32_t cp;
        size_t before = lf_utf8_before(text, at);
        if (before < from || !lf_utf8_decode(text.ptr + before, at - before, &cp) || !lf_unicode_is_space(cp)) break;
        at = before;
    }
    return at;
}

static size_t strip_right(struct lf_str text, size_t at)
{
    uint32_t cp;
    int n;
    while (at < text.len && (n = lf_utf8_decode(text.ptr + at, text.len - at, &cp)) > 0 && lf_unicode_is_space(cp))
        at += (size_t)n;
    return at;
}

/* The longest allowed token that begins at first; NULL if none does. */
static const struct lf_added_token *longest_at(const struct lf_added *added, const struct lf_trie *trie,
                                               const struct lf_added_search *search, size_t first, size_t *end)
{
    const struct lf_added_token *best = NULL;
    uint32_t node = 0;
    for (size_t i = first; i < search->text.len; i++) {
        node = lf_trie_step(trie, node, (uint8_t)search->text.ptr[i]);
        if (!node) break;
        int32_t token = trie->nodes[node].value;
        if (token >= 0 && allowed(search, &added->tokens[token], first, i + 1)) {
            best = &added->tokens[token];
            *end = i + 1;
        }
    }
    return best;
}

bool lf_added_next(const struct lf_added *added, const struct lf_trie *trie, const struct lf_added_search *search,
                   size_t from, struct lf_added_match *out)
{
    if (trie->n_nodes == 0) return false;
    for (size_t i = from; i < search->text.len; i++) {
        if (!trie->root[(uint8_t)search->text.ptr[i]]) continue;
        size_t end = i;
        const struct lf_added_token *token = longest_at(added, trie, search, i, &end);
        if (!token) continue;
        out->first = token->lstrip ? strip_left(search->text, i, from) : i;
        out->end = token->rstrip ? strip_right(search->text, end) : end;
        out->token = token;
        return true;
    }
    return false;
}

uint64_t lf_added_bytes(const struct lf_added *added)
{
    return (uint64_t)added->tokens_cap * sizeof *added->tokens + lf_trie_bytes(&added->raw) +
           lf_trie_bytes(&added->normalized);
}
