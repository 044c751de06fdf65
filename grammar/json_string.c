#include "grammar/json_string.h"

static void spell_control(struct lf_nfa *nfa, uint32_t prefix[4], uint32_t from, uint32_t to, uint8_t byte)
{
    static const char letters[] = "btnfr", meant[] = "\b\t\n\f\r", hex[] = "0123456789abcdef";
    const char *known = byte ? strchr(meant, byte) : NULL;
    if (prefix[0] == 0) { /* the backslash, and \u00 */
        prefix[0] = lf_nfa_state(nfa);
        lf_nfa_bytes(nfa, from, prefix[0], '\\', '\\');
        prefix[1] = lf_nfa_text(nfa, prefix[0], LF_STR("u00"));
        prefix[2] = lf_nfa_text(nfa, prefix[1], LF_STR("0"));
        prefix[3] = lf_nfa_text(nfa, prefix[1], LF_STR("1"));
    }
    if (known || byte == '"' || byte == '\\') {
        uint8_t letter = known ? (uint8_t)letters[known - meant] : byte;
        lf_nfa_bytes(nfa, prefix[0], to, letter, letter);
    } else if (byte) {
        uint8_t digit = (uint8_t)hex[byte & 15];
        lf_nfa_bytes(nfa, prefix[2 + (byte >> 4)], to, digit, digit);
    }
}

struct lf_dfa lf_json_string_spelled(struct lf_compilation *c, const struct lf_dfa *content, const char *behind)
{
    struct lf_nfa nfa;
    lf_nfa_init(&nfa, c);
    if (content->n_states == 0 || !lf_compilation_ok(c)) return lf_dfa_of(c, &nfa);
    uint32_t close = lf_nfa_state(&nfa), first = lf_nfa_state(&nfa);
    for (uint32_t s = 1; s < content->n_states; s++) (void)lf_nfa_state(&nfa);
    lf_nfa_bytes(&nfa, nfa.start, first, '"', '"');
    lf_nfa_edge(&nfa, lf_nfa_text(&nfa, close, lf_str_c(behind)), nfa.accept, LF_NFA_EMPTY);
    for (uint32_t s = 0; s < content->n_states && lf_compilation_step(c, 256); s++) {
        uint32_t prefix[4] = {0};
        if (content->accept[s]) lf_nfa_bytes(&nfa, first + s, close, '"', '"');
        for (uint32_t b = 0; b < 256; b++) {
            uint32_t to = lf_dfa_next(content, s, (uint8_t)b), end = b;
            if (to == LF_DFA_DEAD) continue;
            if (b < 0x20 || b == '"' || b == '\\') {
                spell_control(&nfa, prefix, first + s, first + to, (uint8_t)b);
                continue;
            }
            while (end < 255 && end + 1 != '"' && end + 1 != '\\' && lf_dfa_next(content, s, (uint8_t)(end + 1)) == to)
                end++;
            lf_nfa_bytes(&nfa, first + s, first + to, (uint8_t)b, (uint8_t)end);
            b = end;
        }
    }
    return lf_dfa_of(c, &nfa);
}

struct lf_dfa lf_json_string_of_length(struct lf_compilation *c, uint32_t min, uint32_t max)
{
    struct lf_nfa nfa;
    uint32_t n = max == UINT32_MAX ? min : max;
    lf_nfa_init(&nfa, c);
    uint32_t at = nfa.start;
    for (uint32_t i = 0; i < n && lf_compilation_ok(c); i++) {
        uint32_t to = lf_nfa_state(&nfa);
        if (i >= min) lf_nfa_edge(&nfa, at, nfa.accept, LF_NFA_EMPTY);
        lf_nfa_code_points(&nfa, at, to, 1, 0x10ffff);
        at = to;
    }
    if (max == UINT32_MAX) lf_nfa_code_points(&nfa, at, at, 1, 0x10ffff);
    if (min <= max) lf_nfa_edge(&nfa, at, nfa.accept, LF_NFA_EMPTY);
    return lf_dfa_of(c, &nfa);
}

struct lf_dfa lf_json_string_any_of(struct lf_compilation *c, const struct lf_str *texts, size_t n)
{
    struct lf_nfa nfa;
    lf_nfa_init(&nfa, c);
    for (size_t i = 0; i < n && lf_compilation_ok(c); i++)
        lf_nfa_edge(&nfa, lf_nfa_text(&nfa, nfa.start, texts[i]), nfa.accept, LF_NFA_EMPTY);
    return lf_dfa_of(c, &nfa);
}
