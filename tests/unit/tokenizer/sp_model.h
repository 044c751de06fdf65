/* tokenizer.model, put together by hand: sentencepiece's ModelProto, field by field. */
#ifndef LF_TESTS_UNIT_TOKENIZER_SP_MODEL_H
#define LF_TESTS_UNIT_TOKENIZER_SP_MODEL_H

#include "core/str.h"

static inline void put_varint(struct lf_buf *out, uint64_t n)
{
    while (n >= 0x80) {
        lf_buf_char(out, (char)(n | 0x80));
        n >>= 7;
    }
    lf_buf_char(out, (char)n);
}

/* The head of a field of n bytes. */
static inline void put_field(struct lf_buf *out, int number, size_t n)
{
    put_varint(out, (uint64_t)number << 3 | 2);
    put_varint(out, n);
}

static inline void put_bytes(struct lf_buf *out, int number, struct lf_str bytes)
{
    put_field(out, number, bytes.len);
    lf_buf_str(out, bytes);
}

static inline void put_number(struct lf_buf *out, int number, uint64_t value)
{
    put_varint(out, (uint64_t)number << 3);
    put_varint(out, value);
}

static inline void put_piece(struct lf_buf *out, struct lf_str text, float score, char type)
{
    struct lf_buf piece;
    lf_buf_init(&piece, 32 << 20);
    put_field(&piece, 1, text.len);
    lf_buf_str(&piece, text);
    lf_buf_char(&piece, 2 << 3 | 5);
    lf_buf_append(&piece, &score, 4);
    lf_buf_char(&piece, 3 << 3);
    lf_buf_char(&piece, type);
    put_field(out, 1, piece.len);
    lf_buf_str(out, lf_buf_view(&piece));
    lf_buf_deinit(&piece);
}

static inline void put_trainer(struct lf_buf *out, char model)
{
    const char trainer[] = {3 << 3, model};
    put_field(out, 2, sizeof trainer);
    lf_buf_append(out, trainer, sizeof trainer);
}

/* A normalizer with these rules: a trie of n_units words, then text. */
static inline void put_rules(struct lf_buf *out, const uint32_t *units, uint32_t n_units, struct lf_str rules,
                             uint32_t claim)
{
    struct lf_buf map, spec;
    lf_buf_init(&map, 1 << 20);
    lf_buf_init(&spec, 1 << 20);
    lf_buf_append(&map, &claim, 4);
    lf_buf_append(&map, units, n_units * sizeof *units);
    lf_buf_str(&map, rules);
    put_field(&spec, 2, map.len);
    lf_buf_str(&spec, lf_buf_view(&map));
    put_field(out, 3, spec.len);
    lf_buf_str(out, lf_buf_view(&spec));
    lf_buf_deinit(&map);
    lf_buf_deinit(&spec);
}

static inline struct lf_buf start_model(bool with_unknown)
{
    struct lf_buf model;
    lf_buf_init(&model, 64 << 20);
    if (with_unknown) put_piece(&model, LF_STR("<unk>"), 0, 2);
    return model;
}

#endif
