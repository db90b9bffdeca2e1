"""The short way for submissions: one thread from the first byte of a request to the last of its answer.

Every hand-over from thread to thread is a wait for the processor, and on a busy machine those waits are most of what
a gateway adds. `Server` accepts connections through this; a plain `POST /v1/jobs` whose head came in one piece is
answered right here. Everything else (another path, chunks, `Expect`, a long body, more connections than threads) goes
with all its bytes to the application server and stays there: nothing is answered here that would be answered
differently there.
"""

from __future__ import annotations

import contextlib
import http
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple

from dure.gateway.intake import Asked, Reply

FIRST_LINE = b"POST /v1/jobs HTTP/1.1\r\n"
MOST_BODY = 256 * 1024
MOST_CONNECTIONS = 64
# More than these only take turns at the processor, and each would open a connection of its own to the API server.
AT_ONCE = min(32, 4 * (os.cpu_count() or 1))
# As long as the application server keeps a connection on which nothing is asked.
IDLE_S = 5
GRACE_S = 5
PAUSE_S = 0.05
_CHUNK = 65536
_OTHERS_DO = frozenset({"transfer-encoding", "expect", "upgrade", "content-encoding", "trailer", "te"})
Submit = Callable[[Asked], Reply]
HandOver = Callable[[socket.socket, bytes], None]


class Head(NamedTuple):
    """A request that may be answered here; its body is `length` bytes from `begins` on."""

    fields: dict[str, str]
    begins: int
    length: int


class Door:
    """`others` takes a connection over with what was read of it; `stamp` are fields for every answer (the date)."""

    def __init__(self, submit: Submit, others: HandOver, stamp: Callable[[], Iterable[tuple[bytes, bytes]]]) -> None:
        self._submit, self._others, self._stamp = submit, others, stamp
        self._lock = threading.Lock()
        self._open: dict[socket.socket, threading.Thread] = {}
        self._turns = threading.Semaphore(AT_ONCE)
        self._stopped = threading.Event()
        self._listener: socket.socket | None = None
        self._thread = threading.Thread(target=self._accept, name="dure-door", daemon=True)

    def start(self, listener: socket.socket) -> None:
        # Whoever closes a socket does not wake those who wait on it, not on every system.
        listener.settimeout(1.0)
        self._listener = listener
        self._thread.start()

    def stop(self) -> None:
        """Requests that were read are answered; nothing new is read."""
        self._stopped.set()
        if self._listener is not None:
            _shut(self._listener)
            self._thread.join(GRACE_S)
            self._listener.close()
        with self._lock:
            left = dict(self._open)
        for conn, thread in left.items():
            _shut(conn, socket.SHUT_RD)
            thread.join(GRACE_S)

    def _accept(self) -> None:
        while not self._stopped.is_set() and self._listener is not None:
            try:
                conn, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                # Too many open files, say: that passes.
                self._stopped.wait(PAUSE_S)
                continue
            with self._lock:
                room = len(self._open) < MOST_CONNECTIONS
                if room:
                    thread = threading.Thread(target=self._serve, args=(conn,), name="dure-submit", daemon=True)
                    self._open[conn] = thread
            if room:
                thread.start()
            else:
                self._others(conn, b"")

    def _serve(self, conn: socket.socket) -> None:
        try:
            conn.settimeout(None)
            conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A time limit of the kernel's costs no call; Python's own would ask before each read.
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", IDLE_S, 0))
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", IDLE_S, 0))
            left = self._answer_all(conn)
        except OSError:
            left = None
        finally:
            with self._lock:
                self._open.pop(conn, None)
        if left is None or self._stopped.is_set():
            conn.close()
        else:
            self._others(conn, left)

    def _answer_all(self, conn: socket.socket) -> bytes | None:
        """What was read and is not for us; None when there is nothing more to come."""
        got, served = b"", False
        while not self._stopped.is_set():
            if not got:
                try:
                    got = conn.recv(_CHUNK)
                except BlockingIOError:
                    return None if served else b""
                if not got:
                    return None
            head = plain_head(got)
            if head is None:
                return got
            end = head.begins + head.length
            while len(got) < end:
                try:
                    more = conn.recv(_CHUNK)
                except BlockingIOError:
                    return got
                if not more:
                    return None
                got += more
            with self._turns:
                reply = self._submit(_asked(head, got[head.begins : end]))
            self._reply(conn, reply)
            got, served = got[end:], True
        return None

    def _reply(self, conn: socket.socket, reply: Reply) -> None:
        fields = [f"{name}: {value}\r\n" for name, value in reply.headers]
        fields += [f"{name.decode()}: {value.decode()}\r\n" for name, value in self._stamp()]
        if self._stopped.is_set():
            fields.append("connection: close\r\n")
        head = (
            f"HTTP/1.1 {reply.status} {http.HTTPStatus(reply.status).phrase}\r\n{''.join(fields)}"
            f"content-type: {reply.media}\r\ncontent-length: {len(reply.body)}\r\n\r\n"
        )
        conn.sendall(head.encode("latin-1") + reply.body)


def plain_head(got: bytes) -> Head | None:
    """The head of a submission in its plainest form; None for everything that somebody else should read."""
    end = got.find(b"\r\n\r\n")
    if end < 0 or not got.startswith(FIRST_LINE):
        return None
    fields: dict[str, str] = {}
    for line in got[len(FIRST_LINE) : end].decode("latin-1").split("\r\n"):
        name, colon, value = line.partition(":")
        name, value = name.lower(), value.strip(" \t")
        usual = name.isascii() and name.replace("-", "").isalnum() and value.isascii()
        if not colon or not usual or name in fields or (value and not value.isprintable()):
            return None
        fields[name] = value
    length = fields.get("content-length", "")
    if "host" not in fields or not _OTHERS_DO.isdisjoint(fields) or not (length.isdigit() and len(length) < 9):
        return None
    if fields.get("connection", "keep-alive").lower() != "keep-alive" or int(length) > MOST_BODY:
        return None
    return Head(fields, end + 4, int(length))


def _asked(head: Head, body: bytes) -> Asked:
    return Asked(body, head.fields.get("authorization", ""), head.fields.get("idempotency-key", ""))


def _shut(conn: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    with contextlib.suppress(OSError):
        conn.shutdown(how)
