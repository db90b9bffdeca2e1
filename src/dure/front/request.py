"""One HTTP/1.1 request: read from a client, written to a backend.

Called by `proxy` and `leg`, and by the modelled engines of `dure demo front`.
"""

from __future__ import annotations

import asyncio

import msgspec

HOP = {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade", b"expect"}


class Request(msgspec.Struct):
    """One parsed client request."""

    method: bytes
    path: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    version: bytes = b"HTTP/1.1"


async def read_request(reader: asyncio.StreamReader, body_bytes: int) -> Request | str | None:
    """One request; None when the client said nothing, a sentence when it is malformed."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return "request header is too large"
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head[:-4].split(b"\r\n")
    parts = first.split(b" ")
    if len(parts) != 3:
        return "not an HTTP request line"
    headers = [(name.strip(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    fields = {name.lower(): value for name, value in headers}
    if b"transfer-encoding" in fields:
        return "send a Content-Length; chunked request bodies are not taken"
    length = fields.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > body_bytes:
        return f"Content-Length must be a number up to {body_bytes}"
    body = await reader.readexactly(int(length))
    return Request(parts[0], parts[1], headers, body, parts[2])


def encode_request(request: Request, host: str) -> bytes:
    """The request for a backend: own Host, one turn, hop-by-hop headers left out."""
    lines = [b" ".join((request.method, request.path, b"HTTP/1.1")), b"Host: " + host.encode()]
    for name, value in request.headers:
        if name.lower() not in HOP and name.lower() != b"host":
            lines.append(name + b": " + value)
    lines.append(b"Connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n" + request.body
