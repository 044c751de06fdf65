/* For programs of one thread, linked with --wrap for both: what is locked is unlocked, once, and nothing is locked
 * twice. Without it a lock that is left out would be seen by the thread sanitizer alone. */
#ifndef LF_TESTS_SUPPORT_LOCK_DEPTH_H
#define LF_TESTS_SUPPORT_LOCK_DEPTH_H

#include <pthread.h>

#include "core/check.h"

static int lock_depth;

int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);

int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
    LF_ASSERT(lock_depth == 0);
    lock_depth++;
    return __real_pthread_mutex_lock(m);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
    LF_ASSERT(lock_depth == 1);
    lock_depth--;
    return __real_pthread_mutex_unlock(m);
}

#endif
