/* What people copy from a page in place of a model's name: its URL. Nothing is ever fetched; the name is found in it,
 * so that a message can say what to type. */
#ifndef LF_SERVER_MODEL_URL_H
#define LF_SERVER_MODEL_URL_H

#include "server/hub.h"

/* Whether the text is a URL, with or without https://, or names the hub's host. */
bool lf_model_url_is(const char *text);
/* The model that a page of the hub is about, of /org/name/tree/revision with its revision; false where the URL is of
 * another place, or of no model. */
bool lf_model_url_parse(struct lf_hub_id *out, const char *text);

#endif
