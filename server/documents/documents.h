/* Documents: texts with names, put once and asked about by many requests.
 *
 *     tenant ─┬─ "contract" ─▸ document: text, system prompt, date │ state, hits, end of life
 *             └─ "minutes"  ─▸ document
 *
 * A document's text never changes: putting another one under its name makes a new document, and the old one stays for
 * as long as somebody holds a reference to it. So a request that reads a text holds no lock, and a name that is deleted
 * or taken over meanwhile disturbs nobody.
 *
 * A name belongs to its tenant. A tenant's documents lie in a list of its own and are found by a keyed hash of tenant
 * and name, so neither an answer nor its time tells what others have. All share one budget of documents and bytes; a
 * tenant that has a key may have three quarters of either, and so many tokens.
 *
 * What a document's tokens are, and where they are kept, is nobody's business here: who reads one into the cache says
 * how far that is (lf_document_read, lf_document_end). Nor is a disk: keeper.h keeps documents over restarts.
 *
 * Any thread. One lock, held for as long as a look-up takes, a list as long as it is; the memory of texts is asked for
 * pieces under it, and nobody else is called. */
#ifndef LF_SERVER_DOCUMENTS_DOCUMENTS_H
#define LF_SERVER_DOCUMENTS_DOCUMENTS_H

#include <stdbool.h>

#include "core/hash.h"
#include "core/limits.h"
#include "core/pin.h"
#include "core/status.h"
#include "core/str.h"

struct lf_document;
struct lf_documents;
struct lf_text_memory;

enum { LF_DOCUMENT_ETAG_BYTES = 32 + 2 };

enum lf_document_state { LF_DOCUMENT_READING, LF_DOCUMENT_READY, LF_DOCUMENT_FAILED };

/* What a document says. Borrowed where it is given, the document's own where it is asked for. */
struct lf_document_content {
    struct lf_str text;   /* valid UTF-8 */
    struct lf_str system; /* the system prompt that goes with it; empty: none */
    struct lf_str tools;  /* definitions of tools that go with it, a JSON array; empty: none */
};

/* Its hash, as an ETag has it: in quotes, terminated. */
struct lf_document_etag {
    char text[LF_DOCUMENT_ETAG_BYTES + 1];
};
struct lf_document_etag lf_document_etag(const struct lf_document_content *content);

/* One document at one moment. Views are borrowed for as long as the document is. */
struct lf_document_view {
    struct lf_str name;
    struct lf_document_etag etag;
    enum lf_document_state state;
    const char *reason;           /* static text; of LF_DOCUMENT_FAILED */
    int64_t n_tokens, n_read;     /* of its rendered beginning; how many of them have been read */
    int64_t eta_ms;               /* of LF_DOCUMENT_READING: until it is ready, 0: not known */
    int64_t created_s, expires_s; /* unix time; expires_s 0: never */
    int64_t n_hits;               /* requests that used it */
    size_t n_bytes;               /* of its text */
    enum lf_pin pin;              /* where its tokens stay */
    const uint8_t *keys; /* [n_keys, LF_SHA256_BYTES] of its blocks, as the cache knows them; NULL: not known yet */
    int n_keys;
};

/* 1 to LF_DOCUMENT_NAME_BYTES letters, digits, dots, underscores and dashes. */
bool lf_document_is_name(struct lf_str name);

struct lf_documents_opts {
    int n_most;
    struct lf_text_memory *memory; /* borrowed: where they lie, and how many bytes they may have */
    uint64_t bytes_most;           /* its budget */
    int64_t tokens_most;           /* of the documents of one that has a key; 0: any number */
};

LF_MUST_CHECK enum lf_status lf_documents_create(struct lf_documents **out, const struct lf_documents_opts *opts,
                                                 struct lf_err *err);
/* Accepts NULL. No reference is left. */
void lf_documents_destroy(struct lf_documents *docs);

/* Where a name is: whose, and when it is asked for, for a document may be past its end. */
struct lf_document_key {
    const uint8_t *tenant; /* [LF_SHA256_BYTES], all zero: nobody's in particular */
    struct lf_str name;
    int64_t now_s; /* unix time */
};

enum lf_document_verdict {
    LF_DOCUMENT_NEW,      /* it was, or would be, put; what had the name before is no more */
    LF_DOCUMENT_SAME,     /* it is there with this content, read or being read: nothing to do but its new end of life */
    LF_DOCUMENT_IN_USE,   /* the name has another content, and the condition does not say that it may go */
    LF_DOCUMENT_NO_MATCH, /* the condition names another content than there is */
    LF_DOCUMENT_FULL,     /* no room for one more, or for so many bytes, now */
    LF_DOCUMENT_QUOTA,    /* its tenant would have more tokens than it may */
    LF_DOCUMENT_MANY      /* its tenant would have more documents than it may */
};

struct lf_document_put {
    struct lf_document_key key; /* the name is a valid one */
    const struct lf_document_content *content;
    struct lf_str if_match; /* of an If-Match header: ETags, or *; empty: none */
    int64_t expires_s;      /* unix time; 0: never */
    int64_t n_tokens;
    int n_most;          /* documents that its tenant may have; 0: no number of its own */
    int64_t tokens_most; /* tokens of these; 0: as many as any */
    int64_t created_s;   /* 0: now */
    enum lf_pin pin;
    const uint8_t *keys; /* [n_keys, LF_SHA256_BYTES]; NULL: room for n_keys that are set later */
    int n_keys;
    uint64_t file; /* what it is kept in over restarts: a number of the caller's; 0: nothing */
};

/* What putting it would come to, FULL and QUOTA aside: for who has work to do before. SAME: *out is the document, as
 * below. */
enum lf_document_verdict lf_documents_check(struct lf_documents *docs, const struct lf_document_put *put,
                                            struct lf_document **out);
/* Whether its tokens would be within its tenant's quota. *n_tokens: those that the tenant has, what has the name aside.
 */
bool lf_documents_has_quota(struct lf_documents *docs, const struct lf_document_put *put, int64_t *n_tokens);
/* NEW and SAME: *out is the document, with a reference. A new one is being read: who put it says how that goes. One
 * that was there ends when it did (lf_document_renew). *left: the file of one whose name this took, whatever the
 * verdict; 0: none. */
enum lf_document_verdict lf_documents_put(struct lf_documents *docs, const struct lf_document_put *put,
                                          struct lf_document **out, uint64_t *left);
/* With a reference; NULL: there is none. */
struct lf_document *lf_documents_find(struct lf_documents *docs, const struct lf_document_key *key) LF_MUST_CHECK;
/* NEW: it is gone now, and *left is its file. if_match as in a put; false: there is none, *verdict is not written. */
bool lf_documents_remove(struct lf_documents *docs, const struct lf_document_key *key, struct lf_str if_match,
                         enum lf_document_verdict *verdict, uint64_t *left);
/* Shows a tenant's documents, oldest first, under the lock: show calls nobody here. */
void lf_documents_list(struct lf_documents *docs, const uint8_t *tenant, int64_t now_s,
                       void (*show)(void *ctx, const struct lf_document_view *view), void *ctx);
/* All tenants' documents, each tenant's oldest first, with a reference each; under the lock. */
void lf_documents_each(struct lf_documents *docs, void (*take)(void *ctx, struct lf_document *doc), void *ctx);
/* Lets go of those whose time is over, as far as there is room for their files: returns how many of these there are.
 * Cheap while there is none. */
int lf_documents_expire(struct lf_documents *docs, int64_t now_s, uint64_t *files, int n_most);
/* How many of all are pinned. */
int lf_documents_n_pinned(struct lf_documents *docs);
/* All tenants': how many there are, and the bytes of their texts. */
void lf_documents_count(struct lf_documents *docs, int *n, uint64_t *n_bytes);

/* ---- one document; the caller has a reference ---- */

struct lf_document *lf_document_ref(struct lf_documents *docs, struct lf_document *doc); /* the same, once more */
void lf_document_unref(struct lf_documents *docs, struct lf_document *doc);              /* accepts NULL */
/* Immutable. */
const struct lf_document_content *lf_document_content(const struct lf_document *doc);
/* When it was put: what a template that asks for the date is told. */
int64_t lf_document_created_s(const struct lf_document *doc);
uint64_t lf_document_number(const struct lf_document *doc);       /* of its file; 0: none */
const uint8_t *lf_document_tenant(const struct lf_document *doc); /* [LF_SHA256_BYTES] */
void lf_document_look(struct lf_documents *docs, const struct lf_document *doc, struct lf_document_view *out);
/* A request uses it. */
void lf_document_hit(struct lf_documents *docs, struct lf_document *doc);
/* Whether its name is not its own any more: deleted, taken over, or past its end. */
bool lf_document_is_gone(const struct lf_document *doc);
/* It ends at another time than before; 0: never. false: it has no name any more, and nothing changes. */
bool lf_document_renew(struct lf_documents *docs, struct lf_document *doc, int64_t expires_s);
/* Where its tokens stay from now on. *pinning: how often that has been said, this time included: who holds them for an
 * earlier one lets go (lf_document_pinning). false as above. */
bool lf_document_pin(struct lf_documents *docs, struct lf_document *doc, enum lf_pin pin, int64_t *pinning);
/* How often, so far; -1: it has no name any more, or is pinned nowhere. */
int64_t lf_document_pinning(struct lf_documents *docs, const struct lf_document *doc);
/* The keys of its blocks, as far as there is room for them; once. */
void lf_document_set_keys(struct lf_documents *docs, struct lf_document *doc, const uint8_t *keys, int n_keys);
/* It has so many tokens, after all: another model counts others. */
void lf_document_recount(struct lf_documents *docs, struct lf_document *doc, int64_t n_tokens);
/* So many of its tokens have been read. */
void lf_document_read(struct lf_documents *docs, struct lf_document *doc, int64_t n_read, int64_t eta_ms);
/* It is ready (reason NULL), or reading it failed (static text). */
void lf_document_end(struct lf_documents *docs, struct lf_document *doc, const char *reason);

#endif
