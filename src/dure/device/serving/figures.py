"""What the server tells of itself, in the names that everybody's rules and dashboards know: vLLM's and DCGM's.

`vllm:num_requests_waiting` counts requests inside that no answer is computed for yet; with one model on one slice
that is all but one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0)


class Figures:
    def __init__(self, model: str, memory_mib: int = 0) -> None:
        self._registry = CollectorRegistry()
        labels = ["model_name"]

        def gauge(name: str, told: str) -> Gauge:
            return Gauge(name, told, labels, registry=self._registry).labels(model)

        self._running = gauge("vllm:num_requests_running", "Requests that are computed.")
        self._waiting = gauge("vllm:num_requests_waiting", "Requests that wait.")
        self._latency = Histogram(
            "vllm:e2e_request_latency_seconds",
            "From question to answer.",
            labels,
            buckets=BUCKETS,
            registry=self._registry,
        ).labels(model)
        self._answered = Counter(
            "vllm:request_success", "Answered requests.", [*labels, "finished_reason"], registry=self._registry
        ).labels(model, "stop")
        self._busy = gauge("DCGM_FI_DEV_GPU_UTIL", "Part of the time with a request inside, in percent.")
        self._memory = gauge("DCGM_FI_DEV_FB_USED", "Memory of the slice, in MiB.")
        self._memory.set(memory_mib)
        self._inside = 0
        self._since = time.monotonic()
        self._busy_s = 0.0
        self._looked = (self._since, 0.0)

    @property
    def inside(self) -> int:
        return self._inside

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count one request; its caller holds the server's lock while entering and leaving."""
        began = time.monotonic()
        self._move(+1)
        answered = False
        try:
            yield
            answered = True
        finally:
            self._move(-1)
            if answered:
                self._latency.observe(time.monotonic() - began)
                self._answered.inc()

    def set_memory(self, memory_mib: int) -> None:
        self._memory.set(memory_mib)

    def text(self) -> bytes:
        now = time.monotonic()
        busy = self._busy_now(now)
        then, before = self._looked
        if now > then:
            self._busy.set(round(100.0 * (busy - before) / (now - then), 1))
        self._looked = (now, busy)
        return generate_latest(self._registry)

    def _move(self, by: int) -> None:
        now = time.monotonic()
        self._busy_s = self._busy_now(now)
        self._since = now
        self._inside += by
        self._running.set(min(1, self._inside))
        self._waiting.set(max(0, self._inside - 1))

    def _busy_now(self, now: float) -> float:
        return self._busy_s + (now - self._since if self._inside else 0.0)
