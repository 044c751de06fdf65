/* Built breadth first over the sorted texts: a node stands for the range of texts that share its prefix, and the ranges
 * of one level follow one another, so the children of a node come out side by side without any recursion. */
#include "tokenizer/trie.h"

#include <stdlib.h>

#include "core/check.h"

static int by_text(const void *va, const void *vb)
{
    const struct lf_trie_entry *a = va, *b = vb;
    size_t n = a->text.len < b->text.len ? a->text.len : b->text.len;
    int c = memcmp(a->text.ptr, b->text.ptr, n);
    if (c != 0) return c;
    if (a->text.len != b->text.len) return a->text.len < b->text.len ? -1 : 1;
    return a->value < b->value ? -1 : a->value > b->value;
}

static size_t shared_prefix(struct lf_str a, struct lf_str b)
{
    size_t n = 0;
    while (n < a.len && n < b.len && a.ptr[n] == b.ptr[n]) n++;
    return n;
}

struct range {
    uint32_t first, end; /* entries */
    uint32_t depth;
};

/* Gives node its value and its children; their ranges go behind those that are there. Returns the new node count. */
static uint32_t expand(struct lf_trie *trie, struct range *ranges, const struct lf_trie_entry *entries, uint32_t node,
                       uint32_t n_nodes)
{
    struct range r = ranges[node];
    struct lf_trie_node *at = &trie->nodes[node];
    at->value = -1;
    at->first = n_nodes;
    at->n = 0;
    while (r.first < r.end && entries[r.first].text.len == r.depth) {
        if (at->value < 0) at->value = entries[r.first].value;
        r.first++;
    }
    while (r.first < r.end) {
        uint8_t byte = (uint8_t)entries[r.first].text.ptr[r.depth];
        uint32_t end = r.first + 1;
        while (end < r.end && (uint8_t)entries[end].text.ptr[r.depth] == byte) end++;
        trie->nodes[n_nodes] = (struct lf_trie_node){.byte = byte};
        ranges[n_nodes++] = (struct range){r.first, end, r.depth + 1};
        at->n++;
        r.first = end;
    }
    return n_nodes;
}

enum lf_status lf_trie_build(struct lf_trie *trie, struct lf_trie_entry *entries, size_t n, struct lf_err *err)
{
    memset(trie, 0, sizeof *trie);
    if (n == 0) return LF_OK;
    qsort(entries, n, sizeof *entries, by_text);
    uint64_t n_nodes = 1;
    for (size_t i = 0; i < n; i++)
        n_nodes += entries[i].text.len - (i > 0 ? shared_prefix(entries[i - 1].text, entries[i].text) : 0);
    if (n_nodes > INT32_MAX)
        return lf_fail(err, LF_LIMIT, "a trie of %llu nodes is too large", (unsigned long long)n_nodes);
    struct range *ranges = malloc((size_t)n_nodes * sizeof *ranges);
    trie->nodes = malloc((size_t)n_nodes * sizeof *trie->nodes);
    if (!ranges || !trie->nodes) {
        free(ranges);
        lf_trie_deinit(trie);
        return lf_fail(err, LF_NO_MEMORY, "no memory for a trie of %llu nodes", (unsigned long long)n_nodes);
    }
    trie->nodes[0] = (struct lf_trie_node){0};
    ranges[0] = (struct range){0, (uint32_t)n, 0};
    uint32_t made = 1;
    for (uint32_t node = 0; node < made; node++) made = expand(trie, ranges, entries, node, made);
    LF_ASSERT(made == n_nodes);
    trie->n_nodes = made;
    for (uint32_t i = 0; i < trie->nodes[0].n; i++)
        trie->root[trie->nodes[trie->nodes[0].first + i].byte] = trie->nodes[0].first + i;
    free(ranges);
    return LF_OK;
}

void lf_trie_deinit(struct lf_trie *trie)
{
    free(trie->nodes);
    memset(trie, 0, sizeof *trie);
}

int32_t lf_trie_longest(const struct lf_trie *trie, struct lf_str text, size_t *len)
{
    int32_t value = -1;
    uint32_t node = 0;
    for (size_t i = 0; trie->n_nodes > 0 && i < text.len; i++) {
        node = lf_trie_step(trie, node, (uint8_t)text.ptr[i]);
        if (!node) break;
        if (trie->nodes[node].value < 0) continue;
        value = trie->nodes[node].value;
        *len = i + 1;
    }
    return value;
}
