/* Ends a process by SIGKILL at one of its calls that change a disk, counted from the first: LD_PRELOAD=kill_at.so with
 * LF_KILL_AT=N, before the N-th is made (LF_KILL_HOW=before) or, where it is a write, after half of its bytes (half).
 * 0: never. However it ends in order, the number of calls is written to the file LF_KILL_COUNT. Threads are counted
 * together.
 *
 * What the process has written then lies in the kernel as after any kill: what a loss of power leaves is
 * tests/support/fake_disk.h's business. */
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long n_calls;

static bool is_the_one(void)
{
    const char *at = getenv("LF_KILL_AT");
    return atomic_fetch_add(&n_calls, 1) + 1 == (at ? strtol(at, NULL, 10) : 0);
}

static void end(void)
{
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static void *next(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);
    if (!f) abort();
    return f;
}

/* The write is made by `real`, half of it where that is asked for. */
static ssize_t write_or_end(ssize_t (*real)(int, const void *, size_t, off_t), int fd, const void *bytes, size_t n,
                            off_t at)
{
    if (is_the_one()) {
        const char *how = getenv("LF_KILL_HOW");
        /* O_DIRECT takes whole sectors */
        size_t half = n >= 1024 ? n / 2 / 512 * 512 : n / 2;
        if (how && strcmp(how, "half") == 0) (void)!real(fd, bytes, half, at);
        end();
    }
    return real(fd, bytes, n, at);
}

#define WRITE(name)                                                                                                    \
    ssize_t name(int fd, const void *bytes, size_t n, off_t at)                                                        \
    {                                                                                                                  \
        ssize_t (*real)(int, const void *, size_t, off_t);                                                             \
        *(void **)&real = next(#name);                                                                                 \
        return write_or_end(real, fd, bytes, n, at);                                                                   \
    }
#define CALL(name, parameters, arguments)                                                                              \
    int name parameters                                                                                                \
    {                                                                                                                  \
        int(*real) parameters;                                                                                         \
        if (is_the_one()) end();                                                                                       \
        *(void **)&real = next(#name);                                                                                 \
        return real arguments;                                                                                         \
    }

WRITE(pwrite)
WRITE(pwrite64)
CALL(fsync, (int fd), (fd))
CALL(fdatasync, (int fd), (fd))
CALL(ftruncate, (int fd, off_t n), (fd, n))
CALL(ftruncate64, (int fd, off_t n), (fd, n))
CALL(mkdir, (const char *path, mode_t mode), (path, mode))
CALL(unlink, (const char *path), (path))
CALL(rename, (const char *from, const char *to), (from, to))

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("LF_KILL_COUNT");
    FILE *f = path ? fopen(path, "we") : NULL;
    if (!f) return;
    fprintf(f, "%ld\n", atomic_load(&n_calls));
    fclose(f);
}
