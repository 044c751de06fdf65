/* Options of vLLM and llama.cpp, and what does the same here: for the refusal of an option that nobody has here, and
 * for docs/options.md. */
#ifndef LF_SERVER_OPTION_HINTS_H
#define LF_SERVER_OPTION_HINTS_H

#include <stddef.h>

#include "server/options.h"

struct lf_option_hint {
    const char *theirs; /* as it is typed, with its dashes; several names of one thing are separated by blanks */
    const char *ours;   /* the name of our option; NULL: none does the same */
    const char *say;    /* what else there is to say, behind our option or in its place; NULL: nothing */
};

extern const struct lf_option_hint lf_option_hints[];
extern const int lf_option_hints_n;

/* The row that has this name of theirs (dashes and all), or NULL. */
const struct lf_option_hint *lf_option_hint_find(const char *typed, size_t len);
/* What it says, for one command: "here that is --ctx TOKENS|auto". */
void lf_option_hint_print(const struct lf_option_hint *hint, enum lf_command command, struct lf_buf *out);

#endif
