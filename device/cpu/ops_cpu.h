/* The op table of the CPU: every op, for any instruction set. The choice of kernels stands in lf_device. */
#ifndef LF_DEVICE_CPU_OPS_CPU_H
#define LF_DEVICE_CPU_OPS_CPU_H

#include "device/ops.h"

/* Fills ops and the kernel choice of dev for an instruction set that the machine has. */
void lf_ops_cpu_init(struct lf_device *dev, enum lf_isa isa);

#endif
