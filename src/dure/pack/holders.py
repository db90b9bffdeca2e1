"""Who holds which seat of a grid, as arrays that the loops of `leaving` can walk. Kept by whoever may move them."""

from __future__ import annotations

import numpy as np

from dure.pack.ask import Ask
from dure.pack.codes import ASK_FIELDS, Ints
from dure.pack.grid import Seat


class Holders:
    """Rows of seats. `node[h]` is -1 where row h holds none; a row is used again when its holder has left."""

    def __init__(self, widest: int) -> None:
        self.node: Ints = np.full(64, -1, np.int64)
        self.kind: Ints = np.zeros(64, np.int64)
        self.devices: Ints = np.full((64, max(1, widest)), -1, np.int64)
        self.bits: Ints = np.zeros(64, np.int64)
        self.asks: Ints = np.zeros((16, ASK_FIELDS), np.int64)
        self.kinds: list[Ask] = []
        self.count = 0
        self._numbers: dict[Ask, int] = {}
        self._free: list[int] = []
        self._end = 0

    def add(self, ask: Ask, seat: Seat) -> int:
        """One more holder; answers its row."""
        row = self._free.pop() if self._free else self._end
        if row == self._end:
            self._end += 1
            if row == self.node.size:
                self._grow()
        self.kind[row] = self._number(ask)
        self.count += 1
        self.sit(row, seat)
        return row

    def drop(self, row: int) -> None:
        self.node[row] = -1
        self.count -= 1
        self._free.append(row)

    def ask(self, row: int) -> Ask:
        return self.kinds[int(self.kind[row])]

    def seat(self, row: int) -> Seat:
        taken = self.devices[row, : self.ask(row).pieces]
        return Seat(int(self.node[row]), tuple(int(d) for d in taken), int(self.bits[row]))

    def sit(self, row: int, seat: Seat) -> None:
        """Note another seat of the same holder."""
        self.node[row], self.bits[row] = seat.node, seat.bits
        self.devices[row, : len(seat.devices)] = seat.devices

    def rows(self) -> int:
        """Rows in use or used before."""
        return self._end

    def by_node(self, nodes: int) -> tuple[Ints, Ints]:
        """Holders sorted by node, and where each node's begin."""
        there = np.flatnonzero(self.node[: self._end] >= 0)
        there = there[np.argsort(self.node[there], kind="stable")]
        return np.searchsorted(self.node[there], np.arange(nodes + 1)), there

    def _number(self, ask: Ask) -> int:
        number = self._numbers.get(ask)
        if number is None:
            number = self._numbers[ask] = len(self.kinds)
            self.kinds.append(ask)
            if number == self.asks.shape[0]:
                self.asks = np.concatenate([self.asks, np.zeros_like(self.asks)])
            self.asks[number] = ask
        return number

    def _grow(self) -> None:
        self.node = np.concatenate([self.node, np.full_like(self.node, -1)])
        self.kind = np.concatenate([self.kind, np.zeros_like(self.kind)])
        self.devices = np.concatenate([self.devices, np.full_like(self.devices, -1)])
        self.bits = np.concatenate([self.bits, np.zeros_like(self.bits)])
