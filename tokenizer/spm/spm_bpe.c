/* Byte-pair merging of a sentencepiece model.
 *
 * The model holds scored pieces, not merges: two neighbours join if together they spell a piece, the best score first.
 * So every way to cut a piece into two symbols becomes a pair in the table, with the place of the piece's score as
 * rank; equal scores share a rank, and the leftmost goes first, as in the library. A symbol is a piece or one code
 * point; a code point that is no piece of its own gets the id UNKNOWN_BASE + code point.
 *
 * Both halves of each cut are found in one walk a piece: prefixes in a trie of the pieces, suffixes in a trie of the
 * pieces written backwards. So the table costs time linear in the vocabulary's text. */
#include <stdlib.h>

#include "core/check.h"
#include "tokenizer/spm/spm.h"
#include "tokenizer/unicode.h"

#define UNKNOWN_BASE 0x40000000

enum { CHAR_STEPS = 8 };

struct bpe_build {
    const struct lf_vocab *vocab;
    const int32_t *ids; /* of the normal pieces */
    size_t n;
    struct lf_trie forward, backward;
    char *reversed; /* the texts backwards, back to back */
    struct lf_trie_entry *entries;
};

static void bpe_build_deinit(struct bpe_build *b)
{
    lf_trie_deinit(&b->forward);
    lf_trie_deinit(&b->backward);
    free(b->reversed);
    free(b->entries);
}

static enum lf_status bpe_build_init(struct bpe_build *b, struct lf_trie *chars, struct lf_err *err)
{
    size_t n_bytes = 0, n_chars = 0, at = 0;
    for (size_t i = 0; i < b->n; i++) n_bytes += lf_vocab_text(b->vocab, b->ids[i]).len;
    b->reversed = malloc(n_bytes + 1);
    b->entries = malloc((b->n + 1) * sizeof *b->entries);
    if (!b->reversed || !b->entries) return lf_fail(err, LF_NO_MEMORY, "no memory for %zu pieces", b->n);
    for (size_t i = 0; i < b->n; i++)
        b->entries[i] = (struct lf_trie_entry){lf_vocab_text(b->vocab, b->ids[i]), b->ids[i]};
    LF_TRY(lf_trie_build(&b->forward, b->entries, b->n, err));
    for (size_t i = 0; i < b->n; i++) {
        struct lf_str text = lf_vocab_text(b->vocab, b->ids[i]);
        for (size_t k = 0; k < text.len; k++) b->reversed[at + k] = text.ptr[text.len - 1 - k];
        b->entries[i] = (struct lf_trie_entry){lf_str_from(b->reversed + at, text.len), b->ids[i]};
        at += text.len;
    }
    LF_TRY(lf_trie_build(&b->backward, b->entries, b->n, err));
    for (size_t i = 0; i < b->n; i++) {
        struct lf_str text = lf_vocab_text(b->vocab, b->ids[i]);
        if (lf_utf8_len(text, 0) == text.len) b->entries[n_chars++] = (struct lf_trie_entry){text, b->ids[i]};
    }
    return lf_trie_build(chars, b->entries, n_chars, err);
}

static int32_t unknown_char(struct lf_str text)
{
    uint32_t cp = 0xfffd;
    (void)lf_utf8_decode(text.ptr, text.len, &cp);
    return UNKNOWN_BASE + (int32_t)cp;
}

/* The two symbols on either side of each byte of a piece, -1 where there is none. */
static void cuts_of(const struct bpe_build *b, struct lf_str text, int32_t *before, int32_t *after)
{
    uint32_t node = 0;
    for (size_t i = 0; i <= text.len; i++) before[i] = after[i] = -1;
    for (size_t i = 0; i < text.len; i++) {
        node = lf_trie_step(&b->forward, node, (uint8_t)text.ptr[i]);
        before[i + 1] = b->forward.nodes[node].value;
    }
    node = 0;
    for (size_t i = text.len; i-- > 0;) {
        node = lf_trie_step(&b->backward, node, (uint8_t)text.ptr[i]);
        after[i] = b->backward.nodes[node].value;
    }
    size_t first = lf_utf8_len(text, 0), last = lf_utf8_before(text, text.len);
    if (before[first] < 0) before[first] = unknown_char(lf_str_from(text.ptr, first));
    if (after[last] < 0) after[last] = unknown_char(lf_str_from(text.ptr + last, text.len - last));
}

/* Puts the cuts of all pieces into merges, or only counts them where merges is NULL. */
static uint64_t insert_cuts(const struct bpe_build *b, struct lf_merges *merges, const uint32_t *ranks,
                            int32_t *scratch)
{
    uint64_t n = 0;
    int32_t *before = scratch, *after = scratch + LF_TOKEN_BYTES + 1;
    for (size_t p = 0; p < b->n; p++) {
        struct lf_str text = lf_vocab_text(b->vocab, b->ids[p]);
        if (lf_utf8_len(text, 0) == text.len) continue;
        cuts_of(b, text, before, after);
        for (size_t i = 1; i < text.len; i++) {
            if (before[i] < 0 || after[i] < 0) continue;
            n++;
            if (merges) lf_merges_insert(merges, &(struct lf_merge){before[i], after[i], ranks[p], b->ids[p]});
        }
    }
    return n;
}

struct scored {
    float score;
    uint32_t idx;
};

static int by_score(const void *va, const void *vb)
{
    const struct scored *a = va, *b = vb;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    return a->idx < b->idx ? -1 : a->idx > b->idx;
}

static void rank_by_score(uint32_t *ranks, struct scored *order, const struct bpe_build *b, const float *scores)
{
    for (size_t i = 0; i < b->n; i++) order[i] = (struct scored){scores[b->ids[i]], (uint32_t)i};
    qsort(order, b->n, sizeof *order, by_score);
    uint32_t rank = 0;
    for (size_t i = 0; i < b->n; i++) {
        if (i > 0 && order[i].score != order[i - 1].score) rank++;
        ranks[order[i].idx] = rank;
    }
}

static bool is_normal(const struct lf_vocab *vocab, int32_t id)
{
    return lf_vocab_has(vocab, id) && vocab->flags[id] == LF_TOKEN_USED;
}

enum lf_status lf_spm_bpe_open(struct lf_spm *spm, const struct lf_vocab *vocab, const float *scores,
                               struct lf_err *err)
{
    size_t n_ids = (size_t)vocab->n_ids;
    int32_t *ids = malloc((n_ids + 1) * sizeof *ids);
    uint32_t *ranks = malloc((n_ids + 1) * sizeof *ranks);
    struct scored *order = malloc((n_ids + 1) * sizeof *order);
    int32_t *scratch = malloc(2 * (LF_TOKEN_BYTES + 1) * sizeof *scratch);
    struct bpe_build b = {.vocab = vocab, .ids = ids};
    enum lf_status status = LF_NO_MEMORY;
    if (!ids || !ranks || !order || !scratch) {
        lf_fail(err, status, "no memory for the merges of %d pieces", vocab->n_ids);
        goto done;
    }
    for (int32_t id = 0; id < vocab->n_ids; id++) {
        if (is_normal(vocab, id)) ids[b.n++] = id;
    }
    LF_TRY_GOTO(bpe_build_init(&b, &spm->chars, err), done);
    rank_by_score(ranks, order, &b, scores);
    LF_TRY_GOTO(lf_merges_init(&spm->merges, insert_cuts(&b, NULL, ranks, scratch), err), done);
    insert_cuts(&b, &spm->merges, ranks, scratch);
done:
    bpe_build_deinit(&b);
    free(scratch);
    free(order);
    free(ranks);
    free(ids);
    return status;
}

static enum lf_status push_symbols(const struct lf_spm *spm, struct lf_encode_work *work, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= UNKNOWN_BASE) {
            char text[4];
            int len = lf_utf8_encode((uint32_t)(ids[i] - UNKNOWN_BASE), text);
            LF_TRY(lf_spm_push_unknown(spm, work, lf_str_from(text, (size_t)len)));
            continue;
        }
        LF_TRY(lf_encode_push(work, ids[i]));
        work->after_unknown = false;
    }
    return LF_OK;
}

static enum lf_status encode_word(const struct lf_spm *spm, struct lf_encode_work *work, struct lf_str word)
{
    if (word.len == 0) return LF_OK;
    struct lf_word *cached = lf_word_cache_at(&work->cache, word);
    if (cached && lf_word_is(cached, word)) return push_symbols(spm, work, cached->ids, cached->n_ids);
    work->symbols.n = 0;
    for (size_t i = 0, len; i < word.len; i += len) {
        struct lf_str rest = lf_str_from(word.ptr + i, word.len - i);
        len = lf_utf8_len(word, i);
        LF_TRY(lf_encode_step(work, CHAR_STEPS));
        size_t found;
        int32_t id = lf_trie_longest(&spm->chars, lf_str_from(rest.ptr, len), &found);
        if (lf_ids_push(&work->symbols, id >= 0 ? id : unknown_char(rest)) != LF_OK)
            return lf_fail(work->err, LF_NO_MEMORY, "no memory for a word of %zu bytes", word.len);
    }
    uint64_t n = work->symbols.n;
    enum lf_status status = lf_merges_run(&spm->merges, &work->merge, work->symbols.ids, &n);
    if (status != LF_OK) return lf_encode_fail(work, status, "a word to merge");
    if (cached) lf_word_store(cached, word, work->symbols.ids, n);
    return push_symbols(spm, work, work->symbols.ids, n);
}

enum lf_status lf_spm_bpe_encode(const struct lf_spm *spm, struct lf_encode_work *work, struct lf_str text)
{
    size_t first = 0, at = 0, len;
    enum lf_status status = lf_aho_longest(&spm->user_defined, &work->inner_matches, text, work->on);
    if (status != LF_OK) return lf_encode_fail(work, status, NULL);
    while (at < text.len) {
        const struct lf_aho_match *piece = lf_aho_match_at(&work->inner_matches, at);
        LF_TRY(lf_encode_step(work, CHAR_STEPS));
        bool cut = piece || (spm->marks_open_words && lf_spm_is_word_start(text, at));
        if (cut) {
            LF_TRY(encode_word(spm, work, lf_str_from(text.ptr + first, at - first)));
            first = at;
        }
        if (piece) {
            LF_TRY(push_symbols(spm, work, &piece->value, 1));
            len = piece->len;
            first = at + len;
        } else {
            len = lf_utf8_len(text, at);
        }
        at += len;
    }
    return encode_word(spm, work, lf_str_from(text.ptr + first, text.len - first));
}
