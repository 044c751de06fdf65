#include "tokenizer/hf/pretokenize.h"

#include <stdio.h>

#include "core/check.h"
#include "core/text_memory.h"
#include "core/work.h"
#include "tokenizer/marked.h"
#include "tokenizer/config.h"
#include "tokenizer/decoder.h"
#include "tokenizer/hf/normalize.h"

/* How GPT-2 cuts text, which ByteLevel stands for. */
#define GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

static struct lf_pretokenize_step *add_step(struct lf_pretokenizer *pre, enum lf_pretokenize_kind kind,
                                            enum lf_split_behavior behavior)
{
    if (pre->n_steps == LF_PRETOKENIZE_STEPS_N) return NULL;
    struct lf_pretokenize_step *step = &pre->steps[pre->n_steps++];
    *step = (struct lf_pretokenize_step){.kind = kind, .behavior = behavior};
    return step;
}

static enum lf_status too_many(struct lf_err *err)
{
    return lf_fail(err, LF_LIMIT, "more than %d pre-tokenizers", LF_PRETOKENIZE_STEPS_N);
}

static enum lf_status read_behavior(enum lf_split_behavior *out, struct lf_json_value v, struct lf_err *err)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    static const char *const lower[] = {"removed", "isolated", "merged_with_previous", "merged_with_next",
                                        "contiguous"};
    for (size_t i = 0; i < LF_N_ELEMS(names); i++) {
        if (!lf_json_string_is(v, names[i]) && !lf_json_string_is(v, lower[i])) continue;
        *out = (enum lf_split_behavior)i;
        return LF_OK;
    }
    struct lf_str raw = lf_json_raw(v);
    return lf_fail(err, LF_UNSUPPORTED, "split behavior \"%.*s\" is not implemented", (int)LF_MIN(raw.len, 64u),
                   raw.ptr);
}

static bool read_bool(struct lf_json_value v, const char *name, bool otherwise)
{
    (void)lf_json_bool(lf_json_get(v, name), &otherwise);
    return otherwise;
}

static enum lf_status open_byte_level(struct lf_pretokenizer *pre, struct lf_json_value v, const char *place,
                                      struct lf_err *err)
{
    struct lf_pretokenize_step *step;
    if (read_bool(v, "add_prefix_space", true)) {
        if (!(step = add_step(pre, LF_PRETOKENIZE_PREFIX, LF_SPLIT_ISOLATED))) return too_many(err);
        step->text = LF_STR(" ");
    }
    if (read_bool(v, "use_regex", true)) {
        if (!(step = add_step(pre, LF_PRETOKENIZE_REGEX, LF_SPLIT_ISOLATED))) return too_many(err);
        LF_TRY(lf_regex_compile(&step->pattern, LF_STR(GPT2_PATTERN), err));
        lf_regex_place_set(step->pattern, place);
    }
    if (!add_step(pre, LF_PRETOKENIZE_BYTES, LF_SPLIT_ISOLATED)) return too_many(err);
    return LF_OK;
}

static enum lf_status open_metaspace(struct lf_pretokenizer *pre, struct lf_arena *arena, struct lf_json_value v,
                                     struct lf_err *err)
{
    struct lf_str mark;
    struct lf_json_value scheme = lf_json_get(v, "prepend_scheme");
    struct lf_pretokenize_step *step;
    LF_TRY(
        lf_json_keep_letter(&mark, arena, lf_json_get(v, "replacement"), "pre-tokenizer Metaspace: replacement", err));
    bool never = lf_json_string_is(scheme, "never");
    bool first = lf_json_string_is(scheme, "first");
    if (lf_json_is_absent(scheme)) never = !read_bool(v, "add_prefix_space", true);
    if (!lf_json_is_absent(scheme) && !never && !first && !lf_json_string_is(scheme, "always"))
        return lf_fail(err, LF_UNSUPPORTED, "pre-tokenizer Metaspace: this prepend_scheme is not implemented");
    if (!(step = add_step(pre, LF_PRETOKENIZE_SPACES_TO, LF_SPLIT_ISOLATED))) return too_many(err);
    step->text = mark;
    if (!never) {
        if (!(step = add_step(pre, LF_PRETOKENIZE_PREFIX, LF_SPLIT_ISOLATED))) return too_many(err);
        step->text = mark;
        step->when = first ? LF_PREFIX_FIRST : LF_PREFIX_ALWAYS;
    }
    if (read_bool(v, "split", true)) {
        if (!(step = add_step(pre, LF_PRETOKENIZE_LETTER, LF_SPLIT_MERGED_WITH_NEXT))) return too_many(err);
        step->text = mark;
    }
    return LF_OK;
}

static enum lf_status open_split(struct lf_pretokenizer *pre, struct lf_arena *arena, struct lf_json_value v,
                                 const char *place, struct lf_err *err)
{
    struct lf_pretokenize_step *step = add_step(pre, LF_PRETOKENIZE_REGEX, LF_SPLIT_ISOLATED);
    if (!step) return too_many(err);
    step->invert = read_bool(v, "invert", false);
    LF_TRY(read_behavior(&step->behavior, lf_json_get(v, "behavior"), err));
    return lf_pattern_open(&step->pattern, arena, lf_json_get(v, "pattern"), place, err);
}

static enum lf_status open_one(struct lf_pretokenizer *pre, struct lf_arena *arena, struct lf_json_value v,
                               const char *place, struct lf_err *err)
{
    struct lf_json_value type = lf_json_get(v, "type");
    struct lf_pretokenize_step *step = NULL;
    if (lf_json_string_is(type, "ByteLevel")) return open_byte_level(pre, v, place, err);
    if (lf_json_string_is(type, "Metaspace")) return open_metaspace(pre, arena, v, err);
    if (lf_json_string_is(type, "Split")) return open_split(pre, arena, v, place, err);
    if (lf_json_string_is(type, "Whitespace"))
        return add_step(pre, LF_PRETOKENIZE_WORDS, LF_SPLIT_ISOLATED) ? LF_OK : too_many(err);
    if (lf_json_string_is(type, "WhitespaceSplit"))
        return add_step(pre, LF_PRETOKENIZE_SPACE, LF_SPLIT_REMOVED) ? LF_OK : too_many(err);
    if (lf_json_string_is(type, "Digits")) {
        bool single = read_bool(v, "individual_digits", false);
        step = add_step(pre, LF_PRETOKENIZE_DIGITS, single ? LF_SPLIT_ISOLATED : LF_SPLIT_CONTIGUOUS);
        return step ? LF_OK : too_many(err);
    }
    if (lf_json_string_is(type, "Punctuation")) {
        struct lf_json_value behavior = lf_json_get(v, "behavior");
        if (!(step = add_step(pre, LF_PRETOKENIZE_PUNCTUATION, LF_SPLIT_ISOLATED))) return too_many(err);
        return lf_json_is_absent(behavior) ? LF_OK : read_behavior(&step->behavior, behavior, err);
    }
    struct lf_str raw = lf_json_raw(type);
    return lf_fail(err, LF_UNSUPPORTED, "pre-tokenizer \"%.*s\" is not implemented", (int)LF_MIN(raw.len, 64u),
                   raw.ptr);
}

enum lf_status lf_pretokenizer_open(struct lf_pretokenizer *pre, struct lf_arena *arena, struct lf_json_value v,
                                    const char *place, struct lf_err *err)
{
    if (lf_json_is_absent(v)) return LF_OK;
    if (!lf_json_string_is(lf_json_get(v, "type"), "Sequence")) return open_one(pre, arena, v, place, err);
    struct lf_json_value list = lf_json_get(v, "pretokenizers");
    if (lf_json_type(list) != LF_JSON_ARRAY)
        return lf_fail(err, LF_CORRUPT, "pre-tokenizer Sequence: a list is expected, not %s", lf_json_type_name(list));
    char inner[LF_REGEX_PLACE_BYTES];
    int n = 0;
    for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it)) {
        (void)snprintf(inner, sizeof inner, "%s.pretokenizers[%d]", place, n++);
        LF_TRY(lf_pretokenizer_open(pre, arena, it, inner, err)); /* as deep as the file: JSON's limit bounds it */
    }
    return LF_OK;
}

void lf_pretokenizer_deinit(struct lf_pretokenizer *pre)
{
    for (int i = 0; i < pre->n_steps; i++) lf_regex_free(pre->steps[i].pattern);
    memset(pre, 0, sizeof *pre);
}

void lf_pretokenized_init(struct lf_pretokenized *state, struct lf_text_memory *memory)
{
    memset(state, 0, sizeof *state);
    lf_buf_init_in(&state->text, UINT32_MAX, memory);
    lf_buf_init_in(&state->other_text, UINT32_MAX, memory);
    state->pieces.memory = state->other_pieces.memory = memory;
}

void lf_pretokenized_deinit(struct lf_pretokenized *state)
{
    lf_buf_deinit(&state->text);
    lf_buf_deinit(&state->other_text);
    lf_text_free(state->pieces.memory, state->pieces.pieces);
    lf_text_free(state->other_pieces.memory, state->other_pieces.pieces);
    memset(state, 0, sizeof *state);
}

enum { PIECE_STEPS = 8 };

static void append_letters(struct lf_buf *out, struct lf_str text)
{
    size_t first = 0; /* of the bytes that are letters already */
    for (size_t i = 0; i < text.len; i++) {
        char bytes[4];
        uint8_t byte = (uint8_t)text.ptr[i];
        if (byte > ' ' && byte < 0x7f) continue;
        int n = lf_utf8_encode(lf_byte_level_letter(byte), bytes);
        lf_buf_append(out, text.ptr + first, i - first);
        lf_buf_append(out, bytes, (size_t)n);
        first = i + 1;
    }
    lf_buf_append(out, text.ptr + first, text.len - first);
}

/* One piece in its new form, appended to out. */
static void rewrite_piece(const struct lf_pretokenize_step *step, struct lf_buf *out, struct lf_str text,
                          enum lf_place place)
{
    if (step->kind == LF_PRETOKENIZE_BYTES) {
        append_letters(out, text);
    } else if (step->kind == LF_PRETOKENIZE_SPACES_TO) {
        lf_text_replace(out, text, LF_STR(" "), step->text);
    } else {
        bool inside = place == LF_PLACE_GOES_ON;
        bool wanted = !inside && (step->when == LF_PREFIX_ALWAYS || place == LF_PLACE_OPENS);
        if (wanted && !lf_str_starts(text, step->text)) lf_buf_str(out, step->text);
        lf_buf_str(out, text);
    }
}

static enum lf_status run_step(const struct lf_pretokenize_step *step, struct lf_regex_work *work,
                               struct lf_pretokenized *state, enum lf_place place)
{
    struct lf_str text = lf_buf_view(&state->text);
    bool rewrites = step->kind >= LF_PRETOKENIZE_PREFIX;
    state->other_pieces.n = 0;
    lf_buf_clear(&state->other_text);
    for (size_t i = 0; i < state->pieces.n; i++) {
        struct lf_piece piece = state->pieces.pieces[i];
        if (!rewrites) {
            LF_TRY(lf_split_piece(step, work, text, piece, &state->other_pieces));
            continue;
        }
        size_t first = state->other_text.len;
        struct lf_str part = lf_str_from(text.ptr + piece.first, piece.len);
        rewrite_piece(step, &state->other_text, part, piece.first == 0 ? place : LF_PLACE_BEHIND_TOKEN);
        LF_TRY(state->other_text.status);
        LF_TRY(lf_work_step(work->work, PIECE_STEPS + piece.len));
        LF_TRY(lf_pieces_append(&state->other_pieces, first, state->other_text.len));
    }
    struct lf_pieces swap = state->pieces;
    state->pieces = state->other_pieces;
    state->other_pieces = swap;
    if (!rewrites) return LF_OK;
    struct lf_buf swap_text = state->text;
    state->text = state->other_text;
    state->other_text = swap_text;
    return LF_OK;
}

enum lf_status lf_pretokenizer_run(const struct lf_pretokenizer *pre, struct lf_regex_work *work,
                                   struct lf_pretokenized *state, struct lf_str text, enum lf_place place)
{
    state->pieces.n = 0;
    lf_buf_clear(&state->text);
    lf_buf_clear(&state->other_text);
    state->text.ceiling = state->other_text.ceiling = LF_MIN(lf_text_grown_bytes(text.len), (size_t)UINT32_MAX);
    lf_buf_str(&state->text, text);
    LF_TRY(state->text.status);
    if (text.len == 0) return LF_OK;
    LF_TRY(lf_pieces_append(&state->pieces, 0, text.len));
    for (int i = 0; i < pre->n_steps; i++) LF_TRY(run_step(&pre->steps[i], work, state, place));
    return LF_OK;
}
