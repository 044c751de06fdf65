#include "server/http/conn/key_line.h"

#include <stddef.h>

#include "core/check.h"

static const struct limit {
    const char *name;
    size_t offset;
    bool is_int;               /* else int64_t */
    int64_t least, most, zero; /* zero: what is written as 0 */
} known[] = {
    {"in-flight", offsetof(struct lf_key_limits, requests.in_flight), true, 1, LF_PROMPTS_N, 0},
    {"tokens-per-minute", offsetof(struct lf_key_limits, requests.tokens_per_minute), false, 1, INT64_C(1) << 40, 0},
    {"documents", offsetof(struct lf_key_limits, documents), true, 1, LF_DOCUMENTS_N, 0},
    {"document-tokens", offsetof(struct lf_key_limits, document_tokens), false, 1, INT64_C(1) << 40, 0},
    {"priority", offsetof(struct lf_key_limits, held_back), true, LF_PRIORITY_FIRST, LF_PRIORITY_LAST,
     LF_PRIORITY_FIRST},
};

bool lf_is_key(struct lf_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] <= ' ' || s.ptr[i] > '~') return false;
    return s.len <= LF_API_KEY_BYTES;
}

/* Takes the next word off the line; empty: there is none. */
static struct lf_str next_word(struct lf_str *line)
{
    size_t at = 0, n = 0;
    while (at < line->len && (line->ptr[at] == ' ' || line->ptr[at] == '\t')) at++;
    while (at + n < line->len && line->ptr[at + n] != ' ' && line->ptr[at + n] != '\t') n++;
    struct lf_str word = lf_str_from(line->ptr + at, n);
    *line = lf_str_from(line->ptr + at + n, line->len - at - n);
    return word;
}

/* A whole number, with K or M behind it. */
static bool read_number(int64_t *out, struct lf_str s)
{
    bool negative = s.len > 0 && s.ptr[0] == '-';
    int64_t n = 0;
    size_t i = negative ? 1 : 0, first = i;
    for (; i < s.len && s.ptr[i] >= '0' && s.ptr[i] <= '9'; i++) {
        if (n > INT64_MAX / 10 - 1) return false;
        n = n * 10 + (s.ptr[i] - '0');
    }
    if (i == first) return false;
    if (i + 1 == s.len) {
        bool kilo = s.ptr[i] == 'K' || s.ptr[i] == 'k', mega = s.ptr[i] == 'M' || s.ptr[i] == 'm';
        int64_t unit = kilo ? 1024 : mega ? 1024 * 1024 : 0;
        if (unit == 0 || n > INT64_MAX / unit) return false;
        n *= unit;
        i++;
    }
    *out = negative ? -n : n;
    return i == s.len;
}

static enum lf_status read_name(struct lf_str *out, struct lf_str name, struct lf_err *err)
{
    static const char marks[] = "._-";
    bool good = name.len >= 1 && name.len <= LF_KEY_NAME_BYTES;
    for (size_t i = 0; good && i < name.len; i++) {
        char c = name.ptr[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), is_digit = c >= '0' && c <= '9';
        good = is_letter || is_digit || memchr(marks, c, sizeof marks - 1);
    }
    *out = name;
    if (good) return LF_OK;
    return lf_fail(err, LF_INVALID, "expected name=NAME, of 1 to %d letters, digits, dots, underscores and dashes",
                   LF_KEY_NAME_BYTES);
}

static enum lf_status read_word(struct lf_key_line *out, struct lf_str word, struct lf_err *err)
{
    const char *equals = memchr(word.ptr, '=', word.len);
    struct lf_str name = lf_str_from(word.ptr, equals ? (size_t)(equals - word.ptr) : 0);
    struct lf_str value = equals ? lf_str_from(equals + 1, word.len - name.len - 1) : LF_STR("");
    if (lf_str_eq(name, LF_STR("name"))) return read_name(&out->name, value, err);
    for (size_t i = 0; i < LF_N_ELEMS(known); i++) {
        const struct limit *l = &known[i];
        void *at = (char *)&out->limits + l->offset;
        int64_t n;
        if (!lf_str_eq(name, lf_str_c(l->name))) continue;
        if (!read_number(&n, value) || n < l->least || n > l->most)
            return lf_fail(err, LF_INVALID, "expected %s=N, with N from %lld to %lld", l->name, (long long)l->least,
                           (long long)l->most);
        if (l->is_int)
            *(int *)at = (int)(n - l->zero);
        else
            *(int64_t *)at = n - l->zero;
        return LF_OK;
    }
    return lf_fail(err, LF_INVALID,
                   "expected nothing behind the key but name=NAME, in-flight=N, tokens-per-minute=N, documents=N, "
                   "document-tokens=N and priority=N");
}

enum lf_status lf_key_line_read(struct lf_key_line *out, struct lf_str line, struct lf_err *err)
{
    struct lf_key_line read = {.key = next_word(&line), .name = LF_STR("")};
    struct lf_str word;
    if (!lf_is_key(read.key))
        return lf_fail(err, LF_INVALID, "expected a key of 1 to %d printable ASCII characters without spaces",
                       LF_API_KEY_BYTES);
    if (line.len > LF_KEY_LIMITS_BYTES)
        return lf_fail(err, LF_INVALID, "expected at most %d characters behind the key", LF_KEY_LIMITS_BYTES);
    while ((word = next_word(&line)).len > 0) LF_TRY(read_word(&read, word, err));
    *out = read;
    return LF_OK;
}
