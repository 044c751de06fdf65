/* Fuzzing the patterns of grammars (grammar/regex.h) against PCRE2: a pattern, a NUL, a text.
 *
 * The pattern is compiled for whole texts and for anywhere in a text. The text, random answers of the automaton, and
 * both of them changed in one place must be judged as PCRE2 judges them; and the matcher of the whole grammar judges as
 * the automaton does. PCRE2 gets the pattern in its own words: ECMA's dot and \s are wider than its own, and it knows
 * names of classes in brackets. What it refuses (a group's name twice) is only compiled. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "grammar/compilation.h"
#include "grammar/regex.h"
#include "tests/fuzz/use_grammar.h"

enum { TEXT_BYTES = 96, CHANGES_N = 12, ANSWERS_N = 3, MATCH_STEPS = 20000 };

static const char spaces[] =
    "\\u{9}-\\u{d}\\u{20}\\u{a0}\\u{1680}\\u{2000}-\\u{200a}\\u{2028}\\u{2029}\\u{202f}\\u{205f}"
    "\\u{3000}\\u{feff}";
static const char others[] =
    "\\u{0}-\\u{8}\\u{e}-\\u{1f}\\u{21}-\\u{9f}\\u{a1}-\\u{167f}\\u{1681}-\\u{1fff}\\u{200b}-\\u{2027}\\u{202a}-\\u{"
    "202e}"
    "\\u{2030}-\\u{205e}\\u{2060}-\\u{2fff}\\u{3001}-\\u{d7ff}\\u{e000}-\\u{fefe}\\u{ff00}-\\u{10ffff}";

/* In PCRE2's words. */
static void translate(struct lf_buf *out, struct lf_str pattern)
{
    bool in_class = false;
    for (size_t i = 0; i < pattern.len; i++) {
        char c = pattern.ptr[i], next = i + 1 < pattern.len ? pattern.ptr[i + 1] : 0;
        if (c == '\\' && (next == 's' || next == 'S'))
            lf_buf_printf(out, in_class ? "%s" : "[%s]", next == 's' ? spaces : others);
        else if (c == '\\' && next == 'v') /* to PCRE2 any vertical white space */
            lf_buf_cstr(out, "\\x0b");
        else if (c == '[' && next == ']' && !in_class) /* PCRE2 has it match nothing, but not no times: "[]*" */
            lf_buf_cstr(out, "(?:(?!))");
        else if (c == '.' && !in_class)
            lf_buf_cstr(out, "[^\\n\\r\\u{2028}\\u{2029}]");
        else if (c == '[' && in_class)
            lf_buf_cstr(out, "\\[");
        else
            lf_buf_char(out, c);
        if (c == '\\' && next != 's' && next != 'S' && next != 'v' && i + 1 < pattern.len) lf_buf_char(out, next);
        i += c == '\\' || (c == '[' && next == ']' && !in_class);
        if (c == '[' && next != ']') in_class = true;
        if (c == ']') in_class = false;
    }
}

/* NULL: not one of its patterns. */
static pcre2_code *compile_peer(struct lf_str pattern)
{
    struct lf_buf text;
    int code;
    PCRE2_SIZE at;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    LF_ASSERT(context != NULL);
    lf_buf_init(&text, 1 << 20);
    translate(&text, pattern);
    LF_ASSERT(text.status == LF_OK);
    pcre2_set_compile_extra_options(context, PCRE2_EXTRA_ALT_BSUX);
    pcre2_code *peer = pcre2_compile((PCRE2_SPTR)(text.ptr ? text.ptr : ""), text.len,
                                     PCRE2_UTF | PCRE2_ALT_BSUX | PCRE2_ALLOW_EMPTY_CLASS | PCRE2_DOLLAR_ENDONLY |
                                         PCRE2_NO_AUTO_CAPTURE,
                                     &code, &at, context);
    pcre2_compile_context_free(context);
    lf_buf_deinit(&text);
    return peer;
}

/* One pattern, as three programs have it. */
struct patterns {
    struct lf_dfa whole, anywhere;
    struct lf_matcher *matcher;
    pcre2_code *peer;
    pcre2_match_data *found;
    pcre2_match_context *context;
};

/* -1: it gave up. */
static int peer_matches(const struct patterns *p, struct lf_str text, uint32_t options)
{
    int rc = pcre2_match(p->peer, (PCRE2_SPTR)text.ptr, text.len, 0, options, p->found, p->context);
    if (rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_DEPTHLIMIT || rc == PCRE2_ERROR_HEAPLIMIT) return -1;
    LF_ASSERT(rc >= 0 || rc == PCRE2_ERROR_NOMATCH);
    return rc >= 0;
}

/* The text is none that the fuzzer wrote, so it is shown. */
static void check_judgement(struct lf_str text, const char *what, int peer, bool ours)
{
    if (peer == ours || peer < 0) return;
    fprintf(stderr, "%s: %d, expected %d, of the text \"", what, ours, peer);
    for (size_t i = 0; i < text.len; i++) fprintf(stderr, "\\x%02x", (uint8_t)text.ptr[i]);
    fprintf(stderr, "\"\n");
    LF_ASSERT(peer == ours);
}

static void check_text(const struct patterns *p, struct lf_str text)
{
    bool whole = lf_dfa_accepts(&p->whole, text), anywhere = lf_dfa_accepts(&p->anywhere, text);
    bool is_text = lf_utf8_valid(text);
    lf_matcher_restart(p->matcher);
    bool taken = lf_matcher_accept_bytes(p->matcher, text) == LF_OK;
    check_judgement(text, "matcher", whole, taken && lf_matcher_is_complete(p->matcher));
    if (!is_text) check_judgement(text, "no UTF-8", false, whole || anywhere);
    if (!is_text || !p->peer) return;
    check_judgement(text, "whole", peer_matches(p, text, PCRE2_ANCHORED | PCRE2_ENDANCHORED), whole);
    check_judgement(text, "anywhere", peer_matches(p, text, 0), anywhere);
}

/* The text, and it with a byte more, less, or another. */
static void check_around(const struct patterns *p, struct lf_str text, uint64_t seed)
{
    static const char letters[] = "ab01 _-.\n\"\xc3\xa9\xe2\x80\xa8";
    char changed[TEXT_BYTES + 1];
    if (text.len > TEXT_BYTES) text.len = TEXT_BYTES;
    check_text(p, text);
    for (int i = 0; i < CHANGES_N; i++) {
        seed = lf_mix64(seed);
        size_t at = seed % (text.len + 1), how = seed >> 8 & 3;
        size_t gone = how != 0 && at < text.len, n_new = how != 1;
        char letter =
            how == 2 && text.len ? text.ptr[(seed >> 16) % text.len] : letters[(seed >> 16) % (sizeof letters - 1)];
        memcpy(changed, text.ptr, at);
        if (n_new) changed[at] = letter;
        memcpy(changed + at + n_new, text.ptr + at + gone, text.len - at - gone);
        check_text(p, lf_str_from(changed, text.len + n_new - gone));
    }
}

/* A text of the automaton: bytes at random until it may end and chance has it so. */
static struct lf_str answer_of(const struct lf_dfa *dfa, uint64_t seed, char *out)
{
    uint32_t state = 0;
    size_t n = 0;
    while (n < TEXT_BYTES && dfa->n_states) {
        seed = lf_mix64(seed);
        if (dfa->accept[state] && seed % 4 == 0) break;
        int byte = (int)(seed >> 8 & 255), tries = 0;
        while (tries < 256 && lf_dfa_next(dfa, state, (uint8_t)byte) == LF_DFA_DEAD) byte = (byte + 1) & 255, tries++;
        if (tries == 256) break;
        state = lf_dfa_next(dfa, state, (uint8_t)byte);
        out[n++] = (char)byte;
    }
    return lf_str_from(out, n);
}

static void compare(struct patterns *p, struct lf_str text, const struct lf_work *work)
{
    char answer[TEXT_BYTES];
    check_around(p, text, text.len);
    for (uint64_t i = 0; i < 2 * ANSWERS_N && !fuzz_is_late(work); i++)
        check_around(p, answer_of(i % 2 ? &p->whole : &p->anywhere, text.len + i, answer), i);
}

static void check_nothing(void *ctx, struct lf_str answer)
{
    (void)ctx, (void)answer;
}

static void use(const struct lf_grammar *g, struct patterns *p, struct lf_str pattern, struct lf_str text,
                const struct lf_work *work)
{
    LF_ASSERT(lf_matcher_create(&p->matcher, g, fuzz_vocabulary(), NULL) == LF_OK);
    p->peer = compile_peer(pattern);
    if (p->peer) {
        p->found = pcre2_match_data_create(1, NULL);
        p->context = pcre2_match_context_create(NULL);
        LF_ASSERT(p->found && p->context);
        pcre2_set_match_limit(p->context, MATCH_STEPS);
        pcre2_set_depth_limit(p->context, 1000);
    }
    compare(p, text, work);
    fuzz_answer_at_random(g, work, text.len, false, check_nothing, NULL);
    pcre2_match_context_free(p->context);
    pcre2_match_data_free(p->found);
    pcre2_code_free(p->peer);
    lf_matcher_destroy(p->matcher);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lf_grammar *g = NULL;
    struct lf_compilation c;
    struct lf_err err = {0};
    struct patterns p = {0};
    struct lf_work work = fuzz_work(data, size);
    struct lf_str pattern = fuzz_part(&data, &size);
    if (!lf_utf8_valid(pattern)) return 0; /* it stands in JSON and has been through its check */
    enum lf_status status = lf_grammar_of_regex(&g, pattern, &work, &err);
    fuzz_check_compiled(status, &err);
    lf_compilation_init(&c, NULL, &work, NULL);
    if (status == LF_OK) p.whole = lf_grammar_regex(&c, pattern, LF_REGEX_WHOLE);
    if (status == LF_OK) p.anywhere = lf_grammar_regex(&c, pattern, LF_REGEX_ANYWHERE);
    if (status == LF_OK && lf_compilation_ok(&c)) use(g, &p, pattern, lf_str_from((const char *)data, size), &work);
    lf_compilation_deinit(&c);
    lf_grammar_unref(g);
    return 0;
}
