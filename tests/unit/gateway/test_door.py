"""The short way for submissions: what it takes, what it leaves to the application, and that both answer the same."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import IO, Any

import pytest

from dure.gateway import door
from dure.gateway.app import create_app
from dure.gateway.door import FIRST_LINE, MOST_BODY, plain_head
from dure.gateway.server import Server
from dure.gateway.who import Doorman
from tests.unit.gateway.test_desk import EchoApi, board, desk, job

PATH = "/v1/jobs"
Served = tuple[EchoApi, str, int]


@pytest.fixture
def served() -> Iterator[Served]:
    found, api = desk(board())
    given: Any = api
    server = Server(create_app(found, Doorman(given, everybody=True)))
    host, _, port = server.start("127.0.0.1", 0).removeprefix("http://").partition(":")
    yield api, host, int(port)
    server.stop()


def request(name: str) -> bytes:
    body = json.dumps(job(name)).encode()
    return FIRST_LINE + b"Host: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def status(answers: IO[bytes]) -> int:
    """Of the next answer of a connection, which is read to its end and no further."""
    found = int(answers.readline().split()[1])
    length = 0
    while (line := answers.readline().strip()) != b"":
        name, _, value = line.partition(b":")
        length = int(value) if name == b"content-length" else length
    assert len(answers.read(length)) == length > 0
    return found


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 2",
        b"Host: a",
        b"Host: a\r\nContent-Length: 2\r\nContent-Length: 3",
        b"Host: a\r\nContent-Length: -2",
        b"Host: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked",
        b"Host: a\r\nContent-Length: 2\r\nExpect: 100-continue",
        b"Host: a\r\nContent-Length: 2\r\nConnection: close",
        b"Host: a\r\nContent-Length: 2\r\n folded: yes",
        b"Host: a\r\nContent-Length : 2",
        b"Host: a\r\nContent-Length: 2\r\nX: \x01",
        b"Host: a\r\nContent-Length: %d" % (MOST_BODY + 1),
    ],
)
def test_whatever_is_not_plain_is_left_to_the_application(fields: bytes) -> None:
    assert plain_head(FIRST_LINE + fields + b"\r\n\r\n{}") is None


@pytest.mark.parametrize("first", [b"GET /v1/jobs HTTP/1.1\r\n", b"POST /v1/jobs?dryRun=true HTTP/1.1\r\n", b"POS"])
def test_another_request_is_left_to_the_application(first: bytes) -> None:
    assert plain_head(first + b"Host: a\r\nContent-Length: 2\r\n\r\n{}") is None


def test_a_plain_head_tells_where_its_body_is() -> None:
    head = plain_head(FIRST_LINE + b"Host: a\r\nIdempotency-Key:  k \r\nContent-Length: 2\r\n\r\n{}rest")
    assert head is not None
    assert head.fields["idempotency-key"] == "k"
    assert (FIRST_LINE + b"Host: a\r\nIdempotency-Key:  k \r\nContent-Length: 2\r\n\r\n{}rest")[
        head.begins :
    ] == b"{}rest"
    assert head.length == 2


@pytest.mark.parametrize("body", [b"nonsense: [", b"{}", b"[]", json.dumps({**job("a"), "metadata": {}}).encode()])
def test_both_ways_refuse_in_the_same_words(served: Served, body: bytes) -> None:
    _, host, port = served
    seen = []
    for path in (PATH, f"{PATH}?policy="):
        conn = HTTPConnection(host, port)
        conn.request("POST", path, body)
        found = conn.getresponse()
        seen.append((found.status, found.headers["content-type"], found.read()))
        conn.close()
    assert seen[0] == seen[1]
    assert seen[0][0] == 400


def test_both_ways_answer_a_submission_alike(served: Served) -> None:
    api, host, port = served
    conn, seen = HTTPConnection(host, port), []
    for name, path in (("a", PATH), ("b", f"{PATH}?policy=static"), ("c", PATH)):
        conn.request("POST", path, json.dumps(job(name)))
        found = conn.getresponse()
        assert "date" in found.headers
        seen.append((found.status, sorted(json.loads(found.read())["jobs"][0])))
    conn.close()
    assert seen[0] == seen[2]
    assert seen[0][0] == seen[1][0] == 201
    assert [one["metadata"]["name"] for one in api.made] == ["a", "b", "c"]


def test_requests_that_come_in_one_piece_or_in_many_are_each_done_once(served: Served) -> None:
    api, host, port = served
    with socket.create_connection((host, port)) as conn, conn.makefile("rb") as answers:
        conn.sendall(request("a") + request("b"))
        assert [status(answers) for _ in "ab"] == [201, 201]
        whole = request("c")
        for cut in range(0, len(whole), 97):
            conn.sendall(whole[cut : cut + 97])
        assert status(answers) == 201
    assert [one["metadata"]["name"] for one in api.made] == ["a", "b", "c"]


def test_a_connection_may_ask_for_anything_after_a_submission(served: Served) -> None:
    api, host, port = served
    conn = HTTPConnection(host, port)
    for name in "ab":
        conn.request("POST", PATH, json.dumps(job(name)))
        assert conn.getresponse().read()
        conn.request("GET", "/healthz")
        assert json.loads(conn.getresponse().read())["status"] == "ok"
    conn.close()
    assert len(api.made) == 2


def test_more_connections_than_threads_are_served_all_the_same(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "MOST_CONNECTIONS", 1)
    api, host, port = served
    conns = [socket.create_connection((host, port)) for _ in range(3)]
    for number, conn in enumerate(conns):
        conn.sendall(request(f"j{number}"))
    for conn in conns:
        with conn, conn.makefile("rb") as answers:
            assert status(answers) == 201
    assert len(api.made) == 3


def test_a_gateway_that_stops_ends_idle_connections() -> None:
    found, api = desk(board())
    given: Any = api
    server = Server(create_app(found, Doorman(given, everybody=True)))
    host, _, port = server.start("127.0.0.1", 0).removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as conn, conn.makefile("rb") as answers:
        conn.sendall(request("a"))
        assert status(answers) == 201
        server.stop()
        assert answers.read(1) == b""
