/* The normalizer of sentencepiece: rules from a double-array trie, spaces to marks, extra spaces dropped.
 *
 * The trie comes from the file and is followed by index, so every step is checked against its size, and every rule's
 * text against the end of the rules. A unit of the array is 32 bits: the label in the low 8 and the top one, "has a
 * leaf" in bit 8, the offset to the children above (scaled by 256 where bit 9 is set); a leaf holds its value in the
 * low 31. */
#include "tokenizer/spm.h"

#include <stdlib.h>

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

/* The longest rule that text begins with: its length, 0 if none; *rule is its place among the texts. A rule that takes
 * or gives a part of a code point is none: what is normalized stays valid UTF-8, which the encoders build on. */
static size_t longest_rule(const struct lf_charsmap *map, struct lf_str text, uint32_t *rule)
{
    size_t len = 0;
    if (map->n_units == 0) return 0;
    uint32_t at = unit_offset(map->units[0]);
    for (size_t i = 0; i < text.len; i++) {
        uint8_t byte = (uint8_t)text.ptr[i];
        at ^= byte;
        if (at >= map->n_units) break;
        uint32_t unit = map->units[at];
        if ((unit & ((1u << 31) | 0xff)) != byte) break;
        at ^= unit_offset(unit);
        if (!(unit & (1u << 8))) continue;
        if (at >= map->n_units) break;
        uint32_t value = map->units[at] & 0x7fffffffu;
        if (value > map->rules_bytes) break;
        if (inside_code_point(map->rules[value]) || (i + 1 < text.len && inside_code_point(text.ptr[i + 1]))) continue;
        *rule = value;
        len = i + 1;
    }
    return len;
}

/* What the text at its front becomes; *taken is how much of it that was. */
static struct lf_str normalize_front(const struct lf_spm *spm, struct lf_str text, bool marks_are_spaces, size_t *taken)
{
    size_t len;
    uint32_t rule;
    if (marks_are_spaces && lf_spm_is_mark(text, 0)) {
        *taken = LF_SPM_MARK_LEN;
        return LF_STR(" ");
    }
    if (lf_trie_longest(&spm->user_defined, text, &len) >= 0) {
        *taken = len;
        return lf_str_from(text.ptr, len);
    }
    len = longest_rule(&spm->charsmap, text, &rule);
    if (len > 0) {
        /* A rule may end inside a code point only in a damaged file; then it does not count. */
        if (len == text.len || ((uint8_t)text.ptr[len] & 0xc0) != 0x80) {
            *taken = len;
            return lf_str_c(spm->charsmap.rules + rule);
        }
    }
    *taken = lf_utf8_len(text, 0);
    return lf_str_from(text.ptr, *taken);
}

static struct lf_str without_front(struct lf_str text, size_t n)
{
    return lf_str_from(text.ptr + n, text.len - n);
}

void lf_spm_normalize(const struct lf_spm *spm, struct lf_buf *out, struct lf_str text, enum lf_spm_start start,
                      bool marks_are_spaces)
{
    const struct lf_str space = spm->escape_whitespaces ? LF_STR(LF_SPM_MARK) : LF_STR(" ");
    bool dummy = start == LF_SPM_START_MODEL && spm->add_dummy_prefix;
    bool inside = start == LF_SPM_START_MARK || start == LF_SPM_START_INSIDE;
    bool drop = spm->remove_extra_whitespaces;
    size_t first = out->len, taken;
    while (drop && !inside && text.len > 0 &&
           lf_str_eq(normalize_front(spm, text, marks_are_spaces, &taken), LF_STR(" ")))
        text = without_front(text, taken);
    if (text.len == 0 && start != LF_SPM_START_MARK) return;
    if (start == LF_SPM_START_MARK) lf_buf_str(out, LF_STR(LF_SPM_MARK));
    if (dummy && !spm->whitespace_as_suffix) lf_buf_str(out, space);

    bool after_space = drop && !inside;
    while (text.len > 0 && out->status == LF_OK) {
        struct lf_str part = normalize_front(spm, text, marks_are_spaces, &taken);
        text = without_front(text, taken);
        while (after_space && part.len > 0 && part.ptr[0] == ' ') part = without_front(part, 1);
        if (part.len > 0) {
            for (size_t i = 0; i < part.len; i++) {
                if (part.ptr[i] == ' ')
                    lf_buf_str(out, space);
                else
                    lf_buf_char(out, part.ptr[i]);
            }
            after_space = part.ptr[part.len - 1] == ' ';
        }
        if (!drop) after_space = false;
    }
    while (drop && out->len > first && lf_str_ends(lf_str_from(out->ptr + first, out->len - first), space))
        out->len -= space.len;
    if (dummy && spm->whitespace_as_suffix) lf_buf_str(out, space);
}
