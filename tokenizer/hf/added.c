#include "tokenizer/hf/added.h"

#include <stdlib.h>

#include "core/check.h"
#include "core/work.h"
#include "tokenizer/unicode.h"

enum { CHECK_BYTES = 4096 };

static void set_deinit(struct lf_added_set *set)
{
    lf_aho_deinit(&set->aho);
    for (int c = 0; c < LF_ADDED_CLASSES_N; c++) free(set->links[c]);
    memset(set, 0, sizeof *set);
}

void lf_added_deinit(struct lf_added *added)
{
    free(added->tokens);
    lf_buf_deinit(&added->texts);
    set_deinit(&added->raw);
    set_deinit(&added->normalized);
    memset(added, 0, sizeof *added);
}

enum lf_status lf_added_insert(struct lf_added *added, const struct lf_added_token *token, struct lf_str text,
                               struct lf_err *err)
{
    LF_ASSERT(text.len > 0);
    if (text.len > LF_TOKEN_BYTES)
        return lf_fail(err, LF_CORRUPT, "added token %d has a text of %zu bytes, at most %d are expected", token->id,
                       text.len, LF_TOKEN_BYTES);
    if (added->n_tokens == added->tokens_cap) {
        int32_t cap = added->tokens_cap ? added->tokens_cap * 2 : 16;
        struct lf_added_token *tokens = realloc(added->tokens, (size_t)cap * sizeof *tokens);
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

static int class_of(const struct lf_added_token *token)
{
    return (token->special ? LF_ADDED_SPECIAL : 0) | (token->single_word ? LF_ADDED_WORD : 0);
}

/* The class of the token that ends the node, -1 if none does. */
static int class_at(const struct lf_added *added, const struct lf_added_set *set, uint32_t node)
{
    int32_t value = node ? lf_aho_value(&set->aho, node) : -1;
    return value >= 0 ? class_of(&added->tokens[value]) : -1;
}

/* For each node, one of the tokens that its letters are the end of. */
static void find_tails(const struct lf_aho *aho, int32_t *tails)
{
    const struct lf_trie *trie = &aho->trie;
    for (uint32_t node = trie->n_nodes; node-- > 1;) {
        int32_t value = trie->nodes[node].value;
        tails[node] = value >= 0 ? value : tails[trie->nodes[node].first];
    }
}

/* Whether a word goes on behind the token of node `inner`, the beginning of the letters of node, which end token. */
static bool goes_on(const struct lf_added *added, const struct lf_aho *aho, uint32_t inner, uint32_t node,
                    int32_t token)
{
    const struct lf_added_token *whole = &added->tokens[token];
    struct lf_str text = lf_str_from(added->texts.ptr + whole->text_off, whole->text_len);
    return word_at(text, text.len - lf_aho_len(aho, node) + lf_aho_len(aho, inner));
}

static enum lf_status link_class(const struct lf_added *added, struct lf_added_set *set, int class, struct lf_err *err)
{
    const struct lf_aho *aho = &set->aho;
    uint32_t n = aho->trie.n_nodes, *links = malloc(n * sizeof *links);
    int32_t *tails = class & LF_ADDED_WORD ? malloc(n * sizeof *tails) : NULL;
    set->links[class] = links;
    if (!links || ((class & LF_ADDED_WORD) && !tails)) {
        free(tails);
        return lf_fail(err, LF_NO_MEMORY, "no memory for %d added tokens", added->n_tokens);
    }
    if (tails) find_tails(aho, tails);
    links[0] = 0;
    for (uint32_t node = 1; node < n; node++) {
        uint32_t fail = aho->fail[node], self = tails ? fail : node;
        bool here = class_at(added, set, self) == class && !(tails && goes_on(added, aho, fail, node, tails[node]));
        links[node] = here ? self : links[fail];
    }
    free(tails);
    return LF_OK;
}

static enum lf_status build(const struct lf_added *added, struct lf_added_set *set, bool normalized,
                            struct lf_trie_entry *entries, struct lf_err *err)
{
    size_t n = 0;
    bool there[LF_ADDED_CLASSES_N] = {false};
    for (int32_t i = 0; i < added->n_tokens; i++) {
        const struct lf_added_token *token = &added->tokens[i];
        if (token->normalized != normalized) continue;
        entries[n++] = (struct lf_trie_entry){lf_str_from(added->texts.ptr + token->text_off, token->text_len), i};
        there[class_of(token)] = true;
    }
    LF_TRY(lf_aho_build(&set->aho, entries, n, err));
    for (int class = 0; class < LF_ADDED_CLASSES_N; class ++) {
        if (there[class]) LF_TRY(link_class(added, set, class, err));
    }
    return LF_OK;
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

struct finder {
    const struct lf_added *added;
    const struct lf_added_set *set;
    const struct lf_added_search *search;
    const struct lf_added_token *best;
};

/* The longest token of a class that may stand at `at`, where the automaton is in node. */
static void offer(struct finder *f, int class, uint32_t node, size_t at)
{
    const uint32_t *links = f->set->links[class];
    if (!links || !node) return;
    uint32_t end = links[node];
    if (class & LF_ADDED_WORD) {
        struct lf_str text = f->search->text;
        if (word_before(text, at)) return;
        bool whole = class_at(f->added, f->set, node) == class;
        if (whole && !word_at(text, at + lf_aho_len(&f->set->aho, node))) end = node;
    }
    if (!end) return;
    const struct lf_added_token *token = &f->added->tokens[lf_aho_value(&f->set->aho, end)];
    if (!f->best || token->text_len > f->best->text_len) f->best = token;
}

enum lf_status lf_added_find(const struct lf_added *added, const struct lf_added_set *set,
                             const struct lf_added_search *search, struct lf_aho_matches *matches, struct lf_work *work)
{
    struct finder f = {added, set, search, NULL};
    uint32_t node = 0, own = 0; /* own: of the bytes since the last one of a user */
    matches->n = 0;
    for (size_t i = lf_aho_is_empty(&set->aho) ? 0 : search->text.len; i-- > 0;) {
        if (i % CHECK_BYTES == 0) LF_TRY(lf_work_step(work, CHECK_BYTES));
        uint8_t byte = (uint8_t)search->text.ptr[i];
        if (!node && !set->aho.trie.root[byte]) continue; /* most bytes: no token ends with them */
        node = lf_aho_step(&set->aho, node, byte);
        if (search->user) own = search->user[i] ? 0 : lf_aho_step(&set->aho, own, byte);
        if (!lf_aho_first(&set->aho, node)) continue;
        f.best = NULL;
        offer(&f, 0, node, i);
        offer(&f, LF_ADDED_WORD, node, i);
        if (search->specials) {
            offer(&f, LF_ADDED_SPECIAL, search->user ? own : node, i);
            offer(&f, LF_ADDED_SPECIAL | LF_ADDED_WORD, search->user ? own : node, i);
        }
        if (f.best) LF_TRY(lf_aho_matches_append(matches, i, f.best->text_len, (int32_t)(f.best - added->tokens)));
    }
    return LF_OK;
}

bool lf_added_next(const struct lf_added *added, struct lf_aho_matches *matches, const struct lf_added_search *search,
                   size_t from, struct lf_added_match *out)
{
    while (matches->n > 0 && matches->at[matches->n - 1].first < from) matches->n--;
    if (matches->n == 0) return false;
    struct lf_aho_match at = matches->at[--matches->n];
    const struct lf_added_token *token = &added->tokens[at.value];
    size_t end = at.first + at.len;
    out->first = token->lstrip ? strip_left(search->text, at.first, from) : at.first;
    out->end = token->rstrip ? strip_right(search->text, end) : end;
    out->token = token;
    return true;
}
