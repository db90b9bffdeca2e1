"""Whose turn it is among tenants that each own a part of a device: whoever has had least of its part goes first.

Start-time fair queueing (Goyal, Vin, Cheng 1996): a piece begins at the later of the device's virtual time and the
end of the tenant's last piece, and takes its length divided by the tenant's part. However much a neighbour asks for,
a tenant that comes back from idling waits for the pieces that run, not for the neighbour's backlog; and what it did
not use it has not saved up either. Called by the executor; O(n log n) for n tenants.
"""

from __future__ import annotations

from collections.abc import Iterable


class Turns:
    """`come` and `go` with a tenant, `begin` and `end` with each of its pieces."""

    def __init__(self) -> None:
        self._parts: dict[str, float] = {}
        self._tags: dict[str, float] = {}
        self._now = 0.0

    def come(self, name: str, part: float) -> None:
        self._parts[name] = part
        self._tags[name] = self._now

    def go(self, name: str) -> None:
        self._parts.pop(name, None)
        self._tags.pop(name, None)

    def begin(self, name: str) -> None:
        if name in self._parts:
            self._tags[name] = self._now = max(self._now, self._tags[name])

    def end(self, name: str, length: float) -> None:
        if name in self._parts:
            self._tags[name] += length / self._parts[name]

    def ordered(self, names: Iterable[str]) -> list[str]:
        """Those who own a part, the next one first; ties by name."""
        return sorted((n for n in names if n in self._parts), key=lambda n: (max(self._now, self._tags[n]), n))
