"""The typical demand, learned from arrivals and forgetting slowly.

Fed by whoever sees workloads arrive and leave; read by `worth`, which turns the mix into prices. Invariant: shares
depend on the arrivals alone, never on what was placed, so refusing a demand does not make it look rare.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from dure.pack.codes import WHOLE


class Shape(NamedTuple):
    """What of a demand matters for the others: host share, devices, and which types it accepts (bit mask)."""

    cpu: int
    mem: int
    pieces: int
    milli: int
    profile: int
    types: int

    @property
    def devices(self) -> float:
        """Device demand in whole devices."""
        return self.pieces * self.milli / 1000


class Size(NamedTuple):
    """A node as it is when empty: host CPU and memory, and how many devices."""

    cpu: int
    mem: int
    devices: int


class MixSettings(msgspec.Struct, frozen=True):
    """How fast the mix forgets, and how much of it counts as typical."""

    half_life: float = 20_000.0
    typical: float = 0.95
    prior: float = 2.0


USUAL = MixSettings()


class Mix:
    """Decaying counts per shape. Adding is O(1): instead of fading all counts, new ones weigh more."""

    def __init__(self, settings: MixSettings = USUAL, prior: Iterable[tuple[Shape, float]] = ()) -> None:
        self.settings = settings
        self._growth = 2.0 ** (1.0 / settings.half_life)
        self._unit = 1.0
        self._weights: dict[Shape, float] = {}
        total = 0.0
        for shape, weight in prior:
            self._weights[shape] = self._weights.get(shape, 0.0) + weight
            total += weight
        for shape in self._weights:
            self._weights[shape] *= settings.prior / total
        self.arrivals = 0
        self._came = self._gone = 0.0

    def add(self, shape: Shape, times: int = 1) -> None:
        """One more demand of this shape arrived."""
        self._unit *= self._growth**times
        self._weights[shape] = self._weights.get(shape, 0.0) + self._unit * times
        self._came += self._unit * times
        self.arrivals += times
        if self._unit > 1e9:
            self._came, self._gone = self._came / self._unit, self._gone / self._unit
            self._weights = {s: w / self._unit for s, w in self._weights.items() if w / self._unit > 1e-6}
            self._unit = 1.0

    def left(self, times: int = 1) -> None:
        """Somebody who was placed has gone, and what it held is free again."""
        self._gone += self._unit * times

    @property
    def turnover(self) -> float:
        """How many leave for each that arrives, at most one: 0 while the cluster only fills up."""
        return min(1.0, self._gone / self._came) if self._came else 0.0

    def copy(self) -> Mix:
        """The same mix, free to go its own way."""
        twin = Mix(self.settings)
        twin._unit, twin._weights, twin.arrivals = self._unit, dict(self._weights), self.arrivals
        twin._came, twin._gone = self._came, self._gone
        return twin

    def shares(self) -> list[tuple[Shape, float]]:
        """Every shape with its share of the arrivals, sorted by shape."""
        total = sum(self._weights[s] for s in sorted(self._weights))
        return [(s, self._weights[s] / total) for s in sorted(self._weights)]

    def typical(self) -> list[tuple[Shape, float]]:
        """The most frequent shapes (memory aside) that make up `settings.typical` of the arrivals, scaled to one."""
        merged: dict[Shape, float] = {}
        for shape, share in self.shares():
            bare = shape._replace(mem=0)
            merged[bare] = merged.get(bare, 0.0) + share
        ranked = sorted(merged.items(), key=lambda item: (-item[1], item[0]))
        kept: list[tuple[Shape, float]] = []
        covered = 0.0
        for shape, share in ranked:
            if covered >= self.settings.typical:
                break
            kept.append((shape, share))
            covered += share
        return [(shape, share / covered) for shape, share in kept]


def prior_of(nodes: Sequence[Size]) -> list[tuple[Shape, float]]:
    """Before anything arrived: whole and half devices with their even share of the hosts, and somebody who wants the
    whole of a widest node with more host CPU than all but the largest have. So those are not broken first."""
    devices = max(1, sum(node.devices for node in nodes))
    cpu = sum(node.cpu for node in nodes if node.devices) // devices
    mem = sum(node.mem for node in nodes if node.devices) // devices
    usual = [
        (Shape(cpu * 3 // 4, mem * 3 // 4, 1, WHOLE, -1, -1), 1.0),
        (Shape(cpu // 3, mem // 3, 1, 500, -1, -1), 1.0),
    ]
    widest = max((node.devices for node in nodes), default=0)
    sizes = sorted({node.cpu for node in nodes if node.devices == widest})
    if widest < 2 or len(sizes) < 2:
        return usual
    most = max(node.mem for node in nodes if node.devices == widest)
    return [*usual, (Shape(sizes[-2] + 1, most // 2, widest, WHOLE, -1, -1), 1.0)]
