/* What sentencepiece models make of a code point that no piece writes. */
#include "core/check.h"
#include "tokenizer/spm/spm.h"

enum lf_status lf_spm_push_unknown(const struct lf_spm *spm, struct lf_encode_work *work, struct lf_str text)
{
    if (spm->byte_fallback) {
        for (size_t i = 0; i < text.len; i++) LF_TRY(lf_encode_push(work, spm->bytes[(uint8_t)text.ptr[i]]));
        return LF_OK;
    }
    if (!work->after_unknown) LF_TRY(lf_encode_push(work, spm->unk));
    work->after_unknown = true;
    return LF_OK;
}
