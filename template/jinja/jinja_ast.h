/* The parsed template: a tree of nodes in an arena, read-only once parsed.
 *
 * One node type for all kinds; what its links hold is said beside the kind. Lists hang together by `next`. */
#ifndef LF_TEMPLATE_JINJA_JINJA_AST_H
#define LF_TEMPLATE_JINJA_JINJA_AST_H

#include "template/jinja/jinja_value.h"

enum lf_jinja_kind {
    /* expressions */
    LF_JINJA_N_CONST,   /* value */
    LF_JINJA_N_NAME,    /* name */
    LF_JINJA_N_TUPLE,   /* a: list */
    LF_JINJA_N_LIST,    /* a: list */
    LF_JINJA_N_DICT,    /* a: list of N_PAIR */
    LF_JINJA_N_PAIR,    /* a: key, b: value */
    LF_JINJA_N_CONCAT,  /* a: list */
    LF_JINJA_N_NOT,     /* a */
    LF_JINJA_N_NEG,     /* a */
    LF_JINJA_N_POS,     /* a */
    LF_JINJA_N_AND,     /* a, b */
    LF_JINJA_N_OR,      /* a, b */
    LF_JINJA_N_BINARY,  /* op, a, b */
    LF_JINJA_N_COMPARE, /* a, b: list of N_OPERAND */
    LF_JINJA_N_OPERAND, /* op, a */
    LF_JINJA_N_COND,    /* a: test, b: value, c: otherwise or NULL */
    LF_JINJA_N_ATTR,    /* a, value: the attribute's name */
    LF_JINJA_N_ITEM,    /* a, b: subscript */
    LF_JINJA_N_SLICE,   /* a: start, b: stop, c: step, NULL where left out; only as the b of N_ITEM */
    LF_JINJA_N_CALL,    /* a, b: list of arguments */
    LF_JINJA_N_FILTER,  /* a (NULL: what a block captured), b: arguments, builtin or NULL: value names it */
    LF_JINJA_N_TEST,    /* a, b: arguments, builtin or NULL */
    LF_JINJA_N_NSREF,   /* name, value: attribute; a target only */
    /* arguments: of a call */
    LF_JINJA_N_ARG,           /* a */
    LF_JINJA_N_KEYWORD,       /* value: the name, a */
    LF_JINJA_N_ARGS_UNPACK,   /* a: *a */
    LF_JINJA_N_KWARGS_UNPACK, /* a: **a */
    /* statements */
    LF_JINJA_N_DATA,         /* value */
    LF_JINJA_N_PRINT,        /* a: list */
    LF_JINJA_N_IF,           /* a: list of N_BRANCH */
    LF_JINJA_N_BRANCH,       /* a: test or NULL (else), b: body */
    LF_JINJA_N_FOR,          /* a: target, b: iterable, c: test or NULL, d: body, e: else body */
    LF_JINJA_N_SET,          /* a: target, b */
    LF_JINJA_N_SET_BLOCK,    /* a: target, b: filters or NULL, c: body */
    LF_JINJA_N_MACRO,        /* name, a: list of N_PARAM, b: body, uses */
    LF_JINJA_N_PARAM,        /* name, a: default or NULL, value: the name */
    LF_JINJA_N_CALL_BLOCK,   /* a: N_CALL, b: N_MACRO without a name */
    LF_JINJA_N_FILTER_BLOCK, /* a: filters, b: body */
    LF_JINJA_N_WITH,         /* a: list of N_SET, b: body */
    LF_JINJA_N_SCOPE,        /* b: body ({% generation %}) */
    LF_JINJA_N_BREAK,
    LF_JINJA_N_CONTINUE
};

enum lf_jinja_op {
    LF_JINJA_ADD,
    LF_JINJA_SUB,
    LF_JINJA_MUL,
    LF_JINJA_DIV,
    LF_JINJA_FLOORDIV,
    LF_JINJA_MOD,
    LF_JINJA_POW,
    LF_JINJA_EQ,
    LF_JINJA_NE,
    LF_JINJA_LT,
    LF_JINJA_LE,
    LF_JINJA_GT,
    LF_JINJA_GE,
    LF_JINJA_IN,
    LF_JINJA_NOT_IN
};

/* Special names that a macro's body mentions: only then does it take them. */
enum { LF_JINJA_USES_CALLER = 1, LF_JINJA_USES_KWARGS = 2, LF_JINJA_USES_VARARGS = 4 };

struct lf_jinja_node {
    uint8_t kind;
    uint8_t op;
    uint8_t uses;   /* N_MACRO */
    uint16_t depth; /* of the expression below */
    uint32_t line;
    uint32_t name; /* index into the program's names */
    struct lf_jinja_node *a, *b, *c, *d, *e;
    struct lf_jinja_node *next;
    const struct lf_jinja_builtin *builtin;
    struct lf_jinja_value value;
};

/* Names with a meaning of their own are the first of every program's names. */
enum lf_jinja_special_name {
    LF_JINJA_NAME_LOOP,
    LF_JINJA_NAME_CALLER,
    LF_JINJA_NAME_KWARGS,
    LF_JINJA_NAME_VARARGS,
    LF_JINJA_SPECIAL_NAMES_N
};

struct lf_jinja_program {
    struct lf_arena arena; /* owns all below */
    struct lf_str source;  /* newlines made "\n" */
    struct lf_jinja_node *body;
    struct lf_str *names;
    uint32_t n_names;
    uint32_t *name_index; /* by hash: 1 + place in names, 0 free */
    uint32_t name_index_cap;
};

/* Parses a template as Jinja does with trim_blocks, lstrip_blocks, loop controls and {% generation %}. LF_INVALID with
 * line and reason; LF_UNSUPPORTED names what is not implemented; LF_LIMIT. */
LF_MUST_CHECK enum lf_status lf_jinja_parse(struct lf_jinja_program *out, struct lf_str source, struct lf_err *err);
/* The place of a name that the template uses; false where it does not. */
bool lf_jinja_find_name(const struct lf_jinja_program *program, struct lf_str name, uint32_t *out);
void lf_jinja_program_deinit(struct lf_jinja_program *program); /* accepts a zeroed one */

#endif
