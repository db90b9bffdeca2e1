"""A cluster as arrays, with the demand mix it has seen: decide, take, give back, try out on a copy.

Under the `board` of live clusters, under `relocate`, and under the replays of traces. Every change costs O(changed);
`fork` shares the arrays until one side writes. Invariant: what is free plus what is seated equals
what there was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dure.pack import commit, index
from dure.pack.ask import Ask
from dure.pack.codes import (
    CUT,
    CUT0,
    D_BLANK,
    D_BW,
    D_CODE,
    D_COMPUTE,
    D_HOME,
    D_LIMIT,
    D_LINK,
    D_MEM,
    D_MODE,
    D_MODES,
    D_TOTAL,
    DEVICE_FIELDS,
    H_CPU,
    H_FIRST,
    H_GATES,
    H_MEM,
    H_RANK,
    H_SIZE,
    H_TYPE,
    HOST_FIELDS,
    LANES,
    NEVER,
    WHOLE,
    Ints,
)
from dure.pack.mix import Mix, Size, prior_of
from dure.pack.worth import USUAL, Hardware, Worth, WorthSettings, worth

ANY_MODE = 0b11111


class Part(NamedTuple):
    """One device of a node as it stands when empty. `modes` is a bit mask of the modes it offers."""

    mem: int = 0
    bw: int = 0
    link: int = 0
    home: int = 0
    modes: int = ANY_MODE
    limit: int = 1 << 14


class Host(NamedTuple):
    """One node: free host CPU and memory, its type, its devices."""

    cpu: int
    mem: int
    typ: int
    parts: tuple[Part, ...]


class Seat(NamedTuple):
    """Where an ask sits: node, devices, and the slot bits it took of the first one (0 unless cut)."""

    node: int
    devices: tuple[int, ...]
    bits: int


class Grid:
    """Arrays, totals, mix and index of one cluster. `learn` re-prices when the mix has grown by half or aged."""

    def __init__(
        self,
        hosts: Sequence[Host],
        hardware: Hardware,
        settings: WorthSettings = USUAL,
        mix: Mix | None = None,
        shapes: int = 64,
        priced: Worth | None = None,
    ) -> None:
        """With `priced`, somebody else learns and brings the prices."""
        self.hosts, self.devs = _arrays(hosts)
        self.hardware = hardware
        self.settings = settings
        self.mix = mix if mix is not None else Mix(prior=prior_of(sizes_of(hosts)))
        self.totals = np.zeros(1 + LANES, np.int64)
        self.needs = np.zeros(2 + LANES, np.int64)
        self.rows: dict[Ask, int] = {}
        self.index = index.new_index(len(hosts), shapes)
        self._shared = False
        self._next_lesson = 0
        self.priced: Worth = self.learn() if priced is None else self.adopt(priced)

    def learn(self) -> Worth:
        """Turn the mix as it is now into prices."""
        self._own()
        idle = self.idle_by_type() if self._next_lesson else ()
        mix = self.mix
        priced = worth(mix.shares(), mix.typical(), self.hardware, self.settings, idle, mix.turnover)
        seen = self.mix.arrivals
        self._next_lesson = seen + min(max(32, seen // 2), self.settings.lesson)
        return self.adopt(priced)

    def adopt(self, priced: Worth) -> Worth:
        """Price everything anew by these."""
        self._own()
        self.priced = priced
        t = priced.tables
        commit.recount(self.hosts, self.devs, t.levels, t.value, t.rates, t.idles, t.scal, self.totals)
        self.index.seen[:] = -1
        self.needs[:] = priced.needs(LANES)
        return priced

    def idle_by_type(self) -> list[float]:
        """Idle devices of each type."""
        homes = np.repeat(self.hosts[:, H_TYPE], self.hosts[:, H_SIZE])
        idle = self.priced.tables.idles[homes, self.devs[:, D_CODE]]
        by_type = np.bincount(homes, weights=idle, minlength=len(self.hardware.devices)) / WHOLE
        return [float(count) for count in by_type]

    def until_lesson(self) -> int:
        """How many more arrivals before the prices should be made anew."""
        return max(1, self._next_lesson - self.mix.arrivals)

    def arrived(self, asks: Sequence[Ask]) -> None:
        """Note arrivals in the mix, and learn when it is time."""
        for ask in asks:
            self.mix.add(ask.shape)
        if self.mix.arrivals >= self._next_lesson:
            self.learn()

    def left(self, ask: Ask, seat: Seat) -> None:
        """Somebody goes for good: give back what it held, and note in the mix that room comes back."""
        self.free(ask, seat)
        self.mix.left()

    def seat(self, ask: Ask) -> Seat | None:
        """Decide and take; None when it fits nowhere."""
        return self.seat_all([ask])[0]

    def seat_all(self, asks: Sequence[Ask]) -> list[Seat | None]:
        """Decide and take a stream, one after the other, each seeing the ones before."""
        shapes = np.array([self.row(ask) for ask in asks], np.int64)
        nodes, devices, bits = self.run(shapes)
        seats: list[Seat | None] = []
        for i, ask in enumerate(asks):
            taken = tuple(int(d) for d in devices[i, : ask.pieces])
            seats.append(Seat(int(nodes[i]), taken, int(bits[i])) if nodes[i] >= 0 else None)
        return seats

    def run(self, shapes: Ints, *, patient: bool = True) -> tuple[Ints, Ints, Ints]:
        """Decide and take for rows of the index: nodes (-1 where none), devices, slot bits.

        Without patience the first refusal is the last decision, and the answer is no longer than that.
        """
        self._own()
        nodes = np.full(shapes.shape[0], -1, np.int64)
        devices = np.full((shapes.shape[0], max(1, self.hardware.widest)), -1, np.int64)
        bits = np.zeros(shapes.shape[0], np.int64)
        done = commit.run(
            *self.index, self.hosts, self.devs, *self.priced.tables, self.totals, self.needs,
            shapes, nodes, devices, bits, patient,
        )  # fmt: skip
        return nodes[:done], devices[:done], bits[:done]

    def least_costs(self, asks: Sequence[Ask]) -> Ints:
        """What the cheapest seat of each would cost now in millionths of a device; NEVER where there is none."""
        self._own()
        out = np.full(len(asks), NEVER, np.int64)
        # More kinds than rows: later ones take the rows of earlier ones, so a few are asked at a time.
        for at in range(0, len(asks), self.settings.shapes):
            rows = np.array([self.row(ask) for ask in asks[at : at + self.settings.shapes]], np.int64)
            commit.least_costs(
                *self.index, self.hosts, self.devs, *self.priced.tables, self.totals, self.needs,
                rows, out[at : at + rows.size],
            )  # fmt: skip
        return out

    def seat_on(self, ask: Ask, node: int) -> Seat:
        """Take on a node that is known to fit, at its cheapest devices."""
        self._own()
        out = np.full(max(1, self.hardware.widest), -1, np.int64)
        bits = commit.take(self.hosts, self.devs, *self.priced.tables, self.totals, node, ask.row(), out)
        self.changed(node)
        return Seat(node, tuple(int(d) for d in out[: ask.pieces]), int(bits))

    def put(self, ask: Ask, seat: Seat) -> None:
        """Take capacity at a known seat (something that runs already)."""
        self._change(ask, seat, 1)

    def free(self, ask: Ask, seat: Seat) -> None:
        """Give back what the seat took."""
        self._change(ask, seat, -1)

    def changed(self, node: int) -> None:
        """Note that a node is no longer what it was."""
        ix = self.index
        ix.log[ix.clock[0] % ix.log.shape[0]] = node
        ix.clock[0] += 1

    def row(self, ask: Ask) -> int:
        """The index row of this ask. The index grows; past `settings.shapes` the row unused longest is given away."""
        self._own()
        known = self.rows.pop(ask, None)
        if known is not None:
            self.rows[ask] = known
            return known
        room = self.index.seen.shape[0]
        if len(self.rows) < room:
            row = len(self.rows)
        elif room < self.settings.shapes:
            self._widen(min(2 * room, self.settings.shapes))
            row = room
        else:
            # They are in the order in which they were asked for.
            row = self.rows.pop(next(iter(self.rows)))
        self.rows[ask] = row
        self.index.asks[row] = ask
        self.index.seen[row] = -1
        return row

    def forget(self) -> None:
        """No ask is known any more."""
        self._own()
        self.rows = {}
        self.index.seen[:] = -1

    def fork(self) -> Grid:
        """A copy for trying things out; arrays are copied only when one of the two changes."""
        twin = object.__new__(Grid)
        twin.__dict__.update(self.__dict__)
        self._shared = twin._shared = True
        return twin

    @property
    def idle_milli(self) -> int:
        return int(self.totals[0])

    @property
    def nbytes(self) -> int:
        """Memory of the arrays that grow with the cluster."""
        return int(self.hosts.nbytes + self.devs.nbytes + sum(array.nbytes for array in self.index))

    def _change(self, ask: Ask, seat: Seat, sign: int) -> None:
        self._own()
        t = self.priced.tables
        commit.change(
            self.hosts, self.devs, t.levels, t.value, t.rates, t.idles, t.scal, self.totals,
            seat.node, ask.row(), np.array(seat.devices or (-1,), np.int64), seat.bits, sign,
        )  # fmt: skip
        self.changed(seat.node)

    def _own(self) -> None:
        if not self._shared:
            return
        self.hosts, self.devs = self.hosts.copy(), self.devs.copy()
        self.totals, self.needs = self.totals.copy(), self.needs.copy()
        self.rows = dict(self.rows)
        self.index = index.Index(*(array.copy() for array in self.index))
        self.mix = self.mix.copy()
        self._shared = False

    def _widen(self, shapes: int) -> None:
        wider = index.new_index(self.hosts.shape[0], shapes)
        for old, new in zip(self.index, wider, strict=True):
            if old.shape == new.shape:
                new[...] = old
            else:
                new[: old.shape[0]] = old
        self.index = wider


def sizes_of(hosts: Sequence[Host]) -> list[Size]:
    return [Size(host.cpu, host.mem, len(host.parts)) for host in hosts]


def _arrays(hosts: Sequence[Host]) -> tuple[Ints, Ints]:
    rows = np.zeros((len(hosts), HOST_FIELDS), np.int64)
    devs = np.zeros((sum(len(host.parts) for host in hosts), DEVICE_FIELDS), np.int32)
    rows[:, H_GATES] = -1
    first = 0
    for n, host in enumerate(hosts):
        rows[n, [H_CPU, H_MEM, H_TYPE, H_FIRST, H_SIZE]] = host.cpu, host.mem, host.typ, first, len(host.parts)
        rows[n, H_RANK] = n
        for d, part in enumerate(host.parts, first):
            code = CUT0 if part.home == CUT else WHOLE
            devs[d, [D_CODE, D_MEM, D_BW, D_LIMIT]] = code, part.mem, part.bw, part.limit
            devs[d, [D_MODE, D_HOME, D_MODES, D_LINK]] = part.home, part.home, part.modes, part.link
            devs[d, [D_COMPUTE, D_TOTAL, D_BLANK]] = WHOLE, part.mem, code
        first += len(host.parts)
    return rows, devs
