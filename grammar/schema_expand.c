/* $ref, allOf, anyOf and oneOf: from a set of schemas to its alternatives.
 *
 * What is still to be taken apart is a linked list that never changes, so that an anyOf goes on with the same rest once
 * for each of its branches. Every item knows from which one it came: a reference that leads back to one it came from,
 * without a value between, would never end, and is refused. */
#include <string.h>

#include "core/check.h"
#include "grammar/schema_impl.h"

enum { CHECKED = 1, SAYS_SOMETHING = 2 }; /* in struct lf_schema's checked */

struct todo {
    const struct todo *rest;   /* what is to be done behind it */
    const struct todo *from;   /* what it came from */
    struct lf_json_value fork; /* not NONE: the branches of an anyOf or oneOf, of which one holds */
    uint32_t item;
};

struct done {
    const struct done *rest;
    uint32_t item;
};

struct expansion {
    struct lf_schema *s;
    void (*take)(void *ctx, struct lf_schema_set set);
    void *ctx;
};

/* Keywords that say something of a value, and those that lead to other schemas or say nothing. What is in neither list
 * is refused. */
static const char compiled[] = " type enum const properties required additionalProperties patternProperties "
                               "propertyNames minProperties maxProperties items prefixItems minItems maxItems "
                               "uniqueItems minLength maxLength pattern format minimum maximum exclusiveMinimum "
                               "exclusiveMaximum multipleOf nullable ";
static const char others[] =
    " anyOf oneOf allOf $ref $schema $id $comment $defs definitions $anchor title description default example "
    "examples deprecated readOnly writeOnly discriminator xml externalDocs "
    "contentEncoding contentMediaType contentSchema ";

static bool is_listed(const char *list, struct lf_str word)
{
    const char *at = list;
    for (; word.len && (at = strstr(at, " ")) && at[1]; at++)
        if (strncmp(at + 1, word.ptr, word.len) == 0 && at[1 + word.len] == ' ') return true;
    return false;
}

static bool is_known_dialect(struct lf_str uri)
{
    return lf_str_starts(uri, LF_STR("https://json-schema.org/")) ||
           lf_str_starts(uri, LF_STR("http://json-schema.org/"));
}

static void check_format(struct lf_schema *s, struct lf_json_value schema)
{
    struct lf_json_value v = lf_schema_member(s, schema, "format", LF_JSON_STRING);
    if (lf_json_type(v) != LF_JSON_STRING) return;
    struct lf_str name = lf_schema_text(s, v);
    if (!lf_schema_format(name))
        lf_schema_fail(s, v, LF_UNSUPPORTED, "\"format\": \"%.*s\" is not supported", (int)LF_MIN(name.len, 64u),
                       name.ptr);
}

/* Every keyword of a schema is known, or it is refused by name. */
static void check_keywords(struct lf_schema *s, struct lf_json_value schema)
{
    if (s->checked[schema.idx]) return;
    s->checked[schema.idx] = CHECKED;
    struct lf_json_value dialect = lf_schema_member(s, schema, "$schema", LF_JSON_STRING);
    if (lf_json_type(dialect) == LF_JSON_STRING && !is_known_dialect(lf_json_raw(dialect)))
        lf_schema_fail(s, dialect, LF_UNSUPPORTED,
                       "\"$schema\" of another dialect than json-schema.org's is not supported");
    check_format(s, schema);
    LF_SCHEMA_EACH(name, schema)
    {
        struct lf_str word = lf_json_raw(name);
        lf_compilation_step(s->c, 64);
        bool nested_id = lf_str_eq(word, LF_STR("$id")) && schema.idx != s->root.idx;
        if (is_listed(compiled, word)) s->checked[schema.idx] = SAYS_SOMETHING;
        if (!nested_id && (is_listed(compiled, word) || is_listed(others, word))) continue;
        if (lf_str_starts(word, LF_STR("x-"))) continue;
        lf_schema_fail(s, schema, LF_UNSUPPORTED, "the keyword \"%.*s\" is not supported", (int)LF_MIN(word.len, 64u),
                       word.ptr);
    }
}

/* One step of a pointer, with its escapes (%25, ~0, ~1) undone. */
static size_t pointer_step(struct lf_str from, size_t at, char *out, size_t *len)
{
    *len = 0;
    for (; at < from.len && from.ptr[at] != '/'; at++) {
        char ch = from.ptr[at];
        if (ch == '%' && at + 2 < from.len && lf_digit(from.ptr[at + 1]) < 16 && lf_digit(from.ptr[at + 2]) < 16) {
            ch = (char)(lf_digit(from.ptr[at + 1]) * 16 + lf_digit(from.ptr[at + 2]));
            at += 2;
        }
        if (ch == '~' && at + 1 < from.len && (from.ptr[at + 1] == '0' || from.ptr[at + 1] == '1'))
            ch = from.ptr[++at] == '0' ? '~' : '/';
        out[(*len)++] = ch;
    }
    out[*len] = 0;
    return at;
}

static struct lf_json_value element(struct lf_json_value array, const char *number)
{
    uint32_t i = 0, n = 0;
    for (const char *p = number; *p; p++)
        n = *p >= '0' && *p <= '9' && n < 1000000 ? n * 10 + (uint32_t)(*p - '0') : UINT32_MAX;
    LF_SCHEMA_EACH(it, array)
    {
        if (i++ == n && *number) return it;
    }
    return (struct lf_json_value){0};
}

static struct lf_json_value find_anchor(struct lf_schema *s, struct lf_str name)
{
    const struct lf_json *json = s->root.json;
    for (uint32_t i = 0; i < json->n_nodes && lf_compilation_step(s->c, 1); i++) {
        struct lf_json_value v = {.json = json, .idx = i};
        struct lf_json_value anchor = lf_json_type(v) == LF_JSON_OBJECT ? lf_json_get(v, "$anchor") : v;
        if (lf_json_type(v) != LF_JSON_OBJECT || lf_json_type(anchor) != LF_JSON_STRING) continue;
        if (lf_str_eq(lf_schema_text(s, anchor), name) && !lf_schema_is_data(s, v)) return v;
    }
    return (struct lf_json_value){0};
}

/* Whether a reference without its fragment is the document's own $id, or the last segment of its path. */
static bool is_own(struct lf_schema *s, struct lf_str uri)
{
    struct lf_json_value v = lf_json_get(s->root, "$id");
    struct lf_str id = lf_json_type(v) == LF_JSON_STRING ? lf_schema_text(s, v) : LF_STR("");
    if (id.len && id.ptr[id.len - 1] == '#') id.len--;
    if (lf_str_eq(uri, id)) return true;
    return lf_str_find(uri, LF_STR("/")) < 0 && lf_str_ends(id, uri) && id.ptr[id.len - uri.len - 1] == '/';
}

/* The schema that a reference names. */
static struct lf_json_value resolve(struct lf_schema *s, struct lf_json_value ref)
{
    struct lf_str text = lf_schema_text(s, ref);
    struct lf_json_value at = s->root;
    char *step = lf_compilation_scratch(s->c, text.len + 1, 1);
    if (!step) return at;
    ptrdiff_t hash = lf_str_find(text, LF_STR("#"));
    struct lf_str uri = hash < 0 ? text : lf_str_from(text.ptr, (size_t)hash);
    if (text.len == 0 || (uri.len && !is_own(s, uri))) {
        lf_schema_fail(s, ref, LF_UNSUPPORTED, "\"$ref\" to another document is not supported: only \"#...\" is");
        return at;
    }
    text = lf_str_from(text.ptr + uri.len, text.len - uri.len);
    if (text.len > 1 && text.ptr[1] != '/') at = find_anchor(s, lf_str_from(text.ptr + 1, text.len - 1));
    for (size_t i = 1, len; at.json && i < text.len && text.ptr[1] == '/';) {
        i = pointer_step(text, i + 1, step, &len);
        lf_compilation_step(s->c, lf_json_len(at) + 1);
        at = lf_json_type(at) == LF_JSON_ARRAY ? element(at, step) : lf_json_get(at, step);
        if (strlen(step) != len || lf_json_type(at) == LF_JSON_NONE) at.json = NULL;
    }
    if (!at.json) lf_schema_fail(s, ref, LF_INVALID, "\"$ref\": there is no such place in the schema");
    return at.json ? at : s->root;
}

static const struct todo *push(struct lf_schema *s, const struct todo *rest, const struct todo *from,
                               struct lf_json_value schema)
{
    struct todo *t = lf_compilation_scratch(s->c, 1, sizeof *t);
    if (!t) return rest;
    *t = (struct todo){.rest = rest, .from = from, .item = lf_schema_item(s, schema)};
    for (const struct todo *a = from; a && lf_compilation_step(s->c, 1); a = a->from)
        if (!a->fork.json && a->item / 2 == t->item / 2 && t->item != LF_SCHEMA_FALSE)
            lf_schema_fail(s, schema, LF_INVALID, "\"$ref\": it refers to itself without a value between");
    return t;
}

static const struct todo *push_fork(struct lf_schema *s, const struct todo *rest, const struct todo *from,
                                    struct lf_json_value branches)
{
    struct todo *t = lf_compilation_scratch(s->c, 1, sizeof *t);
    if (!t) return rest;
    if (lf_json_len(branches) == 0) lf_schema_fail(s, branches, LF_INVALID, "there must be a schema in it");
    *t = (struct todo){.rest = rest, .from = from, .fork = branches};
    return t;
}

/* Each two branches of a oneOf are to be compared, once. */
static void note_pairs(struct lf_schema *s, struct lf_json_value schema, struct lf_json_value branches)
{
    uint32_t i = 0;
    if (s->checked[branches.idx]) return;
    s->checked[branches.idx] = CHECKED;
    LF_SCHEMA_EACH(a, branches)
    {
        uint32_t k = i + 1;
        for (struct lf_json_value b = lf_json_next(branches, a); lf_json_more(branches, b);
             b = lf_json_next(branches, b), k++) {
            struct lf_schema_pair *pairs =
                lf_compilation_grow(s->c, s->pairs, s->n_pairs, &s->pairs_cap, sizeof *pairs);
            if (!pairs || !lf_compilation_step(s->c, 1)) return;
            s->pairs = pairs;
            pairs[s->n_pairs++] = (struct lf_schema_pair){.all = schema.idx * 2 + 1,
                                                          .a = lf_schema_item(s, a),
                                                          .b = lf_schema_item(s, b),
                                                          .where = branches,
                                                          .a_idx = i,
                                                          .b_idx = k};
        }
        i++;
    }
}

/* What a schema refers to, before the rest. */
static const struct todo *open_schema(struct lf_schema *s, const struct todo *t, struct lf_json_value schema)
{
    const struct todo *rest = t->rest;
    struct lf_json_value ref = lf_schema_member(s, schema, "$ref", LF_JSON_STRING);
    struct lf_json_value all = lf_schema_member(s, schema, "allOf", LF_JSON_ARRAY);
    struct lf_json_value any = lf_schema_member(s, schema, "anyOf", LF_JSON_ARRAY);
    struct lf_json_value one = lf_schema_member(s, schema, "oneOf", LF_JSON_ARRAY);
    if (one.json && lf_json_type(one) == LF_JSON_ARRAY && !(t->item & 1)) {
        note_pairs(s, schema, one);
        rest = push_fork(s, rest, t, one);
    }
    if (lf_json_type(any) == LF_JSON_ARRAY) rest = push_fork(s, rest, t, any);
    if (lf_json_type(ref) == LF_JSON_STRING) rest = push(s, rest, t, resolve(s, ref));
    if (lf_json_type(all) == LF_JSON_ARRAY && lf_json_len(all) == 0)
        lf_schema_fail(s, all, LF_INVALID, "\"allOf\": there must be a schema in it");
    if (lf_json_type(all) == LF_JSON_ARRAY) LF_SCHEMA_EACH(it, all) rest = push(s, rest, t, it);
    return rest;
}

static void take(struct expansion *x, const struct done *done)
{
    struct lf_schema *s = x->s;
    uint32_t n = 0;
    if (++s->n_branches > LF_GRAMMAR_BRANCHES_N)
        lf_schema_fail(s, s->root, LF_LIMIT, "\"anyOf\": more than %d branches of one value", LF_GRAMMAR_BRANCHES_N);
    for (const struct done *d = done; d; d = d->rest) n++;
    uint32_t *items = lf_compilation_scratch(s->c, n, sizeof *items);
    if (!items) return;
    n = 0; /* those that only lead to others are left out, so that sets are equal whatever led to them */
    for (const struct done *d = done; d; d = d->rest)
        if (s->checked[d->item / 2] == SAYS_SOMETHING) items[n++] = d->item & ~1u;
    x->take(x->ctx, lf_schema_set_of(s, items, n));
}

/* Recursion is one level for each anyOf on the way, and those nest no deeper than their branches multiply. */
static void expand(struct expansion *x, const struct todo *todo, const struct done *done, int depth)
{
    struct lf_schema *s = x->s;
    while (todo && lf_compilation_step(s->c, 8)) {
        if (todo->fork.json) {
            if (depth > LF_JSON_DEPTH) lf_schema_fail(s, todo->fork, LF_LIMIT, "\"anyOf\" nested too deep");
            LF_SCHEMA_EACH(it, todo->fork)
            {
                if (!lf_compilation_ok(s->c)) return;
                expand(x, push(s, todo->rest, todo, it), done, depth + 1);
            }
            return;
        }
        if (todo->item == LF_SCHEMA_FALSE) return;
        struct lf_json_value schema = lf_schema_of(s, todo->item);
        const struct done *d = done;
        while (d && d->item != todo->item) d = d->rest;
        if (d || lf_json_type(schema) == LF_JSON_TRUE) {
            todo = todo->rest;
            continue;
        }
        struct done *more = lf_compilation_scratch(s->c, 1, sizeof *more);
        if (!more) return;
        *more = (struct done){done, todo->item};
        done = more;
        check_keywords(s, schema);
        todo = open_schema(s, todo, schema);
    }
    if (lf_compilation_ok(s->c)) take(x, done);
}

void lf_schema_expand(struct lf_schema *s, struct lf_schema_set set, void (*take_set)(void *ctx, struct lf_schema_set),
                      void *ctx)
{
    struct expansion x = {.s = s, .take = take_set, .ctx = ctx};
    const struct todo *todo = NULL;
    s->n_branches = 0;
    for (uint32_t i = set.n; i-- > 0;) {
        struct todo *t = lf_compilation_scratch(s->c, 1, sizeof *t);
        if (!t) return;
        *t = (struct todo){.rest = todo, .item = set.items[i]};
        todo = t;
    }
    expand(&x, todo, NULL, 0);
}
