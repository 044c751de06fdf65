/* Values of formats that write no JSON, as JSON. */
#include "template/answer/answer_impl.h"

static void put(struct lf_answer_parser *p, const char *text)
{
    lf_answer_put(&p->out, LF_ANSWER_ARGUMENTS, text, strlen(text));
}

void lf_answer_put_escaped(struct lf_answer_parser *p, const char *bytes, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c == '"' || c == '\\') lf_answer_argument(p, '\\');
        if (c == '\n') {
            put(p, "\\n");
        } else if (c == 0) {
            put(p, "\\ufffd"); /* core/json.h has no string with U+0000 */
        } else if (c < 0x20) {
            put(p, "\\u00");
            lf_answer_argument(p, digits[c >> 4]);
            lf_answer_argument(p, digits[c & 15]);
        } else {
            lf_answer_argument(p, (char)c);
        }
    }
}

static bool is_json(struct lf_str text)
{
    struct lf_json_scan scan;
    lf_json_scan_init(&scan);
    for (size_t i = 0; i < text.len; i++) /* it will stand in an object */
        if (!lf_json_scan_byte(&scan, text.ptr[i]) || scan.depth >= LF_JSON_DEPTH) return false;
    return lf_json_scan_is_whole(&scan);
}

/* What templates make of a value that Jinja prints as Python does. */
static const char *python_word(struct lf_str text)
{
    if (lf_str_eq(text, LF_STR("True"))) return "true";
    if (lf_str_eq(text, LF_STR("False"))) return "false";
    return lf_str_eq(text, LF_STR("None")) ? "null" : NULL;
}

void lf_answer_put_value(struct lf_answer_parser *p, struct lf_str text, bool as_python)
{
    struct lf_str trimmed = lf_str_trim(text);
    const char *word = as_python ? python_word(trimmed) : NULL;
    if (word) {
        put(p, word);
    } else if (is_json(trimmed)) {
        lf_answer_put(&p->out, LF_ANSWER_ARGUMENTS, trimmed.ptr, trimmed.len);
    } else {
        put(p, "\"");
        lf_answer_put_escaped(p, text.ptr, text.len);
        put(p, "\"");
    }
}
