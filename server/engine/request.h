/* A request: what was asked, and what has been generated for it so far.
 *
 * Born on an HTTP thread (lf_engine_submit), driven by the engine thread, read by the HTTP thread, freed when both have
 * let go. Inputs are immutable from submit on. Outputs grow only: tokens are appended to an array that was sized for
 * max_tokens at submit, and published by raising a count under the mailbox's lock, so a reader that has seen n may read
 * tokens 0..n-1 without a lock. The engine never waits for a reader, and a slow reader costs nothing: text is made from
 * ids when the socket takes it. */
#ifndef LF_SERVER_ENGINE_REQUEST_H
#define LF_SERVER_ENGINE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/metrics.h"
#include "core/pin.h"
#include "core/status.h"
#include "model/sampler.h"
#include "server/engine/speculation.h"

struct lf_engine;
struct lf_grammar;
struct lf_request;
struct lf_text_memory;
struct lf_vocabulary;

enum lf_finish { LF_FINISH_NONE, LF_FINISH_STOP, LF_FINISH_LENGTH, LF_FINISH_CANCELLED, LF_FINISH_ERROR };

/* The message of a request (LF_FINISH_ERROR, LF_CORRUPT) for which no token could be drawn. */
#define LF_BROKEN_LOGITS                                                                                               \
    "The model computed values that are no numbers (NaN or infinite): its weights are broken, or not made for this "   \
    "computation."

/* Those of a request whose grammar cannot be followed any further: its readings pass a bound (LF_LIMIT), there is no
 * memory for them (LF_NO_MEMORY), the vocabulary has not the bytes that must come (LF_UNSUPPORTED), or the device drew
 * what it must not (LF_INVALID). */
#define LF_GRAMMAR_TOO_WIDE                                                                                            \
    "The grammar of this answer allows too many different continuations at this place: it has wide patterns or many "  \
    "alternatives that begin alike."
#define LF_GRAMMAR_NO_MEMORY "There is no memory to follow the grammar of this answer at the moment."
#define LF_GRAMMAR_NO_TOKEN                                                                                            \
    "No token of this model can come next under the grammar of this answer: its vocabulary lacks a byte that must "    \
    "come."
/* Of a request with bad words that leave nothing to draw (LF_UNSUPPORTED). */
#define LF_BAD_WORDS_NO_TOKEN                                                                                          \
    "Nothing is left that may come next: each token that could is one that bad_words forbid here."

#define LF_GRAMMAR_NOT_FOLLOWED "A token was drawn that the grammar of this answer does not allow: a defect here."

/* What was done for a tenant that somebody wants to see by itself. */
struct lf_tenant_meter {
    struct lf_counter requests, rejected; /* taken in; refused for a limit of the tenant's own or of the queue */
    struct lf_counter prompt_tokens, cached_tokens, generation_tokens; /* cached_tokens: of the prompt's */
};

/* Limits of a tenant's own. */
struct lf_tenant_limits {
    int in_flight;                 /* requests; 0: as many as any tenant's (engine.h) */
    int64_t tokens_per_minute;     /* computed for it (quota.h); 0: any number */
    struct lf_tenant_meter *meter; /* borrowed until the request is put; NULL: nobody wants to see it */
};

/* What to generate. Plain data; pointers are borrowed during submit and copied. */
struct lf_gen_params {
    const int32_t *prompt; /* [n_prompt], ids < n_vocab, n_prompt >= 1 */
    int n_prompt;
    const int32_t *marks; /* [n_marks] how many of its tokens stand before the end of a part of it that other prompts
                           * may begin with too, a document: 1 to n_prompt, at most LF_ASK_DOCUMENTS_N of them */
    int n_marks;
    int max_tokens; /* >= 0; n_prompt + max_tokens <= ctx. 0: prefill only (echo) */
    int min_tokens; /* EOS and stop tokens cannot be drawn before so many tokens */
    bool ignore_eos;
    const int32_t *stop_token_ids; /* [n_stop_token_ids] beside the model's EOS ids */
    int n_stop_token_ids;
    const int32_t *allowed_ids; /* [n_allowed_ids] all that may be drawn; 0: any. Not together with a grammar */
    int n_allowed_ids;
    /* [n_bad_words] words that must not come: of each the number of its ids, at least 1, and these. Where the answer so
     * far ends in all of them but the last, that one may not be drawn. An answer for which this leaves nothing ends
     * as LF_FINISH_ERROR, LF_UNSUPPORTED. */
    const int32_t *bad_words;
    int n_bad_words;
    struct lf_sampling sampling;
    /* What the answer must be (grammar/grammar.h), NULL: anything. The request takes a reference of its own. It ends by
     * itself (LF_FINISH_STOP) when nothing can follow. vocabulary: of the model's tokens, borrowed until the last
     * reference to the request is gone. */
    struct lf_grammar *grammar;
    struct lf_vocabulary *vocabulary;
    /* Tokens that a step may be given beside the next one (speculation.h): LF_SPECULATION_OFF, _AUTO, or a number up to
     * LF_SPECULATION_N. Changes no answer. Nothing is proposed for models with states (device/delta.h). */
    int speculate;
    /* [n_prediction] what the answer is likely to be: proposed beside what stands in the prompt. At most ctx. */
    const int32_t *prediction;
    int n_prediction;
    int n_prompt_logprobs; /* -1: none; k: log-probabilities of the prompt's own tokens and the k most likely (echo) */
    int priority;          /* lower is sooner; 0 default */
    const void *salt;      /* tenant and cache_salt, for the prefix cache */
    int salt_bytes;
    uint64_t tenant; /* whose it is: a key, or an address. Tenants share queue, cache and device (scheduler.h);
                      * 0: nobody's in particular, with no limit of its own in the queue */
    struct lf_tenant_limits limits;
    int64_t deadline_ns;       /* lf_clock_ns() value after which it ends with what it has, as timed_out; 0: none */
    struct lf_request *leader; /* a choice (n > 1) waits until its leader's prompt is in the prefix cache; NULL: none */
    /* What a client asks for at once (n, several prompts) enters the queue as one. Room for all is asked for with the
     * first: n_group requests with group_tokens prompt tokens together; 0: it is alone. The others follow it in:
     * `first`, which the caller holds. Their places are theirs from then on, while the first one lasts. */
    int n_group;
    int64_t group_tokens;
    struct lf_request *first;
    /* The prompt's full blocks stay where this says, computed or brought there first, until the caller puts the
     * request: it ends as any other, with LF_FINISH_LENGTH, and goes on holding them. max_tokens is 0. spare: full
     * blocks of a prompt in each tier that the caller is about to let go of, which are not counted against what may be
     * pinned. */
    enum lf_pin pin;
    int64_t pin_spare[LF_PIN_N];
    /* Called on the engine thread after something was published; must return at once and not call back. */
    void (*notify)(void *ctx);
    void *notify_ctx;
    struct lf_text_memory *memory; /* where its copy lies; borrowed until the last reference is gone; NULL: the heap */
};

/* A consistent look at the outputs. Times are lf_clock_ns values, 0 where it has not happened. */
struct lf_request_state {
    int n_tokens;               /* published, 0..max_tokens. A stop token that ended the request is not among them */
    int n_prompt_logprobs;      /* published entries of lf_request_prompt_logprob */
    int n_proposed, n_accepted; /* tokens that were proposed, and of these what came (speculation.h) */
    int n_prompt, n_cached, n_restored, /* of those that are cached: from below the cache */
        n_processed;       /* prompt tokens: all, from the prefix cache, in the KV cache so far (cached included) */
    enum lf_finish finish; /* NONE while running; final afterwards */
    bool timed_out;        /* LF_FINISH_LENGTH because its deadline passed, running or still in the queue */
    int32_t stop_token;    /* the id that ended it, -1 if none */
    enum lf_status status; /* of LF_FINISH_ERROR */
    const char *message;   /* of LF_FINISH_ERROR, static text */
    int64_t submitted_ns, started_ns, first_token_ns, finished_ns;
    int64_t eta_ns; /* predicted duration of the rest of the prefill; > 0 until n_processed is n_prompt */
};

/* Any thread that holds a reference. */
void lf_request_snapshot(struct lf_request *req, struct lf_request_state *out);
/* Token i < n_tokens as seen by look. With logprobs where they were asked for. Borrowed until put. Read through the
 * pointer: only the first n_top entries of top_ids and top_logprobs are there, so a copy of the whole struct would
 * reach into the tokens behind it. */
const struct lf_sampled *lf_request_token(const struct lf_request *req, int i);
/* Prompt token i (1 <= i < n_prompt_logprobs as seen by look): its log-probability and rank given those before it. */
const struct lf_sampled *lf_request_prompt_logprob(const struct lf_request *req, int i);
/* Ends it as soon as the engine comes by: blocks are free one step later. Idempotent, any thread. */
void lf_request_cancel(struct lf_request *req);
/* Lets go of the caller's reference; cancels first if it is still running. notify is not called any more once this
 * has returned. */
void lf_request_put(struct lf_request *req);

#endif
