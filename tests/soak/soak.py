#!/usr/bin/env python3
"""Two hours of everything at once, after which nothing may be left of it.

    tests/soak/soak.py --minutes 120 --csv soak.csv        (5 minutes in .ci/run)

The program itself serves the demo model on loopback with a small KV cache. Against it, all the time:

  probe       one short question after the other, always the same, at a fixed pace: its times are the good client's p99
  readers     questions about 24 documents, more than the cache holds, so that prefixes are found, evicted and read again
  the others  the clients of e2e/test_chaos.py, good and bad: streams, slow readers and senders, clients that vanish at
              every moment, damaged and oversized requests; and bodies of 3 MB
  idle ones   connections that say nothing, or half a head
  SIGHUP      every seven seconds, the log's file renamed before

Every good answer must be the one of a quiet server, to the byte. Once a second /v1/capacity, memory, descriptors and
threads are noted. What must hold at the end:

  blocks      none used, free + cached = all of them
  descriptors, threads, connections, requests   as before
  memory      resident, its median in the last third and what stays at the end: at most 1% above the median of the first;
              its highest, which is that of the bodies in flight: at most PEAK_BYTES above
  p99         of the probe, mean over the last third of the minutes: at most twice that of the first third + 20 ms
  SIGTERM     ends it with status 0 within five seconds

Everything is bounded: threads, connections, the length of each wait, and the time."""
import argparse
import csv
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
os.environ.setdefault("LF_LONGFLASH", os.path.join(ROOT, "build/release/longflash"))
import harness  # noqa: E402
import test_chaos as chaos  # noqa: E402

N_OTHERS, N_READERS, N_IDLE, N_DOCUMENTS = 6, 2, 40, 24
PROBE_PAUSE_S, SIGHUP_S = 0.1, 7
MEMORY, P99, P99_MORE_S = 1.01, 2.0, 0.02
PEAK_BYTES = N_OTHERS * (8 << 20)  # a body of 3 MB, what it is parsed into, and the same once more on its way out


def document(i):
    """About 3,000 tokens that begin like no other document's."""
    r = random.Random(i)
    return f"Book {i}. " + " ".join(f"{r.choice(('Anna', 'Bor', 'Cilia', 'Dov'))} went to the {r.choice(('hill', 'sea', 'gate'))} "
                                    f"on day {r.randrange(1000)}." for _ in range(220))


class Other(chaos.Client):
    """The clients of chaos, and one more kind."""
    KINDS = chaos.Client.KINDS + (("big", 1),)

    def big(self):
        s = self.dial()
        try:
            s.sendall(chaos.request("/v1/completions", {"prompt": "a " * 1500000}, "Connection: close\r\n"))
            if got := s.recv(65536):
                self.expect_status(got, 400, 413, 429, 503)
        except ConnectionError:
            pass  # refused while we were still sending
        s.close()


class Soak:
    def __init__(self, minutes, folder):
        self.seconds = minutes * 60
        self.log_path = os.path.join(folder, "log")
        self.server = harness.Program("--ctx", "16K", "--kv-tokens", "64K", "--log-file", self.log_path)
        self.lock, self.over = threading.Lock(), threading.Event()
        self.wrong, self.samples, self.probes = [], [], []
        self.counts = {"probe": 0, "readers": 0, "cached": 0, "others": 0, "idle": 0, "sighup": 0}

    # ---- what is asked ----

    def ask(self, body, connection):
        r = self.server.post("/v1/completions", {"temperature": 0, "ignore_eos": True, **body}, connection=connection)
        if r.status != 200:
            return f"{r.status}: {r.body[:200]!r}", 0
        return r.json["choices"][0]["text"], (r.json["usage"].get("prompt_tokens_details") or {}).get("cached_tokens", 0)

    def about(self, i, connection):
        return self.ask({"prompt": document(i) + " Who went to the sea?", "max_tokens": 8}, connection)

    def probe(self, connection):
        return self.ask({"prompt": chaos.WORDS, "max_tokens": 8}, connection)

    def quiet_answers(self):
        """What a server says that has nothing else to do."""
        c = self.server.connect()
        self.expected_probe = self.probe(c)[0]
        self.expected_about = [self.about(i, c)[0] for i in range(N_DOCUMENTS)]
        self.expected_chaos = []
        for k in range(40):
            path, body = chaos.question(k)
            self.expected_chaos.append(chaos.answer(path, self.server.post(path, body, connection=c), False))
        c.close()

    # ---- who asks ----

    def note(self, kind, wrong=None):
        with self.lock:
            self.counts[kind] += 1
            if wrong and len(self.wrong) < 1000:
                self.wrong.append(f"{kind}: {wrong}")

    def check(self, kind, got, expected):
        self.note(kind, None if got == expected else f"{got!r} instead of {expected!r}")

    def run_probe(self):
        c = self.server.connect()
        while not self.over.wait(PROBE_PAUSE_S):
            began = time.monotonic()
            got, _ = self.probe(c)
            self.probes.append((began - self.began, time.monotonic() - began))
            self.check("probe", got, self.expected_probe)
        c.close()

    def run_reader(self, number):
        r = random.Random(number)
        c = self.server.connect()
        while not self.over.wait(0.2):
            i = min(int(r.expovariate(1 / 8)), N_DOCUMENTS - 1)  # the first ones often
            got, cached = self.about(i, c)
            self.check("readers", got, self.expected_about[i])
            with self.lock:
                self.counts["cached"] += cached > 0
        c.close()

    def run_others(self, number):
        idx = number
        while not self.over.wait(0.02):
            self.note("others", Other(self.server, idx, self.expected_chaos).run())
            idx += N_OTHERS

    def run_idle(self):
        while not self.over.is_set():
            socks = [self.server.socket((b"", b"G", b"POST /v1/completions HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")[i % 3])
                     for i in range(N_IDLE)]
            self.over.wait(5)
            for s in socks:
                s.close()
                self.note("idle")

    def run_hangups(self):
        while not self.over.wait(SIGHUP_S):
            if os.path.exists(self.log_path):
                os.replace(self.log_path, self.log_path + ".1")
            self.server.process.send_signal(signal.SIGHUP)
            self.note("sighup")

    def guarded(self, run, *args):
        """A thread that dies is a failure, too."""
        def body():
            try:
                run(*args)
            except Exception as e:
                with self.lock:
                    self.wrong.append(f"{run.__name__} ended: {type(e).__name__}: {e}")
        return threading.Thread(target=body, daemon=True)

    # ---- what is measured ----

    def sample(self, connection=None):
        b = self.server.get("/v1/capacity", connection=connection).json["blocks"]
        return {"second": round(time.monotonic() - self.began, 1), "rss": self.server.rss_bytes(),
                "descriptors": self.server.n_descriptors(), "threads": self.n_threads(), "used": b["used"],
                "cached": b["cached"], "free": b["free"], "total": b["total"], "requests": sum(self.counts.values())}

    def n_threads(self):
        return len(os.listdir(f"/proc/{self.server.process.pid}/task"))

    def watch(self):
        """A sample a second until the time is over."""
        c = self.server.connect()
        for i in range(int(self.seconds)):
            time.sleep(max(0.0, self.began + i + 1 - time.monotonic()))
            if self.server.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.server.process.returncode}")
            self.samples.append(self.sample(c))
            if (i + 1) % 60 == 0:
                s = self.samples[-1]
                print(f"minute {(i + 1) // 60}: {s['requests']} requests, {s['rss'] / 2**20:.1f} MiB, {s['descriptors']} descriptors, "
                      f"{s['used']} blocks used, p99 {1000 * self.p99(i - 59, i + 1):.0f} ms, {len(self.wrong)} wrong", flush=True)
        c.close()

    def p99(self, begin, end):
        times = sorted(t for at, t in self.probes if begin <= at < end)
        return times[int(len(times) * 0.99)] if times else float("inf")

    def run(self):
        self.quiet_answers()
        self.began = time.monotonic()
        self.before = self.at_rest()
        threads = [self.guarded(self.run_probe), self.guarded(self.run_idle), self.guarded(self.run_hangups)]
        threads += [self.guarded(self.run_reader, i) for i in range(N_READERS)]
        threads += [self.guarded(self.run_others, i) for i in range(N_OTHERS)]
        for t in threads:
            t.start()
        try:
            self.watch()
        finally:
            self.over.set()
        for t in threads:
            t.join(120)
        if any(t.is_alive() for t in threads):
            self.wrong.append("a client did not end within two minutes")
        self.after = self.at_rest()

    def settled(self):
        return self.server.idle() and self.server.metric("http_connections") == 1

    def at_rest(self):
        """A sample when nothing is open but the connection that asks, which may or may not have been closed already: the
        fewest descriptors of some."""
        harness.wait_until(self.settled, 30)
        samples = []
        for _ in range(10):
            time.sleep(0.1)
            samples.append(self.sample())
        return min(samples, key=lambda s: s["descriptors"])

    # ---- what must hold ----

    def thirds(self):
        """Mean of the minutes' p99 in the first and in the last third."""
        step = min(60, self.seconds / 3)
        minutes = [self.p99(i * step, (i + 1) * step) for i in range(int(self.seconds / step))]
        n = max(1, len(minutes) // 3)
        return sum(minutes[:n]) / n, sum(minutes[-n:]) / n

    def failures(self):
        a, b = self.after, self.before
        early = statistics.median(s["rss"] for s in self.samples if s["second"] <= self.seconds / 3)
        late = statistics.median(s["rss"] for s in self.samples if s["second"] > self.seconds * 2 / 3)
        late, peak = max(late, a["rss"]), max(s["rss"] for s in self.samples)
        first, last = self.thirds()
        self.figures = (f"memory {early / 2**20:.1f} -> {late / 2**20:.1f} MiB, descriptors {b['descriptors']} -> "
                        f"{a['descriptors']}, p99 {1000 * first:.0f} -> {1000 * last:.0f} ms")
        rules = (
            (not self.wrong, f"{len(self.wrong)} good answers or clients went wrong: " + "\n    ".join(self.wrong[:5])),
            (a["used"] == 0, f"{a['used']} blocks are still used"),
            (a["free"] + a["cached"] == a["total"] == b["total"], f"blocks were lost: {a}"),
            (a["descriptors"] == b["descriptors"], f"descriptors: {b['descriptors']} before, {a['descriptors']} after"),
            (a["threads"] == b["threads"], f"threads: {b['threads']} before, {a['threads']} after"),
            # not asked once: the connection that asked before may not have been closed yet
            (harness.wait_until(self.settled, 10), "requests or connections are left"),
            (late <= early * MEMORY, f"memory grew: {early} bytes in the first third, {late} in the last or at the end"),
            (peak <= early + PEAK_BYTES, f"memory peaked at {peak} bytes, {early} are usual"),
            (last <= first * P99 + P99_MORE_S, f"the good client's p99 grew: {first:.3f} s, then {last:.3f} s"),
            (min(self.counts.values()) > 0, f"a kind of client did nothing: {self.counts}"),
            (max(s["used"] for s in self.samples) > 0, "no sample shows a block in use"),
        )
        return [message for holds, message in rules if not holds]

    def report(self, args):
        failures = self.failures()
        began = time.monotonic()
        status = self.server.stop()
        if status != 0 or time.monotonic() - began > 5:
            failures.append(f"SIGTERM: status {status} after {time.monotonic() - began:.1f} s")
        if args.csv:
            with open(args.csv, "w", newline="", encoding="utf-8") as f:
                out = csv.DictWriter(f, list(self.samples[0]))
                out.writeheader()
                out.writerows(self.samples)
        if args.json:
            with open(args.json, "w", encoding="utf-8") as f:
                json.dump({"samples": self.samples, "probes": self.probes, "counts": self.counts, "failures": failures}, f)
        for message in failures:
            print(f"  FAILED: {message}")
        c = self.counts
        n_good = c["probe"] + c["readers"]
        print(f"soak: {n_good + c['others'] + c['idle']} requests, {n_good} of good clients ({c['cached']} found their document), "
              f"{c['others']} mixed, {c['sighup']} SIGHUPs, {len(self.wrong)} wrong, {self.figures}: "
              f"{'FAILED' if failures else 'passed'}")
        return 1 if failures else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--minutes", type=float, default=5)
    p.add_argument("--csv", help="file for the samples")
    p.add_argument("--json", help="file for samples, the probe's times and counts")
    args = p.parse_args()
    if args.minutes < 0.5:
        p.error("--minutes: at least 0.5")
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(args.minutes, folder)
        try:
            soak.run()
            return soak.report(args)
        finally:
            if soak.server.process.poll() is None:
                soak.server.process.kill()


if __name__ == "__main__":
    sys.exit(main())
