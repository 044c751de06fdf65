/* server/load/workload.c: texts are as long as they should be, and what is asked about stands in them, once. */
#include "tests/support/test.h"

#include "core/check.h"
#include "server/load/workload.h"

static const enum lf_workload kinds[] = {LF_WORKLOAD_EXTRACT, LF_WORKLOAD_QA, LF_WORKLOAD_SUMMARY, LF_WORKLOAD_CHAT};
static const int lengths[] = {1, 7, 8, 9, 47, 48, 55, 56, 57, 500, 48 * 700};

static struct lf_buf text_of(uint64_t seed, int n_words)
{
    struct lf_buf text;
    lf_buf_init(&text, 1 << 20);
    lf_workload_text(&text, seed, n_words);
    assert_int_equal(text.status, LF_OK);
    return text;
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what)) n++;
    return n;
}

static void texts_have_so_many_words_and_records(void **state)
{
    (void)state;
    for (size_t i = 0; i < LF_N_ELEMS(lengths); i++) {
        struct lf_buf text = text_of(i, lengths[i]);
        int n_records = lf_workload_n_records(lengths[i]);
        assert_int_equal(count(text.ptr, " ") + 1, lengths[i]);
        assert_int_equal(count(text.ptr, "The access code for "), n_records);
        assert_int_equal(n_records, lengths[i] < 8 ? 0 : (lengths[i] + 40) / 48);
        for (size_t k = 0; k < text.len; k++) {
            unsigned char c = (unsigned char)text.ptr[k];
            assert_true(c >= ' ' && c < 0x7f && c != '"' && c != '\\');
        }
        lf_buf_deinit(&text);
    }
}

static void texts_follow_from_their_seed(void **state)
{
    (void)state;
    struct lf_buf a = text_of(5, 500), again = text_of(5, 500), b = text_of(6, 500), longer = text_of(5, 600);
    assert_string_equal(a.ptr, again.ptr);
    assert_memory_equal(a.ptr, longer.ptr, a.len);
    assert_memory_not_equal(strstr(a.ptr, " is "), strstr(b.ptr, " is "), 9); /* what it says, too */
    lf_buf_deinit(&a);
    lf_buf_deinit(&again);
    lf_buf_deinit(&b);
    lf_buf_deinit(&longer);
}

/* No two records of a text are about the same, beyond the 256 names too. */
static void records_have_names_of_their_own(void **state)
{
    (void)state;
    struct lf_buf text = text_of(9, 48 * 700);
    int n = 0;
    for (const char *p = text.ptr; (p = strstr(p, "The access code for ")); p += 20) {
        char sentence[80];
        const char *end = strstr(p, " is ");
        assert_non_null(end);
        snprintf(sentence, sizeof sentence, "%.*s", (int)(end + 4 - p), p);
        assert_int_equal(count(text.ptr, sentence), 1);
        assert_in_range(strtol(end + 4, NULL, 10), 10000, 99999);
        assert_int_equal(end[9], '.');
        n++;
    }
    assert_int_equal(n, 700);
    lf_buf_deinit(&text);
}

static void answers_stand_in_the_text_and_say_what_was_asked(void **state)
{
    (void)state;
    for (size_t i = 2; i < LF_N_ELEMS(lengths); i++) {
        struct lf_buf text = text_of(i, lengths[i]);
        for (uint64_t number = 0; number < 50; number++) {
            struct lf_buf question, answer;
            char name[80];
            lf_buf_init(&question, 1 << 10);
            lf_buf_init(&answer, 1 << 10);
            lf_workload_question(&question, number % 2 ? LF_WORKLOAD_QA : LF_WORKLOAD_CHAT, i, lengths[i], number);
            lf_workload_answer(&answer, i, lengths[i], number);
            assert_int_equal(count(text.ptr, answer.ptr), 1);
            assert_true(lf_str_starts(lf_buf_view(&question), LF_STR("What is the access code for ")));
            snprintf(name, sizeof name, " for %.*s is ", (int)question.len - 1 - 28, question.ptr + 28);
            assert_non_null(strstr(answer.ptr, name));
            assert_int_equal(question.ptr[question.len - 1], '?');
            lf_buf_deinit(&question);
            lf_buf_deinit(&answer);
        }
        lf_buf_deinit(&text);
    }
}

/* Six names at most, all of them in the text. */
static void what_is_to_be_copied_stands_in_the_text(void **state)
{
    (void)state;
    for (size_t i = 2; i < LF_N_ELEMS(lengths); i++) {
        struct lf_buf text = text_of(i, lengths[i]), question;
        lf_buf_init(&question, 1 << 10);
        lf_workload_question(&question, LF_WORKLOAD_EXTRACT, i, lengths[i], 3);
        char *names = strchr(question.ptr, ':') + 2;
        assert_int_equal(count(names, ",") + 1, LF_MIN(lf_workload_n_records(lengths[i]), 6));
        names[strlen(names) - 1] = '\0';
        for (char *rest = names, *name; (name = strtok_r(rest, ",", &rest));) {
            char sentence[80];
            snprintf(sentence, sizeof sentence, "The access code for %s is ", name + (*name == ' '));
            assert_int_equal(count(text.ptr, sentence), 1);
        }
        lf_buf_deinit(&question);
        lf_buf_deinit(&text);
    }
}

static void questions_differ_and_need_no_record(void **state)
{
    (void)state;
    for (size_t k = 0; k < LF_N_ELEMS(kinds); k++) {
        struct lf_buf a, b;
        lf_buf_init(&a, 1 << 10);
        lf_buf_init(&b, 1 << 10);
        lf_workload_question(&a, kinds[k], 4, 5000, 1);
        lf_workload_question(&b, kinds[k], 4, 5000, 2);
        assert_string_not_equal(a.ptr, b.ptr);
        lf_buf_clear(&a);
        lf_workload_question(&a, kinds[k], 4, 1, 1);
        assert_true(a.status == LF_OK && a.len > 10);
        assert_in_range(lf_workload_output_tokens(kinds[k]), 33, 1000);
        lf_buf_deinit(&a);
        lf_buf_deinit(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_have_so_many_words_and_records),
        cmocka_unit_test(texts_follow_from_their_seed),
        cmocka_unit_test(records_have_names_of_their_own),
        cmocka_unit_test(answers_stand_in_the_text_and_say_what_was_asked),
        cmocka_unit_test(what_is_to_be_copied_stands_in_the_text),
        cmocka_unit_test(questions_differ_and_need_no_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
