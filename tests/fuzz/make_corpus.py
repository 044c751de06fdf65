#!/usr/bin/env python3
"""Writes the seeds of corpus/: small inputs that each driver accepts in part or whole. Inputs that once failed stand
beside them under names that begin with "found-"; this script leaves them alone.

Files have no ending: most are no valid file of any kind."""
import json
import os
import re
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
import framing_cases  # noqa: E402


def put(driver, name, *parts, sep=b"\0"):
    os.makedirs(os.path.join(HERE, "corpus", driver), exist_ok=True)
    raw = sep.join(p.encode() if isinstance(p, str) else p for p in parts)
    with open(os.path.join(HERE, "corpus", driver, name), "wb") as f:
        f.write(raw)


def json_texts():
    put("json", "object", '{"a":[1,-2.5e-3,"x\\n\\u00e9\\ud83e\\udd99"],"b":{"c":null,"d":true},"e":false}')
    put("json", "deep", "[[[[[[[[]]]]]]]]")
    put("json", "numbers", "[0,-0,1e308,-1e-400,123456789012345678901234567890,1.0,1e3,9223372036854775807]")
    put("json", "strings", '["","\\"\\\\\\/\\b\\f\\n\\r\\t","\u2028é中🦙"]')
    put("json", "three", '["a","b","c"]')


def request_bodies():
    completion = ('{"prompt":["the king",""],"max_tokens":3,"echo":true,"logprobs":5,"temperature":0.5,"stop":["a","b"],'
                  '"logit_bias":{"5":-1.5},"seed":7,"stream":true,"stream_options":{"include_usage":true},"n":2}')
    put("request", "completion", b"\0" + completion.encode())
    put("request", "completion-ids", b'\0{"prompt":[[1,2,3],[4]],"stop_token_ids":[7],"ignore_eos":true,"min_tokens":1}')
    chat = ('{"model":"m","messages":[{"role":"developer","content":"be brief"},{"role":"user","content":[{"type":"text",'
            '"text":"a\\u00e9"},{"type":"text","text":"b"}]},{"role":"assistant","content":null,"tool_calls":[]}],'
            '"max_completion_tokens":9,"logprobs":true,"top_logprobs":2,"chat_template_kwargs":{"thinking":false},'
            '"cache_salt":"s","response_format":{"type":"text"},"tools":[],"user":"u"}')
    put("request", "chat", b"\1" + chat.encode())
    put("request", "chat-tools", b"\1" + json.dumps({
        "messages": [{"role": "assistant", "content": None, "reasoning": "hm", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\": [1]}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": "4"}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": True}}],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]}},
        "parallel_tool_calls": False, "reasoning_effort": "low"}).encode())
    put("request", "messages", b"\5" + json.dumps({
        "max_tokens": 9, "system": [{"type": "text", "text": "s"}], "thinking": {"type": "enabled", "budget_tokens": 9},
        "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "4"}, {"type": "text", "text": "y"}]}],
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True}}).encode())
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", None]}}, "required": ["a"]}
    put("request", "chat-schema", b"\x71" + json.dumps({
        "messages": [{"role": "user", "content": "x"}], "stream": True, "include_reasoning": False, "reasoning_effort": "high",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": schema}}}).encode())
    put("request", "chat-required", b"\x71" + json.dumps({
        "messages": [{"role": "user", "content": "x"}], "tool_choice": "required", "structured_outputs": {"regex": "[a-c]+"},
        "tools": [{"type": "function", "function": {"name": "f", "description": "d", "strict": True, "parameters": schema}},
                  {"type": "function", "function": {"name": "g"}}]}).encode())
    put("request", "chat-named", b"\1" + json.dumps({
        "messages": [{"role": "user", "content": "x"}], "tool_choice": {"type": "function", "function": {"name": "f"}},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]}).encode())
    put("request", "chat-choice", b"\x71" + b'{"messages":[{"role":"user","content":"x"}],"guided_choice":["a","b"],'
        b'"guided_whitespace_pattern":" ?","structured_outputs":{"disable_any_whitespace":true}}')
    put("request", "completion-json", b"\0" + b'{"prompt":"x","structured_outputs":{"json":"{\\"type\\":\\"array\\"}","whitespace_pattern":"[ ]?"}}')
    put("request", "messages-schema", b"\x75" + json.dumps({
        "max_tokens": 9, "thinking": {"type": "adaptive", "display": "omitted"}, "messages": [{"role": "user", "content": "x"}],
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": schema}}, "stop_sequences": ["a"],
        "tools": [{"type": "custom", "name": "f", "input_schema": schema, "strict": True}], "tool_choice": {"type": "any"}}).encode())
    put("request", "count", b'\6{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]}')
    put("request", "chat-documents", b"\1" + json.dumps({"messages": [{"role": "user", "content": [
        {"type": "file", "file": {"file_id": "a"}}, {"type": "text", "text": "?"}, {"type": "document", "name": "a"}]}]}).encode())
    put("request", "messages-documents", b"\5" + json.dumps({"max_tokens": 9, "system": "s", "messages": [{"role": "user", "content": [
        {"type": "document", "source": {"type": "file", "file_id": "a"}, "cache_control": {"type": "ephemeral"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": " x "}}]}]}).encode())
    put("request", "responses", b"\xf0" + json.dumps({
        "instructions": "s", "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}}, "reasoning": {"effort": "low"},
        "metadata": {"a": "b"}, "input": [
            {"role": "user", "content": [{"type": "input_file", "file_id": "a"}, {"type": "input_text", "text": "x"}]},
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "t"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "y"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{\"a\":1}"},
            {"type": "function_call_output", "call_id": "c", "output": "z"}]}).encode())
    put("request", "document", b"\xff" + b'{"text":"x","system":"s","ttl":9,"pin":false,"tools":[]}')
    put("request", "tokenize", b'\2{"content":"the <s> king","add_special_tokens":false,"parse_special":true}')
    put("request", "detokenize", b'\3{"tokens":[1,2,3]}')


def safetensors():
    two = '{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},' \
          '"b":{"dtype":"BF16","shape":[],"data_offsets":[16,18]}}  '
    put("safetensors", "two", struct.pack("<H", 18) + two.encode())
    put("safetensors", "empty", struct.pack("<H", 0) + b"{}")
    zero = '{"z":{"dtype":"I64","shape":[0,3],"data_offsets":[0,0]}}'
    put("safetensors", "zero-size", struct.pack("<H", 0) + zero.encode())
    put("safetensors", "whole-file", struct.pack("<HQ", 0x8000, len(zero)) + zero.encode())


def model_dirs():
    llama = ('{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_act":"silu","hidden_size":64,'
             '"intermediate_size":96,"num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":1,"head_dim":32,'
             '"vocab_size":50,"max_position_embeddings":256,"rms_norm_eps":1e-5,"rope_theta":10000.0,'
             '"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,'
             '"original_max_position_embeddings":64},"tie_word_embeddings":false,"torch_dtype":"float32",'
             '"bos_token_id":1,"eos_token_id":[2,3]}')
    qwen = ('{"architectures":["Qwen2ForCausalLM"],"model_type":"qwen2","hidden_act":"silu","hidden_size":64,'
            '"intermediate_size":96,"num_hidden_layers":3,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":50,'
            '"max_position_embeddings":256,"rms_norm_eps":1e-6,"rope_theta":1e6,"use_sliding_window":true,'
            '"sliding_window":64,"max_window_layers":1,"rope_scaling":{"type":"yarn","factor":4.0,'
            '"original_max_position_embeddings":64},"tie_word_embeddings":true,"torch_dtype":"bfloat16"}')
    gpt_oss = ('{"architectures":["GptOssForCausalLM"],"model_type":"gpt_oss","hidden_act":"silu","hidden_size":64,'
               '"intermediate_size":64,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":32,'
               '"vocab_size":50,"max_position_embeddings":256,"rms_norm_eps":1e-5,"rope_theta":150000,"sliding_window":128,'
               '"layer_types":["sliding_attention","full_attention"],"rope_scaling":{"rope_type":"yarn","factor":32.0,'
               '"original_max_position_embeddings":64,"beta_fast":32.0,"beta_slow":1.0,"truncate":false},'
               '"num_local_experts":8,"num_experts_per_tok":2,"experts_per_token":2,"swiglu_limit":7.0,'
               '"quantization_config":{"quant_method":"mxfp4","modules_to_not_convert":["lm_head"]},"eos_token_id":2}')
    gemma4 = ('{"architectures":["Gemma4ForConditionalGeneration"],"model_type":"gemma4","eos_token_id":[1,106],"text_config":'
              '{"model_type":"gemma4_text","hidden_activation":"gelu_pytorch_tanh","hidden_size":64,"intermediate_size":96,'
              '"num_hidden_layers":3,"num_attention_heads":2,"num_key_value_heads":1,"head_dim":32,"global_head_dim":64,'
              '"vocab_size":50,"hidden_size_per_layer_input":16,"vocab_size_per_layer_input":50,"sliding_window":64,'
              '"layer_types":["sliding_attention","full_attention","full_attention"],"num_kv_shared_layers":1,'
              '"use_double_wide_mlp":true,"attention_k_eq_v":false,"enable_moe_block":false,"final_logit_softcapping":30.0,'
              '"use_bidirectional_attention":null,"max_position_embeddings":256,"rope_parameters":{"full_attention":'
              '{"rope_type":"proportional","partial_rotary_factor":0.25,"rope_theta":1e6},"sliding_attention":'
              '{"rope_type":"default","rope_theta":1e4}}},"dtype":"bfloat16"}')
    index = '{"metadata":{"total_size":8},"weight_map":{"a":"s.safetensors","b":"s.safetensors"}}'
    put("model_dir", "gemma4", gemma4, '{"eos_token_id":[1,106]}', index)
    put("model_dir", "gpt-oss", gpt_oss, '{"eos_token_id":[2,4]}', index)
    put("model_dir", "llama", llama, '{"eos_token_id":[2,4],"temperature":0.6}', index)
    put("model_dir", "qwen2", qwen, "{}", index)
    put("model_dir", "wrong-shard", llama, "{}", '{"weight_map":{"a":"../s.safetensors"}}')


def tokenizer_files():
    vocab = ('{"<unk>":0,"<s>":1,"</s>":2,"\u2581":3,"a":4,"b":5,"ab":6,"\u2581a":7,"<0x0A>":8,"<0xC3>":9,"<0xA9>":10,'
             '"\u0120":11,"\u0120a":12,"1":13,"e":14}')
    added = ('"added_tokens":[{"id":1,"content":"<s>","special":true,"lstrip":false,"rstrip":true,"single_word":false,'
             '"normalized":false},{"id":20,"content":"<x>","special":false,"normalized":true}]')
    post = ('"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},'
            '{"Sequence":{"id":"A","type_id":0}}],"special_tokens":{"<s>":{"id":"<s>","ids":[1],"tokens":["<s>"]}}}')
    spm_like = ('{%s,"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"\u2581"},{"type":"Replace",'
                '"pattern":{"String":" "},"content":"\u2581"}]},"pre_tokenizer":null,%s,"decoder":{"type":"Sequence",'
                '"decoders":[{"type":"Replace","pattern":{"String":"\u2581"},"content":" "},{"type":"ByteFallback"},'
                '{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},"model":{"type":"BPE","unk_token":'
                '"<unk>","fuse_unk":true,"byte_fallback":true,"vocab":%s,"merges":["a b",["\u2581","a"]]}}'
                % (added, post, vocab))
    byte_level = ('{%s,"normalizer":{"type":"NFC"},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split",'
                  '"pattern":{"Regex":"\\\\p{N}{1,3}| ?\\\\p{L}+|\\\\s+(?!\\\\S)"},"behavior":"Isolated","invert":false},'
                  '{"type":"ByteLevel","add_prefix_space":true,"use_regex":false}]},"decoder":{"type":"ByteLevel"},'
                  '"model":{"type":"BPE","ignore_merges":true,"vocab":%s,"merges":["a b","\u0120 a"]}}' % (added, vocab))
    words = ('{"added_tokens":[],"normalizer":{"type":"Lowercase"},"pre_tokenizer":{"type":"Sequence","pretokenizers":['
             '{"type":"Metaspace","replacement":"\u2581","prepend_scheme":"first"},{"type":"Digits","individual_digits":'
             'true},{"type":"Punctuation","behavior":"Contiguous"},{"type":"Whitespace"}]},"decoder":{"type":"Metaspace",'
             '"replacement":"\u2581","prepend_scheme":"first"},"model":{"type":"BPE","vocab":%s,"merges":[]}}' % vocab)
    config = ('{"tokenizer_class":"LlamaTokenizer","legacy":false,"add_bos_token":true,"add_eos_token":true,"bos_token":'
              '"<s>","eos_token":{"content":"</s>"},"added_tokens_decoder":{"1":{"content":"<s>","special":true}},'
              '"chat_template":[{"name":"default","template":"{{ messages }}"}]}')
    put("tokenizer_json", "spm-like", spm_like, config, '{"unk_token":"<unk>"}', '{"<x>":20}', "ab a\u00e9<s> a\n<x>")
    put("tokenizer_json", "byte-level", byte_level, config, "{}", "{}", " a ab 1a <x>")
    put("tokenizer_json", "words", words, "{}", "{}", "{}", "Ab, a11 b!!")


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    """A protobuf field: bytes by length, an int as a varint, a float in four bytes."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(value)


def sentencepiece_models():
    def model(kind, extra, normalizer):
        pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)] + extra
        raw = b"".join(field(1, field(1, p.encode()) + field(2, s) + field(3, t)) for p, s, t in pieces)
        return raw + field(2, field(3, kind)) + field(3, normalizer)

    letters = [("\u2581", -2.0, 1), ("a", -2.5, 1), ("b", -3.0, 1), ("ab", -1.0, 1), ("\u2581a", -1.5, 1), ("<x>", 0.0, 4)]
    byte_pieces = [(f"<0x{b:02X}>", 0.0, 6) for b in range(256)]
    plain = field(1, b"identity") + field(3, 1) + field(4, 1) + field(5, 1)
    put("tokenizer_model", "unigram", model(1, letters, plain))
    put("tokenizer_model", "bpe", model(2, letters, plain))
    put("tokenizer_model", "bpe-bytes", model(2, byte_pieces + letters, field(1, b"identity") + field(3, 0)))


def templates():
    put("jinja", "chat", "{% for m in messages %}{{ '<' ~ m.role ~ '>' + m['content'] | trim }}{% endfor %}")
    put("jinja", "macro", "{% macro f(a, b=2) -%} {{ a * b }} {%- endmacro %}{{ f(3) }}{% set ns = namespace(n=0) %}"
        "{% for x in range(5) if x % 2 %}{% set ns.n = ns.n + x %}{{ loop.index }}{% else %}-{% endfor %}{{ ns.n }}")
    put("jinja", "filters", "{{ x | map('string') | join(',') }}{{ messages | tojson(indent=2) }}"
        "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ '%s' | format(3) }}")
    put("jinja", "tests", "{{ 1 is odd and x is not defined or 'a' in 'abc' }}{{ [3,1,2] | sort | reverse | first }}"
        "{{ 'a-b'.split('-')[-1].upper()[::-1] }}{{ raise_exception('no') if false else {'k': [1, (2,)]}.items() }}")
    put("jinja", "request", "{{ messages[0].content }}{{ y }}",
        '{"messages":[{"role":"user","content":"é"}],"extra":{"y":[1,{"z":"<"}]}}')


def texts():
    for kind in range(12):
        put("text", f"encode-{kind}", bytes([kind, 1 | 2 | 4 | 8]) + "The <s> king's\n 12é\u0301 中🦙 </s>\t\u2581a".encode())
        ids = b"".join(struct.pack("<H", i * 7 % 300) for i in range(24))
        put("text", f"decode-{kind}", bytes([kind, 0]) + ids)
    put("text", "utf8", b"\0\1" + "\u07ff\u0800\uffff\U00010000\U0010ffff".encode() + b"\xed\xa0\x80\xf4\x90\x80\x80\xc0\xaf")


def patterns():
    gpt = "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
    put("regex", "gpt2", gpt, "It's 12 of the king's\n\n  men é中 ")
    put("regex", "llama3", "(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|\\s*[\\r\\n]+", "Don'T 1234\r\n\u00a0x")
    put("regex", "classes", "[\\u4e00-\\u9fff\\-\\]!]|\\h|\\v|\\bab\\b|a{,2}b|(?=B)|(x|y)*?z", "ab aab xyz B中]")
    put("regex", "empty-matches", "a*", "baac")


def schemas():
    """The first letter: a schema, strict, or with white space."""
    put("schema", "object", 'j{"type":"object","properties":{"a":{"type":"integer","minimum":-3,"maximum":12.5},"b":{"type":"string",'
        '"maxLength":3}},"required":["a"],"additionalProperties":false}')
    put("schema", "recursive", 's{"$defs":{"n":{"type":"object","properties":{"v":{"type":"number"},"next":{"anyOf":[{"$ref":'
        '"#/$defs/n"},{"type":"null"}]}},"required":["v","next"]}},"$ref":"#/$defs/n"}')
    put("schema", "spaced", 'w{"type":"array","prefixItems":[{"const":1},{"enum":["a",null,[2]]}],"items":{"type":["boolean","string"],'
        '"pattern":"^[a-c]+$"},"minItems":1,"maxItems":4}')
    put("schema", "names", 'j{"patternProperties":{"^x":{"multipleOf":6},"y$":{"format":"date"}},"propertyNames":{"minLength":2},'
        '"minProperties":1,"maxProperties":3,"additionalProperties":{"$ref":"#"},"type":"object"}')
    put("schema", "combined", 'j{"allOf":[{"minimum":3},{"oneOf":[{"type":"integer","exclusiveMaximum":9},{"type":"string","minLength":1}]}],'
        '"$comment":"x","x-a":1}')


def grammar_patterns():
    put("pattern", "groups", "^(?:a|[^b-d\\d]{1,3}|\\u00e9+?)*(x|y$)\\.$", "a\u00e9x.")
    put("pattern", "classes", "[\\s-]\\S{2}[^\\w\\]^[]|\\W\\D?[\\b\\cA\\x41-\\u{1f600}]*.", " a]\U0001f600")
    put("pattern", "anywhere", "(?<year>\\d{4})-(0[1-9]|1[0-2])$|^$|[]", "in 2026-11")
    put("pattern", "empties", "(a*|^b|)*?(|c){2,3}[^]", "abc")


def grammar_parts():
    put("parts", "calls", b's2*00s3u2t<call>\0c<1>\0k{"type":"object","properties":{"a":{"type":"integer"}}}\0t</call>\0f1t<call>\0')
    put("parts", "alternatives", b'a3s2rab?|c\0c<2>\0*13tab\0s3f2tx\0c<1>\0txy\0u1t\xc3\xa9\0')


def answers():
    """Format (a row of the table, from `a` on), what the parser is told (7: reasoning, tools, opened), where it is cut."""
    rome = '{"city": "Rome", "days": [1, "}\\\\ </tool_call>"]}'
    for i, (name, told, text) in enumerate((
            ("gpt_oss", 3, "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary to=functions.weather "
             "<|constrain|>json<|message|>" + rome + "<|call|><|start|>assistant<|channel|>final<|message|>b<|return|>"),
            ("gemma4", 3, "<|channel>thought\na<channel|>b<|tool_call>call:weather{city:<|\"|>Rome<|\"|>,days:3,x:[{a:true,b:c}]}"
             "<tool_call|><|tool_call>call:get{}<tool_call|>"),
            ("qwen3_xml", 7, "a\n</think>\n\nb\n<tool_call>\n<function=weather>\n<parameter=city>\nRome\n</parameter>\n"
             "<parameter=days>\n{\"a\": 1}\n</parameter>\n</function>\n</tool_call>\n<tool_call><function=get></function></tool_call>"),
            ("glm", 7, "a</think>b\n<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value><arg_key>days</arg_key>"
             "<arg_value>3</arg_value>\n</tool_call><tool_call>get</tool_call>"),
            ("minimax_m2", 3, "<think>a</think><minimax:tool_call>\n<invoke name=\"weather\">\n<parameter name=\"city\">Rome</parameter>\n"
             "</invoke>\n<invoke name=\"get\">\n</invoke>\n</minimax:tool_call>"),
            ("deepseek_v4", 3, "b\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"weather\">\n<｜DSML｜parameter name=\"city\" string=\"true\">"
             "Rome</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
             "</｜DSML｜tool_calls>"),
            ("deepseek_r1", 3, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n" + rome +
             "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>get\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
            ("deepseek_v31", 3, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>" + rome + "<｜tool▁call▁end｜>"
             "<｜tool▁call▁begin｜>get<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
            ("kimi_k2", 3, "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>" + rome +
             "<|tool_call_end|><|tool_call_begin|>functions.get:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"),
            ("mistral_args", 3, "[THINK]a[/THINK]b[TOOL_CALLS]weather[ARGS]" + rome + "[TOOL_CALLS]get[CALL_ID]a1b2c3d4e[ARGS]{}"),
            ("apertus", 3, '<|tools_prefix|>[{"weather": ' + rome + '}, {"get": {}}]<|tools_suffix|>'),
            ("mistral", 3, '[TOOL_CALLS][{"name": "weather", "arguments": ' + rome + ', "id": "abc"}, {"name": "get", "arguments": {}}]'),
            ("nemotron", 3, '<TOOLCALL>[{"name": "weather", "arguments": ' + rome + '}, {"arguments": {}, "name": "get"}]</TOOLCALL>'),
            ("command", 3, '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "weather", "parameters": ' + rome + '}\n]<|END_ACTION|>'),
            ("granite", 3, '<|tool_call|>[{"name": "weather", "arguments": ' + rome + '}]'),
            ("gigachat", 3, '<|function_call|>{"name": "weather", "arguments": ' + rome + '}'),
            ("hermes", 3, '<think>\na\n</think>\n\nb\n<tool_call>\n{"name": "weather", "arguments": ' + rome + '}\n</tool_call>\n'
             '<tool_call>{"arguments": {}, "name": "get"}</tool_call><tool_call>{"name": "no"}'),
            ("lfm2", 3, "<think>a</think>b<|tool_call_start|>[weather(city='it's', days=[1, {\"a\": None}],), get( )]<|tool_call_end|>c"),
            ("pythonic", 3, '[weather(city="R\\u00e9\\n\\x41\\ud83d\\ude00", days=-1.5, ok=True), get(a={})]'),
            ("llama3", 3, '{"name": "weather", "parameters": ' + rome + '}; {"name": "get", "parameters": {}}'),
            ("think", 5, "a\n</think>\n\nb<think>c</think>"), ("plain", 3, "a<think>b</think>"))):
        put("answer", name, bytes([ord("a") + i, told, i]) + text.encode())
    put("answer", "controls", b"q\3\3a\xff<think>\xffb\xff</think>\xffc\xff<tool_call>\xff\n{\"name\": \"get\", \"arguments\": "
        b"{\"a\": \"</tool_call>\xff<|im_end|>\xff\"}}\xff</tool_call>\xff")


def settings():
    file = '{"comment":"x","max_seqs":"8","memory":"2G","prefix_cache":false,"cors_origin":["https://a","b,c"],"port":8080}'
    put("config", "serve", b"\0" + file.encode(), "--model", "m", "--ctx=128K", "--port", "0", "--isa", "avx2",
        "LONGFLASH_QUEUE=9", "--insecure-no-auth")
    put("config", "run", b"\2{}", "--document", "d.txt", "--temperature", "0.5", "--", "--what is it?")
    put("config", "load", b"\3{}", "http://127.0.0.1:80", "--concurrency", "1,2,4", "--find-limit", "--lengths=1K,2K")
    put("config", "slips", b"\1{\"max-seqs\":1}", "--modle", "m", "LONGFLASH_PRT=1", "LONGFLASH_PORT=tcp://1.2.3.4:5")


def http():
    answer = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n1;x=y\r\n" \
             "a\r\n0\r\nTrailer: t\r\n\r\n"
    put("http_text", "chunked", "localhost:8080", "https://app.example", "Bearer one", answer)
    put("http_text", "counted", "[::1]:80", "null", "bearer  two ", "HTTP/1.0 503 No\r\nContent-Length: 3\r\n\r\nabc")
    put("http_text", "until-end", "127.0.0.1.evil.example", "https://app.example.evil", "Basic b25l",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200\r\n\r\nrest")


def sockets():
    """Scripts of fuzz_socket.c, and each short framing case with the marker behind it."""
    flush, half, reset, wait, read, more = (bytes([0xff, c]) for c in range(4, 10))
    on = [bytes([0xff, c]) for c in range(4)]

    def request(body, path=b"/v1/completions", head=b""):
        return (b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s"
                % (path, head, len(body), body))

    say = request(b'{"prompt":"[[say=hello]]","max_tokens":8}')
    stream = request(b'{"prompt":"[[step_ms=1]] x","max_tokens":20,"stream":true,"n":2}')
    chat = request(b'{"messages":[{"role":"user","content":"[[say=yes]]"}],"stream":true,"logprobs":true}',
                   b"/v1/chat/completions")
    get = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    put("socket", "one", say)
    put("socket", "pipelined", get + say + get + stream)
    put("socket", "cut", say[:30] + flush + say[30:70] + wait + say[70:] + wait + read)
    put("socket", "stream-left", stream + wait + read + half)
    put("socket", "stream-reset", stream + wait + read + reset + get)
    put("socket", "chat", chat + wait + say + wait + half)
    put("socket", "merged", on[1] + chat[:50] + flush + on[2] + stream + flush + on[1] + chat[50:] + on[3] + get + more + on[0] + say)
    put("socket", "body-cut", say[:-5] + half)
    put("socket", "many", get + more + wait + more + read)
    put("socket", "waits", request(b'{"prompt":"[[say=x]]"}', head=b"Expect: 100-continue\r\n"))
    put("socket", "tokenize", request(b'{"content":"a<|end|>b","with_pieces":true}', b"/tokenize") + wait
        + request(b'{"tokens":[104,105]}', b"/detokenize") + wait
        + request(b'{"messages":[{"role":"user","content":"hi"}]}', b"/apply-template"))
    put("socket", "fails", request(b'{"prompt":"[[fail_at=2]]"}') + wait + request(b'{"prompt":"[[die_at=1]]"}') + wait)
    put("socket", "chunks", b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n9;a=b\r\n{\"content" + flush + b"\r\n6\r\n\":\"a\"}\r\n0\r\nX: y\r\n\r\n")
    for name, (_, message) in framing_cases.CASES.items():
        if len(message) < 1024:
            put("socket", "framing-" + re.sub("[^a-z0-9]+", "-", name.lower()), message + framing_cases.MARKER)


def scheduler_operations():
    """A head of 8 bytes (see fuzz_sched.c), then operations: submit takes 7 bytes, end, learn and jump one, others none."""
    submit, admit, launch, read, end, jump, clear, step = range(8)
    head = bytes([11, 63, 7, 7, 0, 3, 1, 0])

    def ask(tenant, blocks, rest, n_tokens, priority=0, doc=0, flags=0):
        return bytes([submit, tenant, blocks, rest, n_tokens, priority & 255, doc, flags])

    steps = bytes([step, 9]) * 12
    put("sched", "one", head, ask(0, 3, 5, 9), steps, sep=b"")
    put("sched", "flood", head, b"".join(ask(1, 2, i, 20, -8) for i in range(9)), steps, ask(2, 3, 1, 3), steps, sep=b"")
    put("sched", "larger-than-a-share", head, ask(1, 1, 1, 60), ask(2, 10, 0, 9), steps, bytes([jump, 200]), steps, sep=b"")
    put("sched", "shared", head, b"".join(ask(i % 3, 4, 7, 5, 0, 1, i % 2 * 2) for i in range(8)), steps,
        bytes([clear, end, 1]), steps, sep=b"")
    put("sched", "echo-ahead", bytes([5, 15, 3, 3, 40, 1, 0, 1]), ask(3, 1, 3, 4, 0, 0, 1), ask(3, 0, 9, 0, 3),
        bytes([admit, launch, launch, end, 0, read, 3, read, 3, launch, read, 0]), steps, sep=b"")


def rendezvous():
    """Operations (see fuzz_rendezvous.c), and messages as they are (server/rendezvous/wire.h)."""
    def message(kind, body, version=1):
        return b"LFrv" + struct.pack("<HHI", version, kind, len(body)) + body

    hello = message(1, bytes(range(32)) + struct.pack("<III", 1, 0, 3))
    right = bytes([1, 1, 0, 3])
    put("rendezvous", "in", right, b"\2\2id", sep=b"")
    put("rendezvous", "both-in", right, b"\2\2id", b"\4", bytes([1, 2, 0, 3]), b"\2\2id", sep=b"")
    put("rendezvous", "twice", right, b"\2\2id", b"\4", right, b"\2\2id", sep=b"")
    put("rendezvous", "other-identity", right, b"\2\3abc", sep=b"")
    put("rendezvous", "other-count", bytes([1, 1, 0, 4]), b"\2\2id", sep=b"")
    put("rendezvous", "other-rank", bytes([1, 9, 0, 3]), b"\2\2id", sep=b"")
    put("rendezvous", "changed", right, bytes([3, 2]), b"id", bytes([250, 1]), sep=b"")
    put("rendezvous", "thrown", bytes([0, len(hello)]), hello, bytes([0, 9]), b"LFrv\1\0\3\0\0", sep=b"")
    put("rendezvous", "thrown-version", bytes([0, 12]), message(1, b"", 2), sep=b"")
    address = struct.pack("<HH", 4, 80) + bytes([10, 0, 0, 1]) + bytes(12)
    text, mac = b"longflash".ljust(1024, b"\0"), bytes(32)
    put("rendezvous", "hello", hello)
    put("rendezvous", "proof", message(3, text + address + mac))
    put("rendezvous", "answer", message(4, struct.pack("<IIII", 1, 0, 3, 1) + text + mac))
    put("rendezvous", "table", message(6, address * 3 + bytes(20 * 13) + mac))
    put("rendezvous", "end", message(9, struct.pack("<I", 10) + text + mac))


if __name__ == "__main__":
    for make in (json_texts, request_bodies, safetensors, model_dirs, tokenizer_files, sentencepiece_models, templates, texts,
                 patterns, schemas, grammar_patterns, grammar_parts, answers, settings, scheduler_operations, http, sockets,
                 rendezvous):
        make()
