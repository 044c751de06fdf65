/* A pattern meets a text in one of two ways.
 *
 * Searching. The pattern is shown WINDOW_BYTES behind the place where the match may begin, and WINDOW_STEPS at each
 * place of them: nearly every match of every pattern in use ends far before that. PCRE2 says "partial" as soon as it
 * has looked at the end of a window that is not the end of the text, so an answer is never that of a text cut short.
 *
 * Exact. Where that was not enough (a long run of spaces, a pattern that goes back and forth) a second form of the
 * pattern is tried place by place, in windows that grow. It calls back between any two of its parts, so what it does is
 * counted to the byte, taken from the budget of the text, and can be left at any moment.
 *
 * So the first way costs at most WINDOW_BYTES × WINDOW_STEPS at a place, the second what the budget says, and both
 * together are linear in the text whatever the pattern. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/hf/regex.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/check.h"
#include "core/text_memory.h"
#include "core/work.h"
#include "tokenizer/hf/regex_rewrite.h"

enum { WINDOW_BYTES = 128, WINDOW_STEPS = 64, WINDOW_GROWTH = 4, CALL_STEPS = 64 };
/* A longer lookbehind, repetition or pattern is work that no window bounds: it is always matched exactly. */
enum { LOOKBEHIND_CHARS = 64, SEARCHED_BYTES = 16 * 1024 };
/* The machine stack of compiled patterns; what needs more is matched by the interpreter, in memory that is counted. */
enum { STACK_START_BYTES = 32 * 1024, STACK_MAX_BYTES = 256 * 1024, HEAP_KIB = 512 * 1024 };
/* Steps of one exact match, as PCRE2 counts them: a bound behind the budget. */
enum { STEPS_BASE = 1000000, STEPS_PER_BYTE = 16 };
enum { LITERAL_WINDOW_BYTES = 64 * 1024 };

struct lf_regex {
    pcre2_code *code;  /* NULL: a literal */
    pcre2_code *exact; /* the same, anchored, calling back */
    bool jit, exact_jit;
    bool only_exact;
    uint32_t repeats;      /* the longest counted repetition; 0 where it is a short one */
    struct lf_str literal; /* owned, where code is NULL */
    char place[LF_REGEX_PLACE_BYTES];
};

/* The largest number that a repetition of the rewritten pattern begins or ends with. */
static uint32_t longest_repeat(struct lf_str pattern)
{
    uint32_t longest = 0;
    for (size_t i = 1; i < pattern.len; i++) {
        if (pattern.ptr[i] != '{') continue;
        char before = pattern.ptr[i - 1];
        bool escape = i >= 2 && pattern.ptr[i - 2] == '\\' && (before == 'x' || before == 'p' || before == 'P');
        uint32_t n = 0;
        for (i++; !escape && i < pattern.len && pattern.ptr[i] != '}'; i++) {
            bool digit = pattern.ptr[i] >= '0' && pattern.ptr[i] <= '9';
            n = digit ? LF_MIN(n * 10 + (uint32_t)(pattern.ptr[i] - '0'), (uint32_t)UINT16_MAX) : 0;
            longest = LF_MAX(longest, n);
        }
    }
    return longest > LOOKBEHIND_CHARS ? longest : 0;
}

static enum lf_status compile_one(pcre2_code **out, bool *jit, struct lf_str pattern, uint32_t options,
                                  struct lf_str as_given, struct lf_err *err)
{
    int code;
    PCRE2_SIZE at;
    options |= PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_AUTO_CAPTURE | PCRE2_NEVER_BACKSLASH_C;
    *out = pcre2_compile((PCRE2_SPTR)pattern.ptr, pattern.len, options, &code, &at, NULL);
    if (!*out && code == PCRE2_ERROR_HEAP_FAILED) return lf_fail(err, LF_NO_MEMORY, "no memory for a pattern");
    if (!*out) {
        PCRE2_UCHAR reason[160] = "";
        pcre2_get_error_message(code, reason, sizeof reason);
        return lf_fail(err, LF_UNSUPPORTED, "the pattern \"%.*s\" does not compile: %s",
                       (int)LF_MIN(as_given.len, 200u), as_given.ptr, (const char *)reason);
    }
    *jit = pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) == 0;
    return LF_OK;
}

static enum lf_status compile(struct lf_regex *regex, struct lf_str pattern, struct lf_str as_given, struct lf_err *err)
{
    uint32_t lookbehind = 0, exact = PCRE2_ANCHORED | PCRE2_AUTO_CALLOUT;
    LF_TRY(compile_one(&regex->code, &regex->jit, pattern, 0, as_given, err));
    LF_TRY(compile_one(&regex->exact, &regex->exact_jit, pattern, exact, as_given, err));
    pcre2_pattern_info(regex->code, PCRE2_INFO_MAXLOOKBEHIND, &lookbehind);
    regex->repeats = longest_repeat(pattern);
    regex->only_exact = lookbehind > LOOKBEHIND_CHARS || regex->repeats > 0 || pattern.len > SEARCHED_BYTES;
    return LF_OK;
}

enum lf_status lf_regex_compile(struct lf_regex **out, struct lf_str pattern, struct lf_err *err)
{
    struct lf_buf rewritten;
    struct lf_regex *regex = calloc(1, sizeof *regex);
    if (!regex) return lf_fail(err, LF_NO_MEMORY, "no memory for a pattern");
    lf_buf_init(&rewritten, LF_REGEX_BYTES);
    enum lf_status status = lf_regex_rewrite(&rewritten, pattern, err);
    if (status == LF_OK) status = compile(regex, lf_buf_view(&rewritten), pattern, err);
    lf_buf_deinit(&rewritten);
    if (status == LF_OK)
        *out = regex;
    else
        lf_regex_free(regex);
    return status;
}

enum lf_status lf_regex_literal(struct lf_regex **out, struct lf_str text, struct lf_err *err)
{
    struct lf_regex *regex = calloc(1, sizeof *regex);
    char *copy = malloc(text.len + 1);
    if (!regex || !copy || text.len == 0) {
        free(regex);
        free(copy);
        return text.len == 0 ? lf_fail(err, LF_CORRUPT, "an empty text cannot be looked for")
                             : lf_fail(err, LF_NO_MEMORY, "no memory for a pattern");
    }
    memcpy(copy, text.ptr, text.len);
    regex->literal = lf_str_from(copy, text.len);
    *out = regex;
    return LF_OK;
}

void lf_regex_free(struct lf_regex *regex)
{
    if (!regex) return;
    pcre2_code_free(regex->code);
    pcre2_code_free(regex->exact);
    free((char *)(uintptr_t)regex->literal.ptr);
    free(regex);
}

void lf_regex_place_set(struct lf_regex *regex, const char *place)
{
    snprintf(regex->place, sizeof regex->place, "%s", place);
}

/* ---- scratch ---- */

void lf_regex_work_init(struct lf_regex_work *rw, struct lf_work *work, size_t n_bytes)
{
    *rw = (struct lf_regex_work){.work = work};
    rw->budget = LF_REGEX_STEPS_BASE + (uint64_t)n_bytes * LF_REGEX_STEPS_PER_BYTE;
}

void lf_regex_work_deinit(struct lf_regex_work *rw)
{
    pcre2_match_data_free(rw->match);
    pcre2_match_context_free(rw->context);
    pcre2_jit_stack_free(rw->stack);
    pcre2_general_context_free(rw->general);
    memset(rw, 0, sizeof *rw);
}

enum lf_status lf_regex_explain(const struct lf_regex_work *rw, enum lf_status status, struct lf_err *err)
{
    if (status != LF_UNSUPPORTED || !rw->costly) return status;
    const char *place = rw->costly->place[0] ? rw->costly->place : "tokenizer.json";
    return lf_fail(err, status, "the pattern of %s needs more than %d steps a byte on this text", place,
                   LF_REGEX_STEPS_PER_BYTE);
}

static void *take(PCRE2_SIZE n, void *memory)
{
    return lf_text_alloc(memory, n);
}

static void give(void *ptr, void *memory)
{
    lf_text_free(memory, ptr);
}

/* What an exact match has done since it was last heard of: one part of the pattern, over the bytes that it took. */
static int on_part(pcre2_callout_block *block, void *ctx)
{
    struct lf_regex_work *rw = ctx;
    size_t at = block->current_position;
    uint64_t cost = 1 + (at > rw->last ? at - rw->last : 0) + rw->current->repeats;
    rw->last = at;
    if (cost > rw->budget) {
        rw->costly = rw->current;
        rw->status = LF_UNSUPPORTED;
        return PCRE2_ERROR_CALLOUT;
    }
    rw->budget -= cost;
    rw->status = lf_work_step(rw->work, (size_t)cost);
    return rw->status == LF_OK ? 0 : PCRE2_ERROR_CALLOUT;
}

static enum lf_status work_begin(struct lf_regex_work *rw)
{
    if (rw->match) return LF_OK;
    rw->general = pcre2_general_context_create(take, give, lf_work_memory(rw->work));
    if (!rw->general) return LF_NO_MEMORY;
    rw->context = pcre2_match_context_create(rw->general);
    rw->stack = pcre2_jit_stack_create(STACK_START_BYTES, STACK_MAX_BYTES, rw->general); /* NULL without a JIT */
    if (!rw->context) return LF_NO_MEMORY;
    if (rw->stack) pcre2_jit_stack_assign(rw->context, NULL, rw->stack);
    pcre2_set_heap_limit(rw->context, HEAP_KIB);
    pcre2_set_callout(rw->context, on_part, rw);
    rw->match = pcre2_match_data_create(1, rw->general);
    return rw->match ? LF_OK : LF_NO_MEMORY;
}

/* ---- matching ---- */

/* Where a window of n bytes from `from` on ends: between code points. */
static size_t window_end(struct lf_str text, size_t from, size_t n)
{
    if (n >= text.len - from) return text.len;
    size_t end = from + n;
    while (end < text.len && ((uint8_t)text.ptr[end] & 0xc0) == 0x80) end++;
    return end;
}

static size_t next_char(struct lf_str text, size_t at)
{
    do at++;
    while (at < text.len && ((uint8_t)text.ptr[at] & 0xc0) == 0x80);
    return at;
}

struct match {
    enum { MATCH_NONE, MATCH_FOUND, MATCH_PARTIAL, MATCH_TOO_MUCH, MATCH_FAILED } kind;
    size_t first, end;
};

static struct match outcome(const struct lf_regex_work *rw, int rc)
{
    struct match m = {MATCH_FAILED, 0, 0};
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(rw->match);
    if (rc == PCRE2_ERROR_NOMATCH) m.kind = MATCH_NONE;
    if (rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_JIT_STACKLIMIT || rc == PCRE2_ERROR_HEAPLIMIT)
        m.kind = MATCH_TOO_MUCH;
    if (rc >= 0 || rc == PCRE2_ERROR_PARTIAL) {
        m.kind = rc >= 0 ? MATCH_FOUND : MATCH_PARTIAL;
        m.first = at[0];
        m.end = at[1];
    }
    return m;
}

static struct match search(const struct lf_regex *regex, struct lf_regex_work *rw, struct lf_str text, size_t from,
                           size_t end)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)text.ptr;
    uint32_t options = end < text.len ? PCRE2_PARTIAL_HARD : 0;
    pcre2_set_match_limit(rw->context, WINDOW_STEPS);
    if (regex->jit)
        return outcome(rw, pcre2_jit_match(regex->code, subject, end, from, options, rw->match, rw->context));
    options |= PCRE2_NO_UTF_CHECK;
    return outcome(rw, pcre2_match(regex->code, subject, end, from, options, rw->match, rw->context));
}

/* One window, beginning at one place only. */
static struct match match_exactly(const struct lf_regex *regex, struct lf_regex_work *rw, struct lf_str text,
                                  size_t from, size_t end)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)text.ptr;
    uint32_t options = end < text.len ? PCRE2_PARTIAL_HARD : 0;
    size_t steps = STEPS_BASE + STEPS_PER_BYTE * (end - from);
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    rw->current = regex;
    rw->last = from;
    pcre2_set_match_limit(rw->context, (uint32_t)LF_MIN(steps, (size_t)UINT32_MAX));
    if (regex->exact_jit) rc = pcre2_jit_match(regex->exact, subject, end, from, options, rw->match, rw->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
        rw->last = from;
        options |= PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT;
        rc = pcre2_match(regex->exact, subject, end, from, options, rw->match, rw->context);
    }
    return outcome(rw, rc);
}

/* The match that begins at walk->from, in windows that grow as far as the pattern looks. */
static enum lf_status next_exact(const struct lf_regex *regex, struct lf_regex_work *rw,
                                 const struct lf_regex_walk *walk, struct match *m)
{
    size_t n = WINDOW_BYTES;
    for (;; n *= WINDOW_GROWTH) {
        size_t end = window_end(walk->text, walk->from, n);
        *m = match_exactly(regex, rw, walk->text, walk->from, end);
        if (m->kind == MATCH_FAILED) return rw->status != LF_OK ? rw->status : LF_NO_MEMORY;
        if (m->kind == MATCH_TOO_MUCH) {
            rw->costly = regex;
            return LF_UNSUPPORTED;
        }
        if (m->kind != MATCH_PARTIAL) return LF_OK;
    }
}

/* Goes on from walk->from by one window, or by one place where it is matched exactly. m->kind: whether it was met. */
static enum lf_status advance(const struct lf_regex *regex, struct lf_regex_work *rw, struct lf_regex_walk *walk,
                              struct match *m)
{
    struct lf_str text = walk->text;
    LF_TRY(lf_work_step(rw->work, CALL_STEPS));
    if (regex->only_exact || walk->from < walk->exact_end) {
        LF_TRY(next_exact(regex, rw, walk, m));
        if (m->kind == MATCH_NONE) walk->from = next_char(text, walk->from);
        return LF_OK;
    }
    size_t end = window_end(text, walk->from, WINDOW_BYTES);
    *m = search(regex, rw, text, walk->from, end);
    switch (m->kind) {
    case MATCH_FOUND: /* at the window's end nothing was decided */
        if (m->first < end || end == text.len) return LF_OK;
        break;
    case MATCH_PARTIAL:
        walk->from = m->first;
        walk->exact_end = m->first + 1;
        m->kind = MATCH_NONE;
        return LF_OK;
    case MATCH_TOO_MUCH:
        walk->exact_end = end + (end == text.len);
        m->kind = MATCH_NONE;
        return LF_OK;
    case MATCH_NONE:
        break;
    case MATCH_FAILED:
        return LF_NO_MEMORY;
    }
    m->kind = MATCH_NONE;
    walk->from = end < text.len ? end : text.len + 1;
    return LF_OK;
}

static enum lf_status next_literal(const struct lf_regex *regex, struct lf_regex_work *rw, struct lf_regex_walk *walk,
                                   bool *found)
{
    size_t len = regex->literal.len;
    while (walk->text.len - walk->from >= len) {
        size_t n = LF_MIN(walk->text.len - walk->from, LITERAL_WINDOW_BYTES + len - 1);
        LF_TRY(lf_work_step(rw->work, CALL_STEPS + n / 16));
        ptrdiff_t at = lf_str_find(lf_str_from(walk->text.ptr + walk->from, n), regex->literal);
        if (at >= 0) {
            *found = true;
            walk->first = walk->from + (size_t)at;
            walk->end = walk->from = walk->first + len;
            return LF_OK;
        }
        walk->from += n - (len - 1);
    }
    return LF_OK;
}

enum lf_status lf_regex_next(const struct lf_regex *regex, struct lf_regex_work *rw, struct lf_regex_walk *walk,
                             bool *found)
{
    *found = false;
    if (!regex->code) return next_literal(regex, rw, walk, found);
    LF_TRY(work_begin(rw));
    while (walk->from <= walk->text.len) {
        struct match m;
        LF_TRY(advance(regex, rw, walk, &m));
        if (m.kind == MATCH_NONE) continue;
        if (m.first == m.end && m.end == walk->last_end) {
            walk->from = next_char(walk->text, walk->from);
            continue;
        }
        walk->first = m.first;
        walk->end = walk->from = walk->last_end = m.end;
        *found = true;
        return LF_OK;
    }
    return LF_OK;
}
