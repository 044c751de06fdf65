/* Which instruction sets this processor and this kernel let us use. */
#ifndef LF_DEVICE_CPU_CPUID_H
#define LF_DEVICE_CPU_CPUID_H

#include <stdbool.h>

#include "device/device.h"

/* The best instruction set that the processor has, the system saves the registers of and the build has kernels for.
 * Asks the system for the AMX tile registers where there are any (a permission of the whole process). */
enum lf_isa lf_cpuid_isa(void);
/* Whether VPDPBUSD and TDPBSSD can be used besides, where the instruction set is LF_ISA_AVX512 or better, LF_ISA_AMX.
 */
bool lf_cpuid_has_vnni(void);
bool lf_cpuid_has_amx_int8(void);
/* Why the next better instruction set is not used, for messages and skipped tests: "no AVX-512", … Never NULL. */
const char *lf_cpuid_lacks(enum lf_isa isa);

#endif
