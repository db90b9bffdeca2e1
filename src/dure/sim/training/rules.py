"""Schedulers for training jobs: ours, rigid and elastic, and those it is compared with.

FIFO and SRTF need no source. Tiresias: least attained service in two queues (NSDI'19). Gavel: a linear programme over
shares of time on each type, then rounds by how far each job is behind its share (OSDI'20).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dure.place.elastic import Choice, Wish, disturbed_s, shares
from dure.place.instance import Floats
from dure.sim.training.cluster import Job, Kind, Shape

# Tiresias' two queues are parted at this many device-seconds.
_QUEUE_S = 3600.0 * 4


def fifo(jobs: Sequence[Job], kinds: Sequence[Kind], _now_s: float) -> Mapping[str, Shape]:
    """In the order of arrival, never taken away, on the fastest type that has room; the head of the queue waits."""
    running = [job for job in jobs if job.shape is not None]
    waiting = [job for job in jobs if job.shape is None]
    return _in_order([*running, *waiting], kinds, keep=True, strict=True)


def srtf(jobs: Sequence[Job], kinds: Sequence[Kind], _now_s: float) -> Mapping[str, Shape]:
    order = sorted(jobs, key=lambda job: (_shortest(job, kinds), job.spec.name))
    return _in_order(order, kinds, keep=True)


def tiresias(jobs: Sequence[Job], kinds: Sequence[Kind], _now_s: float) -> Mapping[str, Shape]:
    order = sorted(jobs, key=lambda job: (job.served >= _QUEUE_S, job.spec.at_s, job.spec.name))
    return _in_order(order, kinds, keep=True)


class Gavel:
    """Maximises the sum of throughputs, each relative to the job's fastest type."""

    def __init__(self, round_s: float) -> None:
        self._round_s = round_s
        self._given: dict[tuple[str, str], float] = {}
        self._known: dict[tuple[str, ...], Floats] = {}

    def __call__(self, jobs: Sequence[Job], kinds: Sequence[Kind], now_s: float) -> Mapping[str, Shape]:
        shares_of = self._shares(jobs, kinds)
        order: list[tuple[float, float, Job, Kind]] = []
        for row, job in enumerate(jobs):
            if job.shape is not None:
                key = (job.spec.name, job.shape[0])
                self._given[key] = self._given.get(key, 0.0) + self._round_s
            for column, kind in enumerate(kinds):
                share = float(shares_of[row, column])
                given = self._given.get((job.spec.name, kind.name), 0.0)
                if job.seconds_left(kind, job.spec.replicas) < float("inf"):
                    order.append((share / (given + self._round_s), share, job, kind))
        order.sort(key=lambda one: (-one[0], -one[1], one[2].spec.name, one[3].name))
        free = {kind.name: kind.total for kind in kinds}
        wanted: dict[str, Shape] = {}
        for _, _, job, kind in order:
            if job.spec.name not in wanted and job.spec.replicas <= free[kind.name]:
                free[kind.name] -= job.spec.replicas
                wanted[job.spec.name] = (kind.name, job.spec.replicas)
        return wanted

    def _shares(self, jobs: Sequence[Job], kinds: Sequence[Kind]) -> Floats:
        key = tuple(job.spec.name for job in jobs)
        if key not in self._known:
            self._known = {key: _optimal(jobs, kinds)}
        return self._known[key]


def _optimal(jobs: Sequence[Job], kinds: Sequence[Kind]) -> Floats:
    """The share of time of each job on each type."""
    import highspy

    speed = np.array([[1.0 / job.seconds_left(kind, job.spec.replicas) for kind in kinds] for job in jobs])
    speed /= np.maximum(speed.max(axis=1, keepdims=True), 1e-12)
    count, width = speed.shape
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    for gain in speed.ravel():
        solver.addCol(-float(gain), 0.0, 1.0, 0, [], [])
    for row in range(count):
        solver.addRow(-highspy.kHighsInf, 1.0, width, np.arange(width) + row * width, np.ones(width))
    need = np.array([job.spec.replicas for job in jobs], np.float64)
    for column, kind in enumerate(kinds):
        index = np.arange(count) * width + column
        solver.addRow(-highspy.kHighsInf, float(kind.total), count, index, need)
    solver.run()
    return np.array(solver.getSolution().col_value).reshape(speed.shape)


class Ours:
    """`place.elastic`: a rigid job names its own size on each type, an elastic one every size that was measured."""

    def __init__(self, fairness: float) -> None:
        self._fairness = fairness

    def __call__(self, jobs: Sequence[Job], kinds: Sequence[Kind], now_s: float) -> Mapping[str, Shape]:
        wishes, shapes = [], []
        for job in jobs:
            ways = [
                (kind.name, devices, job.seconds_left(kind, devices))
                for kind in kinds
                for devices in (_sizes(kind) if job.elastic else [job.spec.replicas])
                if devices <= kind.total
            ]
            ways = [way for way in ways if way[2] < float("inf")]
            names = [kind.name for kind in kinds]
            wishes.append(
                Wish(
                    tuple(
                        Choice(names.index(name), devices, _until_done(job, (name, devices), seconds, now_s))
                        for name, devices, seconds in ways
                    )
                )
            )
            shapes.append(ways)
        chosen = shares(wishes, [kind.total for kind in kinds], self._fairness)
        return {
            job.spec.name: (ways[at][0], ways[at][1])
            for job, ways, at in zip(jobs, shapes, chosen, strict=True)
            if at >= 0
        }


def _until_done(job: Job, shape: Shape, seconds: float, now_s: float) -> float:
    if job.shape == shape:
        return seconds + job.loading_s
    if job.shape is None or job.started_s is None:
        return seconds + job.app.restart_s
    return disturbed_s(seconds, job.app.restart_s, now_s - job.started_s, job.restarts)


def _sizes(kind: Kind) -> list[int]:
    """Powers of two inside a node, then whole nodes."""
    inside = [1 << power for power in range(10) if 1 << power <= kind.devices]
    return inside + [kind.devices * nodes for nodes in range(2, kind.nodes + 1)]


def _shortest(job: Job, kinds: Sequence[Kind]) -> float:
    return min(job.seconds_left(kind, job.spec.replicas) for kind in kinds)


def _in_order(order: Sequence[Job], kinds: Sequence[Kind], *, keep: bool, strict: bool = False) -> dict[str, Shape]:
    """Each in turn on the type where it is done first; with `keep` on the type it is on while that has room."""
    free = {kind.name: kind.total for kind in kinds}
    wanted: dict[str, Shape] = {}
    for job in order:
        need = job.spec.replicas
        ways = sorted((job.seconds_left(kind, need), kind.name) for kind in kinds if need <= free[kind.name])
        ways = [way for way in ways if way[0] < float("inf")]
        if keep and job.shape is not None and need <= free[job.shape[0]]:
            ways = [(0.0, job.shape[0])]
        if ways:
            wanted[job.spec.name] = (ways[0][1], need)
            free[ways[0][1]] -= need
        elif strict:
            break
    return wanted
