/* Fuzzing the compilers of grammars: the first byte says which, the rest is a schema (j, strict: s, with white space:
 * w), a pattern (r) or parts (p). What is compiled is answered at random over a vocabulary of bytes, some pieces of
 * JSON and two control tokens: some token is allowed until the answer ends, what the mask allows is accepted and
 * nothing else, a whole answer of a schema is JSON, and one of parts is UTF-8 between its control tokens.
 *
 * Parts are written from the front, each with a letter: t c r k (a text, a control token, a pattern, a schema: up to
 * the next NUL), f u (free text: the number of its markers, which follow), s a (the number of parts, which follow), and
 * * (the least and the greatest number, as digits; a part follows). LF_FUZZ_KINDS in the environment: how often each
 * was run is printed at the end. */
#include "core/json.h"
#include "core/mix.h"
#include "grammar/grammar.h"
#include "tests/fuzz/fuzz.h"

enum { PIECES_N = 14, TOKENS_N = 256 + PIECES_N + 1, END = TOKENS_N - 1, STEPS_N = 60, PARTS_N = 24 };

static const char *const pieces[PIECES_N] = {"\"}", "\",\"",     "\":\"", "{\"",   "[[",  "],",      "aa",
                                             "12",  "\xc3\xa9x", "null",  "\\u00", "\"]", "\xff<1>", "\xff<2>"};

static struct lf_vocabulary *the_vocabulary(void)
{
    static struct lf_vocabulary *v;
    static char bytes[256];
    struct lf_str tokens[TOKENS_N];
    int32_t end = END;
    if (v) return v;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        tokens[i] = lf_str_from(&bytes[i], 1);
    }
    for (int i = 0; i < PIECES_N; i++) tokens[256 + i] = lf_str_c(pieces[i]);
    tokens[END] = LF_STR("");
    LF_ASSERT(lf_vocabulary_create(&v, tokens, TOKENS_N, &end, 1, 1 << 16, NULL) == LF_OK);
    return v;
}

enum what { SCHEMA, PATTERN, PARTS, N_KINDS };

static unsigned long n_runs[N_KINDS], n_compiled[N_KINDS];

static void print_runs(void)
{
    static const char *const names[] = {"schemas", "patterns", "parts"};
    for (int i = 0; i < N_KINDS; i++) fprintf(stderr, "%s: %lu, %lu compiled\n", names[i], n_runs[i], n_compiled[i]);
}

/* UTF-8 but for LF_GRAMMAR_CONTROL. */
static bool is_text(struct lf_str text)
{
    for (size_t i = 0; i < text.len;) {
        size_t end = i;
        while (end < text.len && text.ptr[end] != LF_GRAMMAR_CONTROL) end++;
        if (!lf_utf8_valid(lf_str_from(text.ptr + i, end - i))) return false;
        i = end + 1;
    }
    return true;
}

static void answer(const struct lf_grammar *g, uint64_t seed, enum what what)
{
    struct lf_matcher *m = NULL;
    struct lf_buf text;
    uint32_t mask[(TOKENS_N + 31) / 32], n_allowed;
    lf_buf_init(&text, 1 << 16);
    LF_ASSERT(lf_matcher_create(&m, g, the_vocabulary(), NULL) == LF_OK);
    for (int step = 0; step < STEPS_N; step++) {
        enum lf_status status = lf_matcher_mask(m, mask, &n_allowed);
        if (status == LF_LIMIT) break;
        LF_ASSERT(status == LF_OK);
        if (n_allowed == 0 && what == PARTS)
            break; /* a control token that there is not, or the end of a whole answer */
        LF_ASSERT(n_allowed > 0);
        seed = lf_mix64(seed);
        int other = (int)(seed % TOKENS_N), token = other;
        while (!(mask[token / 32] >> token % 32 & 1)) token = (token + 1) % TOKENS_N;
        if (other != token) LF_ASSERT(lf_matcher_accept(m, other) == LF_INVALID);
        status = lf_matcher_accept(m, token);
        if (status == LF_LIMIT) break;
        LF_ASSERT(status == LF_OK);
        if (token == END) break;
        if (token < 256)
            lf_buf_char(&text, (char)token);
        else
            lf_buf_cstr(&text, pieces[token - 256]);
        struct lf_json doc = {0};
        if (what == PARTS && lf_matcher_is_complete(m)) LF_ASSERT(is_text(lf_buf_view(&text)));
        if (what == SCHEMA && lf_matcher_is_complete(m)) {
            struct lf_json_limits limits = {LF_JSON_DEPTH, LF_JSON_NODES};
            status = lf_json_parse(&doc, lf_buf_view(&text), &limits, NULL);
            /* a name that no schema lists may come twice, which is JSON, and which this reader refuses */
            LF_ASSERT(status == LF_OK || memchr(text.ptr, '{', text.len) != NULL);
            lf_json_deinit(&doc);
        }
    }
    lf_matcher_destroy(m);
    lf_buf_deinit(&text);
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

static enum lf_status compile_parts(struct lf_grammar **out, struct lf_str text, struct lf_err *err)
{
    static struct reading r;
    size_t n;
    r = (struct reading){.data = (const uint8_t *)text.ptr, .size = text.len};
    enum lf_status status = lf_grammar_of_parts(out, read_parts(&r, 1, &n, 0), NULL, err);
    while (r.n_docs) lf_json_deinit(&r.docs[--r.n_docs]);
    return status;
}

static enum lf_status compile_schema(struct lf_grammar **out, char how, struct lf_str text, bool *is_json,
                                     struct lf_err *err)
{
    struct lf_json doc = {0};
    struct lf_grammar_options options = {.strict = how == 's'};
    if (how == 'w') options.whitespace = LF_STR("[ \\n]{0,3}");
    enum lf_status status = lf_json_parse(&doc, text, &lf_json_limits_request, err);
    *is_json = status == LF_OK;
    if (*is_json) status = lf_grammar_of_schema(out, lf_json_root(&doc), &options, NULL, err);
    lf_json_deinit(&doc);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lf_grammar *g = NULL;
    struct lf_err err = {0};
    enum lf_status status;
    bool is_json = true;
    if (size == 0) return 0;
    if (n_runs[0] + n_runs[1] + n_runs[2] == 0 && getenv("LF_FUZZ_KINDS")) atexit(print_runs);
    struct lf_str text = lf_str_from((const char *)data + 1, size - 1);
    enum what what = data[0] == 'r' ? PATTERN : data[0] == 'p' ? PARTS : SCHEMA;
    if (what == PATTERN && !lf_utf8_valid(text)) return 0;
    if (what == PATTERN)
        status = lf_grammar_of_regex(&g, text, NULL, &err);
    else if (what == PARTS)
        status = compile_parts(&g, text, &err);
    else
        status = compile_schema(&g, (char)data[0], text, &is_json, &err);
    if (!is_json) return 0;
    LF_ASSERT(status == LF_OK || err.message[0] != 0);
    LF_ASSERT(status == LF_OK || status == LF_INVALID || status == LF_UNSUPPORTED || status == LF_LIMIT);
    n_runs[what]++;
    n_compiled[what] += status == LF_OK;
    if (status == LF_OK)
        for (uint64_t seed = 0; seed < 2; seed++) answer(g, size * 7 + seed, what);
    lf_grammar_unref(g);
    return 0;
}
