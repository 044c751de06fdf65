#include "server/http/api/parts.h"

#include "core/check.h"
#include "core/text_memory.h"

enum {
    PIECE_BYTES = 4 * 1024, /* text in one event */
    TEXT_BYTES = 64 * 1024 * 1024,
    RUNS_MIN_N = 16
};

void lf_parts_init(struct lf_parts *parts, struct lf_text_memory *memory)
{
    *parts = (struct lf_parts){.last = -1};
    lf_buf_init_in(&parts->text, TEXT_BYTES, memory);
}

void lf_parts_deinit(struct lf_parts *parts)
{
    lf_text_free(parts->text.memory, parts->runs);
    lf_buf_deinit(&parts->text);
    parts->runs = NULL;
}

void lf_parts_restart(struct lf_parts *parts, bool by_runs)
{
    lf_buf_clear(&parts->text);
    parts->shown = 0;
    parts->by_runs = by_runs;
    parts->n_runs = parts->first_run = 0;
    parts->n_blocks = parts->n_calls = parts->n_whole_calls = 0;
    parts->has_text = parts->has_reasoning = parts->in_call = false;
    parts->last = -1;
}

/* Of a plain answer some was shown. */
static void note_plain(struct lf_parts *parts)
{
    parts->n_blocks = 1;
    parts->has_text = true;
    parts->last = LF_ANSWER_TEXT;
}

static bool grow(struct lf_parts *parts)
{
    if (parts->n_runs < parts->cap) return true;
    int cap = parts->cap ? parts->cap * 2 : RUNS_MIN_N;
    struct lf_part_run *grown = lf_text_realloc(parts->text.memory, parts->runs, (size_t)cap * sizeof *grown);
    if (!grown) {
        parts->text.status = LF_NO_MEMORY;
        return false;
    }
    parts->runs = grown;
    parts->cap = cap;
    return true;
}

/* Whether a piece goes on with what the last one was of. */
static bool goes_on(const struct lf_parts *parts, enum lf_answer_kind kind)
{
    if (kind == LF_ANSWER_CALL) return false;
    return kind == LF_ANSWER_ARGUMENTS || kind == LF_ANSWER_CALL_END || parts->last == (int)kind;
}

static void note(struct lf_parts *parts, enum lf_answer_kind kind, bool next)
{
    if (next) parts->n_blocks++;
    if (kind == LF_ANSWER_CALL) parts->n_calls++;
    parts->in_call = kind == LF_ANSWER_CALL || kind == LF_ANSWER_ARGUMENTS;
    parts->has_text = parts->has_text || kind == LF_ANSWER_TEXT;
    parts->has_reasoning = parts->has_reasoning || kind == LF_ANSWER_REASONING;
    parts->last = (int)kind;
}

static void push(struct lf_parts *parts, enum lf_answer_kind kind, struct lf_str bytes)
{
    bool next = !goes_on(parts, kind);
    struct lf_part_run *last = parts->n_runs > parts->first_run ? &parts->runs[parts->n_runs - 1] : NULL;
    lf_buf_str(&parts->text, bytes);
    if (parts->text.status != LF_OK) return;
    if (last && !next && last->kind == kind) {
        last->n += bytes.len;
        return;
    }
    if (!grow(parts)) return;
    enum lf_answer_kind before = parts->last < 0 ? LF_ANSWER_TEXT : (enum lf_answer_kind)parts->last;
    note(parts, kind, next);
    parts->runs[parts->n_runs++] = (struct lf_part_run){.kind = kind,
                                                        .before = before,
                                                        .block = parts->n_blocks - 1,
                                                        .call = parts->n_calls - 1,
                                                        .begins = next,
                                                        .n = bytes.len};
}

void lf_parts_end(struct lf_parts *parts)
{
    if (parts->in_call) push(parts, LF_ANSWER_CALL_END, LF_STR(""));
}

void lf_parts_add(struct lf_parts *parts, enum lf_answer_kind kind, struct lf_str bytes)
{
    bool of_call = kind == LF_ANSWER_ARGUMENTS || kind == LF_ANSWER_CALL_END;
    LF_ASSERT(parts->by_runs);
    if (of_call && !parts->in_call) return;
    if (!of_call) lf_parts_end(parts);
    if (kind == LF_ANSWER_CALL_END) parts->n_whole_calls++;
    if (bytes.len || kind == LF_ANSWER_CALL_END) push(parts, kind, bytes);
}

/* So much of a text as goes into one event. */
static struct lf_str piece_of(const char *at, size_t n)
{
    if (n <= PIECE_BYTES) return lf_str_from(at, n);
    n = PIECE_BYTES;
    while (n > PIECE_BYTES - 4 && ((unsigned char)at[n] & 0xc0) == 0x80) n--;
    return lf_str_from(at, n);
}

bool lf_parts_next(const struct lf_parts *parts, struct lf_part *out)
{
    if (!lf_parts_any(parts)) return false;
    const char *at = parts->text.ptr ? parts->text.ptr + parts->shown : "";
    if (!parts->by_runs) {
        *out = (struct lf_part){.kind = LF_ANSWER_TEXT,
                                .begins = parts->n_blocks == 0,
                                .bytes = piece_of(at, parts->text.len - parts->shown)};
        return true;
    }
    const struct lf_part_run *run = &parts->runs[parts->first_run];
    *out = (struct lf_part){.kind = run->kind,
                            .block = run->block,
                            .call = run->call,
                            .begins = run->begins,
                            .before = run->before,
                            /* a name is never cut */
                            .bytes = run->kind == LF_ANSWER_CALL ? lf_str_from(at, run->n) : piece_of(at, run->n)};
    return true;
}

void lf_parts_shown(struct lf_parts *parts, const struct lf_part *part)
{
    parts->shown += part->bytes.len;
    if (!parts->by_runs) {
        note_plain(parts);
    } else {
        struct lf_part_run *run = &parts->runs[parts->first_run];
        run->n -= part->bytes.len;
        run->begins = false;
        if (run->n == 0) parts->first_run++;
    }
    if (!lf_parts_any(parts)) lf_parts_skip(parts);
}

void lf_parts_skip(struct lf_parts *parts)
{
    if (parts->shown < parts->text.len && !parts->by_runs) note_plain(parts);
    lf_buf_clear(&parts->text);
    parts->shown = 0;
    parts->n_runs = parts->first_run = 0;
}
