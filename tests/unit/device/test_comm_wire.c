/* One rank whose peers are the test: what they may do wrong on a socket, what they are told at the end, and processes
 * that are killed or stopped. */
#include "tests/unit/device/comm_checks.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"

/* As comm_wire.h has it. */
enum { TURN, PIECE, TAKEN, BEAT, END };
struct frame {
    uint32_t magic;
    uint8_t kind, from, n_ranks, axis;
    uint32_t seq, what;
    uint64_t bytes;
    uint32_t at, n;
};

/* A rank of two; the other one's end of the socket is the test's. */
struct rig {
    struct lf_comm_group *group;
    struct lf_comm *comm;
    int fd;
};

static struct rig make_rig_of(int rank, int timeout_ms)
{
    struct rig rig;
    int pair[2], sockets[2] = {-1, -1};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    sockets[1 - rank] = pair[0];
    rig.fd = pair[1];
    assert_int_equal(lf_comm_group_create_wire(&rig.group, 2, rank, sockets, timeout_ms, NULL), LF_OK);
    assert_int_equal(lf_comm_create(&rig.comm, rig.group, rank, NULL), LF_OK);
    return rig;
}

static struct rig make_rig(int timeout_ms)
{
    return make_rig_of(0, timeout_ms);
}

static void free_rig(struct rig *rig)
{
    lf_comm_destroy(rig->comm);
    lf_comm_group_destroy(rig->group);
    (void)close(rig->fd);
}

static struct frame frame_of(int kind)
{
    return (struct frame){.magic = 0x4b52464c, .kind = (uint8_t)kind, .from = 1, .n_ranks = 2};
}

static void send_bytes(int fd, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
        if (sent <= 0) return; /* it has heard enough */
        at += sent;
        n -= (size_t)sent;
    }
}

/* The status that the group ends with, in time, in a meeting that nothing else ends; err: why. */
static enum lf_status end_of(struct rig *rig, struct lf_err *err)
{
    int64_t before = lf_clock_ns();
    lf_comm_meet(rig->comm);
    assert_true(lf_clock_ns() - before < 10 * LF_NS_PER_S);
    return lf_comm_check(rig->comm, err);
}

/* What has come on a socket until it is closed: of END frames the last, and its reason. */
static bool read_end(int fd, struct frame *end, char reason[LF_ERR_MESSAGE_BYTES])
{
    struct frame f;
    static char payload[256 * 1024];
    bool found = false;
    while (recv(fd, &f, sizeof(f), MSG_WAITALL) == (ssize_t)sizeof(f)) {
        assert_true(f.n <= sizeof(payload));
        if (f.n > 0) assert_int_equal(recv(fd, payload, f.n, MSG_WAITALL), f.n);
        if (f.kind != END) continue;
        assert_false(found);
        assert_true(f.n < LF_ERR_MESSAGE_BYTES);
        memcpy(reason, payload, f.n);
        reason[f.n] = 0;
        *end = f;
        found = true;
    }
    return found;
}

static void a_frame_that_is_not_the_next_ends_the_group_and_the_peer_is_told(void **state)
{
    (void)state;
    struct frame wrong[24];
    int n = 0;
    for (int i = 0; i < 24; i++) wrong[i] = frame_of(i < 8 ? TURN : i < 12 ? PIECE : i < 15 ? TAKEN : BEAT);
    wrong[n++].magic = 0x4b52464d;
    wrong[n++].from = 0;
    wrong[n++].n_ranks = 3;
    wrong[n++].axis = 3;
    wrong[n++].what = 7;
    wrong[n++].n = UINT32_MAX;
    wrong[n].at = 128 * 1024 - 4; /* and five bytes: one too many */
    wrong[n++].n = 5;
    wrong[n++].seq = 1; /* of turns; then of pieces */
    wrong[n++].seq = 1;
    wrong[n++].n = 32 * 1024 + 1;
    wrong[n++].n = INT32_MAX;
    wrong[n++].seq = UINT32_MAX;
    wrong[n++].seq = 0; /* taken, and nothing was sent */
    wrong[n++].seq = 1;
    wrong[n++].n = 1;
    wrong[n++].seq = 3; /* who waits for rank 3 of two */
    wrong[n++].n = 1;
    wrong[n++].what = UINT32_MAX; /* for a count outside of what ranks share */
    wrong[n++].kind = 5;
    wrong[n++].kind = 255;
    wrong[n].kind = END; /* of status OK */
    wrong[n++].n = 3;
    wrong[n].kind = END;
    wrong[n++].what = 14;
    wrong[n].kind = END;
    wrong[n].what = LF_DEVICE;
    wrong[n++].n = LF_ERR_MESSAGE_BYTES;
    for (int i = 0; i < n; i++) {
        struct rig rig = make_rig(PATIENCE_MS);
        struct lf_err err;
        struct frame end;
        char reason[LF_ERR_MESSAGE_BYTES];
        send_bytes(rig.fd, &wrong[i], sizeof(wrong[i]));
        if (end_of(&rig, &err) != LF_DEVICE) fail_msg("frame %d is taken", i);
        if (!strstr(err.message, "rank 0 got ") || !strstr(err.message, " rank 1")) fail_msg("%d: %s", i, err.message);
        assert_int_equal(shutdown(rig.fd, SHUT_WR), 0);
        assert_true(read_end(rig.fd, &end, reason));
        assert_int_equal(end.what, LF_DEVICE);
        assert_string_equal(reason, err.message);
        free_rig(&rig);
    }
}

/* A turn that comes twice would be written where the rank reads. */
static void a_peer_that_is_ahead_is_found_out(void **state)
{
    (void)state;
    struct rig rig = make_rig(PATIENCE_MS);
    struct lf_err err;
    struct frame f = frame_of(TURN);
    send_bytes(rig.fd, &f, sizeof(f));
    f.seq = 1;
    send_bytes(rig.fd, &f, sizeof(f));
    while (lf_comm_check(rig.comm, &err) == LF_OK) lf_clock_sleep_ms(1);
    assert_string_equal(err.message,
                        "rank 0 got message 1 of kind 0, 0 bytes from 0 on, of rank 1: not what comes next");
    free_rig(&rig);
}

/* There is room for two pieces of which none was taken. */
static void a_piece_for_which_there_is_no_room_is_found_out(void **state)
{
    (void)state;
    struct rig rig = make_rig(PATIENCE_MS);
    struct lf_err err;
    struct frame f = frame_of(PIECE);
    for (f.seq = 0; f.seq < 3; f.seq++) send_bytes(rig.fd, &f, sizeof(f));
    if (end_of(&rig, &err) != LF_DEVICE) fail_msg("the third is taken");
    assert_string_equal(err.message,
                        "rank 0 got message 2 of kind 1, 0 bytes from 0 on, of rank 1: not what comes next");
    free_rig(&rig);
}

static void what_is_right_is_taken_however_it_is_cut(void **state)
{
    (void)state;
    struct rig rig = make_rig(PATIENCE_MS);
    struct frame beat = frame_of(BEAT), turn = frame_of(TURN);
    char data[100], bytes[sizeof(beat) + sizeof(turn) + sizeof(data)];
    memset(data, 'x', sizeof(data));
    turn.what = 1; /* a broadcast */
    turn.bytes = turn.n = sizeof(data);
    memcpy(bytes, &beat, sizeof(beat));
    memcpy(bytes + sizeof(beat), &turn, sizeof(turn));
    memcpy(bytes + sizeof(beat) + sizeof(turn), data, sizeof(data));
    for (size_t i = 0; i < sizeof(bytes); i += 7) {
        send_bytes(rig.fd, bytes + i, LF_MIN(sizeof(bytes) - i, 7u));
        lf_clock_sleep_ms(1);
    }
    char got[100] = {0};
    lf_comm_broadcast(rig.comm, 1, got, sizeof(got));
    assert_int_equal(lf_comm_check(rig.comm, NULL), LF_OK);
    assert_memory_equal(got, data, sizeof(data));
    free_rig(&rig);
}

static void *hear(void *arg)
{
    struct lf_comm *comm = arg;
    static char message[256 * 1024];
    size_t bytes = 0;
    assert_int_equal(lf_comm_hear(comm, message, sizeof(message), &bytes, NULL), LF_DEVICE);
    return NULL;
}

/* Rank 0 has other words for the second piece: what is left would be less than nothing. */
static void a_message_that_changes_its_length_ends_the_group(void **state)
{
    (void)state;
    enum { SLOT = 128 * 1024, MESSAGE = 5 };
    static const char data[SLOT];
    struct rig rig = make_rig_of(1, PATIENCE_MS);
    struct frame f = frame_of(TURN), heard = {0};
    pthread_t thread;
    struct lf_err err;
    assert_int_equal(pthread_create(&thread, NULL, hear, rig.comm), 0);
    f.from = 0;
    f.what = MESSAGE;
    f.bytes = 200 * 1000;
    f.n = SLOT;
    send_bytes(rig.fd, &f, sizeof(f));
    send_bytes(rig.fd, data, SLOT);
    while (heard.kind != TURN || heard.seq != 1)
        assert_int_equal(recv(rig.fd, &heard, sizeof(heard), MSG_WAITALL), sizeof(heard));
    f.seq = 1;
    f.bytes = f.n = 1000;
    send_bytes(rig.fd, &f, sizeof(f));
    send_bytes(rig.fd, data, f.n);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(lf_comm_check(rig.comm, &err), LF_DEVICE);
    assert_string_equal(err.message, "rank 1 has room for a message of 200000 bytes, one of 1000 came");
    free_rig(&rig);
}

static void garbage_ends_the_group(void **state)
{
    (void)state;
    for (uint64_t trial = 0; trial < 200; trial++) {
        struct rig rig = make_rig(PATIENCE_MS);
        uint64_t bytes[64];
        for (size_t i = 0; i < LF_N_ELEMS(bytes); i++) bytes[i] = lf_random64(trial, i);
        if (trial % 2) { /* a header that is one so far */
            struct frame f = frame_of((int)(trial / 2 % 5));
            memcpy(bytes, &f, 8);
        }
        send_bytes(rig.fd, bytes, sizeof(bytes));
        if (end_of(&rig, NULL) == LF_OK) fail_msg("garbage %d is taken", (int)trial);
        free_rig(&rig);
    }
}

static void a_closed_connection_ends_a_wait_at_any_byte(void **state)
{
    (void)state;
    for (size_t n = 0; n <= sizeof(struct frame) + 50; n += 9) {
        struct rig rig = make_rig(PATIENCE_MS);
        struct lf_err err;
        char bytes[sizeof(struct frame) + 100] = {0};
        struct frame f = frame_of(TURN);
        f.what = 6;
        f.n = 100;
        memcpy(bytes, &f, sizeof(f));
        send_bytes(rig.fd, bytes, n);
        assert_int_equal(shutdown(rig.fd, SHUT_RDWR), 0);
        assert_int_equal(end_of(&rig, &err), LF_DEVICE);
        assert_string_equal(err.message, "rank 0 lost rank 1: its connection was closed");
        free_rig(&rig);
    }
}

static void a_process_that_says_nothing_is_missed_in_a_meeting_too(void **state)
{
    (void)state;
    struct rig rig = make_rig(SHORT_MS);
    struct lf_err err;
    int64_t before = lf_clock_ns();
    assert_int_equal(end_of(&rig, &err), LF_DEVICE);
    assert_true(lf_clock_ns() - before >= (SHORT_MS - 10) * LF_NS_PER_MS);
    assert_string_equal(err.message, "rank 0 has heard nothing of rank 1 for 1000 ms");
    free_rig(&rig);
}

/* It beats, and reads nothing: sends are what does not get on. */
static void a_process_that_takes_nothing_is_missed(void **state)
{
    (void)state;
    struct rig rig = make_rig(SHORT_MS);
    struct lf_err err;
    static char bytes[16 * 1024 * 1024];
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct frame f = frame_of(BEAT), turn = frame_of(TURN);
        turn.what = 1;
        turn.bytes = sizeof(bytes);
        for (int i = 0; i < 600; i++) { /* it comes for every turn that it is told of, which are few */
            send_bytes(rig.fd, i < 2 ? &turn : &f, sizeof(f));
            turn.seq++;
            lf_clock_sleep_ms(50);
        }
        _exit(0);
    }
    int64_t before = lf_clock_ns();
    lf_comm_broadcast(rig.comm, 0, bytes, sizeof(bytes));
    assert_true(lf_clock_ns() - before < 10 * LF_NS_PER_S);
    assert_int_equal(lf_comm_check(rig.comm, &err), LF_DEVICE);
    assert_non_null(strstr(err.message, "rank 0 waited 1000 ms for rank 1, to take what it is sent"));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    free_rig(&rig);
}

static void an_end_is_told_with_its_status_and_printed_as_one_line(void **state)
{
    (void)state;
    struct rig rig = make_rig(PATIENCE_MS);
    struct lf_err err;
    struct frame f = frame_of(END);
    f.what = LF_NO_MEMORY;
    f.n = 9;
    send_bytes(rig.fd, &f, sizeof(f));
    send_bytes(rig.fd, "a\nb\x1b[1m c", 9);
    assert_int_equal(end_of(&rig, &err), LF_NO_MEMORY);
    assert_string_equal(err.message, "a?b?[1m c");
    free_rig(&rig);
}

static void a_group_that_is_destroyed_has_left(void **state)
{
    (void)state;
    struct rig rig = make_rig(PATIENCE_MS);
    struct frame end;
    char reason[LF_ERR_MESSAGE_BYTES];
    lf_comm_group_abort(rig.group, LF_SHUTDOWN, "the work is done"); /* before the peer goes: that is an end, too */
    assert_int_equal(shutdown(rig.fd, SHUT_WR), 0);
    assert_true(read_end(rig.fd, &end, reason));
    assert_int_equal(end.what, LF_SHUTDOWN);
    assert_string_equal(reason, "the work is done");
    free_rig(&rig);
}

/* ---- processes ---- */

static uint64_t digest(uint64_t sum, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++) sum = (sum ^ p[i]) * 0x100000001b3u;
    return sum;
}

/* Attention of a few heads, whose sums are of exponentials: the bits of a rank's result. */
static void combine(struct rank *r)
{
    enum { ROWS = 90, HEADS = 3, DIM = 64, N = ROWS * HEADS };
    uint64_t *sums = r->ctx;
    static const size_t bytes = (size_t)N * DIM * sizeof(float);
    float *x = malloc(bytes), *y = malloc(bytes), *lse = malloc(N * sizeof(float));
    assert_true(x && y && lse);
    for (int message = 0; message < 20; message++) {
        for (size_t i = 0; i < N; i++) lse[i] = lse_of(r->rank, message, i);
        fill(x, r->rank, message, (size_t)N * DIM);
        struct lf_lse_combine_params p = {.out = y, .x = x, .lse = lse, .n_rows = ROWS, .n_heads = HEADS, .dim = DIM};
        lf_comm_lse_combine(r->comm, &p);
        sums[r->rank] = digest(sums[r->rank], y, bytes);
        lf_comm_all_reduce(r->comm, &(struct lf_all_reduce_params){.y = y, .x = x, .n = (size_t)N * DIM});
        sums[r->rank] = digest(sums[r->rank], y, bytes);
    }
    free(x);
    free(y);
    free(lse);
}

static void ranks_on_a_wire_have_the_bits_of_ranks_that_share_memory(void **state)
{
    (void)state;
    for (int n = 2; n <= 4; n++) {
        uint64_t sums[2][MOST_RANKS] = {0};
        for (int wire = 0; wire < 2; wire++) {
            ranks_on_wire = wire;
            run_all(n, combine, sums[wire]);
        }
        assert_memory_equal(sums[0], sums[1], sizeof(sums[0]));
        assert_true(sums[0][0] != 0 && sums[0][0] == sums[0][n - 1]);
    }
}

enum { SUMS_N = 1000 };

/* A rank's process, in collectives until its group ends: its exit status says how. */
static int be_a_rank(int rank, int n, const int sockets[])
{
    struct lf_comm_group *group;
    struct lf_comm *comm;
    float x[SUMS_N];
    if (lf_comm_group_create_wire(&group, n, rank, sockets, SHORT_MS, NULL) != LF_OK) return 100;
    if (lf_comm_create(&comm, group, rank, NULL) != LF_OK) return 100;
    for (size_t i = 0; i < SUMS_N; i++) x[i] = 1;
    enum lf_status status;
    while ((status = lf_comm_check(comm, NULL)) == LF_OK) {
        lf_comm_all_reduce(comm, &(struct lf_all_reduce_params){.y = x, .x = x, .n = SUMS_N});
        lf_comm_meet(comm);
    }
    lf_comm_destroy(comm);
    lf_comm_group_destroy(group);
    return (int)status;
}

static void start_processes(pid_t pids[MOST_RANKS], int n)
{
    int sockets[MOST_RANKS][MOST_RANKS];
    make_mesh(sockets, n);
    for (int i = 0; i < n; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] > 0) continue;
        for (int a = 0; a < n; a++) /* or nobody's end would be the last */
            for (int b = 0; b < n; b++)
                if (a != i && a != b) (void)close(sockets[a][b]);
        _exit(be_a_rank(i, n, sockets[i]));
    }
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            if (a != b) (void)close(sockets[a][b]);
}

static void a_process_that_is_killed_or_stopped_at_any_moment_ends_all(void **state)
{
    (void)state;
    for (int trial = 0; trial < 30; trial++) {
        int n = 2 + trial % 3, lost = trial / 3 % n, sig = trial % 10 == 9 ? SIGSTOP : SIGKILL, status;
        pid_t pids[MOST_RANKS];
        start_processes(pids, n);
        int64_t until = lf_clock_ns() + (int64_t)(lf_random64(6, (uint64_t)trial) % (20 * LF_NS_PER_MS));
        while (lf_clock_ns() < until) continue;
        assert_int_equal(kill(pids[lost], sig), 0);
        int64_t before = lf_clock_ns();
        for (int i = 0; i < n; i++) {
            if (i == lost) continue;
            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), LF_DEVICE);
        }
        assert_true(lf_clock_ns() - before < 10 * LF_NS_PER_S);
        if (sig == SIGSTOP) assert_int_equal(kill(pids[lost], SIGCONT), 0);
        assert_int_equal(waitpid(pids[lost], &status, 0), pids[lost]);
        assert_int_equal(sig == SIGSTOP ? WIFEXITED(status) && WEXITSTATUS(status) == LF_DEVICE
                                        : WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
                         1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_that_is_killed_or_stopped_at_any_moment_ends_all), /* before there are threads */
        cmocka_unit_test(a_frame_that_is_not_the_next_ends_the_group_and_the_peer_is_told),
        cmocka_unit_test(a_peer_that_is_ahead_is_found_out),
        cmocka_unit_test(a_piece_for_which_there_is_no_room_is_found_out),
        cmocka_unit_test(what_is_right_is_taken_however_it_is_cut),
        cmocka_unit_test(a_message_that_changes_its_length_ends_the_group),
        cmocka_unit_test(garbage_ends_the_group),
        cmocka_unit_test(a_closed_connection_ends_a_wait_at_any_byte),
        cmocka_unit_test(a_process_that_says_nothing_is_missed_in_a_meeting_too),
        cmocka_unit_test(a_process_that_takes_nothing_is_missed),
        cmocka_unit_test(an_end_is_told_with_its_status_and_printed_as_one_line),
        cmocka_unit_test(a_group_that_is_destroyed_has_left),
        cmocka_unit_test(ranks_on_a_wire_have_the_bits_of_ranks_that_share_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
