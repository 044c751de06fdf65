/* Speculation: how much is proposed, and that no answer is another one for it. The model's next token depends on all
 * before it, so what is proposed is mostly wrong; where two ids alone are allowed it is right half of the time, where
 * one is, always. */
#include "core/limits.h"
#include "core/text_memory.h"
#include "grammar/grammar.h"
#include "grammar/vocabulary.h"
#include "server/engine/request_internal.h"
#include "tests/unit/server/engine/engine_fixture.h"

/* ---- how many ---- */

struct proposals {
    struct lf_speculation s;
    int32_t ids[600];
    uint32_t grams[1024 + 600];
};

/* A text of 500 tokens that comes again every ten. */
static void init(struct proposals *p, int n_most)
{
    struct lf_gram_index x;
    for (int i = 0; i < 500; i++) p->ids[i] = i % 10;
    lf_gram_index_init(&x, p->ids, p->grams, 10, p->grams + 1024);
    lf_speculation_init(&p->s, &x, 0, n_most);
}

static void what_follows_is_proposed(void **state)
{
    (void)state;
    struct proposals p;
    for (int n_most = 1; n_most <= LF_SPECULATION_N; n_most++) {
        init(&p, n_most);
        assert_int_equal(lf_speculation_propose(&p.s, p.ids, 500, 100, 1e9), n_most);
        for (int i = 500; i < 500 + n_most; i++) assert_int_equal(p.ids[i], i % 10);
        assert_int_equal(lf_speculation_propose(&p.s, p.ids, 500, n_most - 1, 0), n_most - 1);
    }
    init(&p, 16);
    p.ids[499] = 77; /* never before */
    assert_int_equal(lf_speculation_propose(&p.s, p.ids, 500, 100, 0), 0);
}

/* A text may end where it is found to go on: its own last tokens over and over. */
static void what_was_just_proposed_goes_on(void **state)
{
    (void)state;
    struct proposals p;
    init(&p, 16);
    for (int i = 490; i < 500; i++) p.ids[i] = 50 + i % 2;
    assert_int_equal(lf_speculation_propose(&p.s, p.ids, 500, 16, 0), 16);
    for (int i = 500; i < 516; i++) assert_int_equal(p.ids[i], 50 + i % 2);
}

/* What stands in front of the sequence is proposed as what stands in it, and put behind the sequence's own. */
static void what_stands_in_front_is_proposed(void **state)
{
    (void)state;
    struct proposals p;
    struct lf_gram_index x;
    for (int i = 0; i < 100; i++) p.ids[i] = 1000 + i;
    for (int i = 100; i < 200; i++) p.ids[i] = i;
    memcpy(p.ids + 200, p.ids + 40, 3 * sizeof *p.ids);
    lf_gram_index_init(&x, p.ids, p.grams, 10, p.grams + 1024);
    lf_speculation_init(&p.s, &x, 100, 16);
    assert_int_equal(lf_speculation_propose(&p.s, p.ids + 100, 103, 100, 1), 16);
    for (int i = 0; i < 16; i++) assert_int_equal(p.ids[203 + i], 1043 + i);
}

static void as_many_as_pay_are_proposed(void **state)
{
    (void)state;
    struct proposals p;
    init(&p, LF_SPECULATION_AUTO);
    assert_int_equal(lf_speculation_propose(&p.s, p.ids, 500, 100, 0.71), 0); /* 0.7 is the guess */
    assert_int_equal(lf_speculation_propose(&p.s, p.ids, 500, 100, 0.69), 1);
    assert_int_equal(lf_speculation_propose(&p.s, p.ids, 500, 100, 0.34), 3); /* 0.7³ is 0.343 */
    for (int i = 0; i < 100; i++) lf_speculation_learn(&p.s, 16, 16);
    assert_int_equal(lf_speculation_propose(&p.s, p.ids, 500, 100, 0.9), LF_SPECULATION_N);
    for (int i = 0; i < 10000; i++) lf_speculation_learn(&p.s, 2, 1); /* one of two */
    int n = lf_speculation_propose(&p.s, p.ids, 500, 100, 0.3);
    assert_true(n == 1 || n == 2);
}

/* What stands behind the first that was wrong says nothing: it was not tried. */
static void what_was_not_tried_is_not_counted(void **state)
{
    (void)state;
    struct proposals p;
    init(&p, LF_SPECULATION_AUTO);
    for (int i = 0; i < 1000; i++) lf_speculation_learn(&p.s, 16, 8);
    assert_int_equal(lf_speculation_propose(&p.s, p.ids, 500, 100, 0.5), 5); /* (8/9)⁵ > 0.5 > (8/9)⁶ */
}

/* A long quotation is forgotten too: what follows it and does not come is soon proposed no more. */
static void what_came_is_forgotten(void **state)
{
    (void)state;
    struct proposals p;
    int n_steps = 0;
    init(&p, LF_SPECULATION_AUTO);
    for (int i = 0; i < 2000; i++) {
        int n = lf_speculation_propose(&p.s, p.ids, 500, 100, 0.3);
        lf_speculation_learn(&p.s, n, n);
    }
    while (n_steps < 2000 && lf_speculation_propose(&p.s, p.ids, 500, 100, 0.3) > 0) {
        lf_speculation_learn(&p.s, 1, 0);
        n_steps++;
    }
    assert_in_range(n_steps, 50, 600);
}

/* What never comes costs one token in some thirty, and what came to be wrong can be right again. */
static void what_does_not_pay_is_asked_again_seldom(void **state)
{
    (void)state;
    struct proposals p;
    int n_proposed = 0, n_steps = 0;
    init(&p, LF_SPECULATION_AUTO);
    for (int i = 0; i < 3000; i++) {
        int n = lf_speculation_propose(&p.s, p.ids, 500, 100, 0.3);
        n_proposed += n;
        if (n > 0) lf_speculation_learn(&p.s, n, 0);
    }
    assert_in_range(n_proposed, 10, 150);
    for (int n = 0; n < LF_SPECULATION_N && n_steps < 300; n_steps++) {
        n = lf_speculation_propose(&p.s, p.ids, 500, 100, 0.3);
        if (n > 0) lf_speculation_learn(&p.s, n, n);
    }
    assert_true(n_steps < 150);
}

/* ---- answers ---- */

enum { LEN = 200, N_PROMPT = 70, N_CASES = 6 };
static const int32_t pair[2] = {3, 96};

/* Prompts of what is allowed, so that each gram has been there: two ids, or one; greedy or drawn, with penalties. */
static struct lf_gen_params case_of(int i, int32_t prompt[N_PROMPT], const int32_t stop[1])
{
    for (int k = 0; k < N_PROMPT; k++) prompt[k] = pair[lf_random64((uint64_t)i, (uint64_t)k) % (i == 1 ? 1 : 2)];
    struct lf_gen_params p = rig_params(prompt, N_PROMPT, LEN - i);
    p.allowed_ids = pair;
    p.n_allowed_ids = i == 1 ? 1 : 2;
    if (i >= 2) p.sampling.temperature = 3;
    p.sampling.seed = (uint64_t)i;
    if (i == 3) p.sampling.frequency_penalty = 0.01f;
    if (i == 3) p.sampling.presence_penalty = 0.4f;
    if (i == 4) p.sampling.repetition_penalty = 1.1f;
    if (i == 4) p.sampling.n_logprobs = 2;
    if (i == 5) { /* one of the two ends it, but not before 90 */
        p.stop_token_ids = stop;
        p.n_stop_token_ids = 1;
        p.min_tokens = 90;
    }
    return p;
}

struct answer {
    struct lf_request_state st;
    struct lf_sampled tokens[LEN];
};

static struct lf_request *ask(struct engine_rig *f, int i, int speculate)
{
    int32_t prompt[N_PROMPT];
    struct lf_gen_params p = case_of(i, prompt, &pair[1]);
    p.speculate = speculate;
    return rig_submit(f, &p);
}

static void take(struct lf_request *req, struct answer *out)
{
    memset(out, 0, sizeof(*out));
    out->st = rig_wait(req);
    for (int k = 0; k < out->st.n_tokens; k++) {
        const struct lf_sampled *t = lf_request_token(req, k);
        out->tokens[k].id = t->id;
        out->tokens[k].logprob = t->logprob;
        if (t->n_top > 0) out->tokens[k] = *t;
    }
    lf_request_put(req);
}

static void check_same(const struct answer *a, const struct answer *b)
{
    assert_int_equal(a->st.n_tokens, b->st.n_tokens);
    assert_int_equal(a->st.finish, b->st.finish);
    assert_int_equal(a->st.stop_token, b->st.stop_token);
    assert_memory_equal(a->tokens, b->tokens, sizeof(a->tokens));
}

static const int ways[] = {LF_SPECULATION_AUTO, 1, 2, 7, 16};

static void answers_are_the_same_alone(void **state)
{
    struct engine_rig *f = *state;
    static struct answer off, on;
    for (int i = 0; i < N_CASES; i++) {
        take(ask(f, i, LF_SPECULATION_OFF), &off);
        assert_int_equal(off.st.n_proposed, 0);
        assert_true(off.st.n_tokens >= 90);
        for (size_t w = 0; w < LF_N_ELEMS(ways); w++) {
            take(ask(f, i, ways[w]), &on);
            check_same(&on, &off);
            assert_true(on.st.n_accepted <= on.st.n_proposed && on.st.n_accepted < on.st.n_tokens);
            if (w > 0) assert_true(on.st.n_accepted >= LEN / 5);
            if (w > 0 && i != 1 && i != 5) assert_true(on.st.n_proposed > on.st.n_accepted);
        }
    }
}

/* By the very token that was proposed, or beside it, at any place of the proposal. */
static void an_answer_may_end_in_what_was_proposed(void **state)
{
    struct engine_rig *f = *state;
    static struct answer off, on;
    int n_within = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        int32_t prompt[N_PROMPT];
        struct lf_gen_params p = case_of(5, prompt, &pair[1]);
        p.sampling.seed = seed;
        p.min_tokens = 1 + (int)seed % 20;
        take(rig_submit(f, &p), &off);
        p.speculate = 16;
        take(rig_submit(f, &p), &on);
        check_same(&on, &off);
        assert_int_equal(on.st.finish, LF_FINISH_STOP);
        n_within += on.st.n_accepted > 0;
    }
    assert_true(n_within > 20);
}

/* A prediction changes no byte either: of what comes, of the prompt's ids in another order, of an id that never comes.
 * (Of two ids there are eight grams, each so often that the tries do not reach far: not all is found that could be.) */
static void predictions_change_no_answer(void **state)
{
    struct engine_rig *f = *state;
    static struct answer off, on;
    static int32_t prediction[3][LEN];
    for (int i = 0; i < N_CASES; i++) {
        int32_t prompt[N_PROMPT];
        struct lf_gen_params p = case_of(i, prompt, &pair[1]);
        take(rig_submit(f, &p), &off);
        for (int k = 0; k < LEN; k++) {
            prediction[0][k] = k < off.st.n_tokens ? off.tokens[k].id : pair[0];
            prediction[1][k] = pair[lf_random64(99, (uint64_t)k) % 2];
            prediction[2][k] = 5 + k % 7;
        }
        for (int w = 0; w < 3; w++) {
            p.prediction = prediction[w];
            p.n_prediction = w == 2 ? 1 : LEN;
            p.speculate = w == 0 ? 16 : LF_SPECULATION_AUTO;
            take(rig_submit(f, &p), &on);
            check_same(&on, &off);
            if (w == 0) assert_true(on.st.n_accepted >= LEN / 5);
        }
        p.speculate = LF_SPECULATION_OFF;
        take(rig_submit(f, &p), &on);
        check_same(&on, &off);
        assert_int_equal(on.st.n_proposed, 0);
    }
}

/* All ids of an answer that is nowhere in its prompt are taken from what was predicted, from the second on: the first
 * comes of the prompt's own step. */
static void a_prediction_is_found_from_the_answers_first_token_on(void **state)
{
    struct engine_rig *f = *state;
    static struct answer off, on;
    int32_t prompt[N_PROMPT], prediction[102];
    rig_prompt(prompt, N_PROMPT, 3);
    struct lf_gen_params p = rig_params(prompt, N_PROMPT, 102);
    p.ignore_eos = true;
    take(rig_submit(f, &p), &off);
    for (int k = 0; k < 102; k++) prediction[k] = off.tokens[k].id;
    p.prediction = prediction;
    p.n_prediction = 102;
    p.speculate = 16;
    take(rig_submit(f, &p), &on);
    check_same(&on, &off);
    assert_in_range(on.st.n_accepted, 102 - 1 - 102 / 17 - 1, 102);
    assert_int_equal(on.st.n_accepted, on.st.n_proposed);
}

/* More at once than a step has rows of logits for, behind each other's prompts, and over again from the cache. */
static void answers_are_the_same_among_others(void **state)
{
    struct engine_rig *f = *state;
    static struct answer off[N_CASES], on;
    struct lf_request *reqs[4 * N_CASES];
    for (int i = 0; i < N_CASES; i++) take(ask(f, i, LF_SPECULATION_OFF), &off[i]);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4 * N_CASES; i++) reqs[i] = ask(f, i % N_CASES, i % 4 == 3 ? 0 : ways[(i + round) % 5]);
        for (int i = 0; i < 4 * N_CASES; i++) {
            take(reqs[i], &on);
            check_same(&on, &off[i % N_CASES]);
        }
    }
}

/* What a speculated answer has left in the prefix cache is what a prompt that goes on from it needs. */
static void what_it_leaves_in_the_cache_is_right(void **state)
{
    struct engine_rig *f = *state;
    static struct answer on;
    int32_t prompt[N_PROMPT + LEN];
    struct lf_gen_params p = case_of(0, prompt, NULL);
    take(ask(f, 0, 7), &on);
    for (int k = 0; k < on.st.n_tokens; k++) prompt[N_PROMPT + k] = on.tokens[k].id;
    p = rig_params(prompt, N_PROMPT + on.st.n_tokens, 20);
    struct lf_request *req = rig_submit(f, &p);
    struct lf_request_state st = rig_wait(req);
    assert_int_equal(st.n_cached, (N_PROMPT + on.st.n_tokens - 1) / LF_KV_BLOCK_TOKENS * LF_KV_BLOCK_TOKENS);
    rig_check_tokens(req, prompt, N_PROMPT + on.st.n_tokens, 20);
    lf_request_put(req);
}

/* Rows for two alone: what is proposed never takes another's. */
static void there_may_be_no_room_for_proposals(void **state)
{
    struct engine_rig *f = *state;
    static struct answer off[2], on;
    struct lf_engine_opts opts = rig_opts();
    for (int i = 0; i < 2; i++) take(ask(f, 2 * i, LF_SPECULATION_OFF), &off[i]);
    rig_close(f);
    opts.max_seqs = opts.max_out = 2;
    rig_open(f, 128, &opts);
    struct lf_request *reqs[2] = {ask(f, 0, 7), ask(f, 2, 7)};
    for (int i = 0; i < 2; i++) {
        take(reqs[i], &on);
        check_same(&on, &off[i]);
    }
    assert_true(f->backend.max_rows_seen <= 256);
}

/* How often the device has nothing to do while a greedy answer to a prompt is made. */
static int n_idle_with(struct engine_rig *f, const int32_t *prompt, int speculate, struct answer *out)
{
    struct lf_gen_params p = rig_params(prompt, N_PROMPT, LEN);
    int n_before = f->backend.n_idle;
    p.speculate = speculate;
    take(rig_submit(f, &p), out);
    assert_int_equal(rig_blocks_used(f), 0);
    return f->backend.n_idle - n_before;
}

/* Where nothing is found steps are launched ahead as without: the device waits for nobody. */
static void nothing_to_propose_costs_no_wait(void **state)
{
    struct engine_rig *f = *state;
    static struct answer off, on;
    int32_t prompt[N_PROMPT];
    for (int k = 0; k < N_PROMPT; k++) prompt[k] = k;       /* no gram twice, and of an answer's hardly one */
    (void)n_idle_with(f, prompt, LF_SPECULATION_OFF, &off); /* what follows finds the prompt in the cache */
    int n_off = n_idle_with(f, prompt, LF_SPECULATION_OFF, &off);
    int n_on = n_idle_with(f, prompt, 16, &on);
    check_same(&on, &off);
    assert_true(on.st.n_proposed <= 2 * 16);
    if (n_async_steps == 0) assert_true(n_off == LEN && n_on == LEN - on.st.n_accepted);
    if (n_async_steps > 0) assert_true(n_off == 1 && n_on <= 1 + 2 * 2);
}

/* What comes of one step comes at once, which is one gap between tokens and not several of nothing. */
static void a_step_is_one_gap(void **state)
{
    struct engine_rig *f = *state;
    const struct lf_histogram *h = &lf_engine_metrics(f->engine)->itl_s;
    static struct answer on;
    uint64_t n = 0;
    take(ask(f, 1, 7), &on);
    for (int i = 0; i <= h->n_bounds; i++) n += h->counts[i];
    assert_true(on.st.n_accepted > 100);
    assert_int_equal(n, on.st.n_tokens - 1 - on.st.n_accepted);
}

static void metrics_count_what_was_proposed(void **state)
{
    struct engine_rig *f = *state;
    const struct lf_engine_metrics *m = lf_engine_metrics(f->engine);
    static struct answer on;
    uint64_t n_proposed = 0, n_accepted = 0;
    for (int i = 0; i < N_CASES; i++) {
        take(ask(f, i, 5), &on);
        n_proposed += (uint64_t)on.st.n_proposed;
        n_accepted += (uint64_t)on.st.n_accepted;
    }
    assert_int_equal(lf_counter_get(&m->proposed), n_proposed);
    assert_int_equal(lf_counter_get(&m->accepted), n_accepted);
    assert_true(n_accepted > 100);
    assert_int_equal(lf_counter_get(&m->waits) > 0, n_async_steps > 0); /* else no step is launched ahead */
    assert_int_equal(lf_counter_get(&m->waits_ns) > 0, n_async_steps > 0);
}

/* How often it was right decides what is proposed next: of one id all are, of two one or the other. */
static void a_request_learns_from_what_came(void **state)
{
    struct engine_rig *f = *state;
    for (int i = 0; i < 2; i++) {
        struct lf_request *req = ask(f, i, 4);
        const struct lf_speculation *s = &req->speculation;
        (void)rig_wait(req);
        assert_true(s->n_right > 5);
        assert_true(i == 1 ? s->n_wrong == 0 : s->n_wrong > 5);
        lf_request_put(req);
    }
}

/* Layers with windows: what was refused leaves nothing held. The rig's fixture checks the pool when it closes. */
static void windows_slide_behind_proposals(void **state)
{
    (void)state;
    static struct answer off, on;
    const struct lf_kv_layer_spec specs[] = {{.window = 128, .n_kv_heads = 1, .head_dim = 2, .alias_of = -1}};
    struct lf_kv_layout layout;
    struct engine_rig f = {.backend = {.n_async_steps = n_async_steps, .on_thread = mark_thread}};
    struct lf_engine_opts opts = rig_opts();
    assert_int_equal(lf_kv_layout_make(&layout, specs, 1, LF_F32, NULL), LF_OK);
    f.layout = &layout;
    rig_open(&f, 128, &opts);
    for (int i = 0; i < N_CASES; i++) {
        take(ask(&f, i, LF_SPECULATION_OFF), &off);
        for (size_t w = 0; w < LF_N_ELEMS(ways); w++) {
            take(ask(&f, i, ways[w]), &on);
            check_same(&on, &off);
        }
        assert_true(on.st.n_accepted > 20);
    }
    rig_close(&f);
    lf_kv_layout_deinit(&layout);
}

/* Where there is one before the first step: it knows the prompt, and its parts lie beside each other. */
static bool index_is_right(const struct lf_request *req)
{
    const struct lf_gram_index *x = &req->speculation.grams;
    int n_before =
        req->params.n_prediction > 0 ? LF_MIN(req->seq.n_prompt, LF_GRAM_MATCH_N) + req->params.n_prediction : 0;
    if (!req->seq.speculation) return true;
    return x->n == n_before + req->seq.n_prompt && x->ids == req->seq.ids - n_before &&
           x->before == x->latest + ((size_t)1 << x->log2_latest);
}

/* What a request takes of the memory for texts. */
static uint64_t bytes_of(struct engine_rig *f, struct lf_gen_params p, int speculate)
{
    struct lf_text_memory *memory = NULL;
    struct lf_text_memory_state st;
    assert_int_equal(lf_text_memory_create(&memory, 1 << 20, NULL), LF_OK);
    p.memory = memory;
    p.speculate = speculate;
    f->backend.gate = 1;
    struct lf_request *req = rig_submit(f, &p);
    lf_text_memory_snapshot(memory, &st);
    bool is_right = index_is_right(req);
    f->backend.gate = 0;
    lf_request_cancel(req);
    (void)rig_wait(req);
    lf_request_put(req);
    lf_text_memory_destroy(memory);
    assert_true(is_right);
    return st.used_bytes;
}

/* The index is counted for the prompt and the part of the answer that counts, and is not there where nothing is ever
 * proposed: to an answer of one token. */
static void the_index_is_counted_where_there_is_one(void **state)
{
    struct engine_rig *f = *state;
    static const int32_t word[] = {1, 5};
    static int32_t prompt[1030];
    struct lf_grammar *g = NULL;
    struct lf_vocabulary *v = NULL;
    struct lf_str tokens[FAKE_VOCAB];
    for (int i = 0; i < FAKE_VOCAB; i++) tokens[i] = i == FAKE_EOS ? LF_STR("") : LF_STR("a");
    assert_int_equal(lf_vocabulary_create(&v, tokens, FAKE_VOCAB, fake_eos, 1, 1 << 16, NULL), LF_OK);
    assert_int_equal(lf_grammar_of_regex(&g, LF_STR("a*"), NULL, NULL), LF_OK);
    rig_prompt(prompt, 1030, 1);
    struct lf_gen_params rows[] = {rig_params(prompt, 1030, 3000), rig_params(prompt, 1030, 1),
                                   rig_params(prompt, 1030, 3000), rig_params(prompt, 1030, 3000),
                                   rig_params(prompt, 1030, 3000)};
    rows[2].bad_words = word;
    rows[2].n_bad_words = LF_N_ELEMS(word);
    rows[3].grammar = g;
    rows[3].vocabulary = v;
    rows[4].prediction = prompt; /* 4 bytes an id and 4 of the index, of 32 more too; latest has entries enough */
    rows[4].n_prediction = 1000;
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        uint64_t off = bytes_of(f, rows[i], LF_SPECULATION_OFF), on = bytes_of(f, rows[i], LF_SPECULATION_AUTO);
        uint64_t index = 4 * (4096 + 1030 + LF_ANSWER_COUNTED_N), page = 4096;
        if (i == 4) index += 8 * 1032;
        if (i != 1)
            assert_in_range(on - off, index - page, index + page);
        else
            assert_int_equal(on, off);
    }
    lf_grammar_unref(g);
    lf_vocabulary_destroy(v);
}

/* A token of an answer has its part of the plan: an id, an entry, and one of the index. */
static void an_answers_part_of_the_plan_has_the_index(void **state)
{
    (void)state;
    assert_int_equal(lf_engine_answer_bytes(0), 0);
    assert_int_equal(lf_engine_answer_bytes(1000), 1000 * (4 + 4 + sizeof(struct lf_sampled)));
}

/* Words that must not come depend on what came before, for each proposed token on those before it. */
static void bad_words_are_looked_for_in_what_is_proposed(void **state)
{
    struct engine_rig *f = *state;
    static const int32_t words[3][7] = {{2, 3, 3}, {3, 96, 96, 96, 2, 3, 3}, {4, 3, 96, 3, 96}};
    static const int n_words[3] = {3, 7, 5};
    static struct answer off, on;
    for (int i = 0; i < 3 * N_CASES; i++) {
        int32_t prompt[N_PROMPT];
        if (i % N_CASES == 1) continue; /* there is one id alone */
        struct lf_gen_params p = case_of(i % N_CASES, prompt, &pair[1]);
        p.bad_words = words[i / N_CASES];
        p.n_bad_words = n_words[i / N_CASES];
        take(rig_submit(f, &p), &off);
        for (int k = 1; k < off.st.n_tokens && i / N_CASES < 2; k++)
            assert_false(off.tokens[k - 1].id == 3 && off.tokens[k].id == 3);
        for (size_t w = 0; w < LF_N_ELEMS(ways); w++) {
            p.speculate = ways[w];
            take(rig_submit(f, &p), &on);
            check_same(&on, &off);
            if (w > 0 && i % N_CASES != 5) assert_true(on.st.n_accepted > 10);
        }
    }
}

static void predictions_out_of_range_are_refused(void **state)
{
    struct engine_rig *f = *state;
    static int32_t ids[1 << 16];
    int32_t prompt[N_PROMPT];
    struct lf_gen_params p = case_of(0, prompt, NULL);
    struct lf_request *req = NULL;
    struct lf_err err;
    int retry;
    p.speculate = 1;
    p.prediction = ids;
    ids[7] = 0;
    p.n_prediction = -1;
    assert_int_equal(lf_engine_submit(f->engine, &p, &req, &retry, &err), LF_INVALID);
    p.n_prediction = LF_N_ELEMS(ids); /* above any context here */
    assert_int_equal(lf_engine_submit(f->engine, &p, &req, &retry, &err), LF_INVALID);
    assert_non_null(strstr(err.message, "a prediction of 65536 tokens passes the context"));
    p.n_prediction = 8;
    for (int bad = 0; bad < 2; bad++) {
        ids[7] = bad ? -1 : FAKE_VOCAB;
        assert_int_equal(lf_engine_submit(f->engine, &p, &req, &retry, &err), LF_INVALID);
        assert_non_null(strstr(err.message, "prediction: id"));
    }
    assert_null(req);
}

static void numbers_out_of_range_are_refused(void **state)
{
    struct engine_rig *f = *state;
    static const int bad[] = {-2, LF_SPECULATION_N + 1, INT32_MIN, INT32_MAX};
    int32_t prompt[N_PROMPT];
    struct lf_gen_params p = case_of(0, prompt, NULL);
    for (size_t i = 0; i < LF_N_ELEMS(bad); i++) {
        struct lf_request *req = NULL;
        struct lf_err err;
        int retry;
        p.speculate = bad[i];
        assert_int_equal(lf_engine_submit(f->engine, &p, &req, &retry, &err), LF_INVALID);
        assert_null(req);
    }
}

int main(void)
{
    const struct CMUnitTest rules[] = {
        cmocka_unit_test(what_follows_is_proposed),
        cmocka_unit_test(what_was_just_proposed_goes_on),
        cmocka_unit_test(what_stands_in_front_is_proposed),
        cmocka_unit_test(as_many_as_pay_are_proposed),
        cmocka_unit_test(what_was_not_tried_is_not_counted),
        cmocka_unit_test(what_came_is_forgotten),
        cmocka_unit_test(what_does_not_pay_is_asked_again_seldom),
        cmocka_unit_test(an_answers_part_of_the_plan_has_the_index),
    };
    const struct CMUnitTest tests[] = {
        CASE(answers_are_the_same_alone),
        CASE(an_answer_may_end_in_what_was_proposed),
        CASE(predictions_change_no_answer),
        CASE(a_prediction_is_found_from_the_answers_first_token_on),
        CASE(answers_are_the_same_among_others),
        CASE(what_it_leaves_in_the_cache_is_right),
        CASE(nothing_to_propose_costs_no_wait),
        CASE(a_step_is_one_gap),
        CASE(there_may_be_no_room_for_proposals),
        CASE(metrics_count_what_was_proposed),
        CASE(a_request_learns_from_what_came),
        CASE(the_index_is_counted_where_there_is_one),
        CASE(bad_words_are_looked_for_in_what_is_proposed),
        CASE(predictions_out_of_range_are_refused),
        CASE(numbers_out_of_range_are_refused),
        cmocka_unit_test(windows_slide_behind_proposals),
    };
    int n_failed = cmocka_run_group_tests(rules, NULL, NULL);
    for (n_async_steps = 0; n_async_steps <= LF_ENGINE_ASYNC_STEPS_N; n_async_steps++)
        n_failed += cmocka_run_group_tests(tests, NULL, NULL);
    return n_failed;
}
