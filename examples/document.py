#!/usr/bin/env python3
"""A question about a document, with progress while it is read. Python's standard library only.

    examples/document.py --document my.txt --question "Who signed it?"
    pdftotext my.pdf - | examples/document.py --document - --question "Who signed it?"

$LONGFLASH_URL is the server (default http://127.0.0.1:8080), $LONGFLASH_API_KEYS its keys, where it has any. A second
question about the same document is answered from the prefix cache: its first token takes a fraction of a second.
"""
import argparse
import json
import os
import sys
import urllib.error
import urllib.request


def events(url, key, body):
    """The events of a streamed answer, as parsed JSON."""
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json", "Authorization": "Bearer " + key})
    try:
        lines = urllib.request.urlopen(request)
    except urllib.error.HTTPError as e:
        sys.exit(f"{e.code}: {json.load(e)['error']['message']}")
    except urllib.error.URLError as e:
        sys.exit(f"{url}: {e.reason}")
    for line in lines:
        if line.startswith(b"data: {"):
            yield json.loads(line[len("data: "):])


def show(progress):
    """{"total": …, "cached": …, "processed": …, "eta_ms": …}: tokens of the prompt, and how long the rest may take."""
    done, total = progress["processed"], progress["total"]
    print(f"read {done} of {total} tokens, {progress['cached']} of them from the cache, "
          f"{progress['eta_ms'] / 1000:.1f} s to go", file=sys.stderr,
          end="    \r" if sys.stderr.isatty() and done < total else "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--document", required=True, help='a file of text in UTF-8; "-" for standard input')
    parser.add_argument("--question", required=True)
    parser.add_argument("--max-tokens", type=int, default=512)
    args = parser.parse_args()
    url = os.environ.get("LONGFLASH_URL", "http://127.0.0.1:8080")
    key = os.environ.get("LONGFLASH_API_KEYS", "none").split(",")[0]
    source = sys.stdin.buffer if args.document == "-" else open(args.document, "rb")
    document = source.read().decode("utf-8").strip()
    body = {"messages": [{"role": "user", "content": f"{document}\n\n{args.question}"}], "temperature": 0,
            "max_tokens": args.max_tokens, "stream": True, "return_progress": True}
    for event in events(url, key, body):
        if "error" in event:
            sys.exit("the answer broke off: " + event["error"]["message"])
        if "prompt_progress" in event:
            show(event["prompt_progress"])
        for choice in event.get("choices", []):
            print(choice["delta"].get("content") or "", end="", flush=True)
    print()


if __name__ == "__main__":
    main()
