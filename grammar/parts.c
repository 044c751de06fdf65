/* Parts: first a graph, then a network.
 *
 *     UNTIL(<call>) SCHEMA, any number of times, then FREE
 *
 *         ┌──────────── nothing ────────────┐
 *         ▼                                 │
 *     ──▶ a ──text up to <call>──▶ n ──{…}──▶ b        a ──nothing──▶ m ──free text──▶ end
 *
 * A part is edges between two nodes, and where it may be empty or comes back, an edge with nothing on it. A reader of
 * networks must not meet a circle of those, nor many of them in a row. So the graph becomes a network by the closure:
 * a node of the network has every edge that bears something of all nodes that its own reaches by nothing.
 *
 * A part repeated so many times is put once and then copied: its automata are shared. A schema is a sub-network of its
 * own, which is called, so that it is compiled once and may have its own white space. */
#include "grammar/parts.h"

#include "core/check.h"
#include "grammar/free_text.h"
#include "grammar/regex.h"
#include "grammar/schema_impl.h"

struct edge {
    uint32_t from, to;
    uint32_t what; /* as in a network */
    uint8_t kind;
};

/* A schema that was put, and where it begins. document: what its references look in; empty: it has none. */
struct made_schema {
    struct lf_str text, document, whitespace;
    bool strict;
    uint32_t start;
};

struct graph {
    struct lf_compilation *c;
    struct lf_network *net;
    struct lf_schema_terminals terminals;
    struct made_schema *made;
    size_t n_made, made_cap;
    struct edge *edges;
    size_t n_edges, edges_cap;
    uint32_t n_nodes;
};

static void put(struct graph *g, const struct lf_grammar_part *p, uint32_t from, uint32_t to, int depth);

static uint32_t new_node(struct graph *g)
{
    lf_compilation_step(g->c, 1);
    return g->n_nodes++;
}

static void add(struct graph *g, struct edge edge)
{
    struct edge *edges = lf_compilation_grow(g->c, g->edges, g->n_edges, &g->edges_cap, sizeof *edges);
    if (!edges || !lf_compilation_step(g->c, 1)) return;
    g->edges = edges;
    edges[g->n_edges++] = edge;
}

static void add_nothing(struct graph *g, uint32_t from, uint32_t to)
{
    add(g, (struct edge){.from = from, .to = to, .kind = LF_NET_EMPTY});
}

/* A terminal without texts makes no edge, one that may be empty makes two. */
static void add_terminal(struct graph *g, uint32_t from, uint32_t to, struct lf_terminal t)
{
    if (!lf_compilation_ok(g->c) || lf_terminal_is_empty(&t)) return;
    add(g, (struct edge){from, to, lf_network_add(g->net, g->c, t), LF_NET_TERMINAL});
    if (lf_terminal_accepts(&t, 0)) add_nothing(g, from, to);
}

/* ------------------------------------------------------------------------------------------------ leaves */

static bool is_text(struct graph *g, const struct lf_grammar_part *p, bool may_be_empty)
{
    if ((p->text.len || may_be_empty) && lf_utf8_valid(p->text)) return true;
    lf_compilation_fail(g->c, LF_INVALID, p->text.len ? "a part's text is not UTF-8" : "a part's text is empty");
    return false;
}

static void put_text(struct graph *g, const struct lf_grammar_part *p, uint32_t from, uint32_t to)
{
    struct lf_str text = p->text;
    if (is_text(g, p, true)) add_terminal(g, from, to, lf_terminal_of_texts(g->c, &text, 1));
}

static void put_control(struct graph *g, const struct lf_grammar_part *p, uint32_t from, uint32_t to)
{
    if (is_text(g, p, false)) add_terminal(g, from, to, lf_terminal_of_control(g->c, p->text));
}

static void put_regex(struct graph *g, const struct lf_grammar_part *p, uint32_t from, uint32_t to)
{
    if (!is_text(g, p, true)) return;
    struct lf_dfa dfa = lf_grammar_regex(g->c, p->text, LF_REGEX_WHOLE);
    add_terminal(g, from, to, lf_terminal_of_dfa(g->c, &dfa));
}

static struct lf_str text_of(struct lf_json_value v)
{
    return v.json && lf_json_type(v) != LF_JSON_NONE ? lf_json_raw(v) : LF_STR("");
}

static bool same_schema(const struct made_schema *a, const struct made_schema *b)
{
    return a->strict == b->strict && lf_str_eq(a->text, b->text) && lf_str_eq(a->document, b->document) &&
           lf_str_eq(a->whitespace, b->whitespace);
}

/* Schemas of the same text are one: tools that take any object, and calls that may come first or later. */
static uint32_t compile_schema(struct graph *g, const struct lf_grammar_part *p)
{
    struct made_schema made = {
        .text = text_of(p->schema), .whitespace = p->options.whitespace, .strict = p->options.strict};
    if (lf_str_find(made.text, LF_STR("$ref")) >= 0) made.document = text_of(p->document);
    for (size_t i = 0; i < g->n_made; i++) {
        const struct made_schema *m = &g->made[i];
        if (m->text.len != made.text.len || m->document.len != made.document.len) continue;
        if (!lf_compilation_step(g->c, 1 + (made.text.len + made.document.len) / 16)) return 0;
        if (same_schema(m, &made)) return m->start;
    }
    made.start = lf_schema_compile(g->c, g->net, p->schema, p->document, &p->options, &g->terminals);
    struct made_schema *list = lf_compilation_grow(g->c, g->made, g->n_made, &g->made_cap, sizeof *list);
    if (!list) return 0;
    g->made = list;
    list[g->n_made++] = made;
    return made.start;
}

static void put_schema(struct graph *g, const struct lf_grammar_part *p, uint32_t from, uint32_t to)
{
    uint32_t start = compile_schema(g, p);
    if (lf_compilation_ok(g->c) && g->net->nodes[start].height > LF_GRAMMAR_DEPTH)
        lf_compilation_fail(g->c, LF_INVALID, "nothing can match it: its conditions exclude each other");
    add(g, (struct edge){from, to, start, LF_NET_CALL});
}

/* The texts among the markers of FREE or UNTIL, in the scratch; *n_controls: how many of the others there are. */
static struct lf_str *texts_of(struct graph *g, const struct lf_grammar_part *p, size_t *n_texts, size_t *n_controls)
{
    struct lf_str *texts = lf_compilation_scratch(g->c, p->n_parts, sizeof *texts);
    *n_texts = *n_controls = 0;
    for (size_t i = 0; i < p->n_parts && texts; i++) {
        const struct lf_grammar_part *marker = &p->parts[i];
        if (marker->kind != LF_PART_TEXT && marker->kind != LF_PART_CONTROL)
            lf_compilation_fail(g->c, LF_INVALID, "free text ends at texts and control tokens only");
        if (!is_text(g, marker, false)) return NULL;
        if (marker->kind == LF_PART_TEXT) texts[(*n_texts)++] = marker->text;
        *n_controls += marker->kind == LF_PART_CONTROL;
    }
    return texts;
}

static void put_free(struct graph *g, const struct lf_grammar_part *p, uint32_t from, uint32_t to)
{
    size_t n_texts, n_controls; /* which are in no text */
    struct lf_str *texts = texts_of(g, p, &n_texts, &n_controls);
    if (!texts || !lf_compilation_ok(g->c)) return;
    struct lf_dfa dfa = lf_free_text(g->c, texts, n_texts, LF_FREE_TEXT_WITHOUT);
    add_terminal(g, from, to, lf_terminal_of_dfa(g->c, &dfa));
}

/* Up to a text that ends it: one automaton. Up to a control token: text without any of the texts, then the token. */
static void put_until(struct graph *g, const struct lf_grammar_part *p, uint32_t from, uint32_t to)
{
    size_t n_texts, n_controls;
    struct lf_str *texts = texts_of(g, p, &n_texts, &n_controls);
    if (!texts || !lf_compilation_ok(g->c)) return;
    if (n_texts) {
        struct lf_dfa dfa = lf_free_text(g->c, texts, n_texts, LF_FREE_TEXT_UP_TO);
        add_terminal(g, from, to, lf_terminal_of_dfa(g->c, &dfa));
    }
    if (n_controls == 0) return;
    uint32_t before = new_node(g);
    put_free(g, p, from, before);
    for (size_t i = 0; i < p->n_parts; i++)
        if (p->parts[i].kind == LF_PART_CONTROL) put_control(g, &p->parts[i], before, to);
}

/* ------------------------------------------------------------------------------------------------ of parts */

static void put_sequence(struct graph *g, const struct lf_grammar_part *p, uint32_t from, uint32_t to, int depth)
{
    if (p->n_parts == 0) add_nothing(g, from, to);
    for (size_t i = 0; i < p->n_parts && lf_compilation_ok(g->c); i++) {
        uint32_t next = i + 1 == p->n_parts ? to : new_node(g);
        put(g, &p->parts[i], from, next, depth + 1);
        from = next;
    }
}

/* A stretch of the graph between two nodes: its edges, and the nodes inside, which came after both. */
struct stretch {
    uint32_t from, to;
    uint32_t first, end; /* nodes inside */
    size_t first_edge, end_edge;
};

static uint32_t moved(const struct stretch *s, uint32_t node, uint32_t from, uint32_t to, uint32_t first)
{
    return node == s->from ? from : node == s->to ? to : node - s->first + first;
}

static void copy(struct graph *g, const struct stretch *s, uint32_t from, uint32_t to)
{
    uint32_t first = g->n_nodes;
    g->n_nodes += s->end - s->first;
    for (size_t i = s->first_edge; i < s->end_edge && lf_compilation_ok(g->c); i++) {
        struct edge edge = g->edges[i];
        edge.from = moved(s, edge.from, from, to, first);
        edge.to = moved(s, edge.to, from, to, first);
        add(g, edge);
    }
}

/* A row of copies. Past the least number each may be the last; where there is no end, the last one comes back. */
static void put_repeat(struct graph *g, const struct lf_grammar_part *p, uint32_t from, uint32_t to, int depth)
{
    uint32_t n = p->max ? p->max : LF_MAX(p->min, 1u), begin = new_node(g), end = new_node(g);
    if (p->n_parts != 1 || (p->max && p->max < p->min))
        lf_compilation_fail(g->c, LF_INVALID, "a repetition of %zu parts, %u to %u times", p->n_parts, p->min, p->max);
    if (n > LF_GRAMMAR_UNROLLED_N)
        lf_compilation_fail(g->c, LF_LIMIT, "a part is repeated more than %d times", LF_GRAMMAR_UNROLLED_N);
    if (!lf_compilation_ok(g->c)) return;
    struct stretch s = {.from = begin, .to = end, .first = g->n_nodes, .first_edge = g->n_edges};
    put(g, &p->parts[0], begin, end, depth + 1);
    s.end = g->n_nodes;
    s.end_edge = g->n_edges;
    add_nothing(g, from, begin);
    if (p->min == 0) add_nothing(g, begin, to);
    for (uint32_t i = 1; i < n && lf_compilation_ok(g->c); i++) {
        uint32_t next = new_node(g);
        if (i >= p->min) add_nothing(g, end, to);
        copy(g, &s, end, next);
        begin = end;
        end = next;
    }
    add_nothing(g, end, to);
    if (p->max == 0) add_nothing(g, end, begin);
}

static void put(struct graph *g, const struct lf_grammar_part *p, uint32_t from, uint32_t to, int depth)
{
    struct lf_str outer = g->c->name;
    if (depth > LF_GRAMMAR_PARTS_DEPTH)
        lf_compilation_fail(g->c, LF_LIMIT, "parts nested deeper than %d", LF_GRAMMAR_PARTS_DEPTH);
    if (!lf_compilation_step(g->c, 1)) return;
    if (p->name.len) g->c->name = p->name;
    switch (p->kind) {
    case LF_PART_TEXT:
        put_text(g, p, from, to);
        break;
    case LF_PART_CONTROL:
        put_control(g, p, from, to);
        break;
    case LF_PART_SCHEMA:
        put_schema(g, p, from, to);
        break;
    case LF_PART_REGEX:
        put_regex(g, p, from, to);
        break;
    case LF_PART_FREE:
        put_free(g, p, from, to);
        break;
    case LF_PART_UNTIL:
        put_until(g, p, from, to);
        break;
    case LF_PART_SEQUENCE:
        put_sequence(g, p, from, to, depth);
        break;
    case LF_PART_ALTERNATIVE:
        for (size_t i = 0; i < p->n_parts && lf_compilation_ok(g->c); i++) put(g, &p->parts[i], from, to, depth + 1);
        break;
    case LF_PART_REPEAT:
        put_repeat(g, p, from, to, depth);
        break;
    }
    g->c->name = outer;
}

/* ------------------------------------------------------------------------------------------------ the network */

/* The graph as it is made into a network. */
struct closing {
    struct graph *g;
    size_t *first;    /* [node]: of its edges in `order`, and the end of the last */
    uint32_t *order;  /* edges by the node that they leave */
    uint32_t *number; /* [node]: in the network, or LF_NET_NONE */
    uint32_t *waiting;
    uint32_t *todo, *seen; /* [node]: a stack; the round it was seen in */
    uint32_t n_waiting, round;
};

static bool begin_closing(struct closing *x, struct graph *g)
{
    uint32_t n = g->n_nodes;
    *x = (struct closing){.g = g};
    x->first = lf_compilation_scratch(g->c, n + 2, sizeof *x->first);
    x->order = lf_compilation_scratch(g->c, g->n_edges, sizeof *x->order);
    x->number = lf_compilation_scratch(g->c, n, sizeof *x->number);
    x->waiting = lf_compilation_scratch(g->c, n, sizeof *x->waiting);
    x->todo = lf_compilation_scratch(g->c, n, sizeof *x->todo);
    x->seen = lf_compilation_scratch(g->c, n, sizeof *x->seen);
    if (!x->first || !x->order || !x->number || !x->waiting || !x->todo || !x->seen) return false;
    for (uint32_t i = 0; i < n; i++) x->number[i] = LF_NET_NONE;
    for (size_t i = 0; i < g->n_edges; i++) x->first[g->edges[i].from + 2]++;
    for (uint32_t i = 0; i < n; i++) x->first[i + 2] += x->first[i + 1];
    for (uint32_t i = 0; i < g->n_edges; i++) x->order[x->first[g->edges[i].from + 1]++] = i;
    return true;
}

/* The node of the network for one of the graph. */
static uint32_t number_of(struct closing *x, uint32_t node)
{
    if (x->number[node] != LF_NET_NONE) return x->number[node];
    x->waiting[x->n_waiting++] = node;
    return x->number[node] = lf_network_node(x->g->net, x->g->c);
}

static void see(struct closing *x, uint32_t node, uint32_t *n_todo)
{
    if (x->seen[node] == x->round) return;
    x->seen[node] = x->round;
    x->todo[(*n_todo)++] = node;
}

/* All edges of the nodes that this one reaches by nothing. */
static void close_node(struct closing *x, uint32_t node, uint32_t end)
{
    struct graph *g = x->g;
    uint32_t n_todo = 0, from = number_of(x, node);
    x->round++;
    see(x, node, &n_todo);
    while (n_todo && lf_compilation_step(g->c, 1)) {
        uint32_t at = x->todo[--n_todo];
        if (at == end) g->net->nodes[from].is_end = 1;
        for (size_t i = x->first[at]; i < x->first[at + 1] && lf_compilation_step(g->c, 1); i++) {
            const struct edge *e = &g->edges[x->order[i]];
            if (e->kind == LF_NET_EMPTY)
                see(x, e->to, &n_todo);
            else if (e->kind == LF_NET_CALL)
                lf_network_call(g->net, g->c, from, number_of(x, e->to), e->what);
            else
                lf_network_terminal(g->net, g->c, from, number_of(x, e->to), e->what);
        }
    }
}

/* How many bytes the terminal may begin with. */
static int starts_n(const struct lf_terminal *t)
{
    int n = 0;
    for (int b = 0; b < 256 && !t->is_control; b++) n += lf_terminal_next(t, 0, (uint8_t)b) != LF_TERMINAL_DEAD;
    return n;
}

/* Free text that other free text may follow is refused: each of its bytes may be where the other one begins, and of
 * those ways there are more than a mask can look at. */
static void check_free_text(struct lf_compilation *c, const struct lf_network *net)
{
    for (size_t i = net->start; i < net->n_nodes; i++)
        for (uint32_t e = net->nodes[i].first; e != LF_NET_NONE; e = net->edges[e].next) {
            if (net->edges[e].kind != LF_NET_TERMINAL || !net->terminals[net->edges[e].what].is_open) continue;
            uint32_t f = net->nodes[net->edges[e].to].first;
            for (; f != LF_NET_NONE && lf_compilation_step(c, 256); f = net->edges[f].next)
                if (net->edges[f].kind == LF_NET_TERMINAL &&
                    starts_n(&net->terminals[net->edges[f].what]) >= LF_TERMINAL_OPEN_N)
                    lf_compilation_fail(c, LF_UNSUPPORTED, "free text that other free text may follow");
        }
}

void lf_parts_compile(struct lf_compilation *c, struct lf_network *net, const struct lf_grammar_part *root)
{
    struct graph g = {.c = c, .net = net};
    struct closing x;
    uint32_t start = new_node(&g), end = new_node(&g);
    put(&g, root, start, end, 1);
    if (!lf_compilation_ok(c) || !begin_closing(&x, &g)) return;
    net->start = number_of(&x, start);
    for (uint32_t i = 0; i < x.n_waiting && lf_compilation_ok(c); i++) close_node(&x, x.waiting[i], end);
    if (lf_compilation_ok(c)) check_free_text(c, net);
    lf_network_heights(net, c, net->start);
}

static size_t source_bytes(const struct lf_grammar_part *p, int depth)
{
    size_t n = p->text.len + p->options.whitespace.len;
    if (depth > LF_GRAMMAR_PARTS_DEPTH) return 0;
    if (p->kind == LF_PART_SCHEMA && p->schema.json) n += lf_json_raw(p->schema).len;
    for (size_t i = 0; i < p->n_parts && n <= LF_GRAMMAR_SOURCE_BYTES; i++) n += source_bytes(&p->parts[i], depth + 1);
    return n;
}

size_t lf_parts_source_bytes(const struct lf_grammar_part *root)
{
    return source_bytes(root, 1);
}
