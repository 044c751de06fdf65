#include "server/http/api/openai_request.h"

#include "core/check.h"
#include "server/http/api/bad_words.h"
#include "server/http/api/prediction.h"
#include "server/http/api/messages.h"
#include "server/http/api/shown.h"
#include "server/http/api/speculate.h"
#include "server/http/api/tools.h"
#include "server/http/api/unsupported_fields.h"
#include "template/chat_template.h"

enum { GEN = LF_ASK_COMPLETION | LF_ASK_CHAT, TEXT = LF_ASK_COMPLETION | LF_ASK_TOKENIZE };
enum { TALK = LF_ASK_CHAT | LF_ASK_TOKENIZE | LF_ASK_TEMPLATE, ALL = GEN | TALK | LF_ASK_DETOKENIZE };

static lf_read_fn read_prompt, read_messages, read_tokens, read_template_vars, read_stream_options, read_logit_bias,
    read_stop_token_ids, read_allowed_token_ids, read_cache_salt, read_seed, read_completion_logprobs, read_request_id,
    read_generation_prompt, read_modalities;

#define AT(member) LF_ASK_AT(member)

_Static_assert(LF_CHOICES_N == 8, "what the help of n says");
_Static_assert(LF_BAD_WORD_BYTES == 1024, "what the type of bad_words says");
_Static_assert(LF_CACHE_SALT_BYTES == 256, "what the type of cache_salt says");

/* What is implemented, and what a function must look at to say that it is not. The rest is in unsupported_fields.c. */
static const struct lf_field fields[] = {
    {.name = "model",
     .asks = ALL,
     .kind = LF_FIELD_READ,
     .read = lf_ask_read_model,
     .type = "string",
     .help = "the model's id; there is one, and it may be left out"},
    {.name = "prompt",
     .asks = TEXT,
     .kind = LF_FIELD_READ,
     .read = read_prompt,
     .type = "string, array of strings, of token ids, or of arrays of token ids",
     .help = "the text to go on from; several are answered as choices of one request. /tokenize takes a string"},
    {.name = "content",
     .asks = LF_ASK_TOKENIZE,
     .kind = LF_FIELD_READ,
     .read = read_prompt,
     .type = "string",
     .help = "another name of `prompt`"},
    {.name = "messages",
     .asks = TALK,
     .kind = LF_FIELD_READ,
     .read = read_messages,
     .range = {1, LF_MESSAGES_N},
     .type = "array of objects",
     .help =
         "the conversation: `role` and `content`, a string or an array of parts: text, and in the user's messages "
         "documents: `{\"type\": \"file\", \"file\": {\"file_id\": \"ID\"}}` or `{\"type\": \"document\", \"name\": "
         "\"ID\"}` stand for the text of `/v1/documents/ID`. A conversation whose first message of the user's begins "
         "with one gets its `system` where it has none itself, and finds it in the cache; anywhere else it is the "
         "same text, read again"},
    {.name = "tokens",
     .asks = LF_ASK_DETOKENIZE,
     .kind = LF_FIELD_READ,
     .read = read_tokens,
     .type = "array of token ids",
     .help = "the ids whose text is asked for; needed"},
    {.name = "chat_template_kwargs",
     .asks = TALK,
     .kind = LF_FIELD_READ,
     .read = read_template_vars,
     .type = "object",
     .help = "variables of the model's chat template, such as `enable_thinking`"},
    {.name = "add_generation_prompt",
     .asks = TALK,
     .kind = LF_FIELD_READ,
     .read = read_generation_prompt,
     .type = "boolean",
     .help = "whether the rendered conversation ends where the assistant begins; true unless given"},
    {.name = "continue_final_message",
     .asks = TALK,
     .kind = LF_FIELD_BOOL,
     .at = AT(continue_final_message),
     .help =
         "the last message is the assistant's and not ended: the answer goes on from its text, which it does not "
         "repeat, and which is no part of a format that is asked for; not together with `add_generation_prompt: true`"},
    {.name = "stream",
     .asks = GEN,
     .kind = LF_FIELD_BOOL,
     .at = AT(stream),
     .help = "the answer as server-sent events, as it is made"},
    {.name = "stream_options",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = read_stream_options,
     .type = "object",
     .help =
         "`include_usage`: true or false, a last chunk with the usage; `continuous_usage_stats` with it: that of its "
         "choice in every chunk; only with `stream`"},
    {.name = "return_progress",
     .asks = GEN,
     .kind = LF_FIELD_BOOL,
     .at = AT(return_progress),
     .help = "a stream also says how much of the prompt has been read"},
    {.name = "echo",
     .asks = LF_ASK_COMPLETION,
     .kind = LF_FIELD_BOOL,
     .at = AT(echo),
     .help = "the text begins with the prompt"},
    {.name = "echo",
     .asks = LF_ASK_CHAT,
     .kind = LF_FIELD_BOOL,
     .at = AT(echo_final),
     .help = "`content` begins with the text of the last message where that is the assistant's, as with "
             "`continue_final_message`; a stream sends it first. Where it is not nothing comes before the answer. "
             "Neither stop strings nor a format look at it, and it is in no log-probabilities"},
    {.name = "add_special_tokens",
     .asks = TEXT,
     .kind = LF_FIELD_BOOL,
     .at = AT(add_special_tokens),
     .help = "BOS, and what else the tokenizer puts around a text"},
    {.name = "parse_special",
     .asks = TEXT,
     .kind = LF_FIELD_BOOL,
     .at = AT(parse_special),
     .help = "special tokens that are written in the text are recognized"},
    {.name = "logprobs",
     .asks = LF_ASK_COMPLETION,
     .kind = LF_FIELD_READ,
     .read = read_completion_logprobs,
     .range = {0, LF_TOP_LOGPROBS_N},
     .type = "integer",
     .help = "log-probabilities of the tokens, and of so many of the likeliest at each"},
    {.name = "logprobs",
     .asks = LF_ASK_CHAT,
     .kind = LF_FIELD_BOOL,
     .at = AT(chat_logprobs),
     .help = "log-probabilities of the tokens"},
    {.name = "top_logprobs",
     .asks = LF_ASK_CHAT,
     .kind = LF_FIELD_INT,
     .at = AT(top_logprobs),
     .range = {0, LF_TOP_LOGPROBS_N},
     .help = "likeliest tokens shown beside each token; only with `logprobs`"},
    {.name = "prompt_logprobs",
     .asks = GEN,
     .kind = LF_FIELD_INT,
     .at = AT(prompt_logprobs),
     .range = {0, LF_TOP_LOGPROBS_N},
     .help =
         "`prompt_logprobs`, in a conversation beside the choices, else in each: for each token of the prompt, null "
         "for the first, an object from ids to `logprob`, `rank` and `decoded_token` of the token itself and of so "
         "many of the likeliest; `rank` is 1 for the likeliest; not in streams. The prompt is computed whole, whatever "
         "the prefix cache has"},
    {.name = "return_token_ids",
     .asks = GEN,
     .kind = LF_FIELD_BOOL,
     .at = AT(return_ids),
     .help = "`prompt_token_ids`, in a conversation beside the choices, else in each, and `token_ids` of each choice, "
             "without the one that ended it; in a stream the prompt's in the first chunk, and each chunk those of its "
             "text"},
    {.name = "return_tokens_as_token_ids",
     .asks = GEN,
     .kind = LF_FIELD_BOOL,
     .at = AT(tokens_as_ids),
     .help = "tokens of `logprobs` are written as `token_id:17`"},
    {.name = "n",
     .asks = GEN,
     .kind = LF_FIELD_INT,
     .at = AT(n),
     .range = {1, 128},
     .help = "choices; beyond 8 the server refuses"},
    {.name = "best_of",
     .asks = GEN,
     .kind = LF_FIELD_INT,
     .at = AT(best_of),
     .range = {1, 128},
     .help = "must equal `n`: nothing is ranked"},
    {.name = "max_tokens",
     .asks = GEN,
     .kind = LF_FIELD_INT,
     .at = AT(max_tokens),
     .range = {0, LF_CONTEXT_TOKENS},
     .help = "longest answer; without it what is left of the context, in /v1/completions 16"},
    {.name = "max_completion_tokens",
     .asks = GEN,
     .kind = LF_FIELD_INT,
     .at = AT(max_completion_tokens),
     .range = {0, LF_CONTEXT_TOKENS},
     .help = "another name of `max_tokens`; if both are given they must agree"},
    {.name = "min_tokens",
     .asks = GEN,
     .kind = LF_FIELD_INT,
     .at = AT(min_tokens),
     .range = {0, LF_CONTEXT_TOKENS},
     .help = "no end before so many tokens, but where a format leaves nothing else"},
    {.name = "ignore_eos",
     .asks = GEN,
     .kind = LF_FIELD_BOOL,
     .at = AT(ignore_eos),
     .help = "goes on past the model's end token, but where a format leaves nothing else"},
    {.name = "temperature",
     .asks = GEN,
     .kind = LF_FIELD_FLOAT,
     .at = AT(sampling.temperature),
     .range = {0, 2},
     .help = "0: the likeliest token each time"},
    {.name = "top_p",
     .asks = GEN,
     .kind = LF_FIELD_FLOAT,
     .at = AT(sampling.top_p),
     .range = {0, 1},
     .help = "only the likeliest tokens that together have this probability"},
    {.name = "min_p",
     .asks = GEN,
     .kind = LF_FIELD_FLOAT,
     .at = AT(sampling.min_p),
     .range = {0, 1},
     .help = "only tokens with at least this share of the likeliest one's probability"},
    {.name = "top_k",
     .asks = GEN,
     .kind = LF_FIELD_INT,
     .at = AT(top_k),
     .range = {-1, LF_VOCAB_N},
     .help = "only so many of the likeliest tokens; 0 and -1: all"},
    {.name = "presence_penalty",
     .asks = GEN,
     .kind = LF_FIELD_FLOAT,
     .at = AT(sampling.presence_penalty),
     .range = {-2, 2},
     .help = "subtracted from the logit of every token that the answer has already"},
    {.name = "frequency_penalty",
     .asks = GEN,
     .kind = LF_FIELD_FLOAT,
     .at = AT(sampling.frequency_penalty),
     .range = {-2, 2},
     .help = "the same, for each time that the answer has it"},
    {.name = "repetition_penalty",
     .asks = GEN,
     .kind = LF_FIELD_FLOAT,
     .at = AT(sampling.repetition_penalty),
     .range = {0.01, 100},
     .help = "divides the positive and multiplies the negative logits of tokens that prompt or answer have"},
    {.name = "seed",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = read_seed,
     .type = "integer of 64 bits",
     .help = "the same seed and request give the same answer; without it each request has another"},
    {.name = "logit_bias",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = read_logit_bias,
     .range = {0, LF_LOGIT_BIAS_N},
     .type = "object from token ids to numbers from -100 to 100",
     .help = "added to the logits"},
    {.name = "stop",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = lf_ask_read_stop,
     .range = {1, LF_STOP_N},
     .type = "string or array of strings",
     .help = "the answer ends before the first of these"},
    {.name = "include_stop_str_in_output",
     .asks = GEN,
     .kind = LF_FIELD_BOOL,
     .at = AT(include_stop),
     .help = "the answer ends behind the stop string that ended it, instead of before it"},
    {.name = "stop_token_ids",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = read_stop_token_ids,
     .range = {0, LF_STOP_TOKENS_N},
     .type = "array of token ids",
     .help = "the answer ends at the first of these"},
    {.name = "allowed_token_ids",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = read_allowed_token_ids,
     .type = "array of token ids, at least one",
     .help =
         "no other token comes, the one that ends an answer among them; not together with tools or with a format of "
         "the answer, whose tokens might all be others"},
    {.name = "bad_words",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = lf_bad_words_read,
     .range = {0, LF_BAD_WORDS_N},
     .type = "array of strings of up to 1024 bytes",
     .help = "these do not come, with and without a space before them: the last token of each is forbidden where the "
             "answer ends in the others, as in vLLM; another spelling in tokens may come. An answer of which nothing "
             "else may come next is refused"},
    {.name = "skip_special_tokens",
     .asks = GEN,
     .kind = LF_FIELD_BOOL,
     .at = AT(skip_special_tokens),
     .help =
         "control tokens are left out of the text; true unless given. Markers of reasoning and of calls, where these "
         "are split off, and the token that ended the answer are in no text anyway"},
    {.name = "request_id",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = read_request_id,
     .type = "string of 1 to 64 letters, digits, `.`, `_` and `-`",
     .help =
         "the client's own id of the request, for the answer's `id` and the header `x-request-id`; a request's header "
         "of that name does the same"},
    {.name = "cache_salt",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = read_cache_salt,
     .type = "string of 1 to 256 bytes",
     .help = "prompts with different salts share no cached document"},
    {.name = "priority",
     .asks = GEN,
     .kind = LF_FIELD_INT,
     .at = AT(priority),
     .range = {-1000000, 1000000},
     .help = "lower goes first among one tenant's requests; beyond -8 and 8 it counts as these"},
    {.name = "speculate",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = lf_speculate_read,
     .type = lf_speculate_type,
     .help = lf_speculate_help},
    {.name = "prediction",
     .asks = LF_ASK_CHAT,
     .kind = LF_FIELD_READ,
     .read = lf_prediction_read,
     .type = lf_prediction_type,
     .help = lf_prediction_help},
    {.name = "response_format",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = lf_format_read_response_format,
     .type = "object",
     .help = "what the answer is: `type` `text`, `json_object`, or `json_schema` with `json_schema`: `{\"name\": …, "
             "\"schema\": …, \"strict\": true}`; strict: objects have no members but those listed. The answer "
             "parses and meets the schema, unless `max_tokens`, a string of `stop` or one of `stop_token_ids` cuts it; "
             "JSON has no white space"},
    {.name = "structured_outputs",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = lf_format_read_structured_outputs,
     .type = "object",
     .help = "the same as one of `json` (a schema, or its text), `json_object` (true), `regex`, `choice`; beside JSON "
             "`whitespace_pattern` and `disable_additional_properties` (true: as strict). `grammar` and "
             "`structural_tag` are refused"},
    {.name = "guided_json",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = lf_format_read_schema,
     .type = "object or string",
     .help = "the answer is JSON of this schema"},
    {.name = "json_schema",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = lf_format_read_schema,
     .type = "object or string",
     .help = "another name of `guided_json`"},
    {.name = "guided_regex",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = lf_format_read_regex,
     .type = "string",
     .help = "all of the answer matches this pattern"},
    {.name = "guided_choice",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = lf_format_read_choice,
     .type = "array of strings",
     .help = "the answer is one of these"},
    {.name = "guided_whitespace_pattern",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = lf_format_read_whitespace,
     .type = "string",
     .help =
         "white space that JSON may have behind `{`, `[`, `,` and `:` and before `]` and `}`, as a pattern (of what "
         "it matches, spaces, tabs and line ends); says nothing where the answer is no JSON"},
    {.name = "tools",
     .asks = TALK,
     .kind = LF_FIELD_READ,
     .read = lf_tools_read,
     .range = {0, LF_TOOLS_N},
     .type = "array of objects",
     .help = "functions that the model may call: `{\"type\": \"function\", \"function\": {\"name\": …, "
             "\"description\": …, \"parameters\": schema, \"strict\": true}}`; the model's template writes them"},
    {.name = "tool_choice",
     .asks = LF_ASK_CHAT,
     .kind = LF_FIELD_READ,
     .read = lf_tools_read_choice,
     .type = "string or object",
     .help = "`\"auto\"` (the default beside tools), `\"none\"`, `\"required\"`, one tool: `{\"type\": \"function\", "
             "\"function\": {\"name\": …}}`, or some: `{\"type\": \"allowed_tools\", \"allowed_tools\": {\"mode\": "
             "\"auto\", \"tools\": […]}}`"},
    {.name = "parallel_tool_calls",
     .asks = LF_ASK_CHAT,
     .kind = LF_FIELD_BOOL,
     .at = AT(parallel_tool_calls),
     .help = "an answer may call more than one tool"},
    {.name = "functions",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = lf_tools_refuse_functions,
     .type = "array",
     .help = "only `[]`; say `tools`"},
    {.name = "function_call",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = lf_tools_refuse_functions,
     .type = "string",
     .help = "only `\"none\"`; say `tool_choice`"},
    {.name = "reasoning_effort",
     .asks = TALK,
     .kind = LF_FIELD_READ,
     .read = lf_tools_read_effort,
     .type = "string",
     .help =
         "none, minimal, low, medium, high, xhigh or max: a variable of the chat template, and its switch "
         "`enable_thinking`, which none turns off and all others on, unless `chat_template_kwargs` says so itself; one "
         "that looks at neither ignores it"},
    {.name = "include_reasoning",
     .asks = LF_ASK_CHAT,
     .kind = LF_FIELD_BOOL,
     .at = AT(include_reasoning),
     .help = "whether the answer shows the model's reasoning; it is made all the same"},
    {.name = "modalities",
     .asks = GEN,
     .kind = LF_FIELD_READ,
     .read = read_modalities,
     .type = "array of strings",
     .help = "only `[\"text\"]`"},
};

const struct lf_field_table lf_openai_fields = {
    .title = "OpenAI", .fields = fields, .n_fields = (int)LF_N_ELEMS(fields), .unsupported = &lf_unsupported_openai};

/* ---- the fields that need a function ---- */

static enum lf_status read_prompt(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_STRING && lf_json_type(v) != LF_JSON_ARRAY)
        return lf_ask_expected(r, name, v, "a string or an array");
    r->ask->prompt = v;
    return LF_OK;
}

static enum lf_status read_messages(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_ARRAY || lf_json_len(v) == 0)
        return lf_ask_expected(r, name, v, "an array with at least one message");
    if (lf_json_len(v) > LF_MESSAGES_N)
        return lf_refuse(r->err, 400, name, "too_many_messages", "messages: at most %d, got %u.", LF_MESSAGES_N,
                         lf_json_len(v));
    return lf_messages_read(r, v);
}

static enum lf_status read_tokens(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_ARRAY) return lf_ask_expected(r, name, v, "an array of token ids");
    r->ask->tokens = v;
    return LF_OK;
}

static enum lf_status read_template_vars(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    struct lf_json_value thinking = lf_json_get(v, "enable_thinking");
    if (lf_json_type(v) != LF_JSON_OBJECT) return lf_ask_expected(r, name, v, "an object");
    /* a model that never reasons needs no switch to be told not to */
    bool asks = lf_json_type(thinking) == LF_JSON_TRUE || lf_ask_reasons(r->limits);
    if (!lf_json_is_absent(thinking) && asks && !r->limits->template.has_thinking)
        return lf_refuse(r->err, 400, name, "unsupported_parameter",
                         "chat_template_kwargs.enable_thinking: this model's chat template has no such switch.");
    const char *taken = lf_chat_template_taken(v);
    if (taken)
        return lf_refuse(r->err, 400, name, "invalid_value",
                         "%s: a template variable cannot be called %s, which other fields set.", name, taken);
    r->ask->template_vars = v;
    return LF_OK;
}

static enum lf_status read_stream_options(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    r->ask->stream_options = true;
    if (lf_json_type(v) != LF_JSON_OBJECT) return lf_ask_expected(r, name, v, "an object");
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it)) {
        struct lf_json_value flag = lf_json_member(it);
        if (lf_json_string_is(it, "include_obfuscation") || lf_json_is_absent(flag)) continue;
        if (lf_json_string_is(it, "continuous_usage_stats")) {
            if (lf_json_bool(flag, &r->ask->continuous_usage)) continue;
            return lf_ask_expected(r, "stream_options.continuous_usage_stats", flag, "true or false");
        }
        if (!lf_json_string_is(it, "include_usage"))
            r->ask->n_unknown++;
        else if (!lf_json_bool(flag, &r->ask->include_usage))
            return lf_ask_expected(r, "stream_options.include_usage", flag, "true or false");
    }
    return LF_OK;
}

static enum lf_status read_generation_prompt(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    if (!lf_json_bool(v, &r->ask->add_generation_prompt)) return lf_ask_expected(r, name, v, "true or false");
    r->ask->generation_prompt_asked = r->ask->add_generation_prompt;
    return LF_OK;
}

static enum lf_status read_request_id(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    LF_TRY(lf_ask_text(r->ask, &r->ask->request_id, v, name, r->err));
    if (lf_is_plain_id(r->ask->request_id, LF_REQUEST_ID_BYTES)) return LF_OK;
    return lf_ask_expected(r, name, v, "1 to 64 letters, digits, dots, underscores and dashes");
}

static enum lf_status read_seed(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    if (!lf_json_int64(v, &r->ask->seed)) return lf_ask_expected(r, name, v, "an integer of 64 bits");
    r->ask->seed_given = true;
    return LF_OK;
}

static enum lf_status read_completion_logprobs(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    int64_t n;
    if (!lf_json_int64(v, &n) || n < 0 || n > LF_TOP_LOGPROBS_N)
        return lf_ask_expected(r, name, v, "an integer from 0 to 20");
    r->ask->logprobs = n;
    return LF_OK;
}

/* "123" as an id of the vocabulary: digits only, no leading zero. */
static bool id_from_name(struct lf_json_value name, int n_vocab, int32_t *out)
{
    struct lf_str s;
    int64_t id = 0;
    if (!lf_json_borrow(name, &s) || s.len == 0 || s.len > 9 || (s.len > 1 && s.ptr[0] == '0')) return false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9') return false;
        id = id * 10 + (s.ptr[i] - '0');
    }
    *out = (int32_t)id;
    return id < n_vocab;
}

static enum lf_status read_logit_bias(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    struct lf_sampling *s = &r->ask->sampling;
    if (lf_json_type(v) != LF_JSON_OBJECT) return lf_ask_expected(r, name, v, "an object from token ids to numbers");
    if (lf_json_len(v) > LF_LOGIT_BIAS_N)
        return lf_refuse(r->err, 400, name, "too_many_biases", "logit_bias: at most %d, got %u.", LF_LOGIT_BIAS_N,
                         lf_json_len(v));
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it)) {
        int32_t id;
        double bias;
        if (!id_from_name(it, r->limits->n_vocab, &id))
            return lf_refuse(r->err, 400, name, "invalid_token_id",
                             "logit_bias: expected token ids from 0 to %d, got %s.", r->limits->n_vocab - 1,
                             lf_shown_json(it).text);
        if (!lf_json_double(lf_json_member(it), &bias) || bias < -100 || bias > 100)
            return lf_ask_expected(r, name, lf_json_member(it), "numbers from -100 to 100");
        s->bias[s->n_bias++] = (struct lf_logit_bias){id, (float)bias};
    }
    return LF_OK;
}

static enum lf_status read_stop_token_ids(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    struct lf_ask *ask = r->ask;
    if (lf_json_type(v) != LF_JSON_ARRAY) return lf_ask_expected(r, name, v, "an array of token ids");
    if (lf_json_len(v) > LF_STOP_TOKENS_N)
        return lf_refuse(r->err, 400, name, "too_many_stops", "stop_token_ids: at most %d, got %u.", LF_STOP_TOKENS_N,
                         lf_json_len(v));
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it))
        LF_TRY(lf_ask_token_id(&ask->stop_tokens[ask->n_stop_tokens++], it, r->limits->n_vocab, name, r->err));
    return LF_OK;
}

static enum lf_status read_allowed_token_ids(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    struct lf_ask *ask = r->ask;
    uint32_t n = lf_json_type(v) == LF_JSON_ARRAY ? lf_json_len(v) : 0;
    if (n == 0) return lf_ask_expected(r, name, v, "an array with at least one token id");
    if (n > (uint32_t)r->limits->n_vocab)
        return lf_refuse(r->err, 400, name, "invalid_value", "%s: at most the %d ids of the vocabulary, got %u.", name,
                         r->limits->n_vocab, n);
    int32_t *ids = lf_arena_array(&ask->arena, n, sizeof *ids);
    if (!ids) return lf_refuse_work(r->err, LF_NO_MEMORY);
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it))
        LF_TRY(lf_ask_token_id(&ids[ask->n_allowed_tokens++], it, r->limits->n_vocab, name, r->err));
    ask->allowed_tokens = ids;
    return LF_OK;
}

static enum lf_status read_cache_salt(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    LF_TRY(lf_ask_text(r->ask, &r->ask->cache_salt, v, name, r->err));
    if (r->ask->cache_salt.len == 0 || r->ask->cache_salt.len > LF_CACHE_SALT_BYTES)
        return lf_refuse(r->err, 400, name, "invalid_value", "cache_salt: expected 1 to %d bytes, got %zu.",
                         LF_CACHE_SALT_BYTES, r->ask->cache_salt.len);
    return LF_OK;
}

static enum lf_status read_modalities(struct lf_reading *r, const char *name, struct lf_json_value v)
{
    if (lf_json_type(v) != LF_JSON_ARRAY) return lf_ask_expected(r, name, v, "an array of strings");
    for (struct lf_json_value it = lf_json_first(v); lf_json_more(v, it); it = lf_json_next(v, it))
        if (!lf_json_string_is(it, "text")) return lf_ask_unsupported(r, name);
    return LF_OK;
}

/* ---- what holds between fields ---- */

static enum lf_status check_lengths(struct lf_ask *ask, enum lf_ask_kind kind, struct lf_api_err *err)
{
    if (ask->max_tokens != LF_ABSENT && ask->max_completion_tokens != LF_ABSENT &&
        ask->max_tokens != ask->max_completion_tokens)
        return lf_refuse(err, 400, "max_tokens", "invalid_value",
                         "max_tokens and max_completion_tokens contradict each other.");
    const char *name = ask->max_tokens != LF_ABSENT ? "max_tokens" : "max_completion_tokens";
    if (ask->max_tokens == LF_ABSENT) ask->max_tokens = ask->max_completion_tokens;
    if (kind == LF_ASK_CHAT && ask->max_tokens == 0)
        return lf_refuse(err, 400, name, "invalid_value", "%s: expected at least 1, got 0.", name);
    if (ask->max_tokens != LF_ABSENT && ask->min_tokens > ask->max_tokens)
        return lf_refuse(err, 400, "min_tokens", "invalid_value",
                         "min_tokens: more than the largest length asked for.");
    return LF_OK;
}

static enum lf_status check_together(struct lf_ask *ask, enum lf_ask_kind kind, const struct lf_ask_limits *limits,
                                     struct lf_api_err *err)
{
    LF_TRY(check_lengths(ask, kind, err));
    if (ask->prompt_logprobs != LF_ABSENT && ask->stream)
        return lf_refuse(err, 400, "prompt_logprobs", "invalid_value", "prompt_logprobs: not together with stream.");
    if (ask->continue_final_message && ask->generation_prompt_asked)
        return lf_refuse(err, 400, "continue_final_message", "invalid_value",
                         "continue_final_message: not together with add_generation_prompt.");
    if (ask->stream_options && !ask->stream)
        return lf_refuse(err, 400, "stream_options", "invalid_value", "stream_options: only together with stream.");
    bool has_rules = ask->format.kind != LF_FORMAT_TEXT || (ask->n_tools && ask->tool_choice != LF_TOOL_CHOICE_NONE);
    if (ask->n_allowed_tokens && has_rules)
        return lf_refuse(err, 400, "allowed_token_ids", "invalid_value", "allowed_token_ids: not together with %s.",
                         ask->format.kind != LF_FORMAT_TEXT ? ask->format.param : "tools");
    if (ask->n > limits->max_choices)
        return lf_refuse(err, 400, "n", "invalid_value", "n: this server gives at most %d choices.",
                         limits->max_choices);
    if (ask->best_of != LF_ABSENT && ask->best_of != ask->n)
        return lf_refuse(err, 400, "best_of", "unsupported_parameter", "best_of: must equal n, nothing is ranked.");
    if (ask->top_logprobs != LF_ABSENT && !ask->chat_logprobs)
        return lf_refuse(err, 400, "top_logprobs", "invalid_value", "top_logprobs: only together with logprobs.");
    if (kind == LF_ASK_CHAT && ask->chat_logprobs)
        ask->logprobs = ask->top_logprobs == LF_ABSENT ? 0 : ask->top_logprobs;
    ask->sampling.top_k = ask->top_k < 0 ? 0 : (int32_t)ask->top_k;
    return LF_OK;
}

enum lf_status lf_ask_read(struct lf_ask *ask, enum lf_ask_kind kind, const struct lf_json *json,
                           const struct lf_ask_limits *limits, struct lf_api_err *err)
{
    struct lf_reading r = {ask, limits, err};
    lf_ask_init(ask, limits);
    ask->may_be_empty = kind == LF_ASK_TOKENIZE || kind == LF_ASK_TEMPLATE;
    LF_TRY(lf_ask_read_fields(&r, &lf_openai_fields, kind, json));
    LF_TRY(lf_tools_check(ask, false, err));
    return check_together(ask, kind, limits, err);
}
