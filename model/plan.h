/* The memory plan: how many bytes a configuration takes, before a weight is read.
 *
 * A closed formula over config.json, the safetensors headers and the options; serve allocates exactly what it says, and
 * refuses with its numbers when that does not fit. Pure: no device memory is touched. */
#ifndef LF_MODEL_PLAN_H
#define LF_MODEL_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"
#include "core/str.h"
#include "device/device.h"
#include "device/ops.h"
#include "kv/kv_layout.h"
#include "model/hparams.h"

enum { LF_CTX_AUTO = -1, LF_WEIGHTS_NAME_BYTES = LF_FORMAT_NAME_BYTES + 16 };

struct lf_plan_opts {
    int ctx;               /* --ctx, tokens; 0: the model's max_positions; LF_CTX_AUTO: as much of that as fits */
    int chunk;             /* --chunk, tokens of one step at most; 0: default */
    int max_seqs;          /* --max-seqs; 0: default, or fewer where their states would take much of the memory */
    int max_out;           /* logits rows of one step; 0: max_seqs */
    int fitting_ctx;       /* the largest ctx that fits, where the caller knows better; 0: searched for */
    uint64_t other_memory; /* a memory_bytes with which it fits, where the caller knows better; 0: its total */
    int concurrency;       /* --concurrency, requests of ctx tokens that must fit at once; 0: 1 */
    uint64_t memory_bytes; /* --memory, for everything; 0: decided from what is available */
    int n_snapshots;       /* --snapshots, states that are kept beside those of running sequences; 0: default */
    bool no_prefix_cache;  /* nothing is kept for later: a spare slot is enough */
    uint64_t kv_tokens;    /* --kv-tokens: a cache for so many tokens, of requests of ctx; 0: what memory gives */
    struct lf_format weight_format; /* of the layers' matrices: what the plan calls them */
    bool quantized;                 /* they have it by --quantize */
    enum lf_dtype kv_dtype;
    uint64_t host_bytes; /* what the process needs beside the model: program, tokenizer, tables (caller's sum) */
    uint64_t text_bytes; /* beside that, at most, for what clients send and read; taken when it is needed */
    /* Blocks on disk (--cache-dir): memory of their index, and what the disk then holds. */
    uint64_t disk_index_bytes, disk_tokens, disk_bytes;
    /* Memory of the host below a GPU's cache (--cache-memory), and what it then holds. */
    uint64_t below_tokens, below_bytes;
    int n_blocks;      /* of the cache, exactly: of a rank whose rank 0 has planned; 0: kv_tokens */
    bool ranks_apart;  /* ranks of CPUs are processes: the plan is of one of them */
    bool is_forecast;  /* of more GPUs than may run together */
    bool no_fusion;    /* --no-fusion: the plain ops alone */
    bool cache_groups; /* layers with windows keep the last tokens alone (kv/kv_layout.h); else all do */
};

/* Requests for which memory has room with a KV cache of each type, however many may run at once. */
struct lf_plan_requests {
    int tokens; /* of each: 128K, or ctx where that is less */
    enum lf_dtype plain;
    int n_plain, n_fp8; /* -1: not on this device */
};

struct lf_plan {
    char device[LF_DEVICE_NAME + 8]; /* "cpu, avx512-bf16", "cuda, NVIDIA H100 80GB HBM3" */
    bool is_described;               /* the device is not there: context_bytes is an assumption */
    bool is_auto_ctx;                /* ctx is what fits */
    bool no_fusion, cache_groups;
    bool ranks_apart;
    int ctx, chunk, max_seqs, max_out;
    enum lf_dtype kv_dtype;
    struct lf_format weight_format; /* of most of the layers' matrices */
    bool quantized;
    uint64_t weight_bytes;    /* packed, on the device */
    uint64_t workspace_bytes; /* activations, attention workspace, rope table, logits: no function of the prompt */
    uint64_t rope_bytes, attn_bytes, act_bytes, logits_bytes; /* its parts */
    uint64_t host_bytes, text_bytes;                          /* 0 on a GPU: not of its memory */
    uint64_t context_bytes;                                   /* of a GPU's memory, in use before; not in the total */
    uint64_t kv_block_bytes;
    uint64_t kv_token_bytes; /* of each token of a long request, on a rank: windows do not grow with it */
    int n_blocks;
    int n_step_blocks;    /* of these for the tokens of a step before windows let go of others; 0: no windows */
    int n_request_blocks; /* and that a request of ctx tokens takes */
    uint64_t kv_tokens;   /* that all of them hold, of requests of ctx */
    uint64_t kv_bytes;
    /* States (kv/kv_layout.h), behind the blocks: a slot for each sequence that may run (lf_batch_n_slots), and
     * snapshots. All 0 where no layer has one. */
    struct lf_kv_states states;
    uint64_t slot_bytes;
    int n_slots, n_snapshots; /* the second of the first */
    uint64_t state_bytes;     /* of all slots */
    int max_seqs_before;      /* what max_seqs is by default, where it was lowered for them; else 0 */
    int n_groups;
    struct lf_kv_group groups[LF_KV_GROUPS_N];
    struct lf_kv_windows windows;                       /* of the groups */
    bool is_host;                                       /* the device's memory is the host's */
    uint64_t disk_index_bytes, disk_tokens, disk_bytes; /* of these the first is memory, of the host */
    uint64_t below_tokens, below_bytes;                 /* of the host, beside the total */
    uint64_t total_bytes;
    uint64_t available_bytes; /* what the machine has */
    uint64_t limit_bytes;     /* --memory, or what was decided */
    int n_ranks; /* weights, workspace, blocks and slots are of each; the rank whose part is the largest is meant. On
                  * GPUs, or apart, so is the total, else it is that of all */
    int n_cp;    /* of these divide contexts: of a block's tokens each has 64 */
    uint64_t comm_bytes; /* what they share; in the total */
    bool fits;
    int n_concurrent; /* requests of ctx tokens at once; where the plan does not fit, what there is memory for */
    struct lf_plan_requests requests;
    int longest_ctx;  /* tokens of the longest single request; where it does not fit, the ctx that advice names, or 0 */
    char advice[512]; /* what to change where it does not fit; "" where it does */
};

/* One group that keeps all: blocks are tokens. */
static inline bool lf_plan_is_plain(const struct lf_plan *plan)
{
    return plan->n_groups == 1 && plan->groups[0].window == 0;
}

/* LF_INVALID for options that contradict the model (ctx above max_positions). A plan that does not fit is LF_OK with
 * fits = false. weight_bytes comes from lf_weights_measure; ops are the device's, for the size of the GEMM's scratch.
 */
LF_MUST_CHECK enum lf_status lf_plan_make(struct lf_plan *out, const struct lf_hparams *hp, uint64_t weight_bytes,
                                          const struct lf_ops *ops, const struct lf_device_info *info,
                                          const struct lf_plan_opts *opts, struct lf_err *err);
/* How weights are called that are in this format: "bf16", "int8 in groups of 32, by --quantize". */
void lf_plan_name_weights(char name[LF_WEIGHTS_NAME_BYTES], const struct lf_plan *plan);
/* For people, and as one JSON object. */
void lf_plan_print(const struct lf_plan *plan, const struct lf_hparams *hp, struct lf_buf *out);
void lf_plan_print_json(const struct lf_plan *plan, const struct lf_hparams *hp, struct lf_buf *out);

#endif
