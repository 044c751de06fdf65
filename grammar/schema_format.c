/* The formats that are enforced, as patterns over the whole string. Each is a little narrower than its RFC where
 * readers disagree: no leap seconds, years from 1, calendar dates that exist, no quoted local parts. */
#include <string.h>

#include "core/check.h"
#include "grammar/schema_impl.h"

#define YEAR      "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
#define LEAP_YEAR "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define MONTH_DAY                                                                                                      \
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"                           \
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
#define DATE "(?:" YEAR "-" MONTH_DAY "|" LEAP_YEAR "-02-29)"
#define HOUR "(?:[01][0-9]|2[0-3])"
#define TIME HOUR ":[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-]" HOUR ":[0-5][0-9])"
#define BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 BYTE "(?:\\." BYTE "){3}"
#define HEX  "[0-9a-fA-F]"
#define H16  HEX "{1,4}"
#define LS32 "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                                           \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32 "|(?:(?:" H16            \
    ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16 ")?::(?:" H16 ":){2}" LS32 "|(?:(?:" H16      \
    ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16 ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16   \
    "|(?:(?:" H16 ":){0,6}" H16 ")?::)"
#define LABEL "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
#define HOST  LABEL "(?:\\." LABEL "){0,4}"
#define PCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%" HEX "{2})"

#define N "[0-9]{1,9}"
#define DURATION                                                                                                       \
    "P(?:" N "W|(?:" N "D|" N "M(?:" N "D)?|" N "Y(?:" N "M(?:" N "D)?)?)(?:" DURATION_T ")?|" DURATION_T ")"
#define DURATION_T "T(?:" N "H(?:" N "M(?:" N "S)?)?|" N "M(?:" N "S)?|" N "S)"

const char *lf_schema_format(const char *name)
{
    static const struct {
        const char *name, *pattern;
    } formats[] = {
        {"date", DATE},
        {"time", TIME},
        {"date-time", DATE "T" TIME},
        {"duration", DURATION},
        {"uuid", HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}"},
        {"email", "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+){0,7}@" HOST},
        {"hostname", HOST},
        {"ipv4", IPV4},
        {"ipv6", IPV6},
        {"uri", "[A-Za-z][A-Za-z0-9+.-]*:(?://(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%" HEX
                "{2})*@)?(?:(?:[A-Za-z0-9._~!$&'()*+,;=-]|%" HEX "{2})*|\\[" IPV6 "\\])(?::[0-9]{1,5})?(?:/" PCHAR
                "*)*|/?(?:" PCHAR "+(?:/" PCHAR "*)*)?)(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"},
    };
    for (size_t i = 0; i < LF_N_ELEMS(formats); i++)
        if (strcmp(name, formats[i].name) == 0) return formats[i].pattern;
    return NULL;
}
