/* The commands as a reader meets them: names, and what --help, the man page and completion say about each. main.c has
 * the functions that run them. */
#ifndef LF_SERVER_DOCS_COMMAND_TABLE_H
#define LF_SERVER_DOCS_COMMAND_TABLE_H

#define LF_DOCS_NAMES "api metrics options man bash zsh fish"

struct lf_command_row {
    unsigned command;     /* an lf_command, whose options it takes; 0: it takes none */
    const char *name;     /* "serve" */
    const char *args;     /* behind the name in the usage line */
    const char *words;    /* what its first argument may be, with spaces between; NULL: it is free */
    const char *summary;  /* one line without a full stop */
    const char *text;     /* sentences; paragraphs are parted by empty lines */
    const char *examples; /* lines to type, each ended; NULL: none */
};

extern const struct lf_command_row lf_command_rows[];
extern const int lf_command_rows_n;

const struct lf_command_row *lf_command_row_find(const char *name); /* NULL: no such command */

#endif
