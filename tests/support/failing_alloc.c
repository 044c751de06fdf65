#include "tests/support/failing_alloc.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local long refuse_in; /* 0: not armed */
static _Thread_local bool refuse_on;
static _Thread_local long n_refused;
static _Atomic long n_live;

void failing_alloc_arm(long k, bool for_good)
{
    n_refused = 0;
    refuse_on = for_good;
    refuse_in = k;
}

long failing_alloc_disarm(void)
{
    refuse_in = 0;
    return n_refused;
}

long failing_alloc_n_live(void)
{
    return n_live;
}

static bool refuses(void)
{
    if (refuse_in == 0) return false;
    if (refuse_in > 1) {
        refuse_in--;
        return false;
    }
    if (!refuse_on) refuse_in = 0;
    n_refused++;
    errno = ENOMEM;
    return true;
}

#ifdef FAILING_ALLOC_WRAPPED

#define REAL(name)                 __real_##name
#define OURS(name)                 __wrap_##name
#define COUNTED(ptr, n)            (ptr)
#define REAL_ALIGNED(alignment, n) __real_aligned_alloc(alignment, n)
void *__real_aligned_alloc(size_t alignment, size_t n);

#else

#define REAL(name)                 __libc_##name
#define OURS(name)                 name
#define COUNTED(ptr, n)            counted(ptr, n)
#define REAL_ALIGNED(alignment, n) __libc_memalign(alignment, n)
void *__libc_memalign(size_t alignment, size_t n);

static void *counted(void *ptr, long n)
{
    if (ptr) n_live += n;
    return ptr;
}

#endif

void *REAL(malloc)(size_t n);
void *REAL(calloc)(size_t n, size_t size);
void *REAL(realloc)(void *ptr, size_t n);
void *OURS(malloc)(size_t n);
void *OURS(calloc)(size_t n, size_t size);
void *OURS(realloc)(void *ptr, size_t n);
void *OURS(aligned_alloc)(size_t alignment, size_t n);
int OURS(posix_memalign)(void **out, size_t alignment, size_t n);

void *OURS(malloc)(size_t n)
{
    return refuses() ? NULL : COUNTED(REAL(malloc)(n), 1);
}

void *OURS(calloc)(size_t n, size_t size)
{
    return refuses() ? NULL : COUNTED(REAL(calloc)(n, size), 1);
}

void *OURS(realloc)(void *ptr, size_t n)
{
    if (refuses()) return NULL;
    void *grown = REAL(realloc)(ptr, n);
    if (!ptr) return COUNTED(grown, 1);
    if (n == 0) (void)COUNTED(ptr, -1);
    return grown;
}

void *OURS(aligned_alloc)(size_t alignment, size_t n)
{
    return refuses() ? NULL : COUNTED(REAL_ALIGNED(alignment, n), 1);
}

int OURS(posix_memalign)(void **out, size_t alignment, size_t n)
{
    void *ptr = refuses() ? NULL : COUNTED(REAL_ALIGNED(alignment, n), 1);
    if (!ptr) return ENOMEM;
    *out = ptr;
    return 0;
}

#ifndef FAILING_ALLOC_WRAPPED
void __libc_free(void *ptr);

void free(void *ptr)
{
    if (ptr) n_live--;
    __libc_free(ptr);
}
#endif
