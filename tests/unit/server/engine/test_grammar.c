/* Answers under grammars: each is what its prompt leads to among the tokens that its grammar allows, whatever runs
 * beside it, and it ends where its grammar does. */
#include "core/str.h"
#include "core/text_memory.h"
#include "grammar/grammar.h"
#include "tests/unit/server/engine/engine_fixture.h"

enum { ANSWER_N = 200, N_WORDS = (FAKE_VOCAB + 31) / 32 };

static struct lf_vocabulary *vocabulary;

/* The fake model's tokens: the printable characters, two of JSON's together, and its end in the place of one. */
static void make_vocabulary(void)
{
    static char chars[FAKE_VOCAB];
    struct lf_str tokens[FAKE_VOCAB];
    for (int i = 0; i < FAKE_VOCAB; i++) {
        chars[i] = (char)(' ' + i);
        tokens[i] = lf_str_from(&chars[i], 1);
    }
    tokens[95] = LF_STR("\":");
    tokens[96] = LF_STR("\",\"");
    assert_int_equal(lf_vocabulary_create(&vocabulary, tokens, FAKE_VOCAB, fake_eos, 1, 1 << 16, NULL), LF_OK);
}

static struct lf_grammar *grammar_of_schema(const char *schema)
{
    struct lf_json doc = {0};
    struct lf_grammar *g = NULL;
    struct lf_err err = {LF_OK, ""};
    assert_int_equal(lf_json_parse(&doc, lf_str_c(schema), &lf_json_limits_request, &err), LF_OK);
    if (lf_grammar_of_schema(&g, lf_json_root(&doc), NULL, NULL, &err) != LF_OK) fail_msg("%s", err.message);
    lf_json_deinit(&doc);
    return g;
}

static struct lf_grammar *grammar_of_regex(const char *pattern)
{
    struct lf_grammar *g = NULL;
    assert_int_equal(lf_grammar_of_regex(&g, lf_str_c(pattern), NULL, NULL), LF_OK);
    return g;
}

static struct lf_gen_params params_under(struct lf_grammar *g, const int32_t *prompt, int n_prompt, int max_tokens)
{
    struct lf_gen_params p = rig_params(prompt, n_prompt, max_tokens);
    p.grammar = g;
    p.vocabulary = vocabulary;
    p.ignore_eos = false;
    return p;
}

/* ---- what must come ---- */

struct answer {
    int32_t ids[ANSWER_N];
    int n;
    enum lf_finish finish;
};

/* One token after another, by a matcher of its own. */
static void expect(struct answer *a, const struct lf_gen_params *p)
{
    uint32_t scratch[2 * FAKE_VOCAB], mask[N_WORDS];
    float logits[FAKE_VOCAB];
    struct lf_matcher *m = NULL;
    uint64_t h = 0;
    *a = (struct answer){.finish = LF_FINISH_LENGTH};
    if (p->grammar) assert_int_equal(lf_matcher_create(&m, p->grammar, p->vocabulary, NULL), LF_OK);
    for (int i = 0; i < p->n_prompt; i++) h = fake_hash(h, p->prompt[i]);
    while (a->n < p->max_tokens && a->finish == LF_FINISH_LENGTH) {
        struct lf_sampled out;
        struct lf_batch_out ask = {
            .sampling = &p->sampling, .mask = m ? mask : NULL, .position = (uint64_t)(p->n_prompt + a->n)};
        for (int v = 0; v < FAKE_VOCAB; v++) logits[v] = fake_logit(h, v);
        if (m) assert_int_equal(lf_matcher_mask(m, mask, NULL), LF_OK);
        lf_sample_row(&out, &ask, logits, FAKE_VOCAB, scratch);
        if (out.id == FAKE_EOS) {
            a->finish = LF_FINISH_STOP;
            break;
        }
        a->ids[a->n++] = out.id;
        h = fake_hash(h, out.id);
        if (m) assert_int_equal(lf_matcher_accept(m, out.id), LF_OK);
        if (m && lf_matcher_is_finished(m)) a->finish = LF_FINISH_STOP;
    }
    lf_matcher_destroy(m);
}

static void check_answer(struct lf_request *req, const struct answer *a)
{
    struct lf_request_state st = rig_wait(req);
    assert_int_equal(st.finish, a->finish);
    assert_int_equal(st.n_tokens, a->n);
    for (int i = 0; i < a->n; i++) assert_int_equal(lf_request_token(req, i)->id, a->ids[i]);
    lf_request_put(req);
}

/* ---- cases ---- */

static void answers_are_the_same_alone_together_in_chunks_and_from_the_cache(void **state)
{
    struct engine_rig *f = *state;
    enum { N = 14 };
    static int32_t prompts[N][700];
    static struct answer answers[N];
    struct lf_gen_params params[N];
    struct lf_request *reqs[N];
    struct lf_grammar *grammars[] = {
        grammar_of_schema("{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":20},\"n\":"
                          "{\"type\":\"integer\"},\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"bc\"]}}},"
                          "\"required\":[\"name\",\"n\",\"tags\"],\"additionalProperties\":false}"),
        grammar_of_regex("[a-z]{3,40}( [A-Z][a-z]*){0,3}"),
        grammar_of_regex("(yes|no|may be)"),
        NULL,
    };
    for (int i = 0; i < N; i++) {
        int n_prompt = 20 + 50 * i;
        rig_prompt(prompts[i], n_prompt, 5); /* one is the beginning of the next */
        params[i] = params_under(grammars[i % 4], prompts[i], n_prompt, 30 + 10 * i);
        params[i].sampling.temperature = i % 3 == 0 ? 0 : 0.01f;
        params[i].sampling.seed = (uint64_t)i;
        expect(&answers[i], &params[i]);
    }
    for (int i = 0; i < N; i++) reqs[i] = rig_submit(f, &params[i]);
    for (int i = 0; i < N; i++) check_answer(reqs[i], &answers[i]);
    for (int i = 0; i < N; i++) check_answer(rig_submit(f, &params[i]), &answers[i]);
    for (int i = 0; i < N; i++) { /* three choices of one prompt */
        for (int k = 0; k < 3; k++) {
            params[i].leader = k > 0 ? reqs[0] : NULL;
            params[i].sampling.seed = (uint64_t)(100 + k);
            reqs[k] = rig_submit(f, &params[i]);
        }
        for (int k = 0; k < 3; k++) {
            params[i].sampling.seed = (uint64_t)(100 + k);
            expect(&answers[i], &params[i]);
            check_answer(reqs[k], &answers[i]);
        }
    }
    for (size_t i = 0; i < LF_N_ELEMS(grammars); i++) lf_grammar_unref(grammars[i]);
    const struct lf_engine_metrics *m = lf_engine_metrics(f->engine);
    assert_int_equal(lf_counter_get(&m->constrained), (N - 3) * 5);
    assert_true(lf_counter_get(&m->masks) > 100 && lf_counter_get(&m->masks_ns) > 0);
    assert_true(f->backend.n_tasks > 100 || !workers);
}

/* The grammar goes when its last request has. */
static struct lf_request *submit_under(struct engine_rig *f, struct lf_grammar *g, struct lf_gen_params *p)
{
    p->grammar = g;
    struct lf_request *req = rig_submit(f, p);
    lf_grammar_unref(g);
    return req;
}

static void check_end(struct lf_request *req, enum lf_finish finish, int n_tokens, int32_t stop_token)
{
    struct lf_request_state st = rig_wait(req);
    assert_int_equal(st.finish, finish);
    assert_int_equal(st.n_tokens, n_tokens);
    assert_int_equal(st.stop_token, stop_token);
    lf_request_put(req);
}

static void an_answer_ends_when_nothing_can_follow(void **state)
{
    struct engine_rig *f = *state;
    int32_t prompt[20];
    rig_prompt(prompt, 20, 3);
    struct lf_gen_params p = params_under(NULL, prompt, 20, 10);
    check_end(submit_under(f, grammar_of_regex("word"), &p), LF_FINISH_STOP, 4, -1);
    p.max_tokens = 4; /* whole, and not cut off */
    check_end(submit_under(f, grammar_of_regex("word"), &p), LF_FINISH_STOP, 4, -1);
    p.max_tokens = 3;
    check_end(submit_under(f, grammar_of_regex("word"), &p), LF_FINISH_LENGTH, 3, -1);
    p.max_tokens = 0;
    check_end(submit_under(f, grammar_of_regex("word"), &p), LF_FINISH_LENGTH, 0, -1);
    p.max_tokens = 10;
    check_end(submit_under(f, grammar_of_regex(""), &p), LF_FINISH_STOP, 0, FAKE_EOS);
    p.min_tokens = 1; /* but then nothing is left to draw */
    check_end(submit_under(f, grammar_of_regex(""), &p), LF_FINISH_STOP, 0, -1);
    p.min_tokens = 8;
    check_end(submit_under(f, grammar_of_regex("word"), &p), LF_FINISH_STOP, 4, -1);
}

static void ends_are_not_drawn_below_min_tokens_nor_where_they_are_ignored(void **state)
{
    struct engine_rig *f = *state;
    int32_t prompt[20], stop = '5' - ' ';
    for (uint64_t seed = 0; seed < 20; seed++) {
        rig_prompt(prompt, 20, seed);
        struct lf_gen_params p = params_under(NULL, prompt, 20, 60);
        p.min_tokens = 30;
        struct lf_request *req = submit_under(f, grammar_of_regex("[0-9]*"), &p);
        struct lf_request_state st = rig_wait(req);
        assert_int_equal(st.finish, st.n_tokens < 60 ? LF_FINISH_STOP : LF_FINISH_LENGTH);
        assert_true(st.n_tokens >= 30);
        lf_request_put(req);

        p.min_tokens = 0;
        p.ignore_eos = true;
        check_end(submit_under(f, grammar_of_regex("[0-9]*"), &p), LF_FINISH_LENGTH, 60, -1);
        check_end(submit_under(f, grammar_of_regex("[0-9]{7}"), &p), LF_FINISH_STOP, 7, -1);
        check_end(submit_under(f, grammar_of_regex(""), &p), LF_FINISH_STOP, 0, -1);

        p.stop_token_ids = &stop;
        p.n_stop_token_ids = 1;
        req = submit_under(f, grammar_of_regex("[5-6]{100}"), &p);
        st = rig_wait(req);
        for (int i = 0; i < st.n_tokens; i++) assert_int_equal(lf_request_token(req, i)->id, stop + 1);
        assert_true(st.n_tokens == 60 || (st.finish == LF_FINISH_STOP && st.stop_token == stop));
        lf_request_put(req);
    }
}

static void only_tokens_that_may_come_have_log_probabilities(void **state)
{
    struct engine_rig *f = *state;
    int32_t prompt[20];
    rig_prompt(prompt, 20, 3);
    struct lf_gen_params p = params_under(NULL, prompt, 20, 10);
    p.sampling.n_logprobs = 5;
    struct lf_request *req = submit_under(f, grammar_of_regex("[abc]x"), &p);
    assert_int_equal(rig_wait(req).n_tokens, 2);
    const struct lf_sampled *t = lf_request_token(req, 0);
    double sum = 0;
    assert_int_equal(t->n_top, 3);
    assert_int_equal(t->top_ids[0], t->id);
    for (int i = 0; i < 3; i++) {
        assert_in_range(t->top_ids[i], 'a' - ' ', 'c' - ' ');
        sum += exp((double)t->top_logprobs[i]);
    }
    assert_true(fabs(sum - 1) < 1e-5);
    t = lf_request_token(req, 1);
    assert_int_equal(t->n_top, 1);
    assert_true(t->id == 'x' - ' ' && fabsf(t->logprob) < 1e-6f);
    lf_request_put(req);
}

/* ---- with what is proposed ---- */

/* What is predicted: the answer, of which each `every`-th token is another one. */
static int predict(int32_t *ids, const struct answer *a, int every)
{
    for (int i = 0; i < a->n; i++) ids[i] = i % every == every - 1 ? (a->ids[i] + 1) % FAKE_VOCAB : a->ids[i];
    return a->n;
}

static struct lf_request_state check_proposed(struct engine_rig *f, const struct lf_gen_params *p,
                                              const struct answer *a)
{
    struct lf_request *req = rig_submit(f, p);
    struct lf_request_state st = rig_wait(req);
    check_answer(req, a);
    assert_true(st.n_accepted <= st.n_proposed);
    return st;
}

/* Whatever is predicted of an answer under a grammar, alone and several at once: it stays the same. */
static void what_is_proposed_changes_no_answer(void **state)
{
    struct engine_rig *f = *state;
    static const int ways[] = {LF_SPECULATION_AUTO, 1, 5, 15};
    static const int everies[] = {1000, 9, 4};
    static struct answer a;
    int32_t prompt[60], prediction[ANSWER_N];
    struct lf_grammar *grammars[] = {
        grammar_of_schema("{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":30},\"n\":"
                          "{\"type\":\"integer\"},\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"a\",\"bc\"]}}},"
                          "\"required\":[\"name\",\"n\",\"tags\"],\"additionalProperties\":false}"),
        grammar_of_regex("[a-z]{3,40}( [A-Z][a-z]*){0,3}"),
        grammar_of_regex("(the quick brown fox (jumps|sleeps), ){20}"),
    };
    int n_accepted = 0, n_refused = 0;
    for (size_t i = 0; i < 5 * LF_N_ELEMS(grammars); i++) {
        rig_prompt(prompt, 60, i);
        struct lf_gen_params p = params_under(grammars[i % LF_N_ELEMS(grammars)], prompt, 60, 180);
        p.sampling.temperature = i % 2 ? 0.01f : 0;
        p.sampling.seed = i;
        expect(&a, &p);
        assert_true(a.n > 5);
        for (size_t k = 0; k < LF_N_ELEMS(ways) * LF_N_ELEMS(everies); k++) {
            p.speculate = ways[k % LF_N_ELEMS(ways)];
            p.prediction = prediction;
            p.n_prediction = predict(prediction, &a, everies[k / LF_N_ELEMS(ways)]);
            struct lf_request_state st = check_proposed(f, &p, &a);
            n_accepted += st.n_accepted;
            n_refused += st.n_proposed - st.n_accepted;
        }
        struct lf_request *reqs[LF_N_ELEMS(ways)];
        for (size_t k = 0; k < LF_N_ELEMS(ways); k++) {
            p.speculate = ways[k];
            reqs[k] = rig_submit(f, &p);
        }
        for (size_t k = 0; k < LF_N_ELEMS(ways); k++) check_answer(reqs[k], &a);
    }
    assert_true(n_accepted > 1000 && n_refused > 100);
    for (size_t i = 0; i < LF_N_ELEMS(grammars); i++) lf_grammar_unref(grammars[i]);
}

/* What the grammar refuses is not computed: behind each proposal of what may come, what may not has been predicted. */
static void what_a_grammar_refuses_is_not_proposed(void **state)
{
    struct engine_rig *f = *state;
    static struct answer a;
    int32_t prompt[20], prediction[ANSWER_N];
    rig_prompt(prompt, 20, 4);
    struct lf_grammar *g = grammar_of_regex("(ABCDEFGHIJKLMNOP|QRSTUVWXYZABCDEF){8}");
    struct lf_gen_params p = params_under(g, prompt, 20, 128);
    expect(&a, &p);
    assert_int_equal(a.n, 128);
    p.prediction = prediction;
    p.n_prediction = predict(prediction, &a, 8); /* within a word, where one letter may come alone */
    p.speculate = 15;
    struct lf_request_state st = check_proposed(f, &p, &a);
    assert_true(st.n_accepted > 40);
    assert_in_range(st.n_proposed - st.n_accepted, 0, 40); /* where words begin either may come */
    lf_grammar_unref(g);
}

/* ---- what goes wrong ---- */

/* A choice that begins with one of them cannot be had; where both do, the answer says so; behind a whole one it ends.
 */
static void bad_words_narrow_a_grammar(void **state)
{
    struct engine_rig *f = *state;
    static const struct {
        const char *pattern;
        int32_t words[6];
        int n;
        const char *answer; /* NULL: nothing is left */
    } cases[] = {{"(yes|no)", {1, 'n' - ' '}, 2, "yes"},
                 {"(yes|no)", {1, 'y' - ' '}, 2, "no"},
                 {"(yes|no)", {1, 'y' - ' ', 1, 'n' - ' '}, 4, NULL},
                 {"(yes|nay|nut)", {1, 'y' - ' ', 2, 'n' - ' ', 'a' - ' '}, 5, "nut"},
                 {"yes", {2, 'e' - ' ', 's' - ' '}, 3, NULL},
                 {"no+", {2, 'o' - ' ', 'o' - ' ', 1, FAKE_EOS}, 5, "no"}};
    int32_t prompt[20];
    rig_prompt(prompt, 20, 8);
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        struct lf_grammar *g = grammar_of_regex(cases[i].pattern);
        struct lf_gen_params p = params_under(g, prompt, 20, 9);
        p.bad_words = cases[i].words;
        p.n_bad_words = cases[i].n;
        struct lf_request *req = rig_submit(f, &p);
        struct lf_request_state st = rig_wait(req);
        const char *want = cases[i].answer;
        assert_int_equal(st.finish, want ? LF_FINISH_STOP : LF_FINISH_ERROR);
        if (want) assert_int_equal(st.n_tokens, strlen(want));
        for (int k = 0; want && want[k]; k++) assert_int_equal(lf_request_token(req, k)->id, want[k] - ' ');
        if (!want) assert_string_equal(st.message, LF_BAD_WORDS_NO_TOKEN);
        lf_request_put(req);
        lf_grammar_unref(g);
    }
}

/* Behind {"a":{"b": there are 64 n readings, of which 8,192 are allowed. */
static struct lf_grammar *wide_grammar(int n)
{
    struct lf_buf schema;
    lf_buf_init(&schema, 1 << 20);
    lf_buf_cstr(&schema, "{\"$defs\":{\"x\":{\"anyOf\":[");
    for (int i = 0; i < n; i++)
        lf_buf_printf(&schema,
                      "%s{\"type\":\"object\",\"properties\":{\"b\":{\"const\":%d}},\"required\":[\"b\"],"
                      "\"additionalProperties\":false}",
                      i ? "," : "", i);
    lf_buf_cstr(&schema, "]}},\"anyOf\":[");
    for (int i = 0; i < 64; i++)
        lf_buf_printf(&schema,
                      "%s{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/x\"},\"t\":{\"const\":%d}},"
                      "\"required\":[\"a\",\"t\"],\"additionalProperties\":false}",
                      i ? "," : "", i);
    lf_buf_cstr(&schema, "]}");
    struct lf_grammar *g = grammar_of_schema(schema.ptr);
    lf_buf_deinit(&schema);
    return g;
}

static void check_error(struct lf_request *req, enum lf_status status, const char *message)
{
    struct lf_request_state st = rig_wait(req);
    assert_int_equal(st.finish, LF_FINISH_ERROR);
    assert_int_equal(st.status, status);
    assert_string_equal(st.message, message);
    lf_request_put(req);
}

static void a_grammar_that_cannot_be_followed_ends_its_request_and_no_other(void **state)
{
    struct engine_rig *f = *state;
    int32_t prompt[20];
    rig_prompt(prompt, 20, 3);
    struct lf_gen_params good = params_under(NULL, prompt, 20, 150), bad = params_under(NULL, prompt, 20, 150);
    for (int i = 0; i < 3; i++) {
        struct lf_text_memory *memory = NULL; /* one a time: the janitor may free the request before this one late */
        assert_int_equal(lf_text_memory_create(&memory, 320 * 1024, NULL), LF_OK);
        struct lf_request *neighbour = submit_under(f, grammar_of_regex("[a-z]{100}"), &good);
        struct lf_request *wide = submit_under(f, wide_grammar(129), &bad);
        struct lf_request *narrow = submit_under(f, wide_grammar(20), &bad);
        struct lf_request *lacks = submit_under(f, grammar_of_regex("abc\xc3\xa9"), &bad);
        bad.memory = memory;
        struct lf_request *poor = submit_under(f, wide_grammar(128), &bad);
        bad.memory = NULL;
        check_error(wide, LF_LIMIT, LF_GRAMMAR_TOO_WIDE);
        check_error(lacks, LF_UNSUPPORTED, LF_GRAMMAR_NO_TOKEN);
        check_error(poor, LF_NO_MEMORY, LF_GRAMMAR_NO_MEMORY);
        assert_int_equal(rig_wait(narrow).finish, LF_FINISH_STOP);
        lf_request_put(narrow);
        check_end(neighbour, LF_FINISH_STOP, 100, -1);
        lf_text_memory_destroy(memory);
    }
    assert_int_equal(lf_counter_get(&lf_engine_metrics(f->engine)->broken_grammars), 9);
    assert_int_equal(rig_blocks_used(f), 0);
}

/* Proposed or not: the tokens before the place come, and nothing else. */
static void a_place_that_cannot_be_passed_is_the_same_with_proposals(void **state)
{
    struct engine_rig *f = *state;
    static const char text[] = "{\"a\":{\"b\":17}";
    int32_t prompt[20] = {0}, prediction[sizeof text - 1];
    struct lf_gen_params p = params_under(NULL, prompt, 20, 150);
    const struct lf_counter *masks = &lf_engine_metrics(f->engine)->masks;
    int n_accepted = 0;
    for (size_t i = 0; i < sizeof text - 1; i++) prediction[i] = text[i] - ' ';
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct lf_request_state st[2];
        rig_prompt(prompt, 20, seed);
        for (int k = 0; k < 2; k++) {
            p.speculate = k * 15;
            p.prediction = k ? prediction : NULL;
            p.n_prediction = k ? (int)LF_N_ELEMS(prediction) : 0;
            uint64_t n_masks = lf_counter_get(masks);
            struct lf_request *req = submit_under(f, wide_grammar(129), &p);
            st[k] = rig_wait(req);
            n_masks = lf_counter_get(masks) - n_masks; /* one for each token */
            if (k == 0) assert_int_equal(n_masks, st[0].n_tokens);
            check_error(req, LF_LIMIT, LF_GRAMMAR_TOO_WIDE);
        }
        assert_int_equal(st[1].n_tokens, st[0].n_tokens);
        n_accepted += st[1].n_accepted;
    }
    assert_true(n_accepted > 0);
}

static void what_cannot_begin_is_refused(void **state)
{
    struct engine_rig *f = *state;
    struct lf_text_memory *memory = NULL;
    struct lf_vocabulary *larger = NULL;
    struct lf_str tokens[FAKE_VOCAB + 32];
    struct lf_grammar *g = grammar_of_regex("a+");
    int32_t prompt[20];
    int retry = 0;
    rig_prompt(prompt, 20, 3);
    for (size_t i = 0; i < LF_N_ELEMS(tokens); i++) tokens[i] = LF_STR("a");
    assert_int_equal(lf_vocabulary_create(&larger, tokens, FAKE_VOCAB + 32, NULL, 0, 1 << 16, NULL), LF_OK);
    struct lf_gen_params p = params_under(g, prompt, 20, 10);
    p.vocabulary = NULL;
    assert_int_equal(rig_try(f, &p, &retry), LF_INVALID);
    p.vocabulary = larger;
    assert_int_equal(rig_try(f, &p, &retry), LF_INVALID);
    p.vocabulary = vocabulary;
    assert_int_equal(lf_text_memory_create(&memory, 4 * 1024, NULL), LF_OK);
    p.memory = memory;
    assert_int_equal(rig_try(f, &p, &retry), LF_NO_MEMORY);
    lf_text_memory_destroy(memory);
    lf_vocabulary_destroy(larger);
    lf_grammar_unref(g);
}

static void requests_under_grammars_can_be_let_go_of_at_any_time(void **state)
{
    struct engine_rig *f = *state;
    int32_t prompt[300];
    f->backend.delay_us = 100;
    for (int i = 0; i < 40; i++) {
        rig_prompt(prompt, 300, (uint64_t)i);
        struct lf_gen_params p = params_under(NULL, prompt, 300, 1000);
        if (i % 4 == 1) p.deadline_ns = lf_clock_ns() + i * (int64_t)100000;
        struct lf_request *req = submit_under(f, grammar_of_regex("[a-z]*"), &p);
        if (i % 4 == 2) (void)rig_wait(req);
        if (i % 4 == 3) lf_clock_sleep_ms(1);
        lf_request_put(req);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(bad_words_narrow_a_grammar),
        CASE(answers_are_the_same_alone_together_in_chunks_and_from_the_cache),
        CASE(an_answer_ends_when_nothing_can_follow),
        CASE(ends_are_not_drawn_below_min_tokens_nor_where_they_are_ignored),
        CASE(only_tokens_that_may_come_have_log_probabilities),
        CASE(what_is_proposed_changes_no_answer),
        CASE(what_a_grammar_refuses_is_not_proposed),
        CASE(a_place_that_cannot_be_passed_is_the_same_with_proposals),
        CASE(a_grammar_that_cannot_be_followed_ends_its_request_and_no_other),
        CASE(what_cannot_begin_is_refused),
        CASE(requests_under_grammars_can_be_let_go_of_at_any_time),
    };
    int n_failed = 0;
    make_vocabulary();
    for (n_async_steps = 0; n_async_steps <= LF_ENGINE_ASYNC_STEPS_N; n_async_steps++)
        n_failed += cmocka_run_group_tests(tests, NULL, NULL);
    n_async_steps = 0;
    assert_int_equal(lf_threads_create(&workers, 3, NULL), LF_OK);
    n_failed += cmocka_run_group_tests(tests, NULL, NULL);
    lf_threads_destroy(workers);
    lf_vocabulary_destroy(vocabulary);
    return n_failed;
}
