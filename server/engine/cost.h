/* What a step costs: a small linear model, fitted from the steps that were run.
 *
 *     ns = c + a · tokens + b · prefill_keys + o · logits_rows + d · decode_keys + t · tried + u · tried_keys
 *
 * c is what a step costs whatever it does, a a token through the weights, b a query token looking at one key inside a
 * chunk (where a page is read once for many queries), d the same for a decode token (where reading the page is the
 * work), o a row of logits. Depth enters through the keys: token p of a document looks at p + 1 of them.
 *
 * t and u are of tokens that are tried beside a decode (speculation.h): its page reads and its weights are theirs too.
 * They are terms of their own because nothing else says what they cost. A row of logits comes with each short step and
 * with no long chunk, so c and o are told apart only by what the fit gets wrong about chunks, and o may hold most of a
 * decode; who took that for the price of a token tried would try none (docs/notebook/speculation.md). At first one
 * is taken to cost an eighth of a decode at its place. Each step with decodes counts a little as if that had been seen:
 * so a few odd measurements are not believed at once, nor for ever where nothing is tried because of them.
 *
 * The fit is weighted least squares with exponential forgetting, over relative errors, with coefficients kept from
 * going negative, solved by a few sweeps of coordinate descent from the last solution. That is cheap, needs no matrix
 * inverse, and stands still in directions that recent steps say nothing about (a night of pure decoding leaves what was
 * learnt about prefill alone). A step that took four times longer or shorter than expected counts as four times: a
 * suspended laptop does not spoil the fit. Pure; no clock, no allocation. */
#ifndef LF_SERVER_ENGINE_COST_H
#define LF_SERVER_ENGINE_COST_H

#include <stdbool.h>

enum lf_cost_term {
    LF_COST_STEP,
    LF_COST_TOKEN,
    LF_COST_PREFILL_KEY,
    LF_COST_LOGITS,
    LF_COST_DECODE_KEY,
    LF_COST_TRIED,
    LF_COST_TRIED_KEY,
    LF_COST_N
};

/* What a step does: how often each term of the model occurs. x[LF_COST_STEP] is 1 for any step. */
struct lf_load {
    double x[LF_COST_N];
};

/* What a token is taken to cost before a step has been measured: a machine slower than most. */
enum { LF_COST_START_TOKEN_NS = 300000 };

struct lf_cost {
    double w[LF_COST_N];                              /* ns for one of each, > 0 */
    double xtx[LF_COST_N][LF_COST_N], xty[LF_COST_N]; /* decayed sums */
    double most_tokens; /* of the steps seen so far: predictions are not stretched far beyond */
    long n_seen;
    bool is_known; /* from steps of a process before, or once n_seen > 0 */
};

void lf_cost_init(struct lf_cost *cost);
/* Of one that has seen nothing: what another has learnt (its w). */
void lf_cost_start(struct lf_cost *cost, const double w[LF_COST_N]);
double lf_cost_predict(const struct lf_cost *cost, const struct lf_load *load); /* ns */
void lf_cost_observe(struct lf_cost *cost, const struct lf_load *load, double took_ns);

/* Adds n tokens of a prefill, the first at position first; n_out of them go on to logits. */
void lf_load_add_prefill(struct lf_load *load, int first, int n, int n_out);
/* Adds one decode token at position p. */
void lf_load_add_decode(struct lf_load *load, int p);
/* Adds n tokens that are tried, the first at position first, each with a row of logits. */
void lf_load_add_tried(struct lf_load *load, int first, int n);

/* The cost of n tokens that are tried from position first on. ns */
double lf_cost_tried_ns(const struct lf_cost *cost, int first, int n);
/* The cost of tokens [first, first + n) of a prefill, without the step's own cost. ns */
double lf_cost_prefill_ns(const struct lf_cost *cost, int first, int n, int n_out);
/* The largest n for which that is within budget_ns; every token goes on to logits where all_out. 0 or more. */
int lf_cost_prefill_tokens(const struct lf_cost *cost, int first, double budget_ns, int all_out);

#endif
