/* Fuzzing the messages of a rendezvous (server/rendezvous/wire.h), and the door that reads them from who has proven
 * nothing. The door's listener is a local socket; the input is what one caller does, an op a byte:
 *
 *     0  n bytes     throws these bytes, n being the next one
 *     1  a b c       a right HELLO as rank a, to rank b, of c ranks
 *     2  n text      a right PROOF with that identity, where there was a challenge
 *     3  n at xor    the same, one byte changed
 *     4              goes away and comes again
 *
 * Nobody is in who has not proven the secret with the door's own number of ranks and identity. */
#include <sys/socket.h>
#include <sys/un.h>

#include "core/clock.h"
#include "core/log.h"
#include "server/rendezvous/door.h"
#include "tests/fuzz/fuzz.h"

enum { RANKS_N = 3, OPS_N = 6, WAIT_NS = 300 * 1000 };

static const char identity[] = "id";
static const struct lf_secret secret = {(const uint8_t *)"sixteen bytes or more", 21};

struct caller {
    struct sockaddr_un at;
    socklen_t n_at;
    int fd;
    bool is_challenged, may_be_in[LF_RANKS_N];
    struct lf_transcript t;
};

struct input {
    const uint8_t *data;
    size_t size;
};

static uint8_t next(struct input *in)
{
    if (in->size == 0) return 0;
    in->size--;
    return *in->data++;
}

static void check_wire(const uint8_t *data, size_t size)
{
    uint8_t bytes[LF_WIRE_BYTES_MOST] = {0}, again[LF_WIRE_BYTES_MOST];
    enum lf_wire_type type;
    int version;
    struct lf_message m;
    memcpy(bytes, data, LF_MIN(size, sizeof bytes));
    if (lf_wire_head(&type, &version, bytes) != LF_WIRE_KNOWN) return;
    LF_ASSERT(lf_wire_bytes(type) <= sizeof bytes);
    if (!lf_wire_get(&m, bytes)) return;
    LF_ASSERT(m.type == type && lf_wire_put(again, &m) == lf_wire_bytes(type));
    LF_ASSERT(memcmp(bytes, again, lf_wire_bytes(type)) == 0);
}

static struct lf_door *open_door(struct caller *c)
{
    struct lf_door *door = NULL;
    struct lf_door_opts opts = {.n_ranks = RANKS_N, .secret = secret, .identity = identity};
    c->at = (struct sockaddr_un){.sun_family = AF_UNIX};
    c->n_at = sizeof c->at;
    opts.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    LF_ASSERT(opts.listener >= 0);
    /* a name of the kernel's choice, of no file */
    LF_ASSERT(bind(opts.listener, (const struct sockaddr *)&c->at, sizeof(sa_family_t)) == 0);
    LF_ASSERT(listen(opts.listener, 8) == 0);
    LF_ASSERT(getsockname(opts.listener, (struct sockaddr *)&c->at, &c->n_at) == 0);
    LF_ASSERT(lf_door_open(&door, &opts, NULL) == LF_OK);
    return door;
}

static void come(struct caller *c)
{
    if (c->fd >= 0) close(c->fd);
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    LF_ASSERT(c->fd >= 0);
    LF_ASSERT(connect(c->fd, (const struct sockaddr *)&c->at, c->n_at) == 0);
    c->is_challenged = false;
}

/* The door gone is no error: it closes who does wrong. */
static void throw_bytes(struct caller *c, const uint8_t *bytes, size_t n)
{
    (void)!send(c->fd, bytes, n, MSG_NOSIGNAL);
}

static void say_hello(struct caller *c, struct input *in)
{
    struct lf_message m = {.type = LF_WIRE_HELLO};
    uint8_t bytes[LF_WIRE_BYTES_MOST];
    m.rank = next(in);
    m.to = next(in);
    m.n_ranks = next(in);
    if (!c->is_challenged) c->t = (struct lf_transcript){.rank = m.rank, .to = m.to, .n_ranks = m.n_ranks};
    throw_bytes(c, bytes, lf_wire_put(bytes, &m));
}

static void prove(struct caller *c, struct input *in, bool is_changed)
{
    struct lf_message m = {.type = LF_WIRE_PROOF, .address = {.family = 4, .port = 1}};
    uint8_t bytes[LF_WIRE_BYTES_MOST];
    size_t len = next(in);
    for (size_t i = 0; i < len && in->size > 0; i++) m.text[i] = (char)next(in);
    lf_wire_sign(&m, &c->t, LF_WIRE_CALLER, secret);
    size_t n = lf_wire_put(bytes, &m);
    uint8_t change = 0;
    if (is_changed) bytes[next(in) * n / 256] ^= change = next(in);
    const struct lf_transcript *t = &c->t;
    if (c->is_challenged && !change && t->n_ranks == RANKS_N && t->to == 0 && t->rank > 0 && t->rank < RANKS_N &&
        strcmp(m.text, identity) == 0)
        c->may_be_in[t->rank] = true;
    throw_bytes(c, bytes, n);
}

static void act(struct caller *c, struct input *in)
{
    switch (next(in) % 5) {
    case 0: {
        size_t n = next(in);
        if (n > in->size) n = in->size;
        throw_bytes(c, in->data, n);
        in->data += n;
        in->size -= n;
        break;
    }
    case 1:
        say_hello(c, in);
        break;
    case 2:
        prove(c, in, false);
        break;
    case 3:
        prove(c, in, true);
        break;
    default:
        come(c);
        break;
    }
}

static void hear(struct caller *c)
{
    struct lf_message m;
    int version;
    const struct lf_wait wait = {.watch_fd = -1}; /* what is there, or nothing */
    while (lf_stream_take(c->fd, &m, &version, &wait) == LF_OK) {
        if (m.type != LF_WIRE_CHALLENGE) continue;
        memcpy(c->t.door_nonce, m.nonce, sizeof m.nonce);
        c->is_challenged = true;
    }
}

static void check_members(struct lf_member members[LF_RANKS_N], const struct caller *c)
{
    for (int r = 0; r < LF_RANKS_N; r++) {
        if (members[r].fd < 0) continue;
        LF_ASSERT(c->may_be_in[r]);
        close(members[r].fd);
        members[r].fd = -1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct caller c = {.fd = -1};
    struct input in = {data, size};
    struct lf_member members[LF_RANKS_N];
    lf_log_set_level(LF_LOG_ERROR);
    check_wire(data, size);
    struct lf_door *door = open_door(&c);
    come(&c);
    for (int r = 0; r < LF_RANKS_N; r++) members[r].fd = -1;
    for (int i = 0; i < OPS_N && in.size > 0; i++) {
        act(&c, &in);
        const struct lf_wait wait = {.deadline_ns = lf_clock_ns() + WAIT_NS, .watch_fd = -1};
        enum lf_status status = lf_door_wait(door, members, &wait, NULL);
        LF_ASSERT(status == LF_OK || status == LF_TIMEOUT);
        check_members(members, &c);
        hear(&c);
    }
    lf_door_close(door);
    close(c.fd);
    return 0;
}
