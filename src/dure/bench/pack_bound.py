"""No policy can do better: a linear program over the pods that arrived, solved by column generation.

Hosts of one model are pooled, pods may be split, and single devices are cut by any pattern of fractions that fits;
each of these only helps the packer, so the optimum bounds every policy, also one that moves pods. Nodes without a pod
that names models are pooled all together. The tighter bound is for whoever refuses nothing before some arrival: the
plain one reaches its figure by turning away awkward pods, which a packer that takes whatever fits never may.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import highspy
import numpy as np
from numpy.typing import NDArray

from dure.bench.pack_trace import Fleet
from dure.pack.ask import Ask
from dure.pack.codes import WHOLE
from dure.pack.cutting import knapsack, unroll

_ROUNDS = 400

# Worse than leaving any pod out: the gain of one is at most some thousands.
_STAND_IN = -100_000.0


def bound_pct(fleet: Fleet, arrived: Sequence[Ask], kept: int = 0) -> float:
    """The largest share of the fleet's devices, in percent, that any packing of these asks can allocate.

    With `kept`, any packing that holds all of the first so many asks: whoever refuses nothing before that point.
    """
    must = Counter(ask for ask in arrived[:kept] if ask.pieces)
    program = _Program(fleet, Counter(ask for ask in arrived if ask.pieces), must)
    return 100.0 * program.solve() / fleet.capacity_milli


class _Program:
    """Columns: amount of each shape on each type (first), then cutting patterns per type as they are found."""

    def __init__(self, fleet: Fleet, counts: Counter[Ask], must: Counter[Ask]) -> None:
        every = (1 << len(fleet.models)) - 1
        self.typed = any(ask.types & every != every for ask in counts)
        self.types = len(fleet.models) if self.typed else 1
        self.sizes = np.array(sorted({ask.milli for ask in counts if ask.milli < WHOLE}), np.int64)
        self.highs = highspy.Highs()
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("threads", 1)
        self.highs.changeObjectiveSense(highspy.ObjSense.kMaximize)
        self.counts = counts
        self._add_rows(fleet, counts)
        self._add_shapes(counts)
        self._oblige(must)

    def solve(self) -> float:
        for _ in range(_ROUNDS):
            self.highs.run()
            if not self._add_patterns(np.array(self.highs.getSolution().row_dual)):
                break
        return float(self.highs.getObjectiveValue())

    def _add_rows(self, fleet: Fleet, counts: Counter[Ask]) -> None:
        self.supply = {ask: self._row(amount) for ask, amount in sorted(counts.items())}
        self.widths = sorted({ask.pieces for ask in counts if ask.pieces > 1})
        self.cpu, self.mem, self.devices = [], [], []
        self.wide: list[dict[int, int]] = []
        self.cuts: list[list[int]] = []
        for typ in range(self.types):
            hosts = [host for host in fleet.hosts if not self.typed or host.typ == typ]
            self.cpu.append(self._row(sum(host.cpu for host in hosts)))
            self.mem.append(self._row(sum(host.mem for host in hosts)))
            self.devices.append(self._row(sum(len(host.parts) for host in hosts)))
            self.wide.append({w: self._row(sum(len(host.parts) // w for host in hosts)) for w in self.widths})
            self.cuts.append([self._row(0) for _ in self.sizes])

    def _row(self, most: float) -> int:
        self.highs.addRow(-highspy.kHighsInf, float(most), 0, np.array([], np.int32), np.array([], np.float64))
        return int(self.highs.getNumRow()) - 1

    def _add_shapes(self, counts: Counter[Ask]) -> None:
        for ask in sorted(counts):
            for typ in range(self.types):
                if self.typed and not ask.types >> typ & 1:
                    continue
                entries = {self.supply[ask]: 1.0, self.cpu[typ]: float(ask.cpu), self.mem[typ]: float(ask.mem)}
                if ask.milli < WHOLE:
                    entries[self.cuts[typ][int(np.searchsorted(self.sizes, ask.milli))]] = 1.0
                else:
                    entries[self.devices[typ]] = float(ask.pieces)
                    entries |= {row: 1.0 for width, row in self.wide[typ].items() if width <= ask.pieces}
                self._column(float(ask.pieces * ask.milli), entries)

    def _oblige(self, must: Counter[Ask]) -> None:
        """What must be held; a dear stand-in keeps the program solvable until enough patterns are found."""
        for ask, amount in sorted(must.items()):
            self.highs.changeRowBounds(self.supply[ask], float(amount), float(self.counts[ask]))
            self._column(_STAND_IN, {self.supply[ask]: 1.0})

    def _add_patterns(self, duals: NDArray[np.float64]) -> bool:
        found = False
        for typ in range(self.types):
            # A fraction's row says amount - cut <= 0; its dual is what one more cut piece would bring.
            prices = np.maximum(duals[self.cuts[typ]], 0.0) if self.sizes.size else np.zeros(0)
            values, taken = knapsack(self.sizes, prices, WHOLE)
            if values[WHOLE] <= duals[self.devices[typ]] + 1e-6:
                continue
            pattern = unroll(self.sizes, taken)
            entries = {row: -float(pattern[i]) for i, row in enumerate(self.cuts[typ]) if pattern[i]}
            self._column(0.0, entries | {self.devices[typ]: 1.0})
            found = True
        return found

    def _column(self, gain: float, entries: dict[int, float]) -> None:
        rows = np.array(list(entries), np.int32)
        weights = np.array(list(entries.values()), np.float64)
        self.highs.addCol(gain, 0.0, highspy.kHighsInf, len(entries), rows, weights)
