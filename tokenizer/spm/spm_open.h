/* The sentencepiece side of a tokenizer, for tokenizer.c. */
#ifndef LF_TOKENIZER_SPM_SPM_OPEN_H
#define LF_TOKENIZER_SPM_SPM_OPEN_H

#include "tokenizer/tokenizer_impl.h"

/* Fills tok from dir/tokenizer.model; what is there on failure, close takes. LF_NOT_FOUND where there is no such file.
 */
LF_MUST_CHECK enum lf_status lf_tokenizer_open_spm(struct lf_tokenizer *tok, const char *dir,
                                                   const struct lf_tokenizer_config *config, struct lf_err *err);
LF_MUST_CHECK enum lf_status lf_tokenizer_encode_spm(const struct lf_tokenizer *tok, struct lf_encode_work *work,
                                                     const struct lf_added_search *search);

#endif
