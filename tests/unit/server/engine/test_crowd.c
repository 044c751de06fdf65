/* Many clients on many threads, some of whom cancel or vanish: the survivors' answers are the ones they would get
 * alone, and nothing of the others stays behind. */
#include "tests/unit/server/engine/engine_rig.h"

#include <pthread.h>

enum { THREADS_N = 16, CLIENTS_N = 200, VANISH_N = 60, ROUNDS_N = 3, MAX_PROMPT = 700 };

enum manner { STAYS, VANISHES, CANCELS };

struct client {
    struct engine_rig *f;
    uint64_t seed;
    enum manner manner;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    int n_notes;
    int n_tokens, n_cancelled, n_refused;
};

static void on_note(void *ctx)
{
    struct client *c = ctx;
    pthread_mutex_lock(&c->lock);
    c->n_notes++;
    pthread_cond_signal(&c->cond);
    pthread_mutex_unlock(&c->lock);
}

static int between(const struct client *c, uint64_t counter, int lo, int hi)
{
    return lo + (int)(lf_random64(c->seed, counter) % (uint64_t)(hi - lo + 1));
}

/* Waits for a note after the seen ones, at most 100 ms. */
static void await_note(struct client *c, int *seen)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100 * LF_NS_PER_MS;
    until.tv_sec += until.tv_nsec / LF_NS_PER_S;
    until.tv_nsec %= LF_NS_PER_S;
    pthread_mutex_lock(&c->lock);
    if (c->n_notes == *seen) pthread_cond_timedwait(&c->cond, &c->lock, &until);
    *seen = c->n_notes;
    pthread_mutex_unlock(&c->lock);
}

static struct lf_request *submit_until_taken(struct client *c, const struct lf_gen_params *p)
{
    struct lf_request *req = NULL;
    for (;;) {
        int retry_after_s = 0;
        enum lf_status status = lf_engine_submit(c->f->engine, p, &req, &retry_after_s, NULL);
        if (status == LF_OK) return req;
        LF_ASSERT(status == LF_FULL && retry_after_s >= 1 && retry_after_s <= 60);
        c->n_refused++;
        lf_clock_sleep_ms(2);
    }
}

/* Reads as it comes, checking each token once. */
static void read_to_the_end(struct client *c, struct lf_request *req, const int32_t *prompt, int n_prompt, int leave_at)
{
    struct lf_request_state st;
    uint64_t h = 0;
    int seen = 0, n = 0;
    for (int i = 0; i < n_prompt; i++) h = fake_hash(h, prompt[i]);
    do {
        await_note(c, &seen);
        lf_request_snapshot(req, &st);
        LF_ASSERT(st.n_tokens >= n && st.n_cached <= st.n_processed && st.n_processed <= n_prompt);
        for (; n < st.n_tokens; n++) {
            int32_t id = lf_request_token(req, n)->id;
            LF_ASSERT(id == fake_argmax(h));
            h = fake_hash(h, id);
        }
        if (leave_at >= 0 && n >= leave_at) {
            if (c->manner == VANISHES) return;
            lf_request_cancel(req);
        }
    } while (st.finish == LF_FINISH_NONE);
    c->n_tokens = n;
    if (st.finish == LF_FINISH_CANCELLED) c->n_cancelled++;
    LF_ASSERT(st.finish == LF_FINISH_LENGTH || (st.finish == LF_FINISH_CANCELLED && c->manner == CANCELS));
}

static void run_client(struct client *c)
{
    int32_t prompt[MAX_PROMPT];
    int n_prompt = between(c, 1, 1, MAX_PROMPT), max_tokens = between(c, 2, 1, 60);
    int n_shared = between(c, 3, 0, n_prompt), leave_at = c->manner == STAYS ? -1 : between(c, 4, 0, max_tokens);
    rig_prompt(prompt, n_prompt, c->seed);
    rig_prompt(prompt, n_shared, (uint64_t)between(c, 5, 1, 4)); /* one of four documents */
    struct lf_gen_params p = rig_params(prompt, n_prompt, max_tokens);
    p.notify = on_note;
    p.notify_ctx = c;
    p.priority = between(c, 6, -3, 3);
    struct lf_request *req = submit_until_taken(c, &p), *twin = NULL;
    if (between(c, 7, 0, 3) == 0) { /* a second choice */
        p.leader = req;
        p.notify = NULL;
        twin = submit_until_taken(c, &p);
    }
    read_to_the_end(c, req, prompt, n_prompt, leave_at);
    lf_request_put(req);
    if (!twin) return;
    if (c->manner == STAYS) {
        LF_ASSERT(rig_wait(twin).n_tokens == max_tokens);
        rig_check_tokens(twin, prompt, n_prompt, max_tokens);
    }
    lf_request_put(twin);
}

struct worker {
    pthread_t thread;
    struct client *clients;
    _Atomic int *next;
};

static void *work(void *ctx)
{
    struct worker *worker = ctx;
    for (int i; (i = (*worker->next)++) < CLIENTS_N;) run_client(&worker->clients[i]);
    return NULL;
}

static void run_crowd(struct engine_rig *f, uint64_t round, int *n_refused, int *n_cancelled)
{
    static struct client clients[CLIENTS_N];
    struct worker workers[THREADS_N];
    _Atomic int next = 0;
    for (int i = 0; i < CLIENTS_N; i++) {
        enum manner manner = i % 10 < VANISH_N * 10 / CLIENTS_N ? VANISHES : i % 10 == 9 ? CANCELS : STAYS;
        clients[i] = (struct client){.f = f, .seed = round * 1000 + (uint64_t)i, .manner = manner};
        pthread_mutex_init(&clients[i].lock, NULL);
        pthread_cond_init(&clients[i].cond, NULL);
    }
    for (int i = 0; i < THREADS_N; i++) {
        workers[i] = (struct worker){.clients = clients, .next = &next};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS_N; i++) pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < CLIENTS_N; i++) {
        *n_refused += clients[i].n_refused;
        *n_cancelled += clients[i].n_cancelled;
        pthread_cond_destroy(&clients[i].cond);
        pthread_mutex_destroy(&clients[i].lock);
    }
}

static void a_crowd_of_whom_some_vanish_leaves_nothing_behind(void **state)
{
    (void)state;
    struct engine_rig f = {.backend = {.delay_us = 50, .n_async_steps = 1}};
    struct lf_engine_opts opts = rig_opts();
    opts.queue_n = 6;
    opts.max_seqs = 6;
    opts.max_out = 6;
    rig_open(&f, 40, &opts);
    int n_refused = 0, n_cancelled = 0;
    for (uint64_t round = 1; round <= ROUNDS_N; round++) {
        run_crowd(&f, round, &n_refused, &n_cancelled);
        assert_int_equal(rig_blocks_used(&f), 0);
        struct lf_engine_state es;
        lf_engine_snapshot(f.engine, &es);
        assert_int_equal(es.n_running + es.n_waiting, 0);
        assert_int_equal(es.waiting_tokens, 0);
    }
    const struct lf_engine_metrics *m = lf_engine_metrics(f.engine);
    assert_int_equal(lf_counter_get(&m->finished_error) + lf_counter_get(&m->finished_stop), 0);
    assert_true(lf_counter_get(&m->finished_cancelled) > 0 && lf_counter_get(&m->prompt_tokens_cached) > 0);
    print_message("%d clients: %d refusals, %d cancelled, %d steps\n", ROUNDS_N * CLIENTS_N, n_refused, n_cancelled,
                  f.backend.n_steps);
    rig_close(&f);
}

/* The engine is taken down under a crowd that is still submitting. */
static void destroy_waits_for_nobody(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct engine_rig f = {.backend = {.delay_us = 50, .n_async_steps = i % 2}};
        struct lf_engine_opts opts = rig_opts();
        rig_open(&f, 40, &opts);
        int32_t prompt[200];
        rig_prompt(prompt, 200, 1);
        struct lf_gen_params p = rig_params(prompt, 200, 300);
        struct lf_request *reqs[10];
        for (int k = 0; k < 10; k++) reqs[k] = rig_submit(&f, &p);
        lf_engine_drain(f.engine);
        for (int k = 0; k < 10; k++) lf_request_put(reqs[k]);
        rig_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crowd_of_whom_some_vanish_leaves_nothing_behind),
        cmocka_unit_test(destroy_waits_for_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
