"""A model directory whose tokenizer has a pattern that is expensive on some texts: what its server answers, and that a
good client beside them does not notice."""
import json
import os
import shutil
import tempfile
import threading

import harness

DEMO = "demo/model"
SPECIAL = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]  # the demo's ids 0 to 4
LETTERS = ["a", "b", "Z", "ab", "aa", "aaaa"]
COSTLY = "a(?=[^b]*Z)|a"  # looks to the end of the text for each of its letters


def model_with(pattern):
    """The demo's weights with a tokenizer of its own, in a folder that the caller removes."""
    folder = tempfile.mkdtemp(prefix="lf_costly_")
    for name in ("config.json", "generation_config.json", "model.safetensors", "tokenizer_config.json"):
        os.symlink(os.path.abspath(os.path.join(DEMO, name)), os.path.join(folder, name))
    special = [{"id": i, "content": text, "special": True, "normalized": False} for i, text in enumerate(SPECIAL)]
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    vocab = {text: i for i, text in enumerate(SPECIAL + LETTERS)}
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump({"added_tokens": special, "normalizer": None,
                   "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split]}, "decoder": None,
                   "model": {"type": "BPE", "vocab": vocab, "merges": ["a b", "a a", "aa aa"]}}, f)
    return folder


class Costly(harness.Case):
    server_class = harness.Program

    @classmethod
    def setUpClass(cls):
        cls.folder = model_with(COSTLY)
        cls.args = ("--model", cls.folder, "--ctx", "4096")
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.folder)

    def check_refused(self, r, param):
        self.assert_error(r, 400, "text_too_expensive", param)
        self.assertEqual(r.error["type"], "invalid_request_error")
        self.assertEqual(r.error["message"], f"{param}: the pattern of pre_tokenizer.pretokenizers[0] needs more than "
                                             "64 steps a byte on this text")

    def test_a_text_that_is_too_expensive_has_a_code_of_its_own(self):
        text = "a" * 125000
        self.check_refused(self.server.complete(text), "prompt")
        self.check_refused(self.server.stream("/v1/completions", {"prompt": ["b", text]}), "prompt")
        self.check_refused(self.server.chat(text), "messages")
        self.check_refused(self.server.post("/tokenize", {"prompt": text}), "prompt")

    def test_a_text_that_is_not_is_answered(self):
        r = self.server.complete("a" * 100 + "Z", max_tokens=3, ignore_eos=True)
        self.assertEqual((r.status, r.json["usage"]["completion_tokens"]), (200, 3))
        self.assertEqual(self.server.post("/tokenize", {"prompt": "b" * 4000}).json["tokens"], [1] + [6] * 4000)

    def test_those_beside_it_do_not_notice(self):
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(self.server.complete("a" * 125000).status)) for _ in range(8)]
        for t in threads:
            t.start()
        with harness.within(3, "five good answers beside eight expensive texts"):
            for _ in range(5):
                self.assertEqual(self.server.complete("ab", max_tokens=2).status, 200)
        for t in threads:
            t.join()
        self.assertEqual(answers, [400] * 8)
        self.assertTrue(harness.wait_until(self.server.idle))


if __name__ == "__main__":
    harness.main()
