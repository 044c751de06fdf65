/* Arithmetic and comparison with Python's rules: booleans are integers, // and % round down, / gives a float. */
#include <math.h>

#include "template/jinja/jinja_iter.h"
#include "template/jinja/jinja_run.h"

static enum lf_status fail_types(struct lf_jinja *j, const char *op, struct lf_jinja_value a, struct lf_jinja_value b)
{
    if (a.type == LF_JINJA_UNDEFINED || b.type == LF_JINJA_UNDEFINED) {
        struct lf_str m = (a.type == LF_JINJA_UNDEFINED ? a : b).as.undefined->message;
        return lf_jinja_fail(j, LF_INVALID, "%.*s", (int)m.len, m.ptr);
    }
    if (a.type == LF_JINJA_BIGINT || b.type == LF_JINJA_BIGINT) {
        return lf_jinja_fail(j, LF_UNSUPPORTED, "computing with integers beyond 64 bits is not implemented");
    }
    return lf_jinja_fail(j, LF_INVALID, "'%s' is not defined between '%s' and '%s'", op, lf_jinja_type_name(a),
                         lf_jinja_type_name(b));
}

/* -- Numbers -- */

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static enum lf_status int_power(struct lf_jinja *j, struct lf_jinja_value *out, int64_t base, int64_t exponent)
{
    if (exponent < 0) {
        if (base == 0) return lf_jinja_fail(j, LF_INVALID, "0 has no negative power");
        *out = lf_jinja_float(pow((double)base, (double)exponent));
        return LF_OK;
    }
    int64_t result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) return lf_jinja_fail_overflow(j);
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return lf_jinja_fail_overflow(j);
    }
    *out = lf_jinja_int(result);
    return LF_OK;
}

static enum lf_status int_binary(struct lf_jinja *j, struct lf_jinja_value *out, enum lf_jinja_op op, int64_t a,
                                 int64_t b)
{
    int64_t r = 0;
    bool overflow = false;
    if ((op == LF_JINJA_DIV || op == LF_JINJA_FLOORDIV || op == LF_JINJA_MOD) && b == 0) {
        return lf_jinja_fail(j, LF_INVALID, "division by zero");
    }
    switch (op) {
    case LF_JINJA_ADD:
        overflow = __builtin_add_overflow(a, b, &r);
        break;
    case LF_JINJA_SUB:
        overflow = __builtin_sub_overflow(a, b, &r);
        break;
    case LF_JINJA_MUL:
        overflow = __builtin_mul_overflow(a, b, &r);
        break;
    case LF_JINJA_DIV:
        *out = lf_jinja_float((double)a / (double)b);
        return LF_OK;
    case LF_JINJA_FLOORDIV:
        overflow = a == INT64_MIN && b == -1;
        if (!overflow) r = floor_div(a, b);
        break;
    case LF_JINJA_MOD:
        r = b == -1 ? 0 : a % b;
        if (r != 0 && (r < 0) != (b < 0)) r += b;
        break;
    default:
        return int_power(j, out, a, b);
    }
    if (overflow) return lf_jinja_fail_overflow(j);
    *out = lf_jinja_int(r);
    return LF_OK;
}

static bool is_zero(double x)
{
    return fpclassify(x) == FP_ZERO;
}

static enum lf_status float_binary(struct lf_jinja *j, struct lf_jinja_value *out, enum lf_jinja_op op, double a,
                                   double b)
{
    double r = 0;
    bool divides = op == LF_JINJA_DIV || op == LF_JINJA_FLOORDIV || op == LF_JINJA_MOD;
    if (divides && is_zero(b)) return lf_jinja_fail(j, LF_INVALID, "division by zero");
    switch (op) {
    case LF_JINJA_ADD:
        r = a + b;
        break;
    case LF_JINJA_SUB:
        r = a - b;
        break;
    case LF_JINJA_MUL:
        r = a * b;
        break;
    case LF_JINJA_DIV:
        r = a / b;
        break;
    case LF_JINJA_FLOORDIV:
    case LF_JINJA_MOD: {
        double mod = fmod(a, b), div = (a - mod) / b;
        if (!is_zero(mod) && (mod < 0) != (b < 0)) {
            mod += b;
            div -= 1;
        }
        if (is_zero(mod)) mod = copysign(0.0, b);
        double whole = floor(div);
        if (div - whole > 0.5) whole += 1;
        r = op == LF_JINJA_MOD ? mod : is_zero(div) ? copysign(0.0, a / b) : whole;
        break;
    }
    default:
        if (is_zero(a) && b < 0) return lf_jinja_fail(j, LF_INVALID, "0.0 has no negative power");
        if (a < 0 && isfinite(a) && isfinite(b) && b < floor(b) + 1 && b > floor(b)) {
            return lf_jinja_fail(j, LF_UNSUPPORTED, "complex numbers are not implemented");
        }
        r = pow(a, b);
        if (isinf(r) && isfinite(a) && isfinite(b)) return lf_jinja_fail(j, LF_INVALID, "the result is too large");
        break;
    }
    *out = lf_jinja_float(r);
    return LF_OK;
}

static enum lf_status number_binary(struct lf_jinja *j, struct lf_jinja_value *out, enum lf_jinja_op op,
                                    struct lf_jinja_value a, struct lf_jinja_value b)
{
    if (lf_jinja_is_integral(a) && lf_jinja_is_integral(b)) {
        LF_TRY(int_binary(j, out, op, a.as.i, b.as.i));
    } else {
        LF_TRY(float_binary(j, out, op, lf_jinja_as_double(a), lf_jinja_as_double(b)));
    }
    out->user = a.user || b.user;
    return LF_OK;
}

enum lf_status lf_jinja_negate(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value a, bool minus)
{
    struct lf_jinja_value zero = lf_jinja_int(0);
    if (a.type == LF_JINJA_FLOAT) {
        *out = lf_jinja_float(minus ? -a.as.f : a.as.f);
        out->user = a.user;
        return LF_OK;
    }
    if (!lf_jinja_is_number(a)) {
        if (a.type == LF_JINJA_UNDEFINED || a.type == LF_JINJA_BIGINT) return fail_types(j, "-", a, a);
        return lf_jinja_fail(j, LF_INVALID, "a '%s' has no sign", lf_jinja_type_name(a));
    }
    return number_binary(j, out, minus ? LF_JINJA_SUB : LF_JINJA_ADD, zero, a);
}

/* -- Texts and lists -- */

static enum lf_status repeat_text(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value s, int64_t n)
{
    struct lf_jinja_writer w = lf_jinja_writer_of(j);
    lf_jinja_write_fill(&w, s.as.s, (size_t)LF_MAX(n, 0));
    LF_TRY(lf_jinja_writer_text(&w, &s.as.s));
    *out = s;
    return LF_OK;
}

static enum lf_status repeat_list(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value v, int64_t n)
{
    struct lf_jinja_value list;
    LF_TRY(lf_jinja_list_new(j, &list, v.type, 0));
    for (int64_t i = 0; i < n && v.as.list->n; i++) {
        for (size_t k = 0; k < v.as.list->n; k++) LF_TRY(lf_jinja_list_push(j, list.as.list, v.as.list->items[k]));
    }
    *out = list;
    return LF_OK;
}

static enum lf_status join_lists(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value a,
                                 struct lf_jinja_value b)
{
    struct lf_jinja_value list;
    LF_TRY(lf_jinja_list_new(j, &list, a.type, a.as.list->n + b.as.list->n));
    for (size_t i = 0; i < a.as.list->n; i++) LF_TRY(lf_jinja_list_push(j, list.as.list, a.as.list->items[i]));
    for (size_t i = 0; i < b.as.list->n; i++) LF_TRY(lf_jinja_list_push(j, list.as.list, b.as.list->items[i]));
    *out = list;
    return LF_OK;
}

static enum lf_status join_texts(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value a,
                                 struct lf_jinja_value b)
{
    bool markup = a.markup || b.markup;
    if (markup) {
        LF_TRY(lf_jinja_escape(j, &a, a));
        LF_TRY(lf_jinja_escape(j, &b, b));
    }
    struct lf_jinja_text text;
    LF_TRY(lf_jinja_text_cat(j, &text, a.as.s, b.as.s));
    *out = lf_jinja_string(text);
    out->markup = markup;
    return LF_OK;
}

static enum lf_status multiply(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_jinja_value a,
                               struct lf_jinja_value b)
{
    if (lf_jinja_is_integral(a)) {
        struct lf_jinja_value swap = a;
        a = b;
        b = swap;
    }
    if (lf_jinja_is_integral(b)) {
        if (a.type == LF_JINJA_STRING) return repeat_text(j, out, a, b.as.i);
        if (a.type == LF_JINJA_LIST || a.type == LF_JINJA_TUPLE) return repeat_list(j, out, a, b.as.i);
    }
    return fail_types(j, "*", a, b);
}

enum lf_status lf_jinja_binary(struct lf_jinja *j, struct lf_jinja_value *out, enum lf_jinja_op op,
                               struct lf_jinja_value a, struct lf_jinja_value b)
{
    static const char *const names[] = {"+", "-", "*", "/", "//", "%", "**"};
    if (lf_jinja_is_number(a) && lf_jinja_is_number(b)) return number_binary(j, out, op, a, b);
    if (op == LF_JINJA_MOD && a.type == LF_JINJA_STRING) return lf_jinja_percent(j, out, a, b);
    if (op == LF_JINJA_MUL) return multiply(j, out, a, b);
    if (op == LF_JINJA_ADD && a.type == b.type) {
        if (a.type == LF_JINJA_STRING) return join_texts(j, out, a, b);
        if (a.type == LF_JINJA_LIST || a.type == LF_JINJA_TUPLE) return join_lists(j, out, a, b);
    }
    return fail_types(j, names[op], a, b);
}

/* -- Comparison -- */

enum lf_status lf_jinja_compare(struct lf_jinja *j, bool *out, enum lf_jinja_op op, struct lf_jinja_value a,
                                struct lf_jinja_value b)
{
    bool less, same;
    switch (op) {
    case LF_JINJA_EQ:
        return lf_jinja_equal(j, out, a, b);
    case LF_JINJA_NE:
        LF_TRY(lf_jinja_equal(j, &same, a, b));
        *out = !same;
        return LF_OK;
    case LF_JINJA_IN:
        return lf_jinja_contains(j, out, b, a);
    case LF_JINJA_NOT_IN:
        LF_TRY(lf_jinja_contains(j, &same, b, a));
        *out = !same;
        return LF_OK;
    case LF_JINJA_LT:
        return lf_jinja_less(j, out, a, b);
    case LF_JINJA_GT:
        return lf_jinja_less(j, out, b, a);
    default:
        break;
    }
    /* a <= b is a < b or a == b; not the opposite of b < a, because of NaN. */
    LF_TRY(op == LF_JINJA_LE ? lf_jinja_less(j, &less, a, b) : lf_jinja_less(j, &less, b, a));
    LF_TRY(lf_jinja_equal(j, &same, a, b));
    *out = less || same;
    return LF_OK;
}
