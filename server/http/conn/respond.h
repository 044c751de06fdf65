/* Sending: a reply, or an answer as the socket takes it, with the headers that every response has. */
#ifndef LF_SERVER_HTTP_CONN_RESPOND_H
#define LF_SERVER_HTTP_CONN_RESPOND_H

#include <microhttpd.h>

struct lf_exchange;

/* libmicrohttpd's thread, once an exchange: queues what is in x->reply; with status 200 and an answer, the bytes that
 * it makes. One that ends within its first window is sent with its length, a longer one in chunks. */
enum MHD_Result lf_respond(struct lf_exchange *x);

#endif
