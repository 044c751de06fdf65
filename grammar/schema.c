/* From a schema to a network: the root, then every object and array that is waiting, then what was to be checked. */
#include "core/check.h"
#include "grammar/regex.h"
#include "grammar/schema_impl.h"

/* Each object and array once; building one may add more behind it. */
static void build_waiting(struct lf_schema *s, size_t from)
{
    for (size_t i = from; i < s->n_rules && lf_compilation_step(s->c, 1); i++) {
        struct lf_schema_rule rule = s->rules[i];
        if (rule.kind == LF_SCHEMA_OBJECT) lf_schema_put_object(s, rule.set, rule.start);
        if (rule.kind == LF_SCHEMA_ARRAY) lf_schema_put_array(s, rule.set, rule.start);
    }
}

/* For each two branches of a oneOf: the way to a value that both allow, whether or not both would write it. */
static void put_pairs(struct lf_schema *s, uint32_t end)
{
    s->whole = true;
    for (size_t i = 0; i < s->n_pairs && lf_compilation_ok(s->c); i++) {
        struct lf_schema_pair p = s->pairs[i];
        if (p.a == LF_SCHEMA_FALSE || p.b == LF_SCHEMA_FALSE) {
            s->pairs[i].from = LF_NET_NONE;
            continue;
        }
        uint32_t *items = lf_compilation_scratch(s->c, 3, sizeof *items);
        if (!items) return;
        items[0] = p.all, items[1] = p.a, items[2] = p.b;
        s->pairs[i].from = lf_network_node(s->net, s->c);
        size_t n = s->n_rules;
        lf_schema_put(s, lf_schema_set_of(s, items, 3), s->pairs[i].from, end);
        build_waiting(s, n);
    }
}

static void check_pairs(struct lf_schema *s)
{
    for (size_t i = 0; i < s->n_pairs && lf_compilation_ok(s->c); i++) {
        const struct lf_schema_pair *p = &s->pairs[i];
        if (p->from != LF_NET_NONE && s->net->nodes[p->from].height != LF_NET_NO_WAY)
            lf_schema_fail(s, p->where, LF_UNSUPPORTED,
                           "\"oneOf\": branches %u and %u have values in common; \"anyOf\" is supported", p->a_idx,
                           p->b_idx);
    }
}

/* What of a pattern is white space to JSON: nothing else may come, for the answer is to parse. */
static struct lf_terminal white_space(struct lf_compilation *c, struct lf_str pattern)
{
    struct lf_dfa asked = lf_grammar_regex(c, pattern, LF_REGEX_WHOLE),
                  json = lf_grammar_regex(c, LF_STR("[ \\t\\n\\r]*"), LF_REGEX_WHOLE),
                  both = lf_dfa_combine(c, &asked, &json, LF_DFA_AND);
    if (lf_compilation_ok(c) && both.n_states == 0)
        lf_compilation_fail(c, LF_INVALID, "the pattern of white space matches none that JSON has");
    return lf_terminal_of_dfa(c, &both);
}

static uint32_t compile(struct lf_compilation *c, struct lf_network *net, struct lf_json_value schema,
                        struct lf_json_value root, const struct lf_grammar_options *options,
                        struct lf_schema_terminals *terminals)
{
    struct lf_schema s = {
        .c = c, .net = net, .root = root, .strict = options->strict, .space = LF_NET_NONE, .terminals = terminals};
    s.checked = lf_compilation_scratch(c, root.json->n_nodes, 1);
    uint32_t *items = lf_compilation_scratch(c, 1, sizeof *items);
    if (!s.checked || !items) return 0;
    if (options->whitespace.len) s.space = lf_network_add(net, c, white_space(c, options->whitespace));
    uint32_t start = lf_network_node(net, c), end = lf_network_end(net, c);
    items[0] = lf_schema_item(&s, schema);
    if (lf_compilation_ok(c) && items[0] != LF_SCHEMA_FALSE)
        lf_schema_put(&s, lf_schema_set_of(&s, items, 1), start, end);
    build_waiting(&s, 0);
    put_pairs(&s, end);
    lf_network_heights(net, c, start);
    check_pairs(&s);
    return start;
}

uint32_t lf_schema_compile(struct lf_compilation *c, struct lf_network *net, struct lf_json_value schema,
                           struct lf_json_value document, const struct lf_grammar_options *options,
                           struct lf_schema_terminals *terminals)
{
    static const char any_object[] = "{\"type\":\"object\"}";
    struct lf_json doc = {0};
    struct lf_err err = {0};
    if (schema.json && lf_json_type(schema) != LF_JSON_NONE)
        return compile(c, net, schema, document.json ? document : schema, options, terminals);
    enum lf_status status = lf_json_parse_in(&doc, lf_str_c(any_object), &lf_json_limits_request, c->work, &err);
    if (status != LF_OK) lf_compilation_fail(c, status, "%s", err.message);
    schema = lf_json_root(&doc);
    uint32_t start = status == LF_OK ? compile(c, net, schema, schema, options, terminals) : 0;
    lf_json_deinit(&doc);
    return start;
}
