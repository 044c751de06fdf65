#include "device/cuda/sticky.h"

#include <stdio.h>

bool lf_sticky_note(struct lf_sticky *sticky, int code, const char *what, const char *words)
{
    if (code == 0 || sticky->code != 0) return false;
    sticky->code = code;
    (void)snprintf(sticky->words, sizeof sticky->words, "%s: %s (error %d)", what, words, code);
    return true;
}

enum lf_status lf_sticky_status(const struct lf_sticky *sticky, const char *device, struct lf_err *err)
{
    if (sticky->code == 0) return LF_OK;
    return lf_fail(err, LF_DEVICE, "%s failed and is not used any more: %s", device, sticky->words);
}
