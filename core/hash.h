/* Hashes: SHA-256 (FIPS 180-4) for identities and keys, SipHash-1-3 for tables whose keys come from outside, and those
 * of core/mix.h. Pure functions, any thread. */
#ifndef LF_CORE_HASH_H
#define LF_CORE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/mix.h"

enum { LF_SHA256_BYTES = 32 };

struct lf_sha256 {
    uint32_t state[8];
    uint64_t n_bytes;
    uint8_t block[64];
};

void lf_sha256_init(struct lf_sha256 *sha);
void lf_sha256_update(struct lf_sha256 *sha, const void *bytes, size_t n);
void lf_sha256_final(struct lf_sha256 *sha, uint8_t out[LF_SHA256_BYTES]);
/* All of it in one call. */
void lf_sha256(const void *bytes, size_t n, uint8_t out[LF_SHA256_BYTES]);

/* Whether n bytes are equal, in a time that depends on n only. */
bool lf_equal_ct(const void *a, const void *b, size_t n);

/* SipHash-1-3 under a key drawn once per process from the operating system. */
uint64_t lf_hash64(const void *bytes, size_t n);

/* n bytes from the operating system's generator; false when it has none (then nothing is written). */
bool lf_random_bytes(void *out, size_t n);

#endif
