"""`dure bench pack --timed` and `--mig`: pods come and go, fractions may have to be MIG profiles.

Pods leave again after their recorded time and wait in a queue when they do not fit. The fleet is every twentieth
node, and arrivals are spaced so that the demand is its capacity; the first fifth is warm-up. With `--mig` it becomes
A100 and H100 nodes and every fraction the smallest legal profile that covers it; rivals are first fit (as operators
that cut on demand do), best fit and FGD on the same profiles. A packed sample is compared with an exact program.
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
from dure.bench.progress import cells
from dure.bench.result import Result
from dure.model.errors import InvalidInput
from dure.pack.ask import Ask
from dure.pack.grid import Grid, Seat

_LOAD = 1.0
_EVERY = 20
_WARM_UP = 0.2
_LENGTH_S = 6 * 3600.0
_LOOKED_AT = 24


class Tally(msgspec.Struct):
    """Integrals over time: device-seconds held, queued, and idle while somebody waits."""

    held: float = 0.0
    queued: float = 0.0
    stranded: float = 0.0
    span: float = 0.0


def timed_result(
    lists: dict[str, list[TracePod]], nodes: list[TraceNode], policies: str, seeds: Sequence[int], *, mig: bool
) -> Result:
    """Rows of time-weighted figures per list, policy and seed."""
    chosen = [name for name in policies.split(",") if name in MIG_POLICIES]
    if not chosen:
        raise InvalidInput("no policy to run", remedy=f"Known with --timed and --mig: {', '.join(MIG_POLICIES)}")
    rows: list[dict[str, Any]] = []
    wanted = [(name, policy, seed) for name in lists for seed in seeds for policy in chosen]
    for name, policy, seed in cells(wanted, "pack timed"):
        part = nodes[::_EVERY] if len(nodes) >= 4 * _EVERY else nodes
        layout = Layout(part, lists[name], policy, mig=mig)
        times = _times(lists[name], layout.capacity_milli, seed)
        rows.append({"list": name, **_run(layout, lists[name], times, policy, seed)})
    summary: dict[str, Any] = {}
    for name in lists:
        for policy in chosen:
            mine = [row for row in rows if row["list"] == name and row["policy"] == policy]
            summary[f"{name}/{policy} allocated %"] = round(float(np.mean([row["alloc_pct"] for row in mine])), 2)
    if mig:
        summary |= exact_gap(list(seeds)[:3])
    return Result("pack", rows, summary)


def _run(
    layout: Layout, pods: Sequence[TracePod], times: Sequence[tuple[float, float]], policy: str, seed: int
) -> dict[str, Any]:
    """Replay in order of time up to the last arrival; what does not fit waits and is tried when something leaves."""
    events = sorted((at, layout.ask(pod), length) for (at, length), pod in zip(times, pods, strict=True))
    tally, queue, running = Tally(), Queue(), list[tuple[float, int, Ask, Seat]]()
    clock = events[0][0]
    warm = clock + _WARM_UP * (events[-1][0] - clock)
    decisions, waited, ticket = 0, 0, 0
    start = time.process_time()
    for at, ask, length in events:
        while running and running[0][0] <= at:
            end, _, done, seat = heapq.heappop(running)
            _advance(tally, layout.grid, end - clock, queue)
            clock = end
            layout.grid.free(done, seat)
            decisions, ticket = _drain(queue, layout, running, clock, decisions, ticket)
        _advance(tally, layout.grid, at - clock, queue)
        clock = at
        if decisions == 0 or at < warm:
            tally = Tally()
        decisions += 1
        found = layout.seat(ask)
        if found is None:
            waited += 1
            queue.add(ask, length)
        else:
            ticket += 1
            heapq.heappush(running, (at + length, ticket, ask, found))
    capacity = layout.capacity_milli * max(tally.span, 1.0)
    return {
        "policy": policy,
        "seed": seed,
        "devices": layout.capacity_milli // 1000,
        "alloc_pct": round(100.0 * tally.held / capacity, 3),
        "queued_gpu_hours": round(tally.queued / 3_600_000, 2),
        "stranded_pct": round(100.0 * tally.stranded / capacity, 3),
        "waited": waited,
        "moves_per_hour": 0.0,
        "decisions": decisions,
        "seconds": round(time.process_time() - start, 3),
    }


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


def _drain(
    queue: Queue,
    layout: Layout,
    running: list[tuple[float, int, Ask, Seat]],
    clock: float,
    decisions: int,
    ticket: int,
) -> tuple[int, int]:
    """Let waiting pods in, the shapes that wait longest first."""
    for ask in list(queue.kinds)[:_LOOKED_AT]:
        while ask in queue.kinds:
            decisions += 1
            seat = layout.seat(ask)
            if seat is None:
                break
            ticket += 1
            heapq.heappush(running, (clock + queue.pop(ask), ticket, ask, seat))
    return decisions, ticket
