#include "server/rendezvous/wire.h"

#include <limits.h>
#include <string.h>

#include "core/check.h"
#include "core/le.h"
#include "core/str.h"

enum {
    NONCE = 1 << 0,
    RANKS = 1 << 1,
    CODE = 1 << 2,
    TEXT = 1 << 3,
    ADDRESS = 1 << 4,
    TABLE = 1 << 5,
    MAC = 1 << 6,
    ADDRESS_BYTES = 2 + 2 + LF_WIRE_IP_BYTES,
    INT_BYTES = 4,
    LABEL_BYTES = 8
};

static const char magic[4] = {'L', 'F', 'r', 'v'};

static const unsigned fields_of[LF_WIRE_TYPES_N] = {
    [LF_WIRE_HELLO] = NONCE | RANKS,
    [LF_WIRE_CHALLENGE] = NONCE,
    [LF_WIRE_PROOF] = TEXT | ADDRESS | MAC,
    [LF_WIRE_ANSWER] = RANKS | CODE | TEXT | MAC,
    [LF_WIRE_DENIED] = 0,
    [LF_WIRE_TABLE] = TABLE | MAC,
    [LF_WIRE_READY] = MAC,
    [LF_WIRE_GO] = MAC,
    [LF_WIRE_END] = CODE | TEXT | MAC,
};

static size_t body_bytes(enum lf_wire_type type)
{
    unsigned f = fields_of[type];
    size_t n = 0;
    if (f & NONCE) n += LF_WIRE_NONCE_BYTES;
    if (f & RANKS) n += 3 * INT_BYTES;
    if (f & CODE) n += INT_BYTES;
    if (f & TEXT) n += LF_IDENTITY_BYTES;
    if (f & ADDRESS) n += ADDRESS_BYTES;
    if (f & TABLE) n += LF_RANKS_N * ADDRESS_BYTES;
    if (f & MAC) n += LF_SHA256_BYTES;
    return n;
}

size_t lf_wire_bytes(enum lf_wire_type type)
{
    size_t n = LF_WIRE_HEAD_BYTES + body_bytes(type);
    LF_ASSERT(n <= LF_WIRE_BYTES_MOST);
    return n;
}

enum lf_wire_check lf_wire_head(enum lf_wire_type *type, int *version, const uint8_t head[LF_WIRE_HEAD_BYTES])
{
    if (memcmp(head, magic, sizeof magic) != 0) return LF_WIRE_FOREIGN;
    int version_read = (int)lf_get_le(head + 4, 2);
    if (version_read != LF_WIRE_VERSION) {
        *version = version_read;
        return LF_WIRE_OTHER_VERSION;
    }
    uint64_t t = lf_get_le(head + 6, 2), n = lf_get_le(head + 8, 4);
    if (t < LF_WIRE_HELLO || t >= LF_WIRE_TYPES_N || n != body_bytes((enum lf_wire_type)t)) return LF_WIRE_FOREIGN;
    *type = (enum lf_wire_type)t;
    return LF_WIRE_KNOWN;
}

static void put_int(uint8_t **at, int x)
{
    lf_put_le(*at, (uint32_t)x, INT_BYTES);
    *at += INT_BYTES;
}

static bool get_int(int *x, const uint8_t **at)
{
    uint64_t read = lf_get_le(*at, INT_BYTES);
    *at += INT_BYTES;
    *x = (int)LF_MIN(read, (uint64_t)INT_MAX);
    return read <= INT_MAX;
}

static void put_address(uint8_t **at, const struct lf_wire_address *a)
{
    lf_put_le(*at, a->family, 2);
    lf_put_le(*at + 2, a->port, 2);
    memcpy(*at + 4, a->ip, sizeof a->ip);
    *at += ADDRESS_BYTES;
}

static bool get_address(struct lf_wire_address *a, const uint8_t **at, bool may_be_none)
{
    a->family = (uint16_t)lf_get_le(*at, 2);
    a->port = (uint16_t)lf_get_le(*at + 2, 2);
    memcpy(a->ip, *at + 4, sizeof a->ip);
    *at += ADDRESS_BYTES;
    if (a->family == 0) return may_be_none && a->port == 0;
    return (a->family == 4 || a->family == 6) && a->port != 0;
}

/* A text ends up in messages and logs. */
static bool get_text(char text[LF_IDENTITY_BYTES + 1], const uint8_t **at)
{
    memcpy(text, *at, LF_IDENTITY_BYTES);
    text[LF_IDENTITY_BYTES] = 0;
    *at += LF_IDENTITY_BYTES;
    size_t n = strlen(text);
    for (size_t i = 0; i < LF_IDENTITY_BYTES; i++)
        if (i < n ? (unsigned char)text[i] < 0x20 || text[i] == 0x7f : text[i] != 0) return false;
    return lf_utf8_valid(lf_str_from(text, n));
}

bool lf_wire_get(struct lf_message *out, const uint8_t *bytes)
{
    const uint8_t *at = bytes + LF_WIRE_HEAD_BYTES;
    *out = (struct lf_message){.type = (enum lf_wire_type)lf_get_le(bytes + 6, 2)};
    unsigned f = fields_of[out->type];
    bool ok = true;
    if (f & NONCE) {
        memcpy(out->nonce, at, sizeof out->nonce);
        at += sizeof out->nonce;
    }
    if (f & RANKS) {
        ok &= get_int(&out->rank, &at);
        ok &= get_int(&out->to, &at);
        ok &= get_int(&out->n_ranks, &at);
    }
    if (f & CODE) ok &= get_int(&out->code, &at);
    if (f & TEXT) ok &= get_text(out->text, &at);
    if (f & ADDRESS) ok &= get_address(&out->address, &at, false);
    for (int r = 0; f & TABLE && r < LF_RANKS_N; r++) ok &= get_address(&out->table[r], &at, true);
    if (f & MAC) memcpy(out->mac, at, sizeof out->mac);
    return ok;
}

size_t lf_wire_put(uint8_t out[LF_WIRE_BYTES_MOST], const struct lf_message *m)
{
    unsigned f = fields_of[m->type];
    uint8_t *at = out + LF_WIRE_HEAD_BYTES;
    memcpy(out, magic, sizeof magic);
    lf_put_le(out + 4, LF_WIRE_VERSION, 2);
    lf_put_le(out + 6, (uint64_t)m->type, 2);
    lf_put_le(out + 8, body_bytes(m->type), 4);
    if (f & NONCE) {
        memcpy(at, m->nonce, sizeof m->nonce);
        at += sizeof m->nonce;
    }
    if (f & RANKS) {
        put_int(&at, m->rank);
        put_int(&at, m->to);
        put_int(&at, m->n_ranks);
    }
    if (f & CODE) put_int(&at, m->code);
    if (f & TEXT) {
        size_t n = strnlen(m->text, LF_IDENTITY_BYTES);
        memset(at, 0, LF_IDENTITY_BYTES);
        memcpy(at, m->text, n);
        at += LF_IDENTITY_BYTES;
    }
    if (f & ADDRESS) put_address(&at, &m->address);
    for (int r = 0; f & TABLE && r < LF_RANKS_N; r++) put_address(&at, &m->table[r]);
    if (f & MAC) {
        memcpy(at, m->mac, sizeof m->mac);
        at += sizeof m->mac;
    }
    LF_ASSERT((size_t)(at - out) == lf_wire_bytes(m->type));
    return (size_t)(at - out);
}

/* HMAC(secret, role ‖ nonces ‖ ranks ‖ SHA-256(the message up to its mac)). */
static void mac_of(uint8_t out[LF_SHA256_BYTES], const struct lf_message *m, const struct lf_transcript *t,
                   enum lf_wire_role role, struct lf_secret secret)
{
    static const char labels[][LABEL_BYTES] = {[LF_WIRE_CALLER] = "caller", [LF_WIRE_DOOR] = "door"};
    uint8_t message[LF_WIRE_BYTES_MOST],
        proven[LABEL_BYTES + 2 * LF_WIRE_NONCE_BYTES + 3 * INT_BYTES + LF_SHA256_BYTES];
    size_t n = lf_wire_put(message, m) - LF_SHA256_BYTES;
    uint8_t *at = proven;
    memcpy(at, labels[role], LABEL_BYTES);
    memcpy(at + LABEL_BYTES, t->caller_nonce, LF_WIRE_NONCE_BYTES);
    memcpy(at + LABEL_BYTES + LF_WIRE_NONCE_BYTES, t->door_nonce, LF_WIRE_NONCE_BYTES);
    at += LABEL_BYTES + 2 * LF_WIRE_NONCE_BYTES;
    put_int(&at, t->rank);
    put_int(&at, t->to);
    put_int(&at, t->n_ranks);
    lf_sha256(message, n, at);
    lf_hmac_sha256(secret.bytes, secret.n, proven, sizeof proven, out);
}

void lf_wire_sign(struct lf_message *m, const struct lf_transcript *t, enum lf_wire_role role, struct lf_secret secret)
{
    LF_ASSERT(fields_of[m->type] & MAC);
    mac_of(m->mac, m, t, role, secret);
}

bool lf_wire_verify(const struct lf_message *m, const struct lf_transcript *t, enum lf_wire_role role,
                    struct lf_secret secret)
{
    uint8_t mac[LF_SHA256_BYTES];
    LF_ASSERT(fields_of[m->type] & MAC);
    mac_of(mac, m, t, role, secret);
    return lf_equal_ct(mac, m->mac, sizeof mac);
}
