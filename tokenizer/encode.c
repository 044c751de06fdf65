#include "tokenizer/encode.h"

#include "core/mix.h"
#include "core/text_memory.h"

/* Shorter texts do not repeat enough to pay for clearing the cache. */
enum { CACHE_MIN_TEXT_BYTES = 2048, CACHE_MIN_WORDS = 256, CACHE_MAX_WORDS = 8192 };

void lf_ids_deinit(struct lf_ids *ids)
{
    lf_text_free(ids->memory, ids->ids);
    *ids = (struct lf_ids){0};
}

enum lf_status lf_ids_push(struct lf_ids *ids, int32_t id)
{
    if (ids->n == ids->cap) {
        size_t cap = ids->cap ? ids->cap * 2 : 64;
        int32_t *grown =
            cap > SIZE_MAX / sizeof *grown ? NULL : lf_text_realloc(ids->memory, ids->ids, cap * sizeof *grown);
        if (!grown) return LF_NO_MEMORY;
        ids->ids = grown;
        ids->cap = cap;
    }
    ids->ids[ids->n++] = id;
    return LF_OK;
}

void lf_encode_work_init(struct lf_encode_work *work, struct lf_ids *out, size_t text_bytes, size_t max_ids,
                         struct lf_work *on, struct lf_err *err)
{
    struct lf_text_memory *memory = lf_work_memory(on);
    *work = (struct lf_encode_work){.out = out, .first = out->n, .max_ids = max_ids, .err = err, .on = on};
    lf_buf_init_in(&work->text, SIZE_MAX / 2, memory);
    work->matches.memory = work->inner_matches.memory = work->symbols.memory = work->merge.memory = memory;
    if (text_bytes < CACHE_MIN_TEXT_BYTES) return;
    uint64_t n = CACHE_MIN_WORDS;
    while (n < CACHE_MAX_WORDS && n * 16 < text_bytes) n *= 2;
    /* none is as good, only slower */
    work->cache.words = lf_text_alloc_zeroed(memory, (size_t)n * sizeof *work->cache.words);
    work->cache.n_words = n;
}

void lf_encode_work_deinit(struct lf_encode_work *work)
{
    lf_merge_work_deinit(&work->merge);
    lf_ids_deinit(&work->symbols);
    lf_aho_matches_deinit(&work->matches);
    lf_aho_matches_deinit(&work->inner_matches);
    lf_text_free(lf_work_memory(work->on), work->cache.words);
    lf_buf_deinit(&work->text);
    lf_text_free(lf_work_memory(work->on), work->nodes);
    lf_text_free(lf_work_memory(work->on), work->begins);
}

enum lf_status lf_encode_room(struct lf_encode_work *work, void *ptr, size_t *has_bytes, size_t n_bytes)
{
    void *bytes;
    if (*has_bytes >= n_bytes) return LF_OK;
    memcpy(&bytes, ptr, sizeof bytes);
    lf_text_free(lf_work_memory(work->on), bytes);
    bytes = lf_text_alloc(lf_work_memory(work->on), n_bytes);
    memcpy(ptr, &bytes, sizeof bytes);
    *has_bytes = bytes ? n_bytes : 0;
    return bytes ? LF_OK : lf_encode_fail(work, LF_NO_MEMORY, NULL);
}

enum lf_status lf_encode_fail(const struct lf_encode_work *work, enum lf_status status, const char *what)
{
    if (status == LF_CANCELLED) return lf_fail(work->err, status, "nobody waits for the tokens of this text any more");
    if (status == LF_TIMEOUT) return lf_fail(work->err, status, "there was no time for the tokens of this text");
    if (status == LF_NO_MEMORY) return lf_fail(work->err, status, "no memory for %s", what ? what : "the text");
    return status;
}

enum lf_status lf_encode_push(struct lf_encode_work *work, int32_t id)
{
    if (work->max_ids > 0 && work->out->n - work->first >= work->max_ids)
        return lf_fail(work->err, LF_LIMIT, "the text has more than %zu tokens", work->max_ids);
    if (lf_ids_push(work->out, id) != LF_OK) return lf_fail(work->err, LF_NO_MEMORY, "no memory for the tokens");
    return LF_OK;
}

struct lf_word *lf_word_cache_at(const struct lf_word_cache *cache, struct lf_str text)
{
    if (!cache->words || text.len == 0 || text.len > LF_WORD_BYTES) return NULL;
    uint64_t hash = text.len, piece;
    size_t i = 0;
    for (; i + 8 <= text.len; i += 8) {
        memcpy(&piece, text.ptr + i, 8);
        hash = lf_mix64(hash ^ piece);
    }
    piece = 0;
    memcpy(&piece, text.ptr + i, text.len - i);
    return &cache->words[lf_mix64(hash ^ piece) & (cache->n_words - 1)];
}

void lf_word_store(struct lf_word *word, struct lf_str text, const int32_t *ids, size_t n_ids)
{
    if (n_ids > LF_WORD_IDS) return;
    word->len = (uint8_t)text.len;
    word->n_ids = (uint8_t)n_ids;
    memcpy(word->text, text.ptr, text.len);
    memcpy(word->ids, ids, n_ids * sizeof *ids);
}
