/* Filters over numbers, and reading numbers from text. */
#include "template/jinja/jinja_number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "template/builtin/jinja_builtin.h"
#include "template/builtin/jinja_char.h"
#include "template/builtin/jinja_str.h"

static struct lf_str strip_ascii(struct lf_str s)
{
    while (s.len && lf_jinja_is_space((unsigned char)s.ptr[0])) s.ptr++, s.len--;
    while (s.len && lf_jinja_is_space((unsigned char)s.ptr[s.len - 1])) s.len--;
    return s;
}

/* Past "0x" and the like; base 0 takes what the prefix says. */
static struct lf_str skip_prefix(struct lf_str s, int *base)
{
    int mark = s.len > 2 && s.ptr[0] == '0' ? s.ptr[1] | 0x20 : 0;
    int says = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (says && (*base == 0 || *base == says)) {
        *base = says;
        s.ptr += 2;
        s.len -= 2;
        if (s.len && s.ptr[0] == '_') s.ptr++, s.len--;
    } else if (*base == 0) {
        *base = 10;
    }
    return s;
}

bool lf_jinja_read_int(struct lf_str s, int base, int64_t *out, bool *overflow)
{
    s = strip_ascii(s);
    *overflow = false;
    bool negative = s.len && s.ptr[0] == '-', after_digit = false;
    if (s.len && (s.ptr[0] == '-' || s.ptr[0] == '+')) s.ptr++, s.len--;
    if (base < 0 || base == 1 || base > 36) return false;
    s = skip_prefix(s, &base);
    int64_t i = 0;
    for (size_t k = 0; k < s.len; k++) {
        if (s.ptr[k] == '_' && after_digit) {
            after_digit = false;
            continue;
        }
        int digit = lf_digit(s.ptr[k]);
        if (digit >= base) return false;
        after_digit = true;
        if (__builtin_mul_overflow(i, base, &i) || __builtin_sub_overflow(i, digit, &i)) *overflow = true;
    }
    if (!after_digit) return false;
    if (!negative && i == INT64_MIN) *overflow = true;
    *out = negative || *overflow ? i : -i;
    return true;
}

bool lf_jinja_read_float(struct lf_str s, double *out)
{
    char text[400];
    size_t n = 0;
    s = strip_ascii(s);
    if (s.len == 0 || s.len >= sizeof(text)) return false;
    for (size_t i = 0; i < s.len; i++) {
        bool between = i > 0 && i + 1 < s.len && lf_digit(s.ptr[i - 1]) < 10 && lf_digit(s.ptr[i + 1]) < 10;
        if (s.ptr[i] == '_' && between) continue;
        text[n++] = s.ptr[i];
    }
    text[n] = '\0';
    const char *word = text + (text[0] == '-' || text[0] == '+');
    bool named = !strcasecmp(word, "inf") || !strcasecmp(word, "infinity") || !strcasecmp(word, "nan");
    if (!named && strspn(text, "0123456789+-.eE") != n) return false;
    char *end;
    *out = strtod(text, &end);
    return *end == '\0' && end != text;
}

static enum lf_status int_of_float(struct lf_jinja *j, struct lf_jinja_value *out, double x)
{
    if (!(x >= -9.2e18 && x <= 9.2e18)) return lf_jinja_fail_overflow(j);
    *out = lf_jinja_int((int64_t)x);
    return LF_OK;
}

static enum lf_status int_of_text(struct lf_jinja *j, struct lf_jinja_value *out, struct lf_str s, int64_t base,
                                  struct lf_jinja_value otherwise)
{
    int64_t i;
    double f;
    bool overflow;
    if (lf_jinja_read_int(s, base >= 0 && base <= 36 ? (int)base : -1, &i, &overflow)) {
        if (overflow) return lf_jinja_fail_overflow(j);
        *out = lf_jinja_int(i);
        return LF_OK;
    }
    if (lf_jinja_read_float(s, &f) && isfinite(f)) return int_of_float(j, out, f);
    *out = otherwise;
    return LF_OK;
}

static enum lf_status filter_int(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_value v = call->self, otherwise = lf_jinja_given(call->arg[0]) ? call->arg[0] : lf_jinja_int(0);
    int64_t base;
    LF_TRY(lf_jinja_int_arg(j, &base, call->arg[1], 10));
    *out = otherwise;
    switch (v.type) {
    case LF_JINJA_BOOL:
    case LF_JINJA_INT:
        *out = lf_jinja_int(v.as.i);
        break;
    case LF_JINJA_BIGINT:
        *out = v;
        return LF_OK;
    case LF_JINJA_FLOAT:
        if (isnan(v.as.f)) return LF_OK;
        if (isinf(v.as.f)) return lf_jinja_fail(j, LF_INVALID, "int: infinity is no integer");
        LF_TRY(int_of_float(j, out, v.as.f));
        break;
    case LF_JINJA_STRING:
        LF_TRY(int_of_text(j, out, lf_jinja_text_str(v.as.s), base, otherwise));
        v.user = v.as.s.len > 0 && lf_jinja_text_user_at(v.as.s, 0);
        break;
    case LF_JINJA_UNDEFINED:
        return lf_jinja_fail(j, LF_INVALID, "%.*s", (int)v.as.undefined->message.len, v.as.undefined->message.ptr);
    default:
        return LF_OK;
    }
    out->user = out->user || v.user;
    return LF_OK;
}

static enum lf_status filter_float(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_value v = call->self;
    double f;
    *out = lf_jinja_given(call->arg[0]) ? call->arg[0] : lf_jinja_float(0);
    if (v.type == LF_JINJA_UNDEFINED) {
        return lf_jinja_fail(j, LF_INVALID, "%.*s", (int)v.as.undefined->message.len, v.as.undefined->message.ptr);
    }
    if (lf_jinja_is_number(v)) {
        *out = lf_jinja_float(lf_jinja_as_double(v));
        out->user = v.user;
    } else if ((v.type == LF_JINJA_STRING || v.type == LF_JINJA_BIGINT) &&
               lf_jinja_read_float(lf_jinja_text_str(v.as.s), &f)) {
        *out = lf_jinja_float(f);
        out->user = v.as.s.len > 0 && lf_jinja_text_user_at(v.as.s, 0);
    }
    return LF_OK;
}

static enum lf_status filter_abs(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_value v = call->self;
    if (!lf_jinja_is_number(v)) {
        return lf_jinja_fail(j, LF_INVALID, "abs: expected a number, not '%s'", lf_jinja_type_name(v));
    }
    if (v.type == LF_JINJA_FLOAT) {
        *out = lf_jinja_float(fabs(v.as.f));
        out->user = v.user;
        return LF_OK;
    }
    return lf_jinja_negate(j, out, v, v.as.i < 0);
}

/* -- Rounding -- */

/* To the nearest multiple of 10^places, ties to even. */
static enum lf_status round_int(struct lf_jinja *j, struct lf_jinja_value *out, int64_t i, int64_t places)
{
    int64_t unit = 1, away;
    *out = lf_jinja_int(places > 18 ? 0 : i);
    if (places > 18 || places <= 0) return LF_OK;
    while (places-- > 0) unit *= 10;
    int64_t rest = i % unit, down = i - rest, half = unit / 2;
    int64_t size = rest < 0 ? -rest : rest;
    bool up = size > half || (size == half && (down / unit) % 2 != 0);
    if (up && __builtin_add_overflow(down, rest < 0 ? -unit : unit, &away)) return lf_jinja_fail_overflow(j);
    *out = lf_jinja_int(up ? away : down);
    return LF_OK;
}

/* To the nearest multiple of 10^places (at least 10), ties to even, correctly rounded. */
static double round_tens(double x, int64_t places)
{
    char text[48];
    snprintf(text, sizeof(text), "%.17e", x);
    const char *e = strchr(text, 'e');
    int64_t n_kept = (e ? strtol(e + 1, NULL, 10) : 0) - places; /* digits behind the first one */
    if (n_kept >= 17) return x;
    if (n_kept >= 0) {
        snprintf(text, sizeof(text), "%.*e", (int)n_kept, x);
        return strtod(text, NULL);
    }
    double unit = pow(10, (double)places);
    return copysign(n_kept == -1 && fabs(x) > unit / 2 ? unit : 0.0, x);
}

static double round_float(double x, int64_t places)
{
    char text[720];
    if (!isfinite(x) || places > 323) return x;
    if (places < -308) return copysign(0.0, x);
    if (places < 0) return round_tens(x, -places);
    /* The decimal of so many places, correctly rounded, and back: Python's way. */
    snprintf(text, sizeof(text), "%.*f", (int)places, x);
    return strtod(text, NULL);
}

static enum lf_status filter_round(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_value v = call->self;
    int64_t places;
    bool common = !lf_jinja_given(call->arg[1]) || lf_jinja_is_text(call->arg[1], "common");
    bool up = lf_jinja_is_text(call->arg[1], "ceil");
    if (!common && !up && !lf_jinja_is_text(call->arg[1], "floor")) {
        return lf_jinja_fail(j, LF_INVALID, "round: the method must be common, ceil or floor");
    }
    if (!lf_jinja_is_number(v)) {
        return lf_jinja_fail(j, LF_INVALID, "round: expected a number, not '%s'", lf_jinja_type_name(v));
    }
    LF_TRY(lf_jinja_int_arg(j, &places, call->arg[0], 0));
    if (common && v.type != LF_JINJA_FLOAT) {
        LF_TRY(round_int(j, out, v.as.i, -LF_MAX(places, -INT32_MAX)));
    } else if (common) {
        *out = lf_jinja_float(round_float(v.as.f, places));
    } else {
        double unit = pow(10, (double)places), scaled = lf_jinja_as_double(v) * unit;
        if (!isfinite(scaled)) return lf_jinja_fail(j, LF_INVALID, "round: the number is too large");
        *out = lf_jinja_float((up ? ceil(scaled) : floor(scaled)) / unit);
    }
    out->user = v.user;
    return LF_OK;
}

const struct lf_jinja_builtin *lf_jinja_number_filters(size_t *n)
{
    static const struct lf_jinja_builtin rows[] = {
        {"int", filter_int, 0, false, {"default", "base"}},
        {"float", filter_float, 0, false, {"default"}},
        {"abs", filter_abs, 0, false, {NULL}},
        {"round", filter_round, 0, false, {"precision", "method"}},
    };
    *n = LF_N_ELEMS(rows);
    return rows;
}
