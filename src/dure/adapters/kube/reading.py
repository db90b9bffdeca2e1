"""What pods show of themselves is read now and then: requests and engines of servings, checkpoints of training.

`Member` runs one beside its agent. A pod is asked when it carries the annotations that Prometheus knows
(`prometheus.io/scrape`, `port`, `path`, `scheme`). What is new is kept in the Placement's status, from where
`progress` reports it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import msgspec
import structlog

from dure.adapters.kube import names
from dure.adapters.kube.cluster import KubeCluster
from dure.adapters.kube.exposition import Samples, samples_of
from dure.adapters.kube.objects import KubePlacement, KubePod
from dure.adapters.kube.progress import desired_of
from dure.adapters.kube.pulse import PulseBook, shown
from dure.adapters.kube.saving import said_by, saved, shown_by
from dure.adapters.kube.traffic import added, count_of
from dure.model.cluster import Pod, PodPhase
from dure.model.errors import DureError
from dure.model.pulse import Pulse
from dure.model.units import Seconds
from dure.model.workload import WorkloadType

Json = dict[str, Any]
EVERY_S = 15.0
PATIENCE_S = 2.0
MAX_BYTES = 4 * 1024 * 1024
LANES = 8
_SCRAPE = "prometheus.io/"

_log = structlog.get_logger("dure.kube")


class PodReader:
    def __init__(
        self, cluster: KubeCluster, fetch: Callable[[str], str] | None = None, every_s: Seconds = EVERY_S
    ) -> None:
        self._cluster = cluster
        self._every_s = every_s
        self._fetch = fetch or fetch_text
        self._books: dict[str, PulseBook] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pod-reader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(LANES * PATIENCE_S)

    def turn(self) -> None:
        """Ask every pod that can be asked and write down what is new."""
        placements = self._cluster.placements.objects().values()
        here = {str(placement.spec["uid"]) for placement in placements}
        self._books = {uid: book for uid, book in self._books.items() if uid in here}
        with ThreadPoolExecutor(LANES, "pod-reader-lane") as lanes:
            for placement in placements:
                serves = placement.spec.get("type") == WorkloadType.SERVING
                changes = self._requests(placement, lanes) if serves else self._checkpoints(placement, lanes)
                if changes:
                    self._cluster.write_status(placement, changes)

    def _requests(self, placement: KubePlacement, lanes: ThreadPoolExecutor) -> Json:
        promise_ms = desired_of(placement).spec.slo.latency_p95_ms
        pods = list(self._pods(placement))
        seen, alive = dict(self._ask_all(pods, lanes)), {pod.metadata.uid for pod in pods}
        counts = {uid: count for uid, one in seen.items() if (count := count_of(one, promise_ms)) is not None}
        changes = added(placement.status, counts, alive)
        if (pulse := self._pulse(placement, seen, alive)) is not None:
            changes["pulse"] = msgspec.to_builtins(pulse)
        return changes

    def _pulse(self, placement: KubePlacement, seen: Mapping[str, Samples], alive: set[str]) -> Pulse | None:
        """What its engines show together, where they are engines; nothing is written while none answers."""
        book = self._books.setdefault(str(placement.spec["uid"]), PulseBook())
        engines = {uid: found for uid, one in seen.items() if (found := shown(one)) is not None}
        pulse = book.add(engines, self._cluster.now())
        book.forget(alive)
        return pulse

    def _checkpoints(self, placement: KubePlacement, lanes: ThreadPoolExecutor) -> Json:
        """Of a gang all must be up: what its first members show while others begin again is of the time before."""
        desired = desired_of(placement)
        generation = int(placement.spec["generation"])
        up = {pod.name: pod for pod in self._up(placement, generation)}
        begun = [pod.started_s for pod in up.values() if pod.started_s is not None]
        if desired.spec.checkpoint_s <= 0 or len(begun) < (desired.placement.replicas or desired.spec.size):
            return {}
        pods = [pod for name in up if (pod := self._cluster.pods.get(name)) is not None]
        said = {pod.metadata.uid: at_s for pod in pods if (at_s := said_by(pod)) is not None}
        asked = {pod.metadata.uid: pod for pod in pods if pod.metadata.uid not in said}
        for uid, one in self._ask_all(asked.values(), lanes):
            if (at_s := shown_by(one, asked[uid])) is not None:
                said[uid] = at_s
        return saved(placement.status, generation, list(said.values()), max(begun), self._cluster.now())

    def _up(self, placement: KubePlacement, generation: int) -> Iterator[Pod]:
        for pod in self._cluster.pods_by_uid().get(str(placement.spec["uid"]), ()):
            if pod.generation == generation and pod.phase is PodPhase.RUNNING:
                yield pod

    def _ask_all(self, pods: Iterable[KubePod], lanes: ThreadPoolExecutor) -> Iterator[tuple[str, Samples]]:
        urls = {pod.metadata.uid: url for pod in pods if (url := url_of(pod))}
        return zip(urls, lanes.map(self._ask, urls.values()), strict=True)

    def _pods(self, placement: KubePlacement) -> Iterable[KubePod]:
        label = names.label_value(str(placement.spec["uid"]))
        for pod in self._cluster.pods.objects().values():
            if pod.metadata.namespace == placement.metadata.namespace and pod.metadata.labels.get(names.UID) == label:
                yield pod

    def _ask(self, url: str) -> Samples:
        return samples_of(fetch_or_nothing(url, self._fetch))

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            try:
                self.turn()
            except DureError as error:
                _log.info("pods are read later", cluster=self._cluster.name, error=str(error))


def url_of(pod: KubePod) -> str:
    """Where a pod shows its metrics; empty when it does not say."""
    base = base_of(pod)
    return f"{base}/{pod.metadata.annotations.get(f'{_SCRAPE}path', '/metrics').lstrip('/')}" if base else ""


def base_of(pod: KubePod) -> str:
    """Where the server that shows them answers."""
    said = {key.removeprefix(_SCRAPE): value for key, value in pod.metadata.annotations.items() if _SCRAPE in key}
    port, scheme = said.get("port", ""), said.get("scheme", "http")
    shown = said.get("scrape") == "true" and pod.status.phase == "Running"
    if not shown or not port.isdigit() or not pod.status.pod_ip or scheme not in ("http", "https"):
        return ""
    host = f"[{pod.status.pod_ip}]" if ":" in pod.status.pod_ip else pod.status.pod_ip
    return f"{scheme}://{host}:{port}"


def fetch_text(url: str) -> str:
    with httpx.Client(timeout=PATIENCE_S, trust_env=False) as http, http.stream("GET", url) as answer:
        answer.raise_for_status()
        body = b""
        for part in answer.iter_bytes():
            body += part
            if len(body) > MAX_BYTES:
                raise ValueError(f"more than {MAX_BYTES} bytes of metrics")
    return body.decode(errors="replace")


def fetch_or_nothing(url: str, fetch: Callable[[str], str] = fetch_text) -> str:
    """The text, or nothing where it is not shown, which is logged."""
    try:
        return fetch(url)
    except (httpx.HTTPError, ValueError) as error:
        _log.info("no metrics are shown", url=url, error=str(error))
        return ""
