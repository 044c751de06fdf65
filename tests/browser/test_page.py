"""The page in Chromium: what a person does, with mouse, keyboard or the eyes of a screen reader. Most of it with the double
of the engine, whose answers are scripted by the question; the last case with the demo model.

    python3 tests/browser/test_page.py --pictures FOLDER     only takes pictures of the page, to look at
"""
import os
import socket
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import harness
import webdriver
from webdriver import ENTER, ESCAPE, TAB, wait_for

LEAST_CONTRAST = 4.5  # of text, WCAG 2.2, 1.4.3
SKIPPED = 77
MARKUP = "<script>window.hit = 1</script><img src=x onerror='window.hit = 1'><b>bold</b>"

# Of all texts that are seen: the contrast of the one that is worst, with its words. Colours are what the browser computed.
CONTRAST = """
const parse = (c) => c.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] !== 0) return c; } };
let worst = [99, ""];
for (const e of document.querySelectorAll("body *")) {
  const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || e.matches("input, select, textarea");
  if (!own || !e.checkVisibility() || e.closest(".unseen, .skip, script, noscript") || e.matches(":disabled, option")) continue;
  const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < worst[0]) worst = [ratio, `${e.tagName} ${e.id} ${e.textContent.slice(0, 40)}`];
}
return worst;
"""
FOCUS = """
const e = document.activeElement, style = getComputedStyle(e.matches("#file") ? e.parentElement : e);
return [e.id || e.getAttribute("aria-label") || e.textContent.trim(), style.outlineStyle !== "none" && style.outlineWidth !== "0px"];
"""


# A server with pins, in the page: what /v1/documents says of a document, and what a pin does. window.refusal: the next answers.
FAKE_PINS = """
const tiers = arguments[0], real = window.fetch, pinned = {};
window.asked = [];
const dress = (d) => ({ ...d, pinned: pinned[d.name] ?? null });
const placed = (d) => ({ ...dress(d), tokens_on: { device: d.tokens - d.tokens % 64, memory: tiers.includes("memory") ? 64 : null,
                                                   disk: tiers.includes("disk") ? 0 : null } });
window.fetch = async (path, options) => {
  const [, name, act] = /^\/v1\/documents\/([^/]+)(?:\/(pin|unpin))?$/.exec(path) ?? [];
  if (act) {
    if (window.refusal) {
      const [status, code, message] = window.refusal;
      return Response.json({ error: { message, code, type: "x", param: null } }, { status });
    }
    const body = JSON.parse(options.body);
    window.asked.push([path, body]);
    pinned[name] = act === "pin" ? body.tier : undefined;
    return Response.json(placed(await (await real(`/v1/documents/${name}`, { headers: options.headers })).json()));
  }
  const response = await real(path, options);
  if (!response.ok || options.method !== "GET") return response;
  const answer = await response.json();
  if (path === "/v1/documents") answer.data = answer.data.map(dress);
  if (path === "/v1/capacity") {
    answer.blocks.pinned = 0;
    for (const tier of ["memory", "disk"]) answer[tier] = tiers.includes(tier) ? { total: 100, kept: 10, works: true } : null;
  }
  return Response.json(name ? placed(answer) : answer);
};
"""


class Case(harness.Case):
    state = "ready"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.driver = webdriver.Driver()
        cls.b = webdriver.Browser(cls.driver)

    @classmethod
    def tearDownClass(cls):
        cls.b.end()
        cls.driver.stop()
        super().tearDownClass()

    def setUp(self):
        self.b.size(1240, 900)
        self.open(self.server, self.state)

    def tearDown(self):
        complaints = self.b.complaints()
        self.b.go("about:blank")
        for d in self.server.get("/v1/documents", headers=self.key()).json["data"]:
            self.server.request("DELETE", f"/v1/documents/{d['name']}", headers=self.key())
        self.assertEqual(complaints, [])

    def key(self):
        return {}

    def open(self, server, state="ready"):
        self.b.go(f"http://127.0.0.1:{server.port}/")
        wait_for(lambda: self.b.text("#state") == state, f"the page says {state}")

    def put(self, name, text):
        self.assertIn(self.server.request("PUT", f"/v1/documents/{name}", text.encode(), {"Content-Type": "text/plain", **self.key()}).status,
                      (200, 202))

    def listed(self, *names):
        wait_for(lambda: self.b.run("return [...document.querySelectorAll('#list .name')].map((e) => e.textContent)") == list(names),
                 f"the list has {names}")

    def ask(self, question):
        self.b.type("#question", question + ENTER)

    def answer(self, what=None):
        """The last answer's text, when it has ended."""
        wait_for(lambda: self.b.shows("#send") and self.b.text("#talk .turn:last-child .timings") not in ("", "waiting"), "the answer ends", 60)
        return self.b.text("#talk .turn:last-child " + (what or ".text"))


class Page(Case):
    args = ("ctx=8192",)

    def test_a_text_is_dropped_read_and_deleted(self):
        self.b.drop("#drop", "my report (1).txt", b"[[prefill_ms=1500]] It is so. " * 20)
        self.listed("my-report-1-.txt")
        wait_for(lambda: self.b.text("#list .hint").startswith("reading: "), "it is said to be read")
        self.assertTrue(self.b.shows("#list progress"))
        wait_for(lambda: self.b.text("#list .hint").endswith("not asked yet"), "it has been read")
        self.assertFalse(self.b.shows("#list progress"))
        self.assertIn("was read", self.b.run("return document.getElementById('said').textContent"))
        self.assertEqual(self.b.run("return document.getElementById('about').value"), "my-report-1-.txt")
        self.b.click("#list li button:last-child")
        self.assertEqual(self.b.text("#list li button:last-child"), "Delete for good?")
        self.assertEqual(len(self.server.get("/v1/documents").json["data"]), 1)
        self.b.click("#list li button:last-child")
        self.listed()
        self.assertEqual(self.server.get("/v1/documents").json["data"], [])
        self.assertTrue(self.b.shows("#none"))

    def test_a_name_in_use_is_replaced_only_when_asked(self):
        self.put("a.txt", "one text " * 20)
        self.b.drop("#drop", "a.txt", b"another text " * 20)
        wait_for(lambda: "another document of this name" in self.b.text("#uploads"), "it is refused")
        before = self.server.get("/v1/documents/a.txt").json["etag"]
        self.b.click("#uploads button")
        wait_for(lambda: self.server.get("/v1/documents/a.txt").json["etag"] != before, "it is replaced")
        wait_for(lambda: self.b.text("#uploads") == "", "the message is gone")

    def test_what_is_no_text_gets_a_sentence_that_helps(self):
        for name, data, words in (("a.pdf", b"%PDF-1.7 \xff\xfe", "pdftotext"), ("a.docx", b"PK\x03\x04 x", "pandoc"),
                                  ("a.zip", b"PK\x03\x04 x", "unpack"), ("a.txt", b"caf\xe9 " * 30, "iconv"), ("b.txt", b"", "is empty"),
                                  ("c.bin", b"a\0b", "is not a text")):
            self.b.drop("#drop", name, data)
            wait_for(lambda: words in self.b.text("#uploads .failed"), f"{name}: {words}")
            self.b.click("#uploads button")
            wait_for(lambda: self.b.text("#uploads") == "", "the message is gone")
        # cut in the middle of a character at the end of what is looked at, and a text all the same
        self.b.drop("#drop", "long.txt", b"x" + "é".encode() * 40000)
        wait_for(lambda: "was not taken" in self.b.text("#uploads") or self.server.get("/v1/documents/long.txt").status == 200, "it is sent")

    def test_an_answer_comes_in_pieces_and_says_what_it_took(self):
        self.put("facts", "The code is 48213. " * 60)
        self.listed("facts")
        self.b.click("#list li button")
        words = "one two three four five six seven eight nine ten"
        self.ask(f"[[step_ms=40]][[say={words}]]")
        self.b.run("window.seen = new Set(); new MutationObserver(() => seen.add(document.querySelector('#talk .turn:last-child .text')"
                   "?.textContent)).observe(document.getElementById('talk'), { subtree: true, childList: true })")
        self.assertEqual(self.answer(), words)
        seen = [s for s in self.b.run("return [...window.seen]") if s]
        self.assertGreater(len(seen), 5)
        self.assertTrue(all(words.startswith(s) for s in seen))
        self.assertRegex(self.b.text("#talk .turn:last-child .timings"),
                         r"^first word after .* s · \d+ tokens at [\d,]+ a second · [\d,]+ of [\d,]+ prompt tokens from the cache$")
        self.assertIn("You, about facts", self.b.text("#talk"))
        self.assertEqual(self.server.get("/v1/documents/facts").json["hits"], 1)
        self.ask("[[say=a second answer]]")
        wait_for(lambda: self.b.run("return document.querySelectorAll('#talk .theirs').length") == 2, "a second answer")
        self.assertEqual(self.answer(), "a second answer")
        self.b.drop("#drop", "another.txt", b"something else " * 20)  # takes no conversation away
        self.listed("facts", "another.txt")
        self.assertIn("a second answer", self.b.text("#talk"))
        self.b.click("#anew")
        self.assertEqual(self.b.text("#talk"), "")

    def pins(self):
        return self.b.run("return [...document.querySelectorAll('#list li button')].map((e) => e.checkVisibility() ? e.textContent : '')"
                          ".filter((t) => t === 'Pin' || t === 'Unpin')")

    def test_a_server_without_pins_shows_none(self):
        self.put("facts", "The code is 48213. " * 20)
        self.b.run(FAKE_PINS.replace("({ ...d, pinned: pinned[d.name] ?? null })", "({ ...d, pinned: undefined })"), ["device", "disk"])
        self.listed("facts")
        wait_for(lambda: "not asked yet" in self.b.text("#list"), "it is read")
        self.b.run("document.dispatchEvent(new Event('visibilitychange'))")  # it looks at once
        self.assertEqual(self.pins(), [])
        self.assertNotIn("cache", self.b.text("#list"))

    def test_a_pin_is_set_and_taken_away_where_there_is_one_tier(self):
        self.put("facts", "The code is 48213. " * 20)
        self.b.run(FAKE_PINS, ["device"])
        wait_for(lambda: self.pins() == ["Pin"], "the button is there")
        self.assertEqual(self.b.label(self.b.element("#list li button:nth-child(2)")), "Pin facts")
        self.b.click("#list li button:nth-child(2)")
        wait_for(lambda: self.pins() == ["Unpin"], "it is pinned")
        self.assertIn("pinned in the cache", self.b.text("#list .hint"))
        wait_for(lambda: "cache: all" in self.b.text("#list"), "where it lies is said")
        self.assertNotIn("disk", self.b.text("#list"))
        self.b.click("#list li button:nth-child(2)")
        wait_for(lambda: self.pins() == ["Pin"], "it is not pinned any more")
        self.assertEqual(self.b.run("return window.asked"), [["/v1/documents/facts/pin", {"tier": "device"}], ["/v1/documents/facts/unpin", {}]])
        self.assertIn("facts is not pinned any more", self.b.run("return document.getElementById('said').textContent"))

    def test_of_several_tiers_one_is_chosen_without_a_mouse(self):
        self.put("facts", "The code is 48213. " * 20)
        self.b.run(FAKE_PINS, ["device", "memory", "disk"])
        wait_for(lambda: self.pins() == ["Pin"], "the button is there")
        wait_for(lambda: "cache: all · host: 64 · disk: none" in self.b.text("#list"), "where it lies is said")
        self.b.run("document.querySelector('#list li button:nth-child(2)').focus()")
        self.b.press(ENTER)
        self.assertEqual(self.b.run("return document.querySelector('#list li button:nth-child(2)').ariaExpanded"), "true")
        names = [self.b.label(e) for e in self.b.elements("#list [role=group] button")]
        self.assertEqual(names, ["Pin facts in the cache", "Pin facts in the host's memory", "Pin facts on disk"])
        self.assertEqual(self.b.label(self.b.element("#list [role=group]")), "Where to pin facts")
        self.b.press(TAB, TAB)
        self.assertEqual(self.b.run(FOCUS), ["Pin facts on disk", True])
        self.b.press(ENTER)
        wait_for(lambda: self.pins() == ["Unpin"], "it is pinned")
        self.assertIn("pinned on disk", self.b.text("#list .hint"))
        self.assertFalse(self.b.shows("#list [role=group]"))
        self.assertEqual(self.b.run("return [document.activeElement.textContent, window.asked]"), ["Unpin", [["/v1/documents/facts/pin", {"tier": "disk"}]]])
        self.assertIn("Cache, pinned", self.b.text("#legend"))

    def test_a_pin_that_is_refused_is_said(self):
        self.put("facts", "The code is 48213. " * 20)
        self.b.run(FAKE_PINS, ["device"])
        wait_for(lambda: self.pins() == ["Pin"], "the button is there")
        for status, code, message in ((400, "invalid_value", "tier: there is no such tier."), (507, "pins_full", "Half of it is pinned.")):
            self.b.run("window.refusal = arguments", status, code, message)
            self.b.click("#list li button:nth-child(2)")
            wait_for(lambda: self.b.text("#list .failed") == message, message)
            self.assertIn(f"facts was not pinned: {message}", self.b.run("return document.getElementById('said').textContent"))
            self.assertEqual(self.pins(), ["Pin"])
        self.b.run("window.refusal = undefined")
        self.b.click("#list li button:nth-child(2)")
        wait_for(lambda: self.pins() == ["Unpin"], "it is pinned")
        self.assertFalse(self.b.shows("#list .failed"))
        self.b.run("window.refusal = [404, 'unknown_route', 'There is nothing at this path.']")
        self.b.click("#list li button:nth-child(2)")
        wait_for(lambda: self.b.text("#list .failed") == "This server has no pins.", "that is said")
        wait_for(lambda: self.pins() == [], "and the button goes")
        self.assertEqual(self.b.run("return document.activeElement.textContent"), "Ask")

    def test_stop_ends_the_answer_here_and_in_the_server(self):
        self.ask("[[step_ms=15]] without an end")
        wait_for(lambda: self.b.text("#talk .turn:last-child .text"), "it answers")
        self.b.click("#stop")
        self.assertTrue(self.answer(".timings").startswith("stopped"))
        wait_for(lambda: self.server.metric("num_requests_running") == 0, "nothing runs")
        self.assertEqual(self.b.run("return document.activeElement.id"), "question")

    def test_an_error_is_said_and_the_question_is_not_lost(self):
        self.ask("[[fail_at=3]] why?")
        self.assertTrue(self.answer(".error"))
        self.assertEqual(self.b.run("return document.getElementById('question').value"), "[[fail_at=3]] why?")

    def test_markup_in_names_texts_and_answers_stays_text(self):
        self.b.drop("#drop", MARKUP.replace("/", "") + ".pdf", b"%PDF")
        wait_for(lambda: "<img src=x" in self.b.text("#uploads"), "the name is shown as it is")
        self.b.drop("#drop", MARKUP.replace("/", "") + ".txt", (MARKUP * 30).encode())
        wait_for(lambda: self.b.run("return document.querySelectorAll('#list li').length") == 1, "the text is taken")
        self.ask(f"{MARKUP} [[say={MARKUP}]]")
        self.assertEqual(self.answer(), MARKUP)
        self.assertIn(MARKUP, self.b.text("#talk .mine"))
        self.assertEqual(self.b.run("return [window.hit ?? null, document.querySelectorAll('main script, main img, main b:not(#legend b)').length]"),
                         [None, 0])
        self.b.run("const s = document.createElement('script'); s.textContent = 'window.hit = 1'; document.body.append(s)")
        self.assertIsNone(self.b.run("return window.hit ?? null"))  # the policy would have stopped it
        self.assertEqual(len([c for c in self.b.complaints() if "Content Security Policy" in c]), 1)

    def test_without_a_mouse(self):
        self.put("facts", "The code is 48213. " * 20)
        self.listed("facts")
        order = []
        for _ in range(20):
            self.b.press(TAB)
            name, visible = self.b.run(FOCUS)
            order.append(name)
            self.assertTrue(visible, f"where the focus is can be seen: {name}")
            if name == "send":
                break
        pin = ["Pin facts"] if "pinned" in self.server.get("/v1/documents/facts").json else []
        self.assertEqual(order, ["Skip to the question", "settings-open", "file", "Ask about facts", *pin, "Delete", "talk", "about", "question", "send"])
        self.b.run("document.querySelector('[aria-label=\"Ask about facts\"]').focus()")
        self.b.press(ENTER)
        self.assertEqual(self.b.run("return [document.activeElement.id, document.getElementById('about').value]"), ["question", "facts"])
        self.b.press(*"[[step_ms=15]]x", ENTER)
        wait_for(lambda: self.b.text("#talk .turn:last-child .text"), "it answers")
        self.b.press(ESCAPE)
        self.assertTrue(self.answer(".timings").startswith("stopped"))
        self.b.run("document.getElementById('settings-open').focus()")
        self.b.press(ENTER)
        self.assertEqual(self.b.run("return document.activeElement.id"), "key")
        self.b.press(ESCAPE)
        self.assertEqual(self.b.run("return [document.activeElement.id, document.getElementById('settings').open]"), ["settings-open", False])
        self.b.run("document.querySelector('#list li button:last-child').focus()")
        self.b.press(ENTER, ENTER)
        self.listed()
        self.assertEqual(self.b.run("return document.activeElement.id"), "file")

    def test_everything_has_a_name_and_contrast_in_light_and_dark(self):
        self.put("facts", "The code is 48213. " * 20)
        self.put("more", "x" * 200)
        self.b.drop("#drop", "a.pdf", b"%PDF")
        self.listed("facts", "more")
        self.ask("[[say=so it is]]")
        self.answer()
        self.b.click("#settings-open")
        labels = [self.b.label(e) for e in self.b.elements("dialog, dialog button, dialog input")]
        self.assertIn("API key", labels)
        self.b.click("#settings-close")
        labels += [self.b.label(e) for e in self.b.elements("main button, main input, select, textarea, section, [role=log], [role=img], main ul")
                   if self.b.run("return arguments[0].checkVisibility() && arguments[0].id !== 'legend'", {webdriver.ELEMENT: e})]
        self.assertGreater(len(labels), 20)
        self.assertTrue(all(labels), labels)
        for selector, name in (("#file", "Drop a text here, or choose a file"), ("#question", "Your question"), ("#about", "About"),
                               ("#talk", "Questions"), ("#list li button", "Ask about facts")):
            self.assertIn(name, " ".join(self.b.label(self.b.element(selector)).split()))
        ids = self.b.run("return [...document.querySelectorAll('[id]')].map((e) => e.id)")
        self.assertEqual(len(ids), len(set(ids)))
        self.assertEqual(self.b.run("return [document.documentElement.lang, document.querySelectorAll('h1').length]"), ["en", 1])
        papers = set()
        for scheme in ("light", "dark"):
            self.b.scheme(scheme)
            for dialog in (False, True):
                if dialog:
                    self.b.click("#settings-open")
                ratio, what = self.b.run(CONTRAST)
                self.assertGreaterEqual(ratio, LEAST_CONTRAST, f"{scheme}: {what}")
            self.b.click("#settings-close")
            papers.add(self.b.run("return getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(papers), 2)

    def test_many_documents_push_nothing_away(self):
        for i in range(40):
            self.put(f"d{i}", f"text {i} " * 20)
        wait_for(lambda: self.b.run("return document.querySelectorAll('#list li').length") == 40, "they are listed")
        for width, height in ((1240, 900), (375, 700)):
            self.b.size(width, height)
            tall, below = self.b.run("return [document.getElementById('documents').offsetHeight, "
                                     "document.getElementById(innerWidth > 820 ? 'memory' : 'ask').getBoundingClientRect().top]")
            self.assertLess(tall, height)
            self.assertLess(below, height)
        self.b.drop("#drop", "new.txt", b"[[prefill_ms=20000]] " * 20)
        wait_for(lambda: self.b.shows("#list li:last-child progress"), "it is being read")
        box, button = self.b.run("return ['#list', '#list li:last-child button'].map((s) => document.querySelector(s).getBoundingClientRect().toJSON())")
        self.assertTrue(box["top"] <= button["top"] and button["bottom"] <= box["bottom"], (box, button))

    def test_on_a_phone_nothing_is_wider_than_it(self):
        self.put("a-name-that-is-longer-than-a-phone-is-wide-" + "x" * 60, "x" * 200)
        self.ask("[[say=" + "y" * 300 + "]]")
        self.answer()
        for width in (320, 390, 820):
            self.b.size(width, 800)
            self.assertLessEqual(self.b.run("return document.documentElement.scrollWidth"), width)
            small = self.b.run("return [...document.querySelectorAll('button')].filter((e) => e.checkVisibility() && "
                               "e.getBoundingClientRect().height < 24).map((e) => e.textContent)")
            self.assertEqual(small, [])  # WCAG 2.2, 2.5.8


class Keys(Case):
    args, state = ("api_keys_env=sk-one",), "no access"

    def key(self):
        return {"Authorization": "Bearer sk-one"}

    def enter(self, key):
        self.b.click("#notice button")
        self.b.run("document.getElementById('key').value = ''")
        self.b.type("#key", key + ENTER)

    def test_a_wrong_key_is_said_and_the_right_one_stays_in_the_tab(self):
        self.assertIn("needs an API key", self.b.text("#notice"))
        self.enter("sk-two")
        wait_for(lambda: "does not know this key" in self.b.text("#notice"), "the key is wrong")
        self.enter("sk-one")
        wait_for(lambda: self.b.text("#state") == "ready" and not self.b.shows("#notice"), "the key is right")
        self.open(self.server)  # again: the tab remembers
        self.assertEqual(self.b.run("return [localStorage.length, document.cookie]"), [0, ""])
        self.ask("[[say=yes]]")
        self.assertEqual(self.answer(), "yes")
        other = self.b.call("POST", "/window/new", {"type": "tab"})["handle"]
        self.b.call("POST", "/window", {"handle": other})
        self.open(self.server, "no access")


class Gone(unittest.TestCase):
    def test_a_server_that_is_gone_is_said_and_found_again(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        server, driver = harness.Server(f"port={port}"), webdriver.Driver()
        b = webdriver.Browser(driver)
        try:
            b.go(f"http://127.0.0.1:{port}/")
            wait_for(lambda: b.text("#state") == "ready", "it is ready")
            b.type("#question", "half a question")
            server.stop()
            wait_for(lambda: "does not answer" in b.text("#notice"), "that it is gone is said")
            server = harness.Server(f"port={port}", "loading_ms=3000")
            wait_for(lambda: b.text("#state").startswith("loading the model"), "that it loads is said")
            wait_for(lambda: b.text("#state") == "ready" and not b.shows("#notice"), "it is found again")
            self.assertEqual(b.run("return document.getElementById('question').value"), "half a question")
        finally:
            b.end()
            driver.stop()
            self.assertEqual(server.stop(), 0)


class Demo(Case):
    server_class = harness.Program
    args = ("--ctx", "8K", "--kv-tokens", "16K", "--device", "cpu")

    def test_the_demo_model_answers_from_what_it_read(self):
        with open(os.path.join("demo", "document.txt"), "rb") as f:
            text = b"The access code for Marrow Hill is 48213. " + f.read()[:9000]
        self.b.drop("#drop", "report.txt", text)
        wait_for(lambda: "not asked yet" in self.b.text("#list"), "it is read", 120)
        self.ask("What is the access code for Marrow Hill?")
        self.assertIn("48213", self.answer())
        tokens = self.server.get("/v1/documents/report.txt").json["tokens"]
        self.assertIn(f"{tokens // 64 * 64:,} of ", self.b.text("#talk .turn:last-child .timings"))
        m = self.server.get("/v1/capacity").json["plan"]
        grown = self.b.run("return [...document.querySelectorAll('#bar span')].map((e) => Number(e.style.flexGrow))")
        planned = [m["weights_bytes"], m["workspace_bytes"], m["host_bytes"], m["kv_bytes"]]
        for shown, want in zip([*grown[:3], sum(grown[3:])], planned):
            self.assertAlmostEqual(shown / want, 1, places=3)
        self.assertIn("Cache, read before: ", self.b.run("return document.getElementById('bar').ariaLabel"))


def take_pictures(folder):
    """For the eye: light, dark, a phone."""
    server, driver = harness.Program("--ctx", "32K", "--kv-tokens", "64K"), webdriver.Driver()
    b = webdriver.Browser(driver, 1180, 850)
    with open(os.path.join("demo", "document.txt"), "rb") as f:
        text = f.read()
    b.scheme("light")
    b.go(f"http://127.0.0.1:{server.port}/")
    b.drop("#drop", "annual-report.txt", b"The access code for Marrow Hill is 48213. " + text[:60000])
    wait_for(lambda: "not asked yet" in b.text("#list"), "it is read", 120)
    b.type("#question", "What is the access code for Marrow Hill?" + ENTER)
    wait_for(lambda: "from the cache" in b.text("#talk"), "it is answered")
    b.type("#question", "What is the capital of Laigburd?" + ENTER)
    wait_for(lambda: b.text("#talk").count("from the cache") == 2, "it is answered")
    b.drop("#drop", "minutes.txt", text[60000:110000])
    wait_for(lambda: "left" in b.text("#list"), "the next one is being read")
    time.sleep(1)
    b.run("document.activeElement.blur()")
    b.picture(os.path.join(folder, "light.png"))
    b.scheme("dark")
    b.picture(os.path.join(folder, "dark.png"))
    b.size(390, 1500)
    b.picture(os.path.join(folder, "phone.png"))
    b.end()
    driver.stop()
    server.stop()


if __name__ == "__main__":
    if not webdriver.find():
        print("skipped: Chromium or chromedriver is not installed")
        sys.exit(SKIPPED)
    if "--pictures" in sys.argv:
        take_pictures(sys.argv[sys.argv.index("--pictures") + 1])
    else:
        harness.main()
