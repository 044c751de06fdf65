/* A process whose rank 0 cannot read its weights, and whose other ranks read theirs for ever: LD_PRELOAD=hang_rank.so.
 * Ranks are known by the names of their threads, which rank 0's gives them before it reads. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_bool has_ranks;

static void *next(const char *name)
{
    void *f = dlsym(RTLD_NEXT, name);
    if (!f) abort();
    return f;
}

int pthread_setname_np(pthread_t thread, const char *name)
{
    int (*real)(pthread_t, const char *);
    *(void **)&real = next("pthread_setname_np");
    if (strncmp(name, "lf-rank", 7) == 0) atomic_store(&has_ranks, true);
    return real(thread, name);
}

ssize_t pread(int fd, void *bytes, size_t n, off_t at)
{
    ssize_t (*real)(int, void *, size_t, off_t);
    *(void **)&real = next("pread");
    while (gettid() != getpid()) (void)pause();
    if (!atomic_load(&has_ranks)) return real(fd, bytes, n, at);
    errno = EIO;
    return -1;
}
