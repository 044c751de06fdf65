/* The rows of command_options.c; who looks for options goes through options.h. */
#ifndef LF_SERVER_COMMAND_OPTIONS_H
#define LF_SERVER_COMMAND_OPTIONS_H

#include "server/options.h"

extern const struct lf_option lf_command_options[];
extern const int lf_command_options_n;

#endif
