/* What the system counts of this process, for Prometheus' process_ metrics. Reads /proc and allocates nothing but for
 * the list of descriptors. */
#ifndef LF_CORE_PROCESS_H
#define LF_CORE_PROCESS_H

#include <stdint.h>

/* Negative: the system does not say. */
struct lf_process_figures {
    double cpu_s;          /* of all threads, in the kernel as well */
    double started_unix_s; /* constant to the clock's tick (10 ms), unless the system's clock was set */
    int64_t resident_bytes, virtual_bytes;
    int64_t n_open, n_open_most; /* descriptors: in use, and the limit */
};

void lf_process_read(struct lf_process_figures *out);

#endif
