"""Requests that wait for a device, by tenant: handed in from any thread, taken out by the executor's.

A request stays at the head of its tenant's queue while its segments run, so what a tenant has inside is the length of
its queue.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from dure.device.request import Request
from dure.model.errors import NotFound, Temporary


class Queues:
    def __init__(self, tenants: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[Request]] = {name: deque() for name in tenants}
        self._numbers = 0
        self._closed = False

    def come(self, tenant: str) -> None:
        with self._lock:
            self._waiting[tenant] = deque()

    def go(self, tenant: str) -> list[Request]:
        """Its queue is no more; these were still in it."""
        with self._lock:
            return list(self._waiting.pop(tenant))

    def close(self) -> list[Request]:
        """Nobody is let in any more; these were still inside."""
        with self._lock:
            self._closed = True
            return [request for queue in self._waiting.values() for request in queue]

    def add(self, tenant: str, inputs: Mapping[str, Any], at_ms: float) -> Request:
        with self._lock:
            if self._closed:
                raise Temporary("the device is shutting down")
            if tenant not in self._waiting:
                known = ", ".join(sorted(self._waiting))
                raise NotFound(f"no tenant '{tenant}' on this device", remedy=f"Tenants: {known}.")
            self._numbers += 1
            request = Request(self._numbers, inputs, at_ms)
            self._waiting[tenant].append(request)
        return request

    def head(self, tenant: str) -> Request:
        return self._waiting[tenant][0]

    def take(self, tenant: str) -> Request | None:
        """The head leaves; None where nobody waits."""
        with self._lock:
            queue = self._waiting[tenant]
            return queue.popleft() if queue else None

    def heads(self) -> dict[str, Request]:
        """Of everybody who waits."""
        with self._lock:
            return {name: queue[0] for name, queue in self._waiting.items() if queue}

    def count(self, tenant: str) -> int:
        return len(self._waiting[tenant])

    def inside(self) -> dict[str, int]:
        """How many each tenant has inside, those with none included."""
        with self._lock:
            return {name: len(queue) for name, queue in sorted(self._waiting.items())}
