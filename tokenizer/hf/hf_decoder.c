/* "decoder" and "post_processor" of tokenizer.json. */
#include "core/check.h"
#include "tokenizer/hf/hf.h"

static enum lf_status refuse(struct lf_err *err, const char *part, struct lf_json_value type, const char *why)
{
    struct lf_str raw = lf_json_raw(type);
    return lf_fail(err, LF_UNSUPPORTED, "%s \"%.*s\"%s is not implemented", part, (int)LF_MIN(raw.len, 64u), raw.ptr,
                   why);
}

static enum lf_status add_replace(struct lf_decoder *d, const struct lf_replace *replace, struct lf_err *err)
{
    if (d->n_replaces == LF_DECODER_REPLACES_N)
        return lf_fail(err, LF_LIMIT, "more than %d replacements in the decoder", LF_DECODER_REPLACES_N);
    d->replaces[d->n_replaces++] = *replace;
    return LF_OK;
}

static enum lf_status open_replace(struct lf_tokenizer *tok, struct lf_json_value v, struct lf_err *err)
{
    struct lf_replace replace = {0};
    struct lf_json_value from = lf_json_get(lf_json_get(v, "pattern"), "String");
    if (lf_json_type(from) != LF_JSON_STRING) return refuse(err, "decoder", lf_json_get(v, "type"), " with a regex");
    LF_TRY(lf_json_keep(&replace.from, &tok->arena, from, "decoder Replace: pattern", err));
    LF_TRY(lf_json_keep(&replace.to, &tok->arena, lf_json_get(v, "content"), "decoder Replace: content", err));
    if (replace.from.len == 0)
        return lf_fail(err, LF_CORRUPT, "decoder Replace: pattern: expected a text to look for, it is empty");
    return add_replace(&tok->decoder, &replace, err);
}

/* Marks become spaces, those of the first token nothing unless the scheme is never. */
static enum lf_status open_metaspace(struct lf_tokenizer *tok, struct lf_json_value v, struct lf_err *err)
{
    struct lf_replace replace = {.to = LF_STR(" ")};
    bool prefix = true;
    struct lf_json_value scheme = lf_json_get(v, "prepend_scheme");
    LF_TRY(lf_json_keep_letter(&replace.from, &tok->arena, lf_json_get(v, "replacement"),
                               "decoder Metaspace: replacement", err));
    (void)lf_json_bool(lf_json_get(v, "add_prefix_space"), &prefix);
    if (!lf_json_is_absent(scheme)) prefix = !lf_json_string_is(scheme, "never");
    if (prefix) LF_TRY(add_replace(&tok->decoder, &(struct lf_replace){replace.from, LF_STR(""), true}, err));
    return add_replace(&tok->decoder, &replace, err);
}

/* Dropped at the beginning of the whole text, so only behind Fuse; at the end it would hold text back for ever. */
static enum lf_status open_strip(struct lf_tokenizer *tok, struct lf_json_value v, bool fused, struct lf_err *err)
{
    int64_t start = 0, stop = 0;
    struct lf_str content;
    struct lf_json_value type = lf_json_get(v, "type");
    LF_TRY(lf_json_keep(&content, &tok->arena, lf_json_get(v, "content"), "decoder Strip: content", err));
    (void)lf_json_int64(lf_json_get(v, "start"), &start);
    (void)lf_json_int64(lf_json_get(v, "stop"), &stop);
    if (!fused || stop != 0 || tok->decoder.n_strip > 0) return refuse(err, "decoder", type, " in this place");
    if (content.len == 0 || content.len >= sizeof tok->decoder.strip || start < 0 || start > 1024)
        return lf_fail(err, LF_CORRUPT, "decoder Strip: one letter, and a number of them, are expected");
    memcpy(tok->decoder.strip, content.ptr, content.len);
    tok->decoder.n_strip = (int)start;
    return LF_OK;
}

static enum lf_status open_step(struct lf_tokenizer *tok, struct lf_json_value v, bool *fused, struct lf_err *err)
{
    struct lf_json_value type = lf_json_get(v, "type");
    struct lf_decoder *d = &tok->decoder;
    if (lf_json_string_is(type, "Strip")) return open_strip(tok, v, *fused, err);
    if (*fused) return refuse(err, "decoder", type, " behind Fuse");
    if (lf_json_string_is(type, "Fuse")) {
        *fused = true;
        return LF_OK;
    }
    if (d->byte_fallback) return refuse(err, "decoder", type, " behind ByteFallback");
    if (lf_json_string_is(type, "ByteFallback")) {
        d->byte_fallback = true;
        return LF_OK;
    }
    if (lf_json_string_is(type, "Replace")) return open_replace(tok, v, err);
    if (lf_json_string_is(type, "Metaspace")) return open_metaspace(tok, v, err);
    return refuse(err, "decoder", type, "");
}

enum lf_status lf_hf_open_decoder(struct lf_tokenizer *tok, struct lf_json_value v, struct lf_err *err)
{
    struct lf_json_value type = lf_json_get(v, "type");
    tok->decoder = (struct lf_decoder){.kind = LF_DECODER_STEPS};
    if (lf_json_is_absent(v)) {
        tok->decoder.kind = LF_DECODER_JOIN;
        return LF_OK;
    }
    bool fused = false, sequence = lf_json_string_is(type, "Sequence");
    struct lf_json_value list = lf_json_get(v, "decoders");
    if (sequence && lf_json_type(list) != LF_JSON_ARRAY)
        return lf_fail(err, LF_CORRUPT, "decoder Sequence: a list is expected, not %s", lf_json_type_name(list));
    if (sequence && lf_json_len(list) == 1) return lf_hf_open_decoder(tok, lf_json_first(list), err);
    if (lf_json_string_is(type, "ByteLevel")) {
        tok->decoder.kind = LF_DECODER_BYTE_LEVEL;
        tok->decoder.lossy = true;
        return LF_OK;
    }
    if (!sequence) return open_step(tok, v, &fused, err);
    for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it))
        LF_TRY(open_step(tok, it, &fused, err));
    return LF_OK;
}

/* The ids of one special token of a template. */
static enum lf_status template_ids(const struct lf_tokenizer *tok, struct lf_ids *out, struct lf_json_value specials,
                                   struct lf_json_value name, struct lf_err *err)
{
    for (struct lf_json_value it = lf_json_first(specials); lf_json_more(specials, it);
         it = lf_json_next(specials, it)) {
        if (!lf_str_eq(lf_json_raw(it), lf_json_raw(name))) continue;
        struct lf_json_value ids = lf_json_get(lf_json_member(it), "ids");
        for (struct lf_json_value id = lf_json_first(ids); lf_json_more(ids, id); id = lf_json_next(ids, id)) {
            int64_t n;
            if (!lf_json_int64(id, &n) || n < 0 || n >= LF_VOCAB_N || !lf_vocab_has(&tok->vocab, (int32_t)n))
                return lf_fail(err, LF_CORRUPT, "post_processor: the template names an id without a token");
            if (out->n == LF_TOKENS_AROUND_N)
                return lf_fail(err, LF_LIMIT, "post_processor: the template has more than %d tokens",
                               LF_TOKENS_AROUND_N);
            if (lf_ids_push(out, (int32_t)n) != LF_OK) return lf_fail(err, LF_NO_MEMORY, "no memory for the template");
        }
        return LF_OK;
    }
    return lf_fail(err, LF_CORRUPT, "post_processor: the template names a token that it does not define");
}

static enum lf_status keep_ids(struct lf_tokenizer *tok, const struct lf_ids *ids, const int32_t **out, size_t *n,
                               struct lf_err *err)
{
    *out = NULL;
    *n = ids->n;
    if (ids->n == 0) return LF_OK;
    int32_t *kept = lf_arena_array(&tok->arena, ids->n, sizeof *kept);
    if (!kept) return lf_fail(err, LF_NO_MEMORY, "no memory for the template");
    memcpy(kept, ids->ids, ids->n * sizeof *kept);
    *out = kept;
    return LF_OK;
}

static enum lf_status read_template(struct lf_tokenizer *tok, struct lf_json_value v, struct lf_ids *before,
                                    struct lf_ids *after, struct lf_err *err)
{
    struct lf_json_value single = lf_json_get(v, "single"), specials = lf_json_get(v, "special_tokens");
    bool behind = false;
    int n_names = 0; /* each is looked for among all that are defined, so it cannot be any number */
    for (struct lf_json_value it = lf_json_first(single); lf_json_more(single, it); it = lf_json_next(single, it)) {
        struct lf_json_value special = lf_json_get(it, "SpecialToken");
        if (lf_json_type(special) != LF_JSON_OBJECT) {
            behind = true;
            continue;
        }
        if (++n_names > 2 * LF_TOKENS_AROUND_N)
            return lf_fail(err, LF_LIMIT, "post_processor: the template names more than %d tokens",
                           2 * LF_TOKENS_AROUND_N);
        LF_TRY(template_ids(tok, behind ? after : before, specials, lf_json_get(special, "id"), err));
    }
    if (!behind) return lf_fail(err, LF_CORRUPT, "post_processor: the template has no place for the text");
    LF_TRY(keep_ids(tok, before, &tok->before, &tok->n_before, err));
    return keep_ids(tok, after, &tok->after, &tok->n_after, err);
}

enum lf_status lf_hf_open_post(struct lf_tokenizer *tok, struct lf_json_value v, struct lf_err *err)
{
    struct lf_json_value type = lf_json_get(v, "type");
    if (lf_json_is_absent(v) || lf_json_string_is(type, "ByteLevel")) return LF_OK;
    if (lf_json_string_is(type, "Sequence")) {
        struct lf_json_value list = lf_json_get(v, "processors");
        for (struct lf_json_value it = lf_json_first(list); lf_json_more(list, it); it = lf_json_next(list, it))
            LF_TRY(lf_hf_open_post(tok, it, err)); /* as deep as the file: JSON's limit bounds it */
        return LF_OK;
    }
    if (!lf_json_string_is(type, "TemplateProcessing")) return refuse(err, "post_processor", type, "");
    if (tok->n_before + tok->n_after > 0) return refuse(err, "post_processor", type, ", twice,");
    struct lf_ids before = {0}, after = {0};
    enum lf_status status = read_template(tok, v, &before, &after, err);
    lf_ids_deinit(&before);
    lf_ids_deinit(&after);
    return status;
}
