/* Arguments as parameters between markers: <parameter=city>Rome</parameter>, <arg_key>city</arg_key><arg_value>Rome…
 *
 * They become the text of a JSON object. A value that is a string by the tool's schema is escaped and goes out as it
 * comes; so does one that may be a string and does not begin as JSON of any other type that the schema allows. Any
 * other is held until its end: it is what it says where that is JSON, and a string where it is not. One that is larger
 * than may be held goes out as JSON as long as it may be some. */
#include "core/check.h"
#include "template/answer/answer_impl.h"

/* Of a name; and of white space between markers, with what is held before the first one. */
enum { KEY_BYTES = 1024, SPACE_BYTES = 2 * LF_ANSWER_SPACE_N };

static void put(struct lf_answer_parser *p, const char *text)
{
    lf_answer_put(&p->out, LF_ANSWER_ARGUMENTS, text, strlen(text));
}

static const struct lf_tool_parameter *find_parameter(const struct lf_tool *tool, struct lf_str name)
{
    for (size_t i = 0; i < tool->n_parameters; i++)
        if (lf_str_eq(tool->parameters[i].name, name)) return &tool->parameters[i];
    return NULL;
}

static void begin_value(struct lf_answer_parser *p)
{
    struct lf_answer_parameters *m = &p->parameters;
    m->state = m->types == LF_TOOL_STRING ? LF_PARAMETER_STRING : LF_PARAMETER_HELD;
    m->skip = p->format->parameters.value_lead;
    m->n_tail = 0;
    m->is_begun = false;
    if (m->state == LF_PARAMETER_STRING) put(p, "\"");
}

/* Whether JSON of these types, or a word of Python, may begin so. A string that may also be missing is written without
 * quotes, as any string: where there are some, they are its own. */
static bool may_begin(uint8_t types, char c)
{
    switch (c) {
    case 'n':
    case 'N':
        return types & LF_TOOL_NULL;
    case 't':
    case 'f':
    case 'T':
    case 'F':
        return types & LF_TOOL_BOOL;
    case '"':
        return (types & LF_TOOL_STRING) && types != LF_TOOL_STRING_OR_NULL;
    case '[':
        return types & LF_TOOL_ARRAY;
    case '{':
        return types & LF_TOOL_OBJECT;
    default:
        return (types & LF_TOOL_NUMBER) && (c == '-' || lf_digit(c) < 10);
    }
}

/* The name of a parameter is whole: it stands in what is held, before a marker of n_marker bytes. */
static void end_key(struct lf_answer_parser *p, size_t n_marker, bool is_typed, bool as_json)
{
    struct lf_answer_parameters *m = &p->parameters;
    struct lf_str key = lf_str_from(p->held.ptr, p->held.len - n_marker);
    const struct lf_tool_parameter *known = find_parameter(p->tool, key);
    put(p, m->n == 0 ? "{\"" : ", \"");
    lf_answer_put_escaped(p, key.ptr, key.len);
    put(p, "\": ");
    m->n++;
    m->is_known = known != NULL;
    m->types = known ? known->types : LF_TOOL_ANY;
    if (is_typed) m->types = as_json ? LF_TOOL_ANY : LF_TOOL_STRING;
    lf_buf_clear(&p->held);
    m->state = LF_PARAMETER_GAP;
    if (!p->format->parameters.value_open) begin_value(p);
}

static bool held_ends(const struct lf_answer_parser *p, const char *marker)
{
    return marker && lf_str_ends(lf_buf_view(&p->held), lf_str_c(marker));
}

static enum lf_answer_fit key_byte(struct lf_answer_parser *p, char c)
{
    const struct lf_answer_parameter_markers *f = &p->format->parameters;
    if (p->held.len >= KEY_BYTES) return LF_FIT_NONE;
    (void)lf_answer_hold(p, c);
    if (held_ends(p, f->key_close)) {
        end_key(p, strlen(f->key_close), f->key_close_json != NULL, false);
    } else if (held_ends(p, f->key_close_json)) {
        end_key(p, strlen(f->key_close_json), true, true);
    }
    return LF_FIT_MORE;
}

/* What comes between parameters, and between a name and its value: white space, and one of two markers. *which: the one
 * that is whole. */
static bool marker_byte(struct lf_answer_parser *p, const char *const texts[2], char c, const char **which)
{
    size_t at = p->parameters.marker_at, n = p->held.len - at;
    bool begins = false;
    *which = NULL;
    if (n == 0 && lf_json_is_space(c) && at < SPACE_BYTES) {
        (void)lf_answer_hold(p, c);
        p->parameters.marker_at = p->held.len;
        return true;
    }
    for (int i = 0; i < 2; i++)
        begins = begins || (texts[i] && strncmp(texts[i], p->held.ptr + at, n) == 0 && texts[i][n] == c);
    if (!begins || !lf_answer_hold(p, c)) return false;
    for (int i = 0; i < 2; i++)
        if (texts[i] && lf_str_eq(lf_str_from(p->held.ptr + at, n + 1), lf_str_c(texts[i]))) *which = texts[i];
    return true;
}

static enum lf_answer_fit between_byte(struct lf_answer_parser *p, char c)
{
    const struct lf_answer_parameter_markers *f = &p->format->parameters;
    const char *const texts[2] = {f->key_open, f->end};
    const char *which;
    if (!marker_byte(p, texts, c, &which)) return LF_FIT_NONE;
    if (!which) return LF_FIT_MORE;
    lf_buf_clear(&p->held);
    p->parameters.marker_at = 0;
    if (!p->is_certain) lf_answer_call_begin(p, p->tool);
    p->parameters.state = LF_PARAMETER_KEY;
    if (which == texts[0]) return LF_FIT_MORE;
    put(p, p->parameters.n == 0 ? "{}" : "}");
    lf_answer_put_call_end(&p->out);
    return LF_FIT_DONE;
}

static enum lf_answer_fit gap_byte(struct lf_answer_parser *p, char c)
{
    const char *const texts[2] = {p->format->parameters.value_open, NULL};
    const char *which;
    if (!marker_byte(p, texts, c, &which)) return LF_FIT_NONE;
    if (!which) return LF_FIT_MORE;
    lf_buf_clear(&p->held);
    p->parameters.marker_at = 0;
    begin_value(p);
    return LF_FIT_MORE;
}

/* n bytes at the beginning of what is held are the value's. */
static bool give_part(struct lf_answer_parser *p, size_t n)
{
    struct lf_answer_parameters *m = &p->parameters;
    if (m->state == LF_PARAMETER_STRING) {
        lf_answer_put_escaped(p, p->held.ptr, n);
    } else {
        for (size_t i = 0; i < n; i++) {
            bool fits = lf_json_scan_byte(&p->arguments, p->held.ptr[i]);
            if (!fits || p->arguments.depth >= LF_JSON_DEPTH) return false; /* it stands in an object */
            lf_answer_argument(p, p->held.ptr[i]);
        }
    }
    p->held.len -= n;
    memmove(p->held.ptr, p->held.ptr + n, p->held.len);
    return true;
}

/* A value that goes out as it comes: held are the newlines that may be the template's, and the beginning of the marker
 * behind it. */
static enum lf_answer_fit stream_byte(struct lf_answer_parser *p, char c)
{
    struct lf_answer_parameters *m = &p->parameters;
    const struct lf_answer_parameter_markers *f = &p->format->parameters;
    size_t n_tail = f->value_tail ? strlen(f->value_tail) : 0;
    if (!lf_answer_hold(p, c)) return LF_FIT_NONE;
    if (c == '\n') {
        size_t n = p->held.len - 1 == m->n_tail ? m->n_tail + 1 : 1; /* newlines at the end of what is held */
        m->n_tail = LF_MIN(n, n_tail);
        return give_part(p, p->held.len - m->n_tail) ? LF_FIT_MORE : LF_FIT_NONE;
    }
    size_t at = m->n_tail;
    while (at < p->held.len && strncmp(f->value_close, p->held.ptr + at, p->held.len - at) != 0) at++;
    if (at == m->n_tail && f->value_close[p->held.len - at] != 0) return LF_FIT_MORE;
    if (at > m->n_tail) {
        m->n_tail = 0;
        return give_part(p, at) ? LF_FIT_MORE : LF_FIT_NONE;
    }
    if (m->state == LF_PARAMETER_JSON && !lf_json_scan_is_whole(&p->arguments)) return LF_FIT_NONE;
    if (m->state == LF_PARAMETER_STRING) put(p, "\"");
    lf_buf_clear(&p->held);
    m->state = LF_PARAMETER_BETWEEN;
    return LF_FIT_MORE;
}

/* A value that is held goes out as it comes from now on, as JSON or as a string. */
static enum lf_answer_fit stream_held(struct lf_answer_parser *p, bool as_json, char c)
{
    struct lf_answer_parameters *m = &p->parameters;
    size_t n = p->held.len;
    m->state = as_json ? LF_PARAMETER_JSON : LF_PARAMETER_STRING;
    lf_json_scan_init(&p->arguments);
    if (!as_json) put(p, "\"");
    /* again byte by byte, with what is held taken out of the way */
    struct lf_buf held = p->held;
    lf_buf_init_in(&p->held, held.ceiling, held.memory);
    enum lf_answer_fit fit = LF_FIT_MORE;
    for (size_t i = 0; i < n && fit == LF_FIT_MORE; i++) fit = stream_byte(p, held.ptr[i]);
    lf_buf_deinit(&held);
    return fit == LF_FIT_MORE ? stream_byte(p, c) : fit;
}

/* Whether what is held may be JSON, but for what may be the beginning of the marker behind it. */
static bool held_may_be_json(const struct lf_answer_parser *p)
{
    struct lf_json_scan scan;
    bool fits = true;
    lf_json_scan_init(&scan);
    for (size_t i = 0; fits && i + strlen(p->format->parameters.value_close) < p->held.len; i++)
        fits = lf_json_scan_byte(&scan, p->held.ptr[i]);
    return fits;
}

static enum lf_answer_fit held_byte(struct lf_answer_parser *p, char c)
{
    const struct lf_answer_parameter_markers *f = &p->format->parameters;
    struct lf_answer_parameters *m = &p->parameters;
    if (lf_answer_is_full(p)) return stream_held(p, held_may_be_json(p), c);
    bool is_first = !m->is_begun && !lf_json_is_space(c);
    m->is_begun = m->is_begun || is_first;
    if (is_first && (m->types & LF_TOOL_STRING) && !may_begin(m->types, c)) return stream_held(p, false, c);
    (void)lf_answer_hold(p, c);
    if (!held_ends(p, f->value_close)) return LF_FIT_MORE;
    struct lf_str value = lf_str_from(p->held.ptr, p->held.len - strlen(f->value_close));
    if (f->value_tail && lf_str_ends(value, lf_str_c(f->value_tail))) value.len -= strlen(f->value_tail);
    lf_answer_put_value(p, value, m->is_known);
    lf_buf_clear(&p->held);
    m->state = LF_PARAMETER_BETWEEN;
    return LF_FIT_MORE;
}

void lf_answer_parameters_begin(struct lf_answer_parser *p)
{
    p->parameters = (struct lf_answer_parameters){.marker_at = p->held.len};
}

enum lf_answer_fit lf_answer_parameters_byte(struct lf_answer_parser *p, char c)
{
    struct lf_answer_parameters *m = &p->parameters;
    bool is_value = m->state == LF_PARAMETER_STRING || m->state == LF_PARAMETER_HELD;
    if (is_value && m->skip && *m->skip && *m->skip == c) {
        m->skip++;
        return LF_FIT_MORE;
    }
    m->skip = NULL;
    switch (m->state) {
    case LF_PARAMETER_BETWEEN:
        return between_byte(p, c);
    case LF_PARAMETER_KEY:
        return key_byte(p, c);
    case LF_PARAMETER_GAP:
        return gap_byte(p, c);
    case LF_PARAMETER_HELD:
        return held_byte(p, c);
    default:
        return stream_byte(p, c);
    }
}
