/* tokenize: text to ids and back on the terminal. */
#include <inttypes.h>
#include <stdio.h>

#include "core/check.h"
#include "core/json.h"
#include "model/hparams.h"
#include "model/model.h"
#include "server/commands.h"
#include "server/model_dir.h"
#include "server/text_input.h"
#include "tokenizer/tokenizer.h"

enum { TEXT_BYTES = 1 << 30 };

static enum lf_status decode(const struct lf_config *c, const struct lf_tokenizer *tok, struct lf_err *err)
{
    int32_t ids[LF_CONFIG_ARGS_N];
    if (c->n_args == 0) return lf_fail(err, LF_INVALID, "tokenize --decode: expected token ids behind it");
    for (int i = 0; i < c->n_args; i++) {
        uint64_t id;
        if (!lf_config_parse_size(c->args[i], &id) || id > INT32_MAX)
            return lf_fail(err, LF_INVALID, "expected a token id, got \"%.60s\"", c->args[i]);
        ids[i] = (int32_t)id;
    }
    struct lf_buf text;
    lf_buf_init(&text, TEXT_BYTES);
    enum lf_status status = lf_tokenizer_decode(tok, &text, ids, (size_t)c->n_args, true, NULL, err);
    if (status == LF_OK) { /* a token may stand for a NUL byte */
        lf_buf_char(&text, '\n');
        fwrite(text.ptr, 1, text.len, stdout);
    }
    lf_buf_deinit(&text);
    return status;
}

static void print_ids(const struct lf_config *c, const struct lf_tokenizer *tok, const struct lf_ids *ids)
{
    if (c->count) {
        printf("%zu\n", ids->n);
        return;
    }
    for (size_t i = 0; i < ids->n; i++) {
        struct lf_token_info info = {0};
        struct lf_buf piece;
        lf_buf_init(&piece, 64 * 1024);
        if (lf_tokenizer_token(tok, ids->ids[i], &info)) lf_json_write_string(&piece, info.text);
        printf("%" PRId32 "\t%s\n", ids->ids[i], lf_buf_view(&piece).ptr);
        lf_buf_deinit(&piece);
    }
}

static enum lf_status encode(const struct lf_config *c, const struct lf_tokenizer *tok, struct lf_err *err)
{
    struct lf_buf text;
    struct lf_ids ids = {0};
    enum lf_status status = LF_OK;
    lf_buf_init(&text, TEXT_BYTES);
    for (int i = 0; i < c->n_args; i++) {
        if (i > 0) lf_buf_char(&text, ' ');
        lf_buf_cstr(&text, c->args[i]);
    }
    if (c->n_args == 0) LF_TRY_GOTO(lf_text_read(&text, "-", TEXT_BYTES, err), done);
    unsigned flags = c->raw ? 0 : LF_ENCODE_SPECIALS | LF_ENCODE_BOS_EOS;
    LF_TRY_GOTO(lf_tokenizer_encode(tok, &ids, lf_buf_view(&text), NULL, 0, flags, 0, NULL, err), done);
    print_ids(c, tok, &ids);
done:
    lf_ids_deinit(&ids);
    lf_buf_deinit(&text);
    return status;
}

/* As the runtime does: a shape without a tokenizer has ids for texts. */
static enum lf_status open_tokenizer(struct lf_tokenizer **tok, const struct lf_config *c, struct lf_err *err)
{
    struct lf_hparams hp = {0};
    struct lf_model_dir dir;
    LF_TRY(lf_model_dir_find(&dir, c->model, err));
    enum lf_status status = lf_tokenizer_open(tok, dir.path, err);
    if (status == LF_OK) return LF_OK;
    LF_TRY(lf_model_dir_judge_tokenizer(&dir, status == LF_NOT_FOUND, err));
    if (status != LF_NOT_FOUND) return status;
    if (c->load_choice != LF_LOAD_DUMMY) return lf_model_dir_no_tokenizer(&dir, err);
    LF_TRY(lf_hparams_read(&hp, dir.path, err));
    status = lf_tokenizer_open_ids(tok, hp.n_vocab, err);
    lf_hparams_deinit(&hp);
    return status;
}

int lf_tokenize_command(const struct lf_config *config)
{
    struct lf_tokenizer *tok = NULL;
    struct lf_err err;
    if (config->decode && config->count) {
        (void)lf_fail(&err, LF_INVALID, "tokenize --count counts a text's tokens: not with --decode");
        return lf_report(&err);
    }
    if (open_tokenizer(&tok, config, &err) != LF_OK) return lf_report(&err);
    enum lf_status status = config->decode ? decode(config, tok, &err) : encode(config, tok, &err);
    lf_tokenizer_close(tok);
    return status == LF_OK ? LF_EXIT_OK : lf_report(&err);
}
