/* The first error of a device, kept. Plain C without CUDA: whoever has an error code and its words may use it. */
#ifndef LF_DEVICE_CUDA_STICKY_H
#define LF_DEVICE_CUDA_STICKY_H

#include <stdbool.h>

#include "core/status.h"

enum { LF_STICKY_BYTES = 256 };

struct lf_sticky {
    int code; /* 0: none */
    char words[LF_STICKY_BYTES];
};

/* Keeps code if it is the first that is not 0, as "what: words (code)"; true then. Long texts are cut. */
bool lf_sticky_note(struct lf_sticky *sticky, int code, const char *what, const char *words);
/* LF_OK, or LF_DEVICE with the kept words behind the device's name. */
LF_MUST_CHECK enum lf_status lf_sticky_status(const struct lf_sticky *sticky, const char *device, struct lf_err *err);

#endif
