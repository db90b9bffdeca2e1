"""From Kueue's objects to what a policy sees: lanes with what runs and waits, and candidates.

Jobs that this gateway has just created count as waiting until their Workload shows up, so that a burst does not all
see the same free slot.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from dure.adapters.kueue.board import Board
from dure.adapters.kueue.figures import capacity, counted, demand, figures
from dure.adapters.kueue.objects import Workload
from dure.model.units import Instant, Seconds
from dure.route.amounts import Amounts
from dure.route.durations import Durations
from dure.route.situation import Lane, Running, Situation, Waiting

CLAIM_S = 15.0
LISTED = 1000


class Claim:
    """A job created here whose Workload has not been seen yet."""

    __slots__ = ("at_s", "lane", "waiting")

    def __init__(self, lane: str, waiting: Waiting, at_s: Instant) -> None:
        self.lane = lane
        self.waiting = waiting
        self.at_s = at_s


class View:
    """Builds situations. `kinds` tells kind and class of a job that came through this gateway."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._claims: dict[str, Claim] = {}
        self._lock = threading.Lock()
        self.kinds: dict[str, tuple[str, str, Seconds]] = {}
        self._demands: dict[str, Amounts] = {}

    def lanes_of(self, namespace: str) -> dict[str, str]:
        """LocalQueue name -> ClusterQueue name, in this namespace."""
        found = self._board.locals.objects().values()
        return {one.metadata.name: one.spec.cluster_queue for one in found if one.metadata.namespace == namespace}

    def claim(self, key: str, lane: str, waiting: Waiting, at_s: Instant) -> None:
        with self._lock:
            self._claims[key] = Claim(lane, waiting, at_s)

    def drop(self, key: str) -> None:
        with self._lock:
            self._claims.pop(key, None)

    def situation(self, now_s: Instant, durations: Durations) -> Situation:
        queues = self._board.queues.objects()
        lane_of = {key: one.spec.cluster_queue for key, one in self._board.locals.objects().items()}
        quotas = {name: capacity(queue) for name, queue in queues.items()}
        running: dict[str, list[Running]] = {name: [] for name in queues}
        waiting: dict[str, list[Waiting]] = {name: [] for name in queues}
        seen: set[str] = set()
        for workload in self._board.workloads.unfinished():
            key = f"{workload.metadata.namespace}/{workload.job}"
            seen.add(key)
            lane = lane_of.get(f"{workload.metadata.namespace}/{workload.spec.queue_name}", "")
            if workload.status.admission is not None:
                lane = workload.status.admission.cluster_queue
            if lane not in queues or not workload.spec.active:
                continue
            self._enter(workload, key, quotas[lane], durations, running[lane], waiting[lane])
        self._enter_claims(now_s, seen, waiting)
        lanes = {name: _lane(name, quotas[name], running[name], waiting[name]) for name in queues}
        return Situation(now_s, lanes, {name: figures(queue) for name, queue in queues.items()})

    def _enter(
        self,
        workload: Workload,
        key: str,
        quota: Mapping[str, int],
        durations: Durations,
        running: list[Running],
        waiting: list[Waiting],
    ) -> None:
        asked = counted(self._demand(workload), quota)
        kind, class_name, declared = self.kinds.get(key, ("", "", 0.0))
        run_s = durations.expected(kind, class_name, declared or None)[0]
        reserved = workload.since("QuotaReserved")
        if reserved is not None:
            running.append(Running(key, asked, reserved.timestamp() + run_s))
            return
        created = workload.metadata.creation_timestamp
        at_s = created.timestamp() if created else 0.0
        waiting.append(Waiting(key, asked, run_s, at_s, workload.spec.priority))

    def _demand(self, workload: Workload) -> Amounts:
        """Pod sets rarely change; a new resource version of the spec is a new uid or generation."""
        key = f"{workload.metadata.uid}/{workload.metadata.generation}"
        found = self._demands.get(key)
        if found is None:
            if len(self._demands) > 50_000:
                self._demands.clear()
            found = self._demands[key] = demand(workload)
        return found

    def _enter_claims(self, now_s: Instant, seen: set[str], waiting: dict[str, list[Waiting]]) -> None:
        with self._lock:
            for key, claim in list(self._claims.items()):
                if key in seen or now_s - claim.at_s > CLAIM_S:
                    del self._claims[key]
                elif claim.lane in waiting:
                    waiting[claim.lane].append(claim.waiting)


def _lane(name: str, quota: Amounts, running: list[Running], waiting: list[Waiting]) -> Lane:
    """A queue too long to play is played from its end: what is ahead of it becomes time."""
    waiting.sort(key=lambda one: (*one.rank, one.name))
    if len(waiting) <= LISTED:
        return Lane(name, quota, tuple(running), tuple(waiting))
    ahead = waiting[:-LISTED]
    return Lane(name, quota, tuple(running), tuple(waiting[-LISTED:]), _time_of(ahead, quota))


def _time_of(waiting: list[Waiting], quota: Amounts) -> Seconds:
    """Work of these jobs divided by the quota of their scarcest resource."""
    work: dict[str, float] = {}
    for job in waiting:
        for name, amount in job.demand.items():
            work[name] = work.get(name, 0.0) + amount * job.run_s
    return max((total / quota[name] for name, total in work.items() if quota.get(name)), default=0.0)
