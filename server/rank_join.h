/* --rank: a rank that is a process of its own, on its way to the others (rendezvous/rendezvous.h): its number, where
 * they meet, the secret, and what all of them must have in common. */
#ifndef LF_SERVER_RANK_JOIN_H
#define LF_SERVER_RANK_JOIN_H

#include <stdatomic.h>

#include "device/device.h"
#include "model/hparams.h"
#include "model/model.h"
#include "server/config.h"

enum { LF_RANK_THREADS = -1 };

/* Which rank of the split's this process is, LF_RANK_THREADS without --rank. LF_INVALID, LF_UNSUPPORTED. */
LF_MUST_CHECK enum lf_status lf_rank_read(int *rank, const struct lf_config *config, const struct lf_split *split,
                                          struct lf_err *err);
/* Waits for the others and connects to each: sockets[r] leads to rank r's process. The rest says what must be the same:
 * program, instruction set, model (config.json, headers and samples of the weights) and what is made of it.
 * What lf_rendezvous returns; LF_NOT_FOUND, LF_IO, LF_LIMIT of files. */
LF_MUST_CHECK enum lf_status lf_rank_join(int sockets[LF_RANKS_N], int rank, const struct lf_config *config,
                                          const struct lf_hparams *hp, const struct lf_model_opts *model,
                                          enum lf_dtype kv_dtype, const struct lf_device_info *info,
                                          struct lf_err *err);

#endif
