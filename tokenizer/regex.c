#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/regex.h"

#include <pcre2.h>
#include <stdlib.h>

#include "core/check.h"
#include "tokenizer/regex_rewrite.h"

enum { STACK_START_BYTES = 32 * 1024, STACK_MAX_BYTES = 8 * 1024 * 1024, HEAP_KIB = 512 * 1024 };
/* Steps of one match: every pattern in use needs a few a byte; a hostile one is stopped. */
enum { STEPS_BASE = 1000000, STEPS_PER_BYTE = 16 };

struct lf_regex {
    pcre2_code *code; /* NULL: a literal */
    bool jit;
    struct lf_str literal; /* owned, where code is NULL */
};

static enum lf_status compile(struct lf_regex *regex, struct lf_str pattern, struct lf_str as_given, struct lf_err *err)
{
    int code;
    PCRE2_SIZE at;
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_AUTO_CAPTURE | PCRE2_NEVER_BACKSLASH_C;
    regex->code = pcre2_compile((PCRE2_SPTR)pattern.ptr, pattern.len, options, &code, &at, NULL);
    if (!regex->code && code == PCRE2_ERROR_HEAP_FAILED) return lf_fail(err, LF_NO_MEMORY, "no memory for a pattern");
    if (!regex->code) {
        PCRE2_UCHAR reason[160] = "";
        pcre2_get_error_message(code, reason, sizeof reason);
        return lf_fail(err, LF_UNSUPPORTED, "the pattern \"%.*s\" does not compile: %s",
                       (int)LF_MIN(as_given.len, 200u), as_given.ptr, (const char *)reason);
    }
    regex->jit = pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE) == 0;
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
    free((char *)(uintptr_t)regex->literal.ptr);
    free(regex);
}

uint64_t lf_regex_bytes(const struct lf_regex *regex)
{
    size_t size = 0, jit = 0;
    if (!regex) return 0;
    if (regex->code) {
        pcre2_pattern_info(regex->code, PCRE2_INFO_SIZE, &size);
        pcre2_pattern_info(regex->code, PCRE2_INFO_JITSIZE, &jit);
    }
    return sizeof *regex + regex->literal.len + size + jit;
}

void lf_regex_work_deinit(struct lf_regex_work *work)
{
    pcre2_match_data_free(work->match);
    pcre2_match_context_free(work->context);
    pcre2_jit_stack_free(work->stack);
    memset(work, 0, sizeof *work);
}

static enum lf_status work_init(struct lf_regex_work *work)
{
    if (work->match) return LF_OK;
    work->match = pcre2_match_data_create(1, NULL);
    work->context = pcre2_match_context_create(NULL);
    work->stack = pcre2_jit_stack_create(STACK_START_BYTES, STACK_MAX_BYTES, NULL); /* NULL without a JIT */
    if (!work->match || !work->context) return LF_NO_MEMORY;
    if (work->stack) pcre2_jit_stack_assign(work->context, NULL, work->stack);
    pcre2_set_heap_limit(work->context, HEAP_KIB);
    return LF_OK;
}

/* The next match at or after from; -1 none, a status of PCRE2 otherwise. */
static int match_from(const struct lf_regex *regex, struct lf_regex_work *work, struct lf_str text, size_t from)
{
    PCRE2_SPTR subject = (PCRE2_SPTR)text.ptr;
    size_t steps = STEPS_BASE + STEPS_PER_BYTE * (text.len - from);
    pcre2_set_match_limit(work->context, (uint32_t)LF_MIN(steps, (size_t)UINT32_MAX));
    int rc = PCRE2_ERROR_JIT_STACKLIMIT;
    if (regex->jit) rc = pcre2_jit_match(regex->code, subject, text.len, from, 0, work->match, work->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
        uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT;
        rc = pcre2_match(regex->code, subject, text.len, from, options, work->match, work->context);
    }
    return rc;
}

static enum lf_status next_literal(const struct lf_regex *regex, struct lf_regex_walk *walk, bool *found)
{
    ptrdiff_t at = lf_str_find(lf_str_from(walk->text.ptr + walk->from, walk->text.len - walk->from), regex->literal);
    *found = at >= 0;
    if (at < 0) return LF_OK;
    walk->first = walk->from + (size_t)at;
    walk->end = walk->from = walk->first + regex->literal.len;
    return LF_OK;
}

enum lf_status lf_regex_next(const struct lf_regex *regex, struct lf_regex_work *work, struct lf_regex_walk *walk,
                             bool *found)
{
    *found = false;
    if (!regex->code) return next_literal(regex, walk, found);
    LF_TRY(work_init(work));
    while (walk->from <= walk->text.len) {
        int rc = match_from(regex, work, walk->text, walk->from);
        if (rc == PCRE2_ERROR_NOMATCH) return LF_OK;
        if (rc == PCRE2_ERROR_NOMEMORY) return LF_NO_MEMORY;
        if (rc < 0) return LF_LIMIT;
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(work->match);
        size_t first = at[0], end = at[1];
        if (first == end && end == walk->last_end) {
            size_t skip = 1;
            while (walk->from + skip < walk->text.len && ((uint8_t)walk->text.ptr[walk->from + skip] & 0xc0) == 0x80)
                skip++;
            walk->from += skip;
            continue;
        }
        walk->first = first;
        walk->end = walk->from = walk->last_end = end;
        *found = true;
        return LF_OK;
    }
    return LF_OK;
}
