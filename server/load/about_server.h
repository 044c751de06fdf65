/* What a server says of itself in /v1/capacity, so that figures say what they were measured on. */
#ifndef LF_SERVER_LOAD_ABOUT_SERVER_H
#define LF_SERVER_LOAD_ABOUT_SERVER_H

#include <stdbool.h>

#include "core/str.h"

enum { LF_SERVER_MODEL_BYTES = 128 };

struct lf_about_server {
    int n_ranks;         /* that compute the model together; 0: it does not say */
    int n_context_ranks; /* over so many of them each context is divided; 1 where it does not say */
    int block_tokens;    /* of its cache: a prefix is found in whole ones; one rank's where it does not say */
    char model[LF_SERVER_MODEL_BYTES]; /* its first so many bytes at most, whole characters */
};

/* Of the body of the answer. false: it is none of such a server, and *out is zeroed. */
bool lf_about_server_read(struct lf_about_server *out, struct lf_str body);

#endif
