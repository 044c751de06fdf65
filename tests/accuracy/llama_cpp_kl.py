#!/usr/bin/env python3
"""What llama.cpp's quantized formats cost in accuracy, to be read beside ours.

    llama_cpp_kl.py --model DIR --format q8_0 --format q4_0 --b "--quantize int8" --b "--quantize int4"

DIR is a Llama model in safetensors whose tokenizer is SentencePiece's. Ours is measured by compare.py, whose arguments
--windows, --tokens, --scored and --text mean the same here. llama.cpp is given the same token ids and scored at the
same positions: of each format the divergence KL(A || B) in nats, A being llama.cpp itself on the model's own bf16.
So each program is judged against itself, and what their plain arithmetic differs in counts for neither.

Needs numpy, sentencepiece, llama-cpp-python and gguf; exits with 77 where one is missing, which CTest takes for
skipped. Files of tests/bench/peer/to_gguf.py, a few times the model's size, are put into a temporary folder."""
import argparse
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tasks  # noqa: E402

try:
    import gguf  # noqa: F401
    import llama_cpp as L
    import numpy as np
    import sentencepiece
except ImportError as e:
    print(f"llama_cpp_kl.py: skipped: {e}", file=sys.stderr)
    sys.exit(77)

TO_GGUF = os.path.join(tasks.ROOT, "tests", "bench", "peer", "to_gguf.py")


class Model:
    """A GGUF file in llama.cpp, one window at a time."""

    def __init__(self, path, n_tokens, threads):
        params = L.llama_model_default_params()
        params.use_mmap = False
        self.model = L.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            raise ValueError(f"llama.cpp cannot load {path}")
        params = L.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = n_tokens
        params.n_threads = params.n_threads_batch = threads
        self.context = L.llama_init_from_model(self.model, params)
        self.n_vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(self.model))
        self.batch = L.llama_batch_init(n_tokens, 0, 1)

    def log_probabilities(self, ids, n_scored):
        """[n_scored, n_vocab] of what comes behind all but the last token of ids, its last rows, in float64."""
        L.llama_memory_clear(L.llama_get_memory(self.context), True)
        n = len(ids) - 1
        self.batch.n_tokens = n
        for i in range(n):
            self.batch.token[i], self.batch.pos[i] = ids[i], i
            self.batch.n_seq_id[i], self.batch.seq_id[i][0] = 1, 0
            self.batch.logits[i] = i >= n - n_scored
        if L.llama_decode(self.context, self.batch) != 0:
            raise ValueError("llama.cpp cannot decode a window")
        rows = [np.ctypeslib.as_array(L.llama_get_logits_ith(self.context, i), (self.n_vocab,)).astype(np.float64)
                for i in range(n - n_scored, n)]
        logits = np.stack(rows)
        logits -= logits.max(axis=1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def close(self):
        L.llama_batch_free(self.batch)
        L.llama_free(self.context)
        L.llama_model_free(self.model)


def read_windows(args):
    """{text: its windows of token ids}, those of compare.py: the beginning of a text first, and cut to their length."""
    tokenizer = sentencepiece.SentencePieceProcessor(model_file=os.path.join(args.model, "tokenizer.model"))
    out = {}
    for name in args.text:
        label, text = tasks.read_text(name)
        found = tasks.windows(text, args.windows, args.tokens, args.scored)
        out[label] = [([tokenizer.bos_id()] + tokenizer.encode(w["text"]))[:args.tokens] for w in found]
    return out


def make_gguf(args, folder, kind):
    path = os.path.join(folder, kind + ".gguf")
    run = subprocess.run([sys.executable, TO_GGUF, args.model, path, kind], capture_output=True, text=True)
    if run.returncode != 0:
        raise ValueError(f"{kind}: {run.stderr.strip()[-400:]}")
    return path


def score(args, folder, kind, windows):
    """{text: log-probabilities of all scored positions, float64}"""
    model = Model(make_gguf(args, folder, kind), args.tokens, args.threads)
    out = {text: np.concatenate([model.log_probabilities(ids, args.scored) for ids in w]) for text, w in windows.items()}
    model.close()
    os.remove(os.path.join(folder, kind + ".gguf"))
    return out


def print_row(kind, text, a, b):
    kl = (np.exp(a) * (a - b)).sum(axis=1)
    same = np.mean(a.argmax(axis=1) == b.argmax(axis=1))
    print(f"| {kind} | {text} | {len(kl)} | {kl.mean():.2e} | {np.quantile(kl, .99, method='inverted_cdf'):.2e} | "
          f"{kl.max():.2e} | {100 * same:.2f}% |", flush=True)


def measure_llama_cpp(args, folder):
    windows = read_windows(args)
    a = score(args, folder, "bf16", windows)
    print("llama.cpp:\n\n| B | what | positions | KL mean | KL 99% | KL max | top 1 alike |\n|" + "---|" * 7)
    for kind in args.format or ["q8_0", "q4_0"]:
        b = score(args, folder, kind, windows)
        for text in windows:
            print_row(kind, text, a[text], b[text])
    print(flush=True)


def measure_ours(args):
    """compare.py's own tables."""
    command = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "compare.py"), "--model",
               args.model, "--both=--device cpu", "--lengths", "", "--top", str(1 << 20)]
    for name in ("windows", "tokens", "scored"):
        command += ["--" + name, str(getattr(args, name))]
    command += [f"--text={t}" for t in args.text] + [f"--b={b}" for b in args.b or ["--quantize int8", "--quantize int4"]]
    return subprocess.run(command).returncode


def read_arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--model", default=os.path.join(tasks.ROOT, "demo", "model"), help="(default: the demo model)")
    ap.add_argument("--format", action="append", help="of llama.cpp; may be given several times (default q8_0, q4_0)")
    ap.add_argument("--b", action="append", help="options of ours (default --quantize int8, --quantize int4)")
    ap.add_argument("--text", action="append", help="as of compare.py (default books, docs)")
    ap.add_argument("--windows", type=int, default=64)
    ap.add_argument("--tokens", type=int, default=512)
    ap.add_argument("--scored", type=int, default=64)
    ap.add_argument("--threads", type=int, default=os.cpu_count(), help="of llama.cpp")
    args = ap.parse_args()
    args.text = args.text or ["books", "docs"]
    return args


def main():
    args = read_arguments()
    quiet = L.llama_log_callback(lambda level, text, data: None)
    L.llama_log_set(quiet, None)
    try:
        with tempfile.TemporaryDirectory(prefix="llama_cpp") as folder:
            measure_llama_cpp(args, folder)
    except (OSError, ValueError) as e:
        sys.exit(f"llama_cpp_kl.py: {e}")
    return measure_ours(args)


if __name__ == "__main__":
    sys.exit(main())
