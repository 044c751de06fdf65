/* Parts (struct lf_grammar_part) into a network. */
#ifndef LF_GRAMMAR_PARTS_H
#define LF_GRAMMAR_PARTS_H

#include "grammar/grammar.h"
#include "grammar/network.h"

/* From net->start on; the heights of all nodes are known then. */
void lf_parts_compile(struct lf_compilation *c, struct lf_network *net, const struct lf_grammar_part *root);
/* Bytes of all texts and schemas in it, or some number past LF_GRAMMAR_SOURCE_BYTES. Nested deeper than
 * LF_GRAMMAR_PARTS_DEPTH: what lies deeper is not counted (lf_parts_compile refuses it). */
size_t lf_parts_source_bytes(const struct lf_grammar_part *root);

#endif
