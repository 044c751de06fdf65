/* The normalizer of sentencepiece: rules from a double-array trie, spaces to marks, extra spaces dropped.
 *
 * The trie comes from the file and is followed by index, so every step is checked against its size, and every rule's
 * text against the end of the rules. A unit of the array is 32 bits: the label in the low 8 and the top one, "has a
 * leaf" in bit 8, the offset to the children above (scaled by 256 where bit 9 is set); a leaf holds its value in the
 * low 31. */
#include "tokenizer/spm/spm.h"

#include <stdlib.h>

#include "core/check.h"
#include "tokenizer/marked.h"

enum { CHAR_STEPS = 16 };

enum lf_status lf_charsmap_open(struct lf_charsmap *map, struct lf_str blob, struct lf_err *err)
{
    *map = (struct lf_charsmap){0};
    if (blob.len == 0) return LF_OK;
    const uint8_t *bytes = (const uint8_t *)blob.ptr;
    if (blob.len <= 4) return lf_fail(err, LF_CORRUPT, "the normalization rules are cut short");
    size_t trie_bytes = (size_t)bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 24;
    if (trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes >= blob.len - 4)
        return lf_fail(err, LF_CORRUPT, "the normalization rules hold %zu bytes, their trie is said to take %zu",
                       blob.len, trie_bytes);
    size_t rules_bytes = blob.len - 4 - trie_bytes;
    map->units = malloc(trie_bytes);
    map->rules = malloc(rules_bytes + 1);
    if (!map->units || !map->rules) {
        lf_charsmap_deinit(map);
        return lf_fail(err, LF_NO_MEMORY, "no memory for the normalization rules");
    }
    for (size_t i = 0; i < trie_bytes / 4; i++) {
        const uint8_t *u = bytes + 4 + 4 * i;
        map->units[i] = (uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
    }
    map->n_units = (uint32_t)(trie_bytes / 4);
    memcpy(map->rules, blob.ptr + 4 + trie_bytes, rules_bytes);
    map->rules[rules_bytes] = 0;
    map->rules_bytes = (uint32_t)rules_bytes;
    if (!lf_utf8_valid(lf_str_from(map->rules, rules_bytes))) {
        lf_charsmap_deinit(map);
        return lf_fail(err, LF_CORRUPT, "the texts of the normalization rules are not valid UTF-8");
    }
    return LF_OK;
}

void lf_charsmap_deinit(struct lf_charsmap *map)
{
    free(map->units);
    free(map->rules);
    *map = (struct lf_charsmap){0};
}

static uint32_t unit_offset(uint32_t unit)
{
    return (unit >> 10) << ((unit & (1u << 9)) >> 6);
}

static bool inside_code_point(char byte)
{
    return ((uint8_t)byte & 0xc0) == 0x80;
}

struct rule {
    size_t len; /* of what it replaces; 0: there is none */
    uint32_t idx;
};

/* The longest rule that text begins with. A rule that takes or gives a part of a code point is none: what is normalized
 * stays valid UTF-8, which the encoders build on. False where the trie goes on and on, as only a damaged one does. */
static bool longest_rule(const struct lf_charsmap *map, struct lf_str text, struct rule *rule)
{
    *rule = (struct rule){0, 0};
    if (map->n_units == 0) return true;
    uint32_t at = unit_offset(map->units[0]);
    for (size_t i = 0; i < text.len; i++) {
        uint8_t byte = (uint8_t)text.ptr[i];
        at ^= byte;
        if (at >= map->n_units) break;
        uint32_t unit = map->units[at];
        if ((unit & ((1u << 31) | 0xff)) != byte) break;
        if (i == LF_CHARSMAP_KEY_BYTES) return false;
        at ^= unit_offset(unit);
        if (!(unit & (1u << 8))) continue;
        if (at >= map->n_units) break;
        uint32_t value = map->units[at] & 0x7fffffffu;
        if (value > map->rules_bytes) break;
        if (inside_code_point(map->rules[value]) || (i + 1 < text.len && inside_code_point(text.ptr[i + 1]))) continue;
        *rule = (struct rule){i + 1, value};
    }
    return true;
}

/* A text on its way: what stands at `at` becomes `part`, and takes `taken` bytes. */
struct front {
    const struct lf_spm *spm;
    struct lf_encode_work *work;
    struct lf_str text;
    size_t at, taken;
    struct lf_str part;
    bool marks_are_spaces;
};

static enum lf_status match_front(struct front *f)
{
    struct rule rule;
    struct lf_str rest = lf_str_from(f->text.ptr + f->at, f->text.len - f->at);
    LF_TRY(lf_encode_step(f->work, CHAR_STEPS));
    if (f->marks_are_spaces && lf_spm_is_mark(rest, 0)) {
        f->taken = LF_SPM_MARK_LEN;
        f->part = LF_STR(" ");
        return LF_OK;
    }
    const struct lf_aho_match *piece = lf_aho_match_at(&f->work->inner_matches, f->at);
    if (piece) {
        f->taken = piece->len;
        f->part = lf_str_from(rest.ptr, f->taken);
        return LF_OK;
    }
    if (!longest_rule(&f->spm->charsmap, rest, &rule))
        return lf_fail(f->work->err, LF_CORRUPT, "normalization rules of more than %d bytes are not implemented",
                       LF_CHARSMAP_KEY_BYTES);
    f->taken = rule.len ? rule.len : lf_utf8_len(rest, 0);
    f->part = rule.len ? lf_str_c(f->spm->charsmap.rules + rule.idx) : lf_str_from(rest.ptr, f->taken);
    return LF_OK;
}

/* Puts a part with its spaces written as `space`. */
static void append_part(struct lf_buf *out, struct lf_str part, struct lf_str space)
{
    size_t first = 0;
    for (size_t i = 0; i < part.len; i++) {
        if (part.ptr[i] != ' ') continue;
        lf_buf_append(out, part.ptr + first, i - first);
        lf_buf_str(out, space);
        first = i + 1;
    }
    if (first < part.len) lf_buf_append(out, part.ptr + first, part.len - first);
}

static enum lf_status normalize_all(struct front *f, bool drop, bool after_space, struct lf_str space)
{
    for (; f->at < f->text.len && f->work->text.status == LF_OK; f->at += f->taken) {
        LF_TRY(match_front(f));
        while (after_space && f->part.len > 0 && f->part.ptr[0] == ' ')
            f->part = lf_str_from(f->part.ptr + 1, f->part.len - 1);
        append_part(&f->work->text, f->part, space);
        if (f->part.len > 0) after_space = f->part.ptr[f->part.len - 1] == ' ';
        if (!drop) after_space = false;
    }
    return LF_OK;
}

static enum lf_status normalize(struct front *f, enum lf_spm_start start)
{
    const struct lf_spm *spm = f->spm;
    struct lf_buf *out = &f->work->text;
    const struct lf_str space = spm->escape_whitespaces ? LF_STR(LF_SPM_MARK) : LF_STR(" ");
    bool dummy = start == LF_SPM_START_MODEL && spm->add_dummy_prefix;
    bool inside = start == LF_SPM_START_MARK || start == LF_SPM_START_INSIDE;
    bool drop = spm->remove_extra_whitespaces;
    for (; drop && !inside && f->at < f->text.len; f->at += f->taken) {
        LF_TRY(match_front(f));
        if (!lf_str_eq(f->part, LF_STR(" "))) break;
    }
    if (f->at == f->text.len && start != LF_SPM_START_MARK) return LF_OK;
    if (start == LF_SPM_START_MARK) lf_buf_str(out, LF_STR(LF_SPM_MARK));
    if (dummy && !spm->whitespace_as_suffix) lf_buf_str(out, space);
    LF_TRY(normalize_all(f, drop, drop && !inside, space));
    while (drop && lf_str_ends(lf_buf_view(out), space)) out->len -= space.len;
    if (dummy && spm->whitespace_as_suffix) lf_buf_str(out, space);
    return LF_OK;
}

/* The user-defined pieces of text. */
static enum lf_status find_pieces(const struct lf_spm *spm, struct lf_encode_work *work, struct lf_str text)
{
    enum lf_status status = lf_aho_longest(&spm->user_defined, &work->inner_matches, text, work->on);
    return status == LF_OK ? LF_OK : lf_encode_fail(work, status, NULL);
}

enum lf_status lf_spm_normalize(const struct lf_spm *spm, struct lf_encode_work *work, struct lf_str text,
                                enum lf_spm_start start, bool marks_are_spaces)
{
    struct front f = {.spm = spm, .work = work, .text = text, .marks_are_spaces = marks_are_spaces};
    lf_buf_clear(&work->text);
    work->text.ceiling = lf_text_grown_bytes(text.len);
    LF_TRY(find_pieces(spm, work, text));
    LF_TRY(normalize(&f, start));
    if (work->text.status == LF_LIMIT)
        return lf_fail(work->err, LF_CORRUPT, "normalization: %zu bytes of text become more than %d times as many",
                       text.len, LF_TEXT_GROWTH);
    return work->text.status == LF_OK ? LF_OK : lf_encode_fail(work, work->text.status, "a text to normalize");
}
