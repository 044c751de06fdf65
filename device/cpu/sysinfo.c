/* Limits come from three places: /proc/meminfo, cgroup v2 and cgroup v1. A process's cgroup path is in
 * /proc/self/cgroup; every ancestor may hold a limit of its own, and inside a container the path seen there may lie
 * outside the mounted tree, so the walk goes up to the mount's root and skips what is not there. */
#include "device/cpu/sysinfo.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/check.h"

enum { PATH_BYTES = 4096, FILE_BYTES = 16384 };

/* The file's first FILE_BYTES - 1 bytes, terminated; false where it cannot be read. */
static bool read_text(const char *root, const char *path, char *out)
{
    char full[PATH_BYTES];
    int n_path = snprintf(full, sizeof full, "%s%s", root, path);
    if (n_path < 0 || (size_t)n_path >= sizeof full) return false;
    int fd = open(full, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    size_t n = 0;
    while (n < FILE_BYTES - 1) {
        ssize_t got = read(fd, out + n, FILE_BYTES - 1 - n);
        if (got <= 0) break;
        n += (size_t)got;
    }
    (void)close(fd);
    out[n] = '\0';
    return n > 0;
}

/* The number after `key` at the start of a line of text; false where there is none. */
static bool find_number(const char *text, const char *key, uint64_t *out)
{
    size_t n_key = strlen(key);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, n_key) != 0) continue;
        char *end = NULL;
        uint64_t value = strtoull(line + n_key, &end, 10);
        if (end == line + n_key) return false;
        *out = value;
        return true;
    }
    return false;
}

/* A file that holds one number; false for "max" and what is not there. */
static bool read_number(const char *root, const char *path, uint64_t *out)
{
    char text[FILE_BYTES];
    return read_text(root, path, text) && find_number(text, "", out);
}

/* This process's path in the hierarchy whose line of /proc/self/cgroup has the given controller list ("" is v2). */
static bool cgroup_path(const char *root, const char *controller, char *out)
{
    char text[FILE_BYTES];
    if (!read_text(root, "/proc/self/cgroup", text)) return false;
    size_t n_controller = strlen(controller);
    for (char *line = text; line != NULL && *line != '\0';) {
        char *next = strchr(line, '\n');
        if (next != NULL) *next++ = '\0';
        char *names = strchr(line, ':');
        char *path = names == NULL ? NULL : strchr(names + 1, ':');
        if (path != NULL) {
            *path++ = '\0';
            bool found = n_controller == 0 && names[1] == '\0';
            /* v1 lists controllers by comma: "cpu,cpuacct" */
            for (char *name = names + 1; n_controller != 0 && name != NULL && !found;) {
                found = strncmp(name, controller, n_controller) == 0 &&
                        (name[n_controller] == ',' || name[n_controller] == '\0');
                name = strchr(name, ',');
                if (name != NULL) name++;
            }
            if (found && strlen(path) < PATH_BYTES) {
                memcpy(out, path, strlen(path) + 1);
                return true;
            }
        }
        line = next;
    }
    return false;
}

struct memory_files {
    const char *mount, *limit, *usage, *inactive_key;
};

/* Narrows out by the limits of one cgroup directory. Page cache that the kernel drops under pressure is counted as
 * usage by the cgroup, so it is given back here. */
static void apply_memory_limit(const char *root, const struct memory_files *files, const char *dir,
                               struct lf_sysinfo_memory *out)
{
    char path[PATH_BYTES + 128];
    uint64_t limit = 0;
    (void)snprintf(path, sizeof path, "%s%s/%s", files->mount, dir, files->limit);
    if (!read_number(root, path, &limit)) return;
    out->total_bytes = LF_MIN(out->total_bytes, limit);

    uint64_t usage = 0, inactive = 0;
    (void)snprintf(path, sizeof path, "%s%s/%s", files->mount, dir, files->usage);
    if (!read_number(root, path, &usage)) return;
    char text[FILE_BYTES];
    (void)snprintf(path, sizeof path, "%s%s/memory.stat", files->mount, dir);
    if (read_text(root, path, text) && !find_number(text, files->inactive_key, &inactive)) inactive = 0;
    usage -= LF_MIN(usage, inactive);
    out->available_bytes = LF_MIN(out->available_bytes, limit - LF_MIN(limit, usage));
}

/* Removes the last component of dir; false once it is the root. */
static bool go_up(char *dir)
{
    char *slash = strrchr(dir, '/');
    if (slash == NULL || dir[0] == '\0') return false;
    *slash = '\0';
    return true;
}

static void apply_memory_limits(const char *root, const char *controller, const struct memory_files *files,
                                struct lf_sysinfo_memory *out)
{
    char dir[PATH_BYTES];
    if (!cgroup_path(root, controller, dir)) dir[0] = '\0';
    if (strcmp(dir, "/") == 0) dir[0] = '\0';
    do {
        apply_memory_limit(root, files, dir, out);
    } while (go_up(dir));
}

struct lf_sysinfo_memory lf_sysinfo_memory(const char *root)
{
    static const struct memory_files v2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "};
    static const struct memory_files v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                           "total_inactive_file "};
    struct lf_sysinfo_memory out = {UINT64_MAX, UINT64_MAX};
    char text[FILE_BYTES];
    uint64_t kib = 0;
    if (read_text(root, "/proc/meminfo", text)) {
        if (find_number(text, "MemTotal:", &kib)) out.total_bytes = kib * 1024;
        if (find_number(text, "MemAvailable:", &kib)) out.available_bytes = kib * 1024;
    }
    apply_memory_limits(root, "", &v2, &out);
    apply_memory_limits(root, "memory", &v1, &out);
    out.available_bytes = LF_MIN(out.available_bytes, out.total_bytes);
    return out;
}

static int quota_to_cpus(uint64_t quota, uint64_t period)
{
    if (quota == 0 || period == 0 || quota > (uint64_t)INT_MAX * period) return INT_MAX;
    return (int)((quota + period - 1) / period);
}

/* The tightest quota from this process's cgroup up to the root; INT_MAX where there is none. */
static int quota_cpus(const char *root)
{
    int n_cpus = INT_MAX;
    char dir[PATH_BYTES], path[PATH_BYTES + 128], text[FILE_BYTES];
    uint64_t quota = 0, period = 0;

    if (!cgroup_path(root, "", dir) || strcmp(dir, "/") == 0) dir[0] = '\0';
    do {
        (void)snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", dir);
        if (!read_text(root, path, text) || !find_number(text, "", &quota)) continue;
        const char *space = strchr(text, ' ');
        if (space != NULL && find_number(space + 1, "", &period)) n_cpus = LF_MIN(n_cpus, quota_to_cpus(quota, period));
    } while (go_up(dir));

    if (!cgroup_path(root, "cpu", dir) || strcmp(dir, "/") == 0) dir[0] = '\0';
    do {
        (void)snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.cfs_quota_us", dir);
        /* -1 stands for no quota; it reads as a number past every int */
        if (!read_number(root, path, &quota)) continue;
        (void)snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.cfs_period_us", dir);
        if (read_number(root, path, &period)) n_cpus = LF_MIN(n_cpus, quota_to_cpus(quota, period));
    } while (go_up(dir));
    return n_cpus;
}

int lf_sysinfo_n_cpus(const char *root)
{
    cpu_set_t set;
    int n_cpus = 1;
    /* Machines past 1024 CPUs refuse this small set: the count of all of them stands in. */
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        n_cpus = CPU_COUNT(&set);
    else
        n_cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    n_cpus = LF_MIN(n_cpus, quota_cpus(root));
    return LF_MAX(n_cpus, 1);
}
