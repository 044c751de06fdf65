/* Fields of requests that are known here and not implemented: OpenAI's own that this server lacks, and what clients of
 * vLLM, llama.cpp, Ollama, TGI, SGLang and other servers send.
 *
 * Ignoring a field that would change the answer is a lie with status 200. So each of these fields is refused by name,
 * unless its value asks for what happens without it: its neutral values, null always among them. A field that cannot
 * change the text of the answer is neutral with any value. */
#ifndef LF_SERVER_HTTP_API_UNSUPPORTED_FIELDS_H
#define LF_SERVER_HTTP_API_UNSUPPORTED_FIELDS_H

#include <string.h>

#include "core/json.h"
#include "server/http/conn/reply.h"

/* Which values ask for nothing; bits. */
enum lf_neutral {
    LF_NEUTRAL_NONE = 0, /* but null */
    LF_NEUTRAL_FALSE = 1,
    LF_NEUTRAL_TRUE = 2,
    LF_NEUTRAL_ZERO = 4,
    LF_NEUTRAL_ONE = 8,
    LF_NEUTRAL_MINUS_ONE = 16,
    LF_NEUTRAL_EMPTY = 32,    /* "", [] and {} */
    LF_NEUTRAL_DISABLED = 64, /* "none" and "disabled" */
    LF_NEUTRAL_ANY = 128
};

struct lf_unsupported_field {
    const char *name;
    unsigned asks;       /* enum lf_ask_kind: the endpoints that know it */
    unsigned neutral;    /* enum lf_neutral */
    const char *instead; /* what does the same here; NULL: nothing */
};

struct lf_unsupported_table {
    const struct lf_unsupported_field *rows;
    int n;
    const struct lf_unsupported_table *also; /* behind the rows, another family's; or NULL */
    unsigned also_asks;                      /* its bits */
};
extern const struct lf_unsupported_table lf_unsupported_openai;

/* Whether a row's name is that of a field. A body may have 100,000 fields, each compared with every row. */
static inline bool lf_field_is(const char *row, struct lf_str name)
{
    return name.len && row[0] == name.ptr[0] && strncmp(row, name.ptr, name.len) == 0 && row[name.len] == '\0';
}
/* Refuses the field. with_any_value: no value but a neutral one would do. */
LF_MUST_CHECK enum lf_status lf_unsupported_refuse(struct lf_api_err *err, const char *name, bool with_any_value,
                                                   const char *instead);
/* Whether a row is refused with any value that is not neutral. */
static inline bool lf_unsupported_any_value(const struct lf_unsupported_field *f)
{
    return f->neutral == LF_NEUTRAL_NONE || f->neutral == LF_NEUTRAL_EMPTY;
}
/* Whether the value asks for what happens without it. */
bool lf_unsupported_is_neutral(const struct lf_unsupported_field *field, struct lf_json_value v);

#endif
