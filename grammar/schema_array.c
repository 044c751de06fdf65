/* Arrays: a chain of nodes, one for each number of items up to where the count makes no difference any more. */
#include "core/check.h"
#include "grammar/schema_impl.h"

struct array {
    struct lf_schema *s;
    struct lf_schema_set set;
    uint32_t min, max, n_prefix;
};

static void read_bounds(struct array *a)
{
    struct lf_schema *s = a->s;
    a->max = UINT32_MAX;
    for (uint32_t i = 0; i < a->set.n && lf_compilation_ok(s->c); i++) {
        struct lf_json_value schema = lf_schema_of(s, a->set.items[i]);
        struct lf_json_value prefix = lf_schema_member(s, schema, "prefixItems", LF_JSON_ARRAY);
        struct lf_json_value unique = lf_json_get(schema, "uniqueItems");
        uint32_t n;
        if (lf_schema_count(s, schema, "minItems", LF_GRAMMAR_UNROLLED_N, &n)) a->min = LF_MAX(a->min, n);
        if (lf_schema_count(s, schema, "maxItems", UINT32_MAX - 1, &n)) a->max = LF_MIN(a->max, n);
        a->n_prefix = LF_MAX(a->n_prefix, lf_json_len(prefix));
        if (lf_json_type(lf_json_get(schema, "items")) == LF_JSON_ARRAY)
            lf_schema_fail(s, schema, LF_UNSUPPORTED, "\"items\" as an array is not supported: \"prefixItems\" is");
        if (lf_json_type(unique) == LF_JSON_TRUE && a->max > 1)
            lf_schema_fail(s, schema, LF_UNSUPPORTED, "\"uniqueItems\" is not supported");
    }
    if (a->max != UINT32_MAX && a->max > LF_GRAMMAR_UNROLLED_N)
        lf_schema_fail(s, lf_schema_of(s, a->set.n ? a->set.items[0] : 0), LF_LIMIT, "\"maxItems\" is more than %d",
                       LF_GRAMMAR_UNROLLED_N);
    if (a->n_prefix > LF_GRAMMAR_UNROLLED_N)
        lf_schema_fail(s, lf_schema_of(s, a->set.items[0]), LF_LIMIT, "\"prefixItems\" are more than %d",
                       LF_GRAMMAR_UNROLLED_N);
}

/* All that must hold of item i. False: nothing does. */
static bool set_of_item(struct array *a, uint32_t i, struct lf_schema_set *out)
{
    struct lf_schema *s = a->s;
    uint32_t n = 0, *items = lf_compilation_scratch(s->c, a->set.n, sizeof *items);
    if (!items) return false;
    for (uint32_t k = 0; k < a->set.n; k++) {
        struct lf_json_value schema = lf_schema_of(s, a->set.items[k]), of_item = {0};
        struct lf_json_value prefix = lf_json_get(schema, "prefixItems");
        if (i < lf_json_len(prefix)) {
            of_item = lf_json_first(prefix);
            for (uint32_t at = 0; at < i && lf_compilation_step(s->c, 1); at++) of_item = lf_json_next(prefix, of_item);
        } else {
            of_item = lf_json_get(schema, "items");
        }
        if (lf_json_type(of_item) == LF_JSON_NONE) continue;
        items[n] = lf_schema_item(s, of_item);
        if (items[n] == LF_SCHEMA_FALSE || !lf_compilation_ok(s->c)) return false;
        n++;
    }
    *out = lf_schema_set_of(s, items, n);
    return true;
}

void lf_schema_put_array(struct lf_schema *s, struct lf_schema_set set, uint32_t from)
{
    struct array a = {.s = s, .set = set};
    struct lf_schema_set of_item = {0};
    read_bounds(&a);
    uint32_t end = lf_network_end(s->net, s->c), before_end = lf_network_node(s->net, s->c);
    uint32_t at = lf_schema_put_space(s, lf_schema_put_text(s, from, LF_STR("[")));
    uint32_t n_same = LF_MAX(LF_MAX(a.min, a.n_prefix), 1u); /* from so many on the count makes no difference … */
    if (a.max != UINT32_MAX) n_same = a.max;                 /* … or there are no more */
    struct lf_terminal close = lf_terminal_of_texts(s->c, &(struct lf_str){"]", 1}, 1);
    lf_network_terminal(s->net, s->c, before_end, end, lf_network_add(s->net, s->c, close));
    bool possible = true;
    for (uint32_t i = 0; lf_compilation_ok(s->c); i++) {
        if (i >= a.min) lf_network_empty(s->net, s->c, i ? lf_schema_put_space(s, at) : at, before_end);
        if (i >= a.max) break;
        if (i <= a.n_prefix) possible = set_of_item(&a, i, &of_item);
        if (!possible) break;
        uint32_t item = i ? lf_schema_put_space(s, lf_schema_put_text(s, at, LF_STR(","))) : at;
        bool loops = i >= n_same;
        uint32_t to = loops ? at : lf_network_node(s->net, s->c);
        lf_schema_put(s, of_item, item, to);
        if (loops) break;
        at = to;
    }
}
