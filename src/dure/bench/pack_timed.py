"""`dure bench pack --timed` and `--mig`: pods come and go, fractions may have to be MIG profiles.

Pods leave again after their recorded time and wait in a queue when they do not fit. The fleet is a twentieth of the
nodes, drawn by the seed, and arrivals are spaced so that the demand is its capacity; the first fifth is warm-up. With
`--mig` it becomes A100 and H100 nodes and every fraction the smallest legal profile that covers it; rivals are first
fit (as operators that cut on demand do), best fit and FGD on the same profiles. `dure+moves` may move one running pod
for each hundred that were placed. A packed sample is compared with an exact program.
"""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from dure.bench.pack_exact import exact_gap
from dure.bench.pack_fleet import MIG_POLICIES, Layout
from dure.bench.pack_trace import TraceNode, TracePod
from dure.bench.progress import Journal, cells
from dure.bench.result import Result
from dure.model.errors import InvalidInput
from dure.pack.ask import Ask
from dure.pack.budget import Budget
from dure.pack.grid import Grid, Seat
from dure.pack.holders import Holders
from dure.pack.relocate import move_for

_LOAD = 1.0
_PART = 20
_WARM_UP = 0.2
_LENGTH_S = 6 * 3600.0


class Tally(msgspec.Struct):
    """Integrals over time: device-seconds held, queued, and idle while somebody waits."""

    held: float = 0.0
    queued: float = 0.0
    stranded: float = 0.0
    span: float = 0.0


class TimedCell(msgspec.Struct, frozen=True):
    """What one replay with departures gave."""

    devices: int
    alloc_pct: float
    queued_gpu_hours: float
    stranded_pct: float
    waited: int
    moves: int
    moves_per_hour: float
    decisions: int
    seconds: float


def timed_result(
    lists: dict[str, list[TracePod]], nodes: list[TraceNode], policies: str, seeds: Sequence[int],
    journal: Journal[TimedCell], *, mig: bool,
) -> Result:  # fmt: skip
    """Rows of time-weighted figures per list, policy and seed; finished ones come out of the journal."""
    chosen = [name for name in policies.split(",") if name in MIG_POLICIES]
    if not chosen:
        raise InvalidInput("no policy to run", remedy=f"Known with --timed and --mig: {', '.join(MIG_POLICIES)}")
    rows: list[dict[str, Any]] = []
    wanted = [(name, policy, seed) for name in lists for seed in seeds for policy in chosen]
    for name, policy, seed in cells(wanted, "pack timed"):
        key = f"{name}/{policy}/{seed}"
        cell = journal.get(key)
        if cell is None:
            layout = Layout(_part(nodes, seed), lists[name], policy, mig=mig)
            times = _times(lists[name], layout.capacity_milli, seed)
            cell = _run(layout, lists[name], times, moving=policy == "dure+moves")
            journal.add(key, cell)
        rows.append({"list": name, "policy": policy, "seed": seed, **msgspec.structs.asdict(cell)})
    summary = _summary(rows)
    if mig:
        summary |= exact_gap(list(seeds))
    return Result("pack", rows, summary)


def _summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds by list and policy."""
    told = {"alloc_pct": "allocated %", "queued_gpu_hours": "queued GPU-hours", "stranded_pct": "stranded %"}
    summary: dict[str, Any] = {}
    for name, policy in dict.fromkeys((row["list"], row["policy"]) for row in rows):
        mine = [row for row in rows if (row["list"], row["policy"]) == (name, policy)]
        for key, words in told.items():
            summary[f"{name}/{policy} {words}"] = round(float(np.mean([row[key] for row in mine])), 2)
    return summary


def _part(nodes: Sequence[TraceNode], seed: int) -> list[TraceNode]:
    """A twentieth of the nodes in their order: a fleet small enough to be in balance within the list."""
    if len(nodes) < 4 * _PART:
        return list(nodes)
    drawn = np.random.default_rng(seed + 104_729).permutation(len(nodes))[: len(nodes) // _PART]
    return [nodes[i] for i in sorted(drawn)]


def _run(
    layout: Layout, pods: Sequence[TracePod], times: Sequence[tuple[float, float]], *, moving: bool
) -> TimedCell:
    """Replay in order of time up to the last arrival; what does not fit waits and is tried when something leaves."""
    events = sorted((at, layout.ask(pod), length) for (at, length), pod in zip(times, pods, strict=True))
    tally, queue, fleet = Tally(), Queue(), Running(layout, moving)
    clock = events[0][0]
    warm = clock + _WARM_UP * (events[-1][0] - clock)
    waited, moves = 0, 0
    start = time.process_time()
    for at, ask, length in events:
        while fleet.ends and fleet.ends[0][0] <= at:
            end = fleet.ends[0][0]
            _advance(tally, layout.grid, end - clock, queue)
            clock = end
            fleet.leave()
            _drain(queue, fleet, clock)
        _advance(tally, layout.grid, at - clock, queue)
        clock = at
        if at < warm:
            tally, moves = Tally(), fleet.moves
        if not fleet.enter(ask, at + length):
            waited += 1
            queue.add(ask, length)
        layout.arrived(ask)
    capacity = layout.capacity_milli * max(tally.span, 1.0)
    return TimedCell(
        devices=layout.capacity_milli // 1000,
        alloc_pct=round(100.0 * tally.held / capacity, 3),
        queued_gpu_hours=round(tally.queued / 3_600_000, 2),
        stranded_pct=round(100.0 * tally.stranded / capacity, 3),
        waited=waited,
        moves=fleet.moves,
        moves_per_hour=round((fleet.moves - moves) / max(tally.span / 3600, 1e-9), 3),
        decisions=fleet.decisions,
        seconds=round(time.process_time() - start, 3),
    )


class Running:
    """Pods that run, with the time each will leave; may move some of them to let another in."""

    def __init__(self, layout: Layout, moving: bool) -> None:
        self.layout = layout
        self.holders = Holders(layout.grid.hardware.widest)
        self.ends: list[tuple[float, int, int]] = []
        self.decisions = 0
        self.budget = Budget()
        self._moving = moving

    @property
    def moves(self) -> int:
        return self.budget.used

    def enter(self, ask: Ask, end: float) -> bool:
        """Seat the pod until `end`, by moves if they are allowed and the budget says so."""
        self.decisions += 1
        seat = self.layout.seat(ask)
        if seat is None and self._moving:
            way = move_for(self.layout.grid, ask, self.holders, self.budget)
            seat = way.seat if way is not None else None
        if seat is None:
            return False
        self._sit(ask, seat, end)
        return True

    def enter_each(self, asks: Sequence[Ask], ends: Sequence[float]) -> list[Ask]:
        """Seat what fits of these, without moves; answers who sits."""
        self.decisions += len(asks)
        seated = []
        for ask, seat, end in zip(asks, self.layout.seat_each(asks), ends, strict=True):
            if seat is not None:
                self._sit(ask, seat, end)
                seated.append(ask)
        return seated

    def _sit(self, ask: Ask, seat: Seat, end: float) -> None:
        self.budget.placed += 1
        heapq.heappush(self.ends, (end, self.budget.placed, self.holders.add(ask, seat)))

    def leave(self) -> None:
        """The next one goes."""
        row = heapq.heappop(self.ends)[2]
        self.layout.grid.left(self.holders.ask(row), self.holders.seat(row))
        self.holders.drop(row)


def _times(pods: Sequence[TracePod], capacity_milli: int, seed: int) -> list[tuple[float, float]]:
    """Arrival and length of each pod: the list's order and lengths, evenly spaced to ask for `_LOAD` of the fleet.

    The recorded months are nearly idle but for their end, and a tenth of the pods outlives them: lengths are cut at
    the ninth decile. A list without times gets lengths drawn by chance.
    """
    rng = np.random.default_rng(seed)
    drawn = rng.exponential(_LENGTH_S, size=len(pods))
    lengths = np.array(
        [
            pod.deleted_s - pod.created_s if pod.deleted_s > pod.created_s >= 0 else drawn[i]
            for i, pod in enumerate(pods)
        ],
        np.float64,
    )
    lengths = np.minimum(lengths, np.quantile(lengths, 0.9))
    work = float(sum(length * pod.demand_milli for length, pod in zip(lengths, pods, strict=True)))
    gap = work / len(pods) / (_LOAD * capacity_milli)
    order = sorted(range(len(pods)), key=lambda i: (pods[i].created_s, pods[i].name))
    at = np.zeros(len(pods))
    at[order] = np.arange(len(pods)) * gap + rng.exponential(gap, size=len(pods))
    return [(float(when), float(length)) for when, length in zip(at, lengths, strict=True)]


class Queue:
    """Waiting pods by shape, so that one refusal speaks for all of its kind."""

    def __init__(self) -> None:
        self.kinds: dict[Ask, deque[float]] = {}
        self.milli = 0

    def add(self, ask: Ask, length: float) -> None:
        self.kinds.setdefault(ask, deque()).append(length)
        self.milli += ask.milli * ask.pieces

    def pop(self, ask: Ask) -> float:
        """The oldest of one shape; a shape that came first stays first until none of it waits."""
        length = self.kinds[ask].popleft()
        self.milli -= ask.milli * ask.pieces
        if not self.kinds[ask]:
            del self.kinds[ask]
        return length


def _advance(tally: Tally, grid: Grid, seconds: float, queue: Queue) -> None:
    if seconds <= 0:
        return
    capacity = sum(grid.hardware.devices) * 1000
    held = capacity - grid.idle_milli
    tally.span += seconds
    tally.held += held * seconds
    tally.queued += queue.milli * seconds
    # Idle capacity while somebody waits is stranded: it is there and cannot be used.
    tally.stranded += min(queue.milli, capacity - held) * seconds


def _drain(queue: Queue, fleet: Running, clock: float) -> None:
    """Let in whoever fits, the kinds that wait longest first; moves are for the first of them alone."""
    first = next(iter(queue.kinds), None)
    if first is None:
        return
    while first in queue.kinds and fleet.enter(first, clock + queue.kinds[first][0]):
        queue.pop(first)
    waiting = [ask for ask in queue.kinds if ask != first]
    while waiting:
        seated = fleet.enter_each(waiting, [clock + queue.kinds[ask][0] for ask in waiting])
        for ask in seated:
            queue.pop(ask)
        waiting = [ask for ask in seated if ask in queue.kinds]
