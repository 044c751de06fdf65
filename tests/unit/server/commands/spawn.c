#include "tests/unit/server/commands/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "tests/support/test.h"

enum { ARGS_N = 64 };

void spawn_start(struct spawned *s, const char *program, const char *const *args, const char *const *env)
{
    const char *argv[ARGS_N + 2] = {program}, *envp[ARGS_N + 2] = {"PATH=/usr/bin:/bin"};
    int out[2], err[2], n = 1;
    for (int i = 0; args[i] && n < ARGS_N; i++) argv[n++] = args[i];
    for (int i = 0; env && env[i] && i < ARGS_N; i++) envp[i + 1] = env[i];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO), 0);
    assert_int_equal(posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0), 0);
    assert_int_equal(
        posix_spawn(&s->pid, program, &actions, NULL, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)envp),
        0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(err[1]);
    s->out_fd = out[0];
    s->err_fd = err[0];
}

/* Reads what is there into text; closes the descriptor at its end. */
static void drain_fd(int *fd, char *text, size_t size, size_t *n)
{
    char rest[4096];
    size_t room = size - 1 - *n;
    ssize_t got = read(*fd, room ? text + *n : rest, room ? room : sizeof(rest));
    if (got > 0 && room) *n += (size_t)got;
    if (got <= 0) {
        close(*fd);
        *fd = -1;
    }
    text[*n] = '\0';
}

void spawn_finish(struct spawned *s, struct finished *out, int timeout_s)
{
    int64_t begin = lf_clock_ns();
    size_t n_out = 0, n_err = 0;
    int status = 0;
    memset(out, 0, sizeof(*out));
    while (s->out_fd >= 0 || s->err_fd >= 0) {
        struct pollfd fds[2] = {{.fd = s->out_fd, .events = POLLIN}, {.fd = s->err_fd, .events = POLLIN}};
        if (lf_clock_ns() - begin > (int64_t)timeout_s * LF_NS_PER_S) {
            kill(s->pid, SIGKILL);
            fail_msg("still running after %d s; it said: %s%s", timeout_s, out->out, out->err);
        }
        if (poll(fds, 2, 100) <= 0) continue;
        if (fds[0].revents) drain_fd(&s->out_fd, out->out, sizeof(out->out), &n_out);
        if (fds[1].revents) drain_fd(&s->err_fd, out->err, sizeof(out->err), &n_err);
    }
    assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
    out->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    out->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    out->seconds = (double)(lf_clock_ns() - begin) / LF_NS_PER_S;
}

void spawn_wait_line(struct spawned *s, const char *text, char *line, int line_bytes)
{
    int n = 0;
    char c;
    while (read(s->out_fd, &c, 1) == 1) {
        if (c != '\n') {
            if (n + 1 < line_bytes) line[n++] = c;
            continue;
        }
        line[n] = '\0';
        if (strstr(line, text)) return;
        n = 0;
    }
    struct finished end;
    spawn_finish(s, &end, 10);
    fail_msg("it ended with %d before it said \"%s\": %s", end.exit_status, text, end.err);
}
