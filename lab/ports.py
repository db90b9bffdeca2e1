"""Loopback ports that stay ours from the start of a lab to its end, over restarts of their server.

Used by `lab.cluster`. Ports come from below the kernel's ephemeral range, so that no outgoing connection can take
one while its server is down, and each is guarded by a lock file, so that two labs never choose the same.
"""

import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from lab.errors import LabError

FIRST, LAST = 20_000, 32_000


class Ports:
    """Hands out ports; `close` gives them back."""

    def __init__(self) -> None:
        # One folder for all users of this machine: a port is a machine-wide thing.
        self._folder = Path(tempfile.gettempdir()) / "dure-lab-ports"
        self._held: list[IO[bytes]] = []

    def take(self) -> int:
        for port in self._candidates():
            lock = self._lock(port)
            if lock is None:
                continue
            if _is_free(port):
                self._held.append(lock)
                return port
            lock.close()
        raise LabError(f"no free loopback port between {FIRST} and {LAST}; stop some labs")

    def close(self) -> None:
        for lock in self._held:
            lock.close()
        self._held.clear()

    def _candidates(self) -> Iterator[int]:
        width = LAST - FIRST
        start = os.getpid() * 64 % width
        return (FIRST + (start + offset) % width for offset in range(width))

    def _lock(self, port: int) -> IO[bytes] | None:
        self._folder.mkdir(mode=0o1777, exist_ok=True)
        lock = (self._folder / str(port)).open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return None
        return lock


def in_use(port: int) -> bool:
    """Whether a lab that lives holds this port."""
    lock = Ports()._lock(port)
    if lock is None:
        return True
    lock.close()
    return False


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
