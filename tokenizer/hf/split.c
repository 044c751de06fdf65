/* Cutting one piece: something finds the matches, a behaviour says where a match belongs.
 *
 * A piece is a row of segments, each a match or what lies between two. They come one by one, left to right, so at most
 * one is pending:
 *   removed               a match is dropped
 *   isolated              each segment is a piece
 *   merged with previous  a match joins the segment before it, unless that was a match
 *   merged with next      a match joins the segment behind it, unless that is a match
 *   contiguous            neighbours of the same kind join */
#include "core/check.h"
#include "core/text_memory.h"
#include "core/work.h"
#include "tokenizer/hf/pretokenize.h"
#include "tokenizer/unicode.h"

enum { CHECK_CHARS = 512, CHAR_STEPS = 4 };

struct splitter {
    const struct lf_pretokenize_step *step;
    struct lf_pieces *out;
    uint32_t base;     /* of the piece in the text */
    size_t first, end; /* the pending segment */
    bool pending, pending_match;
    enum lf_status status;
};

enum lf_status lf_pieces_append(struct lf_pieces *out, size_t first, size_t end)
{
    if (out->n == out->cap) {
        size_t cap = out->cap ? out->cap * 2 : 64;
        struct lf_piece *pieces = lf_text_realloc(out->memory, out->pieces, cap * sizeof *pieces);
        if (!pieces) return LF_NO_MEMORY;
        out->pieces = pieces;
        out->cap = cap;
    }
    out->pieces[out->n++] = (struct lf_piece){(uint32_t)first, (uint32_t)(end - first)};
    return LF_OK;
}

static void emit_piece(struct splitter *s, size_t first, size_t end)
{
    if (first < end && s->status == LF_OK) s->status = lf_pieces_append(s->out, s->base + first, s->base + end);
}

/* Whether the pending segment and the next one are one piece. */
static bool joins(enum lf_split_behavior behavior, bool before, bool match)
{
    switch (behavior) {
    case LF_SPLIT_MERGED_WITH_PREVIOUS:
        return match && !before;
    case LF_SPLIT_MERGED_WITH_NEXT:
        return before && !match;
    case LF_SPLIT_CONTIGUOUS:
        return match == before;
    case LF_SPLIT_REMOVED:
    case LF_SPLIT_ISOLATED:
        break;
    }
    return false;
}

static void feed(struct splitter *s, size_t first, size_t end, bool match)
{
    enum lf_split_behavior behavior = s->step->behavior;
    if (s->step->invert) match = !match;
    if (behavior == LF_SPLIT_REMOVED && match) return;
    if (behavior == LF_SPLIT_REMOVED || behavior == LF_SPLIT_ISOLATED) {
        emit_piece(s, first, end);
        return;
    }
    if (s->pending && joins(behavior, s->pending_match, match)) {
        s->end = end;
        s->pending_match = match;
        return;
    }
    if (s->pending) emit_piece(s, s->first, s->end);
    s->first = first;
    s->end = end;
    s->pending = true;
    s->pending_match = match;
}

static enum lf_status split_regex(struct splitter *s, struct lf_regex_work *work, struct lf_str text)
{
    struct lf_regex_walk walk = lf_regex_walk_init(text);
    size_t at = 0;
    bool found;
    for (;;) {
        LF_TRY(lf_regex_next(s->step->pattern, work, &walk, &found));
        if (!found) break;
        if (walk.first > at) feed(s, at, walk.first, false);
        feed(s, walk.first, walk.end, true);
        at = walk.end;
    }
    if (at < text.len) feed(s, at, text.len, false);
    return LF_OK;
}

static bool has_property(const struct lf_pretokenize_step *step, uint32_t cp, struct lf_str letter)
{
    switch (step->kind) {
    case LF_PRETOKENIZE_DIGITS:
        return lf_unicode_is_numeric(cp);
    case LF_PRETOKENIZE_PUNCTUATION:
        return lf_unicode_is_punctuation(cp);
    case LF_PRETOKENIZE_LETTER:
        return lf_str_eq(letter, step->text);
    default:
        return lf_unicode_is_space(cp);
    }
}

/* Each code point with the property is a match of its own. */
static enum lf_status split_property(struct splitter *s, struct lf_work *work, struct lf_str text)
{
    size_t from = 0, n_seen = 0;
    for (size_t at = 0, len; at < text.len; at += len) {
        uint32_t cp = 0xfffd;
        int n = lf_utf8_decode(text.ptr + at, text.len - at, &cp);
        len = n > 0 ? (size_t)n : 1;
        if (++n_seen % CHECK_CHARS == 0) LF_TRY(lf_work_step(work, CHECK_CHARS * CHAR_STEPS));
        if (!has_property(s->step, cp, lf_str_from(text.ptr + at, len))) continue;
        if (from < at) feed(s, from, at, false);
        feed(s, at, at + len, true);
        from = at + len;
    }
    if (from < text.len) feed(s, from, text.len, false);
    return lf_work_step(work, CHAR_STEPS);
}

/* 0 space, 1 word letter, 2 anything else. */
static int word_kind(uint32_t cp)
{
    return lf_unicode_is_word(cp) ? 1 : lf_unicode_is_space(cp) ? 0 : 2;
}

static enum lf_status split_words(struct splitter *s, struct lf_work *work, struct lf_str text)
{
    size_t first = 0, n_seen = 0;
    int kind = 0;
    for (size_t at = 0; at < text.len;) {
        uint32_t cp = 0xfffd;
        int n = lf_utf8_decode(text.ptr + at, text.len - at, &cp);
        if (++n_seen % CHECK_CHARS == 0) LF_TRY(lf_work_step(work, CHECK_CHARS * CHAR_STEPS));
        int next = word_kind(cp);
        if (next != kind) {
            if (kind != 0) emit_piece(s, first, at);
            first = at;
            kind = next;
        }
        at += n > 0 ? (size_t)n : 1;
    }
    if (kind != 0) emit_piece(s, first, text.len);
    return lf_work_step(work, CHAR_STEPS);
}

enum lf_status lf_split_piece(const struct lf_pretokenize_step *step, struct lf_regex_work *work, struct lf_str text,
                              struct lf_piece piece, struct lf_pieces *out)
{
    struct splitter s = {.step = step, .out = out, .base = piece.first, .status = LF_OK};
    struct lf_str part = lf_str_from(text.ptr + piece.first, piece.len);
    if (step->kind == LF_PRETOKENIZE_REGEX)
        LF_TRY(split_regex(&s, work, part));
    else if (step->kind == LF_PRETOKENIZE_WORDS)
        LF_TRY(split_words(&s, work->work, part));
    else
        LF_TRY(split_property(&s, work->work, part));
    if (s.pending) emit_piece(&s, s.first, s.end);
    return s.status;
}
