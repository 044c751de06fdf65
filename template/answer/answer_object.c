/* A call as one JSON object: {"name": …, "arguments": {…}}, as Hermes, Llama, Mistral, Granite and Command write it.
 *
 * The members come in any order, and others may be beside them (an id). Where the name comes first the arguments go out
 * as they come; where it comes behind them they are held. An object without arguments is a call with {}. */
#include "core/check.h"
#include "template/answer/answer_impl.h"

void lf_answer_object_begin(struct lf_answer_parser *p)
{
    p->object = (struct lf_answer_object){0};
    lf_json_scan_init(&p->object.scan);
}

static bool key_is(const struct lf_answer_object *o, const char *const *names)
{
    for (; *names; names++)
        if (lf_str_eq(lf_str_from(o->key, o->n_key), lf_str_c(*names))) return true;
    return false;
}

static bool is_name(const struct lf_answer_object *o)
{
    static const char *const names[] = {"name", "tool_name", NULL};
    return key_is(o, names);
}

static bool is_arguments(const struct lf_answer_object *o)
{
    static const char *const names[] = {"arguments", "parameters", NULL};
    return key_is(o, names);
}

/* Arguments that came before the name, and the call with them. */
static void give_held_arguments(struct lf_answer_parser *p)
{
    const struct lf_answer_object *o = &p->object;
    lf_answer_call_begin(p, p->tool);
    lf_answer_put(&p->out, LF_ANSWER_ARGUMENTS, p->held.ptr + o->arguments_at, o->arguments_end - o->arguments_at);
    lf_answer_put_call_end(&p->out);
}

/* The first byte of a member's value. */
static bool begin_member(struct lf_answer_parser *p, char c)
{
    struct lf_answer_object *o = &p->object;
    if (is_name(o)) {
        if (c != '"' || o->has_name) return false;
        o->in_name = true;
        lf_answer_names_begin(&p->names);
    } else if (is_arguments(o)) {
        if (c != '{' || o->has_arguments) return false;
        o->in_arguments = true;
        o->arguments_at = p->held.len;
        if (o->has_name) {
            lf_buf_clear(&p->held);
            lf_answer_call_begin(p, p->tool);
        }
    }
    return true;
}

/* A byte of the name's string, or the quote behind it. */
static bool name_byte(struct lf_answer_parser *p, char c)
{
    struct lf_answer_object *o = &p->object;
    if (c != '"') return lf_answer_names_next(&p->names, c);
    p->tool = lf_answer_names_found(&p->names);
    o->in_name = false;
    o->has_name = p->tool != NULL;
    if (o->has_name && o->has_arguments) {
        give_held_arguments(p);
        lf_buf_clear(&p->held);
    }
    return o->has_name;
}

/* Bytes of the members' names. */
static void note_key(struct lf_answer_object *o, enum lf_json_scan_state before, char c)
{
    enum lf_json_scan_state now = o->scan.state;
    if (o->scan.depth != 1 || !o->scan.in_key) return;
    if (now != LF_SCAN_STRING && now != LF_SCAN_ESCAPE && now != LF_SCAN_HEX) return;
    if (before == LF_SCAN_FIRST_KEY || before == LF_SCAN_KEY) {
        o->n_key = 0;
    } else if (o->n_key < sizeof(o->key)) {
        o->key[o->n_key++] = c;
    }
}

static void end_object(struct lf_answer_parser *p)
{
    if (p->is_certain) return;
    lf_answer_call_begin(p, p->tool);
    lf_answer_put(&p->out, LF_ANSWER_ARGUMENTS, "{}", 2);
    lf_answer_put_call_end(&p->out);
    lf_buf_clear(&p->held);
}

enum lf_answer_fit lf_answer_object_byte(struct lf_answer_parser *p, char c)
{
    struct lf_answer_object *o = &p->object;
    enum lf_json_scan_state before = o->scan.state;
    bool begins = o->scan.depth == 1 && before == LF_SCAN_VALUE && !lf_json_is_space(c);
    if ((o->scan.depth == 0 && c != '{') || lf_answer_is_full(p)) return LF_FIT_NONE;
    if (!lf_json_scan_byte(&o->scan, c)) return LF_FIT_NONE;
    if (o->scan.state == LF_SCAN_END && !o->has_name) return LF_FIT_NONE;
    if (begins && !begin_member(p, c)) return LF_FIT_NONE;
    if (!begins && o->in_name && !name_byte(p, c)) return LF_FIT_NONE;
    note_key(o, before, c);
    if (o->in_arguments && p->is_certain) {
        lf_answer_argument(p, c);
    } else {
        (void)lf_answer_hold(p, c);
    }
    if (o->in_arguments && o->scan.depth == 1) {
        o->in_arguments = false;
        o->has_arguments = true;
        o->arguments_end = p->held.len;
        if (p->is_certain) lf_answer_put_call_end(&p->out);
    }
    if (o->scan.state != LF_SCAN_END) return LF_FIT_MORE;
    end_object(p);
    return LF_FIT_DONE;
}
