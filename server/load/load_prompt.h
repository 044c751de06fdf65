/* The requests of the load test. A completion's prompt is of random token ids, so that its length is exact whatever the
 * tokenizer. The other dialects take only text: there it is of common words, each a token in nearly every vocabulary,
 * and the template adds some; what the figures are of is what the server has counted.
 *
 * With a workload (workload.h) prompts are texts with something to ask about, and a question; answers end by
 * themselves.
 *
 * With documents a request is a question of some words about one of them, which stands in it by name. A document's text
 * and name follow from document_seed, n_prompt and its number alone, so that a later run puts the same ones. */
#ifndef LF_SERVER_LOAD_LOAD_PROMPT_H
#define LF_SERVER_LOAD_LOAD_PROMPT_H

#include <stdint.h>

#include "core/str.h"
#include "server/load/load_stream.h"
#include "server/load/workload.h"
#include "server/load/zipf.h"

struct lf_load_shape {
    enum lf_load_dialect dialect;
    enum lf_workload workload; /* another than RANDOM: not for completions; CHAT: not with documents */
    int n_prompt;              /* tokens; of a text: words */
    int n_shared;              /* leading tokens that are the same in every prompt; 0 with a workload */
    int n_output;              /* tokens to generate: all of them, with a workload at most */
    uint64_t seed;             /* and index decide the rest of the prompt */
    const char *host, *key;    /* key: NULL for none */
    struct lf_str schema;      /* of the answer, as JSON; empty: any text of n_output tokens */
    /* Which document is asked about; NULL: the prompt has all of its text in it. Not for completions. */
    const struct lf_zipf *documents;
    uint64_t document_seed;
};

/* The whole HTTP request, for a stream, appended to out. Prompts of different index differ from token
 * n_shared on. */
void lf_load_request(struct lf_buf *out, const struct lf_load_shape *shape, uint64_t index);
/* Which document request number index is about. */
int lf_load_document_of(const struct lf_load_shape *shape, uint64_t index);
/* PUT of document number index, of as many words; its stream is an LF_LOAD_DOCUMENT. It ends by itself after a day. */
void lf_load_put(struct lf_buf *out, const struct lf_load_shape *shape, uint64_t index);
/* GET of a path. */
void lf_load_get(struct lf_buf *out, const char *host, const char *key, const char *path);

#endif
