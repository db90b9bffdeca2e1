"""Short requests over kept connections: answers of both shapes, connections that die, and what is not known then."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from dure.adapters.kube.wire import Broken, Wire

PLAIN = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b'HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n4\r\n": 1\r\n1\r\n}\r\n0\r\n\r\n'


class Server:
    """Answers each request with the next of its lines; None hangs up instead. Counts connections."""

    def __init__(self, answers: list[bytes | None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._answers = answers
        self.connections = 0
        self.requests: list[bytes] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/prefix"

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def hang_up(self) -> None:
        self._conn.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        while True:
            try:
                conn, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._conn = conn
            with conn:
                while self._answers and self._answer(conn):
                    pass

    def _answer(self, conn: socket.socket) -> bool:
        request = conn.recv(65536)
        if not request:
            return False
        self.requests.append(request)
        answer = self._answers.pop(0)
        if answer is None:
            return False
        # In two pieces, so that a reader must be able to wait for the rest.
        conn.sendall(answer[:20])
        conn.sendall(answer[20:])
        return True


Serve = Callable[..., tuple[Server, Wire]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    made: list[tuple[Server, Wire]] = []

    def start(*answers: bytes | None) -> tuple[Server, Wire]:
        server = Server(list(answers))
        made.append((server, Wire(server.url, None, 30.0)))
        return made[-1]

    yield start
    for server, wire in made:
        wire.close()
        server.close()


def test_requests_share_a_connection_and_carry_path_headers_and_body(serve: Serve) -> None:
    server, wire = serve(PLAIN, PLAIN)
    for _ in range(2):
        assert wire.post("/api/x", b"{}", [("Authorization", "Bearer t")]) == (201, b"{}")
    assert server.connections == 1
    assert server.requests[0].startswith(b"POST /prefix/api/x HTTP/1.1\r\n")
    assert b"Authorization: Bearer t\r\n" in server.requests[0]
    assert server.requests[0].endswith(b"Content-Length: 2\r\n\r\n{}")


def test_an_answer_in_chunks_is_put_together(serve: Serve) -> None:
    _, wire = serve(CHUNKED, PLAIN)
    assert wire.post("/", b"") == (409, b'{"a": 1}')
    assert wire.post("/", b"").status == 201


def test_a_kept_connection_that_died_is_replaced_once(serve: Serve) -> None:
    server, wire = serve(PLAIN, None, PLAIN)
    assert wire.post("/", b"").status == 201
    assert wire.post("/", b"").status == 201
    assert server.connections == 2


def test_what_must_not_come_twice_is_not_sent_again_when_its_answer_is_lost(serve: Serve) -> None:
    server, wire = serve(PLAIN, None, PLAIN)
    assert wire.post("/", b"", twice=False).status == 201
    with pytest.raises(Broken):
        wire.post("/", b"", twice=False)
    assert len(server.requests) == 2


def test_a_kept_connection_that_the_server_closed_is_seen_before_anything_is_sent(serve: Serve) -> None:
    server, wire = serve(PLAIN, PLAIN)
    assert wire.post("/", b"", twice=False).status == 201
    server.hang_up()
    select.select([wire._idle[0]], [], [], 30.0)
    assert wire.post("/", b"", twice=False).status == 201
    assert (server.connections, len(server.requests)) == (2, 2)


def test_a_server_that_hangs_up_on_a_new_connection_leaves_the_outcome_open(serve: Serve) -> None:
    _, wire = serve(None)
    with pytest.raises(Broken):
        wire.post("/", b"")


def test_an_answer_that_ends_in_the_middle_leaves_the_outcome_open(serve: Serve) -> None:
    _, wire = serve(b"HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\n{}")
    with pytest.raises(Broken):
        wire.post("/", b"")


def test_a_server_that_closes_after_its_answer_gets_a_new_connection(serve: Serve) -> None:
    server, wire = serve(b"HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", PLAIN)
    assert wire.post("/", b"").status == 201
    assert server.connections == 1


def test_nobody_there_is_said_as_such() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(Broken):
        Wire(f"http://127.0.0.1:{port}", None, 5.0).post("/", b"")
