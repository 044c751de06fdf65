/* server/http/api/parts.c: what a printer gets of an answer that is made in pieces. */
#include "tests/support/test.h"

#include <stdio.h>

#include "core/check.h"
#include "core/text_memory.h"
#include "server/http/api/parts.h"

static struct lf_parts parts;

static int setup(void **state)
{
    (void)state;
    lf_parts_init(&parts, NULL);
    lf_parts_restart(&parts, true);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    lf_parts_deinit(&parts);
    return 0;
}

static void add(enum lf_answer_kind kind, const char *bytes)
{
    lf_parts_add(&parts, kind, lf_str_c(bytes));
}

/* All parts that there are, each as kind, block, call and bytes; `*` where a block begins. They are shown with it. */
static void has(const char *want)
{
    static const char letters[] = {[LF_ANSWER_TEXT] = 't',
                                   [LF_ANSWER_REASONING] = 'r',
                                   [LF_ANSWER_CALL] = 'c',
                                   [LF_ANSWER_ARGUMENTS] = 'a',
                                   [LF_ANSWER_CALL_END] = 'e'};
    struct lf_part part;
    struct lf_buf got;
    lf_buf_init(&got, 1 << 20);
    while (lf_parts_next(&parts, &part)) {
        lf_buf_printf(&got, "%c%d", letters[part.kind], part.block);
        if (part.kind >= LF_ANSWER_CALL) lf_buf_printf(&got, "/%d", part.call);
        lf_buf_printf(&got, "%s:%.*s ", part.begins ? "*" : "", (int)part.bytes.len, part.bytes.ptr);
        lf_parts_shown(&parts, &part);
    }
    assert_string_equal(lf_buf_view(&got).ptr, want);
    lf_buf_deinit(&got);
    assert_false(lf_parts_any(&parts));
    assert_int_equal(parts.text.len, 0);
}

static void stretches_of_a_kind_are_blocks(void **state)
{
    (void)state;
    has("");
    add(LF_ANSWER_REASONING, "a");
    add(LF_ANSWER_REASONING, "b");
    add(LF_ANSWER_TEXT, "c");
    has("r0*:ab t1*:c ");
    add(LF_ANSWER_TEXT, "d"); /* the same block, though what there was of it is shown */
    has("t1:d ");
    add(LF_ANSWER_TEXT, "");
    has("");
    assert_true(parts.has_text && parts.has_reasoning);
    lf_parts_restart(&parts, true);
    assert_false(parts.has_text || parts.has_reasoning || lf_parts_any(&parts));
    add(LF_ANSWER_TEXT, "e");
    has("t0*:e ");
}

static void calls_are_counted_and_come_to_an_end(void **state)
{
    (void)state;
    add(LF_ANSWER_TEXT, "x");
    add(LF_ANSWER_CALL, "f");
    add(LF_ANSWER_ARGUMENTS, "{");
    add(LF_ANSWER_ARGUMENTS, "}");
    add(LF_ANSWER_CALL_END, "");
    add(LF_ANSWER_CALL, "g");
    has("t0*:x c1/0*:f a1/0:{} e1/0: c2/1*:g ");
    add(LF_ANSWER_ARGUMENTS, "{");
    has("a2/1:{ ");
    assert_int_equal(parts.n_calls, 2);
    assert_int_equal(parts.n_whole_calls, 1);
    lf_parts_end(&parts); /* it was cut */
    lf_parts_end(&parts);
    has("e2/1: ");
    assert_int_equal(parts.n_whole_calls, 1);
    assert_int_equal(parts.n_blocks, 3);
}

static void what_is_of_no_call_is_left_out(void **state)
{
    (void)state;
    add(LF_ANSWER_ARGUMENTS, "{}");
    add(LF_ANSWER_CALL_END, "");
    has("");
    assert_int_equal(parts.n_whole_calls, 0);
    add(LF_ANSWER_CALL, "f");
    add(LF_ANSWER_TEXT, "x"); /* another kind ends it as well */
    add(LF_ANSWER_ARGUMENTS, "{}");
    add(LF_ANSWER_CALL, "g");
    add(LF_ANSWER_CALL, "h");
    has("c0/0*:f e0/0: t1*:x c2/1*:g e2/1: c3/2*:h ");
}

/* A printer that closes a block must know of which kind it was. */
static void a_part_says_what_came_before_its_block(void **state)
{
    (void)state;
    static const enum lf_answer_kind before[] = {LF_ANSWER_TEXT, LF_ANSWER_REASONING, LF_ANSWER_CALL_END};
    struct lf_part part;
    add(LF_ANSWER_REASONING, "a");
    add(LF_ANSWER_CALL, "f");
    add(LF_ANSWER_TEXT, "x");
    for (int block = 0; lf_parts_next(&parts, &part);) {
        if (part.begins) assert_int_equal(part.before, before[block++]);
        lf_parts_shown(&parts, &part);
    }
}

static void all_can_be_dropped(void **state)
{
    (void)state;
    add(LF_ANSWER_CALL, "f");
    lf_parts_skip(&parts);
    add(LF_ANSWER_ARGUMENTS, "{");
    has("a0/0:{ ");
    lf_parts_restart(&parts, false);
    lf_buf_cstr(&parts.text, "plain");
    assert_int_equal(parts.n_blocks, 0);
    lf_parts_skip(&parts);
    assert_int_equal(parts.n_blocks, 1);
}

static void a_plain_answer_is_one_stretch_of_text(void **state)
{
    (void)state;
    lf_parts_restart(&parts, false);
    has("");
    lf_buf_cstr(&parts.text, "a");
    has("t0*:a ");
    lf_buf_cstr(&parts.text, "b");
    has("t0:b ");
}

static void without_memory_the_text_says_so(void **state)
{
    (void)state;
    struct lf_text_memory *memory = NULL;
    lf_parts_deinit(&parts);
    assert_int_equal(lf_text_memory_create(&memory, 1, NULL), LF_OK);
    lf_parts_init(&parts, memory);
    lf_parts_restart(&parts, true);
    add(LF_ANSWER_CALL, "f");
    assert_int_equal(parts.text.status, LF_NO_MEMORY);
    assert_int_equal(parts.n_calls, 0);
    lf_parts_restart(&parts, true);
    parts.in_call = true; /* an end has no bytes, only a run */
    add(LF_ANSWER_CALL_END, "");
    assert_int_equal(parts.text.status, LF_NO_MEMORY);
    lf_parts_deinit(&parts);
    lf_text_memory_destroy(memory);
    lf_parts_init(&parts, NULL);
}

/* ---- pieces ---- */

/* The first piece of a text that has a code point of so many bytes at `at`, and x elsewhere. */
static size_t first_piece(bool by_runs, enum lf_answer_kind kind, size_t len, size_t at, const char *code_point)
{
    static char bytes[8192];
    struct lf_part part;
    memset(bytes, 'x', sizeof bytes);
    memcpy(bytes + at, code_point, strlen(code_point));
    lf_parts_restart(&parts, by_runs);
    if (by_runs)
        lf_parts_add(&parts, kind, lf_str_from(bytes, len));
    else
        lf_buf_append(&parts.text, bytes, len);
    assert_true(lf_parts_next(&parts, &part));
    assert_ptr_equal(part.bytes.ptr, parts.text.ptr);
    assert_true(part.begins);
    size_t n = part.bytes.len;
    lf_parts_shown(&parts, &part);
    assert_int_equal(parts.shown, n == len ? 0 : n);
    assert_int_equal(lf_parts_next(&parts, &part), n < len);
    if (n < len) assert_int_equal(part.bytes.len, LF_MIN(len - n, 4096));
    return n;
}

static void text_is_cut_between_code_points(void **state)
{
    (void)state;
    for (int by_runs = 0; by_runs < 2; by_runs++) {
        assert_int_equal(first_piece(by_runs, LF_ANSWER_TEXT, 1, 0, ""), 1);
        assert_int_equal(first_piece(by_runs, LF_ANSWER_TEXT, 4096, 0, ""), 4096);
        assert_int_equal(first_piece(by_runs, LF_ANSWER_TEXT, 4096, 4095, "\xC3"), 4096); /* all there is */
        assert_int_equal(first_piece(by_runs, LF_ANSWER_REASONING, 4097, 0, ""), 4096);
        assert_int_equal(first_piece(by_runs, LF_ANSWER_TEXT, 5000, 4094, "\xC3\xA9"), 4096);
        assert_int_equal(first_piece(by_runs, LF_ANSWER_TEXT, 5000, 4095, "\xC3\xA9"), 4095);
        assert_int_equal(first_piece(by_runs, LF_ANSWER_TEXT, 5000, 4094, "\xE4\xB8\xAD"), 4094);
        assert_int_equal(first_piece(by_runs, LF_ANSWER_TEXT, 5000, 4093, "\xF0\x9F\xA6\x99"), 4093);
        assert_int_equal(first_piece(by_runs, LF_ANSWER_TEXT, 5000, 4092, "\xF0\x9F\xA6\x99"), 4096);
        assert_int_equal(first_piece(by_runs, LF_ANSWER_TEXT, 5000, 4090, "\x80\x80\x80\x80\x80\x80\x80\x80"),
                         4092); /* no code point */
    }
    assert_int_equal(first_piece(true, LF_ANSWER_CALL, 5000, 0, ""), 5000); /* a name is never cut */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(stretches_of_a_kind_are_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(calls_are_counted_and_come_to_an_end, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_of_no_call_is_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(a_part_says_what_came_before_its_block, setup, teardown),
        cmocka_unit_test_setup_teardown(all_can_be_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(a_plain_answer_is_one_stretch_of_text, setup, teardown),
        cmocka_unit_test_setup_teardown(without_memory_the_text_says_so, setup, teardown),
        cmocka_unit_test_setup_teardown(text_is_cut_between_code_points, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
