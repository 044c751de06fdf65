/* Speculation from the prompt: what a sequence is likely to say next, because it stands in its prompt or its answer
 * already. Answers about a document quote it; a step that is given the tokens of the quotation as well costs little
 * more than one token, and where they were right it has brought several.
 *
 * It changes no answer. Each row of logits is drawn from at its own position, with the random numbers of that position
 * and the tokens before it, as it would be in a step of its own; as long as what is drawn is what was proposed, the
 * next row was computed from the right tokens, and its draw counts too. What a step has written to the KV cache behind
 * that is written again later. So an answer's bytes are the same with and without, sampled ones under their seeds too,
 * where a token's bits do not depend on what stands beside it in a step (ARCHITECTURE.md).
 *
 * A prediction, text that the client expects to come back (a file that is to be edited), is text like the prompt's, and
 * the index has it in front of the sequence. In front of it again are the prompt's last tokens: so its beginning is
 * found where the answer begins.
 *
 * How many are proposed. A proposal of k tokens brings p + p² + … + p^k more in expectation, p being how often lately a
 * proposed token was what came, and costs k · price. price is what a token more costs beside what the step's cost is
 * for each token that it brings anyway, so both count in the same money, alone or beside others: the j-th is proposed
 * while p^j > price. With nothing known p is GUESS (speculation.c); what was seen is forgotten a little with every
 * token, so that a sequence for which it did not pay asks again now and then, with one token.
 *
 * What proposing costs whatever is proposed. Where a step is launched before the one before it has been read, what is
 * proposed has to wait for that one's ids, and the next step for what becomes of it: so often a device idles. Such a
 * wait is the step's, so it is weighed against what all of its sequences gain by it (lf_speculation_gain), before it is
 * waited, by the ids that are known until then: a place that was found goes on for some tokens, mostly.
 *
 * Under a grammar a proposal ends before the first token that may not come (lf_sched_opts.n_allowed); one of which none
 * may counts as wrong, so that no wait is made for what is refused every time.
 *
 * Pure; no clock, no allocation. One thread at a time. */
#ifndef LF_SERVER_ENGINE_SPECULATION_H
#define LF_SERVER_ENGINE_SPECULATION_H

#include <stdbool.h>

#include "server/engine/gram_index.h"

enum {
    LF_SPECULATION_OFF = 0,
    LF_SPECULATION_AUTO = -1, /* as many as pay, at most LF_SPECULATION_N */
    LF_SPECULATION_N = 16     /* tokens of a proposal */
};

struct lf_speculation {
    struct lf_gram_index grams;
    int n_before;            /* tokens of the index that stand in front of the sequence */
    int n_most;              /* LF_SPECULATION_AUTO, or always as many as this where there is a place */
    double n_right, n_wrong; /* decayed: proposed tokens that came, and that did not */
    int n_declined;          /* places found of late of which nothing seemed to pay */
    bool is_found;           /* lf_speculation_gain found a place when it was asked last */
};

/* The sequence begins behind the index's first n_before tokens. */
void lf_speculation_init(struct lf_speculation *s, const struct lf_gram_index *grams, int n_before, int n_most);
/* Tokens that what would be proposed behind the first n_ids is expected to bring, less what its own cost is worth: 0
 * where nothing is proposed, HUGE_VAL where it is to be whatever it costs: to ask, or a number that was asked for where
 * nobody runs beside it. */
double lf_speculation_gain(struct lf_speculation *s, const int32_t *ids, int n_ids, int n_room, double price,
                           bool beside_others);
/* A step brings a token with nothing proposed beside it, behind such a look. */
void lf_speculation_pass(struct lf_speculation *s);
/* ids [n_ids + n_room], the sequence, in the index's memory: what is proposed is put behind the first n_ids, which are
 * known; returns how many, at most n_room. price: see above. */
int lf_speculation_propose(struct lf_speculation *s, int32_t *ids, int n_ids, int n_room, double price);
/* Of n_proposed tokens the first n_right came. */
void lf_speculation_learn(struct lf_speculation *s, int n_proposed, int n_right);

#endif
