"""What tests of caches share: prompts, and their answers with the bits of their log-probabilities, which must be the same
wherever a prompt's beginning comes from."""
import json
import os
import random
import shutil

DEMO = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "demo")
ASK = {"max_tokens": 70, "temperature": 0, "return_token_ids": True, "ignore_eos": True, "logprobs": 1}


def with_texts(dir, config):
    """A directory for such a model with the demo model's tokenizer and chat template."""
    os.makedirs(dir)
    for name in ("tokenizer.model", "tokenizer_config.json"):
        shutil.copy(os.path.join(DEMO, "model", name), dir)
    with open(os.path.join(dir, "config.json"), "w") as f:
        json.dump({**config, "vocab_size": 4096}, f)


class KeptAnswers:
    """Of prompts of these lengths, each with two ends, which differ in the last twenty tokens."""
    LENGTHS = ()

    @classmethod
    def prompt(cls, i, end=0):
        n, body, tail = cls.LENGTHS[i], random.Random(i), random.Random(1000 * i + end)
        return [body.randrange(3, 500) for _ in range(n - 20)] + [tail.randrange(3, 500) for _ in range(20)]

    @classmethod
    def learn(cls, server):
        """From a server that keeps nothing."""
        cls.truth = {(i, end): cls.ask(server, i, end)[0] for i in range(len(cls.LENGTHS)) for end in range(2)}
        assert len({str(x) for x in cls.truth.values()}) == len(cls.truth)

    @classmethod
    def ask(cls, server, i, end=0):
        """(the answer's ids and their log-probabilities, tokens that need not be computed)"""
        r = server.post("/v1/completions", {"prompt": cls.prompt(i, end), **ASK})
        assert r.status == 200, r.body
        choice = r.json["choices"][0]
        return (choice["token_ids"], choice["logprobs"]["token_logprobs"]), r.json["usage"]["prompt_tokens_details"]["cached_tokens"]

    def check(self, server, i, end=0):
        answer, n_cached = self.ask(server, i, end)
        self.assertEqual(answer, self.truth[i, end], f"{self.LENGTHS[i]} tokens, {n_cached} of them from the cache")
        return n_cached
