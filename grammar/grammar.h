/* Structured output: which tokens may come next, so that an answer is what was asked for by construction.
 *
 * Picture
 *
 *     schema ─▶ network of terminals ─▶ readings of the answer so far ─▶ mask: one bit for each token
 *
 *     {"a": "b…      ( string, inside ) over [ behind the value of "a" ]        "  x  ",  "}  é …    allowed
 *                      terminal, state        stack of nodes to return to       "]  {                not
 *
 * Idea. A grammar is a network (network.h) whose edges are regular terminals (terminal.h: automata over bytes) and
 * calls of other parts of the network, which need a stack. An answer has readings: each is a state in a terminal, the
 * node behind it, and a stack. A byte moves every reading; one whose terminal may end here goes on into what follows. A
 * token is allowed if its bytes leave a reading, so one that closes a string, an object and begins the next name
 * (`"},"`) is judged by its bytes like any other. The tokens are a trie in the order of a walk (vocabulary.h): a prefix
 * that no reading takes skips all tokens under it.
 *
 * What makes it fast. A walk from a state of one terminal does not depend on the stack but for tokens that go past the
 * terminal's end. So it is kept, in two parts: the tokens that stay inside, as a mask, and for the others what they
 * have behind the end, as a small trie of its own that is walked in what follows. All strings of all grammars share one
 * such walk, and in a string every plain token is allowed without looking at it. Terminals with the same automaton
 * share walks over all grammars.
 *
 * What makes it finish. Automata are trimmed, nodes know the depth of stack that their shortest end needs, and no
 * reading is kept that could not end within LF_GRAMMAR_DEPTH. So as long as the vocabulary has all bytes, some token is
 * allowed until the answer is complete, and only then, and always then, the tokens that end a text.
 *
 * Rejected: one automaton for a whole schema (recursion; and the product of all optional members); Earley's algorithm
 * (llguidance), which takes any grammar, where JSON needs a stack and few readings; masks computed in advance for every
 * state (xgrammar): a compile time of seconds for what a request may never reach; derivatives of regular expressions
 * instead of subset construction: the same states, harder to bound.
 *
 * The answers. JSON without white space (or with that of options.whitespace); named members in the order of the
 * schema, then others; numbers without exponents where they are bounded, and of at most LF_GRAMMAR_DIGITS_N digits on a
 * side; strings under a pattern in one spelling; no \u0000. So an answer is always one of the schema's, and each value
 * that a schema allows has an answer, but for numbers past those digits, nesting past LF_GRAMMAR_DEPTH and strings with
 * U+0000.
 *
 * Threads. A grammar and a vocabulary are read-only: any thread, any number of matchers (what the vocabulary keeps of
 * walks has a lock of its own, held for a copy of some kilobytes). A matcher belongs to one thread at a time. */
#ifndef LF_GRAMMAR_GRAMMAR_H
#define LF_GRAMMAR_GRAMMAR_H

#include "core/json.h"

struct lf_work;
struct lf_text_memory;

/* ---------------------------------------------------------------------------------------------------- vocabularies */

struct lf_vocabulary;

#define LF_GRAMMAR_CONTROL '\xff'

/* tokens[i]: the bytes that token i adds to a text (borrowed for the call). An empty one, and one of more than
 * LF_GRAMMAR_TOKEN_BYTES, is never allowed. A control token is LF_GRAMMAR_CONTROL and the text that it is written as:
 * that byte is in no UTF-8, so only a grammar that names the token allows it, and just that token, not one that its
 * text begins with; nor is a token with that byte elsewhere, or with nothing behind it, ever allowed. ends: the tokens
 * that end a text; one that is a control token, too, and that the grammar names at this place, is read as such.
 * cache_bytes: how much to keep of walks; 0: the usual 8 MiB. One a model. LF_NO_MEMORY, LF_INVALID (an end out of
 * range). */
LF_MUST_CHECK enum lf_status lf_vocabulary_create(struct lf_vocabulary **out, const struct lf_str *tokens, int n_tokens,
                                                  const int32_t *ends, int n_ends, size_t cache_bytes,
                                                  struct lf_err *err);
/* What tokens add at the beginning of an answer may differ from what they add later: many a tokenizer drops a space
 * there. A matcher made with v then reads the beginning by v and goes on with `next`, which has as many tokens, and is
 * borrowed for as long as v is there. An answer has begun with the first token that is no control token. */
void lf_vocabulary_set_next(struct lf_vocabulary *v, struct lf_vocabulary *next);
void lf_vocabulary_destroy(struct lf_vocabulary *v); /* accepts NULL; no matcher uses it any more */
/* Bytes it holds, for the memory plan: fixed from its creation on. */
size_t lf_vocabulary_bytes(const struct lf_vocabulary *v);
/* Words of 32 bits in a mask: token i is bit i % 32 of word i / 32; bits behind the last token are 0. */
size_t lf_vocabulary_mask_words(const struct lf_vocabulary *v);
/* Whether there is a control token that is written so (without LF_GRAMMAR_CONTROL). */
bool lf_vocabulary_has_control(const struct lf_vocabulary *v, struct lf_str text);

/* -------------------------------------------------------------------------------------------------------- grammars */

struct lf_grammar;

struct lf_grammar_options {
    /* OpenAI's strict mode, as far as it changes meaning: an object with properties has no others by default. */
    bool strict;
    /* A pattern of the white space that may stand behind { [ , : and before ] }: of what it matches, what is white
     * space in JSON. Empty: none anywhere. */
    struct lf_str whitespace;
};

/* Compiling reads its source only during the call. Memory is work's (the process's heap where work is NULL) and bounded
 * by LF_GRAMMAR_SCRATCH_BYTES, of which LF_GRAMMAR_BYTES stay; time by LF_GRAMMAR_STEPS, and by work's deadline and
 * client. LF_INVALID: not a schema, not a pattern, or nothing can match it. LF_UNSUPPORTED: understood and not
 * implemented. LF_LIMIT: a bound of limits.h. Each names the keyword and the place as a JSON pointer. LF_NO_MEMORY,
 * LF_CANCELLED, LF_TIMEOUT. options may be NULL. */
LF_MUST_CHECK enum lf_status lf_grammar_of_schema(struct lf_grammar **out, struct lf_json_value schema,
                                                  const struct lf_grammar_options *options, struct lf_work *work,
                                                  struct lf_err *err);
/* Any JSON object. */
LF_MUST_CHECK enum lf_status lf_grammar_of_json_object(struct lf_grammar **out,
                                                       const struct lf_grammar_options *options, struct lf_work *work,
                                                       struct lf_err *err);
/* The whole text matches the pattern (regex.h says which there are). */
LF_MUST_CHECK enum lf_status lf_grammar_of_regex(struct lf_grammar **out, struct lf_str pattern, struct lf_work *work,
                                                 struct lf_err *err);
/* One of these texts. */
LF_MUST_CHECK enum lf_status lf_grammar_of_choice(struct lf_grammar **out, const struct lf_str *choices, size_t n,
                                                  struct lf_work *work, struct lf_err *err);
/* A text made of parts: JSON between markers, free text up to one of them. Of several markers the one that ends first
 * is the first. Free text is whole characters of UTF-8. */
enum lf_grammar_part_kind {
    LF_PART_TEXT,        /* these bytes */
    LF_PART_CONTROL,     /* the control token that is written so */
    LF_PART_SCHEMA,      /* JSON that meets the schema; any JSON object where it is NONE */
    LF_PART_REGEX,       /* all of it matches the pattern `text` */
    LF_PART_FREE,        /* any text, maybe empty, that has none of the parts in it (each TEXT or CONTROL) */
    LF_PART_UNTIL,       /* any text up to the first of the parts (each TEXT or CONTROL), and that part */
    LF_PART_SEQUENCE,    /* the parts, one behind the other */
    LF_PART_ALTERNATIVE, /* one of the parts */
    LF_PART_REPEAT       /* parts[0], min to max times; max 0: without end */
};

struct lf_grammar_part {
    enum lf_grammar_part_kind kind;
    struct lf_str text;
    struct lf_json_value schema;
    struct lf_json_value document;     /* of SCHEMA: what it is a part of, in which its references look; NONE: itself */
    struct lf_grammar_options options; /* of SCHEMA */
    const struct lf_grammar_part *parts;
    size_t n_parts;
    uint32_t min, max;
    struct lf_str name; /* what errors in it begin with: `tools[3]: schema at …`; empty: nothing */
};
/* Every part is read during the call only. Nested at most LF_GRAMMAR_PARTS_DEPTH. JSON of a part nests one less than
 * LF_GRAMMAR_DEPTH. Where a text can be read in two ways (free text, or what may follow it) both stay open; but
 * LF_UNSUPPORTED: FREE, or a REGEX that may end nearly anywhere, with FREE, UNTIL or such a REGEX directly behind it,
 * or again itself by a REPEAT. (Calls among text: a REPEAT of UNTIL and call, then one FREE.) LF_INVALID: a text that
 * is not UTF-8, a marker without text or of another kind, max below min; and a schema that nothing meets, though
 * alternatives to it might be possible. */
LF_MUST_CHECK enum lf_status lf_grammar_of_parts(struct lf_grammar **out, const struct lf_grammar_part *root,
                                                 struct lf_work *work, struct lf_err *err);

/* A grammar is counted: compiling gives one reference, each of these one more; whoever drops the last one frees it. Any
 * thread. */
struct lf_grammar *lf_grammar_ref(struct lf_grammar *g);
void lf_grammar_unref(struct lf_grammar *g); /* accepts NULL */
size_t lf_grammar_bytes(const struct lf_grammar *g);

/* -------------------------------------------------------------------------------------------------------- matchers */

struct lf_matcher;

/* At the beginning of an answer. Grammar and vocabulary are borrowed. memory: NULL is the process's heap; it grows with
 * the readings of the answer, some 100 KiB usually and LF_GRAMMAR_CONFIGS_N, LF_GRAMMAR_STACKS_N at most. */
LF_MUST_CHECK enum lf_status lf_matcher_create(struct lf_matcher **out, const struct lf_grammar *g,
                                               struct lf_vocabulary *v, struct lf_text_memory *memory);
void lf_matcher_destroy(struct lf_matcher *m); /* accepts NULL */
void lf_matcher_restart(struct lf_matcher *m); /* back to the beginning */
/* Whether it may take memory, as it may when it is created. One that may not answers LF_FULL where it would have to,
 * and can be asked the same again once it may: for threads that must not call an allocator. */
void lf_matcher_set_growing(struct lf_matcher *m, bool may_grow);

/* The tokens that may come next, into lf_vocabulary_mask_words words. *n_allowed (may be NULL): how many there are; 0
 * only where the vocabulary lacks a byte that is needed, or behind an end. LF_LIMIT: the answer has more readings than
 * LF_GRAMMAR_CONFIGS_N or of stacks than LF_GRAMMAR_STACKS_N, or the mask costs more than LF_GRAMMAR_MASK_STEPS: a
 * grammar of many wide patterns at one place may. LF_NO_MEMORY. The mask is not to be used then. */
LF_MUST_CHECK enum lf_status lf_matcher_mask(struct lf_matcher *m, uint32_t *mask, uint32_t *n_allowed);
/* The token that came. LF_INVALID: it is not allowed, and nothing has changed. LF_LIMIT and LF_NO_MEMORY as above. */
LF_MUST_CHECK enum lf_status lf_matcher_accept(struct lf_matcher *m, int32_t token);
/* The same for bytes, of which a token need not consist. */
LF_MUST_CHECK enum lf_status lf_matcher_accept_bytes(struct lf_matcher *m, struct lf_str bytes);
/* How many of n tokens may come one behind the other, and into masks (NULL: not asked for), of which one begins
 * `stride` words behind the other, what may come before the first and behind each of these: *n_allowed + 1 of them are
 * filled. The matcher stays where it is. All of it together costs LF_GRAMMAR_MASK_STEPS at most, as one mask does: a
 * token that cannot be looked at for that, or for want of memory, counts as one that may not come. Otherwise as
 * lf_matcher_mask says, of the first mask. */
LF_MUST_CHECK enum lf_status lf_matcher_look_ahead(struct lf_matcher *m, const int32_t *tokens, int n, uint32_t *masks,
                                                   size_t stride, int *n_allowed);
/* Whether the answer may end here: it is whole. */
bool lf_matcher_is_complete(const struct lf_matcher *m);
/* Whether it must: nothing can follow. True behind an end, too. */
bool lf_matcher_is_finished(const struct lf_matcher *m);

#endif
