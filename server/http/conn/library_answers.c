/* The answers that libmicrohttpd gives by itself become ours: one head, our JSON, no 500.
 *
 * Some messages it refuses before anything of ours is called, or in the middle of a body: a Content-Length that is no
 * number, a head or a chunk's line that does not fit its memory, more arguments than that holds, malformed chunks. Its
 * answers are pages of HTML, and before 0.9.77 some are broken: the head is written twice (its parser overwrites the
 * state "answering" that the refusal has just set), a line that is too long is 500, and where the arguments are too
 * many nothing is sent at all.
 *
 * It sends them through its own public MHD_queue_response, and calls that through the dynamic linker, as we do. So this
 * file defines the function: a response that carries our x-request-id goes on to the library's; one that does not is
 * the library's own. For such a one our answer goes straight to the socket, which is then shut down. The library goes
 * on in whatever state it is in, finds that it cannot write, and closes the connection. Nothing is ahead of us in the
 * socket that belongs behind: the library reads a request only when the answer to the one before it has been written.
 *
 * Where the library is linked so that it does not look up its own functions, nothing changes: its answers are as
 * before.
 */
#include <dlfcn.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <string.h>

#include "core/check.h"
#include "server/http/conn/conn.h"
#include "server/http/conn/reply.h"

typedef enum MHD_Result queue_response(struct MHD_Connection *, unsigned, struct MHD_Response *);

static queue_response *library_queue_response(void)
{
    static _Atomic(queue_response *) found;
    queue_response *f = atomic_load(&found);
    if (f) return f;
    void *symbol = dlsym(RTLD_NEXT, "MHD_queue_response");
    LF_ASSERT(symbol != NULL);
    _Static_assert(sizeof f == sizeof symbol, "POSIX: a function fits a pointer");
    memcpy(&f, &symbol, sizeof f);
    atomic_store(&found, f);
    return f;
}

static void refuse(struct lf_api_err *err, unsigned status)
{
    switch (status) {
    case 413:
        (void)!lf_refuse(err, 413, NULL, "body_too_large", "The length of the body or of a chunk is too large.");
        break;
    case 414:
        (void)!lf_refuse(err, 414, NULL, "uri_too_long", "The request line is too long.");
        break;
    case 431:
        (void)!lf_refuse(err, 431, NULL, "headers_too_large",
                         "The header fields or the arguments are too many or too long.");
        break;
    case 505:
        (void)!lf_refuse(err, 505, NULL, "bad_version", "This server speaks HTTP/1.1 and HTTP/1.0.");
        break;
    default: /* 500 is a chunk's line that does not fit the buffer: the client's doing */
        (void)!lf_refuse(err, 400, NULL, "bad_framing",
                         "The request line, the length or a chunk of the body is malformed.");
    }
}

enum MHD_Result MHD_queue_response(struct MHD_Connection *mhd, unsigned status, struct MHD_Response *response)
{
    /* success without an id is ours, where no memory was left for the header */
    if (status >= 400 && !MHD_get_response_header(response, "x-request-id")) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
        struct lf_api_err err;
        refuse(&err, status);
        if (info && info->socket_context) lf_conn_end(info->socket_context, &err);
    }
    return library_queue_response()(mhd, status, response);
}
