/* Which devices ranks take, of those that a machine has. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "core/check.h"
#include "server/device_choice.h"

static struct lf_device_info machine(int n_gpus)
{
    struct lf_device_info info = {.kind = "cuda", .n_sms = 132, .available_bytes = 70, .n_gpus = n_gpus};
    for (int i = 0; i < n_gpus; i++)
        info.gpus[i] = (struct lf_gpu){.name = "NVIDIA H100 80GB HBM3", .n_sms = 132, .available_bytes = 70};
    return info;
}

static void gpus_that_are_alike_are_offered_and_no_others(void **state)
{
    (void)state;
    struct lf_device_info info = machine(4);
    assert_int_equal(lf_device_choice_n(&info), 4);
    (void)snprintf(info.gpus[3].name, sizeof(info.gpus[3].name), "NVIDIA L4");
    assert_int_equal(lf_device_choice_n(&info), 3);
    info.gpus[1].n_sms = 114; /* the PCIe card has the same name in some drivers */
    assert_int_equal(lf_device_choice_n(&info), 1);
    info = machine(12);
    assert_int_equal(lf_device_choice_n(&info), 8);
    info = (struct lf_device_info){.kind = "cpu", .is_host = true};
    assert_int_equal(lf_device_choice_n(&info), 1);
}

static void a_plan_has_the_memory_of_the_rank_that_has_least(void **state)
{
    (void)state;
    struct lf_device_info info = machine(4);
    info.gpus[2].available_bytes = 40;
    info.gpus[3].available_bytes = 60;
    static const uint64_t expected[] = {70, 70, 40, 40};
    for (int n = 1; n <= 4; n++) {
        struct lf_device_info planned = lf_device_choice_info(&info, n);
        assert_int_equal(planned.available_bytes, expected[n - 1]);
        planned.available_bytes = info.available_bytes;
        assert_memory_equal(&planned, &info, sizeof(info));
    }
    info = (struct lf_device_info){.kind = "cpu", .is_host = true, .available_bytes = 9};
    assert_int_equal(lf_device_choice_info(&info, 4).available_bytes, 9);
}

static void ranks_are_named_from_the_first_on(void **state)
{
    (void)state;
    char name[LF_DEVICE_NAME];
    assert_string_equal(lf_device_choice_name(name, "cuda", 0), "cuda:0");
    assert_string_equal(lf_device_choice_name(name, "cuda", 3), "cuda:3");
    assert_string_equal(lf_device_choice_name(name, "cuda:2", 1), "cuda:3");
    assert_string_equal(lf_device_choice_name(name, "cpu", 1), "cpu");
}

static void what_describes_a_gpu_describes_all_that_auto_chooses_from(void **state)
{
    (void)state;
    struct lf_device_opts opts = {.n_threads = 3};
    struct lf_config c = {.device = "auto", .gpu_memory = 80, .gpus = 4, .parallel = "auto"};
    struct lf_err err;
    assert_int_equal(lf_device_choice_describe(&opts, &c, &err), LF_OK);
    assert_true(opts.gpu_memory_bytes == 80 && opts.n_gpus == 4 && opts.gpu_n_sms == 132 && opts.n_threads == 3);
    assert_string_equal(opts.name, "cuda");
    static const char *const others[] = {NULL, "tp=4", "cp=2"};
    for (size_t i = 0; i < LF_N_ELEMS(others); i++) {
        c.parallel = others[i];
        assert_int_equal(lf_device_choice_describe(&opts, &c, &err), LF_INVALID);
        assert_non_null(strstr(err.message, "--gpus 4 are for --parallel auto to choose from, which is not given"));
    }
    c.gpus = 0;
    assert_int_equal(lf_device_choice_describe(&opts, &c, &err), LF_OK);
    assert_int_equal(opts.n_gpus, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpus_that_are_alike_are_offered_and_no_others),
        cmocka_unit_test(a_plan_has_the_memory_of_the_rank_that_has_least),
        cmocka_unit_test(ranks_are_named_from_the_first_on),
        cmocka_unit_test(what_describes_a_gpu_describes_all_that_auto_chooses_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
