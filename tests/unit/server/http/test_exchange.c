/* server/http/conn/{exchange,respond}.c: a request from its body to the last byte of its answer, against a
 * libmicrohttpd, a route and an answer of the test's own. */
#include "tests/unit/server/http/exchange_rig.h"

#include <malloc.h>

#include "core/check.h"

enum { BUDGET_BYTES = 1 << 20, ROUTE_IDX = 3 };

/* Where text memory hands out blocks one by one, for the sanitizer to see (core/text_memory.c). */
#if defined(__SANITIZE_ADDRESS__)
enum { ONE_BY_ONE = 1 };
#else
enum { ONE_BY_ONE = 0 };
#endif

static bool refuses_to_lend;
bool __real_lf_wake_lend(struct lf_wake *wake);
bool __wrap_lf_wake_lend(struct lf_wake *wake);
bool __wrap_lf_wake_lend(struct lf_wake *wake)
{
    return !refuses_to_lend && __real_lf_wake_lend(wake);
}

/* ---- a route, and an answer that does as it is told ---- */

static struct lf_route route;
static int n_handled;
static void (*when_handled)(struct lf_exchange *x);

static void handle(struct lf_exchange *x)
{
    n_handled++;
    if (when_handled) when_handled(x);
}

const struct lf_route *__wrap_lf_route_find(struct lf_str path, size_t *tail_at);
const struct lf_route *__wrap_lf_route_find(struct lf_str path, size_t *tail_at)
{
    *tail_at = path.len;
    return &route;
}

int __wrap_lf_route_idx(const struct lf_route *r);
int __wrap_lf_route_idx(const struct lf_route *r)
{
    return r == &route ? ROUTE_IDX : LF_ROUTES_N;
}

static struct {
    struct lf_answer answer;
    bool ready;
    int status, n_destroyed, n_fills;
    const struct step {
        enum lf_fill state;
        const char *text;
        int64_t wake_at_ns;
    } * steps;
    enum lf_status loss; /* of what the next step writes */
} made;

static bool answer_begin(struct lf_answer *answer, struct lf_reply *reply)
{
    assert_ptr_equal(answer, &made.answer);
    if (!made.ready) return false;
    lf_buf_cstr(lf_reply_json(reply, made.status), made.status == 200 ? "" : "{\"no\":1}");
    return true;
}

static enum lf_fill answer_fill(struct lf_answer *answer, struct lf_buf *out, int64_t *wake_at_ns)
{
    assert_ptr_equal(answer, &made.answer);
    assert_int_equal(out->len, 0);
    const struct step *s = &made.steps[made.n_fills++];
    lf_buf_cstr(out, s->text);
    if (made.loss != LF_OK) out->status = made.loss;
    *wake_at_ns = s->wake_at_ns;
    return s->state;
}

static void answer_destroy(struct lf_answer *answer)
{
    assert_ptr_equal(answer, &made.answer);
    made.n_destroyed++;
}

static void give_answer(struct lf_exchange *x)
{
    x->answer = &made.answer;
}

static void give_reply(struct lf_exchange *x)
{
    lf_buf_cstr(lf_reply_json(&x->reply, 200), "{\"a\":1}");
}

static int setup_for(const char *method, bool generates)
{
    open_rig(BUDGET_BYTES);
    route = (struct lf_route){.path = "/x", .method = method, .allow = "A, B", .auth = LF_AUTH_KEY, .handle = handle};
    route.generates = generates;
    n_handled = 0;
    when_handled = give_reply;
    memset(&made, 0, sizeof made);
    made.answer = (struct lf_answer){.begin = answer_begin, .fill = answer_fill, .destroy = answer_destroy};
    made.status = 200;
    made.ready = true;
    return 0;
}

static int setup_get(void **state)
{
    (void)state;
    return setup_for("GET", false);
}

static int setup_post(void **state)
{
    (void)state;
    return setup_for("POST", true);
}

static int teardown(void **state)
{
    (void)state;
    close_rig();
    return 0;
}

#define GET  "GET /x HTTP/1.1\r\n" HOST "\r\n"
#define POST "POST /x HTTP/1.1\r\n" HOST JSON "Content-Length: 5\r\n\r\n"

static bool body(size_t n)
{
    static char bytes[8 * MAX_BODY * LF_DISCARD_FACTOR];
    assert_true(n <= sizeof bytes);
    return lf_exchange_body(rig.x, bytes, n) == MHD_YES;
}

static bool advance(void)
{
    return lf_exchange_advance(rig.x) == MHD_YES;
}

static void work(void)
{
    struct lf_job *job = rig.job;
    assert_non_null(job);
    rig.job = NULL;
    job->run(job);
}

static uint64_t used_bytes(void)
{
    struct lf_text_memory_state st;
    lf_text_memory_snapshot(rig.server.text_memory, &st);
    return st.used_bytes;
}

static struct lf_str sent(void)
{
    assert_null(rig.response.read);
    return rig.response.bytes;
}

static void sends(unsigned status, const char *text)
{
    assert_int_equal(rig.status, status);
    assert_int_equal(sent().len, strlen(text));
    assert_memory_equal(sent().ptr, text, sent().len);
}

static uint64_t n_counted(int kind)
{
    return lf_counter_get(&rig.server.metrics.requests[ROUTE_IDX][kind]);
}

static void nothing_of_an_exchange_is_left(void **state)
{
    (void)state;
    size_t before = 0;
    for (int i = 0; i < 50; i++) {
        if (i == 10) before = mallinfo2().uordblks;
        assert_true(head(GET) && advance());
        end_exchange(true);
    }
    assert_true(mallinfo2().uordblks <= before);
}

/* ---- the body ---- */

static void a_body_is_taken_up_to_its_limit(void **state)
{
    (void)state;
    assert_true(head("POST /x HTTP/1.1\r\n" HOST JSON "Transfer-Encoding: chunked\r\n\r\n"));
    assert_int_equal(rig.conn->state, LF_CONN_BODY);
    assert_true(body(MAX_BODY - 1) && body(1));
    assert_int_equal(rig.x->body.len, MAX_BODY);
    assert_false(rig.x->discard);
    assert_true(body(1));
    assert_true(rig.x->discard);
    assert_int_equal(rig.x->reply.status, 413);
    assert_null(rig.x->body.ptr); /* its memory is free again */
    assert_int_equal(atomic_load(&rig.conn->body_bytes), MAX_BODY + 1);
    assert_true(body(MAX_BODY * LF_DISCARD_FACTOR - MAX_BODY - 1)); /* read and dropped */
    assert_null(rig.x->body.ptr);
    assert_false(body(1)); /* but not for ever */
    assert_int_equal(rig.status, 0);
    assert_true(advance());
    assert_int_equal(rig.status, 413);
    assert_int_equal(n_counted(4), 1);
    assert_int_equal(n_handled, 0);
}

static void a_body_for_which_there_is_no_memory_is_refused(void **state)
{
    (void)state;
    assert_true(head(POST));
    void *all = lf_text_alloc(rig.server.text_memory, ONE_BY_ONE ? BUDGET_BYTES : BUDGET_BYTES - 64);
    assert_non_null(all);
    assert_true(body(5));
    assert_int_equal(rig.x->reply.status, 503);
    assert_int_equal(rig.x->reply.retry_after_s, 1);
    assert_true(rig.x->discard);
    assert_int_equal(lf_counter_get(&rig.server.metrics.refused_text_memory), 1);
    assert_true(body(5));
    lf_text_free(rig.server.text_memory, all);
}

static void nothing_is_done_for_a_client_that_left(void **state)
{
    (void)state;
    assert_true(head(POST));
    lf_wake_gone(&rig.x->wake);
    assert_false(body(1));
    assert_false(advance());
    assert_null(rig.job);
    end_exchange(false);
    assert_int_equal(lf_counter_get(&rig.server.metrics.clients_gone), 1);
}

/* Gone, or done with sending alone: that cannot be told, and it costs nothing to answer. */
static void a_client_that_has_ended_its_side_is_told_what_is_known(void **state)
{
    (void)state;
    assert_true(head(GET));
    lf_wake_gone(&rig.x->wake);
    assert_true(advance());
    sends(200, "{\"a\":1}");
    end_exchange(true);
    assert_int_equal(lf_counter_get(&rig.server.metrics.clients_gone), 0);
    assert_true(head(POST)); /* no such method */
    lf_wake_gone(&rig.x->wake);
    assert_true(body(5) && advance());
    assert_int_equal(rig.status, 405);
    end_exchange(true);
    assert_true(head(GET)); /* not while the server stops: there is nobody to send it */
    atomic_store(&rig.server.waker.stopping, true);
    assert_false(advance());
    assert_int_equal(rig.status, 0);
    end_exchange(false);
    atomic_store(&rig.server.waker.stopping, false);
}

/* ---- work ---- */

static void what_is_got_is_answered_at_once(void **state)
{
    (void)state;
    assert_true(head(GET) && advance());
    assert_int_equal(n_handled, 1);
    sends(200, "{\"a\":1}");
    assert_int_equal(n_counted(2), 1);
    assert_int_equal(rig.conn->state, LF_CONN_ANSWER);
    assert_null(rig.job);
    assert_true(advance()); /* nothing more to do */
    assert_ptr_equal(rig.x->reply.body.memory, rig.server.text_memory);
    end_exchange(true);
    assert_int_equal(lf_counter_get(&rig.server.metrics.clients_gone), 0);
    route.auth = LF_AUTH_NONE; /* health is answered whatever is full */
    assert_true(head(GET) && advance());
    assert_null(rig.x->reply.body.memory);
}

static void what_is_posted_is_a_workers(void **state)
{
    (void)state;
    assert_true(head(POST) && body(5) && advance());
    assert_int_equal(n_handled, 0);
    assert_int_equal(rig.conn->state, LF_CONN_WORK);
    assert_int_equal(atomic_load(&rig.server.n_in_flight), 1);
    assert_int_equal(rig.n_suspended, 1);
    assert_int_equal(rig.n_resumed, 0);
    work();
    assert_int_equal(n_handled, 1);
    assert_int_equal(rig.n_resumed, 1);
    assert_int_equal(rig.status, 0);
    assert_ptr_equal(rig.x->reply.body.memory, rig.server.text_memory);
    assert_true(advance());
    sends(200, "{\"a\":1}");
    assert_int_equal(atomic_load(&rig.server.n_in_flight), 1); /* until the answer is away */
    end_exchange(true);
    route.generates = false;
    assert_true(head(POST) && body(5) && advance());
    assert_int_equal(atomic_load(&rig.server.n_in_flight), 0);
    work();
}

static void long_texts_have_workers_of_their_own(void **state)
{
    (void)state;
    rig.server.opts.max_body_bytes = LF_SHORT_BODY_BYTES + 1;
    for (size_t i = 0; i < 2; i++) {
        assert_true(head("POST /x HTTP/1.1\r\n" HOST JSON "Transfer-Encoding: chunked\r\n\r\n"));
        assert_true(body(1000));
        for (size_t n = 1000; n < LF_SHORT_BODY_BYTES; n += 1000)
            assert_true(body(LF_MIN(1000, LF_SHORT_BODY_BYTES - n)));
        if (i) assert_true(body(1));
        assert_int_equal(rig.x->body.len, LF_SHORT_BODY_BYTES + i);
        assert_true(advance());
        assert_int_equal(rig.long_job, i == 1);
        work();
    }
}

/* What reading the body may need is set aside first; it is refused where that is not there, to the byte. */
static void work_begins_where_there_is_memory_for_it(void **state)
{
    (void)state;
    const uint64_t need = 5 * LF_WORK_FACTOR + LF_WORK_BYTES;
    assert_true(head(POST) && body(5));
    const uint64_t used = used_bytes(); /* by the body */
    for (uint64_t missing = 0; missing < 2; missing++) {
        close_rig();
        open_rig(used + need - missing);
        n_handled = 0;
        assert_true(head(POST) && body(5) && advance());
        work();
        assert_int_equal(n_handled, missing == 0);
        assert_int_equal(rig.x->reply.status, missing ? 503 : 200);
        assert_int_equal(lf_counter_get(&rig.server.metrics.refused_text_memory), missing);
        if (missing) assert_null(rig.x->body.ptr);
        struct lf_text_memory_state st;
        lf_text_memory_snapshot(rig.server.text_memory, &st);
        assert_int_equal(st.reserved_bytes, 0); /* and given back */
        assert_true(advance());
        assert_int_equal(rig.status, missing ? 503 : 200);
    }
}

static void work_for_a_client_that_left_is_not_begun(void **state)
{
    (void)state;
    assert_true(head(POST) && body(5) && advance());
    lf_wake_gone(&rig.x->wake);
    assert_int_equal(rig.n_resumed, 0); /* it is the worker's */
    work();
    assert_int_equal(n_handled, 0);
    assert_int_equal(rig.n_resumed, 1);
    assert_false(advance());
}

static void while_the_server_stops_nothing_is_begun(void **state)
{
    (void)state;
    assert_true(head(POST) && body(5));
    atomic_store(&rig.server.waker.stopping, true);
    assert_false(advance());
    assert_null(rig.job);
    atomic_store(&rig.server.waker.stopping, false);
    refuses_to_lend = true; /* it stops between the two looks */
    assert_false(advance());
    assert_null(rig.job);
    refuses_to_lend = false;
}

static void a_deadline_counts_from_the_beginning(void **state)
{
    (void)state;
    assert_true(head(POST));
    assert_int_equal(rig.x->work.deadline_ns, 0);
    rig.server.opts.request_deadline_ms = 1;
    assert_true(head(POST));
    assert_true(rig.x->work.deadline_ns == now_ns + LF_NS_PER_MS);
}

static void find_it_costly(struct lf_exchange *x)
{
    if (n_handled == 1)
        x->effort = LF_EFFORT_COSTLY;
    else
        give_reply(x);
}

/* The rest of the work is for those who do what takes long; the exchange is lent all the while. */
static void work_that_turns_out_costly_is_done_by_others(void **state)
{
    (void)state;
    when_handled = find_it_costly;
    assert_true(head(POST) && body(5) && advance());
    assert_false(rig.long_job);
    work();
    assert_int_equal(n_handled, 1);
    assert_true(rig.long_job && rig.job);
    assert_int_equal(rig.n_resumed, 0);
    assert_int_equal(rig.x->body.len, 5);
    work();
    assert_int_equal(n_handled, 2);
    assert_null(rig.job);
    assert_int_equal(rig.x->effort, LF_EFFORT_LONG);
    assert_true(advance());
    sends(200, "{\"a\":1}");
}

/* A handler that leaves neither a reply nor an answer: the connection ends. */
static void without_an_answer_it_ends(void **state)
{
    (void)state;
    when_handled = NULL;
    assert_true(head(POST) && body(5) && advance());
    work();
    assert_false(advance());
    assert_int_equal(rig.status, 0);
}

/* ---- an answer that is made ---- */

static void made_answer(bool is_stream, const struct step *steps)
{
    made.answer.is_stream = is_stream;
    made.steps = steps;
    when_handled = give_answer;
    assert_true(head(POST) && body(5) && advance());
    work();
}

static void an_answer_is_waited_for(void **state)
{
    (void)state;
    static const struct step steps[] = {{LF_FILL_END, "whole", 0}};
    made.ready = false;
    made.answer.patient = true;
    made_answer(false, steps);
    assert_true(advance());
    assert_int_equal(rig.n_suspended, 2);
    assert_true(atomic_load(&rig.x->wake.patient));
    assert_int_equal(rig.status, 0);
    made.ready = true;
    lf_wake_notify(&rig.x->wake);
    now_ns += LF_NS_PER_S;
    (void)lf_waker_run(&rig.server.waker);
    assert_int_equal(rig.n_resumed, 2);
    assert_true(advance());
    sends(200, "whole");
    end_exchange(true);
    assert_int_equal(made.n_destroyed, 1);
}

static void an_answer_nobody_waits_for_is_not_begun(void **state)
{
    (void)state;
    made.ready = false;
    made_answer(false, NULL);
    assert_true(advance());
    lf_wake_gone(&rig.x->wake);
    assert_false(advance());
    end_exchange(false);
    assert_int_equal(made.n_destroyed, 1);
    assert_int_equal(lf_counter_get(&rig.server.metrics.clients_gone), 1);
}

static void an_error_instead_of_an_answer_is_all(void **state)
{
    (void)state;
    made.status = 500;
    made_answer(true, NULL);
    assert_true(advance());
    sends(500, "{\"no\":1}");
    assert_int_equal(n_counted(5), 1);
    assert_null(header("Cache-Control"));
}

/* ---- headers ---- */

static void has(const char *name, const char *value)
{
    const char *is = header(name);
    if (!value != !is || (value && strcmp(is, value) != 0))
        fail_msg("%s: %s, expected %s", name, is ? is : "none", value ? value : "none");
}

static void each_status_has_its_headers(void **state)
{
    (void)state;
    assert_true(head("GET /x HTTP/1.1\r\n" HOST "X-Request-Id: mine\r\n\r\n") && advance());
    has("x-request-id", "mine");
    has("X-Content-Type-Options", "nosniff");
    has("Content-Type", "application/json");
    static const char *const others[] = {"Allow", "WWW-Authenticate", "Connection", "Retry-After", "Cache-Control",
                                         "Vary",  "X-Accel-Buffering"};
    for (size_t i = 0; i < LF_N_ELEMS(others); i++) has(others[i], NULL);
    for (int retry_s = 0; retry_s < 2; retry_s++) {
        assert_true(head(GET));
        (void)lf_reply_json(&rig.x->reply, 401);
        rig.x->reply.retry_after_s = retry_s;
        rig.x->reply.close = true;
        rig.x->reply.allow = "A, B";
        assert_true(advance());
        has("WWW-Authenticate", "Bearer");
        has("Retry-After", retry_s ? "1" : NULL);
        has("Connection", "close");
        has("Allow", "A, B");
    }
    assert_true(head("OPTIONS /x HTTP/1.1\r\n" HOST "\r\n") && advance());
    assert_int_equal(rig.status, 204);
    has("Content-Type", NULL);
    has("Allow", "A, B");
    has("Access-Control-Allow-Methods", NULL); /* it is no preflight */
}

#define ORIGIN "Origin: http://page.example\r\n"

static void pages_that_are_allowed_may_read_it(void **state)
{
    (void)state;
    assert_true(head("GET /x HTTP/1.1\r\n" HOST ORIGIN "\r\n") && advance());
    has("Access-Control-Allow-Origin", "http://page.example");
    has("Access-Control-Expose-Headers", "x-request-id, retry-after");
    has("Vary", "Origin");
    has("Access-Control-Max-Age", NULL);
    assert_true(head("OPTIONS /x HTTP/1.1\r\n" HOST ORIGIN "Access-Control-Request-Headers: accept, evil\r\n\r\n"));
    assert_true(advance());
    has("Vary", "Origin, Access-Control-Request-Headers");
    has("Access-Control-Allow-Methods", "A, B");
    has("Access-Control-Allow-Headers", "accept");
    has("Access-Control-Max-Age", "600");
    assert_true(head("OPTIONS /x HTTP/1.1\r\n" HOST ORIGIN "Access-Control-Request-Headers: evil\r\n\r\n"));
    assert_true(advance());
    has("Access-Control-Allow-Headers", NULL);
}

/* ---- sending ---- */

static void a_reply_that_did_not_fit_is_told_as_such(void **state)
{
    (void)state;
    assert_true(head(GET));
    (void)lf_reply_json(&rig.x->reply, 200);
    rig.x->reply.body.status = LF_NO_MEMORY;
    assert_true(advance());
    assert_int_equal(rig.status, 503);
    assert_true(lf_str_find(sent(), LF_STR("\"code\":\"text_memory_full\"}}")) > 0);
    assert_true(lf_str_ends(sent(), LF_STR("}}"))); /* all of it and no byte more */
    has("Retry-After", "1");
    has("Content-Type", "application/json");
    assert_int_equal(n_counted(5), 1);
}

static void a_whole_answer_that_cannot_be_made_is_an_error(void **state)
{
    (void)state;
    static const struct step broken[] = {{LF_FILL_BREAK, "", 0}}, lost[] = {{LF_FILL_END, "x", 0}};
    for (int i = 0; i < 2; i++) {
        rig.job = NULL;
        made.n_fills = 0;
        made.loss = i ? LF_NO_MEMORY : LF_OK;
        made_answer(false, i ? lost : broken);
        assert_true(advance());
        assert_int_equal(rig.status, 503);
        assert_true(lf_str_find(sent(), LF_STR("text_memory_full")) > 0);
    }
}

/* Reads up to n bytes of the answer, as libmicrohttpd does when its socket has room. */
static ssize_t read_some(char *dst, size_t n)
{
    assert_non_null(rig.response.read);
    return rig.response.read(rig.response.ctx, 0, dst, n);
}

static void reads(size_t n, const char *want)
{
    char got[64];
    ssize_t is = read_some(got, n);
    assert_int_equal(is, strlen(want));
    assert_memory_equal(got, want, strlen(want));
}

static bool ends(void)
{
    char c;
    return read_some(&c, 1) == MHD_CONTENT_READER_END_OF_STREAM;
}

/* What the peer sees: whether our writing side is shut down. */
static bool is_shut_for_writing(void)
{
    char c;
    return recv(rig.theirs, &c, 1, MSG_DONTWAIT) == 0;
}

static bool is_shut_for_reading(void)
{
    char c;
    return recv(rig.ours, &c, 1, MSG_DONTWAIT) == 0;
}

static void a_long_answer_is_sent_as_it_is_made(void **state)
{
    (void)state;
    static const struct step steps[] = {{LF_FILL_SOME, "abcdef", 0}, {LF_FILL_SOME, "g", 0}, {LF_FILL_END, "hi", 0}};
    made_answer(false, steps);
    assert_true(advance());
    assert_int_equal(rig.status, 200);
    has("Content-Type", "application/json");
    has("Cache-Control", NULL);
    reads(4, "abcd");
    reads(4, "ef");
    assert_int_equal(made.n_fills, 1); /* not before there is room for it */
    reads(4, "g");
    reads(2, "hi");
    assert_false(rig.x->answered);
    assert_true(ends());
    assert_true(rig.x->answered);
    assert_false(is_shut_for_reading() || is_shut_for_writing());
    end_exchange(false); /* libmicrohttpd may call that an error: the answer is out all the same */
    assert_int_equal(lf_counter_get(&rig.server.metrics.clients_gone), 0);
}

static void a_stream_waits_between_its_events(void **state)
{
    (void)state;
    static const struct step steps[] = {
        {LF_FILL_SOME, "one", 0}, {LF_FILL_WAIT, "", 1234}, {LF_FILL_SOME, "two", 0}, {LF_FILL_END, "", 0}};
    made_answer(true, steps);
    assert_true(advance());
    has("Cache-Control", "no-cache");
    has("X-Accel-Buffering", "no");
    reads(8, "one");
    reads(8, ""); /* suspended */
    assert_int_equal(rig.n_suspended, 2);
    assert_int_equal(rig.x->wake.at_ns, 1234);
    lf_waker_tick(&rig.server.waker, 1233);
    assert_int_equal(rig.n_resumed, 1);
    lf_waker_tick(&rig.server.waker, 1234);
    assert_int_equal(rig.n_resumed, 2);
    reads(8, "two");
    assert_true(ends());
}

/* News that come while it is made are looked at before it waits. */
static void news_are_not_slept_through(void **state)
{
    (void)state;
    static const struct step steps[] = {{LF_FILL_WAIT, "", 0}, {LF_FILL_SOME, "late", 0}, {LF_FILL_END, "", 0}};
    made_answer(true, steps);
    assert_true(advance());
    lf_wake_notify(&rig.x->wake);
    (void)lf_waker_run(&rig.server.waker);
    reads(8, "late");
    assert_int_equal(rig.n_suspended, 1);
    assert_true(ends());
}

static void an_answer_that_broke_off_is_the_last(void **state)
{
    (void)state;
    static const struct step steps[] = {{LF_FILL_LAST, "error", 0}};
    made_answer(true, steps);
    assert_true(advance());
    reads(8, "error");
    assert_false(is_shut_for_reading());
    assert_true(ends());
    assert_true(is_shut_for_reading() && !is_shut_for_writing());
}

static void an_answer_that_cannot_go_on_ends_the_connection(void **state)
{
    (void)state;
    static const struct step steps[] = {{LF_FILL_SOME, "one", 0}, {LF_FILL_BREAK, "", 0}};
    made_answer(true, steps);
    assert_true(advance());
    reads(8, "one");
    assert_false(is_shut_for_writing());
    reads(8, "\n"); /* which cannot be sent any more */
    assert_true(is_shut_for_writing());
    assert_false(rig.x->answered);
    end_exchange(false);
    assert_int_equal(lf_counter_get(&rig.server.metrics.clients_gone), 1);
}

/* HTTP/1.0 knows no chunks: the end of the connection is the answer's. */
static void in_http_1_0_the_end_of_the_connection_is_the_end(void **state)
{
    (void)state;
    static const struct step steps[] = {{LF_FILL_END, "one", 0}};
    made.answer.is_stream = true;
    made.steps = steps;
    when_handled = give_answer;
    assert_true(head("POST /x HTTP/1.0\r\n" HOST JSON "Content-Length: 5\r\n\r\n") && body(5) && advance());
    work();
    assert_true(advance());
    reads(8, "one");
    reads(8, "\n");
    assert_true(is_shut_for_writing() && rig.x->answered);
}

static void for_a_client_that_left_nothing_is_made(void **state)
{
    (void)state;
    static const struct step steps[] = {{LF_FILL_SOME, "one", 0}};
    made_answer(true, steps);
    assert_true(advance());
    lf_wake_gone(&rig.x->wake);
    reads(8, "\n");
    assert_int_equal(made.n_fills, 0);
    assert_true(is_shut_for_writing());
}

/* A whole window is set aside before anything is made. Where that is not there the answer pauses. */
static void without_memory_an_answer_pauses(void **state)
{
    (void)state;
    enum { PIECE_BYTES = 64 * 1024 };
    static const struct step steps[] = {{LF_FILL_SOME, "one", 0}, {LF_FILL_END, "", 0}};
    made_answer(true, steps);
    assert_true(advance());
    const uint64_t used = used_bytes(), most = BUDGET_BYTES - used - PIECE_BYTES;
    assert_true(lf_text_reserve(rig.server.text_memory, most + 1));
    reads(8, "");
    assert_int_equal(made.n_fills, 0);
    assert_true(rig.x->wake.at_ns == now_ns + 50 * (int64_t)LF_NS_PER_MS);
    lf_text_unreserve(rig.server.text_memory, most + 1);
    assert_true(lf_text_reserve(rig.server.text_memory, most));
    lf_waker_tick(&rig.server.waker, rig.x->wake.at_ns);
    reads(8, "one");
    if (!ONE_BY_ONE) assert_int_equal(used_bytes(), used + LF_TEXT_SLAB_BYTES); /* a window fits into a slot */
    lf_text_unreserve(rig.server.text_memory, most);
    assert_true(ends());
}

int main(void)
{
#define GETS(fn)  cmocka_unit_test_setup_teardown(fn, setup_get, teardown)
#define POSTS(fn) cmocka_unit_test_setup_teardown(fn, setup_post, teardown)
    const struct CMUnitTest tests[] = {
        GETS(nothing_of_an_exchange_is_left),
        POSTS(a_body_is_taken_up_to_its_limit),
        POSTS(a_body_for_which_there_is_no_memory_is_refused),
        POSTS(nothing_is_done_for_a_client_that_left),
        GETS(a_client_that_has_ended_its_side_is_told_what_is_known),
        GETS(what_is_got_is_answered_at_once),
        POSTS(what_is_posted_is_a_workers),
        POSTS(long_texts_have_workers_of_their_own),
        POSTS(work_that_turns_out_costly_is_done_by_others),
        POSTS(work_begins_where_there_is_memory_for_it),
        POSTS(work_for_a_client_that_left_is_not_begun),
        POSTS(while_the_server_stops_nothing_is_begun),
        POSTS(a_deadline_counts_from_the_beginning),
        POSTS(without_an_answer_it_ends),
        POSTS(an_answer_is_waited_for),
        POSTS(an_answer_nobody_waits_for_is_not_begun),
        POSTS(an_error_instead_of_an_answer_is_all),
        GETS(each_status_has_its_headers),
        GETS(pages_that_are_allowed_may_read_it),
        GETS(a_reply_that_did_not_fit_is_told_as_such),
        POSTS(a_whole_answer_that_cannot_be_made_is_an_error),
        POSTS(a_long_answer_is_sent_as_it_is_made),
        POSTS(a_stream_waits_between_its_events),
        POSTS(news_are_not_slept_through),
        POSTS(an_answer_that_broke_off_is_the_last),
        POSTS(an_answer_that_cannot_go_on_ends_the_connection),
        POSTS(in_http_1_0_the_end_of_the_connection_is_the_end),
        POSTS(for_a_client_that_left_nothing_is_made),
        POSTS(without_memory_an_answer_pauses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
