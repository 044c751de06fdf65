#include "template/answer_vocabulary.h"

#include <stdlib.h>

#include "core/check.h"
#include "core/text_memory.h"

enum {
    TOKEN_BYTES = 64 * 1024,
    TEXT_BYTES = 1024 * 1024 * 1024,
    BEGIN_CACHE_BYTES = 256 * 1024 /* it is asked once an answer */
};

/* The bytes of all tokens, back to back. */
struct texts {
    struct lf_buf bytes;
    size_t *ends;         /* [n] */
    struct lf_str *views; /* [n], once all bytes are there */
    int n;
};

static void texts_deinit(struct texts *t)
{
    lf_buf_deinit(&t->bytes);
    free(t->ends);
    free(t->views);
}

static bool texts_init(struct texts *t, int n)
{
    lf_buf_init(&t->bytes, TEXT_BYTES);
    t->n = n;
    t->ends = calloc((size_t)n, sizeof *t->ends);
    t->views = calloc((size_t)n, sizeof *t->views);
    return t->ends && t->views;
}

static void add(struct texts *t, const struct lf_tokenizer *tok, int32_t id, bool begins, struct lf_buf *scratch)
{
    struct lf_token_info info;
    if (lf_tokenizer_token(tok, id, &info) && info.special) lf_buf_char(&t->bytes, LF_GRAMMAR_CONTROL);
    lf_buf_clear(scratch);
    lf_token_bytes(scratch, tok, id, begins);
    lf_buf_str(&t->bytes, lf_buf_view(scratch));
    if (scratch->status != LF_OK) t->bytes.status = scratch->status;
    t->ends[id] = t->bytes.len;
}

static enum lf_status fill(struct texts *t, const struct lf_tokenizer *tok, bool begins)
{
    struct lf_buf scratch;
    lf_buf_init(&scratch, TOKEN_BYTES);
    for (int32_t id = 0; id < t->n; id++) add(t, tok, id, begins, &scratch);
    lf_buf_deinit(&scratch);
    if (t->bytes.status != LF_OK) return t->bytes.status;
    struct lf_str all = lf_buf_view(&t->bytes);
    for (int i = 0; i < t->n; i++) {
        size_t first = i ? t->ends[i - 1] : 0;
        t->views[i] = lf_str_from(all.ptr + first, t->ends[i] - first);
    }
    return LF_OK;
}

static bool same(const struct texts *a, const struct texts *b)
{
    if (a->bytes.len != b->bytes.len) return false;
    for (int i = 0; i < a->n; i++)
        if (!lf_str_eq(a->views[i], b->views[i])) return false;
    return true;
}

static enum lf_status create(struct lf_answer_vocabulary *out, const struct texts *continues,
                             const struct texts *begins, const int32_t *ends, int n_ends, struct lf_err *err)
{
    LF_TRY(lf_vocabulary_create(&out->continues, continues->views, continues->n, ends, n_ends, 0, err));
    out->begins = out->continues;
    if (same(continues, begins)) return LF_OK;
    enum lf_status status =
        lf_vocabulary_create(&out->begins, begins->views, begins->n, ends, n_ends, BEGIN_CACHE_BYTES, err);
    if (status == LF_OK) {
        lf_vocabulary_set_next(out->begins, out->continues);
        return LF_OK;
    }
    lf_vocabulary_destroy(out->continues);
    return status;
}

enum lf_status lf_answer_vocabulary_create(struct lf_answer_vocabulary *out, const struct lf_tokenizer *tok,
                                           int n_tokens, const int32_t *ends, int n_ends, struct lf_err *err)
{
    struct texts continues = {0}, begins = {0};
    struct lf_answer_vocabulary made = {0};
    enum lf_status status = LF_NO_MEMORY;
    if (texts_init(&continues, n_tokens) && texts_init(&begins, n_tokens)) status = fill(&continues, tok, false);
    if (status == LF_OK) status = fill(&begins, tok, true);
    if (status != LF_OK)
        status = lf_fail(err, status, "no memory for the texts of %d tokens", n_tokens);
    else
        status = create(&made, &continues, &begins, ends, n_ends, err);
    texts_deinit(&continues);
    texts_deinit(&begins);
    if (status == LF_OK) *out = made;
    return status;
}

void lf_answer_vocabulary_deinit(struct lf_answer_vocabulary *v)
{
    if (v->begins != v->continues) lf_vocabulary_destroy(v->begins);
    lf_vocabulary_destroy(v->continues);
    *v = (struct lf_answer_vocabulary){0};
}

size_t lf_answer_vocabulary_bytes(const struct lf_answer_vocabulary *v)
{
    size_t n = v->continues ? lf_vocabulary_bytes(v->continues) : 0;
    return v->begins != v->continues ? n + lf_vocabulary_bytes(v->begins) : n;
}

static enum lf_status check_first(struct lf_matcher *m, uint32_t *mask, struct lf_err *err)
{
    uint32_t n_allowed = 0;
    enum lf_status status = lf_matcher_mask(m, mask, &n_allowed);
    if (status == LF_LIMIT)
        return lf_fail(err, LF_LIMIT, "an answer can be read in more ways than are followed (%d)",
                       LF_GRAMMAR_CONFIGS_N);
    if (status != LF_OK) return status;
    return n_allowed ? LF_OK : lf_fail(err, LF_INVALID, "no token of this model can begin such an answer");
}

enum lf_status lf_answer_can_begin(const struct lf_grammar *g, struct lf_vocabulary *v, struct lf_text_memory *memory,
                                   struct lf_err *err)
{
    struct lf_matcher *m = NULL;
    enum lf_status status = lf_matcher_create(&m, g, v, memory);
    uint32_t *mask = lf_text_alloc(memory, lf_vocabulary_mask_words(v) * sizeof *mask);
    if (status == LF_OK) status = mask ? check_first(m, mask, err) : LF_NO_MEMORY;
    if (status == LF_NO_MEMORY) (void)lf_fail(err, status, "no memory for the first mask");
    lf_text_free(memory, mask);
    lf_matcher_destroy(m);
    return status;
}
