/* What a backend of attention fills in behind attention.h. Inside attention/ only. */
#ifndef LF_ATTENTION_ATTN_IMPL_H
#define LF_ATTENTION_ATTN_IMPL_H

#include "attention/attention.h"
#include "attention/rope.h"

/* The arguments of lf_attn_schedule or lf_attn_record. */
struct lf_attn_schedule {
    bool made;
    const struct lf_kv_seq *seqs; /* borrowed */
    int n_seqs;
    int n_tokens; /* of all of them; recorded: at most */
    struct lf_attn_kind kind;
    int records; /* lf_attn_record's n_each; 0: it has sequences */
};

struct lf_attn_backend {
    /* What this device's kernels do not take, of a shape that is sound in itself. */
    enum lf_status (*check)(const struct lf_attn_shape *shape, const struct lf_device_info *info, struct lf_err *err);
    uint64_t (*workspace_bytes)(const struct lf_attn_shape *shape, const struct lf_device_info *info);
    /* The shape has passed check and the workspace is large enough. Fills everything but the head of lf_attn. */
    enum lf_status (*create)(struct lf_attn **out, struct lf_device *dev, enum lf_isa isa,
                             const struct lf_attn_shape *shape, struct lf_buffer workspace, struct lf_err *err);
    void (*destroy)(struct lf_attn *attn);
    void (*schedule)(struct lf_attn *attn, int schedule_idx);
    void (*run)(struct lf_attn *attn, int schedule_idx, const struct lf_attn_params *p);
    void (*rope_append)(struct lf_attn *attn, const struct lf_rope_append_params *p);
    /* lf_gemm_rope_append in one, or false where the backend does not; NULL where it never does. */
    bool (*gemm_rope_append)(struct lf_attn *attn, const struct lf_gemm_params *gemm,
                             const struct lf_rope_append_params *p);
};

/* The head of every backend's own struct. */
struct lf_attn {
    const struct lf_attn_backend *backend;
    struct lf_device *dev;
    struct lf_attn_shape shape;
    struct lf_attn_schedule schedules[LF_ATTN_SCHEDULES_N];
};

extern const struct lf_attn_backend lf_attn_backend_cpu;
#ifdef LF_HAVE_CUDA
extern const struct lf_attn_backend lf_attn_backend_cuda;
#endif

#endif
