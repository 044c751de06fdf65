/* Lists of parts for grammars of answers, in which a marker may come as text or as its control tokens. */
#include "core/check.h"
#include "template/answer/answer_grammar.h"

enum { TEXT_BYTES = 64 * 1024 };

void lf_answer_no_room(struct lf_answer_builder *b, size_t bytes)
{
    bool is_full = bytes + 16 > b->arena.ceiling - b->arena.used_bytes;
    if (b->status == LF_OK) b->status = is_full ? LF_LIMIT : LF_NO_MEMORY;
}

static void *allocate(struct lf_answer_builder *b, size_t n, size_t size)
{
    void *memory = b->status == LF_OK ? lf_arena_array(&b->arena, LF_MAX(n, 1), size) : NULL;
    if (!memory) lf_answer_no_room(b, LF_MAX(n, 1) * size);
    return memory;
}

struct lf_answer_list lf_answer_list_begin(struct lf_answer_builder *b)
{
    struct lf_answer_list list = {.builder = b};
    lf_buf_init_in(&list.text, TEXT_BYTES, b->arena.memory);
    return list;
}

static void append(struct lf_answer_list *list, struct lf_grammar_part part)
{
    if (list->n == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 4;
        struct lf_grammar_part *parts = allocate(list->builder, cap, sizeof(*parts));
        if (!parts) return;
        if (list->n) memcpy(parts, list->parts, list->n * sizeof(*parts));
        list->parts = parts;
        list->cap = cap;
    }
    list->parts[list->n++] = part;
}

static struct lf_grammar_part leaf(enum lf_grammar_part_kind kind, struct lf_str text)
{
    return (struct lf_grammar_part){.kind = kind, .text = text};
}

/* The first place in text[from …) where a control token of the format stands; *len: of which length. */
static size_t find_control(const struct lf_answer_format *f, struct lf_str text, size_t from, size_t *len)
{
    for (size_t at = from; at < text.len; at++) {
        for (size_t i = 0; i < LF_N_ELEMS(f->controls) && f->controls[i]; i++) {
            *len = strlen(f->controls[i]);
            if (lf_str_starts(lf_str_from(text.ptr + at, text.len - at), lf_str_c(f->controls[i]))) return at;
        }
    }
    *len = 0;
    return text.len;
}

/* The texts that have come, as parts. */
static void end_text(struct lf_answer_list *list)
{
    struct lf_answer_builder *b = list->builder;
    if (list->text.status != LF_OK && b->status == LF_OK) b->status = list->text.status;
    if (list->text.len == 0 || b->status != LF_OK) return;
    char *copy = allocate(b, list->text.len, 1);
    if (!copy) return;
    struct lf_str text = lf_str_from(memcpy(copy, list->text.ptr, list->text.len), list->text.len);
    for (size_t at = 0, len; at < text.len; at += len) {
        size_t control = find_control(b->format, text, at, &len);
        if (control > at) append(list, leaf(LF_PART_TEXT, lf_str_from(text.ptr + at, control - at)));
        at = control;
        if (len == 0) break;
        struct lf_grammar_part *both = allocate(b, 2, sizeof(*both));
        if (!both) return;
        both[0] = leaf(LF_PART_CONTROL, lf_str_from(text.ptr + at, len));
        both[1] = leaf(LF_PART_TEXT, both[0].text);
        append(list, (struct lf_grammar_part){.kind = LF_PART_ALTERNATIVE, .parts = both, .n_parts = 2});
    }
    lf_buf_clear(&list->text);
}

void lf_answer_list_str(struct lf_answer_list *list, struct lf_str text)
{
    lf_buf_str(&list->text, text);
}

void lf_answer_list_text(struct lf_answer_list *list, const char *text)
{
    lf_answer_list_str(list, lf_str_c(text));
}

void lf_answer_list_part(struct lf_answer_list *list, struct lf_grammar_part part)
{
    end_text(list);
    append(list, part);
}

struct lf_grammar_part lf_answer_list_end(struct lf_answer_list *list, enum lf_grammar_part_kind kind)
{
    end_text(list);
    lf_buf_deinit(&list->text);
    return (struct lf_grammar_part){.kind = kind, .parts = list->parts, .n_parts = list->n};
}

struct lf_grammar_part lf_answer_part_repeat(struct lf_answer_builder *b, struct lf_grammar_part part, uint32_t min,
                                             uint32_t max)
{
    struct lf_grammar_part *copy = allocate(b, 1, sizeof(*copy));
    if (copy) *copy = part;
    return (struct lf_grammar_part){.kind = LF_PART_REPEAT, .parts = copy, .n_parts = 1, .min = min, .max = max};
}

struct lf_grammar_part lf_answer_part_schema(struct lf_answer_builder *b, const struct lf_tool *tool,
                                             struct lf_json_value schema)
{
    struct lf_buf name;
    lf_buf_init_in(&name, LF_TOOL_NAME_BYTES + 16, b->arena.memory);
    lf_buf_printf(&name, "tool \"%.*s\"", (int)tool->name.len, tool->name.ptr);
    char *copy = b->status == LF_OK ? lf_arena_strdup(&b->arena, lf_buf_view(&name)) : NULL;
    if (!copy) lf_answer_no_room(b, name.len);
    lf_buf_deinit(&name);
    return (struct lf_grammar_part){.kind = LF_PART_SCHEMA,
                                    .schema = schema,
                                    .document = tool->schema,
                                    .options = {.strict = tool->strict, .whitespace = LF_STR(" ?")},
                                    .name = lf_str_c(copy)};
}

struct lf_grammar_part lf_answer_part_regex(const char *pattern)
{
    return leaf(LF_PART_REGEX, lf_str_c(pattern));
}

/* Text up to the marker, which is text or one control token. */
static struct lf_grammar_part until_part(struct lf_answer_builder *b, const char *marker, bool is_token)
{
    struct lf_answer_list list = lf_answer_list_begin(b);
    lf_answer_list_part(&list, leaf(LF_PART_TEXT, lf_str_c(marker)));
    if (is_token) lf_answer_list_part(&list, leaf(LF_PART_CONTROL, lf_str_c(marker)));
    return lf_answer_list_end(&list, LF_PART_UNTIL);
}

struct lf_grammar_part lf_answer_part_free(struct lf_answer_builder *b, const char *marker, const char *other)
{
    struct lf_answer_list list = lf_answer_list_begin(b);
    if (marker) lf_answer_list_part(&list, leaf(LF_PART_TEXT, lf_str_c(marker)));
    if (other) lf_answer_list_part(&list, leaf(LF_PART_TEXT, lf_str_c(other)));
    return lf_answer_list_end(&list, LF_PART_FREE);
}

/* Where a control token is a part of the marker: up to the marker as text; or text without the token's, and the marker
 * with it. */
struct lf_grammar_part lf_answer_part_until(struct lf_answer_builder *b, const char *marker)
{
    size_t len, at = find_control(b->format, lf_str_c(marker), 0, &len);
    if (len == 0 || len == strlen(marker)) return until_part(b, marker, len != 0);
    char *token = b->status == LF_OK ? lf_arena_strdup(&b->arena, lf_str_from(marker + at, len)) : NULL;
    if (!token) lf_answer_no_room(b, len);
    struct lf_answer_list both = lf_answer_list_begin(b), with_token = lf_answer_list_begin(b);
    lf_answer_list_part(&both, until_part(b, marker, false));
    lf_answer_list_part(&with_token, lf_answer_part_free(b, token, NULL));
    lf_answer_list_part(&with_token, leaf(LF_PART_TEXT, lf_str_from(marker, at)));
    lf_answer_list_part(&with_token, leaf(LF_PART_CONTROL, lf_str_c(token)));
    lf_answer_list_part(&with_token, leaf(LF_PART_TEXT, lf_str_c(marker + at + len)));
    lf_answer_list_part(&both, lf_answer_list_end(&with_token, LF_PART_SEQUENCE));
    return lf_answer_list_end(&both, LF_PART_ALTERNATIVE);
}
