"""Carries out another order of a queue: WorkloadPriorityClasses of this gateway on the Jobs that wait there.

Only queues whose waiting jobs are all this gateway's and in which priorities preempt nobody are sorted (`View`).
Classes are made when first needed. A gateway that may not make them leaves all queues as they are, and says so once.
"""

from __future__ import annotations

import contextlib
from typing import Any

import structlog

from dure.adapters.kueue.board import JOBS
from dure.adapters.kueue.objects import GROUP
from dure.gateway.desk import Desk
from dure.gateway.journal import Entry
from dure.gateway.view import RANK_CLASS
from dure.model.errors import Conflict, DureError, NotAllowed
from dure.route.ranks import ranks
from dure.route.reroute import Plan
from dure.route.rewrite import PRIORITY
from dure.route.situation import Situation

KEPT = 10_000
FIRST_COME = "first-come"
PLANNED = "planned"
_log = structlog.get_logger("dure.gateway")
Json = dict[str, Any]


def rank_class(rank: int) -> str:
    """The WorkloadPriorityClass of a job at this place."""
    return f"{RANK_CLASS}{rank:03d}"


class Sorter:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._made: set[str] = set()
        self._given: dict[str, int] = {}
        self.allowed = True

    def sort(self, plan: Plan, situation: Situation) -> None:
        """The queues that the plan names. In others nobody's place changes, so newcomers stand behind."""
        for lane, order in plan.orders.items():
            found = situation.lanes[lane]
            if not found.orderable or not self.allowed:
                continue
            # What was written here last counts: the watch may not have told it yet.
            standing = {job.name: self._given.get(job.name, job.rank) for job in found.waiting}
            given = ranks(order, standing)
            for job in found.waiting:
                wanted = given.get(job.name, 0)
                if self._desk.view.kind(job.name) is None or standing[job.name] == wanted:
                    continue
                try:
                    self._rank(job.name, lane, wanted, plan.because)
                except NotAllowed as error:
                    self.allowed = False
                    _log.warning("queues stay first-come: no right to make priority classes", error=str(error))
                    return
                except DureError as error:
                    _log.info("a job kept its place", job=job.name, error=str(error))
            self._desk.metrics.ordered.labels(lane, PLANNED if order else FIRST_COME).inc()

    def _rank(self, key: str, lane: str, wanted: int, because: str) -> None:
        namespace, _, name = key.partition("/")
        given = rank_class(wanted)
        self._make(given)
        path = f"{JOBS}/namespaces/{namespace}/jobs/{name}"
        self._desk.api.patch(path, {"metadata": {"labels": {PRIORITY: given}}}, dict)
        self._given[key] = wanted
        if len(self._given) > KEPT:
            del self._given[next(iter(self._given))]
        rule = PLANNED if wanted else FIRST_COME
        self._desk.journal.write(Entry(self._desk.now(), "ordered", namespace, name, lane, given, rule, because))

    def _make(self, name: str) -> None:
        if name in self._made:
            return
        version = self._desk.board.version
        body: Json = {
            "apiVersion": f"{GROUP}/{version}",
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": name},
            "value": int(name.removeprefix(RANK_CLASS)),
            "description": "Dure's gateway: a place in a backlog, higher is served first",
        }
        with contextlib.suppress(Conflict):
            self._desk.api.post(f"/apis/{GROUP}/{version}/workloadpriorityclasses", body, dict)
        self._made.add(name)
