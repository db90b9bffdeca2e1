"""Kueue, its queues and the gateway in virtual time: arrivals, admission in order, ends, looking again.

Used by `dure bench route`. The policy and the re-routing are the gateway's own; only Kueue and the nodes are played.
Queues serve in the order of creation; a job that is created anew elsewhere goes to the end, as it would in Kueue.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from dure.model.units import Instant, Seconds
from dure.route.ranks import ranks
from dure.route.reroute import Plan
from dure.route.situation import (
    Alternative,
    Candidate,
    Changes,
    Choice,
    Figures,
    Lane,
    Running,
    Situation,
    Waiting,
)
from dure.route.stayed import Stayed, begun
from dure.sim.queues.mix import Mix, MixJob

SLOT = "slot"
WHOLE = 1000
Policy = Callable[[Candidate, Situation], Choice]
Again = Callable[[tuple[Candidate, ...], Situation], Plan]
# Changing queues needs another environment, hence another Job.
_CREATED_ANEW = Changes(env={"RUN_ENV": "other"})


class Laws(msgspec.Struct, frozen=True):
    """What takes time besides running: handing in a job, and holding a slot before and after the run itself.

    `written_s`: when Kueue wrote each queue's counters, which it does late; without it they are always new.
    """

    submit_s: Seconds = 0.0
    submit_light_s: Seconds = 0.0
    turnaround_s: Seconds = 0.0
    written_s: Mapping[str, tuple[Instant, ...]] = {}
    aware: bool = True


class Stay(msgspec.Struct, frozen=True):
    """Where and when a job ran."""

    job: str
    kind: str
    queue: str
    arrived_s: Instant
    started_s: Instant
    ended_s: Instant
    moves: int


class Run(msgspec.Struct, frozen=True):
    """A whole run. The makespan counts from the first submission, `last_submit_s` is when the last was handed in."""

    stays: tuple[Stay, ...]
    last_submit_s: Instant

    @property
    def first_s(self) -> Instant:
        return min(stay.arrived_s for stay in self.stays)

    @property
    def makespan_s(self) -> Seconds:
        return max(stay.ended_s for stay in self.stays) - self.first_s

    @property
    def mean_wait_s(self) -> Seconds:
        return sum(stay.started_s - stay.arrived_s for stay in self.stays) / len(self.stays)

    @property
    def moved(self) -> int:
        """Jobs that ran elsewhere than at home, or changed queues on the way."""
        return sum(stay.moves > 0 for stay in self.stays)


@dataclass
class _Job:
    spec: MixJob
    candidate: Candidate
    actual: dict[str, Seconds]
    queue: str = ""
    created_s: Instant = 0.0
    rank: int = 0
    moves: int = 0
    node: int = -1
    started_s: Instant = -1.0
    ended_s: Instant = -1.0
    left_s: Seconds = 0.0
    seen_s: Instant = 0.0
    version: int = 0
    pace: float = 1.0


@dataclass
class _Queue:
    name: str
    slots: int
    nodes: list[int]
    slowdown: float
    waiting: list[_Job] = field(default_factory=list)
    running: list[_Job] = field(default_factory=list)
    stayed: Stayed | None = None
    told: Figures | None = None

    def figures(self) -> Figures:
        free = {SLOT: (self.slots - len(self.running)) * WHOLE}
        return Figures(self.name, free, len(self.waiting), len(self.running))

    def sort(self) -> None:
        self.waiting.sort(key=lambda job: (-job.rank, job.created_s))


class World:
    """`play` to the end. `jitter` gives each job's true time as a factor of what the policy believes."""

    def __init__(
        self, mix: Mix, policy: Policy, again: Again | None, laws: Laws, jitter: Callable[[str, str], float]
    ) -> None:
        self._policy, self._again, self._laws = policy, again, laws
        self._queues = {
            name: _Queue(name, queue.slots, [0] * (queue.nodes or queue.slots), queue.slowdown)
            for name, queue in mix.queues.items()
        }
        for name in laws.written_s:
            self._queues[name].told = self._queues[name].figures()
        self._now = 0.0
        self._events: list[tuple[Instant, int, int, _Job]] = []
        self._count = itertools.count()
        self._jobs = [self._job(spec, jitter) for spec in mix.jobs]
        self._last_submit_s = 0.0

    def play(self) -> Run:
        self._submit_all()
        while self._events:
            before_s = self._now
            self._now, _, version, job = heapq.heappop(self._events)
            self._tell(before_s)
            if version < 0:
                self._arrive(job)
            elif version != job.version:
                continue
            else:
                self._end(job)
            self._admit()
            self._look_again()
        stays = tuple(
            Stay(job.spec.name, job.spec.kind, job.queue, job.spec.arrival_s, job.started_s, job.ended_s, job.moves)
            for job in self._jobs
        )
        return Run(stays, self._last_submit_s)

    def _submit_all(self) -> None:
        """One client hands in one job after the other; each call takes its time."""
        free_at = 0.0
        for job in sorted(self._jobs, key=lambda one: one.spec.arrival_s):
            light = job.candidate.light
            begun = max(free_at, job.spec.arrival_s)
            took = self._laws.submit_light_s if light else self._laws.submit_s
            free_at = begun + took
            self._push(free_at, -1, job)
            self._last_submit_s = max(self._last_submit_s, free_at)

    def _job(self, spec: MixJob, jitter: Callable[[str, str], float]) -> _Job:
        order = [spec.home, *(queue for queue in spec.run_s if queue != spec.home)]
        held = self._laws.turnaround_s
        alternatives = tuple(
            Alternative(
                queue, queue, queue, {SLOT: WHOLE}, spec.run_s[queue] + held, _CREATED_ANEW if place else Changes()
            )
            for place, queue in enumerate(order)
        )
        kind = "/".join(f"{queue}:{spec.run_s[queue]:g}" for queue in sorted(spec.run_s))
        actual = {queue: spec.run_s[queue] * jitter(spec.name, queue) + held for queue in order}
        return _Job(spec, Candidate(spec.name, "sim", kind, alternatives, origin=spec.home), actual)

    def _arrive(self, job: _Job) -> None:
        job.created_s = self._now
        job.candidate = msgspec.structs.replace(job.candidate, created_s=self._now)
        choice = self._policy(job.candidate, self._situation())
        home = self._queues[job.candidate.home.lane]
        stayed = home.stayed or begun(home.slots, self._now)
        home.stayed = stayed.entered(job.candidate.home.run_s, self._now)
        job.queue = job.candidate.alternatives[choice.index].queue
        job.moves = int(choice.index != 0)
        self._queues[job.queue].waiting.append(job)

    def _end(self, job: _Job) -> None:
        queue = self._queues[job.queue]
        job.ended_s = self._now
        queue.running.remove(job)
        queue.nodes[job.node] -= 1
        self._share_node(queue, job.node)

    def _admit(self) -> None:
        for queue in self._queues.values():
            queue.sort()
            while queue.waiting and len(queue.running) < queue.slots:
                job = queue.waiting.pop(0)
                job.started_s = job.seen_s = self._now
                job.left_s = job.actual[queue.name]
                job.node = min(range(len(queue.nodes)), key=lambda node: (queue.nodes[node], node))
                queue.nodes[job.node] += 1
                queue.running.append(job)
                self._share_node(queue, job.node)

    def _share_node(self, queue: _Queue, node: int) -> None:
        """Neighbours changed: what each has left is kept, when it ends is reckoned anew."""
        slower = queue.slowdown if queue.nodes[node] > 1 else 1.0
        for job in queue.running:
            if job.node != node:
                continue
            job.left_s -= (self._now - job.seen_s) / job.pace
            job.seen_s, job.pace = self._now, slower
            job.version += 1
            self._push(self._now + max(0.0, job.left_s) * slower, job.version, job)

    def _look_again(self) -> None:
        if self._again is None:
            return
        waiting = {job.spec.name: (queue, job) for queue in self._queues.values() for job in queue.waiting}
        if not waiting:
            return
        asked = tuple(
            msgspec.structs.replace(
                job.candidate, alternatives=_from_here(job), moves=job.moves, created_s=job.created_s
            )
            for _, job in waiting.values()
        )
        found = self._again(asked, self._situation())
        for move in found.moves:
            queue, job = waiting[move.job]
            queue.waiting.remove(job)
            job.queue = move.to_queue
            job.moves += 1
            job.created_s, job.rank = self._now, 0
            self._queues[job.queue].waiting.append(job)
        moved = {move.job for move in found.moves}
        for lane, order in found.orders.items():
            standing = {job.spec.name: job for job in self._queues[lane].waiting}
            given = ranks(order, {name: job.rank for name, job in standing.items()})
            for name, job in standing.items():
                # A twin is only made now, under another name, and gets its place by the next plan.
                job.rank = 0 if name in moved else given.get(name, 0)
        self._admit()

    def _situation(self) -> Situation:
        lanes, figures = {}, {}
        for queue in self._queues.values():
            running = tuple(
                Running(job.spec.name, {SLOT: WHOLE}, self._believed_end(queue, job), self._believed_pace(job))
                for job in queue.running
            )
            waiting = tuple(
                Waiting(job.spec.name, {SLOT: WHOLE}, self._believed(queue, job), job.created_s, rank=job.rank)
                for job in queue.waiting
            )
            quiet = len(queue.nodes) if self._laws.aware and queue.slowdown > 1 else 0
            lanes[queue.name] = Lane(
                queue.name,
                {SLOT: queue.slots * WHOLE},
                running,
                waiting,
                0.0,
                quiet,
                queue.slowdown,
                orderable=True,
                stayed=queue.stayed,
            )
            figures[queue.name] = queue.told or queue.figures()
        return Situation(self._now, lanes, figures)

    def _tell(self, before_s: Instant) -> None:
        """Nothing happened since the last event, so what is there now was there when the counters were written."""
        for name, times in self._laws.written_s.items():
            if any(before_s < at <= self._now for at in times):
                self._queues[name].told = self._queues[name].figures()

    def _believed(self, queue: _Queue, job: _Job) -> Seconds:
        return job.spec.run_s[queue.name] + self._laws.turnaround_s

    def _believed_end(self, queue: _Queue, job: _Job) -> Instant:
        """What it has done is known, at the pace it had; what is left is believed, at the pace it has."""
        done = job.actual[queue.name] - job.left_s + (self._now - job.seen_s) / job.pace
        left = self._believed(queue, job) - done
        return self._now + max(0.0, left) * self._believed_pace(job)

    def _believed_pace(self, job: _Job) -> float:
        return job.pace if self._laws.aware else 1.0

    def _push(self, at_s: Instant, version: int, job: _Job) -> None:
        heapq.heappush(self._events, (at_s, next(self._count), version, job))


def _from_here(job: _Job) -> tuple[Alternative, ...]:
    """The alternatives with the queue it waits in as the first."""
    here = [one for one in job.candidate.alternatives if one.queue == job.queue]
    return (*here, *(one for one in job.candidate.alternatives if one.queue != job.queue))
