#include "tokenizer/spm/spm_proto.h"

#include "core/check.h"

/* Field numbers of sentencepiece_model.proto. */
enum { MODEL_PIECE = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };
enum { PIECE_TEXT = 1, PIECE_TYPE = 3 };
enum {
    TRAINER_MODEL = 3,
    TRAINER_WHITESPACE_AS_SUFFIX = 24,
    TRAINER_BYTE_FALLBACK = 35,
    TRAINER_UNK_SURFACE = 44,
    TRAINER_BOS = 46,
    TRAINER_EOS = 47
};
enum { NORMALIZER_CHARSMAP = 2, NORMALIZER_DUMMY_PREFIX = 3, NORMALIZER_EXTRA_SPACES = 4, NORMALIZER_ESCAPE = 5 };
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct field {
    uint32_t number;
    uint32_t wire;
    uint64_t value;      /* of a varint */
    struct lf_str bytes; /* of WIRE_BYTES */
    struct lf_str whole; /* tag and all */
};

/* Takes a varint from the front of *rest; false where it does not end. */
static bool take_varint(struct lf_str *rest, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 10 && i < rest->len; i++) {
        uint8_t byte = (uint8_t)rest->ptr[i];
        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            rest->ptr += i + 1;
            rest->len -= i + 1;
            *out = value;
            return true;
        }
    }
    return false;
}

static enum lf_status take_field(struct lf_str *rest, struct field *out, struct lf_err *err)
{
    const char *begin = rest->ptr;
    uint64_t tag, n = 0;
    *out = (struct field){0};
    if (!take_varint(rest, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
        return lf_fail(err, LF_CORRUPT, "not a sentencepiece model: bad field tag");
    out->number = (uint32_t)(tag >> 3);
    out->wire = (uint32_t)(tag & 7);
    switch (out->wire) {
    case WIRE_VARINT:
        if (!take_varint(rest, &out->value)) return lf_fail(err, LF_CORRUPT, "the sentencepiece model is cut short");
        break;
    case WIRE_64:
        n = 8;
        break;
    case WIRE_32:
        n = 4;
        break;
    case WIRE_BYTES:
        if (!take_varint(rest, &n)) return lf_fail(err, LF_CORRUPT, "the sentencepiece model is cut short");
        break;
    default:
        return lf_fail(err, LF_CORRUPT, "not a sentencepiece model: wire type %u", out->wire);
    }
    if (n > rest->len)
        return lf_fail(err, LF_CORRUPT, "the sentencepiece model is cut short: a field of %llu bytes, %zu are left",
                       (unsigned long long)n, rest->len);
    out->bytes = lf_str_from(rest->ptr, (size_t)n);
    rest->ptr += n;
    rest->len -= (size_t)n;
    out->whole = lf_str_from(begin, (size_t)(rest->ptr - begin));
    return LF_OK;
}

static enum lf_status read_trainer(struct lf_spm_proto *out, struct lf_str rest, struct lf_err *err)
{
    while (rest.len > 0) {
        struct field f;
        LF_TRY(take_field(&rest, &f, err));
        switch (f.number) {
        case TRAINER_MODEL:
            out->model = (int64_t)f.value;
            break;
        case TRAINER_WHITESPACE_AS_SUFFIX:
            out->whitespace_as_suffix = f.value != 0;
            break;
        case TRAINER_BYTE_FALLBACK:
            out->byte_fallback = f.value != 0;
            break;
        case TRAINER_UNK_SURFACE:
            out->unk_surface = f.bytes;
            break;
        case TRAINER_BOS:
            out->bos_piece = f.bytes;
            break;
        case TRAINER_EOS:
            out->eos_piece = f.bytes;
            break;
        default:
            break;
        }
    }
    return LF_OK;
}

static enum lf_status read_normalizer(struct lf_spm_proto *out, struct lf_str rest, struct lf_err *err)
{
    while (rest.len > 0) {
        struct field f;
        LF_TRY(take_field(&rest, &f, err));
        switch (f.number) {
        case NORMALIZER_CHARSMAP:
            out->charsmap = f.bytes;
            break;
        case NORMALIZER_DUMMY_PREFIX:
            out->add_dummy_prefix = f.value != 0;
            break;
        case NORMALIZER_EXTRA_SPACES:
            out->remove_extra_whitespaces = f.value != 0;
            break;
        case NORMALIZER_ESCAPE:
            out->escape_whitespaces = f.value != 0;
            break;
        default:
            break;
        }
    }
    return LF_OK;
}

static enum lf_status read_piece(struct lf_str rest, struct lf_str *text, int64_t *type, struct lf_err *err)
{
    *text = LF_STR("");
    *type = 1;
    while (rest.len > 0) {
        struct field f;
        LF_TRY(take_field(&rest, &f, err));
        if (f.number == PIECE_TEXT && f.wire == WIRE_BYTES) *text = f.bytes;
        if (f.number == PIECE_TYPE && f.wire == WIRE_VARINT) *type = (int64_t)f.value;
    }
    return LF_OK;
}

/* What the library would take, or crash on: an empty text, one that it would walk by recursion, one with a NUL. */
static enum lf_status check_piece(void *ctx, int64_t idx, struct lf_str text, int64_t type, struct lf_err *err)
{
    struct lf_spm_proto *out = ctx;
    long long i = (long long)idx;
    if (text.len == 0) return lf_fail(err, LF_CORRUPT, "piece %lld has an empty text", i);
    if (text.len > LF_TOKEN_BYTES)
        return lf_fail(err, LF_CORRUPT, "piece %lld has a text of %zu bytes, at most %d are expected", i, text.len,
                       LF_TOKEN_BYTES);
    if (!lf_utf8_valid(text)) return lf_fail(err, LF_CORRUPT, "the text of piece %lld is not valid UTF-8", i);
    if (memchr(text.ptr, 0, text.len)) return lf_fail(err, LF_CORRUPT, "piece %lld has a NUL in its text", i);
    if (type < 1 || type > 6)
        return lf_fail(err, LF_CORRUPT, "piece %lld is of the unknown type %lld", i, (long long)type);
    out->n_pieces++;
    out->piece_bytes += text.len;
    return LF_OK;
}

enum lf_status lf_spm_proto_each_piece(struct lf_str model, lf_spm_piece_fn *piece, void *ctx, struct lf_err *err)
{
    int64_t idx = 0;
    while (model.len > 0) {
        struct field f;
        struct lf_str text;
        int64_t type;
        LF_TRY(take_field(&model, &f, err));
        if (f.number != MODEL_PIECE || f.wire != WIRE_BYTES) continue;
        LF_TRY(read_piece(f.bytes, &text, &type, err));
        LF_TRY(piece(ctx, idx++, text, type, err));
    }
    return LF_OK;
}

/* The next field of a model whose fields were all read before, so none is broken. */
static struct field next_field(struct lf_str *rest)
{
    struct field f;
    enum lf_status status = take_field(rest, &f, NULL);
    LF_ASSERT(status == LF_OK);
    return f;
}

enum lf_status lf_spm_proto_read(struct lf_spm_proto *out, struct lf_str model, struct lf_err *err)
{
    struct lf_spm_proto proto = {.model = LF_SPM_UNIGRAM,
                                 .add_dummy_prefix = true,
                                 .remove_extra_whitespaces = true,
                                 .escape_whitespaces = true,
                                 .unk_surface = LF_STR(" \xe2\x81\x87 "),
                                 .bos_piece = LF_STR("<s>"),
                                 .eos_piece = LF_STR("</s>")};
    LF_TRY(lf_spm_proto_each_piece(model, check_piece, &proto, err));
    while (model.len > 0) {
        struct field f = next_field(&model);
        if (f.number == MODEL_TRAINER && f.wire == WIRE_BYTES) LF_TRY(read_trainer(&proto, f.bytes, err));
        if (f.number == MODEL_NORMALIZER && f.wire == WIRE_BYTES) LF_TRY(read_normalizer(&proto, f.bytes, err));
    }
    if (proto.n_pieces == 0) return lf_fail(err, LF_CORRUPT, "the sentencepiece model has no pieces");
    *out = proto;
    return LF_OK;
}

enum lf_status lf_spm_proto_strip(struct lf_buf *out, struct lf_str model, struct lf_err *err)
{
    static const char no_normalizer[] = {0x1a, 0x0a, 0x0a, 0x08, 'i', 'd', 'e', 'n', 't', 'i', 't', 'y'};
    while (model.len > 0) {
        struct field f = next_field(&model);
        if (f.wire == WIRE_BYTES && (f.number == MODEL_PIECE || f.number == MODEL_TRAINER)) lf_buf_str(out, f.whole);
    }
    lf_buf_append(out, no_normalizer, sizeof no_normalizer);
    if (out->status != LF_OK) return lf_fail(err, out->status, "no memory for the sentencepiece model");
    return LF_OK;
}
