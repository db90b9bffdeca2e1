"""Engines that sleep, in memory: an `EnginePort` that a test can look into and break."""

from __future__ import annotations

import threading

from dure.model.errors import Permanent, Temporary
from dure.model.pulse import Rest


class FakeEngines:
    """By address. Those of `down` do not answer, those of `broken` refuse to wake; `calls` says what was asked."""

    def __init__(self, *urls: str, patience_s: float = 1.0) -> None:
        self.rests = {url: Rest(asleep=False) for url in urls}
        self.down, self.broken, self.calls = set[str](), set[str](), list[tuple[str, str]]()
        self._patience_s = patience_s
        self._changed = threading.Condition()

    def put(self, url: str, *, asleep: bool = False, in_flight: int = 0) -> None:
        with self._changed:
            self.rests[url] = Rest(asleep, in_flight)
            self._changed.notify_all()

    def fetch_rest(self, url: str) -> Rest:
        with self._changed:
            return self._found(url)

    def sleep(self, url: str, *, abort: bool = False) -> None:
        with self._changed:
            self._found(url)
            self.calls.append(("abort" if abort else "sleep", url))
            if not abort and not self._changed.wait_for(lambda: self.rests[url].in_flight == 0, self._patience_s):
                raise Temporary("requests are inside", where=url)
            self.rests[url] = Rest(asleep=True)

    def wake(self, url: str) -> None:
        with self._changed:
            self._found(url)
            self.calls.append(("wake", url))
            if url in self.broken:
                raise Permanent("out of memory", where=url)
            self.rests[url] = Rest(asleep=False, in_flight=self.rests[url].in_flight)

    def _found(self, url: str) -> Rest:
        if url in self.down or url not in self.rests:
            raise Temporary("does not answer", where=url)
        return self.rests[url]
