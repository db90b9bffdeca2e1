"""The cost of a placement in plain Python: the twin of `kernels` that people read and tests compare with.

Also what the live packer scores its few candidate seats with (`score`). Same integers, same result. Cost per call:
O(devices of the node).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from dure.pack.kernels import (
    BINS,
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


class PlainNode(NamedTuple):
    """Free host CPU (thousandths) and memory (MiB), the type, and the code of each device."""

    cpu: int
    mem: int
    typ: int
    codes: tuple[int, ...]


def potential(t: Tables, node: PlainNode) -> int:
    """Phi of a node in millionths of a device: idle capacity that typical demand cannot use, less what remainders are
    worth, plus host CPU and memory that will be missing beside the idle devices."""
    level = bisect_right(t.levels.tolist(), node.cpu)
    idle = sum(int(t.idles[node.typ, code]) for code in node.codes)
    whole = sum(code in (WHOLE, CUT0) for code in node.codes)
    rates = t.rates[node.typ, level]
    total = sum(int(t.value[node.typ, level, code]) for code in node.codes)
    total += (int(rates[-1]) * idle >> SHIFT) - int(rates[whole])
    short = sum(max(0, (int(rho) * idle >> SHIFT) - node.cpu) for rho in t.scal[RHO : RHO + BINS])
    total += short * (1000 // BINS)
    ram = (int(t.scal[RAM_PER_DEVICE]) * idle >> SHIFT) - node.mem
    if ram > 0:
        total += ram * int(t.scal[RAM_PRICE]) >> 10
    if len(node.codes) >= t.scal[WIDE] and whole < len(node.codes):
        total += int(t.scal[WIDE_PRICE])
    return total


def step_cost(t: Tables, before: PlainNode, after: PlainNode) -> int:
    """What going from one state of a node to the next costs, the pull towards full nodes included."""
    idle = sum(int(t.idles[after.typ, code]) for code in after.codes)
    pull = (int(t.scal[TIE_CPU]) * after.cpu >> SHIFT) + (int(t.scal[TIE_IDLE]) * idle >> SHIFT)
    return potential(t, after) - potential(t, before) + pull
