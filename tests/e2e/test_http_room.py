"""Room for connections: silent ones make it, busy ones keep it, and the health routes are answered whatever happens."""
import socket
import time

import harness
from harness import read_response

LIVEZ = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
CAPACITY = b"GET /v1/capacity HTTP/1.1\r\nHost: localhost\r\n\r\n"
BUSY = b'{"prompt":"x [[prefill_ms=60000]]"}'
WORK = (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n" % len(BUSY)) + BUSY
SILENT_S = 0.5  # twice what a head may take before its place can be lost


class Room(harness.Case):
    args = ("n_connections=20", "n_connections_per_address=10", "header_deadline_ms=60000", "max_seqs=64")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.n_descriptors_alone = cls.server.n_descriptors()

    def open(self, address, data=b""):
        s = socket.socket()
        s.settimeout(30 * harness.SLOW)
        s.bind((address, 0))
        s.connect(("127.0.0.1", self.server.port))
        if data:
            s.sendall(data)
        return s

    def ask(self, address, data=LIVEZ):
        with self.open(address, data) as s:
            return read_response(s)

    def busy(self, n, address):
        """So many connections whose requests are being worked on."""
        before = self.in_flight
        held = [self.open(address, WORK) for _ in range(n)]
        self.in_flight += n
        self.assertTrue(harness.wait_until(
            lambda: self.counted("http_requests_in_flight") == before + n), "requests in flight")
        return held

    def counted(self, name):
        r = self.ask("127.0.0.9", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for line in r.body.decode().splitlines() if r and r.status == 200 else []:
            if line.startswith(f"longflash:{name}{{"):
                return float(line.split()[-1])
        return -1

    def setUp(self):
        self.in_flight, self.held = 0, []

    def tearDown(self):
        for s in self.held:
            s.close()
        self.assertTrue(harness.wait_until(lambda: self.server.metric("http_connections") <= 1, 10))

    def is_cut(self, s):
        try:
            return s.recv(1) == b""
        except ConnectionResetError:
            return True

    def test_an_address_keeps_to_its_limit_while_its_connections_are_busy(self):
        self.held = self.busy(10, "127.0.0.2")
        r = self.ask("127.0.0.2")
        self.assert_error(r, 429, "too_many_connections_of_address")
        self.assertEqual(r.headers["retry-after"], "1")
        self.assertEqual(self.ask("127.0.0.3").status, 200)  # another address has a count of its own
        self.held.pop().close()
        self.assertTrue(harness.wait_until(lambda: self.ask("127.0.0.2").status == 200))

    def test_the_longest_silent_connection_of_an_address_makes_room(self):
        silent = [self.open("127.0.0.2") for _ in range(10)]
        self.held = silent
        time.sleep(SILENT_S)
        self.assertEqual(self.ask("127.0.0.2").status, 200)
        self.assertTrue(self.is_cut(silent[0]))
        silent[9].sendall(LIVEZ)
        self.assertEqual(read_response(silent[9]).status, 200)

    def test_a_connection_between_two_requests_makes_room(self):
        first = self.open("127.0.0.2", LIVEZ)
        self.assertEqual(read_response(first).status, 200)
        self.held = [first, *self.busy(9, "127.0.0.2")]
        self.assertEqual(self.ask("127.0.0.2").status, 200)
        self.assertTrue(self.is_cut(first))

    def test_a_full_table_of_silent_ones_takes_everybody(self):
        self.held = [self.open(f"127.0.0.{i % 2 + 2}", b"GET /livez HT") for i in range(20)]
        time.sleep(SILENT_S)
        for _ in range(40):
            self.assertEqual(self.ask("127.0.0.5", CAPACITY).status, 200)

    def test_a_full_table_of_busy_ones_answers_health_and_refuses_the_rest(self):
        self.held = self.busy(10, "127.0.0.2") + self.busy(9, "127.0.0.3")
        # the last place must not be one that a connection on its way out still holds
        self.assertTrue(harness.wait_until(lambda: self.server.n_descriptors() == self.n_descriptors_alone + 19))
        self.held.append(self.open("127.0.0.3", WORK))
        self.assertTrue(harness.wait_until(lambda: self.ask("127.0.0.5", CAPACITY).status == 503))
        for _ in range(50):  # more often than there are places kept
            r = self.ask("127.0.0.5")
            self.assertEqual(r.status, 200)
            self.assertEqual(r.headers["connection"].lower(), "close")
        r = self.ask("127.0.0.5", CAPACITY)
        self.assert_error(r, 503, "too_many_connections")
        self.assertEqual(r.headers["retry-after"], "1")
        # the page needs no key either, but is no health
        self.assert_error(self.ask("127.0.0.5", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 503, "too_many_connections")
        # silence on the places kept for health does not keep them
        self.held += [self.open("127.0.0.6") for _ in range(8)]
        time.sleep(SILENT_S)
        self.assertEqual(self.ask("127.0.0.5").status, 200)


class Unlimited(harness.Case):
    args = ("n_connections=200", "n_connections_per_address=0", "header_deadline_ms=60000")

    def test_one_address_may_have_all_of_them(self):
        held = [self.server.socket(LIVEZ) for _ in range(150)]
        self.assertEqual([read_response(s).status for s in held], [200] * 150)
        for s in held:
            s.close()


if __name__ == "__main__":
    harness.main()
