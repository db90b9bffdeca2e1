"""How fast pods get bound, seen by a watch from a process of its own: the same ruler for every scheduler.

    python -m tests.kube.ruler KUBECONFIG COUNT

prints one JSON object once COUNT pods have a node: seconds from the first to the last, and the rate between them.
"""

from __future__ import annotations

import json
import sys
import time

import msgspec

from dure.adapters.kube.objects import KubePod
from dure.adapters.kube.rest import Api

SILENCE_S = 300.0


def measure(kubeconfig: str, wanted: int) -> dict[str, float]:
    """Prints `ready` when the watch is open; pods that are bound before that are none of its business."""
    moments: dict[str, float] = {}
    with Api.from_kubeconfig(kubeconfig) as api:
        found = api.get("/api/v1/pods", dict, limit="1")
        params = {"watch": "true", "resourceVersion": found["metadata"]["resourceVersion"]}
        stream = api.watch("/api/v1/pods", params, SILENCE_S)
        print("ready", flush=True)
        for line in stream:
            now = time.monotonic()
            name = _bound(line)
            if name:
                moments.setdefault(name, now)
            if len(moments) >= wanted:
                break
    first, last = min(moments.values()), max(moments.values())
    return {"pods": len(moments), "seconds": last - first, "rate": (len(moments) - 1) / (last - first)}


class _Event(msgspec.Struct):
    object: KubePod


def _bound(line: bytes) -> str:
    pod = msgspec.json.decode(line, type=_Event).object
    return pod.metadata.key if pod.spec.node_name else ""


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))), flush=True)
