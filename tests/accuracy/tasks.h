/* What is measured, read from lines of JSON and turned into token ids by the model's own tokenizer and template:
 *
 *     {"text": "…", "tokens": 512, "scored": 64}            the first 512 tokens of a text; the last 64 of them are
 * scored
 *     {"document": "…", "questions": ["…", "…"]}            a document that is read once, and questions about it
 *
 * A question's prompt is what `longflash run --document` makes of it. */
#ifndef LF_TESTS_ACCURACY_TASKS_H
#define LF_TESTS_ACCURACY_TASKS_H

#include "server/runtime.h"
#include "tokenizer/tokenizer.h"

struct task {
    struct lf_ids *prompts; /* [n_prompts]; of a text: one */
    int n_prompts;
    int n_scored; /* of a text; 0: questions */
    int n_shared; /* of questions: tokens that all prompts begin with, whole blocks, less than any of them */
};

struct task_list {
    struct task *tasks;
    int n, cap;
    int longest; /* tokens of the longest prompt */
};

/* One line; rt is open. LF_INVALID with what was expected; LF_LIMIT; LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status task_list_add(struct task_list *list, const struct lf_runtime *rt, struct lf_str line,
                                           struct lf_err *err);
void task_list_deinit(struct task_list *list); /* accepts a zeroed one */

#endif
