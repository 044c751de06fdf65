/* See workload.h. */
#include "server/load/workload.h"

#include "core/check.h"
#include "core/mix.h"

/* Words from one record to the next, and of one; words of a sentence between them. */
enum { RECORD_EVERY = 48, RECORD_WORDS = 8, SENTENCE_WORDS = 10, EXTRACTED_N = 6 };

static const char *const words[] = {
    "time",   "year",    "people", "way",     "day",      "man",     "thing",      "woman",  "life",  "child", "world",
    "school", "state",   "family", "student", "group",    "country", "problem",    "hand",   "part",  "place", "case",
    "week",   "company", "system", "program", "question", "work",    "government", "number", "night", "point",
};
static const char *const firsts[] = {"Marrow", "Silent", "Copper", "Winter", "Amber", "Stone",  "Hollow", "Bright",
                                     "Raven",  "Salt",   "Thorn",  "Golden", "Birch", "Hidden", "Old",    "Far"};
static const char *const seconds[] = {"Hill",   "River",  "Bridge", "Harbor", "Tower", "Field", "Gate",  "Lake",
                                      "Forest", "Valley", "Mill",   "Cove",   "Ridge", "House", "Point", "Ford"};
enum { FIRSTS_N = LF_N_ELEMS(firsts), NAMES_N = FIRSTS_N * LF_N_ELEMS(seconds) };

const char *lf_workload_word(uint64_t random)
{
    return words[random % LF_N_ELEMS(words)];
}

int lf_workload_output_tokens(enum lf_workload workload)
{
    static const int n[] = {[LF_WORKLOAD_RANDOM] = 32,
                            [LF_WORKLOAD_EXTRACT] = 256,
                            [LF_WORKLOAD_QA] = 64,
                            [LF_WORKLOAD_SUMMARY] = 512,
                            [LF_WORKLOAD_CHAT] = 128};
    return n[workload];
}

int lf_workload_n_records(int n_words)
{
    return n_words < RECORD_WORDS ? 0 : (n_words - RECORD_WORDS) / RECORD_EVERY + 1;
}

/* Of record number i, two words: the order is the text's own, and behind all names they come again with a number. */
static void append_name(struct lf_buf *out, uint64_t seed, int i)
{
    size_t name = (size_t)((uint64_t)i + seed % NAMES_N) * 37 % NAMES_N; /* 37 and 256 have no common factor */
    lf_buf_printf(out, "%s %s", firsts[name % FIRSTS_N], seconds[name / FIRSTS_N]);
    if (i >= NAMES_N) lf_buf_printf(out, "-%d", i / NAMES_N + 1);
}

static void append_record(struct lf_buf *out, uint64_t seed, int i)
{
    lf_buf_cstr(out, "The access code for ");
    append_name(out, seed, i);
    lf_buf_printf(out, " is %d.", 10000 + (int)(lf_random64(~seed, (uint64_t)i) % 90000));
}

void lf_workload_text(struct lf_buf *out, uint64_t seed, int n_words)
{
    for (int i = 0; i < n_words;) {
        int in_part = i % RECORD_EVERY;
        if (i > 0) lf_buf_char(out, ' ');
        if (in_part == 0 && n_words - i >= RECORD_WORDS) {
            append_record(out, seed, i / RECORD_EVERY);
            i += RECORD_WORDS;
            continue;
        }
        lf_buf_cstr(out, lf_workload_word(lf_random64(seed, (uint64_t)i)));
        if ((in_part - RECORD_WORDS) % SENTENCE_WORDS == SENTENCE_WORDS - 1) lf_buf_char(out, '.');
        i++;
    }
}

/* Which record a question begins with; 0 where a text has none. */
static int record_of(uint64_t seed, int n_words, uint64_t number)
{
    int n = LF_MAX(lf_workload_n_records(n_words), 1);
    return (int)(lf_random64(seed + 1, number) % (uint64_t)n);
}

static void append_extraction(struct lf_buf *out, uint64_t seed, int n_words, uint64_t number)
{
    int n = LF_MAX(lf_workload_n_records(n_words), 1), first = record_of(seed, n_words, number);
    lf_buf_cstr(out, "Copy the sentences about these, word for word, one a line: ");
    for (int i = 0; i < LF_MIN(n, EXTRACTED_N); i++) {
        if (i > 0) lf_buf_cstr(out, ", ");
        append_name(out, seed, (first + i) % n);
    }
    lf_buf_char(out, '.');
}

void lf_workload_question(struct lf_buf *out, enum lf_workload workload, uint64_t seed, int n_words, uint64_t number)
{
    if (workload == LF_WORKLOAD_EXTRACT) {
        append_extraction(out, seed, n_words, number);
    } else if (workload == LF_WORKLOAD_SUMMARY) {
        lf_buf_printf(out, "Summarize the text in %d sentences.", 5 + (int)(number % 11));
    } else {
        lf_buf_cstr(out, "What is the access code for ");
        append_name(out, seed, record_of(seed, n_words, number));
        lf_buf_char(out, '?');
    }
}

void lf_workload_answer(struct lf_buf *out, uint64_t seed, int n_words, uint64_t number)
{
    append_record(out, seed, record_of(seed, n_words, number));
}
