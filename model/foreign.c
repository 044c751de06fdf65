/* By the names that transformers gives its classes: a model's family, then the task of its head. */
#include "model/foreign.h"

#include "core/check.h"

#define SPEECH  "a speech or audio model"
#define IMAGE   "an image model"
#define LABELS  "an encoder or classifier, which labels text and writes none"
#define ENCODER "an encoder-decoder model"

/* The first row whose part stands in the name. */
static const struct {
    const char *part, *kind;
} kinds[] = {
    {"Whisper", SPEECH},
    {"Wav2Vec2", SPEECH},
    {"Hubert", SPEECH},
    {"Speech", SPEECH},
    {"Audio", SPEECH},
    {"Musicgen", SPEECH},
    {"ForCTC", SPEECH},
    {"CLIP", IMAGE},
    {"Siglip", IMAGE},
    {"ViT", IMAGE},
    {"Dinov", IMAGE},
    {"Image", IMAGE},
    {"Detection", IMAGE},
    {"Segmentation", IMAGE},
    {"ForMaskedLM", LABELS},
    {"ForSequenceClassification", LABELS},
    {"ForTokenClassification", LABELS},
    {"ForQuestionAnswering", LABELS},
    {"ForMultipleChoice", LABELS},
    {"ForPreTraining", LABELS},
    {"RewardModel", LABELS},
    {"ForSeq2SeqLM", ENCODER},
};

static bool is_true(struct lf_json_value root, const char *key)
{
    bool value = false;
    return lf_json_bool(lf_json_get(root, key), &value) && value;
}

static bool is_object(struct lf_json_value root, const char *key)
{
    return lf_json_type(lf_json_get(root, key)) == LF_JSON_OBJECT;
}

const char *lf_foreign_kind(struct lf_json_value root, struct lf_str architecture)
{
    for (size_t i = 0; i < LF_N_ELEMS(kinds); i++)
        if (lf_str_find(architecture, lf_str_c(kinds[i].part)) >= 0) return kinds[i].kind;
    if (is_object(root, "vision_config") || is_object(root, "audio_config"))
        return "a multimodal model, with a tower for images or sound beside its text part,";
    if (is_true(root, "is_encoder_decoder")) return ENCODER;
    if (lf_str_ends(architecture, LF_STR("ForConditionalGeneration"))) return "an encoder-decoder or multimodal model";
    if (lf_str_ends(architecture, LF_STR("Model")) && lf_str_find(architecture, LF_STR("LMHead")) < 0)
        return "a bare model without a head that predicts tokens, most likely for embeddings,";
    return "";
}

/* "gptq, 4 bits", "compressed-tensors, pack-quantized": the words of the file. */
static void describe(struct lf_json_value q, struct lf_buf *out)
{
    static const char *const keys[] = {"quant_method", "format", "fmt"};
    int64_t bits;
    for (size_t i = 0; i < LF_N_ELEMS(keys); i++) {
        struct lf_json_value v = lf_json_get(q, keys[i]);
        struct lf_str raw = lf_json_raw(v);
        if (lf_json_type(v) != LF_JSON_STRING) continue;
        lf_buf_printf(out, "%s%.*s", out->len ? ", " : "", (int)LF_MIN(raw.len, 40u), raw.ptr);
    }
    struct lf_json_value v = lf_json_get(q, "bits");
    if (lf_json_is_absent(v)) v = lf_json_get(q, "w_bit");
    if (lf_json_int64(v, &bits)) lf_buf_printf(out, "%s%lld bits", out->len ? ", " : "", (long long)bits);
    if (is_true(q, "load_in_4bit") || is_true(q, "load_in_8bit"))
        lf_buf_printf(out, ", %s", is_true(q, "load_in_4bit") ? "4 bits" : "8 bits");
}

enum lf_status lf_foreign_quantization(struct lf_json_value q, const char *key, const char *known, struct lf_err *err)
{
    struct lf_buf what;
    lf_buf_init(&what, 160);
    describe(q, &what);
    enum lf_status status = lf_fail(
        err, LF_UNSUPPORTED,
        "%s: quantized weights (%s%s) are not implemented (%s); expected one of those, or the model that they were "
        "made from, in bfloat16, float16 or float32",
        key, strcmp(key, "quantization") == 0 ? "MLX, " : "",
        what.len > 0 ? lf_buf_view(&what).ptr : "of an unnamed format", known);
    lf_buf_deinit(&what);
    return status;
}
