/* Fuzzing the patterns of tokenizer.json: a pattern, a NUL, a text. The pattern is rewritten, compiled and run, alone
 * and as a Split of every behaviour; matches must advance, lie within the text and begin and end between code points.
 */
#include "core/json.h"
#include "tests/fuzz/fuzz.h"
#include "tokenizer/hf/pretokenize.h"

static bool between_code_points(struct lf_str text, size_t at)
{
    return at == text.len || ((uint8_t)text.ptr[at] & 0xc0) != 0x80;
}

static void walk(const struct lf_regex *regex, struct lf_str text)
{
    struct lf_regex_work work;
    struct lf_regex_walk w = lf_regex_walk_init(text);
    size_t last_end = 0, n = 0;
    bool found = true;
    lf_regex_work_init(&work, NULL, text.len);
    while (lf_regex_next(regex, &work, &w, &found) == LF_OK && found) {
        LF_ASSERT(w.first <= w.end && w.end <= text.len && w.first >= last_end);
        LF_ASSERT(between_code_points(text, w.first) && between_code_points(text, w.end));
        last_end = w.end;
        LF_ASSERT(++n <= 2 * text.len + 2);
    }
    lf_regex_work_deinit(&work);
}

static void check_pieces(const struct lf_pretokenized *state)
{
    size_t at = 0;
    for (size_t i = 0; i < state->pieces.n; i++) {
        struct lf_piece p = state->pieces.pieces[i];
        LF_ASSERT(p.first >= at && p.len <= state->text.len - p.first);
        at = (size_t)p.first + p.len;
    }
}

/* {"type": "Split", …} with this pattern, as tokenizer.json writes it. */
static void split(struct lf_str pattern, struct lf_str text, const char *behavior, bool invert)
{
    struct lf_buf json;
    struct lf_json doc = {0};
    struct lf_arena arena;
    struct lf_pretokenizer pre = {0};
    struct lf_pretokenized state = {0};
    struct lf_regex_work work;
    lf_regex_work_init(&work, NULL, text.len);
    lf_buf_init(&json, 1 << 20);
    lf_arena_init(&arena, 4096, 1 << 20);
    lf_buf_cstr(&json, "{\"type\":\"Split\",\"pattern\":{\"Regex\":");
    lf_json_write_string(&json, pattern);
    lf_buf_printf(&json, "},\"behavior\":\"%s\",\"invert\":%s}", behavior, invert ? "true" : "false");
    LF_ASSERT(lf_json_parse(&doc, lf_buf_view(&json), &lf_json_limits_file, NULL) == LF_OK);
    lf_pretokenized_init(&state, NULL);
    if (lf_pretokenizer_open(&pre, &arena, lf_json_root(&doc), "pre_tokenizer", NULL) == LF_OK &&
        lf_pretokenizer_run(&pre, &work, &state, text, LF_PLACE_OPENS) == LF_OK)
        check_pieces(&state);
    lf_pretokenized_deinit(&state);
    lf_regex_work_deinit(&work);
    lf_pretokenizer_deinit(&pre);
    lf_arena_deinit(&arena);
    lf_json_deinit(&doc);
    lf_buf_deinit(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const behaviors[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                            "Contiguous"};
    struct lf_str pattern = fuzz_part(&data, &size);
    struct lf_str text = lf_str_from((const char *)data, size);
    struct lf_regex *regex = NULL;
    struct lf_err err = {0};
    /* Both stand in JSON and have been through its check. */
    if (!lf_utf8_valid(pattern) || !lf_utf8_valid(text) || text.len > 256) return 0;
    if (lf_regex_compile(&regex, pattern, &err) != LF_OK) {
        LF_ASSERT(err.message[0] != 0);
        return 0;
    }
    walk(regex, text);
    lf_regex_free(regex);
    size_t k = size % LF_N_ELEMS(behaviors);
    split(pattern, text, behaviors[k], pattern.len % 2);
    return 0;
}
