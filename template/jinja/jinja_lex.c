/* The lexer works on demand, one token a call.
 *
 * Outside of tags it looks for the next "{{", "{%" or "{#" and gives the text before it, already stripped as the tag
 * asks: "-" takes all white space on that side; a tag that stands alone after white space on its line loses that white
 * space (lstrip_blocks), and a block or a comment swallows the newline behind it (trim_blocks), unless it says "+".
 * A text that was given leaves the position at the tag, so the next call finds the same tag with nothing before it. */
#include "template/jinja/jinja_lex.h"

#include <stdio.h>

#include "core/check.h"
#include "template/builtin/jinja_char.h"

static const struct {
    char text[3];
    uint8_t kind;
} operators[] = {
    /* longest first */
    {"//", LF_JINJA_T_FLOORDIV}, {"**", LF_JINJA_T_POW},      {"==", LF_JINJA_T_EQ},    {"!=", LF_JINJA_T_NE},
    {">=", LF_JINJA_T_GE},       {"<=", LF_JINJA_T_LE},       {"+", LF_JINJA_T_ADD},    {"-", LF_JINJA_T_SUB},
    {"/", LF_JINJA_T_DIV},       {"*", LF_JINJA_T_MUL},       {"%", LF_JINJA_T_MOD},    {"~", LF_JINJA_T_TILDE},
    {"[", LF_JINJA_T_LBRACKET},  {"]", LF_JINJA_T_RBRACKET},  {"(", LF_JINJA_T_LPAREN}, {")", LF_JINJA_T_RPAREN},
    {"{", LF_JINJA_T_LBRACE},    {"}", LF_JINJA_T_RBRACE},    {">", LF_JINJA_T_GT},     {"<", LF_JINJA_T_LT},
    {"=", LF_JINJA_T_ASSIGN},    {".", LF_JINJA_T_DOT},       {":", LF_JINJA_T_COLON},  {"|", LF_JINJA_T_PIPE},
    {",", LF_JINJA_T_COMMA},     {";", LF_JINJA_T_SEMICOLON},
};

void lf_jinja_token_describe(struct lf_jinja_token tok, char *out, size_t out_bytes)
{
    static const char *const names[] = {"end of template", "text",   "'{{'",  "'}}'", "'{%'", "'%}'", "name",
                                        "string",          "number", "number"};
    int len = (int)LF_MIN(tok.text.len, 40u);
    if (tok.kind == LF_JINJA_T_NAME) {
        snprintf(out, out_bytes, "'%.*s'", len, tok.text.ptr);
    } else if (tok.kind < LF_N_ELEMS(names)) {
        snprintf(out, out_bytes, "%s", names[tok.kind]);
    } else {
        snprintf(out, out_bytes, "'%.*s'", len, tok.text.ptr);
    }
}

void lf_jinja_lexer_init(struct lf_jinja_lexer *lex, struct lf_str src)
{
    *lex = (struct lf_jinja_lexer){.src = src, .line = 1, .line_starting = true};
}

/* -- Reading the source -- */

static bool at(const struct lf_jinja_lexer *lex, size_t pos, const char *s)
{
    size_t n = strlen(s);
    return pos + n <= lex->src.len && memcmp(lex->src.ptr + pos, s, n) == 0;
}

static char byte_at(const struct lf_jinja_lexer *lex, size_t pos)
{
    return pos < lex->src.len ? lex->src.ptr[pos] : '\0';
}

static size_t skip_space(const struct lf_jinja_lexer *lex, size_t pos)
{
    while (pos < lex->src.len) {
        uint32_t cp;
        int n = lf_utf8_decode(lex->src.ptr + pos, lex->src.len - pos, &cp);
        LF_ASSERT(n > 0); /* a source is valid UTF-8 */
        if (!lf_jinja_is_space(cp)) break;
        pos += (size_t)n;
    }
    return pos;
}

/* The end of [first, end) without white space at its end. */
static size_t strip_end(const struct lf_jinja_lexer *lex, size_t first, size_t end)
{
    while (end > first) {
        size_t p = end - 1;
        while (((unsigned char)lex->src.ptr[p] & 0xC0) == 0x80) p--; /* not past first: a code point begins there */
        uint32_t cp;
        LF_ASSERT(p >= first && lf_utf8_decode(lex->src.ptr + p, end - p, &cp) > 0);
        if (!lf_jinja_is_space(cp)) break;
        end = p;
    }
    return end;
}

/* Moves to pos and keeps the line number and whether a line begins there. */
static void move_to(struct lf_jinja_lexer *lex, size_t pos)
{
    for (; lex->counted < pos; lex->counted++) lex->line += lex->src.ptr[lex->counted] == '\n';
    if (pos > lex->pos) lex->line_starting = lex->src.ptr[pos - 1] == '\n';
    lex->pos = pos;
}

static struct lf_jinja_token token(const struct lf_jinja_lexer *lex, enum lf_jinja_token_kind kind, size_t end)
{
    return (struct lf_jinja_token){kind, lex->line, lf_str_from(lex->src.ptr + lex->pos, end - lex->pos)};
}

/* -- Outside of tags -- */

/* The end of the text [lex->pos, tag), with what the tag's sign strips from it. */
static size_t text_end(const struct lf_jinja_lexer *lex, size_t tag, char sign, bool is_var)
{
    if (sign == '-') return strip_end(lex, lex->pos, tag);
    if (sign == '+' || is_var) return tag;
    size_t line = tag;
    while (line > lex->pos && lex->src.ptr[line - 1] != '\n') line--;
    if (line == lex->pos && !lex->line_starting) return tag;
    return strip_end(lex, line, tag) == line ? line : tag;
}

static char sign_at(const struct lf_jinja_lexer *lex, size_t pos)
{
    char c = byte_at(lex, pos);
    return c == '-' || c == '+' ? c : '\0';
}

/* Whether "%}" with an optional sign stands at pos; *end is behind it and behind what it swallows. */
static bool block_end(const struct lf_jinja_lexer *lex, size_t pos, const char *close, bool plus, size_t *end)
{
    char sign = sign_at(lex, pos);
    if (sign == '+' && !plus) return false;
    if (!at(lex, pos + (sign != '\0'), close)) return false;
    *end = pos + (sign != '\0') + 2;
    if (sign == '-') {
        *end = skip_space(lex, *end);
    } else if (sign == '\0' && close[0] != '}' && byte_at(lex, *end) == '\n') {
        (*end)++;
    }
    return true;
}

/* Whether "{% word %}" begins at tag: *sign its left sign, *inner what follows the word. */
static bool is_word_tag(const struct lf_jinja_lexer *lex, size_t tag, const char *word, char *sign, size_t *inner)
{
    if (!at(lex, tag, "{%")) return false;
    *sign = sign_at(lex, tag + 2);
    size_t pos = skip_space(lex, tag + 2 + (*sign != '\0'));
    if (!at(lex, pos, word)) return false;
    *inner = skip_space(lex, pos + strlen(word));
    return true;
}

static enum lf_status skip_comment(struct lf_jinja_lexer *lex, size_t inner, struct lf_err *err)
{
    for (size_t p = inner; p + 1 < lex->src.len; p++) {
        size_t end;
        if (block_end(lex, p, "#}", true, &end)) {
            move_to(lex, end);
            return LF_OK;
        }
    }
    return lf_fail(err, LF_INVALID, "line %u: a comment is not closed: expected '#}'", lex->line);
}

/* {% raw %} begins at `inner`: gives what is inside as text. */
static enum lf_status lex_raw(struct lf_jinja_lexer *lex, size_t inner, struct lf_jinja_token *out, struct lf_err *err)
{
    uint32_t line = lex->line;
    move_to(lex, inner);
    for (size_t tag = inner; tag < lex->src.len; tag++) {
        char sign;
        size_t word_end, end;
        if (lex->src.ptr[tag] != '{' || !is_word_tag(lex, tag, "endraw", &sign, &word_end) ||
            !block_end(lex, word_end, "%}", true, &end)) {
            continue;
        }
        *out = token(lex, LF_JINJA_T_DATA, text_end(lex, tag, sign, false));
        move_to(lex, end);
        return LF_OK;
    }
    return lf_fail(err, LF_INVALID, "line %u: expected '{%% endraw %%}', found end of template", line);
}

/* The tag at `tag` with nothing left before it. *skipped: it was a comment, look again. */
static enum lf_status lex_tag(struct lf_jinja_lexer *lex, size_t tag, bool *skipped, struct lf_jinja_token *out,
                              struct lf_err *err)
{
    size_t inner, end;
    char sign;
    *skipped = false;
    move_to(lex, tag);
    if (is_word_tag(lex, tag, "raw", &sign, &inner) && block_end(lex, inner, "%}", false, &end)) {
        /* The tag that opens raw text keeps the newline behind it. */
        bool strips = byte_at(lex, inner) == '-';
        return lex_raw(lex, strips ? end : inner + 2, out, err);
    }
    inner = tag + 2 + (sign_at(lex, tag + 2) != '\0');
    if (at(lex, tag, "{#")) {
        *skipped = true;
        return skip_comment(lex, inner, err);
    }
    bool is_var = at(lex, tag, "{{");
    *out = token(lex, is_var ? LF_JINJA_T_VAR_BEGIN : LF_JINJA_T_BLOCK_BEGIN, inner);
    lex->mode = is_var ? LF_JINJA_LEX_VAR : LF_JINJA_LEX_BLOCK;
    move_to(lex, inner);
    return LF_OK;
}

static size_t find_tag(const struct lf_jinja_lexer *lex)
{
    size_t pos = lex->pos;
    while (pos + 1 < lex->src.len) {
        const char *brace = memchr(lex->src.ptr + pos, '{', lex->src.len - pos - 1);
        if (!brace) break;
        if (brace[1] == '{' || brace[1] == '%' || brace[1] == '#') return (size_t)(brace - lex->src.ptr);
        pos = (size_t)(brace - lex->src.ptr) + 1;
    }
    return lex->src.len;
}

static enum lf_status lex_root(struct lf_jinja_lexer *lex, struct lf_jinja_token *out, struct lf_err *err)
{
    for (;;) {
        size_t tag = find_tag(lex);
        if (tag == lex->src.len) {
            *out = token(lex, lex->pos < tag ? LF_JINJA_T_DATA : LF_JINJA_T_EOF, tag);
            move_to(lex, tag);
            return LF_OK;
        }
        size_t end = text_end(lex, tag, sign_at(lex, tag + 2), at(lex, tag, "{{"));
        *out = token(lex, LF_JINJA_T_DATA, end);
        bool empty = end == lex->pos, skipped;
        move_to(lex, tag);
        if (!empty) return LF_OK;
        LF_TRY(lex_tag(lex, tag, &skipped, out, err));
        if (!skipped && !(out->kind == LF_JINJA_T_DATA && out->text.len == 0)) return LF_OK;
    }
}

/* -- Inside of tags -- */

static bool is_name_byte(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

/* Behind digits of the base with single underscores between them; pos itself where there are none. */
static size_t skip_digits(const struct lf_jinja_lexer *lex, size_t pos, int base)
{
    size_t end = pos;
    for (;;) {
        size_t p = end > pos && byte_at(lex, end) == '_' ? end + 1 : end;
        if (lf_digit(byte_at(lex, p)) >= base) return end;
        end = p + 1;
    }
}

/* The end of a float at pos, or pos. */
static size_t float_end(const struct lf_jinja_lexer *lex, size_t pos)
{
    if (lex->src.ptr[pos - 1] == '.') return pos; /* a tag has begun before */
    size_t whole = skip_digits(lex, pos, 10);
    if (whole == pos) return pos;
    size_t end = whole;
    if (byte_at(lex, end) == '.') {
        size_t fraction = skip_digits(lex, end + 1, 10);
        if (fraction > end + 1) end = fraction;
    }
    if ((byte_at(lex, end) | 0x20) == 'e') {
        size_t digits = end + 1 + (sign_at(lex, end + 1) != '\0');
        size_t exponent = skip_digits(lex, digits, 10);
        if (exponent > digits) end = exponent;
    }
    return end > whole ? end : pos;
}

static size_t integer_end(const struct lf_jinja_lexer *lex, size_t pos)
{
    if (byte_at(lex, pos) != '0') return skip_digits(lex, pos, 10);
    int mark = byte_at(lex, pos + 1) | 0x20;
    int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (base) {
        size_t first = pos + 2 + (byte_at(lex, pos + 2) == '_');
        size_t end = skip_digits(lex, first, base);
        if (end > first) return end;
    }
    return skip_digits(lex, pos, 1); /* zeros only */
}

static enum lf_status lex_string(struct lf_jinja_lexer *lex, struct lf_jinja_token *out, struct lf_err *err)
{
    char quote = lex->src.ptr[lex->pos];
    size_t p = lex->pos + 1;
    while (p < lex->src.len && lex->src.ptr[p] != quote) p += lex->src.ptr[p] == '\\' ? 2 : 1;
    if (p >= lex->src.len)
        return lf_fail(err, LF_INVALID, "line %u: a string is not closed: expected %c", lex->line, quote);
    *out = (struct lf_jinja_token){LF_JINJA_T_STRING, lex->line,
                                   lf_str_from(lex->src.ptr + lex->pos + 1, p - lex->pos - 1)};
    move_to(lex, p + 1);
    return LF_OK;
}

/* Keeps the open brackets, so that "}}" inside of a dict does not end the tag. */
static enum lf_status balance(struct lf_jinja_lexer *lex, char c, struct lf_err *err)
{
    char closing = c == '(' ? ')' : c == '[' ? ']' : c == '{' ? '}' : '\0';
    if (closing) {
        if (lex->n_brackets == LF_TEMPLATE_DEPTH) {
            return lf_fail(err, LF_LIMIT, "line %u: brackets are nested deeper than %d", lex->line, LF_TEMPLATE_DEPTH);
        }
        lex->brackets[lex->n_brackets++] = closing;
        return LF_OK;
    }
    if (c != ')' && c != ']' && c != '}') return LF_OK;
    if (lex->n_brackets == 0) return lf_fail(err, LF_INVALID, "line %u: unexpected '%c'", lex->line, c);
    char expected = lex->brackets[--lex->n_brackets];
    if (expected == c) return LF_OK;
    return lf_fail(err, LF_INVALID, "line %u: expected '%c', found '%c'", lex->line, expected, c);
}

static enum lf_status lex_operator(struct lf_jinja_lexer *lex, struct lf_jinja_token *out, struct lf_err *err)
{
    for (size_t i = 0; i < LF_N_ELEMS(operators); i++) {
        if (!at(lex, lex->pos, operators[i].text)) continue;
        size_t end = lex->pos + strlen(operators[i].text);
        LF_TRY(balance(lex, operators[i].text[0], err));
        *out = token(lex, operators[i].kind, end);
        move_to(lex, end);
        return LF_OK;
    }
    unsigned char c = (unsigned char)lex->src.ptr[lex->pos];
    if (c < 0x20 || c >= 0x7f) {
        return lf_fail(err, LF_INVALID, "line %u: unexpected character (byte 0x%02x) in a tag", lex->line, c);
    }
    return lf_fail(err, LF_INVALID, "line %u: unexpected character '%c' in a tag", lex->line, c);
}

static enum lf_status lex_inside(struct lf_jinja_lexer *lex, struct lf_jinja_token *out, struct lf_err *err)
{
    move_to(lex, skip_space(lex, lex->pos));
    if (lex->pos == lex->src.len) {
        *out = token(lex, LF_JINJA_T_EOF, lex->pos);
        return LF_OK;
    }
    bool is_var = lex->mode == LF_JINJA_LEX_VAR;
    size_t end;
    if (lex->n_brackets == 0 && block_end(lex, lex->pos, is_var ? "}}" : "%}", !is_var, &end)) {
        *out = token(lex, is_var ? LF_JINJA_T_VAR_END : LF_JINJA_T_BLOCK_END, end);
        lex->mode = LF_JINJA_LEX_ROOT;
        move_to(lex, end);
        return LF_OK;
    }
    char c = lex->src.ptr[lex->pos];
    if (c == '"' || c == '\'') return lex_string(lex, out, err);
    enum lf_jinja_token_kind kind = LF_JINJA_T_FLOAT;
    end = float_end(lex, lex->pos);
    if (end == lex->pos) {
        kind = LF_JINJA_T_INTEGER;
        if (c >= '0' && c <= '9') end = integer_end(lex, lex->pos);
    }
    if (end == lex->pos && is_name_byte(c, true)) {
        kind = LF_JINJA_T_NAME;
        while (end < lex->src.len && is_name_byte(lex->src.ptr[end], false)) end++;
    }
    if (end == lex->pos) return lex_operator(lex, out, err);
    *out = token(lex, kind, end);
    move_to(lex, end);
    return LF_OK;
}

enum lf_status lf_jinja_lex(struct lf_jinja_lexer *lex, struct lf_jinja_token *out, struct lf_err *err)
{
    return lex->mode == LF_JINJA_LEX_ROOT ? lex_root(lex, out, err) : lex_inside(lex, out, err);
}
