/* How signals end a process at once, whatever its threads do: with a status, and nothing given back. */
#ifndef LF_SERVER_ENDS_H
#define LF_SERVER_ENDS_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "server/commands.h"

static inline void lf_end_now(int sig)
{
    (void)sig;
    _exit(LF_EXIT_OK);
}

static inline void lf_end_failed(int sig)
{
    (void)sig;
    _exit(LF_EXIT_FAILED);
}

/* TERM and INT run this from now on; the other threads keep them blocked, so it is this one that is interrupted. May be
 * called by such a handler. */
static inline void lf_handle_ends(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    pthread_sigmask(SIG_UNBLOCK, &ends, NULL);
}

#endif
