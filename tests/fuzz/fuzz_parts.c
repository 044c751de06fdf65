/* Fuzzing the compiler of grammars made of parts: a tree of them. What is compiled is answered at random
 * (use_grammar.h), and a whole answer is UTF-8 between its control tokens.
 *
 * Parts are written from the front, each with a letter: t c r k (a text, a control token, a pattern, a schema: up to
 * the next NUL), f u (free text: the number of its markers, which follow), s a (the number of parts, which follow), and
 * * (the least and the greatest number, as digits; a part follows). */
#include "core/json.h"
#include "tests/fuzz/use_grammar.h"

enum { PARTS_N = 24 };

/* UTF-8 but for LF_GRAMMAR_CONTROL. */
static void check_whole(void *ctx, struct lf_str text)
{
    (void)ctx;
    for (size_t i = 0; i < text.len;) {
        size_t end = i;
        while (end < text.len && text.ptr[end] != LF_GRAMMAR_CONTROL) end++;
        LF_ASSERT(lf_utf8_valid(lf_str_from(text.ptr + i, end - i)));
        i = end + 1;
    }
}

/* What an input of parts is read into. */
struct reading {
    const uint8_t *data;
    size_t size;
    struct lf_grammar_part parts[PARTS_N];
    struct lf_json docs[PARTS_N];
    size_t n, n_docs;
};

static uint32_t digit(struct reading *r)
{
    uint32_t d = r->size ? (uint32_t)(*r->data - '0') % 10 : 0;
    r->data += r->size ? 1 : 0;
    r->size -= r->size ? 1 : 0;
    return d;
}

/* n parts, side by side; what does not fit is left out. */
static const struct lf_grammar_part *read_parts(struct reading *r, size_t n, size_t *n_read, int depth)
{
    static const char letters[] = "tckrfusa*"; /* in the order of enum lf_grammar_part_kind */
    struct lf_grammar_part *list = &r->parts[r->n];
    if (n > PARTS_N - r->n) n = PARTS_N - r->n;
    r->n += n;
    *n_read = n;
    for (size_t i = 0; i < n; i++) {
        const char *letter = r->size ? memchr(letters, *r->data, sizeof letters - 1) : NULL;
        struct lf_grammar_part *p = &list[i];
        p->kind = letter && depth < 40 ? (enum lf_grammar_part_kind)(letter - letters) : LF_PART_TEXT;
        (void)digit(r);
        if (p->kind == LF_PART_REPEAT) {
            p->min = digit(r);
            p->max = digit(r);
        }
        if (p->kind >= LF_PART_FREE)
            p->parts = read_parts(r, p->kind == LF_PART_REPEAT ? 1 : digit(r), &p->n_parts, depth + 1);
        else
            p->text = fuzz_part(&r->data, &r->size);
        if (p->kind == LF_PART_SCHEMA &&
            lf_json_parse(&r->docs[r->n_docs], p->text, &lf_json_limits_request, NULL) == LF_OK)
            p->schema = lf_json_root(&r->docs[r->n_docs++]);
    }
    return list;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct reading r;
    struct lf_grammar *g = NULL;
    struct lf_err err = {0};
    size_t n;
    struct lf_work work = fuzz_work(data, size);
    r = (struct reading){.data = data, .size = size};
    enum lf_status status = lf_grammar_of_parts(&g, read_parts(&r, 1, &n, 0), &work, &err);
    while (r.n_docs) lf_json_deinit(&r.docs[--r.n_docs]);
    fuzz_check_compiled(status, &err);
    for (uint64_t seed = 0; seed < 2 && status == LF_OK; seed++)
        fuzz_answer_at_random(g, &work, size * 7 + seed, true, check_whole, NULL);
    lf_grammar_unref(g);
    return 0;
}
