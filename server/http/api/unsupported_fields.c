#include "server/http/api/unsupported_fields.h"

#include "core/check.h"
#include "server/http/api/openai_request.h"

enum { GEN = LF_ASK_COMPLETION | LF_ASK_CHAT, TALK = LF_ASK_CHAT | LF_ASK_TOKENIZE | LF_ASK_TEMPLATE };
enum {
    NONE = LF_NEUTRAL_NONE,
    FALSE = LF_NEUTRAL_FALSE,
    TRUE = LF_NEUTRAL_TRUE,
    ZERO = LF_NEUTRAL_ZERO,
    ONE = LF_NEUTRAL_ONE,
    MINUS_ONE = LF_NEUTRAL_MINUS_ONE,
    EMPTY = LF_NEUTRAL_EMPTY,
    DISABLED = LF_NEUTRAL_DISABLED,
    ANY = LF_NEUTRAL_ANY
};

static const struct lf_unsupported_field rows[] = {
    /* OpenAI: of no effect on the text of an answer */
    {.name = "user", .asks = GEN, .neutral = ANY},
    {.name = "metadata", .asks = GEN, .neutral = ANY},
    {.name = "store", .asks = GEN, .neutral = ANY},
    {.name = "service_tier", .asks = GEN, .neutral = ANY},
    {.name = "safety_identifier", .asks = GEN, .neutral = ANY},
    {.name = "prompt_cache_key", .asks = GEN, .neutral = ANY},
    {.name = "prompt_cache_retention", .asks = GEN, .neutral = ANY},
    {.name = "prompt_cache_options", .asks = GEN, .neutral = ANY},
    {.name = "moderation", .asks = GEN, .neutral = ANY},
    {.name = "parallel_tool_calls", .asks = LF_ASK_COMPLETION, .neutral = ANY},

    /* OpenAI: tools, forms of the answer, other media */
    {.name = "tools", .asks = LF_ASK_COMPLETION, .neutral = EMPTY, .instead = "/v1/chat/completions"},
    {.name = "tool_choice", .asks = LF_ASK_COMPLETION, .neutral = DISABLED, .instead = "/v1/chat/completions"},
    {.name = "suffix", .asks = GEN, .neutral = EMPTY},
    {.name = "audio", .asks = GEN, .neutral = NONE},
    {.name = "prediction", .asks = LF_ASK_COMPLETION, .neutral = NONE, .instead = "/v1/chat/completions"},
    {.name = "web_search_options", .asks = GEN, .neutral = NONE},
    {.name = "reasoning_effort", .asks = LF_ASK_COMPLETION, .neutral = NONE, .instead = "/v1/chat/completions"},
    {.name = "verbosity", .asks = GEN, .neutral = NONE},
    {.name = "data_sources", .asks = GEN, .neutral = EMPTY},
    {.name = "top_logprobs", .asks = LF_ASK_COMPLETION, .neutral = ZERO, .instead = "logprobs"},

    /* OpenAI responses and Anthropic messages, sent to the wrong endpoint */
    {.name = "system", .asks = GEN | TALK, .neutral = EMPTY, .instead = "a message of role system"},
    {.name = "instructions", .asks = GEN | TALK, .neutral = EMPTY, .instead = "a message of role system"},
    {.name = "previous_response_id", .asks = GEN, .neutral = EMPTY},
    {.name = "conversation", .asks = GEN, .neutral = EMPTY},
    {.name = "background", .asks = GEN, .neutral = FALSE},
    {.name = "text", .asks = GEN, .neutral = EMPTY, .instead = "response_format"},
    {.name = "truncation", .asks = GEN, .neutral = DISABLED},
    {.name = "max_output_tokens", .asks = GEN, .neutral = NONE, .instead = "max_tokens"},
    {.name = "max_tokens_to_sample", .asks = GEN, .neutral = NONE, .instead = "max_tokens"},
    {.name = "stop_sequences", .asks = GEN, .neutral = EMPTY, .instead = "stop"},
    {.name = "mcp_servers", .asks = GEN, .neutral = EMPTY},
    {.name = "container", .asks = GEN, .neutral = EMPTY},
    {.name = "context_management", .asks = GEN, .neutral = EMPTY},
    {.name = "output_config", .asks = GEN, .neutral = EMPTY},
    {.name = "cache_control", .asks = GEN, .neutral = ANY},

    /* reasoning: the template decides, by its own variables */
    {.name = "enable_thinking", .asks = GEN | TALK, .neutral = NONE, .instead = "chat_template_kwargs"},
    {.name = "thinking", .asks = GEN | TALK, .neutral = NONE, .instead = "chat_template_kwargs"},
    {.name = "think", .asks = GEN | TALK, .neutral = NONE, .instead = "chat_template_kwargs"},
    {.name = "reasoning", .asks = GEN | TALK, .neutral = EMPTY, .instead = "reasoning_effort"},
    {.name = "thinking_budget", .asks = GEN, .neutral = NONE},
    {.name = "thinking_token_budget", .asks = GEN, .neutral = NONE},
    {.name = "reasoning_budget", .asks = GEN, .neutral = MINUS_ONE},
    {.name = "prompt_mode", .asks = GEN, .neutral = NONE, .instead = "chat_template_kwargs"},
    {.name = "thinking_forced_open", .asks = GEN, .neutral = FALSE},
    {.name = "reasoning_format", .asks = GEN, .neutral = DISABLED},
    /* no reasoning is split off, so there is none to include or leave out, as in vLLM without a reasoning parser */
    {.name = "include_reasoning", .asks = LF_ASK_COMPLETION, .neutral = ANY},
    {.name = "separate_reasoning", .asks = GEN, .neutral = ANY},
    {.name = "stream_reasoning", .asks = GEN, .neutral = ANY},

    /* what the prompt is made of */
    {.name = "chat_template", .asks = GEN | TALK, .neutral = NONE},
    {.name = "template", .asks = GEN | TALK, .neutral = EMPTY},
    {.name = "documents", .asks = TALK, .neutral = EMPTY},
    {.name = "add_special_tokens", .asks = LF_ASK_CHAT, .neutral = FALSE},
    {.name = "add_bos_token", .asks = GEN, .neutral = TRUE, .instead = "add_special_tokens"},
    {.name = "add_special", .asks = LF_ASK_TOKENIZE, .neutral = TRUE, .instead = "add_special_tokens"},
    {.name = "context", .asks = GEN | TALK, .neutral = EMPTY, .instead = "messages"},
    {.name = "raw", .asks = GEN | TALK, .neutral = FALSE, .instead = "/v1/completions"},
    {.name = "system_prompt", .asks = GEN | TALK, .neutral = EMPTY, .instead = "a message of role system"},
    {.name = "safe_prompt", .asks = GEN, .neutral = FALSE},
    {.name = "prompt", .asks = LF_ASK_CHAT | LF_ASK_TEMPLATE, .neutral = EMPTY, .instead = "messages"},
    {.name = "content", .asks = LF_ASK_TEMPLATE, .neutral = EMPTY, .instead = "messages"},
    {.name = "messages", .asks = LF_ASK_COMPLETION, .neutral = EMPTY, .instead = "/v1/chat/completions"},
    {.name = "inputs", .asks = GEN, .neutral = EMPTY, .instead = "prompt"},
    {.name = "input_ids", .asks = GEN, .neutral = EMPTY, .instead = "prompt"},
    {.name = "prompt_embeds", .asks = GEN, .neutral = NONE},
    {.name = "truncate_prompt_tokens", .asks = GEN, .neutral = NONE},
    {.name = "truncate", .asks = GEN, .neutral = FALSE | TRUE},
    {.name = "truncation_length", .asks = GEN, .neutral = ZERO},
    {.name = "images", .asks = GEN | TALK, .neutral = EMPTY},
    {.name = "image_data", .asks = GEN | TALK, .neutral = EMPTY},
    {.name = "video_data", .asks = GEN | TALK, .neutral = EMPTY},
    {.name = "audio_data", .asks = GEN | TALK, .neutral = EMPTY},
    {.name = "multi_modal_data", .asks = GEN | TALK, .neutral = EMPTY},
    {.name = "multimodal_data", .asks = GEN | TALK, .neutral = EMPTY},
    {.name = "mm_processor_kwargs", .asks = GEN | TALK, .neutral = EMPTY},
    {.name = "input_extra", .asks = GEN | TALK, .neutral = EMPTY},
    {.name = "input_prefix", .asks = GEN, .neutral = EMPTY},
    {.name = "input_suffix", .asks = GEN, .neutral = EMPTY},
    {.name = "negative_prompt", .asks = GEN, .neutral = EMPTY},
    {.name = "guidance_scale", .asks = GEN, .neutral = ONE},
    {.name = "tool_prompt", .asks = GEN, .neutral = EMPTY},
    {.name = "guideline", .asks = GEN, .neutral = EMPTY},
    {.name = "mode", .asks = GEN, .neutral = EMPTY},
    {.name = "character", .asks = GEN, .neutral = EMPTY},
    {.name = "instruction_template", .asks = GEN, .neutral = EMPTY},
    {.name = "preset", .asks = GEN, .neutral = EMPTY},
    {.name = "transforms", .asks = GEN, .neutral = EMPTY},
    {.name = "plugins", .asks = GEN, .neutral = EMPTY},
    {.name = "models", .asks = GEN, .neutral = EMPTY},
    {.name = "enable_search", .asks = GEN, .neutral = FALSE},

    /* which weights */
    {.name = "lora", .asks = GEN, .neutral = EMPTY},
    {.name = "lora_request", .asks = GEN, .neutral = EMPTY},
    {.name = "lora_path", .asks = GEN, .neutral = EMPTY},
    {.name = "adapter", .asks = GEN, .neutral = EMPTY},
    {.name = "adapter_id", .asks = GEN, .neutral = EMPTY},
    {.name = "adapter_source", .asks = GEN, .neutral = EMPTY},

    /* bundles of fields in one */
    {.name = "options", .asks = GEN | TALK, .neutral = EMPTY},
    {.name = "parameters", .asks = GEN | TALK, .neutral = EMPTY},

    /* constrained decoding */
    {.name = "guided_grammar", .asks = GEN, .neutral = NONE},
    {.name = "grammar", .asks = GEN, .neutral = EMPTY},
    {.name = "format", .asks = GEN, .neutral = EMPTY},
    {.name = "structural_tag", .asks = GEN, .neutral = EMPTY},
    {.name = "regex", .asks = GEN, .neutral = EMPTY},
    {.name = "ebnf", .asks = GEN, .neutral = EMPTY},
    {.name = "guided_decoding_backend", .asks = GEN, .neutral = ANY},

    /* length and end */
    {.name = "n_predict", .asks = GEN, .neutral = NONE, .instead = "max_tokens"},
    {.name = "num_predict", .asks = GEN, .neutral = NONE, .instead = "max_tokens"},
    {.name = "max_new_tokens", .asks = GEN, .neutral = NONE, .instead = "max_tokens"},
    {.name = "max_length", .asks = GEN, .neutral = NONE, .instead = "max_tokens"},
    {.name = "min_new_tokens", .asks = GEN, .neutral = ZERO, .instead = "min_tokens"},
    {.name = "min_length", .asks = GEN, .neutral = ZERO, .instead = "min_tokens"},
    {.name = "n_indent", .asks = GEN, .neutral = ZERO},
    {.name = "t_max_predict_ms", .asks = GEN, .neutral = ZERO},
    {.name = "max_time", .asks = GEN, .neutral = ZERO},
    {.name = "bad_words_ids", .asks = GEN, .neutral = EMPTY, .instead = "bad_words"},
    {.name = "banned_tokens", .asks = GEN, .neutral = EMPTY},
    {.name = "custom_token_bans", .asks = GEN, .neutral = EMPTY},
    {.name = "ban_eos_token", .asks = GEN, .neutral = FALSE, .instead = "ignore_eos"},
    {.name = "stop_regex", .asks = GEN, .neutral = EMPTY},
    {.name = "no_stop_trim", .asks = GEN, .neutral = FALSE},
    {.name = "eos_token_id", .asks = GEN, .neutral = NONE, .instead = "stop_token_ids"},
    {.name = "repetition_detection", .asks = GEN, .neutral = EMPTY},

    /* sampling */
    {.name = "do_sample", .asks = GEN, .neutral = TRUE, .instead = "temperature"},
    {.name = "random_seed", .asks = GEN, .neutral = NONE, .instead = "seed"},
    {.name = "n_cmpl", .asks = GEN, .neutral = ONE, .instead = "n"},
    {.name = "num_return_sequences", .asks = GEN, .neutral = ONE, .instead = "n"},
    {.name = "use_beam_search", .asks = GEN, .neutral = FALSE},
    {.name = "num_beams", .asks = GEN, .neutral = ONE},
    {.name = "early_stopping", .asks = GEN, .neutral = FALSE},
    {.name = "length_penalty", .asks = GEN, .neutral = ONE},
    {.name = "logits_processors", .asks = GEN, .neutral = EMPTY},
    {.name = "custom_logit_processor", .asks = GEN, .neutral = EMPTY},
    {.name = "custom_params", .asks = GEN, .neutral = EMPTY},
    {.name = "vllm_xargs", .asks = GEN, .neutral = EMPTY},
    {.name = "samplers", .asks = GEN, .neutral = EMPTY},
    {.name = "sampler_order", .asks = GEN, .neutral = EMPTY},
    {.name = "sampler_seed", .asks = GEN, .neutral = EMPTY},
    {.name = "repeat_penalty", .asks = GEN, .neutral = ONE, .instead = "repetition_penalty"},
    {.name = "encoder_repetition_penalty", .asks = GEN, .neutral = ONE},
    {.name = "no_repeat_ngram_size", .asks = GEN, .neutral = ZERO},
    {.name = "penalty_alpha", .asks = GEN, .neutral = ZERO},
    {.name = "penalty_prompt", .asks = GEN, .neutral = EMPTY},
    {.name = "penalize_nl", .asks = GEN, .neutral = FALSE},
    {.name = "penalize_newline", .asks = GEN, .neutral = FALSE},
    {.name = "dynamic_temperature", .asks = GEN, .neutral = FALSE},
    {.name = "dynatemp_range", .asks = GEN, .neutral = ZERO},
    {.name = "smoothing_factor", .asks = GEN, .neutral = ZERO},
    {.name = "epsilon_cutoff", .asks = GEN, .neutral = ZERO},
    {.name = "eta_cutoff", .asks = GEN, .neutral = ZERO},
    {.name = "top_n_sigma", .asks = GEN, .neutral = ZERO | MINUS_ONE},
    {.name = "mirostat", .asks = GEN, .neutral = ZERO},
    {.name = "mirostat_mode", .asks = GEN, .neutral = ZERO},
    {.name = "typical_p", .asks = GEN, .neutral = ONE},
    {.name = "typical", .asks = GEN, .neutral = ONE},
    {.name = "tfs_z", .asks = GEN, .neutral = ONE},
    {.name = "tfs", .asks = GEN, .neutral = ONE},
    {.name = "top_a", .asks = GEN, .neutral = ZERO},
    {.name = "xtc_probability", .asks = GEN, .neutral = ZERO},
    {.name = "dry_multiplier", .asks = GEN, .neutral = ZERO},
    {.name = "adaptive_target", .asks = GEN, .neutral = MINUS_ONE},
    {.name = "min_keep", .asks = GEN, .neutral = ZERO},
    {.name = "temperature_last", .asks = GEN, .neutral = FALSE},
    {.name = "watermark", .asks = GEN, .neutral = FALSE},
    /* finer points of what is refused above */
    {.name = "repeat_last_n", .asks = GEN, .neutral = ANY},
    {.name = "mirostat_tau", .asks = GEN, .neutral = ANY},
    {.name = "mirostat_eta", .asks = GEN, .neutral = ANY},
    {.name = "dynatemp_exponent", .asks = GEN, .neutral = ANY},
    {.name = "smoothing_curve", .asks = GEN, .neutral = ANY},
    {.name = "xtc_threshold", .asks = GEN, .neutral = ANY},
    {.name = "dry_base", .asks = GEN, .neutral = ANY},
    {.name = "dry_allowed_length", .asks = GEN, .neutral = ANY},
    {.name = "dry_penalty_last_n", .asks = GEN, .neutral = ANY},
    {.name = "dry_sequence_breakers", .asks = GEN, .neutral = ANY},
    {.name = "adaptive_decay", .asks = GEN, .neutral = ANY},

    /* what else comes back */
    {.name = "n_probs", .asks = GEN, .neutral = ZERO, .instead = "logprobs"},
    {.name = "top_n_tokens", .asks = GEN, .neutral = ZERO, .instead = "top_logprobs"},
    {.name = "top_logprobs_num", .asks = GEN, .neutral = ZERO, .instead = "top_logprobs"},
    {.name = "return_logprob", .asks = GEN, .neutral = FALSE, .instead = "logprobs"},
    {.name = "post_sampling_probs", .asks = GEN, .neutral = FALSE},
    {.name = "decoder_input_details", .asks = GEN, .neutral = FALSE},
    {.name = "details", .asks = GEN, .neutral = FALSE},
    {.name = "return_hidden_states", .asks = GEN, .neutral = FALSE},
    {.name = "return_full_text", .asks = GEN, .neutral = FALSE, .instead = "echo"},
    {.name = "return_tokens", .asks = GEN, .neutral = FALSE},
    {.name = "response_fields", .asks = GEN, .neutral = EMPTY},
    {.name = "detokenize", .asks = GEN, .neutral = TRUE},
    {.name = "spaces_between_special_tokens", .asks = GEN, .neutral = ANY},
    {.name = "with_pieces", .asks = LF_ASK_TOKENIZE, .neutral = FALSE},
    {.name = "return_token_strs", .asks = LF_ASK_TOKENIZE, .neutral = FALSE},

    /* where and how it is computed */
    {.name = "kv_transfer_params", .asks = GEN, .neutral = EMPTY},
    {.name = "session_params", .asks = GEN, .neutral = EMPTY},
    {.name = "cache_prompt", .asks = GEN, .neutral = ANY},
    {.name = "id_slot", .asks = GEN, .neutral = ANY},
    {.name = "slot_id", .asks = GEN, .neutral = ANY},
    {.name = "n_keep", .asks = GEN, .neutral = ANY},
    {.name = "num_keep", .asks = GEN, .neutral = ANY},
    {.name = "n_discard", .asks = GEN, .neutral = ANY},
    {.name = "num_ctx", .asks = GEN, .neutral = ANY},
    {.name = "shift", .asks = GEN, .neutral = ANY},
    {.name = "keep_alive", .asks = GEN, .neutral = ANY},
    {.name = "timings_per_token", .asks = GEN, .neutral = ANY},
    {.name = "provider", .asks = GEN, .neutral = ANY},
};
const struct lf_unsupported_table lf_unsupported_openai = {rows, (int)LF_N_ELEMS(rows), NULL, 0};

enum lf_status lf_unsupported_refuse(struct lf_api_err *err, const char *name, bool with_any_value, const char *instead)
{
    return lf_refuse(
        err, 400, name, "unsupported_parameter", "%s: not implemented%s, and ignoring it would change the answer%s%s.",
        name, with_any_value ? "" : " with this value", instead ? "; here that is " : "", instead ? instead : "");
}

static unsigned neutral_bits_of_number(struct lf_json_value v)
{
    int64_t x;
    if (!lf_json_int64(v, &x)) return NONE;
    return x == 0 ? ZERO : x == 1 ? ONE : x == -1 ? MINUS_ONE : NONE;
}

/* As which of the neutral values v would pass. */
static unsigned neutral_bits(struct lf_json_value v)
{
    switch (lf_json_type(v)) {
    case LF_JSON_FALSE:
        return FALSE;
    case LF_JSON_TRUE:
        return TRUE;
    case LF_JSON_NUMBER:
        return neutral_bits_of_number(v);
    case LF_JSON_STRING:
        if (lf_json_raw(v).len == 0) return EMPTY;
        return lf_json_string_is(v, "none") || lf_json_string_is(v, "disabled") ? DISABLED : NONE;
    case LF_JSON_ARRAY:
    case LF_JSON_OBJECT:
        return lf_json_len(v) == 0 ? EMPTY : NONE;
    default:
        return NONE;
    }
}

bool lf_unsupported_is_neutral(const struct lf_unsupported_field *field, struct lf_json_value v)
{
    return lf_json_is_absent(v) || (field->neutral & ANY) || (field->neutral & neutral_bits(v));
}
