/* One bound is one automaton: the digits read so far are compared with those of the bound.
 *
 * The comparison of an integer part is only known at its end, when its length is: until then the state is how many
 * digits were read and how they compare with as many of the bound's. Behind the point it is decided at the first digit
 * that differs. Both signs have a copy, since a smaller magnitude is a larger negative number. */
#include "grammar/number.h"

#include "core/check.h"
#include "grammar/regex.h"

enum { LESS, EQUAL, GREATER, N_ORDERS };

/* ------------------------------------------------------------------------------------------------ decimals */

struct digits {
    struct lf_decimal *d;
    int n_behind; /* digits read behind the point */
    bool full;
};

static void push_digit(struct digits *to, char ch)
{
    if (to->d->n == (int)sizeof to->d->digits)
        to->full |= ch != '0';
    else
        to->d->digits[to->d->n++] = ch;
}

/* The exponent's value, clamped. */
static int exponent(struct lf_str text, size_t at)
{
    int x = 0, sign = 1;
    if (at < text.len && (text.ptr[at] == '-' || text.ptr[at] == '+')) sign = text.ptr[at++] == '-' ? -1 : 1;
    for (; at < text.len; at++) x = LF_MIN(x * 10 + lf_digit(text.ptr[at]), 100000);
    return sign * x;
}

bool lf_decimal_read(struct lf_decimal *out, struct lf_str text)
{
    struct lf_decimal d = {0};
    struct digits to = {.d = &d};
    size_t i = 0;
    int point = 0; /* digits before it, counted from the first that is not zero */
    bool behind = false, any = false;
    if (text.len && text.ptr[0] == '-') d.negative = true, i = 1;
    for (; i < text.len && text.ptr[i] != 'e' && text.ptr[i] != 'E'; i++) {
        if (text.ptr[i] == '.') {
            behind = true;
            continue;
        }
        any |= text.ptr[i] != '0';
        if (any) push_digit(&to, text.ptr[i]);
        point += behind ? (any ? 0 : -1) : (any ? 1 : 0);
    }
    if (i < text.len) point += exponent(text, i + 1);
    while (d.n && d.digits[d.n - 1] == '0') d.n--;
    if (d.n == 0) d = (struct lf_decimal){.digits = "0", .n = 1, .n_int = 1}, point = 1;
    int n_zeros = point < 1 ? 1 - point : 0, n_int = LF_MAX(point, 1), n = LF_MAX(d.n + n_zeros, n_int);
    if (to.full || n_int > LF_GRAMMAR_BOUND_DIGITS_N || n - n_int > LF_GRAMMAR_BOUND_DIGITS_N) return false;
    memmove(d.digits + n_zeros, d.digits, (size_t)d.n);
    memset(d.digits, '0', (size_t)n_zeros);
    memset(d.digits + n_zeros + d.n, '0', (size_t)(n - n_zeros - d.n));
    d.n = n;
    d.n_int = n_int;
    *out = d;
    return true;
}

static int compare_magnitudes(const struct lf_decimal *a, const struct lf_decimal *b)
{
    if (a->n_int != b->n_int) return a->n_int < b->n_int ? -1 : 1;
    int order = memcmp(a->digits, b->digits, (size_t)LF_MIN(a->n, b->n));
    if (order == 0) order = a->n - b->n;
    return order < 0 ? -1 : order > 0;
}

int lf_decimal_compare(const struct lf_decimal *a, const struct lf_decimal *b)
{
    if (a->negative != b->negative) return a->negative ? -1 : 1;
    int order = compare_magnitudes(a, b);
    return a->negative ? -order : order;
}

bool lf_decimal_within(const struct lf_decimal *d, const struct lf_number_bounds *b)
{
    int rest = 0, above = b->has_min ? lf_decimal_compare(d, &b->min) : 1;
    int below = b->has_max ? lf_decimal_compare(d, &b->max) : -1;
    if (above < 0 || below > 0 || (above == 0 && b->min_exclusive) || (below == 0 && b->max_exclusive)) return false;
    if ((b->integer || b->multiple_of) && d->n != d->n_int) return false;
    for (int i = 0; i < d->n && b->multiple_of; i++) rest = (rest * 10 + d->digits[i] - '0') % b->multiple_of;
    return rest == 0;
}

/* ------------------------------------------------------------------------------------------------ automata */

/* The automaton of the numbers whose magnitude compares with the bound's in one of the allowed ways. */
struct comparison {
    struct lf_nfa *nfa;
    const struct lf_decimal *bound;
    const bool *allowed;                                          /* [LESS, EQUAL, GREATER] */
    uint32_t whole[LF_GRAMMAR_BOUND_DIGITS_N + 1][N_ORDERS];      /* so many digits were read, and how they compare */
    uint32_t longer;                                              /* more than the bound has before its point */
    uint32_t equal[LF_GRAMMAR_BOUND_DIGITS_N + 1], less, greater; /* behind the point */
};

static void accept_if(struct comparison *m, uint32_t state, int order)
{
    if (m->allowed[order]) lf_nfa_edge(m->nfa, state, m->nfa->accept, LF_NFA_EMPTY);
}

/* Digits below, at and above this one, from a state of which all digits so far are equal. */
static void compare_digit(struct comparison *m, uint32_t from, char digit, const uint32_t to[N_ORDERS])
{
    if (digit > '0') lf_nfa_bytes(m->nfa, from, to[LESS], '0', (uint8_t)(digit - 1));
    lf_nfa_bytes(m->nfa, from, to[EQUAL], (uint8_t)digit, (uint8_t)digit);
    if (digit < '9') lf_nfa_bytes(m->nfa, from, to[GREATER], (uint8_t)(digit + 1), '9');
}

static void fraction(struct comparison *m)
{
    int n = m->bound->n - m->bound->n_int;
    for (int i = 0; i < n; i++) {
        uint32_t to[N_ORDERS] = {m->less, m->equal[i + 1], m->greater};
        compare_digit(m, m->equal[i], m->bound->digits[m->bound->n_int + i], to);
        accept_if(m, m->equal[i], LESS); /* what is left of the bound is not zero */
    }
    uint32_t to[N_ORDERS] = {m->less, m->equal[n], m->greater};
    compare_digit(m, m->equal[n], '0', to);
    accept_if(m, m->equal[n], EQUAL);
    lf_nfa_bytes(m->nfa, m->less, m->less, '0', '9');
    lf_nfa_bytes(m->nfa, m->greater, m->greater, '0', '9');
    accept_if(m, m->less, LESS);
    accept_if(m, m->greater, GREATER);
}

/* The end of an integer part of k digits, at the end of the text or before a point. */
static void end_whole(struct comparison *m, uint32_t state, int k, int order)
{
    const struct lf_decimal *b = m->bound;
    int now = k < b->n_int ? LESS : order;
    uint32_t behind = now == LESS ? m->less : now == GREATER ? m->greater : m->equal[0];
    lf_nfa_bytes(m->nfa, state, behind, '.', '.');
    accept_if(m, state, now == EQUAL && b->n > b->n_int ? LESS : now);
}

static void compare(struct lf_nfa *nfa, uint32_t from, const struct lf_decimal *bound, const bool allowed[N_ORDERS])
{
    struct comparison m = {.nfa = nfa, .bound = bound, .allowed = allowed};
    for (int k = 1; k <= bound->n_int; k++)
        for (int order = 0; order < N_ORDERS; order++) m.whole[k][order] = lf_nfa_state(nfa);
    for (int i = 0; i <= bound->n - bound->n_int; i++) m.equal[i] = lf_nfa_state(nfa);
    m.longer = lf_nfa_state(nfa);
    m.less = lf_nfa_state(nfa);
    m.greater = lf_nfa_state(nfa);
    compare_digit(&m, from, bound->digits[0], m.whole[1]);
    for (int k = 1; k <= bound->n_int; k++)
        for (int order = 0; order < N_ORDERS; order++) {
            uint32_t state = m.whole[k][order];
            if (k == bound->n_int)
                lf_nfa_bytes(nfa, state, m.longer, '0', '9');
            else if (order == EQUAL)
                compare_digit(&m, state, bound->digits[k], m.whole[k + 1]);
            else
                lf_nfa_bytes(nfa, state, m.whole[k + 1][order], '0', '9');
            end_whole(&m, state, k, order);
        }
    lf_nfa_bytes(nfa, m.longer, m.longer, '0', '9');
    end_whole(&m, m.longer, bound->n_int, GREATER);
    fraction(&m);
}

/* What is at least the bound, or at most; strictly, where it is exclusive. */
static struct lf_dfa side(struct lf_compilation *c, const struct lf_decimal *bound, bool at_least, bool exclusive)
{
    struct lf_nfa nfa;
    bool same_sign[N_ORDERS] = {at_least == bound->negative, !exclusive, at_least != bound->negative};
    bool all[N_ORDERS] = {true, true, true};
    lf_nfa_init(&nfa, c);
    uint32_t minus = lf_nfa_state(&nfa);
    lf_nfa_bytes(&nfa, nfa.start, minus, '-', '-');
    compare(&nfa, bound->negative ? minus : nfa.start, bound, same_sign);
    /* numbers of the other sign are all on the right side of the bound, or none of them is */
    if (at_least == bound->negative) compare(&nfa, bound->negative ? nfa.start : minus, bound, all);
    return lf_dfa_of(c, &nfa);
}

/* Decimal digits of multiples of m: the state is the remainder of what was read. */
static struct lf_dfa multiples(struct lf_compilation *c, int m)
{
    struct lf_nfa nfa;
    lf_nfa_init(&nfa, c);
    uint32_t first = lf_nfa_state(&nfa), minus = first + (uint32_t)m;
    for (int r = 0; r < m; r++) lf_nfa_state(&nfa);
    lf_nfa_bytes(&nfa, nfa.start, minus, '-', '-');
    for (int r = 0; r < m && lf_compilation_ok(c); r++)
        for (int d = 0; d < 10; d++)
            lf_nfa_bytes(&nfa, first + (uint32_t)r, first + (uint32_t)((r * 10 + d) % m), (uint8_t)('0' + d),
                         (uint8_t)('0' + d));
    for (int d = 0; d < 10; d++) {
        lf_nfa_bytes(&nfa, nfa.start, first + (uint32_t)(d % m), (uint8_t)('0' + d), (uint8_t)('0' + d));
        lf_nfa_bytes(&nfa, minus, first + (uint32_t)(d % m), (uint8_t)('0' + d), (uint8_t)('0' + d));
    }
    lf_nfa_edge(&nfa, first, nfa.accept, LF_NFA_EMPTY);
    return lf_dfa_of(c, &nfa);
}

struct lf_dfa lf_grammar_number(struct lf_compilation *c, const struct lf_number_bounds *b)
{
    static const char free_integer[] = "-?(0|[1-9][0-9]{0,63})";
    static const char free_number[] = "-?(0|[1-9][0-9]{0,63})(\\.[0-9]{1,64})?([eE][+-]?[0-9]{1,2})?";
    static const char integer[] = "0|-?[1-9][0-9]{0,63}";
    static const char number[] = "(0|[1-9][0-9]{0,63})(\\.[0-9]{1,64})?|-([1-9][0-9]{0,63}(\\.[0-9]{1,64})?"
                                 "|0\\.0{0,63}[1-9][0-9]{0,63})";
    static const char multiple[] = "0|-?[1-9][0-9]{0,17}"; /* each remainder once for each number of digits */
    static const char any_integer[] = "0|-?[1-9][0-9]*";
    static const char any_number[] = "(0|[1-9][0-9]*)(\\.[0-9]+)?|-([1-9][0-9]*(\\.[0-9]+)?|0\\.0*[1-9][0-9]*)";
    bool bounded = b->has_min || b->has_max || b->multiple_of, whole = b->integer || b->multiple_of;
    const char *form = b->any_length    ? (whole ? any_integer : any_number)
                       : b->multiple_of ? multiple
                       : bounded        ? (whole ? integer : number)
                       : whole          ? free_integer
                                        : free_number;
    struct lf_dfa dfa = lf_grammar_regex(c, lf_str_c(form), LF_REGEX_WHOLE);
    dfa = lf_dfa_minimize(c, &dfa);
    if (b->has_min) {
        struct lf_dfa at_least = side(c, &b->min, true, b->min_exclusive);
        dfa = lf_dfa_combine(c, &dfa, &at_least, LF_DFA_AND);
    }
    if (b->has_max) {
        struct lf_dfa at_most = side(c, &b->max, false, b->max_exclusive);
        dfa = lf_dfa_combine(c, &dfa, &at_most, LF_DFA_AND);
    }
    if (b->multiple_of) {
        struct lf_dfa of_it = multiples(c, b->multiple_of);
        dfa = lf_dfa_combine(c, &dfa, &of_it, LF_DFA_AND);
    }
    return lf_dfa_minimize(c, &dfa);
}
