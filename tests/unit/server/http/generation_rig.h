/* A generation over an engine that does what the test says (support/puppet_engine.h), and the answer that is made of
 * it: from what is asked for to the end. Each program includes this once. */
#ifndef LF_TESTS_UNIT_SERVER_HTTP_GENERATION_RIG_H
#define LF_TESTS_UNIT_SERVER_HTTP_GENERATION_RIG_H

#include "tests/support/test.h"

#include "server/http/conn/answer.h"
#include "tests/support/puppet_engine.h"

static struct lf_engine engine;
static struct puppet_ask ask;
static struct lf_generation *gen;
static struct lf_api_err err;

/* ---- asking ---- */

/* n answers to each prompt; what else is asked for is then put into `ask`. */
static inline void ask_for_all(const struct lf_dialect *dialect, int n, const char *const *prompts, int n_prompts)
{
    gen = NULL;
    puppet_ask_init(&ask, &engine, dialect, n, prompts, n_prompts);
}

static inline void ask_for(const struct lf_dialect *dialect, int n, const char *prompt)
{
    ask_for_all(dialect, n, &prompt, 1);
}

static inline void stop_at(struct lf_str text)
{
    ask.ask.stops[ask.ask.n_stops++] = text;
}

static inline enum lf_status try_start(void)
{
    enum lf_status status = lf_generation_start(&gen, &ask.params, &ask.ask, &ask.prompts, &err);
    assert_int_equal(gen != NULL, status == LF_OK);
    return status;
}

static inline void start(void)
{
    assert_int_equal(try_start(), LF_OK);
    gen->created_s = 7;
}

static inline void end(void)
{
    lf_generation_destroy(gen);
    gen = NULL;
    assert_int_equal(puppet_n_held(&engine), 0);
}

/* ---- what the engine does: request i, in the order in which they were submitted ---- */

static inline void says(int i, const char *text)
{
    puppet_say(&engine.requests[i], text);
}

static inline void ends(int i, enum lf_finish why)
{
    puppet_end(&engine.requests[i], why, LF_OK);
}

/* Its whole answer, as long as it may be. */
static inline void runs_to_its_length(int i, const char *text)
{
    says(i, text);
    ends(i, LF_FINISH_LENGTH);
}

/* ---- the answer, which owns the generation ---- */

static struct lf_answer *answer;
static struct lf_buf window;
static int64_t wake_at_ns;

/* The next window; it has nothing of the one before. */
static inline enum lf_fill fill_window(void)
{
    if (!window.ceiling) lf_buf_init(&window, 1 << 20);
    lf_buf_clear(&window);
    wake_at_ns = -1;
    return answer->fill(answer, &window, &wake_at_ns);
}

static inline void end_answer(void)
{
    answer->destroy(answer);
    gen = NULL;
    lf_buf_deinit(&window);
    assert_int_equal(puppet_n_held(&engine), 0);
}

#endif
