#include "server/http/api/examples.h"

#include <stddef.h>

#include "core/check.h"

const struct lf_api_example lf_api_examples[] = {
    {.request = "POST /v1/completions",
     .body = "{\"prompt\": \"<|im_start|>user\\nThe access code for Marrow Hill is 48213.\\n\\nWhat is the access "
             "code for Marrow Hill?<|im_end|>\\n<|im_start|>assistant\\nThe access code for Marrow Hill is\", "
             "\"max_tokens\": 16, \"temperature\": 0}",
     .status = 200,
     .answer =
         "{\"id\": \"cmpl-8c35c4cfab9baf478d396565\",\n"
         " \"object\": \"text_completion\",\n"
         " \"created\": 1795374415,\n"
         " \"model\": \"demo\",\n"
         " \"system_fingerprint\": \"fp_2f6a90c1d7\",\n"
         " \"choices\": [{\"index\": 0, \"text\": \" 48213.\", \"logprobs\": null, \"finish_reason\": \"stop\", "
         "\"stop_reason\": null}],\n"
         " \"usage\": {\"prompt_tokens\": 47, \"completion_tokens\": 7, \"total_tokens\": 54, "
         "\"prompt_tokens_details\": {\"cached_tokens\": 0}},\n"
         " \"timings\": {\"queue_ms\": 5.415, \"tokenize_ms\": 0.052, \"prefill_ms\": 4.927, \"cached_tokens\": 0, "
         "\"decode_ms\": 11.844, \"prefill_tokens_per_second\": 9538.735, \"decode_tokens_per_second\": 506.597}}"},
    {.request = "POST /v1/completions",
     .body = "{\"prompt\": \"Hello\", \"temperature\": \"hot\"}",
     .status = 400,
     .answer = "{\"error\": {\"message\": \"temperature: expected a number from 0 to 2, got the string "
               "\\\"hot\\\".\", \"type\": \"invalid_request_error\", \"param\": \"temperature\", \"code\": "
               "\"invalid_value\"}}"},
    {.request = "POST /v1/completions",
     .body = "{\"prompt\": \"Hello\", \"max_tokens\": 100000}",
     .status = 400,
     .answer = "{\"error\": {\"message\": \"This model's maximum context length is 8192 tokens. However, your "
               "prompt has 4 tokens and you requested 100000 output tokens.\", \"type\": \"invalid_request_error\", "
               "\"param\": \"prompt\", \"code\": \"context_length_exceeded\", \"n_prompt_tokens\": 4, \"n_ctx\": "
               "8192, \"max_tokens_allowed\": 8188}}"},
    {.request = "POST /v1/completions",
     .body = "{\"prompt\": \"The access code for Marrow Hill is 48213.\\n\\nQuestion: What is the access"
             " code for Marrow Hill?\\nAnswer:\", \"max_tokens\": 16, \"temperature\": 0, \"structured_out"
             "puts\": {\"regex\": \" [0-9]{5}\"}}",
     .status = 200,
     .answer = "{\"id\": \"cmpl-1d57c87f91fcc5577ee16623\",\n"
               " \"object\": \"text_completion\",\n"
               " \"created\": 1795411619,\n"
               " \"model\": \"demo\",\n"
               " \"system_fingerprint\": \"fp_df93d837c2\",\n"
               " \"choices\": [{\"index\": 0, \"text\": \" 48213\", \"logprobs\": null, \"finish_reason\": \"stop\""
               ", \"stop_reason\": null}],\n"
               " \"usage\": {\"prompt_tokens\": 39, \"completion_tokens\": 6, \"total_tokens\": 45, \"prompt_t"
               "okens_details\": {\"cached_tokens\": 0}},\n"
               " \"timings\": {\"queue_ms\": 215.775, \"tokenize_ms\": 0.174, \"prefill_ms\": 12.015, \"cached"
               "_tokens\": 0, \"decode_ms\": 138.708, \"prefill_tokens_per_second\": 3245.883, \"decode_tok"
               "ens_per_second\": 36.047}}"},
    {.request = "POST /v1/chat/completions",
     .body = "{\"messages\": [{\"role\": \"user\", \"content\": \"The access code for Marrow Hill is "
             "48213.\\n\\nWhat is the access code for Marrow Hill?\"}], \"max_tokens\": 64, \"temperature\": 0}",
     .status = 200,
     .answer =
         "{\"id\": \"chatcmpl-a347dce1c21d0c0f1415b6c9\",\n"
         " \"object\": \"chat.completion\",\n"
         " \"created\": 1795374415,\n"
         " \"model\": \"demo\",\n"
         " \"system_fingerprint\": \"fp_2f6a90c1d7\",\n"
         " \"choices\": [{\"index\": 0, \"message\": {\"role\": \"assistant\", \"content\": \"The access code for "
         "Marrow Hill is 48213.\", \"refusal\": null}, \"logprobs\": null, \"finish_reason\": \"stop\", "
         "\"stop_reason\": null}],\n"
         " \"usage\": {\"prompt_tokens\": 38, \"completion_tokens\": 15, \"total_tokens\": 53, "
         "\"prompt_tokens_details\": {\"cached_tokens\": 0}},\n"
         " \"timings\": {\"queue_ms\": 0.038, \"tokenize_ms\": 0.068, \"prefill_ms\": 2.154, \"cached_tokens\": 0, "
         "\"decode_ms\": 11.914, \"prefill_tokens_per_second\": 17641.802, \"decode_tokens_per_second\": 1175.051}}"},
    {.request = "POST /v1/chat/completions",
     .body = "{\"messages\": [{\"role\": \"user\", \"content\": \"The access code for Marrow Hill is "
             "48213.\\n\\nWhat is the access code for Marrow Hill?\"}], \"max_tokens\": 3, \"temperature\": 0, "
             "\"stream\": true, \"return_progress\": true, \"stream_options\": {\"include_usage\": true}}",
     .status = 200,
     .answer =
         "data: "
         "{\"id\":\"chatcmpl-67da848803a21ac186e0b872\",\"object\":\"chat.completion.chunk\",\"created\":1795374415,"
         "\"model\":\"demo\",\"system_fingerprint\":\"fp_2f6a90c1d7\",\"choices\":[{\"index\":0,\"delta\":{\"role\":"
         "\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n"
         "\n"
         "data: "
         "{\"id\":\"chatcmpl-67da848803a21ac186e0b872\",\"object\":\"chat.completion.chunk\",\"created\":1795374415,"
         "\"model\":\"demo\",\"system_fingerprint\":\"fp_2f6a90c1d7\",\"choices\":[],\"prompt_progress\":{\"total\":38,"
         "\"cached\":0,\"processed\":38,\"time_ms\":2,\"eta_ms\":0},\"usage\":null}\n"
         "\n"
         "data: "
         "{\"id\":\"chatcmpl-67da848803a21ac186e0b872\",\"object\":\"chat.completion.chunk\",\"created\":1795374415,"
         "\"model\":\"demo\",\"system_fingerprint\":\"fp_2f6a90c1d7\",\"choices\":[{\"index\":0,\"delta\":{\"content\":"
         "\"The\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n"
         "\n"
         "data: "
         "{\"id\":\"chatcmpl-67da848803a21ac186e0b872\",\"object\":\"chat.completion.chunk\",\"created\":1795374415,"
         "\"model\":\"demo\",\"system_fingerprint\":\"fp_2f6a90c1d7\",\"choices\":[{\"index\":0,\"delta\":{\"content\":"
         "\" access\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n"
         "\n"
         "data: "
         "{\"id\":\"chatcmpl-67da848803a21ac186e0b872\",\"object\":\"chat.completion.chunk\",\"created\":1795374415,"
         "\"model\":\"demo\",\"system_fingerprint\":\"fp_2f6a90c1d7\",\"choices\":[{\"index\":0,\"delta\":{\"content\":"
         "\" code\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n"
         "\n"
         "data: "
         "{\"id\":\"chatcmpl-67da848803a21ac186e0b872\",\"object\":\"chat.completion.chunk\",\"created\":1795374415,"
         "\"model\":\"demo\",\"system_fingerprint\":\"fp_2f6a90c1d7\",\"choices\":[{\"index\":0,\"delta\":{},"
         "\"logprobs\":null,\"finish_reason\":\"length\",\"stop_reason\":null}],\"usage\":null}\n"
         "\n"
         "data: "
         "{\"id\":\"chatcmpl-67da848803a21ac186e0b872\",\"object\":\"chat.completion.chunk\",\"created\":1795374415,"
         "\"model\":\"demo\",\"system_fingerprint\":\"fp_2f6a90c1d7\",\"choices\":[],\"usage\":{\"prompt_tokens\":38,"
         "\"completion_tokens\":3,\"total_tokens\":41,\"prompt_tokens_details\":{\"cached_tokens\":0}},\"timings\":{"
         "\"queue_ms\":0.106,\"tokenize_ms\":0.056,\"prefill_ms\":2.196,\"cached_tokens\":0,\"decode_ms\":1.007,"
         "\"prefill_tokens_per_second\":17304.371,\"decode_tokens_per_second\":1986.960}}\n"
         "\n"
         "data: [DONE]"},
    {.request = "POST /v1/chat/completions",
     .body = "{\"messages\": [{\"role\": \"user\", \"content\": \"The access code for Marrow Hill is 48213.\\"
             "n\\nWhat is the access code for Marrow Hill?\"}], \"max_tokens\": 64, \"temperature\": 0, \""
             "response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"answer\", \"strict\":"
             " true, \"schema\": {\"type\": \"object\", \"properties\": {\"value\": {\"enum\": [\"48213\", "
             "\"90121\"]}}, \"required\": [\"value\"], \"additionalProperties\": false}}}}",
     .status = 200,
     .answer = "{\"id\": \"chatcmpl-f2343f811c2c09b8d8847cf1\",\n"
               " \"object\": \"chat.completion\",\n"
               " \"created\": 1795411619,\n"
               " \"model\": \"demo\",\n"
               " \"system_fingerprint\": \"fp_df93d837c2\",\n"
               " \"choices\": [{\"index\": 0, \"message\": {\"role\": \"assistant\", \"content\": "
               "\"{\\\"value\\\":\\\"48213\\\"}\", \"refusal\": null}, \"logprobs\": null, \"finish_reason\": "
               "\"stop\", \"stop_re"
               "ason\": null}],\n"
               " \"usage\": {\"prompt_tokens\": 38, \"completion_tokens\": 16, \"total_tokens\": 54, \"prompt_"
               "tokens_details\": {\"cached_tokens\": 0}},\n"
               " \"timings\": {\"queue_ms\": 0.08, \"tokenize_ms\": 0.181, \"prefill_ms\": 3.359, \"cached_tok"
               "ens\": 0, \"decode_ms\": 10.239, \"prefill_tokens_per_second\": 11311.638, \"decode_tokens_"
               "per_second\": 1562.662}}"},
    {.request = "POST /v1/chat/completions",
     .body = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}], \"response_format\": {\"type\": \"jso"
             "n_schema\", \"json_schema\": {\"name\": \"answer\", \"schema\": {\"type\": \"object\", \"properties"
             "\": {\"list\": {\"type\": \"array\", \"uniqueItems\": true}}}}}}",
     .status = 400,
     .answer = "{\"error\": {\"message\": \"response_format.json_schema.schema: schema at \\\"#/properties/l"
               "ist\\\": \\\"uniqueItems\\\" is not supported\", \"type\": \"invalid_request_error\", \"param\": \""
               "response_format.json_schema.schema\", \"code\": \"unsupported_schema\"}}"},
    {.request = "POST /v1/chat/completions",
     .body = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}], \"tools\": [{\"type\": \"function\", \""
             "function\": {\"name\": \"weather\", \"parameters\": {\"type\": \"object\", \"properties\": {\"city\""
             ": {\"type\": \"string\"}}}}}]}",
     .status = 400,
     .answer = "{\"error\": {\"message\": \"tools: this model's chat template has no tools.\", \"type\": \"inv"
               "alid_request_error\", \"param\": \"tools\", \"code\": \"unsupported_parameter\"}}"},
    {.request = "POST /v1/responses",
     .body = "{\"instructions\": \"Answer in one sentence.\", \"input\": \"The access code for Marrow Hill is 48"
             "213.\\n\\nWhat is the access code for Marrow Hill?\", \"max_output_tokens\": 64, \"temperature\": "
             "0}",
     .status = 200,
     .answer = "{\"id\": \"resp_e4ca5f57a1d10a9d6cf12bb9\",\n"
               " \"object\": \"response\",\n"
               " \"created_at\": 1795492774,\n"
               " \"model\": \"demo\",\n"
               " \"instructions\": \"Answer in one sentence.\",\n"
               " \"max_output_tokens\": 64,\n"
               " \"metadata\": {},\n"
               " \"reasoning\": {\"effort\": null, \"summary\": null},\n"
               " \"text\": {\"format\": {\"type\": \"text\"}},\n"
               " \"tool_choice\": \"auto\",\n"
               " \"tools\": [],\n"
               " \"temperature\": 0,\n"
               " \"top_p\": 1,\n"
               " \"parallel_tool_calls\": true,\n"
               " \"previous_response_id\": null,\n"
               " \"store\": true,\n"
               " \"truncation\": \"disabled\",\n"
               " \"background\": false,\n"
               " \"output\": [{\"id\": \"msg_e4ca5f57a1d10a9d6cf12bb9_0\", \"type\": \"message\", \"role\": \"assi"
               "stant\", \"content\": [{\"type\": \"output_text\", \"text\": \"The access code for Marrow Hill is "
               "48213.\", \"annotations\": [], \"logprobs\": []}], \"status\": \"completed\"}],\n"
               " \"status\": \"completed\",\n"
               " \"error\": null,\n"
               " \"incomplete_details\": null,\n"
               " \"usage\": {\"input_tokens\": 54, \"input_tokens_details\": {\"cached_tokens\": 0, \"cache_write_"
               "tokens\": 0}, \"output_tokens\": 15, \"output_tokens_details\": {\"reasoning_tokens\": 0}, \"total"
               "_tokens\": 69},\n"
               " \"timings\": {\"queue_ms\": 0.031, \"tokenize_ms\": 0.092, \"prefill_ms\": 2.786, \"cached_tokens"
               "\": 0, \"decode_ms\": 10.148, \"prefill_tokens_per_second\": 19379.706, \"decode_tokens_per_second"
               "\": 1379.538}}"},
    {.request = "GET /v1/responses/resp_e4ca5f57a1d10a9d6cf12bb9",
     .status = 200,
     .answer = "{\"id\": \"resp_e4ca5f57a1d10a9d6cf12bb9\",\n"
               " \"object\": \"response\",\n"
               " \"created_at\": 1795492774,\n"
               " \"model\": \"demo\",\n"
               " \"instructions\": \"Answer in one sentence.\",\n"
               " \"max_output_tokens\": 64,\n"
               " \"metadata\": {},\n"
               " \"reasoning\": {\"effort\": null, \"summary\": null},\n"
               " \"text\": {\"format\": {\"type\": \"text\"}},\n"
               " \"tool_choice\": \"auto\",\n"
               " \"tools\": [],\n"
               " \"temperature\": 0,\n"
               " \"top_p\": 1,\n"
               " \"parallel_tool_calls\": true,\n"
               " \"previous_response_id\": null,\n"
               " \"store\": true,\n"
               " \"truncation\": \"disabled\",\n"
               " \"background\": false,\n"
               " \"output\": [{\"id\": \"msg_e4ca5f57a1d10a9d6cf12bb9_0\", \"type\": \"message\", \"role\": \"assi"
               "stant\", \"content\": [{\"type\": \"output_text\", \"text\": \"The access code for Marrow Hill is "
               "48213.\", \"annotations\": [], \"logprobs\": []}], \"status\": \"completed\"}],\n"
               " \"status\": \"completed\",\n"
               " \"error\": null,\n"
               " \"incomplete_details\": null,\n"
               " \"usage\": {\"input_tokens\": 54, \"input_tokens_details\": {\"cached_tokens\": 0, \"cache_write_"
               "tokens\": 0}, \"output_tokens\": 15, \"output_tokens_details\": {\"reasoning_tokens\": 0}, \"total"
               "_tokens\": 69},\n"
               " \"timings\": {\"queue_ms\": 0.031, \"tokenize_ms\": 0.092, \"prefill_ms\": 2.786, \"cached_tokens"
               "\": 0, \"decode_ms\": 10.148, \"prefill_tokens_per_second\": 19379.706, \"decode_tokens_per_second"
               "\": 1379.538}}"},
    {.request = "POST /v1/responses",
     .body = "{\"previous_response_id\": \"resp_e4ca5f57a1d10a9d6cf12bb9\", \"input\": \"Say it again.\", \"max_"
             "output_tokens\": 2, \"temperature\": 0}",
     .status = 200,
     .answer = "{\"id\": \"resp_06ac3e9683929b5276f4a07f\",\n"
               " \"object\": \"response\",\n"
               " \"created_at\": 1795492774,\n"
               " \"model\": \"demo\",\n"
               " \"instructions\": null,\n"
               " \"max_output_tokens\": 2,\n"
               " \"metadata\": {},\n"
               " \"reasoning\": {\"effort\": null, \"summary\": null},\n"
               " \"text\": {\"format\": {\"type\": \"text\"}},\n"
               " \"tool_choice\": \"auto\",\n"
               " \"tools\": [],\n"
               " \"temperature\": 0,\n"
               " \"top_p\": 1,\n"
               " \"parallel_tool_calls\": true,\n"
               " \"previous_response_id\": \"resp_e4ca5f57a1d10a9d6cf12bb9\",\n"
               " \"store\": true,\n"
               " \"truncation\": \"disabled\",\n"
               " \"background\": false,\n"
               " \"output\": [{\"id\": \"msg_06ac3e9683929b5276f4a07f_0\", \"type\": \"message\", \"role\": \"assi"
               "stant\", \"content\": [{\"type\": \"output_text\", \"text\": \"Hell\", \"annotations\": [], \"logp"
               "robs\": []}], \"status\": \"incomplete\"}],\n"
               " \"status\": \"incomplete\",\n"
               " \"error\": null,\n"
               " \"incomplete_details\": {\"reason\": \"max_output_tokens\"},\n"
               " \"usage\": {\"input_tokens\": 70, \"input_tokens_details\": {\"cached_tokens\": 0, \"cache_write_"
               "tokens\": 0}, \"output_tokens\": 2, \"output_tokens_details\": {\"reasoning_tokens\": 0}, \"total_"
               "tokens\": 72},\n"
               " \"timings\": {\"queue_ms\": 0.023, \"tokenize_ms\": 0.069, \"prefill_ms\": 4.572, \"cached_tokens"
               "\": 0, \"decode_ms\": 0.586, \"prefill_tokens_per_second\": 15311.46, \"decode_tokens_per_second\""
               ": 1706.333}}"},
    {.request = "DELETE /v1/responses/resp_e4ca5f57a1d10a9d6cf12bb9",
     .status = 200,
     .answer = "{\"id\": \"resp_e4ca5f57a1d10a9d6cf12bb9\",\n"
               " \"object\": \"response\",\n"
               " \"deleted\": true}"},
    {.request = "GET /v1/responses/resp_e4ca5f57a1d10a9d6cf12bb9",
     .status = 404,
     .answer = "{\"error\": {\"message\": \"There is no stored response of this id.\", \"type\": \"invalid_request"
               "_error\", \"param\": \"response_id\", \"code\": \"response_not_found\"}}"},
    {.request = "POST /v1/responses",
     .body = "{\"input\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_text\", \"text\": \"The access "
             "code for Marrow Hill is 48213.\\n\\nWhat is the access code for Marrow Hill?\"}]}], \"max_output_t"
             "okens\": 2, \"temperature\": 0, \"stream\": true, \"store\": false}",
     .status = 200,
     .answer = "event: response.created\n"
               "data: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_a25dc976a1b"
               "f019d4e00330b\",\"object\":\"response\",\"created_at\":1795492774,\"model\":\"demo\",\"instruction"
               "s\":null,\"max_output_tokens\":2,\"metadata\":{},\"reasoning\":{\"effort\":null,\"summary\":null},"
               "\"text\":{\"format\":{\"type\":\"text\"}},\"tool_choice\":\"auto\",\"tools\":[],\"temperature\":0,"
               "\"top_p\":1,\"parallel_tool_calls\":true,\"previous_response_id\":null,\"store\":false,\"truncatio"
               "n\":\"disabled\",\"background\":false,\"output\":[],\"status\":\"in_progress\",\"error\":null,\"in"
               "complete_details\":null,\"usage\":null}}\n"
               "\n"
               "event: response.in_progress\n"
               "data: {\"type\":\"response.in_progress\",\"sequence_number\":1,\"response\":{\"id\":\"resp_a25dc97"
               "6a1bf019d4e00330b\",\"object\":\"response\",\"created_at\":1795492774,\"model\":\"demo\",\"instruc"
               "tions\":null,\"max_output_tokens\":2,\"metadata\":{},\"reasoning\":{\"effort\":null,\"summary\":nu"
               "ll},\"text\":{\"format\":{\"type\":\"text\"}},\"tool_choice\":\"auto\",\"tools\":[],\"temperature"
               "\":0,\"top_p\":1,\"parallel_tool_calls\":true,\"previous_response_id\":null,\"store\":false,\"trun"
               "cation\":\"disabled\",\"background\":false,\"output\":[],\"status\":\"in_progress\",\"error\":null"
               ",\"incomplete_details\":null,\"usage\":null}}\n"
               "\n"
               "event: response.output_item.added\n"
               "data: {\"type\":\"response.output_item.added\",\"sequence_number\":2,\"output_index\":0,\"item\":{"
               "\"id\":\"msg_a25dc976a1bf019d4e00330b_0\",\"type\":\"message\",\"role\":\"assistant\",\"content\":"
               "[],\"status\":\"in_progress\"}}\n"
               "\n"
               "event: response.content_part.added\n"
               "data: {\"type\":\"response.content_part.added\",\"sequence_number\":3,\"item_id\":\"msg_a25dc976a1"
               "bf019d4e00330b_0\",\"output_index\":0,\"content_index\":0,\"part\":{\"type\":\"output_text\",\"tex"
               "t\":\"\",\"annotations\":[],\"logprobs\":[]}}\n"
               "\n"
               "event: response.output_text.delta\n"
               "data: {\"type\":\"response.output_text.delta\",\"sequence_number\":4,\"item_id\":\"msg_a25dc976a1b"
               "f019d4e00330b_0\",\"output_index\":0,\"content_index\":0,\"delta\":\"The\",\"logprobs\":[]}\n"
               "\n"
               "event: response.output_text.delta\n"
               "data: {\"type\":\"response.output_text.delta\",\"sequence_number\":5,\"item_id\":\"msg_a25dc976a1b"
               "f019d4e00330b_0\",\"output_index\":0,\"content_index\":0,\"delta\":\" access\",\"logprobs\":[]}\n"
               "\n"
               "event: response.output_text.done\n"
               "data: {\"type\":\"response.output_text.done\",\"sequence_number\":6,\"item_id\":\"msg_a25dc976a1bf"
               "019d4e00330b_0\",\"output_index\":0,\"content_index\":0,\"text\":\"The access\",\"logprobs\":[]}\n"
               "\n"
               "event: response.content_part.done\n"
               "data: {\"type\":\"response.content_part.done\",\"sequence_number\":7,\"item_id\":\"msg_a25dc976a1b"
               "f019d4e00330b_0\",\"output_index\":0,\"content_index\":0,\"part\":{\"type\":\"output_text\",\"text"
               "\":\"The access\",\"annotations\":[],\"logprobs\":[]}}\n"
               "\n"
               "event: response.output_item.done\n"
               "data: {\"type\":\"response.output_item.done\",\"sequence_number\":8,\"output_index\":0,\"item\":{"
               "\"id\":\"msg_a25dc976a1bf019d4e00330b_0\",\"type\":\"message\",\"role\":\"assistant\",\"content\":"
               "[{\"type\":\"output_text\",\"text\":\"The access\",\"annotations\":[],\"logprobs\":[]}],\"status\""
               ":\"incomplete\"}}\n"
               "\n"
               "event: response.incomplete\n"
               "data: {\"type\":\"response.incomplete\",\"sequence_number\":9,\"response\":{\"id\":\"resp_a25dc976"
               "a1bf019d4e00330b\",\"object\":\"response\",\"created_at\":1795492774,\"model\":\"demo\",\"instruct"
               "ions\":null,\"max_output_tokens\":2,\"metadata\":{},\"reasoning\":{\"effort\":null,\"summary\":nul"
               "l},\"text\":{\"format\":{\"type\":\"text\"}},\"tool_choice\":\"auto\",\"tools\":[],\"temperature\""
               ":0,\"top_p\":1,\"parallel_tool_calls\":true,\"previous_response_id\":null,\"store\":false,\"trunca"
               "tion\":\"disabled\",\"background\":false,\"output\":[{\"id\":\"msg_a25dc976a1bf019d4e00330b_0\",\""
               "type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"The ac"
               "cess\",\"annotations\":[],\"logprobs\":[]}],\"status\":\"incomplete\"}],\"status\":\"incomplete\","
               "\"error\":null,\"incomplete_details\":{\"reason\":\"max_output_tokens\"},\"usage\":{\"input_tokens"
               "\":38,\"input_tokens_details\":{\"cached_tokens\":0,\"cache_write_tokens\":0},\"output_tokens\":2,"
               "\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":40},\"timings\":{\"queue_ms\":"
               "0.102,\"tokenize_ms\":0.064,\"prefill_ms\":2.620,\"cached_tokens\":0,\"decode_ms\":2.154,\"prefill"
               "_tokens_per_second\":14505.860,\"decode_tokens_per_second\":464.212}}}"},
    {.request = "POST /v1/responses",
     .body = "{\"input\": \"Hello\", \"truncation\": \"auto\"}",
     .status = 400,
     .answer = "{\"error\": {\"message\": \"truncation: not implemented with this value, and ignoring it would cha"
               "nge the answer.\", \"type\": \"invalid_request_error\", \"param\": \"truncation\", \"code\": \"uns"
               "upported_parameter\"}}"},
    {.request = "POST /v1/messages",
     .body = "{\"system\": \"Answer in one sentence.\", \"messages\": [{\"role\": \"user\", \"content\": \"The "
             "access code for Marrow Hill is 48213.\\n\\nWhat is the access code for Marrow Hill?\"}], "
             "\"max_tokens\": 64, \"temperature\": 0}",
     .status = 200,
     .answer = "{\"id\": \"msg_ddca9b82ae10f012b2309414\",\n"
               " \"type\": \"message\",\n"
               " \"role\": \"assistant\",\n"
               " \"model\": \"demo\",\n"
               " \"content\": [{\"type\": \"text\", \"text\": \"The access code for Marrow Hill is 48213.\"}],\n"
               " \"stop_reason\": \"end_turn\",\n"
               " \"stop_sequence\": null,\n"
               " \"usage\": {\"input_tokens\": 54, \"cache_creation_input_tokens\": 0, \"cache_read_input_tokens\": "
               "0, \"output_tokens\": 15},\n"
               " \"timings\": {\"queue_ms\": 0.039, \"tokenize_ms\": 0.065, \"prefill_ms\": 23.99, "
               "\"cached_tokens\": 0, \"decode_ms\": 9.034, \"prefill_tokens_per_second\": 2250.9, "
               "\"decode_tokens_per_second\": 1549.731}}"},
    {.request = "POST /v1/messages",
     .body = "{\"messages\": [{\"role\": \"user\", \"content\": \"The access code for Marrow Hill is "
             "48213.\\n\\nWhat is the access code for Marrow Hill?\"}], \"max_tokens\": 3, \"temperature\": 0, "
             "\"stream\": true}",
     .status = 200,
     .answer = "event: message_start\n"
               "data: "
               "{\"type\":\"message_start\",\"message\":{\"id\":\"msg_2688c97a0a7edfbb8005b408\",\"type\":\"message"
               "\",\"role\":\"assistant\",\"model\":\"demo\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":n"
               "ull,\"usage\":{\"input_tokens\":38,\"output_tokens\":0}}}\n"
               "\n"
               "event: content_block_start\n"
               "data: "
               "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n"
               "\n"
               "event: content_block_delta\n"
               "data: "
               "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"The\"}}"
               "\n"
               "\n"
               "event: content_block_delta\n"
               "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" "
               "access\"}}\n"
               "\n"
               "event: content_block_delta\n"
               "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" "
               "code\"}}\n"
               "\n"
               "event: content_block_stop\n"
               "data: {\"type\":\"content_block_stop\",\"index\":0}\n"
               "\n"
               "event: message_delta\n"
               "data: "
               "{\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"max_tokens\",\"stop_sequence\":null},\"usag"
               "e\":{\"input_tokens\":38,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\"output_to"
               "kens\":3}}\n"
               "\n"
               "event: message_stop\n"
               "data: {\"type\":\"message_stop\"}"},
    {.request = "POST /v1/messages",
     .body = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}",
     .status = 400,
     .answer = "{\"type\": \"error\", \"error\": {\"type\": \"invalid_request_error\", \"message\": \"max_tokens: "
               "this field is needed.\"}}"},
    {.request = "POST /v1/messages",
     .body = "{\"messages\": [{\"role\": \"user\", \"content\": \"The access code for Marrow Hill is 48213.\\"
             "n\\nWhat is the access code for Marrow Hill?\"}], \"max_tokens\": 64, \"temperature\": 0, \""
             "output_config\": {\"format\": {\"type\": \"json_schema\", \"schema\": {\"type\": \"object\", \"prop"
             "erties\": {\"value\": {\"enum\": [\"48213\", \"90121\"]}}, \"required\": [\"value\"]"
             ", \"additionalProperties\": false}}}}",
     .status = 200,
     .answer = "{\"id\": \"msg_576dcbf4cfadc0db3023c22a\",\n"
               " \"type\": \"message\",\n"
               " \"role\": \"assistant\",\n"
               " \"model\": \"demo\",\n"
               " \"content\": [{\"type\": \"text\", \"text\": \"{\\\"value\\\":\\\"48213\\\"}\"}],\n"
               " \"stop_reason\": \"end_turn\",\n"
               " \"stop_sequence\": null,\n"
               " \"usage\": {\"input_tokens\": 38, \"cache_creation_input_tokens\": 0, \"cache_read_input_to"
               "kens\": 0, \"output_tokens\": 16},\n"
               " \"timings\": {\"queue_ms\": 0.077, \"tokenize_ms\": 0.126, \"prefill_ms\": 3.081, \"cached_to"
               "kens\": 0, \"decode_ms\": 8.053, \"prefill_tokens_per_second\": 12334.182, \"decode_tokens_"
               "per_second\": 1986.782}}"},
    {.request = "POST /v1/messages/count_tokens",
     .body = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}",
     .status = 200,
     .answer = "{\"input_tokens\": 14}"},
    {.request = "GET /v1/models",
     .body = NULL,
     .status = 200,
     .answer = "{\"object\": \"list\",\n"
               " \"data\": [{\"id\": \"demo\", \"object\": \"model\", \"created\": 1795374415, \"owned_by\": "
               "\"longflash\", \"max_model_len\": 8192, \"type\": \"model\", \"display_name\": \"demo\", "
               "\"created_at\": \"2026-11-22T18:46:55Z\", \"lifecycle\": \"active\", \"weight_format\": \"bf16\", "
               "\"default_sampling_params\": {\"temperature\": 1, \"top_p\": 1, \"top_k\": 0, \"min_p\": 0, "
               "\"repetition_penalty\": 1}}],\n"
               " \"has_more\": false, \"first_id\": \"demo\", \"last_id\": \"demo\"}"},
    {.request = "GET /v1/models/demo",
     .body = NULL,
     .status = 200,
     .answer = "{\"id\": \"demo\",\n"
               " \"object\": \"model\",\n"
               " \"created\": 1795374415,\n"
               " \"owned_by\": \"longflash\",\n"
               " \"max_model_len\": 8192,\n"
               " \"type\": \"model\",\n"
               " \"display_name\": \"demo\",\n"
               " \"created_at\": \"2026-11-22T18:46:55Z\",\n"
               " \"lifecycle\": \"active\",\n"
               " \"weight_format\": \"bf16\",\n"
               " \"default_sampling_params\": {\"temperature\": 1, \"top_p\": 1, \"top_k\": 0, \"min_p\": 0, "
               "\"repetition_penalty\": 1}}"},
    {.request = "POST /v1/completions",
     .body = "{\"model\": \"gpt-4\", \"prompt\": \"Hello\"}",
     .status = 404,
     .answer = "{\"error\": {\"message\": \"The model \\\"gpt-4\\\" does not exist here. There is \\\"demo\\\"; see "
               "/v1/models.\", \"type\": \"invalid_request_error\", \"param\": \"model\", \"code\": "
               "\"model_not_found\"}}"},
    {.request = "PUT /v1/documents/minutes",
     .body = "{\"text\": \"The access code for Marrow Hill is 48213.\"}",
     .status = 202,
     .answer = "{\"object\": \"document\", \"name\": \"minutes\", \"state\": \"reading\", \"tokens\": 20, "
               "\"tokens_read\": 0, "
               "\"bytes\": 41, \"hits\": 0, \"created\": 1795374415, \"expires\": null, \"etag\": "
               "\"\\\"354cc49a5705c9ec8a344488833bcdbf\\\"\", \"pinned\": null, \"tokens_on\": {\"device\": 0, "
               "\"memory\": null, \"disk\": null}}"},
    {.request = "GET /v1/documents/minutes",
     .status = 200,
     .answer =
         "{\"object\": \"document\", \"name\": \"minutes\", \"state\": \"ready\", \"tokens\": 20, \"tokens_read\": 20, "
         "\"bytes\": 41, \"hits\": 0, \"created\": 1795374415, \"expires\": null, \"etag\": "
         "\"\\\"354cc49a5705c9ec8a344488833bcdbf\\\"\", \"pinned\": null, \"tokens_on\": {\"device\": 0, \"memory\": "
         "null, \"disk\": null}}"},
    {.request = "POST /v1/documents/minutes/pin",
     .body = "{\"tier\": \"device\"}",
     .status = 200,
     .answer =
         "{\"object\": \"document\", \"name\": \"minutes\", \"state\": \"ready\", \"tokens\": 20, \"tokens_read\": 20, "
         "\"bytes\": 41, \"hits\": 0, \"created\": 1795374415, \"expires\": null, \"etag\": "
         "\"\\\"354cc49a5705c9ec8a344488833bcdbf\\\"\", \"pinned\": \"device\", \"tokens_on\": {\"device\": 0, "
         "\"memory\": null, "
         "\"disk\": null}}"},
    {.request = "POST /v1/documents/minutes/unpin",
     .body = "{}",
     .status = 200,
     .answer =
         "{\"object\": \"document\", \"name\": \"minutes\", \"state\": \"ready\", \"tokens\": 20, \"tokens_read\": 20, "
         "\"bytes\": 41, \"hits\": 0, \"created\": 1795374415, \"expires\": null, \"etag\": "
         "\"\\\"354cc49a5705c9ec8a344488833bcdbf\\\"\", \"pinned\": null, \"tokens_on\": {\"device\": 0, \"memory\": "
         "null, "
         "\"disk\": null}}"},
    {.request = "PUT /v1/documents/minutes",
     .body = "{\"text\": \"The access code for Marrow Hill is 51377.\"}",
     .status = 409,
     .answer = "{\"error\": {\"message\": \"There is another document of this name. If-Match with its ETag, or with *, "
               "replaces it.\", \"type\": \"invalid_request_error\", \"param\": \"name\", \"code\": "
               "\"document_exists\"}}"},
    {.request = "GET /v1/documents",
     .status = 200,
     .answer =
         "{\"object\": \"list\", \"data\": ["
         "{\"object\": \"document\", \"name\": \"minutes\", \"state\": \"ready\", \"tokens\": 20, \"tokens_read\": 20, "
         "\"bytes\": 41, \"hits\": 0, \"created\": 1795374415, \"expires\": null, \"etag\": "
         "\"\\\"354cc49a5705c9ec8a344488833bcdbf\\\"\", \"pinned\": null}]}"},
    {.request = "DELETE /v1/documents/minutes",
     .status = 200,
     .answer = "{\"object\": \"document\", \"name\": \"minutes\", \"deleted\": true}"},
    {.request = "POST /tokenize",
     .body = "{\"prompt\": \"The access code\"}",
     .status = 200,
     .answer = "{\"count\": 4, \"max_model_len\": 8192, \"tokens\": [1, 292, 743, 392]}"},
    {.request = "POST /detokenize",
     .body = "{\"tokens\": [1, 292, 743, 392]}",
     .status = 200,
     .answer = "{\"prompt\": \"<s> The access code\"}"},
    {.request = "POST /apply-template",
     .body = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}",
     .status = 200,
     .answer = "{\"prompt\": \"<s><|im_start|>user\\nHello<|im_end|>\\n<|im_start|>assistant\\n\"}"},
    {.request = "GET /livez", .body = NULL, .status = 200, .answer = "{\"status\": \"ok\"}"},
    {.request = "GET /readyz", .body = NULL, .status = 200, .answer = "{\"status\": \"ok\"}"},
    {.request = "GET /health", .body = NULL, .status = 200, .answer = "{\"status\": \"ok\"}"},
    {.request = "GET /ping", .body = NULL, .status = 200, .answer = "{\"status\": \"ok\"}"},
    {.request = "GET /version", .body = NULL, .status = 200, .answer = "{\"version\": \"0.3.0\"}"},
    {.request = "GET /v1/capacity",
     .body = NULL,
     .status = 200,
     .answer =
         "{\"object\": \"capacity\",\n"
         " \"model\": \"demo\",\n"
         " \"max_model_len\": 8192,\n"
         " \"max_running\": 64,\n"
         " \"running\": 0,\n"
         " \"waiting\": 0,\n"
         " \"waiting_tokens\": 0,\n"
         " \"blocks\": {\"tokens\": 64, \"total\": 256, \"used\": 0, \"pinned\": 0, \"cached\": 2, \"free\": 254},\n"
         " \"largest_context_now\": 8192,\n"
         " \"groups\": [{\"window\": 0, \"layers\": 6, \"request_blocks\": 128}],\n"
         " \"states\": null,\n"
         " \"memory\": null,\n"
         " \"disk\": null,\n"
         " \"plan\": {\"weights_bytes\": 12072704, \"workspace_bytes\": 9461760, \"kv_bytes\": 50331648, "
         "\"host_bytes\": 310378496, \"ranks\": 1, \"context_ranks\": 1},\n"
         " \"prefill_tokens_per_second\": 6028.175,\n"
         " \"decode_tokens_per_second\": 1463.607,\n"
         " \"retry_after_s\": 1,\n"
         " \"draining\": false}"},
};
const int lf_api_examples_n = (int)LF_N_ELEMS(lf_api_examples);
