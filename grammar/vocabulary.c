#include "grammar/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/sort.h"
#include "grammar/grammar.h"
#include "grammar/walk_cache.h"

enum { CACHE_BYTES = 8 * 1024 * 1024 };

static bool text_before(const void *a, const void *b)
{
    const struct lf_token_text *x = a, *y = b;
    int order = memcmp(x->text.ptr, y->text.ptr, LF_MIN(x->text.len, y->text.len));
    if (order == 0 && x->text.len != y->text.len) return x->text.len < y->text.len;
    return order ? order < 0 : x->id < y->id;
}

/* Bytes that both begin with. */
static size_t common(struct lf_str a, struct lf_str b)
{
    size_t n = 0;
    while (n < a.len && n < b.len && a.ptr[n] == b.ptr[n]) n++;
    return n;
}

size_t lf_token_trie_count(struct lf_token_text *texts, size_t n)
{
    size_t n_nodes = 1;
    lf_sort(texts, n, sizeof *texts, text_before);
    for (size_t i = 0; i < n; i++) n_nodes += texts[i].text.len - (i ? common(texts[i - 1].text, texts[i].text) : 0);
    return n_nodes;
}

void lf_token_trie_fill(struct lf_token_trie *trie, const struct lf_token_text *texts, size_t n)
{
    uint32_t path[LF_GRAMMAR_TOKEN_BYTES + 1] = {0}; /* nodes on the way to the last text, by depth */
    struct lf_str last = {"", 0};
    trie->nodes[0] = (struct lf_trie_node_of_tokens){0};
    trie->n_nodes = 1;
    trie->n_ids = 0;
    for (size_t i = 0; i < n; i++) {
        size_t shared = common(last, texts[i].text);
        for (size_t d = last.len; d > shared; d--) trie->nodes[path[d]].next = trie->n_nodes;
        for (size_t d = shared + 1; d <= texts[i].text.len; d++) {
            path[d] = trie->n_nodes;
            trie->nodes[trie->n_nodes++] = (struct lf_trie_node_of_tokens){
                .depth = (uint16_t)d, .byte = (uint8_t)texts[i].text.ptr[d - 1], .first = trie->n_ids};
        }
        last = texts[i].text;
        trie->nodes[path[last.len]].n++;
        trie->ids[trie->n_ids++] = texts[i].id;
    }
    for (size_t d = 0; d <= last.len; d++) trie->nodes[path[d]].next = trie->n_nodes;
}

/* How many characters a plain token has; 0 where it is none. */
static int plain_characters(struct lf_str text)
{
    int n = 0;
    for (size_t i = 0; i < text.len; n++) {
        uint32_t cp;
        int len = lf_utf8_decode(text.ptr + i, text.len - i, &cp);
        if (len == 0 || cp < 0x20 || cp == '"' || cp == '\\') return 0;
        i += (size_t)len;
    }
    return n <= LF_PLAIN_CHARACTERS_N ? n : 0;
}

static bool is_word(struct lf_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t byte = (uint8_t)text.ptr[i], letter = byte | 0x20;
        if (byte < 0x80 && byte != ' ' && !(byte >= '0' && byte <= '9') && !(letter >= 'a' && letter <= 'z'))
            return false;
    }
    return lf_utf8_valid(text);
}

static void *take(struct lf_vocabulary *v, size_t n, size_t size)
{
    v->n_bytes += n * size;
    return calloc(n ? n : 1, size);
}

static bool make_trie(struct lf_vocabulary *v, struct lf_token_trie *trie, struct lf_token_text *texts, size_t n)
{
    size_t n_nodes = lf_token_trie_count(texts, n);
    trie->nodes = take(v, n_nodes, sizeof *trie->nodes);
    trie->ids = take(v, n, sizeof *trie->ids);
    if (!trie->nodes || !trie->ids) return false;
    lf_token_trie_fill(trie, texts, n);
    return true;
}

static bool is_control(struct lf_str text)
{
    return text.len > 0 && text.ptr[0] == LF_GRAMMAR_CONTROL;
}

/* Whether some grammar may allow it. */
static bool is_usable(struct lf_str text)
{
    size_t first = is_control(text) ? 1 : 0;
    return text.len > first && text.len <= LF_GRAMMAR_TOKEN_BYTES &&
           !memchr(text.ptr + first, LF_GRAMMAR_CONTROL, text.len - first);
}

static bool copy_texts(struct lf_vocabulary *v, const struct lf_str *tokens)
{
    size_t n_bytes = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++)
        if (is_usable(tokens[i])) n_bytes += tokens[i].len;
    v->bytes = take(v, n_bytes, 1);
    v->offsets = take(v, v->n_tokens + 1, sizeof *v->offsets);
    if (!v->bytes || !v->offsets) return false;
    for (uint32_t i = 0, at = 0; i < v->n_tokens; i++) {
        bool usable = is_usable(tokens[i]);
        if (usable) memcpy(v->bytes + at, tokens[i].ptr, tokens[i].len);
        if (usable) v->longest = LF_MAX(v->longest, (uint32_t)tokens[i].len);
        at += usable ? (uint32_t)tokens[i].len : 0;
        v->offsets[i + 1] = at;
    }
    return true;
}

static bool list_controls(struct lf_vocabulary *v)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++) n += is_control(lf_vocabulary_token(v, (int32_t)i));
    v->controls = take(v, n, sizeof *v->controls);
    if (!v->controls) return false;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        struct lf_str text = lf_vocabulary_token(v, (int32_t)i);
        if (!is_control(text)) continue;
        v->controls[v->n_controls++] = (struct lf_token_text){lf_str_from(text.ptr + 1, text.len - 1), (int32_t)i};
    }
    lf_sort(v->controls, n, sizeof *v->controls, text_before);
    return true;
}

/* The mask of words, and the trie of what is none. */
static bool add_words(struct lf_vocabulary *v, const struct lf_token_text *texts, size_t n)
{
    struct lf_token_text *marks = calloc(n ? n : 1, sizeof *marks);
    size_t n_marks = 0;
    v->words = take(v, v->n_words, sizeof *v->words);
    for (size_t i = 0; i < n && marks && v->words; i++) {
        if (is_word(texts[i].text))
            v->words[texts[i].id / 32] |= 1u << texts[i].id % 32;
        else
            marks[n_marks++] = texts[i];
    }
    bool made = marks && v->words && make_trie(v, &v->marks, marks, n_marks);
    free(marks);
    return made;
}

static bool make_tries(struct lf_vocabulary *v)
{
    struct lf_token_text *texts = calloc(v->n_tokens ? v->n_tokens : 1, sizeof *texts);
    size_t n = 0, n_others = 0;
    bool made = texts != NULL;
    for (int k = 1; k <= LF_PLAIN_CHARACTERS_N && made; k++) {
        v->plain[k] = take(v, v->n_words, sizeof(uint32_t));
        made = v->plain[k] != NULL;
    }
    for (uint32_t i = 0; i < v->n_tokens && made; i++) {
        struct lf_str text = lf_vocabulary_token(v, (int32_t)i);
        if (text.len && !is_control(text) && !lf_vocabulary_is_end(v, (int32_t)i))
            texts[n++] = (struct lf_token_text){text, (int32_t)i};
    }
    made = made && make_trie(v, &v->all, texts, n) && add_words(v, texts, n);
    for (size_t i = 0; i < n && made; i++) {
        int n_characters = plain_characters(texts[i].text);
        if (n_characters == 0) texts[n_others++] = texts[i];
        for (int k = n_characters; n_characters && k <= LF_PLAIN_CHARACTERS_N; k++)
            v->plain[k][texts[i].id / 32] |= 1u << texts[i].id % 32;
    }
    made = made && make_trie(v, &v->others, texts, n_others);
    free(texts);
    return made;
}

enum lf_status lf_vocabulary_create(struct lf_vocabulary **out, const struct lf_str *tokens, int n_tokens,
                                    const int32_t *ends, int n_ends, size_t cache_bytes, struct lf_err *err)
{
    if (n_tokens < 1 || n_tokens > LF_VOCAB_N)
        return lf_fail(err, LF_INVALID, "a vocabulary of %d tokens: expected 1 to %d", n_tokens, LF_VOCAB_N);
    for (int i = 0; i < n_ends; i++)
        if (ends[i] < 0 || ends[i] >= n_tokens)
            return lf_fail(err, LF_INVALID, "token %d ends a text, but there are %d tokens", ends[i], n_tokens);
    struct lf_vocabulary *v = calloc(1, sizeof *v);
    if (!v) return lf_fail(err, LF_NO_MEMORY, "no memory for the trie of a vocabulary");
    if (cache_bytes == 0) cache_bytes = CACHE_BYTES;
    v->n_tokens = (uint32_t)n_tokens;
    v->n_words = ((uint32_t)n_tokens + 31) / 32;
    v->n_ends = (uint32_t)n_ends;
    v->ends = take(v, v->n_ends, sizeof *v->ends);
    if (v->ends && n_ends) memcpy(v->ends, ends, (size_t)n_ends * sizeof *ends);
    v->cache = lf_walk_cache_create(cache_bytes, v->n_words);
    v->n_bytes += cache_bytes + sizeof *v;
    if (!v->ends || !v->cache || !copy_texts(v, tokens) || !list_controls(v) || !make_tries(v)) {
        lf_vocabulary_destroy(v);
        return lf_fail(err, LF_NO_MEMORY, "no memory for the trie of a vocabulary");
    }
    *out = v;
    return LF_OK;
}

void lf_vocabulary_set_next(struct lf_vocabulary *v, struct lf_vocabulary *next)
{
    LF_ASSERT(next->n_tokens == v->n_tokens && next->next == NULL);
    v->next = next;
}

void lf_vocabulary_destroy(struct lf_vocabulary *v)
{
    if (!v) return;
    for (int k = 0; k <= LF_PLAIN_CHARACTERS_N; k++) free(v->plain[k]);
    free(v->all.nodes);
    free(v->all.ids);
    free(v->others.nodes);
    free(v->others.ids);
    free(v->marks.nodes);
    free(v->marks.ids);
    free(v->words);
    free(v->bytes);
    free(v->offsets);
    free(v->controls);
    free(v->ends);
    lf_walk_cache_destroy(v->cache);
    free(v);
}

size_t lf_vocabulary_bytes(const struct lf_vocabulary *v)
{
    return v->n_bytes;
}

size_t lf_vocabulary_mask_words(const struct lf_vocabulary *v)
{
    return v->n_words;
}

uint32_t lf_vocabulary_controls(const struct lf_vocabulary *v, struct lf_str text, const struct lf_token_text **first)
{
    struct lf_token_text wanted = {text, 0}; /* before all of the same text, since no id is less */
    uint32_t low = 0, high = v->n_controls;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (text_before(&v->controls[mid], &wanted))
            low = mid + 1;
        else
            high = mid;
    }
    *first = v->controls + low;
    while (high < v->n_controls && lf_str_eq(v->controls[high].text, text)) high++;
    return high - low;
}

bool lf_vocabulary_has_control(const struct lf_vocabulary *v, struct lf_str text)
{
    const struct lf_token_text *first;
    return lf_vocabulary_controls(v, text, &first) > 0;
}
