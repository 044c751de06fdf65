"""Pinned documents: what is pinned stays in its tier, whatever else comes, until it is let go of; over restarts too."""
import json
import os
import signal
import tempfile
import unittest

import harness

URL = "/v1/documents"


def text(seed, n=3000):
    with open("demo/document.txt", encoding="utf-8") as f:
        whole = f.read()
    at = seed * 7919 % (len(whole) - n)
    return whole[at:at + n]


class PinnedDocuments(unittest.TestCase):
    SPLIT = ()  # options

    def setUp(self):
        if not harness.Program.program:
            self.skipTest("no program in the environment")
        folder = tempfile.TemporaryDirectory(prefix="lf_pinned_")
        self.addCleanup(folder.cleanup)
        self.dir = os.path.join(folder.name, "cache")

    def start(self, *more, disk="12M"):
        kept = ("--cache-dir", self.dir, "--cache-disk", disk) if disk else ()
        server = harness.Program("--ctx", "4096", "--kv-tokens", "4K", "--device", "cpu", *kept, *self.SPLIT, *more)
        self.addCleanup(server.stop, signal.SIGKILL)
        return server

    def put(self, server, name, seed, n=3000, **more):
        r = server.request("PUT", f"{URL}/{name}?wait=true", {"text": text(seed, n), **more}, timeout=200)
        self.assertEqual(r.status, 200, r.body)
        self.assertEqual(harness.events(r.body)[-1], "[DONE]", r.body)
        return server.get(f"{URL}/{name}").json

    def pin(self, server, name, tier=None):
        r = server.post(f"{URL}/{name}/pin", {"tier": tier} if tier else {})
        self.assertEqual(r.status, 200, r.body)
        return r.json

    def wait(self, what, condition, seconds=60):
        self.assertTrue(harness.wait_until(condition, seconds), what)

    def there(self, server, name):
        return server.get(f"{URL}/{name}").json["tokens_on"]

    def flood(self, server, n=4, first=100):
        """Other texts, more of them than the cache and the disk have room for."""
        for i in range(first, first + n):
            r = server.complete(text(i, 4600), max_tokens=1)
            self.assertEqual(r.status, 200, r.body)

    def test_what_is_pinned_stays_and_what_is_not_goes(self):
        server = self.start()
        for i, name in enumerate(("device", "disk", "none")):
            doc = self.put(server, name, i)
            self.assertIsNone(doc["pinned"])
            n = doc["tokens"] // 64 * 64
            self.wait(name, lambda: self.there(server, name) == {"device": n, "memory": None, "disk": n})
        self.assertEqual(self.pin(server, "device", "device")["pinned"], "device")
        self.assertEqual(self.pin(server, "disk")["pinned"], "disk")  # the lowest there is
        n = server.get(f"{URL}/device").json["tokens"] // 64 * 64
        self.wait("blocks are pinned", lambda: server.metric("kv_blocks_pinned") == n // 64)
        self.assertEqual(server.get("/v1/capacity").json["blocks"]["pinned"], n // 64)
        self.flood(server)
        self.assertEqual(self.there(server, "device"), {"device": n, "memory": None, "disk": n})
        n = server.get(f"{URL}/disk").json["tokens"] // 64 * 64
        self.assertEqual(self.there(server, "disk")["disk"], n)
        self.assertLess(self.there(server, "disk")["device"], n)
        self.assertLess(self.there(server, "none")["disk"], n)
        self.assertGreater(server.metric("disk_blocks_evicted_total"), 0)
        self.assertEqual({d["name"]: d["pinned"] for d in server.get(URL).json["data"]},
                         {"device": "device", "disk": "disk", "none": None})
        r = server.post(f"{URL}/device/unpin", {})
        self.assertEqual((r.status, r.json["pinned"]), (200, None))
        self.wait("blocks are let go", lambda: server.metric("kv_blocks_pinned") == 0)
        self.assertEqual(server.request("DELETE", f"{URL}/disk").status, 200)
        self.wait("blocks are let go", lambda: server.metric("disk_blocks_pinned") == 0)
        self.flood(server, first=200)
        self.assertLess(self.there(server, "device")["device"], n)

    def test_answers_are_those_of_a_document_that_is_not(self):
        server = self.start()
        self.put(server, "a", 1)
        content = [{"type": "document", "name": "a"}, {"type": "text", "text": "What is this about?"}]
        before = server.chat(content, max_tokens=12, temperature=0).json["choices"][0]["message"]["content"]
        self.pin(server, "a", "device")
        self.flood(server)
        r = server.chat(content, max_tokens=12, temperature=0).json
        self.assertEqual(r["choices"][0]["message"]["content"], before)
        n = server.get(f"{URL}/a").json["tokens"]
        self.assertEqual(r["usage"]["prompt_tokens_details"]["cached_tokens"], n // 64 * 64)
        self.assertEqual(r["timings"].get("restored_n", 0), 0)

    def test_of_a_context_that_is_divided_whole_blocks_of_all_ranks_are_pinned(self):
        server = self.start("--parallel", "cp=4", "--threads", "4", disk=None)
        block = server.get("/v1/capacity").json["blocks"]["tokens"]
        self.assertEqual(block, 256)
        n = {}
        for i, name in enumerate(("kept", "free")):
            doc = self.put(server, name, i, 3400)
            n[name] = doc["tokens"] // block * block
            self.assertTrue(0 < n[name] < doc["tokens"] and doc["tokens"] // 64 * 64 != n[name], doc)
            self.wait(name, lambda: self.there(server, name) == {"device": n[name], "memory": None, "disk": None})
        self.assertEqual(self.pin(server, "kept")["pinned"], "device")
        self.wait("whole blocks are pinned", lambda: server.metric("kv_blocks_pinned") == n["kept"] // block)
        self.assertEqual(server.get("/v1/capacity").json["blocks"]["pinned"], n["kept"] // block)
        self.flood(server, 6)
        self.assertEqual(self.there(server, "kept")["device"], n["kept"])
        self.assertLess(self.there(server, "free")["device"], n["free"])
        asked = [{"type": "file", "file": {"file_id": "kept"}}, {"type": "text", "text": "Who?"}]
        r = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": asked}], "max_tokens": 1})
        self.assertEqual(r.json["usage"]["prompt_tokens_details"]["cached_tokens"], n["kept"])  # what is pinned is found
        self.assertEqual(server.post(f"{URL}/kept/unpin", {}).status, 200)
        self.wait("blocks are let go", lambda: server.metric("kv_blocks_pinned") == 0)
        self.assertEqual(server.stop(), 0)

    def test_pins_come_back_after_an_end_of_any_kind(self):
        server = self.start(disk="40M")
        self.put(server, "up", 1, pin="device")
        self.put(server, "down", 2, pin=True)
        self.put(server, "free", 3, pin=True)
        self.assertEqual(server.request("PUT", f"{URL}/free", {"text": text(3), "pin": False}).json["pinned"], None)
        want = {"up": "device", "down": "disk", "free": None}
        for sig in (signal.SIGTERM, signal.SIGKILL):
            n = {name: server.get(f"{URL}/{name}").json["tokens"] // 64 * 64 for name in want}
            self.wait("on disk", lambda: all(self.there(server, name)["disk"] == n[name] for name in ("up", "down")))
            server.stop(sig)
            server = self.start(disk="40M")
            self.assertEqual({d["name"]: d["pinned"] for d in server.get(URL).json["data"]}, want)
            self.wait("it is back on the device", lambda: server.metric("kv_blocks_pinned") == n["up"] // 64)
            self.wait("both are pinned on disk", lambda: server.metric("disk_blocks_pinned") >= n["up"] // 64 + n["down"] // 64 - 1)
            self.flood(server, first=300 + int(sig) * 20)
            self.assertEqual(self.there(server, "up")["device"], n["up"])
            self.assertEqual(self.there(server, "down")["disk"], n["down"])
            self.assertEqual(server.metric("prompt_tokens_by_source_total", 'source="external_kv_transfer"'), n["up"])

    def test_half_of_a_tier_may_be_pinned_and_requests_have_the_rest(self):
        server = self.start(disk="40M")
        half = server.get("/v1/capacity").json["blocks"]["total"] // 2
        name, i = "", 0
        while True:
            self.put(server, f"d{i}", i)
            r = server.post(f"{URL}/d{i}/pin", {"tier": "device"})
            if r.status != 200:
                break
            name, i = f"d{i}", i + 1
        self.assertEqual((r.status, r.error["code"]), (507, "pins_full"))
        self.assertGreater(i, 0)
        self.assertIsNone(server.get(f"{URL}/d{i}").json["pinned"])
        self.assertLessEqual(server.metric("kv_blocks_pinned"), half)
        # moving one down makes room for it
        self.assertEqual(self.pin(server, name, "disk")["pinned"], "disk")
        self.wait("there is room", lambda: server.post(f"{URL}/d{i}/pin", {"tier": "device"}).status == 200)
        # the longest request there can be still finds room, and what is larger than what is left is told so at once
        self.assertEqual(server.complete(text(50, 6000), max_tokens=8).status, 200)

    def test_a_request_that_pins_leave_no_room_for_is_refused_and_one_that_shares_is_not(self):
        server = self.start("--kv-tokens", "4K", disk=None)
        doc = self.put(server, "a", 1, 7000)
        self.assertGreater(doc["tokens"], 1200)
        self.assertLess(doc["tokens"], 2048)
        self.assertEqual(self.pin(server, "a")["pinned"], "device")  # the only tier
        self.wait("pinned", lambda: server.metric("kv_blocks_pinned") == doc["tokens"] // 64)
        room = 4096 - doc["tokens"] // 64 * 64
        r = server.complete(text(2, 3000), max_tokens=room)
        self.assertEqual((r.status, r.error["code"]), (507, "pins_leave_no_room"))
        content = [{"type": "document", "name": "a"}, {"type": "text", "text": "What is this about?"}]
        r = server.chat(content, max_tokens=4096 - doc["tokens"] - 100, temperature=0, stop=["."])
        self.assertEqual(r.status, 200, r.body)
        self.assertEqual(server.post(f"{URL}/a/unpin", {}).status, 200)
        self.wait("let go", lambda: server.metric("kv_blocks_pinned") == 0)
        self.assertEqual(server.complete(text(2, 3000), max_tokens=room, stop=["."]).status, 200)

    def test_bodies_and_refusals(self):
        server = self.start(disk=None)
        self.put(server, "a", 1)
        self.assertEqual(server.request("POST", f"{URL}/a/pin").json["pinned"], "device")  # no body at all
        self.assertEqual(self.pin(server, "a", "memory")["pinned"], "device")  # on a CPU that is the same
        for tier, status, code in (("disk", 400, "no_such_tier"), ("moon", 400, "invalid_value"), (3, 400, "invalid_value")):
            r = server.post(f"{URL}/a/pin", {"tier": tier})
            self.assertEqual((r.status, r.error["code"]), (status, code), r.body)
        for path in ("b/pin", "b/unpin"):
            r = server.post(f"{URL}/{path}", {})
            self.assertEqual((r.status, r.error["code"]), (404, "document_not_found"))
        self.assertEqual(server.get(f"{URL}/a/pin").status, 405)
        self.assertEqual(server.request("POST", f"{URL}/a/pin", b"{", {"Content-Type": "application/json"}).status, 400)
        self.assertEqual(server.request("POST", f"{URL}/a/pin", b"x", {"Content-Type": "text/plain"}).status, 415)
        self.assertEqual(server.post(f"{URL}/a/unpin", {}).json["pinned"], None)

    def test_a_pin_ends_with_its_document(self):
        server = self.start(disk=None)
        self.put(server, "a", 1, pin=True)
        self.wait("pinned", lambda: server.metric("kv_blocks_pinned") > 0)
        self.put(server, "a", 1, pin=True, ttl=2)  # what is read already ends in time, however slow this machine is
        self.wait("over", lambda: server.metric("kv_blocks_pinned") == 0)
        self.put(server, "b", 2, pin=True)
        n = server.metric("kv_blocks_pinned")
        r = server.request("PUT", f"{URL}/b", json.dumps({"text": text(3)}).encode(), {"Content-Type": "application/json", "If-Match": "*"})
        self.assertEqual((r.status, r.json["pinned"]), (202, None))
        self.wait("replaced", lambda: server.metric("kv_blocks_pinned") == 0)
        self.assertGreater(n, 0)


if __name__ == "__main__":
    harness.main()
