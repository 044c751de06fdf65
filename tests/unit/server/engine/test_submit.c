/* What is refused, and that nothing of it stays. */
#include "tests/unit/server/engine/engine_rig.h"
#include "server/engine/engine_internal.h"

static int setup(void **state)
{
    struct engine_rig *f = calloc(1, sizeof(*f));
    struct lf_engine_opts opts = rig_opts();
    rig_open(f, 128, &opts);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct engine_rig *f = *state;
    assert_int_equal(rig_blocks_used(f), 0);
    rig_close(f);
    free(f);
    return 0;
}

static void what_cannot_fit_is_refused_at_its_limit(void **state)
{
    struct engine_rig *f = *state;
    int32_t prompt[4097];
    int retry = 0;
    rig_prompt(prompt, 4097, 1);
    struct lf_gen_params p = rig_params(prompt, 4096, 0);
    assert_int_equal(rig_try(f, &p, &retry), LF_OK);
    p = rig_params(prompt, 4096, 1);
    assert_int_equal(rig_try(f, &p, &retry), LF_LIMIT);
    p = rig_params(prompt, 4097, 0);
    assert_int_equal(rig_try(f, &p, &retry), LF_LIMIT);
    p = rig_params(prompt, 1, INT32_MAX);
    assert_int_equal(rig_try(f, &p, &retry), LF_LIMIT);
    assert_int_equal(lf_counter_get(&lf_engine_metrics(f->engine)->rejected_too_long), 3);
}

static void a_request_larger_than_the_pool_is_refused(void **state)
{
    (void)state;
    struct engine_rig f = {.backend = {.delay_us = 0}};
    struct lf_engine_opts opts = rig_opts();
    rig_open(&f, 1, &opts);
    int32_t prompt[65];
    int retry = 0;
    rig_prompt(prompt, 65, 1);
    struct lf_gen_params p = rig_params(prompt, 60, 5);
    assert_int_equal(rig_try(&f, &p, &retry), LF_LIMIT);
    for (int i = 0; i < 10; i++) assert_int_equal(rig_generate(&f, 60, 4, (uint64_t)i).n_tokens, 4);
    rig_close(&f);
}

/* Of windows the longest request is what their part of it leaves to the others; where there are no others, the context.
 * At the limit and one past it. */
static void windows_make_room_for_longer_requests(void **state)
{
    (void)state;
    const struct lf_kv_layer_spec specs[] = {{.window = 128, .n_kv_heads = 1, .head_dim = 2, .alias_of = -1},
                                             {.window = 0, .n_kv_heads = 1, .head_dim = 2, .alias_of = -1}};
    /* beside 4 blocks of a step's tokens: 4 of the window */
    const struct {
        int n_layers, n_blocks, most, pinned;
    } cases[] = {{1, 8, 4096, 3}, {1, 7, 192, 3}, {2, 28, 20 * 64, 20 + 3}, {2, 72, 4096, 20 + 3}};
    static int32_t prompt[4097];
    rig_prompt(prompt, 4097, 1);
    for (size_t i = 0; i < LF_N_ELEMS(cases); i++) {
        struct engine_rig f = {.backend = {.delay_us = 0}};
        struct lf_engine_opts opts = rig_opts();
        struct lf_kv_layout layout;
        struct lf_engine_state now;
        int retry = 0;
        assert_int_equal(lf_kv_layout_make(&layout, specs, cases[i].n_layers, LF_F32, NULL), LF_OK);
        f.layout = &layout;
        rig_open(&f, cases[i].n_blocks, &opts);
        lf_engine_snapshot(f.engine, &now);
        assert_int_equal(now.most_tokens, cases[i].most);
        struct lf_gen_params p = rig_params(prompt, cases[i].most, 1);
        assert_int_equal(lf_engine_most(f.engine, &p), cases[i].most);
        assert_int_equal(rig_try(&f, &p, &retry), LF_LIMIT);
        p.n_prompt--;
        assert_int_equal(rig_try(&f, &p, &retry), LF_OK);
        assert_int_equal(lf_engine_pin_blocks(f.engine, LF_PIN_DISK, 20), cases[i].pinned);
        rig_close(&f);
        lf_kv_layout_deinit(&layout);
    }
}

/* Of windows more is needed while a prompt is computed than is pinned of it: what would wait for ever is refused. */
static void pins_are_taken_while_they_can_be_computed_one_after_the_other(void **state)
{
    (void)state;
    struct lf_kv_layer_spec specs[4];
    for (int i = 0; i < 4; i++)
        specs[i] = (struct lf_kv_layer_spec){.window = 128 + 64 * i, .n_kv_heads = 1, .head_dim = 2, .alias_of = -1};
    int32_t prompt[118];
    struct engine_rig f = {0};
    struct lf_engine_opts opts = rig_opts();
    struct lf_kv_layout layout;
    int retry = 0;
    opts.chunk = 128;
    assert_int_equal(lf_kv_layout_make(&layout, specs, LF_N_ELEMS(specs), LF_F32, NULL), LF_OK);
    assert_int_equal(layout.n_groups, 4);
    f.layout = &layout;
    rig_open(&f, 16, &opts); /* 8 are for a step; a prompt takes 8, of which 4 are pinned */
    rig_prompt(prompt, 118, 1);
    struct lf_gen_params p = rig_params(prompt, 118, 0);
    p.pin = LF_PIN_DEVICE;
    struct lf_request *req = rig_submit(&f, &p);
    rig_prompt(prompt, 118, 2);
    assert_int_equal(rig_try(&f, &p, &retry), LF_LIMIT);
    assert_int_equal(rig_wait(req).finish, LF_FINISH_LENGTH);
    assert_int_equal(rig_try(&f, &p, &retry), LF_LIMIT);
    lf_request_put(req);
    rig_close(&f);
    lf_kv_layout_deinit(&layout);
}

static void bad_parameters_are_refused_by_name(void **state)
{
    struct engine_rig *f = *state;
    int32_t prompt[4] = {1, 2, 3, 4}, bad[4] = {1, 2, FAKE_VOCAB, 4}, negative[1] = {-1};
    int retry = 0;
    const struct lf_gen_params good = rig_params(prompt, 4, 4);
    struct lf_gen_params p;
#define REFUSED(change) p = good, change, assert_int_equal(rig_try(f, &p, &retry), LF_INVALID)
    REFUSED(p.n_prompt = 0);
    REFUSED(p.prompt = bad);
    REFUSED((p.prompt = negative, p.n_prompt = 1));
    REFUSED(p.max_tokens = -1);
    REFUSED(p.min_tokens = -1);
    REFUSED((p.stop_token_ids = negative, p.n_stop_token_ids = 1));
    REFUSED(p.n_stop_token_ids = LF_STOP_TOKENS_N + 1);
    REFUSED(p.sampling.n_bias = LF_LOGIT_BIAS_N + 1);
    REFUSED((p.sampling.n_bias = 1, p.sampling.bias[0].id = FAKE_VOCAB));
    REFUSED(p.sampling.n_logprobs = LF_TOP_LOGPROBS_N + 1);
    REFUSED(p.n_prompt_logprobs = LF_TOP_LOGPROBS_N + 1);
    REFUSED(p.salt_bytes = -1);
    REFUSED((p.allowed_ids = negative, p.n_allowed_ids = 1));
    REFUSED((p.allowed_ids = bad, p.n_allowed_ids = 3));
    REFUSED(p.n_allowed_ids = -1);
    static const int32_t words[][3] = {{0, 1, 1}, {2, 5, -1}, {3, 1, 1}, {1, FAKE_VOCAB, 1}, {1, 5, 1}, {-1, 5, 1}};
    for (int i = 0; i < 6; i++) REFUSED((p.bad_words = words[i], p.n_bad_words = 3));
    REFUSED(p.n_bad_words = -1);
    static const int32_t marks[LF_ASK_DOCUMENTS_N + 1] = {4, 1, 0, 5};
    REFUSED((p.marks = marks + 2, p.n_marks = 1));
    REFUSED((p.marks = marks + 3, p.n_marks = 1));
    REFUSED((p.marks = marks, p.n_marks = 3));
    REFUSED(p.n_marks = -1);
    p = good, p.marks = marks, p.n_marks = 2;
    assert_int_equal(rig_try(f, &p, &retry), LF_OK);
    assert_int_equal(rig_try(f, &good, &retry), LF_OK);
}

/* At the bound and one past it. The request has a copy of its own, for its sequence too. */
static void marks_go_with_the_sequence(void **state)
{
    struct engine_rig *f = *state;
    int32_t prompt[200], marks[LF_ASK_DOCUMENTS_N + 1];
    int retry = 0;
    rig_prompt(prompt, 200, 1);
    struct lf_gen_params p = rig_params(prompt, 200, 2);
    for (int i = 0; i <= LF_ASK_DOCUMENTS_N; i++) marks[i] = 3 * (i + 1);
    p.marks = marks;
    p.n_marks = LF_ASK_DOCUMENTS_N + 1;
    assert_int_equal(rig_try(f, &p, &retry), LF_INVALID);
    p.n_marks = LF_ASK_DOCUMENTS_N;
    struct lf_request *req = rig_submit(f, &p);
    memset(marks, 0, sizeof(marks));
    assert_int_equal(req->seq.n_marks, LF_ASK_DOCUMENTS_N);
    for (int i = 0; i < LF_ASK_DOCUMENTS_N; i++) assert_int_equal(req->seq.marks[i], 3 * (i + 1));
    assert_ptr_equal(req->params.marks, req->seq.marks);
    assert_int_equal(rig_wait(req).n_tokens, 2);
    rig_check_tokens(req, prompt, 200, 2);
    lf_request_put(req);
}

/* What ends an answer must not come before min_tokens, and nothing else may. */
static void allowed_tokens_of_which_none_may_come_are_refused(void **state)
{
    struct engine_rig *f = *state;
    int32_t prompt[1] = {1}, ids[3] = {FAKE_EOS, 5, 6};
    int retry = 0;
    struct lf_gen_params p = rig_params(prompt, 1, 4);
    p.ignore_eos = false;
    p.allowed_ids = ids;
    p.n_allowed_ids = 2;
    p.stop_token_ids = &ids[1];
    p.n_stop_token_ids = 1;
    assert_int_equal(rig_try(f, &p, &retry), LF_OK); /* without min_tokens */
    p.min_tokens = 1;
    assert_int_equal(rig_try(f, &p, &retry), LF_UNSUPPORTED);
    p.n_allowed_ids = 3;
    assert_int_equal(rig_try(f, &p, &retry), LF_OK);
    p.n_allowed_ids = 1;
    assert_int_equal(rig_try(f, &p, &retry), LF_UNSUPPORTED);
    p.ignore_eos = true;
    assert_int_equal(rig_try(f, &p, &retry), LF_OK);
}

/* With the engine held in a step, the queue fills to its limit and not beyond. */
static void check_full_as(enum lf_status refused, struct lf_engine_opts *opts, const struct lf_gen_params *ask,
                          int n_accepted)
{
    struct engine_rig f = {.backend = {.gate = 1}};
    rig_open(&f, 128, opts);
    int32_t prompt[1000];
    rig_prompt(prompt, 1000, 1);
    struct lf_gen_params p = rig_params(prompt, 1, 1);
    p.tenant = 99;
    struct lf_request *first = rig_submit(&f, &p), *reqs[64], *more = NULL;
    struct lf_engine_state es;
    do lf_engine_snapshot(f.engine, &es);
    while (es.n_running == 0); /* the engine is inside its first step: what comes from here on waits */
    p = rig_params(prompt, ask->n_prompt, 4);
    p.tenant = ask->tenant;
    p.limits = ask->limits;
    for (int i = 0; i < n_accepted; i++) reqs[i] = rig_submit(&f, &p);
    int retry = 0;
    struct lf_err err = {LF_OK, ""};
    assert_int_equal(lf_engine_submit(f.engine, &p, &more, &retry, &err), refused);
    assert_true(retry >= 1 && retry <= 60);
    lf_engine_snapshot(f.engine, &es);
    assert_int_equal(es.n_waiting, n_accepted);
    assert_int_equal(es.waiting_tokens, n_accepted * ask->n_prompt);
    f.backend.gate = 0;
    for (int i = 0; i < n_accepted; i++) assert_int_equal(rig_wait(reqs[i]).n_tokens, 4);
    more = rig_submit(&f, &p);
    assert_int_equal(rig_wait(more).n_tokens, 4);
    lf_request_put(more);
    lf_request_put(first);
    for (int i = 0; i < n_accepted; i++) lf_request_put(reqs[i]);
    rig_close(&f);
}

static void check_full(struct lf_engine_opts *opts, int n_prompt, uint64_t tenant, int n_accepted)
{
    const struct lf_gen_params ask = {.n_prompt = n_prompt, .tenant = tenant};
    check_full_as(LF_FULL, opts, &ask, n_accepted);
}

static void a_full_queue_says_when_to_come_back(void **state)
{
    (void)state;
    struct lf_engine_opts opts = rig_opts();
    opts.queue_n = 7;
    check_full(&opts, 10, 0, 7);
    opts = rig_opts();
    opts.queue_tokens = 2500;
    check_full(&opts, 1000, 0, 2);
    opts = rig_opts();
    opts.per_tenant_n = 5;
    opts.queue_n = 9; /* tenant 0 is no key: only the queue is its limit */
    check_full(&opts, 10, 0, 9);
}

static void a_tenant_has_so_many_in_flight(void **state)
{
    (void)state;
    struct lf_engine_opts opts = rig_opts();
    struct lf_gen_params ask = {.n_prompt = 10, .tenant = 1};
    opts.per_tenant_n = 5;
    check_full_as(LF_QUOTA, &opts, &ask, 5);
    ask.limits.in_flight = 2; /* its own, below the others' or above */
    check_full_as(LF_QUOTA, &opts, &ask, 2);
    ask.limits.in_flight = 9;
    check_full_as(LF_QUOTA, &opts, &ask, 9);
    opts.per_tenant_n = 0;
    check_full_as(LF_QUOTA, &opts, &ask, 9);
}

static double owed(struct engine_rig *f, uint64_t tenant)
{
    struct lf_mailbox *mb = &f->engine->mailbox;
    pthread_mutex_lock(&mb->lock);
    double n = lf_quota_owed(&mb->quotas, tenant, lf_clock_ns());
    pthread_mutex_unlock(&mb->lock);
    return n;
}

/* About so many: a rate of one a minute takes nothing off that matters. */
static bool owes(struct engine_rig *f, uint64_t tenant, int n)
{
    double x = owed(f, tenant);
    return x <= n && x > n - RIG_PATIENCE_S / 60.0;
}

/* Whole prompts at first, then what was computed: what came from the cache is nobody's, nor what was not begun. */
static void a_tenant_pays_for_what_is_computed_for_it(void **state)
{
    (void)state;
    struct engine_rig f = {.backend = {.gate = 1}};
    struct lf_engine_opts opts = rig_opts();
    rig_open(&f, 128, &opts);
    int32_t prompt[1000];
    rig_prompt(prompt, 1000, 1);
    struct lf_gen_params p = rig_params(prompt, 1000, 10);
    p.limits.tokens_per_minute = 1;
    p.tenant = 1;
    struct lf_request *req = rig_submit(&f, &p), *more = NULL;
    struct lf_err err;
    int retry = 0;
    assert_true(owes(&f, 1, 1000));
    assert_int_equal(lf_engine_submit(f.engine, &p, &more, &retry, &err), LF_QUOTA);
    assert_true(retry > 60 * 990 && retry <= 60 * 1000);
    assert_int_equal(lf_counter_get(&lf_engine_metrics(f.engine)->rejected_quota), 1);
    struct lf_engine_state es;
    do lf_engine_snapshot(f.engine, &es);
    while (es.n_running == 0);
    p.tenant = 2;
    struct lf_request *gone = rig_submit(&f, &p);
    assert_true(owes(&f, 2, 1000));
    lf_request_put(gone); /* before its turn */
    f.backend.gate = 0;
    assert_int_equal(rig_wait(req).n_tokens, 10);
    assert_true(owes(&f, 1, 1010));
    lf_request_put(req);
    assert_int_equal(rig_blocks_used(&f), 0);
    assert_true(owed(&f, 2) == 0);
    p.tenant = 3;
    req = rig_submit(&f, &p);
    assert_int_equal(rig_wait(req).n_cached, 960);
    assert_true(owes(&f, 3, 50));
    lf_request_put(req);
    p.tenant = 5;
    p.n_prompt = 5;
    p.speculate = 16;
    p.max_tokens = 200;
    for (int i = 0; i < 5; i++) prompt[i] = 3;
    static const int32_t few[] = {3, 96};
    p.allowed_ids = few;
    p.n_allowed_ids = LF_N_ELEMS(few);
    req = rig_submit(&f, &p);
    const struct lf_request_state st = rig_wait(req);
    assert_true(st.n_proposed > st.n_accepted); /* what was tried in vain was computed as well */
    assert_true(owes(&f, 5, 5 + 200 + st.n_proposed - st.n_accepted));
    lf_request_put(req);
    p = rig_params(prompt, 1000, 10);
    p.limits.tokens_per_minute = 0; /* who has no limit owes nothing */
    p.tenant = 4;
    lf_request_put(rig_submit(&f, &p));
    assert_true(owed(&f, 4) == 0);
    rig_close(&f);
}

/* What is seen of a tenant by itself. Who has let go of a request may have let go of its meter. */
static void a_tenants_meter_counts_what_was_done_for_it(void **state)
{
    (void)state;
    struct engine_rig f = {.backend = {.gate = 0}};
    struct lf_engine_opts opts = rig_opts();
    opts.per_tenant_n = 1;
    rig_open(&f, 128, &opts);
    int32_t prompt[1000];
    rig_prompt(prompt, 1000, 1);
    struct lf_gen_params p = rig_params(prompt, 1000, 10);
    struct lf_tenant_meter m = {0}, *brief = calloc(1, sizeof *brief);
    int retry = 0;
    p.tenant = 1;
    p.limits.meter = &m;
    for (int i = 0; i < 2; i++) {
        struct lf_request *req = rig_submit(&f, &p);
        (void)rig_wait(req);
        lf_request_put(req);
        assert_int_equal(rig_blocks_used(&f), 0);
    }
    assert_int_equal(lf_counter_get(&m.requests), 2);
    assert_int_equal(lf_counter_get(&m.prompt_tokens), 2000);
    assert_int_equal(lf_counter_get(&m.cached_tokens), 960);
    assert_int_equal(lf_counter_get(&m.generation_tokens), 20);
    assert_int_equal(lf_counter_get(&m.rejected), 0);
    f.backend.gate = 1;
    p.limits.meter = brief;
    struct lf_request *gone = rig_submit(&f, &p);
    p.limits.meter = &m;
    assert_int_equal(rig_try(&f, &p, &retry), LF_QUOTA);
    assert_int_equal(lf_counter_get(&m.rejected), 1);
    lf_request_put(gone);
    free(brief); /* a later count would be seen by asan */
    f.backend.gate = 0;
    assert_int_equal(rig_blocks_used(&f), 0);
    rig_close(&f);
}

/* What follows its group's first request in is taken in whatever is owed by then. */
static void a_group_is_let_in_as_a_whole(void **state)
{
    (void)state;
    struct engine_rig f = {.backend = {.gate = 0}};
    struct lf_engine_opts opts = rig_opts();
    rig_open(&f, 128, &opts);
    int32_t prompt[100];
    rig_prompt(prompt, 100, 1);
    struct lf_gen_params p = rig_params(prompt, 100, 4);
    struct lf_request *reqs[3];
    p.limits.tokens_per_minute = 1;
    p.tenant = 1;
    for (int i = 0; i < 3; i++) {
        p.n_group = i == 0 ? 3 : 0;
        p.group_tokens = i == 0 ? 300 : 0;
        p.first = i == 0 ? NULL : reqs[0];
        reqs[i] = rig_submit(&f, &p);
    }
    for (int i = 0; i < 3; i++) {
        (void)rig_wait(reqs[i]);
        lf_request_put(reqs[i]);
    }
    rig_close(&f);
}

static void a_tenant_fills_three_quarters_of_the_queue(void **state)
{
    (void)state;
    struct lf_engine_opts opts = rig_opts();
    opts.queue_n = 8;
    check_full(&opts, 10, 1, 6);
    opts.queue_n = 1; /* one at least */
    check_full(&opts, 10, 1, 1);
    opts = rig_opts();
    opts.queue_tokens = 4000;
    check_full(&opts, 1000, 1, 3);
    check_full(&opts, 601, 1, 4);
}

/* Two floods fill the queue but for its last eighth; that is for requests of which nothing waits. */
static void floods_leave_the_last_places_to_single_requests(void **state)
{
    (void)state;
    struct engine_rig f = {.backend = {.gate = 1}};
    struct lf_engine_opts opts = rig_opts();
    opts.queue_n = 16;
    rig_open(&f, 128, &opts);
    int32_t prompt[10];
    rig_prompt(prompt, 10, 1);
    struct lf_gen_params p = rig_params(prompt, 1, 1);
    struct lf_request *reqs[32], *more = NULL;
    struct lf_engine_state es;
    int n = 0, retry = 0;
    reqs[n++] = rig_submit(&f, &p);
    do lf_engine_snapshot(f.engine, &es);
    while (es.n_running == 0);
    p = rig_params(prompt, 10, 4);
    for (int i = 0; i < 14; i++) {
        p.tenant = 1 + (uint64_t)i / 7;
        reqs[n++] = rig_submit(&f, &p);
    }
    assert_int_equal(lf_engine_submit(f.engine, &p, &more, &retry, NULL), LF_FULL);
    p.tenant = 3;
    p.n_group = 2; /* several answers at once are no single request */
    assert_int_equal(lf_engine_submit(f.engine, &p, &more, &retry, NULL), LF_FULL);
    p.n_group = 0;
    reqs[n++] = rig_submit(&f, &p);
    assert_int_equal(lf_engine_submit(f.engine, &p, &more, &retry, NULL), LF_FULL); /* one of it waits now */
    p.tenant = 4;
    reqs[n++] = rig_submit(&f, &p);
    p.tenant = 5;
    assert_int_equal(lf_engine_submit(f.engine, &p, &more, &retry, NULL), LF_FULL);
    f.backend.gate = 0;
    for (int i = 0; i < n; i++) (void)rig_wait(reqs[i]);
    for (int i = 0; i < n; i++) lf_request_put(reqs[i]);
    rig_close(&f);
}

/* Groups that come side by side: the places of one are taken from its first request on, and given back with it. */
static void a_group_has_its_places_before_all_of_it_is_there(void **state)
{
    (void)state;
    struct engine_rig f = {.backend = {.gate = 1}};
    struct lf_engine_opts opts = rig_opts();
    opts.queue_n = 8;
    rig_open(&f, 128, &opts);
    int32_t prompt[10];
    rig_prompt(prompt, 10, 1);
    struct lf_gen_params p = rig_params(prompt, 10, 4);
    struct lf_request *running, *first, *second, *other;
    struct lf_engine_state es;
    int retry = 0;
    running = rig_submit(&f, &p);
    do lf_engine_snapshot(f.engine, &es);
    while (es.n_running == 0);
    p.n_group = 6;
    p.group_tokens = 60;
    first = rig_submit(&f, &p);
    assert_int_equal(rig_try(&f, &p, &retry), LF_FULL); /* beside one that waits there would be room */
    p.n_group = 0;
    p.group_tokens = 0;
    p.first = first;
    second = rig_submit(&f, &p);
    p.n_group = 6;
    p.group_tokens = 60;
    p.first = NULL;
    assert_int_equal(rig_try(&f, &p, &retry), LF_FULL);
    lf_request_cancel(first);
    f.backend.gate = 0;
    (void)rig_wait(running);
    (void)rig_wait(first);
    (void)rig_wait(second);
    other = rig_submit(&f, &p);
    (void)rig_wait(other);
    struct lf_request *all[] = {running, first, second, other};
    for (int i = 0; i < 4; i++) lf_request_put(all[i]);
    rig_close(&f);
}

/* Under a flood that has its whole share another's requests are taken, and one of any size where nothing of it waits.
 */
static void a_flood_leaves_room_in_the_queue_for_others(void **state)
{
    (void)state;
    struct engine_rig f = {.backend = {.gate = 1}};
    struct lf_engine_opts opts = rig_opts();
    opts.queue_n = 40;
    opts.queue_tokens = 4 * 1000;
    rig_open(&f, 128, &opts);
    int32_t prompt[1000];
    rig_prompt(prompt, 1000, 1);
    struct lf_gen_params p = rig_params(prompt, 1, 1);
    struct lf_request *reqs[64];
    struct lf_engine_state es;
    int n = 0, retry = 0;
    reqs[n++] = rig_submit(&f, &p);
    do lf_engine_snapshot(f.engine, &es);
    while (es.n_running == 0);
    p = rig_params(prompt, 100, 4);
    p.tenant = 1;
    for (int i = 0; i < 30; i++) reqs[n++] = rig_submit(&f, &p);
    assert_int_equal(rig_try(&f, &p, &retry), LF_FULL);
    p = rig_params(prompt, 1000, 4);
    p.tenant = 2;
    reqs[n++] = rig_submit(&f, &p);
    assert_int_equal(rig_try(&f, &p, &retry), LF_FULL); /* now all tokens of the queue are taken */
    f.backend.gate = 0;
    for (int i = 0; i < n; i++) {
        assert_int_equal(rig_wait(reqs[i]).finish, LF_FINISH_LENGTH);
        lf_request_put(reqs[i]);
    }
    rig_close(&f);
}

/* A flood at the highest priority, and one request of another: it starts after one of the flood. */
static void tenants_take_turns_whatever_their_priorities(void **state)
{
    (void)state;
    struct engine_rig f = {.backend = {.gate = 1}};
    struct lf_engine_opts opts = rig_opts();
    opts.max_seqs = 1;
    rig_open(&f, 128, &opts);
    int32_t prompt[10];
    rig_prompt(prompt, 10, 1);
    struct lf_gen_params p = rig_params(prompt, 10, 4);
    struct lf_request *reqs[12];
    struct lf_engine_state es;
    reqs[0] = rig_submit(&f, &p);
    do lf_engine_snapshot(f.engine, &es);
    while (es.n_running == 0);
    for (int i = 1; i < 12; i++) {
        p.tenant = i < 11 ? 1 : 2;
        p.priority = i < 11 ? -1000000 : 0;
        reqs[i] = rig_submit(&f, &p);
    }
    f.backend.gate = 0;
    int64_t started_ns[12];
    for (int i = 0; i < 12; i++) started_ns[i] = rig_wait(reqs[i]).started_ns;
    for (int i = 2; i < 11; i++) assert_true(started_ns[i] > started_ns[11]);
    for (int i = 0; i < 12; i++) lf_request_put(reqs[i]);
    rig_close(&f);
}

enum { GROUP_N = 6 };

/* Submits n requests as one client's; false where there is no room, and then none of them is kept. */
static bool submit_group(struct engine_rig *f, const struct lf_gen_params *params, struct lf_request **reqs, int n)
{
    struct lf_gen_params p = *params;
    struct lf_err err = {LF_OK, ""};
    int retry = 0;
    for (int i = 0; i < n; i++) {
        p.n_group = i == 0 ? n : 0;
        p.group_tokens = i == 0 ? (int64_t)n * p.n_prompt : 0;
        p.first = i == 0 ? NULL : reqs[0];
        enum lf_status status = lf_engine_submit(f->engine, &p, &reqs[i], &retry, &err);
        if (i == 0 && status == LF_FULL) return false;
        assert_int_equal(status, LF_OK);
    }
    return true;
}

/* With the engine held in a step and n_before waiting, GROUP_N requests of one client come: all are taken or none. */
static void check_group(const struct lf_engine_opts *opts, int n_prompt, int n_before, bool taken)
{
    struct engine_rig f = {.backend = {.gate = 1}};
    rig_open(&f, 128, opts);
    int32_t prompt[1000];
    rig_prompt(prompt, 1000, 1);
    struct lf_gen_params p = rig_params(prompt, 1, 1);
    struct lf_request *reqs[GROUP_N + 2], *more = NULL;
    struct lf_engine_state es;
    int n = 0;
    reqs[n++] = rig_submit(&f, &p);
    do lf_engine_snapshot(f.engine, &es);
    while (es.n_running == 0);
    p = rig_params(prompt, n_prompt, 4);
    for (int i = 0; i < n_before; i++) reqs[n++] = rig_submit(&f, &p);
    assert_int_equal(submit_group(&f, &p, reqs + n, GROUP_N), taken);
    if (taken) n += GROUP_N;
    if (taken) assert_false(submit_group(&f, &p, &more, 1));
    lf_engine_snapshot(f.engine, &es);
    assert_int_equal(es.n_waiting, n - 1);
    f.backend.gate = 0;
    for (int i = 0; i < n; i++) {
        assert_int_equal(rig_wait(reqs[i]).finish, LF_FINISH_LENGTH);
        lf_request_put(reqs[i]);
    }
    rig_close(&f);
}

/* Where nothing waits there is room for as many as one client may ask for: "try again" must not be said for ever. */
static void what_a_client_asks_for_at_once_enters_as_one(void **state)
{
    (void)state;
    struct lf_engine_opts opts = rig_opts();
    opts.queue_n = 4;
    check_group(&opts, 10, 0, true);
    check_group(&opts, 10, 1, false);
    opts = rig_opts();
    opts.queue_tokens = 2500;
    check_group(&opts, 1000, 0, true);
    check_group(&opts, 1000, 1, false);
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    struct lf_engine_backend backend = {.launch = fake_launch, .wait = fake_wait_step, .n_vocab = FAKE_VOCAB};
    struct lf_kv_cache kv = {.buffer = {0}};
    struct lf_engine *engine = NULL;
    struct lf_err err;
    int *fields[7];
    struct lf_engine_opts o;
    for (int i = 0; i < 7; i++) {
        o = rig_opts();
        fields[0] = &o.ctx, fields[1] = &o.chunk, fields[2] = &o.max_seqs, fields[3] = &o.max_out;
        fields[4] = &o.step_ms, fields[5] = &o.queue_n, fields[6] = &o.watchdog_s;
        *fields[i] = i < 6 ? 0 : -1;
        assert_int_equal(lf_engine_create(&engine, &backend, &kv, &o, &err), LF_INVALID);
    }
    o = rig_opts();
    backend.n_vocab = 0;
    assert_int_equal(lf_engine_create(&engine, &backend, &kv, &o, &err), LF_INVALID);
    assert_null(engine);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(what_cannot_fit_is_refused_at_its_limit),
        cmocka_unit_test(pins_are_taken_while_they_can_be_computed_one_after_the_other),
        CASE(bad_parameters_are_refused_by_name),
        CASE(marks_go_with_the_sequence),
        CASE(allowed_tokens_of_which_none_may_come_are_refused),
        cmocka_unit_test(windows_make_room_for_longer_requests),
        cmocka_unit_test(a_request_larger_than_the_pool_is_refused),
        cmocka_unit_test(a_full_queue_says_when_to_come_back),
        cmocka_unit_test(a_tenant_has_so_many_in_flight),
        cmocka_unit_test(a_tenant_pays_for_what_is_computed_for_it),
        cmocka_unit_test(a_tenants_meter_counts_what_was_done_for_it),
        cmocka_unit_test(a_group_is_let_in_as_a_whole),
        cmocka_unit_test(a_tenant_fills_three_quarters_of_the_queue),
        cmocka_unit_test(a_group_has_its_places_before_all_of_it_is_there),
        cmocka_unit_test(a_flood_leaves_room_in_the_queue_for_others),
        cmocka_unit_test(floods_leave_the_last_places_to_single_requests),
        cmocka_unit_test(tenants_take_turns_whatever_their_priorities),
        cmocka_unit_test(what_a_client_asks_for_at_once_enters_as_one),
        cmocka_unit_test(bad_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
