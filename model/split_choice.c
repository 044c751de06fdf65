#include "model/split_choice.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/check.h"
#include "core/json.h"
#include "device/comm.h"
#include "model/plan_size.h"

/* Two splits that are nearer than this are equally fast: more devices must be worth it. */
#define WORTH 0.95
#define MS    1e3

void lf_splits_list(struct lf_splits *out, int n_devices)
{
    *out = (struct lf_splits){.n_devices = n_devices};
    LF_ASSERT(n_devices >= 1 && n_devices <= LF_GPU_RANKS_N);
    for (int n = 1; n <= n_devices; n++)
        for (int n_ranks = n; n_ranks >= 1; n_ranks--)
            if (n % n_ranks == 0) out->of[out->n++] = (struct lf_split_option){.n_ranks = n_ranks, .n_cp = n / n_ranks};
    LF_ASSERT(out->n <= LF_SPLITS_N);
}

const char *lf_split_name(char name[LF_SPLIT_NAME_BYTES], int n_ranks, int n_cp)
{
    if (n_cp == 1)
        (void)snprintf(name, LF_SPLIT_NAME_BYTES, "tp=%d", n_ranks);
    else if (n_ranks == 1)
        (void)snprintf(name, LF_SPLIT_NAME_BYTES, "cp=%d", n_cp);
    else
        (void)snprintf(name, LF_SPLIT_NAME_BYTES, "tp=%d,cp=%d", n_ranks, n_cp);
    return name;
}

static int n_devices_of(const struct lf_split_option *o)
{
    return o->n_ranks * o->n_cp;
}

/* ---- the choice ---- */

static double answer_s(const struct lf_split_option *o)
{
    return o->first_s + LF_SPLIT_ANSWER_TOKENS * o->token_s;
}

/* than: of as many devices, or fewer. */
static bool is_better(const struct lf_split_option *a, const struct lf_split_option *than)
{
    if (a->ctx != than->ctx) return a->ctx > than->ctx;
    double worth = n_devices_of(a) > n_devices_of(than) ? WORTH : 1;
    return a->token_s > 0 && answer_s(a) < worth * answer_s(than);
}

static bool can_be(const struct lf_split_option *o)
{
    return o->why_not[0] == '\0';
}

static bool does_fit(const struct lf_split_option *o)
{
    return can_be(o) && o->fits;
}

/* -1: none fits. */
static int best_that_fits(const struct lf_splits *s)
{
    int best = -1;
    for (int i = 0; i < s->n; i++)
        if (does_fit(&s->of[i]) && (best < 0 || is_better(&s->of[i], &s->of[best]))) best = i;
    return best;
}

static int most_that_can_be(const struct lf_splits *s)
{
    int most = 0;
    for (int i = 1; i < s->n; i++) {
        const struct lf_split_option *o = &s->of[i], *than = &s->of[most];
        if (can_be(o) && (n_devices_of(o) > n_devices_of(than) || o->needed_bytes < than->needed_bytes)) most = i;
    }
    return most;
}

static const char *why(const struct lf_splits *s, const struct lf_split_option *chosen)
{
    int n_can = 0, n_fit = 0;
    for (int i = 0; i < s->n; i++) {
        n_can += can_be(&s->of[i]);
        n_fit += does_fit(&s->of[i]);
        if (does_fit(&s->of[i]) && s->of[i].ctx < chosen->ctx) return "it has the longest context";
    }
    if (s->n == 1) return "there is one device";
    if (n_fit == 0) return "none fits, and of those of the most devices this one lacks least";
    if (n_can == 1) return "no other split can be";
    if (n_fit == 1) return "no other one fits";
    if (s->gpu) return "of those that fit the fastest, but for 5%";
    return "it is the smallest that fits, and times are not known for this device";
}

void lf_splits_choose(struct lf_splits *s)
{
    char name[LF_SPLIT_NAME_BYTES];
    int best = best_that_fits(s);
    LF_ASSERT(s->n >= 1 && s->n <= LF_SPLITS_N && can_be(&s->of[most_that_can_be(s)]));
    s->chosen = best >= 0 ? best : most_that_can_be(s);
    const struct lf_split_option *o = &s->of[s->chosen];
    (void)snprintf(s->reason, sizeof(s->reason), "%s: %s", lf_split_name(name, o->n_ranks, o->n_cp), why(s, o));
}

/* ---- to read ---- */

static void print_seconds(double seconds, int width, struct lf_buf *out)
{
    char text[32] = "-";
    if (seconds > 0 && seconds < 0.1) snprintf(text, sizeof(text), "%.2f ms", seconds * MS);
    if (seconds >= 0.1) snprintf(text, sizeof(text), "%.2f s", seconds);
    lf_buf_printf(out, " %*s", width, text);
}

/* Rows of other numbers of devices would be many, and nobody has so many. */
static bool is_shown(const struct lf_splits *s, int i)
{
    int n = n_devices_of(&s->of[i]);
    bool is_power_of_two = (n & (n - 1)) == 0;
    return can_be(&s->of[i]) && (is_power_of_two || n == s->n_devices || i == s->chosen);
}

static void print_option(const struct lf_split_option *o, struct lf_buf *out)
{
    char name[LF_SPLIT_NAME_BYTES];
    lf_buf_printf(out, "  %-11s %-5s %12s %10d %9d", lf_split_name(name, o->n_ranks, o->n_cp), o->fits ? "yes" : "no",
                  lf_plan_size(o->needed_bytes).text, o->ctx, o->n_requests);
    print_seconds(o->token_s, 12, out);
    print_seconds(o->first_s, 12, out);
    lf_buf_char(out, '\n');
}

/* Of splits along one axis: the numbers that cannot be, and why the first of them cannot. Those along both that cannot
 * be are not told apart. */
static void print_impossible(const struct lf_splits *s, bool of_contexts, struct lf_buf *out)
{
    const struct lf_split_option *first = NULL;
    for (int i = 0; i < s->n; i++) {
        const struct lf_split_option *o = &s->of[i];
        if (can_be(o) || (of_contexts ? o->n_ranks : o->n_cp) > 1) continue;
        lf_buf_printf(out, first ? ", %d" : of_contexts ? "  Not cp=%d" : "  Not tp=%d", n_devices_of(o));
        if (!first) first = o;
    }
    if (first) lf_buf_printf(out, ": %s.\n", first->why_not);
}

void lf_splits_print(const struct lf_splits *s, struct lf_buf *out)
{
    lf_buf_printf(out, "\n  %-11s %-5s %12s %10s %9s %12s %12s\n", "split", "fits", "needed", "context", "requests",
                  "a token", "first token");
    for (int i = 0; i < s->n; i++)
        if (is_shown(s, i)) print_option(&s->of[i], out);
    print_impossible(s, false, out);
    print_impossible(s, true, out);
    if (s->gpu) lf_buf_printf(out, "  Times of one request behind its whole context, predicted for %s.\n", s->gpu);
    lf_buf_printf(out, "--parallel auto is %s.\n", s->reason);
}

static void print_option_json(const struct lf_split_option *o, struct lf_buf *out)
{
    lf_buf_printf(out, "{\"tp\":%d,\"cp\":%d", o->n_ranks, o->n_cp);
    if (can_be(o)) {
        lf_buf_printf(out, ",\"fits\":%s,\"needed_bytes\":%" PRIu64 ",\"ctx\":%d,\"concurrent_requests\":%d",
                      o->fits ? "true" : "false", o->needed_bytes, o->ctx, o->n_requests);
        if (o->token_s > 0)
            lf_buf_printf(out, ",\"token_seconds\":%.6f,\"first_token_seconds\":%.6f", o->token_s, o->first_s);
    } else {
        lf_buf_cstr(out, ",\"why_not\":");
        lf_json_write_string(out, lf_str_c(o->why_not));
    }
    lf_buf_char(out, '}');
}

void lf_splits_print_json(const struct lf_splits *s, struct lf_buf *out)
{
    const struct lf_split_option *chosen = &s->of[s->chosen];
    lf_buf_cstr(out, "\"splits\":[");
    for (int i = 0; i < s->n; i++) {
        if (i > 0) lf_buf_char(out, ',');
        print_option_json(&s->of[i], out);
    }
    lf_buf_printf(out, "],\"split\":{\"tp\":%d,\"cp\":%d,\"reason\":", chosen->n_ranks, chosen->n_cp);
    lf_json_write_string(out, lf_str_c(s->reason));
    lf_buf_char(out, '}');
}
