/* Writing JSON: strings with their escapes, and the shortest decimal of a double. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/json.h"

/* How many bytes at s need no escape: ASCII but controls, quotes, backslashes, DEL is fine. */
static size_t plain_run(const char *s, size_t len)
{
    size_t i = 0;
    while (i < len && (unsigned char)s[i] >= 0x20 && (unsigned char)s[i] < 0x80 && s[i] != '"' && s[i] != '\\') i++;
    return i;
}

static void write_ascii_escape(struct lf_buf *out, char c)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *hit = c ? strchr(from, c) : NULL;
    if (hit)
        lf_buf_printf(out, "\\%c", to[hit - from]);
    else
        lf_buf_printf(out, "\\u%04x", (unsigned)(unsigned char)c);
}

void lf_json_write_escaped(struct lf_buf *out, struct lf_str s)
{
    size_t i = 0;
    while (i < s.len) {
        size_t run = plain_run(s.ptr + i, s.len - i);
        lf_buf_append(out, s.ptr + i, run);
        i += run;
        if (i >= s.len) break;
        uint32_t cp;
        int n = lf_utf8_decode(s.ptr + i, s.len - i, &cp);
        if (n == 0)
            lf_buf_cstr(out, "\xEF\xBF\xBD"); /* U+FFFD */
        else if (n == 1)
            write_ascii_escape(out, s.ptr[i]);
        else if (cp == 0x2028 || cp == 0x2029) /* line ends to JavaScript */
            lf_buf_printf(out, "\\u%04x", (unsigned)cp);
        else
            lf_buf_append(out, s.ptr + i, (size_t)n);
        i += n ? (size_t)n : 1;
    }
}

void lf_json_write_string(struct lf_buf *out, struct lf_str s)
{
    lf_buf_char(out, '"');
    lf_json_write_escaped(out, s);
    lf_buf_char(out, '"');
}

/* How far a string of valid JSON goes from its quote on, both quotes included. */
static size_t string_len(const char *s, size_t n)
{
    size_t i = 1;
    while (i < n && s[i] != '"') i += s[i] == '\\' ? 2 : 1;
    return i + 1;
}

/* A string as it stands in a text, but for the two that are line ends to JavaScript. */
static void write_raw_string(struct lf_buf *out, const char *s, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i + 2 < n; i++) {
        if (memcmp(s + i, "\xE2\x80", 2) != 0 || ((unsigned char)s[i + 2] & 0xfe) != 0xa8) continue;
        lf_buf_append(out, s + from, i - from);
        lf_buf_cstr(out, (unsigned char)s[i + 2] == 0xa8 ? "\\u2028" : "\\u2029");
        from = i + 3;
    }
    lf_buf_append(out, s + from, n - from);
}

void lf_json_write_value(struct lf_buf *out, struct lf_json_value v)
{
    struct lf_str raw = lf_json_raw(v);
    size_t i = 0, n;
    if (lf_json_type(v) == LF_JSON_NONE) return;
    if (lf_json_type(v) == LF_JSON_STRING) { /* the quotes are around it */
        write_raw_string(out, raw.ptr - 1, raw.len + 2);
        return;
    }
    for (; i < raw.len; i += n) {
        char c = raw.ptr[i];
        n = c == '"' ? string_len(raw.ptr + i, raw.len - i) : 1;
        if (c == '"')
            write_raw_string(out, raw.ptr + i, n);
        else if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
            lf_buf_char(out, c);
    }
}

void lf_json_write_double(struct lf_buf *out, double x)
{
    char text[40] = "0";
    if (isfinite(x)) {
        /* 15, 16 or 17 digits: the first that reads back as the same double */
        for (int digits = 15; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, x);
            if (strtod(text, NULL) == x) break;
        }
    }
    lf_buf_cstr(out, text);
}
