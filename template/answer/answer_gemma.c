/* Arguments as Gemma 4 writes them: {city:<|"|>Rome<|"|>,days:3,options:{units:[<|"|>C<|"|>]}}: JSON without quotes
 * around names, and with a marker of its own around strings. They become the text of a JSON object.
 *
 * A word that stands without markers is what it says where that is a number, true, false or null, and a string where it
 * is not. */
#include "core/check.h"
#include "template/answer/answer_impl.h"

static const char quote[] = "<|\"|>";
enum { WORD_BYTES = 1024 };

static void put(struct lf_answer_parser *p, char c)
{
    lf_answer_argument(p, c);
}

static bool in_object(const struct lf_answer_gemma *g)
{
    return g->objects >> (g->depth - 1) & 1;
}

static bool open_value(struct lf_answer_parser *p, char c)
{
    struct lf_answer_gemma *g = &p->gemma;
    if (g->depth >= LF_JSON_DEPTH) return false;
    uint64_t bit = (uint64_t)1 << g->depth++;
    g->objects = c == '{' ? g->objects | bit : g->objects & ~bit;
    g->state = c == '{' ? LF_GEMMA_FIRST_KEY : LF_GEMMA_FIRST_VALUE;
    put(p, c);
    return true;
}

/* Behind a value: a comma or the end of what it stands in. */
static enum lf_answer_fit next_byte(struct lf_answer_parser *p, char c)
{
    struct lf_answer_gemma *g = &p->gemma;
    if (c == ',') {
        g->state = in_object(g) ? LF_GEMMA_KEY : LF_GEMMA_VALUE;
        put(p, c);
        return LF_FIT_MORE;
    }
    if (c != (in_object(g) ? '}' : ']')) return LF_FIT_NONE;
    put(p, c);
    g->state = LF_GEMMA_NEXT;
    if (--g->depth > 0) return LF_FIT_MORE;
    lf_answer_put_call_end(&p->out);
    return LF_FIT_DONE;
}

static void begin_word(struct lf_answer_parser *p, enum lf_answer_gemma_state state)
{
    p->gemma.state = state;
    lf_buf_clear(&p->held);
}

/* A byte of the marker around strings, in whose place a word may stand instead. */
static enum lf_answer_fit quote_byte(struct lf_answer_parser *p, char c, enum lf_answer_gemma_state inside)
{
    struct lf_answer_gemma *g = &p->gemma;
    if (quote[g->n_quote] != c || !lf_answer_hold(p, c)) return LF_FIT_NONE;
    if (quote[++g->n_quote] != 0) return LF_FIT_MORE;
    g->n_quote = 0;
    begin_word(p, inside);
    put(p, '"');
    return LF_FIT_MORE;
}

static enum lf_answer_fit begin_key(struct lf_answer_parser *p, char c)
{
    struct lf_answer_gemma *g = &p->gemma;
    if (g->n_quote > 0 || c == quote[0]) return quote_byte(p, c, LF_GEMMA_QUOTED_KEY);
    if (c == '}') return g->state == LF_GEMMA_FIRST_KEY ? next_byte(p, c) : LF_FIT_NONE;
    if (lf_json_is_space(c)) return LF_FIT_MORE;
    if (strchr(":,{]", c)) return LF_FIT_NONE; /* NUL too */
    begin_word(p, LF_GEMMA_BARE_KEY);
    put(p, '"');
    lf_answer_put_escaped(p, &c, 1);
    return LF_FIT_MORE;
}

static enum lf_answer_fit begin_value(struct lf_answer_parser *p, char c)
{
    struct lf_answer_gemma *g = &p->gemma;
    if (g->n_quote > 0 || c == quote[0]) return quote_byte(p, c, LF_GEMMA_STRING);
    if (lf_json_is_space(c)) return LF_FIT_MORE;
    if (c == '{' || c == '[') return open_value(p, c) ? LF_FIT_MORE : LF_FIT_NONE;
    if (c == ']' && g->state == LF_GEMMA_FIRST_VALUE) return next_byte(p, c);
    if (strchr(":,}]", c)) return LF_FIT_NONE;
    begin_word(p, LF_GEMMA_WORD);
    return lf_answer_hold(p, c) ? LF_FIT_MORE : LF_FIT_NONE;
}

static enum lf_answer_fit bare_key_byte(struct lf_answer_parser *p, char c)
{
    if (c == 0 || strchr(",{}[]", c)) return LF_FIT_NONE;
    if (c != ':') {
        lf_answer_put_escaped(p, &c, 1);
        return LF_FIT_MORE;
    }
    put(p, '"');
    put(p, ':');
    p->gemma.state = LF_GEMMA_VALUE;
    return LF_FIT_MORE;
}

/* A string or a name up to its marker; what is held is the beginning of one, whose first byte stands nowhere else in
 * it. */
static enum lf_answer_fit quoted_byte(struct lf_answer_parser *p, char c)
{
    struct lf_answer_gemma *g = &p->gemma;
    if (quote[p->held.len] != c) {
        lf_answer_put_escaped(p, p->held.ptr, p->held.len);
        lf_buf_clear(&p->held);
        if (c != quote[0]) {
            lf_answer_put_escaped(p, &c, 1);
            return LF_FIT_MORE;
        }
    }
    if (!lf_answer_hold(p, c)) return LF_FIT_NONE;
    if (quote[p->held.len] != 0) return LF_FIT_MORE;
    lf_buf_clear(&p->held);
    put(p, '"');
    g->state = g->state == LF_GEMMA_STRING ? LF_GEMMA_NEXT : LF_GEMMA_COLON;
    return LF_FIT_MORE;
}

static enum lf_answer_fit word_byte(struct lf_answer_parser *p, char c)
{
    if (c != 0 && !strchr(",{}[]", c))
        return p->held.len < WORD_BYTES && lf_answer_hold(p, c) ? LF_FIT_MORE : LF_FIT_NONE;
    struct lf_str word = lf_str_trim(lf_buf_view(&p->held));
    lf_answer_put_value(p, word, false);
    begin_word(p, LF_GEMMA_NEXT);
    return next_byte(p, c);
}

void lf_answer_gemma_begin(struct lf_answer_parser *p)
{
    p->gemma = (struct lf_answer_gemma){.state = LF_GEMMA_VALUE};
}

enum lf_answer_fit lf_answer_gemma_byte(struct lf_answer_parser *p, char c)
{
    struct lf_answer_gemma *g = &p->gemma;
    if (g->depth == 0) {
        if (c != '{') return LF_FIT_NONE;
        lf_buf_clear(&p->held);
        lf_answer_call_begin(p, p->tool);
        return open_value(p, c) ? LF_FIT_MORE : LF_FIT_NONE;
    }
    switch (g->state) {
    case LF_GEMMA_FIRST_KEY:
    case LF_GEMMA_KEY:
        return begin_key(p, c);
    case LF_GEMMA_BARE_KEY:
        return bare_key_byte(p, c);
    case LF_GEMMA_QUOTED_KEY:
    case LF_GEMMA_STRING:
        return quoted_byte(p, c);
    case LF_GEMMA_COLON:
        if (c != ':') return LF_FIT_NONE;
        put(p, c);
        g->state = LF_GEMMA_VALUE;
        return LF_FIT_MORE;
    case LF_GEMMA_FIRST_VALUE:
    case LF_GEMMA_VALUE:
        return begin_value(p, c);
    case LF_GEMMA_WORD:
        return word_byte(p, c);
    case LF_GEMMA_NEXT:
        return lf_json_is_space(c) ? LF_FIT_MORE : next_byte(p, c);
    }
    return LF_FIT_NONE;
}
