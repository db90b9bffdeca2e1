"""One demand in the numbers that the arrays speak. Built by `board` from a pod, by benchmarks from a trace."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dure.pack.codes import CUT, EXCLUSIVE, MPS, WHOLE, Ints
from dure.pack.mix import Shape


class Ask(NamedTuple):
    """Thousandths and MiB; `types` is a bit mask of accepted types; the order is that of `codes.CPU..GATE`.

    `pieces` whole devices in mode EXCLUSIVE; else one part of one device: `milli` of it (MPS, TIME) or a `profile`.
    `tenant` is at least 1; `isolation` 1 wants the device to itself; `engine` 1 takes the device's only media engine.
    `modes`, if not 0, is a bit mask of the modes a part may have: the device's own before any other. A node is asked
    only if it has the bit `gate`.
    """

    cpu: int
    mem: int
    pieces: int
    milli: int
    profile: int = -1
    dmem: int = 0
    dbw: int = 0
    mode: int = EXCLUSIVE
    types: int = -1
    tenant: int = 1
    isolation: int = 0
    engine: int = 0
    modes: int = 0
    gate: int = 0

    @property
    def shape(self) -> Shape:
        """What of it matters for the demand mix."""
        return Shape(self.cpu, self.mem, self.pieces, self.milli, self.profile, self.types)

    def row(self) -> Ints:
        return np.array(self, np.int64)


def device_ask(cpu: int, mem: int, count: int, milli: int, types: int) -> Ask:
    """The ask of a trace that knows devices and free fractions only: whole ones, or a part of one shared freely."""
    if count == 0:
        return Ask(cpu, mem, 0, 0, types=types)
    if count > 1 or milli >= WHOLE:
        return Ask(cpu, mem, count, WHOLE, types=types)
    return Ask(cpu, mem, 1, milli, mode=MPS, types=types)


def slice_ask(cpu: int, mem: int, profile: int, milli: int, types: int) -> Ask:
    """The ask for one slot profile (MIG or vNPU)."""
    return Ask(cpu, mem, 1, milli, profile=profile, mode=CUT, types=types)
