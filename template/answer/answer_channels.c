/* gpt-oss: an answer is messages, each with a header that says what it is.
 *
 *     <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…
 *     <|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "Rome"}<|call|>
 *     <|start|>assistant to=functions.weather<|channel|>commentary json<|message|>…
 *
 * The analysis channel is reasoning; a message to functions.NAME is a call, where NAME is a tool and the message a JSON
 * object; everything else is text. The prompt ends inside of the first header. Text without a header is text. */
#include "core/check.h"
#include "template/answer/answer_impl.h"

enum { HEADER_BYTES = 512 };
static const char message_marker[] = "<|message|>";

static void give(struct lf_answer_parser *p, const char *bytes, size_t n)
{
    bool is_reasoning = p->channels.is_reasoning && p->params.reasoning;
    lf_answer_put(&p->out, is_reasoning ? LF_ANSWER_REASONING : LF_ANSWER_TEXT, bytes, n);
}

static void give_held(struct lf_answer_parser *p)
{
    give(p, p->held.ptr, p->held.len);
    lf_buf_clear(&p->held);
}

/* Whether what is held, with this byte behind it, begins one of the texts. *which: the one that it is all of, or NULL.
 */
static bool begins(const struct lf_answer_parser *p, const char *const *texts, char c, const char **which)
{
    size_t n = p->held.len;
    bool found = false;
    for (*which = NULL; *texts; texts++) {
        if (strncmp(*texts, p->held.ptr ? p->held.ptr : "", n) != 0 || (*texts)[n] != c) continue;
        found = true;
        if ((*texts)[n + 1] == 0) *which = *texts;
    }
    return found;
}

/* ---- headers ---- */

static const struct lf_tool *tool_of_header(struct lf_answer_parser *p, struct lf_str header)
{
    static const char to[] = "to=functions.";
    ptrdiff_t at = lf_str_find(header, lf_str_c(to));
    if (at < 0) return NULL;
    lf_answer_names_begin(&p->names);
    for (size_t i = (size_t)at + strlen(to); i < header.len; i++) {
        char c = header.ptr[i];
        if (lf_json_is_space(c) || c == '<') break;
        if (!lf_answer_names_next(&p->names, c)) return NULL;
    }
    return lf_answer_names_found(&p->names);
}

/* The header is whole: it is held, with the marker behind it. */
static void end_header(struct lf_answer_parser *p)
{
    struct lf_str header = lf_str_from(p->held.ptr, p->held.len - strlen(message_marker));
    bool is_call = lf_str_find(header, LF_STR("to=functions.")) >= 0;
    p->channels.state = LF_CHANNEL_BODY;
    p->tool = tool_of_header(p, header);
    p->channels.is_reasoning = !is_call && lf_str_find(header, LF_STR("<|channel|>analysis")) >= 0;
    p->channels.shows_markers = p->channels.is_reasoning && !p->params.reasoning;
    if (p->tool) {
        p->channels.state = LF_CHANNEL_CALL;
    } else if (is_call || p->channels.shows_markers) {
        give_held(p);
    } else {
        lf_buf_clear(&p->held);
    }
}

static void begin_body(struct lf_answer_parser *p)
{
    p->channels.state = LF_CHANNEL_BODY;
    p->channels.is_reasoning = p->channels.shows_markers = false;
}

static void header_byte(struct lf_answer_parser *p, char c)
{
    bool fits = p->held.len < HEADER_BYTES && lf_answer_hold(p, c);
    if (!fits) {
        begin_body(p);
        give_held(p);
        give(p, &c, 1);
    } else if (lf_str_ends(lf_buf_view(&p->held), lf_str_c(message_marker))) {
        end_header(p);
    }
}

/* ---- bodies ---- */

static void body_byte(struct lf_answer_parser *p, char c)
{
    static const char *const headers[] = {"<|start|>", "<|channel|>", NULL};
    static const char *const ends[] = {"<|end|>", "<|call|>", "<|return|>", NULL};
    const char *header, *end;
    bool begins_header = begins(p, headers, c, &header), begins_end = begins(p, ends, c, &end);
    if (!begins_header && !begins_end) {
        give_held(p);
        /* a < stands nowhere but at the beginning of a marker */
        if (c != '<') give(p, &c, 1);
        if (c != '<') return;
    }
    if (!lf_answer_hold(p, c)) return;
    if (end && p->channels.shows_markers) give_held(p);
    if (end) {
        lf_buf_clear(&p->held);
        p->channels.state = LF_CHANNEL_BEFORE;
    }
    if (header) p->channels.state = LF_CHANNEL_HEADER;
    if (end || header) p->channels.is_reasoning = p->channels.shows_markers = false;
}

static void before_byte(struct lf_answer_parser *p, char c)
{
    static const char *const texts[] = {"<|start|>", "<|channel|>", " to=", NULL};
    const char *which;
    if (begins(p, texts, c, &which)) {
        if (lf_answer_hold(p, c) && which) p->channels.state = LF_CHANNEL_HEADER;
        return;
    }
    begin_body(p);
    give_held(p);
    body_byte(p, c);
}

/* ---- calls ---- */

/* Behind the header of a call: its arguments begin, or it is none. */
static void call_byte(struct lf_answer_parser *p, char c)
{
    if (lf_json_is_space(c) && lf_answer_hold(p, c)) return;
    if (c != '{') {
        begin_body(p);
        give_held(p);
        body_byte(p, c);
        return;
    }
    lf_buf_clear(&p->held);
    lf_answer_call_begin(p, p->tool);
    lf_json_scan_init(&p->arguments);
    p->channels.state = LF_CHANNEL_ARGUMENTS;
}

static void arguments_byte(struct lf_answer_parser *p, char c)
{
    if (!lf_json_scan_byte(&p->arguments, c)) {
        begin_body(p);
        body_byte(p, c);
        return;
    }
    lf_answer_argument(p, c);
    if (p->arguments.state != LF_SCAN_END) return;
    lf_answer_put_call_end(&p->out);
    p->channels.state = LF_CHANNEL_AFTER;
}

void lf_answer_channels_begin(struct lf_answer_parser *p)
{
    p->channels = (struct lf_answer_channels){.state = LF_CHANNEL_BEFORE};
}

void lf_answer_channels_byte(struct lf_answer_parser *p, char c)
{
    switch (p->channels.state) {
    case LF_CHANNEL_BEFORE:
        before_byte(p, c);
        break;
    case LF_CHANNEL_HEADER:
        header_byte(p, c);
        break;
    case LF_CHANNEL_BODY:
        body_byte(p, c);
        break;
    case LF_CHANNEL_CALL:
        call_byte(p, c);
        if (p->channels.state == LF_CHANNEL_ARGUMENTS) arguments_byte(p, c);
        break;
    case LF_CHANNEL_ARGUMENTS:
        arguments_byte(p, c);
        break;
    case LF_CHANNEL_AFTER:
        if (lf_json_is_space(c)) break;
        begin_body(p);
        body_byte(p, c);
        break;
    }
}

void lf_answer_channels_flush(struct lf_answer_parser *p)
{
    /* a header that is cut is a marker that is cut: nobody's text */
    if (p->channels.state != LF_CHANNEL_HEADER && p->channels.state != LF_CHANNEL_CALL) give_held(p);
    lf_buf_clear(&p->held);
}
