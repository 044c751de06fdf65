#include "server/demo_model.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/str.h"
#include "server/config.h"

void lf_demo_model_find(struct lf_config *config)
{
    char program[PATH_MAX], path[PATH_MAX + sizeof "/share/longflash/" LF_DEMO_MODEL];
    if (!config->model || strcmp(config->model, LF_DEMO_MODEL) != 0 || access(LF_DEMO_MODEL, F_OK) == 0) return;
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0) return;
    program[n] = '\0';
    for (int up = 0; up < 2; up++) { /* the program's name, and its folder's */
        char *slash = strrchr(program, '/');
        if (!slash) return;
        *slash = '\0';
    }
    snprintf(path, sizeof path, "%s/share/longflash/" LF_DEMO_MODEL, program);
    if (access(path, F_OK) != 0) return;
    const char *found = lf_arena_strdup(&config->arena, lf_str_c(path));
    if (found) config->model = found;
}
