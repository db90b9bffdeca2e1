"""The framing of an answer, taken apart as its bytes come: HTTP/1.1 heads and chunks, server-sent events. Pure.

Called by `carrier`, which has to see where one event ends to go on with another engine after it.
"""

from __future__ import annotations

import re

import msgspec

_BLANK = re.compile(rb"\r\n\r\n|\n\n|\r\r")
# No event of an engine is longer; what is, is no stream of events.
MOST_BYTES = 16 * 1024 * 1024


class Head(msgspec.Struct, frozen=True):
    """Status line and headers of an answer."""

    line: bytes
    fields: tuple[tuple[bytes, bytes], ...]

    @property
    def status(self) -> int:
        words = self.line.split(b" ", 2)
        return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0

    def field(self, name: bytes) -> bytes:
        return next((value for key, value in self.fields if key.lower() == name), b"").lower()

    @property
    def events(self) -> bool:
        """A stream of events that can be read here."""
        plain = self.field(b"content-encoding") in (b"", b"identity")
        return self.status == 200 and plain and self.field(b"content-type").startswith(b"text/event-stream")


def head_of(raw: bytes) -> Head:
    """Of everything up to the blank line."""
    first, *lines = raw.removesuffix(b"\r\n\r\n").split(b"\r\n")
    pairs = (line.partition(b":") for line in lines)
    return Head(first, tuple((name.strip(), value.strip()) for name, _, value in pairs))


def reframed(head: Head) -> bytes:
    """The head for the client: the body comes in chunks of the front's own, the connection ends with it."""
    own = (b"connection", b"keep-alive", b"transfer-encoding", b"content-length", b"trailer")
    lines = [head.line] + [name + b": " + value for name, value in head.fields if name.lower() not in own]
    return b"\r\n".join([*lines, b"Transfer-Encoding: chunked", b"Connection: close"]) + b"\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One chunk of a body; an empty one ends it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Events:
    """Bytes of a body go in as they come, whole events come out, without the blank line after each.

    `ended` says that the body came to its end, which for a body in chunks is not that of the connection. Framing that
    makes no sense raises ValueError.
    """

    def __init__(self, head: Head) -> None:
        self._chunked = b"chunked" in head.field(b"transfer-encoding")
        length = head.field(b"content-length")
        self._left = int(length) if length.isdigit() and not self._chunked else None
        self._raw = self._text = b""
        self.ended = self._left == 0

    def feed(self, raw: bytes) -> list[bytes]:
        self._text += self._unwrapped(raw)
        *events, self._text = _BLANK.split(self._text)
        if len(self._text) > MOST_BYTES:
            raise ValueError("an event is too long")
        return [event for event in events if event]

    def _unwrapped(self, raw: bytes) -> bytes:
        if self._chunked:
            self._raw += raw
            return self._chunks()
        if self._left is None:
            return raw
        data = raw[: self._left]
        self._left -= len(data)
        self.ended = self._left == 0
        return data

    def _chunks(self) -> bytes:
        found = []
        while not self.ended:
            line, mark, rest = self._raw.partition(b"\r\n")
            if not mark:
                break
            size = int(line.partition(b";")[0], 16)
            if size < 0:
                raise ValueError("a chunk of a negative size")
            if size == 0:
                self.ended = True
            elif len(rest) < size + 2:
                break
            else:
                found.append(rest[:size])
                self._raw = rest[size + 2 :]
        if len(self._raw) > MOST_BYTES:
            raise ValueError("a chunk is too long")
        return b"".join(found)
