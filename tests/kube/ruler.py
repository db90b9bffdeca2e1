"""How fast pods get bound, seen from a process of its own: the same ruler for every scheduler.

    python -m tests.kube.ruler KUBECONFIG COUNT

prints `ready`, and one JSON object once COUNT waiting pods have got a node: the seconds from the last look that saw
none of them bound to the first that saw all. It asks for names only and from the server's cache, so that a look costs
the server little; a watch would be closed by the server as soon as this process falls behind.
"""

from __future__ import annotations

import json
import sys
import time

from dure.adapters.kube.mirror import Page
from dure.adapters.kube.rest import Api

LOOK_S = 0.05
PATIENCE_S = 240.0
_WAITING = {"fieldSelector": "spec.nodeName=", "resourceVersion": "0"}


def measure(kubeconfig: str, wanted: int) -> dict[str, float]:
    with Api.from_kubeconfig(kubeconfig) as api:

        def waiting() -> int:
            return len(api.get("/api/v1/pods", Page, **_WAITING).items)

        deadline = time.monotonic() + PATIENCE_S
        while waiting() < wanted:
            assert time.monotonic() < deadline, "the pods never came"
        print("ready", flush=True)
        before = time.monotonic()
        looks: list[tuple[float, int]] = []
        while True:
            now, left = time.monotonic(), waiting()
            if left == wanted:
                before = now
            else:
                looks.append((now, left))
            if left == 0:
                break
            assert now < deadline, f"{left} pods still wait"
            time.sleep(LOOK_S)
    half = next(moment for moment, left in looks if left <= wanted // 2)
    seconds = looks[-1][0] - before
    return {"pods": wanted, "seconds": seconds, "half_seconds": half - before, "rate": wanted / seconds}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))), flush=True)
