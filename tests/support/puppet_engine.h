/* An engine without a thread and without a clock: what a request has generated is what the test says, when it says it.
 * For tests of server/http/api/{generation,stream,whole}.c, with the tokenizer's double: a text is its bytes as ids. */
#ifndef TESTS_SUPPORT_PUPPET_ENGINE_H
#define TESTS_SUPPORT_PUPPET_ENGINE_H

#include "server/engine/engine.h"
#include "server/http/api/generation.h"

enum { PUPPET_REQUESTS_N = 72, PUPPET_TOKENS_N = 256, PUPPET_ECHO_N = 4096 };

struct lf_request {
    struct lf_gen_params params;
    struct lf_request_state state;
    struct lf_sampled tokens[PUPPET_TOKENS_N];
    uint8_t salt[LF_SHA256_BYTES + LF_CACHE_SALT_BYTES]; /* as it was submitted */
    bool cancelled, put;
};

struct lf_engine {
    int ctx, n_blocks;
    enum lf_status refusal; /* of submissions from the refuse_from-th on */
    int refuse_from, retry_after_s, n_requests;
    struct lf_request requests[PUPPET_REQUESTS_N]; /* in the order in which they came */
};

/* A context of 4,096, blocks for more, and nothing is refused. */
void puppet_reset(struct lf_engine *e);
/* The request generates these bytes, or this id. */
void puppet_say(struct lf_request *r, const char *text);
void puppet_say_id(struct lf_request *r, int32_t id);
void puppet_end(struct lf_request *r, enum lf_finish why, enum lf_status status);
/* Requests that somebody still holds. */
int puppet_n_held(const struct lf_engine *e);

/* A generation of n answers to each of the prompts (their bytes are their ids), and what it is asked for. */
struct puppet_ask {
    struct lf_ask ask;
    struct lf_prompts prompts;
    struct lf_tenant tenant;
    struct lf_generation_params params;
};
void puppet_ask_init(struct puppet_ask *a, struct lf_engine *e, const struct lf_dialect *dialect, int n,
                     const char *const *prompts, int n_prompts);

#endif
