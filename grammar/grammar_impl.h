/* What a grammar is inside; for the files of this folder only. */
#ifndef LF_GRAMMAR_GRAMMAR_IMPL_H
#define LF_GRAMMAR_GRAMMAR_IMPL_H

#include <stdatomic.h>

#include "core/arena.h"
#include "grammar/grammar.h"
#include "grammar/network.h"

struct lf_grammar {
    _Atomic int n_refs;
    struct lf_arena arena; /* all below, and itself not */
    struct lf_network net;
    struct lf_text_memory *memory; /* borrowed: that it is itself in */
};

#endif
