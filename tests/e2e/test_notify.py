"""What serve tells a supervisor over $NOTIFY_SOCKET: a socket of the test's own stands for systemd's."""
import os
import re
import select
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import harness

PROGRAM = harness.Program.program
WAIT = 30 * harness.SLOW
WATCHDOG_S = 1.0 * harness.SLOW


@unittest.skipUnless(PROGRAM, "no server program in the environment")
class Notify(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.socket.close)

    def serve(self, name, **more):
        """A server with these variables; of WATCHDOG_PID only it knows the value: $$."""
        variables = "".join(f"{k}={v} " for k, v in {"NOTIFY_SOCKET": name, **more}.items())
        p = subprocess.Popen(["sh", "-c", f'{variables} exec "$0" serve --port 0 --ctx 1K', PROGRAM],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(p.communicate)
        self.addCleanup(p.kill)
        return p

    def told(self):
        """The next datagram, as its lines."""
        self.assertTrue(select.select([self.socket], [], [], WAIT)[0], "nothing was told")
        return self.socket.recv(4096).decode().split("\n")

    def told_until(self, first):
        got = [self.told()]
        while got[-1][0] != first:
            got.append(self.told())
        return got

    def rest(self):
        """What is told from here to the end of the process, and was not read."""
        self.socket.setblocking(False)
        got = []
        while True:
            try:
                got.append(self.socket.recv(4096).decode().split("\n"))
            except BlockingIOError:
                return got

    def ends(self, p):
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(WAIT), 0)

    def check_a_life(self, p):
        start = self.told_until("READY=1")
        percents = [int(re.fullmatch(r"STATUS=loading the model, (\d+)%", line).group(1)) for (line,) in start[:-1]]
        self.assertTrue(percents)
        self.assertEqual(percents, sorted(set(percents)))
        self.assertEqual(percents[-1], 100)
        port = int(re.fullmatch(r"STATUS=serving on port (\d+)", start[-1][1]).group(1))
        with socket.create_connection(("127.0.0.1", port), WAIT) as s:  # ready is ready
            s.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            self.assertIn(b" 200 ", s.recv(64))
        self.ends(p)
        self.assertEqual(self.rest(), [["STOPPING=1", "STATUS=draining, 0 requests in flight"]])

    def test_a_life_told_to_a_path(self):
        self.socket.bind(self.path)
        self.check_a_life(self.serve(self.path))

    def test_a_life_told_to_an_abstract_name(self):
        name = f"longflash-test-{os.getpid()}"
        self.socket.bind("\0" + name)
        self.check_a_life(self.serve("@" + name))

    def test_it_says_twice_in_time_that_it_is_alive_unless_it_is_stopped(self):
        self.socket.bind(self.path)
        p = self.serve(self.path, WATCHDOG_USEC=int(WATCHDOG_S * 1e6), WATCHDOG_PID="$$")
        self.told_until("READY=1")
        self.assertEqual(self.told(), ["WATCHDOG=1"])
        for _ in range(4):
            before = time.monotonic()
            self.assertEqual(self.told(), ["WATCHDOG=1"])
            self.assertLess(time.monotonic() - before, WATCHDOG_S)
        p.send_signal(signal.SIGSTOP)
        time.sleep(WATCHDOG_S / 4)
        self.rest()
        time.sleep(WATCHDOG_S)
        self.assertEqual(self.rest(), [])
        p.send_signal(signal.SIGCONT)
        self.ends(p)

    def test_the_watchdog_of_another_process_is_none(self):
        self.socket.bind(self.path)
        for more in ({"WATCHDOG_USEC": 100000, "WATCHDOG_PID": 1}, {"WATCHDOG_USEC": "x"}, {"WATCHDOG_USEC": -1},
                     {"WATCHDOG_USEC": "99999999999999999999"}, {}):
            p = self.serve(self.path, **more)
            self.told_until("READY=1")
            time.sleep(0.5)
            self.ends(p)
            self.assertEqual([x[0] for x in self.rest()], ["STOPPING=1"], more)
            self.socket.setblocking(True)

    def test_a_socket_that_is_none_is_logged_and_holds_up_nothing(self):
        for name, says in (("relative", b"expected the absolute path"), ("/" + "x" * 200, b"expected the absolute path"),
                           (self.path, b"No such file"), ("@", b"expected the absolute path")):
            p = self.serve(name, WATCHDOG_USEC=100000)
            self.assertIn(b"ready in", p.stdout.readline())
            time.sleep(0.3)
            p.send_signal(signal.SIGTERM)
            _, err = p.communicate(timeout=WAIT)
            self.assertEqual(p.returncode, 0)
            self.assertEqual(err.count(b"NOTIFY_SOCKET: "), 1, err)
            self.assertIn(says, err)

    def test_who_does_not_read_holds_up_nothing(self):
        self.socket.bind(self.path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.setblocking(False)
            with self.assertRaises(BlockingIOError):
                while True:
                    other.sendto(b"STATUS=full", self.path)
        with harness.within(6, "the start"):  # not a second for each percent
            p = self.serve(self.path, WATCHDOG_USEC=100000)
            self.assertIn(b"ready in", p.stdout.readline())
        with harness.within(4, "the end"):
            p.send_signal(signal.SIGTERM)
            _, err = p.communicate(timeout=WAIT)
        self.assertEqual((p.returncode, err.count(b"NOTIFY_SOCKET: ")), (0, 1), err)

    def test_nobody_asked_nobody_is_told(self):
        p = self.serve("")
        self.assertIn(b"ready in", p.stdout.readline())
        p.send_signal(signal.SIGTERM)
        _, err = p.communicate(timeout=WAIT)
        self.assertEqual((p.returncode, err.count(b"NOTIFY")), (0, 0), err)


if __name__ == "__main__":
    harness.main()
