/* The page, at / and below /page/: files without a secret in them, so that they need no key and are there while the
 * model is loaded. What they then ask for needs a key as any request does.
 *
 * The policy lets a browser run nothing that is not one of these files and ask no one but this server, so a text that
 * looks like a script stays a text even where the page had a mistake. Bytes are revalidated each time (ETag): a new
 * program is a new page at once, and the same one costs a 304. */
#include <stdio.h>

#include "server/http/conn/exchange.h"
#include "server/http/api/page_files.h"
#include "server/http/api/routes.h"

static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src "
                             "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/* Whether If-None-Match names it: a list of tags, weak ones too, or "*". */
static bool is_known(struct lf_str tags, const char *etag)
{
    struct lf_str tag = lf_str_c(etag);
    if (lf_str_eq(lf_str_trim(tags), LF_STR("*"))) return true;
    for (size_t i = 0; i + tag.len <= tags.len; i++)
        if (memcmp(tags.ptr + i, tag.ptr, tag.len) == 0) return true;
    return false;
}

static void send_file(struct lf_exchange *x, const struct lf_page_file *file)
{
    bool known = is_known(x->if_none_match, file->etag);
    lf_reply_static(&x->reply, known ? 304 : 200, file->type,
                    lf_str_from((const char *)file->bytes, known ? 0 : file->n));
    x->reply.policy = policy;
    snprintf(x->reply.etag, sizeof x->reply.etag, "%s", file->etag);
}

void lf_handle_page(struct lf_exchange *x)
{
    send_file(x, &lf_page_files[0]);
}

void lf_handle_page_file(struct lf_exchange *x)
{
    struct lf_api_err err;
    for (int i = 1; i < lf_page_files_n; i++)
        if (lf_str_eq(x->tail, lf_str_c(lf_page_files[i].name))) {
            send_file(x, &lf_page_files[i]);
            return;
        }
    (void)!lf_refuse(&err, 404, NULL, "unknown_route", "There is nothing at this path.");
    lf_reply_error(&x->reply, &err);
}
