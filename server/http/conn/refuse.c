#include "server/http/conn/refuse.h"

#include "server/http/api/dialect.h"
#include "server/http/conn/exchange.h"
#include "server/http/api/routes.h"

void lf_exchange_refuse(struct lf_exchange *x, const struct lf_api_err *err)
{
    if (x->route && x->route->dialect)
        x->route->dialect->whole->error(lf_reply_json(&x->reply, err->status), err);
    else
        lf_api_err_write(lf_reply_json(&x->reply, err->status), err);
    x->reply.retry_after_s = err->retry_after_s;
}
