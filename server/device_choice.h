/* Which devices there are for ranks: the one that --device names, or a described one stands for, and of GPUs those
 * behind it that are like it.
 *
 * Ranks divide a model evenly, so the slowest is what a step waits for and the fullest what a plan must fit: a GPU of
 * another kind ends the row, and the memory that all have is that of the one that has least. */
#ifndef LF_SERVER_DEVICE_CHOICE_H
#define LF_SERVER_DEVICE_CHOICE_H

#include <stdbool.h>

#include "device/device.h"
#include "server/config.h"

bool lf_device_choice_is_auto(const struct lf_config *config); /* --parallel auto */
/* --device, or what stands in its place: name and description in *out are set, the rest stays. LF_INVALID. */
LF_MUST_CHECK enum lf_status lf_device_choice_describe(struct lf_device_opts *out, const struct lf_config *config,
                                                       struct lf_err *err);
/* The device of a rank, written into `name` where it is not the first's: of GPUs, so many behind that. */
const char *lf_device_choice_name(char name[LF_DEVICE_NAME], const char *first, int rank);
/* How many there are to choose from, from the first on: as far as they are alike. 1 for a CPU. */
int lf_device_choice_n(const struct lf_device_info *first);
/* What a plan of so many ranks is made for: the first of them, with the free memory of the one that has least. */
struct lf_device_info lf_device_choice_info(const struct lf_device_info *first, int n_ranks);

#endif
