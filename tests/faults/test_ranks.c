/* A rank that stops at any moment: all others end, in bounded time, and say which one it was. What stops it is a signal
 * whose handler does not return: so it stops between any two instructions. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/mix.h"
#include "tests/support/config_text.h"
#include "tests/support/model_rig.h"

enum { MOST_RANKS = 4, TRIALS = 100, TIMEOUT_MS = 200, CTX = 128, CHUNK = 64, PATIENCE_MS = 9000 };

static atomic_bool is_released;
static _Atomic int n_stopped;

static void stand_still(int sig)
{
    (void)sig;
    const struct timespec ms = {.tv_nsec = 1000 * 1000};
    atomic_fetch_add(&n_stopped, 1);
    while (!atomic_load(&is_released)) (void)nanosleep(&ms, NULL);
}

struct rank {
    struct model_rig_opts opts;
    _Atomic int *n_ready;
    pthread_t thread;
    enum lf_status status;
    struct lf_err err;
    _Atomic bool has_ended;
};

/* Decodes one token after the other until the group has failed. */
static enum lf_status lead(struct model_rig *rig, struct lf_err *err)
{
    static const int32_t blocks[] = {0, 1};
    static const int32_t id = 3, last = 0;
    struct lf_sampling greedy = {.top_p = 1, .repetition_penalty = 1};
    struct lf_sampled sampled;
    for (int n = 1;; n = n % CTX + 1) {
        struct lf_kv_seq seq = {.blocks = blocks, .n_tokens = 1, .kv_len = n, .is_decode = n > 1};
        struct lf_batch_out out = {.sampling = &greedy};
        struct lf_batch batch = {
            .ids = &id, .n_tokens = 1, .seqs = &seq, .n_seqs = 1, .logits_idx = &last, .outs = &out, .n_out = 1};
        LF_TRY(lf_model_launch(rig->model, &rig->kv, &batch, err));
        LF_TRY(lf_model_wait(rig->model, &sampled, err));
    }
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    struct model_rig rig;
    if (model_rig_open(&rig, &r->opts, &r->err) != LF_OK) fail_msg("%s", r->err.message);
    atomic_fetch_add(r->n_ready, 1);
    r->status = r->opts.split.rank == 0 ? lead(&rig, &r->err) : lf_model_follow(rig.model, &rig.kv, &r->err);
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

static void stop_one(const struct temp_dir *dir, int trial)
{
    int n = 2 + trial % (MOST_RANKS / 2) * 2, victim = 1 + trial / 2 % (n - 1);
    struct rank ranks[MOST_RANKS];
    struct lf_comm_group *group;
    _Atomic int n_ready = 0;
    atomic_store(&is_released, false);
    atomic_store(&n_stopped, 0);
    assert_int_equal(lf_comm_group_create(&group, n, TIMEOUT_MS, NULL), LF_OK);
    for (int i = 0; i < n; i++) {
        ranks[i] = (struct rank){.opts = {.dir = dir->path,
                                          .load = LF_LOAD_DUMMY,
                                          .max_isa = -1,
                                          .n_threads = 1,
                                          .ctx = CTX,
                                          .chunk = CHUNK,
                                          .max_seqs = 1,
                                          .max_out = 1,
                                          .kv_dtype = LF_F32,
                                          .split = {i, n}},
                                 .n_ready = &n_ready};
        assert_int_equal(lf_comm_create(&ranks[i].opts.comm, group, i, NULL), LF_OK);
    }
    /* rank 0 last: it does not wait for others to be ready */
    for (int i = n - 1; i >= 0; i--) {
        while (i == 0 && atomic_load(&n_ready) < n - 1) lf_clock_sleep_ms(1);
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
    }
    while (atomic_load(&n_ready) < n) lf_clock_sleep_ms(1);
    int64_t until = lf_clock_ns() + (int64_t)(lf_random64(17, (uint64_t)trial) % (3 * LF_NS_PER_MS));
    while (lf_clock_ns() < until) continue;
    assert_int_equal(pthread_kill(ranks[victim].thread, SIGUSR1), 0);
    int64_t begin = lf_clock_ns();
    while (!others_have_ended(ranks, n, victim)) {
        if (lf_clock_ns() - begin > PATIENCE_MS * LF_NS_PER_MS) fail_msg("trial %d: a rank hangs", trial);
        lf_clock_sleep_ms(1);
    }
    assert_int_equal(atomic_load(&n_stopped), 1);
    atomic_store(&is_released, true);
    for (int i = 0; i < n; i++) {
        assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
        assert_int_equal(ranks[i].status, LF_DEVICE);
        char words[64];
        snprintf(words, sizeof(words), "waited %d ms for rank %d, in ", TIMEOUT_MS, victim);
        if (!strstr(ranks[i].err.message, words)) fail_msg("\"%s\" does not say \"%s\"", ranks[i].err.message, words);
        lf_comm_destroy(ranks[i].opts.comm);
    }
    lf_comm_group_destroy(group);
}

static void a_rank_that_stops_at_any_moment_ends_all_in_time(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = stand_still};
    struct config_text c = config_llama();
    struct temp_dir dir = temp_dir_make();
    config_set(&c, "num_attention_heads", "4");
    config_set(&c, "num_key_value_heads", "2");
    config_set(&c, "head_dim", "16");
    config_write(&c, &dir);
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    for (int trial = 0; trial < TRIALS; trial++) stop_one(&dir, trial);
    temp_dir_remove(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_stops_at_any_moment_ends_all_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
