/* Fuzzing what is read from HTTP besides JSON. On the server: a Host (first part), an Origin (second), an Authorization
 * (third). On the client: a response (the rest), fed whole and byte by byte, which must come to the same. */
#include "server/http/conn/auth.h"
#include "server/http/conn/http_server.h"
#include "server/http/conn/origin.h"
#include "server/load/http_response.h"
#include "tests/fuzz/fuzz.h"

struct taken {
    size_t n;
    uint64_t sum;
};

static void take(void *ctx, const char *bytes, size_t n)
{
    struct taken *t = ctx;
    for (size_t i = 0; i < n; i++) t->sum = t->sum * 31 + (uint8_t)bytes[i];
    t->n += n;
}

static void check_response(struct lf_str text)
{
    struct taken whole = {0}, bytes = {0};
    struct lf_response a, b;
    lf_response_init(&a, take, &whole);
    lf_response_init(&b, take, &bytes);
    lf_response_feed(&a, text.ptr, text.len);
    for (size_t i = 0; i < text.len; i++) lf_response_feed(&b, text.ptr + i, 1);
    LF_ASSERT(a.part == b.part && a.status == b.status && a.remaining == b.remaining);
    LF_ASSERT(whole.n == bytes.n && whole.sum == bytes.sum && whole.n <= text.len);
    LF_ASSERT(lf_response_end(&a) == lf_response_end(&b));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const hosts[] = {"server.example", NULL}, *const origins[] = {"https://app.example", NULL};
    const struct lf_http_opts opts = {.allowed_hosts = hosts, .cors_origins = origins};
    static struct lf_keys keys;
    struct lf_tenant tenant;
    struct lf_str host = fuzz_part(&data, &size), origin = fuzz_part(&data, &size),
                  authorization = fuzz_part(&data, &size);
    if (keys.n == 0) LF_ASSERT(lf_keys_init(&keys, NULL, "one,two", NULL) == LF_OK);
    bool open_host = lf_host_allowed(&opts, true, host);
    if (open_host && host.len > 0)
        LF_ASSERT(memchr("lL[1sS:", host.ptr[0], 7) != NULL); /* the first letter of a name of ours */
    const char *cors = lf_cors_allow(&opts, origin);
    LF_ASSERT(!cors || lf_str_eq(lf_str_c(cors), origin));
    bool admitted = lf_keys_admit(&keys, authorization, LF_STR(""), &tenant);
    if (admitted)
        LF_ASSERT(lf_str_find(authorization, LF_STR("one")) > 0 || lf_str_find(authorization, LF_STR("two")) > 0);
    check_response(lf_str_from((const char *)data, size));
    return 0;
}
