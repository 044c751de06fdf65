/* The steps of a call, as libmicrohttpd's callbacks take them. Its header is needed to read this one. */
#ifndef LF_SERVER_HTTP_ACCESS_H
#define LF_SERVER_HTTP_ACCESS_H

#include <microhttpd.h>

#include "server/http/call.h"

/* A body is read and dropped up to so many times the largest one taken, so that the refusal reaches its sender. */
enum { LF_DISCARD_FACTOR = 4 };

struct lf_call *lf_call_create(struct lf_http_server *s, struct lf_conn *conn, struct MHD_Connection *mhd);
/* The head is there: refuses, or lets the body come. */
enum MHD_Result lf_call_head(struct lf_call *call, const char *url, const char *method, const char *version);
enum MHD_Result lf_call_body(struct lf_call *call, const char *bytes, size_t n);
/* The body is complete, or the call was woken: does what is next. MHD_NO ends the connection. */
enum MHD_Result lf_call_advance(struct lf_call *call);
/* After the last byte, or the end of the connection (finished: the answer went out whole). Frees the call. */
void lf_call_end(struct lf_call *call, bool finished);

/* Headers that every response has. */
void lf_call_add_headers(const struct lf_call *call, struct MHD_Response *response);
/* The answer is about to be queued with that status. */
void lf_call_count(struct lf_call *call, int status);

#endif
