"""A proxy that keeps what passes: which requests each client sends, and each answer as the server wrote it.

A client is given http://127.0.0.1:PORT/TARGET/CELL as its server's address, so a record says where it belongs.
"""
import http.client
import http.server
import json
import threading

HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "proxy-connection", "host",
       "content-length", "accept-encoding"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def pass_on(self):
        _, target, cell, path = self.path.split("/", 3)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        record = {"target": target, "cell": cell, "method": self.command, "path": "/" + path,
                  "headers": {k.lower(): v for k, v in self.headers.items()}, "request": body.decode()}
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.targets[target], timeout=300)
        head = {k: v for k, v in self.headers.items() if k.lower() not in HOP}
        if body:
            head["Content-Length"] = str(len(body))
        answer = b""
        try:
            upstream.request(self.command, "/" + path, body or None, head)
            r = upstream.getresponse()
            record["status"], record["type"] = r.status, r.getheader("Content-Type")
            self.send_response(r.status)
            for k, v in r.getheaders():
                if k.lower() not in HOP:
                    self.send_header(k, v)
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            while piece := r.read1(65536):
                answer += piece
                self.wfile.write(piece)
        except OSError as e:
            record["broken"] = str(e)
            self.close_connection = True
        finally:
            record["answer"] = answer.decode("utf-8", "backslashreplace")
            with self.server.lock:
                self.server.records.append(record)
            upstream.close()

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = pass_on


class Proxy(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, targets):
        super().__init__(("127.0.0.1", 0), Handler)
        self.targets, self.records, self.lock = targets, [], threading.Lock()
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def save(self, path):
        with self.lock, open(path, "w", encoding="utf-8") as f:
            for r in self.records:
                f.write(json.dumps(r, ensure_ascii=False) + "\n")
