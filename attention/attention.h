/* Exact attention over paged KV: one schedule a step and window, one run a layer.
 *
 * Prefill, a chunk over a long cache, decode and several new tokens a step are one mechanism: a step is a list of
 * sequences, each with n_rows new tokens at the end of kv_len cached tokens. The query heads of one KV head are packed
 * as query rows (token × group), so grouped-query attention reads each K and V page once.
 *
 *     out[t, h] = Σ_j softmax_j( scale · q[t, h] · k[j] ) · v[j]     over the keys j that position p of t may see:
 *     j <= p, and j > p - window where window > 0; scores pass through softcap · tanh(s / softcap) where softcap > 0;
 *     where sinks are given, e^sink[h] joins the denominator.
 *
 * The bits of a query row depend on its position and its keys only. Keys are cut at fixed positions into splits of
 * LF_ATTN_SPLIT; a row's result combines, in ascending order, the exact online-softmax partial results of its splits
 * (Milakov & Gimelshein 2018; Dao et al. 2022, §3.1). Whether one task combines all splits or many tasks make partial
 * results that are combined later, the same operations happen in the same order. So the schedule may distribute splits
 * as it likes: alone, in a batch, in chunks or from the prefix cache, the answer is the same. (On a GPU prefill and
 * decode tokens have splits of their own: attn_cuda.h. A token's kind does not change between those cases.)
 *
 * Where contexts are divided (kv_view.h), an object computes all queries over the keys of its stripe, which are counted
 * among themselves: tiles and splits are cut there. Results of disjoint keys combine to that of all of them,
 *
 *     out[t, h] = Σ_r e^(lse_r − lse) · out_r[t, h]     with lse = ln Σ_r e^lse_r
 *
 * where one of them is given the sinks. A row without a key in the stripe has out 0 and lse −∞ (with sinks, the sink).
 *
 * Nothing is allocated after create and nothing fails in run. One thread (the engine's) calls; kernels run on the
 * device's threads. */
#ifndef LF_ATTENTION_ATTENTION_H
#define LF_ATTENTION_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "core/dtype.h"
#include "core/status.h"
#include "device/device.h"
#include "kv/kv_view.h"

enum { LF_ATTN_SPLIT = 512 }; /* keys, on a CPU; a multiple of LF_KV_BLOCK_TOKENS */
/* Schedules in force at the same time, at most: one for each kind of layers, and of those whose few tokens at the end
 * are wanted one more. */
enum { LF_ATTN_SCHEDULES_N = 16 };

/* What the layers that share schedules have in common, and the largest step there will be. */
struct lf_attn_shape {
    int n_heads; /* query heads; a multiple of n_kv_heads */
    int n_kv_heads;
    int head_dim; /* a multiple of LF_HEAD_DIM_STEP, at most LF_HEAD_DIM */
    enum lf_dtype kv_dtype;
    int max_tokens;             /* of one step */
    int max_seqs;               /* of one step */
    int max_kv_len;             /* of one sequence */
    int max_window;             /* the longest of the schedules' windows; 0: some may have none */
    int n_schedules;            /* in force at the same time, 1 to LF_ATTN_SCHEDULES_N */
    int n_groups;               /* most cache groups that a schedule is for, at least 1 */
    struct lf_kv_stripe stripe; /* of the caches it is run with */
};

/* The layers that a schedule is for: of these cache groups, all with this window. */
struct lf_attn_kind {
    int window; /* 0: none, or layers differ: the schedule is then only less tight */
    int first_group, n_groups;
};

/* Whose rows are whose, of a context that is divided (device/comm.h): out and lse of tokens first[r] .. first[r + 1] -
 * 1 of the step go to out[r] and lse[r], as if those were the first. Addresses as this device has them. */
enum { LF_ATTN_OWNERS_N = 8 };
struct lf_attn_owners {
    int n; /* 0: all rows go to out and lse of the params */
    int first[LF_ATTN_OWNERS_N + 1];
    void *out[LF_ATTN_OWNERS_N];
    float *lse[LF_ATTN_OWNERS_N];
};

struct lf_attn_params {
    void *out;     /* [T, n_heads, head_dim], act_dtype */
    const void *q; /* [T, n_heads, head_dim], act_dtype, after RoPE */
    float *lse;    /* [T, n_heads] natural log of the denominator of out, or NULL */
    const struct lf_kv_view *kv;
    int layer;
    float scale;                  /* usually 1/√head_dim */
    float softcap;                /* 0: none */
    int window;                   /* 0: none */
    const float *sinks;           /* [n_heads] or NULL */
    struct lf_attn_owners owners; /* on a GPU, over a stripe, with lse */
};

struct lf_attn;

/* LF_UNSUPPORTED for a head_dim, dtype or number of heads no kernel of such a device takes. */
LF_MUST_CHECK enum lf_status lf_attn_check(const struct lf_attn_shape *shape, const struct lf_device_info *info,
                                           struct lf_err *err);
/* Bytes of lf_attn's workspace for a shape that lf_attn_check takes: closed formula, part of the memory plan. */
uint64_t lf_attn_workspace_bytes(const struct lf_attn_shape *shape, const struct lf_device_info *info);
/* workspace: device memory of that size, borrowed. isa: normally info->isa; less, to compare implementations.
 * LF_UNSUPPORTED where lf_attn_check or that isa's kernel says so. */
LF_MUST_CHECK enum lf_status lf_attn_create(struct lf_attn **out, struct lf_device *dev, enum lf_isa isa,
                                            const struct lf_attn_shape *shape, struct lf_buffer workspace,
                                            struct lf_err *err);
void lf_attn_destroy(struct lf_attn *attn); /* accepts NULL */

/* Makes schedule schedule_idx (0 .. n_schedules - 1) of the step. seqs and their block tables are borrowed until the
 * last run of the step. Of a sequence in decode the tokens before its new ones are of earlier steps. All schedules of a
 * step come before its first run. lf_rope_append takes the step's tokens from one too. */
void lf_attn_schedule(struct lf_attn *attn, int schedule_idx, const struct lf_kv_seq *seqs, int n_seqs,
                      struct lf_attn_kind kind);
/* A schedule without sequences, for recording a graph: its runs do nothing, but they launch whatever a step of decode
 * tokens, n_tokens of them at most, can need. n_each: of a sequence, about, for which it is fast. */
void lf_attn_record(struct lf_attn *attn, int schedule_idx, struct lf_attn_kind kind, int n_tokens, int n_each);
void lf_attn_run(struct lf_attn *attn, int schedule_idx, const struct lf_attn_params *p);

#endif
