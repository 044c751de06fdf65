/* Statements.
 *
 * The parser follows Jinja's own grammar, oddities included, because templates rely on them. It recurses over nesting
 * only, at most LF_TEMPLATE_DEPTH deep; every chain (elif, filters, operators) is a loop. */
#include <stdio.h>

#include "core/check.h"
#include "core/hash.h"
#include "template/jinja/jinja_parser.h"

enum { PROGRAM_CHUNK_BYTES = 32 * 1024, PROGRAM_BYTES = 256 * LF_TEMPLATE_SOURCE_BYTES };

/* -- Tokens, names, nodes -- */

enum lf_status lf_jinja_parse_fail(struct lf_jinja_parser *p, const char *expected)
{
    char found[64];
    lf_jinja_token_describe(p->cur, found, sizeof(found));
    return lf_fail(p->err, LF_INVALID, "line %u: expected %s, found %s", p->cur.line, expected, found);
}

enum lf_status lf_jinja_parse_no_memory(struct lf_jinja_parser *p)
{
    const struct lf_arena *arena = &p->program->arena;
    bool full = arena->used_bytes > arena->ceiling / 2;
    return lf_fail(p->err, full ? LF_LIMIT : LF_NO_MEMORY, "line %u: the template needs too much memory", p->cur.line);
}

enum lf_status lf_jinja_next(struct lf_jinja_parser *p)
{
    if (p->has_ahead) {
        p->cur = p->ahead;
        p->has_ahead = false;
        return LF_OK;
    }
    return lf_jinja_lex(&p->lex, &p->cur, p->err);
}

enum lf_status lf_jinja_peek(struct lf_jinja_parser *p, struct lf_jinja_token *out)
{
    if (!p->has_ahead) LF_TRY(lf_jinja_lex(&p->lex, &p->ahead, p->err));
    p->has_ahead = true;
    *out = p->ahead;
    return LF_OK;
}

enum lf_status lf_jinja_expect(struct lf_jinja_parser *p, enum lf_jinja_token_kind kind, const char *expected)
{
    if (p->cur.kind != kind) return lf_jinja_parse_fail(p, expected);
    return lf_jinja_next(p);
}

bool lf_jinja_at_name(const struct lf_jinja_parser *p, const char *name)
{
    return p->cur.kind == LF_JINJA_T_NAME && lf_str_eq(p->cur.text, lf_str_c(name));
}

enum lf_status lf_jinja_skip_name(struct lf_jinja_parser *p, const char *name, bool *skipped)
{
    *skipped = lf_jinja_at_name(p, name);
    return *skipped ? lf_jinja_next(p) : LF_OK;
}

enum lf_status lf_jinja_enter_parse(struct lf_jinja_parser *p)
{
    if (p->depth == LF_TEMPLATE_DEPTH) {
        return lf_fail(p->err, LF_LIMIT, "line %u: the template is nested deeper than %d", p->cur.line,
                       LF_TEMPLATE_DEPTH);
    }
    p->depth++;
    return LF_OK;
}

static enum lf_status grow_names(struct lf_jinja_parser *p)
{
    struct lf_jinja_program *program = p->program;
    uint32_t cap = program->name_index_cap ? program->name_index_cap : 64, mask = cap * 2 - 1;
    struct lf_str *names = lf_arena_array(&program->arena, cap, sizeof(*names));
    uint32_t *index = lf_arena_array(&program->arena, cap * 2u, sizeof(*index));
    if (!names || !index) return lf_jinja_parse_no_memory(p);
    if (program->n_names) memcpy(names, program->names, program->n_names * sizeof(*names));
    for (uint32_t i = 0; i < program->n_names; i++) {
        uint32_t at = (uint32_t)lf_hash64(names[i].ptr, names[i].len) & mask;
        while (index[at]) at = (at + 1) & mask;
        index[at] = i + 1;
    }
    program->names = names;
    program->name_index = index;
    program->name_index_cap = cap * 2;
    return LF_OK;
}

bool lf_jinja_find_name(const struct lf_jinja_program *program, struct lf_str name, uint32_t *out)
{
    uint32_t mask = program->name_index_cap - 1, at = (uint32_t)lf_hash64(name.ptr, name.len) & mask;
    for (; program->name_index[at]; at = (at + 1) & mask) {
        *out = program->name_index[at] - 1;
        if (lf_str_eq(program->names[*out], name)) return true;
    }
    *out = at; /* where it would go */
    return false;
}

enum lf_status lf_jinja_intern(struct lf_jinja_parser *p, uint32_t *out, struct lf_str name)
{
    struct lf_jinja_program *program = p->program;
    /* The index is kept at most half full; the list has half its places. */
    if (program->n_names * 2 >= program->name_index_cap) LF_TRY(grow_names(p));
    if (lf_jinja_find_name(program, name, out)) return LF_OK;
    program->name_index[*out] = program->n_names + 1;
    *out = program->n_names++;
    program->names[*out] = name;
    return LF_OK;
}

enum lf_status lf_jinja_node(struct lf_jinja_parser *p, struct lf_jinja_node **out, enum lf_jinja_kind kind,
                             uint32_t line)
{
    *out = lf_arena_alloc(&p->program->arena, sizeof(**out));
    if (!*out) return lf_jinja_parse_no_memory(p);
    (*out)->kind = (uint8_t)kind;
    (*out)->line = line;
    return LF_OK;
}

enum lf_status lf_jinja_text_value(struct lf_jinja_parser *p, struct lf_jinja_value *out, struct lf_str s)
{
    struct lf_jinja_text text;
    if (!lf_jinja_text_borrow(&text, &p->program->arena, s, false)) return lf_jinja_parse_no_memory(p);
    *out = lf_jinja_string(text);
    return LF_OK;
}

/* -- Bodies -- */

static enum lf_status parse_statement(struct lf_jinja_parser *p, struct lf_jinja_node **out);

static bool at_any(const struct lf_jinja_parser *p, const char *const *ends)
{
    for (; *ends; ends++) {
        if (lf_jinja_at_name(p, *ends)) return true;
    }
    return false;
}

static enum lf_status fail_unclosed(struct lf_jinja_parser *p, const char *const *ends)
{
    char list[128];
    size_t len = 0;
    for (size_t i = 0; ends[i]; i++) {
        LF_ASSERT(len < sizeof(list)); /* they are ours, three short names at most */
        len += (size_t)snprintf(list + len, sizeof(list) - len, "%s'%s'", i ? " or " : "", ends[i]);
    }
    return lf_jinja_parse_fail(p, list);
}

static enum lf_status fail_unknown(struct lf_jinja_parser *p)
{
    struct lf_str name = lf_jinja_text_str(p->unknown->value.as.s);
    return lf_fail(p->err, LF_INVALID, "line %u: there is no %s '%.*s'", p->unknown->line,
                   p->unknown->kind == LF_JINJA_N_FILTER ? "filter" : "test", (int)LF_MIN(name.len, 64u), name.ptr);
}

/* Text, prints and statements up to a tag whose name is in ends (NULL-terminated; NULL: up to the end of the template).
 * Stands on that name then. */
static enum lf_status parse_body(struct lf_jinja_parser *p, struct lf_jinja_node **out, const char *const *ends)
{
    struct lf_jinja_node **tail = out;
    *out = NULL;
    while (p->cur.kind != LF_JINJA_T_EOF) {
        struct lf_jinja_node *node = NULL;
        uint32_t line = p->cur.line;
        if (p->cur.kind == LF_JINJA_T_DATA) {
            LF_TRY(lf_jinja_node(p, &node, LF_JINJA_N_DATA, line));
            LF_TRY(lf_jinja_text_value(p, &node->value, p->cur.text));
            LF_TRY(lf_jinja_next(p));
        } else if (p->cur.kind == LF_JINJA_T_VAR_BEGIN) {
            LF_TRY(lf_jinja_next(p));
            LF_TRY(lf_jinja_node(p, &node, LF_JINJA_N_PRINT, line));
            LF_TRY(lf_jinja_parse_tuple(p, &node->a, 0));
            LF_TRY(lf_jinja_expect(p, LF_JINJA_T_VAR_END, "'}}'"));
        } else {
            LF_TRY(lf_jinja_next(p));
            if (ends && at_any(p, ends)) return LF_OK;
            LF_TRY(parse_statement(p, &node));
            LF_TRY(lf_jinja_expect(p, LF_JINJA_T_BLOCK_END, "'%}'"));
        }
        if (p->unknown) return fail_unknown(p);
        *tail = node;
        tail = &node->next;
    }
    return ends ? fail_unclosed(p, ends) : LF_OK;
}

/* The body behind a statement's head: an optional colon, the end of the tag, and up to one of ends. */
static enum lf_status parse_block(struct lf_jinja_parser *p, struct lf_jinja_node **out, const char *const *ends)
{
    if (p->cur.kind == LF_JINJA_T_COLON) LF_TRY(lf_jinja_next(p));
    LF_TRY(lf_jinja_expect(p, LF_JINJA_T_BLOCK_END, "'%}'"));
    LF_TRY(lf_jinja_enter_parse(p));
    LF_TRY(parse_body(p, out, ends));
    p->depth--;
    return LF_OK;
}

/* The same with one end, which is passed. */
static enum lf_status parse_block_to(struct lf_jinja_parser *p, struct lf_jinja_node **out, const char *end)
{
    const char *const ends[] = {end, NULL};
    LF_TRY(parse_block(p, out, ends));
    return lf_jinja_next(p);
}

/* -- Statements. Each stands behind the statement's name. -- */

static enum lf_status parse_if(struct lf_jinja_parser *p, struct lf_jinja_node *node)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct lf_jinja_node **tail = &node->a;
    bool was_soft = p->soft, more = true;
    p->soft = true;
    while (more) {
        struct lf_jinja_node *branch;
        LF_TRY(lf_jinja_node(p, &branch, LF_JINJA_N_BRANCH, p->cur.line));
        *tail = branch;
        tail = &branch->next;
        LF_TRY(lf_jinja_parse_tuple(p, &branch->a, LF_JINJA_TUPLE_NO_COND));
        LF_TRY(parse_block(p, &branch->b, ends));
        LF_TRY(lf_jinja_skip_name(p, "elif", &more));
    }
    bool has_else;
    LF_TRY(lf_jinja_skip_name(p, "else", &has_else));
    if (has_else) {
        LF_TRY(lf_jinja_node(p, tail, LF_JINJA_N_BRANCH, p->cur.line));
        LF_TRY(parse_block_to(p, &(*tail)->b, "endif"));
    } else {
        LF_TRY(lf_jinja_next(p));
    }
    p->soft = was_soft;
    return LF_OK;
}

/* `loop` cannot be a target inside of a loop. */
static enum lf_status refuse_loop(struct lf_jinja_parser *p, const struct lf_jinja_node *target)
{
    if (target->kind == LF_JINJA_N_NAME && target->name == LF_JINJA_NAME_LOOP) {
        return lf_fail(p->err, LF_INVALID, "line %u: cannot assign to 'loop' in a for loop", target->line);
    }
    const struct lf_jinja_node *it = target->kind == LF_JINJA_N_TUPLE ? target->a : NULL;
    for (; it; it = it->next) LF_TRY(refuse_loop(p, it)); /* as deep as the source nests */
    return LF_OK;
}

static enum lf_status parse_for(struct lf_jinja_parser *p, struct lf_jinja_node *node)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    LF_TRY(lf_jinja_parse_target(p, &node->a, LF_JINJA_TUPLE_UNTIL_IN));
    LF_TRY(refuse_loop(p, node->a));
    if (!lf_jinja_at_name(p, "in")) return lf_jinja_parse_fail(p, "'in'");
    LF_TRY(lf_jinja_next(p));
    LF_TRY(lf_jinja_parse_tuple(p, &node->b, LF_JINJA_TUPLE_NO_COND));
    bool was_soft = p->soft, has_test, has_else;
    p->soft = false;
    LF_TRY(lf_jinja_skip_name(p, "if", &has_test));
    if (has_test) LF_TRY(lf_jinja_parse_expr(p, &node->c, true));
    if (lf_jinja_at_name(p, "recursive")) {
        return lf_fail(p->err, LF_UNSUPPORTED, "line %u: recursive loops are not implemented", p->cur.line);
    }
    p->n_loops++;
    LF_TRY(parse_block(p, &node->d, ends));
    p->n_loops--;
    LF_TRY(lf_jinja_skip_name(p, "else", &has_else));
    if (has_else) {
        LF_TRY(parse_block_to(p, &node->e, "endfor"));
    } else {
        LF_TRY(lf_jinja_next(p));
    }
    p->soft = was_soft;
    return LF_OK;
}

static enum lf_status parse_set(struct lf_jinja_parser *p, struct lf_jinja_node *node)
{
    LF_TRY(lf_jinja_parse_target(p, &node->a, LF_JINJA_TUPLE_NAMESPACE));
    if (p->n_loops) LF_TRY(refuse_loop(p, node->a));
    if (p->cur.kind == LF_JINJA_T_ASSIGN) {
        LF_TRY(lf_jinja_next(p));
        return lf_jinja_parse_tuple(p, &node->b, 0);
    }
    node->kind = LF_JINJA_N_SET_BLOCK;
    bool was_soft = p->soft;
    p->soft = false;
    if (p->cur.kind == LF_JINJA_T_PIPE) LF_TRY(lf_jinja_parse_filters(p, &node->b, NULL, false));
    LF_TRY(parse_block_to(p, &node->c, "endset"));
    p->soft = was_soft;
    return LF_OK;
}

static enum lf_status parse_params(struct lf_jinja_parser *p, struct lf_jinja_node *macro)
{
    struct lf_jinja_node **tail = &macro->a;
    LF_TRY(lf_jinja_expect(p, LF_JINJA_T_LPAREN, "'('"));
    bool has_default = false;
    size_t n_params = 0;
    while (p->cur.kind != LF_JINJA_T_RPAREN) {
        struct lf_jinja_node *param;
        if (macro->a) LF_TRY(lf_jinja_expect(p, LF_JINJA_T_COMMA, "',' or ')'"));
        if (p->cur.kind != LF_JINJA_T_NAME) return lf_jinja_parse_fail(p, "a parameter's name");
        LF_TRY(lf_jinja_node(p, &param, LF_JINJA_N_PARAM, p->cur.line));
        LF_TRY(lf_jinja_intern(p, &param->name, p->cur.text));
        LF_TRY(lf_jinja_text_value(p, &param->value, p->cur.text));
        if (++n_params > LF_JINJA_ARGS_N) {
            return lf_fail(p->err, LF_LIMIT, "line %u: more than %d parameters", p->cur.line, LF_JINJA_ARGS_N);
        }
        for (const struct lf_jinja_node *it = macro->a; it; it = it->next) {
            if (it->name == param->name) return lf_jinja_parse_fail(p, "a name that is not yet a parameter");
        }
        LF_TRY(lf_jinja_next(p));
        if (p->cur.kind == LF_JINJA_T_ASSIGN) {
            LF_TRY(lf_jinja_next(p));
            LF_TRY(lf_jinja_parse_expr(p, &param->a, true));
            has_default = true;
        } else if (has_default) {
            return lf_jinja_parse_fail(p, "'=': a parameter with a default stands before");
        }
        *tail = param;
        tail = &param->next;
    }
    return lf_jinja_next(p);
}

/* Parameters are read already; the body up to `end`. What it mentions counts for this macro and those around it. */
static enum lf_status parse_macro_body(struct lf_jinja_parser *p, struct lf_jinja_node *macro, const char *end,
                                       uint8_t outer_uses)
{
    uint32_t n_loops = p->n_loops;
    p->n_loops = 0;
    LF_TRY(parse_block_to(p, &macro->b, end));
    p->n_loops = n_loops;
    macro->uses = p->uses;
    for (const struct lf_jinja_node *it = macro->a; it; it = it->next) {
        if (it->name == LF_JINJA_NAME_CALLER && (p->uses & LF_JINJA_USES_CALLER) && !it->a) {
            return lf_fail(p->err, LF_INVALID, "line %u: the parameter 'caller' needs a default", it->line);
        }
        if (it->name == LF_JINJA_NAME_CALLER) macro->uses &= (uint8_t)~LF_JINJA_USES_CALLER;
        if (it->name == LF_JINJA_NAME_KWARGS) macro->uses &= (uint8_t)~LF_JINJA_USES_KWARGS;
        if (it->name == LF_JINJA_NAME_VARARGS) macro->uses &= (uint8_t)~LF_JINJA_USES_VARARGS;
    }
    p->uses = outer_uses | macro->uses;
    return LF_OK;
}

static enum lf_status parse_macro(struct lf_jinja_parser *p, struct lf_jinja_node *node)
{
    if (p->cur.kind != LF_JINJA_T_NAME) return lf_jinja_parse_fail(p, "the macro's name");
    LF_TRY(lf_jinja_intern(p, &node->name, p->cur.text));
    LF_TRY(lf_jinja_text_value(p, &node->value, p->cur.text));
    LF_TRY(lf_jinja_next(p));
    bool was_soft = p->soft;
    uint8_t uses = p->uses;
    p->soft = false;
    p->uses = 0;
    LF_TRY(parse_params(p, node));
    LF_TRY(parse_macro_body(p, node, "endmacro", uses));
    p->soft = was_soft;
    return LF_OK;
}

static enum lf_status parse_call_block(struct lf_jinja_parser *p, struct lf_jinja_node *node)
{
    LF_TRY(lf_jinja_node(p, &node->b, LF_JINJA_N_MACRO, node->line));
    uint8_t uses = p->uses;
    bool was_soft = p->soft;
    p->uses = 0;
    if (p->cur.kind == LF_JINJA_T_LPAREN) LF_TRY(parse_params(p, node->b));
    uint8_t param_uses = p->uses;
    p->uses = uses;
    LF_TRY(lf_jinja_parse_expr(p, &node->a, true));
    if (node->a->kind != LF_JINJA_N_CALL) return lf_jinja_parse_fail(p, "a call before");
    uses = p->uses;
    p->uses = param_uses;
    p->soft = false;
    LF_TRY(parse_macro_body(p, node->b, "endcall", uses));
    p->soft = was_soft;
    return LF_OK;
}

static enum lf_status parse_filter_block(struct lf_jinja_parser *p, struct lf_jinja_node *node)
{
    bool was_soft = p->soft;
    p->soft = false;
    LF_TRY(lf_jinja_parse_filters(p, &node->a, NULL, true));
    LF_TRY(parse_block_to(p, &node->b, "endfilter"));
    p->soft = was_soft;
    return LF_OK;
}

static enum lf_status parse_with(struct lf_jinja_parser *p, struct lf_jinja_node *node)
{
    struct lf_jinja_node **tail = &node->a;
    while (p->cur.kind != LF_JINJA_T_BLOCK_END) {
        struct lf_jinja_node *set;
        if (node->a) LF_TRY(lf_jinja_expect(p, LF_JINJA_T_COMMA, "',' or '%}'"));
        LF_TRY(lf_jinja_node(p, &set, LF_JINJA_N_SET, p->cur.line));
        LF_TRY(lf_jinja_parse_target(p, &set->a, 0));
        LF_TRY(lf_jinja_expect(p, LF_JINJA_T_ASSIGN, "'='"));
        LF_TRY(lf_jinja_parse_expr(p, &set->b, true));
        *tail = set;
        tail = &set->next;
    }
    bool was_soft = p->soft;
    p->soft = false;
    LF_TRY(parse_block_to(p, &node->b, "endwith"));
    p->soft = was_soft;
    return LF_OK;
}

static enum lf_status parse_generation(struct lf_jinja_parser *p, struct lf_jinja_node *node)
{
    uint32_t n_loops = p->n_loops;
    bool was_soft = p->soft;
    p->soft = false;
    p->n_loops = 0;
    LF_TRY(parse_block_to(p, &node->b, "endgeneration"));
    p->n_loops = n_loops;
    p->soft = was_soft;
    return LF_OK;
}

static enum lf_status parse_print(struct lf_jinja_parser *p, struct lf_jinja_node *node)
{
    struct lf_jinja_node **tail = &node->a;
    while (p->cur.kind != LF_JINJA_T_BLOCK_END) {
        if (node->a) LF_TRY(lf_jinja_expect(p, LF_JINJA_T_COMMA, "',' or '%}'"));
        LF_TRY(lf_jinja_parse_expr(p, tail, true));
        tail = &(*tail)->next;
    }
    return LF_OK;
}

static enum lf_status parse_jump(struct lf_jinja_parser *p, struct lf_jinja_node *node)
{
    if (p->n_loops) return LF_OK;
    return lf_fail(p->err, LF_INVALID, "line %u: '%s' outside of a loop", node->line,
                   node->kind == LF_JINJA_N_BREAK ? "break" : "continue");
}

static const struct {
    const char *name;
    enum lf_jinja_kind kind;
    enum lf_status (*parse)(struct lf_jinja_parser *p, struct lf_jinja_node *node); /* NULL: not implemented */
} statements[] = {
    {"if", LF_JINJA_N_IF, parse_if},
    {"for", LF_JINJA_N_FOR, parse_for},
    {"set", LF_JINJA_N_SET, parse_set},
    {"macro", LF_JINJA_N_MACRO, parse_macro},
    {"call", LF_JINJA_N_CALL_BLOCK, parse_call_block},
    {"filter", LF_JINJA_N_FILTER_BLOCK, parse_filter_block},
    {"with", LF_JINJA_N_WITH, parse_with},
    {"generation", LF_JINJA_N_SCOPE, parse_generation},
    {"print", LF_JINJA_N_PRINT, parse_print},
    {"break", LF_JINJA_N_BREAK, parse_jump},
    {"continue", LF_JINJA_N_CONTINUE, parse_jump},
    {"include", LF_JINJA_N_DATA, NULL},
    {"import", LF_JINJA_N_DATA, NULL},
    {"from", LF_JINJA_N_DATA, NULL},
    {"extends", LF_JINJA_N_DATA, NULL},
    {"block", LF_JINJA_N_DATA, NULL},
    {"autoescape", LF_JINJA_N_DATA, NULL},
};

static enum lf_status parse_statement(struct lf_jinja_parser *p, struct lf_jinja_node **out)
{
    for (size_t i = 0; i < LF_N_ELEMS(statements); i++) {
        if (!lf_jinja_at_name(p, statements[i].name)) continue;
        if (!statements[i].parse) {
            return lf_fail(p->err, LF_UNSUPPORTED, "line %u: the statement '%s' is not implemented", p->cur.line,
                           statements[i].name);
        }
        LF_TRY(lf_jinja_node(p, out, statements[i].kind, p->cur.line));
        LF_TRY(lf_jinja_next(p));
        return statements[i].parse(p, *out);
    }
    return lf_jinja_parse_fail(p, "the name of a statement");
}

/* -- The whole -- */

/* A copy with every line end made "\n" and the last one dropped. */
static bool normalize(struct lf_jinja_program *program, struct lf_str source)
{
    char *dst = lf_arena_alloc(&program->arena, source.len + 1);
    if (!dst) return false;
    size_t n = 0;
    for (size_t i = 0; i < source.len; i++) {
        char c = source.ptr[i];
        if (c == '\r') {
            if (i + 1 < source.len && source.ptr[i + 1] == '\n') i++;
            c = '\n';
        }
        dst[n++] = c;
    }
    if (n && dst[n - 1] == '\n') n--;
    program->source = lf_str_from(dst, n);
    return true;
}

static enum lf_status parse_program(struct lf_jinja_parser *p)
{
    static const char *const special[] = {"loop", "caller", "kwargs", "varargs"};
    _Static_assert(LF_N_ELEMS(special) == LF_JINJA_SPECIAL_NAMES_N, "a name for each");
    for (uint32_t i = 0, idx; i < LF_JINJA_SPECIAL_NAMES_N; i++) LF_TRY(lf_jinja_intern(p, &idx, lf_str_c(special[i])));
    LF_TRY(lf_jinja_next(p));
    return parse_body(p, &p->program->body, NULL);
}

enum lf_status lf_jinja_parse(struct lf_jinja_program *out, struct lf_str source, struct lf_err *err)
{
    if (source.len > LF_TEMPLATE_SOURCE_BYTES) {
        return lf_fail(err, LF_LIMIT, "the template has %zu bytes, more than %d", source.len, LF_TEMPLATE_SOURCE_BYTES);
    }
    if (!lf_utf8_valid(source)) return lf_fail(err, LF_INVALID, "the template is not valid UTF-8");
    struct lf_jinja_program program = {0};
    lf_arena_init(&program.arena, PROGRAM_CHUNK_BYTES, PROGRAM_BYTES);
    struct lf_jinja_parser p = {.program = &program, .err = err};
    enum lf_status status;
    if (!normalize(&program, source)) {
        status = lf_jinja_parse_no_memory(&p);
        goto fail;
    }
    lf_jinja_lexer_init(&p.lex, program.source);
    LF_TRY_GOTO(parse_program(&p), fail);
    *out = program;
    return LF_OK;
fail:
    lf_jinja_program_deinit(&program);
    return status;
}

void lf_jinja_program_deinit(struct lf_jinja_program *program)
{
    lf_arena_deinit(&program->arena);
    *program = (struct lf_jinja_program){0};
}
