/* JSON, strictly (RFC 8259), with one idea of what a text means.
 *
 * Idea. A single pass validates the whole text and leaves a flat tape of nodes in document order; every getter reads
 * the text under its node again. So there is no second parser to disagree with the check, integers keep all their
 * digits, and memory is nodes × 20 bytes, known before the first getter runs.
 *
 * An array that holds numbers and nothing else is packed: one node, however many numbers. Its elements are read from
 * the text in order, so a list of token ids costs no memory beyond its text, and does not count towards the limit of
 * nodes. An array with one other element in it has a node for each. Nobody outside sees the difference.
 *
 * Refused beyond the grammar: invalid UTF-8, \u0000 and lone surrogates in strings, a name twice in one object (in
 * linear time, keys compared after unescaping), numbers that overflow a double, depth and node count past the limits.
 *
 * The text is borrowed for the life of the document. A parsed document is read-only: any thread. */
#ifndef LF_CORE_JSON_H
#define LF_CORE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "core/str.h"

struct lf_work;

enum lf_json_type {
    LF_JSON_NONE, /* the value of a missing member: see lf_json_get */
    LF_JSON_NULL,
    LF_JSON_FALSE,
    LF_JSON_TRUE,
    LF_JSON_NUMBER,
    LF_JSON_STRING,
    LF_JSON_ARRAY,
    LF_JSON_OBJECT
};

struct lf_json_node {
    uint32_t text_off;   /* of the first byte; for a string the byte after its quote */
    uint32_t text_len;   /* raw bytes, without quotes */
    uint32_t n_children; /* elements of an array, members of an object (a member is two nodes: name, value) */
    uint32_t next;       /* index of the node after this whole value */
    uint8_t type;
    uint8_t escaped; /* a string with backslashes in it */
    uint8_t packed;  /* an array of numbers only, which have no nodes */
};

struct lf_json {
    const char *text; /* borrowed */
    size_t text_len;
    struct lf_json_node *nodes; /* owned */
    uint32_t n_nodes;
    struct lf_text_memory *memory; /* of the nodes; borrowed */
};

struct lf_json_limits {
    uint32_t max_depth;
    uint32_t max_nodes;
};

/* Limits for request bodies, and for the files of a model directory. */
extern const struct lf_json_limits lf_json_limits_request, lf_json_limits_file;

/* Parses text (at most 4 GiB - 1). LF_INVALID with position and reason; LF_LIMIT; LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_json_parse(struct lf_json *out, struct lf_str text, const struct lf_json_limits *limits,
                                           struct lf_err *err);
/* The same as work on a text: its memory, and LF_CANCELLED or LF_TIMEOUT where it ends. work may be NULL. */
LF_MUST_CHECK enum lf_status lf_json_parse_in(struct lf_json *out, struct lf_str text,
                                              const struct lf_json_limits *limits, struct lf_work *work,
                                              struct lf_err *err);
void lf_json_deinit(struct lf_json *json); /* accepts a zeroed one */

/* A value: a document and an index, passed by value. A missing member is the value of type LF_JSON_NONE, on which
 * every getter below may be called. */
struct lf_json_value {
    const struct lf_json *json;
    uint32_t idx;        /* of its node; of a packed array's element: the array's */
    uint32_t number_off; /* of a packed array's element: where its text begins, never 0; else 0 */
};

struct lf_json_value lf_json_root(const struct lf_json *json);
enum lf_json_type lf_json_type(struct lf_json_value v);
const char *lf_json_type_name(struct lf_json_value v); /* "a number", "an object", "nothing" … for messages */
/* NONE or null: the two ways to leave a member at its default. */
bool lf_json_is_absent(struct lf_json_value v);

/* Elements of an array or members of an object; 0 for anything else. */
uint32_t lf_json_len(struct lf_json_value v);
/* The member of that name (case-sensitive, after unescaping), NONE if missing or v is no object. Linear. */
struct lf_json_value lf_json_get(struct lf_json_value v, const char *name);
/* Iteration in document order: for (it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it)).
 * Over an array `it` is the element; over an object `it` is the name, a string, and lf_json_member(it) its value.
 * Going through all of them takes time linear in the text. */
struct lf_json_value lf_json_first(struct lf_json_value v);
bool lf_json_more(struct lf_json_value v, struct lf_json_value it);
struct lf_json_value lf_json_next(struct lf_json_value v, struct lf_json_value it);
struct lf_json_value lf_json_member(struct lf_json_value name);

/* Reading: false where the value is of another type or does not fit; *out untouched then. */
bool lf_json_bool(struct lf_json_value v, bool *out);
/* An integer, exact, in int64. One with a point or an exponent ("1.0", "1e3") is read up to 2^53 either way: what lies
 * beyond another reader may have rounded, so it is refused. */
bool lf_json_int64(struct lf_json_value v, int64_t *out);
bool lf_json_double(struct lf_json_value v, double *out); /* always finite */
/* The unescaped text is appended to out; false for another type or where out is full. */
bool lf_json_string(struct lf_json_value v, struct lf_buf *out);
/* A string without escapes can be borrowed as it stands in the text: true and *out set, else false. */
bool lf_json_borrow(struct lf_json_value v, struct lf_str *out);
/* Whether v is a string that equals s after unescaping. */
bool lf_json_string_is(struct lf_json_value v, const char *s);
/* The raw text of the value (strings without quotes). */
struct lf_str lf_json_raw(struct lf_json_value v);

/* Writing. */
/* The quoted JSON string of s. Escapes quotes, backslashes, controls, U+2028 and U+2029; s must be valid UTF-8,
 * else each bad byte becomes U+FFFD. */
void lf_json_write_string(struct lf_buf *out, struct lf_str s);
/* The same without its quotes, for a string that is written in pieces, cut between code points. */
void lf_json_write_escaped(struct lf_buf *out, struct lf_str s);
/* The value as it came, numbers with all their digits, but in one line: without white space between its parts, and with
 * U+2028 and U+2029 escaped. Nothing for NONE. */
void lf_json_write_value(struct lf_buf *out, struct lf_json_value v);
/* The shortest decimal that reads back as the same double; 0 for NaN and infinities (JSON has none). */
void lf_json_write_double(struct lf_buf *out, double x);

#endif
