/* Steps of a model on a GPU that are sampled later, under masks: what is drawn is what the host draws from the same
 * logits under the same masks, in a step of its own and in one that was launched before the one before it was read.
 *
 *     test_masks [MODEL_DIR]   (demo/model)
 *
 * Exit status 77 where there is no GPU. */
#include <stdio.h>
#include <stdlib.h>

#include "core/check.h"
#include "core/mix.h"
#include "model/sampler.h"
#include "tests/support/model_rig.h"
#include "tests/support/test.h"

enum { N_SEQS = 5, N_PROMPT = 100, BLOCKS_N = 4, ROUNDS_N = 40 };

static const char *model_dir;

struct fixture {
    struct model_rig rig;
    int32_t blocks[N_SEQS][BLOCKS_N];
    int n_tokens[N_SEQS]; /* in the cache */
    int32_t next[N_SEQS]; /* the token behind them */
    struct lf_sampling sampling[N_SEQS];
    uint32_t *masks; /* [N_SEQS + 1, words]: not all that are used lie side by side */
    float *logits;   /* [N_SEQS, n_vocab] */
    void *scratch;
    uint64_t n_draws;
};

static uint64_t draw(struct fixture *f)
{
    return lf_random64(3, f->n_draws++);
}

static void open_fixture(struct fixture *f)
{
    const struct model_rig_opts opts = {.dir = model_dir,
                                        .device = "cuda",
                                        .max_isa = -1,
                                        .ctx = BLOCKS_N * LF_KV_BLOCK_TOKENS,
                                        .chunk = N_PROMPT,
                                        .max_seqs = N_SEQS,
                                        .max_out = N_SEQS,
                                        .kv_tokens = N_SEQS * BLOCKS_N * LF_KV_BLOCK_TOKENS};
    struct lf_err err = {LF_OK, ""};
    *f = (struct fixture){.n_draws = 0};
    enum lf_status status = model_rig_open(&f->rig, &opts, &err);
    if (status == LF_NOT_FOUND || status == LF_UNSUPPORTED) {
        printf("%s\n", err.message);
        exit(77);
    }
    if (status != LF_OK) fail_msg("%s", err.message);
    int n_vocab = f->rig.hp.n_vocab;
    f->masks = calloc((size_t)(N_SEQS + 1) * (size_t)lf_batch_mask_words(n_vocab), sizeof *f->masks);
    f->logits = calloc((size_t)N_SEQS * (size_t)n_vocab, sizeof *f->logits);
    f->scratch = malloc(lf_sampler_scratch_bytes(n_vocab));
    LF_ASSERT(f->masks && f->logits && f->scratch);
    for (int s = 0; s < N_SEQS; s++) {
        int32_t prompt[N_PROMPT];
        for (int i = 0; i < N_PROMPT; i++) prompt[i] = (int32_t)(draw(f) % (uint64_t)n_vocab);
        for (int i = 0; i < BLOCKS_N; i++) f->blocks[s][i] = s * BLOCKS_N + i;
        f->n_tokens[s] = N_PROMPT - 1 - s;
        f->next[s] = prompt[N_PROMPT - 1 - s];
        f->sampling[s] = (struct lf_sampling){.temperature = s % 2 == 0 ? 0.0f : 0.8f,
                                              .top_p = 0.95f,
                                              .repetition_penalty = 1,
                                              .seed = draw(f),
                                              .n_logprobs = s == 1 ? 5 : -1};
        model_rig_run(&f->rig, f->blocks[s], prompt, f->n_tokens[s], 0, N_PROMPT, false, f->logits);
    }
}

static void close_fixture(struct fixture *f)
{
    free(f->scratch);
    free(f->logits);
    free(f->masks);
    model_rig_close(&f->rig);
}

static uint32_t *mask_of(const struct fixture *f, int s)
{
    return f->masks + (size_t)(s + (s > 2)) * (size_t)lf_batch_mask_words(f->rig.hp.n_vocab);
}

/* A few tokens of the vocabulary; the sequence in the middle has no mask. */
static void make_masks(struct fixture *f)
{
    int n_vocab = f->rig.hp.n_vocab;
    for (int s = 0; s < N_SEQS; s++) {
        memset(mask_of(f, s), 0, (size_t)lf_batch_mask_words(n_vocab) * sizeof(uint32_t));
        for (int i = 0; i < 1 + s * 50; i++) {
            int id = (int)(draw(f) % (uint64_t)n_vocab);
            mask_of(f, s)[id / 32] |= 1u << id % 32;
        }
    }
}

struct step {
    struct lf_kv_seq seqs[N_SEQS];
    struct lf_batch_out outs[N_SEQS];
    int32_t ids[N_SEQS], logits_idx[N_SEQS];
    struct lf_batch batch;
};

/* A token of each sequence. placeholders: it is what the step before draws. */
static void make_step(struct fixture *f, struct step *step, bool placeholders)
{
    for (int s = 0; s < N_SEQS; s++) {
        step->seqs[s] = (struct lf_kv_seq){
            .blocks = f->blocks[s], .first_token = s, .n_tokens = 1, .kv_len = f->n_tokens[s] + 1, .is_decode = true};
        step->ids[s] = placeholders ? -1 - s : f->next[s];
        step->logits_idx[s] = s;
        step->outs[s] = (struct lf_batch_out){
            .sampling = &f->sampling[s], .position = (uint64_t)f->n_tokens[s] + 1, .slot = s, .n_output = 1};
    }
    step->batch = (struct lf_batch){.ids = step->ids,
                                    .n_tokens = N_SEQS,
                                    .seqs = step->seqs,
                                    .n_seqs = N_SEQS,
                                    .logits_idx = step->logits_idx,
                                    .outs = step->outs,
                                    .n_out = N_SEQS,
                                    .samples_later = true};
}

static void sample(struct fixture *f, struct step *step)
{
    for (int s = 0; s < N_SEQS; s++) step->outs[s].mask = s == 2 ? NULL : mask_of(f, s);
    assert_int_equal(lf_model_sample(f->rig.model, &step->batch, NULL), LF_OK);
}

/* What the host draws from the logits of a step whose ids are known; goes on behind it. */
static void check_and_go_on(struct fixture *f, const struct lf_sampled *got)
{
    struct step step;
    int n_vocab = f->rig.hp.n_vocab;
    make_step(f, &step, false);
    assert_int_equal(lf_model_step(f->rig.model, &f->rig.kv, &step.batch, f->logits, NULL), LF_OK);
    for (int s = 0; s < N_SEQS; s++) {
        struct lf_sampled want;
        struct lf_sample_input in = {.logits = f->logits + (size_t)s * (size_t)n_vocab,
                                     .n_vocab = n_vocab,
                                     .mask = s == 2 ? NULL : mask_of(f, s),
                                     .position = step.outs[s].position};
        lf_sample(&want, &f->sampling[s], &in, f->scratch);
        assert_int_equal(got[s].id, want.id);
        if (s != 2) assert_true(mask_of(f, s)[want.id / 32] >> want.id % 32 & 1);
        if (s == 1) assert_int_equal(got[s].n_top, want.n_top);
        f->n_tokens[s]++;
        f->next[s] = want.id;
    }
}

static void a_step_is_sampled_under_its_masks(void **state)
{
    (void)state;
    struct fixture f;
    struct step step;
    struct lf_sampled got[N_SEQS];
    open_fixture(&f);
    for (int round = 0; round < ROUNDS_N; round++) {
        make_masks(&f);
        make_step(&f, &step, false);
        assert_int_equal(lf_model_launch(f.rig.model, &f.rig.kv, &step.batch, NULL), LF_OK);
        sample(&f, &step);
        assert_int_equal(lf_model_wait(f.rig.model, got, NULL), LF_OK);
        check_and_go_on(&f, got);
    }
    close_fixture(&f);
}

/* As the engine does it: the second step's forward pass, then the first one's results, then the second one's masks. */
static void a_step_is_sampled_when_the_one_before_it_was_read(void **state)
{
    (void)state;
    struct fixture f;
    struct step first, second;
    struct lf_sampled got[N_SEQS], then[N_SEQS];
    open_fixture(&f);
    assert_int_equal(lf_model_n_async_steps(f.rig.model), 1);
    for (int round = 0; round < ROUNDS_N; round++) {
        make_masks(&f);
        make_step(&f, &first, false);
        assert_int_equal(lf_model_launch(f.rig.model, &f.rig.kv, &first.batch, NULL), LF_OK);
        sample(&f, &first);
        for (int s = 0; s < N_SEQS; s++) f.n_tokens[s]++;
        make_step(&f, &second, true);
        assert_int_equal(lf_model_launch(f.rig.model, &f.rig.kv, &second.batch, NULL), LF_OK);
        for (int s = 0; s < N_SEQS; s++) f.n_tokens[s]--;
        assert_int_equal(lf_model_wait(f.rig.model, got, NULL), LF_OK);
        uint32_t *kept = f.masks;
        size_t bytes = (size_t)(N_SEQS + 1) * (size_t)lf_batch_mask_words(f.rig.hp.n_vocab) * sizeof *kept;
        f.masks = malloc(bytes);
        LF_ASSERT(f.masks);
        make_masks(&f);
        sample(&f, &second);
        uint32_t *later = f.masks;
        f.masks = kept;
        assert_int_equal(lf_model_wait(f.rig.model, then, NULL), LF_OK);
        check_and_go_on(&f, got);
        memcpy(kept, later, bytes);
        free(later);
        check_and_go_on(&f, then);
    }
    close_fixture(&f);
}

int main(int argc, char **argv)
{
    model_dir = argc > 1 ? argv[1] : "demo/model";
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_step_is_sampled_under_its_masks),
                                       cmocka_unit_test(a_step_is_sampled_when_the_one_before_it_was_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
