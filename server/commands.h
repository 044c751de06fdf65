/* The commands of the program. Each gets its configuration and returns the exit status. */
#ifndef LF_SERVER_COMMANDS_H
#define LF_SERVER_COMMANDS_H

#include "server/config.h"

enum lf_exit {
    LF_EXIT_OK = 0,
    LF_EXIT_FAILED = 1, /* something broke while running */
    LF_EXIT_REFUSED = 2 /* the configuration cannot be run: plan does not fit, no such model, port in use */
};

int lf_serve_command(const struct lf_config *config);
int lf_plan_command(const struct lf_config *config);
int lf_run_command(const struct lf_config *config);
int lf_load_command(const struct lf_config *config);
int lf_tokenize_command(const struct lf_config *config);
int lf_health_command(const struct lf_config *config);
int lf_documents_command(const struct lf_config *config);
int lf_quantize_command(const struct lf_config *config);
/* Those that need no configuration. */
int lf_docs_command(const char *name); /* NULL: not given */
int lf_version_command(void);

/* Of the program: "0.3.0", and the commit that it was built from or "unknown". */
const char *lf_version(void);
const char *lf_commit(void);
/* One line of all that may make two builds compute different bits: version, commit, compiler, C library. */
enum { LF_PROGRAM_BYTES = 256 };
void lf_program_print(char out[LF_PROGRAM_BYTES]);

/* Prints what is written, on standard output. */
struct lf_buf;
int lf_print(void (*write)(struct lf_buf *out));

/* Prints "longflash: message" on standard error and returns the exit status that fits the failure: input that cannot
 * be meant, files that are not there or contradict themselves, and memory that is not there are refusals. */
int lf_report(const struct lf_err *err);

#endif
