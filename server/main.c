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
#include "server/options.h"
#include "server/runtime.h"

static const struct {
    const char *name;
    enum lf_command command;
    int (*run)(const struct lf_config *config);
} commands[] = {
    {"serve", LF_COMMAND_SERVE, lf_serve_command},
    {"plan", LF_COMMAND_PLAN, lf_plan_command},
    {"run", LF_COMMAND_RUN, lf_run_command},
    {"load", LF_COMMAND_LOAD, lf_load_command},
    {"tokenize", LF_COMMAND_TOKENIZE, lf_tokenize_command},
    {"health", LF_COMMAND_HEALTH, lf_health_command},
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

static int print_help(unsigned command)
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

static int run(size_t which, int argc, char **argv)
{
    struct lf_config config = {0};
    struct lf_err err;
    int exit_status;
    if (check_stack(&err) != LF_OK) {
        exit_status = lf_report(&err);
    } else if (lf_config_read(&config, commands[which].command, argc, argv, environ, &err) != LF_OK) {
        exit_status = lf_report(&err);
    } else if (config.help) {
        exit_status = print_help(commands[which].command);
    } else {
        exit_status = commands[which].run(&config);
    }
    /* whoever started a server may have closed the pipe that it said "ready" to */
    if (commands[which].command != LF_COMMAND_SERVE) exit_status = flushed(exit_status);
    lf_config_deinit(&config);
    return exit_status;
}

/* 0 where there is none. */
static unsigned command_of(const char *name)
{
    for (size_t i = 0; i < LF_N_ELEMS(commands); i++)
        if (strcmp(name, commands[i].name) == 0) return commands[i].command;
    return 0;
}

static int no_such_command(const char *name)
{
    fprintf(stderr, "longflash: %.60s: no such command; expected serve, plan, run, load, tokenize or health\n", name);
    return LF_EXIT_REFUSED;
}

int main(int argc, char **argv)
{
    take_closed_descriptors();
    lf_runtime_tame_heap();
    const char *name = argc > 1 ? argv[1] : "--help";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        unsigned command = argc > 2 ? command_of(argv[2]) : 0;
        return argc > 2 && !command ? no_such_command(argv[2]) : flushed(print_help(command));
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        printf("longflash " LF_VERSION "\n");
        return flushed(LF_EXIT_OK);
    }
    for (size_t i = 0; i < LF_N_ELEMS(commands); i++)
        if (strcmp(name, commands[i].name) == 0) return run(i, argc - 2, argv + 2);
    return no_such_command(name);
}
