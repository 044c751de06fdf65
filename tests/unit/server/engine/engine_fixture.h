/* The fixture of the engine's tests: an engine over the fake model, whose thread may not allocate. The linker sends the
 * program's calls of malloc and its like here (see CMakeLists.txt): those of the engine thread are counted, and one of
 * another thread can be made to fail. Its locks refuse to be unlocked by a thread that has not locked them, so one that
 * is left out is seen without the thread sanitizer too. Each program includes this once. */
#ifndef LF_TESTS_ENGINE_FIXTURE_H
#define LF_TESTS_ENGINE_FIXTURE_H

#include <errno.h>
#include <pthread.h>

#include "tests/unit/server/engine/engine_rig.h"

static _Thread_local bool is_engine_thread;
static _Thread_local int fails_in; /* the n-th allocation, lock or thread from here on is refused; 0: none */
static _Atomic int n_engine_allocs;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *ptr, size_t n);
void __real_free(void *ptr);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *ctx);
int __real_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int __real_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *ptr, size_t n);
void __wrap_free(void *ptr);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *ctx);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr);
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr);

static bool refused(void)
{
    if (is_engine_thread) n_engine_allocs++;
    return fails_in > 0 && --fails_in == 0;
}

void *__wrap_malloc(size_t n)
{
    return refused() ? NULL : __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t size)
{
    return refused() ? NULL : __real_calloc(n, size);
}
void *__wrap_realloc(void *ptr, size_t n)
{
    return refused() ? NULL : __real_realloc(ptr, n);
}
void __wrap_free(void *ptr)
{
    if (is_engine_thread) n_engine_allocs++;
    __real_free(ptr);
}
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *ctx)
{
    return refused() ? EAGAIN : __real_pthread_create(thread, attr, fn, ctx);
}
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attr)
{
    pthread_mutexattr_t strict;
    if (refused()) return ENOMEM;
    if (attr) return __real_pthread_mutex_init(mutex, attr);
    pthread_mutexattr_init(&strict);
    pthread_mutexattr_settype(&strict, PTHREAD_MUTEX_ERRORCHECK);
    int error = __real_pthread_mutex_init(mutex, &strict);
    pthread_mutexattr_destroy(&strict);
    return error;
}
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
    return refused() ? ENOMEM : __real_pthread_cond_init(cond, attr);
}

static void mark_thread(void)
{
    is_engine_thread = true;
}

static int n_async_steps; /* of the device that all tests run on: each main runs them on either kind */

static struct lf_threads *workers; /* that it has; NULL: none */

static inline int setup(void **state)
{
    struct engine_rig *f = calloc(1, sizeof(*f));
    f->backend.n_async_steps = n_async_steps;
    f->backend.workers = workers;
    f->backend.on_thread = mark_thread;
    struct lf_engine_opts opts = rig_opts();
    rig_open(f, 128, &opts);
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    struct engine_rig *f = *state;
    assert_int_equal(rig_blocks_used(f), 0);
    rig_close(f);
    free(f);
    assert_int_equal(n_engine_allocs, 0);
    return 0;
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

#endif
