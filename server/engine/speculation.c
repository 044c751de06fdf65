/* See speculation.h. */
#include "server/engine/speculation.h"

#include <math.h>

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

static double p_of(const struct lf_speculation *s)
{
    return (s->n_right + GUESS * GUESS_N) / (s->n_right + s->n_wrong + GUESS_N);
}

/* How many of a proposal pay, or are to be asked. */
static int n_worth(const struct lf_speculation *s, int n_room, double price)
{
    double p = p_of(s), gain = p;
    int n = 0;
    if (s->n_most != LF_SPECULATION_AUTO) return s->n_most < n_room ? s->n_most : n_room;
    for (; n < n_room && n < LF_SPECULATION_N && gain > price; n++) gain *= p;
    return n == 0 && n_room > 0 && s->n_declined + 1 >= ASK_N ? 1 : n;
}

/* Where the sequence has been before; 0: nowhere. */
static int find(struct lf_speculation *s, const int32_t *ids, int n_ids)
{
    LF_ASSERT(ids == s->grams.ids + s->n_before);
    lf_gram_index_extend(&s->grams, s->n_before + n_ids);
    return lf_gram_index_find(&s->grams);
}

static void forget(struct lf_speculation *s)
{
    s->n_right *= 1 - FORGET;
    s->n_wrong *= 1 - FORGET;
}

double lf_speculation_gain(struct lf_speculation *s, const int32_t *ids, int n_ids, int n_room, double price,
                           bool beside_others)
{
    s->is_found = n_room > 0 && find(s, ids, n_ids) > 0;
    int n = s->is_found ? n_worth(s, n_room, price) : 0;
    double p = p_of(s), right = p, gain = 0;
    bool is_auto = s->n_most == LF_SPECULATION_AUTO;
    if (n > 0 && (is_auto ? s->n_declined + 1 >= ASK_N : !beside_others)) return HUGE_VAL;
    for (int i = 0; i < n; i++, right *= p) gain += right - price;
    return gain;
}

void lf_speculation_pass(struct lf_speculation *s)
{
    forget(s);
    if (s->is_found)
        s->n_declined++;
    else if (s->n_declined + 1 >= ASK_N) /* it was waited for to ask, and with the id that came nothing was found */
        s->n_declined = 0;
}

int lf_speculation_propose(struct lf_speculation *s, int32_t *ids, int n_ids, int n_room, double price)
{
    forget(s);
    int from = find(s, ids, n_ids), n = from > 0 ? n_worth(s, n_room, price) : 0;
    if (n > 0)
        s->n_declined = 0;
    else if (from > 0 && n_room > 0)
        s->n_declined++;
    /* What was found may end where the sequence does: then it goes on with what has just been proposed. */
    for (int i = 0; i < n; i++) ids[n_ids + i] = s->grams.ids[from + i];
    return n;
}

void lf_speculation_learn(struct lf_speculation *s, int n_proposed, int n_right)
{
    s->n_right += n_right;
    s->n_wrong += n_right < n_proposed;
}
