/* A double of the engine for the tests of server/http: it implements server/engine/engine.h without a model.
 *
 * Answers are scripted by the prompt itself. Directives stand anywhere in its text as [[name=value]]:
 *   say=TEXT       what is answered, then end of text; without it a text that never ends; the last one counts
 *   controls=1     control tokens in that text are tokens, not their text
 *   free=1         what is answered is not held to a grammar
 *   prefill_ms=N   how long the prefill takes (default 0), step_ms=N between two tokens (default 0)
 *   burst=N        so many tokens at once (default 1, and about a millisecond lies between two)
 *   fail_at=N      the device fails this request at token N; timeout_at=N its deadline passes there
 *   die_at=N       the engine is dead from then on
 * Log-probabilities, the prefix cache, queues and blocks behave as the contract says, in miniature.
 *
 * Under a grammar an answer that was given must be one of the grammar's: at the first token that is not allowed, and
 * at an end where it is not complete, the request fails. The text that never ends becomes one of the grammar's tokens
 * after the other, until nothing can follow. */
#ifndef TESTS_SUPPORT_SCRIPTED_ENGINE_H
#define TESTS_SUPPORT_SCRIPTED_ENGINE_H

#include "server/engine/engine.h"
#include "tests/support/answer_script.h"

struct lf_tokenizer;

enum { SCRIPTED_ENDS_N = 4 };

struct scripted_engine_opts {
    int ctx, n_blocks, max_seqs, queue_n, per_tenant_n;
    const struct lf_tokenizer *tokenizer; /* of prompts and answers; NULL: nothing will be asked */
    int32_t ends[SCRIPTED_ENDS_N];        /* [n_ends], at least one: the tokens that end a text */
    int n_ends;
    const struct answer_script *answers; /* asked before the directives, its texts with control tokens; may be NULL */
};
struct lf_engine *scripted_engine_create(const struct scripted_engine_opts *opts);
/* Requests that somebody still holds. */
int scripted_engine_n_requests(struct lf_engine *engine);

#endif
