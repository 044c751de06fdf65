#include "tests/support/test.h"

#include "core/check.h"
#include "server/rendezvous/launchers.h"

/* "NAME=value" lines. */
static const char *get(const char *name, void *user)
{
    static char values[16][128];
    static size_t next;
    const char *at = user;
    size_t n = strlen(name);
    for (; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        if (strncmp(at, name, n) != 0 || at[n] != '=') continue;
        char *value = values[next++ % LF_N_ELEMS(values)];
        snprintf(value, sizeof values[0], "%.*s", (int)strcspn(at + n + 1, "\n"), at + n + 1);
        return value;
    }
    return NULL;
}

static void expect(const char *environment, const char *by, int rank, int n_ranks, const char *address)
{
    struct lf_launcher l = {.rank = -1};
    struct lf_err err = {0};
    if (lf_launcher_read(&l, get, (void *)(uintptr_t)environment, &err) != LF_OK)
        fail_msg("%s: %s", environment, err.message);
    if (by)
        assert_string_equal(l.by, by);
    else
        assert_null(l.by);
    assert_int_equal(l.rank, rank);
    assert_int_equal(l.n_ranks, n_ranks);
    assert_string_equal(l.address, address);
}

static void refuse(const char *environment, const char *words)
{
    struct lf_launcher l = {.rank = -7};
    struct lf_err err = {0};
    assert_int_equal(lf_launcher_read(&l, get, (void *)(uintptr_t)environment, &err), LF_INVALID);
    if (!strstr(err.message, words)) fail_msg("expected \"%s\" in: %s", words, err.message);
    assert_int_equal(l.rank, -7);
}

static void test_sets(void **state)
{
    (void)state;
    expect("", NULL, 0, 0, "");
    expect("RANK=\nWORLD_SIZE=", NULL, 0, 0, "");
    expect("RANK=1\nWORLD_SIZE=2\nMASTER_ADDR=10.0.0.7\nMASTER_PORT=29500", "RANK", 1, 2, "10.0.0.7:29500");
    expect("RANK=0\nWORLD_SIZE=1\nMASTER_ADDR=fd00::1\nMASTER_PORT=1", "RANK", 0, 1, "[fd00::1]:1");
    expect("RANK=0\nWORLD_SIZE=1\nMASTER_ADDR=[fd00::1]\nMASTER_PORT=65535", "RANK", 0, 1, "[fd00::1]:65535");
    expect("RANK=3\nWORLD_SIZE=4", "RANK", 3, 4, "");
    expect("OMPI_COMM_WORLD_RANK=3\nOMPI_COMM_WORLD_SIZE=4\nMASTER_ADDR=a\nMASTER_PORT=5", "OMPI_COMM_WORLD_RANK", 3, 4,
           "a:5");
    expect("PMI_RANK=0\nPMI_SIZE=16", "PMI_RANK", 0, 16, "");
    expect("MASTER_ADDR=a\nMASTER_PORT=5", NULL, 0, 0, "a:5");
}

static void test_slurm(void **state)
{
    (void)state;
#define TASK "SLURM_PROCID=5\nSLURM_NTASKS=8\n"
    expect(TASK, "SLURM_PROCID", 5, 8, "");
    expect(TASK "SLURM_STEP_NODELIST=node[003-007,9],x", "SLURM_PROCID", 5, 8, "node003:29577");
    expect(TASK "SLURM_STEP_NODELIST=gpu-a,gpu-b", "SLURM_PROCID", 5, 8, "gpu-a:29577");
    expect(TASK "SLURM_STEP_NODELIST=gpu.b", "SLURM_PROCID", 5, 8, "gpu.b:29577");
    expect(TASK "SLURM_STEP_NODELIST=rack[1-2]n[07,9]x", "SLURM_PROCID", 5, 8, "rack1n07x:29577");
    expect(TASK "SLURM_LAUNCH_NODE_IPADDR=10.1.1.1", "SLURM_PROCID", 5, 8, "10.1.1.1:29577");
    expect(TASK "SLURM_STEP_NODELIST=a\nSLURM_LAUNCH_NODE_IPADDR=10.1.1.1", "SLURM_PROCID", 5, 8, "a:29577");
    expect(TASK "SLURM_STEP_NODELIST=a\nMASTER_ADDR=b\nMASTER_PORT=7", "SLURM_PROCID", 5, 8, "b:7");
    refuse(TASK "SLURM_STEP_NODELIST=node[", "SLURM_STEP_NODELIST");
    refuse(TASK "SLURM_STEP_NODELIST=node[]", "SLURM_STEP_NODELIST");
    refuse(TASK "SLURM_STEP_NODELIST=a b", "SLURM_STEP_NODELIST");
    refuse(TASK "SLURM_STEP_NODELIST=,a", "SLURM_STEP_NODELIST");
}

static void test_another_launcher_within_slurm(void **state)
{
    (void)state;
    expect(TASK "OMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=2\nSLURM_STEP_NODELIST=a", "OMPI_COMM_WORLD_RANK", 1, 2,
           "");
    expect(TASK "PMI_RANK=5\nPMI_SIZE=8\nSLURM_STEP_NODELIST=a", "PMI_RANK", 5, 8, "a:29577");
}

static void test_errors_by_name(void **state)
{
    (void)state;
    static const char *const names[][2] = {{"RANK", "WORLD_SIZE"},
                                           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"},
                                           {"SLURM_PROCID", "SLURM_NTASKS"},
                                           {"MASTER_ADDR", "MASTER_PORT"}};
    for (size_t i = 0; i < LF_N_ELEMS(names); i++)
        for (int half = 0; half < 2; half++) {
            char environment[64], words[96];
            snprintf(environment, sizeof environment, "%s=1", names[i][half]);
            snprintf(words, sizeof words, "%s is set and %s is not", names[i][half], names[i][!half]);
            refuse(environment, words);
        }
    refuse("RANK=1\nWORLD_SIZE=2\nPMI_RANK=0\nPMI_SIZE=2", "RANK is 1 and PMI_RANK is 0");
    refuse("OMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=3\nPMI_RANK=1\nPMI_SIZE=2",
           "OMPI_COMM_WORLD_SIZE is 3 and PMI_SIZE is 2");
    refuse("RANK=2\nWORLD_SIZE=2", "RANK is 2: expected less than WORLD_SIZE, which is 2");
    refuse("RANK=0\nWORLD_SIZE=0", "WORLD_SIZE");
    refuse("RANK=-1\nWORLD_SIZE=2", "RANK: expected a number");
    refuse("RANK=0x1\nWORLD_SIZE=2", "RANK: expected a number");
    refuse("RANK=1\nWORLD_SIZE=99999999999999999999", "WORLD_SIZE: expected a number");
    refuse("RANK=1\nWORLD_SIZE=2\nMASTER_ADDR=a\nMASTER_PORT=0", "MASTER_PORT");
    refuse("RANK=1\nWORLD_SIZE=2\nMASTER_ADDR=a\nMASTER_PORT=65536", "MASTER_PORT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_slurm),
        cmocka_unit_test(test_another_launcher_within_slurm),
        cmocka_unit_test(test_errors_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
