#include "core/hash.h"

#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#include "core/clock.h"

/* SHA-256, FIPS 180-4: the constants are the first 32 bits of the fractional parts of the cube roots of the first 64
 * primes (§4.2.2), the initial state those of the square roots of the first 8 (§5.3.3). */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotr(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void compress(uint32_t state[8], const uint8_t block[64])
{
    uint32_t w[64];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t s[8];
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t big1 = rotr(s[4], 6) ^ rotr(s[4], 11) ^ rotr(s[4], 25);
        uint32_t choose = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t t1 = s[7] + big1 + choose + round_constants[i] + w[i];
        uint32_t big0 = rotr(s[0], 2) ^ rotr(s[0], 13) ^ rotr(s[0], 22);
        uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        memmove(s + 1, s, 7 * sizeof s[0]);
        s[4] += t1;
        s[0] = t1 + big0 + majority;
    }
    for (int i = 0; i < 8; i++) state[i] += s[i];
}

void lf_sha256_init(struct lf_sha256 *sha)
{
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(sha->state, first, sizeof first);
    sha->n_bytes = 0;
}

void lf_sha256_update(struct lf_sha256 *sha, const void *bytes, size_t n)
{
    const uint8_t *in = bytes;
    size_t fill = sha->n_bytes % 64;
    sha->n_bytes += n;
    if (fill) {
        size_t take = n < 64 - fill ? n : 64 - fill;
        if (take) memcpy(sha->block + fill, in, take);
        if (fill + take < 64) return;
        compress(sha->state, sha->block);
        in += take;
        n -= take;
    }
    for (; n >= 64; in += 64, n -= 64) compress(sha->state, in);
    if (n) memcpy(sha->block, in, n);
}

void lf_sha256_final(struct lf_sha256 *sha, uint8_t out[LF_SHA256_BYTES])
{
    uint64_t n_bits = sha->n_bytes * 8;
    size_t fill = sha->n_bytes % 64;
    uint8_t tail[128] = {0};
    size_t n_tail = fill < 56 ? 64 : 128;
    memcpy(tail, sha->block, fill);
    tail[fill] = 0x80;
    for (size_t i = 0; i < 8; i++) tail[n_tail - 1 - i] = (uint8_t)(n_bits >> (8 * i));
    for (size_t i = 0; i < n_tail; i += 64) compress(sha->state, tail + i);
    for (int i = 0; i < 32; i++) out[i] = (uint8_t)(sha->state[i / 4] >> (24 - 8 * (i % 4)));
}

void lf_sha256(const void *bytes, size_t n, uint8_t out[LF_SHA256_BYTES])
{
    struct lf_sha256 sha;
    lf_sha256_init(&sha);
    lf_sha256_update(&sha, bytes, n);
    lf_sha256_final(&sha, out);
}

bool lf_equal_ct(const void *a, const void *b, size_t n)
{
    const volatile uint8_t *x = a, *y = b;
    unsigned diff = 0;
    for (size_t i = 0; i < n; i++) diff |= (unsigned)(x[i] ^ y[i]);
    return diff == 0;
}

bool lf_random_bytes(void *out, size_t n)
{
    uint8_t *p = out;
    while (n) {
        ssize_t got = getrandom(p, n < 256 ? n : 256, 0);
        if (got <= 0) return false;
        p += got;
        n -= (size_t)got;
    }
    return true;
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
