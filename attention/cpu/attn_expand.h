/* A page of FP8 as the bf16 page that the kernels read, in a task's scratch. Inside attention/ only.
 *
 * A task expands each page once and all its query rows read the copy from the first-level cache, so a long prompt pays
 * a fraction of its products for it, and a kernel for bf16 is a kernel for FP8. Numbers are exact (kv/kv_fp8.h). */
#ifndef LF_ATTENTION_CPU_ATTN_EXPAND_H
#define LF_ATTENTION_CPU_ATTN_EXPAND_H

#include "kv/kv_view.h"

/* out: [64 · head_dim] bf16 in the order of a CPU, aligned to 64 bytes. ahead: a page to fetch meanwhile, or NULL. */
typedef void lf_attn_expand_fn(int head_dim, enum lf_kv_part part, const uint8_t *page, const uint8_t *ahead,
                               uint16_t *out);

lf_attn_expand_fn lf_attn_expand_c;
#if defined(__x86_64__)
lf_attn_expand_fn lf_attn_expand_avx2; /* of AVX-512 and AMX too */
#endif

#endif
