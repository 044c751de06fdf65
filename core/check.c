#include "core/check.h"

#include <stdlib.h>

#include "core/log.h"

_Noreturn void lf_assert_failed(const char *cond, const char *file, int line)
{
    lf_log(LF_LOG_ERROR, "broken invariant: %s (%s:%d)", cond, file, line);
    abort();
}
