/* The Hugging Face cache of this machine, as huggingface_hub lays it out, for reading alone: what "hf download" left
 * there. Nothing is ever fetched.
 *
 *     CACHE/models--org--name/refs/main             the commit that the branch stood at
 *                            /snapshots/COMMIT/     config.json and the rest, as links to
 *                            /blobs/
 *
 * CACHE is HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else
 * .cache/huggingface/hub in the home directory. */
#ifndef LF_SERVER_HUB_H
#define LF_SERVER_HUB_H

#include <limits.h>
#include <stdbool.h>

#include "core/str.h"

enum { LF_HUB_PART_BYTES = 96, LF_HUB_NAME_BYTES = 2 * LF_HUB_PART_BYTES + 2, LF_HUB_REVISION_BYTES = 200 };

/* "org/name" or "org/name@revision", taken apart. */
struct lf_hub_id {
    char name[LF_HUB_NAME_BYTES];
    char revision[LF_HUB_REVISION_BYTES]; /* a branch, a tag or a commit; "": main */
};

/* false where the text is no id of a model on the hub: each part has letters, digits, and -, _ and . inside. */
bool lf_hub_parse(struct lf_hub_id *out, const char *text);
/* The snapshot's directory. LF_NOT_FOUND says what is not there, and the command that fetches it; LF_LIMIT where a path
 * is too long. Without a revision and without refs/main, the only snapshot there is. A commit may be cut to 7 letters
 * or more where it stays the only one of its kind. */
LF_MUST_CHECK enum lf_status lf_hub_find(char out[PATH_MAX], const struct lf_hub_id *id, struct lf_err *err);
/* "hf download org/name --revision …": what fetches or completes it. Appended to out. */
void lf_hub_print_download(const struct lf_hub_id *id, struct lf_buf *out);

#endif
