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
