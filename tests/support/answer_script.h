/* Answers by rules, for the scripted engine: a JSON file with an array of
 *
 *     {"when": ["weather in Rome"], "unless": ["21 degrees"], "end": "</think>", "say": "<tool_call>…"}
 *
 * The first rule applies whose `when` all stand in the prompt, of whose `unless` none does, and with whose `end` the
 * prompt ends. So a conversation of several turns has an answer for each. Prompts are with their control tokens. */
#ifndef TESTS_SUPPORT_ANSWER_SCRIPT_H
#define TESTS_SUPPORT_ANSWER_SCRIPT_H

#include <stdbool.h>

#include "core/str.h"

struct answer_script;

/* NULL, and a line on standard error, where there is no such file or it is not of this form. */
struct answer_script *answer_script_open(const char *path);
void answer_script_close(struct answer_script *script); /* accepts NULL */
/* What is answered to the prompt, borrowed from the script; false: no rule applies. */
bool answer_script_find(const struct answer_script *script, struct lf_str prompt, struct lf_str *say);

#endif
