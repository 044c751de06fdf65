/* The best path of a unigram model: Viterbi over the pieces that begin at each place (aho_corasick.h).
 *
 * Scores are added up in float from the beginning of the text, in the order and with the types of sentencepiece 0.2.3,
 * so that near ties fall as they do there; like it, a sum past SCORE_RESET goes back to zero before its last digits are
 * lost (releases before that lose them, and cut long texts a little differently). Where no piece goes on over a mark
 * (marks_open_words), every path passes through the beginning of a word: the path up to there is final, so only one
 * word's nodes are in memory, and its score is carried over. */
#include <float.h>
#include <stdlib.h>

#include "core/check.h"
#include "tokenizer/spm/spm.h"

#define UNKNOWN_PENALTY 10.0f
#define SCORE_RESET     100000.0f

enum { CHAR_STEPS = 16 };

struct node {
    int32_t id;
    float score;
    int32_t from; /* offset where the piece that ends here begins; -1: nothing ends here */
};

enum lf_status lf_spm_unigram_open(struct lf_spm *spm, const struct lf_vocab *vocab, const uint8_t *in_trie,
                                   struct lf_err *err)
{
    size_t n = 0;
    struct lf_trie_entry *entries = malloc((size_t)vocab->n_ids * sizeof *entries);
    if (!entries) return lf_fail(err, LF_NO_MEMORY, "no memory for %d pieces", vocab->n_ids);
    spm->min_score = FLT_MAX;
    for (int32_t id = 0; id < vocab->n_ids; id++) {
        if (in_trie[id]) entries[n++] = (struct lf_trie_entry){lf_vocab_text(vocab, id), id};
        if (!in_trie[id] || spm->bonus[id]) continue;
        if (spm->scores[id] < spm->min_score) spm->min_score = spm->scores[id];
    }
    enum lf_status status = lf_aho_build(&spm->pieces, entries, n, err);
    uint32_t n_nested = 0;
    free(entries);
    if (status == LF_OK) status = lf_aho_nested(&spm->pieces, &n_nested, err);
    if (status == LF_OK && n_nested > LF_UNIGRAM_NESTED_N)
        status = lf_fail(err, LF_UNSUPPORTED, "%u pieces begin with one another, at most %d are allowed", n_nested,
                         LF_UNIGRAM_NESTED_N);
    return status;
}

/* A user-defined piece is worth more than any way to spell it. */
static float piece_score(const struct lf_spm *spm, int32_t id, size_t len)
{
    return spm->bonus[id] ? (float)(0.1 * (double)(len - 1)) : spm->scores[id];
}

/* Takes the score at `at` from all nodes that are reached from there on, where it has grown too large. */
static void reset_scores(struct node *nodes, size_t at, size_t reached)
{
    float offset = nodes[at].score;
    if (offset <= SCORE_RESET && offset >= -SCORE_RESET) return;
    for (size_t i = at; i <= reached; i++) {
        if (i == at || nodes[i].from >= 0) nodes[i].score -= offset;
    }
}

static void offer(struct node *to, int32_t id, float score, size_t from)
{
    if (to->from < 0 || score > to->score) *to = (struct node){id, score, (int32_t)from};
}

/* Offers the nodes that pieces beginning at `at` (the longest is `begins`) lead to; *reached is the last node that any
 * piece leads to. */
static void reach(const struct lf_spm *spm, struct node *nodes, struct lf_str word, size_t at, uint32_t begins,
                  size_t *reached)
{
    reset_scores(nodes, at, *reached);
    float here = nodes[at].score;
    size_t char_len = lf_utf8_len(word, at);
    bool single = false;
    for (uint32_t end = begins; end; end = lf_aho_next(&spm->pieces, end)) {
        int32_t id = lf_aho_value(&spm->pieces, end);
        size_t len = lf_aho_len(&spm->pieces, end);
        offer(&nodes[at + len], id, piece_score(spm, id, len) + here, at);
        *reached = LF_MAX(*reached, at + len);
        if (len == char_len) single = true;
    }
    if (single) return;
    offer(&nodes[at + char_len], spm->unk, spm->min_score - UNKNOWN_PENALTY + here, at);
    *reached = LF_MAX(*reached, at + char_len);
}

static enum lf_status push_path(const struct lf_spm *spm, struct lf_encode_work *work, const struct node *nodes,
                                struct lf_str word)
{
    work->symbols.n = 0;
    for (int32_t at = (int32_t)word.len; at > 0; at = nodes[at].from) {
        if (lf_ids_push(&work->symbols, at) != LF_OK)
            return lf_fail(work->err, LF_NO_MEMORY, "no memory for a word of %zu bytes", word.len);
    }
    for (size_t i = work->symbols.n; i-- > 0;) {
        const struct node *node = &nodes[work->symbols.ids[i]];
        if (node->id == spm->unk) {
            struct lf_str text = lf_str_from(word.ptr + node->from, (size_t)(work->symbols.ids[i] - node->from));
            LF_TRY(lf_spm_push_unknown(spm, work, text));
            continue;
        }
        LF_TRY(lf_encode_push(work, node->id));
        work->after_unknown = false;
    }
    return LF_OK;
}

/* The longest piece that begins at each byte of word. */
static enum lf_status find_pieces(const struct lf_spm *spm, struct lf_encode_work *work, struct lf_str word)
{
    uint32_t node = 0;
    for (size_t i = lf_aho_is_empty(&spm->pieces) ? 0 : word.len; i-- > 0;) {
        if (i % LF_ENCODE_CHECK_BYTES == 0) LF_TRY(lf_encode_step(work, LF_ENCODE_CHECK_BYTES));
        node = lf_aho_step(&spm->pieces, node, (uint8_t)word.ptr[i]);
        work->begins[i] = lf_aho_first(&spm->pieces, node);
    }
    return LF_OK;
}

static enum lf_status encode_word(const struct lf_spm *spm, struct lf_encode_work *work, struct lf_str word,
                                  float *score)
{
    LF_TRY(lf_encode_room(work, &work->nodes, &work->nodes_bytes, (word.len + 1) * sizeof(struct node)));
    LF_TRY(lf_encode_room(work, &work->begins, &work->begins_bytes, (word.len + 1) * sizeof *work->begins));
    memset(work->begins, 0, lf_aho_is_empty(&spm->pieces) ? word.len * sizeof *work->begins : 0);
    LF_TRY(find_pieces(spm, work, word));
    struct node *nodes = work->nodes;
    for (size_t i = 0; i <= word.len; i++) nodes[i] = (struct node){-1, 0, -1};
    nodes[0].score = *score;
    size_t reached = 0;
    for (size_t at = 0; at < word.len; at += lf_utf8_len(word, at)) {
        LF_TRY(lf_encode_step(work, CHAR_STEPS + 2 * (reached - LF_MIN(at, reached))));
        reach(spm, nodes, word, at, work->begins[at], &reached);
    }
    *score = nodes[word.len].score;
    return push_path(spm, work, nodes, word);
}

enum lf_status lf_spm_unigram_encode(const struct lf_spm *spm, struct lf_encode_work *work, struct lf_str text)
{
    float score = 0;
    size_t first = 0;
    for (size_t at = 0; at < text.len; at += lf_utf8_len(text, at)) {
        LF_TRY(lf_encode_step(work, 1));
        if (!spm->marks_open_words || !lf_spm_is_word_start(text, at)) continue;
        LF_TRY(encode_word(spm, work, lf_str_from(text.ptr + first, at - first), &score));
        first = at;
    }
    return first < text.len ? encode_word(spm, work, lf_str_from(text.ptr + first, text.len - first), &score) : LF_OK;
}
