#include "tests/support/test.h"

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/cpu/sysinfo.h"

/* A machine laid out as files under a temporary folder. */
static char root[64];

static int make_root(void **state)
{
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/lf_sysinfo_XXXXXX");
    return mkdtemp(root) == NULL ? -1 : 0;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static int remove_root(void **state)
{
    (void)state;
    return nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Writes a file, making its folders. */
static void put(const char *path, const char *text)
{
    char full[512];
    (void)snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(full, 0700);
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static const char meminfo[] = "MemTotal:       16000 kB\nMemFree:         1000 kB\nMemAvailable:    9000 kB\n";

static void without_cgroups_the_machine_is_the_limit(void **state)
{
    (void)state;
    put("/proc/meminfo", meminfo);
    struct lf_sysinfo_memory m = lf_sysinfo_memory(root);
    assert_int_equal(m.total_bytes, 16000 * 1024);
    assert_int_equal(m.available_bytes, 9000 * 1024);
    assert_true(lf_sysinfo_n_cpus(root) >= 1);
}

static void nothing_readable_limits_nothing(void **state)
{
    (void)state;
    struct lf_sysinfo_memory m = lf_sysinfo_memory(root);
    assert_true(m.total_bytes == UINT64_MAX);
    assert_true(m.available_bytes == UINT64_MAX);
}

static void a_v2_limit_counts_and_its_page_cache_is_free(void **state)
{
    (void)state;
    put("/proc/meminfo", meminfo);
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/a/memory.max", "4096000\n");
    put("/sys/fs/cgroup/a/memory.current", "3000000\n");
    put("/sys/fs/cgroup/a/memory.stat", "anon 1\nactive_file 7\ninactive_file 1000000\n");
    struct lf_sysinfo_memory m = lf_sysinfo_memory(root);
    assert_int_equal(m.total_bytes, 4096000);
    assert_int_equal(m.available_bytes, 4096000 - 2000000);
}

static void a_container_sees_its_limit_at_the_root(void **state)
{
    (void)state;
    put("/proc/meminfo", meminfo);
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/memory.max", "2000000\n");
    put("/sys/fs/cgroup/memory.current", "5000000\n"); /* over the limit: nothing is left, not a huge number */
    put("/sys/fs/cgroup/cpu.max", "150000 100000\n");
    struct lf_sysinfo_memory m = lf_sysinfo_memory(root);
    assert_int_equal(m.total_bytes, 2000000);
    assert_int_equal(m.available_bytes, 0);
    assert_true(lf_sysinfo_n_cpus(root) <= 2);
}

static void a_v1_limit_counts_where_its_path_is_not_mounted(void **state)
{
    (void)state;
    put("/proc/meminfo", meminfo);
    put("/proc/self/cgroup", "12:memory:/docker/abc\n5:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "3000000\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
    put("/sys/fs/cgroup/memory/memory.stat", "inactive_file 5\ntotal_inactive_file 500000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "90000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    struct lf_sysinfo_memory m = lf_sysinfo_memory(root);
    assert_int_equal(m.total_bytes, 3000000);
    assert_int_equal(m.available_bytes, 3000000 - 500000);
    assert_int_equal(lf_sysinfo_n_cpus(root), 1);
}

static void no_limit_is_no_limit(void **state)
{
    (void)state;
    put("/proc/meminfo", meminfo);
    put("/proc/self/cgroup", "4:memory:/\n3:cpu:/\n0::/\n");
    put("/sys/fs/cgroup/memory.max", "max\n");
    put("/sys/fs/cgroup/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    struct lf_sysinfo_memory m = lf_sysinfo_memory(root);
    assert_int_equal(m.total_bytes, 16000 * 1024);
    assert_int_equal(m.available_bytes, 9000 * 1024);
    assert_int_equal(lf_sysinfo_n_cpus(root), lf_sysinfo_n_cpus("/nonexistent"));
}

static void garbage_limits_nothing(void **state)
{
    (void)state;
    put("/proc/meminfo", "MemTotal: many\n\n:\n");
    put("/proc/self/cgroup", "no colons\n::\n:\n0::relative\n");
    put("/sys/fs/cgroup/memory.max", "lots\n");
    put("/sys/fs/cgroup/cpu.max", "50000\n");
    struct lf_sysinfo_memory m = lf_sysinfo_memory(root);
    assert_true(m.total_bytes == UINT64_MAX);
    assert_int_equal(lf_sysinfo_n_cpus(root), lf_sysinfo_n_cpus("/nonexistent"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_cgroups_the_machine_is_the_limit, make_root, remove_root),
        cmocka_unit_test_setup_teardown(nothing_readable_limits_nothing, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_v2_limit_counts_and_its_page_cache_is_free, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_container_sees_its_limit_at_the_root, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_v1_limit_counts_where_its_path_is_not_mounted, make_root, remove_root),
        cmocka_unit_test_setup_teardown(no_limit_is_no_limit, make_root, remove_root),
        cmocka_unit_test_setup_teardown(garbage_limits_nothing, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
