/* Reads a BPE model: vocabulary {text: id}, merges in order, each two tokens that together are a third. */
#include "core/check.h"
#include "tokenizer/hf/bpe.h"
#include "tokenizer/spm/spm.h"

/* A member that must be left out, null, or empty. */
static enum lf_status refuse_text(struct lf_json_value model, const char *name, struct lf_err *err)
{
    struct lf_json_value v = lf_json_get(model, name);
    if (lf_json_is_absent(v) || lf_json_string_is(v, "")) return LF_OK;
    struct lf_str raw = lf_json_raw(v);
    return lf_fail(err, LF_UNSUPPORTED, "BPE with %s \"%.*s\" is not implemented", name, (int)LF_MIN(raw.len, 64u),
                   raw.ptr);
}

static enum lf_status read_settings(struct lf_bpe *bpe, struct lf_json_value model, struct lf_err *err)
{
    double dropout;
    struct lf_json_value v = lf_json_get(model, "dropout");
    LF_TRY(refuse_text(model, "continuing_subword_prefix", err));
    LF_TRY(refuse_text(model, "end_of_word_suffix", err));
    if (!lf_json_is_absent(v) && (!lf_json_double(v, &dropout) || dropout > 0 || dropout < 0))
        return lf_fail(err, LF_UNSUPPORTED, "BPE with dropout is not implemented");
    (void)lf_json_bool(lf_json_get(model, "byte_fallback"), &bpe->byte_fallback);
    (void)lf_json_bool(lf_json_get(model, "fuse_unk"), &bpe->fuse_unk);
    (void)lf_json_bool(lf_json_get(model, "ignore_merges"), &bpe->ignore_merges);
    return LF_OK;
}

/* The text of a string, borrowed from the file where it has no escapes, else from scratch. */
static bool text_of(struct lf_json_value v, struct lf_buf *scratch, struct lf_str *out)
{
    if (lf_json_borrow(v, out)) return true;
    lf_buf_clear(scratch);
    if (!lf_json_string(v, scratch)) return false;
    *out = lf_buf_view(scratch);
    return true;
}

static enum lf_status read_vocab(struct lf_vocab *vocab, struct lf_json_value list, int64_t max_id, uint64_t n_added,
                                 uint64_t added_bytes, struct lf_err *err)
{
    struct lf_buf scratch;
    uint64_t n_bytes = added_bytes;
    enum lf_status status = LF_OK;
    if (lf_json_type(list) != LF_JSON_OBJECT || lf_json_len(list) == 0)
        return lf_fail(err, LF_CORRUPT, "model.vocab: an object with tokens is expected, not %s",
                       lf_json_type_name(list));
    for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it)) {
        int64_t id;
        if (!lf_json_int64(lf_json_member(it), &id) || id < 0 || id >= LF_VOCAB_N)
            return lf_fail(err, LF_CORRUPT, "model.vocab: the id of \"%.*s\" shall be a number from 0 to %d",
                           (int)LF_MIN(lf_json_raw(it).len, 64u), lf_json_raw(it).ptr, LF_VOCAB_N - 1);
        max_id = LF_MAX(max_id, id);
        n_bytes += lf_json_raw(it).len;
    }
    LF_TRY(lf_vocab_init(vocab, max_id + 1, lf_json_len(list) + n_added, n_bytes, err));
    lf_buf_init(&scratch, LF_JSON_FILE_BYTES);
    for (struct lf_json_value it = lf_json_first(list); status == LF_OK && lf_json_more(list, it);
         it = lf_json_next(list, it)) {
        struct lf_str text;
        int64_t id = 0;
        (void)lf_json_int64(lf_json_member(it), &id);
        status = text_of(it, &scratch, &text) ? lf_vocab_add(vocab, (int32_t)id, text, 0, err)
                                              : lf_fail(err, LF_NO_MEMORY, "no memory for the vocabulary");
    }
    lf_buf_deinit(&scratch);
    return status == LF_OK ? LF_OK : lf_fail_within(err, status, "model.vocab");
}

struct merge_reader {
    struct lf_bpe *bpe;
    const struct lf_vocab *vocab;
    struct lf_buf left, right, joined; /* scratch */
};

/* "a b", or ["a", "b"]. */
static bool read_pair(struct merge_reader *r, struct lf_json_value v, struct lf_str *left, struct lf_str *right)
{
    if (lf_json_type(v) == LF_JSON_ARRAY) {
        struct lf_json_value a = lf_json_first(v), b = lf_json_next(v, a);
        return lf_json_len(v) == 2 && text_of(a, &r->left, left) && text_of(b, &r->right, right);
    }
    struct lf_str both;
    if (!text_of(v, &r->left, &both)) return false;
    const char *space = both.len > 0 ? memchr(both.ptr, ' ', both.len) : NULL;
    if (!space) return false;
    size_t n = (size_t)(space - both.ptr);
    *left = lf_str_from(both.ptr, n);
    *right = lf_str_from(space + 1, both.len - n - 1);
    return !memchr(right->ptr, ' ', right->len);
}

static enum lf_status read_merge(struct merge_reader *r, struct lf_json_value v, uint32_t rank, struct lf_err *err)
{
    struct lf_str left, right, raw = lf_json_raw(v);
    int shown = (int)LF_MIN(raw.len, 64u);
    bool pair = read_pair(r, v, &left, &right);
    if (r->left.status == LF_NO_MEMORY || r->right.status == LF_NO_MEMORY)
        return lf_fail(err, LF_NO_MEMORY, "no memory for the merges");
    if (!pair) return lf_fail(err, LF_CORRUPT, "merge %u: two tokens are expected, not %.*s", rank, shown, raw.ptr);
    lf_buf_clear(&r->joined);
    lf_buf_str(&r->joined, left);
    lf_buf_str(&r->joined, right);
    if (r->joined.status != LF_OK) return lf_fail(err, LF_NO_MEMORY, "no memory for the merges");
    struct lf_merge merge = {lf_vocab_find(r->vocab, left), lf_vocab_find(r->vocab, right), rank,
                             lf_vocab_find(r->vocab, lf_buf_view(&r->joined))};
    if (merge.left < 0 || merge.right < 0 || merge.joined < 0)
        return lf_fail(err, LF_CORRUPT, "merge %u (%.*s) names a token that is not in the vocabulary", rank, shown,
                       raw.ptr);
    lf_merges_insert(&r->bpe->merges, &merge);
    if (lf_spm_has_inner_mark(lf_buf_view(&r->joined))) r->bpe->marks_open_words = false;
    return LF_OK;
}

static enum lf_status read_merges(struct lf_bpe *bpe, const struct lf_vocab *vocab, struct lf_json_value list,
                                  struct lf_err *err)
{
    struct merge_reader r = {.bpe = bpe, .vocab = vocab};
    uint32_t rank = 0;
    if (lf_json_type(list) != LF_JSON_ARRAY)
        return lf_fail(err, LF_CORRUPT, "model.merges: a list is expected, not %s", lf_json_type_name(list));
    LF_TRY(lf_merges_init(&bpe->merges, lf_json_len(list), err));
    lf_buf_init(&r.left, LF_JSON_FILE_BYTES);
    lf_buf_init(&r.right, LF_JSON_FILE_BYTES);
    lf_buf_init(&r.joined, LF_JSON_FILE_BYTES);
    enum lf_status status = LF_OK;
    for (struct lf_json_value it = lf_json_first(list); status == LF_OK && lf_json_more(list, it);
         it = lf_json_next(list, it))
        status = read_merge(&r, it, rank++, err);
    lf_buf_deinit(&r.left);
    lf_buf_deinit(&r.right);
    lf_buf_deinit(&r.joined);
    return status;
}

static void find_letters(struct lf_bpe *bpe, const struct lf_vocab *vocab)
{
    for (uint32_t cp = 0; cp < LF_BPE_LETTERS_N; cp++) {
        char text[4];
        int n = lf_utf8_encode(cp, text);
        bpe->letters[cp] = lf_vocab_find(vocab, lf_str_from(text, (size_t)n));
    }
    for (int i = 0; i < 256; i++) {
        static const char digits[] = "0123456789ABCDEF";
        char text[] = {'<', '0', 'x', digits[i >> 4], digits[i & 15], '>'};
        bpe->bytes[i] = lf_vocab_find(vocab, lf_str_from(text, sizeof text));
    }
}

enum lf_status lf_bpe_open(struct lf_bpe *bpe, struct lf_vocab *vocab, struct lf_json_value model, int64_t max_added_id,
                           uint64_t n_added, uint64_t added_bytes, struct lf_err *err)
{
    memset(bpe, 0, sizeof *bpe);
    memset(vocab, 0, sizeof *vocab);
    bpe->unk = -1;
    LF_TRY(read_settings(bpe, model, err));
    LF_TRY(read_vocab(vocab, lf_json_get(model, "vocab"), max_added_id, n_added, added_bytes, err));
    bpe->marks_open_words = !bpe->ignore_merges && lf_vocab_find(vocab, LF_STR(LF_SPM_MARK)) >= 0;
    LF_TRY(read_merges(bpe, vocab, lf_json_get(model, "merges"), err));
    find_letters(bpe, vocab);
    struct lf_json_value unk = lf_json_get(model, "unk_token");
    if (lf_json_type(unk) != LF_JSON_STRING) return LF_OK;
    struct lf_buf text;
    lf_buf_init(&text, LF_TOKEN_BYTES);
    if (lf_json_string(unk, &text)) bpe->unk = lf_vocab_find(vocab, lf_buf_view(&text));
    enum lf_status status = text.status;
    lf_buf_deinit(&text);
    if (status == LF_NO_MEMORY) return lf_fail(err, status, "no memory for model.unk_token");
    if (bpe->unk < 0) return lf_fail(err, LF_CORRUPT, "model.unk_token is not in the vocabulary");
    return LF_OK;
}

void lf_bpe_deinit(struct lf_bpe *bpe)
{
    lf_merges_deinit(&bpe->merges);
    memset(bpe, 0, sizeof *bpe);
}
