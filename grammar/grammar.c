#include "grammar/grammar.h"

#include "core/check.h"
#include "core/text_memory.h"
#include "grammar/grammar_impl.h"
#include "grammar/parts.h"
#include "grammar/regex.h"
#include "grammar/schema_impl.h"

enum { CHUNK_BYTES = 32 * 1024 };

struct lf_grammar *lf_grammar_ref(struct lf_grammar *g)
{
    atomic_fetch_add_explicit(&g->n_refs, 1, memory_order_relaxed);
    return g;
}

void lf_grammar_unref(struct lf_grammar *g)
{
    if (!g || atomic_fetch_sub_explicit(&g->n_refs, 1, memory_order_acq_rel) > 1) return;
    lf_arena_deinit(&g->arena);
    lf_text_free(g->memory, g);
}

size_t lf_grammar_bytes(const struct lf_grammar *g)
{
    return sizeof *g + g->arena.used_bytes;
}

/* One compilation: what the kinds of grammars differ in is the function that fills the network. */
struct source {
    void (*fill)(struct lf_compilation *c, struct lf_network *net, const struct source *source);
    struct lf_json_value schema;
    const struct lf_grammar_options *options;
    struct lf_str pattern;
    const struct lf_str *choices;
    const struct lf_grammar_part *parts;
    size_t n_choices, n_bytes;
};

static enum lf_status compile(struct lf_grammar **out, const struct source *source, struct lf_work *work,
                              struct lf_err *err)
{
    struct lf_text_memory *memory = lf_work_memory(work);
    struct lf_compilation c;
    if (source->n_bytes > LF_GRAMMAR_SOURCE_BYTES)
        return lf_fail(err, LF_LIMIT, "a grammar of %zu bytes: at most %d", source->n_bytes, LF_GRAMMAR_SOURCE_BYTES);
    struct lf_grammar *g = lf_text_alloc_zeroed(memory, sizeof *g);
    if (!g) return lf_fail(err, LF_NO_MEMORY, "no memory for a grammar");
    g->memory = memory;
    atomic_init(&g->n_refs, 1);
    lf_arena_init_in(&g->arena, CHUNK_BYTES, LF_GRAMMAR_BYTES, memory);
    lf_compilation_init(&c, &g->arena, work, err);
    source->fill(&c, &g->net, source);
    if (lf_compilation_ok(&c) && g->net.nodes[g->net.start].height > LF_GRAMMAR_DEPTH)
        lf_compilation_fail(&c, LF_INVALID, "nothing can match it: its conditions exclude each other");
    lf_network_keep(&g->net, &c);
    enum lf_status status = c.status;
    lf_compilation_deinit(&c);
    if (status != LF_OK)
        lf_grammar_unref(g);
    else
        *out = g;
    return status;
}

static void fill_schema(struct lf_compilation *c, struct lf_network *net, const struct source *source)
{
    static const struct lf_grammar_options defaults = {0};
    const struct lf_grammar_options *o = source->options ? source->options : &defaults;
    const struct lf_json_value whole = {0};
    struct lf_schema_terminals terminals = {0};
    net->start = lf_schema_compile(c, net, source->schema, whole, o, &terminals);
}

/* Start, one terminal, end. */
static void fill_terminal(struct lf_compilation *c, struct lf_network *net, struct lf_terminal t)
{
    net->start = lf_network_node(net, c);
    uint32_t end = lf_network_end(net, c);
    lf_network_terminal(net, c, net->start, end, lf_network_add(net, c, t));
    if (lf_compilation_ok(c) && !lf_terminal_is_empty(&t) && lf_terminal_accepts(&t, 0))
        lf_network_empty(net, c, net->start, end);
    lf_network_heights(net, c, net->start);
}

static void fill_regex(struct lf_compilation *c, struct lf_network *net, const struct source *source)
{
    struct lf_dfa dfa = lf_grammar_regex(c, source->pattern, LF_REGEX_WHOLE);
    fill_terminal(c, net, lf_terminal_of_dfa(c, &dfa));
}

static void fill_choice(struct lf_compilation *c, struct lf_network *net, const struct source *source)
{
    struct lf_str *texts = lf_compilation_scratch(c, source->n_choices, sizeof *texts);
    if (!texts) return;
    if (source->n_choices) memcpy(texts, source->choices, source->n_choices * sizeof *texts);
    fill_terminal(c, net, lf_terminal_of_texts(c, texts, source->n_choices));
}

enum lf_status lf_grammar_of_schema(struct lf_grammar **out, struct lf_json_value schema,
                                    const struct lf_grammar_options *options, struct lf_work *work, struct lf_err *err)
{
    struct source source = {
        .fill = fill_schema, .schema = schema, .options = options, .n_bytes = lf_json_raw(schema).len};
    return compile(out, &source, work, err);
}

enum lf_status lf_grammar_of_regex(struct lf_grammar **out, struct lf_str pattern, struct lf_work *work,
                                   struct lf_err *err)
{
    struct source source = {.fill = fill_regex, .pattern = pattern, .n_bytes = pattern.len};
    return compile(out, &source, work, err);
}

enum lf_status lf_grammar_of_choice(struct lf_grammar **out, const struct lf_str *choices, size_t n,
                                    struct lf_work *work, struct lf_err *err)
{
    struct source source = {.fill = fill_choice, .choices = choices, .n_choices = n};
    for (size_t i = 0; i < n; i++) source.n_bytes += choices[i].len;
    return compile(out, &source, work, err);
}

enum lf_status lf_grammar_of_json_object(struct lf_grammar **out, const struct lf_grammar_options *options,
                                         struct lf_work *work, struct lf_err *err)
{
    struct source source = {.fill = fill_schema, .options = options};
    return compile(out, &source, work, err);
}

static void fill_parts(struct lf_compilation *c, struct lf_network *net, const struct source *source)
{
    lf_parts_compile(c, net, source->parts);
}

enum lf_status lf_grammar_of_parts(struct lf_grammar **out, const struct lf_grammar_part *root, struct lf_work *work,
                                   struct lf_err *err)
{
    struct source source = {.fill = fill_parts, .parts = root, .n_bytes = lf_parts_source_bytes(root)};
    return compile(out, &source, work, err);
}
