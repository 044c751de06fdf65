"""The families: a chat template, the control tokens of its vocabulary, and how a model of it writes an answer.

A family whose template is not ours is looked for in $LF_ASSETS/chat_templates, and left out where it is not there.
"""
import json
import os
import re
import typing

HERE = os.path.dirname(os.path.abspath(__file__))
ASSETS = os.path.join(os.environ.get("LF_ASSETS", ""), "chat_templates")


class Family(typing.NamedTuple):
    name: str
    template: str  # a file of ours or of the assets
    write: object  # parts of an answer -> text
    eos: str
    control: list  # tokens that are no text
    added: list = []  # tokens that are text
    bos: str = ""
    ends: list = []  # tokens that end an answer too
    parallel: bool = True
    alternates: bool = False  # the template refuses a user's message behind a tool's
    thinks: bool = False
    switch: str = ""  # the template's variable that makes it think
    on: str = ""  # with what a prompt ends after which it thinks, …
    off: str = ""  # … or after which it does not; neither: it may


def compact(o):
    return json.dumps(o, ensure_ascii=False)


def split(parts):
    think = None if ("off",) in parts else "".join(p[1] for p in parts if p[0] == "think")
    say = "".join(p[1] for p in parts if p[0] == "say")
    return think, say, [p[1:] for p in parts if p[0] == "call"]


def hermes(parts):
    think, say, calls = split(parts)
    blocks = [f'<tool_call>\n{{"name": "{n}", "arguments": {compact(a)}}}\n</tool_call>' for n, a in calls]
    return (f"<think>\n{think}\n</think>\n\n" if think else "") + "\n".join(([say] if say else []) + blocks)


def coder(parts):
    think, say, calls = split(parts)

    def value(v):
        return v if isinstance(v, str) else str(v) if isinstance(v, bool) else compact(v)
    blocks = []
    for n, a in calls:
        inner = "".join(f"<parameter={k}>\n{value(v)}\n</parameter>\n" for k, v in a.items())
        blocks.append(f"<tool_call>\n<function={n}>\n{inner}</function>\n</tool_call>")
    return "\n".join(([say] if say else []) + blocks)


def llama3(parts):
    _, say, calls = split(parts)
    return say if not calls else "; ".join(compact({"name": n, "parameters": a}) for n, a in calls)


def mistral_list(parts):
    _, say, calls = split(parts)
    return say + ("[TOOL_CALLS]" + compact([{"name": n, "arguments": a} for n, a in calls]) if calls else "")


def mistral_names(parts):
    _, say, calls = split(parts)
    return say + "".join(f"[TOOL_CALLS]{n}[ARGS]{compact(a)}" for n, a in calls)


def lfm2(parts):
    think, say, calls = split(parts)

    def value(v):
        return repr(v) if v is None or isinstance(v, bool) else compact(v)
    written = [f"{n}({', '.join(f'{k}={value(v)}' for k, v in a.items())})" for n, a in calls]
    return (f"<think>{think}</think>" if think else "") + say + (f"<|tool_call_start|>[{', '.join(written)}]<|tool_call_end|>" if written else "")


def gpt_oss(parts):
    think, say, calls = split(parts)
    out = f"<|channel|>analysis<|message|>{think}<|end|><|start|>assistant" if think else ""
    if calls and say:
        out += f"<|channel|>commentary<|message|>{say}<|end|><|start|>assistant"
    for n, a in calls:
        out += f"<|channel|>commentary to=functions.{n} <|constrain|>json<|message|>{compact(a)}<|call|>"
    return out if calls else out + f"<|channel|>final<|message|>{say}"


def gemma(parts):
    think, say, calls = split(parts)

    def members(o):
        return "{" + ",".join(f"{k}:{value(o[k])}" for k in sorted(o, key=str.lower)) + "}"

    def value(v):
        if isinstance(v, str):
            return f'<|"|>{v}<|"|>'
        return members(v) if isinstance(v, dict) else f"[{','.join(map(value, v))}]" if isinstance(v, list) else compact(v)
    out = f"<|channel>thought\n{think}<channel|>" if think else ""
    for n, a in calls:
        out += f"<|tool_call>call:{n}{members(a)}<tool_call|>"
    return out + say if not calls else say + out


def glm(parts):
    think, say, calls = split(parts)
    out = ("" if think is None else f"{think}</think>") + say
    for n, a in calls:
        pairs = "".join(f"<arg_key>{k}</arg_key><arg_value>{v if isinstance(v, str) else compact(v)}</arg_value>"
                        for k, v in a.items())
        out += f"<tool_call>{n}{pairs}</tool_call>"
    return out


def deepseek(parts):
    think, say, calls = split(parts)
    b, e, c, d, s = (f"<\uff5ctool\u2581{w}\uff5c>" for w in ("calls\u2581begin", "calls\u2581end", "call\u2581begin",
                                                              "call\u2581end", "sep"))
    blocks = "".join(f"{c}{n}{s}{compact(a)}{d}" for n, a in calls)
    return ("" if think is None else f"{think}</think>") + say + (b + blocks + e if calls else "")


CHATML = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
MISTRAL = ["<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]",
           "[/TOOL_RESULTS]", "[ARGS]", "[CALL_ID]", "[TOOL_CONTENT]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[IMG]"]
HARMONY = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>", "<|return|>",
           "<|endoftext|>"]
GEMMA = ["<bos>", "<eos>", "<|turn>", "<turn|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>",
         "<|tool>", "<tool|>", "<|channel>", "<channel|>", '<|"|>', "<|image|>", "<|audio|>", "<|video|>", "<|think|>"]
DEEPSEEK = ["<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "<\uff5cUser\uff5c>",
            "<\uff5cAssistant\uff5c>"]
DEEPSEEK_TOOLS = [f"<\uff5ctool\u2581{w}\uff5c>" for w in ("calls\u2581begin", "calls\u2581end", "call\u2581begin",
                                                          "call\u2581end", "output\u2581begin", "output\u2581end", "sep")]
GLM = ["<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"]
LLAMA = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>",
         "<|python_tag|>"]
TOOL_CALL = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
THINK = ["<think>", "</think>"]
FAMILIES = [
    Family("qwen3", "qwen3.jinja", hermes, "<|im_end|>", CHATML, TOOL_CALL + THINK, thinks=True, off="</think>\n\n"),
    Family("qwen2.5", "Qwen-Qwen2.5-7B-Instruct.jinja", hermes, "<|im_end|>", CHATML, TOOL_CALL),
    Family("qwen3-coder", "Qwen3-Coder.jinja", coder, "<|im_end|>", CHATML, TOOL_CALL + THINK),
    Family("llama3.2", "meta-llama-Llama-3.2-3B-Instruct.jinja", llama3, "<|eot_id|>", LLAMA, bos="<|begin_of_text|>",
           parallel=False),
    Family("mistral-nemo", "mistralai-Mistral-Nemo-Instruct-2407.jinja", mistral_list, "</s>", MISTRAL, bos="<s>", alternates=True),
    Family("mistral-small", "Mistral-Small-3.2-24B-Instruct-2506.jinja", mistral_names, "</s>", MISTRAL, bos="<s>", alternates=True),
    Family("gpt-oss", "gpt-oss.jinja", gpt_oss, "<|return|>", HARMONY, ends=["<|call|>"], thinks=True, parallel=False),
    Family("gemma4", "google-gemma-4-31B-it-interleaved.jinja", gemma, "<turn|>", GEMMA, bos="<bos>", thinks=True,
           switch="enable_thinking", off="<channel|>"),
    Family("glm4.7", "GLM-4.7-Flash.jinja", glm, "<|user|>", GLM, TOOL_CALL + THINK + ["<arg_key>", "</arg_key>", "<arg_value>",
           "</arg_value>"], ends=["<|endoftext|>", "<|observation|>"], thinks=True, on="<think>"),
    Family("lfm2.5", "LFM2.5-8B-A1B.jinja", lfm2, "<|im_end|>", CHATML + ["<|tool_call_start|>", "<|tool_call_end|>"], THINK,
           bos="<|startoftext|>", thinks=True),
    Family("deepseek-v3.1", "deepseek-v3.1.jinja", deepseek, DEEPSEEK[1], DEEPSEEK, DEEPSEEK_TOOLS + THINK,
           bos=DEEPSEEK[0], thinks=True, switch="thinking", on="<think>"),
]


def template_of(family):
    """The family's template, or None where it is not there."""
    for folder in (os.path.join(HERE, "templates"), ASSETS):
        path = os.path.join(folder, family.template)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                return f.read()
    return None


def byte_letters():
    """GPT-2's letters for bytes, as in tokenizer.json."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in plain}
    letters.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in letters)})
    return letters


def learned_merges(texts, n):
    """Byte-pair merges, so that tokens are of several sizes and straddle what the parsers look for."""
    letters = byte_letters()
    words = [[letters[b] for b in t.encode()] for t in texts]
    merges = []
    while len(merges) < n:
        count = {}
        for w in words:
            for pair in zip(w, w[1:]):
                count[pair] = count.get(pair, 0) + 1
        pair = max(count, key=lambda p: (count[p], p))
        merges.append(pair)
        for i, w in enumerate(words):
            out = []
            for c in w:
                if out and (out[-1], c) == pair:
                    out[-1] += c
                else:
                    out.append(c)
            words[i] = out
    return merges


def make_model(folder, family, texts, n_merges):
    """A model's directory without weights: a tokenizer with the family's tokens, and its template."""
    os.makedirs(folder, exist_ok=True)
    markers = "|".join(re.escape(t) for t in [*family.control, *family.added])
    merges = learned_merges([piece for t in texts for piece in re.split(markers, t) if piece], n_merges)
    vocab = {c: i for i, c in enumerate(sorted(byte_letters().values()))}
    for a, b in merges:
        vocab.setdefault(a + b, len(vocab))
    added = []
    for special, names in ((True, family.control), (False, family.added)):
        for name in names:
            added.append({"id": len(vocab) + len(added), "content": name, "special": special, "normalized": False,
                          "single_word": False, "lstrip": False, "rstrip": False})
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
                   "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
                   "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocab,
                             "merges": [f"{a} {b}" for a, b in merges]}}, f, ensure_ascii=False)
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as f:
        json.dump({"eos_token": family.eos, "bos_token": family.bos or None, "add_bos_token": False,
                   "chat_template": template_of(family)}, f, ensure_ascii=False)


def make_script(path, family, rules):
    out = []
    for r in rules:
        rule = {"when": r.when, "unless": r.unless}
        silent = family.write([p for p in r.answer if p[0] != "think"] + [("off",)])
        full = family.write(r.answer)
        if family.on:
            out.append({**rule, "end": family.on, "say": full})
        elif family.off:
            out.append({**rule, "end": family.off, "say": silent})
        out.append({**rule, "say": silent if family.on else full})
    with open(path, "w", encoding="utf-8") as f:
        json.dump(out, f, ensure_ascii=False)
