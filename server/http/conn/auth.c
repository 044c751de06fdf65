#include "server/http/conn/auth.h"

#include <stdlib.h>
#include <strings.h>

#include "core/check.h"
#include "core/file.h"

enum { KEY_FILE_BYTES = LF_API_KEYS_N * (LF_API_KEY_BYTES + LF_KEY_LIMITS_BYTES + 2) };

struct key_list {
    struct lf_key *keys;
    int n;
    struct lf_keys *of; /* whose meters names have */
};

/* Of a name that is new there is one more; with as many names as there can be keys, a further one has none. */
static enum lf_status meter_of(struct lf_tenant_meter **out, struct lf_keys *keys, struct lf_str name,
                               struct lf_err *err)
{
    *out = NULL;
    if (name.len == 0) return LF_OK;
    for (int i = 0; i < keys->n_meters; i++)
        if (lf_str_eq(lf_str_c(keys->meters[i]->name), name)) {
            *out = &keys->meters[i]->counters;
            return LF_OK;
        }
    if (keys->n_meters == LF_API_KEYS_N) return LF_OK;
    struct lf_key_meter *made = calloc(1, sizeof *made);
    if (!made) return lf_fail(err, LF_NO_MEMORY, "no memory for API keys");
    memcpy(made->name, name.ptr, name.len);
    pthread_mutex_lock(&keys->lock);
    keys->meters[keys->n_meters++] = made;
    pthread_mutex_unlock(&keys->lock);
    *out = &made->counters;
    return LF_OK;
}

/* One of the file or of the variable. No key's text ever reaches a message. */
static enum lf_status add_key(struct key_list *list, struct lf_str text, bool has_limits, struct lf_err *err)
{
    struct lf_key_line line = {.key = text, .name = LF_STR("")};
    if (has_limits) LF_TRY(lf_key_line_read(&line, text, err));
    if (!lf_is_key(line.key))
        return lf_fail(err, LF_INVALID, "expected 1 to %d printable ASCII characters without spaces", LF_API_KEY_BYTES);
    if (list->n == LF_API_KEYS_N) return lf_fail(err, LF_LIMIT, "more than %d keys", LF_API_KEYS_N);
    LF_TRY(meter_of(&line.limits.requests.meter, list->of, line.name, err));
    lf_sha256(line.key.ptr, line.key.len, list->keys[list->n].digest);
    list->keys[list->n++].limits = line.limits;
    return LF_OK;
}

/* Adds the keys of text: lines of a file, or what stands between commas. */
static enum lf_status add_keys(struct key_list *list, struct lf_str text, bool is_file, const char *what,
                               struct lf_err *err)
{
    size_t at = 0;
    for (int piece = 1; at <= text.len; piece++) {
        const char *end = text.len > at ? memchr(text.ptr + at, is_file ? '\n' : ',', text.len - at) : NULL;
        size_t len = end ? (size_t)(end - (text.ptr + at)) : text.len - at;
        struct lf_str key = lf_str_trim(lf_str_from(text.ptr + at, len));
        at += len + 1;
        if (key.len == 0 || (is_file && key.ptr[0] == '#')) continue;
        enum lf_status status = add_key(list, key, is_file, err);
        if (status != LF_OK) return lf_fail_within(err, status, "%s: %s %d", what, is_file ? "line" : "key", piece);
    }
    return LF_OK;
}

static enum lf_status add_file(struct key_list *list, const char *path, struct lf_err *err)
{
    struct lf_buf text;
    lf_buf_init(&text, KEY_FILE_BYTES);
    enum lf_status status = lf_file_read(&text, path, KEY_FILE_BYTES, err);
    if (status != LF_OK) (void)lf_fail_within(err, status, "--api-keys-file: expected one key a line");
    if (status == LF_OK) status = add_keys(list, lf_buf_view(&text), true, path, err);
    if (status == LF_OK && list->n == 0)
        status = lf_fail(err, LF_INVALID, "--api-keys-file: %s holds no key, expected one a line", path);
    lf_buf_deinit(&text);
    return status;
}

static enum lf_status load(struct key_list *list, struct lf_keys *keys, struct lf_err *err)
{
    list->n = 0;
    list->of = keys;
    list->keys = calloc(LF_API_KEYS_N, sizeof list->keys[0]);
    if (!list->keys) return lf_fail(err, LF_NO_MEMORY, "no memory for API keys");
    enum lf_status status = LF_OK;
    if (keys->file) status = add_file(list, keys->file, err);
    int n_before = list->n;
    if (status == LF_OK && keys->env) status = add_keys(list, lf_str_c(keys->env), false, "API key variable", err);
    if (status == LF_OK && keys->env && keys->env[0] && list->n == n_before)
        status = lf_fail(err, LF_INVALID, "API key variable: no key in it");
    if (status != LF_OK) free(list->keys);
    return status;
}

static void forget_meters(struct lf_keys *keys)
{
    for (int i = 0; i < keys->n_meters; i++) free(keys->meters[i]);
    keys->n_meters = 0;
}

enum lf_status lf_keys_init(struct lf_keys *keys, const char *file, const char *env, struct lf_err *err)
{
    *keys = (struct lf_keys){.file = file, .env = env};
    struct key_list list;
    pthread_mutex_init(&keys->lock, NULL);
    enum lf_status status = load(&list, keys, err);
    if (status == LF_OK) {
        keys->list = list.keys;
        keys->n = list.n;
    } else {
        forget_meters(keys);
        pthread_mutex_destroy(&keys->lock);
    }
    return status;
}

void lf_keys_deinit(struct lf_keys *keys)
{
    if (!keys->list) return;
    free(keys->list);
    forget_meters(keys);
    pthread_mutex_destroy(&keys->lock);
    *keys = (struct lf_keys){0};
}

enum lf_status lf_keys_reload(struct lf_keys *keys, struct lf_err *err)
{
    struct key_list list;
    LF_TRY(load(&list, keys, err));
    pthread_mutex_lock(&keys->lock);
    void *old = keys->list;
    keys->list = list.keys;
    keys->n = list.n;
    pthread_mutex_unlock(&keys->lock);
    free(old);
    return LF_OK;
}

/* The token of "Bearer TOKEN"; empty where the header is of another form. */
static struct lf_str bearer_token(struct lf_str header)
{
    const size_t n = sizeof "Bearer " - 1;
    if (header.len < n || strncasecmp(header.ptr, "Bearer ", n) != 0) return LF_STR("");
    return lf_str_trim(lf_str_from(header.ptr + n, header.len - n));
}

static uint64_t tenant_id(const uint8_t digest[LF_SHA256_BYTES])
{
    uint64_t id;
    memcpy(&id, digest, sizeof id);
    return id ? id : 1; /* 0 means that no keys are in use */
}

void lf_tenant_from_salt(struct lf_tenant *out, const uint8_t salt[LF_SHA256_BYTES])
{
    static const uint8_t nobody[LF_SHA256_BYTES];
    *out = (struct lf_tenant){.by_key = memcmp(salt, nobody, sizeof nobody) != 0};
    if (out->by_key) out->id = tenant_id(salt);
    memcpy(out->salt, salt, sizeof out->salt);
}

bool lf_keys_admit(struct lf_keys *keys, struct lf_str authorization, struct lf_str api_key, struct lf_tenant *out)
{
    uint8_t digest[LF_SHA256_BYTES];
    struct lf_str token = authorization.len ? bearer_token(authorization) : api_key;
    if (token.len > LF_API_KEY_BYTES) token.len = 0;
    lf_sha256(token.ptr, token.len, digest);
    unsigned found = 0, which = 0;
    struct lf_key_limits limits = {.documents = 0};
    pthread_mutex_lock(&keys->lock);
    int n = keys->n;
    for (int i = 0; i < n; i++) {
        unsigned same = lf_equal_ct(digest, keys->list[i].digest, sizeof digest), mask = 0u - same;
        found |= same;
        which = (which & ~mask) | ((unsigned)i & mask);
    }
    if (n > 0) limits = keys->list[which].limits;
    pthread_mutex_unlock(&keys->lock);
    *out = (struct lf_tenant){0};
    if (n == 0) return true;
    if (!found) return false;
    out->limits = limits;
    out->id = tenant_id(digest);
    memcpy(out->salt, digest, sizeof out->salt);
    return true;
}

const struct lf_key_meter *lf_keys_meter(struct lf_keys *keys, int i)
{
    pthread_mutex_lock(&keys->lock);
    const struct lf_key_meter *m = i < keys->n_meters ? keys->meters[i] : NULL;
    pthread_mutex_unlock(&keys->lock);
    return m;
}
