/* Large memory of the host: anonymous pages aligned to 2 MiB (huge pages asked for), zeros, all of them touched when it
 * is taken, so that memory which is not there is found then and the resident size is the planned one. */
#ifndef LF_DEVICE_CPU_HOST_MEMORY_H
#define LF_DEVICE_CPU_HOST_MEMORY_H

#include <stddef.h>

#include "core/status.h"

struct lf_threads;

/* Made resident by all threads of the pool. LF_NO_MEMORY, with what names it. */
LF_MUST_CHECK enum lf_status lf_host_memory_take(struct lf_threads *threads, void **out, size_t bytes, const char *what,
                                                 struct lf_err *err);
void lf_host_memory_give_back(void *ptr, size_t bytes); /* the bytes that were taken */

#endif
