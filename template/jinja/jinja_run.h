/* A render in progress: what every part of the interpreter is handed.
 *
 * Bounds. One budget counts steps (every node that is evaluated) and, at a 1024th of a step each, the bytes and
 * elements that are looked at, so that work inside of a filter costs as much as work in the template; what is paid is
 * also how often whoever waits for the render is asked (core/work.h). Memory is one arena with a ceiling. The recursion
 * of the interpreter follows the nesting of the template, of macros that call each other and of values; `depth` counts
 * all three. A render belongs to one thread. */
#ifndef LF_TEMPLATE_JINJA_JINJA_RUN_H
#define LF_TEMPLATE_JINJA_JINJA_RUN_H

#include "core/check.h"
#include "core/work.h"
#include "template/jinja/jinja_ast.h"

enum {
    LF_JINJA_STEP_COST = 1024,
    LF_JINJA_CHECK_COST = 64 * 1024,
    LF_JINJA_CHAR_COST = 16, /* a byte that is decoded and classified, against 1 for one that is copied */
    LF_JINJA_MEMORY_BYTES = 16 * LF_TEMPLATE_OUTPUT_BYTES,
    LF_JINJA_RUN_DEPTH = 8 * LF_TEMPLATE_DEPTH
};

struct lf_jinja_binding {
    uint32_t name;
    struct lf_jinja_value value;
    struct lf_jinja_binding *next;
};
/* Names of a loop, a macro, a `with`; the outermost names are lf_jinja.root. */
struct lf_jinja_scope {
    struct lf_jinja_scope *parent; /* NULL: the outermost */
    struct lf_jinja_binding *first;
};

struct lf_jinja_macro {
    const struct lf_jinja_node *node; /* N_MACRO */
    struct lf_jinja_scope *scope;     /* where it was defined */
    struct lf_jinja_text name;        /* empty: a call block */
};

struct lf_jinja_loop {
    struct lf_jinja_iter *iter;
    int64_t index0;
    struct lf_jinja_value prev, current, next; /* next: looked ahead, or MISSING */
    bool has_next;                             /* next was looked for */
    struct lf_jinja_value seen;                /* the last value of loop.changed, a tuple */
    int64_t n;                                 /* elements in all; -1: not known yet */
};

enum lf_jinja_flow { LF_JINJA_FLOW_ON, LF_JINJA_FLOW_BREAK, LF_JINJA_FLOW_CONTINUE };

struct lf_jinja {
    const struct lf_jinja_program *program;
    struct lf_arena arena;
    struct lf_err *err;
    uint64_t budget; /* left, in 1024ths of a step */
    uint32_t depth;
    uint32_t line;               /* of the node being evaluated, for messages */
    struct lf_jinja_value *root; /* by name; MISSING where undefined */
    struct lf_jinja_scope *scope;
    struct lf_jinja_writer *out;
    struct lf_jinja_value captured; /* what the filters of a block work on */
    enum lf_jinja_flow flow;
    int64_t now_unix_s;
    struct lf_work *work; /* may be NULL */
    uint64_t unreported;  /* of the budget, spent that the work was not told of yet */
};

LF_MUST_CHECK enum lf_status lf_jinja_fail(struct lf_jinja *j, enum lf_status status, const char *fmt, ...)
    LF_PRINTF(3, 4);
enum lf_status lf_jinja_fail_budget(struct lf_jinja *j);
/* An integer is beyond 64 bits. */
LF_MUST_CHECK enum lf_status lf_jinja_fail_overflow(struct lf_jinja *j);
/* The arena gave nothing for n_bytes: its ceiling (LF_LIMIT), or the machine's memory. */
enum lf_status lf_jinja_fail_memory(struct lf_jinja *j, size_t n_bytes);
/* Tells the work what was done. LF_CANCELLED, LF_TIMEOUT. */
LF_MUST_CHECK enum lf_status lf_jinja_report_steps(struct lf_jinja *j);
/* Pays for n bytes or elements. */
LF_MUST_CHECK static inline enum lf_status lf_jinja_charge(struct lf_jinja *j, uint64_t n)
{
    if (n > j->budget) return lf_jinja_fail_budget(j);
    j->budget -= n;
    j->unreported += n;
    return j->unreported < LF_JINJA_CHECK_COST ? LF_OK : lf_jinja_report_steps(j);
}
/* One level deeper; lf_jinja_leave takes it back. A failed render need not. */
LF_MUST_CHECK enum lf_status lf_jinja_enter(struct lf_jinja *j);
static inline void lf_jinja_leave(struct lf_jinja *j)
{
    j->depth--;
}
/* n × size zeroed bytes; *out is a pointer of any type. */
LF_MUST_CHECK enum lf_status lf_jinja_alloc(struct lf_jinja *j, void *out, size_t n, size_t size);

/* Runs the program into j->out, which must be set, as must root. */
LF_MUST_CHECK enum lf_status lf_jinja_run(struct lf_jinja *j);
/* Statements from node on, in the scope that j->scope is. */
LF_MUST_CHECK enum lf_status lf_jinja_exec(struct lf_jinja *j, const struct lf_jinja_node *node);
LF_MUST_CHECK enum lf_status lf_jinja_eval(struct lf_jinja *j, struct lf_jinja_value *out,
                                           const struct lf_jinja_node *node);
/* Runs a body into a text of its own, in a scope below j->scope. */
LF_MUST_CHECK enum lf_status lf_jinja_capture(struct lf_jinja *j, struct lf_jinja_text *out,
                                              const struct lf_jinja_node *body);
LF_MUST_CHECK enum lf_status lf_jinja_push_scope(struct lf_jinja *j, struct lf_jinja_scope *parent);
LF_MUST_CHECK enum lf_status lf_jinja_bind(struct lf_jinja *j, uint32_t name, struct lf_jinja_value v);
/* Assigns to a target: a name, a tuple, an attribute of a namespace. */
LF_MUST_CHECK enum lf_status lf_jinja_assign(struct lf_jinja *j, const struct lf_jinja_node *target,
                                             struct lf_jinja_value v);

/* Operators (jinja_ops.c). */
LF_MUST_CHECK enum lf_status lf_jinja_binary(struct lf_jinja *j, struct lf_jinja_value *out, enum lf_jinja_op op,
                                             struct lf_jinja_value a, struct lf_jinja_value b);
LF_MUST_CHECK enum lf_status lf_jinja_compare(struct lf_jinja *j, bool *out, enum lf_jinja_op op,
                                              struct lf_jinja_value a, struct lf_jinja_value b);
LF_MUST_CHECK enum lf_status lf_jinja_negate(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value a,
                                             bool minus);
/* HTML escaping, as joining with marked-up text asks for (jinja_filter_text.c). */
LF_MUST_CHECK enum lf_status lf_jinja_escape(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value v);
/* "format % v" (jinja_format.c). */
LF_MUST_CHECK enum lf_status lf_jinja_percent(struct lf_jinja *j, struct lf_jinja_value *out,
                                              struct lf_jinja_value format, struct lf_jinja_value v);

/* Attributes and items (jinja_attr.c): obj.name, obj[key], obj[start:stop:step] (MISSING where left out). */
LF_MUST_CHECK enum lf_status lf_jinja_getattr(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value obj,
                                              struct lf_jinja_text name);
LF_MUST_CHECK enum lf_status lf_jinja_getitem(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value obj,
                                              struct lf_jinja_value key);
LF_MUST_CHECK enum lf_status lf_jinja_slice(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value obj,
                                            const struct lf_jinja_value bounds[3]);

/* Calls (jinja_call.c). */
LF_MUST_CHECK enum lf_status lf_jinja_call_value(struct lf_jinja *j, struct lf_jinja_value *out,
                                                 struct lf_jinja_value fn, const struct lf_jinja_args *args);
LF_MUST_CHECK enum lf_status lf_jinja_call_builtin(struct lf_jinja *j, struct lf_jinja_value *out,
                                                   const struct lf_jinja_builtin *fn, struct lf_jinja_value self,
                                                   const struct lf_jinja_args *args);
/* dict(…) and namespace(…). */
LF_MUST_CHECK enum lf_status lf_jinja_dict_of(struct lf_jinja *j, struct lf_jinja_dict *dict,
                                              const struct lf_jinja_args *args);

/* Values of a JSON document; `user` marks their text (jinja_json.c). */
LF_MUST_CHECK enum lf_status lf_jinja_from_json(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_json_value v);

#endif
