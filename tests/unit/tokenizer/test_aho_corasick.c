/* tokenizer/aho_corasick.c against the plain way: at each place each text of the set is compared. */
#include "tests/support/test.h"

#include <malloc.h>

#include "core/text_memory.h"
#include "core/work.h"
#include "tokenizer/aho_corasick.h"

enum { SET_N = 12, TEXT_BYTES = 60 };

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

struct set {
    char texts[SET_N][8];
    struct lf_trie_entry entries[SET_N];
};

/* Texts of up to six of three letters, so that they lie within one another and some come twice. */
static void make_set(struct set *set, uint64_t *seed)
{
    for (int i = 0; i < SET_N; i++) {
        size_t len = 1 + next_random(seed) % 6;
        for (size_t k = 0; k < len; k++) set->texts[i][k] = (char)('a' + next_random(seed) % 3);
        set->entries[i] = (struct lf_trie_entry){lf_str_from(set->texts[i], len), i};
    }
}

/* The texts that begin at text, longest first, each with its lowest value; how many. */
static int plainly(const struct set *set, struct lf_str text, struct lf_trie_entry out[SET_N])
{
    int n = 0;
    for (size_t len = 7; len > 0; len--) {
        for (int i = 0; i < SET_N; i++) {
            if (set->entries[i].text.len != len || !lf_str_starts(text, set->entries[i].text)) continue;
            out[n++] = set->entries[i];
            break;
        }
    }
    return n;
}

static void check_place(const struct lf_aho *aho, uint32_t node, const struct set *set, struct lf_str rest)
{
    struct lf_trie_entry want[SET_N];
    int n = plainly(set, rest, want);
    uint32_t end = lf_aho_first(aho, node);
    for (int i = 0; i < n; i++, end = lf_aho_next(aho, end)) {
        assert_true(end != 0);
        assert_int_equal(lf_aho_len(aho, end), want[i].text.len);
        assert_int_equal(lf_aho_value(aho, end), want[i].value);
    }
    assert_int_equal(end, 0);
}

static void each_text_is_found_wherever_it_begins(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int round = 0; round < 400; round++) {
        struct set set;
        struct lf_aho aho;
        struct lf_err err;
        struct lf_aho_matches matches = {0};
        struct lf_trie_entry want[SET_N];
        char bytes[TEXT_BYTES];
        make_set(&set, &seed);
        assert_int_equal(lf_aho_build(&aho, set.entries, SET_N, &err), LF_OK);
        for (int i = 0; i < TEXT_BYTES; i++) bytes[i] = (char)('a' + next_random(&seed) % (round % 2 ? 4 : 3));
        struct test_guarded text = test_guarded_copy(bytes, TEXT_BYTES);
        uint32_t node = 0, nested = 0;
        int most = 0;
        assert_int_equal(lf_aho_longest(&aho, &matches, lf_str_from(text.ptr, TEXT_BYTES), NULL), LF_OK);
        for (size_t i = TEXT_BYTES; i-- > 0;) {
            struct lf_str rest = lf_str_from(text.ptr + i, TEXT_BYTES - i);
            node = lf_aho_step(&aho, node, (uint8_t)text.ptr[i]);
            check_place(&aho, node, &set, rest);
            int n = plainly(&set, rest, want);
            most = n > most ? n : most;
        }
        for (size_t i = 0; i < TEXT_BYTES; i++) { /* matches are taken from the front */
            int n = plainly(&set, lf_str_from(text.ptr + i, TEXT_BYTES - i), want);
            const struct lf_aho_match *match = lf_aho_match_at(&matches, i);
            assert_int_equal(match != NULL, n > 0);
            if (n == 0) continue;
            assert_int_equal(match->first, i);
            assert_int_equal(match->len, want[0].text.len);
            assert_int_equal(match->value, want[0].value);
        }
        assert_int_equal(lf_aho_nested(&aho, &nested, &err), LF_OK);
        assert_true((int)nested >= most);
        lf_aho_matches_deinit(&matches);
        lf_aho_deinit(&aho);
        test_guarded_free(&text);
    }
}

static uint32_t nested_of(const char *const *texts, size_t n)
{
    struct lf_trie_entry entries[8];
    struct lf_aho aho;
    struct lf_err err;
    uint32_t nested = 99;
    for (size_t i = 0; i < n; i++) entries[i] = (struct lf_trie_entry){lf_str_c(texts[i]), (int32_t)i};
    assert_int_equal(lf_aho_build(&aho, entries, n, &err), LF_OK);
    assert_int_equal(lf_aho_nested(&aho, &nested, &err), LF_OK);
    lf_aho_deinit(&aho);
    return nested;
}

static void so_many_begin_at_one_place(void **state)
{
    (void)state;
    assert_int_equal(nested_of((const char *const[]){"a"}, 1), 1);
    assert_int_equal(nested_of((const char *const[]){"a", "b", "ba"}, 3), 2);
    assert_int_equal(nested_of((const char *const[]){"a", "ba", "cba"}, 3), 1); /* within, but not at the beginning */
    assert_int_equal(nested_of((const char *const[]){"a", "ab", "abc", "abcd", "x", "xy"}, 6), 4);
    assert_int_equal(nested_of((const char *const[]){"aa", "aaaa", "a"}, 3), 3);
    assert_int_equal(nested_of(NULL, 0), 0);
}

static void nothing_of_a_set_is_left(void **state)
{
    (void)state;
    uint64_t seed = 9;
    struct set set;
    make_set(&set, &seed);
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < 100; i++) {
        struct lf_aho aho;
        struct lf_err err;
        uint32_t n;
        assert_int_equal(lf_aho_build(&aho, set.entries, SET_N, &err), LF_OK);
        assert_int_equal(lf_aho_nested(&aho, &n, &err), LF_OK);
        lf_aho_deinit(&aho);
        lf_aho_deinit(&aho); /* which left it empty */
    }
    assert_true(mallinfo2().uordblks <= before);
}

static void a_set_of_none_finds_nothing(void **state)
{
    (void)state;
    struct lf_aho aho;
    struct lf_err err;
    struct lf_aho_matches matches = {0};
    assert_int_equal(lf_aho_build(&aho, NULL, 0, &err), LF_OK);
    assert_true(lf_aho_is_empty(&aho));
    assert_true(!aho.fail && !aho.ends && !aho.lens); /* arrays of no node hold nothing, not even one */
    assert_int_equal(lf_aho_longest(&aho, &matches, LF_STR("abc"), NULL), LF_OK);
    assert_int_equal(matches.n, 0);
    assert_null(lf_aho_match_at(&matches, 0));
    lf_aho_matches_deinit(&matches);
    lf_aho_deinit(&aho);
}

/* It has a node of its own, the root, and no other. */
static void an_empty_text_is_found_nowhere(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        struct lf_aho aho;
        struct lf_err err;
        struct lf_aho_matches matches = {0};
        struct lf_trie_entry entry = {LF_STR(""), 1};
        assert_int_equal(lf_aho_build(&aho, &entry, 1, &err), LF_OK);
        assert_int_equal(aho.trie.n_nodes, 1);
        free(malloc(1000)); /* a node written behind the root would be met here */
        assert_int_equal(lf_aho_longest(&aho, &matches, LF_STR("abc"), NULL), LF_OK);
        assert_int_equal(matches.n, 0);
        lf_aho_deinit(&aho);
    }
}

static bool after_two(void *ctx)
{
    return ++*(int *)ctx > 2;
}

/* Looks come by steps; a search in a long text takes them from how much it has read. */
static void a_search_ends_when_nobody_waits_and_where_memory_does(void **state)
{
    (void)state;
    struct lf_aho aho;
    struct lf_err err;
    static char bytes[64 * LF_WORK_CHECK_STEPS];
    memset(bytes, 'a', sizeof bytes);
    struct lf_trie_entry entry = {LF_STR("b"), 1};
    assert_int_equal(lf_aho_build(&aho, &entry, 1, &err), LF_OK);
    struct lf_aho_matches matches = {0};
    int n_asked = 5;
    struct lf_work work = {.is_over = after_two, .ctx = &n_asked};
    assert_int_equal(lf_aho_longest(&aho, &matches, lf_str_from(bytes, sizeof bytes), &work), LF_CANCELLED);
    assert_int_equal(n_asked, 6);
    lf_aho_deinit(&aho);
    struct lf_text_memory *memory;
    entry.text = LF_STR("a");
    assert_int_equal(lf_aho_build(&aho, &entry, 1, &err), LF_OK);
    assert_int_equal(lf_text_memory_create(&memory, 2 * LF_TEXT_SLAB_BYTES, NULL), LF_OK);
    matches = (struct lf_aho_matches){.memory = memory};
    assert_int_equal(lf_aho_longest(&aho, &matches, lf_str_from(bytes, 64), NULL), LF_OK);
    assert_int_equal(matches.n, 64);
    assert_int_equal(lf_aho_longest(&aho, &matches, lf_str_from(bytes, 65), NULL), LF_OK); /* begins anew, and grows */
    assert_int_equal(matches.n, 65);
    assert_int_equal(lf_aho_longest(&aho, &matches, lf_str_from(bytes, sizeof bytes), NULL), LF_NO_MEMORY);
    lf_aho_matches_deinit(&matches);
    lf_text_memory_destroy(memory);
    lf_aho_deinit(&aho);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_text_is_found_wherever_it_begins),
        cmocka_unit_test(so_many_begin_at_one_place),
        cmocka_unit_test(nothing_of_a_set_is_left),
        cmocka_unit_test(a_set_of_none_finds_nothing),
        cmocka_unit_test(an_empty_text_is_found_nowhere),
        cmocka_unit_test(a_search_ends_when_nobody_waits_and_where_memory_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
