/* Tests: what follows `is`. */
#include "template/builtin/jinja_builtin.h"
#include "template/jinja/jinja_iter.h"
#include "template/builtin/jinja_str.h"

/* A test of the type alone. */
#define TYPE_TEST(NAME, CONDITION)                                                                                     \
    static enum lf_status test_##NAME(struct lf_jinja *j, struct lf_jinja_value *out,                                  \
                                      const struct lf_jinja_call *call)                                                \
    {                                                                                                                  \
        (void)j;                                                                                                       \
        const struct lf_jinja_value v = call->self;                                                                    \
        *out = lf_jinja_bool(CONDITION);                                                                               \
        return LF_OK;                                                                                                  \
    }

TYPE_TEST(defined, v.type != LF_JINJA_UNDEFINED)
TYPE_TEST(undefined, v.type == LF_JINJA_UNDEFINED)
TYPE_TEST(none, v.type == LF_JINJA_NONE)
TYPE_TEST(boolean, v.type == LF_JINJA_BOOL)
TYPE_TEST(false, v.type == LF_JINJA_BOOL && !v.as.i)
TYPE_TEST(true, v.type == LF_JINJA_BOOL && v.as.i)
TYPE_TEST(integer, v.type == LF_JINJA_INT || v.type == LF_JINJA_BIGINT)
TYPE_TEST(float, v.type == LF_JINJA_FLOAT)
TYPE_TEST(number, lf_jinja_is_number(v) || v.type == LF_JINJA_BIGINT)
TYPE_TEST(string, v.type == LF_JINJA_STRING)
TYPE_TEST(mapping, v.type == LF_JINJA_DICT)
TYPE_TEST(iterable, lf_jinja_is_iterable(v))
TYPE_TEST(sequence, v.type == LF_JINJA_UNDEFINED || (v.type >= LF_JINJA_STRING && v.type <= LF_JINJA_DICT) ||
                        v.type == LF_JINJA_RANGE)
TYPE_TEST(callable, v.type == LF_JINJA_UNDEFINED || v.type >= LF_JINJA_LOOP)
TYPE_TEST(escaped, v.type == LF_JINJA_STRING && v.markup)

static enum lf_status remainder_is(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value v,
                                   struct lf_jinja_value by, int64_t rest)
{
    struct lf_jinja_value r;
    bool same;
    LF_TRY(lf_jinja_binary(j, &r, LF_JINJA_MOD, v, by));
    LF_TRY(lf_jinja_equal(j, &same, r, lf_jinja_int(rest)));
    *out = lf_jinja_bool(same);
    return LF_OK;
}

static enum lf_status test_odd(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    return remainder_is(j, out, call->self, lf_jinja_int(2), 1);
}

static enum lf_status test_even(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    return remainder_is(j, out, call->self, lf_jinja_int(2), 0);
}

static enum lf_status test_divisibleby(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    return remainder_is(j, out, call->self, call->arg[0], 0);
}

static enum lf_status cased(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value v, bool upper)
{
    struct lf_jinja_text t;
    bool holds;
    LF_TRY(lf_jinja_to_text(j, &t, v));
    LF_TRY(lf_jinja_is_cased(j, &holds, t, upper));
    *out = lf_jinja_bool(holds);
    return LF_OK;
}

static enum lf_status test_lower(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    return cased(j, out, call->self, false);
}

static enum lf_status test_upper(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    return cased(j, out, call->self, true);
}

static enum lf_status test_filter(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    (void)j;
    struct lf_jinja_value v = call->self;
    bool known = v.type == LF_JINJA_STRING;
    if (known) {
        struct lf_str name = lf_jinja_text_str(v.as.s);
        known = lf_jinja_find_filter(name) != NULL || lf_jinja_is_left_out(name);
    }
    *out = lf_jinja_bool(known);
    return LF_OK;
}

static enum lf_status test_test(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    (void)j;
    struct lf_jinja_value v = call->self;
    *out = lf_jinja_bool(v.type == LF_JINJA_STRING && lf_jinja_find_test(lf_jinja_text_str(v.as.s)));
    return LF_OK;
}

/* Python's `is`, as far as it can be told without addresses: equal scalars of one type, else the same object. */
static enum lf_status test_sameas(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_value a = call->self, b = call->arg[0];
    bool same = a.type == b.type;
    if (same && (a.type < LF_JINJA_LIST || a.type == LF_JINJA_FUNCTION)) LF_TRY(lf_jinja_equal(j, &same, a, b));
    if (same && a.type >= LF_JINJA_LIST) same = a.as.dict == b.as.dict;
    *out = lf_jinja_bool(same);
    return LF_OK;
}

static enum lf_status comparison(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call,
                                 enum lf_jinja_op op)
{
    bool holds;
    LF_TRY(lf_jinja_compare(j, &holds, op, call->self, call->arg[0]));
    *out = lf_jinja_bool(holds);
    return LF_OK;
}

#define COMPARISON(NAME, OP)                                                                                           \
    static enum lf_status test_##NAME(struct lf_jinja *j, struct lf_jinja_value *out,                                  \
                                      const struct lf_jinja_call *call)                                                \
    {                                                                                                                  \
        return comparison(j, out, call, OP);                                                                           \
    }

COMPARISON(eq, LF_JINJA_EQ)
COMPARISON(ne, LF_JINJA_NE)
COMPARISON(lt, LF_JINJA_LT)
COMPARISON(le, LF_JINJA_LE)
COMPARISON(gt, LF_JINJA_GT)
COMPARISON(ge, LF_JINJA_GE)
COMPARISON(in, LF_JINJA_IN)

const struct lf_jinja_builtin *lf_jinja_tests(size_t *n)
{
    static const struct lf_jinja_builtin rows[] = {
        {"defined", test_defined, 0, false, {NULL}},   {"undefined", test_undefined, 0, false, {NULL}},
        {"none", test_none, 0, false, {NULL}},         {"boolean", test_boolean, 0, false, {NULL}},
        {"false", test_false, 0, false, {NULL}},       {"true", test_true, 0, false, {NULL}},
        {"integer", test_integer, 0, false, {NULL}},   {"float", test_float, 0, false, {NULL}},
        {"number", test_number, 0, false, {NULL}},     {"string", test_string, 0, false, {NULL}},
        {"mapping", test_mapping, 0, false, {NULL}},   {"iterable", test_iterable, 0, false, {NULL}},
        {"sequence", test_sequence, 0, false, {NULL}}, {"callable", test_callable, 0, false, {NULL}},
        {"escaped", test_escaped, 0, false, {NULL}},   {"odd", test_odd, 0, false, {NULL}},
        {"even", test_even, 0, false, {NULL}},         {"divisibleby", test_divisibleby, 1, false, {"num"}},
        {"lower", test_lower, 0, false, {NULL}},       {"upper", test_upper, 0, false, {NULL}},
        {"filter", test_filter, 0, false, {NULL}},     {"test", test_test, 0, false, {NULL}},
        {"sameas", test_sameas, 1, false, {"other"}},  {"in", test_in, 1, false, {"seq"}},
        {"==", test_eq, 1, false, {"other"}},          {"eq", test_eq, 1, false, {"other"}},
        {"equalto", test_eq, 1, false, {"other"}},     {"!=", test_ne, 1, false, {"other"}},
        {"ne", test_ne, 1, false, {"other"}},          {"<", test_lt, 1, false, {"other"}},
        {"lt", test_lt, 1, false, {"other"}},          {"lessthan", test_lt, 1, false, {"other"}},
        {"<=", test_le, 1, false, {"other"}},          {"le", test_le, 1, false, {"other"}},
        {">", test_gt, 1, false, {"other"}},           {"gt", test_gt, 1, false, {"other"}},
        {"greaterthan", test_gt, 1, false, {"other"}}, {">=", test_ge, 1, false, {"other"}},
        {"ge", test_ge, 1, false, {"other"}},
    };
    *n = LF_N_ELEMS(rows);
    return rows;
}
