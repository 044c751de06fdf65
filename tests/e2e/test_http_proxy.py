"""Behind a proxy: whose request it is, what counts for that address, and who is not believed."""
import http.client
import socket

import harness

PROXY, STRANGER = "127.0.0.1", "127.0.0.2"  # all of 127.0.0.0/8 is this machine
LIMIT = 3
BUSY = "x [[prefill_ms=60000]]"


class Behind(harness.Case):
    args = ("trusted_proxy=127.0.0.1", "trusted_proxy=10.0.0.0/8", f"n_connections_per_address={LIMIT}", "max_seqs=64")

    def ask(self, forwarded, path="/v1/models", address=PROXY, connection=None):
        """One request with these X-Forwarded-For fields."""
        c = connection or http.client.HTTPConnection(PROXY, self.server.port, timeout=30 * harness.SLOW,
                                                     source_address=(address, 0))
        c.putrequest("GET", path)
        for value in forwarded:
            c.putheader("X-Forwarded-For", value)
        c.endheaders()
        r = c.getresponse()
        out = harness.Response(r.status, {k.lower(): v for k, v in r.getheaders()}, r.read())
        if not connection:
            c.close()
        return out

    def busy(self, forwarded, address=PROXY):
        """A connection on which a request is worked on for long."""
        body = b'{"prompt":"%s"}' % BUSY.encode()
        s = socket.socket()
        s.settimeout(30 * harness.SLOW)
        s.bind((address, 0))
        s.connect((PROXY, self.server.port))
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  b"X-Forwarded-For: %s\r\nContent-Length: %d\r\n\r\n" % (forwarded.encode(), len(body)) + body)
        self.held.append(s)
        return s

    def fill(self, forwarded, n=LIMIT, address=PROXY):
        for _ in range(n):
            self.busy(forwarded, address)
        self.assertTrue(harness.wait_until(lambda: self.server.metric("http_requests_in_flight") == len(self.held)))

    def setUp(self):
        self.held = []

    def tearDown(self):
        for s in self.held:
            s.close()
        self.assertTrue(harness.wait_until(lambda: self.server.metric("http_requests_in_flight") == 0))
        self.assertTrue(harness.wait_until(lambda: self.server.metric("http_connections") <= 1))

    def test_a_client_has_its_limit_and_the_others_go_on(self):
        self.fill("203.0.113.7")
        refused = self.server.metric("http_connections_refused_total", 'limit="address"')
        r = self.ask(["203.0.113.7"])
        self.assert_error(r, 429, "too_many_connections_of_address")
        self.assertEqual(r.headers["retry-after"], "1")
        self.assertEqual(self.server.metric("http_connections_refused_total", 'limit="address"'), refused + 1)
        for same in (["198.51.100.9, 203.0.113.7, 10.0.0.2"], ["198.51.100.9", "203.0.113.7"], ["garbage,203.0.113.7:99"],
                     ["::ffff:203.0.113.7"]):
            self.assertEqual(self.ask(same).status, 429, same)
        for other in (["203.0.113.8"], ["203.0.113.7, 203.0.113.8"], ["2001:db8::7"], ["10.0.0.2"], []):
            self.assertEqual(self.ask(other).status, 200, other)
        self.assertEqual(self.ask(["203.0.113.7"], "/livez").status, 200)

    def test_the_limit_ends_with_the_requests(self):
        self.fill("2001:db8:0:1::7")
        self.assertEqual(self.ask(["2001:db8:0:1::8"]).status, 429)  # of the same /64
        self.assertEqual(self.ask(["2001:db8:0:2::7"]).status, 200)
        self.held.pop().close()
        self.assertTrue(harness.wait_until(lambda: self.ask(["2001:db8:0:1::8"]).status == 200))

    def test_a_connection_serves_one_client_after_the_other(self):
        c = self.server.connect()
        for i in range(3 * LIMIT):
            self.assertEqual(self.ask([f"203.0.113.{i}"], connection=c).status, 200)
        self.fill("203.0.113.7")
        self.assertEqual(self.ask(["203.0.113.7"], connection=c).status, 429)
        self.assertEqual(self.ask(["203.0.113.8"], connection=c).status, 200)  # the refusal did not end it
        c.close()

    def test_the_proxys_own_connections_have_no_limit(self):
        idle = [self.server.socket() for _ in range(5 * LIMIT)]
        self.assertEqual(self.ask(["203.0.113.7"]).status, 200)
        for s in idle:
            s.close()

    def test_what_names_no_address_is_counted_and_is_the_proxys(self):
        before = self.server.metric("http_forwarded_malformed_total")
        bad = (["unknown"], ["203.0.113.7,"], [""], ["for=203.0.113.7"], ["x" * 4000])
        for forwarded in bad:
            self.assertEqual(self.ask(forwarded).status, 200, forwarded)
        self.assertEqual(self.server.metric("http_forwarded_malformed_total"), before + len(bad))
        self.fill("unknown", 2 * LIMIT)  # as connections of the proxy, which has no limit

    def test_a_stranger_is_not_believed(self):
        before = self.server.metric("http_forwarded_malformed_total")
        self.assertEqual(self.ask(["unknown"], address=STRANGER).status, 200)
        self.assertEqual(self.server.metric("http_forwarded_malformed_total"), before)
        for i in range(LIMIT):
            self.busy(f"203.0.113.{i}", STRANGER)
        self.fill("203.0.113.9", 0)
        with socket.socket() as s:  # turned away at the door, whatever it would say
            s.settimeout(30 * harness.SLOW)
            s.bind((STRANGER, 0))
            s.connect((PROXY, self.server.port))
            self.assertIn(b"too_many_connections_of_address", s.recv(4096))


class WithoutTheOption(harness.Case):
    def test_nobody_is_believed(self):
        r = self.server.post("/v1/completions", {"prompt": "x", "max_tokens": 4}, headers={"X-Forwarded-For": "unknown"})
        self.assertEqual(r.status, 200)
        self.assertEqual(self.server.metric("http_forwarded_malformed_total"), 0)


if __name__ == "__main__":
    harness.main()
