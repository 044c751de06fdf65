/* attn_expand.h for every machine: the reference. */
#include "attention/cpu/attn_expand.h"

#include "kv/kv_fp8.h"

void lf_attn_expand_c(int head_dim, enum lf_kv_part part, const uint8_t *page, const uint8_t *ahead, uint16_t *out)
{
    (void)ahead;
    struct lf_kv_view v = {.dtype = LF_E4M3, .order = LF_KV_LANES, .head_dim = head_dim};
    lf_kv_fp8_expand_page(&v, part, page, out);
}
