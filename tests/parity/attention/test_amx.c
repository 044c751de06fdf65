/* The AMX kernel by itself, so that one command on a machine that has AMX checks it:
 *
 *     ctest -R parity/attention/amx --output-on-failure
 *
 * Elsewhere the program says so and exits with 77, which ctest reports as skipped. */
#include "attn_case.h"
#include "tests/support/test.h"

static void amx_matches_float64(void **state)
{
    static const int dims[] = {32, 48, 64, 80, 96, 128, 256, 8, 24, 40, 72, 136, 192, 264, 512};
    static const int lens[][2] = {{1, 1}, {1, 339}, {3, 799}, {113, 203}, {512, 512}, {700, 2100}};
    for (size_t i = 0; i < sizeof(dims) / sizeof(dims[0]); i++)
        for (size_t k = 0; k < sizeof(lens) / sizeof(lens[0]); k++) {
            struct attn_case c = {.head_dim = dims[i],
                                  .n_heads = k % 2 ? 7 : 4,
                                  .n_kv_heads = k % 2 ? 1 : 2,
                                  .dtype = LF_BF16,
                                  .n_seqs = 1,
                                  .n_rows = {lens[k][0]},
                                  .kv_len = {lens[k][1]},
                                  .window = i % 3 == 1 ? 100 : 0,
                                  .softcap = i % 3 == 2 ? 30.0f : 0.0f,
                                  .sinks = k % 3 == 0,
                                  .seed = 10 * i + k};
            attn_check(*state, &c, LF_ISA_AMX, 96);
        }
}

int main(void)
{
    struct lf_device *dev = attn_test_device(0);
    if (lf_device_info(dev)->isa < LF_ISA_AMX) {
        printf("skipped: this machine has %s and no AMX\n", lf_isa_name(lf_device_info(dev)->isa));
        lf_device_close(dev);
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(amx_matches_float64, dev)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lf_device_close(dev);
    return failed;
}
