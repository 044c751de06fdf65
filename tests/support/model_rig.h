/* A model opened for a test: device, plan, weights, KV cache, and prompts run through it in steps of any cut. */
#ifndef LF_TESTS_SUPPORT_MODEL_RIG_H
#define LF_TESTS_SUPPORT_MODEL_RIG_H

#include "kv/kv_cache.h"
#include "model/model.h"

struct model_rig {
    struct lf_device *dev;
    struct lf_hparams hp;
    struct lf_plan plan;
    struct lf_model *model;
    struct lf_kv_cache kv;
    int table_stride; /* of the tables that run is given, where the cache has several groups */
};

struct model_rig_opts {
    const char *dir;
    const char *device; /* NULL: cpu */
    enum lf_load load;
    enum lf_code quantize; /* as in lf_model_opts */
    uint64_t seed;
    int max_isa; /* an lf_isa, or -1 for the best */
    int n_threads;
    int ctx, chunk, max_seqs, max_out;
    int kv_tokens;          /* 0: one ctx */
    enum lf_dtype kv_dtype; /* of a CPU; a GPU's is that of its activations */
    const char *program;    /* as in lf_model_opts */
    bool hash_weights;
    bool ends_together; /* as in lf_model_opts */
    bool no_fusion;
    bool prefix_cache;
    bool cache_groups;                     /* as in lf_plan_opts */
    struct lf_split split;                 /* as in lf_hparams; with several ranks comm is there */
    struct lf_comm *comm;                  /* as in lf_model_opts */
    void (*change)(struct lf_hparams *hp); /* called once they are read; may be NULL */
    void (*adapt)(struct lf_device *dev);  /* called once the device is open; may be NULL */
};

/* LF_UNSUPPORTED where the machine has not that ISA. */
LF_MUST_CHECK enum lf_status model_rig_open(struct model_rig *rig, const struct model_rig_opts *opts,
                                            struct lf_err *err);
void model_rig_close(struct model_rig *rig);

/* Makes the table of the only sequence, of ctx tokens: the cache's blocks from the last on, for each of its groups. It
 * has room for n entries. */
void model_rig_fill_table(struct model_rig *rig, int32_t *blocks, int n);

/* What a step does with the state of a sequence that has a slot to itself, and leaves no marks: for batches of models
 * with states (rig->kv.states.n_layers > 0), the slot of sequence i is i. */
struct lf_state_seq model_rig_state(const struct lf_kv_seq *seq, int slot);

/* Appends ids[0..n) to a sequence that holds kv_len tokens, in steps of chunk tokens; its state has slot 0. blocks is
 * its table, or those of the cache's groups. A single token behind others is a decode token. logits: all rows [n,
 * n_vocab], or with all false the last row only. */
void model_rig_run(struct model_rig *rig, const int32_t *blocks, const int32_t *ids, int n, int kv_len, int chunk,
                   bool all, float *logits);

#endif
