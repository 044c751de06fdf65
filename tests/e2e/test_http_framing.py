"""Messages that two parsers could read in two ways are refused, and the connection ends."""
import re
import socket

import framing_cases
import harness
from harness import read_response

BODY = b'{"prompt":"[[say=ok]]"}'
TYPE = "Content-Type: application/json"


class Framing(harness.Case):
    def send(self, *lines, start="POST /v1/completions HTTP/1.1", body=BODY):
        s = self.server.socket("\r\n".join([start, *lines, "", ""]).encode("latin-1") + body)
        r = read_response(s)
        return r, s

    def assert_refused(self, *lines, status=400, **more):
        r, s = self.send(*lines, **more)
        with s:
            self.assertIsNotNone(r, lines)
            self.assert_error(r, status)
            self.assertTrue(self.is_closed(s), lines)

    def is_closed(self, s):
        try:
            while got := s.recv(4096):
                self.assertNotIn(b"HTTP/1.1 200", got)
            return True
        except ConnectionResetError:
            return True

    def test_a_good_one_passes(self):
        r, s = self.send("Host: localhost", TYPE, f"Content-Length: {len(BODY)}")
        self.assertEqual(r.status, 200)
        s.close()

    def test_length_given_twice(self):
        n = len(BODY)
        for lines in ((f"Content-Length: {n}", f"Content-Length: {n}"), (f"Content-Length: {n}", "Content-Length: 0"),
                      ("Content-Length: 0", f"Content-Length: {n}"),
                      (f"Content-Length: {n}", "Transfer-Encoding: chunked"),
                      ("Transfer-Encoding: chunked", f"Content-Length: {n}"),
                      ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
                      ("Transfer-Encoding: chunked", "Transfer-Encoding: identity")):
            self.assert_refused("Host: localhost", TYPE, *lines)

    def test_other_encodings(self):
        for value in ("gzip", "gzip, chunked", "chunked, chunked", "identity", "xchunked", "chunked;q=1", ""):
            self.assert_refused("Host: localhost", TYPE, f"Transfer-Encoding: {value}")

    def test_lengths_that_are_no_numbers(self):
        for value in ("-1", "+5", "0x10", "1 2", "5,5", "", "9" * 30, "1e3", "23a"):
            r, s = self.send("Host: localhost", TYPE, f"Content-Length: {value}")
            with s:
                self.assertIsNotNone(r, value)
                self.assert_error(r, 413 if len(value) == 30 else 400)
                self.assertTrue(self.is_closed(s))

    def test_what_the_library_refuses_is_refused_in_our_words(self):
        """Its own pages would be HTML, with two heads, a 500, or nothing at all."""
        for name, status, code in (("length a list of two", 400, "bad_framing"), ("length of 30 digits", 413, "body_too_large"),
                                   ("chunk extension of 200 KB", 400, "bad_framing"),
                                   ("chunk size no number", 400, "bad_framing"),
                                   ("target with 1,500 arguments", 431, "headers_too_large"),
                                   ("target of 200 KB", 414, "uri_too_long"), ("version HTTP/2.0", 505, "bad_version")):
            with self.server.socket(framing_cases.CASES[name][1]) as s:
                self.assert_error(read_response(s), status, code)
                self.assertTrue(self.is_closed(s), name)

    def test_host(self):
        n = f"Content-Length: {len(BODY)}"
        self.assert_refused(TYPE, n)
        self.assert_refused("Host: localhost", "Host: localhost", TYPE, n)
        self.assert_refused("Host: localhost", "host: other", TYPE, n)
        self.assert_refused("Host : localhost", TYPE, n)
        self.assert_refused("Host: localhost", "Content-Length : 5", TYPE)

    def test_names_of_fields(self):
        n = f"Content-Length: {len(BODY)}"
        for line in ("Bad Name: x", "Bad\x01: x", "Bad(x): y", "B\xe9: y"):
            self.assert_refused("Host: localhost", TYPE, n, line)

    def test_values_of_fields(self):
        n = f"Content-Length: {len(BODY)}"
        for value in ("a\x01b", "a\x7fb", "a\x1b[31m"):
            self.assert_refused("Host: localhost", TYPE, n, "X-Request-Id: " + value)
        r, s = self.send("Host: localhost", TYPE, n, "X-Note: a\tb \xe9")
        self.assertEqual(r.status, 200)
        s.close()

    def test_fields_that_may_come_once(self):
        n = f"Content-Length: {len(BODY)}"
        self.assert_refused("Host: localhost", TYPE, TYPE, n)
        self.assert_refused("Host: localhost", TYPE, n, "Authorization: Bearer a", "Authorization: Bearer b")
        self.assert_refused("Host: localhost", TYPE, n, "Origin: a", "Origin: b")
        self.assert_refused("Host: localhost", TYPE, n, "Expect: a-miracle")

    def test_versions(self):
        n = f"Content-Length: {len(BODY)}"
        for version in ("HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "HTTP/9.9", "http/1.1", "HTTQ/1.1", "HTTP/1.10"):
            r, s = self.send("Host: localhost", TYPE, n, start=f"POST /v1/completions {version}")
            with s:
                self.assertTrue(r is None or r.status in harness.ALLOWED_STATUS - {200, 204}, (version, r and r.status))

    def test_many_and_long_headers(self):
        with_host = lambda n: [f"X-{i}: y" for i in range(n - 2)]
        r, s = self.send("Host: localhost", "Accept: x", *with_host(100), start="GET /livez HTTP/1.1", body=b"")
        self.assertEqual(r.status, 200)
        s.close()
        self.assert_refused("Host: localhost", "Accept: x", *with_host(101), start="GET /livez HTTP/1.1", body=b"", status=431)
        head = len("GET /livez HTTP/1.1\r\nHost: localhost\r\nX: \r\n\r\n")
        r, s = self.send("Host: localhost", "X: " + "y" * (32768 - head), start="GET /livez HTTP/1.1", body=b"")
        self.assertEqual(r.status, 200)
        s.close()
        self.assert_refused("Host: localhost", "X: " + "y" * (32769 - head), start="GET /livez HTTP/1.1", body=b"", status=431)
        r, s = self.send("Host: localhost", "X: " + "y" * 500000, start="GET /livez HTTP/1.1", body=b"")
        s.close()
        self.assertTrue(r is None or r.status in (413, 431))

    def test_a_long_uri(self):
        start = lambda n: "GET /livez?" + "x" * (n - 7) + " HTTP/1.1"
        r, s = self.send("Host: localhost", start=start(8192), body=b"")
        self.assertEqual(r.status, 200)
        s.close()
        r, s = self.send("Host: localhost", start=start(8193), body=b"")
        self.assert_error(r, 414, "uri_too_long")
        s.close()

    def test_a_second_request_cannot_hide_in_the_first(self):
        hidden = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
        body = b"0\r\n\r\n" + hidden
        r, s = self.send("Host: localhost", TYPE, f"Content-Length: {len(body)}", "Transfer-Encoding: chunked", body=body)
        with s:
            self.assert_error(r, 400, "bad_framing")
            self.assertTrue(self.is_closed(s))

    def test_pipelined_requests_are_answered_in_order(self):
        one = (f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n{TYPE}\r\nContent-Length: %d\r\n\r\n%s")
        bodies = ['{"prompt":"[[say=%d]] [[prefill_ms=%d]]"}' % (i, 50 - 5 * i) for i in range(10)]
        with self.server.socket("".join(one % (len(b), b) for b in bodies).encode()) as s:
            f = s.makefile("rb")
            for i in range(10):
                self.assertIn(b" 200 ", f.readline())
                n = 0
                while (line := f.readline()) != b"\r\n":
                    if line.lower().startswith(b"content-length:"):
                        n = int(line.split(b":")[1])
                self.assertIn(b'"text":"%d"' % i, f.read(n))

    def test_a_body_of_a_get_is_passed_over(self):
        with self.server.socket(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"
                                b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") as s:
            data = b""
            while got := s.recv(65536):
                data += got
            self.assertEqual(re.findall(rb"HTTP/1.1 (\d+)", data), [b"200", b"404"])


class Pipelined(harness.Case):
    """Every case of framing_cases.py with a marker request behind it."""

    args = ("header_deadline_ms=2000", "body_deadline_ms=2000")

    def exchange(self, pieces):
        """What comes back until the connection ends, and whether it ended."""
        with self.server.socket(timeout=10) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            data = b""
            try:
                for piece in pieces:
                    s.sendall(piece)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before it was sent whole; what was said is still there to read
            try:
                while got := s.recv(65536):
                    data += got
            except ConnectionResetError:
                pass
            except TimeoutError:
                return data, False
        return data, True

    def check(self, cut):
        wrong = []
        for name, (_, message) in framing_cases.CASES.items():
            data, ended = self.exchange(cut(message + framing_cases.MARKER))
            if why := framing_cases.verdict(name, data, ended):
                wrong.append(f"{name}: {why}")
        self.assertEqual(wrong, [])

    def test_there_are_at_least_94_cases(self):
        self.assertGreaterEqual(len(framing_cases.CASES), 94)
        self.assertLessEqual(framing_cases.SILENT, set(framing_cases.CASES))

    def test_in_one_piece(self):
        self.check(lambda data: [data])

    def test_the_head_in_pieces(self):
        """The line ends fall between two reads, wherever they are."""
        def cut(data):
            return [data[i:i + 3] for i in range(0, len(data), 3)] if len(data) < 2000 else [data[:1500], data[1500:]]
        self.check(cut)


if __name__ == "__main__":
    harness.main()
