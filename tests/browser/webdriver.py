"""Chromium through chromedriver, both as Debian has them: the W3C's WebDriver protocol over plain HTTP, as far as the tests
of the page need it. Standard library only."""
import base64
import http.client
import json
import os
import re
import shutil
import subprocess
import tempfile
import time

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element in JSON, by the standard
ENTER, ESCAPE, TAB, SHIFT = "\ue007", "\ue00c", "\ue004", "\ue008"


def find():
    """Paths of browser and driver, or None."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


class Driver:
    """chromedriver, as a process of its own; sessions are browsers."""

    def __init__(self):
        self.browser, driver = find()
        self.process = subprocess.Popen([driver, "--port=0", "--log-level=SEVERE"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for line in self.process.stdout:
            m = re.search(rb"on port (\d+)", line)
            if m and b"started successfully" in line:
                self.port = int(m.group(1))
                return
        raise RuntimeError("chromedriver did not start")

    def call(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        c.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        r = c.getresponse()
        value = json.loads(r.read())["value"]
        c.close()
        if r.status != 200:
            raise RuntimeError(f"{method} {path}: {value['error']}: {value['message'][:500]}")
        return value

    def stop(self):
        self.process.terminate()
        self.process.wait(20)
        self.process.stdout.close()


class Browser:
    """A window without a screen. Its profile is a folder of its own, which goes with it."""

    def __init__(self, driver, width=1240, height=900):
        self.driver, self.profile = driver, tempfile.mkdtemp()
        args = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={self.profile}"]
        if os.geteuid() == 0:
            args.append("--no-sandbox")
        options = {"binary": driver.browser, "args": args}
        always = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = "/session/" + driver.call("POST", "/session", {"capabilities": {"alwaysMatch": always}})["sessionId"]
        self.size(width, height)

    def call(self, method, path, body=None):
        return self.driver.call(method, self.session + path, body)

    def end(self):
        self.call("DELETE", "")
        shutil.rmtree(self.profile, ignore_errors=True)

    # ---- what a person does ----

    def go(self, url):
        self.call("POST", "/url", {"url": url})

    def element(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def elements(self, selector):
        return [e[ELEMENT] for e in self.call("POST", "/elements", {"using": "css selector", "value": selector})]

    def click(self, selector):
        self.call("POST", f"/element/{self.element(selector)}/click", {})

    def type(self, selector, text):
        self.call("POST", f"/element/{self.element(selector)}/value", {"text": text})

    def press(self, *keys):
        """Keys to whatever has the focus."""
        actions = [{"type": kind, "value": k} for k in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def size(self, width, height):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def scheme(self, name):
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def drop(self, selector, name, data):
        """A file that is dragged onto the page from outside."""
        self.run("""const [selector, name, data] = arguments, bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
                    const carried = new DataTransfer();
                    carried.items.add(new File([bytes], name));
                    for (const kind of ["dragenter", "dragover", "drop"])
                      document.querySelector(selector).dispatchEvent(
                        new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: carried }));""",
                 selector, name, base64.b64encode(data).decode())

    # ---- what is seen ----

    def run(self, script, *args):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(args)})

    def command(self, name, **params):
        return self.call("POST", "/goog/cdp/execute", {"cmd": name, "params": params})

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def shows(self, selector):
        return self.run("return Boolean(document.querySelector(arguments[0])?.checkVisibility())", selector)

    def label(self, element):
        return self.call("GET", f"/element/{element}/computedlabel")

    def complaints(self):
        """What the console has: errors of scripts, what the policy stopped. Answers of the server that are errors are none."""
        found = [e["message"] for e in self.call("POST", "/se/log", {"type": "browser"}) if e["level"] == "SEVERE"]
        return [m for m in found if "Failed to load resource" not in m]

    def picture(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("GET", "/screenshot")))


def wait_for(condition, what, seconds=30.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.03)
    raise AssertionError(f"waited for {seconds:.0f} s: {what}")
