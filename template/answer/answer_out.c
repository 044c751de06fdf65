/* What a parser gives out, what it holds back, and the names it looks for. */
#include "core/check.h"
#include "core/sort.h"
#include "core/text_memory.h"
#include "template/answer/answer_impl.h"

static void give(struct lf_answer_out *out, size_t n)
{
    if (n == 0) return;
    out->sink->take(out->sink->ctx, out->kind, lf_str_from(out->bytes, n));
    out->n -= n;
    memmove(out->bytes, out->bytes + n, out->n);
}

void lf_answer_out_flush(struct lf_answer_out *out)
{
    give(out, out->n);
}

/* Where the last code point begins that may not be whole: a part that is cut for want of room ends before it. */
static size_t whole_code_points(const struct lf_answer_out *out)
{
    size_t at = out->n;
    while (at > 0 && out->n - at < 4 && ((unsigned char)out->bytes[at - 1] & 0xc0) == 0x80) at--;
    return at > 0 && (unsigned char)out->bytes[at - 1] >= 0xc0 ? at - 1 : out->n;
}

void lf_answer_put(struct lf_answer_out *out, enum lf_answer_kind kind, const char *bytes, size_t n)
{
    if (n == 0) return;
    if (kind != out->kind) lf_answer_out_flush(out);
    out->kind = kind;
    for (size_t i = 0; i < n; i++) {
        if (out->n == sizeof(out->bytes)) give(out, whole_code_points(out));
        out->bytes[out->n++] = bytes[i];
    }
}

void lf_answer_put_call(struct lf_answer_out *out, struct lf_str name)
{
    lf_answer_out_flush(out);
    out->sink->take(out->sink->ctx, LF_ANSWER_CALL, name);
}

void lf_answer_put_call_end(struct lf_answer_out *out)
{
    lf_answer_out_flush(out);
    out->sink->take(out->sink->ctx, LF_ANSWER_CALL_END, lf_str_from("", 0));
}

static int compare(struct lf_str a, struct lf_str b)
{
    int order = memcmp(a.ptr, b.ptr, LF_MIN(a.len, b.len));
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static bool comes_before(const void *a, const void *b)
{
    const struct lf_tool *const *x = a, *const *y = b;
    return compare((*x)->name, (*y)->name) < 0;
}

enum lf_status lf_answer_names_init(struct lf_answer_names *names, const struct lf_tool *tools, size_t n_tools,
                                    struct lf_text_memory *memory)
{
    *names = (struct lf_answer_names){0};
    if (n_tools == 0) return LF_OK;
    names->sorted = lf_text_alloc(memory, n_tools * sizeof(*names->sorted));
    if (!names->sorted) return LF_NO_MEMORY;
    for (size_t i = 0; i < n_tools; i++)
        if (tools[i].name.len > 0) names->sorted[names->n++] = &tools[i];
    lf_sort(names->sorted, names->n, sizeof(*names->sorted), comes_before);
    return LF_OK;
}

void lf_answer_names_begin(struct lf_answer_names *names)
{
    names->first = names->len = 0;
    names->end = names->n;
}

bool lf_answer_names_next(struct lf_answer_names *names, char c)
{
    size_t first = names->first, end = names->end, at = names->len;
    /* sorted, so those that go on with c are neighbours */
    while (first < end && (names->sorted[first]->name.len <= at || names->sorted[first]->name.ptr[at] != c)) first++;
    size_t last = first;
    while (last < end && names->sorted[last]->name.ptr[at] == c) last++;
    if (first == last) return false;
    names->first = first;
    names->end = last;
    names->len++;
    return true;
}

const struct lf_tool *lf_answer_names_found(const struct lf_answer_names *names)
{
    bool is_one = names->len > 0 && names->first < names->end;
    return is_one && names->sorted[names->first]->name.len == names->len ? names->sorted[names->first] : NULL;
}

bool lf_answer_hold(struct lf_answer_parser *p, char c)
{
    LF_ASSERT(p->held.len < p->held.ceiling);
    lf_buf_char(&p->held, c);
    if (p->held.status != LF_OK) p->status = LF_NO_MEMORY;
    return p->status == LF_OK;
}

void lf_answer_call_begin(struct lf_answer_parser *p, const struct lf_tool *tool)
{
    p->tool = tool;
    p->is_certain = true;
    p->at_start = false;
    p->is_think_left_open = p->is_think_left_open || p->in_reasoning;
    p->in_reasoning = false;
    lf_answer_put_call(&p->out, tool->name);
}

void lf_answer_argument(struct lf_answer_parser *p, char c)
{
    lf_answer_put(&p->out, LF_ANSWER_ARGUMENTS, &c, 1);
}
