/* Grammars of answers, while they are built: lists of parts in an arena. */
#ifndef LF_TEMPLATE_ANSWER_GRAMMAR_H
#define LF_TEMPLATE_ANSWER_GRAMMAR_H

#include "core/arena.h"
#include "template/answer/answer_impl.h"

struct lf_answer_builder {
    const struct lf_answer_format *format;
    const struct lf_answer_rules *rules;
    struct lf_arena arena;
    enum lf_status status; /* sticky */
    struct lf_err *err;
    uint32_t n_values; /* of strict tools in Gemma's form, so far in this tool */
};

/* So much had no place in the arena: there is no memory, or what the parts may take is used up (LF_LIMIT). */
void lf_answer_no_room(struct lf_answer_builder *b, size_t bytes);

/* Parts one behind the other. Texts that follow one another are one text, and the control tokens in it may come as
 * tokens or as text. */
struct lf_answer_list {
    struct lf_answer_builder *builder;
    struct lf_grammar_part *parts;
    size_t n, cap;
    struct lf_buf text; /* not in parts yet */
};

struct lf_answer_list lf_answer_list_begin(struct lf_answer_builder *b);
void lf_answer_list_text(struct lf_answer_list *list, const char *text); /* NULL: nothing */
void lf_answer_list_str(struct lf_answer_list *list, struct lf_str text);
void lf_answer_list_part(struct lf_answer_list *list, struct lf_grammar_part part);
/* The list as one part: a sequence, or an alternative. Nothing of the list is used behind it. */
struct lf_grammar_part lf_answer_list_end(struct lf_answer_list *list, enum lf_grammar_part_kind kind);

struct lf_grammar_part lf_answer_part_repeat(struct lf_answer_builder *b, struct lf_grammar_part part, uint32_t min,
                                             uint32_t max);
struct lf_grammar_part lf_answer_part_schema(struct lf_answer_builder *b, const struct lf_tool *tool,
                                             struct lf_json_value schema);
struct lf_grammar_part lf_answer_part_regex(const char *pattern);
/* Text up to the marker, and that, as text or as the tokens that it may be. */
struct lf_grammar_part lf_answer_part_until(struct lf_answer_builder *b, const char *marker);
/* Text without the marker, and without the other; NULL: there is none. */
struct lf_grammar_part lf_answer_part_free(struct lf_answer_builder *b, const char *marker, const char *other);

/* The arguments of a call, with the markers around them where the format has no JSON. */
void lf_answer_list_parameters(struct lf_answer_list *list, const struct lf_tool *tool);
void lf_answer_list_gemma(struct lf_answer_list *list, const struct lf_tool *tool);
void lf_answer_list_python(struct lf_answer_list *list, const struct lf_tool *tool);

#endif
