/* /version: which program answers. */
#include "core/json.h"
#include "server/http/conn/exchange.h"
#include "server/http/api/routes.h"
#include "server/http/conn/server.h"

void lf_handle_version(struct lf_exchange *x)
{
    struct lf_buf *out = lf_reply_json(&x->reply, 200);
    lf_buf_cstr(out, "{\"version\":");
    lf_json_write_string(out, lf_str_c(x->server->opts.version));
    lf_buf_char(out, '}');
}
