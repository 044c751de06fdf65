#!/usr/bin/env python3
"""Asks a running server the questions about a document and compares its answers.

    ask.py                                       demo/document.txt, demo/questions.json, http://127.0.0.1:8080
    ask.py --document my.txt --question "Who?"   one question of your own
"""
import argparse
import http.client
import json
import os
import sys
import time
from urllib.parse import urlparse

HERE = os.path.dirname(os.path.abspath(__file__))


def stream(url, body):
    """The events of a streaming chat completion, as parsed JSON. An answer that is no stream is an error."""
    where = urlparse(url)
    if where.scheme != "http" or not where.hostname:
        raise ValueError(f"--url {url}: expected http://host:port")
    conn = http.client.HTTPConnection(where.hostname, where.port or 80, timeout=3600)
    headers = {"Content-Type": "application/json"}
    if os.environ.get("LONGFLASH_API_KEYS"):
        headers["Authorization"] = "Bearer " + os.environ["LONGFLASH_API_KEYS"].split(",")[0]
    try:
        conn.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    except OSError as e:
        raise OSError(f"{url}: {e.strerror or e}") from None
    response = conn.getresponse()
    if response.status != 200:
        sys.exit(f"HTTP {response.status}: {response.read().decode(errors='replace')}")
    for line in response:
        line = line.decode().rstrip("\n")
        if line == "data: [DONE]":
            conn.close()
            return
        if line.startswith("data: "):
            event = json.loads(line[6:])
            if "error" in event:
                sys.exit(f"the server broke off: {event['error']['message']}")
            yield event
    sys.exit("the stream ended early")


def show_progress(p):
    if not sys.stderr.isatty() or not p["total"]:
        return
    done = p["processed"] / p["total"]
    eta = f", {p['eta_ms'] / 1000:.0f} s to go" if p.get("eta_ms") else ""
    bar = "█" * int(30 * done)
    print(f"\r  reading [{bar:<30}] {p['processed']} of {p['total']} tokens{eta}   ", end="", file=sys.stderr)


def ask(url, document, question):
    """(answer, seconds to the first token, seconds in all, usage)"""
    body = {"messages": [{"role": "user", "content": document.rstrip() + "\n\n" + question}], "temperature": 0,
            "max_tokens": 64, "stream": True, "stream_options": {"include_usage": True}, "return_progress": True}
    text, first, usage, begin = "", None, {}, time.monotonic()
    for event in stream(url, body):
        if event.get("prompt_progress"):
            show_progress(event["prompt_progress"])
        for choice in event.get("choices", []):
            piece = choice["delta"].get("content") or ""
            if piece and first is None:
                first = time.monotonic() - begin
            text += piece
        usage = event.get("usage") or usage
    if sys.stderr.isatty():
        print("\r" + " " * 78 + "\r", end="", file=sys.stderr)
    return text, first or 0.0, time.monotonic() - begin, usage


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--url", default="http://127.0.0.1:8080")
    ap.add_argument("--document", default=os.path.join(HERE, "document.txt"))
    ap.add_argument("--questions", default=os.path.join(HERE, "questions.json"), help="a list of question and answer")
    ap.add_argument("--question", help="ask this one and compare with nothing")
    ap.add_argument("--min-right", type=int, default=0, help="exit with 1 where fewer answers are right")
    args = ap.parse_args()

    try:
        sys.exit(ask_all(args))
    except (OSError, ValueError, http.client.HTTPException) as e:
        sys.exit(f"ask.py: {e}")


def read_text(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text in UTF-8") from None


def ask_all(args):
    """Asks and prints; the exit status."""
    document = read_text(args.document)
    questions = [{"question": args.question}] if args.question else json.loads(read_text(args.questions))
    n_right = 0
    for q in questions:
        answer, first, total, usage = ask(args.url, document, q["question"])
        mark = ""
        if "answer" in q:
            right = answer.strip() == q["answer"]
            n_right += right
            mark = "  ✓" if right else f"  ✗ expected: {q['answer']}"
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        print(f"{q['question']}\n  {answer.strip()}{mark}")
        print(f"  {usage.get('prompt_tokens', 0)} tokens, {cached} of them from the cache; first token after "
              f"{first:.2f} s, all after {total:.2f} s", flush=True)
    if not args.question:
        print(f"{n_right} of {len(questions)} answers are right")
    return 1 if n_right < args.min_right else 0


if __name__ == "__main__":
    main()
