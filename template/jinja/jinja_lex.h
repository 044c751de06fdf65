/* Tokens of a template: Jinja's lexer with trim_blocks and lstrip_blocks on. */
#ifndef LF_TEMPLATE_JINJA_JINJA_LEX_H
#define LF_TEMPLATE_JINJA_JINJA_LEX_H

#include <stdbool.h>
#include <stdint.h>

#include "core/str.h"

enum lf_jinja_token_kind {
    LF_JINJA_T_EOF,
    LF_JINJA_T_DATA,
    LF_JINJA_T_VAR_BEGIN,
    LF_JINJA_T_VAR_END,
    LF_JINJA_T_BLOCK_BEGIN,
    LF_JINJA_T_BLOCK_END,
    LF_JINJA_T_NAME,
    LF_JINJA_T_STRING, /* text: between the quotes, escapes as written */
    LF_JINJA_T_INTEGER,
    LF_JINJA_T_FLOAT,
    LF_JINJA_T_ADD,
    LF_JINJA_T_SUB,
    LF_JINJA_T_DIV,
    LF_JINJA_T_FLOORDIV,
    LF_JINJA_T_MUL,
    LF_JINJA_T_MOD,
    LF_JINJA_T_POW,
    LF_JINJA_T_TILDE,
    LF_JINJA_T_LBRACKET,
    LF_JINJA_T_RBRACKET,
    LF_JINJA_T_LPAREN,
    LF_JINJA_T_RPAREN,
    LF_JINJA_T_LBRACE,
    LF_JINJA_T_RBRACE,
    LF_JINJA_T_EQ,
    LF_JINJA_T_NE,
    LF_JINJA_T_GT,
    LF_JINJA_T_GE,
    LF_JINJA_T_LT,
    LF_JINJA_T_LE,
    LF_JINJA_T_ASSIGN,
    LF_JINJA_T_DOT,
    LF_JINJA_T_COLON,
    LF_JINJA_T_PIPE,
    LF_JINJA_T_COMMA,
    LF_JINJA_T_SEMICOLON
};

struct lf_jinja_token {
    enum lf_jinja_token_kind kind;
    uint32_t line;
    struct lf_str text; /* borrowed from the source */
};

/* "name 'x'", "end of statement block" …: what a message calls the token. */
void lf_jinja_token_describe(struct lf_jinja_token tok, char *out, size_t out_bytes);

enum lf_jinja_lex_mode { LF_JINJA_LEX_ROOT, LF_JINJA_LEX_BLOCK, LF_JINJA_LEX_VAR };

struct lf_jinja_lexer {
    struct lf_str src; /* borrowed; valid UTF-8, newlines are "\n" */
    size_t pos;
    size_t counted; /* line is the line of this byte */
    uint32_t line;
    enum lf_jinja_lex_mode mode;
    bool line_starting; /* what was consumed last ended a line */
    uint32_t n_brackets;
    char brackets[LF_TEMPLATE_DEPTH]; /* open ones, as the closing character each expects */
};

void lf_jinja_lexer_init(struct lf_jinja_lexer *lex, struct lf_str src);
/* LF_INVALID with line and reason, LF_LIMIT. At the end every further call gives EOF. */
LF_MUST_CHECK enum lf_status lf_jinja_lex(struct lf_jinja_lexer *lex, struct lf_jinja_token *out, struct lf_err *err);

#endif
