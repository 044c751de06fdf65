#!/usr/bin/env python3
"""Repeats every attack that the first version of the server did not withstand, and prints what each does now.

    tests/attack/attack.py                          each for 10 s, on build/release/longflash
    tests/attack/attack.py --short                  each for as long as it needs to show, a minute and a half in all
    tests/attack/attack.py unread-templates idle    these only
    tests/attack/attack.py --all --minutes 10       all that can run beside each other, at once

Each attack has its own server on demo/model (or on a copy of it with a hostile tokenizer.json), with --memory 1G. Beside
it two bystanders run as processes of their own, so that the attacker's work in Python does not slow them: a sampler that
reads the server's resident memory and asks /livez on a fresh connection every 50 ms, and a good client that repeats a
short completion. What they see alone, before the attack begins, is what they are compared with. What must hold:

    memory    resident memory at its peak, as the kernel keeps it, is at most the plan and 1%
    livez     answered within 100 ms, each time
    good      every request of the good client is answered, p99 at most twice what it is alone; where the attack is work
              for the device, which is then shared, p99 at most what is said there (good_ms)

and what the attack says itself (`own`). `least` is the longest time that a server of five lines needed for its answer, asked in
turn with /livez: what the machine itself adds while attackers share its cores. With --all the attackers share one API key
and the good client has another; its p99 is at most twice what it is alone and a step of the device for each token. --short is for machines that do other things too: memory and answers as above, but
times count as broken only where something hangs, that is for more than a second (SHORT_MS).

Attackers come from other loopback addresses than the bystanders, and run at the lowest priority: elsewhere they would have
machines of their own. Linux and Python's standard library only; exit status 1 where something did not hold, unless --report.
"""
import argparse
import collections
import json
import math
import multiprocessing
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import framing_cases  # noqa: E402
import harness  # noqa: E402
import hostile_schemas  # noqa: E402

ESTABLISHED = b"\1"  # the first byte of TCP_INFO
LIVEZ_MS = 100
SHORT_MS = 1000  # of any answer in --short, beside what it takes when all is quiet
SLACK = 1  # of the attacks' own times; more in --short, and where all of them share the machine
MEMORY_MARGIN = 1.01
P99_FACTOR = 2
KEYS = {"a": "key-of-the-attacker-a", "b": "key-of-the-bystander-b"}
STEP_MS = 100  # --step-ms, as it is by default on a CPU
GOOD_TOKENS = 4
attackers_key = None  # where the server has keys: of everything that attackers send


# ---- talking to the server from an address of one's own ----

def connect(port, host="127.0.0.1", timeout=10, receive=None):
    s = socket.socket()
    if receive:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    s.settimeout(timeout)
    try:
        s.bind((host, 0))
        s.connect(("127.0.0.1", port))
    except OSError:
        s.close()
        raise
    return s


def post(path, body, key=None, close=True):
    key = key or attackers_key
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"Authorization: Bearer {key}"] if key else []
    lines += ["Connection: close"] if close else []
    return "\r\n".join([*lines, "", ""]).encode() + body


def read_all(s):
    data = b""
    try:
        while got := s.recv(65536):
            data += got
    except (ConnectionResetError, BrokenPipeError):
        pass
    return data


def ask(port, request, host="127.0.0.1", timeout=10):
    """The status of the answer, None where none came; and all of its bytes, or what went wrong."""
    try:
        with connect(port, host, timeout) as s:
            s.sendall(request)
            data = read_all(s)
    except OSError as e:
        return None, repr(e).encode()
    return (int(data[9:12]) if data.startswith(b"HTTP/1.") and data[9:12].isdigit() else None), data


def addresses(n, first=1):
    return [f"127.0.{1 + (first + i) // 250}.{1 + (first + i) % 250}" for i in range(n)]


# ---- bystanders ----

def p99(values):
    return sorted(values)[min(len(values) - 1, math.ceil(len(values) * 0.99) - 1)] if values else math.nan


def peak_resident(pid):
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def answer_at_once(listener):
    """The least that a server can do: what it needs on this machine is what the machine needs."""
    while True:
        with listener.accept()[0] as s:
            s.recv(65536)
            s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


def timed(port, request, timeout):
    """Milliseconds until the end of the answer, and what came instead of a 200, if anything."""
    begin = time.monotonic()
    status, data = ask(port, request, timeout=timeout)
    return (time.monotonic() - begin) * 1000, None if status == 200 else repr((data.partition(b'\r\n\r\n')[2] or data)[-90:])


def sample(pid, port, least_port, stop, out):
    """Resident memory and /livez, every 50 ms until told to stop; and in turn what the least server needs for that."""
    peak, ms, least_ms, wrong, at = 0, [], [], [], time.monotonic()
    request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    while not stop.is_set():
        took, bad = timed(port, request, 5)
        ms.append(took)
        wrong += [bad] if bad else []
        least_ms.append(timed(least_port, request, 5)[0])
        try:
            peak = max(peak, peak_resident(pid))  # an ended process has none
        except OSError:
            break
        at = max(at + 0.05, time.monotonic())
        time.sleep(max(0, at - time.monotonic()))
    out.send({"peak": peak, "livez": ms, "livez_wrong": wrong, "least": least_ms})


def good_client(port, key, stop, out):
    """A short completion, over and over."""
    request = post("/v1/completions", {"prompt": "In the", "max_tokens": GOOD_TOKENS, "temperature": 0}, key)
    ms, wrong = [], []
    while not stop.is_set():
        took, bad = timed(port, request, 30)
        ms.append(took)
        wrong += [bad] if bad else []
        time.sleep(0.02)
    out.send({"good": ms, "good_wrong": wrong})


class Bystanders:
    def __init__(self, server, key=None, good=True):
        self.stop = multiprocessing.Event()
        self.ends = []
        listener = socket.create_server(("127.0.0.1", 0))
        self.processes = [multiprocessing.Process(target=answer_at_once, args=(listener,), daemon=True)]
        self.processes[0].start()
        least_port = listener.getsockname()[1]
        listener.close()  # the process has its own
        jobs = [(sample, (server.process.pid, server.port, least_port)), (good_client, (server.port, key))]
        for target, args in jobs[:2 if good else 1]:
            here, there = multiprocessing.Pipe(False)
            p = multiprocessing.Process(target=target, args=(*args, self.stop, there), daemon=True)
            p.start()
            self.ends.append(here)
            self.processes.append(p)

    def result(self):
        self.stop.set()
        out = {}
        for end in self.ends:
            out.update(end.recv() if end.poll(40) else {})
        for p in self.processes:
            p.terminate()
            p.join()
        return out


# ---- models made for the occasion ----

def byte_letters():
    """The letters that stand for bytes in a byte-level vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return {b: chr(b) if b in plain else chr(256 + i) for b, i in
            [(b, 0) for b in plain] + [(b, i) for i, b in enumerate(b for b in range(256) if b not in plain)]}


def hostile_model(parent, pattern=None, added=None):
    """A copy of the demo with a tokenizer.json: 256 letters, a Split of the pattern, an added token."""
    path = tempfile.mkdtemp(dir=parent)
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(ROOT, "demo/model", name), path)
    os.symlink(os.path.join(ROOT, "demo/model/model.safetensors"), os.path.join(path, "model.safetensors"))
    special = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
    tokens = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
               "special": True} for i, t in enumerate(special)]
    vocab = {t: i for i, t in enumerate(special)}
    vocab.update({c: len(special) + b for b, c in byte_letters().items()})
    if added:
        tokens.append({**tokens[0], "id": len(vocab), "content": added, "special": False})
    split = {"type": "Split", "pattern": {"Regex": pattern or " ?[^ ]+| +"}, "behavior": "Isolated", "invert": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    document = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": None,
                "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]}, "post_processor": None,
                "decoder": byte_level,
                "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                          "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                          "vocab": vocab, "merges": []}}
    with open(os.path.join(path, "tokenizer.json"), "w") as f:
        json.dump(document, f)
    return path


SLOW_PATTERN = r"a(?=[^b]*Z)|a"
LONG_TOKEN = "a" * 4095 + "b"


# ---- the attacks: (port, seconds) in a process of their own; they return what they saw, "wrong" where it is wrong ----

def in_threads(n, work):
    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(n)]
    for t in threads:
        t.start()
    return threads


def hold(port, seconds, n, request, read=0, receive=4096):
    """n clients that send the request and do not read (or `read` bytes a second), each again when it is cut off."""
    end, opened = time.monotonic() + seconds, [0]

    def work(i):
        host = addresses(n)[i]
        while time.monotonic() < end:
            try:
                with connect(port, host, receive=receive) as s:
                    opened[0] += 1
                    s.settimeout(max(0.1, end - time.monotonic()))
                    s.sendall(request)
                    while time.monotonic() < end:
                        time.sleep(0.25)
                        if read and not s.recv(max(1, read // 4)):
                            break
                        if not read and s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) != ESTABLISHED:
                            break
            except OSError:
                time.sleep(0.1)

    for t in in_threads(n, work):
        t.join(seconds + 5)
    return {"connections": opened[0]}


def flood(port, seconds, n, request, timeout=20, leave=False):
    """n clients that repeat the request; with leave they go away half a second later without reading."""
    end, seen = time.monotonic() + seconds, {}

    def work(i):
        host = addresses(n)[i]
        while time.monotonic() < end:
            if leave:
                try:
                    with connect(port, host) as s:
                        s.sendall(request)
                        time.sleep(0.5)
                    status = "left"
                except OSError:
                    status = None
            else:
                status, _ = ask(port, request, host, min(timeout, max(1, end - time.monotonic())))
            seen[status] = seen.get(status, 0) + 1
            if status is None:
                time.sleep(0.02)

    for t in in_threads(n, work):
        t.join(seconds + timeout)
    return {"statuses": {str(k): v for k, v in sorted(seen.items(), key=str)}}


def unread_templates(port, seconds):
    body = {"messages": [{"role": "user", "content": "x" * 8000000}]}
    return hold(port, seconds, 16, post("/apply-template", body, close=False))


def unread_logprobs(port, seconds):
    body = json.dumps({"prompt": ["In"] * 64, "max_tokens": 500, "logprobs": 20, "ignore_eos": True},
                      separators=(",", ":")).encode()
    out = hold(port, seconds, 8, post("/v1/completions", body, close=False))
    return {**out, "request_bytes": len(body)}


def half_bodies(port, seconds):
    """Bodies of 10 MB of which the last byte never comes."""
    request = post("/v1/completions", b'{"prompt":"' + b"x" * (10 * 1024 * 1024 - 13) + b'"}', close=False)
    return hold(port, seconds, 60, request[:-1])


def large_json(port, seconds):
    """Bodies of as many values as are allowed."""
    return flood(port, seconds, 16, post("/v1/completions", {"prompt": [7] * 249000, "max_tokens": 1}))


def slow_readers(port, seconds):
    return hold(port, seconds, 48, post("/tokenize", {"content": "the king " * 100000}, close=False), read=64)


def slow_pattern(port, seconds):
    return flood(port, seconds, 8, post("/tokenize", {"content": "a" * 125000}))


def slow_pattern_left(port, seconds):
    """40 clients send 3 MB and go away: their work must go with them."""
    out = flood(port, seconds, 40, post("/tokenize", {"content": "a" * (3 << 20)}), leave=True)
    begin = time.monotonic()
    status, data = ask(port, post("/tokenize", {"content": "hello"}), timeout=30)
    took = time.monotonic() - begin
    if status != 200 or took > 1 * SLACK:
        out["wrong"] = f"after they left, /tokenize answers {status} after {took:.1f} s"
    return out


def long_added_token(port, seconds):
    """Time of two lengths, four times apart: linear is 4."""
    took, end = [], time.monotonic() + seconds
    for n in (64 << 10, 256 << 10):
        best = math.inf
        for _ in range(3):
            begin = time.monotonic()
            ask(port, post("/tokenize", {"content": "a" * n}), timeout=60)
            best = min(best, time.monotonic() - begin)
            if time.monotonic() > end + seconds:
                break
        took.append(best)
    out = {"s_per_mb": round(took[1] * 4, 2), "slope": round(took[1] / took[0], 2)}
    if took[1] * 4 > 2 * SLACK:
        out["wrong"] = f"{took[1] * 4:.1f} s a MB"
    out.update(flood(port, max(0.0, end - time.monotonic()), 4, post("/tokenize", {"content": "a" * (1 << 20)})))
    return out


def idle(port, seconds):
    """16 addresses, 64 connections each, that say nothing (1,024 in all), opened again when they are closed."""
    end, opened = time.monotonic() + seconds, 0
    held = {h: [] for h in addresses(16)}
    try:
        while time.monotonic() < end:
            for host, mine in held.items():
                for s in mine[:]:
                    try:
                        if s.recv(4096, socket.MSG_DONTWAIT) == b"":
                            raise ConnectionResetError
                    except BlockingIOError:
                        pass
                    except OSError:
                        mine.remove(s)
                        s.close()
                for _ in range(64 - len(mine)):
                    try:
                        mine.append(connect(port, host, timeout=0.5))
                        opened += 1
                    except OSError:
                        break
            time.sleep(0.2)
    finally:
        for s in [s for mine in held.values() for s in mine]:
            s.close()
    return {"connections": opened}


def priority_flood(port, seconds):
    """Key A: long prompts at the highest priority, as many as it may have."""
    body = {"prompt": "In the beginning " * 400, "max_tokens": 32, "priority": -1000000, "ignore_eos": True}
    return flood(port, seconds, 48, post("/v1/completions", body, KEYS["a"]))


def in_turn(port, seconds, n, requests):
    """n clients that send these requests in turn, each beginning at another."""
    end, seen = time.monotonic() + seconds, collections.Counter()

    def work(i):
        host, k = addresses(n)[i], i
        while time.monotonic() < end:
            seen[ask(port, requests[k % len(requests)], host, 20)[0]] += 1
            k += 1

    for t in in_threads(n, work):
        t.join(seconds + 25)
    out = {"statuses": {str(k): v for k, v in sorted(seen.items(), key=str)}}
    if set(seen) - {200, 400, 503}:
        out["wrong"] = f"answers {dict(seen)}"
    return out


def asking_for(field, value, **more):
    return post("/v1/completions", {"prompt": "In the", "max_tokens": 16, field: value, **more})


def hostile_formats(port, seconds):
    """Schemas and patterns that are made to cost much, of all kinds."""
    rows = ([("guided_json", *row) for row in hostile_schemas.schemas()] + [("guided_regex", *row) for row in hostile_schemas.patterns()]
            + [("guided_choice", *row) for row in hostile_schemas.choices()])
    return in_turn(port, seconds, 16, [asking_for(field, value) for field, _, value, _ in rows])


def short_bombs(port, seconds):
    """Patterns of some bytes that take all the time and all the memory that compiling may."""
    return in_turn(port, seconds, 16, [asking_for("guided_regex", p) for p in ("((a{1,100}){1,100}){1,100}", "(a{1,60}){1,60}", "(.)*x.{40}")])


def large_schemas(port, seconds):
    """Schemas of nearly 1 MB that are taken, many at once, with many choices each."""
    texts = [asking_for("guided_choice", [f"{k} choice {i} " + "x" * 40 for i in range(16000)], n=8, ignore_eos=True) for k in range(4)]
    names = [asking_for("guided_json", {"type": "object", "properties": {f"p{k}{i}" + "y" * 400: {"type": "string"} for i in range(2000)}},
                        max_tokens=200) for k in range(4)]
    return in_turn(port, seconds, 24, texts + names)


def framing(port, seconds):
    """Messages of which two parsers would not read the same, each with a request behind it."""
    end, n, escaped = time.monotonic() + seconds, 0, set()
    names = list(framing_cases.CASES)
    while time.monotonic() < end or n < len(names):
        name = names[n % len(names)]
        _, data = ask(port, framing_cases.CASES[name][1] + framing_cases.MARKER, addresses(16)[n % 16], timeout=0.5)
        if not framing_cases.CASES[name][0].startswith("clear") and framing_cases.escaped(data):
            escaped.add(name)
        n += 1
    out = {"messages": n}
    if escaped:
        out["wrong"] = f"a request behind these was answered: {sorted(escaped)}"
    return out


def one_case(name):
    def attack(port, seconds):
        wrong, end, n = {}, time.monotonic() + seconds, 0
        while time.monotonic() < end:
            _, data = ask(port, framing_cases.CASES[name][1] + framing_cases.MARKER, addresses(16)[n % 16], timeout=15)
            why = framing_cases.verdict(name, data, True)
            wrong[why] = wrong.get(why, 0) + 1
            n += 1
        out = {"messages": n}
        if set(wrong) != {None}:
            out["wrong"] = str({k: v for k, v in wrong.items() if k})
        return out
    return attack


# ---- attacks that end the server: they get it whole ----

def stopped_process(server, seconds):
    """SIGSTOP for 4 s with work queued, under a watchdog of 2 s, again and again: it must not take its own sleep for a
    hang. What a thread sees first after SIGCONT is chance, so once proves little."""
    body = {"prompt": "In the " * 2000, "max_tokens": 20000, "ignore_eos": True}
    in_threads(4, lambda i: ask(server.port, post("/v1/completions", body), addresses(4)[i], seconds * 3 + 60))
    time.sleep(0.5)
    end, n = time.monotonic() + seconds, 0
    while time.monotonic() < end or n == 0:
        n += 1
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(4)
        server.process.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        if server.process.poll() is not None:
            return {"wrong": f"ended with {server.process.returncode} after SIGSTOP of 4 s, the {n}. time"}
    return {"times": n}


def two_sigterms(server, seconds):
    """While every worker is pinned by a slow pattern, and no completion is in flight that the server would wait for:
    the second SIGTERM ends it within a second."""
    in_threads(40, lambda i: ask(server.port, post("/tokenize", {"content": "a" * (3 << 20)}), addresses(40)[i], seconds + 5))
    time.sleep(min(2, seconds))
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    begin = time.monotonic()
    if server.process.poll() is None:
        server.process.send_signal(signal.SIGTERM)
    try:
        server.process.wait(max(5, seconds))
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait()
        return {"wrong": f"two SIGTERMs changed nothing within {max(5, seconds):.0f} s, SIGKILL did"}
    took = time.monotonic() - begin
    out = {"s_after_second": round(took, 3)}
    if took > 1 * SLACK:
        out["wrong"] = f"ended {took:.1f} s after the second SIGTERM"
    return out


class Attack:
    def __init__(self, run, model=None, options=(), keys=False, kills=False, least_s=0.0, good_ms=0):
        self.run, self.model, self.options, self.keys, self.kills, self.least_s = run, model, options, keys, kills, least_s
        self.good_ms = good_ms


PATTERN, TOKEN = {"pattern": SLOW_PATTERN}, {"added": LONG_TOKEN}
ATTACKS = {
    "unread-templates": Attack(unread_templates, least_s=4),
    # the running requests are others' until one of them ends: 500 steps of 64 requests
    # each of its steps samples for those who decode, with 20 alternatives each; none waits for an answer to end
    "unread-logprobs": Attack(unread_logprobs, least_s=4, good_ms=2000),
    "half-bodies": Attack(half_bodies, least_s=3),
    "large-json": Attack(large_json, least_s=3),
    "slow-readers": Attack(slow_readers, least_s=3),
    "slow-pattern": Attack(slow_pattern, PATTERN, least_s=3),
    "slow-pattern-left": Attack(slow_pattern_left, PATTERN, least_s=3),
    "long-added-token": Attack(long_added_token, TOKEN, least_s=2),
    "idle": Attack(idle, least_s=3),
    # some steps of the device, each with a chunk of somebody's long prompt
    "priority-flood": Attack(priority_flood, keys=True, least_s=4, good_ms=1000),
    "hostile-formats": Attack(hostile_formats, least_s=4, good_ms=1000),
    "short-bombs": Attack(short_bombs, least_s=3, good_ms=1000),
    "large-schemas": Attack(large_schemas, least_s=4, good_ms=1000),
    "framing": Attack(framing, least_s=3),
    "chunk-extension": Attack(one_case("chunk extension of 200 KB"), least_s=1),
    "arguments": Attack(one_case("target with 1,500 arguments"), least_s=1),
    "lengths-list": Attack(one_case("length a list of two"), least_s=1),
    "stopped": Attack(stopped_process, options=("--watchdog", "2"), kills=True, least_s=5),
    "two-sigterms": Attack(two_sigterms, PATTERN, kills=True, least_s=2),
}


# ---- running and reporting ----

def planned(options):
    text = subprocess.run([harness.Program.program, "plan", "--json", *options], capture_output=True, check=True).stdout
    return json.loads(text)["total_bytes"]


def start(attack, scratch, memory, ctx, keys):
    model = hostile_model(scratch, **attack.model) if attack.model else os.path.join(ROOT, "demo/model")
    options = ["--model", model, "--memory", memory, *(["--ctx", ctx] if ctx else [])]
    more = [*attack.options, "--log-level", "error"]
    if keys:
        path = os.path.join(scratch, "keys")
        with open(path, "w") as f:
            f.write("\n".join(KEYS.values()) + "\n")
        more += ["--api-keys-file", path]
    server = harness.Program(*options, "--port", "0", *more)
    while ask(server.port, b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")[0] != 200:
        time.sleep(0.02)
    return server, planned(options)


def run_in_process(attack, port, seconds, key):
    def child(end):
        global attackers_key
        attackers_key = key
        os.nice(19)  # elsewhere it would have a machine of its own
        random.seed(1)
        end.send(attack.run(port, seconds))

    here, there = multiprocessing.Pipe(False)
    p = multiprocessing.Process(target=child, args=(there,), daemon=True)
    p.start()
    return here, p


def finish(here, p, seconds):
    out = here.recv() if here.poll(seconds * 2 + 90) else {"wrong": "the attacker did not come to its end"}
    p.terminate()
    p.join()
    return out


def judge(row, attack, short):
    """What does not hold, in words."""
    bad = []
    livez_ms = SHORT_MS + row["alone_livez"] if short else LIVEZ_MS
    good_ms = max(attack.good_ms, P99_FACTOR * row["alone_p99"] + (SHORT_MS if short else 0))
    if row["name"].startswith("all"):
        good_ms = attack.good_ms + P99_FACTOR * row["alone_p99"]
    if row["peak"] > row["plan"] * MEMORY_MARGIN:
        bad.append("memory")
    if not attack.kills and (row["livez_wrong"] or max(row["livez"], default=0) > livez_ms):
        bad.append("livez")
    if not attack.kills and (row["good_wrong"] or p99(row["good"]) > good_ms):
        bad.append("good")
    if "wrong" in row["own"]:
        bad.append("own")
    return bad


def good_bound(names):
    """The good client's p99 under several attacks, some of them work for the device: a step for each of its tokens, and
    one that runs when it comes, beside the factor."""
    return (GOOD_TOKENS + 1) * STEP_MS if any(ATTACKS[n].good_ms for n in names) else 0


def attack_once(names, seconds, args, alone_s):
    """Runs the attacks named beside each other on one server; the row of the table."""
    first = ATTACKS[names[0]]
    model = {k: v for n in names for k, v in (ATTACKS[n].model or {}).items()} or None
    keys = any(ATTACKS[n].keys for n in names)
    merged = Attack(first.run, model, first.options, good_ms=good_bound(names))
    with tempfile.TemporaryDirectory() as scratch:
        server, plan = start(merged, scratch, args.memory, args.ctx, keys)
        key = KEYS["b"] if keys else None
        try:
            before = Bystanders(server, key)
            time.sleep(alone_s)
            alone = before.result()
            beside = Bystanders(server, key, good=not first.kills)
            if first.kills:
                own = first.run(server, seconds)
                row = beside.result()
            else:
                running = [(n, run_in_process(ATTACKS[n], server.port, seconds, KEYS["a"] if keys else None)) for n in names]
                time.sleep(seconds)  # what an attacker still waits for is no attack any more
                row = beside.result()
                results = {n: finish(*r, seconds) for n, r in running}
                own = results[names[0]] if len(names) == 1 else results
                wrong = {n: r["wrong"] for n, r in results.items() if "wrong" in r}
                if len(names) > 1 and wrong:
                    own["wrong"] = str(wrong)
        finally:
            server.process.kill()
            server.stop()
    row = {"peak": 0, "livez": [], "livez_wrong": [], "least": [], "good": [], "good_wrong": [], **row}
    row.update(plan=plan, own=own, idle=alone["peak"], alone_p99=p99(alone["good"]), alone_livez=max(alone["livez"]),
               name=names[0] if len(names) == 1 else f"all {len(names)}")
    row["bad"] = judge(row, first if len(names) == 1 else merged, args.short)
    return row


HEAD = (f"{'attack':<18}{'peak MiB':>9}{'plan':>6}{'idle':>6} {'livez p99':>10}{'max ms':>8}{'lost':>5}"
        f"{'alone':>7}{'least':>7}{'good':>8}{'p99 ms':>9}{'alone':>7}  verdict")


def counted(what, wrong):
    return f"   {what}: {dict(collections.Counter(wrong))}" if wrong else ""


def line(r):
    mib, n = 1 << 20, len(r["good"])
    answered = 100 * (n - len(r["good_wrong"])) / n if n else math.nan
    return (f"{r['name']:<18}{r['peak'] / mib:>9.0f}{r['plan'] / mib:>6.0f}{r['idle'] / mib:>6.0f} "
            f"{p99(r['livez']):>10.1f}{max(r['livez'], default=math.nan):>8.1f}{len(r['livez_wrong']):>5}"
            f"{r['alone_livez']:>7.1f}{max(r['least'], default=math.nan):>7.1f}{answered:>7.1f}%{p99(r['good']):>9.1f}{r['alone_p99']:>7.1f}  "
            f"{'holds' if not r['bad'] else 'BROKEN: ' + ', '.join(r['bad'])}   {r['own'] or ''}"
            f"{counted('livez', r['livez_wrong'])}{counted('good', r['good_wrong'])}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *ATTACKS], metavar="attack", help=", ".join(ATTACKS))
    parser.add_argument("--program", default=os.environ.get("LF_LONGFLASH") or os.path.join(ROOT, "build/release/longflash"))
    parser.add_argument("--memory", default="1G")
    parser.add_argument("--ctx", default="", help="--ctx of the server; empty: its default")
    parser.add_argument("--seconds", type=float, default=10, help="of each attack")
    parser.add_argument("--short", action="store_true", help="each as short as it may be")
    parser.add_argument("--all", action="store_true", help="those that leave the server alive, at once")
    parser.add_argument("--minutes", type=float, default=10, help="of --all")
    parser.add_argument("--report", action="store_true", help="exit status 0 whatever was found")
    parser.add_argument("--json", help="write the rows there too")
    args = parser.parse_args()
    global SLACK
    SLACK = 10 if args.short or args.all else 1
    harness.Program.program = args.program
    names = args.names or list(ATTACKS)
    rows = []
    print(HEAD, flush=True)
    groups = [[n for n in names if not ATTACKS[n].kills]] if args.all else [[n] for n in names]
    for group in groups:
        seconds = args.minutes * 60 if args.all else ATTACKS[group[0]].least_s
        if not args.all and not args.short:
            seconds = max(seconds, args.seconds)
        rows.append(attack_once(group, seconds, args, 0.5 if args.short else 3))
        print(line(rows[-1]), flush=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(rows, f)
    broken = [r["name"] for r in rows if r["bad"]]
    print(f"{len(rows) - len(broken)} of {len(rows)} hold" + (f"; broken: {', '.join(broken)}" if broken else ""))
    return 1 if broken and not args.report else 0


if __name__ == "__main__":
    sys.exit(main())
