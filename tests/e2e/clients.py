#!/usr/bin/env python3
"""Opt-in: the clients that people use, unchanged, against a running server.

    python3 tests/e2e/clients.py http://127.0.0.1:8080 [API_KEY]

Each client that is not installed is skipped, and said so. Exit status 1 if any check failed, 77 if none could run.
"""
import asyncio
import json
import subprocess
import sys
import traceback

PROMPT = "The access code for Marrow Hill is 48213.\n\nWhat is the access code for Marrow Hill?"
MESSAGES = [{"role": "user", "content": PROMPT}]


def check_openai(base, key, model):
    import openai
    c = openai.OpenAI(base_url=base + "/v1", api_key=key, max_retries=0)
    assert [m.id for m in c.models.list()] == [model]
    assert c.models.retrieve(model).id == model
    r = c.chat.completions.create(model=model, messages=MESSAGES, temperature=0, max_tokens=40, logprobs=True, top_logprobs=2,
                                  seed=1)
    whole = r.choices[0].message.content
    assert whole and r.choices[0].finish_reason in ("stop", "length") and r.usage.total_tokens > 0
    assert r.usage.prompt_tokens_details.cached_tokens >= 0
    assert len(r.choices[0].logprobs.content) == r.usage.completion_tokens
    text, usage, roles = "", None, 0
    for chunk in c.chat.completions.create(model=model, messages=MESSAGES, temperature=0, max_tokens=40, stream=True,
                                           stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            roles += choice.delta.role is not None
    assert text == whole and usage.completion_tokens == r.usage.completion_tokens and roles == 1, (text, whole)
    t = c.completions.create(model=model, prompt=["In the", "And"], max_tokens=5, n=2, logprobs=2, echo=True)
    assert [x.index for x in t.choices] == [0, 1, 2, 3] and t.choices[0].text.startswith("In the")
    s = "".join(x.choices[0].text for x in c.completions.create(model=model, prompt="In the", max_tokens=8, temperature=0,
                                                                 stream=True) if x.choices)
    assert s == c.completions.create(model=model, prompt="In the", max_tokens=8, temperature=0).choices[0].text
    for call, error, code in ((lambda: c.chat.completions.create(model="nothing", messages=MESSAGES), openai.NotFoundError, "model_not_found"),
                              (lambda: c.chat.completions.create(model=model, messages=MESSAGES, temperature=5), openai.BadRequestError, "invalid_value"),
                              (lambda: c.chat.completions.create(model=model, messages=MESSAGES, tools=[{"type": "function", "function": {"name": "f"}}]),
                               openai.BadRequestError, "unsupported_parameter"),
                              (lambda: c.completions.create(model=model, prompt="word " * 2000000), openai.APIStatusError, None)):
        try:
            call()
            raise AssertionError("no error")
        except error as e:
            assert code is None or e.code == code, e
            assert e.request_id and e.status_code < 500
    with c.chat.completions.stream(model=model, messages=MESSAGES, temperature=0, max_tokens=40) as stream:
        assert stream.get_final_completion().choices[0].message.content == whole
    assert "timings" in r.model_extra


def check_openai_async(base, key, model):
    import openai

    async def run():
        c = openai.AsyncOpenAI(base_url=base + "/v1", api_key=key, max_retries=0)

        async def one(i):
            text = ""
            async for chunk in await c.chat.completions.create(model=model, messages=MESSAGES, temperature=0, max_tokens=40, stream=True):
                for choice in chunk.choices:
                    text += choice.delta.content or ""
            return text
        answers = await asyncio.gather(*(one(i) for i in range(16)))
        assert len(set(answers)) == 1 and answers[0]
        stream = await c.completions.create(model=model, prompt="x", max_tokens=500, stream=True)
        async for _ in stream:
            break
        await stream.close()  # leaving early is no error to anybody
        await c.close()
    asyncio.run(run())


def check_langchain(base, key, model):
    from langchain_openai import ChatOpenAI, OpenAI
    chat = ChatOpenAI(model=model, base_url=base + "/v1", api_key=key, temperature=0, max_tokens=40, max_retries=0, stream_usage=True)
    r = chat.invoke(PROMPT)
    assert r.content and r.usage_metadata["total_tokens"] > 0
    chunks = list(chat.stream(PROMPT))
    assert "".join(c.content for c in chunks) == r.content
    assert len(chat.batch([PROMPT] * 4)) == 4
    text = OpenAI(model=model, base_url=base + "/v1", api_key=key, temperature=0, max_tokens=8, max_retries=0)
    assert text.invoke("In the") == "".join(text.stream("In the"))


def check_litellm(base, key, model):
    import litellm
    litellm.suppress_debug_info = True
    args = dict(model="openai/" + model, api_base=base + "/v1", api_key=key, messages=MESSAGES, temperature=0, max_tokens=40, num_retries=0)
    r = litellm.completion(**args)
    whole = r.choices[0].message.content
    assert whole and r.usage.total_tokens > 0
    assert "".join(c.choices[0].delta.content or "" for c in litellm.completion(**args, stream=True)) == whole
    t = litellm.text_completion(model="text-completion-openai/" + model, prompt="In the", api_base=base + "/v1", api_key=key, max_tokens=5)
    assert t.choices[0].text
    try:
        litellm.completion(**{**args, "messages": [{"role": "user", "content": "word " * 1000000}]})
        raise AssertionError("no error")
    except litellm.ContextWindowExceededError:
        pass


def check_node(base, key, model):
    program = f"""
const OpenAI = require('openai');
(async () => {{
  const c = new OpenAI({{ baseURL: {json.dumps(base + '/v1')}, apiKey: {json.dumps(key)}, maxRetries: 0 }});
  const ask = {{ model: {json.dumps(model)}, messages: {json.dumps(MESSAGES)}, temperature: 0, max_tokens: 40 }};
  const whole = (await c.chat.completions.create(ask)).choices[0].message.content;
  let text = '';
  for await (const chunk of await c.chat.completions.create({{ ...ask, stream: true }})) text += chunk.choices[0]?.delta?.content ?? '';
  if (!whole || text !== whole) throw new Error(`${{text}} != ${{whole}}`);
}})();"""
    found = subprocess.run(["node", "-e", "require('openai')"], capture_output=True)
    if found.returncode != 0:
        raise ImportError("openai-node")
    done = subprocess.run(["node", "-e", program], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()


def check_curl(base, key, model):
    body = json.dumps({"model": model, "messages": MESSAGES, "max_tokens": 10, "stream": True})
    out = subprocess.run(["curl", "-sN", base + "/v1/chat/completions", "-H", "Content-Type: application/json",
                          "-H", f"Authorization: Bearer {key}", "-d", body], capture_output=True, timeout=60).stdout
    assert out.startswith(b"data: {") and out.endswith(b"data: [DONE]\n\n"), out[:200]


def check_prometheus(base, key, model):
    from prometheus_client.parser import text_string_to_metric_families
    import urllib.request
    request = urllib.request.Request(base + "/metrics", headers={"Authorization": f"Bearer {key}"})
    families = list(text_string_to_metric_families(urllib.request.urlopen(request).read().decode()))
    assert any(f.name.endswith("num_requests_running") for f in families)


def main():
    import urllib.request
    base = sys.argv[1].rstrip("/")
    key = sys.argv[2] if len(sys.argv) > 2 else "none"
    request = urllib.request.Request(base + "/v1/models", headers={"Authorization": f"Bearer {key}"})
    model = json.load(urllib.request.urlopen(request))["data"][0]["id"]
    passed = failed = 0
    for check in (check_openai, check_openai_async, check_langchain, check_litellm, check_node, check_curl, check_prometheus):
        name = check.__name__[6:]
        try:
            check(base, key, model)
            passed += 1
            print(f"{name}: ok")
        except (ImportError, FileNotFoundError) as e:
            print(f"{name}: skipped ({e})")
        except Exception:
            failed += 1
            print(f"{name}: FAILED")
            traceback.print_exc()
    sys.exit(1 if failed else 0 if passed else 77)


if __name__ == "__main__":
    main()
