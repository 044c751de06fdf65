"""Holds our tokenizers against Hugging Face tokenizers, transformers' slow LlamaTokenizer and sentencepiece.

    python compare.py --driver build/release/tests/tokenize_driver --assets ../shared/assets --demo demo/model [KIND …]

Each kind: N texts (see texts.py) and all of the prose as one, ids equal or not, then N random id sequences decoded, equal or not. Needs the
packages sentencepiece and tokenizers; the `legacy: false` kinds need transformers 4 (its slow tokenizer).
Ends with 1 if anything differs. With --speed: seconds for the prose as one text, in turn, best of three, instead.
"""
import argparse
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import texts as corpus

BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>$")


def run_driver(driver, directory, mode, records, size):
    data = b"".join(struct.pack("<I", len(r) // size) + r for r in records)
    done = subprocess.run([driver, directory, *mode], input=data, stdout=subprocess.PIPE, check=False)
    out, at = [], 0
    unit = 4 if mode[0] == "encode" else 1
    while at < len(done.stdout):
        n, = struct.unpack_from("<I", done.stdout, at)
        at += 4
        if n == 0xffffffff:
            out.append(None)
            continue
        out.append(done.stdout[at:at + n * unit])
        at += n * unit
    if done.returncode != 0 or len(out) != len(records):
        raise SystemExit(f"{directory}: the driver ended with {done.returncode} after {len(out)} of {len(records)}")
    return out


def encode_all(driver, directory, flags, items):
    raw = run_driver(driver, directory, ["encode", *flags], [t.encode() for t in items], 1)
    return [None if r is None else list(struct.unpack(f"<{len(r) // 4}i", r)) for r in raw]


def decode_all(driver, directory, flags, sequences):
    raw = run_driver(driver, directory, ["decode", *flags], [struct.pack(f"<{len(s)}i", *s) for s in sequences], 4)
    return [r.decode() for r in raw]


def report(kind, what, items, ours, theirs, show=3):
    bad = [i for i in range(len(items)) if ours[i] != theirs[i]]
    print(f"{kind:28} {what:22} {len(items) - len(bad)} of {len(items)} equal", flush=True)
    for i in bad[:show]:
        print(f"   {items[i]!r:.300}\n      ours   {ours[i]!r:.300}\n      theirs {theirs[i]!r:.300}")
    return len(bad)


def good_bytes(sequence, byte_of):
    """Whether every run of byte tokens spells whole code points; else Hugging Face replaces the whole run."""
    run = b""
    for i in [*sequence, None]:
        if i is not None and i in byte_of:
            run += bytes([byte_of[i]])
            continue
        try:
            run.decode()
        except UnicodeDecodeError:
            return False
        run = b""
    return True


def sequences(n, ids, encoded, seed=2):
    """Random ids, and pieces of real encodings, which have whole code points in them."""
    rng = random.Random(seed)
    encoded = [e for e in encoded if e]
    out = []
    while len(out) < n:
        s = []
        for _ in range(rng.randint(1, 6)):
            if rng.random() < 0.5:
                s += [rng.choice(ids) for _ in range(rng.randint(1, 8))]
            else:
                e = rng.choice(encoded)
                at = rng.randrange(len(e))
                s += e[at:at + 12]
        out.append(s)
    return out


def speed(args, kind, directory):
    """MB/s of our driver and of the library that reads the same file, on one thread."""
    model = os.path.join(directory, "tokenizer.model")
    if os.path.exists(model):
        import sentencepiece as spm
        encode = spm.SentencePieceProcessor(model_file=model).encode
    else:
        import tokenizers
        hf = tokenizers.Tokenizer.from_file(os.path.join(directory, "tokenizer.json"))
        hf.encode_special_tokens = True

        def encode(text):
            return hf.encode(text, add_special_tokens=False).ids
    data, ours, theirs = args.prose.encode(), [], []
    for _ in range(3):
        done = subprocess.run([args.driver, directory, "time"], input=data, stdout=subprocess.PIPE, check=True)
        seconds, n = done.stdout.split()
        ours.append(float(seconds))
        start = time.process_time()
        assert len(encode(args.prose)) == int(n)
        theirs.append(time.process_time() - start)
    opened = subprocess.run([args.driver, directory, "open"], stdout=subprocess.PIPE, check=True).stdout.split()
    print(f"| {kind} | {len(data) / min(ours) / 1e6:.1f} | {len(data) / min(theirs) / 1e6:.1f} | "
          f"{float(opened[0]) * 1e3:.0f} | {int(opened[1]) / 1e6:.1f} |", flush=True)
    return 0


def compare_sp(args, kind, directory, legacy_false):
    if args.speed:
        return speed(args, kind, directory)
    import sentencepiece as spm
    sp = spm.SentencePieceProcessor(model_file=os.path.join(directory, "tokenizer.model"))
    vocabulary = [sp.id_to_piece(i) for i in range(sp.get_piece_size())]
    items = corpus.texts(args.n, args.prose, vocabulary) + [args.prose]
    if legacy_false:
        from transformers import LlamaTokenizer
        slow = LlamaTokenizer.from_pretrained(directory)
        assert not slow.legacy
        bad = report(kind, "encode, specials", items, encode_all(args.driver, directory, ["specials", "around"], items),
                     [slow(t)["input_ids"] for t in items])
        chats = [slow.apply_chat_template([{"role": "user", "content": t}, {"role": "assistant", "content": u}],
                                          tokenize=False, add_generation_prompt=True)
                 for t, u in zip(items[::7], items[1::7])]
        return bad + report(kind, "encode, chats", chats, encode_all(args.driver, directory, ["specials"], chats),
                            [slow(t, add_special_tokens=False)["input_ids"] for t in chats])
    theirs = [sp.encode(t) for t in items]
    bad = report(kind, "encode", items, encode_all(args.driver, directory, [], items), theirs)
    ids = [i for i in range(len(vocabulary)) if not sp.is_control(i)]
    some = sequences(args.n, ids, theirs)
    return bad + report(kind, "decode", some, decode_all(args.driver, directory, ["with-specials"], some),
                        [sp.decode(s) for s in some])


def compare_hf(args, kind, directory):
    if args.speed:
        return speed(args, kind, directory)
    import tokenizers
    hf = tokenizers.Tokenizer.from_file(os.path.join(directory, "tokenizer.json"))
    hf.no_truncation()
    hf.no_padding()
    vocabulary = list(hf.get_vocab(with_added_tokens=True))
    items = corpus.texts(args.n, args.prose, vocabulary) + [args.prose]
    theirs = [e.ids for e in hf.encode_batch(items, add_special_tokens=False)]
    bad = report(kind, "encode, specials", items, encode_all(args.driver, directory, ["specials"], items), theirs)
    some = items[::5]
    bad += report(kind, "encode, around", some, encode_all(args.driver, directory, ["specials", "around"], some),
                  [hf.encode(t).ids for t in some])
    hf.encode_special_tokens = True
    bad += report(kind, "encode, no specials", some, encode_all(args.driver, directory, [], some),
                  [hf.encode(t, add_special_tokens=False).ids for t in some])
    byte_of = {i: int(v[3:5], 16) for v, i in hf.get_vocab().items() if BYTE.match(v)}
    decoder = json.load(open(os.path.join(directory, "tokenizer.json")))["decoder"]
    if "ByteFallback" not in json.dumps(decoder):
        byte_of = {}
    # Some versions of the library decode an added token that the normalizer rewrites as rewritten.
    renamed = {i for i, t in hf.get_added_tokens_decoder().items()
               if t.normalized and hf.normalizer and hf.normalizer.normalize_str(t.content) != t.content}
    random_ids = sequences(args.n, [i for i in hf.get_vocab().values() if i not in renamed], theirs)
    random_ids = [[i for i in s if i not in renamed] for s in random_ids]
    whole = [s for s in random_ids if good_bytes(s, byte_of)]
    for flags, skip in (([], True), (["with-specials"], False)):
        ours = decode_all(args.driver, directory, flags, random_ids)  # all of them: streamed and whole must agree
        ours = [o for o, s in zip(ours, random_ids) if good_bytes(s, byte_of)]
        bad += report(kind, "decode" + (", specials" if not skip else ""), whole, ours,
                      [hf.decode(s, skip_special_tokens=skip) for s in whole])
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", required=True)
    parser.add_argument("--assets", default="../shared/assets")
    parser.add_argument("--demo", default="demo/model")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("-n", type=int, default=10000)
    parser.add_argument("kinds", nargs="*")
    args = parser.parse_args()
    args.driver = os.path.abspath(args.driver)
    args.prose = open(os.path.join(args.assets, "texts/war-and-peace.txt"), encoding="utf-8").read()
    tokenizers_dir = os.path.join(args.assets, "tokenizers")
    here = os.path.dirname(os.path.abspath(__file__))
    bad = 0

    def wanted(kind):
        return not args.kinds or kind in args.kinds

    with tempfile.TemporaryDirectory() as scratch:
        def alone(kind, source, name, config=None):
            directory = os.path.join(scratch, kind)
            os.makedirs(directory)
            shutil.copyfile(source, os.path.join(directory, name))
            if config:
                shutil.copyfile(config, os.path.join(directory, "tokenizer_config.json"))
            return directory

        sp_models = {"demo-sp": os.path.join(args.demo, "tokenizer.model"),
                     "stories260K-sp": os.path.join(args.assets, "stories260K/tokenizer.model"),
                     "mistral-v3": os.path.join(tokenizers_dir, "mistral-v3/tokenizer.model"),
                     "test_model": os.path.join(tokenizers_dir, "sentencepiece/test_model.model"),
                     "test_ja_model": os.path.join(tokenizers_dir, "sentencepiece/test_ja_model.model")}
        for kind in ("sp-bpe", "sp-unigram", "sp-suffix"):
            sp_models[kind] = os.path.join(here, kind, "tokenizer.model")
        for kind, model in sp_models.items():
            if wanted(kind):
                bad += compare_sp(args, kind, alone(kind, model, "tokenizer.model"), False)
        if wanted("demo-legacy-false") and not args.speed:
            try:
                import transformers
                old = transformers.__version__.startswith("4.")
            except ImportError:
                old = False
            if old:
                bad += compare_sp(args, "demo-legacy-false", os.path.abspath(args.demo), True)
            else:
                print("demo-legacy-false: skipped, needs transformers 4")
        jsons = {"stories260K-json": os.path.join(args.assets, "stories260K/tokenizer.json")}
        for kind in ("phi-3", "falcon", "qwen3"):
            jsons[kind] = os.path.join(tokenizers_dir, kind, "tokenizer.json")
        for name in sorted(os.listdir(here)):
            if os.path.exists(os.path.join(here, name, "tokenizer.json")):
                jsons[name] = os.path.join(here, name, "tokenizer.json")
        for kind, path in jsons.items():
            if wanted(kind):
                bad += compare_hf(args, kind, alone(kind, path, "tokenizer.json"))
    sys.exit(1 if bad else 0)


main()
