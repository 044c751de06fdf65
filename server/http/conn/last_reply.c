#include "server/http/conn/last_reply.h"

#include <microhttpd.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "core/clock.h"
#include "core/mix.h"

static void write_head(struct lf_buf *out, const struct lf_reply *reply, const char *request_id)
{
    static atomic_uint_least64_t counter;
    lf_buf_printf(out, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n", reply->status,
                  MHD_get_reason_phrase_for((unsigned)reply->status), reply->content_type, reply->body.len);
    if (reply->retry_after_s > 0) lf_buf_printf(out, "Retry-After: %d\r\n", reply->retry_after_s);
    if (reply->allow) lf_buf_printf(out, "Allow: %s\r\n", reply->allow);
    if (reply->status == 401) lf_buf_cstr(out, "WWW-Authenticate: Bearer\r\n");
    if (request_id)
        lf_buf_printf(out, "x-request-id: %s\r\n", request_id);
    else
        lf_buf_printf(out, "x-request-id: req-%016llx\r\n",
                      (unsigned long long)lf_random64((uint64_t)lf_clock_ns(), atomic_fetch_add(&counter, 1)));
    lf_buf_cstr(out, "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n");
}

void lf_last_reply_send(int fd, const struct lf_reply *reply, const char *request_id)
{
    struct lf_buf out;
    lf_buf_init(&out, LF_REPLY_BYTES);
    write_head(&out, reply, request_id);
    lf_buf_str(&out, lf_buf_view(&reply->body));
    if (out.status == LF_OK) (void)send(fd, out.ptr, out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    lf_buf_deinit(&out);
}

void lf_last_reply_refuse(int fd, const struct lf_api_err *err)
{
    struct lf_reply reply;
    lf_reply_init(&reply);
    lf_reply_error(&reply, err);
    if (reply.body.status == LF_OK) lf_last_reply_send(fd, &reply, NULL);
    lf_reply_deinit(&reply);
}
