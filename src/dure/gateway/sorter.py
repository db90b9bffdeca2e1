"""Carries out another order of a queue: WorkloadPriorityClasses of this gateway on the Jobs that wait there.

Only queues whose waiting jobs are all this gateway's and in which priorities preempt nobody are sorted (`View`).
Classes are made when first needed. A gateway that may not make them leaves all queues as they are, and says so once.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import structlog

from dure.adapters.kueue.board import JOBS
from dure.adapters.kueue.objects import GROUP
from dure.gateway.desk import Desk
from dure.gateway.journal import Entry
from dure.gateway.view import LENGTH_CLASS
from dure.model.errors import Conflict, DureError, NotAllowed
from dure.model.units import Seconds
from dure.route.reroute import Plan
from dure.route.rewrite import PRIORITY
from dure.route.situation import Order, Situation

KEPT = 10_000
LONGEST = 199
FIRST_COME = f"{LENGTH_CLASS}000"
_log = structlog.get_logger("dure.gateway")
Json = dict[str, Any]


def length_class(run_s: Seconds) -> str:
    """The WorkloadPriorityClass of a job of this length; classes are a tenth apart."""
    return f"{LENGTH_CLASS}{max(1, min(LONGEST, 1 + int(math.log(max(1.0, run_s), 1.1)))):03d}"


class Sorter:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._made: set[str] = set()
        self._given: dict[str, str] = {}
        self.allowed = True

    def sort(self, plan: Plan, situation: Situation) -> None:
        """The queues that the plan names. In others nobody's place changes, so newcomers stand behind."""
        for lane, order in plan.orders.items():
            found = situation.lanes[lane]
            if not found.orderable or not self.allowed:
                continue
            for job in found.waiting:
                wanted = length_class(job.run_s) if order is Order.LONGEST_FIRST else FIRST_COME
                if self._desk.view.kind(job.name) is None or self._given.get(job.name, FIRST_COME) == wanted:
                    continue
                try:
                    self._rank(job.name, lane, wanted, order, plan.because)
                except NotAllowed as error:
                    self.allowed = False
                    _log.warning("queues stay first-come: no right to make priority classes", error=str(error))
                    return
                except DureError as error:
                    _log.info("a job kept its place", job=job.name, error=str(error))
            self._desk.metrics.ordered.labels(lane, str(order)).inc()

    def _rank(self, key: str, lane: str, wanted: str, order: Order, because: str) -> None:
        namespace, _, name = key.partition("/")
        self._make(wanted)
        path = f"{JOBS}/namespaces/{namespace}/jobs/{name}"
        self._desk.api.patch(path, {"metadata": {"labels": {PRIORITY: wanted}}}, dict)
        self._given[key] = wanted
        if len(self._given) > KEPT:
            del self._given[next(iter(self._given))]
        entry = Entry(self._desk.now(), "ordered", namespace, name, lane, wanted, str(order), because)
        self._desk.journal.write(entry)

    def _make(self, name: str) -> None:
        if name in self._made:
            return
        version = self._desk.board.version
        body: Json = {
            "apiVersion": f"{GROUP}/{version}",
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": name},
            "value": int(name.removeprefix(LENGTH_CLASS)),
            "description": "Dure's gateway: longer jobs of a backlog first",
        }
        with contextlib.suppress(Conflict):
            self._desk.api.post(f"/apis/{GROUP}/{version}/workloadpriorityclasses", body, dict)
        self._made.add(name)
