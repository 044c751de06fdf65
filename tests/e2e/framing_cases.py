"""Messages whose length two parsers might read in two ways, and what this server must do with each.

A case is the bytes of one message and what must come back when a marker request is pipelined behind it:
  refused  one answer with a status of 4xx or 5xx but not 500, then the end of the connection; the marker is never answered
  once     the message is clear: one answer with the status named, then the end of the connection
  clear    the message is clear and so is its end: its answer with the status named, then the marker's
  over     both would be right, to take it and to refuse it: one answer, not 5xx, then the end of the connection
Silence, two answers to one message, and bytes that belong to no answer are failures of every kind of case.

Some bodies are themselves a request (SMUGGLED). What it asks for is never answered, whatever the kind of case.
"""
import re

BODY = b'{"prompt":"[[say=ok]]"}'
N = len(BODY)
SMUGGLED = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nx-request-id: smuggled\r\n\r\n"
TYPE = b"Content-Type: application/json"
HOST = b"Host: localhost"
CHUNKED = b"Transfer-Encoding: chunked"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (N, BODY)
POST = b"POST /v1/completions HTTP/1.1"
# the connection ends behind it, so that all that comes back can be read to its end
MARKER = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nx-request-id: marker\r\nConnection: close\r\n\r\n"


def message(*lines, body=BODY, start=POST, host=True):
    return b"\r\n".join([start, *([HOST, TYPE] if host else []), *lines, b"", b""]) + body


def length(value, **more):
    return message(b"Content-Length: " + value, **more)


def chunks(body, *lines):
    return message(CHUNKED, *lines, body=body)


def get(*lines, start=b"GET /livez HTTP/1.1", body=b""):
    return b"\r\n".join([start, HOST, *lines, b"", b""]) + body


def target(uri, method=b"GET"):
    return get(start=method + b" " + uri + b" HTTP/1.1")


n = b"%d" % N
CL = b"Content-Length: " + n

LENGTHS = {
    "length plain": ("clear 200", length(n)),
    "length with zeros in front": ("clear 200", length(b"00" + n)),
    "length behind tabs and spaces": ("clear 200", message(b"Content-Length:\t  " + n)),
    "length before tabs and spaces": ("refused", message(CL + b" \t")),
    "length without a space": ("clear 200", message(b"content-length:" + n)),
    "length of nothing": ("clear 400", length(b"0", body=b"")),
    "length missing": ("refused 411", message(body=b"")),
    "length missing, a body there": ("refused 411", message(body=SMUGGLED)),
    "length a list of two": ("refused", length(b"5, 5", body=BODY[:5])),
    "length a list of two, no space": ("refused", length(n + b"," + n)),
    "length a list that ends in a comma": ("refused", length(n + b",")),
    "length a list of two values": ("refused", length(b"0, " + n)),
    "length with a plus": ("refused", length(b"+" + n)),
    "length negative": ("refused", length(b"-1")),
    "length minus zero": ("refused", length(b"-0")),
    "length in hex": ("refused", length(b"0x17")),
    "length with a space inside": ("refused", length(b"2 3")),
    "length empty": ("refused", length(b"")),
    "length with an exponent": ("refused", length(b"1e1")),
    "length with a fraction": ("refused", length(n + b".0")),
    "length and a letter": ("refused", length(n + b"a")),
    "length of 30 digits": ("refused", length(b"9" * 30)),
    "length that wraps 64 bits": ("refused", length(b"%d" % (2**64 + N))),
    "length at 2^63": ("refused", length(b"%d" % 2**63)),
    "length in quotes": ("refused", length(b'"' + n + b'"')),
    "length with a parameter": ("refused", length(n + b";a=b")),
    "length in other digits": ("refused", length("２３".encode())),
    "length behind a vertical tab": ("refused", length(b"\v" + n)),
    "length twice the same": ("refused", message(CL, CL)),
    "length twice, the second zero": ("refused", message(CL, b"Content-Length: 0", body=SMUGGLED)),
    "length twice, the first zero": ("refused", message(b"Content-Length: 0", CL, body=SMUGGLED)),
    "length twice in other letters": ("refused", message(CL, b"CONTENT-length: 1")),
    "length, a space before the colon": ("refused", message(b"Content-Length : " + n)),
    "length, a tab before the colon": ("refused", message(b"Content-Length\t: " + n)),
    "length twice, one with a space before the colon": ("refused", message(b"Content-Length : 0", CL, body=SMUGGLED)),
    "length without a colon": ("refused", message(b"Content-Length " + n, CL)),
}

FOLDS = {
    "fold: the length on the next line": ("refused", message(b"Content-Length:\r\n " + n)),
    "fold: half of the length on the next line": ("refused", message(b"Content-Length: 2\r\n 3")),
    "fold: a digit more on the next line": ("refused", message(CL + b"\r\n\t0")),
    "fold: zero, and the length on the next line": ("refused", message(b"Content-Length: 0\r\n " + n, body=SMUGGLED)),
    "fold: nothing behind the length": ("refused", message(CL + b"\r\n ")),
    "fold: the coding on the next line": ("refused", message(b"Transfer-Encoding:\r\n chunked", body=CHUNKS)),
    "fold: a second coding on the next line": ("refused", message(CHUNKED + b"\r\n , identity", body=CHUNKS)),
    "fold: the host on the next line": ("refused", message(b"Host:\r\n localhost", TYPE, CL, host=False)),
    "fold: more of the host": ("refused", message(b"Host: local\r\n host", TYPE, CL, host=False)),
    "fold: a length inside another field": ("refused", message(b"X-Note: a\r\n Content-Length: 0", CL)),
    "fold: the only length inside another field": ("refused", message(b"X-Note: a\r\n " + CL, body=SMUGGLED)),
    "fold: a coding inside another field": ("refused", message(CL, b"X-Note: a\r\n\t" + CHUNKED)),
    "fold: in the request id": ("refused", message(CL, b"X-Request-Id: a\r\n b")),
    "fold: in the key": ("refused", message(CL, b"Authorization: Bearer\r\n key")),
    "fold: twice": ("refused", message(CL, b"X-Note: a\r\n b\r\n c")),
    "fold: by a bare LF": ("refused", message(b"Content-Length: 2\n 3")),
    "fold: by a bare CR": ("refused", message(b"Content-Length: 2\r 3")),
    "fold: the first line begins with a space": ("refused", message(b" " + HOST, TYPE, CL, host=False)),
    "fold: a length that begins the head": ("refused", message(b" " + CL, HOST, TYPE, host=False, body=SMUGGLED)),
    "fold: a tab begins the head": ("refused", message(b"\t" + HOST, HOST, TYPE, CL, host=False)),
    "fold: a line of a space ends the head": ("refused", message(CL, b" ", body=b"") + BODY),
}

CODINGS = {
    "chunked plain": ("once 200", chunks(CHUNKS)),
    "chunked in other letters": ("once 200", message(b"transfer-encoding: CHUNKED", body=CHUNKS)),
    "chunked and a length": ("refused", message(CHUNKED, CL)),
    "a length and chunked": ("refused", message(b"Content-Length: %d" % (5 + len(SMUGGLED)), CHUNKED,
                                                body=b"0\r\n\r\n" + SMUGGLED)),
    "chunked twice": ("refused", message(CHUNKED, CHUNKED, body=CHUNKS)),
    "chunked and identity": ("refused", message(CHUNKED, b"Transfer-Encoding: identity", body=CHUNKS)),
    "gzip": ("refused", message(b"Transfer-Encoding: gzip")),
    "gzip and chunked": ("refused", message(b"Transfer-Encoding: gzip, chunked", body=CHUNKS)),
    "chunked in a list of two": ("refused", message(b"Transfer-Encoding: chunked, chunked", body=CHUNKS)),
    "chunked behind a comma": ("refused", message(b"Transfer-Encoding: , chunked", body=CHUNKS)),
    "identity": ("refused", message(b"Transfer-Encoding: identity")),
    "identity and a length": ("refused", message(b"Transfer-Encoding: identity", CL)),
    "xchunked": ("refused", message(b"Transfer-Encoding: xchunked", body=CHUNKS)),
    "chunked with a parameter": ("refused", message(b"Transfer-Encoding: chunked;q=1", body=CHUNKS)),
    "chunked in quotes": ("refused", message(b'Transfer-Encoding: "chunked"', body=CHUNKS)),
    "no coding": ("refused", message(b"Transfer-Encoding:", CL)),
    "chunked behind a vertical tab": ("refused", message(b"Transfer-Encoding: \vchunked", CL)),
    "chunked before a NUL": ("refused", message(CHUNKED + b"\0", CL)),
    "coding, a space before the colon": ("refused", message(b"Transfer-Encoding : chunked", CL)),
    "chunked in HTTP/1.0": ("refused", message(CHUNKED, start=b"POST /v1/completions HTTP/1.0", body=CHUNKS)),
}

LINE_ENDS = {
    "NUL in a value": ("refused", message(CL, b"X-Note: a\0b")),
    "NUL in the length": ("refused", message(CL + b"\0 5")),
    "NUL before the length": ("refused", message(b"Content-Length: \0" + n)),
    "NUL in a name": ("refused", message(CL, b"X-No\0te: a")),
    "NUL before a colon": ("refused", message(b"Content-Length\0: 0", CL, body=SMUGGLED)),
    "NUL in the path": ("refused", target(b"/livez\0x")),
    "NUL for a line end": ("refused", message(b"X-Note: a\0" + CL, body=SMUGGLED)),
    "NUL before the method": ("refused", b"\0" + get()),
    "NUL behind the version": ("refused", get(start=b"GET /livez HTTP/1.1\0")),
    "CR in a value": ("refused", message(CL, b"X-Note: a\rb: c")),
    "CR before a length": ("refused", message(b"X-Note: a\r" + CL, body=SMUGGLED)),
    "CR before another length": ("refused", message(CL, b"X-Note: a\rContent-Length: 0")),
    "CR before a coding": ("refused", message(CL, b"X-Note: a\r" + CHUNKED)),
    "CR for every line end": ("refused", message(CL).replace(b"\r\n", b"\r")),
    "CR behind the request line": ("refused", message(CL).replace(b"1.1\r\n", b"1.1\r", 1)),
    "CR and CR LF": ("refused", message(CL + b"\r")),
    "CR CR ends the head": ("refused", message(CL, body=b"")[:-4] + b"\r\r" + BODY),
    "LF before a length": ("refused", message(b"X-Note: a\n" + CL, body=SMUGGLED)),
    "LF before another length": ("refused", message(CL, b"X-Note: a\nContent-Length: 0")),
    "LF before a coding": ("refused", message(CL, b"X-Note: a\n" + CHUNKED)),
    "LF for every line end": ("refused", message(CL).replace(b"\r\n", b"\n")),
    "LF behind the request line": ("refused", message(CL).replace(b"1.1\r\n", b"1.1\n", 1)),
    "LF LF ends the head": ("refused", message(CL, body=b"")[:-4] + b"\n\n" + BODY),
    "LF LF ends the head, two NULs": ("refused", message(CL, body=b"")[:-4] + b"\n\n\0\0" + BODY[2:]),
    "CR LF LF ends the head": ("refused", message(CL, body=b"")[:-4] + b"\r\n\n" + BODY),
    "LF CR LF ends the head": ("refused", message(CL, body=b"")[:-4] + b"\n\r\n" + BODY),
    "LF in the request line": ("refused", get(start=b"GET\n/livez HTTP/1.1")),
    "vertical tab in a value": ("refused", message(CL, b"X-Note: a\vb")),
    "DEL in a value": ("refused", message(CL, b"X-Note: a\x7fb")),
    "bytes above 127 in a value": ("clear 200", message(CL, b"X-Note: \xff\xe9 \t\x80")),
    "bytes above 127 in a name": ("refused", message(CL, b"X-N\xe9te: a")),
    "no name": ("refused", message(CL, b": a")),
}

CHUNK_CASES = {
    "chunk extension": ("once 200", chunks(b"%x;a=b\r\n%s\r\n0;c\r\n\r\n" % (N, BODY))),
    "chunk extension in quotes": ("once 200", chunks(b'%x;a="b;c"\r\n%s\r\n0\r\n\r\n' % (N, BODY))),
    "chunk extension of 200 KB": ("refused", chunks(b"%x;%s\r\n%s\r\n0\r\n\r\n" % (N, b"x" * 200000, BODY))),
    "chunk extension of 200 KB at the end": ("refused", chunks(b"%x\r\n%s\r\n0;%s\r\n\r\n" % (N, BODY, b"x" * 200000))),
    "chunk size with zeros in front": ("once 200", chunks(b"%08x\r\n%s\r\n000\r\n\r\n" % (N, BODY))),
    "chunk size with 200 KB of zeros": ("refused", chunks(b"%s%x\r\n%s\r\n0\r\n\r\n" % (b"0" * 200000, N, BODY))),
    "chunk size missing": ("refused", chunks(b"\r\n%s\r\n0\r\n\r\n" % BODY)),
    "chunk size negative": ("refused", chunks(b"-1\r\n%s\r\n0\r\n\r\n" % BODY)),
    "chunk size with a plus": ("refused", chunks(b"+%x\r\n%s\r\n0\r\n\r\n" % (N, BODY))),
    "chunk size with 0x": ("refused", chunks(b"0x%x\r\n%s\r\n0\r\n\r\n" % (N, BODY))),
    "chunk size no number": ("refused", chunks(b"zz\r\n%s\r\n0\r\n\r\n" % BODY)),
    "chunk size behind a space": ("refused", chunks(b" %x\r\n%s\r\n0\r\n\r\n" % (N, BODY))),
    "chunk size of 64 bits": ("refused", chunks(b"ffffffffffffffff\r\n%s\r\n0\r\n\r\n" % BODY)),
    "chunk size that wraps": ("refused", chunks(b"1%016x\r\n%s\r\n0\r\n\r\n" % (N, BODY))),
    "chunk data too long": ("refused", chunks(b"%x\r\n%s\r\n0\r\n\r\n" % (N - 1, BODY))),
    # what follows is taken or refused: both are one answer and the end
    "chunk data too short": ("over", chunks(b"%x\r\n%s\r\n0\r\n\r\n" % (N + 1, BODY))),
    "chunk size before a space": ("over", chunks(b"%x \r\n%s\r\n0\r\n\r\n" % (N, BODY))),
    "chunk size before a LF": ("over", chunks(b"%x\n%s\r\n0\r\n\r\n" % (N, BODY))),
    "chunk data before a LF": ("over", chunks(b"%x\r\n%s\n0\r\n\r\n" % (N, BODY))),
    "chunk extension with a LF": ("over", chunks(b"%x;a\n%s\r\n0\r\n\r\n" % (N, BODY))),
    "chunk extension that hides a size": ("over", chunks(b"%x;\n0\r\n\r\n%s" % (N, SMUGGLED))),
    "chunk extension with a CR": ("over", chunks(b"%x;a\rb\r\n%s\r\n0\r\n\r\n" % (N, BODY))),
    "last chunk before LFs": ("over", chunks(b"%x\r\n%s\r\n0\n\n" % (N, BODY))),
    "trailer": ("over", chunks(b"%x\r\n%s\r\n0\r\nX-Sum: 1\r\n\r\n" % (N, BODY))),
    "trailer that is a length": ("over", chunks(b"%x\r\n%s\r\n0\r\nContent-Length: %d\r\n\r\n%s" % (N, BODY, len(SMUGGLED), SMUGGLED))),
    "trailer that is folded": ("over", chunks(b"%x\r\n%s\r\n0\r\nX-Sum:\r\n 1\r\n\r\n" % (N, BODY))),
    "trailer with bare LFs": ("over", chunks(b"%x\r\n%s\r\n0\r\nX-Sum: 1\nX: 2\n\n" % (N, BODY))),
    "trailer of 200 KB": ("over", chunks(b"%x\r\n%s\r\n0\r\nX-Sum: %s\r\n\r\n" % (N, BODY, b"x" * 200000))),
}

METHODS = {
    "GET with a length": ("clear 200", get(b"Content-Length: %d" % len(SMUGGLED), body=SMUGGLED)),
    "GET with a length of nothing": ("clear 200", get(b"Content-Length: 0")),
    "GET with chunks": ("once 200", get(CHUNKED, body=CHUNKS)),
    "GET with chunks and a length": ("refused", get(CHUNKED, b"Content-Length: %d" % len(CHUNKS), body=CHUNKS)),
    "GET with a list of lengths": ("refused", get(b"Content-Length: 0, 0")),
    "HEAD with a length": ("clear 200", get(b"Content-Length: %d" % len(SMUGGLED), start=b"HEAD /livez HTTP/1.1", body=SMUGGLED)),
    "OPTIONS with a length": ("clear 204", get(b"Content-Length: %d" % len(SMUGGLED), start=b"OPTIONS /livez HTTP/1.1", body=SMUGGLED)),
    "OPTIONS with a folded length": ("refused", get(b"Content-Length:\r\n %d" % len(SMUGGLED), start=b"OPTIONS /livez HTTP/1.1", body=SMUGGLED)),
    "PUT without a length": ("refused 411", message(start=b"PUT /v1/completions HTTP/1.1", body=b"")),
    "DELETE with a length": ("clear 405", message(b"Content-Length: %d" % len(SMUGGLED), start=b"DELETE /v1/completions HTTP/1.1", body=SMUGGLED)),
    "a method in small letters": ("clear 405", target(b"/livez", method=b"get")),
    "a method of odd marks": ("refused", target(b"/livez", method=b"G(E)T")),
    "a method of 1,000 letters": ("clear 405", target(b"/livez", method=b"A" * 1000)),
    "expecting to go on": ("clear 200", message(CL, b"Expect: 100-continue")),
    "expecting something else": ("refused", message(CL, b"Expect: 200-ok")),
    "a connection that ends": ("once 200", get(b"Connection: close")),
    "an upgrade": ("clear 200", get(b"Connection: Upgrade", b"Upgrade: h2c")),
    "the preface of HTTP/2": ("refused", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
}

HOSTS = {
    "host missing": ("refused", message(TYPE, CL, host=False)),
    "host twice": ("refused", message(HOST, HOST, TYPE, CL, host=False)),
    "host twice, two names": ("refused", message(HOST, b"host: other", TYPE, CL, host=False)),
    "host, a space before the colon": ("refused", message(b"Host : localhost", TYPE, CL, host=False)),
    "host of another server": ("clear 403", message(b"Host: evil.example", TYPE, CL, host=False)),
    "host missing in HTTP/1.0": ("over", b"GET /livez HTTP/1.0\r\n\r\n"),
}

TARGETS = {
    "target with a scheme and a host": ("clear 200", target(b"http://localhost/livez")),
    "target with a scheme and another host": ("clear 403", target(b"http://evil.example/livez")),
    "target with a scheme and no host": ("clear 400", target(b"http:///livez")),
    "target with a scheme, host missing": ("refused", b"GET http://localhost/livez HTTP/1.1\r\n\r\n"),
    "target a host": ("clear 404", target(b"localhost:80")),
    "target a star": ("clear 404", target(b"*", method=b"OPTIONS")),
    "target with a fragment": ("clear 404", target(b"/livez#x")),
    "target with bytes above 127": ("clear 404", target(b"/livez\xff")),
    "target with a control character": ("refused", target(b"/livez\x01")),
    "target empty": ("refused", get(start=b"GET  HTTP/1.1")),
    "target with 1,500 arguments": ("refused", target(b"/livez?" + b"&".join(b"a%d=1" % (i % 10) for i in range(1500)))),
    "target with 4,000 arguments": ("refused", target(b"/livez?" + b"a&" * 4000)),
    "target of 9 KB": ("clear 414", target(b"/livez?" + b"x" * 9000)),
    "target of 9 KB of arguments": ("refused 431", target(b"/livez?" + b"a&" * 4500)),
    "target of 30 KB of arguments": ("refused 431", target(b"/livez?" + b"a&" * 15000)),
    "target of 200 KB": ("refused 414", target(b"/livez?" + b"x" * 200000)),
    "two spaces behind the method": ("refused", get(start=b"GET  /livez HTTP/1.1")),
    "two spaces before the version": ("refused", get(start=b"GET /livez  HTTP/1.1")),
    "tabs in the request line": ("refused", get(start=b"GET\t/livez\tHTTP/1.1")),
    "a space before the method": ("refused", b" " + get()),
    "a space behind the version": ("refused", get(start=b"GET /livez HTTP/1.1 ")),
    "a word behind the version": ("refused", get(start=b"GET /livez HTTP/1.1 x")),
    "a space in the target": ("refused", target(b"/li vez")),
    "an empty line in front": ("clear 200", b"\r\n" + get()),
    "three empty lines in front": ("clear 200", b"\r\n\r\n\r\n" + get()),
    "a line of a LF in front": ("clear 200", b"\n" + get()),
    "version HTTP/1.2": ("refused", get(start=b"GET /livez HTTP/1.2")),
    "version HTTP/2.0": ("refused", get(start=b"GET /livez HTTP/2.0")),
    "version HTTP/1.10": ("refused", get(start=b"GET /livez HTTP/1.10")),
    "version in small letters": ("refused", get(start=b"GET /livez http/1.1")),
    "version missing": ("refused", get(start=b"GET /livez")),
    "version HTTP/1.0": ("over", get(start=b"GET /livez HTTP/1.0")),
    "100 fields": ("clear 200", get(*[b"X-%d: y" % i for i in range(99)])),
    "101 fields": ("refused 431", get(*[b"X-%d: y" % i for i in range(100)])),
    "1,500 fields": ("refused 431", get(*[b"X-%d: y" % i for i in range(1500)])),
    "a field of 40 KB": ("refused 431", get(b"X: " + b"y" * 40000)),
    "a field of 200 KB": ("refused 431", get(b"X: " + b"y" * 200000)),
    "a name of 200 KB": ("refused 431", get(b"X" * 200000 + b": y")),
}

CASES = {**LENGTHS, **FOLDS, **CODINGS, **LINE_ENDS, **CHUNK_CASES, **METHODS, **HOSTS, **TARGETS}

# Here silence is right too: a first line without a space is no HTTP, and the library closes the connection without a word
# of ours being asked for; of a chunk of 2^64 - 1 bytes the rest never comes, until the deadline of the body. Nothing behind
# the message is ever answered.
SILENT = {"LF in the request line", "tabs in the request line", "a space before the method", "chunk size of 64 bits"}


class Broken(Exception):
    """What came back is no sequence of whole answers."""


def split_answers(data, heads_only=()):
    """The answers in the bytes that came, as (status, request id), interim ones left out. The answers whose place is in
    heads_only have no body whatever their length says."""
    answers = []
    while data:
        head, end, data = data.partition(b"\r\n\r\n")
        m = re.match(rb"HTTP/1\.[01] (\d{3}) [^\r\n]*(\r\n|$)", head)
        if not end or not m:
            raise Broken(f"not an answer after {len(answers)}: {head[:80]!r}")
        status = int(m.group(1))
        if status == 100:
            continue
        fields = dict(line.lower().partition(b":")[::2] for line in head.split(b"\r\n")[1:])
        n_body = int(fields.get(b"content-length", b"0")) if len(answers) not in heads_only else 0
        if len(data) < n_body:
            raise Broken(f"answer {len(answers)} is cut: {data[:80]!r}")
        data = data[n_body:]
        answers.append((status, fields.get(b"x-request-id", b"").strip().decode("latin-1")))
    return answers


def verdict(name, data, ended):
    """What is wrong with the bytes that came back for a case; None: nothing. ended: the connection ended."""
    kind, _, want = CASES[name][0].partition(" ")
    try:
        answers = split_answers(data, {0} if CASES[name][1].startswith(b"HEAD") else ())
    except Broken as e:
        return str(e)
    if not answers and ended and name in SILENT:
        return None
    if not answers:
        return "silence" + (", then the end" if ended else "")
    status = answers[0][0]
    if any("smuggled" in i for _, i in answers):
        return "the request in the body was answered"
    if status == 500:
        return "500"
    if want and status != int(want):
        return f"status {status}, not {want}"
    if kind == "refused" and not 400 <= status < 600:
        return f"status {status}, not a refusal"
    if kind == "over" and not (status in (200, 204) or 400 <= status < 500):
        return f"status {status}"
    if not ended:
        return "the connection goes on"
    if kind == "clear":
        is_marker = len(answers) == 2 and answers[1][0] == 200 and answers[1][1] == "marker"
        return None if is_marker else f"{answers}: not the answer and the marker's"
    return None if len(answers) == 1 else f"{answers}: not one answer"


def escaped(data):
    """Whether a request was answered that lies in the body of a message, or behind one that is not clear. (An id alone
    proves nothing: a message without a line end takes the marker's fields for its own, and is refused under its id.)"""
    try:
        answers = split_answers(data)
    except Broken:
        return False
    return any(i in ("smuggled", "marker") and (place > 0 or status == 200) for place, (status, i) in enumerate(answers))
