/* Hashes: SHA-256 for identities and keys (nettle's) and HMAC over it for proofs, SipHash-1-3 for tables whose keys
 * come from outside. core/mix.h has those that need no secret. Pure functions, any thread. */
#ifndef LF_CORE_HASH_H
#define LF_CORE_HASH_H

#include <nettle/sha2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LF_SHA256_BYTES = SHA256_DIGEST_SIZE };

struct lf_sha256 {
    struct sha256_ctx ctx;
};

void lf_sha256_init(struct lf_sha256 *sha);
void lf_sha256_update(struct lf_sha256 *sha, const void *bytes, size_t n);
void lf_sha256_final(struct lf_sha256 *sha, uint8_t out[LF_SHA256_BYTES]);
/* All of it in one call. */
void lf_sha256(const void *bytes, size_t n, uint8_t out[LF_SHA256_BYTES]);

/* HMAC-SHA-256 of the bytes under a key of any length (RFC 2104). */
void lf_hmac_sha256(const void *key, size_t n_key, const void *bytes, size_t n, uint8_t out[LF_SHA256_BYTES]);

/* Whether n bytes are equal, in a time that depends on n only. */
bool lf_equal_ct(const void *a, const void *b, size_t n);

/* SipHash-1-3 under a key drawn once per process from the operating system. */
uint64_t lf_hash64(const void *bytes, size_t n);

/* At most 256 bytes from the operating system's generator; false when it has none. */
bool lf_random_bytes(void *out, size_t n);

#endif
