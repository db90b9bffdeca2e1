"""What wakes the executor: a lane that says something, or anybody who rings.

The set of pipes changes only when a process starts or ends, so the kernel is told of it then and not at every wait;
and a bell that has been rung is not rung again before it was heard, however many requests come meanwhile. `ring` may
be called from any thread, everything else is the executor's.
"""

from __future__ import annotations

import multiprocessing
import os
import selectors
import threading
from multiprocessing.connection import Connection


class Ears:
    def __init__(self) -> None:
        self._bell, self._rope = multiprocessing.Pipe(duplex=False)
        self._lock = threading.Lock()
        self._rung = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._bell, selectors.EVENT_READ, None)

    def ring(self) -> None:
        with self._lock:
            if self._rung:
                return
            self._rung = True
        os.write(self._rope.fileno(), b"!")

    def follow(self, name: str, pipe: Connection) -> None:
        self._selector.register(pipe, selectors.EVENT_READ, name)

    def forget(self, pipe: Connection) -> None:
        """Before the pipe is closed: its number may soon be another's."""
        self._selector.unregister(pipe)

    def listen(self, timeout_s: float) -> list[str]:
        """Who has something to say by then; empty after a ring or when nobody spoke."""
        names = []
        for key, _ in self._selector.select(timeout_s):
            if key.data is not None:
                names.append(key.data)
                continue
            os.read(self._bell.fileno(), 64)
            with self._lock:
                self._rung = False
        return names
