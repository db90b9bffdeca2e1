"""A board of Kueue's objects that stands still until a test changes it."""

from __future__ import annotations

from typing import Any

import msgspec

from dure.adapters.kueue.objects import ClusterQueue, LocalQueue


class FixedMirror:
    def __init__(self, objects: dict[str, Any] | None = None) -> None:
        self._objects = dict(objects or {})

    def objects(self) -> dict[str, Any]:
        return dict(self._objects)

    def get(self, key: str) -> Any:
        return self._objects.get(key)

    def put(self, one: Any) -> None:
        self._objects[one.metadata.key] = one


class FixedBoard:
    def __init__(self, queues: dict[str, ClusterQueue], local: dict[str, str] | None = None) -> None:
        self.queues = FixedMirror(queues)
        self.locals = FixedMirror({key: local_queue(key, target) for key, target in (local or {}).items()})
        self.others: dict[str, FixedMirror] = {name: FixedMirror() for name in ("cohorts", "flavors", "clusters")}
        self.stale_s = 0.0
        self.version = "v1beta2"


def cluster_queue(
    name: str, quota: dict[str, int | str], *, reserved: int = 0, stopped: str = "None", **spec: Any
) -> ClusterQueue:
    resources = [{"name": resource, "nominalQuota": amount} for resource, amount in quota.items()]
    held = [{"name": resource, "total": reserved} for resource in quota]
    raw = {
        "metadata": {"name": name, "resourceVersion": str(reserved + 1)},
        "spec": {
            "resourceGroups": [{"flavors": [{"name": name, "resources": resources}]}],
            "stopPolicy": stopped,
            **spec,
        },
        "status": {"flavorsReservation": [{"name": name, "resources": held}], "pendingWorkloads": 2},
    }
    return msgspec.convert(raw, ClusterQueue)


def local_queue(key: str, target: str) -> LocalQueue:
    namespace, _, name = key.partition("/")
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterQueue": target}}, LocalQueue
    )
