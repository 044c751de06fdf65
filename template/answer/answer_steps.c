/* The steps of a row, one byte at a time. */
#include "core/check.h"
#include "template/answer/answer_impl.h"

enum { UNTIL_N = 128, DIGITS_N = 16 }; /* bytes of an id that are still a call's */

static enum lf_answer_fit literal_byte(struct lf_answer_parser *p, const char *text, char c)
{
    if (text[p->step_at] != c) return LF_FIT_NONE;
    (void)lf_answer_hold(p, c);
    return text[++p->step_at] ? LF_FIT_MORE : LF_FIT_DONE;
}

static enum lf_answer_fit space_byte(struct lf_answer_parser *p, char c)
{
    if (!lf_json_is_space(c)) return LF_FIT_PASS;
    if (++p->step_at > LF_ANSWER_SPACE_N) return LF_FIT_NONE;
    (void)lf_answer_hold(p, c);
    return LF_FIT_MORE;
}

static enum lf_answer_fit until_byte(struct lf_answer_parser *p, struct lf_str text, char c)
{
    if (++p->step_at > UNTIL_N) return LF_FIT_NONE;
    (void)lf_answer_hold(p, c);
    bool is_there = p->step_at >= text.len && lf_str_ends(lf_buf_view(&p->held), text);
    return is_there ? LF_FIT_DONE : LF_FIT_MORE;
}

static enum lf_answer_fit digits_byte(struct lf_answer_parser *p, char c)
{
    if (lf_digit(c) >= 10) return LF_FIT_PASS;
    if (++p->step_at > DIGITS_N) return LF_FIT_NONE;
    (void)lf_answer_hold(p, c);
    return LF_FIT_MORE;
}

static enum lf_answer_fit name_byte(struct lf_answer_parser *p, char c)
{
    if (p->step_at++ == 0) lf_answer_names_begin(&p->names);
    if (lf_answer_names_next(&p->names, c)) {
        (void)lf_answer_hold(p, c);
        return LF_FIT_MORE;
    }
    p->tool = lf_answer_names_found(&p->names);
    return p->tool ? LF_FIT_PASS : LF_FIT_NONE;
}

static enum lf_answer_fit arguments_byte(struct lf_answer_parser *p, char c)
{
    if (p->step_at++ == 0) {
        if (c != '{') return LF_FIT_NONE;
        lf_json_scan_init(&p->arguments);
        lf_buf_clear(&p->held);
        lf_answer_call_begin(p, p->tool);
    }
    if (!lf_json_scan_byte(&p->arguments, c)) return LF_FIT_NONE;
    lf_answer_argument(p, c);
    if (p->arguments.state != LF_SCAN_END) return LF_FIT_MORE;
    lf_answer_put_call_end(&p->out);
    return LF_FIT_DONE;
}

enum lf_answer_fit lf_answer_step_byte(struct lf_answer_parser *p, char c)
{
    const char *text = p->step->text;
    switch (p->step->kind) {
    case LF_STEP_LITERAL:
        return literal_byte(p, text, c);
    case LF_STEP_SPACE:
        return space_byte(p, c);
    case LF_STEP_UNTIL:
        return until_byte(p, lf_str_c(text), c);
    case LF_STEP_DIGITS:
        return digits_byte(p, c);
    case LF_STEP_NAME:
        return name_byte(p, c);
    case LF_STEP_ARGUMENTS:
        return arguments_byte(p, c);
    case LF_STEP_OBJECT:
        if (p->step_at++ == 0) lf_answer_object_begin(p);
        return lf_answer_object_byte(p, c);
    case LF_STEP_PARAMETERS:
        if (p->step_at++ == 0) lf_answer_parameters_begin(p);
        return lf_answer_parameters_byte(p, c);
    case LF_STEP_GEMMA:
        if (p->step_at++ == 0) lf_answer_gemma_begin(p);
        return lf_answer_gemma_byte(p, c);
    case LF_STEP_PYTHON:
        if (p->step_at++ == 0) lf_answer_python_begin(p);
        return lf_answer_python_byte(p, c);
    case LF_STEP_END:
        break;
    }
    return LF_FIT_NONE;
}
