#include "core/hash.h"

#include <nettle/memops.h>
#include <nettle/version.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/mix.h"

void lf_sha256_init(struct lf_sha256 *sha)
{
    sha256_init(&sha->ctx);
}

void lf_sha256_update(struct lf_sha256 *sha, const void *bytes, size_t n)
{
    if (n) sha256_update(&sha->ctx, n, bytes);
}

void lf_sha256_final(struct lf_sha256 *sha, uint8_t out[LF_SHA256_BYTES])
{
#if NETTLE_VERSION_MAJOR >= 4
    sha256_digest(&sha->ctx, out);
#else
    sha256_digest(&sha->ctx, LF_SHA256_BYTES, out);
#endif
}

void lf_sha256(const void *bytes, size_t n, uint8_t out[LF_SHA256_BYTES])
{
    struct lf_sha256 sha;
    lf_sha256_init(&sha);
    lf_sha256_update(&sha, bytes, n);
    lf_sha256_final(&sha, out);
}

/* SHA-256 of the key, padded and masked, and the bytes. */
static void hash_under(const uint8_t key[SHA256_BLOCK_SIZE], uint8_t mask, const void *bytes, size_t n,
                       uint8_t out[LF_SHA256_BYTES])
{
    uint8_t block[SHA256_BLOCK_SIZE];
    struct lf_sha256 sha;
    for (size_t i = 0; i < sizeof block; i++) block[i] = key[i] ^ mask;
    lf_sha256_init(&sha);
    lf_sha256_update(&sha, block, sizeof block);
    lf_sha256_update(&sha, bytes, n);
    lf_sha256_final(&sha, out);
}

void lf_hmac_sha256(const void *key, size_t n_key, const void *bytes, size_t n, uint8_t out[LF_SHA256_BYTES])
{
    uint8_t padded[SHA256_BLOCK_SIZE] = {0}, inner[LF_SHA256_BYTES];
    if (n_key > sizeof padded)
        lf_sha256(key, n_key, padded);
    else if (n_key)
        memcpy(padded, key, n_key);
    hash_under(padded, 0x36, bytes, n, inner);
    hash_under(padded, 0x5c, inner, sizeof inner, out);
}

bool lf_equal_ct(const void *a, const void *b, size_t n)
{
    return memeql_sec(a, b, n);
}

bool lf_random_bytes(void *out, size_t n)
{
    return getentropy(out, n) == 0;
}

/* SipHash-1-3 (Aumasson & Bernstein 2012): one compression round a word, three to finish. */
static uint64_t sip_key[2];
static pthread_once_t sip_once = PTHREAD_ONCE_INIT;

static void sip_draw_key(void)
{
    if (lf_random_bytes(sip_key, sizeof sip_key)) return;
    sip_key[0] = lf_mix64((uint64_t)lf_clock_ns()); /* a kernel without getrandom: better than a constant */
    sip_key[1] = lf_mix64(sip_key[0] ^ (uint64_t)(uintptr_t)&sip_key);
}

static uint64_t rotl64(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotl64(v[1], 13) ^ v[0];
    v[3] = rotl64(v[3], 16) ^ v[2];
    v[0] = rotl64(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotl64(v[1], 17) ^ v[2];
    v[3] = rotl64(v[3], 21) ^ v[0];
    v[2] = rotl64(v[2], 32);
}

uint64_t lf_hash64(const void *bytes, size_t n)
{
    pthread_once(&sip_once, sip_draw_key);
    uint64_t v[4] = {sip_key[0] ^ 0x736f6d6570736575u, sip_key[1] ^ 0x646f72616e646f6du,
                     sip_key[0] ^ 0x6c7967656e657261u, sip_key[1] ^ 0x7465646279746573u};
    const uint8_t *in = bytes;
    size_t left = n;
    for (; left >= 8; in += 8, left -= 8) {
        uint64_t m;
        memcpy(&m, in, 8);
        v[3] ^= m;
        sip_round(v);
        v[0] ^= m;
    }
    uint64_t last = (uint64_t)n << 56;
    for (size_t i = 0; i < left; i++) last |= (uint64_t)in[i] << (8 * i);
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
