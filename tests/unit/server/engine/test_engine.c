#include "tests/unit/server/engine/fake_engine.h"

#include <errno.h>
#include <pthread.h>

/* ---- allocation: none on the engine thread, and failing ones elsewhere ----
 * The linker sends the program's calls here (see CMakeLists.txt). */
static _Thread_local bool is_engine_thread;
static _Thread_local int fails_in; /* the n-th allocation, lock or thread from here on is refused; 0: none */
static _Atomic int n_engine_allocs;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *ptr, size_t n);
void __real_free(void *ptr);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *ctx);
int __real_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int __real_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *ptr, size_t n);
void __wrap_free(void *ptr);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *ctx);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr);

static bool refused(void)
{
    if (is_engine_thread) n_engine_allocs++;
    return fails_in > 0 && --fails_in == 0;
}

void *__wrap_malloc(size_t n)
{
    return refused() ? NULL : __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t size)
{
    return refused() ? NULL : __real_calloc(n, size);
}
void *__wrap_realloc(void *ptr, size_t n)
{
    return refused() ? NULL : __real_realloc(ptr, n);
}
void __wrap_free(void *ptr)
{
    if (is_engine_thread) n_engine_allocs++;
    __real_free(ptr);
}
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *ctx)
{
    return refused() ? EAGAIN : __real_pthread_create(thread, attr, fn, ctx);
}
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
    return refused() ? ENOMEM : __real_pthread_mutex_init(mutex, attr);
}
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
    return refused() ? ENOMEM : __real_pthread_cond_init(cond, attr);
}

static void mark_thread(void)
{
    is_engine_thread = true;
}

/* ---- helpers ---- */

static int n_ahead; /* of the device that all tests run on: main runs them on either kind */

static int setup(void **state)
{
    struct fake_engine *f = calloc(1, sizeof(*f));
    f->backend.n_ahead = n_ahead;
    f->backend.on_thread = mark_thread;
    struct lf_engine_opts opts = fake_opts();
    fake_open(f, 128, &opts);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fake_engine *f = *state;
    assert_int_equal(fake_blocks_used(f), 0);
    fake_close(f);
    free(f);
    assert_int_equal(n_engine_allocs, 0);
    return 0;
}

/* ---- one request ---- */

static void a_request_gets_the_tokens_its_prompt_leads_to(void **state)
{
    struct fake_engine *f = *state;
    const int prompts[] = {1, 2, 63, 64, 65, 128, 200, 1000, 3000};
    for (size_t i = 0; i < LF_N_ELEMS(prompts); i++) {
        struct lf_request_state st = fake_generate(f, prompts[i], 70, i + 1);
        assert_int_equal(st.finish, LF_FINISH_LENGTH);
        assert_int_equal(st.n_tokens, 70);
        assert_int_equal(st.n_prompt, prompts[i]);
        assert_int_equal(st.n_processed, prompts[i]);
        assert_int_equal(st.stop_token, -1);
        assert_true(st.submitted_ns <= st.started_ns && st.started_ns < st.first_token_ns);
        assert_true(st.first_token_ns < st.finished_ns);
    }
}

static void the_whole_context_and_the_whole_pool_can_be_used(void **state)
{
    struct fake_engine *f = *state;
    assert_int_equal(fake_generate(f, 4000, 96, 3).n_tokens, 96);
    assert_int_equal(fake_generate(f, 4095, 1, 4).n_tokens, 1);
    assert_int_equal(fake_generate(f, 1, 4095, 5).n_tokens, 4095);
}

static void an_eos_token_ends_a_request_and_is_not_among_its_tokens(void **state)
{
    struct fake_engine *f = *state;
    int32_t prompt[20];
    for (uint64_t seed = 1; seed < 20; seed++) {
        fake_prompt(prompt, 20, seed);
        struct lf_gen_params p = fake_params(prompt, 20, 1000);
        p.ignore_eos = false;
        struct lf_request *req = fake_submit(f, &p);
        struct lf_request_state st = fake_wait(req);
        assert_int_equal(st.finish, LF_FINISH_STOP);
        assert_int_equal(st.stop_token, FAKE_EOS);
        fake_check_tokens(req, prompt, 20, st.n_tokens);
        for (int i = 0; i < st.n_tokens; i++) assert_int_not_equal(lf_request_token(req, i)->id, FAKE_EOS);
        lf_request_put(req);
    }
}

static void a_stop_token_ends_a_request_but_not_below_min_tokens(void **state)
{
    struct fake_engine *f = *state;
    int32_t prompt[20], stop[1];
    fake_prompt(prompt, 20, 9);
    stop[0] = fake_expected(prompt, 20);
    struct lf_gen_params p = fake_params(prompt, 20, 50);
    p.stop_token_ids = stop;
    p.n_stop_token_ids = 1;
    struct lf_request *req = fake_submit(f, &p);
    struct lf_request_state st = fake_wait(req);
    assert_int_equal(st.finish, LF_FINISH_STOP);
    assert_int_equal(st.n_tokens, 0);
    assert_int_equal(st.stop_token, stop[0]);
    lf_request_put(req);

    p.min_tokens = 30;
    req = fake_submit(f, &p);
    st = fake_wait(req);
    assert_true(st.n_tokens >= 30);
    for (int i = 0; i < 30; i++) assert_int_not_equal(lf_request_token(req, i)->id, stop[0]);
    lf_request_put(req);
}

static void without_output_tokens_the_prompt_is_only_computed(void **state)
{
    struct fake_engine *f = *state;
    struct lf_request_state st = fake_generate(f, 300, 0, 1);
    assert_int_equal(st.finish, LF_FINISH_LENGTH);
    assert_int_equal(st.n_tokens, 0);
    assert_int_equal(st.n_processed, 300);
    assert_int_equal(fake_generate(f, 1, 0, 2).finish, LF_FINISH_LENGTH);
}

/* ---- log-probabilities ---- */

static void check_prompt_logprobs(struct fake_engine *f, int n_prompt, int max_tokens, int n_top)
{
    int32_t prompt[1000];
    fake_prompt(prompt, n_prompt, 77);
    struct lf_gen_params p = fake_params(prompt, n_prompt, max_tokens);
    p.n_prompt_logprobs = n_top;
    struct lf_request *req = fake_submit(f, &p);
    struct lf_request_state st = fake_wait(req);
    assert_int_equal(st.n_prompt_logprobs, n_prompt);
    assert_int_equal(st.n_cached, 0);
    uint64_t h = 0;
    for (int i = 1; i < n_prompt; i++) {
        h = fake_hash(h, prompt[i - 1]);
        const struct lf_sampled *got = lf_request_prompt_logprob(req, i);
        assert_int_equal(got->id, prompt[i]);
        assert_int_equal(got->n_top, n_top);
        assert_true(got->logprob < 0);
        if (n_top > 0) assert_int_equal(got->top_ids[0], fake_argmax(h));
    }
    fake_check_tokens(req, prompt, n_prompt, st.n_tokens);
    assert_int_equal(st.n_tokens, max_tokens);
    lf_request_put(req);
}

static void prompt_logprobs_come_for_every_token_but_the_first(void **state)
{
    struct fake_engine *f = *state;
    for (int again = 0; again < 2; again++) { /* the second time the prompt is in the prefix cache, and not used */
        check_prompt_logprobs(f, 1, 0, 0);
        check_prompt_logprobs(f, 2, 0, 3);
        check_prompt_logprobs(f, 500, 0, 2);
        check_prompt_logprobs(f, 500, 5, 0);
        check_prompt_logprobs(f, 64, 3, 20);
    }
}

static void tokens_carry_logprobs_where_asked(void **state)
{
    struct fake_engine *f = *state;
    int32_t prompt[30];
    fake_prompt(prompt, 30, 5);
    for (int n_logprobs = 0; n_logprobs <= 20; n_logprobs += 10) {
        struct lf_gen_params p = fake_params(prompt, 30, 40);
        p.sampling.n_logprobs = n_logprobs;
        struct lf_request *req = fake_submit(f, &p);
        struct lf_request_state st = fake_wait(req);
        for (int i = 0; i < st.n_tokens; i++) {
            const struct lf_sampled *t = lf_request_token(req, i);
            assert_int_equal(t->n_top, n_logprobs);
            assert_true(t->logprob <= 0 && t->logprob > -20);
            if (n_logprobs > 0) assert_int_equal(t->top_ids[0], t->id);
        }
        lf_request_put(req);
    }
}

/* ---- prefix cache ---- */

static void a_second_request_takes_the_prompt_from_the_cache(void **state)
{
    struct fake_engine *f = *state;
    assert_int_equal(fake_generate(f, 640, 10, 1).n_cached, 0);
    assert_int_equal(fake_generate(f, 640, 10, 1).n_cached, 576); /* never the block with the last token */
    assert_int_equal(fake_generate(f, 641, 10, 1).n_cached, 640);
    assert_int_equal(fake_generate(f, 63, 10, 1).n_cached, 0);
    assert_int_equal(fake_generate(f, 640, 10, 2).n_cached, 0);
    const struct lf_engine_metrics *m = lf_engine_metrics(f->engine);
    assert_int_equal(lf_counter_get(&m->prompt_tokens), 640 + 640 + 641 + 63 + 640);
    assert_int_equal(lf_counter_get(&m->prompt_tokens_cached), 576 + 640);
    assert_int_equal(lf_counter_get(&m->prompt_tokens_computed), 640 + 64 + 1 + 63 + 640);
}

static void blocks_of_an_answer_are_found_by_the_next_turn(void **state)
{
    struct fake_engine *f = *state;
    int32_t ids[400];
    fake_prompt(ids, 100, 1);
    struct lf_gen_params p = fake_params(ids, 100, 200);
    struct lf_request *req = fake_submit(f, &p);
    struct lf_request_state st = fake_wait(req);
    for (int i = 0; i < 200; i++) ids[100 + i] = lf_request_token(req, i)->id;
    lf_request_put(req);
    p = fake_params(ids, 300, 10);
    req = fake_submit(f, &p);
    st = fake_wait(req);
    assert_int_equal(st.n_cached, 256);
    fake_check_tokens(req, ids, 300, 10);
    lf_request_put(req);
}

static void another_salt_finds_nothing(void **state)
{
    struct fake_engine *f = *state;
    int32_t prompt[300];
    fake_prompt(prompt, 300, 1);
    const char *salts[] = {"a", "b", "a"};
    const int cached[] = {0, 0, 256};
    for (int i = 0; i < 3; i++) {
        struct lf_gen_params p = fake_params(prompt, 300, 4);
        p.salt = salts[i];
        p.salt_bytes = 1;
        struct lf_request *req = fake_submit(f, &p);
        assert_int_equal(fake_wait(req).n_cached, cached[i]);
        lf_request_put(req);
    }
}

static void followers_wait_for_their_leader_and_share_its_prompt(void **state)
{
    struct fake_engine *f = *state;
    int32_t prompt[2000];
    fake_prompt(prompt, 2000, 1);
    struct lf_request *reqs[8];
    for (int i = 0; i < 8; i++) {
        struct lf_gen_params p = fake_params(prompt, 2000, 20);
        p.leader = i > 0 ? reqs[0] : NULL;
        reqs[i] = fake_submit(f, &p);
    }
    for (int i = 0; i < 8; i++) {
        struct lf_request_state st = fake_wait(reqs[i]);
        assert_int_equal(st.n_cached, i > 0 ? 1984 : 0);
        fake_check_tokens(reqs[i], prompt, 2000, 20);
    }
    for (int i = 0; i < 8; i++) lf_request_put(reqs[i]);
}

static void equal_prompts_at_once_are_computed_once(void **state)
{
    struct fake_engine *f = *state;
    int32_t prompt[2000];
    fake_prompt(prompt, 2000, 1);
    struct lf_request *reqs[8];
    f->backend.gate = 1;
    for (int i = 0; i < 8; i++) {
        struct lf_gen_params p = fake_params(prompt, 2000, 20);
        reqs[i] = fake_submit(f, &p);
    }
    f->backend.gate = 0;
    for (int i = 0; i < 8; i++) (void)fake_wait(reqs[i]);
    const struct lf_engine_metrics *m = lf_engine_metrics(f->engine);
    assert_int_equal(lf_counter_get(&m->prompt_tokens_computed), 2000 + 7 * 16);
    for (int i = 0; i < 8; i++) lf_request_put(reqs[i]);
}

static void a_follower_goes_on_when_its_leader_is_gone(void **state)
{
    struct fake_engine *f = *state;
    int32_t prompt[2000];
    fake_prompt(prompt, 2000, 1);
    f->backend.gate = 1;
    struct lf_gen_params p = fake_params(prompt, 2000, 20);
    struct lf_request *leader = fake_submit(f, &p);
    p.leader = leader;
    struct lf_request *follower = fake_submit(f, &p);
    lf_request_put(leader);
    f->backend.gate = 0;
    assert_int_equal(fake_wait(follower).n_tokens, 20);
    fake_check_tokens(follower, prompt, 2000, 20);
    lf_request_put(follower);
}

/* ---- ends before the end ---- */

static void a_cancelled_request_ends_and_gives_its_blocks_back(void **state)
{
    struct fake_engine *f = *state;
    f->backend.hold = 12; /* it cannot come to an end before it is cancelled */
    int32_t prompt[100];
    fake_prompt(prompt, 100, 1);
    struct lf_gen_params p = fake_params(prompt, 100, 3900);
    struct lf_request *req = fake_submit(f, &p);
    struct lf_request_state st;
    do lf_request_look(req, &st);
    while (st.n_tokens < 5);
    lf_request_cancel(req);
    lf_request_cancel(req);
    f->backend.hold = 0;
    st = fake_wait(req);
    assert_in_range(st.n_tokens, 5, 12);
    assert_int_equal(st.finish, LF_FINISH_CANCELLED);
    assert_int_equal(fake_blocks_used(f), 0);
    fake_check_tokens(req, prompt, 100, st.n_tokens);
    lf_request_put(req);
}

static void a_deadline_ends_a_request_with_what_it_has(void **state)
{
    struct fake_engine *f = *state;
    f->backend.delay_us = 500;
    int32_t prompt[100];
    fake_prompt(prompt, 100, 1);
    struct lf_gen_params p = fake_params(prompt, 100, 3900);
    p.deadline_ns = lf_clock_ns() + 30 * LF_NS_PER_MS;
    struct lf_request *req = fake_submit(f, &p);
    struct lf_request_state st = fake_wait(req);
    assert_int_equal(st.finish, LF_FINISH_LENGTH);
    assert_true(st.timed_out && st.finished_ns >= p.deadline_ns);
    assert_int_equal(st.status, LF_OK);
    assert_true(st.n_tokens < 3900); /* these alone would take 2 s */
    fake_check_tokens(req, prompt, 100, st.n_tokens);
    lf_request_put(req);
    st = fake_generate(f, 100, 20, 1); /* without a deadline none passes */
    assert_true(st.finish == LF_FINISH_LENGTH && !st.timed_out);
}

static void a_deadline_ends_a_request_in_the_queue_too(void **state)
{
    (void)state;
    struct fake_engine f = {.backend = {.gate = 1, .n_ahead = n_ahead}};
    struct lf_engine_opts opts = fake_opts();
    opts.max_seqs = 1;
    fake_open(&f, 128, &opts);
    int32_t prompt[100];
    fake_prompt(prompt, 100, 1);
    struct lf_gen_params p = fake_params(prompt, 100, 1000);
    struct lf_request *first = fake_submit(&f, &p);
    p.deadline_ns = lf_clock_ns();
    struct lf_request *req = fake_submit(&f, &p);
    f.backend.gate = 0;
    struct lf_request_state st = fake_wait(req);
    assert_int_equal(st.finish, LF_FINISH_LENGTH);
    assert_true(st.timed_out);
    assert_int_equal(st.n_tokens, 0);
    assert_int_equal(st.started_ns, 0);
    lf_request_put(req);
    assert_int_equal(fake_wait(first).n_tokens, 1000);
    lf_request_put(first);
    fake_close(&f);
}

/* In the queue, before anything was measured, and between the chunks: prompt tokens left means time left. */
static void the_eta_is_more_than_nothing_while_prompt_tokens_are_left(void **state)
{
    struct fake_engine *f = *state;
    f->backend.delay_us = 300;
    f->backend.gate = 1;
    int32_t prompt[4000];
    fake_prompt(prompt, 4000, 1);
    struct lf_gen_params p = fake_params(prompt, 4000, 1);
    struct lf_request *req = fake_submit(f, &p);
    struct lf_request_state st;
    lf_request_look(req, &st);
    assert_true(st.eta_ns > 0 && st.n_processed == 0);
    f->backend.gate = 0;
    do {
        lf_request_look(req, &st);
        assert_true(st.finish != LF_FINISH_NONE || (st.eta_ns > 0) == (st.n_processed < 4000));
    } while (st.finish == LF_FINISH_NONE);
    assert_int_equal(st.eta_ns, 0);
    lf_request_put(req);
}

static void a_failed_device_ends_every_request_and_refuses_later_ones(void **state)
{
    struct fake_engine *f = *state;
    f->backend.gate = 1;
    f->backend.fail_at_step = 3;
    int32_t prompt[200];
    fake_prompt(prompt, 200, 1);
    struct lf_gen_params p = fake_params(prompt, 200, 100);
    struct lf_request *reqs[30], *more = NULL;
    for (int i = 0; i < 30; i++) reqs[i] = fake_submit(f, &p);
    f->backend.gate = 0;
    for (int i = 0; i < 30; i++) {
        struct lf_request_state st = fake_wait(reqs[i]);
        assert_int_equal(st.finish, LF_FINISH_ERROR);
        assert_int_equal(st.status, LF_DEVICE);
    }
    struct lf_engine_state es;
    lf_engine_look(f->engine, &es);
    assert_false(es.alive);
    assert_true(es.message[0] != 0);
    int retry, n_steps = f->backend.n_steps;
    struct lf_err err;
    assert_int_equal(lf_engine_submit(f->engine, &p, &more, &retry, &err), LF_DEVICE);
    assert_int_equal(f->backend.n_steps, n_steps);
    for (int i = 0; i < 30; i++) lf_request_put(reqs[i]);
}

static void destroy_ends_what_is_left(void **state)
{
    (void)state;
    struct fake_engine f = {.backend = {.delay_us = 200, .n_ahead = n_ahead}};
    struct lf_engine_opts opts = fake_opts();
    fake_open(&f, 128, &opts);
    int32_t prompt[100];
    fake_prompt(prompt, 100, 1);
    struct lf_gen_params p = fake_params(prompt, 100, 3000);
    for (int i = 0; i < 5; i++) lf_request_put(fake_submit(&f, &p));
    fake_close(&f);
}

static void a_draining_engine_finishes_and_takes_nothing_new(void **state)
{
    struct fake_engine *f = *state;
    f->backend.delay_us = 200;
    int32_t prompt[100];
    int retry = 0;
    fake_prompt(prompt, 100, 1);
    struct lf_gen_params p = fake_params(prompt, 100, 50);
    struct lf_request *req = fake_submit(f, &p);
    lf_engine_drain(f->engine);
    assert_int_equal(fake_try(f, &p, &retry), LF_SHUTDOWN);
    assert_int_equal(fake_wait(req).n_tokens, 50);
    lf_request_put(req);
    struct lf_engine_state es;
    lf_engine_look(f->engine, &es);
    assert_true(es.draining && es.alive);
}

static void creating_fails_cleanly_at_every_allocation(void **state)
{
    struct fake_engine *f = *state;
    struct lf_engine_opts opts = fake_opts();
    struct lf_engine_backend backend = {.ctx = &f->backend,
                                        .launch = fake_launch,
                                        .wait = fake_wait_step,
                                        .n_ahead = f->backend.n_ahead,
                                        .n_vocab = FAKE_VOCAB,
                                        .eos_ids = fake_eos,
                                        .n_eos = 1};
    int n = 0;
    for (;; n++) {
        struct lf_engine *engine = NULL;
        struct lf_err err = {LF_OK, ""};
        fails_in = n + 1;
        enum lf_status status = lf_engine_create(&engine, &backend, &f->kv, &opts, &err);
        bool all_done = fails_in > 0;
        fails_in = 0;
        if (all_done) {
            assert_int_equal(status, LF_OK);
            lf_engine_destroy(engine);
            break;
        }
        assert_int_equal(status, LF_NO_MEMORY);
        assert_null(engine);
        assert_true(err.message[0] != 0);
    }
    assert_true(n >= 12);
    lf_engine_destroy(NULL);
}

static void submitting_without_memory_is_refused_and_the_next_one_works(void **state)
{
    struct fake_engine *f = *state;
    int32_t prompt[100];
    int retry = 0;
    fake_prompt(prompt, 100, 1);
    struct lf_gen_params p = fake_params(prompt, 100, 10);
    fails_in = 1;
    assert_int_equal(fake_try(f, &p, &retry), LF_NO_MEMORY);
    assert_int_equal(fails_in, 0);
    assert_int_equal(fake_generate(f, 100, 10, 1).n_tokens, 10);
}

static void without_prefix_cache_everything_is_computed(void **state)
{
    (void)state;
    struct fake_engine f = {.backend = {.n_ahead = n_ahead}};
    struct lf_engine_opts opts = fake_opts();
    fake_open_kv(&f, 128, &opts, false);
    for (int i = 0; i < 3; i++) {
        struct lf_request_state st = fake_generate(&f, 500, 10, 1);
        assert_int_equal(st.n_cached, 0);
        assert_int_equal(st.n_tokens, 10);
    }
    fake_close(&f);
    assert_true(lf_engine_host_bytes(&opts, 128) > 16 * sizeof(struct lf_sampled));
    assert_true(lf_engine_host_bytes(&opts, 256) > lf_engine_host_bytes(&opts, 128));
}

/* ---- watching ---- */

struct notes {
    pthread_mutex_t lock;
    int n;
};

static void note(void *ctx)
{
    struct notes *notes = ctx;
    pthread_mutex_lock(&notes->lock);
    notes->n++;
    pthread_mutex_unlock(&notes->lock);
}

static int note_count(struct notes *notes)
{
    pthread_mutex_lock(&notes->lock);
    int n = notes->n;
    pthread_mutex_unlock(&notes->lock);
    return n;
}

static void an_engine_that_does_not_move_is_declared_dead(void **state)
{
    (void)state;
    struct fake_engine f = {.backend = {.gate = 1, .n_ahead = n_ahead}};
    struct lf_engine_opts opts = fake_opts();
    opts.watchdog_s = 1;
    fake_open(&f, 128, &opts);
    int32_t prompt[10];
    fake_prompt(prompt, 10, 1);
    struct lf_gen_params p = fake_params(prompt, 10, 10);
    lf_clock_sleep_ms(1100); /* idle is not stuck */
    struct lf_engine_state es;
    lf_engine_look(f.engine, &es);
    assert_true(es.alive);
    struct notes notes = {PTHREAD_MUTEX_INITIALIZER, 0};
    lf_request_put(fake_submit(&f, &p)); /* gone already */
    p.notify = note;
    p.notify_ctx = &notes;
    struct lf_request *req = fake_submit(&f, &p);
    struct lf_request_state st = fake_wait(req);
    assert_int_equal(st.finish, LF_FINISH_ERROR);
    assert_int_equal(st.status, LF_DEVICE);
    lf_engine_look(f.engine, &es);
    assert_false(es.alive);
    while (note_count(&notes) == 0) lf_clock_sleep_ms(1); /* it comes after the state */
    assert_int_equal(note_count(&notes), 1);
    f.backend.gate = 0; /* it comes back, and stays out of it */
    lf_clock_sleep_ms(50);
    lf_request_look(req, &st);
    assert_int_equal(st.finish, LF_FINISH_ERROR);
    /* the step that it hung in may still have been read: the other nine tokens are not computed */
    assert_true(lf_counter_get(&lf_engine_metrics(f.engine)->generation_tokens) <= 1);
    lf_request_put(req);
    fake_close(&f);
}

static void notify_comes_at_most_once_a_step_and_never_after_put(void **state)
{
    struct fake_engine *f = *state;
    struct notes notes = {PTHREAD_MUTEX_INITIALIZER, 0};
    int32_t prompt[1000];
    fake_prompt(prompt, 1000, 1);
    struct lf_gen_params p = fake_params(prompt, 1000, 30);
    p.notify = note;
    p.notify_ctx = &notes;
    struct lf_request *req = fake_submit(f, &p);
    (void)fake_wait(req);
    lf_request_put(req);
    int n = note_count(&notes);
    struct lf_engine_state es;
    lf_engine_look(f->engine, &es);
    assert_true(n >= 30 && (uint64_t)n <= es.n_steps + 1);
    f->backend.delay_us = 200;
    for (int i = 0; i < 50; i++) {
        if (i % 8 == 0) assert_int_equal(fake_blocks_used(f), 0); /* those that are gone do not fill the queue */
        struct notes *gone = calloc(1, sizeof(*gone));
        pthread_mutex_init(&gone->lock, NULL);
        p.notify_ctx = gone;
        req = fake_submit(f, &p);
        struct timespec t = {0, i * 20000};
        nanosleep(&t, NULL);
        lf_request_put(req);
        pthread_mutex_destroy(&gone->lock);
        free(gone); /* a later call would be seen by asan and tsan */
    }
}

static void look_tells_how_things_stand(void **state)
{
    struct fake_engine *f = *state;
    struct lf_engine_state es;
    lf_engine_look(f->engine, &es);
    assert_true(es.alive && !es.draining);
    assert_int_equal(es.n_blocks, 128);
    assert_int_equal(es.n_blocks_free, 128);
    assert_int_equal(es.ctx, 4096);
    assert_int_equal(es.largest_prompt_now, 4096);
    assert_true(es.prefill_tokens_per_s == 0 && es.decode_tokens_per_s == 0);
    (void)fake_generate(f, 500, 50, 1);
    assert_int_equal(fake_blocks_used(f), 0);
    lf_engine_look(f->engine, &es);
    assert_true(es.prefill_tokens_per_s > 0 && es.decode_tokens_per_s > 0);
    assert_int_equal(es.n_blocks_cached, 8);
    assert_int_equal(es.n_blocks_free, 120);
    assert_true(es.n_steps >= 50);
    assert_true(es.retry_after_s >= 1);
}

static void chunk_and_out_limits_are_kept_whatever_they_are(void **state)
{
    (void)state;
    const int limits[][3] = {{1, 1, 1}, {1, 16, 16}, {3, 8, 2}, {16, 16, 1}, {64, 4, 2}, {4096, 16, 16}};
    for (size_t i = 0; i < LF_N_ELEMS(limits); i++) {
        struct fake_engine f = {.backend = {.n_ahead = n_ahead}};
        struct lf_engine_opts opts = fake_opts();
        opts.chunk = limits[i][0];
        opts.max_seqs = limits[i][1];
        opts.max_out = limits[i][2];
        fake_open(&f, 128, &opts);
        int32_t prompt[300];
        struct lf_request *reqs[12];
        for (int k = 0; k < 12; k++) {
            fake_prompt(prompt, 300, (uint64_t)k);
            struct lf_gen_params p = fake_params(prompt, 20 + 20 * k, 10);
            p.n_prompt_logprobs = k % 3 == 0 ? 1 : -1;
            reqs[k] = fake_submit(&f, &p);
        }
        for (int k = 0; k < 12; k++) {
            fake_prompt(prompt, 300, (uint64_t)k);
            assert_int_equal(fake_wait(reqs[k]).n_tokens, 10);
            fake_check_tokens(reqs[k], prompt, 20 + 20 * k, 10);
            lf_request_put(reqs[k]);
        }
        fake_close(&f);
        assert_true(f.backend.max_rows_seen <= limits[i][0]);
        assert_true(f.backend.max_seqs_seen <= limits[i][1]);
    }
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_request_gets_the_tokens_its_prompt_leads_to),
        CASE(the_whole_context_and_the_whole_pool_can_be_used),
        CASE(an_eos_token_ends_a_request_and_is_not_among_its_tokens),
        CASE(a_stop_token_ends_a_request_but_not_below_min_tokens),
        CASE(without_output_tokens_the_prompt_is_only_computed),
        CASE(prompt_logprobs_come_for_every_token_but_the_first),
        CASE(tokens_carry_logprobs_where_asked),
        CASE(a_second_request_takes_the_prompt_from_the_cache),
        CASE(blocks_of_an_answer_are_found_by_the_next_turn),
        CASE(another_salt_finds_nothing),
        CASE(followers_wait_for_their_leader_and_share_its_prompt),
        CASE(equal_prompts_at_once_are_computed_once),
        CASE(a_follower_goes_on_when_its_leader_is_gone),
        CASE(a_cancelled_request_ends_and_gives_its_blocks_back),
        CASE(a_deadline_ends_a_request_with_what_it_has),
        CASE(the_eta_is_more_than_nothing_while_prompt_tokens_are_left),
        CASE(a_failed_device_ends_every_request_and_refuses_later_ones),
        CASE(a_draining_engine_finishes_and_takes_nothing_new),
        CASE(notify_comes_at_most_once_a_step_and_never_after_put),
        CASE(look_tells_how_things_stand),
        CASE(creating_fails_cleanly_at_every_allocation),
        CASE(submitting_without_memory_is_refused_and_the_next_one_works),
        cmocka_unit_test(without_prefix_cache_everything_is_computed),
        cmocka_unit_test(a_deadline_ends_a_request_in_the_queue_too),
        cmocka_unit_test(destroy_ends_what_is_left),
        cmocka_unit_test(an_engine_that_does_not_move_is_declared_dead),
        cmocka_unit_test(chunk_and_out_limits_are_kept_whatever_they_are),
    };
    int n_failed = 0;
    for (n_ahead = 0; n_ahead <= LF_ENGINE_AHEAD_N; n_ahead++) n_failed += cmocka_run_group_tests(tests, NULL, NULL);
    return n_failed;
}
