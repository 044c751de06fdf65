#include "server/http/conn/headers.h"

#include <microhttpd.h>
#include <strings.h>

#include "core/check.h"
#include "core/limits.h"

/* RFC 9110 §5.6.2. */
static bool is_token(const char *s, size_t n)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alnum && (c == 0 || !strchr(marks, c))) return false;
    }
    return n > 0;
}

/* RFC 9110, 5.5: no control characters but the tab. */
static bool is_field_value(const char *value, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)value[i];
        if ((c < ' ' && c != '\t') || c == 0x7f) return false;
    }
    return true;
}

/* Name, colon, blanks, value, and the line end of the field before it: side by side, as the head came. */
static bool lies_behind(const char *before_end, const char *key, size_t key_bytes, const char *value)
{
    const char *p = key + key_bytes;
    if ((before_end && key != before_end + 2) || value <= p || *p != 0) return false;
    do p++;
    while (p < value && (*p == ' ' || *p == '\t'));
    return p == value;
}

struct field_row {
    const char *name;
    size_t count_offset; /* SIZE_MAX: not counted */
    size_t value_offset;
};

#define COUNTED(name, field)                                                                                           \
    {                                                                                                                  \
        name, offsetof(struct lf_headers, n_##field), offsetof(struct lf_headers, field)                               \
    }
static const struct field_row rows[] = {
    COUNTED("Host", host),
    COUNTED("Content-Length", content_length),
    COUNTED("Transfer-Encoding", transfer_encoding),
    COUNTED("Content-Type", content_type),
    COUNTED("Authorization", authorization),
    COUNTED("Expect", expect),
    COUNTED("Origin", origin),
    {"Content-Encoding", SIZE_MAX, offsetof(struct lf_headers, content_encoding)},
    {"X-Request-Id", SIZE_MAX, offsetof(struct lf_headers, request_id)},
    {"X-Api-Key", SIZE_MAX, offsetof(struct lf_headers, api_key)},
    {"If-Match", SIZE_MAX, offsetof(struct lf_headers, if_match)},
    {"If-None-Match", SIZE_MAX, offsetof(struct lf_headers, if_none_match)},
    {"Access-Control-Request-Headers", SIZE_MAX, offsetof(struct lf_headers, cors_request_headers)},
};

/* The one field that may be there several times: a list goes on in the next. Its end is what proxies wrote, so the last
 * ones are kept. */
static void add_forwarded(struct lf_headers *h, struct lf_str value)
{
    if (h->n_forwarded_for == LF_FORWARDED_LINES_N)
        memmove(h->forwarded_for, h->forwarded_for + 1, (LF_FORWARDED_LINES_N - 1) * sizeof *h->forwarded_for);
    else
        h->n_forwarded_for++;
    h->forwarded_for[h->n_forwarded_for - 1] = value;
}

static enum MHD_Result read_field(void *ctx, enum MHD_ValueKind kind, const char *key, size_t key_bytes,
                                  const char *value, size_t value_bytes)
{
    (void)kind;
    struct lf_headers *h = ctx;
    if (!value || !lies_behind(h->fields_end, key, key_bytes, value)) h->bad_layout = true;
    if (h->n++ == 0) h->fields = key;
    h->fields_end = value ? value + value_bytes : key;
    if (!is_token(key, key_bytes)) h->bad_name = true;
    if (value && !is_field_value(value, value_bytes)) h->bad_value = true;
    if (lf_str_is_word(lf_str_from(key, key_bytes), "X-Forwarded-For"))
        add_forwarded(h, lf_str_from(value ? value : "", value_bytes));
    for (size_t i = 0; i < LF_N_ELEMS(rows); i++) {
        if (!lf_str_is_word(lf_str_from(key, key_bytes), rows[i].name)) continue;
        if (rows[i].count_offset != SIZE_MAX) ++*(int *)(void *)((char *)h + rows[i].count_offset);
        while (value_bytes && (value[value_bytes - 1] == ' ' || value[value_bytes - 1] == '\t')) value_bytes--;
        *(struct lf_str *)(void *)((char *)h + rows[i].value_offset) = lf_str_from(value ? value : "", value_bytes);
    }
    return MHD_YES;
}

void lf_headers_read(struct lf_headers *out, struct MHD_Connection *mhd)
{
    *out = (struct lf_headers){0};
    (void)MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, read_field, out);
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    out->bytes = info ? info->header_size : 0;
}

static bool is_digits(struct lf_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] < '0' || s.ptr[i] > '9') return false;
    return s.len > 0 && s.len <= 18;
}

/* The whole head lies as the essay of headers.h says. From 0.9.77 on libmicrohttpd is told to be strict itself. */
static bool is_laid_out(const struct lf_headers *h, const struct lf_request_line *line)
{
#if MHD_VERSION < 0x00097705
    const char *version_end = line->version + strlen(line->version);
    if (line->url != line->method + strlen(line->method) + 1) return false;
    if (line->version != line->url + line->uri_bytes + 1) return false;
    if (h->fields && h->fields != version_end + 2) return false;
    return !h->bad_layout && line->method + h->bytes == (h->fields ? h->fields_end : version_end) + 4;
#else
    (void)h, (void)line;
    return true;
#endif
}

/* No space, no control character: RFC 9112 §3.2. The arguments, which were cut into pieces, are looked at too. */
static bool is_target(const char *url, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (url[i] == ' ' || (url[i] > 0 && url[i] < ' ') || url[i] == 0x7f) return false;
    return true;
}

static bool sends_body(const char *method)
{
    return strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 || strcmp(method, "PATCH") == 0;
}

static enum lf_status check_line(const struct lf_headers *h, const struct lf_request_line *line, struct lf_api_err *err)
{
    if (!is_token(line->method, strlen(line->method)))
        return lf_refuse(err, 400, NULL, "bad_request_line", "The method has a character that it may not have.");
    if (!is_laid_out(h, line))
        return lf_refuse(err, 400, NULL, "bad_framing",
                         "Expected lines that end with CR LF and are not folded, without NUL, and single spaces in the "
                         "first.");
    if (!is_target(line->url, line->uri_bytes))
        return lf_refuse(err, 400, NULL, "bad_request_line", "The target has a space or a control character.");
    return LF_OK;
}

static enum lf_status check_body_framing(const struct lf_headers *h, const char *method, bool http_1_1,
                                         struct lf_api_err *err)
{
    if (!h->n_content_length && !h->n_transfer_encoding && sends_body(method))
        return lf_refuse(err, 411, NULL, "length_required", "%s needs a Content-Length or chunked coding.", method);
    if (h->n_content_length > 1 || h->n_transfer_encoding > 1)
        return lf_refuse(err, 400, NULL, "bad_framing", "The length of the body is given more than once.");
    if (h->n_content_length && h->n_transfer_encoding)
        return lf_refuse(err, 400, NULL, "bad_framing",
                         "Content-Length and Transfer-Encoding must not come in the same request.");
    if (h->n_content_length && !is_digits(h->content_length))
        return lf_refuse(err, 400, NULL, "bad_framing", "Content-Length is not a number.");
    if (h->n_transfer_encoding && (!http_1_1 || !lf_str_is_word(h->transfer_encoding, "chunked")))
        return lf_refuse(err, 400, NULL, "bad_framing", "The only Transfer-Encoding is chunked, over HTTP/1.1.");
    return LF_OK;
}

enum lf_status lf_headers_check_framing(const struct lf_headers *h, const struct lf_request_line *line,
                                        struct lf_api_err *err)
{
    bool http_1_1 = strcmp(line->version, "HTTP/1.1") == 0;
    if (!http_1_1 && strcmp(line->version, "HTTP/1.0") != 0)
        return lf_refuse(err, 400, NULL, "bad_version", "This server speaks HTTP/1.1 and HTTP/1.0.");
    if (h->bad_name)
        return lf_refuse(err, 400, NULL, "bad_header", "The name of a header field has a character it may not have.");
    if (h->bad_value)
        return lf_refuse(err, 400, NULL, "bad_header", "The value of a header field has a control character.");
    LF_TRY(check_line(h, line, err));
    LF_TRY(check_body_framing(h, line->method, http_1_1, err));
    if (h->n_host > 1 || (http_1_1 && h->n_host == 0))
        return lf_refuse(err, 400, NULL, "bad_host", "Expected one Host header, got %d.", h->n_host);
    if (h->n_authorization > 1 || h->n_content_type > 1 || h->n_expect > 1 || h->n_origin > 1)
        return lf_refuse(err, 400, NULL, "bad_header", "A header field that may come once came more than once.");
    if (h->n > LF_HEADERS_N || h->bytes > LF_HEADERS_BYTES)
        return lf_refuse(err, 431, NULL, "headers_too_large",
                         "At most %d header fields and %d bytes of them, this request has %d and %zu.", LF_HEADERS_N,
                         LF_HEADERS_BYTES, h->n, h->bytes);
    if (h->n_expect && !lf_str_is_word(h->expect, "100-continue"))
        return lf_refuse(err, 400, NULL, "bad_header", "The only expectation known is 100-continue.");
    return LF_OK;
}

int64_t lf_headers_body_bytes(const struct lf_headers *h)
{
    if (h->n_transfer_encoding) return -1;
    if (h->n_content_length && !is_digits(h->content_length)) return INT64_MAX; /* refused, but not by all who ask */
    int64_t n = 0;
    for (size_t i = 0; i < h->content_length.len; i++) n = n * 10 + (h->content_length.ptr[i] - '0');
    return n;
}

bool lf_headers_end_connection(const struct lf_headers *h)
{
    return h->n_transfer_encoding > 0;
}

bool lf_headers_is_encoded(const struct lf_headers *h)
{
    return h->content_encoding.len > 0 && !lf_str_is_word(h->content_encoding, "identity");
}

/* The type, whatever parameters follow. */
static bool is_type(struct lf_str s, struct lf_str type)
{
    if (s.len < type.len || strncasecmp(s.ptr, type.ptr, type.len) != 0) return false;
    return s.len == type.len || s.ptr[type.len] == ';' || s.ptr[type.len] == ' ' || s.ptr[type.len] == '\t';
}

bool lf_headers_is_json(const struct lf_headers *h)
{
    return is_type(h->content_type, LF_STR("application/json"));
}

/* Whether a parameter names a charset that is not UTF-8 or a part of it. */
static bool names_other_charset(struct lf_str type)
{
    static const char charset[] = "charset=";
    const size_t n = sizeof charset - 1;
    for (size_t i = 0; i + n <= type.len; i++) {
        if (strncasecmp(type.ptr + i, charset, n) != 0) continue;
        size_t first = i + n + (i + n < type.len && type.ptr[i + n] == '"'), end = first;
        while (end < type.len && !strchr("\"; \t", type.ptr[end])) end++;
        struct lf_str name = lf_str_from(type.ptr + first, end - first);
        return !lf_str_is_word(name, "utf-8") && !lf_str_is_word(name, "us-ascii");
    }
    return false;
}

bool lf_headers_is_text(const struct lf_headers *h)
{
    return is_type(h->content_type, LF_STR("text/plain")) && !names_other_charset(h->content_type);
}
