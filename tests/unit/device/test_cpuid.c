#include "tests/support/test.h"

#include <stdbool.h>

#include "device/cpu/cpuid.h"

/* Whether /proc/cpuinfo lists the flag: the kernel's own reading of the same registers. */
static bool kernel_lists(const char *flag)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    assert_non_null(f);
    static char line[65536];
    char padded[64];
    (void)snprintf(padded, sizeof padded, " %s ", flag);
    bool found = false;
    while (!found && fgets(line, sizeof line, f) != NULL) {
        if (strncmp(line, "flags", 5) != 0) continue;
        line[strcspn(line, "\n")] = ' ';
        found = strstr(line, padded) != NULL;
        break;
    }
    (void)fclose(f);
    return found;
}

static void the_instruction_set_agrees_with_the_kernels_flags(void **state)
{
    (void)state;
    enum lf_isa isa = lf_cpuid_isa();
#ifdef __x86_64__
    bool avx2 = kernel_lists("avx2") && kernel_lists("fma") && kernel_lists("f16c");
    bool avx512 = avx2 && kernel_lists("avx512f") && kernel_lists("avx512bw") && kernel_lists("avx512dq") &&
                  kernel_lists("avx512vl");
    bool bf16 = avx512 && kernel_lists("avx512_bf16");
    assert_int_equal(isa >= LF_ISA_AVX2, avx2);
    assert_int_equal(isa >= LF_ISA_AVX512, avx512);
    assert_int_equal(isa >= LF_ISA_AVX512_BF16, bf16);
    if (isa == LF_ISA_AMX) assert_true(kernel_lists("amx_tile") && kernel_lists("amx_bf16"));
#else
    assert_int_equal(isa, LF_ISA_C);
#endif
}

static void every_set_has_a_name_and_a_successor_to_lack(void **state)
{
    (void)state;
    for (int i = LF_ISA_C; i <= LF_ISA_AMX; i++) {
        assert_true(strlen(lf_isa_name((enum lf_isa)i)) > 0);
        assert_true(strlen(lf_cpuid_lacks((enum lf_isa)i)) > 0);
        for (int j = LF_ISA_C; j < i; j++)
            assert_string_not_equal(lf_isa_name((enum lf_isa)i), lf_isa_name((enum lf_isa)j));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_instruction_set_agrees_with_the_kernels_flags),
        cmocka_unit_test(every_set_has_a_name_and_a_successor_to_lack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
