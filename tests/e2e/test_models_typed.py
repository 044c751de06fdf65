"""What people type behind --model: names of the Hugging Face cache, directories of other things, checkpoints that are not
quite as they should be. The program itself, on copies of the demo model."""
import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest

import harness

PROGRAM = harness.Program.program
DEMO = os.path.abspath("demo/model")
QUANTIZED = os.path.abspath("tests/golden/model/data/quantized")
COMMIT, OTHER = "a" * 8 + "0" * 32, "b" * 8 + "1" * 32
TEXT = "/v1/completions"


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else (data if isinstance(data, str) else json.dumps(data)).encode())


def read_json(path):
    with open(path) as f:
        return json.load(f)


def read_tensors(path):
    """Name to (dtype, shape, bytes)."""
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head, data = json.loads(f.read(n)), f.read()
    return {k: (v["dtype"], v["shape"], data[slice(*v["data_offsets"])]) for k, v in head.items() if k != "__metadata__"}


def write_tensors(path, tensors):
    head, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    write(path, struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


@unittest.skipUnless(PROGRAM, "no server program in the environment")
class Typed(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="lf_typed_")
        self.addCleanup(shutil.rmtree, self.dir)
        self.env = {**os.environ, "HOME": self.dir}
        for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
            self.env.pop(name, None)

    def at(self, *parts):
        return os.path.join(self.dir, *parts)

    def command(self, *args, cwd=None, **env):
        return subprocess.run([os.path.abspath(PROGRAM), *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=cwd,
                              env={**self.env, **env}, timeout=60 * harness.SLOW)

    def plan(self, model, *args, **more):
        return self.command("plan", "--ctx", "1K", "--model", model, *args, **more)

    def fits(self, model, *args, **more):
        r = self.plan(model, *args, **more)
        self.assertEqual(r.returncode, 0, r.stderr)

    def refused(self, model, *words, args=(), **more):
        r = self.plan(model, *args, **more)
        self.assertEqual(r.returncode, 2, (r.stdout, r.stderr))
        self.assertEqual(r.stderr.count("\n"), 1, r.stderr)
        for w in words:
            self.assertIn(w, r.stderr)
        return r.stderr

    def demo(self, name="m", **changes):
        """A copy of the demo; changes: file (dots as underscores) to what is written instead, None to leave it out."""
        path = self.at(name)
        shutil.copytree(DEMO, path)
        for file, data in changes.items():
            target = os.path.join(path, file.replace("__", "."))
            os.unlink(target) if data is None else write(target, data)
        return path

    def cached(self, cache, folder="models--org--name", commit=COMMIT, ref="main", files=None):
        """A snapshot as huggingface_hub leaves it: files are links into blobs."""
        base = os.path.join(cache, folder)
        for i, file in enumerate(files or os.listdir(DEMO)):
            blob, link = os.path.join(base, "blobs", f"{i:040x}"), os.path.join(base, "snapshots", commit, file)
            os.makedirs(os.path.dirname(blob), exist_ok=True)
            os.makedirs(os.path.dirname(link), exist_ok=True)
            if not os.path.exists(blob):
                shutil.copy(os.path.join(DEMO, file), blob)
            os.symlink(os.path.relpath(blob, os.path.dirname(link)), link)
        if ref:
            write(os.path.join(base, "refs", ref), commit)
        return base


class Cache(Typed):
    def test_the_cache_is_where_the_variables_say(self):
        places = {"HF_HUB_CACHE": "one", "HUGGINGFACE_HUB_CACHE": "two", "HF_HOME": "three/hub", "XDG_CACHE_HOME": "four/huggingface/hub",
                  "": ".cache/huggingface/hub"}
        env = {}
        for variable, place in reversed(places.items()):  # each wins over those before it
            name = f"org/in-{place.split('/')[0].strip('.')}"
            self.cached(self.at(place), "models--" + name.replace("/", "--"))
            if variable:
                env[variable] = self.at(place.split("/")[0])
            self.fits(name, **env)
            self.refused("org/elsewhere", self.at(place), "hf download org/elsewhere", **env)
        self.cached(self.at("home"), "models--org--tilde")
        self.fits("org/tilde", HF_HUB_CACHE="~/home")
        self.assertIn("HF_HUB_CACHE", self.refused("org/x", HOME=""))

    def test_what_is_not_there_is_said_with_the_command_that_fetches_it(self):
        cache = self.at(".cache/huggingface/hub")
        self.refused("org/name", "no such directory", "in the Hugging Face cache", "to download it: hf download org/name\n")
        self.refused("org/name@v2", "hf download org/name --revision v2\n")
        base = self.cached(cache)
        self.fits("org/name")
        self.refused("org/name@v2", "no revision v2", COMMIT[:12], "--revision v2")
        write(os.path.join(base, "refs", "main"), "c" * 40)
        self.refused("org/name", "no snapshot of its commit cccccccccccc")
        write(os.path.join(base, "refs", "main"), COMMIT + "\n")
        os.unlink(os.path.join(base, "snapshots", COMMIT, "tokenizer.model"))
        self.fits("org/name")
        r = self.command("tokenize", "--model", "org/name", "x")
        self.assertEqual(r.returncode, 2)
        self.assertIn("no tokenizer", r.stderr)
        self.assertIn("to complete it: hf download org/name", r.stderr)
        shutil.rmtree(os.path.join(base, "blobs"))  # links that lead nowhere
        self.refused("org/name", "has no config.json", "to complete it: hf download org/name\n")

    def test_weights_that_are_missing(self):
        self.cached(self.at("c"), files=[f for f in os.listdir(DEMO) if f != "model.safetensors"])
        self.refused("org/name", "a configuration without weights", "to complete it: hf download org/name\n", HF_HUB_CACHE=self.at("c"))
        snapshot = self.at("c", "models--org--name", "snapshots", COMMIT)
        shards = {f"t{i}": f"model-{i % 3 + 1:05}-of-00003.safetensors" for i in range(9)}
        write(os.path.join(snapshot, "model.safetensors.index.json"), {"weight_map": shards})
        shutil.copy(os.path.join(DEMO, "model.safetensors"), os.path.join(snapshot, "model-00001-of-00003.safetensors"))
        self.refused("org/name", "2 of the 3 files that it names are missing, first model-00002-of-00003.safetensors",
                     "to complete it: hf download org/name\n", HF_HUB_CACHE=self.at("c"))
        self.refused(snapshot, "2 of the 3 files that it names are missing")

    def test_revisions(self):
        cache = self.at("c")
        env = {"HF_HUB_CACHE": cache}
        base = self.cached(cache)
        self.cached(cache, commit=OTHER, ref="refs/pr/1")
        write(os.path.join(base, "snapshots", OTHER, "marker.txt"), "")
        os.unlink(os.path.join(base, "snapshots", OTHER, "config.json"))
        for name in ("org/name", "org/name@main", "org/name@" + COMMIT, "org/name@" + COMMIT[:8]):
            self.fits(name, **env)
        for name in ("org/name@refs/pr/1", "org/name@" + OTHER, "org/name@" + OTHER[:7]):
            self.refused(name, OTHER, "config.json", **env)
        self.refused("org/name@" + COMMIT[:6], "no revision", **env)
        self.refused("org/name@../../x", "No such file", **env)
        os.unlink(os.path.join(base, "refs", "main"))
        self.refused("org/name", "no refs/main", "org/name@COMMIT", COMMIT[:12], OTHER[:12], **env)
        shutil.rmtree(os.path.join(base, "snapshots", OTHER))
        self.fits("org/name", **env)

    def test_a_directory_of_that_name_wins(self):
        self.cached(self.at(".cache/huggingface/hub"))
        self.demo("org/name", config__json=None)
        self.assertIn("org/name holds model.safetensors", self.refused("org/name", cwd=self.dir))
        self.fits("org/name", cwd=self.at(".cache"))
        self.refused(self.at(".cache/huggingface/hub/models--org--name"), "folder of the Hugging Face cache", "org/name")

    def test_names_that_are_none_stay_paths(self):
        for name in ("./org/name", "org/name/more", "-org/name", "org/na--me", "org/.name", "org/name/", "a" * 97 + "/b", "org/name@", "org//name"):
            self.refused(name, "expected a directory with")
        for name in ("a" * 96 + "/" + "b" * 96, "name", "org/na.me_-1", "a" * 96, "o/n@" + "r" * 199, "o/n@release/1.0"):
            self.refused(name, "in the Hugging Face cache", "hf download " + name.split("@")[0][:60])
        self.refused("o/n@" + "r" * 200, "expected a directory with")

    def test_urls_of_a_model_are_refused_with_its_name(self):
        plain = ("hf download org/name, then --model org/name\n",)
        for url in ("https://huggingface.co/org/name", "http://huggingface.co/org/name/", "hf.co/org/name", "huggingface.co/org/name",
                    "https://HuggingFace.co/org/name/tree/main", "https://hf.co/org/name?library=vllm", "hf://org/name",
                    "https://huggingface.co/org/name/blob/main/config.json", "https://www.huggingface.co/org/name#files"):
            self.refused(url, f"--model {url} is a URL, and nothing is downloaded", *plain)
        self.refused("https://huggingface.co/org/name/tree/v1.0", "hf download org/name --revision v1.0, then --model org/name@v1.0\n")
        for url in ("https://example.org/org/name", "s3://bucket/name", "https://huggingface.co/", "https://huggingface.co/name",
                    "hf.co/datasets/org/name", "hf.co/org/na--me", "hf.co/" + "a" * 97 + "/b", "https://hf.co/o/n/tree/" + "r" * 1000):
            self.refused(url, "is a URL, and nothing is downloaded; expected a directory, or ORG/NAME of a model")
        self.cached(self.at(".cache/huggingface/hub"))  # downloaded or not, the name is what is taken
        self.refused("https://huggingface.co/org/name", *plain)
        self.fits("org/name")
        self.demo("hf.co/org/name")
        self.fits("hf.co/org/name", cwd=self.dir)

    def test_names_of_gguf_say_what_to_take(self):
        words = ("by its name GGUF, the format of llama.cpp, which is not read", "in safetensors\n")
        for name in ("org/name-GGUF", "org/name-gguf", "org/name-GGUF:Q4_K_M", "org/name-GGUF@main", "name.Q4_K_M.gguf", "models/name.gguf",
                     "https://huggingface.co/org/name-GGUF", "hf.co/org/name-GGUF:Q4_K_M", "hf.co/org/name-GGUF/tree/main",
                     "https://huggingface.co/org/name/resolve/main/q.gguf"):
            self.assertNotIn("hf download", self.refused(name, *words))
        self.refused("org/gguf-name", "hf download org/gguf-name")
        self.cached(self.at(".cache/huggingface/hub"), folder="models--org--name-GGUF")  # the name alone decides nothing
        self.fits("org/name-GGUF")

    def test_a_model_of_the_cache_is_served_under_its_name(self):
        self.cached(self.at("c"))
        os.environ["HF_HUB_CACHE"] = self.at("c")
        try:
            server = harness.Program("--model", "org/name@" + COMMIT, "--ctx", "1K")
        finally:
            del os.environ["HF_HUB_CACHE"]
        try:
            m = server.get("/v1/models").json["data"][0]
            self.assertEqual(m["id"], "org/name")
            self.assertEqual(server.get("/v1/models/org/name").json["id"], "org/name")
            self.assertEqual(server.complete("a", model="org/name", max_tokens=1).status, 200)
            self.assertEqual(server.complete("a", model="name", max_tokens=1).status, 404)
        finally:
            self.assertEqual(server.stop(), 0)


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 4096\n"
CONFIG = {"architectures": ["LlamaForCausalLM"]}

# What lies in the directory, and what is said of it.
KINDS = [
    ({}, "is empty; expected a directory with config.json"),
    ({"readme.txt": ""}, "has no config.json; expected a directory with"),
    ({"sub/config.json": CONFIG, "another/config.json": CONFIG}, "another has one"),
    ({"q4.gguf": "GGUF"}, "q4.gguf: GGUF, the format of llama.cpp"),
    ({"q4.gguf": "GGUF", "config.json": CONFIG}, "GGUF, the format of llama.cpp"),
    ({"pytorch_model-00001-of-00002.bin": "", "config.json": CONFIG}, "Python pickles", "save_pretrained()"),
    ({"pytorch_model.bin": "", "tokenizer.json": {}}, "Python pickles"),
    ({"model.onnx": "", "config.json": CONFIG}, "holds model.onnx: ONNX"),
    ({"onnx/model.onnx": "", "config.json": CONFIG}, "ONNX"),
    ({"weights.npz": "", "config.json": CONFIG}, "MLX"),
    ({"config.json": {**CONFIG, "quantization": {"group_size": 64, "bits": 4}}, "model.safetensors": ""}, "MLX, 4 bits", "quantized"),
    ({"adapter_config.json": {}, "adapter_model.safetensors": "", "tokenizer.json": {}}, "an adapter (LoRA)", "merge"),
    ({"adapter_config.json": {}, "config.json": CONFIG}, "an adapter (LoRA)"),
    ({"tokenizer.json": {}, "tokenizer_config.json": {}}, "a tokenizer without a model"),
    ({"config.json": CONFIG, "tokenizer.json": {}}, "a configuration without weights"),
    ({"model.safetensors": "", "tokenizer.json": {}}, "weights without the config.json"),
    ({"llama.safetensors": "", "config.json": CONFIG}, "holds llama.safetensors", "name it model.safetensors"),
    ({"consolidated.00.pth": "", "params.json": {}}, "Meta's own format"),
    ({"consolidated.safetensors": "", "params.json": {}, "tekken.json": {}}, "Mistral's own format"),
    ({"epoch3.ckpt": ""}, "a Python pickle"),
    ({"tf_model.h5": "", "config.json": CONFIG}, "TensorFlow"),
    ({"flax_model.msgpack": "", "config.json": CONFIG}, "Flax"),
    ({"openvino_model.xml": "", "config.json": CONFIG}, "OpenVINO"),
    ({"StatefulModel.mlpackage/Manifest.json": ""}, "Core ML"),
    ({"rank0.engine": "", "config.json": CONFIG}, "TensorRT"),
    ({"nemotron.nemo": ""}, "NeMo"),
    ({"__0_0.distcp": "", "config.json": CONFIG}, "DeepSpeed, FSDP"),
    ({"global_step10/x.pt": "", "config.json": CONFIG}, "DeepSpeed, FSDP"),
    ({"model_index.json": {}, "unet/config.json": {}}, "diffusers pipeline"),
    ({"modules.json": "[]", "config.json": {"architectures": ["BertModel"]}, "model.safetensors": ""}, "sentence-transformers"),
    ({"config.json": CONFIG, "model.safetensors": POINTER}, "model.safetensors is a Git LFS pointer", "git lfs pull"),
    ({"config.json": POINTER, "model.safetensors": POINTER}, "config.json is a Git LFS pointer"),
    ({"config.json": CONFIG, "model.safetensors": "", "tokenizer.json": POINTER}, "tokenizer.json is a Git LFS pointer"),
]

# What config.json says, and what is said of it.
CONFIGS = [
    ({"architectures": ["BertForMaskedLM"]}, "BertForMaskedLM, an encoder or classifier"),
    ({"architectures": ["RobertaForSequenceClassification"]}, "an encoder or classifier"),
    ({"architectures": ["MPNetModel"]}, "most likely for embeddings"),
    ({"architectures": ["GPT2LMHeadModel"]}, "architecture GPT2LMHeadModel is not implemented"),
    ({"architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True}, "an encoder-decoder model"),
    ({"architectures": ["WhisperForConditionalGeneration"], "is_encoder_decoder": True}, "a speech or audio model"),
    ({"architectures": ["Wav2Vec2ForCTC"]}, "a speech or audio model"),
    ({"architectures": ["CLIPModel"], "vision_config": {}}, "an image model"),
    ({"architectures": ["ViTForImageClassification"]}, "an image model"),
    ({"architectures": ["LlavaForConditionalGeneration"], "vision_config": {}}, "a multimodal model"),
    ({"architectures": ["MambaForCausalLM"]}, "MambaForCausalLM is not implemented"),
    ({"quantization_config": {"quant_method": "gptq", "bits": 3}}, "gptq: bits is 3", "4 and 8 are"),
    ({"quantization_config": {"quant_method": "awq", "bits": 4, "version": "gemv"}}, "awq: version gemv", "gemm is"),
    ({"quantization_config": {"quant_method": "hqq", "bits": 4}}, "hqq, 4 bits", "gptq, awq"),
    ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, "bitsandbytes, 4 bits"),
    ({"quantization_config": {"quant_method": "fp8", "fmt": "e5m2"}}, "fp8: fmt e5m2", "e4m3 is"),
    ({"quantization_config": {"quant_method": "compressed-tensors", "format": "marlin-24", "config_groups": {
        "group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int"}}}}}, "format marlin-24 of 4 bits"),
    ({"quantization_config": {"quant_method": "mxfp4"}}, "mxfp4"),
    ({"compression_config": {"format": "int-quantized"}}, "int-quantized"),
    ({"quantization_config": {"group_size": 64}}, "an unnamed format"),
]


class Kinds(Typed):
    def test_every_kind_of_directory_has_its_sentence(self):
        for i, (files, *words) in enumerate(KINDS):
            path = self.at(str(i))
            os.mkdir(path)
            for name, data in files.items():
                write(os.path.join(path, name), data)
            self.refused(path, path, *words)

    def test_every_kind_of_configuration_has_its_sentence(self):
        for i, (changes, *words) in enumerate(CONFIGS):
            config = {**read_json(os.path.join(DEMO, "config.json")), **changes}
            if "architectures" in changes:
                del config["model_type"]
            self.refused(self.demo(str(i), config__json=config), "config.json", *words)

    def test_quantized_checkpoints_have_more_files(self):
        for name, more, format in (("modelopt-fp8-bf16", {}, "fp8"), ("gptq-f16", {"quantize_config.json": {"bits": 4}}, "int4"),
                                   ("awq-f16", {"quant_config.json": {"w_bit": 4}}, "int4")):
            path = self.at(name)
            shutil.copytree(os.path.join(QUANTIZED, name), path)
            for file, data in more.items():
                write(os.path.join(path, file), data)
            r = subprocess.run([PROGRAM, "plan", "--model", path, "--device", "cpu", "--ctx", "64", "--json"], capture_output=True,
                               text=True, timeout=60 * harness.SLOW)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertIn(format, json.loads(r.stdout)["weight_format"])

    def test_files_in_a_directory_s_place(self):
        for name, word in (("m.gguf", "GGUF"), ("model.safetensors", "the directory that it is in"), ("config.json", "a configuration"),
                           ("pytorch_model.bin", "Python pickle"), ("m.onnx", "ONNX"), ("m.tar.gz", "unpack it"), ("m.zip", "unpack it"),
                           ("m.llamafile", "llamafile"), ("readme", "expected a directory with")):
            write(self.at(name), "x")
            self.refused(self.at(name), f"{name} is a file", word)
        write(self.at("p.gguf"), POINTER)
        self.refused(self.at("p.gguf"), "Git LFS pointer")

    def test_what_a_shape_does_not_need_is_not_asked_for(self):
        path = self.at("shape")
        write(os.path.join(path, "config.json"), read_json(os.path.join(DEMO, "config.json")))
        write(os.path.join(path, "model.safetensors"), POINTER)
        write(os.path.join(path, "q.gguf"), "")
        self.fits(path, "--load", "dummy")

    def test_tokenizers_that_are_not_read_are_named(self):
        for name, word in (("tekken.json", "tekken.json"), ("qwen.tiktoken", ".tiktoken"), ("spiece.model", "name it tokenizer.model"),
                           ("x", "no tokenizer")):
            path = self.demo(name + "_d", tokenizer__model=None, tokenizer_config__json=None)
            write(os.path.join(path, name), "{}")
            r = self.command("run", "--model", path, "Why?")
            self.assertEqual(r.returncode, 2)
            self.assertIn(word, r.stderr)


    def test_vocabulary_and_merges_are_a_tokenizer(self):
        texts = ["The quick brown fox's  tail\n\n  x", "héllo wörld 4711 <|im_start|>", "é日本 😀", "we'll  SEE'S\r\n\t."]
        for name, kind in (("like-gpt2", "GPT2Tokenizer"), ("like-qwen", "Qwen2Tokenizer")):
            source = os.path.abspath("tests/golden/tokenizer/" + name)
            whole = read_json(os.path.join(source, "tokenizer.json"))
            m = self.at(name)
            flags = lambda t: {k: t[k] for k in ("content", "lstrip", "normalized", "rstrip", "single_word", "special")}
            config = {"tokenizer_class": kind, "add_prefix_space": name == "like-gpt2",
                      "added_tokens_decoder": {str(t["id"]): flags(t) for t in whole["added_tokens"]}}
            merges = "".join(" ".join(pair) + "\n" for pair in whole["model"]["merges"])
            for head, end in (("#version: 0.2\n", "\n"), ("", "\r\n")):
                write(os.path.join(m, "vocab.json"), whole["model"]["vocab"])
                write(os.path.join(m, "merges.txt"), (head + merges).replace("\n", end))
                write(os.path.join(m, "tokenizer_config.json"), config)
                for text in texts:
                    got, want = (self.command("tokenize", "--model", d, text) for d in (m, source))
                    self.assertEqual((got.returncode, got.stdout), (0, want.stdout), (text, got.stderr))
                    self.assertGreater(want.stdout.count("\n"), 3)
            # a class that nobody names is as if there were no tokenizer
            for bad, said in (({**config, "tokenizer_class": "CodeGenTokenizer"}, "expected tokenizer.json"),
                              ({}, "holds tokenizer_config.json")):
                write(os.path.join(m, "tokenizer_config.json"), bad)
                r = self.command("tokenize", "--model", m, "x")
                self.assertEqual(r.returncode, 2)
                self.assertIn(said, r.stderr)
            write(os.path.join(m, "tokenizer_config.json"), config)
            for bad, said in (('{"a":0},"fuse_unk":true', "byte 7"), ("[]", "an object"), ('{"a":0,"b":x}', "byte 11")):
                write(os.path.join(m, "vocab.json"), bad)
                r = self.command("tokenize", "--model", m, "x")
                self.assertEqual(r.returncode, 2)
                self.assertIn("vocab.json", r.stderr)
                self.assertIn(said, r.stderr)
            write(os.path.join(m, "vocab.json"), whole["model"]["vocab"])
            write(os.path.join(m, "merges.txt"), "a  b\n")
            self.assertIn("vocab.json and merges.txt", self.command("tokenize", "--model", m, "x").stderr)

    def test_a_tokenizer_that_is_a_pointer_is_named(self):
        for file in ("tokenizer.model", "tokenizer_config.json"):
            path = self.demo(file + "_d", **{file.replace(".", "__"): POINTER})
            r = self.command("tokenize", "--model", path, "x")
            self.assertEqual(r.returncode, 2)
            self.assertIn(file + " is a Git LFS pointer", r.stderr)

    def test_a_tokenizer_in_the_form_of_tiktoken_is_named(self):
        path = self.demo(tokenizer__model="IQ== 0\nIg== 1\nIw== 2\n")
        r = self.command("tokenize", "--model", path, "x")
        self.assertEqual(r.returncode, 2)
        self.assertIn("form of tiktoken", r.stderr)


class Strictness(Typed):
    def test_what_makes_no_difference_is_not_refused(self):
        config = read_json(os.path.join(DEMO, "config.json"))
        for i, changes in enumerate(({"quantization_config": {}}, {"num_local_experts": 1}, {"torch_dtype": "auto"},
                                     {"rope_scaling": {"type": "dynamic", "factor": 1.0}})):
            self.fits(self.demo(str(i), config__json={**config, **changes}))
        self.refused(self.demo("d", config__json={**config, "rope_scaling": {"type": "dynamic", "factor": 2.0}}), "dynamic")
        self.refused(self.demo("e", config__json={**config, "num_local_experts": 8}), "num_local_experts")

    def answer(self, path):
        r = self.command("run", "--model", path, "--max-tokens", "12", "The code is 48213.\n\nWhat is the code?")
        self.assertEqual(r.returncode, 0, r.stderr)
        return r.stdout

    def test_marks_prefixes_and_folders_change_no_answer(self):
        want = self.answer(DEMO)
        path = self.at("m")
        shutil.copytree(DEMO, path)
        for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
            with open(os.path.join(path, name), "rb") as f:
                text = f.read()
            write(os.path.join(path, name), b"\xef\xbb\xbf" + text)
        self.assertEqual(self.answer(path), want)
        tensors = read_tensors(os.path.join(path, "model.safetensors"))
        bare = {k.removeprefix("model."): v for k, v in tensors.items()}
        write_tensors(os.path.join(path, "model.safetensors"), bare)
        self.assertEqual(self.answer(path), want)
        os.unlink(os.path.join(path, "model.safetensors"))
        half = list(tensors)[:10]
        parts = {"a/one.safetensors": half, "a/b/two.safetensors": [k for k in tensors if k not in half]}
        for name, keys in parts.items():
            os.makedirs(os.path.dirname(os.path.join(path, name)), exist_ok=True)
            write_tensors(os.path.join(path, name), {k: tensors[k] for k in keys})
        index = {"weight_map": {k: name for name, keys in parts.items() for k in keys}}
        write(os.path.join(path, "model.safetensors.index.json"), b"\xef\xbb\xbf" + json.dumps(index).encode())
        self.assertEqual(self.answer(path), want)
        for bad in ("../one.safetensors", "/one.safetensors", "a/../one.safetensors", "a//one.safetensors", "a/.x/one.safetensors"):
            write(os.path.join(path, "model.safetensors.index.json"), {"weight_map": {k: bad for k in tensors}})
            self.refused(path, "not a plain file name")

    def test_a_head_that_differs_from_the_embedding_is_used(self):
        path = self.at("m")
        shutil.copytree(DEMO, path)
        file = os.path.join(path, "model.safetensors")
        tensors = read_tensors(file)
        dtype, shape, data = tensors["model.embed_tokens.weight"]
        weights = lambda: json.loads(self.plan(path, "--json").stdout)["weight_bytes"]
        tied = weights()
        write_tensors(file, {**tensors, "lm_head.weight": (dtype, shape, data)})
        self.assertEqual(weights(), tied)
        want = self.answer(path)
        write_tensors(file, {**tensors, "lm_head.weight": (dtype, shape, data[:-2] + b"\x00\x40")})  # the last element alone
        self.assertEqual(weights(), tied + len(data))
        row = shape[1] * 2
        shifted = data[row:] + data[:row]  # every id's row is the one of the id behind it
        write_tensors(file, {**tensors, "lm_head.weight": (dtype, shape, shifted)})
        r = self.command("run", "--model", path, "--max-tokens", "12", "The code is 48213.\n\nWhat is the code?")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertNotEqual(r.stdout, want)
        self.assertIn("lm_head.weight differs from the embedding: lm_head.weight is used", r.stderr)

    def test_an_index_that_is_a_pointer_and_a_shard_that_is_one(self):
        path = self.at("m")
        shutil.copytree(DEMO, path)
        os.rename(os.path.join(path, "model.safetensors"), os.path.join(path, "x"))
        names = list(read_tensors(os.path.join(path, "x")))
        write(os.path.join(path, "a/s.safetensors"), POINTER)
        write(os.path.join(path, "model.safetensors.index.json"), {"weight_map": {k: "a/s.safetensors" for k in names}})
        self.refused(path, "s.safetensors is a Git LFS pointer")
        write(os.path.join(path, "model.safetensors.index.json"), POINTER)
        self.refused(path, "model.safetensors.index.json is a Git LFS pointer")


class Serving(Typed):
    def serve(self, path, *args):
        server = harness.Program("--model", path, "--ctx", "1K", *args)
        self.addCleanup(server.stop)
        return server

    def broken(self, value):
        """The demo with one element of its last norm replaced: bits of a bf16."""
        path = self.demo("broken%x" % value)
        file = os.path.join(path, "model.safetensors")
        tensors = read_tensors(file)
        dtype, shape, data = tensors["model.norm.weight"]
        bits = struct.pack("<H", value) if dtype == "BF16" else struct.pack("<I", value << 16)
        write_tensors(file, {**tensors, "model.norm.weight": (dtype, shape, bits + data[len(bits):])})
        return path

    def test_logits_that_are_no_numbers_end_the_request_with_an_error(self):
        for value in (0x7FC0, 0x7F80):  # NaN, infinity
            server = self.serve(self.broken(value))
            for path, body in ((TEXT, {"prompt": "a"}), (TEXT, {"prompt": "a b c", "echo": True, "logprobs": 1, "max_tokens": 0}),
                               ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})):
                r = server.post(path, {"max_tokens": 4, "temperature": 1, **body})
                self.assertEqual((r.status, r.error["code"], r.error["type"]), (500, "broken_logits", "server_error"), r.body)
                self.assertIn("NaN or infinite", r.error["message"])
            r = server.post(TEXT, {"prompt": "a", "max_tokens": 4, "stream": True})
            self.assertIn(b"broken_logits", r.body)
            self.assertEqual(server.metric("broken_logits_total"), 4)
            self.assertEqual(server.metric("request_success_total", 'finished_reason="error"'), 4)
            self.assertEqual(server.get("/readyz").status, 200)
            self.assertTrue(harness.wait_until(server.idle))
        r = self.command("run", "--model", self.at("broken7fc0"), "Why?")
        self.assertEqual(r.returncode, 1)
        self.assertIn("NaN or infinite", r.stderr)

    def defaults(self, **values):
        base = read_json(os.path.join(DEMO, "generation_config.json"))
        return self.demo(generation_config__json={**base, **values})

    def texts(self, server, **more):
        r = server.post(TEXT, {"prompt": "In the", "max_tokens": 24, "ignore_eos": True, "n": 4, "seed": 1, **more})
        self.assertEqual(r.status, 200, r.body)
        return [c["text"] for c in r.json["choices"]]

    def test_the_model_s_own_sampling_holds_where_a_request_is_silent(self):
        path = self.defaults(temperature=0.0, top_p=0.9, top_k=20, repetition_penalty=1.1, min_p=0.05, do_sample=True)
        server = self.serve(path)
        want = {"temperature": 0, "top_p": 0.9, "top_k": 20, "min_p": 0.05, "repetition_penalty": 1.1}
        self.assertEqual(server.get("/v1/models").json["data"][0]["default_sampling_params"], want)
        self.assertEqual(len(set(self.texts(server))), 1)  # temperature 0
        self.assertEqual(self.texts(server), self.texts(server, **want))
        self.assertGreater(len(set(self.texts(server, temperature=1.5))), 1)
        said = {"temperature": 1.5, "top_p": 1, "top_k": -1, "min_p": 0, "repetition_penalty": 1}
        plain = self.serve(path, "--generation-config", "none")
        self.assertEqual(self.texts(server, **said), self.texts(plain, **said))
        self.assertEqual(self.texts(plain), self.texts(server, **{**said, "temperature": 1}))
        self.assertEqual(plain.get("/v1/models").json["data"][0]["default_sampling_params"],
                         {"temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1})
        message = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 20}
        answers = [server.post("/v1/messages", message).json["content"] for _ in range(3)]
        self.assertEqual(answers[0], answers[1])
        self.assertEqual(answers[0], answers[2])

    def test_the_ready_line_shows_it(self):
        for args, shows in (((), True), (("--generation-config", "none"), False)):
            path = self.defaults(temperature=0.6, top_k=20) if shows else self.at("m")
            p = subprocess.Popen([PROGRAM, "serve", "--model", path, "--ctx", "1K", "--port", "0", *args], stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL)
            line = p.stdout.readline().decode()
            p.terminate()
            p.wait()
            p.stdout.close()
            self.assertEqual(line.endswith(", unless a request says: temperature 0.6, top_k 20\n"), shows, line)

    def test_sampling_that_cannot_be_is_refused_with_a_way_out(self):
        for i, values in enumerate(({"temperature": 3}, {"top_p": 1.1}, {"top_k": 1.5}, {"min_p": "0"}, {"repetition_penalty": 0}, {"top_k": -2})):
            base = read_json(os.path.join(DEMO, "generation_config.json"))
            path = self.demo(str(i), generation_config__json={**base, **values})
            r = self.command("serve", "--model", path, "--port", "0", "--ctx", "1K")
            self.assertEqual(r.returncode, 2, r.stderr)
            self.assertIn(list(values)[0], r.stderr)
            self.assertIn("--generation-config none", r.stderr)

    def test_an_answer_ends_at_the_tokenizer_s_end_too(self):
        config = read_json(os.path.join(DEMO, "config.json"))
        tok = read_json(os.path.join(DEMO, "tokenizer_config.json"))
        question = "The access code for Marrow Hill is 48213.\n\nWhat is the access code for Marrow Hill?"
        reasons = []
        for i, eos in enumerate(("<|im_end|>", "<unk>")):
            path = self.demo(str(i), config__json={**config, "eos_token_id": 2}, generation_config__json=None,
                             tokenizer_config__json={**tok, "eos_token": eos})
            r = self.serve(path).chat(question, max_tokens=60, temperature=0).json["choices"][0]
            reasons.append((r["finish_reason"], r["message"]["content"]))
        self.assertEqual(reasons[0], ("stop", "The access code for Marrow Hill is 48213."))
        self.assertNotEqual(reasons[0], reasons[1])


class Context(Typed):
    def test_auto_is_the_largest_context_that_fits_and_the_refusal_names_it(self):
        args = ("--model", DEMO, "--memory", "340M", "--json")
        auto = json.loads(self.command("plan", "--ctx", "auto", *args).stdout)
        self.assertTrue(auto["fits"])
        self.assertEqual(auto["ctx"] % 64, 0)
        self.assertLess(auto["ctx"], auto["max_positions"])
        refused = json.loads(self.command("plan", *args).stdout)
        self.assertFalse(refused["fits"])
        named = int(refused["advice"].split("--ctx ")[1].split()[0])
        slack = 64 * 16  # what the process itself takes differs from start to start
        self.assertLess(abs(named - auto["ctx"]), slack)
        self.assertTrue(json.loads(self.command("plan", "--ctx", str(auto["ctx"] - slack), *args).stdout)["fits"])
        self.assertFalse(json.loads(self.command("plan", "--ctx", str(auto["ctx"] + slack), *args).stdout)["fits"])
        page = self.command("plan", "--ctx", "auto", *args[:-1]).stdout
        self.assertIn("the largest context that fits", page)

    def test_what_is_said_to_fit_fits_at_the_next_start_too(self):
        args = ("plan", "--model", DEMO, "--memory", "340M")
        larger = {"ANY": "x" * 120_000}  # which the process has in memory too
        named, memory = set(), set()
        for _ in range(4):
            refused = json.loads(self.command(*args, "--json").stdout)
            self.assertFalse(refused["fits"])
            named.add(int(refused["advice"].split("--ctx ")[1].split()[0]))
            memory.add(refused["advice"].split("--memory ")[-1].split()[0])
            self.assertIn(refused["longest_ctx"], named)
            auto = json.loads(self.command(*args, "--json", "--ctx", "auto").stdout)
            self.assertEqual((auto["fits"], auto["longest_ctx"]), (True, auto["ctx"]))
            named.add(auto["ctx"])
        self.assertLessEqual(len(named), 2, named)  # in steps: it changes where the process is about as large as one
        for n in named:
            for env in ({}, larger):
                self.assertEqual(self.command(*args, "--ctx", str(n), **env).returncode, 0, (n, len(env)))
        for m in memory:
            self.assertEqual(self.command("plan", "--model", DEMO, "--memory", m, **larger).returncode, 0, m)

    def test_auto_is_the_whole_context_where_that_fits_and_is_refused_where_none_does(self):
        whole = json.loads(self.command("plan", "--ctx", "auto", "--model", DEMO, "--memory", "2G", "--json").stdout)
        self.assertEqual((whole["fits"], whole["ctx"]), (True, whole["max_positions"]))
        r = self.command("plan", "--ctx", "auto", "--model", DEMO, "--memory", "20M")
        self.assertEqual(r.returncode, 2)
        self.assertIn("Does not fit", r.stdout)
        needed = r.stdout.split("--memory ")[-1].split()[0]  # of the least context
        self.fits(DEMO, "--ctx", "auto", "--memory", str(int(needed[:-1]) + 2) + "M")
        r = self.command("run", "--ctx", "auto", "--max-tokens", "1", "--model", DEMO, "Why?")
        self.assertEqual(r.returncode, 0, r.stderr)

    def test_a_server_takes_it_and_says_so(self):
        server = harness.Program("--ctx", "auto", "--memory", "340M")
        try:
            n = server.get("/v1/models").json["data"][0]["max_model_len"]
            self.assertTrue(1024 < n < 131072 and n % 64 == 0, n)
            self.assertEqual(server.complete("a", max_tokens=1).status, 200)
        finally:
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    harness.main()
