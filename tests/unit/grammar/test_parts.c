/* grammar/parts.c, free_text.c and control tokens: what a grammar of parts takes is what a slow reader of the same
 * parts says, over random trees of them; masks are what trying every token says; errors have names. */
#include "core/mix.h"
#include "tests/unit/grammar/rig.h"

enum { TREES_N = 160, NODES_N = 64, TEXT_BYTES = 48, PIECES_N = 120 };

static uint64_t seed;

static uint32_t random_below(uint32_t n)
{
    seed = lf_mix64(seed + 1);
    return (uint32_t)(seed % n);
}

#define PART(k, ...) ((struct lf_grammar_part){.kind = LF_PART_##k, __VA_ARGS__})
#define LIST(k, ...)                                                                                                   \
    PART(k, .parts = (struct lf_grammar_part[]){__VA_ARGS__},                                                          \
         .n_parts = sizeof((struct lf_grammar_part[]){__VA_ARGS__}) / sizeof(struct lf_grammar_part))
#define ONLY(k)    ((struct lf_grammar_part){.kind = LF_PART_##k})
#define TEXT(t)    PART(TEXT, .text = LF_STR(t))
#define CONTROL(t) PART(CONTROL, .text = LF_STR(t))

static struct lf_grammar *grammar_of_parts(const struct lf_grammar_part *root)
{
    struct lf_grammar *g = NULL;
    struct lf_err err = {0};
    if (lf_grammar_of_parts(&g, root, NULL, &err) != LF_OK) fail_msg("%s", err.message);
    return g;
}

/* ------------------------------------------------------------------------------------------------ a slow reader */

/* Schemas and patterns with few texts, and those texts. */
static const struct {
    const char *source;
    const char *texts[5];
} schemas[] = {{"{\"enum\":[\"a\",1,\"<a>\"]}", {"\"a\"", "1", "\"<a>\""}},
               {"{\"type\":\"boolean\"}", {"true", "false"}},
               {"{\"type\":\"object\",\"properties\":{\"a\":{\"const\":1},\"b\":{\"type\":\"null\"}},"
                "\"required\":[\"a\"],\"additionalProperties\":false}",
                {"{\"a\":1}", "{\"a\":1,\"b\":null}"}},
               {"{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"maxItems\":1}", {"[]", "[1]", "[2]"}}},
  patterns[] = {{"ab?|<", {"a", "ab", "<"}}, {"(ba)?", {"", "ba"}}, {"[a\\u00e9]", {"a", "\xc3\xa9"}}};
static struct lf_json documents[sizeof schemas / sizeof *schemas];

static bool begins(struct lf_str text, size_t at, struct lf_str part)
{
    return text.len - at >= part.len && memcmp(text.ptr + at, part.ptr, part.len) == 0;
}

/* The bytes of a marker that ends just before `end`, and begins at `from` or later; 0: there is none. */
static size_t marker_before(const struct lf_grammar_part *p, struct lf_str text, size_t from, size_t end)
{
    for (size_t i = 0; i < p->n_parts; i++) {
        size_t len = p->parts[i].text.len;
        if (p->parts[i].kind == LF_PART_TEXT && end - from >= len && begins(text, end - len, p->parts[i].text))
            return len;
    }
    return 0;
}

/* Where free text that begins at `at` may end (LF_PART_UNTIL: with its marker). */
static void read_free(const struct lf_grammar_part *p, struct lf_str text, size_t at, bool *out)
{
    for (size_t end = at; end <= text.len; end++) {
        bool until = p->kind == LF_PART_UNTIL, whole = lf_utf8_valid(lf_str_from(text.ptr + at, end - at));
        if (marker_before(p, text, at, end)) {
            out[end] |= until;
            return;
        }
        out[end] |= !until && whole;
        for (size_t i = 0; i < p->n_parts && until && whole && end < text.len; i++)
            if (p->parts[i].kind == LF_PART_CONTROL && text.ptr[end] == LF_GRAMMAR_CONTROL &&
                begins(text, end + 1, p->parts[i].text))
                out[end + 1 + p->parts[i].text.len] = true;
        if (end < text.len && text.ptr[end] == LF_GRAMMAR_CONTROL) return;
    }
}

static void read_part(const struct lf_grammar_part *p, struct lf_str text, const bool *in, bool *out);

static void read_repeat(const struct lf_grammar_part *p, struct lf_str text, const bool *in, bool *out)
{
    bool now[TEXT_BYTES + 1], next[TEXT_BYTES + 1];
    memcpy(now, in, sizeof now);
    for (uint32_t n = 0; n <= (p->max ? p->max : p->min + TEXT_BYTES); n++) {
        for (size_t i = 0; i <= text.len && n >= p->min; i++) out[i] |= now[i];
        memset(next, 0, sizeof next);
        read_part(&p->parts[0], text, now, next);
        memcpy(now, next, sizeof now);
    }
}

static void read_texts(const char *const *texts, struct lf_str text, size_t at, bool *out)
{
    for (int i = 0; i < 5 && texts[i]; i++)
        if (begins(text, at, lf_str_c(texts[i]))) out[at + strlen(texts[i])] = true;
}

static void read_one(const struct lf_grammar_part *p, struct lf_str text, size_t at, bool *out)
{
    if (p->kind == LF_PART_TEXT && begins(text, at, p->text)) out[at + p->text.len] = true;
    if (p->kind == LF_PART_CONTROL && at < text.len && text.ptr[at] == LF_GRAMMAR_CONTROL &&
        begins(text, at + 1, p->text))
        out[at + 1 + p->text.len] = true;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        if (p->kind == LF_PART_SCHEMA && p->schema.json == &documents[i]) read_texts(schemas[i].texts, text, at, out);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (p->kind == LF_PART_REGEX && p->text.ptr == patterns[i].source) read_texts(patterns[i].texts, text, at, out);
    if (p->kind == LF_PART_FREE || p->kind == LF_PART_UNTIL) read_free(p, text, at, out);
}

/* out: where the part may end, of texts that begin where `in` says. */
static void read_part(const struct lf_grammar_part *p, struct lf_str text, const bool *in, bool *out)
{
    bool now[TEXT_BYTES + 1], next[TEXT_BYTES + 1];
    if (p->kind == LF_PART_SEQUENCE) {
        memcpy(now, in, sizeof now);
        for (size_t i = 0; i < p->n_parts; i++) {
            memset(next, 0, sizeof next);
            read_part(&p->parts[i], text, now, next);
            memcpy(now, next, sizeof now);
        }
        for (size_t i = 0; i <= text.len; i++) out[i] |= now[i];
    } else if (p->kind == LF_PART_ALTERNATIVE) {
        for (size_t i = 0; i < p->n_parts; i++) read_part(&p->parts[i], text, in, out);
    } else if (p->kind == LF_PART_REPEAT) {
        read_repeat(p, text, in, out);
    } else {
        for (size_t at = 0; at <= text.len; at++)
            if (in[at]) read_one(p, text, at, out);
    }
}

static bool slow_reader_takes(const struct lf_grammar_part *p, struct lf_str text)
{
    bool in[TEXT_BYTES + 1] = {true}, out[TEXT_BYTES + 1] = {false};
    assert_true(text.len <= TEXT_BYTES);
    read_part(p, text, in, out);
    return out[text.len];
}

/* ------------------------------------------------------------------------------------------------ random trees */

static const char *const controls[] = {"<1>", "<1", "<2>", "<e>"};
static const char *const pieces[] = {"a", "b", "<", ">", "<a>", "<a", "ab", "\xc3\xa9", "{\"a\":", "1", "}", "\""};

static struct lf_str random_marker(void)
{
    static const char *const markers[] = {"<a>", "<", "a<", "\xc3\xa9", "ab", "<a", "b<a>"};
    return lf_str_c(markers[random_below(sizeof markers / sizeof *markers)]);
}

struct tree {
    struct lf_grammar_part nodes[NODES_N];
    size_t n;
};

static void fill_markers(struct tree *t, struct lf_grammar_part *p)
{
    p->n_parts = random_below(4) + (p->kind == LF_PART_UNTIL);
    p->parts = &t->nodes[t->n];
    for (size_t i = 0; i < p->n_parts; i++, t->n++)
        t->nodes[t->n] = random_below(4) ? PART(TEXT, .text = random_marker())
                                         : PART(CONTROL, .text = lf_str_c(controls[random_below(4)]));
}

static struct lf_grammar_part random_part(struct tree *t, int depth)
{
    struct lf_grammar_part p = {.kind = (enum lf_grammar_part_kind)random_below(depth > 0 ? 9 : 6)};
    if (t->n + 12 > NODES_N) p.kind = LF_PART_TEXT;
    size_t i;
    switch (p.kind) {
    case LF_PART_TEXT:
        p.text = random_below(8) ? lf_str_c(pieces[random_below(8)]) : LF_STR("");
        break;
    case LF_PART_CONTROL:
        p.text = lf_str_c(controls[random_below(4)]);
        break;
    case LF_PART_SCHEMA:
        p.schema = lf_json_root(&documents[random_below(sizeof schemas / sizeof *schemas)]);
        break;
    case LF_PART_REGEX:
        i = random_below(sizeof patterns / sizeof *patterns);
        p.text = lf_str_c(patterns[i].source);
        break;
    case LF_PART_FREE:
    case LF_PART_UNTIL:
        fill_markers(t, &p);
        break;
    default:
        p.n_parts = p.kind == LF_PART_REPEAT ? 1 : 1 + random_below(3);
        p.parts = &t->nodes[t->n];
        i = t->n;
        t->n += p.n_parts;
        for (size_t k = 0; k < p.n_parts; k++) {
            struct lf_grammar_part child = random_part(t, depth - 1);
            t->nodes[i + k] = child;
        }
        p.min = random_below(3);
        p.max = random_below(2) ? 0 : p.min + random_below(3);
    }
    return p;
}

/* ------------------------------------------------------------------------------------------------ comparing */

enum { END_N = 1, TOKENS_N = 256 + PIECES_N + 4 + END_N, FIRST_CONTROL = 256 + PIECES_N };

static struct lf_str tokens[TOKENS_N];

/* All bytes, pieces glued at random, control tokens, and an end; the last control token is an end, too. */
static struct lf_vocabulary *vocabulary_of_pieces(void)
{
    static char bytes[TOKENS_N][24];
    struct lf_vocabulary *v = NULL;
    for (int i = 0; i < TOKENS_N - END_N; i++) {
        size_t len = 0;
        if (i < 256) bytes[i][len++] = (char)i;
        for (uint32_t k = 0, n = 1 + random_below(3); i >= 256 && i < FIRST_CONTROL && k < n; k++)
            for (const char *p = pieces[random_below(sizeof pieces / sizeof *pieces)]; *p; p++) bytes[i][len++] = *p;
        if (i >= FIRST_CONTROL) {
            bytes[i][len++] = LF_GRAMMAR_CONTROL;
            for (const char *p = controls[i - FIRST_CONTROL]; *p; p++) bytes[i][len++] = *p;
        }
        tokens[i] = lf_str_from(bytes[i], len);
    }
    tokens[TOKENS_N - 1] = LF_STR("");
    int32_t ends[] = {TOKENS_N - 1, TOKENS_N - 2};
    assert_int_equal(lf_vocabulary_create(&v, tokens, TOKENS_N, ends, 2, 1 << (10 + random_below(8)), NULL), LF_OK);
    return v;
}

/* Every token tried alone, by a matcher that has read the same ones. */
static void compare_with_trying(const struct lf_grammar *g, struct lf_vocabulary *v, const int32_t *so_far, int n,
                                const uint32_t *mask)
{
    struct lf_matcher *m = NULL;
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    for (int32_t i = 0; i < TOKENS_N; i++) {
        lf_matcher_restart(m);
        for (int k = 0; k < n; k++) assert_int_equal(lf_matcher_accept(m, so_far[k]), LF_OK);
        bool expected = lf_matcher_accept(m, i) == LF_OK;
        if ((mask[i / 32] >> i % 32 & 1) != expected) fail_msg("token %.*s", (int)tokens[i].len, tokens[i].ptr);
    }
    lf_matcher_destroy(m);
}

/* One answer by masks; after each token the slow reader says whether it is whole. */
static void answer(const struct lf_grammar_part *p, const struct lf_grammar *g, struct lf_vocabulary *v, bool try_all)
{
    struct lf_matcher *m = NULL;
    uint32_t mask[(TOKENS_N + 31) / 32], n_allowed;
    int32_t so_far[TEXT_BYTES];
    char bytes[TEXT_BYTES + 32];
    size_t len = 0;
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    for (int n = 0; n < TEXT_BYTES; n++) {
        assert_int_equal(lf_matcher_mask(m, mask, &n_allowed), LF_OK);
        assert_int_equal(lf_matcher_is_complete(m), slow_reader_takes(p, lf_str_from(bytes, len)));
        if (n_allowed == 0) assert_true(lf_matcher_is_finished(m));
        if (n_allowed == 0) break;
        if (try_all && n % 2 == 0) compare_with_trying(g, v, so_far, n, mask);
        int32_t token = (int32_t)random_below(TOKENS_N);
        if (random_below(4)) token = 256 + (int32_t)random_below(TOKENS_N - 256);
        while (!(mask[token / 32] >> token % 32 & 1)) token = (token + 1) % TOKENS_N;
        bool is_end = token == TOKENS_N - 1 || (token == TOKENS_N - 2 && random_below(2));
        if (is_end || len + tokens[token].len > TEXT_BYTES) break;
        assert_int_equal(lf_matcher_accept(m, token), LF_OK);
        if (lf_matcher_is_finished(m)) break;
        so_far[n] = token;
        memcpy(bytes + len, tokens[token].ptr, tokens[token].len);
        len += tokens[token].len;
    }
    lf_matcher_destroy(m);
}

/* A text that no mask has made. */
static void read_any_text(const struct lf_grammar_part *p, const struct lf_grammar *g, struct lf_vocabulary *v)
{
    char bytes[TEXT_BYTES + 16];
    size_t len = 0, n = random_below(6);
    struct lf_matcher *m = NULL;
    for (size_t i = 0; i < n; i++) {
        struct lf_str piece = tokens[256 + random_below(TOKENS_N - 256)];
        if (len + piece.len > TEXT_BYTES) break;
        memcpy(bytes + len, piece.ptr, piece.len);
        len += piece.len;
    }
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    bool taken = lf_matcher_accept_bytes(m, lf_str_from(bytes, len)) == LF_OK && lf_matcher_is_complete(m);
    assert_int_equal(taken, slow_reader_takes(p, lf_str_from(bytes, len)));
    lf_matcher_destroy(m);
}

static void random_trees_take_what_a_slow_reader_takes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        assert_int_equal(lf_json_parse(&documents[i], lf_str_c(schemas[i].source), &lf_json_limits_request, NULL), 0);
    int n_compiled = 0;
    for (uint64_t round = 0; round < TREES_N; round++) {
        static struct tree t;
        seed = round * 1000;
        struct lf_vocabulary *v = vocabulary_of_pieces();
        t.n = 0;
        struct lf_grammar_part root = random_part(&t, 4);
        struct lf_grammar *g = NULL;
        enum lf_status status = lf_grammar_of_parts(&g, &root, NULL, NULL);
        if (status != LF_OK) assert_int_equal(status, LF_UNSUPPORTED); /* free text behind free text */
        n_compiled += status == LF_OK;
        for (int i = 0; i < 8 && g; i++) answer(&root, g, v, i == 0 && round % 4 == 0);
        for (int i = 0; i < 40 && g; i++) read_any_text(&root, g, v);
        lf_grammar_unref(g);
        lf_vocabulary_destroy(v);
    }
    assert_true(n_compiled > TREES_N / 2);
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) lf_json_deinit(&documents[i]);
}

static void free_text_or_a_call(void **state)
{
    (void)state;
    struct lf_vocabulary *v = vocabulary_of_bytes();
    struct lf_grammar_part marker = TEXT("<call>"), object = ONLY(SCHEMA), call;
    call = LIST(SEQUENCE, PART(UNTIL, .parts = &marker, .n_parts = 1), object, TEXT("</call>"));
    struct lf_grammar_part calls = PART(REPEAT, .parts = &call, .n_parts = 1),
                           rest = PART(FREE, .parts = &marker, .n_parts = 1);
    struct lf_grammar_part root = LIST(SEQUENCE, calls, rest);
    struct lf_grammar *g = grammar_of_parts(&root);
    assert_true(takes(g, v, "") && takes(g, v, "no call at all, <cal is none") && takes(g, v, "\xc3\xa9"));
    assert_true(takes(g, v, "x<call>{}</call>") && takes(g, v, "<call>{\"a\":1}</call>y<call>{}</call> z"));
    assert_false(takes(g, v, "x<call>") || takes(g, v, "<call>[]</call>") || takes(g, v, "<call>{}</cal"));
    assert_false(takes(g, v, "\xc3") || takes(g, v, "a\xff"));
    lf_grammar_unref(g);
    lf_vocabulary_destroy(v);
}

static void only_the_named_control_token_is_allowed(void **state)
{
    (void)state;
    static const char *const texts[] = {"<",      "1",       ">",       "a",     "\xff",
                                        "\xff<1", "\xff<1>", "\xff<1>", "a\xff", "\xff\xff"};
    struct lf_str list[10];
    int32_t end = 0;
    uint32_t mask, n;
    struct lf_vocabulary *v = NULL;
    struct lf_matcher *m = NULL;
    for (int i = 0; i < 10; i++) list[i] = lf_str_c(texts[i]);
    assert_int_equal(lf_vocabulary_create(&v, list, 10, &end, 1, 1 << 12, NULL), LF_OK);
    assert_true(lf_vocabulary_has_control(v, LF_STR("<1>")) && lf_vocabulary_has_control(v, LF_STR("<1")));
    assert_false(lf_vocabulary_has_control(v, LF_STR("<")) || lf_vocabulary_has_control(v, LF_STR("")));
    struct lf_grammar_part root = LIST(SEQUENCE, ONLY(FREE), CONTROL("<1>"), TEXT("a"));
    struct lf_grammar *g = grammar_of_parts(&root);
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    assert_int_equal(lf_matcher_mask(m, &mask, &n), LF_OK);
    assert_int_equal(mask, 1u << 1 | 1u << 2 | 1u << 3 | 1u << 6 | 1u << 7);
    assert_int_equal(n, 5);
    for (int i = 4; i < 10; i++)
        if (i != 6 && i != 7) assert_int_equal(lf_matcher_accept(m, i), LF_INVALID);
    assert_int_equal(lf_matcher_accept(m, 7), LF_OK);
    assert_int_equal(lf_matcher_mask(m, &mask, &n), LF_OK);
    assert_int_equal(mask, 1u << 3);
    assert_int_equal(lf_matcher_accept(m, 6), LF_INVALID);
    assert_int_equal(lf_matcher_accept(m, 3), LF_OK);
    assert_true(lf_matcher_is_finished(m));
    lf_matcher_restart(m); /* as bytes: a token half read allows no text behind it */
    assert_int_equal(lf_matcher_accept_bytes(m, LF_STR("11\xff<")), LF_OK);
    assert_int_equal(lf_matcher_mask(m, &mask, &n), LF_OK);
    assert_int_equal(n, 0);
    assert_int_equal(lf_matcher_accept_bytes(m, LF_STR("1>a")), LF_OK);
    assert_true(lf_matcher_is_complete(m));
    lf_matcher_destroy(m);
    lf_grammar_unref(g);
    lf_vocabulary_destroy(v);
}

/* A control token that ends a text and is named: it is read as part of the answer first. */
static void an_end_that_is_named_is_read_first(void **state)
{
    (void)state;
    struct lf_str list[] = {LF_STR("a"), LF_STR("\xff<call>")};
    int32_t end = 1;
    uint32_t mask;
    struct lf_vocabulary *v = NULL;
    struct lf_matcher *m = NULL;
    assert_int_equal(lf_vocabulary_create(&v, list, 2, &end, 1, 1 << 12, NULL), LF_OK);
    struct lf_grammar_part root = LIST(SEQUENCE, TEXT("a"), CONTROL("<call>"));
    struct lf_grammar *g = grammar_of_parts(&root);
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    assert_int_equal(lf_matcher_accept(m, 1), LF_INVALID);
    assert_int_equal(lf_matcher_accept(m, 0), LF_OK);
    assert_false(lf_matcher_is_complete(m));
    assert_int_equal(lf_matcher_mask(m, &mask, NULL), LF_OK);
    assert_int_equal(mask, 2);
    assert_int_equal(lf_matcher_accept(m, 1), LF_OK);
    assert_true(lf_matcher_is_complete(m));
    assert_int_equal(lf_matcher_mask(m, &mask, NULL), LF_OK);
    assert_int_equal(mask, 2); /* now as the end */
    assert_int_equal(lf_matcher_accept(m, 1), LF_OK);
    assert_int_equal(lf_matcher_accept(m, 1), LF_INVALID);
    lf_matcher_destroy(m);
    lf_grammar_unref(g);
    lf_vocabulary_destroy(v);
}

static void expect(const struct lf_grammar_part *root, enum lf_status status, const char *words)
{
    struct lf_grammar *g = NULL;
    struct lf_err err = {0};
    enum lf_status got = lf_grammar_of_parts(&g, root, NULL, &err);
    if (got != status) fail_msg("%d, not %d: %s", got, status, err.message);
    if (status != LF_OK && !strstr(err.message, words)) fail_msg("%s", err.message);
    lf_grammar_unref(g);
}

static void errors_say_which_part(void **state)
{
    (void)state;
    struct lf_json doc = {0};
    static const char schema[] = "{\"properties\":{\"x\":{\"not\":{}}}}";
    assert_int_equal(lf_json_parse(&doc, lf_str_c(schema), &lf_json_limits_request, NULL), LF_OK);
    struct lf_grammar_part bad = PART(SCHEMA, .schema = lf_json_root(&doc), .name = LF_STR("tools[3]"));
    struct lf_grammar_part fine = PART(SCHEMA, .name = LF_STR("tools[2]"));
    struct lf_grammar_part root = LIST(SEQUENCE, fine, bad);
    expect(&root, LF_UNSUPPORTED, "tools[3]: schema at \"#/properties/x\": the keyword \"not\"");
    struct lf_json pattern = {0};
    assert_int_equal(lf_json_parse(&pattern, LF_STR("{\"pattern\":\"(\"}"), &lf_json_limits_request, NULL), LF_OK);
    bad.schema = lf_json_root(&pattern);
    expect(&bad, LF_INVALID, "tools[3]: schema at \"#/pattern\": \"pattern\": pattern, byte");
    lf_json_deinit(&pattern);
    struct lf_json no = {0};
    assert_int_equal(lf_json_parse(&no, LF_STR("false"), &lf_json_limits_request, NULL), LF_OK);
    struct lf_grammar_part never = PART(SCHEMA, .schema = lf_json_root(&no), .name = LF_STR("no"));
    root = LIST(ALTERNATIVE, TEXT("a"), never);
    expect(&root, LF_INVALID, "no: nothing can match it");
    root = LIST(SEQUENCE, fine, PART(REGEX, .text = LF_STR("(")));
    expect(&root, LF_INVALID, "a group without an end");
    root = LIST(FREE, TEXT(""));
    expect(&root, LF_INVALID, "is empty");
    root = LIST(UNTIL, PART(REGEX, .text = LF_STR("a")));
    expect(&root, LF_INVALID, "texts and control tokens only");
    root = ONLY(UNTIL);
    expect(&root, LF_INVALID, "nothing can match it");
    root = ONLY(ALTERNATIVE);
    expect(&root, LF_INVALID, "nothing can match it");
    root = TEXT("\xff");
    expect(&root, LF_INVALID, "not UTF-8");
    root = CONTROL("");
    expect(&root, LF_INVALID, "is empty");
    root = LIST(SEQUENCE, TEXT("a"), ONLY(FREE), ONLY(FREE));
    expect(&root, LF_UNSUPPORTED, "free text that other free text may follow");
    struct lf_grammar_part free_text = ONLY(FREE);
    root = PART(REPEAT, .parts = &free_text, .n_parts = 1);
    expect(&root, LF_UNSUPPORTED, "free text that other free text may follow");
    root = LIST(SEQUENCE, PART(REGEX, .text = LF_STR(".*")), LIST(UNTIL, TEXT("a")));
    expect(&root, LF_UNSUPPORTED, "free text that other free text may follow");
    root = ONLY(REPEAT);
    expect(&root, LF_INVALID, "a repetition of 0 parts");
    root = PART(REPEAT, .parts = &fine, .n_parts = 1, .min = 3, .max = 2);
    expect(&root, LF_INVALID, "3 to 2 times");
    lf_json_deinit(&doc);
    lf_json_deinit(&no);
}

static void parts_end_at_their_limits(void **state)
{
    (void)state;
    static struct lf_grammar_part chain[LF_GRAMMAR_PARTS_DEPTH + 1];
    chain[0] = TEXT("a");
    for (int i = 1; i <= LF_GRAMMAR_PARTS_DEPTH; i++) chain[i] = PART(SEQUENCE, .parts = &chain[i - 1], .n_parts = 1);
    expect(&chain[LF_GRAMMAR_PARTS_DEPTH - 1], LF_OK, "");
    expect(&chain[LF_GRAMMAR_PARTS_DEPTH], LF_LIMIT, "nested deeper");
    struct lf_grammar_part one = TEXT("a"), root;
    root = PART(REPEAT, .parts = &one, .n_parts = 1, .min = LF_GRAMMAR_UNROLLED_N, .max = LF_GRAMMAR_UNROLLED_N);
    expect(&root, LF_OK, "");
    root.max++;
    expect(&root, LF_LIMIT, "repeated more than");
    char *text = calloc(LF_GRAMMAR_SOURCE_BYTES + 1, 1);
    assert_non_null(text);
    memset(text, 'a', LF_GRAMMAR_SOURCE_BYTES + 1);
    root = PART(TEXT, .text = lf_str_from(text, LF_GRAMMAR_SOURCE_BYTES));
    expect(&root, LF_OK, "");
    root.text.len++;
    expect(&root, LF_LIMIT, "a grammar of");
    struct lf_grammar_part marker = PART(TEXT, .text = lf_str_from(text, 10000));
    root = PART(FREE, .parts = &marker, .n_parts = 1);
    expect(&root, LF_OK, "");
    marker.text.len = LF_GRAMMAR_STATES_N - 1;
    expect(&root, LF_LIMIT, "");
    marker.text.len++;
    expect(&root, LF_LIMIT, "markers in free text");
    free(text);
}

/* As many calls as a request may have tools, of any object; and a hundred and fifty with schemas of their own. */
static void many_schemas_share_what_is_the_same(void **state)
{
    (void)state;
    static struct lf_grammar_part calls[LF_TOOLS_N], parts[LF_TOOLS_N][2];
    static char names[LF_TOOLS_N][16], texts[150][128];
    static struct lf_json docs[150];
    for (int i = 0; i < LF_TOOLS_N; i++) {
        snprintf(names[i], sizeof names[i], "t%d:", i);
        parts[i][0] = PART(TEXT, .text = lf_str_c(names[i]));
        parts[i][1] = ONLY(SCHEMA);
        calls[i] = PART(SEQUENCE, .parts = parts[i], .n_parts = 2);
    }
    struct lf_grammar_part root = PART(ALTERNATIVE, .parts = calls, .n_parts = LF_TOOLS_N);
    expect(&root, LF_OK, "");
    for (int i = 0; i < 150; i++) {
        snprintf(texts[i], sizeof texts[i],
                 "{\"type\":\"object\",\"properties\":{\"a%d\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"}}}",
                 i);
        assert_int_equal(lf_json_parse(&docs[i], lf_str_c(texts[i]), &lf_json_limits_request, NULL), LF_OK);
        parts[i][1] = PART(SCHEMA, .schema = lf_json_root(&docs[i]), .options = {.strict = true});
    }
    root.n_parts = 150;
    expect(&root, LF_OK, "");
    for (int i = 0; i < 150; i++) lf_json_deinit(&docs[i]);
}

static void references_are_those_of_their_document(void **state)
{
    (void)state;
    static const char *const texts[] = {"{\"p\":{\"$ref\":\"#/$defs/T\"},\"$defs\":{\"T\":{\"type\":\"integer\"}}}",
                                        "{\"p\":{\"$ref\":\"#/$defs/T\"},\"$defs\":{\"T\":{\"type\":\"boolean\"}}}"};
    static const char *const names[] = {"a:", "b:"};
    struct lf_vocabulary *v = vocabulary_of_bytes();
    struct lf_json docs[2];
    struct lf_grammar_part calls[2][2], alternatives[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(lf_json_parse(&docs[i], lf_str_c(texts[i]), &lf_json_limits_request, NULL), LF_OK);
        struct lf_json_value document = lf_json_root(&docs[i]);
        calls[i][0] = PART(TEXT, .text = lf_str_c(names[i]));
        calls[i][1] = PART(SCHEMA, .schema = lf_json_get(document, "p"), .document = document);
        alternatives[i] = PART(SEQUENCE, .parts = calls[i], .n_parts = 2);
    }
    struct lf_grammar_part root = PART(ALTERNATIVE, .parts = alternatives, .n_parts = 2);
    struct lf_grammar *g = grammar_of_parts(&root);
    assert_true(takes(g, v, "a:1") && takes(g, v, "b:true"));
    assert_false(takes(g, v, "a:true") || takes(g, v, "b:1"));
    lf_grammar_unref(g);
    for (int i = 0; i < 2; i++) lf_json_deinit(&docs[i]);
    lf_vocabulary_destroy(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_trees_take_what_a_slow_reader_takes),
        cmocka_unit_test(free_text_or_a_call),
        cmocka_unit_test(only_the_named_control_token_is_allowed),
        cmocka_unit_test(an_end_that_is_named_is_read_first),
        cmocka_unit_test(errors_say_which_part),
        cmocka_unit_test(parts_end_at_their_limits),
        cmocka_unit_test(many_schemas_share_what_is_the_same),
        cmocka_unit_test(references_are_those_of_their_document),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
