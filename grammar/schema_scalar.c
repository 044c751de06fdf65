/* Strings and numbers under all schemas of a set. */
#include <stddef.h>
#include <string.h>

#include "core/check.h"
#include "grammar/json_string.h"
#include "grammar/regex.h"
#include "grammar/schema_impl.h"

/* More characters than any answer has: as good as no bound. */
enum { MANY_CHARACTERS = 16 * 1024 * 1024 };

static void also(struct lf_schema *s, struct lf_dfa *content, bool *is_free, struct lf_dfa more)
{
    *content = *is_free ? more : lf_dfa_combine(s->c, content, &more, LF_DFA_AND);
    *content = lf_dfa_minimize(s->c, content);
    *is_free = false;
}

static void put_path(struct lf_schema *s, struct lf_json_value at, const char *keyword)
{
    struct lf_compilation *c = s->c;
    size_t named = c->name.len ? c->name.len + 2 : 0; /* which the new message begins with again */
    if (lf_compilation_ok(c) || !c->err || strlen(c->err->message) < named) return;
    if (strncmp(c->err->message + named, "schema at", 9) == 0) return;
    struct lf_err reason = *c->err;
    enum lf_status status = c->status;
    c->status = LF_OK;
    lf_schema_fail(s, at, status, "\"%s\": %.200s", keyword, reason.message + named);
}

/* That of a schema; NULL: it has none. */
static const struct lf_schema_format *format_of(struct lf_schema *s, struct lf_json_value schema)
{
    struct lf_json_value v = lf_schema_member(s, schema, "format", LF_JSON_STRING);
    return lf_json_type(v) == LF_JSON_STRING ? lf_schema_format(lf_schema_text(s, v)) : NULL;
}

struct lf_dfa lf_schema_string_content(struct lf_schema *s, struct lf_schema_set set, uint32_t *min, uint32_t *max,
                                       bool *is_free)
{
    struct lf_dfa content = {0};
    *min = 0;
    *max = LF_TERMINAL_UNBOUNDED;
    *is_free = true;
    for (uint32_t i = 0; i < set.n && lf_compilation_ok(s->c); i++) {
        struct lf_json_value schema = lf_schema_of(s, set.items[i]);
        struct lf_json_value pattern = lf_schema_member(s, schema, "pattern", LF_JSON_STRING);
        const struct lf_schema_format *format = format_of(s, schema);
        uint32_t n;
        if (lf_schema_count(s, schema, "minLength", MANY_CHARACTERS, &n)) *min = LF_MAX(*min, n);
        if (lf_schema_count(s, schema, "maxLength", UINT32_MAX - 1, &n)) *max = LF_MIN(*max, n);
        if (lf_json_type(pattern) == LF_JSON_STRING) {
            also(s, &content, is_free, lf_grammar_regex(s->c, lf_schema_text(s, pattern), LF_REGEX_ANYWHERE));
            put_path(s, pattern, "pattern");
        }
        if (format && format->pattern) {
            const char *text = s->whole && format->whole ? format->whole : format->pattern;
            also(s, &content, is_free, lf_grammar_regex(s->c, lf_str_c(text), LF_REGEX_WHOLE));
        }
        if (format && format->max_characters) *max = LF_MIN(*max, format->max_characters);
    }
    if (*max > MANY_CHARACTERS) *max = LF_TERMINAL_UNBOUNDED;
    return content;
}

/* The terminal of an equal one that was made before; LF_NET_NONE: there is none. */
static uint32_t made_before(struct lf_schema *s, const struct lf_schema_scalar *x)
{
    const struct lf_schema_terminals *t = s->terminals;
    for (size_t i = 0; i < t->n_scalars && lf_compilation_step(s->c, 4); i++)
        if (memcmp(&t->scalars[i], x, offsetof(struct lf_schema_scalar, terminal)) == 0) return t->scalars[i].terminal;
    return LF_NET_NONE;
}

static uint32_t remember(struct lf_schema *s, struct lf_schema_scalar *x, struct lf_terminal t)
{
    struct lf_schema_terminals *known = s->terminals;
    struct lf_schema_scalar *list =
        lf_compilation_grow(s->c, known->scalars, known->n_scalars, &known->scalars_cap, sizeof *list);
    x->terminal = lf_network_add(s->net, s->c, t);
    if (!list) return x->terminal;
    known->scalars = list;
    memcpy(&list[known->n_scalars++], x, sizeof *x); /* with its padding, which is compared */
    return x->terminal;
}

uint32_t lf_schema_put_string(struct lf_schema *s, struct lf_schema_set set)
{
    struct lf_schema_scalar x;
    uint32_t min, max, before;
    bool is_free;
    struct lf_dfa content = lf_schema_string_content(s, set, &min, &max, &is_free);
    if (!is_free) {
        bool counts = min > 0 || max != LF_TERMINAL_UNBOUNDED;
        uint32_t terminal = lf_network_add(s->net, s->c, lf_terminal_of_contents(s->c, &content, min, max));
        if (counts)
            put_path(s, lf_schema_of(s, set.items[0]), max == LF_TERMINAL_UNBOUNDED ? "minLength" : "maxLength");
        return terminal;
    }
    memset(&x, 0, sizeof x);
    x.min = min;
    x.max = max;
    before = made_before(s, &x);
    return before != LF_NET_NONE ? before : remember(s, &x, lf_terminal_of_string(s->c, min, max, ""));
}

/* One bound more: the tighter one stays. */
static void tighten(struct lf_number_bounds *b, const struct lf_decimal *d, bool is_min, bool exclusive)
{
    struct lf_decimal *old = is_min ? &b->min : &b->max;
    bool *has = is_min ? &b->has_min : &b->has_max, *strict = is_min ? &b->min_exclusive : &b->max_exclusive;
    int order = *has ? lf_decimal_compare(d, old) : 0;
    bool tighter = !*has || (is_min ? order > 0 : order < 0);
    if (!tighter && (order != 0 || !exclusive)) return;
    *old = *d;
    *strict = exclusive;
    *has = true;
}

static void add_format_bounds(struct lf_number_bounds *b, const struct lf_schema_format *format)
{
    struct lf_decimal d;
    b->integer |= format->is_integer;
    if (format->min && lf_decimal_read(&d, lf_str_c(format->min))) tighten(b, &d, true, false);
    if (format->max && lf_decimal_read(&d, lf_str_c(format->max))) tighten(b, &d, false, false);
}

/* That of a schema. */
static void add_bound(struct lf_schema *s, struct lf_json_value schema, const char *name, bool is_min, bool exclusive,
                      struct lf_number_bounds *b)
{
    struct lf_decimal d;
    struct lf_json_value v = lf_schema_member(s, schema, name, LF_JSON_NUMBER);
    if (lf_json_type(v) != LF_JSON_NUMBER) return;
    if (!lf_decimal_read(&d, lf_json_raw(v))) {
        lf_schema_fail(s, v, LF_LIMIT, "\"%s\": more than %d digits on a side of the point", name,
                       LF_GRAMMAR_BOUND_DIGITS_N);
        return;
    }
    if (!s->whole && is_min == !d.negative && d.n_int > LF_GRAMMAR_DIGITS_N)
        lf_schema_fail(s, v, LF_LIMIT, "\"%s\": numbers in answers have at most %d digits", name, LF_GRAMMAR_DIGITS_N);
    tighten(b, &d, is_min, exclusive);
}

static int greatest_common_divisor(int a, int b)
{
    while (b) {
        int r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static void add_multiple(struct lf_schema *s, struct lf_json_value schema, struct lf_number_bounds *b)
{
    int64_t n;
    struct lf_json_value v = lf_schema_member(s, schema, "multipleOf", LF_JSON_NUMBER);
    if (lf_json_type(v) != LF_JSON_NUMBER) return;
    if (!lf_json_int64(v, &n) || n < 1 || n > LF_GRAMMAR_MULTIPLE) {
        lf_schema_fail(s, v, LF_UNSUPPORTED, "\"multipleOf\" is supported for integers from 1 to %d",
                       LF_GRAMMAR_MULTIPLE);
        return;
    }
    int old = b->multiple_of ? b->multiple_of : 1;
    int64_t both = old / greatest_common_divisor(old, (int)n) * n;
    if (both > LF_GRAMMAR_MULTIPLE)
        lf_schema_fail(s, v, LF_LIMIT, "\"multipleOf\": together more than %d", LF_GRAMMAR_MULTIPLE);
    else
        b->multiple_of = (int)both;
}

struct lf_number_bounds lf_schema_number(struct lf_schema *s, struct lf_schema_set set, bool integer)
{
    struct lf_number_bounds b;
    memset(&b, 0, sizeof b);
    b.integer = integer;
    b.any_length = s->whole;
    for (uint32_t i = 0; i < set.n && lf_compilation_ok(s->c); i++) {
        struct lf_json_value schema = lf_schema_of(s, set.items[i]);
        add_bound(s, schema, "minimum", true, false, &b);
        add_bound(s, schema, "exclusiveMinimum", true, true, &b);
        add_bound(s, schema, "maximum", false, false, &b);
        add_bound(s, schema, "exclusiveMaximum", false, true, &b);
        add_multiple(s, schema, &b);
        const struct lf_schema_format *format = format_of(s, schema);
        if (format) add_format_bounds(&b, format);
    }
    return b;
}

uint32_t lf_schema_put_number(struct lf_schema *s, struct lf_schema_set set, bool integer)
{
    struct lf_schema_scalar x;
    struct lf_number_bounds bounds = lf_schema_number(s, set, integer);
    memset(&x, 0, sizeof x);
    x.is_number = true;
    memcpy(&x.bounds, &bounds, sizeof bounds);
    uint32_t before = made_before(s, &x);
    if (before != LF_NET_NONE) return before;
    struct lf_dfa dfa = lf_grammar_number(s->c, &x.bounds);
    return remember(s, &x, lf_terminal_of_dfa(s->c, &dfa));
}
