#include "server/http/api/shown.h"

#include <stdio.h>
#include <string.h>

/* Without width, or turning what follows right to left: a message must not be forged with them. */
static bool is_hidden(uint32_t cp)
{
    return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0xad || (cp >= 0x200b && cp <= 0x200f) ||
           (cp >= 0x2028 && cp <= 0x202e) || (cp >= 0x2060 && cp <= 0x206f) || cp == 0xfeff || cp >= 0xe0000;
}

void lf_shown(char out[LF_SHOWN_BYTES], struct lf_str s)
{
    static const char dots[] = "...";
    size_t n = 0, n_cut = 0; /* n_cut: where the dots would go */
    for (size_t i = 0; i < s.len;) {
        uint32_t cp = 0;
        int len = lf_utf8_decode(s.ptr + i, s.len - i, &cp);
        bool hidden = len == 0 || is_hidden(cp);
        size_t n_shown = hidden ? 1 : (size_t)len;
        if (n + n_shown >= LF_SHOWN_BYTES) {
            memcpy(out + n_cut, dots, sizeof dots);
            return;
        }
        memcpy(out + n, hidden ? "?" : s.ptr + i, n_shown);
        n += n_shown;
        if (n + sizeof dots <= LF_SHOWN_BYTES) n_cut = n;
        i += len ? (size_t)len : 1;
    }
    out[n] = '\0';
}

bool lf_is_plain_id(struct lf_str s, size_t max)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
                     c == '_' || c == '-';
        if (!plain) return false;
    }
    return s.len > 0 && s.len <= max;
}

struct lf_shown_value lf_shown_json(struct lf_json_value v)
{
    struct lf_shown_value out;
    char raw[LF_SHOWN_BYTES];
    lf_shown(raw, lf_json_raw(v));
    switch (lf_json_type(v)) {
    case LF_JSON_NUMBER:
    case LF_JSON_TRUE:
    case LF_JSON_FALSE:
    case LF_JSON_NULL:
        snprintf(out.text, sizeof out.text, "%s", raw);
        break;
    case LF_JSON_STRING:
        snprintf(out.text, sizeof out.text, "the string \"%s\"", raw);
        break;
    case LF_JSON_ARRAY:
        snprintf(out.text, sizeof out.text, "an array of %u", lf_json_len(v));
        break;
    default:
        snprintf(out.text, sizeof out.text, "%s", lf_json_type_name(v));
    }
    return out;
}
