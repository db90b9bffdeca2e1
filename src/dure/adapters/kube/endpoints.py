"""The pods behind one service, live: which of them may be asked now. Followed by `dure front`.

A pod may be asked while it is ready and not on its way out. One that is being deleted is let go at the moment the API
server says so, before its own signal to end has done anything. When none is ready, those that run are asked all the
same: a probe that comes late on a busy machine says less than an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dure.adapters.kube.mirror import Mirror
from dure.adapters.kube.objects import KubePod
from dure.adapters.kube.rest import Api

SYNC_S = 30.0


class Endpoints:
    """The pods of a namespace that a selector chooses; `changed` is called from another thread."""

    def __init__(self, api: Api, namespace: str, selector: str, port: int, changed: Callable[[], None]) -> None:
        self._port = port
        self._mirror = Mirror(api, f"/api/v1/namespaces/{namespace}/pods", KubePod, changed, selector)

    def start(self) -> None:
        """Returns when the first list is there."""
        self._mirror.start()
        self._mirror.wait_synced(SYNC_S)

    def stop(self) -> None:
        self._mirror.stop()
        self._mirror.join()

    def pods(self) -> list[KubePod]:
        return list(self._mirror.objects().values())

    def url(self, pod: KubePod) -> str:
        address = pod.status.pod_ip
        return f"http://[{address}]:{self._port}" if ":" in address else f"http://{address}:{self._port}"


def urls(endpoints: Sequence[Endpoints]) -> list[str]:
    """Of all clusters together, so that nobody asks a doubtful pod of one while another has a ready one."""
    found = [(each, pod) for each in endpoints for pod in each.pods() if runs(pod)]
    best = [one for one in found if is_ready(one[1])] or found
    return sorted(each.url(pod) for each, pod in best)


def runs(pod: KubePod) -> bool:
    return bool(pod.status.pod_ip) and pod.status.phase == "Running" and not pod.leaving


def is_ready(pod: KubePod) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
