/* Expressions: precedence climbing over Jinja's table of operators.
 *
 * Loosest first: `x if c else y`, or, and, not, comparisons (chained), + -, ~, * / // %, ** (to the left, as Jinja has
 * it), unary + -, and tightest the postfixes: .name [item] (call), then filters and tests. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/check.h"
#include "template/builtin/jinja_builtin.h"
#include "template/jinja/jinja_parser.h"

/* Chains of operators and postfixes lean to the left without nesting in the source; they may be longer. */
enum { EXPR_DEPTH = 4 * LF_TEMPLATE_DEPTH };

/* The longest number, written out. */
enum { NUMBER_BYTES = 400 };

static enum lf_status deepen(struct lf_jinja_parser *p, struct lf_jinja_node *node, const struct lf_jinja_node *list)
{
    for (; list; list = list->next) {
        if (list->depth >= node->depth) node->depth = (uint16_t)(list->depth + 1);
    }
    if (node->depth <= EXPR_DEPTH) return LF_OK;
    return lf_fail(p->err, LF_LIMIT, "line %u: an expression is deeper than %d", node->line, EXPR_DEPTH);
}

/* A node of an expression over a and b (may be NULL); LF_LIMIT when it is too deep. */
static enum lf_status expr_node(struct lf_jinja_parser *p, struct lf_jinja_node **out, enum lf_jinja_kind kind,
                                uint32_t line, struct lf_jinja_node *a, struct lf_jinja_node *b)
{
    struct lf_jinja_node *node;
    LF_TRY(lf_jinja_node(p, &node, kind, line));
    node->a = a;
    node->b = b;
    LF_TRY(deepen(p, node, a));
    LF_TRY(deepen(p, node, b));
    *out = node;
    return LF_OK;
}

/* -- Literals -- */

struct unescape {
    char *dst;
    size_t n;
};

static void append_cp(struct unescape *u, uint32_t cp)
{
    char bytes[4];
    int n = lf_utf8_encode(cp, bytes);
    memcpy(u->dst + u->n, bytes, (size_t)n);
    u->n += (size_t)n;
}

/* The number written with up to max_digits digits of the base at s[*i]; exactly so many if `exact`. */
static bool read_code(struct lf_str s, size_t *i, int base, size_t max_digits, bool exact, uint32_t *cp)
{
    size_t n = 0;
    *cp = 0;
    for (; n < max_digits && *i < s.len; n++, (*i)++) {
        int digit = lf_digit(s.ptr[*i]);
        if (digit >= base) break;
        *cp = *cp * (uint32_t)base + (uint32_t)digit;
    }
    return (!exact || n == max_digits) && *cp <= 0x10ffff && !(*cp >= 0xd800 && *cp <= 0xdfff);
}

/* One escape; s[*i] is the byte behind the backslash. false: a malformed one. */
static bool unescape_one(struct unescape *u, struct lf_str s, size_t *i)
{
    static const char plain[] = "\\\\''\"\"a\ab\bf\fn\nr\rt\tv\v";
    char c = s.ptr[*i];
    for (size_t k = 0; k + 1 < sizeof(plain); k += 2) {
        if (plain[k] != c) continue;
        u->dst[u->n++] = plain[k + 1];
        (*i)++;
        return true;
    }
    uint32_t cp;
    if (c == '\n') {
        (*i)++;
        return true;
    }
    if (c >= '0' && c <= '7') {
        (void)read_code(s, i, 8, 3, false, &cp); /* at most 0777 */
        append_cp(u, cp);
        return true;
    }
    if (c == 'x' || c == 'u' || c == 'U') {
        (*i)++;
        if (!read_code(s, i, 16, c == 'x' ? 2 : c == 'u' ? 4 : 8, true, &cp)) return false;
        append_cp(u, cp);
        return true;
    }
    if (c == 'N') return false;
    u->dst[u->n++] = '\\';
    if ((unsigned char)c < 0x80) return true; /* the byte itself follows as an ordinary one */
    /* Jinja sees a letter beyond ASCII as an escape of its own, which the backslash before it then unmakes. */
    *i += (size_t)lf_utf8_decode(s.ptr + *i, s.len - *i, &cp);
    u->n += (size_t)snprintf(u->dst + u->n, 12, cp < 0x100 ? "x%02x" : cp < 0x10000 ? "u%04x" : "U%08x", cp);
    return true;
}

/* The strings that stand side by side here, as one value. */
static enum lf_status parse_string(struct lf_jinja_parser *p, struct lf_jinja_value *out)
{
    struct unescape u = {NULL, 0};
    size_t cap = 0;
    while (p->cur.kind == LF_JINJA_T_STRING) {
        struct lf_str s = p->cur.text;
        size_t need = u.n + s.len * 4 + 16; /* the longest escape makes "\" + one character into 11 bytes of 3 */
        if (need > cap) {
            cap = LF_MAX(need, cap * 2); /* what is left behind in the arena is no more than what is used */
            char *grown = lf_arena_alloc(&p->program->arena, cap);
            if (!grown) return lf_jinja_parse_no_memory(p);
            if (u.n) memcpy(grown, u.dst, u.n);
            u.dst = grown;
        }
        for (size_t i = 0; i < s.len;) {
            if (s.ptr[i] != '\\') {
                u.dst[u.n++] = s.ptr[i++];
                continue;
            }
            i++;
            LF_ASSERT(i < s.len); /* to the lexer a backslash and what follows are one */
            if (!unescape_one(&u, s, &i))
                return lf_fail(p->err, LF_INVALID, "line %u: a string holds a malformed escape", p->cur.line);
        }
        LF_TRY(lf_jinja_next(p));
    }
    return lf_jinja_text_value(p, out, lf_str_from(u.dst, u.n));
}

static enum lf_status parse_number(struct lf_jinja_parser *p, struct lf_jinja_value *out)
{
    char digits[NUMBER_BYTES + 1];
    size_t n = 0;
    for (size_t i = 0; i < p->cur.text.len; i++) {
        if (p->cur.text.ptr[i] == '_') continue;
        if (n == NUMBER_BYTES) {
            return lf_fail(p->err, LF_UNSUPPORTED, "line %u: numbers of more than %d letters are not implemented",
                           p->cur.line, NUMBER_BYTES);
        }
        digits[n++] = p->cur.text.ptr[i];
    }
    digits[n] = '\0';
    if (p->cur.kind == LF_JINJA_T_FLOAT) {
        *out = lf_jinja_float(strtod(digits, NULL));
        return lf_jinja_next(p);
    }
    int mark = n > 1 && digits[0] == '0' ? digits[1] | 0x20 : 0;
    int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    errno = 0;
    long long i = strtoll(base == 10 ? digits : digits + 2, NULL, base);
    if (errno) {
        return lf_fail(p->err, LF_UNSUPPORTED, "line %u: integers beyond 64 bits are not implemented", p->cur.line);
    }
    *out = lf_jinja_int(i);
    return lf_jinja_next(p);
}

/* -- Primary expressions -- */

static enum lf_status parse_name(struct lf_jinja_parser *p, struct lf_jinja_node **out, bool with_namespace)
{
    static const char *const trues[] = {"true", "True"}, *const falses[] = {"false", "False"},
                             *const nones[] = {"none", "None"};
    struct lf_str text = p->cur.text;
    struct lf_jinja_node *node;
    LF_TRY(expr_node(p, &node, LF_JINJA_N_CONST, p->cur.line, NULL, NULL));
    *out = node;
    LF_TRY(lf_jinja_next(p));
    for (size_t i = 0; i < 2; i++) {
        if (lf_str_eq(text, lf_str_c(trues[i]))) node->value = lf_jinja_bool(true);
        if (lf_str_eq(text, lf_str_c(falses[i]))) node->value = lf_jinja_bool(false);
        if (lf_str_eq(text, lf_str_c(nones[i]))) node->value = lf_jinja_none();
    }
    if (lf_jinja_given(node->value)) return LF_OK;
    node->kind = LF_JINJA_N_NAME;
    LF_TRY(lf_jinja_intern(p, &node->name, text));
    if (with_namespace && p->cur.kind == LF_JINJA_T_DOT) {
        LF_TRY(lf_jinja_next(p));
        node->kind = LF_JINJA_N_NSREF;
        if (p->cur.kind != LF_JINJA_T_NAME) return lf_jinja_parse_fail(p, "an attribute's name");
        LF_TRY(lf_jinja_text_value(p, &node->value, p->cur.text));
        return lf_jinja_next(p);
    }
    if (node->name == LF_JINJA_NAME_CALLER) p->uses |= LF_JINJA_USES_CALLER;
    if (node->name == LF_JINJA_NAME_KWARGS) p->uses |= LF_JINJA_USES_KWARGS;
    if (node->name == LF_JINJA_NAME_VARARGS) p->uses |= LF_JINJA_USES_VARARGS;
    return LF_OK;
}

static enum lf_status parse_list(struct lf_jinja_parser *p, struct lf_jinja_node *node)
{
    struct lf_jinja_node **tail = &node->a;
    LF_TRY(lf_jinja_next(p));
    while (p->cur.kind != LF_JINJA_T_RBRACKET) {
        if (node->a) LF_TRY(lf_jinja_expect(p, LF_JINJA_T_COMMA, "',' or ']'"));
        if (p->cur.kind == LF_JINJA_T_RBRACKET) break;
        LF_TRY(lf_jinja_parse_expr(p, tail, true));
        tail = &(*tail)->next;
    }
    return lf_jinja_next(p);
}

static enum lf_status parse_dict(struct lf_jinja_parser *p, struct lf_jinja_node *node)
{
    struct lf_jinja_node **tail = &node->a;
    LF_TRY(lf_jinja_next(p));
    while (p->cur.kind != LF_JINJA_T_RBRACE) {
        struct lf_jinja_node *key, *value;
        uint32_t line = p->cur.line;
        if (node->a) LF_TRY(lf_jinja_expect(p, LF_JINJA_T_COMMA, "',' or '}'"));
        if (p->cur.kind == LF_JINJA_T_RBRACE) break;
        LF_TRY(lf_jinja_parse_expr(p, &key, true));
        LF_TRY(lf_jinja_expect(p, LF_JINJA_T_COLON, "':'"));
        LF_TRY(lf_jinja_parse_expr(p, &value, true));
        LF_TRY(expr_node(p, tail, LF_JINJA_N_PAIR, line, key, value));
        tail = &(*tail)->next;
    }
    return lf_jinja_next(p);
}

static enum lf_status parse_primary(struct lf_jinja_parser *p, struct lf_jinja_node **out, bool with_namespace)
{
    enum lf_jinja_token_kind kind = p->cur.kind;
    if (kind == LF_JINJA_T_NAME) return parse_name(p, out, with_namespace);
    if (kind == LF_JINJA_T_LPAREN) {
        LF_TRY(lf_jinja_next(p));
        LF_TRY(lf_jinja_parse_tuple(p, out, LF_JINJA_TUPLE_PARENS));
        return lf_jinja_expect(p, LF_JINJA_T_RPAREN, "')'");
    }
    struct lf_jinja_node *node;
    LF_TRY(expr_node(p, &node, LF_JINJA_N_CONST, p->cur.line, NULL, NULL));
    *out = node;
    if (kind == LF_JINJA_T_STRING) return parse_string(p, &node->value);
    if (kind == LF_JINJA_T_INTEGER || kind == LF_JINJA_T_FLOAT) return parse_number(p, &node->value);
    if (kind == LF_JINJA_T_LBRACKET) {
        node->kind = LF_JINJA_N_LIST;
        LF_TRY(parse_list(p, node));
        return deepen(p, node, node->a);
    }
    if (kind == LF_JINJA_T_LBRACE) {
        node->kind = LF_JINJA_N_DICT;
        LF_TRY(parse_dict(p, node));
        return deepen(p, node, node->a);
    }
    return lf_jinja_parse_fail(p, "an expression");
}

/* -- Postfixes -- */

static enum lf_status parse_subscript(struct lf_jinja_parser *p, struct lf_jinja_node **out)
{
    struct lf_jinja_node *part[3] = {NULL, NULL, NULL};
    uint32_t line = p->cur.line;
    bool is_slice = false;
    for (int i = 0;; i++) {
        enum lf_jinja_token_kind kind = p->cur.kind;
        if (kind != LF_JINJA_T_COLON && kind != LF_JINJA_T_RBRACKET && kind != LF_JINJA_T_COMMA) {
            LF_TRY(lf_jinja_parse_expr(p, &part[i], true));
        }
        if (p->cur.kind != LF_JINJA_T_COLON || i == 2) break;
        is_slice = true;
        LF_TRY(lf_jinja_next(p));
    }
    if (!is_slice) {
        *out = part[0];
        return *out ? LF_OK : lf_jinja_parse_fail(p, "an expression");
    }
    LF_TRY(expr_node(p, out, LF_JINJA_N_SLICE, line, part[0], part[1]));
    (*out)->c = part[2];
    return deepen(p, *out, part[2]);
}

/* "[…]" behind node; several subscripts make a tuple. */
static enum lf_status parse_item(struct lf_jinja_parser *p, struct lf_jinja_node **out, struct lf_jinja_node *node)
{
    uint32_t line = p->cur.line;
    struct lf_jinja_node *first = NULL, **tail = &first;
    LF_TRY(lf_jinja_next(p));
    while (p->cur.kind != LF_JINJA_T_RBRACKET) {
        if (first) LF_TRY(lf_jinja_expect(p, LF_JINJA_T_COMMA, "',' or ']'"));
        LF_TRY(parse_subscript(p, tail));
        if (first->next && (first->kind == LF_JINJA_N_SLICE || (*tail)->kind == LF_JINJA_N_SLICE)) {
            return lf_jinja_parse_fail(p, "one slice only");
        }
        tail = &(*tail)->next;
    }
    LF_TRY(lf_jinja_next(p));
    if (!first || first->next) LF_TRY(expr_node(p, &first, LF_JINJA_N_TUPLE, line, first, NULL));
    return expr_node(p, out, LF_JINJA_N_ITEM, line, node, first);
}

static enum lf_status parse_attr(struct lf_jinja_parser *p, struct lf_jinja_node **out, struct lf_jinja_node *node)
{
    uint32_t line = p->cur.line;
    LF_TRY(lf_jinja_next(p));
    if (p->cur.kind == LF_JINJA_T_INTEGER) {
        struct lf_jinja_node *idx;
        LF_TRY(parse_primary(p, &idx, false));
        return expr_node(p, out, LF_JINJA_N_ITEM, line, node, idx);
    }
    if (p->cur.kind != LF_JINJA_T_NAME) return lf_jinja_parse_fail(p, "a name or a number");
    LF_TRY(expr_node(p, out, LF_JINJA_N_ATTR, line, node, NULL));
    LF_TRY(lf_jinja_text_value(p, &(*out)->value, p->cur.text));
    return lf_jinja_next(p);
}

/* One argument; *seen keeps what came before, because the order is fixed. */
static enum lf_status parse_arg(struct lf_jinja_parser *p, struct lf_jinja_node **out, unsigned *seen)
{
    enum { KEYWORD = 1, ARGS = 2, KWARGS = 4 };
    struct lf_jinja_token ahead = {0};
    enum lf_jinja_kind kind = LF_JINJA_N_ARG;
    uint32_t line = p->cur.line;
    struct lf_jinja_value name = {0};
    if (p->cur.kind == LF_JINJA_T_NAME) LF_TRY(lf_jinja_peek(p, &ahead));
    unsigned forbidden = KEYWORD | ARGS | KWARGS, adds = 0;
    if (p->cur.kind == LF_JINJA_T_MUL) {
        kind = LF_JINJA_N_ARGS_UNPACK;
        forbidden = ARGS | KWARGS;
        adds = ARGS;
    } else if (p->cur.kind == LF_JINJA_T_POW) {
        kind = LF_JINJA_N_KWARGS_UNPACK;
        forbidden = KWARGS;
        adds = KWARGS;
    } else if (ahead.kind == LF_JINJA_T_ASSIGN) {
        kind = LF_JINJA_N_KEYWORD;
        forbidden = KWARGS;
        adds = KEYWORD;
        LF_TRY(lf_jinja_text_value(p, &name, p->cur.text));
        LF_TRY(lf_jinja_next(p));
    }
    if (*seen & forbidden) return lf_jinja_parse_fail(p, "arguments in the order x, name=x, *x, **x");
    *seen |= adds;
    if (kind != LF_JINJA_N_ARG) LF_TRY(lf_jinja_next(p));
    struct lf_jinja_node *value;
    LF_TRY(lf_jinja_parse_expr(p, &value, true));
    LF_TRY(expr_node(p, out, kind, line, value, NULL));
    (*out)->value = name;
    return LF_OK;
}

static enum lf_status refuse_repeated(struct lf_jinja_parser *p, const struct lf_jinja_node *first,
                                      const struct lf_jinja_node *last)
{
    if (last->kind != LF_JINJA_N_KEYWORD) return LF_OK;
    for (; first != last; first = first->next) {
        if (first->kind == LF_JINJA_N_KEYWORD &&
            lf_str_eq(lf_jinja_text_str(first->value.as.s), lf_jinja_text_str(last->value.as.s))) {
            return lf_fail(p->err, LF_INVALID, "line %u: an argument is given twice", last->line);
        }
    }
    return LF_OK;
}

static enum lf_status parse_args(struct lf_jinja_parser *p, struct lf_jinja_node **out)
{
    struct lf_jinja_node **tail = out;
    unsigned seen = 0;
    size_t n_args = 0;
    *out = NULL;
    LF_TRY(lf_jinja_next(p));
    while (p->cur.kind != LF_JINJA_T_RPAREN) {
        if (*out) LF_TRY(lf_jinja_expect(p, LF_JINJA_T_COMMA, "',' or ')'"));
        if (p->cur.kind == LF_JINJA_T_RPAREN) break;
        if (++n_args > LF_JINJA_ARGS_N) {
            return lf_fail(p->err, LF_LIMIT, "line %u: more than %d arguments", p->cur.line, LF_JINJA_ARGS_N);
        }
        LF_TRY(parse_arg(p, tail, &seen));
        LF_TRY(refuse_repeated(p, *out, *tail));
        tail = &(*tail)->next;
    }
    return lf_jinja_next(p);
}

static enum lf_status parse_call(struct lf_jinja_parser *p, struct lf_jinja_node **out, struct lf_jinja_node *node)
{
    uint32_t line = p->cur.line;
    struct lf_jinja_node *args;
    LF_TRY(parse_args(p, &args));
    return expr_node(p, out, LF_JINJA_N_CALL, line, node, args);
}

static enum lf_status parse_postfix(struct lf_jinja_parser *p, struct lf_jinja_node **node)
{
    for (;;) {
        if (p->cur.kind == LF_JINJA_T_DOT) {
            LF_TRY(parse_attr(p, node, *node));
        } else if (p->cur.kind == LF_JINJA_T_LBRACKET) {
            LF_TRY(parse_item(p, node, *node));
        } else if (p->cur.kind == LF_JINJA_T_LPAREN) {
            LF_TRY(parse_call(p, node, *node));
        } else {
            return LF_OK;
        }
    }
}

/* The name of a filter or test, and its row in the table; a dotted name is never in it. */
static enum lf_status parse_builtin(struct lf_jinja_parser *p, struct lf_jinja_node *node, bool is_filter)
{
    struct lf_str name = p->cur.text;
    if (p->cur.kind != LF_JINJA_T_NAME) return lf_jinja_parse_fail(p, is_filter ? "a filter's name" : "a test's name");
    LF_TRY(lf_jinja_next(p));
    while (p->cur.kind == LF_JINJA_T_DOT) {
        LF_TRY(lf_jinja_next(p));
        if (p->cur.kind != LF_JINJA_T_NAME) return lf_jinja_parse_fail(p, "a name");
        name.len = (size_t)(p->cur.text.ptr + p->cur.text.len - name.ptr);
        LF_TRY(lf_jinja_next(p));
    }
    LF_TRY(lf_jinja_text_value(p, &node->value, name));
    node->builtin = is_filter ? lf_jinja_find_filter(name) : lf_jinja_find_test(name);
    if (!node->builtin && is_filter && lf_jinja_is_left_out(name)) {
        return lf_fail(p->err, LF_UNSUPPORTED, "line %u: the filter '%.*s' is not implemented", node->line,
                       (int)name.len, name.ptr);
    }
    if (!node->builtin && !p->soft && !p->unknown) p->unknown = node;
    return LF_OK;
}

enum lf_status lf_jinja_parse_filters(struct lf_jinja_parser *p, struct lf_jinja_node **out, struct lf_jinja_node *node,
                                      bool is_inline)
{
    while (p->cur.kind == LF_JINJA_T_PIPE || is_inline) {
        if (!is_inline) LF_TRY(lf_jinja_next(p));
        struct lf_jinja_node *filter, *args = NULL;
        LF_TRY(expr_node(p, &filter, LF_JINJA_N_FILTER, p->cur.line, node, NULL));
        LF_TRY(parse_builtin(p, filter, true));
        if (p->cur.kind == LF_JINJA_T_LPAREN) LF_TRY(parse_args(p, &args));
        filter->b = args;
        LF_TRY(deepen(p, filter, args));
        node = filter;
        is_inline = false;
    }
    *out = node;
    return LF_OK;
}

static bool starts_test_arg(const struct lf_jinja_parser *p)
{
    switch (p->cur.kind) {
    case LF_JINJA_T_NAME:
        return !lf_jinja_at_name(p, "else") && !lf_jinja_at_name(p, "or") && !lf_jinja_at_name(p, "and");
    case LF_JINJA_T_STRING:
    case LF_JINJA_T_INTEGER:
    case LF_JINJA_T_FLOAT:
    case LF_JINJA_T_LBRACKET:
    case LF_JINJA_T_LBRACE:
        return true;
    default:
        return false;
    }
}

/* "is [not] name [argument]" behind *node. */
static enum lf_status parse_test(struct lf_jinja_parser *p, struct lf_jinja_node **node)
{
    struct lf_jinja_node *test;
    bool negated;
    uint32_t line = p->cur.line;
    LF_TRY(lf_jinja_next(p));
    LF_TRY(lf_jinja_skip_name(p, "not", &negated));
    LF_TRY(expr_node(p, &test, LF_JINJA_N_TEST, line, *node, NULL));
    LF_TRY(parse_builtin(p, test, false));
    if (p->cur.kind == LF_JINJA_T_LPAREN) {
        LF_TRY(parse_args(p, &test->b));
    } else if (starts_test_arg(p)) {
        struct lf_jinja_node *arg;
        if (lf_jinja_at_name(p, "is")) return lf_jinja_parse_fail(p, "no second 'is'");
        LF_TRY(parse_primary(p, &arg, false));
        LF_TRY(parse_postfix(p, &arg));
        LF_TRY(expr_node(p, &test->b, LF_JINJA_N_ARG, line, arg, NULL));
    }
    LF_TRY(deepen(p, test, test->b));
    *node = test;
    return negated ? expr_node(p, node, LF_JINJA_N_NOT, line, test, NULL) : LF_OK;
}

/* -- Operators -- */

static enum lf_status parse_unary(struct lf_jinja_parser *p, struct lf_jinja_node **out, bool with_filter)
{
    uint32_t line = p->cur.line;
    if (p->cur.kind == LF_JINJA_T_SUB || p->cur.kind == LF_JINJA_T_ADD) {
        enum lf_jinja_kind kind = p->cur.kind == LF_JINJA_T_SUB ? LF_JINJA_N_NEG : LF_JINJA_N_POS;
        struct lf_jinja_node *operand;
        LF_TRY(lf_jinja_next(p));
        LF_TRY(lf_jinja_enter_parse(p));
        LF_TRY(parse_unary(p, &operand, false));
        p->depth--;
        LF_TRY(expr_node(p, out, kind, line, operand, NULL));
    } else {
        LF_TRY(parse_primary(p, out, false));
    }
    LF_TRY(parse_postfix(p, out));
    while (with_filter) {
        if (p->cur.kind == LF_JINJA_T_PIPE) {
            LF_TRY(lf_jinja_parse_filters(p, out, *out, false));
        } else if (lf_jinja_at_name(p, "is")) {
            LF_TRY(parse_test(p, out));
        } else if (p->cur.kind == LF_JINJA_T_LPAREN) {
            LF_TRY(parse_call(p, out, *out));
        } else {
            break;
        }
    }
    return LF_OK;
}

enum level { OR_LEVEL = 1, AND_LEVEL, NOT_LEVEL, COMPARE_LEVEL, SUM_LEVEL, CONCAT_LEVEL, PRODUCT_LEVEL, POWER_LEVEL };

struct operator
{
    enum level level;
    enum lf_jinja_kind kind;
    enum lf_jinja_op op;
    int n_tokens;
};

/* The binary operator that stands here; level 0: none. */
static enum lf_status operator_here(struct lf_jinja_parser *p, struct operator* out)
{
    static const struct {
        enum lf_jinja_token_kind token;
        struct operator row;
    } rows[] = {
        {LF_JINJA_T_EQ, {COMPARE_LEVEL, LF_JINJA_N_COMPARE, LF_JINJA_EQ, 1}},
        {LF_JINJA_T_NE, {COMPARE_LEVEL, LF_JINJA_N_COMPARE, LF_JINJA_NE, 1}},
        {LF_JINJA_T_LT, {COMPARE_LEVEL, LF_JINJA_N_COMPARE, LF_JINJA_LT, 1}},
        {LF_JINJA_T_LE, {COMPARE_LEVEL, LF_JINJA_N_COMPARE, LF_JINJA_LE, 1}},
        {LF_JINJA_T_GT, {COMPARE_LEVEL, LF_JINJA_N_COMPARE, LF_JINJA_GT, 1}},
        {LF_JINJA_T_GE, {COMPARE_LEVEL, LF_JINJA_N_COMPARE, LF_JINJA_GE, 1}},
        {LF_JINJA_T_ADD, {SUM_LEVEL, LF_JINJA_N_BINARY, LF_JINJA_ADD, 1}},
        {LF_JINJA_T_SUB, {SUM_LEVEL, LF_JINJA_N_BINARY, LF_JINJA_SUB, 1}},
        {LF_JINJA_T_TILDE, {CONCAT_LEVEL, LF_JINJA_N_CONCAT, LF_JINJA_ADD, 1}},
        {LF_JINJA_T_MUL, {PRODUCT_LEVEL, LF_JINJA_N_BINARY, LF_JINJA_MUL, 1}},
        {LF_JINJA_T_DIV, {PRODUCT_LEVEL, LF_JINJA_N_BINARY, LF_JINJA_DIV, 1}},
        {LF_JINJA_T_FLOORDIV, {PRODUCT_LEVEL, LF_JINJA_N_BINARY, LF_JINJA_FLOORDIV, 1}},
        {LF_JINJA_T_MOD, {PRODUCT_LEVEL, LF_JINJA_N_BINARY, LF_JINJA_MOD, 1}},
        {LF_JINJA_T_POW, {POWER_LEVEL, LF_JINJA_N_BINARY, LF_JINJA_POW, 1}},
    };
    *out = (struct operator){0};
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        if (rows[i].token == p->cur.kind) *out = rows[i].row;
    }
    if (p->cur.kind != LF_JINJA_T_NAME) return LF_OK;
    if (lf_jinja_at_name(p, "or")) *out = (struct operator){OR_LEVEL, LF_JINJA_N_OR, LF_JINJA_ADD, 1};
    if (lf_jinja_at_name(p, "and")) *out = (struct operator){AND_LEVEL, LF_JINJA_N_AND, LF_JINJA_ADD, 1};
    if (lf_jinja_at_name(p, "in")) *out = (struct operator){COMPARE_LEVEL, LF_JINJA_N_COMPARE, LF_JINJA_IN, 1};
    if (lf_jinja_at_name(p, "not")) {
        struct lf_jinja_token ahead;
        LF_TRY(lf_jinja_peek(p, &ahead));
        if (ahead.kind == LF_JINJA_T_NAME && lf_str_eq(ahead.text, LF_STR("in"))) {
            *out = (struct operator){COMPARE_LEVEL, LF_JINJA_N_COMPARE, LF_JINJA_NOT_IN, 2};
        }
    }
    return LF_OK;
}

static enum lf_status parse_binary(struct lf_jinja_parser *p, struct lf_jinja_node **out, enum level min_level);

/* Joins *left and right under op. Comparisons and concatenations of one chain gather in one node: `chain` is it. */
static enum lf_status join(struct lf_jinja_parser *p, struct lf_jinja_node **left, struct lf_jinja_node *right,
                           struct operator op, uint32_t line, struct lf_jinja_node ***chain)
{
    if (op.kind == LF_JINJA_N_COMPARE) {
        LF_TRY(expr_node(p, &right, LF_JINJA_N_OPERAND, line, right, NULL));
        right->op = (uint8_t)op.op;
    }
    if (*chain) {
        **chain = right;
        *chain = &right->next;
        return deepen(p, *left, right);
    }
    if (op.kind == LF_JINJA_N_CONCAT) {
        (*left)->next = right;
        LF_TRY(expr_node(p, left, op.kind, line, *left, NULL));
    } else {
        LF_TRY(expr_node(p, left, op.kind, line, *left, right));
        (*left)->op = (uint8_t)op.op;
    }
    if (op.kind == LF_JINJA_N_CONCAT || op.kind == LF_JINJA_N_COMPARE) *chain = &right->next;
    return LF_OK;
}

static enum lf_status parse_operand(struct lf_jinja_parser *p, struct lf_jinja_node **out, enum level min_level)
{
    if (min_level > NOT_LEVEL || !lf_jinja_at_name(p, "not")) return parse_unary(p, out, true);
    uint32_t line = p->cur.line;
    struct lf_jinja_node *operand;
    LF_TRY(lf_jinja_next(p));
    LF_TRY(lf_jinja_enter_parse(p));
    LF_TRY(parse_binary(p, &operand, NOT_LEVEL));
    p->depth--;
    return expr_node(p, out, LF_JINJA_N_NOT, line, operand, NULL);
}

static enum lf_status parse_binary(struct lf_jinja_parser *p, struct lf_jinja_node **out, enum level min_level)
{
    LF_TRY(parse_operand(p, out, min_level));
    struct lf_jinja_node **chain = NULL;
    enum level chain_level = OR_LEVEL;
    for (;;) {
        struct operator op;
        uint32_t line = p->cur.line;
        struct lf_jinja_node *right;
        LF_TRY(operator_here(p, &op));
        if (op.level == 0 || op.level < min_level) return LF_OK;
        if (op.level != chain_level) chain = NULL;
        chain_level = op.level;
        for (int i = 0; i < op.n_tokens; i++) LF_TRY(lf_jinja_next(p));
        LF_TRY(parse_binary(p, &right, op.level + 1));
        LF_TRY(join(p, out, right, op, line, &chain));
    }
}

enum lf_status lf_jinja_parse_expr(struct lf_jinja_parser *p, struct lf_jinja_node **out, bool with_cond)
{
    LF_TRY(lf_jinja_enter_parse(p));
    const struct lf_jinja_node *unknown = p->unknown;
    bool more = false;
    uint32_t line = p->cur.line;
    LF_TRY(parse_binary(p, out, OR_LEVEL));
    if (with_cond) LF_TRY(lf_jinja_skip_name(p, "if", &more));
    while (more) {
        struct lf_jinja_node *test, *otherwise = NULL;
        bool has_else;
        LF_TRY(parse_binary(p, &test, OR_LEVEL));
        LF_TRY(lf_jinja_skip_name(p, "else", &has_else));
        if (has_else) LF_TRY(lf_jinja_parse_expr(p, &otherwise, true));
        LF_TRY(expr_node(p, out, LF_JINJA_N_COND, line, test, *out));
        (*out)->c = otherwise;
        LF_TRY(deepen(p, *out, otherwise));
        LF_TRY(lf_jinja_skip_name(p, "if", &more));
        p->unknown = unknown; /* what stands in a choice may be missing as long as it is not chosen */
    }
    p->depth--;
    return LF_OK;
}

/* -- Tuples and targets -- */

static bool ends_tuple(const struct lf_jinja_parser *p, unsigned flags)
{
    enum lf_jinja_token_kind kind = p->cur.kind;
    if (kind == LF_JINJA_T_VAR_END || kind == LF_JINJA_T_BLOCK_END || kind == LF_JINJA_T_RPAREN) return true;
    return (flags & LF_JINJA_TUPLE_UNTIL_IN) && lf_jinja_at_name(p, "in");
}

enum lf_status lf_jinja_parse_tuple(struct lf_jinja_parser *p, struct lf_jinja_node **out, unsigned flags)
{
    struct lf_jinja_node *first = NULL, **tail = &first;
    uint32_t line = p->cur.line;
    bool is_tuple = false;
    for (;;) {
        if (first) LF_TRY(lf_jinja_expect(p, LF_JINJA_T_COMMA, "','"));
        if (ends_tuple(p, flags)) break;
        if (flags & LF_JINJA_TUPLE_TARGET) {
            LF_TRY(parse_primary(p, tail, flags & LF_JINJA_TUPLE_NAMESPACE));
        } else {
            LF_TRY(lf_jinja_parse_expr(p, tail, !(flags & LF_JINJA_TUPLE_NO_COND)));
        }
        tail = &(*tail)->next;
        if (p->cur.kind != LF_JINJA_T_COMMA) break;
        is_tuple = true;
    }
    if (!is_tuple && first) {
        *out = first;
        return LF_OK;
    }
    if (!is_tuple && !(flags & LF_JINJA_TUPLE_PARENS)) return lf_jinja_parse_fail(p, "an expression");
    return expr_node(p, out, LF_JINJA_N_TUPLE, line, first, NULL);
}

static bool is_target(const struct lf_jinja_node *node)
{
    if (node->kind == LF_JINJA_N_NAME || node->kind == LF_JINJA_N_NSREF) return true;
    if (node->kind != LF_JINJA_N_TUPLE) return false;
    for (const struct lf_jinja_node *it = node->a; it; it = it->next) {
        if (!is_target(it)) return false;
    }
    return true;
}

enum lf_status lf_jinja_parse_target(struct lf_jinja_parser *p, struct lf_jinja_node **out, unsigned flags)
{
    uint8_t uses = p->uses;
    LF_TRY(lf_jinja_parse_tuple(p, out, flags | LF_JINJA_TUPLE_TARGET));
    p->uses = uses; /* a target that is called `caller` is not a use of it */
    if (is_target(*out)) return LF_OK;
    return lf_fail(p->err, LF_INVALID, "line %u: expected a name to assign to", (*out)->line);
}
