/* See speculation.h. */
#include "server/engine/speculation.h"

#include "core/check.h"

/* What is known at first counts as GUESS_N tokens of which GUESS were right. A step makes all that was seen count for
 * FORGET less: where nothing pays at a price of 0.3 one in some thirty tokens asks again. */
#define GUESS   0.7
#define GUESS_N 2.0
#define FORGET  0.01

void lf_speculation_init(struct lf_speculation *s, const struct lf_gram_index *grams, int n_before, int n_most)
{
    LF_ASSERT(n_most == LF_SPECULATION_AUTO || (n_most >= 1 && n_most <= LF_SPECULATION_N));
    *s = (struct lf_speculation){.grams = *grams, .n_before = n_before, .n_most = n_most};
}

/* Where nothing seems to pay one token is proposed at every ASK_N-th place: a price that nobody pays is never
 * corrected, and it is a fit to steps that may say little about it. */
enum { ASK_N = 64 };

/* How many of a proposal pay. */
static int n_worth(struct lf_speculation *s, int n_room, double price)
{
    double p = (s->n_right + GUESS * GUESS_N) / (s->n_right + s->n_wrong + GUESS_N), gain = p;
    int n = 0;
    if (s->n_most != LF_SPECULATION_AUTO) return s->n_most < n_room ? s->n_most : n_room;
    for (; n < n_room && n < LF_SPECULATION_N && gain > price; n++) gain *= p;
    if (n == 0 && n_room > 0 && ++s->n_declined >= ASK_N) n = 1;
    if (n > 0) s->n_declined = 0;
    return n;
}

int lf_speculation_propose(struct lf_speculation *s, int32_t *ids, int n_ids, int n_room, double price)
{
    LF_ASSERT(ids == s->grams.ids + s->n_before);
    s->n_right *= 1 - FORGET;
    s->n_wrong *= 1 - FORGET;
    lf_gram_index_extend(&s->grams, s->n_before + n_ids);
    int from = lf_gram_index_find(&s->grams), n = from > 0 ? n_worth(s, n_room, price) : 0;
    /* What was found may end where the sequence does: then it goes on with what has just been proposed. */
    for (int i = 0; i < n; i++) ids[n_ids + i] = s->grams.ids[from + i];
    return n;
}

void lf_speculation_learn(struct lf_speculation *s, int n_proposed, int n_right)
{
    s->n_right += n_right;
    s->n_wrong += n_right < n_proposed;
}
