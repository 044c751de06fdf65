/* A value under a set of schemas: what types it may have, enums, and what becomes of each. */

#include "core/check.h"
#include "core/sort.h"
#include "grammar/json_string.h"
#include "grammar/schema_impl.h"

enum type { NULL_TYPE = 1, BOOLEAN = 2, INTEGER = 4, NUMBER = 8, STRING = 16, ARRAY = 32, OBJECT = 64, ANY = 127 };

static unsigned type_of_word(struct lf_schema *s, struct lf_json_value word)
{
    static const struct {
        const char *word;
        unsigned type;
    } types[] = {{"null", NULL_TYPE}, {"boolean", BOOLEAN}, {"integer", INTEGER}, {"number", NUMBER | INTEGER},
                 {"string", STRING},  {"array", ARRAY},     {"object", OBJECT}};
    for (size_t i = 0; i < LF_N_ELEMS(types); i++)
        if (lf_json_string_is(word, types[i].word)) return types[i].type;
    lf_schema_fail(s, word, LF_INVALID, "\"type\" must be null, boolean, integer, number, string, array or object");
    return 0;
}

/* OpenAPI 3.0: null beside the type, where the same schema has one. */
static bool is_nullable(struct lf_schema *s, struct lf_json_value schema)
{
    bool nullable = false;
    struct lf_json_value v = lf_json_get(schema, "nullable");
    if (lf_json_type(v) != LF_JSON_NONE && !lf_json_bool(v, &nullable))
        lf_schema_fail(s, v, LF_INVALID, "\"nullable\" must be true or false");
    return nullable;
}

static unsigned types_of(struct lf_schema *s, struct lf_schema_set set)
{
    unsigned types = ANY;
    for (uint32_t i = 0; i < set.n && lf_compilation_ok(s->c); i++) {
        struct lf_json_value schema = lf_schema_of(s, set.items[i]), type = lf_json_get(schema, "type");
        unsigned of_this = is_nullable(s, schema) ? NULL_TYPE : 0;
        if (lf_json_type(type) == LF_JSON_NONE) continue;
        if (lf_json_type(type) == LF_JSON_ARRAY && !type.number_off) {
            LF_SCHEMA_EACH(it, type) of_this |= type_of_word(s, it);
        } else {
            of_this |= type_of_word(s, type);
        }
        types &= of_this;
    }
    return types;
}

/* ------------------------------------------------------------------------------------------------ enums */

struct member {
    struct lf_str name;
    struct lf_json_value value;
};

static bool before(const void *a, const void *b)
{
    const struct lf_str *x = &((const struct member *)a)->name, *y = &((const struct member *)b)->name;
    int order = memcmp(x->ptr, y->ptr, LF_MIN(x->len, y->len));
    return order ? order < 0 : x->len < y->len;
}

static void write_value(struct lf_schema *s, struct lf_buf *out, struct lf_json_value v, int plain_digits);

/* In the order of their names, where they are written plainly. */
static void write_members(struct lf_schema *s, struct lf_buf *out, struct lf_json_value v, int plain_digits)
{
    size_t n = 0;
    struct member *members = lf_compilation_scratch(s->c, lf_json_len(v) + 1, sizeof *members);
    if (!members) return;
    LF_SCHEMA_EACH(it, v) members[n++] = (struct member){lf_schema_text(s, it), lf_json_member(it)};
    if (!lf_compilation_ok(s->c)) return;
    if (plain_digits) lf_sort(members, n, sizeof *members, before);
    for (size_t i = 0; i < n; i++) {
        if (i) lf_buf_char(out, ',');
        lf_json_write_string(out, members[i].name);
        lf_buf_char(out, ':');
        write_value(s, out, members[i].value, plain_digits);
    }
}

/* 0.50 and 5e-1 are 0.5; 1.0 and 1e0 are 1, and -0 is 0. */
static void write_decimal(struct lf_buf *out, const struct lf_decimal *d)
{
    if (d->negative && !(d->n == 1 && d->digits[0] == '0')) lf_buf_char(out, '-');
    lf_buf_str(out, lf_str_from(d->digits, (size_t)d->n_int));
    if (d->n == d->n_int) return;
    lf_buf_char(out, '.');
    lf_buf_str(out, lf_str_from(d->digits + d->n_int, (size_t)(d->n - d->n_int)));
}

enum { AS_IT_STANDS = 0, AS_ANSWERS_HAVE_IT = LF_GRAMMAR_DIGITS_N, TO_COMPARE = LF_GRAMMAR_BOUND_DIGITS_N };

/* One value of an enum as compact JSON. Plainly, where plain_digits is not 0: as all equal values are written, members
 * in the order of their names, numbers in decimal without what adds nothing (those of more digits on a side as they
 * stand). */
static void write_value(struct lf_schema *s, struct lf_buf *out, struct lf_json_value v, int plain_digits)
{
    struct lf_decimal d;
    bool first = true;
    lf_compilation_step(s->c, lf_json_raw(v).len + 1);
    switch (lf_json_type(v)) {
    case LF_JSON_STRING:
        lf_json_write_string(out, lf_schema_text(s, v));
        break;
    case LF_JSON_ARRAY:
        lf_buf_char(out, '[');
        LF_SCHEMA_EACH(it, v)
        {
            if (!first) lf_buf_char(out, ',');
            first = false;
            write_value(s, out, it, plain_digits);
        }
        lf_buf_char(out, ']');
        break;
    case LF_JSON_OBJECT:
        lf_buf_char(out, '{');
        write_members(s, out, v, plain_digits);
        lf_buf_char(out, '}');
        break;
    case LF_JSON_NUMBER:
        if (lf_decimal_read(&d, lf_json_raw(v)) && d.n_int <= plain_digits && d.n - d.n_int <= plain_digits)
            write_decimal(out, &d);
        else
            lf_buf_str(out, lf_json_raw(v));
        break;
    default:
        lf_buf_str(out, lf_json_raw(v));
        break;
    }
}

static struct lf_str value_text(struct lf_schema *s, struct lf_json_value v, int plain_digits)
{
    struct lf_buf buf;
    lf_buf_init_in(&buf, 6 * LF_GRAMMAR_SOURCE_BYTES, lf_work_memory(s->c->work));
    write_value(s, &buf, v, plain_digits);
    return lf_compilation_text(s->c, &buf);
}

/* What of a set constrains objects or arrays beyond their type. */
static bool looks_into(struct lf_schema *s, struct lf_schema_set set, bool objects)
{
    static const char *const of_objects[] = {"properties",        "required",      "additionalProperties",
                                             "patternProperties", "propertyNames", "minProperties",
                                             "maxProperties"};
    static const char *const of_arrays[] = {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"};
    const char *const *names = objects ? of_objects : of_arrays;
    size_t n = objects ? LF_N_ELEMS(of_objects) : LF_N_ELEMS(of_arrays);
    for (uint32_t i = 0; i < set.n; i++)
        for (size_t k = 0; k < n && lf_compilation_step(s->c, 8); k++)
            if (lf_json_type(lf_json_get(lf_schema_of(s, set.items[i]), names[k])) != LF_JSON_NONE) return true;
    return false;
}

/* What a set says of strings and numbers, read when an enum first asks: all that it allows, for a listed value stands
 * as it is. */
struct judge {
    unsigned types;
    struct lf_schema_set set;
    bool has_string, has_number, is_free;
    uint32_t min, max;
    struct lf_dfa string;
    struct lf_number_bounds number;
};

static bool string_holds(struct lf_schema *s, struct judge *j, struct lf_json_value v)
{
    if (!j->has_string) j->string = lf_schema_string_content(s, j->set, &j->min, &j->max, &j->is_free);
    j->has_string = true;
    struct lf_str text = lf_schema_text(s, v);
    int64_t n = lf_utf8_count(text);
    return n >= j->min && n <= j->max && (j->is_free || lf_dfa_accepts(&j->string, text));
}

static bool number_holds(struct lf_schema *s, struct judge *j, struct lf_json_value v)
{
    bool integer = !(j->types & NUMBER);
    if (!j->has_number) j->number = lf_schema_number(s, j->set, integer);
    j->has_number = true;
    struct lf_decimal d;
    if (!j->number.integer && !j->number.has_min && !j->number.has_max && !j->number.multiple_of) return true;
    if (lf_decimal_read(&d, lf_json_raw(v))) return lf_decimal_within(&d, &j->number);
    lf_schema_fail(s, v, LF_LIMIT,
                   "\"enum\" or \"const\": more than %d digits on a side of the point, beside keywords for numbers",
                   LF_GRAMMAR_BOUND_DIGITS_N);
    return false;
}

static bool holds(struct lf_schema *s, struct judge *j, struct lf_json_value v)
{
    switch (lf_json_type(v)) {
    case LF_JSON_NULL:
        return j->types & NULL_TYPE;
    case LF_JSON_TRUE:
    case LF_JSON_FALSE:
        return j->types & BOOLEAN;
    case LF_JSON_STRING:
        return (j->types & STRING) && string_holds(s, j, v);
    case LF_JSON_NUMBER:
        return (j->types & INTEGER) && number_holds(s, j, v);
    case LF_JSON_ARRAY:
    case LF_JSON_OBJECT: {
        bool object = lf_json_type(v) == LF_JSON_OBJECT;
        if (!(j->types & (object ? OBJECT : ARRAY))) return false;
        if (looks_into(s, j->set, object))
            lf_schema_fail(s, v, LF_UNSUPPORTED, "\"enum\" or \"const\" of objects or arrays beside keywords for them");
        return true;
    }
    default:
        return false;
    }
}

/* The values that `schema` lists: the elements of enum, or const itself; NONE where it lists none. */
static bool lists(struct lf_schema *s, struct lf_json_value schema, struct lf_json_value *values, bool *is_const)
{
    struct lf_json_value one = lf_json_get(schema, "const");
    struct lf_json_value some = lf_schema_member(s, schema, "enum", LF_JSON_ARRAY);
    *is_const = lf_json_type(one) != LF_JSON_NONE;
    *values = *is_const ? one : some;
    return *is_const || lf_json_type(some) == LF_JSON_ARRAY;
}

static bool is_in(struct lf_schema *s, struct lf_str text, struct lf_json_value values, bool is_const)
{
    if (is_const) return lf_str_eq(text, value_text(s, values, TO_COMPARE));
    LF_SCHEMA_EACH(it, values)
    {
        if (lf_str_eq(text, value_text(s, it, TO_COMPARE))) return true;
        if (!lf_compilation_ok(s->c)) return false;
    }
    return false;
}

/* Whether every other list of the set has it too. A schema with both enum and const is looked at for both. */
static bool in_all_lists(struct lf_schema *s, struct lf_schema_set set, struct lf_json_value v)
{
    struct lf_str text = value_text(s, v, TO_COMPARE);
    for (uint32_t i = 0; i < set.n && lf_compilation_ok(s->c); i++) {
        struct lf_json_value schema = lf_schema_of(s, set.items[i]);
        struct lf_json_value one = lf_json_get(schema, "const"), some = lf_json_get(schema, "enum");
        if (lf_json_type(one) != LF_JSON_NONE && !is_in(s, text, one, true)) return false;
        bool is_only = set.n == 1 && lf_json_type(one) == LF_JSON_NONE; /* it is where v comes from */
        if (lf_json_type(some) == LF_JSON_ARRAY && !is_only && !is_in(s, text, some, false)) return false;
    }
    return true;
}

static void add_alternative(struct lf_schema *s, uint32_t rule, uint32_t what, bool is_call)
{
    struct lf_schema_rule *r = &s->rules[rule];
    if (!is_call && (!lf_compilation_ok(s->c) || lf_terminal_is_empty(&s->net->terminals[what]))) return;
    for (size_t i = 0; i < r->n; i++)
        if (r->alternatives[i].what == what && r->alternatives[i].is_call == is_call) return;
    struct lf_schema_alternative *list = lf_compilation_grow(s->c, r->alternatives, r->n, &r->cap, sizeof *list);
    if (!list || !lf_compilation_step(s->c, r->n + 1)) return;
    r->alternatives = list;
    list[r->n++] = (struct lf_schema_alternative){what, is_call};
}

static void put_listed(struct lf_schema *s, uint32_t rule, struct judge *j, struct lf_json_value values, bool is_const)
{
    size_t n = 0, n_values = is_const ? 1 : lf_json_len(values);
    struct lf_str *texts = lf_compilation_scratch(s->c, 2 * n_values, sizeof *texts);
    if (!texts) return;
    for (struct lf_json_value it = is_const ? values : lf_json_first(values);
         lf_compilation_ok(s->c) && (is_const ? n == 0 : lf_json_more(values, it)); it = lf_json_next(values, it)) {
        bool whole = s->whole;
        s->whole = true;
        bool kept = holds(s, j, it) && in_all_lists(s, j->set, it);
        s->whole = whole;
        if (kept) {
            texts[n++] = value_text(s, it, AS_ANSWERS_HAVE_IT);
            texts[n++] = value_text(s, it, AS_IT_STANDS);
        }
        if (is_const) break;
    }
    if (lf_compilation_ok(s->c))
        add_alternative(s, rule, lf_network_add(s->net, s->c, lf_terminal_of_texts(s->c, texts, n)), false);
}

/* ------------------------------------------------------------------------------------------------ types */

static void put_words(struct lf_schema *s, uint32_t rule, unsigned types)
{
    struct lf_str texts[3];
    size_t n = 0;
    if (types & NULL_TYPE) texts[n++] = LF_STR("null");
    if (types & BOOLEAN) texts[n++] = LF_STR("true");
    if (types & BOOLEAN) texts[n++] = LF_STR("false");
    if (n) add_alternative(s, rule, lf_network_add(s->net, s->c, lf_terminal_of_texts(s->c, texts, n)), false);
}

static void put_composite(struct lf_schema *s, uint32_t rule, enum lf_schema_kind kind, struct lf_schema_set set)
{
    bool fresh;
    uint32_t composite = lf_schema_intern(s, kind, set, &fresh);
    if (lf_compilation_ok(s->c)) add_alternative(s, rule, s->rules[composite].start, true);
}

struct taking {
    struct lf_schema *s;
    uint32_t rule;
};

static void put_alternative(void *ctx, struct lf_schema_set set)
{
    struct taking *to = ctx;
    struct lf_schema *s = to->s;
    struct judge j = {.types = types_of(s, set), .set = set};
    struct lf_json_value values;
    bool is_const;
    for (uint32_t i = 0; i < set.n && lf_compilation_ok(s->c); i++)
        if (lists(s, lf_schema_of(s, set.items[i]), &values, &is_const)) {
            put_listed(s, to->rule, &j, values, is_const);
            return;
        }
    put_words(s, to->rule, j.types);
    if (j.types & INTEGER) add_alternative(s, to->rule, lf_schema_put_number(s, set, !(j.types & NUMBER)), false);
    if (j.types & STRING) add_alternative(s, to->rule, lf_schema_put_string(s, set), false);
    if (j.types & ARRAY) put_composite(s, to->rule, LF_SCHEMA_ARRAY, set);
    if (j.types & OBJECT) put_composite(s, to->rule, LF_SCHEMA_OBJECT, set);
}

void lf_schema_put(struct lf_schema *s, struct lf_schema_set set, uint32_t from, uint32_t to)
{
    bool fresh;
    uint32_t rule = lf_schema_intern(s, LF_SCHEMA_VALUE, set, &fresh);
    if (fresh) {
        struct taking taking = {s, rule};
        lf_schema_expand(s, set, put_alternative, &taking);
    }
    if (!lf_compilation_ok(s->c)) return;
    for (size_t i = 0; i < s->rules[rule].n; i++) {
        struct lf_schema_alternative a = s->rules[rule].alternatives[i];
        if (a.is_call)
            lf_network_call(s->net, s->c, from, to, a.what);
        else
            lf_network_terminal(s->net, s->c, from, to, a.what);
    }
}

uint32_t lf_schema_put_text(struct lf_schema *s, uint32_t from, struct lf_str text)
{
    uint32_t to = lf_network_node(s->net, s->c);
    struct lf_terminal t = lf_terminal_of_texts(s->c, &text, 1);
    lf_network_terminal(s->net, s->c, from, to, lf_network_add(s->net, s->c, t));
    return to;
}

uint32_t lf_schema_put_space(struct lf_schema *s, uint32_t from)
{
    if (s->space == LF_NET_NONE) return from;
    uint32_t to = lf_network_node(s->net, s->c);
    lf_network_terminal(s->net, s->c, from, to, s->space);
    if (s->net->terminals[s->space].dfa.n_states && s->net->terminals[s->space].dfa.accept[0])
        lf_network_empty(s->net, s->c, from, to);
    return to;
}
