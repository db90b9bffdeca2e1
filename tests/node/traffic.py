"""Generated load on a service, the front before it, and what became of every request."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lab.cluster import Cluster
from tests.kube.chaos import Process
from tests.kube.world import until
from tests.node.serving import PORT, Client


class Seen(NamedTuple):
    """One request: when it was asked, how long it took, and its status (0: no answer)."""

    at_s: float
    took_s: float
    status: int


class Load:
    """`width` clients that each ask again when answered, at once or after a pause; `seen` grows until `stop`."""

    def __init__(self, host: str, port: int) -> None:
        self._client = Client(host, port)
        self._lock = threading.Lock()
        self._began = time.perf_counter()
        self._width = 0
        self._pause_s = 0.0
        self._threads: list[threading.Thread] = []
        self.seen: list[Seen] = []

    @property
    def now_s(self) -> float:
        return time.perf_counter() - self._began

    @property
    def failed(self) -> list[Seen]:
        with self._lock:
            return [one for one in self.seen if one.status != 200]

    def widen(self, width: int, pause_s: float = 0.0) -> None:
        """So many at once from now on; those beyond it end with the request that they have."""
        self._width, self._pause_s = width, pause_s
        while len(self._threads) < width:
            thread = threading.Thread(target=self._ask, args=(len(self._threads),), daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        self._width = 0
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def between(self, begin_s: float, end_s: float) -> list[Seen]:
        with self._lock:
            return [one for one in self.seen if begin_s <= one.at_s < end_s]

    def _ask(self, number: int) -> None:
        idle = threading.Event()
        while self._width:
            if number >= self._width:
                idle.wait(0.05)
                continue
            began = self.now_s
            status = self._client.infer()
            with self._lock:
                self.seen.append(Seen(began, self.now_s - began, status))
            if self._pause_s:
                idle.wait(self._pause_s)


def p95_ms(seen: list[Seen]) -> float:
    return round(float(np.quantile([one.took_s for one in seen], 0.95)) * 1000.0, 1) if seen else 0.0


def in_time(seen: list[Seen], limit_ms: float) -> float:
    """The part that was answered, and within the limit."""
    good = sum(one.status == 200 and one.took_s * 1000.0 <= limit_ms for one in seen)
    return round(good / max(1, len(seen)), 4)


@contextlib.contextmanager
def front(folder: Path, port: int, namespace: str, selector: str, *clusters: Cluster) -> Iterator[None]:
    """`dure front` on a port of its own, following the pods of some clusters."""
    options = ["--pods", selector, "--namespace", namespace, "--pod-port", str(PORT), "--port", str(port)]
    for cluster in clusters:
        options += ["--kubeconfig", str(cluster.kubeconfig_path)]
    log = folder / "front.log"
    process = Process(log, "front", *options)
    process.start()
    try:
        until(lambda: "Front on" in log.read_text(), "the front")
        yield
    finally:
        process.close()
