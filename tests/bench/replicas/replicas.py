#!/usr/bin/env python3
"""Three servers with the demo behind haproxy (Debian: haproxy), by examples/replicas/haproxy.cfg, and what their clients notice.

    replicas.py BINARY [--seconds 12] [--away 3] [--documents 30] [--clients 6] [--out FILE.csv]

    affinity      questions about documents: how many reach the server that has it, found in its cache; beside it the same by turns
    kill          one server is killed (SIGKILL) under load, and comes back
    SIGTERM       all three end in order and come back, one after the other, under load
    drain first   the same, but haproxy is told before (set server … state drain), as preStop gives Kubernetes the time to

Clients ask in three ways: by `name` in the body, with the `text` in the body and its name in X-Document, and `large`, the same in a
body that haproxy does not keep to send it again. Every answer is compared with the first one to the same question. A client that is told
404 document_not_found puts the document again and asks again (`put again`); one that is told 503, or whose stream ends early, asks again.

The table counts requests: at once (answered whole the first time, right), put again, refused (502, 503), cut (begun and not ended), wrong
(another answer), lost (no answer in the end). Python's standard library only, beside tests/e2e/harness.py.
"""
import argparse
import collections
import csv
import http.client
import json
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

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import harness  # noqa: E402

N_SERVERS, WORDS, ATTEMPTS = 3, 400, 4
WAYS = ("name", "text", "large")
PAD = {"pad": "x" * 100_000}  # past tune.bufsize
COLUMNS = ("what", "way", "requests", "at_once", "put_again", "refused", "cut", "wrong", "lost", "at_owner", "cached_tokens", "prompt_tokens")


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Replicas:
    """The servers and haproxy, in a folder that goes with them."""

    def __init__(self, folder, balance="hash var(txn.document)"):
        self.folder, self.socket = folder, os.path.join(folder, "sock")
        self.port, *self.ports = free_ports(1 + N_SERVERS)
        self.servers = [None] * N_SERVERS
        for i in range(N_SERVERS):
            self.start(i)
        with open(os.path.join(ROOT, "examples", "replicas", "haproxy.cfg"), encoding="utf-8") as f:
            config = f.read()
        pairs = [("bind 127.0.0.1:8080", f"bind 127.0.0.1:{self.port}"), ("/run/haproxy/longflash.sock", self.socket),
                 ("balance hash var(txn.document)", f"balance {balance}")]
        pairs += [(f"127.0.0.1:{8081 + i} ", f"127.0.0.1:{p} ") for i, p in enumerate(self.ports)]
        for old, new in pairs:
            assert config.count(old) == 1, old
            config = config.replace(old, new)
        path = os.path.join(folder, "haproxy.cfg")
        with open(path, "w", encoding="utf-8") as f:
            f.write(config)
        self.log = open(os.path.join(folder, "haproxy.log"), "wb")
        self.haproxy = subprocess.Popen(["haproxy", "-f", path], stdout=self.log, stderr=self.log)
        self.wait_up(range(N_SERVERS))

    def start(self, i):
        self.servers[i] = harness.Program("--port", str(self.ports[i]), "--ctx", "4K", "--kv-tokens", "64K", "--device", "cpu", "--threads", "1",
                                          "--trusted-proxy", "127.0.0.1", "--cache-dir", os.path.join(self.folder, f"cache-{i}"),
                                          "--cache-disk", "256M")

    def tell(self, command):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(self.socket)
            s.sendall(command.encode() + b"\n")
            return b"".join(iter(lambda: s.recv(65536), b"")).decode()

    def is_up(self, i):
        rows = csv.DictReader(self.tell("show stat").splitlines())
        return any(r["# pxname"] == "longflash" and r["svname"] == f"longflash-{i}" and r["status"].startswith("UP") for r in rows)

    def wait_up(self, which):
        if not harness.wait_until(lambda: os.path.exists(self.socket) and all(self.is_up(i) for i in which), 60, 0.1):
            raise RuntimeError("haproxy sees no servers")

    def close(self):
        self.haproxy.terminate()
        self.haproxy.wait(20)
        self.log.close()
        for server in self.servers:
            if server:
                server.stop()


class Answers:
    """What came of the requests of one scenario; threads share it."""

    def __init__(self, what, right):
        self.what, self.right, self.lock, self.rows = what, right, threading.Lock(), []

    def add(self, **row):
        with self.lock:
            self.rows.append(row)

    def is_right(self, key, text):
        with self.lock:
            return self.right.setdefault(key, text) == text

    def table(self):
        for way in WAYS:
            rows = [r for r in self.rows if r["way"] == way]
            if not rows:
                continue
            count = collections.Counter(r["first"] for r in rows)
            yield {"what": self.what, "way": way, "requests": len(rows), "at_once": count["ok"], "put_again": count["put_again"],
                   "refused": count["refused"], "cut": count["cut"], "wrong": sum(r["wrong"] for r in rows), "lost": sum(r["lost"] for r in rows),
                   "at_owner": sum(r["at_owner"] for r in rows), "cached_tokens": sum(r["cached"] for r in rows),
                   "prompt_tokens": sum(r["prompt"] for r in rows)}


class Clients:
    """Documents, and clients that ask about them all the time between `with` and its end."""

    def __init__(self, port, n_documents, n_clients, seed=7):
        with open(os.path.join(ROOT, "demo", "document.txt"), encoding="utf-8") as f:
            words = f.read().split()
        self.port, self.n_clients, self.seed = port, n_clients, seed
        self.texts = {f"doc-{i}": f"Document {i}. " + " ".join(words[i * WORDS:(i + 1) * WORDS]) + "\n\n" for i in range(n_documents)}
        self.owner, self.answers, self.ended = {}, None, threading.Event()

    def request(self, method, path, body, headers):
        """(status, server, body); the body is None where it was cut, the status 0 where nothing came."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        status, server = 0, None
        try:
            c.request(method, path, body, headers)
            r = c.getresponse()
            status, server = r.status, r.getheader("x-served-by")
            return status, server, r.read()
        except (OSError, http.client.HTTPException):
            return status, server, None
        finally:
            c.close()

    def put(self, name):
        """Puts a document, waits until it has been read, and says which server has it."""
        for _ in range(ATTEMPTS):
            status, server, _ = self.request("PUT", f"/v1/documents/{name}?wait=true", self.texts[name].encode(), {"Content-Type": "text/plain"})
            if status == 200:
                return server
            time.sleep(0.5)
        return None

    def question(self, way, name, n_tokens):
        document = {"type": "file", "file": {"file_id": name}} if way == "name" else {"type": "text", "text": self.texts[name]}
        body = {"messages": [{"role": "user", "content": [document, {"type": "text", "text": "What is it about?"}]}], "temperature": 0,
                "max_tokens": n_tokens, "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}}
        headers = {"Content-Type": "application/json"}
        if way != "name":
            headers["X-Document"] = name
        return json.dumps({**body, "metadata": PAD} if way == "large" else body).encode(), headers

    def attempt(self, way, name, n_tokens):
        """(outcome, server, text, usage) of one request."""
        status, server, body = self.request("POST", "/v1/chat/completions", *self.question(way, name, n_tokens))
        if status == 404 and b"document_not_found" in (body or b""):
            return "put_again", server, None, {}
        if status != 200:
            return "refused", server, None, {}
        if body is None or not body.endswith(b"data: [DONE]\n\n"):
            return "cut", server, None, {}
        events = [json.loads(e) for e in harness.events(body)[:-1]]
        if any("error" in e for e in events):
            return "cut", server, None, {}
        text = "".join(e["choices"][0]["delta"].get("content") or "" for e in events if e["choices"])
        return "ok", server, text, next(e["usage"] for e in events if e.get("usage"))

    def ask(self, way, name, n_tokens):
        began, first = time.monotonic(), None
        for _ in range(ATTEMPTS):
            outcome, server, text, usage = self.attempt(way, name, n_tokens)
            if first is None:
                first, first_server, first_ended = outcome, server, time.monotonic()
            if outcome == "ok":
                break
            if outcome == "put_again":
                self.put(name)
            else:
                time.sleep(0.5)
        wrong = outcome == "ok" and not self.answers.is_right((way == "name", name, n_tokens), text)
        self.answers.add(way=way, first=first, server=first_server, began=began, ended=first_ended, name=name, wrong=wrong, lost=outcome != "ok",
                         at_owner=first_server == self.owner.get(name), prompt=usage.get("prompt_tokens", 0),
                         cached=(usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0))

    def loop(self, number):
        rng = random.Random(self.seed * 1000 + number)
        while not self.ended.is_set():
            self.ask(WAYS[number % len(WAYS)], rng.choice(sorted(self.texts)), rng.choice((8, 8, 160)))

    def under_load(self, answers, work):
        """Calls work() while clients ask; how long that took."""
        self.answers = answers
        self.ended.clear()
        threads = [threading.Thread(target=self.loop, args=(i,)) for i in range(self.n_clients)]
        for t in threads:
            t.start()
        began = time.monotonic()
        try:
            work()
        finally:
            took = time.monotonic() - began
            self.ended.set()
            for t in threads:
                t.join()
        return took


# ---- scenarios ----

def affinity(replicas, clients, answers, args):
    """Each document is asked about some times, in an order of chance. They are put once: after a restart they must still be there."""
    for name in sorted(set(clients.texts) - set(clients.owner)):
        clients.owner[name] = clients.put(name)
        assert clients.owner[name], "a document was not taken"
    clients.answers = answers
    names = [n for n in clients.texts for _ in range(10)]
    random.Random(1).shuffle(names)
    work = [(w, n) for n in names for w in (("name",) if args.by_turns else ("name", "text"))]
    lock = threading.Lock()

    def loop():
        while True:
            with lock:
                if not work:
                    return
                way, name = work.pop()
            clients.ask(way, name, 8)
    threads = [threading.Thread(target=loop) for _ in range(clients.n_clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    spread = collections.Counter(clients.owner.values())
    print(f"{answers.what}: documents of each server: {', '.join(f'{s} {n}' for s, n in sorted(spread.items()))}")


def kill(replicas, clients, answers, args):
    """One server is killed in the middle, and started again later. Only what it had begun to answer may be cut."""
    victim, at = 1, []

    def work():
        time.sleep(args.seconds / 3)
        at.append(time.monotonic())
        replicas.servers[victim].stop(signal.SIGKILL)
        time.sleep(max(args.away, args.seconds / 3))
        replicas.start(victim)
        replicas.wait_up([victim])
        time.sleep(args.seconds / 3)
    clients.under_load(answers, work)
    cut = [r for r in answers.rows if r["first"] == "cut"]
    strange = [r for r in cut if r["server"] != f"longflash-{victim}" or not r["began"] < at[0] <= r["ended"] + 0.5]
    moved = [r for r in answers.rows if r["began"] < at[0] < r["ended"] and clients.owner[r["name"]] == f"longflash-{victim}" and r["first"] != "cut"]
    print(f"kill: {len(cut)} streams were cut, {len(strange)} of them of other servers or begun later; {len(moved)} requests that had not "
          f"begun to be answered went to another server")
    return [f"a stream was cut that the dead server did not have: {r}" for r in strange]


def roll(replicas, clients, answers, args, tell_first):
    """All servers, one after the other: out of haproxy's hash (or not), SIGTERM, end, start, back."""
    drains = []

    def work():
        for i in range(N_SERVERS):
            if tell_first:
                replicas.tell(f"set server longflash/longflash-{i} state drain")
                time.sleep(1)
            began = time.monotonic()
            status = replicas.servers[i].stop()
            assert status == 0, f"longflash-{i} ended with {status}"
            drains.append(time.monotonic() - began)
            time.sleep(args.away)
            replicas.start(i)
            if tell_first:
                replicas.tell(f"set server longflash/longflash-{i} state ready")
            time.sleep(0.5)
            replicas.wait_up([i])
            time.sleep(args.seconds / 6)
    took = clients.under_load(answers, work)
    print(f"{answers.what}: all three in {took:.1f} s; from SIGTERM to the end {', '.join(f'{s:.1f}' for s in drains)} s")


def run(args, folder, writer):
    right, problems, out = {}, [], []
    for balance in ("roundrobin", "hash var(txn.document)"):
        args.by_turns = balance == "roundrobin"
        replicas = Replicas(os.path.join(folder, balance.split()[0]), balance)
        try:
            clients = Clients(replicas.port, args.documents, args.clients)
            steps = [("affinity", affinity), ("kill", kill), ("SIGTERM", lambda *a: roll(*a, False)), ("drain first", lambda *a: roll(*a, True)),
                     ("affinity after", affinity)]
            for what, step in steps[:1] if args.by_turns else steps:
                answers = Answers("by turns" if args.by_turns else what, right)
                problems += step(replicas, clients, answers, args) or []
                out += answers.table()
        finally:
            replicas.close()
    for row in out:
        writer(row)
    return problems + judge(out)


def judge(rows):
    """What must hold."""
    rows = [r for r in rows if r["what"] != "by turns"]
    wrong = [f"{r['what']}, {r['way']}: {r['lost']} lost, {r['wrong']} wrong" for r in rows if r["lost"] or r["wrong"]]
    for r in rows:
        where = f"{r['what']}, {r['way']}"
        if r["what"].startswith("affinity") and r["at_owner"] < 0.99 * r["requests"]:
            wrong.append(f"{where}: {r['at_owner']} of {r['requests']} reached the server that has the document")
        if r["what"].startswith("affinity") and r["put_again"]:
            wrong.append(f"{where}: {r['put_again']} documents were not there")
        if r["what"] in ("SIGTERM", "drain first") and r["cut"]:
            wrong.append(f"{where}: {r['cut']} streams were cut")
        if r["refused"] and (r["way"] != "large" or r["what"] == "drain first"):
            wrong.append(f"{where}: {r['refused']} requests were refused")
    return wrong


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("binary")
    p.add_argument("--seconds", type=float, default=12)
    p.add_argument("--away", type=float, default=3, help="seconds until a server that ended is started again, as weights take to load")
    p.add_argument("--documents", type=int, default=30)
    p.add_argument("--clients", type=int, default=6)
    p.add_argument("--out")
    args = p.parse_args()
    os.environ["PATH"] += ":/usr/sbin"
    if not shutil.which("haproxy"):
        sys.exit("haproxy is not installed (Debian: apt-get install haproxy)")
    harness.Program.program = os.path.abspath(args.binary)
    os.chdir(ROOT)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("roundrobin", "hash"):
            os.mkdir(os.path.join(folder, name))
        problems = run(args, folder, rows.append)
    print("\n" + "  ".join(f"{c.replace('_', ' '):>{max(len(c), 14 if i < 2 else 0)}}" for i, c in enumerate(COLUMNS)))
    for row in rows:
        print("  ".join(f"{row[c]:>{max(len(c), 14 if i < 2 else 0)}}" for i, c in enumerate(COLUMNS)))
    if args.out:
        with open(args.out, "w", newline="", encoding="utf-8") as f:
            w = csv.DictWriter(f, COLUMNS, lineterminator="\n")
            w.writeheader()
            w.writerows(rows)
    for line in problems:
        print("error:", line)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
