"""`dure bench pack --timed` and `--mig`: pods come and go, fractions may have to be MIG profiles.

With `--timed` pods leave at their recorded times and wait in a queue when they do not fit; without times in the list
they live as long as the middle of the others would. With `--mig` the fleet becomes A100 and H100 nodes and every
fraction the smallest legal profile that covers it; opponents are first fit (as operators that cut on demand do), best
fit and FGD on the same profiles. A packed sample is compared with an exact program (`pack_exact`).
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


class Tally(msgspec.Struct):
    """Integrals over time: device-seconds held, wished and queued."""

    held: float = 0.0
    wished: float = 0.0
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
        layout = Layout(nodes, lists[name], policy, mig=mig)
        rows.append({"list": name, **_run(layout, lists[name], policy, seed)})
    summary: dict[str, Any] = {}
    for name in lists:
        for policy in chosen:
            mine = [row for row in rows if row["list"] == name and row["policy"] == policy]
            summary[f"{name}/{policy} allocated %"] = round(float(np.mean([row["alloc_pct"] for row in mine])), 2)
    if mig:
        summary |= exact_gap(list(seeds)[:3])
    return Result("pack", rows, summary)


def _run(layout: Layout, pods: Sequence[TracePod], policy: str, seed: int) -> dict[str, Any]:
    """Replay in order of time with load scaled so that the fleet is just too small at the peak."""
    stay = _stays(pods, seed)
    events = _arrivals(pods, stay, layout)
    tally, queue, running = Tally(), deque[tuple[Ask, float]](), list[tuple[float, int, Ask, Seat]]()
    clock = events[0][0] if events else 0.0
    decisions, refused, ticket = 0, 0, 0
    start = time.process_time()
    for at, ask, length in [*events, (float("inf"), None, 0.0)]:
        while running and running[0][0] <= at:
            end, _, done, seat = heapq.heappop(running)
            _advance(tally, layout.grid, end - clock, queue)
            clock = end
            layout.grid.free(done, seat)
            decisions, ticket = _drain(queue, layout, running, clock, decisions, ticket)
        if ask is None:
            break
        _advance(tally, layout.grid, at - clock, queue)
        clock = at
        decisions += 1
        found = layout.seat(ask)
        if found is None:
            refused += 1
            queue.append((ask, length))
        else:
            ticket += 1
            heapq.heappush(running, (at + length, ticket, ask, found))
    capacity = layout.capacity_milli * max(tally.span, 1.0)
    return {
        "policy": policy,
        "seed": seed,
        "alloc_pct": round(100.0 * tally.held / capacity, 3),
        "queued_gpu_hours": round(tally.queued / 3_600_000, 2),
        "stranded_pct": round(100.0 * tally.stranded / capacity, 3),
        "waited": refused,
        "moves_per_hour": 0.0,
        "decisions": decisions,
        "seconds": round(time.process_time() - start, 3),
    }


def _stays(pods: Sequence[TracePod], seed: int) -> list[float]:
    """How long each pod stays; drawn from the list's own lengths where a pod has none."""
    known = [float(pod.deleted_s - pod.created_s) for pod in pods if pod.deleted_s > pod.created_s >= 0]
    rng = np.random.default_rng(seed)
    spare = known or [3600.0]
    return [
        float(pod.deleted_s - pod.created_s) if pod.deleted_s > pod.created_s >= 0 else float(rng.choice(spare))
        for pod in pods
    ]


def _arrivals(pods: Sequence[TracePod], stay: Sequence[float], layout: Layout) -> list[tuple[float, Ask, float]]:
    """Arrival, ask and length by time. Lengths are scaled so that the mean load is the capacity."""
    asks = [layout.ask(pod) for pod in pods]
    work = sum(length * pod.demand_milli for length, pod in zip(stay, pods, strict=True))
    times = sorted(pod.created_s for pod in pods if pod.created_s >= 0)
    span = float(times[-1] - times[0]) if len(times) > 1 else 1.0
    scale = layout.capacity_milli * span / max(work, 1.0)
    events = []
    for i, (pod, ask, length) in enumerate(zip(pods, asks, stay, strict=True)):
        at = float(pod.created_s) if pod.created_s >= 0 else span * i / len(pods)
        events.append((at, ask, max(1.0, length * scale)))
    return sorted(events, key=lambda event: (event[0], event[1], event[2]))


def _advance(tally: Tally, grid: Grid, seconds: float, queue: deque[tuple[Ask, float]]) -> None:
    if seconds <= 0:
        return
    capacity = sum(grid.hardware.devices) * 1000
    held = capacity - grid.idle_milli
    waiting = sum(ask.milli * ask.pieces for ask, _ in queue)
    tally.span += seconds
    tally.held += held * seconds
    tally.queued += waiting * seconds
    # Idle capacity while somebody waits is stranded: it is there and cannot be used.
    tally.stranded += min(waiting, capacity - held) * seconds


def _drain(
    queue: deque[tuple[Ask, float]], layout: Layout, running: list[tuple[float, int, Ask, Seat]],
    clock: float, decisions: int, ticket: int,
) -> tuple[int, int]:  # fmt: skip
    """Let waiting pods in, oldest first; a shape that just failed is not tried again in this round."""
    failed: set[Ask] = set()
    for _ in range(len(queue)):
        ask, length = queue.popleft()
        seat = None if ask in failed else layout.seat(ask)
        decisions += ask not in failed
        if seat is None:
            failed.add(ask)
            queue.append((ask, length))
            continue
        ticket += 1
        heapq.heappush(running, (clock + length, ticket, ask, seat))
    return decisions, ticket
