/* What people do with long texts, as requests of the load test: to have passages copied out, to ask about a fact, to
 * have a summary made, to go on talking.
 *
 * The texts say things that can be asked about: records, sentences such as "The access code for Marrow Hill is 48213.",
 * one at the beginning of every RECORD_EVERY words that say nothing. So a model that reads well answers with what
 * stands in the text, which is what speculation from the prompt lives on, and ends its answers by itself. A text
 * follows from its seed and length alone, a question from these and its number. ASCII, with nothing that JSON escapes.
 */
#ifndef LF_SERVER_LOAD_WORKLOAD_H
#define LF_SERVER_LOAD_WORKLOAD_H

#include <stdint.h>

#include "core/str.h"

enum lf_workload {
    LF_WORKLOAD_RANDOM,  /* words that say nothing, and answers of a fixed length */
    LF_WORKLOAD_EXTRACT, /* several records are to be copied, word for word */
    LF_WORKLOAD_QA,      /* one is asked about */
    LF_WORKLOAD_SUMMARY,
    LF_WORKLOAD_CHAT /* as QA, but of each text LF_WORKLOAD_TURNS_N questions, each behind the ones before it and their
                      * answers */
};

enum { LF_WORKLOAD_TURNS_N = 6 };

/* Tokens that an answer may have, unless somebody says otherwise. */
int lf_workload_output_tokens(enum lf_workload workload);
/* Records of a text of so many words. */
int lf_workload_n_records(int n_words);
/* n_words words; those of a record are part of them. */
void lf_workload_text(struct lf_buf *out, uint64_t seed, int n_words);
/* Question number `number` about that text; its answer for QA and CHAT. */
void lf_workload_question(struct lf_buf *out, enum lf_workload workload, uint64_t seed, int n_words, uint64_t number);
void lf_workload_answer(struct lf_buf *out, uint64_t seed, int n_words, uint64_t number);

/* One of the words that say nothing, each a token in nearly every vocabulary, whatever comes before it. */
const char *lf_workload_word(uint64_t random);

#endif
