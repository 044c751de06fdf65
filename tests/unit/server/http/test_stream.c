/* server/http/api/stream.c: which events there are, in which order and when. Engine, clock and printer are the test's.
 */
#include "core/check.h"
#include "server/http/api/stream.h"
#include "tests/support/stopped_clock.h"
#include "tests/unit/server/http/generation_rig.h"

enum { KEEP_ALIVE_MS = 2000, PROGRESS_MS = 500 };

/* ---- a printer that writes an event as a word ---- */

static void tell_begin(struct lf_buf *out, struct lf_generation *of)
{
    (void)of;
    lf_buf_cstr(out, "begin ");
}

static void tell_delta(struct lf_buf *out, const struct lf_generation *of, int idx, const struct lf_part *part)
{
    lf_buf_printf(out, "%d:%.*s", idx, (int)part->bytes.len, part->bytes.len ? part->bytes.ptr : "");
    if (of->choices[idx].lp.n) lf_buf_printf(out, "/%d", of->choices[idx].lp.n);
    lf_buf_char(out, ' ');
}

static void tell_finish(struct lf_buf *out, const struct lf_generation *of, int idx)
{
    lf_buf_printf(out, "%d.%s.%d ", idx, of->choices[idx].finish, of->n_finish_shown);
}

static void tell_end(struct lf_buf *out, const struct lf_generation *of)
{
    (void)of;
    lf_buf_cstr(out, "end");
}

static void tell_error(struct lf_buf *out, const struct lf_api_err *why)
{
    lf_buf_cstr(out, why->code);
}

static void tell_progress(struct lf_buf *out, const struct lf_generation *of, const struct lf_request_state *state)
{
    (void)of;
    lf_buf_printf(out, "%d%% ", state->n_processed);
}

static void tell_nothing(struct lf_buf *out, const struct lf_generation *of)
{
    (void)of;
    lf_buf_cstr(out, "nothing ");
}

static const struct lf_printer teller = {.begin = tell_begin,
                                         .delta = tell_delta,
                                         .finish = tell_finish,
                                         .end = tell_end,
                                         .error = tell_error,
                                         .progress = tell_progress,
                                         .nothing = tell_nothing};
static const struct lf_dialect words = {.text_param = "prompt", .logprobs = LF_LOGPROBS_CHAT, .stream = &teller};

/* ---- a stream ---- */

static void prepare_for(int n, const char *prompt)
{
    now_ns = ms(1000 * 1000);
    puppet_reset(&engine);
    ask_for(&words, n, prompt);
}

static void prepare(int n)
{
    prepare_for(n, "abc");
}

static void open_stream(enum lf_keep_alive keep_alive)
{
    start();
    assert_int_equal(lf_stream_create(&answer, gen, keep_alive, KEEP_ALIVE_MS), LF_OK);
    assert_true(answer->is_stream && !answer->patient);
}

static void fills(enum lf_fill state, const char *want)
{
    assert_int_equal(fill_window(), state);
    assert_string_equal(window.ptr && window.len ? window.ptr : "", want);
}

static void it_begins_at_once_and_ends_when_all_is_told(void **state)
{
    (void)state;
    struct lf_reply reply;
    prepare(1);
    open_stream(LF_KEEP_ALIVE_OFF);
    lf_reply_init(&reply);
    assert_true(answer->begin(answer, &reply));
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply.content_type, "text/event-stream; charset=utf-8");
    lf_reply_deinit(&reply);
    fills(LF_FILL_SOME, "begin ");
    fills(LF_FILL_WAIT, "");
    assert_int_equal(wake_at_ns, 0); /* nothing to say before there is news */
    says(0, "Hi");
    fills(LF_FILL_SOME, "0:H 0:i ");
    fills(LF_FILL_WAIT, "");
    runs_to_its_length(0, "!");
    fills(LF_FILL_END, "0:! 0.length.1 end");
    end_answer();
}

static void choices_take_turns(void **state)
{
    (void)state;
    prepare(3);
    open_stream(LF_KEEP_ALIVE_OFF);
    says(0, "abc");
    says(2, "x");
    fills(LF_FILL_SOME, "begin 0:a 2:x 0:b 0:c ");
    ends(2, LF_FINISH_STOP);
    says(1, "1");
    fills(LF_FILL_SOME, "1:1 2.stop.1 "); /* it goes on where it was, not with the first */
    ends(0, LF_FINISH_STOP);
    fills(LF_FILL_SOME, "0.stop.2 ");
    fills(LF_FILL_WAIT, "");
    ends(1, LF_FINISH_LENGTH);
    fills(LF_FILL_END, "1.length.3 end");
    end_answer();
}

/* A window holds about so much; what there is beyond it comes with the next. */
static void a_window_has_an_end(void **state)
{
    (void)state;
    static char prompt[4000];
    memset(prompt, 'x', sizeof prompt - 1);
    prepare_for(3, prompt);
    ask.ask.echo = true; /* 3,999 bytes of text are there at once, three times */
    open_stream(LF_KEEP_ALIVE_OFF);
    assert_int_equal(fill_window(), LF_FILL_SOME);
    assert_int_equal(window.len, 6 + 3 * (3999 + 3)); /* below the end before the last one */
    puppet_reset(&engine);
    end_answer();
}

/* ---- when there is no news ---- */

static void silence_is_broken_by_a_comment(void **state)
{
    (void)state;
    prepare(1);
    open_stream(LF_KEEP_ALIVE_COMMENT);
    fills(LF_FILL_SOME, "begin ");
    assert_true(wake_at_ns == now_ns + ms(KEEP_ALIVE_MS));
    now_ns += ms(KEEP_ALIVE_MS) - 1;
    fills(LF_FILL_WAIT, "");
    assert_true(wake_at_ns == now_ns + 1);
    now_ns++;
    fills(LF_FILL_SOME, ": keep-alive\n\n");
    assert_true(wake_at_ns == now_ns + ms(KEEP_ALIVE_MS)); /* from then on */
    now_ns += ms(KEEP_ALIVE_MS) - 1;
    says(0, "x");
    fills(LF_FILL_SOME, "0:x "); /* and from any event */
    now_ns++;
    fills(LF_FILL_WAIT, "");
    now_ns += ms(KEEP_ALIVE_MS);
    says(0, "y");
    fills(LF_FILL_SOME, "0:y "); /* news are enough */
    end_answer();
}

static void silence_is_broken_by_an_empty_chunk_or_not_at_all(void **state)
{
    (void)state;
    prepare(1);
    open_stream(LF_KEEP_ALIVE_CHUNK);
    fills(LF_FILL_SOME, "begin ");
    now_ns += ms(KEEP_ALIVE_MS);
    fills(LF_FILL_SOME, "nothing ");
    end_answer();
    prepare(1);
    open_stream(LF_KEEP_ALIVE_OFF);
    fills(LF_FILL_SOME, "begin ");
    now_ns += ms(100 * KEEP_ALIVE_MS);
    fills(LF_FILL_WAIT, "");
    end_answer();
}

/* Before the first event too it is counted from the stream's beginning. */
static void the_first_silence_counts_from_the_beginning(void **state)
{
    (void)state;
    prepare(1);
    open_stream(LF_KEEP_ALIVE_COMMENT);
    now_ns += ms(10 * KEEP_ALIVE_MS);
    fills(LF_FILL_SOME, "begin ");
    now_ns += ms(KEEP_ALIVE_MS) - 1;
    fills(LF_FILL_WAIT, "");
    end_answer();
}

/* ---- progress ---- */

static void a_prefill_shows_how_far_it_is(void **state)
{
    (void)state;
    prepare(1);
    ask.ask.return_progress = true;
    open_stream(LF_KEEP_ALIVE_OFF);
    struct lf_request_state *st = &engine.requests[0].state;
    st->n_processed = 10;
    fills(LF_FILL_SOME, "begin 10% ");
    assert_true(wake_at_ns == now_ns + ms(PROGRESS_MS));
    st->n_processed = 20;
    now_ns += ms(PROGRESS_MS) - 1;
    fills(LF_FILL_WAIT, "");
    assert_true(wake_at_ns == now_ns + 1);
    now_ns++;
    fills(LF_FILL_SOME, "20% ");
    now_ns++;
    st->n_processed = 100;
    says(0, "x");
    fills(LF_FILL_SOME, "100% 0:x "); /* once when it is over, before the first text */
    assert_int_equal(wake_at_ns, 0);
    now_ns += ms(10 * PROGRESS_MS);
    fills(LF_FILL_WAIT, "");
    end_answer();
}

static void a_prefill_that_ends_without_text_shows_its_end(void **state)
{
    (void)state;
    prepare(1);
    ask.ask.return_progress = true;
    open_stream(LF_KEEP_ALIVE_OFF);
    fills(LF_FILL_SOME, "begin 0% ");
    ends(0, LF_FINISH_LENGTH);
    fills(LF_FILL_END, "0% 0.length.1 end");
    end_answer();
}

static void progress_is_shown_where_it_was_asked_for_and_can_be_said(void **state)
{
    (void)state;
    prepare(1);
    open_stream(LF_KEEP_ALIVE_OFF);
    fills(LF_FILL_SOME, "begin ");
    assert_int_equal(wake_at_ns, 0);
    end_answer();
    struct lf_printer says_none = teller;
    struct lf_dialect silent = words;
    says_none.progress = NULL;
    silent.stream = &says_none;
    prepare(1);
    ask.params.dialect = &silent;
    ask.ask.return_progress = true;
    open_stream(LF_KEEP_ALIVE_OFF);
    fills(LF_FILL_SOME, "begin ");
    end_answer();
}

/* Of the keep-alive and the progress the one that is due first. */
static void it_wakes_for_what_is_due_first(void **state)
{
    (void)state;
    prepare(1);
    ask.ask.return_progress = true;
    open_stream(LF_KEEP_ALIVE_COMMENT);
    fills(LF_FILL_SOME, "begin 0% ");
    assert_true(wake_at_ns == now_ns + ms(PROGRESS_MS));
    says(0, "x");
    fills(LF_FILL_SOME, "0% 0:x ");
    assert_true(wake_at_ns == now_ns + ms(KEEP_ALIVE_MS));
    end_answer();
}

/* ---- log-probabilities ---- */

/* With the text they belong to; those without text wait for more, or for the end. */
static void log_probabilities_wait_for_text(void **state)
{
    (void)state;
    prepare(1);
    ask.ask.logprobs = 0;
    open_stream(LF_KEEP_ALIVE_OFF);
    says(0, "a\xC3");
    fills(LF_FILL_SOME, "begin 0:a/1 ");
    fills(LF_FILL_WAIT, "");
    says(0, "\xA9");
    fills(LF_FILL_SOME, "0:\xC3\xA9/2 ");
    puppet_say_id(&engine.requests[0], 257); /* a control token: no text */
    fills(LF_FILL_WAIT, "");
    ends(0, LF_FINISH_STOP);
    fills(LF_FILL_END, "0:/1 0.stop.1 end");
    end_answer();
}

static void many_log_probabilities_do_not_wait(void **state)
{
    (void)state;
    prepare(1);
    ask.ask.logprobs = 0;
    open_stream(LF_KEEP_ALIVE_OFF);
    fills(LF_FILL_SOME, "begin ");
    int n = 0;
    do {
        puppet_say_id(&engine.requests[0], 257);
        n++;
    } while (fill_window() == LF_FILL_WAIT);
    /* {"token":"</s>","logprob":-0.5,"bytes":[60,47,115,62],"top_logprobs":[]} and a comma: 73 bytes */
    assert_int_equal(n, 4096 / 73 + 1);
    end_answer();
}

/* ---- errors ---- */

static void what_breaks_off_says_why_and_is_the_last(void **state)
{
    (void)state;
    prepare(2);
    open_stream(LF_KEEP_ALIVE_OFF);
    says(0, "x");
    fills(LF_FILL_SOME, "begin 0:x ");
    puppet_end(&engine.requests[0], LF_FINISH_ERROR, LF_DEVICE);
    says(1, "y");
    fills(LF_FILL_LAST, "1:y engine_failed");
    end_answer();
}

/* What cannot be written is due for ever: a window that takes no more ends the turn, and who sends it breaks off. */
static void a_window_without_memory_is_given_back(void **state)
{
    (void)state;
    prepare(2);
    ask.ask.logprobs = 0;
    open_stream(LF_KEEP_ALIVE_OFF);
    fills(LF_FILL_SOME, "begin ");
    says(0, "abc");
    ends(0, LF_FINISH_STOP);
    window.ceiling = 4;
    fill_window();
    assert_int_equal(window.status, LF_LIMIT);
    end_answer();
    window.ceiling = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_begins_at_once_and_ends_when_all_is_told),
        cmocka_unit_test(choices_take_turns),
        cmocka_unit_test(a_window_has_an_end),
        cmocka_unit_test(silence_is_broken_by_a_comment),
        cmocka_unit_test(silence_is_broken_by_an_empty_chunk_or_not_at_all),
        cmocka_unit_test(the_first_silence_counts_from_the_beginning),
        cmocka_unit_test(a_prefill_shows_how_far_it_is),
        cmocka_unit_test(a_prefill_that_ends_without_text_shows_its_end),
        cmocka_unit_test(progress_is_shown_where_it_was_asked_for_and_can_be_said),
        cmocka_unit_test(it_wakes_for_what_is_due_first),
        cmocka_unit_test(log_probabilities_wait_for_text),
        cmocka_unit_test(many_log_probabilities_do_not_wait),
        cmocka_unit_test(what_breaks_off_says_why_and_is_the_last),
        cmocka_unit_test(a_window_without_memory_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
