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
from dure.gateway.desk import Desk, length_class
from dure.gateway.journal import Entry
from dure.gateway.view import LENGTH_CLASS
from dure.model.errors import Conflict, DureError, NotAllowed
from dure.route.reroute import Plan
from dure.route.rewrite import PRIORITY
from dure.route.situation import Order, Situation

FIRST_COME = f"{LENGTH_CLASS}000"
_log = structlog.get_logger("dure.gateway")
Json = dict[str, Any]


class Sorter:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._made: set[str] = set()
        self.allowed = True

    def sort(self, plan: Plan, situation: Situation) -> None:
        for lane, order in plan.orders.items():
            for job in situation.lanes[lane].waiting:
                wanted = length_class(job.run_s) if order is Order.LONGEST_FIRST else FIRST_COME
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
