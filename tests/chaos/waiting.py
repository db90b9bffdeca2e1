"""Waiting for servers that come and go, for the drivers of all worlds."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TypeVar

import httpx

from dure.model.errors import DureError

T = TypeVar("T")


def until_done(attempt: Callable[[], T], what: str, patience_s: float = 180.0, pause_s: float = 0.3) -> T:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return attempt()
        except (httpx.HTTPError, OSError, ValueError, DureError) as error:
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {patience_s:.0f} s in vain for {what}: {error}") from error
            time.sleep(pause_s)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
