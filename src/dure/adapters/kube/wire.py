"""Short requests over kept connections: as little work for each as Python allows.

An agent binds hundreds of pods in a burst, a gateway creates hundreds of Jobs, and a general HTTP client costs them
three times what the API server needs. `rest.Api` uses this for POSTs; everything else, and whatever is unusual here,
goes the usual way. Safe to call from many threads: a connection belongs to one request at a time.
"""

from __future__ import annotations

import collections
import select
import socket
import ssl
import threading
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

_CHUNK = 65536


class Answer(NamedTuple):
    status: int
    body: bytes


class Line(NamedTuple):
    """Where a server is, and what a request to it needs; for who speaks to it in another way than this."""

    host: str
    port: int
    prefix: str
    tls: ssl.SSLContext | None
    headers: list[tuple[str, str]]


class Broken(Exception):
    """The connection ended in the middle; whether the request was done is not known."""


class Wire:
    """Connections to one server. `tls` is None for a plain one."""

    def __init__(self, url: str, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if secure else 80)
        self._prefix = parts.path.rstrip("/")
        self._tls = tls if secure else None
        self._timeout_s = timeout_s
        self._idle: collections.deque[socket.socket] = collections.deque()
        self._session: ssl.SSLSession | None = None
        self._first = threading.Lock()
        self._closed = False

    def post(self, path: str, body: bytes, headers: Iterable[tuple[str, str]] = (), *, twice: bool = True) -> Answer:
        """A connection that the server has closed meanwhile is replaced once; `Broken` when that does not help.

        Without `twice` a request that was sent is never sent again: whether it was done may not be known.
        """
        extra = "".join(f"{name}: {value}\r\n" for name, value in headers)
        head = (
            f"POST {self._prefix}{path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\n{extra}"
            f"Content-Type: application/json\r\nAccept: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        data = head.encode("latin-1") + body
        kept = self._pop() if twice else self._pop_open()
        answer = self._try(kept, data) if kept is not None else None
        if answer is None and (twice or kept is None):
            answer = self._try_new(data)
        if answer is None:
            raise Broken("the server closed the connection")
        return answer

    def line(self, headers: list[tuple[str, str]]) -> Line:
        return Line(self._host, self._port, self._prefix, self._tls, headers)

    def close(self) -> None:
        self._closed = True
        while (kept := self._pop()) is not None:
            kept.close()

    def _pop(self) -> socket.socket | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _pop_open(self) -> socket.socket | None:
        """One on which the server has nothing to say: it says something unasked only when it hangs up."""
        while (kept := self._pop()) is not None:
            waiting = select.poll()
            waiting.register(kept, select.POLLIN)
            if not waiting.poll(0):
                return kept
            kept.close()
        return None

    def _try_new(self, data: bytes) -> Answer | None:
        """The first of many that come at once goes alone: the others resume its session, without certificates."""
        if self._unknown():
            with self._first:
                if self._unknown():
                    return self._try(self._open(), data)
        return self._try(self._open(), data)

    def _unknown(self) -> bool:
        return self._tls is not None and self._session is None

    def _open(self) -> socket.socket:
        try:
            plain = socket.create_connection((self._host, self._port), self._timeout_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is None:
                return plain
            return self._tls.wrap_socket(plain, server_hostname=self._host, session=self._session)
        except (OSError, ssl.SSLError) as error:
            raise Broken(str(error)) from error

    def _try(self, conn: socket.socket, data: bytes) -> Answer | None:
        """None when the connection was dead before the first byte of an answer."""
        try:
            conn.sendall(data)
            got = conn.recv(_CHUNK)
        except TimeoutError as error:
            conn.close()
            raise Broken("no answer in time") from error
        except (OSError, ssl.SSLError):
            got = b""
        if not got:
            conn.close()
            return None
        try:
            answer, keep = _read(conn, got)
        except (OSError, ValueError) as error:
            conn.close()
            raise Broken(str(error) or type(error).__name__) from error
        if self._session is None and isinstance(conn, ssl.SSLSocket):
            self._session = conn.session
        if keep and not self._closed:
            self._idle.append(conn)
        else:
            conn.close()
        return answer


def _read(conn: socket.socket, got: bytes) -> tuple[Answer, bool]:
    """The whole answer, and whether the connection may be used again."""
    while (end := got.find(b"\r\n\r\n")) < 0:
        got += _more(conn)
    lines = got[:end].decode("latin-1").split("\r\n")
    status = int(lines[0].split(" ", 2)[1])
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    rest = got[end + 4 :]
    if fields.get("transfer-encoding", "").lower() == "chunked":
        body = _read_chunks(conn, rest)
    else:
        length = int(fields["content-length"]) if "content-length" in fields else 0
        while len(rest) < length:
            rest += _more(conn)
        body = rest[:length]
    return Answer(status, body), fields.get("connection", "").lower() != "close"


def _read_chunks(conn: socket.socket, got: bytes) -> bytes:
    body = b""
    while True:
        while (end := got.find(b"\r\n")) < 0:
            got += _more(conn)
        size = int(got[:end].partition(b";")[0], 16)
        while len(got) < end + 2 + size + 2:
            got += _more(conn)
        if size == 0:
            return body
        body += got[end + 2 : end + 2 + size]
        got = got[end + 2 + size + 2 :]


def _more(conn: socket.socket) -> bytes:
    got = conn.recv(_CHUNK)
    if not got:
        raise ValueError("the answer ended too early")
    return got
