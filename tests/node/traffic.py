"""Generated load on a service, the front before it, and what became of every request."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lab.cluster import Cluster
from tests.kube.chaos import Process
from tests.kube.world import until
from tests.node.serving import PORT, Client

# A slice is a small part of a core of its own, so that what it answers is its share and not how busy the machine is.
SLICES, CORES = 24, 1
CALM = (1, 10.0)
# The surge: so many times what one slice answers, twice that on a machine where it is no surge after so long.
OVER, DOUBLE_S = 1.5, 40.0
# Nobody waits for longer than this: so many are inside at most, and gone as soon after the second replica comes.
LONGEST_S = 1.0
FEW, PROBE = 4, 150


class Seen(NamedTuple):
    """One request: when it was asked, how long it took, and its status (0: no answer)."""

    at_s: float
    took_s: float
    status: int


class Load:
    """Requests as `offer` says; `seen` grows until `stop`."""

    def __init__(self, host: str, port: int) -> None:
        self._client = Client(host, port)
        self._lock = threading.Lock()
        self._gate = threading.Lock()
        self._began = time.perf_counter()
        self._most = 0
        self._gap_s = self._next_s = 0.0
        self._threads: list[threading.Thread] = []
        self.seen: list[Seen] = []

    @property
    def now_s(self) -> float:
        return time.perf_counter() - self._began

    @property
    def failed(self) -> list[Seen]:
        with self._lock:
            return [one for one in self.seen if one.status != 200]

    def offer(self, most: int, per_s: float = math.inf) -> None:
        """So many a second from now on whatever becomes of them, but at most `most` inside: who finds so many there
        does not ask. Without a rate each asks again when answered."""
        self._most, self._gap_s = most, 1.0 / per_s
        while len(self._threads) < most:
            thread = threading.Thread(target=self._ask, args=(len(self._threads),), daemon=True)
            self._threads.append(thread)
            thread.start()

    def capacity(self, inside: int, requests: int, patience_s: float) -> float:
        """Answers per second while there are always so many inside, over so many requests."""
        self.offer(inside)
        begin, begin_s = len(self.seen), self.now_s
        until(lambda: len(self.seen) >= begin + requests, "answers without a pause", patience_s)
        return (len(self.seen) - begin) / (self.now_s - begin_s)

    def stop(self) -> None:
        self._most = 0
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def between(self, begin_s: float, end_s: float) -> list[Seen]:
        with self._lock:
            return [one for one in self.seen if begin_s <= one.at_s < end_s]

    def _ask(self, number: int) -> None:
        idle = threading.Event()
        while self._most:
            if number >= self._most:
                idle.wait(0.05)
                continue
            with self._gate:
                idle.wait(max(0.0, self._next_s - self.now_s))
                # What nobody was free for is not made up for later, but for the one that is due.
                self._next_s = max(self._next_s, self.now_s - self._gap_s) + self._gap_s
            began = self.now_s
            status = self._client.infer()
            with self._lock:
                self.seen.append(Seen(began, self.now_s - began, status))


class Surge:
    """More than one slice can answer: what it can is measured first."""

    def __init__(self, load: Load, patience_s: float) -> None:
        self._load, self._patience_s = load, patience_s
        self.capacity = load.capacity(FEW, PROBE, patience_s)
        self.begin_s = load.now_s
        self.per_s = 0.0

    def until(self, reached: Callable[[], bool], what: str) -> None:
        """Begins, and becomes larger until somebody does something about it."""

        def surging() -> bool:
            self._offer(OVER * 2 ** int((self._load.now_s - self.begin_s) / DOUBLE_S))
            return reached()

        until(surging, what, self._patience_s)

    def settle(self) -> None:
        """At its first rate: what waited when the second replica came is not its doing."""
        self._offer(OVER)
        end_s = self._load.now_s + 2.0 * LONGEST_S / (2.0 - OVER)
        until(lambda: self._load.now_s >= end_s, "the end of the queue", self._patience_s)

    def _offer(self, times: float) -> None:
        if self.per_s != times * self.capacity:
            self.per_s = times * self.capacity
            self._load.offer(max(FEW, round(LONGEST_S * self.per_s / OVER)), self.per_s)


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
