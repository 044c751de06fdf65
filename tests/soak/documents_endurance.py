#!/usr/bin/env python3
"""Documents that are asked about while their server is ended again and again, in order and not.

    tests/soak/documents_endurance.py --minutes 30 --csv lives.csv        (20 seconds in e2e/documents_endurance)

The program serves the demo model from a directory of blocks (--cache-dir), with a KV cache that holds a third of the
documents. A life of it lasts some seconds: its documents are put, four users ask about them, the first ones most often, and
one of them is replaced by another text and back, pinned or unpinned now and then. Then comes SIGTERM, SIGKILL, or SIGKILL behind SIGTERM, at any
moment, and in one life of four a bit of the blocks on disk is flipped before the next begins. What must hold:

  answers     every one is that of a server that keeps nothing, to the byte; every document that is listed answers
  the disk    what `documents verify` lists is whole, but for what was flipped; never more than --cache-disk
  pins        what was pinned is pinned in the next life, unless it was replaced
  memory      resident, never above the plan; its median over the last third of the lives at most 2% above the first's
  the point   blocks came back from disk, whatever ended the life before

Everything is bounded: threads, the length of each wait, and the time."""
import argparse
import csv
import http.client
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
os.environ.setdefault("LF_LONGFLASH", os.path.join(ROOT, "build/release/longflash"))
import harness  # noqa: E402

N_DOCUMENTS, N_USERS, DOCUMENT_CHARACTERS = 8, 4, 4000
SIZES = ("--ctx", "4K", "--kv-tokens", "4K", "--device", "cpu")
DISK_BYTES = 64 << 20
BLOCK_BYTES = 196608  # of the demo model
LIFE_S = (0.3, 6)
MEMORY, ENDS = 1.02, ("term", "kill", "term and kill")
QUESTIONS = ("What is the access code for Marrow Hill?", "Where does Anna Vell live?")
TOWNS = ("Dorrun", "Laigburd", "Telmish", "Ostra")


def text(number):
    """About 1,200 tokens, with facts of its own near both ends. Numbers from N_DOCUMENTS on take the places of others
    for a while."""
    with open(os.path.join(ROOT, "demo", "document.txt"), encoding="utf-8") as f:
        whole = f.read()
    at = number * 7919 % (len(whole) - DOCUMENT_CHARACTERS)
    return (f"Book {number}. Anna Vell lives in {TOWNS[number % len(TOWNS)]}. {whole[at:at + DOCUMENT_CHARACTERS]}. "
            f"The access code for Marrow Hill is {10007 + 4711 * number}. {whole[at:at + 500]}.")


class Endurance:
    def __init__(self, seconds, seed, folder):
        self.seconds, self.rng, self.dir = seconds, random.Random(seed), os.path.join(folder, "cache")
        self.keeps = ("--cache-dir", self.dir, "--cache-disk", str(DISK_BYTES))
        self.lock, self.over = threading.Lock(), threading.Event()
        self.server, self.truth, self.wrong, self.lives = None, {}, [], []
        self.n_answers = self.n_flipped = 0
        self.texts = list(range(N_DOCUMENTS))  # which text is document i now
        self.pins = [None] * N_DOCUMENTS  # what was last said of document i, and answered
        self.changes = [0] * N_DOCUMENTS  # odd: it is being replaced, and answers may be of either text

    # ---- one server ----

    def complain(self, what):
        with self.lock:
            if len(self.wrong) < 1000:
                self.wrong.append(f"life {len(self.lives)}: {what}")

    def put(self, server, i, replaces=False):
        r = server.request("PUT", f"/v1/documents/d{i}?wait=true", text(self.texts[i]).encode(),
                           {"Content-Type": "text/plain", **({"If-Match": "*"} if replaces else {})}, timeout=120)
        if r.status != 200 or harness.events(r.body)[-1] != "[DONE]":
            raise RuntimeError(f"document {i} was not read: {r.status} {r.body[-300:]!r}")

    def ask(self, server, i, question, connection=None):
        parts = [{"type": "document", "name": f"d{i}"}, {"type": "text", "text": QUESTIONS[question]}]
        r = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": parts}], "max_tokens": 16,
                                                 "temperature": 0, "ignore_eos": True}, connection=connection, timeout=120)
        if r.status != 200:
            raise RuntimeError(f"document {i} was not answered about: {r.status} {r.body[:300]!r}")
        return r.json["choices"][0]["message"]["content"]

    def learn(self):
        """The answers of a server that keeps nothing."""
        server = harness.Program("--prefix-cache", "off", *SIZES)
        for i in range(N_DOCUMENTS):
            for self.texts[i] in (i + N_DOCUMENTS, i):
                self.put(server, i, replaces=self.texts[i] == i)
                for q in range(len(QUESTIONS)):
                    self.truth[self.texts[i], q] = self.ask(server, i, q)
        server.stop()
        if len({answer for (_, q), answer in self.truth.items() if q == 0}) < 2 * N_DOCUMENTS:
            raise RuntimeError("the answers do not tell the documents apart")

    # ---- a life ----

    def check(self, i, q, allowed, got):
        with self.lock:
            self.n_answers += 1
        if got not in [self.truth[t, q] for t in allowed]:
            self.complain(f"document {i}, question {q}: {got!r} instead of {[self.truth[t, q] for t in allowed]}")

    def run_user(self, number):
        """Asks until the server is to end; what fails before that is wrong."""
        rng, connection = random.Random(number), self.server.connect(120)
        while not self.over.is_set():
            i, q = min(int(rng.expovariate(0.4)), N_DOCUMENTS - 1), rng.randrange(len(QUESTIONS))
            changes, allowed = self.changes[i], {self.texts[i]}
            try:
                got = self.ask(self.server, i, q, connection)
            except (OSError, RuntimeError, json.JSONDecodeError, http.client.HTTPException) as e:
                if not self.over.is_set():
                    self.complain(f"{type(e).__name__}: {e}")
                break
            if changes % 2 or changes != self.changes[i]:
                allowed = {i, i + N_DOCUMENTS}
            self.check(i, q, allowed, got)
        connection.close()

    def replace_some(self, until):
        """The other text and back, until it is time."""
        while (left := until - time.monotonic()) > 0:
            if left < 1:
                time.sleep(left)
                return
            time.sleep(0.5)
            i = self.rng.randrange(N_DOCUMENTS)
            self.changes[i] += 1
            self.texts[i] = (self.texts[i] + N_DOCUMENTS) % (2 * N_DOCUMENTS)
            self.put(self.server, i, replaces=True)
            self.pins[i] = None
            self.changes[i] += 1
            self.pin_some()

    def pin_some(self):
        """A document is to stay somewhere, or not any more. There may be no room for that."""
        i, tier = self.rng.randrange(N_DOCUMENTS), self.rng.choice(("disk", "device", None))
        r = self.server.post(f"/v1/documents/d{i}/" + ("pin" if tier else "unpin"), {"tier": tier} if tier else {})
        if r.status == 200:
            self.pins[i] = r.json["pinned"]
        elif r.status != 507 or r.error["code"] != "pins_full":
            self.complain(f"document {i} was not pinned: {r.status} {r.body[:300]!r}")

    def check_pins(self, server):
        found = {d["name"]: d["pinned"] for d in server.get("/v1/documents").json["data"]}
        if [found.get(f"d{i}") for i in range(N_DOCUMENTS)] != self.pins:
            self.complain(f"{self.pins} were pinned, and {found} are")

    def live(self, seconds, how):
        self.over.clear()
        self.server = server = harness.Program(*SIZES, *self.keeps)
        began = time.monotonic()
        for i in range(N_DOCUMENTS):
            self.put(server, i)
        self.check_pins(server)
        ready_s = time.monotonic() - began
        threads = [threading.Thread(target=self.run_user, args=(self.rng.random(),)) for _ in range(N_USERS)]
        for t in threads:
            t.start()
        self.replace_some(time.monotonic() + seconds)
        rss, restored = server.rss_bytes(), server.metric("prompt_tokens_by_source_total", 'source="external_kv_transfer"')
        self.over.set()
        if how != "kill":
            server.process.send_signal(signal.SIGTERM)
        if how == "term and kill":
            time.sleep(self.rng.uniform(0, 0.1))
        status = server.stop(None if how == "term" else signal.SIGKILL)
        if how == "term" and status != 0:
            self.complain(f"SIGTERM: status {status}")
        for t in threads:
            t.join(120)
            if t.is_alive():
                self.complain("a user did not end within two minutes")
        self.lives.append({"life": len(self.lives), "end": how, "seconds": round(seconds, 2), "ready_s": round(ready_s, 2),
                           "rss": rss, "restored_tokens": int(restored), **self.look_at_disk()})

    # ---- between lives ----

    def look_at_disk(self):
        r = subprocess.run([harness.Program.program, "documents", "verify", "--json", "--cache-dir", self.dir],
                           capture_output=True, text=True, timeout=120)
        (found,) = [f for f in json.loads(r.stdout) if "identity" in f]
        if found["broken"] > self.n_flipped or found["bad_records"]:
            self.complain(f"{self.n_flipped} bits were flipped, and {found} is on disk")
        size = sum(os.stat(os.path.join(d, name)).st_blocks * 512 for d, _, names in os.walk(self.dir) for name in names)
        if size > DISK_BYTES + (1 << 20):
            self.complain(f"{size} bytes on disk")
        return {"blocks": found["blocks"], "broken": found["broken"], "disk_bytes": size}

    def flip(self):
        (identity,) = [name for name in os.listdir(self.dir) if len(name) == 64]
        with open(os.path.join(self.dir, identity, "full.data"), "r+b") as f:
            f.seek(self.rng.randrange(self.lives[-1]["blocks"] * BLOCK_BYTES))
            byte = f.read(1)[0]
            f.seek(-1, os.SEEK_CUR)
            f.write(bytes([byte ^ 1 << self.rng.randrange(8)]))
        self.n_flipped += 1

    def run(self):
        self.learn()
        began = time.monotonic()
        while time.monotonic() - began < self.seconds or len(self.lives) < 3 * len(ENDS):
            how = ENDS[len(self.lives) % len(ENDS)]
            self.live(self.rng.uniform(*LIFE_S) if self.seconds > 60 else self.rng.uniform(0.2, 1), how)
            if len(self.lives) % 4 == 3 and self.lives[-1]["blocks"]:
                self.flip()
            if len(self.lives) % 20 == 0:
                print(f"{time.monotonic() - began:.0f} s: {len(self.lives)} lives, {self.n_answers} answers, {len(self.wrong)} wrong", flush=True)
        self.last_life()

    def last_life(self):
        """Undisturbed: every document that is listed answers, and is the one that was put."""
        self.server = server = harness.Program(*SIZES, *self.keeps)
        for i in range(N_DOCUMENTS):
            self.put(server, i)
        listed = [d["name"] for d in server.get("/v1/documents").json["data"]]
        if sorted(listed) != sorted(f"d{i}" for i in range(N_DOCUMENTS)):
            self.complain(f"these are listed: {listed}")
        for i in range(N_DOCUMENTS):
            for q in range(len(QUESTIONS)):
                self.check(i, q, {self.texts[i]}, self.ask(server, i, q))
        if server.stop() != 0:
            self.complain("the last life ended badly")

    def failures(self):
        n = max(1, len(self.lives) // 3)
        early = statistics.median(life["rss"] for life in self.lives[:n])
        late = statistics.median(life["rss"] for life in self.lives[-n:])
        most = max(life["rss"] for life in self.lives)
        plan = json.loads(subprocess.run([harness.Program.program, "plan", *SIZES, *self.keeps, "--json"], capture_output=True,
                                         text=True, check=True).stdout)["total_bytes"]
        by_end = {how: sum(b["restored_tokens"] for a, b in zip(self.lives, self.lives[1:]) if a["end"] == how) for how in ENDS}
        self.figures = (f"{sum(by_end.values())} tokens from disk, memory {early / 2**20:.1f} -> {late / 2**20:.1f} MiB "
                        f"(most {most / 2**20:.1f}, plan {plan / 2**20:.1f})")
        rules = (
            (not self.wrong, f"{len(self.wrong)} wrong: " + "\n    ".join(self.wrong[:5])),
            (late <= early * MEMORY, f"memory grew: {early} bytes in the first third of the lives, {late} in the last"),
            (most <= plan, f"{most} bytes were resident, {plan} are planned"),
            (min(by_end.values()) > 0, f"nothing came back from disk: {by_end}"),
            (self.n_flipped > 0, "no bit was flipped"),
        )
        return [message for holds, message in rules if not holds]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--minutes", type=float, default=30)
    p.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    p.add_argument("--csv", help="file for a row for each life")
    args = p.parse_args()
    print(f"seed {args.seed}")
    with tempfile.TemporaryDirectory(prefix="lf_endurance_") as folder:
        e = Endurance(args.minutes * 60, args.seed, folder)
        try:
            e.run()
        finally:
            if e.server and e.server.process.poll() is None:
                e.server.process.kill()
        failures = e.failures()
    if args.csv:
        with open(args.csv, "w", newline="", encoding="utf-8") as f:
            out = csv.DictWriter(f, list(e.lives[0]))
            out.writeheader()
            out.writerows(e.lives)
    for message in failures:
        print(f"  FAILED: {message}")
    ends = ", ".join(f"{sum(life['end'] == how for life in e.lives)} {how}" for how in ENDS)
    print(f"documents: {e.n_answers} answers in {len(e.lives)} lives ({ends}), {e.n_flipped} bits flipped, {len(e.wrong)} wrong, "
          f"{e.figures}: {'FAILED' if failures else 'passed'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
