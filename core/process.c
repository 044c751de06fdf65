#include "core/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Of /proc/self/stat, as proc(5) counts them; the second one is the program's name in parentheses. */
enum { STAT_NAME = 2, STAT_STARTED = 22, STAT_VIRTUAL = 23, STAT_RESIDENT = 24, STAT_BYTES = 1024 };

static double seconds(clockid_t clock)
{
    struct timespec t;
    return clock_gettime(clock, &t) == 0 ? (double)t.tv_sec + (double)t.tv_nsec * 1e-9 : 0;
}

/* started: seconds after the machine's start. */
static void take_field(struct lf_process_figures *out, int field, const char *text)
{
    long long n = strtoll(text, NULL, 10);
    if (field == STAT_STARTED)
        out->started_unix_s =
            seconds(CLOCK_REALTIME) - seconds(CLOCK_BOOTTIME) + (double)n / (double)sysconf(_SC_CLK_TCK);
    else if (field == STAT_VIRTUAL)
        out->virtual_bytes = n;
    else if (field == STAT_RESIDENT)
        out->resident_bytes = n * sysconf(_SC_PAGESIZE);
}

static void read_stat(struct lf_process_figures *out)
{
    char text[STAT_BYTES];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return;
    text[n] = '\0';
    char *at = strrchr(text, ')'); /* the name may have parentheses and spaces of its own */
    for (int field = STAT_NAME + 1; at && field <= STAT_RESIDENT; field++) {
        at = strchr(at + 1, ' ');
        if (at) take_field(out, field, at + 1);
    }
}

static int64_t count_open(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int64_t n = -1; /* the directory's own */
    if (!dir) return -1;
    while (true) {
        const struct dirent *entry = readdir(dir);
        if (!entry) break;
        n += entry->d_name[0] != '.';
    }
    closedir(dir);
    return n;
}

void lf_process_read(struct lf_process_figures *out)
{
    struct rusage used;
    struct rlimit limit;
    *out = (struct lf_process_figures){-1, -1, -1, -1, -1, -1};
    if (getrusage(RUSAGE_SELF, &used) == 0)
        out->cpu_s = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                     (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        out->n_open_most = (int64_t)limit.rlim_cur;
    read_stat(out);
    out->n_open = count_open();
}
