/* Runs the program as a user would, and keeps what it said. */
#ifndef LF_TESTS_SPAWN_H
#define LF_TESTS_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

/* Sanitizers make a start several times slower. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SPAWN_SLOWER = 10 };
#else
enum { SPAWN_SLOWER = 1 };
#endif

struct spawned {
    pid_t pid;
    int out_fd, err_fd; /* read ends; -1 once closed */
};

struct finished {
    int exit_status; /* -1: it was killed by a signal */
    int signal;
    double seconds;
    char out[32 * 1024], err[32 * 1024]; /* cut at their size, terminated */
};

/* args and env end with NULL; env replaces the whole environment but PATH. cwd is the source tree. */
void spawn_start(struct spawned *s, const char *program, const char *const *args, const char *const *env);
/* Reads both streams to their end and waits. The test fails after timeout_s. */
void spawn_finish(struct spawned *s, struct finished *out, int timeout_s);
/* Reads standard output up to and including a line that holds `text`; the test fails where the stream ends before. */
void spawn_wait_line(struct spawned *s, const char *text, char *line, int line_bytes);

#endif
