#include "device/cpu/cpuid.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef LF_X86

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* arch_prctl: leave to use a register set that the kernel hands out on request (Linux 5.16) */
#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA  18

enum {
    XCR0_YMM = 0x6,                            /* SSE and AVX state */
    XCR0_ZMM = XCR0_YMM | 0xe0,                /* opmask, upper halves, upper sixteen */
    XCR0_TILES = XCR0_ZMM | 0x60000,           /* XTILECFG and XTILEDATA */
    AVX512_BITS = 1 << 16 | 1 << 17 | 1 << 30, /* leaf 7 ebx: F, DQ, BW; VL is bit 31 */
};

static uint32_t read_xcr0(void)
{
    uint32_t eax = 0, edx = 0;
    __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
    return eax;
}

static bool has(uint32_t reg, int bit)
{
    return (reg >> bit & 1) != 0;
}

enum lf_isa lf_cpuid_isa(void)
{
    uint32_t a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return LF_ISA_C;
    bool fma = has(c, 12), osxsave = has(c, 27), f16c = has(c, 29);
    if (!fma || !osxsave || !f16c) return LF_ISA_C;
    uint32_t xcr0 = read_xcr0();

    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return LF_ISA_C;
    uint32_t leaf7_ebx = b, leaf7_edx = d;
    if (!has(leaf7_ebx, 5) || (xcr0 & XCR0_YMM) != XCR0_YMM) return LF_ISA_C;
    bool avx512 = (leaf7_ebx & AVX512_BITS) == AVX512_BITS && has(leaf7_ebx, 31);
    if (!avx512 || (xcr0 & XCR0_ZMM) != XCR0_ZMM) return LF_ISA_AVX2;

    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !has(a, 5)) return LF_ISA_AVX512;
#ifdef LF_HAVE_AMX
    bool amx = has(leaf7_edx, 24) && has(leaf7_edx, 22); /* TILE, BF16 */
    if (amx && (xcr0 & XCR0_TILES) == XCR0_TILES &&
        syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0)
        return LF_ISA_AMX;
#else
    (void)leaf7_edx;
#endif
    return LF_ISA_AVX512_BF16;
}

bool lf_cpuid_has_vnni(void)
{
    uint32_t a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && has(c, 11);
}

bool lf_cpuid_has_amx_int8(void)
{
    uint32_t a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && has(d, 25);
}

#else

enum lf_isa lf_cpuid_isa(void)
{
    return LF_ISA_C;
}

bool lf_cpuid_has_vnni(void)
{
    return false;
}

bool lf_cpuid_has_amx_int8(void)
{
    return false;
}

#endif

const char *lf_cpuid_lacks(enum lf_isa isa)
{
    switch (isa) {
    case LF_ISA_C:
        return "no AVX2, FMA and F16C";
    case LF_ISA_AVX2:
        return "no AVX-512 (F, BW, DQ, VL)";
    case LF_ISA_AVX512:
        return "no AVX-512 BF16";
    case LF_ISA_AVX512_BF16:
        return "no AMX BF16 tiles in processor, system or compiler";
    case LF_ISA_AMX:
        return "nothing";
    }
    return "nothing";
}
