"""When answers go out: those of a tenant with a backlog not while a neighbour without one is on its way back.

Neighbours share more than a device's threads: the host's processors, on which the daemon packs answers and
containers take them and ask again. A tenant that has nothing else inside is likely to ask again at once, and whatever
the host does for others until then delays it. One with a backlog loses nothing if its answer goes out a little later,
while the other one computes: its next request is here already. State of the executor's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from typing import Any, NamedTuple

from dure.device.request import Request

HELD_MS = 2.0
"""An answer waits at most so long, and so long a neighbour counts as on its way back. A way back takes about one."""


class Letter(NamedTuple):
    tenant: str
    request: Request
    outputs: dict[str, Any]
    at_ms: float


class Post:
    def __init__(self) -> None:
        self._held: deque[Letter] = deque()
        self._away: dict[str, float] = {}
        """When those with nothing inside were last answered."""

    def holds(self, letter: Letter, left: int) -> bool:
        """Whether to send it later; `left` is what its tenant still has inside. If not, it goes out now."""
        others = any(letter.at_ms < at + HELD_MS for name, at in self._away.items() if name != letter.tenant)
        if left > 0 and others:
            self._held.append(letter)
            return True
        if left == 0:
            self._away[letter.tenant] = letter.at_ms
        return False

    def due(self, now_ms: float, inside: Container[str]) -> list[Letter]:
        """What should go out now; `inside` are those who have come back and whose work was handed out."""
        self._away = {n: at for n, at in self._away.items() if now_ms < at + HELD_MS and n not in inside}
        found = []
        while self._held and (not self._away or now_ms >= self._held[0].at_ms + HELD_MS):
            found.append(self._held.popleft())
        return found

    def wait_ms(self, now_ms: float) -> float | None:
        """Until the next is due at the latest."""
        return max(0.0, self._held[0].at_ms + HELD_MS - now_ms) if self._held else None
