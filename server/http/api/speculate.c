/* See speculate.h. */
#include "server/http/api/speculate.h"

_Static_assert(LF_SPECULATION_N == 16, "what is said here");

const char lf_speculate_type[] = "`\"auto\"`, `\"off\"`, boolean or integer";
const char lf_speculate_help[] =
    "tokens that a step tries beside the next one, up to 16: those that came where the answer's last tokens stood "
    "before; `\"auto\"` and true: as many as pay; `\"off\"`, false and 0: none; without it what `--speculate` says. "
    "The answer is the same. Of no effect for models with states";

enum lf_status lf_speculate_read(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    int64_t n;
    bool on = lf_json_type(v) == LF_JSON_TRUE || lf_json_string_is(v, "auto");
    bool off = lf_json_type(v) == LF_JSON_FALSE || lf_json_string_is(v, "off");
    if (on || off)
        n = on ? LF_SPECULATION_AUTO : LF_SPECULATION_OFF;
    else if (!lf_json_int64(v, &n) || n < 0 || n > LF_SPECULATION_N)
        return lf_ask_expected(r, name, v, "auto, off, true, false or an integer from 0 to 16");
    r->ask->speculate = n;
    return LF_OK;
}
