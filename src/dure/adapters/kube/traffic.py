"""How many requests a serving answered on a real cluster, and how many in time: read from its own pods.

`Member` runs one beside its agent. A pod is asked when it carries the annotations that Prometheus knows
(`prometheus.io/scrape`, `port`, `path`, `scheme`) and shows a latency histogram of a known name. The counts are kept
in the Placement's status, so that they survive agents, and pods whose counters begin again. Where nothing can be
read nothing is written: unknown is not zero. What engines of language models show (`pulse`) goes the same way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import httpx
import msgspec
import structlog
from prometheus_client.parser import text_string_to_metric_families

from dure.adapters.kube import names
from dure.adapters.kube.cluster import KubeCluster
from dure.adapters.kube.objects import KubePlacement, KubePod
from dure.adapters.kube.progress import desired_of
from dure.adapters.kube.pulse import PulseBook, shown
from dure.model.errors import DureError
from dure.model.pulse import Pulse
from dure.model.units import Instant, Seconds
from dure.model.workload import WorkloadType

Json = dict[str, Any]
EVERY_S = 15.0
PATIENCE_S = 2.0
MAX_BYTES = 4 * 1024 * 1024
LANES = 8
# Latency of whole requests in seconds, best known first: vLLM, TGI, Triton-like and plain HTTP servers.
HISTOGRAMS = (
    "vllm:e2e_request_latency_seconds",
    "tgi_request_duration",
    "request_duration_seconds",
    "http_request_duration_seconds",
)
_SCRAPE = "prometheus.io/"

_log = structlog.get_logger("dure.kube")


class Count(NamedTuple):
    """`good` is None where the histogram cannot tell: no promise, or no bound at or below it."""

    requests: int
    good: int | None


class TrafficReader:
    def __init__(
        self,
        cluster: KubeCluster,
        fetch: Callable[[str], str] | None = None,
        every_s: Seconds = EVERY_S,
        now: Callable[[], Instant] = time.time,
    ) -> None:
        self._now = now
        self._books: dict[str, PulseBook] = {}
        self._cluster = cluster
        self._every_s = every_s
        self._fetch = fetch or fetch_text
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(LANES * PATIENCE_S)

    def turn(self) -> None:
        """Ask every pod that can be asked and write down what is new."""
        with ThreadPoolExecutor(LANES, "traffic-lane") as lanes:
            for placement in self._cluster.placements.objects().values():
                if placement.spec.get("type") != WorkloadType.SERVING:
                    continue
                promise_ms = desired_of(placement).spec.slo.latency_p95_ms
                pods = list(self._pods(placement))
                urls = {pod.metadata.uid: url for pod in pods if (url := url_of(pod))}
                texts = dict(zip(urls, lanes.map(self._ask, urls.values()), strict=True))
                counts = {
                    uid: count for uid, text in texts.items() if (count := count_of(text, promise_ms)) is not None
                }
                alive = {pod.metadata.uid for pod in pods}
                changes = added(placement.status, counts, alive)
                if (pulse := self._pulse(placement, texts, alive)) is not None:
                    changes["pulse"] = msgspec.to_builtins(pulse)
                if changes:
                    self._cluster.write_status(placement, changes)

    def _pulse(self, placement: KubePlacement, texts: Mapping[str, str], alive: set[str]) -> Pulse | None:
        """What its engines show together, where they are engines; nothing is written while none answers."""
        book = self._books.setdefault(str(placement.spec["uid"]), PulseBook())
        engines = {uid: found for uid, text in texts.items() if (found := shown(text)) is not None}
        pulse = book.add(engines, self._now())
        book.forget(alive)
        return pulse

    def _pods(self, placement: KubePlacement) -> Iterable[KubePod]:
        label = names.label_value(str(placement.spec["uid"]))
        for pod in self._cluster.pods.objects().values():
            if pod.metadata.namespace == placement.metadata.namespace and pod.metadata.labels.get(names.UID) == label:
                yield pod

    def _ask(self, url: str) -> str:
        return fetch_or_nothing(url, self._fetch)

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            try:
                self.turn()
            except DureError as error:
                _log.info("traffic is read later", cluster=self._cluster.name, error=str(error))


def url_of(pod: KubePod) -> str:
    """Where a pod shows its metrics; empty when it does not say."""
    said = {key.removeprefix(_SCRAPE): value for key, value in pod.metadata.annotations.items() if _SCRAPE in key}
    port, scheme = said.get("port", ""), said.get("scheme", "http")
    shown = said.get("scrape") == "true" and pod.status.phase == "Running"
    if not shown or not port.isdigit() or not pod.status.pod_ip or scheme not in ("http", "https"):
        return ""
    host = f"[{pod.status.pod_ip}]" if ":" in pod.status.pod_ip else pod.status.pod_ip
    return f"{scheme}://{host}:{port}/{said.get('path', '/metrics').lstrip('/')}"


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


def count_of(text: str, promise_ms: float | None) -> Count | None:
    """Requests of the best known histogram, and those in buckets that lie within the promise for sure."""
    try:
        families = {family.name: family.samples for family in text_string_to_metric_families(text)}
    except ValueError:
        return None
    for name in HISTOGRAMS:
        samples = families.get(name, ())
        total = sum(one.value for one in samples if one.name == f"{name}_count")
        if not any(one.name == f"{name}_count" for one in samples):
            continue
        buckets: dict[float, float] = {}
        for one in samples:
            if one.name == f"{name}_bucket":
                bound = float(one.labels["le"])
                buckets[bound] = buckets.get(bound, 0.0) + one.value
        within = [bound for bound in buckets if promise_ms is not None and bound * 1000 <= promise_ms]
        return Count(int(total), int(buckets[max(within)]) if within else None)
    return None


def added(status: Json, counts: Mapping[str, Count], alive: Collection[str]) -> Json:
    """What of the status changes. A counter that is lower than before has begun again from zero.

    Pods that are gone are forgotten by a null, as a merge patch wants it.
    """
    before: Json = status.get("traffic", {})
    now: Json = {uid: None for uid in before if uid not in alive}
    requests, good = status.get("requests"), status.get("requestsGood")
    for uid, count in counts.items():
        old_requests, old_good = before.get(uid, (0, 0))
        begun_again = count.requests < old_requests
        requests = (requests or 0) + count.requests - (0 if begun_again else old_requests)
        if count.good is not None:
            good = (good or 0) + count.good - (0 if begun_again else old_good or 0)
        if before.get(uid) != list(count):
            now[uid] = list(count)
    if not now:
        return {}
    found = {"requests": requests, "requestsGood": good, "traffic": now}
    return {key: value for key, value in found.items() if value is not None}
