#include "server/documents/document_file.h"

#include <string.h>

#include "core/check.h"

static const char magic[] = "LFdoc001";
enum { MAGIC_BYTES = 8, KIND_BYTES = 5 /* of it, in any version */, DIGITS = LF_DOCUMENT_ETAG_BYTES - 2 };
enum { BYTES = 8, TENANT = 16, CREATED = 48, EXPIRES = 56, TOKENS = 64, TEXT = 72, SYSTEM = 80, TOOLS = 88, PIN = 96 };
enum { NAME_LEN = 100, ETAG = 104, NAME = 136, LATER = NAME + LF_DOCUMENT_NAME_BYTES, REST_SHA = 448, HEAD_SHA = 480 };

#define BYTES_MOST (UINT64_C(1) << 40)

static void put_int(uint8_t *out, uint64_t x, int n)
{
    for (int i = 0; i < n; i++) out[i] = (uint8_t)(x >> (8 * i));
}

static uint64_t get_int(const uint8_t *in, int n)
{
    uint64_t x = 0;
    for (int i = 0; i < n; i++) x |= (uint64_t)in[i] << (8 * i);
    return x;
}

static void add(struct lf_sha256 *sha, struct lf_str s)
{
    if (s.len) lf_sha256_update(sha, s.ptr, s.len);
}

void lf_document_file_head(const struct lf_document_file *f, uint8_t head[LF_DOCUMENT_HEAD_BYTES])
{
    struct lf_document_etag etag = lf_document_etag(&f->content);
    struct lf_sha256 sha;
    LF_ASSERT(f->name.len <= LF_DOCUMENT_NAME_BYTES);
    memset(head, 0, LF_DOCUMENT_HEAD_BYTES);
    memcpy(head, magic, MAGIC_BYTES);
    put_int(head + BYTES, LF_DOCUMENT_HEAD_BYTES + f->content.text.len + f->content.system.len + f->content.tools.len,
            8);
    memcpy(head + TENANT, f->tenant, LF_SHA256_BYTES);
    put_int(head + CREATED, (uint64_t)f->created_s, 8);
    put_int(head + EXPIRES, (uint64_t)f->expires_s, 8);
    put_int(head + TOKENS, (uint64_t)f->n_tokens, 8);
    put_int(head + TEXT, f->content.text.len, 8);
    put_int(head + SYSTEM, f->content.system.len, 8);
    put_int(head + TOOLS, f->content.tools.len, 8);
    put_int(head + PIN, (uint64_t)f->pin, 4);
    put_int(head + NAME_LEN, f->name.len, 4);
    memcpy(head + ETAG, etag.text + 1, DIGITS);
    memcpy(head + NAME, f->name.ptr, f->name.len);
    lf_sha256_init(&sha);
    add(&sha, f->content.text);
    add(&sha, f->content.system);
    add(&sha, f->content.tools);
    lf_sha256_final(&sha, head + REST_SHA);
    lf_sha256(head, HEAD_SHA, head + HEAD_SHA);
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i]) return false;
    return true;
}

enum lf_status lf_document_file_bytes(const uint8_t head[LF_DOCUMENT_HEAD_BYTES], uint64_t *n_bytes)
{
    uint8_t sha[LF_SHA256_BYTES];
    uint64_t text = get_int(head + TEXT, 8), system = get_int(head + SYSTEM, 8), tools = get_int(head + TOOLS, 8);
    lf_sha256(head, HEAD_SHA, sha);
    if (memcmp(head, magic, KIND_BYTES) != 0 || memcmp(sha, head + HEAD_SHA, sizeof sha) != 0) return LF_CORRUPT;
    if (memcmp(head, magic, MAGIC_BYTES) != 0 || get_int(head + PIN, 4) >= LF_PIN_N ||
        !is_zero(head + LATER, REST_SHA - LATER))
        return LF_UNSUPPORTED;
    if (text > BYTES_MOST || system > BYTES_MOST || tools > BYTES_MOST ||
        get_int(head + NAME_LEN, 4) > LF_DOCUMENT_NAME_BYTES)
        return LF_CORRUPT;
    if (get_int(head + BYTES, 8) != LF_DOCUMENT_HEAD_BYTES + text + system + tools) return LF_CORRUPT;
    *n_bytes = get_int(head + BYTES, 8);
    return LF_OK;
}

static bool is_text(struct lf_str s)
{
    return lf_utf8_valid(s) && !(s.len && memchr(s.ptr, 0, s.len));
}

/* Checksums hold for what a stranger made, too. */
static bool is_sound(const struct lf_document_file *f, const uint8_t *head)
{
    struct lf_document_etag etag = lf_document_etag(&f->content);
    return f->created_s >= 0 && f->expires_s >= 0 && f->n_tokens >= 0 && lf_document_is_name(f->name) &&
           is_zero(head + NAME + f->name.len, LF_DOCUMENT_NAME_BYTES - f->name.len) && is_text(f->content.text) &&
           is_text(f->content.system) && is_text(f->content.tools) && memcmp(etag.text + 1, head + ETAG, DIGITS) == 0;
}

enum lf_status lf_document_file_read(struct lf_document_file *out, const uint8_t *bytes, size_t n)
{
    uint8_t sha[LF_SHA256_BYTES];
    uint64_t n_bytes;
    if (n < LF_DOCUMENT_HEAD_BYTES) return LF_CORRUPT;
    LF_TRY(lf_document_file_bytes(bytes, &n_bytes));
    if (n != n_bytes) return LF_CORRUPT;
    lf_sha256(bytes + LF_DOCUMENT_HEAD_BYTES, n - LF_DOCUMENT_HEAD_BYTES, sha);
    if (memcmp(sha, bytes + REST_SHA, sizeof sha) != 0) return LF_CORRUPT;
    const char *text = (const char *)bytes + LF_DOCUMENT_HEAD_BYTES;
    size_t n_text = (size_t)get_int(bytes + TEXT, 8), n_name = (size_t)get_int(bytes + NAME_LEN, 4);
    size_t n_system = (size_t)get_int(bytes + SYSTEM, 8), n_tools = (size_t)get_int(bytes + TOOLS, 8);
    struct lf_document_file f = {.name = lf_str_from((const char *)bytes + NAME, n_name),
                                 .created_s = (int64_t)get_int(bytes + CREATED, 8),
                                 .expires_s = (int64_t)get_int(bytes + EXPIRES, 8),
                                 .n_tokens = (int64_t)get_int(bytes + TOKENS, 8),
                                 .pin = (enum lf_pin)get_int(bytes + PIN, 4),
                                 .content = {.text = lf_str_from(text, n_text),
                                             .system = lf_str_from(text + n_text, n_system),
                                             .tools = lf_str_from(text + n_text + n_system, n_tools)}};
    memcpy(f.tenant, bytes + TENANT, sizeof f.tenant);
    if (!is_sound(&f, bytes)) return LF_CORRUPT;
    *out = f;
    return LF_OK;
}
