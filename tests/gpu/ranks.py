#!/usr/bin/env python3
"""--parallel on GPUs: the demo over 1 GPU, and over those of each split that is named, else of tp=2 and tp=4, as many as there
are. Greedy answers are those of one, up to what nearly ties in bf16 (device/ops.h: GEMMs of many tokens depend on how
many), also from the cache, in company and in chunks; a rank that stands still ends the process in time.

    LF_LONGFLASH=BINARY ranks.py [SPLIT…]            for instance cp=2 tp=2,cp=2

Exit status 77 where there are not two GPUs, or not as many as a split that is named needs.
"""
import concurrent.futures
import math
import os
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import harness  # noqa: E402
import test_rank_faults as faults  # noqa: E402
import test_ranks as of_cpu  # noqa: E402

OPTIONS = ("--ctx", "8192", "--kv-tokens", "64K", "--device", "cuda")
NEARLY_TIES = 0.3  # nats
FAILED = []


def expect(what, ok, more=""):
    print(f"{'ok' if ok else 'FAILED'}: {what}{'' if ok else ': ' + str(more)[:2000]}", flush=True)
    if not ok:
        FAILED.append(what)


def n_gpus():
    try:
        out = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return 0
    return sum(line.startswith("GPU ") for line in out.splitlines())


def ask(server, path, body):
    reply = server.post(path, body, timeout=60)
    if reply.status != 200:
        raise RuntimeError(f"{reply.status}: {reply.body[:500]!r}")
    return reply


def asks():
    """Chats, greedy, with what else might have come at each token."""
    texts = [of_cpu.FACTS + "\n\nWhat is the access code for Marrow Hill?", of_cpu.FACTS + "\n\nWhere does Anna Vell live?",
             of_cpu.FACTS + "\n\nWho is the director of the Silent River?"] + of_cpu.questions()
    return [{"messages": [{"role": "user", "content": text}], "max_tokens": 40, "logprobs": True, "top_logprobs": 5,
             "temperature": 0} for text in texts]


def answer(server, body):
    """(token, its log-probability, those of the likeliest) of each."""
    content = ask(server, of_cpu.CHAT, body).json["choices"][0]["logprobs"]["content"]
    return [(t["token"], t["logprob"], {o["token"]: o["logprob"] for o in t["top_logprobs"]}) for t in content]


def differ(one, other):
    """How far two answers are apart, in log-probability: of the tokens up to the first that is another one, and by how much
    that one was behind; None where it was not among the likeliest. bf16 sums in another order move what nearly ties."""
    apart = 0.0
    for a, b in zip(one, other):
        if a[0] != b[0]:
            return max(apart, a[1] - a[2][b[0]]) if b[0] in a[2] else None
        apart = max(apart, abs(a[1] - b[1]))
    return apart if len(one) == len(other) else None


def compare(what, got, expected):
    apart = [differ(a, b) for a, b in zip(expected, got)]
    n_same = sum([t[0] for t in a] == [t[0] for t in b] for a, b in zip(expected, got))
    expect(f"{what}: {n_same} of {len(got)} answers token by token, the others up to a tie; log-probabilities within "
           f"{max((x for x in apart if x is not None), default=0):.3f}",
           None not in apart and max(apart) < NEARLY_TIES and n_same > 0, apart)


def n_ranks(split):
    return math.prod(int(part.split("=")[1]) for part in split.split(","))


def stop(server, split):
    expect(f"{split}: the server ends", server.stop() == 0, server.stderr[-2000:])


def answers(split, expected):
    """Of one GPU where expected is None."""
    bodies = asks()
    server = harness.Program(*OPTIONS, "--parallel", split)
    got = [answer(server, body) for body in bodies]
    text = "".join(t[0] for t in got[0])
    expect(f"{split}: the document is read: {text[:60]!r}", "48213" in text)
    if expected is not None:
        compare(f"{split} and one GPU", got, expected)
    compare(f"{split}, from the cache", [answer(server, body) for body in bodies], got)
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
        compare(f"{split}, in company", list(pool.map(lambda body: answer(server, body), bodies)), got)
    guided = {**bodies[1], "guided_regex": "Anna Vell lives in [A-Z][a-z]+\\."}
    text = "".join(t[0] for t in answer(server, guided))
    expect(f"{split}: under a grammar: {text!r}", text == "Anna Vell lives in Dorrun.")
    stop(server, split)
    for chunk in ("200", "1000"):  # rows of a step that ranks have all of, and that they divide
        chunked = harness.Program(*OPTIONS, "--parallel", split, "--chunk", chunk, "--prefix-cache", "off")
        compare(f"{split}, in chunks of {chunk}", [answer(chunked, body) for body in bodies], got)
        stop(chunked, split)
    return got


def stands_still(split):
    server = harness.Program(*OPTIONS, "--parallel", split)
    body = {"prompt": of_cpu.FACTS, "max_tokens": 6000, "ignore_eos": True, "temperature": 0, "stream": True}
    client = threading.Thread(target=lambda: server.post(of_cpu.TEXT, body), daemon=True)
    client.start()
    harness.wait_until(lambda: server.metric("generation_tokens_total") > 0)
    tid = faults.stop_thread(server.process.pid, f"lf-rank{n_ranks(split) - 1}")
    if tid is None:
        print("left out: this system does not let a process stop its child's thread", flush=True)
        server.stop()
        return
    watcher = faults.Watcher(tid)
    watcher.join(30)
    status = server.stop(sig=None, timeout=20)
    expect(f"{split}: a rank stands still, all end after {watcher.ended_s} s", status == 1 and watcher.is_in_time(10),
           (status, server.stderr[-2000:]))


def main():
    n = n_gpus()
    splits = sys.argv[1:] or [f"tp={ranks}" for ranks in (2, 4) if ranks <= n] or ["tp=2"]
    most = max(map(n_ranks, splits))
    if n < most:
        print(f"skipped: {n} GPUs, ranks need {most}")
        return 77
    expected = answers("tp=1", None)
    for split in splits:
        answers(split, expected)
    stands_still(splits[0])
    run = subprocess.run([harness.Program.program, "plan", "--model", "demo/model", "--device", "cuda", "--parallel", "tp=4"],
                         capture_output=True, text=True, check=False)
    if n < 4:
        expect("4 ranks are refused", run.returncode != 0 and f"4 ranks need as many GPUs, this machine has {n}" in run.stderr,
               run.stderr)
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
