"""What stands around the server where it is operated, as Debian has it: haproxy, nginx, Caddy, Prometheus, systemd-analyze; and what
Kubernetes takes. Opt-in.

    LF_LONGFLASH=build/release/longflash python3 tests/operations/run.py [-v] [Nginx …]
    apt-get install haproxy nginx-light caddy prometheus systemd openssl         what is missing is skipped, and says so
    pip install kubernetes-validate                                              beside kubectl, which renders

The demo model serves. The configurations are those of configs/, with other ports and certificates.
"""
import http.client
import json
import os
import re
import resource
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import harness

CLIENTS_N = 1000
STREAM = {"prompt": "One, two, three", "max_tokens": 64, "ignore_eos": True, "stream": True, "temperature": 0}
LONG_STREAM = {**STREAM, "max_tokens": 3000}
NAME = "longflash.example"  # of the configurations
MIB = 1024 * 1024


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def read(path):
    with open(os.path.join(ROOT, path)) as f:
        return f.read()


def put_in(text, *pairs):
    """A configuration with other words, each of which must be there."""
    for old, new in pairs:
        assert old in text, f"the configuration has no {old!r}"
        text = text.replace(old, new)
    return text


def needs(*programs):
    missing = [p for p in programs if not shutil.which(p, path=os.environ["PATH"] + ":/usr/sbin")]
    return unittest.skipIf(missing, f"not installed: {', '.join(missing)}")


class Around(unittest.TestCase):
    """A server, and programs around it, which end with the test."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def serve(self, *args):
        server = harness.Program("--ctx", "4K", "--kv-tokens", "64K", "--device", "cpu", *args)
        self.addCleanup(lambda: self.assertEqual(server.stop(), 0))
        return server

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def start(self, port, *command, **more):
        """A program that listens on a port soon."""
        log = open(os.path.join(self.folder, "program.log"), "ab")
        self.addCleanup(log.close)
        env = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin", "HOME": self.folder}
        p = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=self.folder, **more)
        self.addCleanup(p.wait, 20)
        self.addCleanup(p.terminate)

        def listens():
            self.assertIsNone(p.poll(), self.said())
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port)) == 0
        self.assertTrue(harness.wait_until(listens, 30), self.said())

    def said(self):
        with open(os.path.join(self.folder, "program.log"), errors="replace") as f:
            return f.read()[-3000:]

    def run_program(self, *command):
        env = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin"}
        r = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        return r.stdout + r.stderr


# ---- proxies ----

@needs("haproxy")
class Haproxy(Around):
    CONFIG = """
global
    maxconn 4096
defaults
    mode http
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    option forwardfor
frontend in
    bind 127.0.0.1:{port}
    default_backend longflash
backend longflash
    server one 127.0.0.1:{server}
"""

    def client(self, idx, port, out, together):
        """One stream, from an address of its own, begun when all are connected."""
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=300,
                                       source_address=(f"127.1.{idx // 250}.{idx % 250 + 1}", 0))
        try:
            c.connect()
            together.wait(60)
            began = time.monotonic()
            c.request("POST", "/v1/completions", json.dumps(STREAM), {"Content-Type": "application/json"})
            r = c.getresponse()
            body = r.read()
            out[idx] = (r.status, body, time.monotonic() - began)
        except OSError as e:
            out[idx] = (0, repr(e).encode(), 0)
        finally:
            c.close()

    def test_a_thousand_connections(self):
        port, log = free_port(), os.path.join(self.folder, "log")
        server = self.serve("--trusted-proxy", "127.0.0.1", "--connections", "2048", "--connections-per-address", "2",
                            "--queue", "2048", "--log-file", log)
        self.start(port, "haproxy", "-f", self.file("haproxy.cfg", self.CONFIG.format(port=port, server=server.port)))
        out, together = [None] * CLIENTS_N, threading.Barrier(CLIENTS_N)
        threading.stack_size(256 * 1024)
        threads = [threading.Thread(target=self.client, args=(i, port, out, together)) for i in range(CLIENTS_N)]
        began = time.monotonic()
        for t in threads:
            t.start()
        peak = 0
        while any(t.is_alive() for t in threads):
            peak = max(peak, server.metric("http_connections"))
            time.sleep(0.1)
        took = time.monotonic() - began
        self.assertEqual({o[0] for o in out}, {200}, [o for o in out if o[0] != 200][:3])
        texts = {"".join(json.loads(e[6:])["choices"][0]["text"] for e in o[1].decode().split("\n\n") if e.startswith("data: {")
                         and json.loads(e[6:])["choices"]) for o in out}
        self.assertEqual(len(texts), 1)  # to the byte, and none of them cut
        self.assertTrue(all(o[1].endswith(b"data: [DONE]\n\n") for o in out))
        self.assertGreater(peak, CLIENTS_N * 0.9)
        self.assertTrue(harness.wait_until(lambda: server.metric("http_requests_in_flight") == 0))
        clients = re.findall(r"client=(127\.1\.\d+\.\d+)", read(log))
        self.assertEqual(len(set(clients)), CLIENTS_N)
        print(f"haproxy: {CLIENTS_N} streams in {took:.1f} s, {peak:.0f} connections at once, median {statistics.median(o[2] for o in out):.1f} s, "
              f"server's memory {server.rss_bytes() / MIB:.0f} MiB", flush=True)

    def test_an_address_has_its_own_limit_behind_it(self):
        port = free_port()
        server = self.serve("--trusted-proxy", "127.0.0.1", "--connections-per-address", "2")
        self.start(port, "haproxy", "-f", self.file("haproxy.cfg", self.CONFIG.format(port=port, server=server.port)))
        held = []
        body = json.dumps({**STREAM, "max_tokens": 3000})

        def ask(address):
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=60, source_address=(address, 0))
            c.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
            held.append(c)
            return c.getresponse().status
        try:
            self.assertEqual([ask("127.1.0.1") for _ in range(3)], [200, 200, 429])
            self.assertEqual(ask("127.1.0.2"), 200)
        finally:
            for c in held:
                c.close()


class Tls(Around):
    """What holds behind any proxy that does TLS."""

    client_address = "127.0.0.9"

    def connect(self, port):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        raw = socket.create_connection(("127.0.0.1", port), timeout=120, source_address=(self.client_address, 0))
        c = http.client.HTTPSConnection(NAME, port, timeout=120)
        c.sock = context.wrap_socket(raw, server_hostname=NAME)
        return c

    def check(self, port, server, log):
        c = self.connect(port)
        c.request("GET", "/readyz")
        r = c.getresponse()
        self.assertEqual((r.status, r.read()), (200, b'{"status":"ok"}'), self.said())
        c.request("GET", "/metrics")
        r = c.getresponse()
        r.read()
        self.assertEqual(r.status, 404)
        c.request("GET", "/")
        r = c.getresponse()
        self.assertIn(b"<title>LongFlash</title>", r.read())
        self.check_stream(port)
        self.check_documents(port, server)
        clients = set(re.findall(r"client=(\S+)", read(log)))
        self.assertEqual(clients, {self.client_address})  # and not what the client says of itself

    def check_stream(self, port):
        c = self.connect(port)
        c.request("POST", "/v1/completions", json.dumps(LONG_STREAM),
                  {"Content-Type": "application/json", "X-Forwarded-For": "203.0.113.1"})
        r = c.getresponse()
        self.assertEqual(r.status, 200)
        times = []
        began = time.monotonic()
        while line := r.readline():
            if line.startswith(b"data: "):
                times.append(time.monotonic())
        self.assertEqual(line, b"")
        self.assertGreater(len(times), LONG_STREAM["max_tokens"] / 2)
        first, last = times[0] - began, times[-1] - began
        self.assertLess(first, last / 4)  # as they come: the first does not wait for the others
        print(f"{type(self).__name__}: the first of {len(times)} events after {first * 1000:.0f} ms, the last after {last * 1000:.0f}",
              flush=True)

    def put(self, port, name, data):
        c = self.connect(port)
        c.request("PUT", f"/v1/documents/{name}?wait=true", data,
                  {"Content-Type": "text/plain", "Content-Length": str(len(data)), "X-Forwarded-For": "203.0.113.1"})
        r = c.getresponse()
        return r.status, r.read()

    def check_documents(self, port, server):
        status, body = self.put(port, "fits", b"The access code for Marrow Hill is 48213. " * 200)
        self.assertEqual(status, 200)
        self.assertTrue(body.endswith(b"\n\ndata: [DONE]\n\n") and b'"state":"ready"' in body, body)
        for i in range(40):  # a proxy that cuts an answer does so now and then
            status, body = self.put(port, f"again{i}", b"The access code for Marrow Hill is %d. " % i * 50)
            self.assertTrue(status == 200 and body.endswith(b"\n\ndata: [DONE]\n\n"), (i, body[-300:]))
        # 64 MiB come through whole: it is the server that says that they are too many
        began = time.monotonic()
        status, body = self.put(port, "large", b"All work and no play makes Jack a dull boy. " * (64 * MIB // 44))
        error = json.loads(body)["error"]
        self.assertEqual((status, error["param"]), (400, "text"), body[:300])
        print(f"{type(self).__name__}: 64 MiB refused after {time.monotonic() - began:.1f} s: {error['message']}", flush=True)
        self.assertIsNone(server.process.poll())

    def upstream(self):
        log = os.path.join(self.folder, "log")
        return self.serve("--trusted-proxy", "127.0.0.1", "--max-body", "70M", "--max-document", "64M", "--log-file", log), log


@needs("nginx", "openssl")
class Nginx(Tls):
    def test_configs_proxy_nginx(self):
        server, log = self.upstream()
        port = free_port()
        self.run_program("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", f"/CN={NAME}",
                         "-keyout", os.path.join(self.folder, "key"), "-out", os.path.join(self.folder, "pem"))
        site = put_in(read("configs/proxy/nginx.conf"), ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
                      ("/etc/ssl/longflash.pem", self.folder + "/pem"), ("/etc/ssl/longflash.key", self.folder + "/key"),
                      ("http://127.0.0.1:8080", f"http://127.0.0.1:{server.port}"))
        temp = "".join(f"    {kind}_temp_path {self.folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config = self.file("nginx.conf", f"daemon off;\npid {self.folder}/pid;\nerror_log stderr;\nevents {{}}\n"
                                         f"http {{\n    access_log off;\n{temp}{site}}}\n")
        self.start(port, "nginx", "-c", config, "-p", self.folder, "-e", "stderr")
        self.check(port, server, log)


@needs("caddy")
class Caddy(Tls):
    def test_configs_proxy_caddyfile(self):
        server, log = self.upstream()
        port = free_port()
        site = put_in(read("configs/proxy/Caddyfile"), (NAME + " {", f"https://{NAME}:{port} {{\n\ttls internal"),
                      ("127.0.0.1:8080", f"127.0.0.1:{server.port}"))
        options = "{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n}\n"
        self.start(port, "caddy", "run", "--adapter", "caddyfile", "--config", self.file("Caddyfile", options + site))
        self.check(port, server, log)


# ---- Prometheus ----

@needs("prometheus", "promtool")
class Prometheus(Around):
    def test_rules_and_configuration_are_valid(self):
        for name in ("rules.yml", "prometheus.yml"):
            shutil.copy(os.path.join(ROOT, "configs", "monitoring", name), self.folder)
        self.run_program("promtool", "check", "rules", os.path.join(self.folder, "rules.yml"))
        self.assertIn("SUCCESS", self.run_program("promtool", "check", "config", os.path.join(self.folder, "prometheus.yml")))

    def load(self, server, until):
        """Something of everything that an operator may look at."""
        n = 0
        while time.monotonic() < until:
            server.complete("x" * (50 + n % 7), max_tokens=8)
            server.complete("One, two, three", max_tokens=8)
            server.request("PUT", f"/v1/documents/d{n % 3}", (f"{n % 3} " + "It is so. " * 200).encode(), {"Content-Type": "text/plain"})
            server.post("/v1/completions", {"prompt": "x" * 100000})
            server.get("/nothing")
            n += 1

    def queries(self):
        for panel in json.loads(read("configs/monitoring/dashboard.json"))["panels"]:
            for target in panel.get("targets", []):
                expr = target["expr"].replace("$__rate_interval", "15s").replace('"$instance"', '".*"')
                self.assertNotIn("$", expr)
                yield panel["title"], expr

    def ask(self, path, **query):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        c.request("GET", path + ("?" + urllib.parse.urlencode(query) if query else ""))
        r = c.getresponse()
        answer = json.loads(r.read())
        c.close()
        self.assertEqual((r.status, answer["status"]), (200, "success"), answer)
        return answer["data"]

    def test_every_query_of_the_dashboard_has_an_answer(self):
        server = self.serve("--cache-dir", os.path.join(self.folder, "cache"), "--cache-disk", "256M")
        self.port = free_port()
        shutil.copy(os.path.join(ROOT, "configs", "monitoring", "rules.yml"), self.folder)
        config = self.file("prometheus.yml", put_in(read("configs/monitoring/prometheus.yml"), ("longflash:8080", f"127.0.0.1:{server.port}"),
                                                    ("15s", "1s")))
        self.start(self.port, "prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder}/data",
                   f"--web.listen-address=127.0.0.1:{self.port}")
        self.load(server, time.monotonic() + 20)
        asked, empty = 0, []
        for title, expr in self.queries():
            asked += 1
            found = self.ask("/api/v1/query", query=expr)["result"]
            if not found or all(f["value"][1] == "NaN" for f in found):
                empty.append(f"{title}: {expr}")
        self.assertGreater(asked, 40)
        self.assertEqual(empty, [])
        rules = [r for g in self.ask("/api/v1/rules")["groups"] for r in g["rules"]]
        self.assertEqual([r["name"] for r in rules if r["health"] != "ok"], [])
        recorded = [r["name"] for r in rules if r["type"] == "recording"]
        self.assertEqual([n for n in recorded if not self.ask("/api/v1/query", query=n)["result"]], [])
        firing = {r["name"] for r in rules if r["type"] == "alerting" and r["state"] == "firing"}
        self.assertEqual(firing, set())
        print(f"Prometheus: {asked} queries of the dashboard and {len(rules)} rules answered", flush=True)


# ---- several servers ----

@needs("haproxy")
class Replicas(Around):
    def test_the_configurations_are_ones(self):
        for path in ("examples/replicas/haproxy.cfg", "packaging/kubernetes/components/proxy/haproxy.cfg"):
            self.run_program("env", "LONGFLASH_DOMAIN=longflash-replicas.a.svc.cluster.local", "haproxy", "-c", "-f", os.path.join(ROOT, path))

    def test_a_document_keeps_its_server_and_nothing_is_lost(self):
        said = self.run_program(sys.executable, os.path.join(ROOT, "tests", "bench", "replicas", "replicas.py"), harness.Program.program,
                                "--seconds", "3", "--away", "2", "--documents", "9")
        print(said, flush=True)


@needs("kubectl", "kubernetes-validate")
class Kubernetes(Around):
    FOLDER = os.path.join(ROOT, "packaging", "kubernetes")
    RELEASES = ("1.30.0", "1.37.0")

    def validate(self, folder):
        """Renders a kustomization and has its objects validated; the kinds that no release knows are left out. All kinds."""
        objects = self.run_program("kubectl", "kustomize", folder).split("\n---\n")
        kinds = [re.search(r"^kind: (\w+)$", o, re.M).group(1) for o in objects]
        core = self.file("objects.yaml", "\n---\n".join(o for o in objects if not re.search(r"^apiVersion: inference\.", o, re.M)))
        for release in self.RELEASES:
            said = self.run_program("kubernetes-validate", "--strict", "-k", release, core)
            self.assertEqual(said.count("passed for resource"), sum(k != "InferencePool" for k in kinds), said)
        return set(kinds)

    def test_base_and_example_are_valid(self):
        self.assertEqual(self.validate(os.path.join(self.FOLDER, "base")), {"StatefulSet", "Service", "PodDisruptionBudget"})
        self.assertEqual(self.validate(os.path.join(self.FOLDER, "example")), {"StatefulSet", "Service", "PodDisruptionBudget", "ConfigMap",
                                                                               "Deployment", "NetworkPolicy", "HorizontalPodAutoscaler"})

    def test_each_component_stands_beside_the_base_alone(self):
        components = os.path.join(self.FOLDER, "components")
        for name in sorted(os.listdir(components)):
            parts = [os.path.relpath(p, os.path.realpath(self.folder)) for p in (os.path.join(self.FOLDER, "base"), os.path.join(components, name))]
            self.file("kustomization.yaml", "resources: [{}]\ncomponents: [{}]\n".format(*parts))
            self.assertIn("StatefulSet", self.validate(self.folder), name)


# ---- systemd ----

@needs("systemd-analyze")
class Systemd(Around):
    def test_the_unit_is_one(self):
        unit = put_in(read("packaging/longflash.service"), ("/usr/bin/longflash", os.path.abspath(harness.Program.program)),
                      ("man:longflash(1) ", ""))
        said = self.run_program("systemd-analyze", "verify", self.file("longflash.service", unit))
        self.assertNotIn("longflash.service", said)
        said = self.run_program("systemd-analyze", "security", "--offline=yes", "--threshold=40",
                                os.path.join(self.folder, "longflash.service"))
        print("systemd-analyze security:", said.strip().splitlines()[-1], flush=True)


if __name__ == "__main__":
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
    os.chdir(ROOT)
    unittest.main(verbosity=2)
