/* Refusing an exchange, in the form that its route's dialect has for errors. */
#ifndef LF_SERVER_HTTP_CONN_REFUSE_H
#define LF_SERVER_HTTP_CONN_REFUSE_H

struct lf_api_err;
struct lf_exchange;

/* Puts the refusal into x->reply. */
void lf_exchange_refuse(struct lf_exchange *x, const struct lf_api_err *err);

#endif
