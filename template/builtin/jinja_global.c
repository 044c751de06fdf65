/* Global functions: range, dict, namespace, raise_exception, strftime_now. */
#include <stdio.h>
#include <time.h>

#include "template/builtin/jinja_builtin.h"
#include "template/jinja/jinja_iter.h"
#include "template/builtin/jinja_str.h"

static enum lf_status global_range(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    int64_t bound[3] = {0, 0, 1};
    int n = lf_jinja_given(call->arg[2]) ? 3 : lf_jinja_given(call->arg[1]) ? 2 : 1;
    for (int i = 0; i < n; i++) {
        if (!lf_jinja_is_integral(call->arg[i])) {
            return lf_jinja_fail(j, LF_INVALID, "range: expected integers, not '%s'", lf_jinja_type_name(call->arg[i]));
        }
        bound[n == 1 ? 1 : i] = call->arg[i].as.i;
        if (call->arg[i].as.i > INT32_MAX || call->arg[i].as.i < INT32_MIN) {
            return lf_jinja_fail(j, LF_LIMIT, "range: a bound is beyond 32 bits");
        }
    }
    if (bound[2] == 0) return lf_jinja_fail(j, LF_INVALID, "range: the step cannot be 0");
    int64_t span = bound[2] > 0 ? bound[1] - bound[0] : bound[0] - bound[1];
    int64_t size = bound[2] > 0 ? bound[2] : -bound[2], count = span > 0 ? (span + size - 1) / size : 0;
    if (count > LF_TEMPLATE_RANGE_N) {
        return lf_jinja_fail(j, LF_LIMIT, "range: more than %d elements", LF_TEMPLATE_RANGE_N);
    }
    struct lf_jinja_range *range;
    LF_TRY(lf_jinja_alloc(j, &range, 1, sizeof(*range)));
    *range = (struct lf_jinja_range){bound[0], bound[1], bound[2], count};
    *out = (struct lf_jinja_value){.type = LF_JINJA_RANGE, .as.range = range};
    return LF_OK;
}

static enum lf_status global_dict(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_value dict;
    LF_TRY(lf_jinja_dict_new(j, &dict));
    LF_TRY(lf_jinja_dict_of(j, dict.as.dict, call->raw));
    *out = dict;
    return LF_OK;
}

static enum lf_status global_namespace(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_value dict;
    LF_TRY(global_dict(j, &dict, call));
    for (size_t i = 0; i < dict.as.dict->n; i++) {
        struct lf_jinja_value key = dict.as.dict->pairs[i].key;
        if (key.type != LF_JINJA_STRING || key.as.s.len == 0 || lf_jinja_text_ptr(key.as.s)[0] != '_') continue;
        return lf_jinja_fail(j, LF_INVALID, "an attribute of a namespace cannot begin with an underscore");
    }
    dict.type = LF_JINJA_NAMESPACE;
    *out = dict;
    return LF_OK;
}

/* The template refuses its input: its own words are the whole message. */
static enum lf_status global_raise(struct lf_jinja *j, struct lf_jinja_value *out, const struct lf_jinja_call *call)
{
    struct lf_jinja_text message;
    (void)out;
    LF_TRY(lf_jinja_to_text(j, &message, call->arg[0]));
    return lf_fail(j->err, LF_INVALID, "%.*s", (int)LF_MIN(message.len, (size_t)LF_ERR_MESSAGE_BYTES),
                   lf_jinja_text_ptr(message));
}

/* -- Dates -- */

static const char *const days[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                     "July",    "August",   "September", "October", "November", "December"};

static void number(struct lf_jinja_writer *w, int i, int width, char pad)
{
    char text[16];
    if (pad == '-') width = 0;
    snprintf(text, sizeof(text), pad == '_' ? "%*d" : "%0*d", width, i);
    lf_jinja_write_c(w, text);
}

static void write_part(struct lf_jinja_writer *w, const struct tm *tm, char code, char flag);

/* Directives that stand for several others; false where code is none. */
static bool write_compound(struct lf_jinja_writer *w, const struct tm *tm, char code)
{
    const char *parts = code == 'D' || code == 'x'   ? "m/d/y"
                        : code == 'F'                ? "Y-m-d"
                        : code == 'T' || code == 'X' ? "H:M:S"
                        : code == 'R'                ? "H:M"
                                                     : NULL;
    for (const char *p = parts; p && *p; p++) {
        if (p > parts && *p != '/' && *p != '-' && *p != ':') {
            write_part(w, tm, *p, 0);
        } else if (p == parts) {
            write_part(w, tm, *p, 0);
        } else {
            lf_jinja_write(w, lf_str_from(p, 1), false);
        }
    }
    return parts != NULL;
}

static void write_part(struct lf_jinja_writer *w, const struct tm *tm, char code, char flag)
{
    int hour12 = tm->tm_hour % 12 ? tm->tm_hour % 12 : 12;
    switch (code) {
    case 'Y':
        number(w, tm->tm_year + 1900, 4, flag);
        return;
    case 'y':
        number(w, tm->tm_year % 100, 2, flag);
        return;
    case 'm':
        number(w, tm->tm_mon + 1, 2, flag);
        return;
    case 'd':
        number(w, tm->tm_mday, 2, flag);
        return;
    case 'e':
        number(w, tm->tm_mday, 2, flag ? flag : '_');
        return;
    case 'H':
        number(w, tm->tm_hour, 2, flag);
        return;
    case 'I':
        number(w, hour12, 2, flag);
        return;
    case 'M':
        number(w, tm->tm_min, 2, flag);
        return;
    case 'S':
        number(w, tm->tm_sec, 2, flag);
        return;
    case 'j':
        number(w, tm->tm_yday + 1, 3, flag);
        return;
    case 'w':
        number(w, tm->tm_wday, 1, flag);
        return;
    case 'u':
        number(w, tm->tm_wday ? tm->tm_wday : 7, 1, flag);
        return;
    case 'f':
        lf_jinja_write_c(w, "000000");
        return;
    case 'p':
        lf_jinja_write_c(w, tm->tm_hour < 12 ? "AM" : "PM");
        return;
    case 'A':
        lf_jinja_write_c(w, days[tm->tm_wday]);
        return;
    case 'a':
        lf_jinja_write(w, lf_str_from(days[tm->tm_wday], 3), false);
        return;
    case 'B':
        lf_jinja_write_c(w, months[tm->tm_mon]);
        return;
    case 'b':
    case 'h':
        lf_jinja_write(w, lf_str_from(months[tm->tm_mon], 3), false);
        return;
    case 'n':
        lf_jinja_write_c(w, "\n");
        return;
    case 't':
        lf_jinja_write_c(w, "\t");
        return;
    case '%':
        lf_jinja_write_c(w, "%");
        return;
    default:
        break;
    }
    if (write_compound(w, tm, code) || w->status != LF_OK) return;
    w->status = lf_jinja_fail(w->j, LF_UNSUPPORTED, "strftime_now: %%%c is not implemented", code);
}

/* The local date, in English, whatever the locale. */
static enum lf_status global_strftime_now(struct lf_jinja *j, struct lf_jinja_value *out,
                                          const struct lf_jinja_call *call)
{
    struct lf_jinja_text format, text;
    struct tm tm;
    time_t now = (time_t)j->now_unix_s;
    LF_TRY(lf_jinja_text_arg(j, &format, call->arg[0]));
    if (!localtime_r(&now, &tm)) return lf_jinja_fail(j, LF_INVALID, "strftime_now: the clock is out of range");
    struct lf_jinja_writer w = lf_jinja_writer_of(j);
    struct lf_str f = lf_jinja_text_str(format);
    for (size_t i = 0; i < f.len && w.status == LF_OK; i++) {
        if (f.ptr[i] != '%' || i + 1 == f.len) {
            lf_jinja_write_text(&w, lf_jinja_text_sub(format, i, i + 1));
            continue;
        }
        char flag = f.ptr[i + 1];
        bool flagged = (flag == '-' || flag == '_' || flag == '0') && i + 2 < f.len;
        i += flagged ? 2 : 1;
        write_part(&w, &tm, f.ptr[i], flagged ? flag : '\0');
    }
    LF_TRY(lf_jinja_writer_text(&w, &text));
    *out = lf_jinja_string(text);
    return LF_OK;
}

const struct lf_jinja_builtin *lf_jinja_globals(size_t *n)
{
    static const struct lf_jinja_builtin rows[] = {
        {"range", global_range, 1, false, {"start", "stop", "step"}},
        {"dict", global_dict, 0, true, {NULL}},
        {"namespace", global_namespace, 0, true, {NULL}},
        {"raise_exception", global_raise, 1, false, {"message"}},
        {"strftime_now", global_strftime_now, 1, false, {"format"}},
    };
    *n = LF_N_ELEMS(rows);
    return rows;
}
