/* The sentencepiece library behind a C face: the only door to C++ in the program.
 *
 * The library opens a model, judges it, and gives out its pieces; it also encodes, which the tests use to hold our own
 * encoder against it. No exception passes this face: each becomes a status with its message. */
#ifndef LF_TOKENIZER_SPM_SP_SHIM_H
#define LF_TOKENIZER_SPM_SP_SHIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct lf_sp;

enum lf_sp_status { LF_SP_OK, LF_SP_REFUSED, LF_SP_NO_MEMORY };

enum lf_sp_kind { LF_SP_NORMAL, LF_SP_UNKNOWN, LF_SP_CONTROL, LF_SP_UNUSED, LF_SP_BYTE };

struct lf_sp_piece {
    const char *text; /* borrowed until close */
    size_t len;
    float score;
    enum lf_sp_kind kind; /* a user-defined piece is NORMAL here: the library does not tell */
};

/* model: a serialized ModelProto. On failure a reason goes to message (terminated). */
enum lf_sp_status lf_sp_open(struct lf_sp **out, const void *model, size_t n_bytes, char *message,
                             size_t message_bytes);
void lf_sp_close(struct lf_sp *sp); /* accepts NULL */
int lf_sp_n_pieces(const struct lf_sp *sp);
enum lf_sp_status lf_sp_get(const struct lf_sp *sp, int id, struct lf_sp_piece *out);
/* The library's own ids of text: at most n_max are written, *n is how many there are. */
enum lf_sp_status lf_sp_encode(const struct lf_sp *sp, const char *text, size_t n_bytes, int *ids, size_t n_max,
                               size_t *n);

#ifdef __cplusplus
}
#endif

#endif
