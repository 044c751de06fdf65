/* A rank that stops, or ends, at any moment: all others end, in bounded time, and say which one it was. What stops it
 * is a signal whose handler does not return: so it stops between any two instructions; what ends it one whose handler
 * leaves all that it does, and then says so to the group as a rank's thread does. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/mix.h"
#include "tests/support/config_text.h"
#include "tests/support/model_rig.h"

/* The timeout is one that a rank which others keep from running does not reach. */
enum {
    MOST_RANKS = 4,
    KILLS = 60,
    STOPS = 20,
    TIMEOUT_MS = 1000,
    CTX = 128,
    CHUNK = 64,
    SEVERAL = 16, /* tokens, of which two ranks of a context have half each */
    PATIENCE_MS = 9000,
    START_MS = 60 * 1000
};

static atomic_bool is_released;
static _Atomic int n_stopped;

static void stand_still(int sig)
{
    (void)sig;
    const struct timespec ms = {.tv_nsec = 1000 * 1000};
    atomic_fetch_add(&n_stopped, 1);
    while (!atomic_load(&is_released)) (void)nanosleep(&ms, NULL);
}

static _Thread_local sigjmp_buf end_of_thread;
#define KILLED "a rank has gone"

static void leave(int sig)
{
    (void)sig;
    atomic_fetch_add(&n_stopped, 1);
    siglongjmp(end_of_thread, 1);
}

struct rank {
    struct model_rig_opts opts;
    struct lf_comm_group *group;
    _Atomic int *n_ready;
    pthread_t thread;
    enum lf_status status;
    struct lf_err err;
    _Atomic bool has_ended;
};

/* Decodes one token after the other, and now and then several at once, until the group has failed. It is ready once the
 * others have heard of it. */
static enum lf_status lead(struct model_rig *rig, _Atomic int *n_ready, struct lf_err *err)
{
    static const int32_t blocks[] = {0, 1};
    static const int32_t ids[SEVERAL] = {3};
    struct lf_sampling greedy = {.top_p = 1, .repetition_penalty = 1};
    struct lf_sampled sampled;
    for (int n = 1;; n = n % CTX + 1) {
        int n_tokens = n % SEVERAL == 0 ? SEVERAL : 1, last = n_tokens - 1;
        struct lf_kv_seq seq = {
            .blocks = blocks, .n_tokens = n_tokens, .kv_len = n, .is_decode = n > 1 && n_tokens == 1};
        struct lf_batch_out out = {.sampling = &greedy};
        struct lf_batch batch = {
            .ids = ids, .n_tokens = n_tokens, .seqs = &seq, .n_seqs = 1, .logits_idx = &last, .outs = &out, .n_out = 1};
        LF_TRY(lf_model_launch(rig->model, &rig->kv, &batch, err));
        LF_TRY(lf_model_wait(rig->model, &sampled, err));
        if (n_ready) atomic_fetch_add(n_ready, 1);
        n_ready = NULL;
    }
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    struct model_rig rig;
    if (model_rig_open(&rig, &r->opts, &r->err) != LF_OK) fail_msg("%s", r->err.message);
    if (sigsetjmp(end_of_thread, 1) == 0) {
        if (lf_split_world_rank(&r->opts.split) == 0) {
            r->status = lead(&rig, r->n_ready, &r->err);
        } else {
            atomic_fetch_add(r->n_ready, 1);
            r->status = lf_model_follow(rig.model, &rig.kv, &r->err);
        }
    } else {
        lf_comm_group_abort(r->group, LF_DEVICE, KILLED);
        r->status = lf_comm_check(r->opts.comm, &r->err);
    }
    atomic_store(&r->has_ended, true);
    while (!atomic_load(&is_released)) lf_clock_sleep_ms(1); /* a signal that comes late still finds its thread */
    model_rig_close(&rig);
    return NULL;
}

static bool others_have_ended(struct rank *ranks, int n, int victim)
{
    bool have = true;
    for (int i = 0; i < n; i++) have &= i == victim || atomic_load(&ranks[i].has_ended);
    return have;
}

static void wait_ready(_Atomic int *n_ready, int n)
{
    int64_t until = lf_clock_ns() + START_MS * LF_NS_PER_MS;
    while (atomic_load(n_ready) < n) {
        if (lf_clock_ns() > until) fail_msg("%d of %d ranks are ready", atomic_load(n_ready), n);
        lf_clock_sleep_ms(1);
    }
}

static void start_all(struct rank *ranks, const struct lf_split *split, const struct temp_dir *dir,
                      struct lf_comm_group *group, _Atomic int *n_ready)
{
    int n = lf_split_world(split), n_ranks = split->n_ranks;
    for (int i = 0; i < n; i++) {
        ranks[i] = (struct rank){
            .opts = {.dir = dir->path,
                     .load = LF_LOAD_DUMMY,
                     .max_isa = -1,
                     .n_threads = 1,
                     .ctx = CTX,
                     .chunk = CHUNK,
                     .max_seqs = 1,
                     .max_out = 1,
                     .kv_dtype = LF_F32,
                     .split = {.rank = i % n_ranks, .n_ranks = n_ranks, .cp_rank = i / n_ranks, .n_cp = split->n_cp}},
            .group = group,
            .n_ready = n_ready};
        assert_int_equal(lf_comm_create(&ranks[i].opts.comm, group, i, NULL), LF_OK);
    }
    /* rank 0 last: it does not wait for others to be ready */
    for (int i = n - 1; i >= 0; i--) {
        if (i == 0) wait_ready(n_ready, n - 1);
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
    }
    wait_ready(n_ready, n);
}

/* Some time after all have begun. */
static void hit(const struct rank *victim, int sig, int trial)
{
    int64_t until = lf_clock_ns() + (int64_t)(lf_random64(17, (uint64_t)trial) % (3 * LF_NS_PER_MS));
    while (lf_clock_ns() < until) continue;
    assert_int_equal(pthread_kill(victim->thread, sig), 0);
}

static void lose_one(const struct temp_dir *dir, int trial, bool is_killed)
{
    static const struct lf_split splits[] = {
        {.n_ranks = 2}, {.n_ranks = 4}, {.n_ranks = 1, .n_cp = 2}, {.n_ranks = 2, .n_cp = 2}};
    const struct lf_split *split = &splits[trial % (int)LF_N_ELEMS(splits)];
    int n = lf_split_world(split), victim = trial / (int)LF_N_ELEMS(splits) % n;
    struct rank ranks[MOST_RANKS];
    struct lf_comm_group *group;
    _Atomic int n_ready = 0;
    char words[64] = KILLED;
    atomic_store(&is_released, false);
    atomic_store(&n_stopped, 0);
    assert_int_equal(lf_comm_group_create(&group, n, TIMEOUT_MS, NULL), LF_OK);
    start_all(ranks, split, dir, group, &n_ready);
    hit(&ranks[victim], is_killed ? SIGUSR2 : SIGUSR1, trial);
    int64_t begin = lf_clock_ns();
    while (!others_have_ended(ranks, n, victim)) {
        if (lf_clock_ns() - begin > PATIENCE_MS * LF_NS_PER_MS) fail_msg("trial %d: a rank hangs", trial);
        lf_clock_sleep_ms(1);
    }
    assert_int_equal(atomic_load(&n_stopped), 1);
    atomic_store(&is_released, true);
    if (!is_killed) snprintf(words, sizeof(words), "waited %d ms for rank %d, in ", TIMEOUT_MS, victim);
    for (int i = 0; i < n; i++) {
        assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
        assert_int_equal(ranks[i].status, LF_DEVICE);
        if (!strstr(ranks[i].err.message, words)) fail_msg("\"%s\" does not say \"%s\"", ranks[i].err.message, words);
        lf_comm_destroy(ranks[i].opts.comm);
    }
    lf_comm_group_destroy(group);
}

static void a_rank_that_stops_or_ends_at_any_moment_ends_all_in_time(void **state)
{
    (void)state;
    struct sigaction stop = {.sa_handler = stand_still}, end = {.sa_handler = leave};
    struct config_text c = config_llama();
    struct temp_dir dir = temp_dir_make();
    config_set(&c, "num_attention_heads", "4");
    config_set(&c, "num_key_value_heads", "2");
    config_set(&c, "head_dim", "16");
    config_write(&c, &dir);
    assert_int_equal(sigaction(SIGUSR1, &stop, NULL), 0);
    assert_int_equal(sigaction(SIGUSR2, &end, NULL), 0);
    for (int trial = 0; trial < KILLS; trial++) lose_one(&dir, trial, true);
    for (int trial = 0; trial < STOPS; trial++) lose_one(&dir, trial, false);
    temp_dir_remove(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_stops_or_ends_at_any_moment_ends_all_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
