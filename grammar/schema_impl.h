/* Inside of the schema compiler; for the schema_*.c files only.
 *
 * A place of an answer is under a set of schemas that must all hold (properties that several parts of an allOf name,
 * $ref beside other keywords). Such a set is a list of node indices of the document, sorted, and everything is made
 * once for each set: that is what makes recursive schemas end. Sets are taken apart in two steps:
 *
 *     lf_schema_expand   $ref, allOf, anyOf and oneOf: from a set to alternatives, each a set without these
 *     lf_schema_put      from an alternative to terminals (scalars, enums) and rules (objects, arrays), which are
 *                        built later, one after the other, so nothing recurses over the schema's depth */
#ifndef LF_GRAMMAR_SCHEMA_IMPL_H
#define LF_GRAMMAR_SCHEMA_IMPL_H

#include "core/json.h"
#include "grammar/grammar.h"
#include "grammar/network.h"
#include "grammar/number.h"

/* An item of a set: 2 × its node, + 1 where its oneOf does not count (the check that branches exclude each other). */
#define LF_SCHEMA_FALSE UINT32_MAX /* the schema that nothing meets */

struct lf_schema_set {
    const uint32_t *items; /* ascending, each once; in the scratch */
    uint32_t n;
};

enum lf_schema_kind { LF_SCHEMA_VALUE, LF_SCHEMA_OBJECT, LF_SCHEMA_ARRAY };

/* What is known of a set: for a value its alternatives, for an object or array where its sub-network begins. */
struct lf_schema_rule {
    enum lf_schema_kind kind;
    struct lf_schema_set set;
    uint64_t hash;
    bool whole; /* as struct lf_schema */
    uint32_t start;
    struct lf_schema_alternative {
        uint32_t what;
        bool is_call;
    } * alternatives;
    size_t n, cap;
};

/* A terminal that many places have: strings of so many characters, numbers within bounds. */
struct lf_schema_scalar {
    bool is_number;
    uint32_t min, max; /* characters */
    struct lf_number_bounds bounds;
    uint32_t terminal;
};

/* What all schemas of a network share. Zeroed at its beginning; lists lie in the compilation's scratch. */
struct lf_schema_terminals {
    struct lf_schema_scalar *scalars;
    size_t n_scalars, scalars_cap;
    bool has_free_name;
    uint32_t free_name; /* any name with its colon */
};

/* Branches a and b of a oneOf must have no value in common that `all` (its schema, without the oneOf) allows. */
struct lf_schema_pair {
    uint32_t all, a, b;
    uint32_t from; /* node from which such a value is the way */
    struct lf_json_value where;
    uint32_t a_idx, b_idx;
};

struct lf_schema {
    struct lf_compilation *c;
    struct lf_network *net;
    struct lf_json_value root; /* of the document */
    bool strict;
    bool whole;       /* every value that a format or bounds allow, not only those that answers have */
    uint32_t space;   /* the terminal of white space; LF_NET_NONE: compact */
    uint8_t *checked; /* [node]: its keywords are known ones, and whether they say something of a value */
    struct lf_schema_rule *rules;
    size_t n_rules, rules_cap;
    uint32_t *table;
    size_t table_len;
    struct lf_schema_pair *pairs;
    size_t n_pairs, pairs_cap;
    struct lf_schema_terminals *terminals; /* borrowed */
    int n_branches;                        /* of the expansion under way */
};

struct lf_json_value lf_schema_of(const struct lf_schema *s, uint32_t item);
/* A failure at a place of the schema, which is named by its JSON pointer; `what` begins with the keyword. */
void lf_schema_fail(struct lf_schema *s, struct lf_json_value at, enum lf_status status, const char *fmt, ...)
    LF_PRINTF(4, 5);
/* Whether it is part of an enum or a const, so no schema. */
bool lf_schema_is_data(struct lf_schema *s, struct lf_json_value at);
/* The member, LF_JSON_NONE where it is missing. Wrong type: fails. */
struct lf_json_value lf_schema_member(struct lf_schema *s, struct lf_json_value schema, const char *name,
                                      enum lf_json_type type);
/* A count (minItems and the like), at most `most`; false where it is missing or has failed. 1.0 is 1. */
bool lf_schema_count(struct lf_schema *s, struct lf_json_value schema, const char *name, uint32_t most, uint32_t *out);
/* The unescaped text, in the scratch. */
struct lf_str lf_schema_text(struct lf_schema *s, struct lf_json_value string);
struct lf_schema_set lf_schema_set_of(struct lf_schema *s, uint32_t *items, uint32_t n);
uint32_t lf_schema_item(struct lf_schema *s, struct lf_json_value schema);
/* The rule of that kind for the set; *fresh where it was made now. */
uint32_t lf_schema_intern(struct lf_schema *s, enum lf_schema_kind kind, struct lf_schema_set set, bool *fresh);

/* Calls take for each alternative of the set. */
void lf_schema_expand(struct lf_schema *s, struct lf_schema_set set, void (*take)(void *ctx, struct lf_schema_set),
                      void *ctx);

/* Scalars under all schemas of an alternative. A string: its contents, where is_free is not set, and how many
 * characters it has. */
struct lf_dfa lf_schema_string_content(struct lf_schema *s, struct lf_schema_set set, uint32_t *min, uint32_t *max,
                                       bool *is_free);
/* The indices of their terminals. */
uint32_t lf_schema_put_string(struct lf_schema *s, struct lf_schema_set set);
uint32_t lf_schema_put_number(struct lf_schema *s, struct lf_schema_set set, bool integer);
struct lf_number_bounds lf_schema_number(struct lf_schema *s, struct lf_schema_set set, bool integer);
struct lf_schema_format {
    const char *name;
    const char *pattern;     /* of strings: of what answers have of it; NULL: any string */
    const char *whole;       /* of all of it; NULL: that is the same */
    uint32_t max_characters; /* 0: any number */
    const char *min, *max;   /* of numbers; NULL: any */
    bool is_integer;
};
/* NULL: it is not supported. */
const struct lf_schema_format *lf_schema_format(struct lf_str name);

/* Edges for every value that meets the set. */
void lf_schema_put(struct lf_schema *s, struct lf_schema_set set, uint32_t from, uint32_t to);
/* An edge for this text; where it goes. */
uint32_t lf_schema_put_text(struct lf_schema *s, uint32_t from, struct lf_str text);
/* Optional white space, where the grammar has it. */
uint32_t lf_schema_put_space(struct lf_schema *s, uint32_t from);
void lf_schema_put_object(struct lf_schema *s, struct lf_schema_set set, uint32_t from);
void lf_schema_put_array(struct lf_schema *s, struct lf_schema_set set, uint32_t from);

/* A schema as one more sub-network, with the heights of its nodes: where it begins. schema: NONE is any object.
 * document: what it is a part of, in which its references look; NONE: it is all. terminals: of this network, borrowed
 * for the call. */
uint32_t lf_schema_compile(struct lf_compilation *c, struct lf_network *net, struct lf_json_value schema,
                           struct lf_json_value document, const struct lf_grammar_options *options,
                           struct lf_schema_terminals *terminals);

#define LF_SCHEMA_EACH(it, of)                                                                                         \
    for (struct lf_json_value it = lf_json_first(of); lf_json_more(of, it); it = lf_json_next(of, it))

#endif
