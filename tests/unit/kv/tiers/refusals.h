/* Allocations, locks and threads that are counted and can be refused: the linker sends the program's calls here (see
 * CMakeLists.txt). Each program includes this once. */
#ifndef LF_TESTS_TIER_REFUSALS_H
#define LF_TESTS_TIER_REFUSALS_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static _Atomic int fails_in;       /* the n-th allocation, lock or thread from here on is refused; 0: none */
static _Atomic uint64_t allocated; /* bytes, since the start */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *ptr, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *ctx);
int __real_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int __real_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *ptr, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *ctx);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr);

static bool refused(size_t n)
{
    allocated += n;
    return fails_in > 0 && --fails_in == 0;
}

void *__wrap_malloc(size_t n)
{
    return refused(n) ? NULL : __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t size)
{
    return refused(n * size) ? NULL : __real_calloc(n, size);
}
void *__wrap_realloc(void *ptr, size_t n)
{
    return refused(n) ? NULL : __real_realloc(ptr, n);
}
void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return refused(n) ? NULL : __real_aligned_alloc(align, n);
}
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *ctx)
{
    return refused(0) ? EAGAIN : __real_pthread_create(thread, attr, fn, ctx);
}
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
    return refused(0) ? ENOMEM : __real_pthread_mutex_init(mutex, attr);
}
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
    return refused(0) ? ENOMEM : __real_pthread_cond_init(cond, attr);
}

#endif
