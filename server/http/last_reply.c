#include "server/http/last_reply.h"

#include <microhttpd.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "core/clock.h"
#include "core/hash.h"

static void write_message(struct lf_buf *out, struct lf_buf *body, const struct lf_api_err *err)
{
    static atomic_uint_least64_t counter;
    lf_api_err_write(body, err);
    lf_buf_printf(out, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n", err->status,
                  MHD_get_reason_phrase_for((unsigned)err->status), body->len);
    if (err->retry_after_s > 0) lf_buf_printf(out, "Retry-After: %d\r\n", err->retry_after_s);
    lf_buf_printf(out, "x-request-id: req-%016llx\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
                  (unsigned long long)lf_random64((uint64_t)lf_clock_ns(), atomic_fetch_add(&counter, 1)));
    lf_buf_str(out, lf_buf_view(body));
}

void lf_last_reply_send(int fd, const struct lf_api_err *err)
{
    struct lf_buf body, out;
    lf_buf_init(&body, LF_REPLY_BYTES);
    lf_buf_init(&out, LF_REPLY_BYTES);
    write_message(&out, &body, err);
    if (body.status == LF_OK && out.status == LF_OK) (void)send(fd, out.ptr, out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    lf_buf_deinit(&body);
    lf_buf_deinit(&out);
}
