/* Fuzzing texts: UTF-8, encoding, decoding token by token, and stop strings.
 *
 * The first byte picks a tokenizer of the golden tests, the second what is done: an odd one takes the rest as a text to
 * encode, of which the middle third came from a user; an even one takes it as token ids, two bytes each. The text that
 * comes out of the ids goes through a stop search whose stops are cut from the input. */
#include "tests/fuzz/use_tokenizer.h"
#include "tokenizer/stop.h"

static const char *const kinds[] = {"like-deepseek", "like-falcon",    "like-gpt2", "like-llama2",
                                    "like-llama3",   "like-metaspace", "like-qwen", "like-tekken",
                                    "like-words",    "sp-bpe",         "sp-suffix", "sp-unigram"};
static struct lf_tokenizer *toks[LF_N_ELEMS(kinds)];

static const struct lf_tokenizer *tokenizer(size_t k)
{
    if (!toks[k]) {
        char path[512];
        snprintf(path, sizeof path, "%s/tests/golden/tokenizer/%s", LF_SOURCE_DIR, kinds[k]);
        LF_ASSERT(lf_tokenizer_open(&toks[k], path, NULL) == LF_OK);
    }
    return toks[k];
}

/* Length of the valid sequence at s by the table of the Unicode standard (3-7), 0 where there is none. */
static size_t valid_sequence(const uint8_t *s, size_t n)
{
    if (s[0] < 0x80) return 1;
    size_t len = s[0] >= 0xc2 && s[0] <= 0xdf   ? 2
                 : s[0] >= 0xe0 && s[0] <= 0xef ? 3
                 : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                                : 0;
    if (len == 0 || n < len) return 0;
    uint8_t low = s[0] == 0xe0   ? 0xa0
                  : s[0] == 0xf0 ? 0x90
                                 : 0x80,
            high = s[0] == 0xed   ? 0x9f
                   : s[0] == 0xf4 ? 0x8f
                                  : 0xbf;
    if (s[1] < low || s[1] > high) return 0;
    for (size_t i = 2; i < len; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    return len;
}

static void check_utf8(const uint8_t *s, size_t n)
{
    bool valid = true;
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;
        char back[4];
        size_t want = valid_sequence(s + i, n - i);
        int got = lf_utf8_decode((const char *)s + i, n - i, &cp);
        LF_ASSERT((size_t)got == want);
        if (want) LF_ASSERT(lf_utf8_encode(cp, back) == got && memcmp(back, s + i, want) == 0);
        valid = valid && want;
        i += want ? want : 1;
    }
    LF_ASSERT(lf_utf8_valid(lf_str_from((const char *)s, n)) == valid);
}

/* Pushed in pieces of any length, the text up to the first stop comes out, or all of it. */
static void check_stops(struct lf_str text, struct lf_str key)
{
    struct lf_str stops[LF_STOP_N];
    struct lf_stop stop;
    struct lf_buf out;
    int n = 0;
    ptrdiff_t first = -1;
    for (size_t at = 0; n < LF_STOP_N && at + 1 < key.len;) {
        size_t len = LF_MIN((size_t)(key.ptr[at] & 7) + 1, key.len - at - 1);
        stops[n++] = lf_str_from(key.ptr + at + 1, len);
        at += len + 1;
    }
    for (int i = 0; i < n; i++) {
        ptrdiff_t at = lf_str_find(text, stops[i]);
        if (at >= 0 && (first < 0 || at + (ptrdiff_t)stops[i].len < first)) first = at + (ptrdiff_t)stops[i].len;
    }
    lf_stop_init(&stop, stops, n);
    lf_buf_init(&out, 1 << 24);
    bool found = false;
    for (size_t at = 0, k = 0; at < text.len && !found; k++) {
        size_t len = LF_MIN(key.len ? (size_t)(key.ptr[k % key.len] & 3) + 1 : 1, text.len - at);
        found = lf_stop_push(&stop, lf_str_from(text.ptr + at, len), &out);
        at += len;
    }
    if (!found) lf_stop_flush(&stop, &out);
    LF_ASSERT(found == (first >= 0));
    LF_ASSERT(lf_str_starts(text, lf_buf_view(&out)));
    if (found)
        LF_ASSERT(out.len + stops[stop.matched].len <= text.len &&
                  lf_str_starts(lf_str_from(text.ptr + out.len, text.len - out.len), stops[stop.matched]));
    else
        LF_ASSERT(out.len == text.len);
    lf_buf_deinit(&out);
}

static void push_ids(const struct lf_tokenizer *tok, const uint8_t *data, size_t size)
{
    size_t n = size / 2;
    struct lf_buf text;
    uint32_t n_vocab = (uint32_t)lf_tokenizer_n_vocab(tok);
    int32_t *ids = malloc(LF_MAX(n, 1u) * sizeof *ids);
    LF_ASSERT(ids != NULL);
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)((data[2 * i] | (uint32_t)data[2 * i + 1] << 8) % n_vocab);
    fuzz_decode(tok, ids, n, true);
    fuzz_decode(tok, ids, n, false);
    lf_buf_init(&text, 1 << 24);
    LF_ASSERT(lf_tokenizer_decode(tok, &text, ids, n, true, NULL, NULL) == LF_OK);
    check_stops(lf_buf_view(&text), lf_str_from((const char *)data, LF_MIN(size, 40u)));
    lf_buf_deinit(&text);
    free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3) return 0;
    const struct lf_tokenizer *tok = tokenizer(data[0] % LF_N_ELEMS(kinds));
    unsigned how = data[1];
    data += 2;
    size -= 2;
    check_utf8(data, size);
    if (how % 2 == 0) {
        push_ids(tok, data, size);
        return 0;
    }
    struct lf_text_span span = {size / 3, size / 3};
    unsigned flags = (how & 2 ? LF_ENCODE_SPECIALS : 0u) | (how & 4 ? LF_ENCODE_BOS_EOS : 0u);
    fuzz_encode(tok, lf_str_from((const char *)data, size), &span, how & 8 ? 1 : 0, flags);
    return 0;
}
