"""From Kueue's objects to what a policy sees: lanes with what runs and waits.

Jobs that this gateway has just created count as waiting until their Workload shows up, so that a burst does not all
see the same free slot. Only the queues asked for are looked at.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec

from dure.adapters.kueue.board import Board
from dure.adapters.kueue.figures import capacity, counted, figures, undisturbed
from dure.adapters.kueue.objects import ClusterQueue
from dure.gateway.ledger import Held, Ledger
from dure.model.units import Instant, Seconds
from dure.route.amounts import Amounts
from dure.route.durations import Durations
from dure.route.situation import Alternative, Figures, Lane, Order, Running, Situation, Waiting
from dure.route.stayed import Stayed, begun

CLAIM_S = 15.0
LISTED = 256
# In a queue of more slots than this no order matters much, and keeping them costs time.
MOST_SLOTS = 4096
MOST_SHAPES = 10_000
# WorkloadPriorityClasses of this gateway; the one of number 0 means first come.
RANK_CLASS = "dure-rank-"
Kind = tuple[str, str, Seconds]
Seen = TypeVar("Seen", Running, Waiting)
Reading: TypeAlias = tuple[Held, Kind | None, Seen]


class Claim(msgspec.Struct, frozen=True):
    """A job created here whose Workload has not been seen yet."""

    lane: str
    waiting: Waiting
    at_s: Instant


class Sources(NamedTuple):
    """What the jobs of a queue were read from: the very same objects mean the very same jobs."""

    running: list[Held]
    waiting: list[Held]
    quota: Amounts
    durations: Durations
    told: int

    def same(self, other: Sources) -> bool:
        return self.told == other.told and all(mine is its for mine, its in zip(self[:4], other[:4], strict=True))


class Known(msgspec.Struct, frozen=True):
    """Jobs of one queue as a policy saw them last, by name, and what each was read from.

    `own`: all of them came through this gateway, without a priority of their own.
    """

    sources: Sources
    running: dict[str, Reading[Running]]
    waiting: dict[str, Reading[Waiting]]
    runs: tuple[Running, ...]
    waits: tuple[Waiting, ...]
    own: bool


class Queue(msgspec.Struct, frozen=True):
    """A ClusterQueue read once for each version of it."""

    version: str
    capacity: Amounts
    figures: Figures
    orderable: bool


class View:
    """Builds situations. `kind` tells kind and class of a job that came through this gateway."""

    def __init__(self, board: Board, ledger: Ledger) -> None:
        self._board, self._ledger = board, ledger
        self._claims: dict[str, Claim] = {}
        self._entering: dict[str, dict[str, Claim]] = {}
        self._known: dict[str, Known] = {}
        ledger.seen = self.drop
        self._lock = threading.Lock()
        self._queues: dict[str, Queue] = {}
        self._stayed: dict[str, Stayed] = {}
        self._kinds: dict[str, Kind] = {}
        self._told = 0
        self._shapes: dict[tuple[tuple[str, int], ...], Amounts] = {}

    def lanes_of(self, namespace: str) -> dict[str, str]:
        """LocalQueue name -> ClusterQueue name, in this namespace."""
        found = self._board.locals.objects().values()
        return {one.metadata.name: one.spec.cluster_queue for one in found if one.metadata.namespace == namespace}

    def kind(self, job: str) -> Kind | None:
        return self._kinds.get(job)

    def know(self, job: str, kind: Kind) -> None:
        self._kinds[job] = kind
        self._told += self._ledger.knows(job)

    def forget(self, job: str) -> Kind | None:
        known = self._kinds.pop(job, None)
        self._told += self._ledger.knows(job)
        return known

    def shape(self, demand: Amounts) -> Amounts:
        """The same object for the same demand: most jobs ask for the same, and that is then seen at a glance."""
        if len(self._shapes) > MOST_SHAPES:
            self._shapes.clear()
        return self._shapes.setdefault(tuple(demand.items()), demand)

    def claim(self, key: str, lane: str, waiting: Waiting, at_s: Instant) -> None:
        if self._ledger.knows(key):
            return
        with self._lock:
            self._forget(key)
            self._claims[key] = claim = Claim(lane, waiting, at_s)
            self._entering.setdefault(lane, {})[key] = claim

    def enter(self, home: Alternative, situation: Situation) -> None:
        """One more job that names this queue, wherever it goes: what would be there had everybody stayed."""
        lane = situation.lanes.get(home.lane)
        asked = {name: amount for name, amount in home.demand.items() if amount > 0}
        if lane is None or not asked:
            return
        slots = min(lane.capacity.get(name, 0) // amount for name, amount in asked.items())
        with self._lock:
            known = self._stayed.get(home.lane)
            if not 0 < slots <= MOST_SLOTS or lane.hidden_s:
                self._stayed.pop(home.lane, None)
                return
            if known is None or len(known.free_s) != slots:
                ends = [held.ends_s for held in lane.running]
                known = begun(slots, situation.now_s, ends, [job.run_s for job in lane.waiting])
            self._stayed[home.lane] = known.entered(home.run_s, situation.now_s)

    def drop(self, key: str) -> None:
        with self._lock:
            self._forget(key)

    def _forget(self, key: str) -> None:
        claim = self._claims.pop(key, None)
        if claim is not None:
            del self._entering[claim.lane][key]

    def leave(self, key: str, uid: str) -> None:
        """This job is no more: it was made anew under another name."""
        self.forget(key)
        self._ledger.leave(key, uid)

    def quota(self, lane: str) -> Amounts:
        queue = self._board.queues.get(lane)
        return self._read(queue).capacity if queue is not None else {}

    def situation(self, now_s: Instant, durations: Durations, lanes: Iterable[str] | None = None) -> Situation:
        """Of these ClusterQueues, or of all."""
        names = sorted(self._board.queues.objects()) if lanes is None else sorted(set(lanes))
        rows: dict[str, list[str]] = {name: [] for name in names}
        for key, one in self._board.locals.objects().items():
            if one.spec.cluster_queue in rows:
                rows[one.spec.cluster_queue].append(key)
        self._expire(now_s)
        seen: dict[str, Lane] = {}
        told: dict[str, Figures] = {}
        for name in names:
            queue = self._board.queues.get(name)
            if queue is not None:
                read = self._read(queue)
                told[name] = read.figures
                seen[name] = self._lane(name, read, rows[name], durations)
        return Situation(now_s, seen, told)

    def _lane(self, name: str, queue: Queue, rows: list[str], durations: Durations) -> Lane:
        listed, ahead, work = self._ledger.waiting(rows, LISTED)
        sources = Sources(self._ledger.running(name), listed, queue.capacity, durations, self._told)
        known = self._jobs(name, sources)
        claims = self._newest(name)
        waiting, rank = (*known.waits, *claims), Order.AS_IT_STANDS.rank
        late = not known.waits or not claims or rank(claims[0]) >= rank(known.waits[-1])
        if not late:
            waiting = tuple(sorted(waiting, key=rank))
        hidden_s = _time_of(work, queue.capacity) if ahead else 0.0
        return Lane(
            name,
            queue.capacity,
            known.runs,
            waiting[-LISTED:],
            hidden_s,
            orderable=queue.orderable and known.own and not ahead,
            stayed=self._stayed.get(name),
        )

    def _jobs(self, lane: str, sources: Sources) -> Known:
        """Most of what runs and waits did so when the last job came, and looks the same now."""
        known, quota, durations = self._known.get(lane), sources.quota, sources.durations
        if known is not None and known.sources.same(sources):
            return known

        def run(one: Held) -> Running:
            return self._running(one, quota, durations)

        def wait(one: Held) -> Waiting:
            return self._waiting(one, quota, durations)

        alike = known is not None and known.sources.durations is durations and known.sources.quota == quota
        running = self._read_changed(sources.running, known.running if known and alike else {}, run)
        waiting = self._read_changed(sources.waiting, known.waiting if known and alike else {}, wait)
        found = self._known[lane] = Known(
            sources,
            {entry[0].job: entry for entry in running},
            {entry[0].job: entry for entry in waiting},
            tuple(entry[2] for entry in running),
            tuple(entry[2] for entry in waiting),
            all(one.job in self._kinds and (not one.priority or _ours(one)) for one in sources.waiting),
        )
        return found

    def _read_changed(
        self, held: list[Held], before: Mapping[str, Reading[Seen]], read: Callable[[Held], Seen]
    ) -> list[Reading[Seen]]:
        kinds, found = self._kinds, []
        for one in held:
            kind, entry = kinds.get(one.job), before.get(one.job)
            if entry is None or entry[0] is not one or entry[1] is not kind:
                entry = (one, kind, read(one))
            found.append(entry)
        return found

    def _running(self, one: Held, quota: Amounts, durations: Durations) -> Running:
        return Running(
            one.job, self.shape(counted(one.demand, quota)), (one.reserved_s or 0.0) + self._run_s(one, durations)
        )

    def _waiting(self, one: Held, quota: Amounts, durations: Durations) -> Waiting:
        priority, rank = (0, one.priority) if _ours(one) else (one.priority, 0)
        asked = self.shape(counted(one.demand, quota))
        return Waiting(one.job, asked, self._run_s(one, durations), one.created_s, priority, rank)

    def _run_s(self, one: Held, durations: Durations) -> Seconds:
        kind, class_name, declared = self._kinds.get(one.job, ("", "", 0.0))
        return durations.expected(kind, class_name, declared or None)[0]

    def _read(self, queue: ClusterQueue) -> Queue:
        known = self._queues.get(queue.metadata.name)
        if known is None or known.version != queue.metadata.resource_version:
            known = Queue(queue.metadata.resource_version, capacity(queue), figures(queue), undisturbed(queue))
            self._queues[queue.metadata.name] = known
        return known

    def _expire(self, now_s: Instant) -> None:
        """Claims stand in the order of their times, so the old ones are at the front."""
        with self._lock:
            while self._claims and now_s - (oldest := next(iter(self._claims.items())))[1].at_s > CLAIM_S:
                self._forget(oldest[0])

    def _newest(self, lane: str) -> list[Waiting]:
        """The last jobs that entered this queue and whose Workloads have not shown up, oldest first."""
        with self._lock:
            entering = self._entering.get(lane, {})
            found = [claim.waiting for claim in itertools.islice(reversed(entering.values()), LISTED)]
        found.reverse()
        return found


def _ours(one: Held) -> bool:
    return one.priority_class.startswith(RANK_CLASS)


def _time_of(work: Mapping[str, float], quota: Amounts) -> Seconds:
    """Work divided by the quota of its scarcest resource."""
    return max((total / quota[name] for name, total in work.items() if quota.get(name)), default=0.0)
