/* device/cuda/library_places.c: a library is found where toolkits and PyPI's packages put it. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/cuda/library_places.h"

#define FILE_NAME "libnobody_has_this.so.13"

static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX", "VIRTUAL_ENV", "HOME"};

static void unset_all(void)
{
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) unsetenv(variables[i]);
}

/* Makes the file below root, and its folders. */
static void put(const char *root, const char *folder, char out[512])
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/" FILE_NAME, root, folder);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0755);
        *slash = '/';
    }
    int fd = open(path, O_CREAT | O_WRONLY, 0644);
    assert_true(fd >= 0);
    close(fd);
    memcpy(out, path, sizeof path);
}

static void found_are(const char *build_dir, const char *const *paths, size_t n)
{
    glob_t found;
    lf_library_places_find(&found, FILE_NAME, 13, build_dir);
    assert_int_equal(found.gl_pathc, n);
    for (size_t i = 0; i < n; i++) assert_string_equal(found.gl_pathv[i], paths[i]);
    globfree(&found);
}

static void nothing_is_found_where_nothing_is(void **state)
{
    unset_all();
    found_are(*state, NULL, 0);
}

static void packages_of_pypi_are_found_in_every_python(void **state)
{
    static const char *const rows[][2] = {
        {"VIRTUAL_ENV", "lib/python3.11/site-packages/nvidia/cu13/lib"},
        {"VIRTUAL_ENV", "lib/python3.13/site-packages/nvidia/cublas/lib"},
        {"CONDA_PREFIX", "lib/python3.12/site-packages/nvidia/cu13/lib"},
        {"CONDA_PREFIX", "lib"},
        {"HOME", ".local/lib/python3.11/site-packages/nvidia/cu13/lib"},
        {"CUDA_HOME", "lib64"},
        {"CUDA_PATH", "lib64"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char root[256], path[512];
        snprintf(root, sizeof root, "%s/%zu", (const char *)*state, i);
        assert_int_equal(mkdir(root, 0755), 0);
        put(root, rows[i][1], path);
        unset_all();
        found_are("/nowhere", NULL, 0);
        setenv(rows[i][0], root, 1);
        found_are("/nowhere", (const char *const[]){path}, 1);
    }
    unset_all();
}

/* Packages of another CUDA have the library under another name, and lie beside it in another folder. */
static void the_toolkit_of_the_build_comes_first_and_other_versions_not_at_all(void **state)
{
    char root[256], ours[512], other[512], built[512], build_dir[300];
    snprintf(root, sizeof root, "%s/order", (const char *)*state);
    assert_int_equal(mkdir(root, 0755), 0);
    put(root, "lib/python3.11/site-packages/nvidia/cu13/lib", ours);
    put(root, "lib/python3.11/site-packages/nvidia/cu12/lib", other);
    put(root, "toolkit", built);
    snprintf(build_dir, sizeof build_dir, "%s/toolkit", root);
    setenv("VIRTUAL_ENV", root, 1);
    found_are(build_dir, (const char *const[]){built, ours}, 2);
    unset_all();
}

static void a_variable_that_is_no_path_is_left_out(void **state)
{
    char path[512], here[4096];
    put(*state, "lib64", path);
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(*state), 0);
    setenv("CUDA_HOME", ".", 1);
    found_are("/nowhere", NULL, 0);
    setenv("CUDA_HOME", "", 1);
    found_are("/nowhere", NULL, 0);
    assert_int_equal(chdir(here), 0);
    unset_all();
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st;
    (void)kind;
    (void)where;
    return remove(path);
}

static int make_root(void **state)
{
    static char root[] = "/tmp/longflash-test-XXXXXX";
    *state = mkdtemp(root);
    return *state ? 0 : -1;
}

static int remove_root(void **state)
{
    return nftw(*state, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_found_where_nothing_is),
        cmocka_unit_test(packages_of_pypi_are_found_in_every_python),
        cmocka_unit_test(the_toolkit_of_the_build_comes_first_and_other_versions_not_at_all),
        cmocka_unit_test(a_variable_that_is_no_path_is_left_out),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
