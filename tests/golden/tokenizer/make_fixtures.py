"""Makes the small tokenizers of this folder and what Hugging Face tokenizers and sentencepiece make of some texts.

    python make_fixtures.py PROSE          (packages tokenizers and sentencepiece; PROSE: any long English text)

Each kind is a folder: tokenizer.json or tokenizer.model, and golden.json: {"texts": [{"text", "ids", "around",
"plain"}], "decodes": [{"ids", "text", "all"}]}: ids with special tokens recognized, with what goes around a text, and
with special tokens as plain text (left out where that is the same); decoded without special tokens and with them.
"""
import json
import os
import random
import sys

import sentencepiece as spm
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers)

import texts as corpus

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace("{1,3}", "")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?"
          r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
# of gpt-oss: Tekken's with three digits at once and a contraction behind a word
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+"
            r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIALS = ["<|begin|>", "<|end|>", "<|im_start|>", "<|im_end|>"]
N_VOCAB = 340


def train(tokenizer, prose, alphabet, specials=(), n=N_VOCAB):
    trainer = trainers.BpeTrainer(vocab_size=n, special_tokens=list(specials), initial_alphabet=alphabet,
                                  show_progress=False)
    tokenizer.train_from_iterator([prose], trainer)
    return tokenizer


def byte_level(prose, pre, normalizer=None, post=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = post or processors.ByteLevel(trim_offsets=False)
    train(tokenizer, prose, pre_tokenizers.ByteLevel.alphabet())
    tokenizer.add_special_tokens(SPECIALS)
    return tokenizer


def split(pattern, behavior="isolated"):
    return pre_tokenizers.Split(Regex(pattern), behavior)


def llama3(prose):
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = byte_level(prose, pre_tokenizers.Sequence([split(LLAMA3), letters]), ignore_merges=True)
    begin = tokenizer.token_to_id("<|begin|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", begin)])])
    return tokenizer


def gpt2(prose):
    tokenizer = byte_level(prose, pre_tokenizers.ByteLevel(add_prefix_space=True))
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", normalized=True)])
    tokenizer.add_tokens(["  ", "    ", "hello world"])
    return tokenizer


def qwen(prose):
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = byte_level(prose, pre_tokenizers.Sequence([split(QWEN), letters]), normalizers.NFC())
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    return tokenizer


def tekken(prose):
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return byte_level(prose, pre_tokenizers.Sequence([split(TEKKEN), letters]), ignore_merges=True)


def o200k(prose):
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = byte_level(prose, pre_tokenizers.Sequence([split(O200K), letters]))
    tokenizer.add_special_tokens(["<|start|>", "<|channel|>", "<|message|>", "<|return|>", "<|call|>"])
    return tokenizer


def deepseek(prose):
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return byte_level(prose, pre_tokenizers.Sequence([
        split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"), split(DEEPSEEK), letters]))


def falcon(prose):
    return byte_level(prose, pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Digits(False), split("[0-9][0-9][0-9]")]))


def bytes_and_specials():
    return ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]


def llama2(prose):
    """Prepended mark, no pre-tokenizer, byte fallback, as converted from sentencepiece."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()  # only while it learns
    train(tokenizer, prose, ["▁", "é"], bytes_and_specials(), 480)
    tokenizer.pre_tokenizer = None
    data = json.loads(tokenizer.to_str())
    data["pre_tokenizer"] = None
    data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>",
                                                             special_tokens=[("<s>", 1), ("</s>", 2)])
    return tokenizer


def metaspace(prose):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Strip(left=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    train(tokenizer, prose, [], ["<unk>", "<s>", "</s>"])
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    return tokenizer


def words(prose):
    """Everything that is not in the other kinds."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.NFKC(), normalizers.Lowercase(), normalizers.Replace(Regex(r"(?i:q)\s*u"), "kw"), normalizers.Replace("--", "—"), normalizers.NFD()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split("—", "merged_with_previous"),
        pre_tokenizers.Split(Regex(r"[aeiou]\b"), "merged_with_next"), pre_tokenizers.Digits(True),
        pre_tokenizers.Split(Regex(r"\w+|[^\w\s]"), "removed", invert=True),
        pre_tokenizers.Split(Regex(r"[.,;]"), "contiguous"), pre_tokenizers.Whitespace()])
    train(tokenizer, prose, [], ["<unk>"])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True), AddedToken("<sep>", rstrip=True),
                                  AddedToken("<Bos>", normalized=True)])
    tokenizer.add_tokens([AddedToken("king", single_word=True), AddedToken("QUEEN", normalized=True)])
    return tokenizer


def sp_train(path, prose_path, **options):
    spm.SentencePieceTrainer.train(input=prose_path, model_prefix=path[:-len(".model")], minloglevel=2,
                                   input_sentence_size=2000, shuffle_input_sentence=False, **options)
    os.remove(path[:-len(".model")] + ".vocab")


def sp_models(here, prose_path):
    rules = os.path.join(here, "rules.tsv")
    with open(rules, "w", encoding="utf-8") as f:
        for source, target in (("Å", "å"), ("ﬁ", "fi"), ("\t", " "), ("\u00a0", " "), ("...", "…"), ("\u00ad", "")):
            f.write(" ".join(f"{ord(c):X}" for c in source) + "\t" + " ".join(f"{ord(c):X}" for c in target) + "\n")
    for kind, options in {
            "sp-bpe": dict(model_type="bpe", vocab_size=480, byte_fallback=True, normalization_rule_name="identity",
                           remove_extra_whitespaces=False, split_digits=True, user_defined_symbols=["<sep>", "  "],
                           control_symbols=["<|im_start|>"]),
            "sp-unigram": dict(model_type="unigram", vocab_size=400, normalization_rule_tsv=rules,
                               user_defined_symbols=["<sep>", "the king"]),
            "sp-suffix": dict(model_type="unigram", vocab_size=360, treat_whitespace_as_suffix=True,
                              normalization_rule_name="identity", byte_fallback=True, hard_vocab_limit=False)}.items():
        os.makedirs(os.path.join(here, kind), exist_ok=True)
        sp_train(os.path.join(here, kind, "tokenizer.model"), prose_path, **options)
    os.remove(rules)


def some_texts(prose, vocabulary, n):
    rng = random.Random(5)
    extra = ["<s>a</s> b", " <mask> x <sep>  y", "kings king king's QUEEN queen", "<bos> <Bos>", "a<|im_start|>user\nb",
             "<|endoftext|> hello world    x", "<think> a </think>", "q u -- Q  U", "--a--b---", "1234567 x2"]
    drawn = [t for t in corpus.texts(3000, prose, vocabulary, seed=9) if len(t) < 80]
    return extra + corpus.WORDS[::2] + corpus.SPACES[::3] + corpus.EMOJI[::2] + rng.sample(drawn, n)


def renamed(tokenizer):
    """Added tokens that the normalizer rewrites: some versions of the library decode them as rewritten."""
    if tokenizer.normalizer is None:
        return set()
    return {i for i, t in tokenizer.get_added_tokens_decoder().items()
            if t.normalized and tokenizer.normalizer.normalize_str(t.content) != t.content}


def write_golden(directory, encodes, decodes):
    with open(os.path.join(directory, "golden.json"), "w", encoding="utf-8") as f:
        f.write('{"texts": [\n')
        f.write(",\n".join(json.dumps(e, separators=(",", ":")) for e in encodes))
        f.write('\n], "decodes": [\n')
        f.write(",\n".join(json.dumps(d, separators=(",", ":")) for d in decodes))
        f.write("\n]}\n")


def golden_hf(directory, prose):
    tokenizer = Tokenizer.from_file(os.path.join(directory, "tokenizer.json"))
    chosen = some_texts(prose, list(tokenizer.get_vocab()), 12)
    chosen = [t for t in chosen if "\0" not in t]
    encodes = [{"text": t, "ids": tokenizer.encode(t, add_special_tokens=False).ids} for t in chosen]
    for e in encodes[::12]:
        e["around"] = tokenizer.encode(e["text"]).ids
    tokenizer.encode_special_tokens = True
    for e in encodes:
        plain = tokenizer.encode(e["text"], add_special_tokens=False).ids
        if plain != e["ids"]:
            e["plain"] = plain
    rng = random.Random(6)
    sequences = [e["around"] for e in encodes[::12]]
    if "ByteFallback" not in tokenizer.to_str():
        sequences += [[rng.randrange(tokenizer.get_vocab_size()) for _ in range(8)] for _ in range(8)]
    sequences = [[i for i in s if i not in renamed(tokenizer)] for s in sequences]
    decodes = [{"ids": s, "text": tokenizer.decode(s), "all": tokenizer.decode(s, skip_special_tokens=False)}
               for s in sequences]
    write_golden(directory, encodes, decodes)


def golden_sp(directory, prose):
    sp = spm.SentencePieceProcessor(model_file=os.path.join(directory, "tokenizer.model"))
    pieces = [sp.id_to_piece(i) for i in range(sp.get_piece_size())]
    chosen = [t for t in some_texts(prose, pieces, 12) if "\0" not in t]
    encodes = [{"text": t, "plain": sp.encode(t)} for t in chosen]
    rng = random.Random(6)
    ids = [i for i in range(len(pieces)) if not sp.is_control(i)]
    sequences = [e["plain"] for e in encodes[::6]] + [[rng.choice(ids) for _ in range(8)] for _ in range(8)]
    write_golden(directory, encodes, [{"ids": s, "all": sp.decode(s)} for s in sequences])


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    prose = open(sys.argv[1], encoding="utf-8").read()[5000:400000]
    for make in (llama3, gpt2, qwen, tekken, o200k, deepseek, falcon, llama2, metaspace, words):
        directory = os.path.join(here, "like-" + make.__name__)
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, "tokenizer.json"), "w", encoding="utf-8") as f:
            f.write(json.dumps(json.loads(make(prose).to_str()), separators=(",", ":"), ensure_ascii=False) + "\n")
        golden_hf(directory, prose)
    sp_models(here, sys.argv[1])
    for kind in ("sp-bpe", "sp-unigram", "sp-suffix"):
        golden_sp(os.path.join(here, kind), prose)


main()
