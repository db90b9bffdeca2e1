"""The cost of a placement in plain Python: the twin of `kernels` that people read and tests compare with.

Also what the live packer scores its few candidate seats with (`score`). Same integers, same result. Cost per call:
O(devices of the node).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from dure.pack.codes import (
    BACK,
    BACK_CPU,
    BINS,
    CORE_PRICE,
    CUT0,
    RAM_PER_DEVICE,
    RAM_PRICE,
    RHO,
    SHIFT,
    TIE_CPU,
    TIE_IDLE,
    WHOLE,
    WIDE,
    WIDE_PRICE,
)
from dure.pack.worth import Tables


class PlainTables(NamedTuple):
    """The tables as lists: single figures of an array are slow to read from Python."""

    levels: list[int]
    value: list[list[list[int]]]
    rates: list[list[list[int]]]
    idles: list[list[int]]
    scal: list[int]


def plain_tables(t: Tables) -> PlainTables:
    return PlainTables(t.levels.tolist(), t.value.tolist(), t.rates.tolist(), t.idles.tolist(), t.scal.tolist())


class PlainNode(NamedTuple):
    """Free host CPU (thousandths) and memory (MiB), the type, and the code of each device."""

    cpu: int
    mem: int
    typ: int
    codes: tuple[int, ...]


def potential(t: PlainTables, node: PlainNode) -> int:
    """Phi of a node in millionths of a device: idle capacity that typical demand cannot use, less what remainders are
    worth, plus host CPU and memory that will be missing beside the idle devices."""
    level = bisect_right(t.levels, node.cpu)
    idles, values, rates = t.idles[node.typ], t.value[node.typ][level], t.rates[node.typ][level]
    idle = sum(map(idles.__getitem__, node.codes))
    whole = node.codes.count(WHOLE) + node.codes.count(CUT0)
    total = sum(map(values.__getitem__, node.codes))
    total += (rates[-1] * idle >> SHIFT) - rates[whole]
    back = min(t.scal[BACK], len(node.codes) * WHOLE - idle)
    host = node.cpu + (t.scal[BACK_CPU] * back >> SHIFT)
    short = sum(max(0, (rho * (idle + back) >> SHIFT) - host) for rho in t.scal[RHO : RHO + BINS])
    total += short * CORE_PRICE
    ram = (t.scal[RAM_PER_DEVICE] * idle >> SHIFT) - node.mem
    if ram > 0:
        total += ram * t.scal[RAM_PRICE] >> 10
    if len(node.codes) >= t.scal[WIDE] and whole < len(node.codes):
        total += t.scal[WIDE_PRICE]
    return total


def pull(t: PlainTables, after: PlainNode) -> int:
    """The slight preference for nodes that are left with little."""
    idle = sum(t.idles[after.typ][code] for code in after.codes)
    return (t.scal[TIE_CPU] * after.cpu >> SHIFT) + (t.scal[TIE_IDLE] * idle >> SHIFT)


def step_cost(t: PlainTables, before: PlainNode, after: PlainNode) -> int:
    """What going from one state of a node to the next costs."""
    return potential(t, after) - potential(t, before) + pull(t, after)
