/* The states of a parser: answer_impl.h has the picture. */
#include "core/check.h"
#include "core/text_memory.h"
#include "template/answer/answer_impl.h"

/* ---- SCAN ---- */

enum { FIRST_NEWLINES_N = 2 }; /* that a model may write before it begins to reason */

enum marker { MARKER_THINK, MARKER_THINK_END, MARKER_CALLS, N_MARKERS };

/* The markers that may come now, NULL for those that may not. */
static void markers_of(const struct lf_answer_parser *p, const char *markers[N_MARKERS])
{
    const struct lf_answer_format *f = p->format;
    markers[MARKER_THINK] = !p->in_reasoning && p->at_start ? f->think : NULL;
    markers[MARKER_THINK_END] = p->in_reasoning || p->is_think_left_open ? f->think_end : NULL;
    markers[MARKER_CALLS] = (!p->in_reasoning || f->calls_end_think) && p->names.n > 0 ? f->open : NULL;
}

/* How many newlines before a marker may be its own. */
static size_t tail_of(const struct lf_answer_parser *p)
{
    const char *tail = p->in_reasoning ? p->format->think_tail : p->format->call_tail;
    size_t n = tail ? strlen(tail) : 0;
    return p->at_start && !p->in_reasoning && p->format->think ? LF_MAX(n, FIRST_NEWLINES_N) : n;
}

static void put_text(struct lf_answer_parser *p, const char *bytes, size_t n)
{
    if (n == 0) return;
    lf_answer_put(&p->out, p->in_reasoning && p->params.reasoning ? LF_ANSWER_REASONING : LF_ANSWER_TEXT, bytes, n);
    p->at_start = false;
}

/* What is held is text, and nothing is held any more. */
static void give_held(struct lf_answer_parser *p)
{
    put_text(p, p->held.ptr, p->held.len);
    lf_buf_clear(&p->held);
    p->n_tail = 0;
}

/* Markers of reasoning, with what is theirs around them: dropped, or text where reasoning is not split off. */
static void drop_held(struct lf_answer_parser *p)
{
    if (p->params.reasoning) {
        lf_buf_clear(&p->held);
        p->n_tail = 0;
    } else {
        give_held(p);
    }
}

static void begin_calls(struct lf_answer_parser *p)
{
    p->state = LF_ANSWER_HEAD;
    p->step = p->format->head;
    p->step_at = 0;
    p->is_certain = false;
    p->n_tail = 0;
    if (p->step->kind == LF_STEP_END) {
        p->state = LF_ANSWER_IN_CALL;
        p->step = p->format->call;
    }
}

static void take_marker(struct lf_answer_parser *p, enum marker which)
{
    if (which == MARKER_CALLS) {
        begin_calls(p);
        return;
    }
    drop_held(p);
    p->is_think_left_open = false;
    p->in_reasoning = which == MARKER_THINK;
    p->skip = p->in_reasoning ? p->format->think_lead : p->format->think_after;
    p->skip_is_text = !p->params.reasoning;
    p->at_start = true;
}

/* Whether the bytes are the beginning of a marker that may come now; *which: the one that they are all of, or
 * N_MARKERS. */
static bool is_marker(const struct lf_answer_parser *p, const char *bytes, size_t n, enum marker *which)
{
    const char *markers[N_MARKERS];
    bool begins = false;
    *which = N_MARKERS;
    markers_of(p, markers);
    for (int i = 0; i < N_MARKERS; i++) {
        if (!markers[i] || strncmp(markers[i], bytes, n) != 0) continue;
        begins = true;
        if (markers[i][n] == 0) *which = (enum marker)i;
    }
    return begins;
}

/* The longest end of what is held that still begins a marker stays; the rest is text. */
static void give_what_is_no_marker(struct lf_answer_parser *p)
{
    enum marker which;
    size_t from = p->n_tail + 1;
    while (from < p->held.len && !is_marker(p, p->held.ptr + from, p->held.len - from, &which)) from++;
    put_text(p, p->held.ptr, from);
    p->held.len -= from;
    p->n_tail = 0;
    memmove(p->held.ptr, p->held.ptr + from, p->held.len);
}

static void scan_newline(struct lf_answer_parser *p)
{
    size_t tail = tail_of(p);
    if (p->held.len > p->n_tail) give_held(p);
    if (p->n_tail >= tail) {
        put_text(p, "\n", 1); /* the oldest of those held: they are all the same */
    } else {
        (void)lf_answer_hold(p, '\n');
        p->n_tail++;
    }
}

static void step_byte(struct lf_answer_parser *p, char c);

static void scan_byte(struct lf_answer_parser *p, char c)
{
    enum marker which;
    if (p->skip && *p->skip && *p->skip == c) {
        p->skip++;
        if (p->skip_is_text) lf_answer_put(&p->out, LF_ANSWER_TEXT, &c, 1);
        return;
    }
    p->skip = NULL;
    if (c == '\n') {
        scan_newline(p);
        return;
    }
    if (c == p->format->bare && c && p->at_start && !p->in_reasoning && p->names.n > 0 && p->held.len == p->n_tail) {
        begin_calls(p);
        step_byte(p, c);
        return;
    }
    if (!lf_answer_hold(p, c)) return;
    if (!is_marker(p, p->held.ptr + p->n_tail, p->held.len - p->n_tail, &which)) {
        give_what_is_no_marker(p);
    } else if (which != N_MARKERS) {
        take_marker(p, which);
    }
}

/* ---- HEAD, IN_CALL, AFTER ---- */

static void begin_scan(struct lf_answer_parser *p)
{
    p->state = LF_ANSWER_SCAN;
    p->skip = NULL;
    p->n_tail = 0;
}

/* What was held is no call. */
static void give_up(struct lf_answer_parser *p, char c)
{
    begin_scan(p);
    give_held(p);
    scan_byte(p, c);
}

static void end_calls(struct lf_answer_parser *p)
{
    begin_scan(p);
    lf_buf_clear(&p->held);
    p->skip = p->format->call_after;
    p->skip_is_text = false;
}

/* The literal with which the next call begins where nothing stands between two. */
static const char *next_of(const struct lf_answer_format *f)
{
    if (f->next) return f->next;
    if (f->call[0].kind == LF_STEP_OBJECT) return "{";
    return f->call[0].kind == LF_STEP_LITERAL ? f->call[0].text : NULL;
}

static void begin_after(struct lf_answer_parser *p)
{
    p->state = LF_ANSWER_AFTER;
    lf_buf_clear(&p->held);
    p->after_at = 0;
    if (!next_of(p->format) && !p->format->close) end_calls(p);
}

static void next_step(struct lf_answer_parser *p)
{
    p->step++;
    p->step_at = 0;
    if (p->step->kind != LF_STEP_END) return;
    if (p->state == LF_ANSWER_HEAD) {
        p->state = LF_ANSWER_IN_CALL;
        p->step = p->format->call;
    } else {
        begin_after(p);
    }
}

static void step_byte(struct lf_answer_parser *p, char c)
{
    while (p->state == LF_ANSWER_HEAD || p->state == LF_ANSWER_IN_CALL) {
        enum lf_answer_fit fit = lf_answer_step_byte(p, c);
        if (fit == LF_FIT_NONE) give_up(p, c);
        if (fit == LF_FIT_DONE || fit == LF_FIT_PASS) next_step(p);
        if (fit != LF_FIT_PASS) return;
    }
    LF_ASSERT(false); /* the last step of a call takes the last byte of it: no row ends with one that passes bytes on */
}

/* The next call begins: its first literal has been read where nothing else stands between two. */
static void begin_next_call(struct lf_answer_parser *p)
{
    bool is_read = !p->format->next && p->format->call[0].kind == LF_STEP_LITERAL;
    p->state = LF_ANSWER_IN_CALL;
    p->step = p->format->call;
    p->step_at = 0;
    p->is_certain = false;
    if (is_read) {
        next_step(p);
    } else if (!p->format->next) {
        p->held.len--; /* the { is the object's */
        step_byte(p, '{');
    }
}

/* Whether c goes on with `text`, of which n bytes have been read. */
static bool goes_on(const char *text, const char *read, size_t n, char c)
{
    return text && strncmp(text, read, n) == 0 && text[n] == c;
}

static void after_byte(struct lf_answer_parser *p, char c)
{
    const char *next = next_of(p->format), *close = p->format->close;
    if (p->held.len == p->after_at && lf_json_is_space(c) && p->after_at < LF_ANSWER_SPACE_N) {
        (void)lf_answer_hold(p, c);
        p->after_at = p->held.len;
        return;
    }
    size_t n = p->held.len - p->after_at;
    const char *held = n ? p->held.ptr + p->after_at : "";
    if (!goes_on(next, held, n, c) && !goes_on(close, held, n, c)) {
        give_up(p, c);
        return;
    }
    if (!lf_answer_hold(p, c)) return;
    struct lf_str read = lf_str_from(p->held.ptr + p->after_at, n + 1);
    if (close && lf_str_eq(read, lf_str_c(close))) {
        end_calls(p);
    } else if (next && lf_str_eq(read, lf_str_c(next))) {
        begin_next_call(p);
    }
}

/* ---- the whole ---- */

static void take_byte(struct lf_answer_parser *p, char c)
{
    if (p->format->is_channels) {
        lf_answer_channels_byte(p, c);
        return;
    }
    switch (p->state) {
    case LF_ANSWER_SCAN:
        scan_byte(p, c);
        break;
    case LF_ANSWER_HEAD:
    case LF_ANSWER_IN_CALL:
        step_byte(p, c);
        break;
    case LF_ANSWER_AFTER:
        after_byte(p, c);
        break;
    }
}

/* Where `prompt` ends with the marker and then a part of the white space behind it: the rest of that, else NULL. */
static const char *behind_marker(struct lf_str prompt, const char *marker, const char *space)
{
    size_t n = space ? strlen(space) : 0;
    if (!marker) return NULL;
    for (size_t k = n;; k--) {
        struct lf_str head = lf_str_from(prompt.ptr, prompt.len >= k ? prompt.len - k : 0);
        bool ends = k == 0 || lf_str_ends(prompt, lf_str_from(space, k));
        if (ends && lf_str_ends(head, lf_str_c(marker))) return space ? space + k : "";
        if (k == 0) return NULL;
    }
}

/* Where the prompt leaves off: in reasoning that the template has opened, behind reasoning that it has closed, or
 * before any. */
static void look_at_prompt(struct lf_answer_parser *p, struct lf_str prompt)
{
    const struct lf_answer_format *f = p->format;
    const char *skip = behind_marker(prompt, f->think, f->think_lead);
    p->begins_reasoning = skip != NULL;
    p->begins_skip = skip ? skip : behind_marker(prompt, f->think_end, f->think_after);
}

bool lf_answer_prompt_opens(const struct lf_answer_format *f, struct lf_str prompt_end, bool *is_closed)
{
    bool is_open = behind_marker(prompt_end, f->think, f->think_lead) != NULL;
    *is_closed = !is_open && behind_marker(prompt_end, f->think_end, f->think_after) != NULL;
    return is_open;
}

void lf_answer_parser_restart(struct lf_answer_parser *p)
{
    lf_buf_clear(&p->held);
    begin_scan(p);
    p->status = LF_OK;
    p->out.n = 0;
    p->in_reasoning = p->begins_reasoning;
    p->is_think_left_open = false;
    p->skip = p->begins_skip;
    p->skip_is_text = !p->params.reasoning;
    p->at_start = true;
    lf_answer_channels_begin(p);
}

enum lf_status lf_answer_parser_create(struct lf_answer_parser **out, const struct lf_answer_parser_params *params)
{
    struct lf_answer_parser *p = lf_text_alloc_zeroed(params->memory, sizeof(*p));
    if (!p) return LF_NO_MEMORY;
    p->params = *params;
    p->params.prompt_end = lf_str_from("", 0);
    p->format = params->format;
    lf_buf_init_in(&p->held, LF_ANSWER_HELD_BYTES + LF_ANSWER_MARKERS_BYTES, params->memory);
    bool has_calls = lf_answer_format_has_tools(p->format);
    if (lf_answer_names_init(&p->names, params->tools, has_calls ? params->n_tools : 0, params->memory) != LF_OK) {
        lf_answer_parser_destroy(p);
        return LF_NO_MEMORY;
    }
    look_at_prompt(p, params->prompt_end);
    lf_answer_parser_restart(p);
    *out = p;
    return LF_OK;
}

void lf_answer_parser_destroy(struct lf_answer_parser *p)
{
    if (!p) return;
    lf_text_free(p->params.memory, p->names.sorted);
    lf_buf_deinit(&p->held);
    lf_text_free(p->params.memory, p);
}

bool lf_answer_parser_knows(const struct lf_answer_parser *p, struct lf_str control)
{
    const char *const *known = p->format->controls;
    for (size_t i = 0; i < LF_N_ELEMS(p->format->controls) && known[i]; i++)
        if (lf_str_eq(control, lf_str_c(known[i]))) return true;
    return false;
}

enum lf_status lf_answer_parser_push(struct lf_answer_parser *p, struct lf_str piece, bool is_control,
                                     const struct lf_answer_sink *sink)
{
    if (is_control && !lf_answer_parser_knows(p, piece)) return LF_OK;
    p->out.sink = sink;
    for (size_t i = 0; i < piece.len && p->status == LF_OK; i++) take_byte(p, piece.ptr[i]);
    lf_answer_out_flush(&p->out);
    return p->status;
}

enum lf_status lf_answer_parser_flush(struct lf_answer_parser *p, const struct lf_answer_sink *sink)
{
    p->out.sink = sink;
    if (p->format->is_channels) lf_answer_channels_flush(p);
    /* Behind a call what is held is white space and the beginning of a marker, behind the name of one that is certain
     * too: it is nobody's text. */
    if (p->state == LF_ANSWER_SCAN || !p->is_certain) give_held(p);
    lf_buf_clear(&p->held);
    begin_scan(p);
    lf_answer_out_flush(&p->out);
    return p->status;
}
