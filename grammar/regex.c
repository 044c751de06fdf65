#include "grammar/regex.h"

#include "core/check.h"

enum { MAX_CODE_POINT = 0x10ffff, NO_MAXIMUM = -1, RANGES_N = 512 };

struct range {
    uint32_t low, high;
};

/* A set of code points while a class is read. */
struct class
{
    struct range ranges[RANGES_N];
    uint32_t n;
};

struct parser {
    struct lf_compilation *c;
    struct lf_nfa *nfa;
    const char *at, *end, *begin;
    int depth;
};

static uint32_t parse_alternatives(struct parser *p, uint32_t from);

static void fail_at(struct parser *p, enum lf_status status, const char *what)
{
    lf_compilation_fail(p->c, status, "pattern, byte %zu: %s", (size_t)(p->at - p->begin), what);
    p->at = p->end; /* every loop ends here */
}

static bool here(const struct parser *p, const char *text)
{
    size_t n = strlen(text);
    return (size_t)(p->end - p->at) >= n && memcmp(p->at, text, n) == 0;
}

static bool take(struct parser *p, const char *text)
{
    if (!here(p, text)) return false;
    p->at += strlen(text);
    return true;
}

static uint32_t take_code_point(struct parser *p)
{
    uint32_t cp = 0;
    int n = p->at < p->end ? lf_utf8_decode(p->at, (size_t)(p->end - p->at), &cp) : 0;
    if (n == 0) fail_at(p, LF_INVALID, p->at < p->end ? "not valid UTF-8" : "it ends too early");
    p->at += n;
    return cp;
}

/* Classes of one letter, ascending. */
static const struct range digits[] = {{'0', '9'}};
static const struct range word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct range space[] = {{'\t', '\r'},     {' ', ' '},       {0xa0, 0xa0},     {0x1680, 0x1680},
                                     {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                                     {0x3000, 0x3000}, {0xfeff, 0xfeff}};
static const struct range line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

static void add_range(struct parser *p, struct class *set, uint32_t low, uint32_t high)
{
    if (set->n == RANGES_N) {
        fail_at(p, LF_LIMIT, "a class of more than 512 ranges");
        return;
    }
    set->ranges[set->n++] = (struct range){low, high};
}

static void add_ranges(struct parser *p, struct class *set, const struct range *ranges, size_t n, bool negated)
{
    uint32_t next = 0;
    for (size_t i = 0; i < n; i++) {
        if (!negated) add_range(p, set, ranges[i].low, ranges[i].high);
        if (negated && ranges[i].low > next) add_range(p, set, next, ranges[i].low - 1);
        next = ranges[i].high + 1;
    }
    if (negated) add_range(p, set, next, MAX_CODE_POINT);
}

/* \d and its like; false: the letter names no class. */
static bool add_named(struct parser *p, struct class *set, char letter)
{
    switch (letter) {
    case 'd':
    case 'D':
        add_ranges(p, set, digits, LF_N_ELEMS(digits), letter == 'D');
        return true;
    case 'w':
    case 'W':
        add_ranges(p, set, word, LF_N_ELEMS(word), letter == 'W');
        return true;
    case 's':
    case 'S':
        add_ranges(p, set, space, LF_N_ELEMS(space), letter == 'S');
        return true;
    default:
        return false;
    }
}

/* Ascending, without overlaps. */
static void normalize(struct class *set)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i < set->n; i++)
        for (uint32_t k = i; k > 0 && set->ranges[k - 1].low > set->ranges[k].low; k--) {
            struct range x = set->ranges[k];
            set->ranges[k] = set->ranges[k - 1];
            set->ranges[k - 1] = x;
        }
    for (uint32_t i = 0; i < set->n; i++) {
        if (n && set->ranges[i].low <= set->ranges[n - 1].high + 1)
            set->ranges[n - 1].high = LF_MAX(set->ranges[n - 1].high, set->ranges[i].high);
        else
            set->ranges[n++] = set->ranges[i];
    }
    set->n = n;
}

static uint32_t emit(struct parser *p, uint32_t from, struct class *set, bool negated)
{
    uint32_t to = lf_nfa_state(p->nfa), next = 0;
    normalize(set);
    for (uint32_t i = 0; i < set->n && lf_compilation_step(p->c, 1); i++) {
        struct range r = set->ranges[i];
        if (!negated) lf_nfa_code_points(p->nfa, from, to, r.low, r.high);
        if (negated && r.low > next) lf_nfa_code_points(p->nfa, from, to, next, r.low - 1);
        next = r.high + 1;
    }
    if (negated && next <= MAX_CODE_POINT) lf_nfa_code_points(p->nfa, from, to, next, MAX_CODE_POINT);
    return to;
}

/* n hexadecimal digits; false where they are not there. */
static bool take_hex(struct parser *p, int n, uint32_t *out)
{
    uint32_t x = 0;
    if (p->end - p->at < n) return false;
    for (int i = 0; i < n; i++) {
        int d = lf_digit(p->at[i]);
        if (d >= 16) return false;
        x = x * 16 + (uint32_t)d;
    }
    p->at += n;
    *out = x;
    return true;
}

/* Behind \u: HHHH, two of them that are a pair of surrogates, or {H…}. */
static uint32_t take_unicode(struct parser *p)
{
    uint32_t cp = 0, low = 0;
    if (take(p, "{")) {
        int n = 0;
        for (; p->at < p->end && lf_digit(*p->at) < 16 && cp <= MAX_CODE_POINT; n++)
            cp = cp * 16 + (uint32_t)lf_digit(*p->at++);
        if (n == 0 || cp > MAX_CODE_POINT || !take(p, "}")) fail_at(p, LF_INVALID, "\\u{…} is no code point");
        return cp;
    }
    if (!take_hex(p, 4, &cp)) {
        fail_at(p, LF_INVALID, "\\u needs four hexadecimal digits");
    } else if (cp >= 0xd800 && cp < 0xdc00) {
        if (take(p, "\\u") && take_hex(p, 4, &low) && low >= 0xdc00 && low < 0xe000)
            return 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
        fail_at(p, LF_UNSUPPORTED, "half of a pair of surrogates");
    } else if (cp >= 0xdc00 && cp < 0xe000) {
        fail_at(p, LF_UNSUPPORTED, "half of a pair of surrogates");
    }
    return cp;
}

/* The code point that an escape means; at is behind the backslash. */
static uint32_t take_escaped(struct parser *p, bool in_class)
{
    static const char letters[] = "nrtfv", meant[] = "\n\r\t\f\v";
    uint32_t cp = take_code_point(p);
    const char *letter = cp && cp < 0x80 ? strchr(letters, (int)cp) : NULL;
    if (letter) return (uint8_t)meant[letter - letters];
    if (cp == '0' && !(p->at < p->end && lf_digit(*p->at) < 10)) return 0;
    if (cp == 'u') return take_unicode(p);
    if (cp == 'x') {
        if (!take_hex(p, 2, &cp)) fail_at(p, LF_INVALID, "\\x needs two hexadecimal digits");
        return cp;
    }
    if (cp == 'c' && p->at < p->end && lf_digit(*p->at) >= 10 && lf_digit(*p->at) < 36) return (uint8_t)*p->at++ & 31;
    if (in_class && cp == 'b') return '\b';
    if (cp == 'b' || cp == 'B')
        fail_at(p, LF_UNSUPPORTED, "the word boundary \\b is not supported");
    else if (cp == 'p' || cp == 'P')
        fail_at(p, LF_UNSUPPORTED, "the property \\p{…} is not supported");
    else if (cp == 'k' || (cp >= '0' && cp <= '9'))
        fail_at(p, LF_UNSUPPORTED, "a back reference is not supported");
    else if (cp < 0x80 && lf_digit((char)cp) < 36)
        fail_at(p, LF_INVALID, "an escape that means nothing");
    return cp;
}

/* One end of a range, or one of \d and its like (then *named): at is at it. */
static uint32_t take_class_atom(struct parser *p, struct class *set, bool *named)
{
    *named = false;
    if (!take(p, "\\")) return take_code_point(p);
    if (p->at < p->end && add_named(p, set, *p->at)) {
        p->at++;
        *named = true;
        return 0;
    }
    return take(p, "-") ? '-' : take_escaped(p, true);
}

/* at is behind the bracket. */
static uint32_t parse_class(struct parser *p, uint32_t from)
{
    struct class *set = lf_compilation_scratch(p->c, 1, sizeof *set);
    bool negated = take(p, "^"), named_low, named_high = false;
    if (!set) return from;
    while (lf_compilation_step(p->c, 1) && !take(p, "]")) {
        uint32_t low = take_class_atom(p, set, &named_low), high = low;
        bool is_range = here(p, "-") && !here(p, "-]");
        if (is_range) {
            p->at++;
            high = take_class_atom(p, set, &named_high);
            if (named_low || named_high) fail_at(p, LF_INVALID, "a class of characters as the end of a range");
        }
        if (high < low)
            fail_at(p, LF_INVALID, "a range whose ends are in the wrong order");
        else if (!named_low)
            add_range(p, set, low, high);
    }
    return lf_compilation_ok(p->c) ? emit(p, from, set, negated) : from;
}

static uint32_t one_code_point(struct parser *p, uint32_t from, uint32_t cp)
{
    uint32_t to = lf_nfa_state(p->nfa);
    if (cp >= 0xd800 && cp < 0xe000) fail_at(p, LF_INVALID, "a surrogate is no character");
    lf_nfa_code_points(p->nfa, from, to, cp, cp);
    return to;
}

/* Of a group, which nobody asks for: an identifier of ECMAScript, or what may be one beyond ASCII. */
static void skip_name(struct parser *p)
{
    const char *first = p->at;
    for (; p->at < p->end && *p->at != '>'; p->at++) {
        char c = *p->at;
        bool is_digit = c >= '0' && c <= '9';
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || (c & 0x80);
        if (is_letter || (is_digit && p->at > first)) continue;
        fail_at(p, LF_INVALID, "a group's name that is none");
        return;
    }
    if (p->at == first || !take(p, ">")) fail_at(p, LF_INVALID, "a group's name without an end");
}

static uint32_t parse_group(struct parser *p, uint32_t from)
{
    if (++p->depth > LF_GRAMMAR_REGEX_DEPTH) {
        fail_at(p, LF_LIMIT, "groups nested too deep");
        return from;
    }
    if (take(p, "?")) {
        if (here(p, "=") || here(p, "!") || here(p, "<=") || here(p, "<!")) {
            fail_at(p, LF_UNSUPPORTED, "look-ahead and look-behind are not supported");
        } else if (take(p, "<")) {
            skip_name(p);
        } else if (!take(p, ":")) {
            fail_at(p, LF_UNSUPPORTED, "flags within a pattern are not supported");
        }
    }
    uint32_t to = parse_alternatives(p, from);
    if (lf_compilation_ok(p->c) && !take(p, ")")) fail_at(p, LF_INVALID, "a group without an end");
    p->depth--;
    return to;
}

static uint32_t parse_escape(struct parser *p, uint32_t from)
{
    struct class *set = lf_compilation_scratch(p->c, 1, sizeof *set);
    if (!set) return from;
    if (p->at < p->end && add_named(p, set, *p->at)) {
        p->at++;
        return emit(p, from, set, false);
    }
    return one_code_point(p, from, take_escaped(p, false));
}

static uint32_t parse_dot(struct parser *p, uint32_t from)
{
    struct class *set = lf_compilation_scratch(p->c, 1, sizeof *set);
    if (!set) return from;
    add_ranges(p, set, line_ends, LF_N_ELEMS(line_ends), false);
    return emit(p, from, set, true);
}

static uint32_t parse_atom(struct parser *p, uint32_t from)
{
    if (take(p, "(")) return parse_group(p, from);
    if (take(p, "[")) return parse_class(p, from);
    if (take(p, "\\")) return parse_escape(p, from);
    if (take(p, ".")) return parse_dot(p, from);
    if (here(p, "*") || here(p, "+") || here(p, "?") || here(p, "{")) {
        fail_at(p, LF_INVALID, "there is nothing to repeat");
        return from;
    }
    return one_code_point(p, from, take_code_point(p));
}

/* Whether the four characters before are the digits of the first half of a pair, which is one atom with the second. */
static bool is_high_surrogate(const struct parser *p)
{
    return p->at - p->begin >= 4 && (p->at[-4] | 32) == 'd' && p->at[-3] && strchr("89abAB", p->at[-3]);
}

/* Moves behind an atom without looking at its meaning: what follows it says how often it is to be parsed. */
static void skip_atom(struct parser *p)
{
    int depth = 0;
    bool in_class = false;
    do {
        char ch = p->at < p->end ? *p->at : 0;
        if (p->at >= p->end) return;
        p->at++;
        if (ch == '\\' && p->at < p->end) {
            ch = *p->at++;
            int n_hex = ch == 'x' ? 2 : ch == 'u' ? 4 : ch == 'c' ? 1 : 0;
            bool braced = (ch == 'u' || (ch | 32) == 'p') && here(p, "{");
            while (braced && p->at < p->end && p->at[-1] != '}') p->at++;
            if (!braced && p->end - p->at >= n_hex) p->at += n_hex;
            if (ch == 'u' && !braced && is_high_surrogate(p) && here(p, "\\u")) p->at += LF_MIN(6, p->end - p->at);
        } else if (in_class) {
            in_class = ch != ']';
        } else if (ch == '[') {
            in_class = true;
        } else if (ch == '(' || ch == ')') {
            depth += ch == '(' ? 1 : -1;
        }
        while (p->at < p->end && ((uint8_t)*p->at & 0xc0) == 0x80) p->at++;
    } while (depth > 0 || in_class);
}

static bool take_count(struct parser *p, int *out)
{
    int x = 0, n = 0;
    for (; p->at < p->end && lf_digit(*p->at) < 10; n++, p->at++)
        x = LF_MIN(x * 10 + lf_digit(*p->at), LF_GRAMMAR_REPEAT_N + 1);
    *out = x;
    return n > 0;
}

/* How often the atom before stands; a lazy form means the same texts. */
static void take_quantifier(struct parser *p, int *min, int *max)
{
    *min = *max = 1;
    if (take(p, "*")) {
        *min = 0, *max = NO_MAXIMUM;
    } else if (take(p, "+")) {
        *max = NO_MAXIMUM;
    } else if (take(p, "?")) {
        *min = 0;
    } else if (take(p, "{")) {
        if (!take_count(p, min)) fail_at(p, LF_INVALID, "{ without a number; write \\{ for the character");
        *max = *min;
        if (take(p, ",") && !take_count(p, max)) *max = NO_MAXIMUM;
        if (lf_compilation_ok(p->c) && !take(p, "}")) fail_at(p, LF_INVALID, "{ without }");
        if (*min > LF_GRAMMAR_REPEAT_N || *max > LF_GRAMMAR_REPEAT_N)
            fail_at(p, LF_LIMIT, "more than 10000 repetitions");
        if (*max != NO_MAXIMUM && *max < *min) fail_at(p, LF_INVALID, "{n,m} with m below n");
    } else {
        return;
    }
    take(p, "?");
    if (here(p, "*") || here(p, "+") || here(p, "?") || here(p, "{"))
        fail_at(p, LF_INVALID, "there is nothing to repeat");
}

/* A copy of the atom that begins at `atom`. */
static uint32_t copy_atom(struct parser *p, const char *atom, uint32_t from)
{
    const char *behind = p->at;
    p->at = atom;
    uint32_t to = parse_atom(p, from);
    if (lf_compilation_ok(p->c)) p->at = behind;
    return to;
}

static uint32_t parse_repeated(struct parser *p, uint32_t from)
{
    const char *atom = p->at;
    int min, max;
    skip_atom(p);
    take_quantifier(p, &min, &max);
    if (max == 0) copy_atom(p, atom, lf_nfa_state(p->nfa)); /* for its errors */
    for (int i = 0; i < min && lf_compilation_ok(p->c); i++) from = copy_atom(p, atom, from);
    if (max == NO_MAXIMUM) {
        uint32_t loop = lf_nfa_state(p->nfa), to = lf_nfa_state(p->nfa);
        lf_nfa_edge(p->nfa, from, loop, LF_NFA_EMPTY);
        lf_nfa_edge(p->nfa, copy_atom(p, atom, loop), loop, LF_NFA_EMPTY);
        lf_nfa_edge(p->nfa, loop, to, LF_NFA_EMPTY);
        return to;
    }
    if (max == min) return from;
    uint32_t to = lf_nfa_state(p->nfa);
    for (int i = min; i < max && lf_compilation_ok(p->c); i++) {
        lf_nfa_edge(p->nfa, from, to, LF_NFA_EMPTY);
        uint32_t begin = lf_nfa_state(p->nfa); /* a state of its own: the atom may loop to its start */
        lf_nfa_edge(p->nfa, from, begin, LF_NFA_EMPTY);
        from = copy_atom(p, atom, begin);
    }
    lf_nfa_edge(p->nfa, from, to, LF_NFA_EMPTY);
    return to;
}

static uint32_t parse_sequence(struct parser *p, uint32_t from)
{
    while (p->at < p->end && !here(p, "|") && !here(p, ")")) {
        if (!lf_compilation_ok(p->c)) break;
        bool begin = here(p, "^");
        if (!begin && !here(p, "$")) {
            from = parse_repeated(p, from);
            continue;
        }
        uint32_t to = lf_nfa_state(p->nfa);
        lf_nfa_edge(p->nfa, from, to, begin ? LF_NFA_AT_BEGIN : LF_NFA_AT_END);
        from = to;
        p->at++;
    }
    return from;
}

static uint32_t parse_alternatives(struct parser *p, uint32_t from)
{
    uint32_t to = lf_nfa_state(p->nfa);
    do {
        uint32_t begin = lf_nfa_state(p->nfa);
        lf_nfa_edge(p->nfa, from, begin, LF_NFA_EMPTY);
        lf_nfa_edge(p->nfa, parse_sequence(p, begin), to, LF_NFA_EMPTY);
    } while (lf_compilation_ok(p->c) && take(p, "|"));
    return to;
}

struct lf_dfa lf_grammar_regex(struct lf_compilation *c, struct lf_str pattern, enum lf_regex_extent extent)
{
    struct lf_nfa nfa;
    lf_nfa_init(&nfa, c);
    if (pattern.len > LF_GRAMMAR_SOURCE_BYTES)
        lf_compilation_fail(c, LF_LIMIT, "a pattern of %zu bytes: at most %d", pattern.len, LF_GRAMMAR_SOURCE_BYTES);
    const char *begin = pattern.ptr ? pattern.ptr : "";
    struct parser p = {.c = c, .nfa = &nfa, .at = begin, .begin = begin, .end = begin + pattern.len};
    uint32_t from = nfa.start, accept = nfa.accept;
    if (extent == LF_REGEX_ANYWHERE) {
        lf_nfa_code_points(&nfa, nfa.start, nfa.start, 0, MAX_CODE_POINT);
        lf_nfa_code_points(&nfa, accept, accept, 0, MAX_CODE_POINT);
        from = lf_nfa_state(&nfa);
        lf_nfa_edge(&nfa, nfa.start, from, LF_NFA_EMPTY);
    }
    uint32_t to = parse_alternatives(&p, from);
    if (lf_compilation_ok(c) && p.at < p.end) fail_at(&p, LF_INVALID, "a ) without its (");
    lf_nfa_edge(&nfa, to, accept, LF_NFA_EMPTY);
    return lf_dfa_of(c, &nfa);
}
