#include "tokenizer/aho_corasick.h"

#include <stdlib.h>

#include "core/check.h"
#include "core/text_memory.h"
#include "core/work.h"

enum { CHECK_BYTES = 4096 };

/* The entries with their texts backwards, in memory of their own. */
static enum lf_status reverse(struct lf_trie_entry **out, char **bytes, const struct lf_trie_entry *entries, size_t n,
                              struct lf_err *err)
{
    size_t n_bytes = 0, at = 0;
    for (size_t i = 0; i < n; i++) n_bytes += entries[i].text.len;
    *bytes = malloc(n_bytes + 1);
    *out = malloc((n + 1) * sizeof **out);
    if (!*bytes || !*out) return lf_fail(err, LF_NO_MEMORY, "no memory for %zu texts", n);
    for (size_t i = 0; i < n; i++) {
        struct lf_str text = entries[i].text;
        for (size_t k = 0; k < text.len; k++) (*bytes)[at + k] = text.ptr[text.len - 1 - k];
        (*out)[i] = (struct lf_trie_entry){lf_str_from(*bytes + at, text.len), entries[i].value};
        at += text.len;
    }
    return LF_OK;
}

/* Nodes stand breadth first, so those that a node's links lead to have theirs already. */
static void link_nodes(struct lf_aho *aho)
{
    const struct lf_trie *trie = &aho->trie;
    aho->fail[0] = aho->ends[0] = 0;
    aho->lens[0] = 0;
    for (uint32_t node = 0; node < trie->n_nodes; node++) {
        const struct lf_trie_node *at = &trie->nodes[node];
        for (uint32_t child = at->first; child < at->first + at->n; child++) {
            uint32_t fail = node ? lf_aho_step(aho, aho->fail[node], trie->nodes[child].byte) : 0;
            aho->fail[child] = fail;
            aho->lens[child] = (uint16_t)(aho->lens[node] + 1);
            aho->ends[child] = trie->nodes[child].value >= 0 ? child : aho->ends[fail];
        }
    }
}

enum lf_status lf_aho_build(struct lf_aho *aho, const struct lf_trie_entry *entries, size_t n, struct lf_err *err)
{
    struct lf_trie_entry *backwards = NULL;
    char *bytes = NULL;
    memset(aho, 0, sizeof *aho);
    if (n == 0) return LF_OK;
    enum lf_status status = reverse(&backwards, &bytes, entries, n, err);
    if (status == LF_OK) status = lf_trie_build(&aho->trie, backwards, n, err);
    if (status == LF_OK) {
        aho->fail = malloc(aho->trie.n_nodes * sizeof *aho->fail);
        aho->ends = malloc(aho->trie.n_nodes * sizeof *aho->ends);
        aho->lens = malloc(aho->trie.n_nodes * sizeof *aho->lens);
        if (aho->fail && aho->ends && aho->lens)
            link_nodes(aho);
        else
            status = lf_fail(err, LF_NO_MEMORY, "no memory for %zu texts", n);
    }
    free(backwards);
    free(bytes);
    if (status != LF_OK) lf_aho_deinit(aho);
    return status;
}

void lf_aho_deinit(struct lf_aho *aho)
{
    lf_trie_deinit(&aho->trie);
    free(aho->fail);
    free(aho->ends);
    free(aho->lens);
    memset(aho, 0, sizeof *aho);
}

enum lf_status lf_aho_nested(const struct lf_aho *aho, uint32_t *out, struct lf_err *err)
{
    uint32_t n = aho->trie.n_nodes, *counts = calloc((size_t)n + 1, sizeof *counts);
    if (!counts) return lf_fail(err, LF_NO_MEMORY, "no memory for %u nodes", n);
    *out = 0;
    for (uint32_t node = 1; node < n; node++) {
        counts[node] = counts[aho->fail[node]] + (aho->trie.nodes[node].value >= 0);
        *out = LF_MAX(*out, counts[node]);
    }
    free(counts);
    return LF_OK;
}

void lf_aho_matches_deinit(struct lf_aho_matches *matches)
{
    lf_text_free(matches->memory, matches->at);
    *matches = (struct lf_aho_matches){0};
}

enum lf_status lf_aho_matches_append(struct lf_aho_matches *matches, size_t first, size_t len, int32_t value)
{
    if (matches->n == matches->cap) {
        size_t cap = matches->cap ? matches->cap * 2 : 64;
        struct lf_aho_match *at = lf_text_realloc(matches->memory, matches->at, cap * sizeof *at);
        if (!at) return LF_NO_MEMORY;
        matches->at = at;
        matches->cap = cap;
    }
    matches->at[matches->n++] = (struct lf_aho_match){(uint32_t)first, (uint32_t)len, value};
    return LF_OK;
}

enum lf_status lf_aho_longest(const struct lf_aho *aho, struct lf_aho_matches *matches, struct lf_str text,
                              struct lf_work *work)
{
    uint32_t node = 0;
    matches->n = 0;
    for (size_t i = lf_aho_is_empty(aho) ? 0 : text.len; i-- > 0;) {
        if (i % CHECK_BYTES == 0) LF_TRY(lf_work_step(work, CHECK_BYTES));
        uint8_t byte = (uint8_t)text.ptr[i];
        if (!node && !aho->trie.root[byte]) continue; /* most bytes: no text ends with them */
        node = lf_aho_step(aho, node, byte);
        uint32_t end = lf_aho_first(aho, node);
        if (end) LF_TRY(lf_aho_matches_append(matches, i, lf_aho_len(aho, end), lf_aho_value(aho, end)));
    }
    return LF_OK;
}
