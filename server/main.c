/* The program: finds the command, reads its configuration, runs it. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/check.h"
#include "core/limits.h"
#include "server/commands.h"
#include "server/demo_model.h"
#include "server/docs/command_table.h"
#include "server/docs/docs.h"
#include "server/runtime.h"

static const struct {
    enum lf_command command;
    int (*run)(const struct lf_config *config);
} commands[] = {
    {LF_COMMAND_SERVE, lf_serve_command},
    {LF_COMMAND_PLAN, lf_plan_command},
    {LF_COMMAND_RUN, lf_run_command},
    {LF_COMMAND_LOAD, lf_load_command},
    {LF_COMMAND_TOKENIZE, lf_tokenize_command},
    {LF_COMMAND_HEALTH, lf_health_command},
    {LF_COMMAND_DOCUMENTS, lf_documents_command},
    {LF_COMMAND_QUANTIZE, lf_quantize_command},
};

int lf_report(const struct lf_err *err)
{
    fprintf(stderr, "longflash: %s\n", err->message);
    switch (err->status) {
    case LF_INVALID:
    case LF_UNSUPPORTED:
    case LF_NOT_FOUND:
    case LF_LIMIT:
    case LF_CORRUPT:
    case LF_NO_MEMORY:
    case LF_IO:
        return LF_EXIT_REFUSED;
    default:
        return LF_EXIT_FAILED;
    }
}

/* Of the program (""), or of a command. */
static int print_help(const char *command)
{
    struct lf_buf page;
    lf_buf_init(&page, 64 * 1024);
    lf_help_print(command, &page);
    int status = fwrite(page.ptr, 1, page.len, stdout) == page.len ? LF_EXIT_OK : LF_EXIT_FAILED;
    lf_buf_deinit(&page);
    return status;
}

/* What was printed may not have arrived: a full disk must not look like success. */
static int flushed(int exit_status)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return exit_status;
    fprintf(stderr, "longflash: standard output could not be written whole\n");
    return exit_status == LF_EXIT_OK ? LF_EXIT_FAILED : exit_status;
}

/* A standard descriptor that the caller closed would be given to the first socket or file that is opened, and what is
 * printed or logged would go into that one. It is taken here instead, and stays as unusable as it was. */
static void take_closed_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/* The limit holds for this thread, and is the size that all others get. */
static enum lf_status check_stack(struct lf_err *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= LF_STACK_BYTES) return LF_OK;
    return lf_fail(err, LF_LIMIT, "the stack is limited to %ju KiB; expected %d KiB or more: ulimit -s %d",
                   (uintmax_t)limit.rlim_cur / 1024, LF_STACK_BYTES / 1024, LF_STACK_BYTES / 1024);
}

static int run_configured(const struct lf_command_row *row, int argc, char **argv)
{
    struct lf_config config = {0};
    struct lf_err err;
    int exit_status = LF_EXIT_REFUSED;
    enum lf_command command = (enum lf_command)row->command;
    if (check_stack(&err) != LF_OK || lf_config_read(&config, command, argc, argv, environ, &err) != LF_OK) {
        exit_status = lf_report(&err);
    } else if (config.help) {
        exit_status = print_help(row->name);
    } else {
        lf_demo_model_find(&config);
        for (size_t i = 0; i < LF_N_ELEMS(commands); i++)
            if (commands[i].command == command) exit_status = commands[i].run(&config);
    }
    lf_config_deinit(&config);
    return exit_status;
}

static int no_such_command(const char *name)
{
    fprintf(stderr, "longflash: %.60s: no such command; expected", name);
    for (int i = 0; i < lf_command_rows_n; i++)
        fprintf(stderr, "%s %s", i == 0 ? "" : i + 1 < lf_command_rows_n ? "," : " or", lf_command_rows[i].name);
    fputc('\n', stderr);
    return LF_EXIT_REFUSED;
}

/* A command that takes no options: "help" and "docs" take one argument at most, "version" none. */
static int run_plain(const struct lf_command_row *row, int argc, char **argv)
{
    const char *arg = argc > 0 ? argv[0] : NULL;
    bool help = argc == 1 && (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0);
    if (help) return print_help(row->name);
    if (arg && !*row->args) {
        fprintf(stderr, "longflash: %s takes no arguments, got \"%.60s\"\n", row->name, arg);
        return LF_EXIT_REFUSED;
    }
    if (argc > 1) {
        fprintf(stderr, "longflash: %s takes one argument at most; see longflash help %s\n", row->name, row->name);
        return LF_EXIT_REFUSED;
    }
    if (strcmp(row->name, "docs") == 0) return lf_docs_command(arg);
    if (strcmp(row->name, "version") == 0) return lf_version_command();
    return arg && !lf_command_row_find(arg) ? no_such_command(arg) : print_help(arg ? arg : "");
}

int main(int argc, char **argv)
{
    take_closed_descriptors();
    lf_runtime_tame_heap();
    const char *name = argc > 1 ? argv[1] : "help";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) name = "help";
    if (strcmp(name, "--version") == 0) name = "version";
    const struct lf_command_row *row = lf_command_row_find(name);
    if (!row) return no_such_command(name);
    int n_args = argc > 2 ? argc - 2 : 0;
    int exit_status = row->command ? run_configured(row, n_args, argv + 2) : run_plain(row, n_args, argv + 2);
    /* whoever started a server may have closed the pipe that it said "ready" to */
    return row->command == LF_COMMAND_SERVE ? exit_status : flushed(exit_status);
}
