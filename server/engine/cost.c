/* See cost.h. */
#include "server/engine/cost.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "core/check.h"

/* Each step weighs 1/50 less than the one after it: the fit follows a machine that gets busier within seconds. */
static const double FORGET = 0.98;
/* Of a decode, what a token tried beside it is taken to cost at first; and how many of them each step counts for. */
static const double TRIED_GUESS = 0.125, TRIED_GUESS_N = 0.5;
enum { SWEEPS_N = 8, OUTLIER_FACTOR = 4, TRUST_AFTER_N = 8 };

void lf_cost_init(struct lf_cost *cost)
{
    memset(cost, 0, sizeof(*cost));
    /* A machine slower than most: the first chunks come out small, and the first step measured corrects the scale. */
    cost->w[LF_COST_STEP] = 5e6;
    cost->w[LF_COST_TOKEN] = LF_COST_START_TOKEN_NS;
    cost->w[LF_COST_PREFILL_KEY] = 30;
    cost->w[LF_COST_LOGITS] = 1e5;
    cost->w[LF_COST_DECODE_KEY] = 100;
    cost->w[LF_COST_TRIED] = TRIED_GUESS * cost->w[LF_COST_STEP];
    cost->w[LF_COST_TRIED_KEY] = TRIED_GUESS * cost->w[LF_COST_DECODE_KEY];
}

void lf_cost_start(struct lf_cost *cost, const double w[LF_COST_N])
{
    memcpy(cost->w, w, sizeof(cost->w));
    cost->is_known = true;
}

double lf_cost_predict(const struct lf_cost *cost, const struct lf_load *load)
{
    double ns = 0;
    for (int i = 0; i < LF_COST_N; i++) ns += cost->w[i] * load->x[i];
    return ns;
}

/* One sweep solves for each coefficient in turn with the others held. */
static void sweep(struct lf_cost *cost)
{
    for (int i = 0; i < LF_COST_N; i++) {
        if (!(cost->xtx[i][i] > 1e-30)) continue; /* nothing recent says anything about it */
        double rest = cost->xty[i];
        for (int j = 0; j < LF_COST_N; j++)
            if (j != i) rest -= cost->xtx[i][j] * cost->w[j];
        cost->w[i] = LF_MAX(rest / cost->xtx[i][i], 1e-3);
    }
}

/* As if x of term i had been seen to take guess ns each, in a step of y ns. */
static void lean(struct lf_cost *cost, int i, double x, double guess, double y)
{
    cost->xtx[i][i] += x * x / (y * y);
    cost->xty[i] += x * x * guess / (y * y);
}

/* Of decodes the sum of what is known can be trusted, not how it is divided. */
static void lean_to_guess(struct lf_cost *cost, const struct lf_load *load, double y)
{
    const double *w = cost->w, n = TRIED_GUESS_N;
    if (!(load->x[LF_COST_DECODE_KEY] > 0)) return;
    double keys = load->x[LF_COST_DECODE_KEY] / LF_MAX(load->x[LF_COST_LOGITS], 1);
    lean(cost, LF_COST_TRIED, n, TRIED_GUESS * (w[LF_COST_STEP] + w[LF_COST_TOKEN] + w[LF_COST_LOGITS]), y);
    lean(cost, LF_COST_TRIED_KEY, n * keys, TRIED_GUESS * w[LF_COST_DECODE_KEY], y);
}

void lf_cost_observe(struct lf_cost *cost, const struct lf_load *load, double took_ns)
{
    double expected = lf_cost_predict(cost, load);
    double y = LF_MAX(took_ns, 1.0);
    if (cost->n_seen == 0) {
        double scale = LF_MIN(LF_MAX(y / expected, 1e-5), 1e5);
        for (int i = 0; i < LF_COST_N; i++) cost->w[i] *= scale;
    } else if (cost->n_seen >= TRUST_AFTER_N) {
        y = LF_MIN(LF_MAX(y, expected / OUTLIER_FACTOR), expected * OUTLIER_FACTOR);
    }
    for (int i = 0; i < LF_COST_N; i++) {
        for (int j = 0; j < LF_COST_N; j++)
            cost->xtx[i][j] = cost->xtx[i][j] * FORGET + load->x[i] * load->x[j] / (y * y);
        cost->xty[i] = cost->xty[i] * FORGET + load->x[i] / y;
    }
    lean_to_guess(cost, load, y);
    for (int i = 0; i < SWEEPS_N; i++) sweep(cost);
    cost->most_tokens = LF_MAX(cost->most_tokens, load->x[LF_COST_TOKEN]);
    if (cost->n_seen < LONG_MAX) cost->n_seen++;
    cost->is_known = true;
}

/* Σ (p + 1) for p in [first, first + n) */
static double prefill_keys(int first, int n)
{
    return (double)n * first + 0.5 * (double)n * ((double)n + 1);
}

void lf_load_add_prefill(struct lf_load *load, int first, int n, int n_out)
{
    load->x[LF_COST_STEP] = 1;
    load->x[LF_COST_TOKEN] += n;
    load->x[LF_COST_PREFILL_KEY] += prefill_keys(first, n);
    load->x[LF_COST_LOGITS] += n_out;
}

void lf_load_add_decode(struct lf_load *load, int p)
{
    load->x[LF_COST_STEP] = 1;
    load->x[LF_COST_TOKEN] += 1;
    load->x[LF_COST_DECODE_KEY] += (double)p + 1;
    load->x[LF_COST_LOGITS] += 1;
}

void lf_load_add_tried(struct lf_load *load, int first, int n)
{
    load->x[LF_COST_TRIED] += n;
    load->x[LF_COST_TRIED_KEY] += prefill_keys(first, n);
}

double lf_cost_tried_ns(const struct lf_cost *cost, int first, int n)
{
    return cost->w[LF_COST_TRIED] * n + cost->w[LF_COST_TRIED_KEY] * prefill_keys(first, n);
}

double lf_cost_prefill_ns(const struct lf_cost *cost, int first, int n, int n_out)
{
    return cost->w[LF_COST_TOKEN] * n + cost->w[LF_COST_PREFILL_KEY] * prefill_keys(first, n) +
           cost->w[LF_COST_LOGITS] * n_out;
}

/* a·n + b·(n·first + n(n + 1)/2) <= budget is (b/2)·n² + q·n - budget <= 0 with q = a + b·(first + 1/2); its root is
 * written so that it does not cancel for small b. */
int lf_cost_prefill_tokens(const struct lf_cost *cost, int first, double budget_ns, int all_out)
{
    if (!(budget_ns > 0)) return 0;
    double b = cost->w[LF_COST_PREFILL_KEY];
    double q = cost->w[LF_COST_TOKEN] + (all_out ? cost->w[LF_COST_LOGITS] : 0) + b * (first + 0.5);
    double n = 2 * budget_ns / (q + sqrt(q * q + 2 * b * budget_ns));
    return n >= 1e9 ? 1000000000 : (int)n;
}
