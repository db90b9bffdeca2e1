"""An external dispatcher of MultiKueue: names worker clusters by money and carbon in `status.nominatedClusterNames`.

Kueue asks for one by `multiKueue.dispatcherName: dure.dev/dispatcher`. Prices are notes on the MultiKueueCluster
(`dure.dev/price-per-hour`, `dure.dev/grams-per-hour`). Called by the gateway's thread after changes; a Workload that
a cluster took has `clusterName` and is left alone.
"""

from __future__ import annotations

import structlog

from dure.adapters.kueue.board import Board
from dure.adapters.kueue.objects import GROUP, Other, Workload
from dure.gateway.settings import Settings
from dure.model.errors import DureError
from dure.model.units import Instant
from dure.route.dispatch import Worker, nominated

NAME = "dure.dev/dispatcher"
PRICE, GRAMS = "dure.dev/price-per-hour", "dure.dev/grams-per-hour"
KEPT = 1_000
# Kueue clears the names when it settles a Workload, which it may only if they are written in its own name.
FIELD_MANAGER = "kueue-admission"
_log = structlog.get_logger("dure.gateway")


class Dispatcher:
    def __init__(self, board: Board, settings: Settings) -> None:
        self._board, self._settings = board, settings
        self.offered: dict[str, tuple[str, ...]] = {}
        # Patience runs out without any change in the cluster.
        self.pause_s = settings.dispatching.patience_s / 2 if settings.dispatches else None

    def turn(self, now_s: Instant) -> int:
        """How many Workloads were offered to other clusters than before."""
        workers = [_worker(one) for one in self._board.others["multikueueclusters"].objects().values()]
        if not workers or not self._settings.dispatches:
            return 0
        return sum(self._offer(one, workers, now_s) for one in self._board.workloads.objects().values() if _open(one))

    def _offer(self, one: Workload, workers: list[Worker], now_s: Instant) -> bool:
        reserved = one.since("QuotaReserved")
        waited_s = now_s - reserved.timestamp() if reserved else 0.0
        names = nominated(workers, waited_s, self._settings.dispatching)
        if not names or set(names) <= set(one.status.nominated_cluster_names):
            return False
        space, name = one.metadata.namespace, one.metadata.name
        path = f"/apis/{GROUP}/{self._board.version}/namespaces/{space}/workloads/{name}/status"
        try:
            self._board.api.patch(path, {"status": {"nominatedClusterNames": names}}, dict, manager=FIELD_MANAGER)
        except DureError as error:
            _log.info("a workload was not dispatched", workload=one.metadata.key, error=str(error))
            return False
        _log.info("dispatched", workload=one.metadata.key, clusters=list(names))
        self.offered[f"{space}/{one.job}"] = names
        if len(self.offered) > KEPT:
            del self.offered[next(iter(self.offered))]
        return True


def _open(one: Workload) -> bool:
    waits = any(check.state == "Pending" for check in one.status.admission_checks)
    return waits and one.has("QuotaReserved") and not one.has("Finished") and not one.status.cluster_name


def _worker(one: Other) -> Worker:
    notes = one.metadata.annotations
    active = any(
        each.get("type") == "Active" and each.get("status") == "True" for each in one.status.get("conditions") or ()
    )
    return Worker(one.metadata.name, _number(notes.get(PRICE)), _number(notes.get(GRAMS)), active)


def _number(text: str | None) -> float:
    try:
        return float(text or 0.0)
    except ValueError:
        return 0.0
