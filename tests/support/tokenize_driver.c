/* A tokenizer on a pipe, for comparison with other implementations.
 *
 *   tokenize_driver DIR encode [specials] [around] < records > records
 *   tokenize_driver DIR decode [with-specials] < records > records
 *   tokenize_driver DIR time < text            processor seconds to encode all of stdin, best of three, and ids
 *   tokenize_driver DIR open                   processor seconds to open, bytes held
 *
 * A record is a 32-bit length in this machine's byte order, then so many bytes of text, or so many 32-bit ids. Decoding
 * also runs the incremental detokenizer and fails where the two differ. An encode that is refused gives length
 * 0xffffffff. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tokenizer/detok.h"
#include "tokenizer/tokenizer.h"

enum { MAX_RECORD = 1 << 30 };

static bool read_record(struct lf_buf *buf, size_t unit)
{
    uint32_t n;
    lf_buf_clear(buf);
    if (fread(&n, sizeof n, 1, stdin) != 1) return false;
    if (n > MAX_RECORD / unit || lf_buf_reserve(buf, n * unit + 1) != LF_OK) exit(3);
    buf->len = fread(buf->ptr, unit, n, stdin) * unit;
    return buf->len == n * unit;
}

static void write_record(const void *data, uint32_t n, size_t unit)
{
    fwrite(&n, sizeof n, 1, stdout);
    if (n != UINT32_MAX) fwrite(data, unit, n, stdout);
}

static int run_encode(const struct lf_tokenizer *tok, unsigned flags)
{
    struct lf_buf text;
    struct lf_ids ids = {0};
    struct lf_err err;
    lf_buf_init(&text, MAX_RECORD);
    while (read_record(&text, 1)) {
        ids.n = 0;
        enum lf_status status = lf_tokenizer_encode(tok, &ids, lf_buf_view(&text), NULL, 0, flags, 0, NULL, &err);
        if (status != LF_OK) fprintf(stderr, "refused: %s\n", err.message);
        write_record(ids.ids, status == LF_OK ? (uint32_t)ids.n : UINT32_MAX, sizeof *ids.ids);
    }
    lf_ids_deinit(&ids);
    lf_buf_deinit(&text);
    return 0;
}

static int run_decode(const struct lf_tokenizer *tok, bool with_specials)
{
    struct lf_buf ids, text, streamed;
    struct lf_err err;
    int rc = 0;
    lf_buf_init(&ids, MAX_RECORD);
    lf_buf_init(&text, MAX_RECORD);
    lf_buf_init(&streamed, MAX_RECORD);
    while (rc == 0 && read_record(&ids, sizeof(int32_t))) {
        const int32_t *list = (const int32_t *)(const void *)ids.ptr;
        size_t n = ids.len / sizeof *list;
        struct lf_detok detok;
        lf_buf_clear(&text);
        lf_buf_clear(&streamed);
        if (lf_tokenizer_decode(tok, &text, list, n, with_specials, NULL, &err) != LF_OK) {
            fprintf(stderr, "refused: %s\n", err.message);
            rc = 1;
        }
        lf_detok_init(&detok, tok, with_specials, false);
        for (size_t i = 0; i < n; i++) {
            lf_detok_push(&detok, list[i], &streamed);
            if (!lf_utf8_valid(lf_buf_view(&streamed))) rc = 1;
        }
        lf_detok_flush(&detok, &streamed);
        if (!lf_str_eq(lf_buf_view(&text), lf_buf_view(&streamed))) rc = 1;
        if (rc != 0) fprintf(stderr, "streamed and whole text differ\n");
        write_record(text.ptr ? text.ptr : "", (uint32_t)text.len, 1);
    }
    lf_buf_deinit(&ids);
    lf_buf_deinit(&text);
    lf_buf_deinit(&streamed);
    return rc;
}

/* What others do on the machine does not count. */
static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int run_time(const struct lf_tokenizer *tok)
{
    struct lf_buf text;
    struct lf_ids ids = {0};
    struct lf_err err;
    int64_t best = INT64_MAX;
    size_t n;
    lf_buf_init(&text, MAX_RECORD);
    do {
        if (lf_buf_reserve(&text, 1 << 16) != LF_OK) return 3;
        n = fread(text.ptr + text.len, 1, 1 << 16, stdin);
        text.len += n;
    } while (n > 0);
    for (int i = 0; i < 3; i++) {
        ids.n = 0;
        int64_t start = cpu_ns();
        if (lf_tokenizer_encode(tok, &ids, lf_buf_view(&text), NULL, 0, 0, 0, NULL, &err) != LF_OK) {
            fprintf(stderr, "refused: %s\n", err.message);
            return 1;
        }
        int64_t took = cpu_ns() - start;
        if (took < best) best = took;
    }
    printf("%.6f %zu\n", (double)best / 1e9, ids.n);
    lf_ids_deinit(&ids);
    lf_buf_deinit(&text);
    return 0;
}

static bool has(int argc, char **argv, const char *word)
{
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], word) == 0) return true;
    }
    return false;
}

static size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

int main(int argc, char **argv)
{
    struct lf_tokenizer *tok;
    struct lf_err err;
    int rc = 2;
    if (argc < 3) return 2;
    size_t before = heap_bytes();
    int64_t start = cpu_ns();
    if (lf_tokenizer_open(&tok, argv[1], &err) != LF_OK) {
        fprintf(stderr, "%s: %s\n", argv[1], err.message);
        return 1;
    }
    if (strcmp(argv[2], "open") == 0) {
        printf("%.6f %zu %d\n", (double)(cpu_ns() - start) / 1e9, heap_bytes() - before, lf_tokenizer_n_vocab(tok));
        rc = 0;
    }
    if (strcmp(argv[2], "encode") == 0)
        rc = run_encode(tok, (has(argc, argv, "specials") ? (unsigned)LF_ENCODE_SPECIALS : 0) |
                                 (has(argc, argv, "around") ? (unsigned)LF_ENCODE_BOS_EOS : 0));
    if (strcmp(argv[2], "decode") == 0) rc = run_decode(tok, has(argc, argv, "with-specials"));
    if (strcmp(argv[2], "time") == 0) rc = run_time(tok);
    lf_tokenizer_close(tok);
    return rc;
}
