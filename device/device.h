/* The device: where tensors live and kernels run. "cpu" now; every other backend is one more row of the same tables.
 *
 * A device owns its worker threads (or streams) and its op table. All calls below come from the thread that opened the
 * device, except lf_device_info, which any thread may call. After the server is ready no function here allocates but
 * lf_buffer_alloc, and that is not called again. */
#ifndef LF_DEVICE_DEVICE_H
#define LF_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/dtype.h"
#include "core/status.h"

struct lf_device;
struct lf_ops;
struct lf_threads;

/* Instruction sets of the CPU backend, best last. Each includes the ones before it, except that AMX machines always
 * have AVX-512 BF16. */
enum lf_isa { LF_ISA_C, LF_ISA_AVX2, LF_ISA_AVX512, LF_ISA_AVX512_BF16, LF_ISA_AMX };
const char *lf_isa_name(enum lf_isa isa); /* "c", "avx2", "avx512", "avx512-bf16", "amx" */

struct lf_device_opts {
    const char *name; /* "cpu" or "auto" */
    int n_threads;    /* workers including the calling thread; 0: one for each CPU this process may run on */
    int max_isa;      /* an lf_isa that is not to be exceeded, -1: the best the machine has. For tests and --isa */
};

struct lf_device_info {
    const char *kind; /* "cpu" */
    enum lf_isa isa;
    int n_threads;
    enum lf_dtype act_dtype; /* what the activation tensors of lf_ops hold: LF_F32 on a CPU */
    uint64_t memory_bytes;   /* what this process may use: RAM or the cgroup's limit, whichever is less */
    uint64_t available_bytes;
};

/* LF_NOT_FOUND for a name that is none; LF_UNSUPPORTED for an ISA the machine has not; LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_device_open(struct lf_device **out, const struct lf_device_opts *opts,
                                            struct lf_err *err);
void lf_device_close(struct lf_device *dev); /* accepts NULL; all buffers are freed before */
const struct lf_ops *lf_device_ops(const struct lf_device *dev);
const struct lf_device_info *lf_device_info(const struct lf_device *dev);
/* The worker pool, for the CPU kernels of attention/ and kv/. */
struct lf_threads *lf_device_threads(const struct lf_device *dev);

/* Device memory. On a CPU: anonymous pages aligned to 2 MiB (huge pages asked for), touched at once, so that memory
 * which is not there is found now and the resident size is the planned one. */
struct lf_buffer {
    void *ptr; /* device address */
    size_t bytes;
};
LF_MUST_CHECK enum lf_status lf_buffer_alloc(struct lf_device *dev, struct lf_buffer *out, size_t bytes,
                                             const char *what, struct lf_err *err);
void lf_buffer_free(struct lf_device *dev, struct lf_buffer *buf); /* accepts a zeroed one */
/* Bytes of all live buffers, and how often lf_buffer_alloc has been called: "nothing is allocated after ready". */
uint64_t lf_device_allocated_bytes(const struct lf_device *dev);
uint64_t lf_device_n_allocs(const struct lf_device *dev);

/* Copies between host and device; both complete on return. */
void lf_upload(struct lf_device *dev, void *dst_device, const void *src_host, size_t bytes);
void lf_download(struct lf_device *dev, void *dst_host, const void *src_device, size_t bytes);

#endif
