/* Values of the template language: Python's, as far as templates can see them.
 *
 * A value is small and passed by value; what it points to lives in the render's arena (literals in the program's) and
 * is shared. Lists, tuples and dicts never change once a template can see them, because the sandbox that Hugging Face
 * renders in forbids it; only namespaces, loops and iterators have state. */
#ifndef LF_TEMPLATE_JINJA_JINJA_VALUE_H
#define LF_TEMPLATE_JINJA_JINJA_VALUE_H

#include "core/json.h"
#include "template/builtin/jinja_text.h"

enum lf_jinja_type {
    LF_JINJA_MISSING, /* no value: an argument that was not given */
    LF_JINJA_UNDEFINED,
    LF_JINJA_NONE,
    LF_JINJA_BOOL,
    LF_JINJA_INT,
    LF_JINJA_BIGINT, /* an integer of the request beyond 64 bits: its digits; printed, never computed with */
    LF_JINJA_FLOAT,
    LF_JINJA_STRING,
    LF_JINJA_LIST,
    LF_JINJA_TUPLE,
    LF_JINJA_DICT,
    LF_JINJA_VIEW, /* dict.keys(), .values(), .items() */
    LF_JINJA_RANGE,
    LF_JINJA_ITER, /* a generator: consumed by reading */
    LF_JINJA_NAMESPACE,
    LF_JINJA_LOOP,
    LF_JINJA_MACRO,
    LF_JINJA_FUNCTION,
    LF_JINJA_METHOD
};

struct lf_jinja_value {
    uint8_t type;
    bool user;   /* a number, boolean or null that the request holds */
    bool markup; /* a string that HTML escaping passes through */
    union {
        int64_t i; /* BOOL (0, 1), INT */
        double f;
        struct lf_jinja_text s; /* STRING, BIGINT */
        struct lf_jinja_undefined *undefined;
        struct lf_jinja_list *list; /* LIST, TUPLE */
        struct lf_jinja_dict *dict; /* DICT, NAMESPACE */
        struct lf_jinja_view *view;
        struct lf_jinja_range *range;
        struct lf_jinja_iter *iter;
        struct lf_jinja_loop *loop;
        struct lf_jinja_macro *macro;
        const struct lf_jinja_builtin *function;
        struct lf_jinja_method *method;
    } as;
};

struct lf_jinja_undefined {
    struct lf_str message; /* what an operation on it fails with */
};
struct lf_jinja_list {
    struct lf_jinja_value *items;
    size_t n, cap;
    bool group; /* a tuple of groupby: has .grouper and .list */
};

struct lf_jinja_pair {
    struct lf_jinja_value key, value;
};
/* Insertion-ordered; an index is made once there are more than a few entries. */
struct lf_jinja_dict {
    struct lf_jinja_pair *pairs;
    size_t n, cap;
    uint32_t *index; /* open addressing: 1 + place in pairs, 0 free; NULL while small */
    size_t index_cap;
};

enum lf_jinja_view_kind { LF_JINJA_KEYS, LF_JINJA_VALUES, LF_JINJA_ITEMS };
struct lf_jinja_view {
    struct lf_jinja_dict *dict;
    enum lf_jinja_view_kind kind;
};

struct lf_jinja_range {
    int64_t start, stop, step, n;
};

/* Arguments of a call as the template wrote them. */
struct lf_jinja_keyword {
    struct lf_jinja_text name;
    struct lf_jinja_value value;
};
struct lf_jinja_args {
    struct lf_jinja_value *pos;
    size_t n_pos;
    struct lf_jinja_keyword *kw;
    size_t n_kw;
};

enum { LF_JINJA_PARAMS_N = 6 };
/* A call of a builtin: what it is applied to, and the arguments put into the places of its parameters; MISSING where
 * one was not given. */
struct lf_jinja_call {
    struct lf_jinja_value self;
    struct lf_jinja_value arg[LF_JINJA_PARAMS_N];
    const struct lf_jinja_args *raw;
};
/* A filter, test, method or global function. */
struct lf_jinja_builtin {
    const char *name;
    enum lf_status (*run)(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call);
    uint8_t n_required;
    bool varargs; /* takes any arguments: reads call->raw itself */
    const char *params[LF_JINJA_PARAMS_N];
};
struct lf_jinja_method {
    struct lf_jinja_value self;
    const struct lf_jinja_builtin *fn;
};

/* Making. The ones without a status cannot fail. */
static inline struct lf_jinja_value lf_jinja_none(void)
{
    return (struct lf_jinja_value){.type = LF_JINJA_NONE};
}
static inline struct lf_jinja_value lf_jinja_bool(bool b)
{
    return (struct lf_jinja_value){.type = LF_JINJA_BOOL, .as.i = b};
}
static inline struct lf_jinja_value lf_jinja_int(int64_t i)
{
    return (struct lf_jinja_value){.type = LF_JINJA_INT, .as.i = i};
}
static inline struct lf_jinja_value lf_jinja_float(double f)
{
    return (struct lf_jinja_value){.type = LF_JINJA_FLOAT, .as.f = f};
}
static inline struct lf_jinja_value lf_jinja_string(struct lf_jinja_text s)
{
    return (struct lf_jinja_value){.type = LF_JINJA_STRING, .as.s = s};
}
static inline bool lf_jinja_given(struct lf_jinja_value v)
{
    return v.type != LF_JINJA_MISSING;
}
static inline bool lf_jinja_is_number(struct lf_jinja_value v)
{
    return v.type == LF_JINJA_BOOL || v.type == LF_JINJA_INT || v.type == LF_JINJA_FLOAT;
}
static inline bool lf_jinja_is_integral(struct lf_jinja_value v)
{
    return v.type == LF_JINJA_BOOL || v.type == LF_JINJA_INT;
}
static inline double lf_jinja_as_double(struct lf_jinja_value v) /* of a number */
{
    return v.type == LF_JINJA_FLOAT ? v.as.f : (double)v.as.i;
}
/* The template's own text, from a C string that outlives the render. */
LF_MUST_CHECK enum lf_status lf_jinja_string_c(struct lf_jinja *j, struct lf_jinja_value *out, const char *s);
LF_MUST_CHECK enum lf_status lf_jinja_undefined(struct lf_jinja *j, struct lf_jinja_value *out, const char *fmt, ...)
    LF_PRINTF(3, 4);
LF_MUST_CHECK enum lf_status lf_jinja_list_new(struct lf_jinja *j, struct lf_jinja_value *out, enum lf_jinja_type type,
                                               size_t cap);
LF_MUST_CHECK enum lf_status lf_jinja_list_push(struct lf_jinja *j, struct lf_jinja_list *list,
                                                struct lf_jinja_value v);
/* A tuple of two. */
LF_MUST_CHECK enum lf_status lf_jinja_pair_new(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value a,
                                               struct lf_jinja_value b);
LF_MUST_CHECK enum lf_status lf_jinja_dict_new(struct lf_jinja *j, struct lf_jinja_value *out);
/* Sets key (LF_INVALID for one that cannot be hashed); keeps the place of a key that is there. */
LF_MUST_CHECK enum lf_status lf_jinja_dict_set(struct lf_jinja *j, struct lf_jinja_dict *dict,
                                               struct lf_jinja_value key, struct lf_jinja_value v);
/* *out is MISSING where the key is not there. */
LF_MUST_CHECK enum lf_status lf_jinja_dict_get(struct lf_jinja *j, struct lf_jinja_value *out,
                                               struct lf_jinja_dict *dict, struct lf_jinja_value key);
struct lf_jinja_value lf_jinja_dict_get_c(const struct lf_jinja_dict *dict, const char *key); /* linear */

/* Asking. */
const char *lf_jinja_type_name(struct lf_jinja_value v); /* Python's name: "str", "list", … */
bool lf_jinja_truth(struct lf_jinja_value v);
/* Whether it is a string with exactly these bytes. */
bool lf_jinja_is_text(struct lf_jinja_value v, const char *s);
LF_MUST_CHECK enum lf_status lf_jinja_equal(struct lf_jinja *j, bool *out, struct lf_jinja_value a,
                                            struct lf_jinja_value b);
/* a < b; LF_INVALID where Python cannot order them. */
LF_MUST_CHECK enum lf_status lf_jinja_less(struct lf_jinja *j, bool *out, struct lf_jinja_value a,
                                           struct lf_jinja_value b);
/* needle in hay, with Python's rules for each kind of hay. */
LF_MUST_CHECK enum lf_status lf_jinja_contains(struct lf_jinja *j, bool *out, struct lf_jinja_value hay,
                                               struct lf_jinja_value needle);
/* len(v); *sized false where v has none. */
LF_MUST_CHECK enum lf_status lf_jinja_length(struct lf_jinja *j, size_t *out, bool *sized, struct lf_jinja_value v);
int64_t lf_jinja_range_at(const struct lf_jinja_range *r, int64_t idx);

/* Printing (jinja_print.c): str(v), repr(v), and the shortest decimal of a float as Python writes it. */
void lf_jinja_print(struct lf_jinja_writer *w, struct lf_jinja_value v);
void lf_jinja_print_repr(struct lf_jinja_writer *w, struct lf_jinja_value v);
enum { LF_JINJA_FLOAT_BYTES = 32 };
size_t lf_jinja_float_text(char out[LF_JINJA_FLOAT_BYTES], double x);
/* str(v) as a text; a string is itself. */
LF_MUST_CHECK enum lf_status lf_jinja_to_text(struct lf_jinja *j, struct lf_jinja_text *out, struct lf_jinja_value v);

#endif
