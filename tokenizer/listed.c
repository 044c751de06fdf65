/* Tokens that a model's files list beside its vocabulary: their place in it, and in the matcher of added tokens. */
#include "core/check.h"
#include "tokenizer/tokenizer_impl.h"

enum lf_status lf_tokenizer_match(struct lf_tokenizer *tok, struct lf_added_index *index,
                                  const struct lf_added_token *token, struct lf_str find, struct lf_err *err)
{
    int32_t at = index->by_id[token->id] - 1;
    if (token->special) tok->vocab.flags[token->id] |= LF_TOKEN_SPECIAL;
    if (at >= 0) {
        tok->added.tokens[at].special |= token->special;
        tok->added.tokens[at].named |= token->named;
        if (tok->added.tokens[at].special && tok->added.tokens[at].normalized) tok->added.normalized_specials = true;
        return LF_OK;
    }
    tok->vocab.flags[token->id] |= LF_TOKEN_ADDED;
    LF_TRY(lf_added_insert(&tok->added, token, find, err));
    index->by_id[token->id] = tok->added.n_tokens;
    return LF_OK;
}

enum lf_status lf_tokenizer_place_listed(struct lf_tokenizer *tok, const struct lf_listed_token *t, bool override,
                                         int32_t *id, struct lf_err *err)
{
    int32_t known = lf_vocab_find(&tok->vocab, t->text);
    if (known >= 0 && t->id >= 0 && known != t->id)
        return lf_fail(err, LF_CORRUPT, "token \"%.*s\" has the ids %d and %lld", (int)LF_MIN(t->text.len, 64u),
                       t->text.ptr, known, (long long)t->id);
    *id = known >= 0 ? known : (int32_t)t->id;
    if (known >= 0 || t->id < 0) return LF_OK;
    return override ? lf_vocab_replace(&tok->vocab, *id, t->text, 0, err)
                    : lf_vocab_add(&tok->vocab, *id, t->text, 0, err);
}
