#include "server/rendezvous/caller.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/check.h"
#include "core/log.h"
#include "server/rendezvous/identity.h"

enum { FIRST_PAUSE_MS = 10, LAST_PAUSE_MS = 250 };

/* Whether another attempt may end better: LF_IO is a connection that nobody took or that was dropped. */
static bool is_passing(enum lf_status status)
{
    return status == LF_IO || status == LF_NOT_FOUND;
}

static enum lf_status explain_refusal(const struct lf_caller *c, int to, const struct lf_message *m, struct lf_err *err)
{
    char text[LF_ERR_MESSAGE_BYTES - 64], who[32];
    snprintf(who, sizeof who, "rank %d", to);
    switch ((enum lf_answer)m->code) {
    case LF_ANSWER_IDENTITY:
        lf_identity_compare(text, sizeof text, who, m->text, "this rank", c->identity);
        return lf_fail(err, LF_UNSUPPORTED, "another build, model or split: %s", text);
    case LF_ANSWER_COUNT:
        return lf_fail(err, LF_INVALID, "rank %d expects %d ranks, this rank was told of %d", to, m->n_ranks,
                       c->n_ranks);
    case LF_ANSWER_TAKEN:
        return lf_fail(err, LF_INVALID, "rank %d is in already: two processes have that number", c->rank);
    case LF_ANSWER_RANK:
        return lf_fail(err, LF_INVALID, "rank %d was called and rank %d of %d answered", to, m->to, m->n_ranks);
    case LF_ANSWER_WELCOME:
        break;
    }
    return lf_fail(err, LF_CORRUPT, "rank %d answered with a code that is not known: %d", to, m->code);
}

/* What a failed read means to a person. */
static enum lf_status explain_read(enum lf_status status, int to, int version, struct lf_err *err)
{
    if (status == LF_CORRUPT)
        return lf_fail(err, LF_INVALID, "what answers in place of rank %d is no LongFlash rank", to);
    if (status == LF_UNSUPPORTED)
        return lf_fail(err, status, "rank %d speaks version %d of the rendezvous, this rank version %d", to, version,
                       LF_WIRE_VERSION);
    if (status == LF_IO) return lf_fail(err, status, "rank %d took the connection and dropped it", to);
    return lf_fail(err, status, "rank %d took the connection and did not answer", to);
}

/* A message of this type, or why not. */
static enum lf_status expect(const struct lf_member *m, enum lf_wire_type type, struct lf_message *got,
                             const struct lf_wait *wait, struct lf_err *err)
{
    int version = 0, to = m->transcript.to;
    enum lf_status status = lf_stream_take(m->fd, got, &version, wait);
    if (status != LF_OK) return explain_read(status, to, version, err);
    if (got->type == LF_WIRE_DENIED)
        return lf_fail(err, LF_INVALID,
                       "rank %d refused: the secret differs, or this is no LongFlash rank of its version", to);
    return got->type == type ? LF_OK : explain_read(LF_CORRUPT, to, version, err);
}

static enum lf_status say(const struct lf_member *m, const struct lf_message *what, const struct lf_wait *wait,
                          struct lf_err *err)
{
    enum lf_status status = lf_stream_put(m->fd, what, wait);
    return status == LF_OK ? LF_OK : explain_read(status, m->transcript.to, 0, err);
}

static enum lf_status be_challenged(struct lf_member *m, const struct lf_wait *wait, struct lf_err *err)
{
    struct lf_transcript *t = &m->transcript;
    struct lf_message hello = {.type = LF_WIRE_HELLO, .rank = t->rank, .to = t->to, .n_ranks = t->n_ranks}, got;
    if (!lf_random_bytes(t->caller_nonce, sizeof t->caller_nonce))
        return lf_fail(err, LF_UNSUPPORTED, "the system has no random bytes for a challenge");
    memcpy(hello.nonce, t->caller_nonce, sizeof hello.nonce);
    enum lf_status status = say(m, &hello, wait, err);
    if (status == LF_OK) status = expect(m, LF_WIRE_CHALLENGE, &got, wait, err);
    if (status == LF_OK) memcpy(t->door_nonce, got.nonce, sizeof got.nonce);
    return status;
}

static enum lf_status prove(struct lf_caller *c, struct lf_member *m, const struct lf_wait *wait, struct lf_err *err)
{
    struct lf_message proof = {.type = LF_WIRE_PROOF, .address = c->listens_at}, got;
    snprintf(proof.text, sizeof proof.text, "%s", c->identity);
    lf_wire_sign(&proof, &m->transcript, LF_WIRE_CALLER, c->secret);
    enum lf_status status = say(m, &proof, wait, err);
    if (status == LF_OK) status = expect(m, LF_WIRE_ANSWER, &got, wait, err);
    if (status != LF_OK) return status;
    if (!lf_wire_verify(&got, &m->transcript, LF_WIRE_DOOR, c->secret))
        return lf_fail(err, LF_INVALID, "what answers in place of rank %d does not know the secret", m->transcript.to);
    if (got.code != LF_ANSWER_WELCOME) return explain_refusal(c, m->transcript.to, &got, err);
    return LF_OK;
}

/* One attempt at one address. */
static enum lf_status call_once(struct lf_member *out, struct lf_caller *c, int to, const struct lf_address *at,
                                const struct lf_wait *wait, struct lf_err *err)
{
    struct lf_member m = {.fd = -1, .transcript = {.rank = c->rank, .to = to, .n_ranks = c->n_ranks}};
    bool opens = c->listener < 0;
    enum lf_status status = lf_address_connect(&m.fd, at, wait, err);
    if (status != LF_OK) return status;
    if (opens) status = lf_address_listen_beside(&c->listener, &c->listens_at, m.fd, err);
    if (status == LF_OK) status = be_challenged(&m, wait, err);
    if (status == LF_OK) status = prove(c, &m, wait, err);
    if (status == LF_OK) {
        *out = m;
        return LF_OK;
    }
    close(m.fd);
    if (opens && c->listener >= 0) {
        close(c->listener);
        c->listener = -1;
    }
    return status;
}

/* Pauses double, and are drawn between half and all: ranks that were dropped together do not come back together. */
static enum lf_status pause_between(int *pause_ms, const struct lf_wait *wait)
{
    uint8_t random = 0;
    (void)lf_random_bytes(&random, sizeof random);
    int ms = *pause_ms / 2 + *pause_ms / 2 * random / 255;
    *pause_ms = LF_MIN(2 * *pause_ms, LAST_PAUSE_MS);
    return lf_wait_sleep(wait, LF_MAX(ms, 1));
}

/* What an attempt came to stays in err when the time is over. */
static enum lf_status fail_ended(enum lf_status status, int to, struct lf_err *err)
{
    if (status == LF_CANCELLED) return lf_fail(err, status, "stopped while calling rank %d", to);
    if (status == LF_SHUTDOWN) return lf_fail(err, status, "rank 0 has something to say");
    return lf_fail_within(err, status, "rank %d was not reached in time", to);
}

static enum lf_status call_each(struct lf_member *out, struct lf_caller *c, const struct lf_host_port *at,
                                const struct lf_wait *wait, struct lf_err *err)
{
    struct lf_address addresses[LF_ADDRESSES_N];
    int n = 0;
    enum lf_status status = lf_address_resolve(addresses, &n, at, err);
    for (int i = 0; status == LF_OK && i < n; i++) {
        status = call_once(out, c, 0, &addresses[i], wait, err);
        if (status != LF_IO || i == n - 1) return status;
        status = LF_OK;
    }
    return status;
}

enum lf_status lf_call_first(struct lf_member *out, struct lf_caller *caller, const struct lf_host_port *at,
                             const struct lf_wait *wait, struct lf_err *err)
{
    int pause_ms = FIRST_PAUSE_MS;
    enum lf_status reason = LF_OK;
    struct lf_err last = {0};
    for (;;) {
        enum lf_status status = call_each(out, caller, at, wait, &last);
        if (err) *err = last;
        if (status == LF_NOT_FOUND && reason != status) LF_WARN("rendezvous: %s; trying again", last.message);
        if (status == LF_OK || (!is_passing(status) && status != LF_TIMEOUT && status != LF_CANCELLED)) return status;
        reason = is_passing(status) ? status : reason;
        if (is_passing(status)) status = pause_between(&pause_ms, wait);
        if (status == LF_TIMEOUT && reason == LF_NOT_FOUND) return reason;
        if (status != LF_OK) return fail_ended(status, 0, err);
    }
}

enum lf_status lf_call_rank(struct lf_member *out, struct lf_caller *caller, int rank, const struct lf_address *at,
                            const struct lf_wait *wait, struct lf_err *err)
{
    int pause_ms = FIRST_PAUSE_MS;
    for (;;) {
        enum lf_status status = call_once(out, caller, rank, at, wait, err);
        if (is_passing(status))
            status = pause_between(&pause_ms, wait);
        else if (status == LF_OK)
            return LF_OK;
        if (status == LF_TIMEOUT || status == LF_CANCELLED || status == LF_SHUTDOWN)
            return fail_ended(status, rank, err);
        if (status != LF_OK) return status;
    }
}
