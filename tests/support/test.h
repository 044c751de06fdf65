/* cmocka with what it needs before it, and the few helpers every test program shares. */
#ifndef LF_TESTS_SUPPORT_TEST_H
#define LF_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cmocka.h>

#include "core/str.h"

/* The folder of the optional test material: $LF_ASSETS, or ../shared/assets beside the source tree. */
static inline const char *test_assets(void)
{
    const char *dir = getenv("LF_ASSETS");
    return dir && dir[0] ? dir : "../shared/assets";
}

/* Sanitizers cost a factor, and so does a build that is not optimized; the bound on time is for plain builds. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWNESS 20
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOWNESS 20
#endif
#endif
#if !defined(SLOWNESS) && !defined(__OPTIMIZE__)
#define SLOWNESS 5
#endif
#ifndef SLOWNESS
#define SLOWNESS 1
#endif

/* Processor time of this process, seconds: what others do on the machine does not count. */
static inline double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Bytes that end at an unmapped page, so that reading one past the end is a fault. Freed by test_guarded_free. */
struct test_guarded {
    char *ptr;
    char *map;
    size_t map_bytes;
};

static inline struct test_guarded test_guarded_copy(const void *bytes, size_t n)
{
    size_t page = 4096, body = (n + page - 1) / page * page + page;
    char *map = mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(mprotect(map + body, page, PROT_NONE), 0);
    struct test_guarded g = {map + body - n, map, body + page};
    if (n) memcpy(g.ptr, bytes, n);
    return g;
}

static inline void test_guarded_free(struct test_guarded *g)
{
    munmap(g->map, g->map_bytes);
}

#endif
