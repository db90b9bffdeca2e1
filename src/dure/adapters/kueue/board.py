"""A live copy of everything Kueue shows: queues, cohorts, flavors, workloads, fed by watches.

The gateway reads it for every request; no request ever lists anything. Workloads are indexed as they come, so that a
hundred thousand finished ones cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from dure.adapters.kube.mirror import Mirror
from dure.adapters.kube.rest import Api
from dure.adapters.kueue.objects import GROUP, VERSIONS, ClusterQueue, LocalQueue, Other, Workload
from dure.model.errors import NotFound, Permanent
from dure.model.units import Seconds

JOBS = "/apis/batch/v1"
SYNC_S = 20.0
_OTHERS = ("cohorts", "resourceflavors", "multikueueclusters")


class Workloads(Mirror[Workload]):
    """Workloads by what they do: those that hold quota, and those that wait for it, by LocalQueue."""

    def __init__(
        self, api: Api, path: str, changed: Callable[[], None], finished: Callable[[Workload], None]
    ) -> None:
        super().__init__(api, path, Workload, changed)
        self.open: dict[str, Workload] = {}
        self._finished = finished

    def _put(self, found: Workload) -> bool:
        fresh = super()._put(found)
        if fresh:
            self._index(found)
        return fresh

    def _drop(self, found: Workload) -> bool:
        with self._lock:
            self.open.pop(found.metadata.key, None)
        return super()._drop(found)

    def _relist(self) -> None:
        super()._relist()
        with self._lock:
            objects = list(self._objects.values())
            self.open = {one.metadata.key: one for one in objects if not one.has("Finished")}

    def unfinished(self) -> list[Workload]:
        with self._lock:
            return list(self.open.values())

    def _index(self, found: Workload) -> None:
        ended = found.has("Finished")
        with self._lock:
            before = self.open.pop(found.metadata.key, None)
            if not ended:
                self.open[found.metadata.key] = found
        if ended and before is not None:
            self._finished(found)


class Board:
    """`start`, then read. `stale_s` is how long the oldest of the watches has been silent."""

    def __init__(self, api: Api, finished: Callable[[Workload], None], changed: Callable[[], None]) -> None:
        self.api = api
        self.version = served_version(api)
        base = f"/apis/{GROUP}/{self.version}"
        self.queues = Mirror(api, f"{base}/clusterqueues", ClusterQueue, changed)
        self.locals = Mirror(api, f"{base}/localqueues", LocalQueue, changed)
        self.workloads = Workloads(api, f"{base}/workloads", changed, finished)
        self.others = {name: Mirror(api, f"{base}/{name}", Other, lambda: None) for name in _OTHERS}

    def start(self, wait_s: Seconds = SYNC_S) -> None:
        for mirror in self._all():
            mirror.start()
        for mirror in (self.queues, self.locals, self.workloads):
            mirror.wait_synced(wait_s)

    def stop(self) -> None:
        for mirror in self._all():
            mirror.stop()
        for mirror in self._all():
            mirror.join()

    @property
    def stale_s(self) -> Seconds:
        return max(self.queues.stale_s, self.locals.stale_s, self.workloads.stale_s)

    def _all(self) -> list[Mirror[ClusterQueue] | Mirror[LocalQueue] | Mirror[Workload] | Mirror[Other]]:
        return [self.queues, self.locals, self.workloads, *self.others.values()]


class _Versions(msgspec.Struct, frozen=True):
    versions: tuple[dict[str, str], ...] = ()


def served_version(api: Api) -> str:
    """The newest version of Kueue's API that is served here and that Dure knows."""
    try:
        found = {one.get("version", "") for one in api.get(f"/apis/{GROUP}", _Versions).versions}
    except NotFound as error:
        raise Permanent(
            "Kueue is not installed in this cluster", remedy="Install Kueue 0.17 or newer, or name another cluster."
        ) from error
    for version in VERSIONS:
        if version in found:
            return version
    raise Permanent(f"Kueue serves {', '.join(sorted(found))}; Dure reads {' and '.join(VERSIONS)}")


def connect(kubeconfig: Path | None, context: str = "") -> Api:
    return Api.from_kubeconfig(kubeconfig, context) if kubeconfig else Api.in_cluster()
