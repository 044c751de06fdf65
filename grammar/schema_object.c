/* Objects: first the named members, in the order of the schema, those that are not required skippable; then the others.
 *
 * The order is fixed since a network that took every order would have 2^n nodes; JSON gives the order no meaning. Names
 * that no schema lists are sorted by which patterns they match: for each combination of patterns there is the set of
 * names that match just these, as an automaton, and the set of schemas that then hold of the value.
 *
 *     node(i, k)   before the i-th named member, with k members written; k stops counting where it makes no difference
 *
 * Names beyond the listed ones may repeat: no automaton remembers them. A repeated name is valid JSON, and its last
 * value, which readers take, meets the schema as the others do; only minProperties could be missed, and is refused
 * where it could. */

#include "core/check.h"
#include "core/hash.h"
#include "grammar/json_string.h"
#include "grammar/regex.h"
#include "grammar/schema_impl.h"

struct of_name { /* that a schema says about a name */
    struct of_name *next;
    struct lf_json_value schema;
    uint32_t item_idx; /* of the set */
};

struct name {
    struct lf_str text;
    struct of_name *first;
    uint64_t hash;
    bool required;
};

struct pattern {
    struct lf_json_value key, schema;
    uint32_t item_idx;
    struct lf_dfa contents;
};

struct object {
    struct lf_schema *s;
    struct lf_schema_set set;
    struct name *names;
    size_t n_names, names_cap, table_len;
    uint32_t *table; /* index + 1 of a name, by hash */
    struct pattern patterns[LF_GRAMMAR_PATTERN_PROPERTIES_N];
    uint32_t n_patterns, min, max, n_required;
    bool has_name_rule; /* propertyNames */
    struct lf_dfa name_rule;
};

/* ------------------------------------------------------------------------------------------------ reading */

static struct name *name_of(struct object *o, struct lf_str text)
{
    struct lf_compilation *c = o->s->c;
    uint64_t hash = lf_hash64(text.ptr, text.len);
    if (2 * (o->n_names + 1) > o->table_len) {
        size_t len = o->table_len ? 2 * o->table_len : 64;
        uint32_t *table = lf_compilation_scratch(c, len, sizeof *table);
        if (!table) return NULL;
        for (size_t i = 0; i < o->n_names; i++) {
            size_t to = o->names[i].hash & (len - 1);
            while (table[to]) to = (to + 1) & (len - 1);
            table[to] = (uint32_t)i + 1;
        }
        o->table = table;
        o->table_len = len;
    }
    size_t at = hash & (o->table_len - 1);
    for (; o->table[at]; at = (at + 1) & (o->table_len - 1))
        if (lf_str_eq(o->names[o->table[at] - 1].text, text)) return &o->names[o->table[at] - 1];
    struct name *names = lf_compilation_grow(c, o->names, o->n_names, &o->names_cap, sizeof *names);
    if (!names || !lf_compilation_step(c, text.len + 1)) return NULL;
    o->names = names;
    o->table[at] = (uint32_t)o->n_names + 1;
    names[o->n_names] = (struct name){.text = text, .hash = hash};
    return &names[o->n_names++];
}

static void read_properties(struct object *o, uint32_t item_idx, struct lf_json_value properties)
{
    struct lf_schema *s = o->s;
    LF_SCHEMA_EACH(key, properties)
    {
        struct name *name = name_of(o, lf_schema_text(s, key));
        struct of_name *of = lf_compilation_scratch(s->c, 1, sizeof *of);
        if (!name || !of) return;
        *of = (struct of_name){name->first, lf_json_member(key), item_idx};
        name->first = of;
    }
}

static void read_required(struct object *o, struct lf_json_value required)
{
    LF_SCHEMA_EACH(it, required)
    {
        if (lf_json_type(it) != LF_JSON_STRING) {
            lf_schema_fail(o->s, required, LF_INVALID, "\"required\" must be a list of strings");
            return;
        }
        struct name *name = name_of(o, lf_schema_text(o->s, it));
        if (!name || !lf_compilation_ok(o->s->c)) return;
        o->n_required += !name->required;
        name->required = true;
    }
}

static void read_patterns(struct object *o, uint32_t item_idx, struct lf_json_value patterns)
{
    struct lf_schema *s = o->s;
    LF_SCHEMA_EACH(key, patterns)
    {
        if (o->n_patterns == LF_GRAMMAR_PATTERN_PROPERTIES_N) {
            lf_schema_fail(s, patterns, LF_LIMIT, "\"patternProperties\": more than %d patterns on one object",
                           LF_GRAMMAR_PATTERN_PROPERTIES_N);
            return;
        }
        struct pattern *p = &o->patterns[o->n_patterns];
        *p = (struct pattern){key, lf_json_member(key), item_idx, {0}};
        p->contents = lf_grammar_regex(s->c, lf_schema_text(s, key), LF_REGEX_ANYWHERE);
        p->contents = lf_dfa_minimize(s->c, &p->contents);
        if (!lf_compilation_ok(s->c)) return;
        o->n_patterns++;
    }
}

/* Of the names those that are strings among `values`: the elements of an enum, or a const itself. */
static void keep_listed(struct lf_schema *s, struct lf_dfa *names, struct lf_json_value values, bool is_const)
{
    size_t n = 0;
    struct lf_str *texts = lf_compilation_scratch(s->c, is_const ? 1 : lf_json_len(values) + 1, sizeof *texts);
    if (!texts) return;
    if (is_const && lf_json_type(values) == LF_JSON_STRING) texts[n++] = lf_schema_text(s, values);
    if (!is_const) LF_SCHEMA_EACH(it, values)
    if (lf_json_type(it) == LF_JSON_STRING) texts[n++] = lf_schema_text(s, it);
    struct lf_dfa listed = lf_json_string_any_of(s->c, texts, n);
    *names = lf_dfa_combine(s->c, names, &listed, LF_DFA_AND);
}

/* propertyNames, where it is one schema without branches that says something of strings. */
static void take_name_rule(void *ctx, struct lf_schema_set set)
{
    struct object *o = ctx;
    struct lf_schema *s = o->s;
    uint32_t min, max;
    bool is_free;
    struct lf_dfa names = lf_schema_string_content(s, set, &min, &max, &is_free);
    struct lf_dfa of_length = lf_json_string_of_length(s->c, min, max);
    names = is_free ? of_length : lf_dfa_combine(s->c, &names, &of_length, LF_DFA_AND);
    for (uint32_t i = 0; i < set.n && lf_compilation_ok(s->c); i++) {
        struct lf_json_value schema = lf_schema_of(s, set.items[i]), type = lf_json_get(schema, "type");
        struct lf_json_value one = lf_json_get(schema, "const"), some = lf_json_get(schema, "enum");
        if (lf_json_type(type) == LF_JSON_ARRAY)
            lf_schema_fail(s, type, LF_UNSUPPORTED, "\"propertyNames\" with a list of types");
        if (lf_json_type(type) == LF_JSON_STRING && !lf_json_string_is(type, "string")) names = (struct lf_dfa){0};
        if (lf_json_type(one) != LF_JSON_NONE) keep_listed(s, &names, one, true);
        if (lf_json_type(some) == LF_JSON_ARRAY) keep_listed(s, &names, some, false);
    }
    o->name_rule = o->has_name_rule ? lf_dfa_combine(s->c, &o->name_rule, &names, LF_DFA_OR) : names;
    o->has_name_rule = true;
}

static void read_all(struct object *o)
{
    struct lf_schema *s = o->s;
    uint32_t n, n_rules = 0;
    o->max = UINT32_MAX;
    uint32_t *rules = lf_compilation_scratch(s->c, o->set.n, sizeof *rules);
    if (!rules) return;
    for (uint32_t i = 0; i < o->set.n && lf_compilation_ok(s->c); i++) {
        struct lf_json_value schema = lf_schema_of(s, o->set.items[i]);
        struct lf_json_value names = lf_json_get(schema, "propertyNames");
        read_properties(o, i, lf_schema_member(s, schema, "properties", LF_JSON_OBJECT));
        read_patterns(o, i, lf_schema_member(s, schema, "patternProperties", LF_JSON_OBJECT));
        if (lf_schema_count(s, schema, "minProperties", LF_GRAMMAR_UNROLLED_N, &n)) o->min = LF_MAX(o->min, n);
        if (lf_schema_count(s, schema, "maxProperties", UINT32_MAX - 1, &n)) o->max = LF_MIN(o->max, n);
        if (lf_json_type(names) != LF_JSON_NONE) rules[n_rules++] = lf_schema_item(s, names);
    }
    for (uint32_t i = 0; i < o->set.n && lf_compilation_ok(s->c); i++) /* behind all properties, whose order counts */
        read_required(o, lf_schema_member(s, lf_schema_of(s, o->set.items[i]), "required", LF_JSON_ARRAY));
    if (n_rules && lf_compilation_ok(s->c)) {
        lf_schema_expand(s, lf_schema_set_of(s, rules, n_rules), take_name_rule, o);
        o->has_name_rule = true; /* false, where there is no alternative: the empty set of names */
    }
    if (o->max != UINT32_MAX && o->max > LF_GRAMMAR_UNROLLED_N) o->max = UINT32_MAX - 1;
}

/* ------------------------------------------------------------------------------------------------ sets of schemas */

/* What holds of the value of a name that matches these patterns (bits) and is listed as `of`. False: nothing does. */
static bool set_of_value(struct object *o, const struct of_name *of, uint32_t matched, struct lf_schema_set *out)
{
    struct lf_schema *s = o->s;
    uint32_t n = 0, *items = lf_compilation_scratch(s->c, 2 * o->set.n + o->n_patterns + 1, sizeof *items);
    bool *met = lf_compilation_scratch(s->c, o->set.n, sizeof *met);
    if (!items || !met) return false;
    for (; of; of = of->next) {
        items[n++] = lf_schema_item(s, of->schema);
        met[of->item_idx] = true;
    }
    for (uint32_t i = 0; i < o->n_patterns; i++) {
        if (!(matched >> i & 1)) continue;
        items[n++] = lf_schema_item(s, o->patterns[i].schema);
        met[o->patterns[i].item_idx] = true;
    }
    for (uint32_t i = 0; i < o->set.n; i++) {
        struct lf_json_value schema = lf_schema_of(s, o->set.items[i]);
        struct lf_json_value others = lf_json_get(schema, "additionalProperties");
        if (met[i]) continue;
        if (lf_json_type(others) != LF_JSON_NONE)
            items[n++] = lf_schema_item(s, others);
        else if (s->strict && lf_json_type(lf_json_get(schema, "properties")) != LF_JSON_NONE)
            return false;
    }
    for (uint32_t i = 0; i < n; i++)
        if (items[i] == LF_SCHEMA_FALSE) return false;
    *out = lf_schema_set_of(s, items, n);
    return lf_compilation_ok(s->c);
}

static uint32_t patterns_of(const struct object *o, struct lf_str name)
{
    uint32_t matched = 0;
    for (uint32_t i = 0; i < o->n_patterns; i++)
        matched |= (uint32_t)lf_dfa_accepts(&o->patterns[i].contents, name) << i;
    return matched;
}

/* The names that match just these patterns and are not listed. */
static struct lf_dfa names_of(struct object *o, uint32_t matched)
{
    struct lf_compilation *c = o->s->c;
    struct lf_dfa names = o->has_name_rule ? o->name_rule : lf_json_string_of_length(c, 0, UINT32_MAX);
    struct lf_str *listed = lf_compilation_scratch(c, o->n_names, sizeof *listed);
    if (!listed) return names;
    for (uint32_t i = 0; i < o->n_patterns; i++) {
        names = lf_dfa_combine(c, &names, &o->patterns[i].contents, matched >> i & 1 ? LF_DFA_AND : LF_DFA_MINUS);
        names = lf_dfa_minimize(c, &names);
    }
    for (size_t i = 0; i < o->n_names; i++) listed[i] = o->names[i].text;
    struct lf_dfa without = lf_json_string_any_of(c, listed, o->n_names);
    names = lf_dfa_combine(c, &names, &without, LF_DFA_MINUS);
    return lf_dfa_minimize(c, &names);
}

/* ------------------------------------------------------------------------------------------------ building */

/* The name as the answer spells it, with its colon; in the scratch. */
static struct lf_str spelled_name(struct lf_schema *s, bool comma, struct lf_str name)
{
    struct lf_buf buf;
    lf_buf_init_in(&buf, 6 * name.len + 8, lf_work_memory(s->c->work));
    if (comma) lf_buf_char(&buf, ',');
    lf_json_write_string(&buf, name);
    lf_buf_char(&buf, ':');
    return lf_compilation_text(s->c, &buf);
}

/* From a node to where the value of this name begins. With white space, the comma stands alone before it. */
static uint32_t put_name(struct lf_schema *s, uint32_t from, bool comma, struct lf_str name)
{
    bool apart = s->space != LF_NET_NONE;
    if (comma && apart) from = lf_schema_put_space(s, lf_schema_put_text(s, from, LF_STR(",")));
    return lf_schema_put_space(s, lf_schema_put_text(s, from, spelled_name(s, comma && !apart, name)));
}

static void put_named(struct object *o, uint32_t first, uint32_t n_counts)
{
    struct lf_schema *s = o->s;
    for (size_t i = 0; i < o->n_names && lf_compilation_ok(s->c); i++) {
        struct name *name = &o->names[i];
        struct lf_schema_set set;
        uint32_t here = first + (uint32_t)i * n_counts, next = here + n_counts;
        bool allowed = !o->has_name_rule || lf_dfa_accepts(&o->name_rule, name->text);
        allowed = allowed && set_of_value(o, name->first, patterns_of(o, name->text), &set);
        for (uint32_t k = 0; k < n_counts && lf_compilation_ok(s->c); k++) {
            if (!name->required) lf_network_empty(s->net, s->c, here + k, next + k);
            if (allowed && k < o->max)
                lf_schema_put(s, set, put_name(s, here + k, k > 0, name->text), next + LF_MIN(k + 1, n_counts - 1));
        }
    }
}

/* The nodes of the last column, between which names that no schema lists lead. */
static void put_others(struct object *o, uint32_t last, uint32_t n_counts)
{
    struct lf_schema *s = o->s;
    for (uint32_t matched = 0; matched < 1u << o->n_patterns && lf_compilation_ok(s->c); matched++) {
        struct lf_schema_set set;
        struct lf_schema_terminals *known = s->terminals;
        uint32_t names = known->free_name;
        if (!set_of_value(o, NULL, matched, &set)) continue;
        bool any_name = o->n_names == 0 && o->n_patterns == 0 && !o->has_name_rule;
        if (any_name && !known->has_free_name) {
            struct lf_terminal any = lf_terminal_of_string(s->c, 0, LF_TERMINAL_UNBOUNDED, ":");
            names = known->free_name = lf_network_add(s->net, s->c, any);
            known->has_free_name = true;
        } else if (!any_name) {
            struct lf_dfa contents = names_of(o, matched);
            struct lf_dfa spelled = lf_json_string_spelled(s->c, &contents, ":");
            names = lf_network_add(s->net, s->c, lf_terminal_of_dfa(s->c, &spelled));
        }
        if (!lf_compilation_ok(s->c) || lf_terminal_is_empty(&s->net->terminals[names])) continue;
        if (o->min > o->n_required + 1)
            lf_schema_fail(s, lf_schema_of(s, o->set.items[0]), LF_UNSUPPORTED,
                           "\"minProperties\" beyond the required ones, where other names are allowed");
        for (uint32_t k = 0; k < n_counts && k < o->max && lf_compilation_ok(s->c); k++) {
            uint32_t from = last + k, name = lf_network_node(s->net, s->c);
            if (k) from = lf_schema_put_space(s, lf_schema_put_text(s, from, LF_STR(",")));
            lf_network_terminal(s->net, s->c, from, name, names);
            lf_schema_put(s, set, lf_schema_put_space(s, name), last + LF_MIN(k + 1, n_counts - 1));
        }
    }
}

void lf_schema_put_object(struct lf_schema *s, struct lf_schema_set set, uint32_t from)
{
    struct object *o = lf_compilation_scratch(s->c, 1, sizeof *o);
    if (!o) return;
    o->s = s;
    o->set = set;
    read_all(o);
    if (!lf_compilation_ok(s->c)) return;
    uint32_t n_counts = 1 + LF_MAX(o->max < UINT32_MAX - 1 ? o->max : LF_MAX(o->min, 1u), 1u);
    if ((o->n_names + 1) * n_counts > LF_GRAMMAR_UNROLLED_N) {
        lf_schema_fail(s, lf_schema_of(s, set.items[0]), LF_LIMIT,
                       "\"properties\", times minProperties or maxProperties, are more than %d", LF_GRAMMAR_UNROLLED_N);
        return;
    }
    uint32_t open = lf_schema_put_space(s, lf_schema_put_text(s, from, LF_STR("{")));
    uint32_t end = lf_network_end(s->net, s->c), first = lf_network_node(s->net, s->c);
    for (size_t i = 1; i < (o->n_names + 1) * n_counts; i++) (void)lf_network_node(s->net, s->c);
    lf_network_empty(s->net, s->c, open, first);
    put_named(o, first, n_counts);
    uint32_t last = first + (uint32_t)o->n_names * n_counts;
    put_others(o, last, n_counts);
    uint32_t close = lf_network_node(s->net, s->c);
    struct lf_terminal brace = lf_terminal_of_texts(s->c, &(struct lf_str){"}", 1}, 1);
    lf_network_terminal(s->net, s->c, close, end, lf_network_add(s->net, s->c, brace));
    for (uint32_t k = 0; k < n_counts && lf_compilation_ok(s->c); k++)
        if (k >= o->min && k <= o->max)
            lf_network_empty(s->net, s->c, k ? lf_schema_put_space(s, last + k) : last + k, close);
}
