/* server/engine/scheduler.c: single decisions about a step. What it promises over time is in tests/sim/test_policy.c,
 * who may start in test_admission.c. */
#include "tests/unit/server/engine/sched_rig.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void an_empty_scheduler_plans_nothing(void **state)
{
    struct fixture *f = *state;
    lf_sched_plan_step(&f->sched, &f->step);
    assert_int_equal(f->step.n_items, 0);
    assert_null(lf_sched_admit(&f->sched, 1));
    assert_int_equal(lf_sched_retry_after_s(&f->sched, 1000), 1);
    assert_true(lf_sched_prefill_speed(&f->sched) == 0 && lf_sched_decode_speed(&f->sched) == 0);
}

/* More may run than a step has sequences: they take turns, and a prefill has its place among them. */
static void who_runs_beyond_max_seqs_takes_turns(void **state)
{
    struct fixture *f = *state;
    f->sched.opts.n_kept = 1;
    for (int i = 0; i < MAX_SEQS; i++) (void)submit_for(f, 1, 0, 1, 1);
    for (int i = 0; i < MAX_SEQS; i++) f->seqs[i].max_tokens = 60;
    while (lf_sched_admit(&f->sched, 1)) continue;
    step(f);
    struct lf_sched_seq *guest = submit_for(f, 2, 0, 3 * B, 2);
    guest->max_tokens = B;
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), guest);
    for (int i = 0; i < 20; i++) {
        bool prefill = lf_sched_in_prefill(guest);
        int n_done = guest->n_done;
        step(f);
        assert_int_equal(f->step.n_items, MAX_SEQS);
        if (prefill) assert_true(guest->n_done > n_done);
    }
    assert_true(guest->n_done > 3 * B);
    for (int i = 0; i < MAX_SEQS; i++) assert_in_range(f->seqs[i].n_done, 12, 20);
}

static void the_last_token_of_a_prompt_gets_logits_and_no_other(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *seq = submit(f, 100, 5, 1);
    (void)lf_sched_admit(&f->sched, 1);
    lf_sched_plan_step(&f->sched, &f->step);
    assert_int_equal(f->items[0].n_tokens, B); /* nothing is known yet: one block */
    assert_int_equal(f->step.n_out, 0);
    run(f, LF_NS_PER_MS);
    lf_sched_plan_step(&f->sched, &f->step);
    assert_int_equal(f->items[0].n_tokens, 36);
    assert_int_equal(f->items[0].out_first, 35);
    assert_int_equal(f->items[0].n_out, 1);
    run(f, LF_NS_PER_MS);
    assert_false(lf_sched_in_prefill(seq));
    lf_sched_plan_step(&f->sched, &f->step);
    assert_int_equal(f->step.n_prefill_tokens, 0);
    assert_int_equal(f->items[0].n_out, 1);
}

/* A step may be planned and launched on ids that the step before it has yet to sample. */
static void placeholder_tokens_go_on_to_the_next_step_and_are_filled_in_later(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *seq = submit(f, 10, 3, 1);
    (void)lf_sched_admit(&f->sched, 1);
    for (int k = 0; k < 3; k++) {
        lf_sched_plan_step(&f->sched, &f->step);
        assert_int_equal(f->step.n_items, 1);
        assert_int_equal(f->items[0].first, k == 0 ? 0 : 9 + k);
        assert_true(f->items[0].complete);
        lf_sched_launched(&f->sched, &f->step);
        assert_int_equal(seq->n_ids, 11 + k);
        assert_int_equal(seq->ids[10 + k], -1); /* logits row 0 of that step */
        if (k > 0) lf_sched_sampled(&f->sched, seq, 70 + k);
        assert_int_equal(seq->n_placeholders, LF_MIN(k + 1, 1));
    }
    assert_int_equal(seq->ids[10], 71);
    assert_int_equal(seq->ids[11], 72);
    lf_sched_plan_step(&f->sched, &f->step); /* the last id is a placeholder: nothing is left to compute */
    assert_int_equal(f->step.n_items, 0);
    lf_sched_sampled(&f->sched, seq, 73);
    assert_int_equal(seq->ids[12], 73);
    assert_int_equal(seq->n_placeholders, 0);
}

static void an_echo_gets_logits_of_every_token_it_needs(void **state)
{
    struct fixture *f = *state;
    f->seqs[0].all_logits = true;
    struct lf_sched_seq *seq = submit(f, 10, 0, 1);
    (void)lf_sched_admit(&f->sched, 1);
    int n_tokens = 0, n_out = 0;
    while (lf_sched_in_prefill(seq)) {
        lf_sched_plan_step(&f->sched, &f->step);
        assert_true(f->step.n_out <= MAX_SEQS && f->items[0].out_first == 0);
        n_tokens += f->step.n_tokens;
        n_out += f->step.n_out;
        run(f, LF_NS_PER_MS);
    }
    assert_int_equal(n_tokens, 10);
    assert_int_equal(n_out, 9); /* the last token's logits would say what follows, which nobody asked */
}

static void every_decode_gets_its_token_beside_a_prefill(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 3; i++) (void)submit(f, 10, 2 * B, i);
    while (lf_sched_admit(&f->sched, 3)) continue;
    for (int i = 0; i < 5; i++) step(f);
    (void)submit(f, 5 * B, 1, 4);
    assert_non_null(lf_sched_admit(&f->sched, 5));
    step(f);
    assert_int_equal(f->step.n_items, 4);
    assert_true(f->step.n_prefill_tokens >= B);
    assert_int_equal(f->step.n_tokens - f->step.n_prefill_tokens, 3);
}

static void decodes_that_do_not_fit_take_turns(void **state)
{
    struct fixture *f = *state;
    f->sched.opts.chunk = 3;
    for (int i = 0; i < 4; i++) (void)submit(f, 1, 60, i);
    while (lf_sched_admit(&f->sched, 3)) continue;
    for (int i = 0; i < 4 + 16; i++) step(f);
    int least = 100, most = 0;
    for (int i = 0; i < 4; i++) {
        least = LF_MIN(least, f->seqs[i].n_done);
        most = LF_MAX(most, f->seqs[i].n_done);
    }
    assert_true(least >= 10 && most - least <= 4);
}

/* Three that decode and a long prompt: steps of whole tiles, but for the prompt's last tokens. */
static void prefills_fill_tiles_of_tokens(void **state)
{
    struct fixture *f = *state;
    f->sched.opts.token_tile = 48;
    for (int i = 0; i < 3; i++) (void)submit(f, 1, 60, i);
    while (lf_sched_admit(&f->sched, 3)) continue;
    step(f);
    struct lf_sched_seq *prompt = submit(f, 780, 1, 4);
    assert_ptr_equal(lf_sched_admit(&f->sched, 5), prompt);
    int n_whole = 0;
    while (lf_sched_in_prefill(prompt)) {
        lf_sched_plan_step(&f->sched, &f->step);
        assert_int_equal(f->step.n_tokens - f->step.n_prefill_tokens, 3);
        bool ends = prompt->n_done + f->step.n_prefill_tokens == prompt->n_prompt;
        if (!ends && f->step.n_tokens >= 48) assert_int_equal(f->step.n_tokens % 48, 0);
        n_whole += f->step.n_tokens % 48 == 0;
        run(f, LF_NS_PER_MS);
    }
    assert_true(n_whole >= 3);
}

/* ---- how large a chunk is ---- */

/* The tokens of the next step's only item. */
static int next_chunk(struct fixture *f)
{
    lf_sched_plan_step(&f->sched, &f->step);
    assert_int_equal(f->step.n_items, 1);
    lf_sched_launched(&f->sched, &f->step);
    return f->items[0].n_tokens;
}

static void a_chunk_ends_with_a_block_or_with_sixteen_tokens(void **state)
{
    struct fixture *f = *state;
    (void)submit(f, 500, 0, 1);
    (void)lf_sched_admit(&f->sched, 1);
    set_cost(f, 0.99 * LF_NS_PER_MS, 1e-6); /* 50 tokens in the 50 ms of a step */
    assert_int_equal(next_chunk(f), 48);
    assert_int_equal(next_chunk(f), 16); /* to the end of the block, not to token 98 */
    assert_int_equal(next_chunk(f), 48);
    set_cost(f, 0.3 * LF_NS_PER_MS, 1e-6); /* 166 tokens: 112 + 166 = 278, of which 256 are whole blocks */
    assert_int_equal(next_chunk(f), 144);
    set_cost(f, 5 * LF_NS_PER_MS, 1e-6); /* 10 tokens: fewer than a step has at least */
    assert_int_equal(next_chunk(f), 16);
    set_cost(f, 0.2 * LF_NS_PER_MS, 1e-6); /* 250 tokens: all that is left */
    assert_int_equal(next_chunk(f), 500 - 272);
}

/* A chunk that begins between two multiples of sixteen and can afford nothing goes to the next of them. */
static void the_least_chunk_is_sixteen_tokens_or_the_rest(void **state)
{
    struct fixture *f = *state;
    (void)submit(f, 40, 0, 1);
    (void)lf_sched_admit(&f->sched, 1);
    set_cost(f, 100 * LF_NS_PER_MS, 1e-6); /* not one token is affordable */
    assert_int_equal(next_chunk(f), 16);
    assert_int_equal(next_chunk(f), 16);
    assert_int_equal(next_chunk(f), 8);
}

/* What a step costs by itself is part of its time, and is predicted for it. */
static void a_prefill_pays_for_its_step(void **state)
{
    struct fixture *f = *state;
    (void)submit(f, 500, 0, 1);
    (void)lf_sched_admit(&f->sched, 1);
    set_cost(f, 0.99 * LF_NS_PER_MS, 1e-6);
    f->sched.cost.w[LF_COST_STEP] = 10 * LF_NS_PER_MS; /* leaves 40 tokens of the 50 */
    assert_int_equal(next_chunk(f), 32);
    assert_true(fabs(f->step.predicted_ns - (10 + 32 * 0.99) * LF_NS_PER_MS) < 1);
}

/* Where tokens come in tiles: whole ones, but all that is left of a prompt; below a tile it is blocks and sixteens. */
static void a_chunk_ends_with_a_tile(void **state)
{
    struct fixture *f = *state;
    (void)submit(f, 40 + 34 + 96 + 50, 0, 1);
    (void)lf_sched_admit(&f->sched, 1);
    f->sched.opts.token_tile = 40;
    set_cost(f, 1.24 * LF_NS_PER_MS, 1e-6); /* 40 tokens: one tile */
    assert_int_equal(next_chunk(f), 40);
    f->sched.opts.token_tile = 2;
    set_cost(f, 1.42 * LF_NS_PER_MS, 1e-6); /* 35 tokens: to token 74 */
    assert_int_equal(next_chunk(f), 34);
    f->sched.opts.token_tile = 96;
    set_cost(f, 1.42 * LF_NS_PER_MS, 1e-6); /* less than a tile: to token 96 of 109 */
    assert_int_equal(next_chunk(f), 22);
    f->sched.opts.token_tile = 37;
    set_cost(f, 0.6 * LF_NS_PER_MS, 1e-6); /* 83 tokens: two tiles */
    assert_int_equal(next_chunk(f), 74);
    f->sched.opts.token_tile = 40;
    set_cost(f, 0.99 * LF_NS_PER_MS, 1e-6); /* 50 tokens, and 50 are left */
    assert_int_equal(next_chunk(f), 50);
}

/* The eldest prefill saves up a quarter of each step until that is worth sixteen tokens, without logits. */
static void the_eldest_prefill_has_a_quarter(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *eldest = submit(f, 500, 0, 1), *shortest = submit(f, 200, 0, 2);
    while (lf_sched_admit(&f->sched, 2)) continue;
    set_cost(f, LF_NS_PER_MS, 1e-6);
    f->sched.cost.w[LF_COST_LOGITS] = 40 * LF_NS_PER_MS;
    lf_sched_plan_step(&f->sched, &f->step); /* 12.5 ms saved, 16 needed */
    assert_int_equal(f->step.n_items, 1);
    assert_ptr_equal(f->items[0].seq, shortest);
    assert_int_equal(f->items[0].n_tokens, 48);
    lf_sched_launched(&f->sched, &f->step);
    lf_sched_plan_step(&f->sched, &f->step); /* 25 */
    assert_int_equal(f->step.n_items, 2);
    assert_ptr_equal(f->items[0].seq, eldest);
    assert_int_equal(f->items[0].n_tokens, 16);
    assert_ptr_equal(f->items[1].seq, shortest);
    assert_int_equal(f->items[1].n_tokens, 16);
    assert_true(fabs(eldest->tenant->eldest_credit_ns - 9 * LF_NS_PER_MS) < 1);
}

/* It gets sixteen tokens for it even where fewer would end with a multiple of that. */
static void the_eldests_chunk_is_no_smaller_than_what_was_saved_for(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_seq *eldest = submit(f, 500, 0, 1);
    (void)submit(f, 200, 0, 2);
    while (lf_sched_admit(&f->sched, 2)) continue;
    set_cost(f, LF_NS_PER_MS, 1e-6);
    eldest->n_done = 8;
    f->sched.opts.step_ns = f->sched.opts.alone_ns = 36 * LF_NS_PER_MS; /* 9 ms saved, then 18: to token 16 of 26 */
    for (int i = 0; i < 2; i++) {
        lf_sched_plan_step(&f->sched, &f->step);
        if (i == 0) lf_sched_launched(&f->sched, &f->step);
    }
    assert_ptr_equal(f->items[0].seq, eldest);
    assert_int_equal(f->items[0].n_tokens, 16);
    eldest->n_done = 0;
}

/* ---- whose prefill is next ---- */

static void run_for(struct fixture *f, uint64_t tenant, int n_prompt)
{
    (void)submit_for(f, tenant, 0, n_prompt, 1);
    assert_non_null(lf_sched_admit(&f->sched, 1));
}

static void the_tenant_that_was_served_least_is_next(void **state)
{
    struct fixture *f = *state;
    run_for(f, 1, 250);
    run_for(f, 2, 250);
    run_for(f, 2, 250);
    set_cost(f, LF_NS_PER_MS, 1e-6);
    f->seqs[0].tenant->served_ns = 1000;
    lf_sched_plan_step(&f->sched, &f->step);
    assert_ptr_equal(f->items[0].seq, &f->seqs[1]);
    assert_int_equal(f->items[0].n_tokens, 48);
    assert_true(fabs(f->seqs[1].tenant->served_ns - 48 * LF_NS_PER_MS) < 1);
    assert_true(f->seqs[0].tenant->served_ns == 1000);
    lf_sched_launched(&f->sched, &f->step);
    f->seqs[0].tenant->served_ns = f->seqs[1].tenant->served_ns;
    lf_sched_plan_step(&f->sched, &f->step); /* of two that are level the one whose sequence came first */
    assert_ptr_equal(f->items[0].seq, &f->seqs[0]);
}

/* Accounts of those whose prefills go on stand as they are; one that begins anew is at most so far behind. */
static void only_a_tenant_that_begins_is_brought_level(void **state)
{
    struct fixture *f = *state;
    run_for(f, 1, 250);
    run_for(f, 2, 250);
    step(f);
    struct lf_sched_tenant *t = f->seqs[0].tenant;
    t->served_ns = 5e9;
    lf_sched_plan_step(&f->sched, &f->step);
    assert_true(t->served_ns >= 5e9);
    lf_sched_end(&f->sched, &f->seqs[0]);
    lf_sched_plan_step(&f->sched, &f->step); /* without it */
    run_for(f, 1, 250);
    double most_ns = f->sched.served_level_ns + (double)LF_SCHED_DEBT_NS;
    lf_sched_plan_step(&f->sched, &f->step);
    assert_true(t->served_ns <= most_ns + 50 * LF_NS_PER_MS);
}

/* A pause saves nothing up: the account of one that comes is not below those of the others but for a few steps. */
static void who_comes_late_is_a_few_steps_ahead_and_no_more(void **state)
{
    struct fixture *f = *state;
    run_for(f, 1, 250);
    set_cost(f, LF_NS_PER_MS, 1e-6);
    f->seqs[0].tenant->served_ns = 5e9;
    lf_sched_plan_step(&f->sched, &f->step);
    lf_sched_launched(&f->sched, &f->step);
    run_for(f, 2, 250);
    lf_sched_plan_step(&f->sched, &f->step);
    assert_ptr_equal(f->items[0].seq, &f->seqs[1]);
    assert_in_range((uint64_t)f->seqs[1].tenant->served_ns, UINT64_C(4500000000), UINT64_C(5000000000));
}

/* Two tenants decode, one much more; the other one's prefill gets what the first one's decodes took more than its own,
 * and what rounding to whole blocks may cost. */
static void who_decodes_less_gets_the_rest_for_its_prefill(void **state)
{
    struct fixture *f = *state;
    const int n_prompts[] = {11, 12, 3};
    f->sched.opts.step_ns = 4 * LF_NS_PER_MS;
    for (int i = 0; i < 3; i++) {
        f->seqs[i].tenant_id = i < 2 ? 1 : 2;
        (void)submit(f, n_prompts[i], 20, 1);
    }
    while (lf_sched_admit(&f->sched, 1)) continue;
    for (int i = 0; i < 10 && f->seqs[0].n_done + f->seqs[1].n_done + f->seqs[2].n_done < 26; i++) {
        lf_sched_plan_step(&f->sched, &f->step);
        run(f, LF_NS_PER_MS);
    }
    struct lf_sched_seq *prompt = submit_for(f, 2, 0, 500, 2);
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), prompt);
    for (int i = 0; i < 3; i++) assert_int_equal(f->seqs[i].n_done, n_prompts[i]);
    set_cost(f, LF_NS_PER_MS, LF_NS_PER_MS); /* decodes of 13 + 14 and of 5 ms */
    double *w = f->sched.cost.w;
    w[LF_COST_STEP] = w[LF_COST_LOGITS] = w[LF_COST_PREFILL_KEY] = 0;   /* so that sums are exact */
    f->sched.opts.step_ns = f->sched.opts.alone_ns = 54 * LF_NS_PER_MS; /* 32 - 2 * 5 ms are due, and just left */
    lf_sched_plan_step(&f->sched, &f->step);
    assert_int_equal(f->items[3].n_tokens, 16);
    f->sched.opts.step_ns = 4 * LF_NS_PER_MS; /* now they are more than is left: half a block is added, 54 tokens */
    lf_sched_plan_step(&f->sched, &f->step);
    assert_int_equal(f->step.n_items, 4);
    assert_ptr_equal(f->items[3].seq, prompt);
    assert_int_equal(f->items[3].n_tokens, 48);
}

/* Beside decodes a prefill has what they leave of a step; alone it has longer ones for itself. */
static void a_prefills_time_is_predicted_with_what_runs_beside_it(void **state)
{
    struct fixture *f = *state;
    f->seqs[0].tenant_id = 2; /* another's, so that prefills of it would count too, if there were any */
    struct lf_sched_seq *decodes = submit(f, 10, 20, 1);
    (void)lf_sched_admit(&f->sched, 1);
    while (lf_sched_in_prefill(decodes)) step(f);
    struct lf_sched_seq *seq = submit(f, 250, 0, 2);
    assert_ptr_equal(lf_sched_admit(&f->sched, 2), seq);
    set_cost(f, LF_NS_PER_MS, 1e-6);
    f->sched.opts.alone_ns = 200 * LF_NS_PER_MS;
    assert_int_equal(lf_sched_eta_ns(&f->sched, seq), 255102041); /* 250e6 * 50 / 49: a token is the other's */
    f->sched.cost.w[LF_COST_STEP] = 45e6;                         /* a quarter at least */
    assert_true(fabs((double)lf_sched_eta_ns(&f->sched, seq) - 250e6 * 4) < 1000);
    f->sched.cost.w[LF_COST_STEP] = 99e6; /* steps of decodes that take longer than they should */
    assert_true(fabs((double)lf_sched_eta_ns(&f->sched, seq) - 250e6 * 100 / 12.5) < 1000);
    f->sched.cost.w[LF_COST_STEP] = 1e-6;
    lf_sched_end(&f->sched, decodes);
    assert_int_equal(lf_sched_eta_ns(&f->sched, seq), 250000001); /* and keys of a millionth of a ns each */
    seq->n_done = 250;
    assert_int_equal(lf_sched_eta_ns(&f->sched, seq), 0);
    seq->n_done = 0;
}

static void retry_after_follows_backlog_and_speed(void **state)
{
    struct fixture *f = *state;
    (void)submit(f, 600, 0, 1);
    (void)lf_sched_admit(&f->sched, 1);
    assert_true(lf_sched_eta_ns(&f->sched, &f->seqs[0]) > 0); /* nothing measured: of an assumed machine */
    lf_sched_plan_step(&f->sched, &f->step);
    run(f, LF_NS_PER_S); /* 64 tokens a second */
    assert_int_equal((int)lf_sched_prefill_speed(&f->sched), 64);
    assert_int_equal(lf_sched_retry_after_s(&f->sched, 0), 9); /* 536 left */
    assert_int_equal(lf_sched_retry_after_s(&f->sched, 640), 19);
    assert_int_equal(lf_sched_retry_after_s(&f->sched, 1000000), 60);
    assert_true(lf_sched_eta_ns(&f->sched, &f->seqs[0]) > 5 * (int64_t)LF_NS_PER_S);
}

/* However short it was. */
static void speeds_are_known_after_one_step(void **state)
{
    struct fixture *f = *state;
    (void)submit(f, 65, 2, 1);
    (void)lf_sched_admit(&f->sched, 1);
    lf_sched_plan_step(&f->sched, &f->step);
    run(f, 1);
    assert_true(lf_sched_prefill_speed(&f->sched) == 64e9 && lf_sched_decode_speed(&f->sched) == 0);
    lf_sched_plan_step(&f->sched, &f->step);
    run(f, 1);
    lf_sched_plan_step(&f->sched, &f->step); /* a decode */
    run(f, 1);
    assert_true(lf_sched_decode_speed(&f->sched) == 1e9);
}

/* Whether lf_sched_check ends the process. */
static bool check_fails(const struct fixture *f)
{
    int32_t refs[N_BLOCKS];
    int how = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(SIGABRT, SIG_DFL);
        (void)close(STDERR_FILENO); /* what it says is no part of the test's output */
        lf_sched_check(&f->sched, NULL, refs);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT;
}

/* What the simulator asks after every step looks at the tenants' accounts too. */
static void a_check_sees_a_tenant_that_cannot_be(void **state)
{
    struct fixture *f = *state;
    struct lf_sched_tenant *t = submit(f, 1, 1, 1)->tenant;
    assert_false(check_fails(f));
    t->admitted_ns = -1;
    assert_true(check_fails(f));
    t->admitted_ns = 0;
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(an_empty_scheduler_plans_nothing),
        CASE(who_runs_beyond_max_seqs_takes_turns),
        CASE(the_last_token_of_a_prompt_gets_logits_and_no_other),
        CASE(placeholder_tokens_go_on_to_the_next_step_and_are_filled_in_later),
        CASE(an_echo_gets_logits_of_every_token_it_needs),
        CASE(every_decode_gets_its_token_beside_a_prefill),
        CASE(decodes_that_do_not_fit_take_turns),
        CASE(prefills_fill_tiles_of_tokens),
        CASE(a_chunk_ends_with_a_block_or_with_sixteen_tokens),
        CASE(a_prefill_pays_for_its_step),
        CASE(the_least_chunk_is_sixteen_tokens_or_the_rest),
        CASE(a_chunk_ends_with_a_tile),
        CASE(the_eldest_prefill_has_a_quarter),
        CASE(the_eldests_chunk_is_no_smaller_than_what_was_saved_for),
        CASE(the_tenant_that_was_served_least_is_next),
        CASE(only_a_tenant_that_begins_is_brought_level),
        CASE(who_comes_late_is_a_few_steps_ahead_and_no_more),
        CASE(who_decodes_less_gets_the_rest_for_its_prefill),
        CASE(a_prefills_time_is_predicted_with_what_runs_beside_it),
        CASE(retry_after_follows_backlog_and_speed),
        CASE(speeds_are_known_after_one_step),
        CASE(a_check_sees_a_tenant_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
