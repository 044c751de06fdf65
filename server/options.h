/* One row for each setting: what config.c reads and what --help and the documents say are the same table. */
#ifndef LF_SERVER_OPTIONS_H
#define LF_SERVER_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "core/str.h"
#include "server/config.h"

enum lf_option_type {
    LF_OPTION_STRING, /* const char * */
    LF_OPTION_INT,    /* int, min..max; K and M allowed; or a word: the option's is LF_OPTION_WORD, zero's is 0 */
    LF_OPTION_SIZE,   /* uint64_t, min..max; K, M, G, T allowed */
    LF_OPTION_REAL,   /* double, min..max */
    LF_OPTION_CHOICE, /* int: index into choices, "a|b|c" */
    LF_OPTION_SWITCH, /* bool: on or off */
    LF_OPTION_FLAG,   /* bool: on when named; takes no value on the command line */
    LF_OPTION_LIST,   /* const char *const *: may be given several times, or separated by commas */
    LF_OPTION_TEXTS   /* the same, but a value is one text, with its commas */
};

enum lf_option_group {
    LF_GROUP_MODEL,
    LF_GROUP_MEMORY,
    LF_GROUP_DEVICE,
    LF_GROUP_SCHEDULE,
    LF_GROUP_HTTP,
    LF_GROUP_COMMAND,
    LF_GROUP_OTHER,
    LF_GROUPS_N
};

enum { LF_OPTION_WORD = -1 };

struct lf_option {
    const char *name; /* as on the command line, without dashes: "max-seqs" */
    enum lf_option_type type;
    size_t offset; /* of the field in struct lf_config */
    int64_t min, max;
    const char *choices;  /* of a CHOICE */
    const char *word;     /* of an INT: what may stand in a number's place; NULL: nothing */
    const char *zero;     /* of an INT: what may stand for 0, though it be less than min; NULL: nothing */
    const char *fallback; /* default, as it would be written; "" leaves a string NULL */
    const char *shown;    /* what a default of "0" or "" stands for, in words; NULL: nothing but itself */
    const char *arg;      /* what --help calls the value: its unit, where it has one */
    const char *help;     /* one line, for --help and completion */
    const char *detail;   /* what only the man page and docs/options.md say besides, in sentences; NULL: nothing */
    unsigned commands;    /* lf_command bits */
    enum lf_option_group group;
};

static inline bool lf_option_is_list(const struct lf_option *option)
{
    return option->type == LF_OPTION_LIST || option->type == LF_OPTION_TEXTS;
}

extern const char *const lf_option_groups[LF_GROUPS_N]; /* headings */

/* All rows, in the order in which they are shown within their groups. */
int lf_options_n(void);
const struct lf_option *lf_option_at(int i);

/* The row of that name that the command takes, or NULL. A command of 0 means any. */
const struct lf_option *lf_option_find(const char *name, size_t name_len, unsigned command);
/* The row whose spelling is nearest among those the command takes; NULL where none is near. */
const struct lf_option *lf_option_nearest(const char *name, unsigned command);
/* "LONGFLASH_MAX_SEQS" or "max_seqs" from "max-seqs"; out holds at least 64 bytes. */
void lf_option_env_name(const struct lf_option *option, char out[64]);
void lf_option_json_name(const struct lf_option *option, char out[64]);

#endif
