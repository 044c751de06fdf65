/* What a matcher is inside; for matcher.c and mask.c. */
#ifndef LF_GRAMMAR_MATCHER_IMPL_H
#define LF_GRAMMAR_MATCHER_IMPL_H

#include "grammar/grammar.h"
#include "grammar/readings.h"
#include "grammar/vocabulary.h"
#include "grammar/walk_cache.h"

struct lf_matcher {
    const struct lf_grammar *grammar;
    struct lf_vocabulary *vocabulary; /* of the next token */
    struct lf_vocabulary *first;      /* of an answer's beginning */
    struct lf_text_memory *memory;
    struct lf_stacks stacks;
    struct lf_reading_list now;     /* behind what was accepted */
    struct lf_reading_list next[2]; /* while a token is accepted */
    bool ended;                     /* a token that ends the text came */
    struct lf_reading_list mark;    /* what `now` was before a look ahead */
    bool looks_ahead;               /* frames that `mark` needs must stay where they are */

    /* masks */
    struct lf_reading_list follow; /* what may begin behind terminals; a stack of lists, from mark to mark */
    struct lf_walk_buffer kept;    /* the walk used last, or under construction */
    struct lf_walk_key kept_key;
    bool has_kept;
    uint32_t *exits; /* nodes where a walk may leave its terminal */
    size_t n_exits, exits_cap;
    struct lf_token_text *rests;
    size_t rests_cap;
    uint32_t states[LF_GRAMMAR_TOKEN_BYTES + 1]; /* of a walk, by depth */
    uint32_t n_visited;                          /* nodes, and what costs as much; of this mask, token or look-ahead */
};

#endif
