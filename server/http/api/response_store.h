/* Stored responses: what /v1/responses has answered, kept to be shown again and to be gone on from.
 *
 *     tenant ─▸ "resp_…" ─▸ response: its input items, and itself as JSON
 *                               └─ previous ─▸ the one it went on from, and so on: a conversation
 *
 * A response that goes on from another holds a reference to it, so a conversation is kept once, however long it grows,
 * and whole for as long as its last response is there. Who has the id of another tenant's response has nothing.
 *
 * Bounded by entries, bytes and age. Past either of the first two one goes of the tenant that holds most: the one that
 * was not used for longest. So who stores much pushes out his own first, and nobody waits: where there is no room even
 * so, a response is not stored, which is as if it had been pushed out at once.
 *
 * Any thread. One lock, held for as long as a look-up among LF_RESPONSES_N takes; the memory of texts is asked for
 * pieces under it, and nobody else is called. */
#ifndef LF_SERVER_HTTP_API_RESPONSE_STORE_H
#define LF_SERVER_HTTP_API_RESPONSE_STORE_H

#include <stdbool.h>

#include "core/hash.h"
#include "core/limits.h"
#include "core/status.h"
#include "core/str.h"

enum { LF_RESPONSE_ID_BYTES = 32 }; /* with its end */

struct lf_response;
struct lf_response_store;

/* bytes: of all of them; 0: none is ever stored. */
LF_MUST_CHECK enum lf_status lf_response_store_create(struct lf_response_store **out, uint64_t bytes,
                                                      struct lf_err *err);
/* Accepts NULL. No reference is left. */
void lf_response_store_destroy(struct lf_response_store *store);

/* One that is to be stored, with room for so many bytes of input; one reference. It goes on from previous, or from
 * nothing (NULL). tenant: [LF_SHA256_BYTES]. NULL: there is no room. */
struct lf_response *lf_response_begin(struct lf_response_store *store, const uint8_t *tenant,
                                      struct lf_response *previous, size_t n_bytes) LF_MUST_CHECK;
/* Until it is put: where its texts are written, the array of its input items and the response. Where one of them fails,
 * put does not store it. */
struct lf_buf *lf_response_input_buf(struct lf_response *r);
struct lf_buf *lf_response_text_buf(struct lf_response *r);
/* Makes room for a text of so many bytes. */
void lf_response_reserve_text(struct lf_response_store *store, struct lf_response *r, size_t n_bytes);
/* The array of its output begins with the byte of the text that was written last, and ends with the next one. */
void lf_response_begin_output(struct lf_response *r);
void lf_response_end_output(struct lf_response *r);
/* From now on it is found under its id, which is copied, and is immutable. */
void lf_response_put(struct lf_response_store *store, struct lf_response *r, const char *id, int64_t now_s);

/* With a reference; NULL: there is none. It counts as used. */
struct lf_response *lf_response_find(struct lf_response_store *store, const uint8_t *tenant, struct lf_str id,
                                     int64_t now_s) LF_MUST_CHECK;
/* Its id is free; false: there is none. Those that go on from it stay as they are. */
bool lf_response_remove(struct lf_response_store *store, const uint8_t *tenant, struct lf_str id, int64_t now_s);
/* Lets go of those whose time is over. */
void lf_response_store_expire(struct lf_response_store *store, int64_t now_s);
void lf_response_unref(struct lf_response_store *store, struct lf_response *r); /* accepts NULL */

/* ---- one that was put; the caller has a reference, and the views last as long ---- */

struct lf_str lf_response_text(const struct lf_response *r);
struct lf_str lf_response_input(const struct lf_response *r);
struct lf_str lf_response_output(const struct lf_response *r);
const struct lf_response *lf_response_previous(const struct lf_response *r); /* NULL: it began there */
/* Of the texts that a conversation has up to it. */
uint64_t lf_response_conversation_bytes(const struct lf_response *r);

#endif
