#!/usr/bin/env python3
"""Opt-in: OpenAI's own client, unchanged. Needs `pip install openai` and a server; $LONGFLASH_URL as in curl.sh."""
import os

from openai import OpenAI

url = os.environ.get("LONGFLASH_URL", "http://127.0.0.1:8080")
key = os.environ.get("LONGFLASH_API_KEYS", "none").split(",")[0]
client = OpenAI(base_url=url + "/v1", api_key=key)
model = client.models.list().data[0].id

document = ("The access code for Marrow Hill is 48213. The director of the Silent River is Otto Krast. "
            "Anna Vell lives in Dorrun.")
for question in ("What is the access code for Marrow Hill?", "Who is the director of the Silent River?"):
    answer = client.chat.completions.create(model=model, temperature=0,
                                            messages=[{"role": "user", "content": f"{document}\n\n{question}"}])
    print(question, answer.choices[0].message.content)
for chunk in client.chat.completions.create(model=model, temperature=0, stream=True,
                                            messages=[{"role": "user", "content": f"{document}\n\nWhere does Anna Vell live?"}]):
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
print()
