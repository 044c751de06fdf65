#include "bench_peak.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

/* Twelve accumulators with names of their own: an array would live in memory. */
#define REPEAT12(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11)
#define DECLARE(i)  register vec a##i = x;
#define FMA512(i)   __asm__ volatile("vfmadd231ps %1, %1, %0" : "+v"(a##i) : "v"(x));
#define DP512(i)    __asm__ volatile("vdpbf16ps %1, %1, %0" : "+v"(a##i) : "v"(x));
#define FMA256(i)   __asm__ volatile("vfmadd231ps %1, %1, %0" : "+x"(a##i) : "x"(x));

__attribute__((target("avx512f"))) static void fma512(long n)
{
    typedef __m512 vec;
    vec x = _mm512_set1_ps(0.5f);
    REPEAT12(DECLARE)
    for (long k = 0; k < n; k++) {
        REPEAT12(FMA512)
    }
}

__attribute__((target("avx512f"))) static void dp512(long n)
{
    typedef __m512 vec;
    vec x = _mm512_set1_ps(0.5f);
    REPEAT12(DECLARE)
    for (long k = 0; k < n; k++) {
        REPEAT12(DP512)
    }
}

__attribute__((target("avx2,fma"))) static void fma256(long n)
{
    typedef __m256 vec;
    vec x = _mm256_set1_ps(0.5f);
    REPEAT12(DECLARE)
    for (long k = 0; k < n; k++) {
        REPEAT12(FMA256)
    }
}

__attribute__((target("avx2"))) static double read256(const char *p, size_t n)
{
    __m256i x[4] = {_mm256_setzero_si256()};
    for (int i = 1; i < 4; i++) x[i] = x[0];
    for (size_t at = 0; at + 128 <= n; at += 128)
        for (int i = 0; i < 4; i++)
            x[i] = _mm256_xor_si256(x[i], _mm256_loadu_si256((const __m256i *)(const void *)(p + at + 32 * (size_t)i)));
    x[0] = _mm256_xor_si256(_mm256_xor_si256(x[0], x[1]), _mm256_xor_si256(x[2], x[3]));
    return (double)_mm256_extract_epi32(x[0], 0);
}
#endif

double bench_peak_fma(enum lf_isa isa, long n_rounds)
{
#if defined(__x86_64__)
    if (isa >= LF_ISA_AVX512) {
        fma512(n_rounds);
        return (double)n_rounds * 12 * 32;
    }
    if (isa >= LF_ISA_AVX2) {
        fma256(n_rounds);
        return (double)n_rounds * 12 * 16;
    }
#endif
    (void)isa;
    (void)n_rounds;
    return 0.0;
}

double bench_peak_dpbf16(enum lf_isa isa, long n_rounds)
{
#if defined(__x86_64__)
    if (isa >= LF_ISA_AVX512_BF16) {
        dp512(n_rounds);
        return (double)n_rounds * 12 * 64;
    }
#endif
    (void)isa;
    (void)n_rounds;
    return 0.0;
}

double bench_read(enum lf_isa isa, const void *p, size_t n)
{
#if defined(__x86_64__)
    if (isa >= LF_ISA_AVX2) return read256(p, n);
#endif
    (void)isa;
    uint64_t sum = 0;
    for (size_t at = 0; at + 8 <= n; at += 8) {
        uint64_t x;
        memcpy(&x, (const char *)p + at, 8);
        sum ^= x;
    }
    return (double)sum;
}
