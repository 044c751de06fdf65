/* Marks: the places in a sequence behind which another may go on. What a window group keeps of a sequence is what is
 * seen from a mark; between marks there is nothing to be found. Marks are
 *
 *     the prompt's end    and what is seen from the last LF_MARK_TAIL tokens before it, where questions differ
 *     seq->marks          where a part of the prompt ends that others may have too, a document
 *     multiples of LF_MARK_EVERY, or of the whole blocks in it
 *     where a sequence ends (block_tables.c)
 *
 * Of each what is seen from one block before it is kept too: a prompt that ends there takes everything but its last
 * token from the cache. Pure. */
#ifndef LF_SERVER_ENGINE_MARKS_H
#define LF_SERVER_ENGINE_MARKS_H

#include <stdbool.h>

#include "kv/kv_layout.h"

struct lf_sched_seq;

enum { LF_MARK_TAIL = 1024, LF_MARK_EVERY = LF_KV_MARK_TOKENS };

/* Tokens from one multiple to the next: whole blocks. */
static inline int lf_marks_every(int block_tokens)
{
    return LF_MARK_EVERY / block_tokens * block_tokens;
}

/* Whether a group with this window keeps block i of the sequence. */
bool lf_marks_keep(const struct lf_sched_seq *seq, int window, int i);

#endif
