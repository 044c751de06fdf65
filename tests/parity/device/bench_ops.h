/* Times every op of a device and prints GFLOP/s or GB/s beside the plain C reference's. */
#ifndef LF_TESTS_PARITY_DEVICE_BENCH_OPS_H
#define LF_TESTS_PARITY_DEVICE_BENCH_OPS_H

struct lf_device;
void bench_ops(struct lf_device *dev);

#endif
