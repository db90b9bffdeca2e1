"""What somebody sends who means harm: odd bytes on the wire, paths that climb, names that look like others."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.api.app import App, create_app
from dure.api.auth import Keys
from dure.api.server import Server, open_socket
from dure.web.pages import pages
from tests.unit.api.clients import TOKEN
from tests.unit.api.small_world import SmallWorld
from tests.unit.api.test_matrix import document

PATIENCE_S = 20.0
# `make hostile` tries more.
EXAMPLES = int(os.environ.get("DURE_HOSTILE", "10"))


@pytest.fixture(scope="module")
def world() -> SmallWorld:
    return SmallWorld()


@pytest.fixture(scope="module")
def app(world: SmallWorld) -> App:
    return create_app(world, Keys(TOKEN), pages=pages())


@pytest.fixture(scope="module")
def server(app: App) -> Iterator[Server]:
    running = Server(app, *open_socket(port=0))
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=server.address.url, headers=headers, trust_env=False) as found:
        yield found


def said(server: Server, raw: bytes, *, ends: bool = False) -> bytes:
    """Everything the server answers until it closes. Who sends only a part `ends`, or it would wait for the rest."""
    with socket.create_connection((server.address.host, server.address.port), PATIENCE_S) as line:
        line.sendall(raw)
        if ends:
            line.shutdown(socket.SHUT_WR)
        parts = []
        while chunk := line.recv(65536):
            parts.append(chunk)
    return b"".join(parts)


def request(head: str, body: bytes = b"", *, host: str = "Host: 127.0.0.1\r\n") -> bytes:
    return f"{head}\r\n{host}Authorization: Bearer {TOKEN}\r\n".encode("latin-1") + body


HIDDEN = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
SMUGGLED = {
    "two lengths": b"Content-Length: 5\r\nContent-Length: 60\r\n\r\nhello" + HIDDEN,
    "length and chunks": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "a length with a sign": b"Content-Length: +5\r\n\r\nhello",
    "a length of nothing": b"Content-Length: x\r\n\r\n",
    "an unknown coding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a folded header": b"X-A: b\r\n c\r\nContent-Length: 0\r\n\r\n",
    "a space before the colon": b"Content-Length : 0\r\n\r\n",
    "a nul in a header": b"X-A: \x00\r\n\r\n",
    "a bare return": b"X-A: a\rX-B: b\r\n\r\n",
    "no end": b"X-A: " + b"a" * 100_000,
    "trailers without end": b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X-A: b\r\n" * 20_000,
    "a chunk with much beside its length": b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * 100_000,
    "a chunk that lies": b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\nx\r\n",
}


@pytest.mark.parametrize("rest", SMUGGLED.values(), ids=SMUGGLED.keys())
def test_no_second_request_hides_in_a_first(server: Server, rest: bytes) -> None:
    """At most one answer, and never the one to what was hidden."""
    answer = said(server, request("POST /v1/plan HTTP/1.1", rest), ends=True)
    assert answer.count(b"HTTP/1.1 ") <= 1 or b"HTTP/1.1 200" not in answer
    assert b"HTTP/1.1 5" not in answer


def test_who_says_in_two_ways_how_long_a_request_is_gets_one_refusal_and_no_more(server: Server) -> None:
    answer = said(server, request("GET /healthz HTTP/1.1", SMUGGLED["length and chunks"]))
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    "rest",
    [
        b"X-A: " + b"a" * 300_000,
        b"X-A: a\r\n" * 30_000,
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X-A: a\r\n" * 30_000,
        b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * 300_000,
    ],
    ids=["one header", "many headers", "trailers", "beside a chunk"],
)
def test_what_is_neither_head_nor_body_is_refused_once_it_is_too_long(server: Server, rest: bytes) -> None:
    """The server closes by itself: nobody has told it that nothing more comes."""
    heard = b""
    with socket.create_connection((server.address.host, server.address.port), PATIENCE_S) as line:
        with contextlib.suppress(ConnectionError):
            line.sendall(request("POST /v1/plan HTTP/1.1", rest))
        with contextlib.suppress(ConnectionError):
            while chunk := line.recv(65536):
                heard += chunk
    # A connection that is closed while its other end still sends may lose the answer.
    assert heard == b"" or heard.startswith(b"HTTP/1.1 4")


def test_what_follows_a_body_says_nothing_about_who_asks(server: Server) -> None:
    """A proxy that takes headers away that only it may set lets trailers through."""
    asked = "POST /v1/plan HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    trailer = f"0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    assert said(server, f"{asked}{trailer}".encode()).startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize("host", ["", "Host: a\r\nHost: 127.0.0.1\r\n", "Host: 127.0.0.1\r\nHost: evil.example\r\n"])
def test_one_host_or_none(server: Server, host: str) -> None:
    answer = said(server, request("GET /v1/status HTTP/1.1", b"Connection: close\r\n\r\n", host=host))
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 421"))


@pytest.mark.parametrize(
    "path",
    [
        "/static/../../etc/passwd",
        "/static/..%2f..%2fetc%2fpasswd",
        "/static/%2e%2e/%2e%2e/pyproject.toml",
        "/static/..%5c..%5cx",
        "/static//etc/passwd",
        "/static/main.js%00.txt",
        "/v1/workloads/..%2f..%2fsettings",
        "/v1/schemas/..%2f..%2fpyproject",
        "//evil.example/v1/status",
        "/v1/workloads/%ff%fe",
        "/v1/workloads/" + "a" * 5000,
        "/;/v1/status",
    ],
)
def test_paths_do_not_climb(server: Server, path: str) -> None:
    answer = said(server, request(f"GET {path} HTTP/1.1", b"Connection: close\r\n\r\n"))
    status = int(answer.split(b" ", 2)[1])
    assert 400 <= status < 500, answer[:200]
    assert b"root:" not in answer
    assert b"[project]" not in answer


TRICKS = {
    "a right-to-left mark": "train\u202e1",
    "a zero-width space": "train\u200b1",
    "a letter that looks like another": "tr\u0430in-1",
    "full width": "ｔrain-1",
    "an accent by itself": "train\u0301-1",
    "a line break": "train\n1",
    "an escape": "train\x1b[31m",
    "a nul": "train\x00",
    "a quote": "train' OR '1'='1",
    "a tag": "<script>alert(1)</script>",
    "a path": "../../train",
    "a lone surrogate": "train\ud800",
    "nothing": "",
    "very long": "a" * 300,
    "a percent": "%s%n",
    "a template": "{{7*7}}",
}


@pytest.mark.parametrize("name", TRICKS.values(), ids=TRICKS.keys())
@pytest.mark.parametrize("where", ["name", "tenant"])
def test_names_are_plain_ascii_so_none_looks_like_another(
    client: httpx.Client, world: SmallWorld, name: str, where: str
) -> None:
    before = world.store.list_workloads()
    body = document("vision", "fine")
    body["metadata"][where] = name
    text = json.dumps(body)
    answer = client.post("/v1/workloads", content=text, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 404), answer.text
    assert world.store.list_workloads() == before
    assert "\x1b" not in answer.text


NAMES = [
    "If-Match",
    "If-None-Match",
    "Idempotency-Key",
    "Last-Event-ID",
    "Accept",
    "Content-Type",
    "Cookie",
    "Origin",
]
# What the client of the tests is willing to send at all.
VALUES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=40).map(
    lambda text: text.encode("latin-1")
)


@given(headers=st.dictionaries(st.sampled_from(NAMES), VALUES))
@settings(max_examples=EXAMPLES * 5)
def test_whatever_headers_hold_nothing_breaks(client: httpx.Client, headers: dict[str, Any]) -> None:
    for method, path in (("GET", "/v1/workloads/train-40"), ("GET", "/v1/charges"), ("POST", "/v1/plan")):
        answer = client.request(method, path, headers=headers)
        assert answer.status_code < 500
