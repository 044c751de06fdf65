#include "tests/support/test.h"

#include "core/arena.h"

static void pieces_are_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    struct lf_arena arena;
    lf_arena_init(&arena, 256, 1 << 20);
    char *prev = NULL;
    for (size_t n = 1; n < 600; n += 37) {
        char *p = lf_arena_alloc(&arena, n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n; i++) assert_int_equal(p[i], 0);
        memset(p, 0xAA, n);
        assert_ptr_not_equal(p, prev);
        prev = p;
    }
    assert_string_equal(lf_arena_strdup(&arena, LF_STR("hello")), "hello");
    lf_arena_deinit(&arena);
    lf_arena_deinit(&arena);
}

static void the_ceiling_holds(void **state)
{
    (void)state;
    struct lf_arena arena;
    lf_arena_init(&arena, 64, 1024);
    assert_non_null(lf_arena_alloc(&arena, 1024));
    assert_null(lf_arena_alloc(&arena, 1));
    lf_arena_deinit(&arena);
    lf_arena_init(&arena, 64, 1024);
    assert_null(lf_arena_alloc(&arena, 1025));
    assert_null(lf_arena_alloc(&arena, SIZE_MAX));
    assert_null(lf_arena_array(&arena, SIZE_MAX / 2, 4));
    assert_non_null(lf_arena_array(&arena, 16, 64));
    lf_arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_zeroed_aligned_and_apart),
        cmocka_unit_test(the_ceiling_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
