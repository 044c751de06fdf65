/* A device that has kernels for plain matrices alone: coded ones are expanded when they are read, as on a GPU whose
 * kernels do not take them. */
#ifndef LF_TESTS_SUPPORT_PLAIN_KERNELS_H
#define LF_TESTS_SUPPORT_PLAIN_KERNELS_H

#include "device/device_impl.h"

static inline bool supports_plain(const struct lf_device *dev, const struct lf_format *format, int n_out, int n_in,
                                  int n_experts)
{
    (void)dev, (void)n_out, (void)n_in, (void)n_experts;
    return lf_format_is_plain(format);
}

static inline void only_plain(struct lf_device *dev)
{
    dev->ops.supports_format = supports_plain;
}

#endif
