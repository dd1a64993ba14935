"""What an API server may answer that is no API server, or a broken or hostile one."""

import gzip
import json
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from typing import Any
from urllib.parse import parse_qs

JSON = "application/json"
UNIT = 1_000_000

Write = Callable[[BaseHTTPRequestHandler], None]


def node(**changed: Any) -> dict[str, Any]:
    labels = {"gpupools/pool": "whole", "topology.kubernetes.io/region": "eu-west-2"}
    made: dict[str, Any] = {"metadata": {"name": "n", "uid": "1", "labels": labels}, "spec": {}, "status": {}}
    for path, value in changed.items():
        *parts, last = path.split("__")
        at = made
        for part in parts:
            at = at.setdefault(part, {})
        at[last] = value
    return made


def nodes(*items: Any, **more: Any) -> bytes:
    return json.dumps({"kind": "NodeList", "items": list(items), "metadata": more}).encode()


def _answer(status: int, kind: str, body: bytes, **headers: str) -> Write:
    def write(to: BaseHTTPRequestHandler) -> None:
        to.send_response_only(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            to.send_header(name.replace("_", "-"), value)
        to.end_headers()
        to.wfile.write(body)

    return write


def ok(body: bytes, **headers: str) -> Write:
    return _answer(200, JSON, body, **headers)


def _endless(head: bytes, part: bytes, every_s: float = 0, **headers: str) -> Write:
    def write(to: BaseHTTPRequestHandler) -> None:
        to.send_response_only(200)
        to.send_header("Content-Type", JSON)
        for name, value in headers.items():
            to.send_header(name.replace("_", "-"), value)
        to.end_headers()
        to.wfile.write(head)
        while True:
            to.wfile.write(part)
            time.sleep(every_s)

    return write


def _pages(items: Callable[[int], list[Any]], changing: bool = True, circle: int = 10**9) -> Write:
    count: Iterator[int] = iter(range(10**9))

    def write(to: BaseHTTPRequestHandler) -> None:
        number = next(count)
        ok(nodes(*items(number), **{"continue": str(number % circle) if changing else "x"}))(to)

    return write


def _slow(write: Write, seconds: float) -> Write:
    def later(to: BaseHTTPRequestHandler) -> None:
        time.sleep(seconds)
        write(to)

    return later


def _in_turn(*writes: Write) -> Write:
    each = cycle(writes)
    return lambda to: next(each)(to)


def _endless_pods(to: BaseHTTPRequestHandler) -> None:
    """Answer with a node of GPUs, and in pages without end pods on it, each with resources and labels of its own."""
    path, _, query = to.path.partition("?")
    if not path.endswith("/pods") or "status.phase%3D" in query:
        one = node(spec__providerID="aws:///eu-west-2a/i-0", status={"capacity": {"nvidia.com/gpu": "8"}})
        has_one = path.endswith("/nodes")
        (_answer(404, JSON, b"{}") if "/configmaps/" in path else ok(nodes(*[one] * has_one)))(to)
        return
    number = int(parse_qs(query).get("continue", ["0"])[0])
    pods = []
    for name in (f"{number}-{each}" for each in range(500)):
        own = {f"a.b/{name}-{each}": "1" for each in range(50)}
        meta = {"name": f"p{name}", "namespace": "a", "uid": name, "labels": own}
        container = {"name": "c", "resources": {"requests": own}}
        pods.append({"metadata": meta, "spec": {"nodeName": "n", "containers": [container]}})
    ok(nodes(*pods, **{"continue": str(number + 1)}))(to)


def _repeats_the_token(to: BaseHTTPRequestHandler) -> None:
    _answer(401, JSON, json.dumps({"message": f"rejects {to.headers['Authorization']}"}).encode())(to)


def _raw(text: bytes, every_s: float = 0) -> Write:
    def write(to: BaseHTTPRequestHandler) -> None:
        while True:
            to.wfile.write(text)
            if not every_s:
                return
            time.sleep(every_s)

    return write


_CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
BUSY = _answer(429, JSON, b'{"message": "slow down"}', Retry_After="1")
ODD: dict[str, Write] = {
    "sign-in-page": _answer(200, "text/html", b"<html><title>Sign in</title></html>"),
    "no-type": _answer(200, "", b"{}"),
    "text": _answer(200, "text/plain", b"ok"),
    "protobuf": _answer(200, "application/vnd.kubernetes.protobuf", b"k8s\0"),
    "empty": ok(b""),
    "cut-off": ok(b'{"items": [{"met'),
    "shorter-than-said": ok(b"{}", Content_Length="100"),
    "bad-length": ok(b"{}", Content_Length="x"),
    "not-utf-8": ok(b'{"items": ["\xff"]}'),
    "deep": ok(b"[" * 100000 + b"]" * 100000),
    "deep-object": ok(b'{"items":[' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"]}"),
    "long-number": ok(b'{"items": [' + b"9" * 10000 + b"]}"),
    "list": ok(b"[]"),
    "text-as-json": ok(b'"ok"'),
    "null": ok(b"null"),
    "empty-object": ok(b"{}"),
    "items-of-numbers": ok(b'{"items": [1]}'),
    "items-of-null": ok(b'{"items": [null]}'),
    "items-as-map": ok(b'{"items": {"a": 1}}'),
    "items-as-text": ok(b'{"items": "abc"}'),
    "metadata-as-list": ok(b'{"items": [], "metadata": {"continue": 5}}'),
    "no-metadata": ok(nodes({"spec": {}, "status": {}})),
    "no-name": ok(nodes(node(metadata__name=None))),
    "no-uid": ok(nodes(node(metadata__uid=None))),
    "name-with-command": ok(nodes(node(metadata__name="$(touch pwned)"))),
    "name-with-newline": ok(nodes(node(metadata__name="a\n::error::b"))),
    "labels-as-list": ok(nodes(node(metadata__labels=["a"]))),
    "label-as-number": ok(nodes(node(metadata__labels={"gpupools/pool": 5}))),
    "spec-as-text": ok(nodes(node(spec="x"))),
    "status-as-list": ok(nodes(node(status=[]))),
    "taint-as-number": ok(nodes(node(spec__taints=[1]))),
    "taint-without-key": ok(nodes(node(spec__taints=[{"effect": "NoSchedule"}]))),
    "condition-without-type": ok(nodes(node(status__conditions=[{"status": "True"}]))),
    "allocatable-as-list": ok(nodes(node(status__allocatable=["8"]))),
    "provider-as-number": ok(nodes(node(spec__providerID=7))),
    "bad-date": ok(nodes(node()), Date="yesterday"),
    "gzip": ok(gzip.compress(nodes(node())), Content_Encoding="gzip"),
    "gzip-bomb": ok(gzip.compress(b" " * 300 * UNIT, 9), Content_Encoding="gzip"),
    "many-values": ok(b'{"items": [' + b"{}," * (8 * UNIT) + b"{}]}"),
    "endless-body": _endless(b"", b" " * UNIT),
    "endless-chunks": _endless(b"", b"f4240\r\n" + b" " * UNIT + b"\r\n", Transfer_Encoding="chunked"),
    "slow-body": _endless(b'{"items": [', b" ", every_s=0.1),
    "endless-pages": _pages(lambda number: [], changing=False),
    "endless-new-pages": _pages(lambda number: []),
    "endless-nodes": _pages(lambda number: [node(metadata__name=f"n{number}-{each}") for each in range(500)]),
    "endless-labels": _pages(
        lambda number: [node(metadata__labels={f"{number}-{each}": "" for each in range(200_000)})]
    ),
    "403-list": _answer(403, JSON, b"[]"),
    "401-page": _answer(401, "text/html", b"<html>log in</html>"),
    "404-page": _answer(404, "text/html", b"<html>nothing here</html>"),
    "429": BUSY,
    "503": _answer(503, "text/html", b"<html>busy</html>", Retry_After="86400"),
    "500-deep": _answer(500, JSON, b"[" * 100000),
    "redirect": _answer(302, "text/html", b"", Location="http://127.0.0.1:1/"),
    **{
        f"redirect-{status}": _answer(status, "", b"", Location="http://127.0.0.1:1/")
        for status in (301, 303, 307, 308)
    },
    "redirect-to-nowhere": _answer(302, "text/html", b""),
    "no-content": _answer(204, JSON, b""),
    "not-modified": _answer(304, JSON, b""),
    "asks-to-log-in": _answer(401, JSON, b'{"message": "who?"}', WWW_Authenticate="Negotiate", Set_Cookie="a=b"),
    "not-a-number": ok(b'{"items": [NaN]}'),
    "endless-number": ok(b'{"items": [], "metadata": {"continue": 1e999}}'),
    "label-not-a-number": ok(nodes(node(metadata__labels={"gpupools/pool": float("nan")}))),
    "generation-of-400-digits": ok(nodes(node(metadata__generation=10**400, metadata__name=""))),
    "name-with-colour": ok(nodes(node(metadata__name="\x1b[31mred"))),
    "message-with-colour": _answer(500, JSON, json.dumps({"message": "\x1b]0;title\x07\r\n\u2028::error::x"}).encode()),
    "message-of-half-a-character": _answer(500, JSON, b'{"message": "\\ud800"}'),
    "message-as-map": _answer(500, JSON, b'{"message": {"a": [1]}, "details": {"causes": [1, {"message": {}}]}}'),
    "name-of-half-a-character": ok(b'{"items": [{"metadata": {"name": "\\udfff", "uid": "1"}}]}'),
    "year-0": ok(nodes(node()), Date="Thu, 01 Jan 0000 00:00:00 GMT"),
    "year-99999": ok(nodes(node()), Date="Thu, 01 Jan 99999 00:00:00 GMT"),
    "created-never": ok(nodes(node(metadata__creationTimestamp="never"))),
    "retry-after-infinity": _answer(429, JSON, b"{}", Retry_After="inf"),
    "pages-in-a-circle": _pages(lambda number: [], circle=2),
    "wrong-chunks": _endless(b"zz\r\n", b"{}\r\n", Transfer_Encoding="chunked"),
    "negative-length": ok(b"{}", Content_Length="-1"),
    "status-of-text": _raw(b"HTTP/1.1 abc OK\r\n\r\n"),
    "status-of-5-digits": _raw(b"HTTP/1.1 20000 OK\r\n\r\n{}"),
    "http-0.9": _raw(b'{"items": []}'),
    "endless-1xx": _raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, every_s=0.01),
    "header-without-end": _raw(b"HTTP/1.1 200 OK\r\nA: " + b"b" * UNIT, every_s=0.1),
    "repeats-the-token": _repeats_the_token,
    "no-http": _raw(b"SSH-2.0-OpenSSH_9.6\r\n"),
    "closes": _raw(b""),
    "endless-headers": _raw(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 100_000),
    "slow-headers": _raw(b"HTTP/1.1 200 OK\r\nA", every_s=0.1),
    "slow-pages": _slow(_pages(lambda number: []), 0.4),
    "slow-nodes": _slow(_pages(lambda number: [node(metadata__name=f"n{number}")]), 0.4),
    "429-between": _in_turn(BUSY, BUSY, _pages(lambda number: [])),
    "upgrade": _answer(101, JSON, b"{}", Connection="upgrade", Upgrade="websocket"),
    "wrong-chunk-later": _raw(_CHUNKED + b'5\r\n{"ite\r\nxyz\r\n'),
    "chunk-of-negative-size": _raw(_CHUNKED + b"-5\r\n{}\r\n"),
    "chunk-size-without-end": _raw(_CHUNKED + b"0" * 100_000, every_s=0.1),
}
"""Answers to every request, by name."""
LARGE = {
    "endless-pods": _endless_pods,
    **{
        name: ODD[name]
        for name in ("endless-body", "many-values", "endless-nodes", "endless-labels", "endless-new-pages")
    },
    "slow-body": ODD["slow-body"],
    "slow-pages": _slow(_pages(lambda number: []), 6),
    "slow-nodes": _slow(_pages(lambda number: [node(metadata__name=f"n{number}")]), 6),
    "429-between": _in_turn(*[BUSY] * 6, _pages(lambda number: [])),
    "503-between": _in_turn(*[_answer(503, JSON, b"{}", Retry_After="1")] * 6, _pages(lambda number: [])),
}
"""Those that would take most time or memory."""


class Odd(ThreadingHTTPServer):
    """Gives one odd answer to everything."""

    daemon_threads = True

    def __init__(self, write: Write) -> None:
        self.write = write
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, *_: object) -> None: ...


class _Handler(BaseHTTPRequestHandler):
    server: Odd

    def do_GET(self) -> None:
        self.close_connection = True
        self.server.write(self)

    def log_message(self, *_: object) -> None: ...
