/* The formats that are enforced, as patterns over the whole string. Answers are a little narrower than the RFCs where
 * readers disagree: no leap seconds, years from 1, calendar dates that exist, no quoted local parts; and where a
 * pattern must end: so many labels of a host, so many digits. What a format may be in full is known, too, where it
 * differs: the branches of a oneOf are compared by it. A format says nothing of values that are not of its kind. */
#include "core/check.h"
#include "grammar/schema_impl.h"

#define YEAR      "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
#define LEAP_YEAR "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define MONTH_DAY                                                                                                      \
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"                           \
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
#define DATE_OF(YEAR) "(?:" YEAR "-" MONTH_DAY "|" LEAP_YEAR "-02-29)"
#define DATE          DATE_OF(YEAR)
#define WHOLE_DATE    DATE_OF("[0-9]{4}")
#define HOUR          "(?:[01][0-9]|2[0-3])"
#define TIME          HOUR ":[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-]" HOUR ":[0-5][0-9])"
#define WHOLE_TIME    HOUR ":[0-5][0-9]:(?:[0-5][0-9]|60)(?:\\.[0-9]+)?(?:[Zz]|[+-]" HOUR ":[0-5][0-9])"
#define BYTE          "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4          BYTE "(?:\\." BYTE "){3}"
#define HEX           "[0-9a-fA-F]"
#define H16           HEX "{1,4}"
#define LS32          "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                                           \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32 "|(?:(?:" H16            \
    ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16 ")?::(?:" H16 ":){2}" LS32 "|(?:(?:" H16      \
    ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16 ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16   \
    "|(?:(?:" H16 ":){0,6}" H16 ")?::)"
#define LABEL              "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
#define HOST               LABEL "(?:\\." LABEL "){0,4}"
#define WHOLE_HOST         LABEL "(?:\\." LABEL ")*"
#define ATOM               "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define PCHAR              "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%" HEX "{2})"
#define QUERY_AND_FRAGMENT "(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"
#define AUTHORITY(LITERAL, PORT)                                                                                       \
    "//(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%" HEX "{2})*@)?(?:(?:[A-Za-z0-9._~!$&'()*+,;=-]|%" HEX "{2})*|\\[" LITERAL   \
    "\\])(?::" PORT ")?(?:/" PCHAR "*)*"
#define SCHEME                "[A-Za-z][A-Za-z0-9+.-]*:"
#define PATH                  "(?:" PCHAR "+(?:/" PCHAR "*)*)?"
#define URI_OF(LITERAL, PORT) SCHEME "(?:" AUTHORITY(LITERAL, PORT) "|/?" PATH ")" QUERY_AND_FRAGMENT
/* Without a scheme, the first segment has no colon. */
#define NO_COLON "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%" HEX "{2})+"
#define REFERENCE_OF(LITERAL, PORT)                                                                                    \
    "(?:(?:" SCHEME ")?(?:" AUTHORITY(LITERAL, PORT) "|/" PATH ")|" SCHEME PATH "|(?:" NO_COLON "(?:/" PCHAR           \
                                                     "*)*)?)" QUERY_AND_FRAGMENT
#define ANY_LITERAL "(?:" IPV6 "|[vV]" HEX "+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)"

#define DURATION_OF(N)                                                                                                 \
    "P(?:" N "W|(?:" N "D|" N "M(?:" N "D)?|" N "Y(?:" N "M(?:" N "D)?)?)(?:" DURATION_T(N) ")?|" DURATION_T(N) ")"
#define DURATION_T(N) "T(?:" N "H(?:" N "M(?:" N "S)?)?|" N "M(?:" N "S)?|" N "S)"

#define BASE64 "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"

const struct lf_schema_format *lf_schema_format(struct lf_str name)
{
    static const struct lf_schema_format formats[] = {
        {.name = "date", .pattern = DATE, .whole = WHOLE_DATE},
        {.name = "time", .pattern = TIME, .whole = WHOLE_TIME},
        {.name = "date-time", .pattern = DATE "T" TIME, .whole = WHOLE_DATE "[Tt ]" WHOLE_TIME},
        {.name = "duration", .pattern = DURATION_OF("[0-9]{1,9}"), .whole = DURATION_OF("[0-9]+")},
        {.name = "uuid", .pattern = HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}"},
        {.name = "email",
         .pattern = ATOM "(?:\\." ATOM "){0,7}@" HOST,
         .whole = "(?:" ATOM "(?:\\." ATOM ")*|\"(?:[^\"\\\\]|\\\\.)*\")@(?:" WHOLE_HOST "|\\[[^\\[\\]]*\\])"},
        {.name = "hostname", .pattern = HOST, .whole = WHOLE_HOST, .max_characters = 253},
        {.name = "ipv4", .pattern = IPV4},
        {.name = "ipv6", .pattern = IPV6},
        {.name = "uri", .pattern = URI_OF(IPV6, "[0-9]{1,5}"), .whole = URI_OF(ANY_LITERAL, "[0-9]*")},
        {.name = "uri-reference",
         .pattern = REFERENCE_OF(IPV6, "[0-9]{1,5}"),
         .whole = REFERENCE_OF(ANY_LITERAL, "[0-9]*")},
        /* OpenAPI's */
        {.name = "byte", .pattern = BASE64},
        {.name = "binary"},
        {.name = "password"},
        {.name = "int32", .min = "-2147483648", .max = "2147483647", .is_integer = true},
        {.name = "int64", .min = "-9223372036854775808", .max = "9223372036854775807", .is_integer = true},
        {.name = "float", .min = "-3.4028234663852886e38", .max = "3.4028234663852886e38"},
        {.name = "double"}, /* which all numbers of an answer are */
    };
    for (size_t i = 0; i < LF_N_ELEMS(formats); i++)
        if (lf_str_eq(name, lf_str_c(formats[i].name))) return &formats[i];
    return NULL;
}
