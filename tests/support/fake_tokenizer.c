#include "tests/support/fake_tokenizer.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/clock.h"
#include "core/json.h"
#include "core/work.h"
#include "tokenizer/detok.h"

struct piece {
    const char *text;
    bool special;
    const char *written; /* in the vocabulary, where that differs: bytes as byte-level letters */
};

enum { N_BYTES = 256 };
static const struct piece pieces[] = {
    {"<s>", true, NULL},
    {"</s>", true, NULL},
    {"<|system|>", true, NULL},
    {"<|user|>", true, NULL},
    {"<|assistant|>", true, NULL},
    {"<|tool|>", true, NULL},
    {"<|developer|>", true, NULL},
    {"<|end|>", true, NULL},
    {" the", false, NULL},
    {"Hello", false, NULL},
    {" world", false, NULL},
    {" quick", false, NULL},
    {"\xC3\xA9", false, NULL},
    {" \xE6\x97", false, "\xC4\xA0\xC3\xA6\xC4\xB9"},
    {"\xA5\xE6\x9C\xAC", false, "\xC2\xA5\xC3\xA6\xC4\xBE\xC2\xAC"},
    {"END", false, NULL},
    {"ST", false, NULL},
    {"OP", false, NULL},
    {"<0x+4>", false, NULL}, /* looks like a byte, and is none */
};
enum { ADDED_N = 16, N_PIECES = (int)LF_N_ELEMS(pieces) };

struct lf_tokenizer {
    int n_pieces; /* with those that a test has added */
    struct piece added[ADDED_N];
    const char *chat_template;
};
static struct lf_tokenizer tokenizer = {.n_pieces = N_PIECES, .chat_template = "{% the double's %}"};

const struct lf_tokenizer *fake_tokenizer(void)
{
    return &tokenizer;
}

void fake_tokenizer_set_template(const char *source)
{
    tokenizer.chat_template = source;
}

bool fake_tokenizer_add(const char *text, bool is_control)
{
    int i = tokenizer.n_pieces - N_PIECES;
    if (i == ADDED_N) return false;
    tokenizer.added[i] = (struct piece){text, is_control, NULL};
    tokenizer.n_pieces++;
    return true;
}

static const struct piece *piece_at(int i)
{
    return i < N_PIECES ? &pieces[i] : &tokenizer.added[i - N_PIECES];
}

void lf_ids_deinit(struct lf_ids *ids)
{
    free(ids->ids);
    *ids = (struct lf_ids){0};
}

enum lf_status lf_ids_push(struct lf_ids *ids, int32_t id)
{
    if (ids->n == ids->cap) {
        size_t cap = ids->cap ? ids->cap * 2 : 64;
        int32_t *grown = realloc(ids->ids, cap * sizeof *grown);
        if (!grown) return LF_NO_MEMORY;
        ids->ids = grown;
        ids->cap = cap;
    }
    ids->ids[ids->n++] = id;
    return LF_OK;
}

static bool in_span(const struct lf_text_span *spans, size_t n, size_t first, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (first < spans[i].first + spans[i].len && spans[i].first < first + len) return true;
    return false;
}

/* The longest piece at the text's beginning, or its byte. */
static int32_t longest(struct lf_str text, bool specials, size_t *len)
{
    int32_t best = (unsigned char)text.ptr[0];
    *len = 1;
    for (int i = 0; i < tokenizer.n_pieces; i++) {
        struct lf_str piece = lf_str_c(piece_at(i)->text);
        if ((piece_at(i)->special && !specials) || piece.len <= *len || !lf_str_starts(text, piece)) continue;
        best = N_BYTES + i;
        *len = piece.len;
    }
    return best;
}

/* [[tokenize_ms=N]] in a text: so long it takes, unless the work is over. */
static enum lf_status take_time(struct lf_str text, struct lf_work *work)
{
    static const char name[] = "[[tokenize_ms=";
    ptrdiff_t at = lf_str_find(text, lf_str_c(name));
    char digits[16] = {0};
    if (at < 0) return LF_OK;
    struct lf_str rest = lf_str_from(text.ptr + at + sizeof name - 1, text.len - (size_t)at - (sizeof name - 1));
    memcpy(digits, rest.ptr, LF_MIN(rest.len, sizeof digits - 1));
    for (long n_ms = strtol(digits, NULL, 10); n_ms > 0; n_ms--) {
        LF_TRY(lf_work_check(work));
        lf_clock_sleep_ms(1);
    }
    return LF_OK;
}

enum lf_status lf_tokenizer_encode(const struct lf_tokenizer *tok, struct lf_ids *out, struct lf_str text,
                                   const struct lf_text_span *user_spans, size_t n_user_spans, unsigned flags,
                                   size_t max_ids, struct lf_work *work, struct lf_err *err)
{
    (void)tok;
    size_t before = out->n;
    LF_TRY(take_time(text, work));
    if (flags & LF_ENCODE_BOS_EOS) LF_TRY(lf_ids_push(out, FAKE_BOS));
    for (size_t i = 0; i < text.len;) {
        size_t len;
        struct lf_str rest = lf_str_from(text.ptr + i, text.len - i);
        int32_t id = longest(rest, flags & LF_ENCODE_SPECIALS, &len);
        if (id >= N_BYTES && piece_at(id - N_BYTES)->special && in_span(user_spans, n_user_spans, i, len))
            id = longest(rest, false, &len);
        LF_TRY(lf_ids_push(out, id));
        if (max_ids && out->n - before > max_ids) return lf_fail(err, LF_LIMIT, "more than %zu ids", max_ids);
        i += len;
    }
    return LF_OK;
}

int lf_tokenizer_n_vocab(const struct lf_tokenizer *tok)
{
    return N_BYTES + tok->n_pieces;
}

static char byte_names[N_BYTES][8];
static pthread_once_t byte_names_once = PTHREAD_ONCE_INIT;

static void make_byte_names(void)
{
    for (unsigned i = 0; i < N_BYTES; i++) snprintf(byte_names[i], sizeof byte_names[i], "<0x%02X>", i & 0xffu);
}

bool lf_tokenizer_token(const struct lf_tokenizer *tok, int32_t id, struct lf_token_info *out)
{
    pthread_once(&byte_names_once, make_byte_names);
    if (id < 0 || id >= lf_tokenizer_n_vocab(tok)) return false;
    if (id >= N_BYTES) {
        const struct piece *p = piece_at(id - N_BYTES);
        *out = (struct lf_token_info){lf_str_c(p->written ? p->written : p->text), p->special};
        return true;
    }
    *out = (struct lf_token_info){lf_str_c(byte_names[id]), false};
    return true;
}

int32_t lf_tokenizer_find(const struct lf_tokenizer *tok, struct lf_str text)
{
    for (int i = 0; i < tok->n_pieces; i++)
        if (lf_str_eq(text, lf_str_c(piece_at(i)->text))) return N_BYTES + i;
    return -1;
}

int32_t lf_tokenizer_bos(const struct lf_tokenizer *tok)
{
    (void)tok;
    return FAKE_BOS;
}

int32_t lf_tokenizer_eos(const struct lf_tokenizer *tok)
{
    (void)tok;
    return FAKE_EOS;
}

struct lf_str lf_tokenizer_bos_text(const struct lf_tokenizer *tok)
{
    (void)tok;
    return LF_STR("<s>");
}

struct lf_str lf_tokenizer_eos_text(const struct lf_tokenizer *tok)
{
    (void)tok;
    return LF_STR("</s>");
}

struct lf_str lf_tokenizer_chat_template(const struct lf_tokenizer *tok)
{
    return lf_str_c(tok->chat_template);
}

enum lf_status lf_tokenizer_decode(const struct lf_tokenizer *tok, struct lf_buf *out, const int32_t *ids, size_t n_ids,
                                   bool with_specials, struct lf_work *work, struct lf_err *err)
{
    struct lf_detok detok;
    (void)work;
    lf_detok_init(&detok, tok, with_specials, false);
    for (size_t i = 0; i < n_ids; i++) {
        if (ids[i] < 0 || ids[i] >= lf_tokenizer_n_vocab(tok)) return lf_fail(err, LF_INVALID, "id out of range");
        lf_detok_push(&detok, ids[i], out);
    }
    lf_detok_flush(&detok, out);
    return LF_OK;
}

/* ---- detokenizer ---- */

void lf_detok_init(struct lf_detok *detok, const struct lf_tokenizer *tok, bool with_specials, bool continues)
{
    (void)continues;
    *detok = (struct lf_detok){.tok = tok, .with_specials = with_specials};
}

static int wanted(unsigned char lead)
{
    if (lead < 0x80) return 1;
    if (lead >= 0xc2 && lead < 0xe0) return 2;
    if (lead >= 0xe0 && lead < 0xf0) return 3;
    return lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
}

/* Gives out whole code points, and one U+FFFD for each byte that can belong to none. */
static void settle(struct lf_detok *d, struct lf_buf *out)
{
    while (d->n_pending) {
        uint32_t cp;
        int n = lf_utf8_decode(d->pending, (size_t)d->n_pending, &cp);
        if (n > 0) {
            lf_buf_append(out, d->pending, (size_t)n);
        } else {
            int want = wanted((unsigned char)d->pending[0]);
            bool hope = want > d->n_pending;
            for (int i = 1; i < d->n_pending; i++) hope = hope && ((unsigned char)d->pending[i] & 0xc0) == 0x80;
            if (hope) return;
            lf_buf_cstr(out, "\xEF\xBF\xBD");
            n = 1;
        }
        d->n_pending -= n;
        memmove(d->pending, d->pending + n, (size_t)d->n_pending);
    }
}

int lf_detok_byte(const struct lf_tokenizer *tok, int32_t id)
{
    (void)tok;
    return id >= 0 && id < N_BYTES ? id : -1;
}

void lf_detok_push(struct lf_detok *detok, int32_t id, struct lf_buf *out)
{
    char byte = (char)id;
    struct lf_str text = lf_str_from(&byte, 1);
    if (id >= N_BYTES) {
        if (piece_at(id - N_BYTES)->special && !detok->with_specials) return;
        text = lf_str_c(piece_at(id - N_BYTES)->text);
    }
    for (size_t i = 0; i < text.len; i++) {
        detok->pending[detok->n_pending++] = text.ptr[i];
        settle(detok, out);
    }
}

void lf_detok_flush(struct lf_detok *detok, struct lf_buf *out)
{
    for (int i = 0; i < detok->n_pending; i++) lf_buf_cstr(out, "\xEF\xBF\xBD");
    detok->n_pending = 0;
}
