/* The device: where tensors live and kernels run: "cpu" or "cuda:N", rows of one table.
 *
 * Order. Everything a device is asked for happens in the order of the calls, but on a GPU it happens later: ops,
 * uploads and graphs are queued. lf_device_sync waits; lf_download waits too. Errors of a GPU surface there and are
 * final: once one came, every later sync reports it and nothing more is run on that device (SECURITY.md).
 *
 * One thing is in no order with the rest: copies beside the queue (lf_copy_out, lf_copy_in).
 *
 * A device owns its worker threads (or its stream) and its op table. All calls below come from the thread that opened
 * the device, except lf_device_info and what says otherwise, which any thread may call. After the server is ready no
 * function here allocates but lf_buffer_alloc, and that is not called again. */
#ifndef LF_DEVICE_DEVICE_H
#define LF_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/dtype.h"
#include "core/limits.h"
#include "core/status.h"
#include "core/str.h"

enum { LF_DEVICE_NAME = 96 };

struct lf_device;
struct lf_ops;
struct lf_threads;

/* Instruction sets of the CPU backend, best last. Each includes the ones before it, except that AMX machines always
 * have AVX-512 BF16. */
enum lf_isa { LF_ISA_C, LF_ISA_AVX2, LF_ISA_AVX512, LF_ISA_AVX512_BF16, LF_ISA_AMX };
const char *lf_isa_name(enum lf_isa isa); /* "c", "avx2", "avx512", "avx512-bf16", "amx" */

/* What was built in, for `longflash version`: "cpu, cuda (CUDA 13.0)" and "c, avx2, avx512; this machine: avx2". */
void lf_device_backends(struct lf_buf *out);
void lf_device_isas(struct lf_buf *out);

struct lf_device_opts {
    const char *name; /* "cpu", "cuda", "cuda:N" or "auto": the first GPU where there is one, else the CPU */
    int n_threads;    /* workers including the calling thread; 0: one for each CPU this process may run on */
    int n_ranks;      /* devices of this process that share the threads, both numbers above: each has its part, one at
                         least. 0: there is one */
    bool asks_others; /* GPU: what those behind it have free is asked too, with a context on each for that moment */
    enum lf_dtype
        act_dtype; /* GPU: of activations and KV, LF_BF16 or LF_F16; 0 stands for LF_BF16. CPU: not looked at */
    int max_isa;   /* an lf_isa that is not to be exceeded, -1: the best the machine has. For tests and --isa */
    uint64_t gpu_memory_bytes; /* not 0: "cuda" is a GPU as described here, which need not be there. It has an op table
                                  and info, for plans; nothing can be allocated or run on it */
    int gpu_n_sms;             /* its multiprocessors, >= 1 */
    int n_gpus;                /* of that kind; 0: one */
};

/* One of several that ranks may take. */
struct lf_gpu {
    char name[LF_DEVICE_NAME];
    int n_sms;
    uint64_t available_bytes; /* as info has it, of its own memory */
};

struct lf_device_info {
    const char *kind;               /* "cpu", "cuda" */
    char name[LF_DEVICE_NAME];      /* "NVIDIA H100 80GB HBM3"; on a CPU the instruction set */
    enum lf_isa isa;                /* of a CPU; LF_ISA_C on a GPU */
    int n_threads;                  /* of a CPU's pool */
    int sm;                         /* compute capability, 90 for 9.0; 0 on a CPU */
    int n_sms;                      /* multiprocessors; 0 on a CPU */
    int token_tile;                 /* GEMMs compute so many tokens at a time, filled or not; 1 on a CPU */
    int split_rows;                 /* with fewer rows a rank of a step, dividing them over ranks gains nothing */
    enum lf_dtype act_dtype;        /* what the activation tensors of lf_ops hold: LF_F32 on a CPU */
    int n_gpus;                     /* from this one on, that reach each other's memory: for ranks. 0 for a CPU */
    struct lf_gpu gpus[LF_RANKS_N]; /* [n_gpus] this one and, where the options ask for them, those behind it */
    bool is_described;              /* by the options, and nothing but that */
    bool is_host;                   /* buffers are host memory: it counts against the same limit as the process */
    uint64_t memory_bytes; /* what this process may use: RAM or the cgroup's limit, whichever is less; a GPU's memory */
    uint64_t available_bytes;
    uint64_t host_available_bytes; /* of the host's memory; 0: nobody knows, for a device that is described */
    uint64_t context_bytes; /* of a GPU's memory, in use before the first buffer: driver, code, library workspace */
};

/* LF_NOT_FOUND for a name that is none; LF_UNSUPPORTED for an ISA the machine has not; LF_NO_MEMORY. */
LF_MUST_CHECK enum lf_status lf_device_open(struct lf_device **out, const struct lf_device_opts *opts,
                                            struct lf_err *err);
void lf_device_close(struct lf_device *dev); /* accepts NULL; all buffers are freed before */
const struct lf_ops *lf_device_ops(const struct lf_device *dev);
const struct lf_device_info *lf_device_info(const struct lf_device *dev);
/* The worker pool: for the CPU kernels of attention/ and kv/, and on every device for what is made once at start. */
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

/* Copies between host and device. An upload has taken the host's bytes on return; the device sees them in the order of
 * the calls. A download is complete on return. */
void lf_upload(struct lf_device *dev, void *dst_device, const void *src_host, size_t bytes);
void lf_download(struct lf_device *dev, void *dst_host, const void *src_device, size_t bytes);
/* A download in two parts, for small results of steps that follow each other closely: begin queues it behind what was
 * asked for so far, end waits for it alone. Slots 0 .. LF_FETCHES_N - 1 are independent; each end has its begin. */
enum { LF_FETCHES_N = 2, LF_FETCH_BYTES = 256 * 1024 };
void lf_fetch_begin(struct lf_device *dev, int slot, const void *src_device, size_t bytes);
/* dst: as many bytes as begin asked for. LF_DEVICE: they are not there. */
LF_MUST_CHECK enum lf_status lf_fetch_end(struct lf_device *dev, int slot, void *dst_host, struct lf_err *err);
/* Copies beside the queue, for what comes and goes while steps run: from any thread, each on a lane (0 ..
 * LF_COPY_LANES_N - 1) that is its own for the time. A copy is done when it returns, and nothing else waits for it. So
 * the caller sees to what the queue sees to elsewhere: what it reads was written by something whose result has been
 * fetched, and nobody else writes where it writes. What is asked for after it has returned finds its bytes. LF_DEVICE
 * with the device's own words: the bytes may be anything. */
enum { LF_COPY_LANES_N = 12 };
LF_MUST_CHECK enum lf_status lf_copy_out(struct lf_device *dev, int lane, void *dst_host, const void *src_device,
                                         size_t bytes, struct lf_err *err);
LF_MUST_CHECK enum lf_status lf_copy_in(struct lf_device *dev, int lane, void *dst_device, const void *src_host,
                                        size_t bytes, struct lf_err *err);
/* Memory of the host that is resident at once, aligned to 2 MiB, on any device; not of its buffers. */
LF_MUST_CHECK enum lf_status lf_host_alloc(struct lf_device *dev, struct lf_buffer *out, size_t bytes, const char *what,
                                           struct lf_err *err);
void lf_host_free(struct lf_device *dev, struct lf_buffer *buf); /* accepts a zeroed one */
/* Pins whole pages of it, which a GPU then reads and writes by itself, at the bus's rate; it takes long for many. Any
 * thread. What was pinned in one piece is copied and unpinned as such. On a CPU they do nothing. */
LF_MUST_CHECK enum lf_status lf_host_pin(struct lf_device *dev, void *ptr, size_t bytes, struct lf_err *err);
void lf_host_unpin(struct lf_device *dev, void *ptr);

/* Waits until all that was asked for is done. LF_DEVICE with the device's own words where something failed. */
LF_MUST_CHECK enum lf_status lf_device_sync(struct lf_device *dev, struct lf_err *err);

/* Graphs: a sequence of ops recorded once and replayed with one launch. The ops between begin and end are not run.
 * Uploads cannot be recorded: a graph reads its inputs from addresses that are filled before each launch.
 * lf_graph_begin is false where the device has no graphs (a CPU): the ops then simply run, and end returns NULL. */
struct lf_graph;
bool lf_graph_begin(struct lf_device *dev);
struct lf_graph *lf_graph_end(struct lf_device *dev); /* NULL too where recording failed: the device then is in error */
void lf_graph_launch(struct lf_device *dev, struct lf_graph *graph);
void lf_graph_destroy(struct lf_device *dev, struct lf_graph *graph); /* accepts NULL */

#endif
