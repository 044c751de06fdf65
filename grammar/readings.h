/* Readings: what an answer so far may be the beginning of.
 *
 * A reading is a state in a terminal, the node behind that terminal, and the stack of nodes to return to. Stacks are
 * linked frames and each frame exists once, so stacks are equal where their top frames are, and readings that met again
 * are one. Frames that no reading needs any more go when half the table is used. */
#ifndef LF_GRAMMAR_READINGS_H
#define LF_GRAMMAR_READINGS_H

#include "grammar/network.h"

struct lf_text_memory;

#define LF_STACK_EMPTY UINT32_MAX

struct lf_reading {
    uint32_t terminal, state;
    uint32_t to;    /* node behind the terminal */
    uint32_t stack; /* top frame, or LF_STACK_EMPTY */
};

struct lf_reading_list {
    struct lf_reading *list;
    size_t n, cap;
    bool complete; /* the answer may end here */
};

struct lf_frame {
    uint32_t node;  /* to return to */
    uint32_t below; /* frame, or LF_STACK_EMPTY */
    uint32_t depth; /* frames of the stack, this one too */
};

struct lf_stacks {
    const struct lf_network *net;
    struct lf_text_memory *memory;
    struct lf_frame *frames;
    uint32_t *table; /* index + 1 of a frame, by hash */
    uint32_t n, cap, table_len;
    bool is_frozen;        /* no memory is to be taken */
    enum lf_status status; /* sticky: LF_LIMIT, LF_NO_MEMORY or, where frozen, LF_FULL, until it is cleared */
};

/* Whether memory may be taken; where not, that is the status. */
bool lf_stacks_may_grow(struct lf_stacks *s);
void lf_stacks_init(struct lf_stacks *s, const struct lf_network *net, struct lf_text_memory *memory);
void lf_stacks_deinit(struct lf_stacks *s);
void lf_reading_list_deinit(struct lf_reading_list *l, struct lf_stacks *s);

/* Appends what may begin at a node under a stack: the starts of terminals; list->complete where the answer may end. */
void lf_readings_enter(struct lf_stacks *s, struct lf_reading_list *list, uint32_t node, uint32_t stack);
/* All readings behind a byte, into an empty list. */
void lf_readings_step(struct lf_stacks *s, const struct lf_reading_list *from, uint8_t byte,
                      struct lf_reading_list *to);
/* All readings behind a byte of those from `first` to `end` - 1, appended to their list; complete: of the new ones. */
void lf_readings_step_on(struct lf_stacks *s, struct lf_reading_list *list, size_t first, size_t end, uint8_t byte);
/* Behind a control token, which is taken whole. */
void lf_readings_step_control(struct lf_stacks *s, const struct lf_reading_list *from, struct lf_str control,
                              struct lf_reading_list *to);
/* to becomes the same list; where there is no memory for that it is empty, and the stacks' status says why. */
void lf_reading_list_copy(struct lf_stacks *s, struct lf_reading_list *to, const struct lf_reading_list *from);
/* Drops all frames but the first n, which are what there was some time before. */
void lf_stacks_cut(struct lf_stacks *s, uint32_t n);
/* Drops the frames that none of these needs, if many are used. */
void lf_stacks_collect(struct lf_stacks *s, struct lf_reading_list *live);

#endif
