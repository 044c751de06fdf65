/* The last reply on a connection: a whole HTTP message, for where libmicrohttpd does not answer.
 *
 * That is a connection that finds no room (accept.c), a request that is too late (conn.c), and one that libmicrohttpd
 * itself refuses (library_answers.c). The message says that the connection ends with it. */
#ifndef LF_SERVER_HTTP_CONN_LAST_REPLY_H
#define LF_SERVER_HTTP_CONN_LAST_REPLY_H

#include "server/http/conn/reply.h"

/* Sends it, as far as the socket takes it at once, which is all of it where nothing else waits there. request_id NULL:
 * a new one. */
void lf_last_reply_send(int fd, const struct lf_reply *reply, const char *request_id);
void lf_last_reply_refuse(int fd, const struct lf_api_err *err);

#endif
