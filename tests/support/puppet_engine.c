#include "tests/support/puppet_engine.h"

#include <stdlib.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/text_memory.h"
#include "tests/support/fake_tokenizer.h"
#include "tests/support/no_pins.h"

static struct lf_sampled echo[PUPPET_ECHO_N]; /* of any prompt: token i has the logprob -i */

void puppet_reset(struct lf_engine *e)
{
    memset(e, 0, sizeof *e); /* too large for a stack */
    e->ctx = 4096;
    e->n_blocks = 100;
    e->refuse_from = PUPPET_REQUESTS_N;
    e->retry_after_s = 7;
}

void puppet_say_id(struct lf_request *r, int32_t id)
{
    LF_ASSERT(r->state.n_tokens < PUPPET_TOKENS_N);
    r->tokens[r->state.n_tokens++] = (struct lf_sampled){.id = id, .logprob = -0.5f};
}

void puppet_say(struct lf_request *r, const char *text)
{
    for (; *text; text++) puppet_say_id(r, (unsigned char)*text);
}

void puppet_end(struct lf_request *r, enum lf_finish why, enum lf_status status)
{
    r->state.finish = why;
    r->state.status = status;
}

int puppet_n_held(const struct lf_engine *e)
{
    int n = 0;
    for (int i = 0; i < e->n_requests; i++) n += !e->requests[i].put;
    return n;
}

void puppet_ask_init(struct puppet_ask *a, struct lf_engine *e, const struct lf_dialect *dialect, int n,
                     const char *const *prompts, int n_prompts)
{
    struct lf_ask_limits limits = {0};
    *a = (struct puppet_ask){.prompts = {.n = n_prompts}};
    lf_ask_init(&a->ask, &limits);
    a->ask.n = n;
    a->prompts.items = lf_text_alloc_zeroed(NULL, (size_t)n_prompts * sizeof *a->prompts.items);
    LF_ASSERT(a->prompts.items);
    for (int i = 0; i < n_prompts; i++) {
        struct lf_prompt *p = &a->prompts.items[i];
        p->text = lf_str_c(prompts[i]);
        p->is_text = true;
        for (size_t k = 0; k < p->text.len; k++)
            LF_ASSERT(lf_ids_push(&p->ids, (unsigned char)p->text.ptr[k]) == LF_OK);
    }
    a->params = (struct lf_generation_params){.dialect = dialect,
                                              .tok = fake_tokenizer(),
                                              .engine = e,
                                              .id = "abc",
                                              .model = "m",
                                              .tenant = &a->tenant,
                                              .seed = 1000,
                                              .default_max_tokens = 50};
}

/* ---- engine.h ---- */

int lf_engine_n_kept(struct lf_engine *e, const struct lf_gen_params *params)
{
    (void)e;
    (void)params;
    return 0;
}

void lf_engine_snapshot(struct lf_engine *e, struct lf_engine_state *out)
{
    *out = (struct lf_engine_state){.alive = true,
                                    .ctx = e->ctx,
                                    .block_tokens = LF_KV_BLOCK_TOKENS,
                                    .n_blocks = e->n_blocks,
                                    .most_tokens = LF_MIN(e->ctx, (int64_t)e->n_blocks * LF_KV_BLOCK_TOKENS)};
}

enum lf_status lf_engine_submit(struct lf_engine *e, const struct lf_gen_params *params, struct lf_request **out,
                                int *retry_after_s, struct lf_err *err)
{
    *retry_after_s = e->retry_after_s;
    if (e->n_requests >= e->refuse_from) return lf_fail(err, e->refusal, "the puppet says no");
    LF_ASSERT(e->n_requests < PUPPET_REQUESTS_N && params->n_prompt < PUPPET_ECHO_N);
    struct lf_request *r = &e->requests[e->n_requests++];
    *r = (struct lf_request){.params = *params, .state = {.n_prompt = params->n_prompt, .stop_token = -1}};
    LF_ASSERT(params->salt_bytes >= 0 && (size_t)params->salt_bytes <= sizeof r->salt);
    memcpy(r->salt, params->salt, (size_t)params->salt_bytes);
    for (int i = 0; i < params->n_prompt; i++)
        echo[i] = (struct lf_sampled){.id = params->prompt[i], .logprob = -(float)i};
    *out = r;
    return LF_OK;
}

void lf_request_snapshot(struct lf_request *r, struct lf_request_state *out)
{
    *out = r->state;
}

const struct lf_sampled *lf_request_token(const struct lf_request *r, int i)
{
    LF_ASSERT(i >= 0 && i < r->state.n_tokens);
    return &r->tokens[i];
}

const struct lf_sampled *lf_request_prompt_logprob(const struct lf_request *r, int i)
{
    LF_ASSERT(i >= 1 && i < r->state.n_prompt_logprobs);
    return &echo[i];
}

void lf_request_cancel(struct lf_request *r)
{
    r->cancelled = true;
}

void lf_request_put(struct lf_request *r)
{
    LF_ASSERT(!r->put && (!r->params.leader || !r->params.leader->put)); /* followers go first */
    r->put = true;
}
