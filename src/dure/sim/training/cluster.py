"""A cluster of several accelerator types and the jobs on it, stepped in rounds: who runs where, how far each gets.

A round asks a rule for every job's kind and number of devices; a job whose answer is another than before restarts.
Jobs that keep theirs keep their nodes; the rest is seated largest first, on as few nodes as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from dure.place.instance import Floats
from dure.sim.training.profile import Application

Shape = tuple[str, int]


class Kind(msgspec.Struct, frozen=True):
    """`nodes` of `devices` each."""

    name: str
    nodes: int
    devices: int

    @property
    def total(self) -> int:
        return self.nodes * self.devices


class Submitted(msgspec.Struct, frozen=True):
    name: str
    at_s: float
    application: str
    replicas: int
    batch: int


class Job:
    """One job on its way. `paces` is progress per second by epoch for a kind and nodes and replicas."""

    def __init__(self, spec: Submitted, app: Application, *, elastic: bool) -> None:
        self.spec, self.app, self.elastic = spec, app, elastic
        self.progress = 0.0
        self.epoch = 0
        self.shape: Shape | None = None
        self.seats: tuple[int, ...] = ()
        self.loading_s = 0.0
        self.served = 0.0
        self.started_s: float | None = None
        self.end_s: float | None = None
        self.restarts = 0

    def pace(self, kind: str, nodes: int, devices: int) -> Floats | None:
        if self.elastic:
            return _elastic(self.app, self.spec.application, kind, nodes, devices)
        return _rigid(self.app, self.spec.application, kind, nodes, devices, self.spec.batch)

    def seconds_left(self, kind: Kind, devices: int) -> float:
        """Until done with this many devices of a kind on as few nodes as possible; endless where it cannot run."""
        pace = self.pace(kind.name, -(-devices // kind.devices), devices)
        if pace is None:
            return float("inf")
        ends = self.app.ends[self.epoch :]
        spans = np.diff(ends, prepend=self.progress)
        return float((spans / pace[self.epoch :]).sum())

    def run(self, now_s: float, span_s: float) -> None:
        if self.shape is None:
            return
        devices = self.shape[1]
        loading_s = min(self.loading_s, span_s)
        self.loading_s -= loading_s
        left_s = span_s - loading_s
        pace = self.pace(self.shape[0], len([seat for seat in self.seats if seat]), devices)
        if pace is None:
            return
        while left_s > 0:
            need_s = (self.app.ends[self.epoch] - self.progress) / pace[self.epoch]
            if need_s > left_s:
                self.progress += pace[self.epoch] * left_s
                break
            self.progress = float(self.app.ends[self.epoch])
            self.epoch += 1
            left_s -= need_s
            if self.epoch == self.app.epochs:
                self.end_s = now_s + span_s - left_s
                self.served += (span_s - left_s) * devices
                return
        self.served += span_s * devices


# Jobs, kinds, the time -> what each job should have now.
Rule = Callable[[Sequence[Job], Sequence[Kind], float], Mapping[str, Shape]]


class Cluster:
    def __init__(self, kinds: Sequence[Kind]) -> None:
        self.kinds = tuple(kinds)
        self._by_name = {kind.name: kind for kind in kinds}

    def assign(self, jobs: Sequence[Job], wanted: Mapping[str, Shape]) -> None:
        free = {kind.name: [kind.devices] * kind.nodes for kind in self.kinds}
        moving: list[Job] = []
        for job in jobs:
            shape = wanted.get(job.spec.name)
            if shape is not None and shape == job.shape:
                _take(free[shape[0]], job.seats)
            elif shape is None:
                job.shape, job.seats = None, ()
            else:
                moving.append(job)
        for job in sorted(moving, key=lambda one: (-wanted[one.spec.name][1], one.spec.name)):
            shape = wanted[job.spec.name]
            seats = _seats(free[shape[0]], shape[1], self._by_name[shape[0]].devices)
            if seats is None:
                job.shape, job.seats = None, ()
                continue
            _take(free[shape[0]], seats)
            job.restarts += job.started_s is not None
            job.shape, job.seats, job.loading_s = shape, seats, job.app.restart_s


def replay(
    jobs: Sequence[Job], kinds: Sequence[Kind], rule: Rule, *, round_s: float, every: int = 10,
    longest_s: float = 60 * 86_400.0,
) -> None:  # fmt: skip
    """Until all are done. A rule is asked in every round in which jobs came or went, and every so many anyway."""
    cluster = Cluster(kinds)
    waiting = sorted(jobs, key=lambda job: (job.spec.at_s, job.spec.name))
    active: list[Job] = []
    now_s, quiet = 0.0, 0
    while (waiting or active) and now_s < longest_s:
        came = [job for job in waiting if job.spec.at_s <= now_s]
        waiting = waiting[len(came) :]
        active += came
        if active and (came or quiet == 0):
            cluster.assign(active, rule(active, cluster.kinds, now_s))
            for job in active:
                if job.shape is not None and job.started_s is None:
                    job.started_s = now_s
        quiet = (quiet + 1) % every
        for job in active:
            job.run(now_s, round_s)
        left = [job for job in active if job.end_s is None]
        if len(left) < len(active):
            quiet = 0
        active = left
        now_s += round_s


def _seats(free: list[int], devices: int, per_node: int) -> tuple[int, ...] | None:
    """Whole nodes first, the rest where it fits most tightly; scattered only when there is no other way."""
    if sum(free) < devices:
        return None
    seats = [0] * len(free)
    left = devices
    for node, room in enumerate(free):
        if left >= per_node and room == per_node:
            seats[node], left = per_node, left - per_node
    fitting = [node for node, room in enumerate(free) if not seats[node] and room >= left > 0]
    if fitting:
        seats[min(fitting, key=lambda node: (free[node], node))] = left
        left = 0
    for node in sorted(range(len(free)), key=lambda one: -free[one]):
        if left > 0 and not seats[node] and free[node]:
            seats[node] = min(left, free[node])
            left -= seats[node]
    return tuple(seats) if left == 0 else None


def _take(free: list[int], seats: Sequence[int]) -> None:
    for node, count in enumerate(seats):
        free[node] -= count


_PACES: dict[tuple[object, ...], Floats | None] = {}


def _elastic(app: Application, name: str, kind: str, nodes: int, devices: int) -> Floats | None:
    key = (name, kind, nodes, devices)
    if key not in _PACES:
        _PACES[key] = app.best_pace(kind, nodes, devices) if kind in app.steps else None
    return _PACES[key]


def _rigid(app: Application, name: str, kind: str, nodes: int, devices: int, batch: int) -> Floats | None:
    key = (name, kind, nodes, devices, batch)
    if key not in _PACES:
        _PACES[key] = app.pace(kind, nodes, devices, batch) if kind in app.steps else None
    return _PACES[key]
