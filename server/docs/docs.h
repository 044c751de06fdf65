/* The documents that the program makes of its own tables: --help, the man page, the reference of options, completions.
 *
 * Each is one function that appends a whole document. The files under docs/ and share/ are what `longflash docs NAME`
 * prints; tests/lint/check_docs.py fails where one of them is not current. What the API's tables say is made where they
 * are, in server/http/api/api_docs.c. */
#ifndef LF_SERVER_DOCS_DOCS_H
#define LF_SERVER_DOCS_DOCS_H

#include "core/str.h"

struct lf_option;

/* The page of --help: of the program (""), or of a command. */
void lf_help_print(const char *command, struct lf_buf *out);

void lf_docs_man(struct lf_buf *out);     /* longflash.1 */
void lf_docs_options(struct lf_buf *out); /* options.md */
void lf_docs_bash(struct lf_buf *out);
void lf_docs_zsh(struct lf_buf *out);
void lf_docs_fish(struct lf_buf *out);

/* What the pages have in common. */

/* The value's name, or its choices where they are few; "" for a flag. */
const char *lf_docs_value(const struct lf_option *o);
/* Whether the choices are listed apart, being too many for the value's place. */
bool lf_docs_lists_choices(const struct lf_option *o);
/* "8080", "0: what memory gives", or "" where there is nothing to say. */
void lf_docs_default(struct lf_buf *out, const struct lf_option *o);
/* "serve, plan" */
void lf_docs_commands(struct lf_buf *out, const struct lf_option *o);

#endif
