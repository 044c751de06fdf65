#include "device/cuda/library_places.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"

/* Where a toolkit has its libraries, and Python its packages. A row without a variable is a path as it stands; one
 * whose variable is not set is left out. An asterisk is any text; a folder of the variable that has one in its own name
 * may be missed. */
struct place {
    const char *variable, *path;
};

static const struct place toolkits[] = {
    {"CUDA_HOME", "/lib64"},         {"CUDA_PATH", "/lib64"},           {"CONDA_PREFIX", "/lib"},
    {NULL, "/usr/local/cuda/lib64"}, {NULL, "/usr/local/cuda-*/lib64"},
};

static const struct place pythons[] = {
    {"VIRTUAL_ENV", "/lib/python3*/site-packages"},  {"CONDA_PREFIX", "/lib/python3*/site-packages"},
    {"HOME", "/.local/lib/python3*/site-packages"},  {NULL, "/usr/local/lib/python3*/dist-packages"},
    {NULL, "/usr/local/lib/python3*/site-packages"}, {NULL, "/usr/lib/python3*/dist-packages"},
    {NULL, "/usr/lib/python3*/site-packages"},
};

/* What the folder, a pattern, has of that name. */
static void add(glob_t *out, const struct place *place, const char *below, const char *file)
{
    char pattern[PATH_MAX];
    const char *root = place->variable ? getenv(place->variable) : "";
    if (!root || (place->variable && root[0] != '/')) return; /* not of wherever the program happens to run */
    int n = snprintf(pattern, sizeof pattern, "%s%s%s/%s", root, place->path, below, file);
    if (n < 0 || (size_t)n >= sizeof pattern) return;
    (void)glob(pattern, GLOB_APPEND, NULL, out);
}

void lf_library_places_find(glob_t *out, const char *file, int cuda_major, const char *build_dir)
{
    char of_version[64];
    memset(out, 0, sizeof *out);
    /* the first call starts the list, and those behind it append to it */
    (void)glob("/nothing/has/this/name", 0, NULL, out);
    add(out, &(struct place){NULL, build_dir}, "", file);
    for (size_t i = 0; i < LF_N_ELEMS(toolkits); i++) add(out, &toolkits[i], "", file);
    snprintf(of_version, sizeof of_version, "/nvidia/cu%d/lib", cuda_major);
    for (size_t i = 0; i < LF_N_ELEMS(pythons); i++) {
        add(out, &pythons[i], of_version, file);
        add(out, &pythons[i], "/nvidia/cublas/lib", file);
    }
}
