/* grammar/mask.c, matcher.c, vocabulary.c: over random vocabularies and random answers, the mask is what trying every
 * token says; answers made of masks are whole in the end; refusals change nothing. */
#include "tests/unit/grammar/rig.h"

#include "core/mix.h"
#include "grammar/matcher_impl.h"

enum { TOKENS_N = 1500 };

static uint64_t seed;

static uint32_t random_below(uint32_t n)
{
    seed = lf_mix64(seed + 1);
    return (uint32_t)(seed % n);
}

static const char *const schemas[] = {
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},\"tags\":{"
    "\"type\":"
    "\"array\",\"items\":{\"type\":\"string\",\"maxLength\":4},\"maxItems\":3}},\"required\":[\"name\"],"
    "\"additionalProperties\":false}",
    "true",
    "{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"number\"},{\"type\":\"string\",\"minLength\":2,"
    "\"maxLength\":6},"
    "{\"type\":\"object\",\"additionalProperties\":{\"$ref\":\"#\"}},{\"enum\":[\"a\",\"ab\",\"abc\",1,12]}]}}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"pattern\":\"^[a-e]+1*$\",\"type\":\"string\"},\"b\":{\"type\":"
    "\"integer\",\"minimum\":3,\"maximum\":1234}},\"patternProperties\":{\"^x\":{\"type\":\"null\"}}}",
    "{\"type\":\"string\",\"minLength\":3}",
    "{\"type\":\"string\",\"pattern\":\"^([a-c]{2}|[d,. ]{3})*$\",\"minLength\":7,\"maxLength\":21}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"n|^.{4,5}$|\\\\n\",\"maxLength\":9}}",
    "{\"type\":\"string\",\"pattern\":\"^(a{2}|b{5}|.{7})*$\",\"minLength\":271,\"maxLength\":275}",
    "{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}},\"required\":[\"a\"]},{\"type\":"
    "\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"maxLength\":3},\"b\":{}},\"required\":[\"a\",\"b\"]}]}",
};

/* Tokens: all bytes, then pieces of JSON-like text of random lengths, some of them twice. */
static struct lf_vocabulary *random_vocabulary(char (*bytes)[24], struct lf_str *tokens)
{
    static const char alphabet[] = "\"\"\"{}[],,::abcden1230.- \\u\n\xc3\xa9";
    static const char *const words[] = {"name", "tags", "\":\"", "\",\"",    "\"}",     "null", "true",
                                        "\":",  "{\"",  "[\"",   "\xc3\xa9", "\\u00e9", "\\n",  "aaaa",
                                        "12",   "},",   "]}",    "\"a\":",   "  "};
    for (int i = 0; i < TOKENS_N; i++) {
        size_t len = 0, n = 1 + random_below(4);
        for (size_t k = 0; i >= 256 && k < n; k++) {
            const char *word = words[random_below(sizeof words / sizeof *words)];
            char letter[2] = {alphabet[random_below(sizeof alphabet - 1)], 0};
            if (random_below(2)) word = letter;
            for (; *word && len < 24; word++) bytes[i][len++] = *word;
        }
        if (i < 256) bytes[i][len++] = (char)i;
        tokens[i] = lf_str_from(bytes[i], len);
    }
    tokens[300] = LF_STR("");
    struct lf_vocabulary *v = NULL;
    int32_t ends[] = {TOKENS_N - 1, 301};
    assert_int_equal(lf_vocabulary_create(&v, tokens, TOKENS_N, ends, 2, 1 << (12 + random_below(6)), NULL), LF_OK);
    return v;
}

/* By a second matcher that has read the same bytes: every token tried alone. */
static void compare_with_trying(const struct lf_grammar *g, struct lf_vocabulary *v, struct lf_str so_far,
                                const uint32_t *mask, const struct lf_str *tokens)
{
    struct lf_matcher *m = NULL;
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    for (int i = 0; i < TOKENS_N; i++) {
        lf_matcher_restart(m);
        assert_int_equal(lf_matcher_accept_bytes(m, so_far), LF_OK);
        bool is_end = i == TOKENS_N - 1 || i == 301;
        bool expected =
            is_end ? lf_matcher_is_complete(m) : tokens[i].len && lf_matcher_accept_bytes(m, tokens[i]) == LF_OK;
        if ((mask[i / 32] >> i % 32 & 1) != expected)
            fail_msg("after %.*s token %.*s: expected %d", (int)so_far.len, so_far.ptr, (int)tokens[i].len,
                     tokens[i].ptr, expected);
    }
    lf_matcher_destroy(m);
}

static void run_one(const struct lf_grammar *g, struct lf_vocabulary *v, const struct lf_str *tokens)
{
    uint32_t mask[(TOKENS_N + 31) / 32], n_allowed;
    struct lf_matcher *m = NULL;
    struct lf_buf text;
    lf_buf_init(&text, 4096);
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    assert_int_equal(lf_vocabulary_mask_words(v), sizeof mask / sizeof *mask);
    for (int step = 0; step < 14; step++) {
        assert_int_equal(lf_matcher_mask(m, mask, &n_allowed), LF_OK);
        assert_true(n_allowed > 0); /* bytes are all there, so it never gets stuck */
        if (step % 3 == 0) compare_with_trying(g, v, lf_buf_view(&text), mask, tokens);
        uint32_t pick = random_below(n_allowed);
        int token = 0;
        for (;; token++)
            if ((mask[token / 32] >> token % 32 & 1) && pick-- == 0) break;
        for (int i = 0; i < 20; i++) { /* what is not allowed changes nothing */
            int other = (int)random_below(TOKENS_N);
            if (!(mask[other / 32] >> other % 32 & 1)) assert_int_equal(lf_matcher_accept(m, other), LF_INVALID);
        }
        bool ends = token == TOKENS_N - 1 || token == 301;
        assert_int_equal(lf_matcher_accept(m, token), LF_OK);
        if (ends) {
            assert_true(lf_matcher_is_finished(m));
            assert_int_equal(lf_matcher_mask(m, mask, &n_allowed), LF_OK);
            assert_int_equal(n_allowed, 0);
            break;
        }
        lf_buf_str(&text, tokens[token]);
    }
    lf_matcher_destroy(m);
    lf_buf_deinit(&text);
}

static void masks_are_what_trying_every_token_says(void **state)
{
    (void)state;
    static char bytes[TOKENS_N][24];
    struct lf_str tokens[TOKENS_N];
    for (uint64_t round = 0; round < 6; round++) {
        seed = round;
        struct lf_vocabulary *v = random_vocabulary(bytes, tokens);
        for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
            struct lf_grammar *g = grammar_of(schemas[i], NULL);
            for (int k = 0; k < 3; k++) run_one(g, v, tokens);
            lf_grammar_unref(g);
        }
        lf_vocabulary_destroy(v);
    }
}

static void regexes_and_choices(void **state)
{
    (void)state;
    struct lf_vocabulary *v = vocabulary_of_bytes();
    struct lf_grammar *g = NULL;
    struct lf_str choices[] = {LF_STR("yes"), LF_STR("no"), LF_STR("yesterday"), LF_STR("no")};
    assert_int_equal(lf_grammar_of_choice(&g, choices, 4, NULL, NULL), LF_OK);
    assert_true(takes(g, v, "yes") && takes(g, v, "yesterday") && takes(g, v, "no"));
    assert_false(takes(g, v, "") || takes(g, v, "ye") || takes(g, v, "non"));
    lf_grammar_unref(g);
    g = NULL;
    assert_int_equal(lf_grammar_of_choice(&g, choices, 0, NULL, NULL), LF_INVALID);
    assert_int_equal(lf_grammar_of_regex(&g, LF_STR("(a|b)*c?"), NULL, NULL), LF_OK);
    assert_true(takes(g, v, "") && takes(g, v, "abbac") && takes(g, v, "c"));
    assert_false(takes(g, v, "cc"));
    lf_grammar_unref(g);
    g = NULL;
    assert_int_equal(lf_grammar_of_json_object(&g, NULL, NULL, NULL), LF_OK);
    assert_true(takes(g, v, "{}") && takes(g, v, "{\"a\":[1,null]}"));
    assert_false(takes(g, v, "[]") || takes(g, v, "{}{"));
    lf_grammar_unref(g);
    lf_vocabulary_destroy(v);
}

/* Frames that no reading needs go: an answer of many different stacks stays within the bound. */
static void long_answers_do_not_run_out_of_stacks(void **state)
{
    (void)state;
    struct lf_vocabulary *v = vocabulary_of_bytes();
    struct lf_grammar *g =
        grammar_of("{\"type\":\"array\",\"items\":{\"type\":\"array\",\"prefixItems\":[{\"$ref\":\"#/items\"},"
                   "{\"$ref\":\"#/items\"},{\"$ref\":\"#/items\"}]}}",
                   NULL);
    struct lf_matcher *m = NULL;
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    int depth = 0;
    for (long i = 0; i < 400000; i++) {
        uint32_t mask[9], n;
        seed = 77 + (uint64_t)i;
        if (i % 64 == 0) assert_int_equal(lf_matcher_mask(m, mask, &n), LF_OK);
        static const char marks[] = "[],";
        char first = depth < 20 || random_below(2) ? '[' : ']', second = random_below(3) ? ',' : ']', want = 0;
        enum lf_status status = LF_INVALID;
        for (int k = 0; k < 5 && status == LF_INVALID; k++) {
            want = k == 0 ? first : k == 1 ? second : marks[k - 2];
            status = lf_matcher_accept_bytes(m, lf_str_from(&want, 1));
        }
        assert_int_equal(status, LF_OK);
        depth += want == '[' ? 1 : want == ']' ? -1 : 0;
        if (depth == 0) lf_matcher_restart(m);
    }
    lf_matcher_destroy(m);
    lf_grammar_unref(g);
    lf_vocabulary_destroy(v);
}

/* 64 readings of the outer object times so many of the inner one, all alike up to the number at the end of "b". */
static struct lf_grammar *ambiguous_grammar(int n_inner, const char *before, const char *behind)
{
    struct lf_buf schema;
    lf_buf_init(&schema, 1 << 20);
    lf_buf_cstr(&schema, "{\"$defs\":{\"x\":{\"anyOf\":[");
    for (int i = 0; i < n_inner; i++)
        lf_buf_printf(&schema,
                      "%s{\"type\":\"object\",\"properties\":{\"b\":{\"const\":%s%d%s}},\"required\":[\"b\"],"
                      "\"additionalProperties\":false}",
                      i ? "," : "", before, i, behind);
    lf_buf_cstr(&schema, "]}},\"anyOf\":[");
    for (int i = 0; i < LF_GRAMMAR_CONFIGS_N / 128; i++)
        lf_buf_printf(&schema,
                      "%s{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/x\"},\"t\":{\"const\":%d}},"
                      "\"required\":[\"a\",\"t\"],\"additionalProperties\":false}",
                      i ? "," : "", i);
    lf_buf_cstr(&schema, "]}");
    struct lf_grammar *g = grammar_of(schema.ptr, NULL);
    lf_buf_deinit(&schema);
    return g;
}

static enum lf_status accept_ambiguous(struct lf_vocabulary *v, int n_inner)
{
    struct lf_matcher *m = NULL;
    struct lf_grammar *g = ambiguous_grammar(n_inner, "", "");
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    enum lf_status status = lf_matcher_accept_bytes(m, LF_STR("{\"a\":{\"b\":"));
    if (status == LF_OK) assert_int_equal(lf_matcher_accept_bytes(m, LF_STR("7},\"t\":63}")), LF_OK);
    if (status == LF_OK) assert_true(lf_matcher_is_complete(m) && lf_matcher_is_finished(m));
    lf_matcher_destroy(m);
    lf_grammar_unref(g);
    return status;
}

static void readings_end_at_their_limit(void **state)
{
    (void)state;
    struct lf_vocabulary *v = vocabulary_of_bytes();
    assert_int_equal(accept_ambiguous(v, 128), LF_OK);
    assert_int_equal(accept_ambiguous(v, 129), LF_LIMIT);
    lf_vocabulary_destroy(v);
}

enum { WIDE_N = 8000, WIDE_BYTES = 10 };

static struct lf_vocabulary *wide_vocabulary(void)
{
    static char bytes[WIDE_N][WIDE_BYTES];
    static struct lf_str tokens[WIDE_N];
    struct lf_vocabulary *v = NULL;
    seed = 5;
    for (int i = 0; i < WIDE_N; i++) {
        for (int k = 0; k < WIDE_BYTES; k++) bytes[i][k] = (char)('a' + random_below(20));
        tokens[i] = lf_str_from(bytes[i], WIDE_BYTES);
    }
    assert_int_equal(lf_vocabulary_create(&v, tokens, WIDE_N, NULL, 0, 1 << 12, NULL), LF_OK);
    return v;
}

/* How many tokens can be tried there with the budget of one mask. */
static int wide_ahead(struct lf_matcher *m)
{
    static uint32_t masks[17][WIDE_N / 32 + 1];
    static const int32_t ids[16];
    int n = -1;
    assert_int_equal(lf_matcher_look_ahead(m, ids, 16, masks[0], WIDE_N / 32 + 1, &n), LF_OK);
    return n;
}

/* A mask in a string under one of n patterns, each of which looks at the whole vocabulary; *n_visited: nodes. */
static enum lf_status wide_mask(uint32_t n, uint32_t *n_visited, int *n_ahead)
{
    static uint32_t mask[WIDE_N / 32 + 1];
    struct lf_vocabulary *v = wide_vocabulary();
    struct lf_buf schema;
    struct lf_matcher *m = NULL;
    lf_buf_init(&schema, 1 << 20);
    for (uint32_t i = 0; i < n; i++)
        lf_buf_printf(&schema, "%s{\"type\":\"string\",\"pattern\":\"^[^z]*z{%u}$\"}", i ? "," : "{\"anyOf\":[", i + 1);
    lf_buf_cstr(&schema, "]}");
    struct lf_grammar *g = grammar_of(schema.ptr, NULL);
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    assert_int_equal(lf_matcher_accept_bytes(m, LF_STR("\"")), LF_OK);
    double began = cpu_seconds();
    enum lf_status status = lf_matcher_mask(m, mask, NULL);
    assert_true(cpu_seconds() - began < 0.5 * SLOWNESS); /* 5 ms; what a busy machine does to it */
    *n_visited = m->n_visited;
    if (status == LF_OK) *n_ahead = wide_ahead(m);
    if (status == LF_LIMIT) { /* it can go on: the next place may be a simple one */
        assert_int_equal(lf_matcher_accept_bytes(m, LF_STR("az\"")), LF_OK);
        assert_int_equal(lf_matcher_mask(m, mask, NULL), LF_OK);
    }
    lf_matcher_destroy(m);
    lf_grammar_unref(g);
    lf_buf_deinit(&schema);
    lf_vocabulary_destroy(v);
    return status;
}

static void a_mask_has_a_budget(void **state)
{
    (void)state;
    uint32_t one, two, most, visited;
    int ahead = 0;
    assert_int_equal(wide_mask(1, &one, &ahead), LF_OK);
    assert_int_equal(wide_mask(2, &two, &ahead), LF_OK);
    assert_int_equal(ahead, 16);
    assert_true(two - one > WIDE_N);
    most = 1 + (LF_GRAMMAR_MASK_STEPS - one) / (two - one);
    assert_int_equal(wide_mask(most, &visited, &ahead), LF_OK);
    assert_int_equal(ahead, 0);
    assert_in_range(visited, LF_GRAMMAR_MASK_STEPS - (two - one), LF_GRAMMAR_MASK_STEPS);
    assert_int_equal(wide_mask(most + 1, &visited, &ahead), LF_LIMIT);
    assert_true(visited > LF_GRAMMAR_MASK_STEPS);
}

/* Each level of stack has ROW_N times as many frames as the one below: all that there may be, and one more. */
static void stacks_end_at_their_limit(void **state)
{
    (void)state;
    enum { ROW_N = 256 };
    static struct lf_net_node nodes[ROW_N + 3];
    static struct lf_net_edge edges[ROW_N + 1];
    static struct lf_text_node texts[2] = {{.first = 1, .n = 1}, {.byte = 'a', .accept = 1}};
    struct lf_terminal terminal = {.kind = LF_TERMINAL_TEXTS, .nodes = texts, .n_nodes = 2};
    struct lf_network net = {.nodes = nodes, .edges = edges, .terminals = &terminal};
    struct lf_stacks stacks;
    struct lf_reading_list list = {0};
    nodes[0] = (struct lf_net_node){.first = 0, .height = 1}; /* ROW_N calls of node 1, each to an end of its own */
    nodes[1] = (struct lf_net_node){.first = ROW_N};
    edges[ROW_N] = (struct lf_net_edge){.to = 2, .next = LF_NET_NONE, .kind = LF_NET_TERMINAL};
    for (uint32_t i = 0; i < ROW_N; i++) {
        edges[i] = (struct lf_net_edge){
            .to = 3 + i, .next = i + 1 < ROW_N ? i + 1 : LF_NET_NONE, .what = 1, .kind = LF_NET_CALL};
        nodes[3 + i] = (struct lf_net_node){.first = LF_NET_NONE, .is_end = 1};
    }
    nodes[2] = (struct lf_net_node){.first = LF_NET_NONE, .is_end = 1};
    lf_stacks_init(&stacks, &net, NULL);
    lf_readings_enter(&stacks, &list, 0, LF_STACK_EMPTY);
    assert_int_equal(stacks.n, ROW_N);
    for (uint32_t i = 0; i < LF_GRAMMAR_STACKS_N / ROW_N - 1; i++) {
        list.n = 0;
        lf_readings_enter(&stacks, &list, 0, i);
    }
    assert_int_equal(stacks.n, LF_GRAMMAR_STACKS_N);
    assert_int_equal(stacks.status, LF_OK);
    lf_readings_enter(&stacks, &list, 0, LF_GRAMMAR_STACKS_N - 1);
    assert_int_equal(stacks.status, LF_LIMIT);
    assert_int_equal(stacks.n, LF_GRAMMAR_STACKS_N);
    stacks.status = LF_OK; /* frames that nothing needs make room: of the last list, whose readings share them */
    list.n = 1;
    lf_stacks_collect(&stacks, &list);
    assert_in_range(stacks.n, 1, 2);
    lf_readings_enter(&stacks, &list, 0, 0);
    assert_int_equal(stacks.status, LF_OK);
    lf_reading_list_deinit(&list, &stacks);
    lf_stacks_deinit(&stacks);
}

/* What a compilation may take: all of it, and one more. */
static void compilations_end_at_their_limits(void **state)
{
    (void)state;
    struct lf_arena keep;
    struct lf_compilation c;
    struct lf_err err = {0};
    lf_arena_init(&keep, 1024, LF_GRAMMAR_BYTES);
    lf_compilation_init(&c, &keep, NULL, &err);
    assert_true(lf_compilation_step(&c, LF_GRAMMAR_STEPS));
    assert_false(lf_compilation_step(&c, 1));
    assert_int_equal(c.status, LF_LIMIT);
    assert_null(lf_compilation_keep(&c, 1, 1)); /* it stays failed */
    assert_non_null(strstr(err.message, "steps"));
    lf_compilation_deinit(&c);
    for (int scratch = 0; scratch < 2; scratch++) {
        size_t most = scratch ? LF_GRAMMAR_SCRATCH_BYTES : LF_GRAMMAR_BYTES;
        lf_compilation_init(&c, &keep, NULL, &err);
        assert_non_null(scratch ? lf_compilation_scratch(&c, most, 1) : lf_compilation_keep(&c, most, 1));
        assert_int_equal(c.status, LF_OK);
        assert_null(scratch ? lf_compilation_scratch(&c, 1, 1) : lf_compilation_keep(&c, 1, 1));
        assert_int_equal(c.status, LF_LIMIT);
        assert_non_null(strstr(err.message, "bytes"));
        lf_compilation_deinit(&c);
    }
    lf_arena_deinit(&keep);
}

static void vocabularies_are_checked(void **state)
{
    (void)state;
    struct lf_vocabulary *v = NULL;
    struct lf_err err;
    struct lf_str token = LF_STR("a");
    int32_t end = 1;
    assert_int_equal(lf_vocabulary_create(&v, &token, 0, NULL, 0, 0, &err), LF_INVALID);
    assert_int_equal(lf_vocabulary_create(&v, &token, 1, &end, 1, 0, &err), LF_INVALID);
    static char text[LF_GRAMMAR_TOKEN_BYTES + 1];
    memset(text, 'a', sizeof text);
    struct lf_str tokens[] = {lf_str_from(text, sizeof text - 1), lf_str_from(text, sizeof text)};
    struct lf_grammar *g = NULL;
    struct lf_matcher *m = NULL;
    uint32_t mask;
    assert_int_equal(lf_vocabulary_create(&v, tokens, 2, NULL, 0, 0, &err), LF_OK);
    assert_int_equal(lf_grammar_of_regex(&g, LF_STR("a*"), NULL, NULL), LF_OK);
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    assert_int_equal(lf_matcher_mask(m, &mask, NULL), LF_OK);
    assert_int_equal(mask, 1); /* the longest there is, and one byte more */
    assert_true(lf_vocabulary_bytes(v) > sizeof text);
    lf_matcher_destroy(m);
    lf_grammar_unref(g);
    lf_vocabulary_destroy(v);
}

/* As long as all readings go on, each byte of a token costs them all. Without a mask before it, as bytes, it may. */
static void a_token_has_a_budget(void **state)
{
    (void)state;
    enum { FITS = LF_GRAMMAR_MASK_STEPS / (LF_GRAMMAR_CONFIGS_N * 16) };
    static char text[FITS + 1];
    memset(text, 'a', sizeof text);
    struct lf_str tokens[] = {lf_str_from(text, FITS), lf_str_from(text, FITS + 1)};
    struct lf_vocabulary *v = NULL;
    struct lf_grammar *g = ambiguous_grammar(128, "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "\"");
    assert_int_equal(lf_vocabulary_create(&v, tokens, 2, NULL, 0, 1 << 16, NULL), LF_OK);
    for (int32_t token = 0; token < 2; token++) {
        struct lf_matcher *m = NULL;
        assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
        assert_int_equal(lf_matcher_accept_bytes(m, LF_STR("{\"a\":{\"b\":\"")), LF_OK);
        double began = cpu_seconds();
        assert_int_equal(lf_matcher_accept(m, token), token == 0 ? LF_OK : LF_LIMIT);
        assert_true(cpu_seconds() - began < 0.2 * SLOWNESS);
        assert_int_equal(lf_matcher_accept_bytes(m, tokens[1]), LF_OK);
        lf_matcher_destroy(m);
    }
    lf_grammar_unref(g);
    lf_vocabulary_destroy(v);
}

/* One that may take no memory says so and stays where it is, and goes on as any other when it may again. */
static void a_matcher_that_may_not_grow_can_be_asked_again(void **state)
{
    (void)state;
    struct lf_vocabulary *v = vocabulary_of_bytes();
    struct lf_grammar *g = grammar_of("{\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":"
                                      "\"#/$defs/t\"},\"b\":{\"type\":\"string\"}},\"additionalProperties\":"
                                      "{\"type\":\"integer\"}}},\"$ref\":\"#/$defs/t\"}",
                                      NULL);
    struct lf_matcher *free_one, *bound;
    uint32_t want[9], got[9];
    int n_refused = 0, n_taken = 0;
    assert_int_equal(lf_matcher_create(&free_one, g, v, NULL), LF_OK);
    assert_int_equal(lf_matcher_create(&bound, g, v, NULL), LF_OK);
    for (const char *p = "{\"a\":{\"a\":{\"b\":\"xyz\",\"c\":17}},\"b\":\"\",\"aa\":-1}"; *p; p++) {
        lf_matcher_set_growing(bound, false);
        enum lf_status status = lf_matcher_mask(bound, got, NULL);
        n_refused += status == LF_FULL;
        n_taken += status == LF_OK;
        assert_true(status == LF_OK || status == LF_FULL);
        lf_matcher_set_growing(bound, true);
        if (status == LF_FULL) assert_int_equal(lf_matcher_mask(bound, got, NULL), LF_OK);
        assert_int_equal(lf_matcher_mask(free_one, want, NULL), LF_OK);
        assert_memory_equal(got, want, sizeof want);
        lf_matcher_set_growing(bound, false);
        status = lf_matcher_accept(bound, (uint8_t)*p);
        n_refused += status == LF_FULL;
        n_taken += status == LF_OK;
        lf_matcher_set_growing(bound, true);
        if (status == LF_FULL) assert_int_equal(lf_matcher_accept(bound, (uint8_t)*p), LF_OK);
        assert_int_equal(lf_matcher_accept(free_one, (uint8_t)*p), LF_OK);
    }
    assert_true(lf_matcher_is_finished(bound) && lf_matcher_is_complete(bound));
    assert_in_range(n_refused, 2, 20); /* at the beginning: what it took stays */
    assert_true(n_taken > 50);
    lf_matcher_destroy(bound);
    lf_matcher_destroy(free_one);
    lf_grammar_unref(g);
    lf_vocabulary_destroy(v);
}

/* ---- looking ahead ---- */

enum { AHEAD_N = 6, AHEAD_WORDS = (TOKENS_N + 31) / 32, AHEAD_STRIDE = AHEAD_WORDS + 3 };

/* What a matcher that took the same tokens says behind each of those ahead. */
static void check_ahead(const struct lf_grammar *g, struct lf_vocabulary *v, const int32_t *ids, int n,
                        const uint32_t *masks, int n_allowed, int n_ahead)
{
    struct lf_matcher *m = NULL;
    uint32_t want[AHEAD_WORDS];
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    for (int i = 0; i < n; i++) assert_int_equal(lf_matcher_accept(m, ids[i]), LF_OK);
    for (int i = 0; i <= n_allowed; i++) {
        assert_int_equal(lf_matcher_mask(m, want, NULL), LF_OK);
        assert_memory_equal(masks + (size_t)i * AHEAD_STRIDE, want, sizeof want);
        if (i < n_ahead) assert_int_equal(lf_matcher_accept(m, ids[n + i]), i < n_allowed ? LF_OK : LF_INVALID);
    }
    lf_matcher_destroy(m);
}

/* A token that the mask has, or, one time in eight, any. */
static int32_t likely_token(const uint32_t *mask)
{
    int32_t token = (int32_t)random_below(TOKENS_N);
    bool any = random_below(8) == 0;
    for (int i = 0; i < TOKENS_N && !any && !(mask[token / 32] >> token % 32 & 1); i++) token = (token + 1) % TOKENS_N;
    return token;
}

/* Random tokens are looked at before some of them come; what may not grow is asked again. Nothing of it moves the
 * matcher. */
static void look_ahead_at_random(const struct lf_grammar *g, struct lf_vocabulary *v, int *n_allowed, int *n_refused)
{
    static uint32_t masks[(AHEAD_N + 1) * AHEAD_STRIDE], again[(AHEAD_N + 1) * AHEAD_STRIDE];
    struct lf_matcher *m = NULL, *guide = NULL;
    int32_t ids[64];
    int n = 0, k = 0, counted = 0;
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    assert_int_equal(lf_matcher_create(&guide, g, v, NULL), LF_OK);
    while (n < 40 && !lf_matcher_is_finished(m)) {
        lf_matcher_restart(guide);
        for (int i = 0; i < n; i++) assert_int_equal(lf_matcher_accept(guide, ids[i]), LF_OK);
        for (int i = 0; i < AHEAD_N; i++) {
            assert_int_equal(lf_matcher_mask(guide, again, NULL), LF_OK);
            ids[n + i] = likely_token(again);
            (void)!lf_matcher_accept(guide, ids[n + i]);
        }
        lf_matcher_set_growing(m, false);
        enum lf_status status = lf_matcher_look_ahead(m, ids + n, AHEAD_N, masks, AHEAD_STRIDE, &k);
        assert_true(status == LF_OK || status == LF_FULL);
        lf_matcher_set_growing(m, true);
        if (status == LF_FULL)
            assert_int_equal(lf_matcher_look_ahead(m, ids + n, AHEAD_N, masks, AHEAD_STRIDE, &k), LF_OK);
        check_ahead(g, v, ids, n, masks, k, AHEAD_N);
        assert_int_equal(lf_matcher_look_ahead(m, ids + n, AHEAD_N, NULL, 0, &counted), LF_OK);
        assert_int_equal(counted, k);
        assert_int_equal(lf_matcher_look_ahead(m, NULL, 0, again, AHEAD_STRIDE, &counted), LF_OK);
        assert_memory_equal(again, masks, AHEAD_WORDS * sizeof *masks);
        assert_int_equal(counted, 0);
        *n_allowed += k;
        *n_refused += k < AHEAD_N;
        int n_taken = 1 + (int)random_below(3);
        for (int i = 0; i < k && i < n_taken; i++) assert_int_equal(lf_matcher_accept(m, ids[n++]), LF_OK);
    }
    lf_matcher_destroy(guide);
    lf_matcher_destroy(m);
}

static void looking_ahead_says_what_will_be_and_changes_nothing(void **state)
{
    (void)state;
    static char bytes[TOKENS_N][24];
    struct lf_str tokens[TOKENS_N];
    int n_allowed = 0, n_refused = 0;
    for (uint64_t round = 0; round < 3; round++) {
        seed = 90 + round;
        struct lf_vocabulary *v = random_vocabulary(bytes, tokens);
        for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
            struct lf_grammar *g = grammar_of(schemas[i], NULL);
            for (int k = 0; k < 3; k++) look_ahead_at_random(g, v, &n_allowed, &n_refused);
            lf_grammar_unref(g);
        }
        lf_vocabulary_destroy(v);
    }
    assert_true(n_allowed > 1000 && n_refused > 100);
}

/* An answer of the half of all stacks that there may be: what is looked at takes none of those that are left. */
static void looking_ahead_leaves_no_stacks_behind(void **state)
{
    (void)state;
    struct lf_vocabulary *v = vocabulary_of_bytes();
    struct lf_grammar *g = grammar_of("{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}", NULL);
    struct lf_matcher *m = NULL;
    int32_t deeper[20];
    int k = 0;
    for (int i = 0; i < 20; i++) deeper[i] = '[';
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    assert_int_equal(lf_matcher_accept(m, '['), LF_OK);
    uint32_t n = m->stacks.n;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(lf_matcher_look_ahead(m, deeper, 20, NULL, 0, &k), LF_OK);
        assert_int_equal(k, 20);
        assert_int_equal(m->stacks.n, n);
    }
    assert_int_equal(lf_matcher_accept(m, ']'), LF_OK);
    assert_true(lf_matcher_is_finished(m));
    assert_int_equal(lf_matcher_look_ahead(m, deeper, 20, NULL, 0, &k), LF_OK);
    assert_int_equal(k, 0);
    lf_matcher_destroy(m);
    lf_grammar_unref(g);
    lf_vocabulary_destroy(v);
}

/* The ring keeps as many walks as it has room for, each as it was, and the oldest goes first. */
static bool allows(struct lf_matcher *m, int32_t token)
{
    uint32_t mask[9];
    assert_int_equal(lf_matcher_mask(m, mask, NULL), LF_OK);
    return mask[token / 32] >> token % 32 & 1;
}

/* A vocabulary of bytes whose token 255 is another text. */
static struct lf_vocabulary *vocabulary_with(struct lf_str text)
{
    static char bytes[256];
    struct lf_str tokens[257];
    int32_t end = 256;
    struct lf_vocabulary *v = NULL;
    for (int i = 0; i < 256; i++) bytes[i] = (char)i;
    for (int i = 0; i < 256; i++) tokens[i] = i == 255 ? text : lf_str_from(&bytes[i], 1);
    tokens[256] = LF_STR("");
    assert_int_equal(lf_vocabulary_create(&v, tokens, 257, &end, 1, 1 << 16, NULL), LF_OK);
    return v;
}

/* A walk is kept for all places from which no token sees the end of a string: the longest one decides how far that is.
 */
static void a_long_token_sees_how_much_of_a_string_is_left(void **state)
{
    static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"; /* 50 */
    struct lf_vocabulary *v = vocabulary_with(lf_str_c(text));
    struct lf_grammar *g = grammar_of("{\"type\":\"string\",\"maxLength\":100}", NULL);
    struct lf_matcher *m = NULL;
    (void)state;
    assert_int_equal(lf_matcher_create(&m, g, v, NULL), LF_OK);
    assert_int_equal(lf_matcher_accept(m, '"'), LF_OK);
    for (int left = 100; left >= 0; left--) {
        assert_int_equal(allows(m, 255), left >= 50);
        assert_int_equal(lf_matcher_accept(m, left > 0 ? 'a' : '"'), LF_OK);
    }
    lf_matcher_destroy(m);
    lf_grammar_unref(g);
    lf_vocabulary_destroy(v);
}

/* What was kept of a walk at the beginning says nothing about tokens that add another text later. */
static void walks_are_of_one_vocabulary(void **state)
{
    struct lf_vocabulary *first = vocabulary_with(LF_STR("aB")), *next = vocabulary_with(LF_STR("a\nB"));
    struct lf_grammar *g = NULL;
    struct lf_matcher *m = NULL;
    (void)state;
    lf_vocabulary_set_next(first, next);
    assert_int_equal(lf_grammar_of_regex(&g, LF_STR("[^\\n]*"), NULL, NULL), LF_OK);
    assert_int_equal(lf_matcher_create(&m, g, first, NULL), LF_OK);
    assert_true(allows(m, 255));
    assert_int_equal(lf_matcher_accept(m, 'x'), LF_OK);
    assert_false(allows(m, 255));
    lf_matcher_restart(m);
    assert_true(allows(m, 255));
    lf_matcher_destroy(m);
    lf_grammar_unref(g);
    lf_vocabulary_destroy(first);
    lf_vocabulary_destroy(next);
}

static void the_newest_walks_are_kept(void **state)
{
    (void)state;
    enum { RING_BYTES = 1024, ROUNDS_N = 40, KEPT_N = 10 };
    struct lf_walk_cache *cache = lf_walk_cache_create(RING_BYTES, 8);
    struct lf_walk_buffer out;
    uint32_t mask[8] = {0};
    struct lf_trie_node_of_tokens nodes[2] = {{0}, {0}};
    int32_t ids[2];
    assert_non_null(cache);
    assert_true(lf_walk_buffer_init(&out, 8, NULL));
    for (uint32_t i = 0; i < ROUNDS_N; i++) {
        struct lf_walk_key key = {.state = i};
        struct lf_kept_walk walk = {.mask = mask, .rests = {nodes, ids, 2, 2}};
        mask[7] = nodes[1].first = i;
        ids[0] = ids[1] = (int32_t)i;
        lf_walk_cache_put(cache, &key, &walk); /* of 32 + 32 + 8 bytes, rounded up: 80 */
        for (uint32_t k = 0; k <= i; k++) {
            key.state = k;
            bool found = lf_walk_cache_get(cache, &key, &out);
            if (k + KEPT_N > i) assert_true(found);
            if (k + RING_BYTES / 64 < i) assert_false(found);
            if (!found) continue;
            assert_int_equal(out.walk.mask[7], k);
            assert_int_equal(out.walk.rests.n_nodes, 2);
            assert_int_equal(out.walk.rests.nodes[1].first, k);
            assert_int_equal(out.walk.rests.n_ids, 2);
            assert_int_equal(out.walk.rests.ids[1], (int32_t)k);
        }
    }
    lf_walk_buffer_deinit(&out);
    lf_walk_cache_destroy(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_what_trying_every_token_says),
        cmocka_unit_test(regexes_and_choices),
        cmocka_unit_test(long_answers_do_not_run_out_of_stacks),
        cmocka_unit_test(readings_end_at_their_limit),
        cmocka_unit_test(a_mask_has_a_budget),
        cmocka_unit_test(stacks_end_at_their_limit),
        cmocka_unit_test(compilations_end_at_their_limits),
        cmocka_unit_test(a_token_has_a_budget),
        cmocka_unit_test(a_matcher_that_may_not_grow_can_be_asked_again),
        cmocka_unit_test(looking_ahead_says_what_will_be_and_changes_nothing),
        cmocka_unit_test(looking_ahead_leaves_no_stacks_behind),
        cmocka_unit_test(a_long_token_sees_how_much_of_a_string_is_left),
        cmocka_unit_test(walks_are_of_one_vocabulary),
        cmocka_unit_test(the_newest_walks_are_kept),
        cmocka_unit_test(vocabularies_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
