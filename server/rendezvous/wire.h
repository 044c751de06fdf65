/* The messages of a rendezvous as bytes, and the proofs in them (rendezvous.h says who sends which when).
 *
 *     head    4 B magic "LFrv", 2 B version, 2 B type, 4 B length of the body
 *     nonce   32 B                             HELLO CHALLENGE
 *     ranks   4 B caller, 4 B called, 4 B n    HELLO ANSWER (the door's own view)
 *     code    4 B                              ANSWER (enum lf_answer), END (enum lf_status)
 *     text    1,024 B, padded with zeros       PROOF and ANSWER (identity), END (the reason)
 *     address 2 B family 4 or 6, 2 B port, 16 B IP, IPv4 in the first 4      PROOF
 *     table   16 such addresses, zeros for rank 0 and ranks that are not     TABLE
 *     mac     32 B                             PROOF ANSWER TABLE READY GO END
 *
 * Integers are little-endian. A body has the fields of its type in this order and no others, so the type decides the
 * length: a reader checks the head and then knows how many bytes come, and what has another length is foreign.
 * Pure functions, any thread. */
#ifndef LF_SERVER_RENDEZVOUS_WIRE_H
#define LF_SERVER_RENDEZVOUS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hash.h"
#include "core/limits.h"
#include "server/rendezvous/rendezvous.h"

enum {
    LF_WIRE_VERSION = 1,
    LF_WIRE_HEAD_BYTES = 12,
    LF_WIRE_NONCE_BYTES = 32,
    LF_WIRE_IP_BYTES = 16,
    LF_WIRE_BYTES_MOST = 1088 /* a PROOF, with its head */
};

enum lf_wire_type {
    LF_WIRE_HELLO = 1,
    LF_WIRE_CHALLENGE,
    LF_WIRE_PROOF,
    LF_WIRE_ANSWER,
    LF_WIRE_DENIED,
    LF_WIRE_TABLE,
    LF_WIRE_READY,
    LF_WIRE_GO,
    LF_WIRE_END,
    LF_WIRE_TYPES_N
};

/* What a door says to who has proven the secret. */
enum lf_answer { LF_ANSWER_WELCOME, LF_ANSWER_IDENTITY, LF_ANSWER_COUNT, LF_ANSWER_RANK, LF_ANSWER_TAKEN };

struct lf_wire_address {
    uint16_t family; /* 4, 6, or 0 for none */
    uint16_t port;
    uint8_t ip[LF_WIRE_IP_BYTES];
};

/* Of the fields those of the type count. */
struct lf_message {
    enum lf_wire_type type;
    uint8_t nonce[LF_WIRE_NONCE_BYTES];
    int rank, to, n_ranks;
    int code;
    char text[LF_IDENTITY_BYTES + 1];
    struct lf_wire_address address;
    struct lf_wire_address table[LF_RANKS_N];
    uint8_t mac[LF_SHA256_BYTES];
};

/* What both sides of a connection know once they have challenged each other. */
struct lf_transcript {
    uint8_t caller_nonce[LF_WIRE_NONCE_BYTES], door_nonce[LF_WIRE_NONCE_BYTES];
    int rank, to, n_ranks; /* as the caller said */
};

enum lf_wire_role { LF_WIRE_CALLER, LF_WIRE_DOOR };

struct lf_secret {
    const uint8_t *bytes; /* borrowed */
    size_t n;
};

/* Bytes of a message with its head. */
size_t lf_wire_bytes(enum lf_wire_type type);

enum lf_wire_check { LF_WIRE_KNOWN, LF_WIRE_FOREIGN, LF_WIRE_OTHER_VERSION };
/* KNOWN: *type, and the length is that type's. OTHER_VERSION: *version; the rest is not looked at. */
enum lf_wire_check lf_wire_head(enum lf_wire_type *type, int *version, const uint8_t head[LF_WIRE_HEAD_BYTES]);
/* The message whose head is KNOWN, from all its bytes. False where a field cannot be: a text with bytes behind its
 * end, control characters or broken UTF-8, numbers beyond int, an address of no family. */
bool lf_wire_get(struct lf_message *out, const uint8_t *bytes);
/* Writes lf_wire_bytes(m->type) bytes and returns how many. */
size_t lf_wire_put(uint8_t out[LF_WIRE_BYTES_MOST], const struct lf_message *m);

/* Sets the mac of a message that this role sends on the connection. */
void lf_wire_sign(struct lf_message *m, const struct lf_transcript *t, enum lf_wire_role role, struct lf_secret secret);
/* Whether it is from that role, in constant time. */
bool lf_wire_verify(const struct lf_message *m, const struct lf_transcript *t, enum lf_wire_role role,
                    struct lf_secret secret);

#endif
