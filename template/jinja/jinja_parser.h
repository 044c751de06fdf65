/* The parser's state, shared by its two halves: jinja_parse.c (statements) and jinja_parse_expr.c (expressions). */
#ifndef LF_TEMPLATE_JINJA_JINJA_PARSER_H
#define LF_TEMPLATE_JINJA_JINJA_PARSER_H

#include "template/jinja/jinja_ast.h"
#include "template/jinja/jinja_lex.h"

struct lf_jinja_parser {
    struct lf_jinja_lexer lex;
    struct lf_jinja_token cur, ahead;
    bool has_ahead;
    struct lf_jinja_program *program;
    struct lf_err *err;
    uint32_t depth; /* of the parser's recursion; at most LF_TEMPLATE_DEPTH */
    /* Where we are. */
    uint32_t n_loops; /* loops that `break` can end */
    uint8_t uses;     /* LF_JINJA_USES_* of the macro being parsed */
    bool soft;        /* an unknown filter or test fails only when it runs, as Jinja does inside of `if` */
    const struct lf_jinja_node *unknown; /* the first one elsewhere, until its expression turns out to be a choice */
};

/* Arguments of one call, parameters of one macro. */
enum { LF_JINJA_ARGS_N = 256 };

/* How a list of expressions may look. */
enum lf_jinja_tuple_flags {
    LF_JINJA_TUPLE_TARGET = 1,    /* only names and tuples of them */
    LF_JINJA_TUPLE_NAMESPACE = 2, /* … and attributes of namespaces */
    LF_JINJA_TUPLE_NO_COND = 4,   /* `if` ends it */
    LF_JINJA_TUPLE_PARENS = 8,    /* may be empty */
    LF_JINJA_TUPLE_UNTIL_IN = 16  /* `in` ends it */
};

LF_MUST_CHECK enum lf_status lf_jinja_parse_fail(struct lf_jinja_parser *p, const char *expected);
enum lf_status lf_jinja_parse_no_memory(struct lf_jinja_parser *p);
LF_MUST_CHECK enum lf_status lf_jinja_next(struct lf_jinja_parser *p);
LF_MUST_CHECK enum lf_status lf_jinja_peek(struct lf_jinja_parser *p, struct lf_jinja_token *out);
LF_MUST_CHECK enum lf_status lf_jinja_expect(struct lf_jinja_parser *p, enum lf_jinja_token_kind kind,
                                             const char *expected);
bool lf_jinja_at_name(const struct lf_jinja_parser *p, const char *name);
/* Moves past the name if it stands here. */
LF_MUST_CHECK enum lf_status lf_jinja_skip_name(struct lf_jinja_parser *p, const char *name, bool *skipped);
LF_MUST_CHECK enum lf_status lf_jinja_intern(struct lf_jinja_parser *p, uint32_t *out, struct lf_str name);
/* A node; LF_LIMIT when the template is too large. */
LF_MUST_CHECK enum lf_status lf_jinja_node(struct lf_jinja_parser *p, struct lf_jinja_node **out,
                                           enum lf_jinja_kind kind, uint32_t line);
LF_MUST_CHECK enum lf_status lf_jinja_text_value(struct lf_jinja_parser *p, struct lf_jinja_value *out,
                                                 struct lf_str s);
LF_MUST_CHECK enum lf_status lf_jinja_enter_parse(struct lf_jinja_parser *p);

LF_MUST_CHECK enum lf_status lf_jinja_parse_tuple(struct lf_jinja_parser *p, struct lf_jinja_node **out,
                                                  unsigned flags);
LF_MUST_CHECK enum lf_status lf_jinja_parse_expr(struct lf_jinja_parser *p, struct lf_jinja_node **out, bool with_cond);
/* A chain of filters over `node` (NULL: over what a block captured), beginning at a name (inline) or at "|". */
LF_MUST_CHECK enum lf_status lf_jinja_parse_filters(struct lf_jinja_parser *p, struct lf_jinja_node **out,
                                                    struct lf_jinja_node *node, bool is_inline);
/* A target of an assignment: names, tuples of them, with the flag attributes of namespaces. */
LF_MUST_CHECK enum lf_status lf_jinja_parse_target(struct lf_jinja_parser *p, struct lf_jinja_node **out,
                                                   unsigned flags);

#endif
