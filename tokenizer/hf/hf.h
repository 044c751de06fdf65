/* A tokenizer.json: added tokens, normalizer, pre-tokenizer, model, post-processor, decoder, as Hugging Face's
 * tokenizers library runs them. What is not implemented is refused by name when the file is opened. */
#ifndef LF_TOKENIZER_HF_HF_H
#define LF_TOKENIZER_HF_HF_H

#include "tokenizer/hf/bpe.h"
#include "tokenizer/hf/normalize.h"
#include "tokenizer/hf/pretokenize.h"
#include "tokenizer/tokenizer_impl.h"

struct lf_hf {
    struct lf_normalizer normalizer;
    struct lf_pretokenizer pretokenizer;
    struct lf_bpe bpe;
};

/* Fills tok from dir/tokenizer.json; what is there on failure, close takes. LF_NOT_FOUND where there is no such file.
 */
LF_MUST_CHECK enum lf_status lf_tokenizer_open_hf(struct lf_tokenizer *tok, const char *dir,
                                                  const struct lf_tokenizer_config *config, struct lf_err *err);
/* The same from vocab.json and merges.txt (vocab_merges.h). */
LF_MUST_CHECK enum lf_status lf_tokenizer_open_vocab_merges(struct lf_tokenizer *tok, const char *dir,
                                                            const struct lf_tokenizer_config *config,
                                                            struct lf_err *err);
void lf_hf_free(struct lf_hf *hf); /* accepts NULL */
LF_MUST_CHECK enum lf_status lf_tokenizer_encode_hf(const struct lf_tokenizer *tok, struct lf_encode_work *work,
                                                    const struct lf_added_search *search);

/* The parts of the file that become fields of tok. */
LF_MUST_CHECK enum lf_status lf_hf_open_decoder(struct lf_tokenizer *tok, struct lf_json_value v, struct lf_err *err);
/* Needs the vocabulary. */
LF_MUST_CHECK enum lf_status lf_hf_open_post(struct lf_tokenizer *tok, struct lf_json_value v, struct lf_err *err);

#endif
