"""A live copy of everything Kueue shows: queues, cohorts, flavors, workloads, fed by watches.

The gateway reads it for every request; no request ever lists anything. Workloads are handed on as they come, so that
a hundred thousand of them cost a request nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import msgspec

from dure.adapters.kube.mirror import Mirror
from dure.adapters.kube.rest import Api
from dure.adapters.kueue.objects import GROUP, VERSIONS, ClusterQueue, LocalQueue, Other, Workload
from dure.model.errors import NotFound, Permanent
from dure.model.units import Seconds

JOBS = "/apis/batch/v1"
# A first list of a hundred thousand Workloads takes a while on a small machine.
SYNC_S = 60.0
_OTHERS = ("cohorts", "resourceflavors", "multikueueclusters")


class Reader(Protocol):
    """Who keeps books of Workloads; told by the watch's thread, in order."""

    def put(self, workload: Workload) -> None: ...
    def drop(self, key: str) -> None: ...
    def reset(self, workloads: Iterable[Workload]) -> None: ...


class Workloads(Mirror[Workload]):
    """Workloads, handed on to a `Reader` one by one; `finished` is told of each that ends while watched."""

    def __init__(
        self, api: Api, path: str, changed: Callable[[], None], reader: Reader, finished: Callable[[Workload], None]
    ) -> None:
        super().__init__(api, path, Workload, changed)
        self._reader = reader
        self._finished = finished

    def _put(self, found: Workload) -> bool:
        before = self.get(found.metadata.key)
        fresh = super()._put(found)
        if fresh:
            self._reader.put(found)
            if found.has("Finished") and before is not None and not before.has("Finished"):
                self._finished(found)
        return fresh

    def _drop(self, found: Workload) -> bool:
        dropped = super()._drop(found)
        if dropped:
            self._reader.drop(found.metadata.key)
        return dropped

    def _relist(self) -> None:
        before = self.objects()
        super()._relist()
        after = self.objects()
        self._reader.reset(after.values())
        for key, one in after.items():
            known = before.get(key)
            if known is not None and one.has("Finished") and not known.has("Finished"):
                self._finished(one)


class Board:
    """`start`, then read. `stale_s` is how long the oldest of the watches has been silent."""

    def __init__(
        self, api: Api, reader: Reader, finished: Callable[[Workload], None], changed: Callable[[], None]
    ) -> None:
        self.api = api
        self.version = served_version(api)
        base = f"/apis/{GROUP}/{self.version}"
        self.queues = Mirror(api, f"{base}/clusterqueues", ClusterQueue, changed)
        self.locals = Mirror(api, f"{base}/localqueues", LocalQueue, changed)
        self.workloads = Workloads(api, f"{base}/workloads", changed, reader, finished)
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
