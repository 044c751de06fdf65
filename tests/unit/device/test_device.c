#include "tests/support/test.h"

#include <sys/resource.h>
#include <unistd.h>

#include "core/check.h"
#include "device/cpu/cpuid.h"
#include "device/cpu/threads.h"
#include "device/ops.h"

static struct lf_device *open_cpu(int n_threads)
{
    struct lf_device *dev = NULL;
    struct lf_err err = {LF_OK, ""};
    struct lf_device_opts opts = {.name = "cpu", .n_threads = n_threads, .max_isa = -1};
    assert_int_equal(lf_device_open(&dev, &opts, &err), LF_OK);
    return dev;
}

static void a_device_states_what_it_is(void **state)
{
    (void)state;
    struct lf_device *dev = open_cpu(3);
    const struct lf_device_info *info = lf_device_info(dev);
    assert_string_equal(info->kind, "cpu");
    assert_int_equal(info->isa, lf_cpuid_isa());
    assert_int_equal(info->n_threads, 3);
    assert_int_equal(lf_threads_n(lf_device_threads(dev)), 3);
    assert_int_equal(info->act_dtype, LF_F32);
    assert_true(info->memory_bytes > 0 && info->memory_bytes < UINT64_MAX);
    assert_true(info->available_bytes > 0 && info->available_bytes <= info->memory_bytes);
    assert_string_equal(lf_device_ops(dev)->name, lf_isa_name(info->isa));
    lf_device_close(dev);
    lf_device_close(NULL);
}

static void auto_and_no_thread_count_open_the_machine(void **state)
{
    (void)state;
    struct lf_device *dev = NULL;
    struct lf_device_opts opts = {.name = "auto", .max_isa = LF_ISA_C};
    assert_int_equal(lf_device_open(&dev, &opts, NULL), LF_OK);
    assert_true(lf_device_info(dev)->n_threads >= 1);
    assert_int_equal(lf_device_info(dev)->isa, LF_ISA_C);
    lf_device_close(dev);
}

static void what_is_not_there_is_refused_by_name(void **state)
{
    (void)state;
    struct lf_device *dev = NULL;
    struct lf_err err;
    struct lf_device_opts opts = {.name = "tpu", .max_isa = -1};
    assert_int_equal(lf_device_open(&dev, &opts, &err), LF_NOT_FOUND);
    assert_non_null(strstr(err.message, "tpu"));
    opts.name = "cpu:1"; /* there is one */
    assert_int_equal(lf_device_open(&dev, &opts, &err), LF_NOT_FOUND);
    assert_non_null(strstr(err.message, "no device is called \"cpu:1\""));
    opts = (struct lf_device_opts){.name = "cpu", .n_threads = LF_THREADS_N + 1, .max_isa = -1};
    assert_int_equal(lf_device_open(&dev, &opts, &err), LF_INVALID);
    assert_non_null(strstr(err.message, "513"));
    opts.n_threads = -1;
    assert_int_equal(lf_device_open(&dev, &opts, &err), LF_INVALID);
    opts = (struct lf_device_opts){.name = "cpu", .max_isa = LF_ISA_AMX + 1};
    assert_int_equal(lf_device_open(&dev, &opts, &err), LF_INVALID);
    if (lf_cpuid_isa() < LF_ISA_AMX) {
        opts.max_isa = LF_ISA_AMX;
        assert_int_equal(lf_device_open(&dev, &opts, &err), LF_UNSUPPORTED);
        assert_non_null(strstr(err.message, lf_isa_name(lf_cpuid_isa())));
    }
    assert_null(dev);
}

/* Resident bytes of this process. */
static uint64_t resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    char line[256];
    assert_non_null(fgets(line, sizeof line, f));
    (void)fclose(f);
    char *end = NULL;
    (void)strtoull(line, &end, 10);
    return strtoull(end, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void buffers_are_aligned_resident_and_counted(void **state)
{
    (void)state;
    struct lf_device *dev = open_cpu(2);
    static const size_t sizes[] = {1, 4096, (2u << 20) + 1, 200u << 20};
    struct lf_buffer bufs[LF_N_ELEMS(sizes)] = {{0}};
    uint64_t total = 0, before = resident_bytes();
    for (size_t i = 0; i < LF_N_ELEMS(sizes); i++) {
        assert_int_equal(lf_buffer_alloc(dev, &bufs[i], sizes[i], "test", NULL), LF_OK);
        assert_int_equal((uintptr_t)bufs[i].ptr % (2u << 20), 0);
        assert_int_equal(bufs[i].bytes, sizes[i]);
        total += sizes[i];
        assert_int_equal(lf_device_allocated_bytes(dev), total);
        assert_int_equal(lf_device_n_allocs(dev), i + 1);
    }
    assert_true(resident_bytes() >= before + total);
    for (size_t i = 0; i < LF_N_ELEMS(sizes); i++) {
        const char *bytes = bufs[i].ptr;
        assert_int_equal(bytes[0] | bytes[sizes[i] / 2] | bytes[sizes[i] - 1], 0);
        memset(bufs[i].ptr, 0xab, sizes[i]);
        lf_buffer_free(dev, &bufs[i]);
        assert_null(bufs[i].ptr);
        lf_buffer_free(dev, &bufs[i]);
    }
    assert_int_equal(lf_device_allocated_bytes(dev), 0);
    assert_int_equal(lf_device_n_allocs(dev), LF_N_ELEMS(sizes));
    assert_true(resident_bytes() < before + (100u << 20));
    lf_device_close(dev);
}

static void a_buffer_that_does_not_fit_is_refused_with_numbers(void **state)
{
    (void)state;
    struct lf_device *dev = open_cpu(2);
    struct lf_buffer buf = {0};
    struct lf_err err;
    static const size_t sizes[] = {(size_t)1 << 50, SIZE_MAX, SIZE_MAX - (2u << 20)};
    for (size_t i = 0; i < LF_N_ELEMS(sizes); i++) {
        assert_int_equal(lf_buffer_alloc(dev, &buf, sizes[i], "KV cache", &err), LF_NO_MEMORY);
        assert_null(buf.ptr);
        assert_non_null(strstr(err.message, "KV cache"));
        assert_non_null(strstr(err.message, "available"));
    }
    assert_int_equal(lf_buffer_alloc(dev, &buf, 0, "nothing", &err), LF_INVALID);
    assert_int_equal(lf_device_n_allocs(dev), 0);
    lf_device_close(dev);
}

/* Sanitizers need address space of their own without bound. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static void a_limit_on_address_space_is_an_error(void **state)
{
    (void)state;
    struct lf_device *dev = open_cpu(2);
    struct lf_buffer buf = {0};
    struct lf_err err;
    struct rlimit before, low;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    low = before;
    low.rlim_cur = 64u << 20;
    assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
    enum lf_status status = lf_buffer_alloc(dev, &buf, 256u << 20, "weights", &err);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_int_equal(status, LF_NO_MEMORY);
    assert_non_null(strstr(err.message, "weights"));
    lf_device_close(dev);
}
#endif

static void copies_go_up_and_down(void **state)
{
    (void)state;
    struct lf_device *dev = open_cpu(1);
    struct lf_buffer buf;
    assert_int_equal(lf_buffer_alloc(dev, &buf, 1000, "copy", NULL), LF_OK);
    char text[1000], back[1000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * 7);
    lf_upload(dev, buf.ptr, text, sizeof text);
    lf_download(dev, back, buf.ptr, sizeof back);
    assert_memory_equal(text, back, sizeof text);
    lf_buffer_free(dev, &buf);
    lf_device_close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_states_what_it_is),
        cmocka_unit_test(auto_and_no_thread_count_open_the_machine),
        cmocka_unit_test(what_is_not_there_is_refused_by_name),
        cmocka_unit_test(buffers_are_aligned_resident_and_counted),
        cmocka_unit_test(a_buffer_that_does_not_fit_is_refused_with_numbers),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        cmocka_unit_test(a_limit_on_address_space_is_an_error),
#endif
        cmocka_unit_test(copies_go_up_and_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
