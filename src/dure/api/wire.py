"""Requests as they come over the wire, read by a parser in C, with what uvicorn's own reading of them leaves open.

Given to uvicorn by the server, in place of whichever parser happens to be installed. Nobody can make it hold much
more than `MOST_HEAD` bytes that are neither body nor a whole head. Nothing that follows a body counts as a header.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Of a head, of trailers, or of what may stand beside the length of a chunk.
MOST_HEAD = 64 * 1024


class Wire(HttpToolsProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unread = 0
        self._in_head = True

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        super().data_received(data)
        if self._unread > MOST_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers come after the gate has let the request in, or while it still looks: they must not say who asks.
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._unread = False, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread = 0
        super().on_message_complete()
