"""The newest status of the fleet, shared by all who ask, and its past for the charts.

Computing a status walks the whole fleet, so many readers within half a second get the same one. Every new one leaves
its figures in the `MetricsPort`, from which the past is read.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable

import structlog

from dure.api.backend import Backend
from dure.model.answer import FleetStatus
from dure.model.errors import DureError, Temporary
from dure.model.sample import Point, Sample
from dure.model.units import Instant
from dure.ports import MetricsPort
from dure.watch.history import points_of, samples_of

FRESH_S = 0.5
SAMPLE_S = 2.0
_log = structlog.get_logger("dure.api")


class Pulse:
    def __init__(
        self, backend: Backend, samples: MetricsPort, *, timer: Callable[[], float] = time.monotonic
    ) -> None:
        self._backend = backend
        self._samples = samples
        self._timer = timer
        self._lock = threading.Lock()
        self._newest: FleetStatus | None = None
        self._read_at = 0.0
        self._kept_s: Instant | None = None

    def status(self) -> FleetStatus:
        """At most half a second old. One reader computes, the others wait for it."""
        with self._lock:
            if self._newest is None or self._timer() - self._read_at >= FRESH_S:
                self._newest = self._backend.status()
                self._read_at = self._timer()
                self._keep(self._newest)
            return self._newest

    def history(self, since_s: Instant = 0.0) -> tuple[Point, ...]:
        """The headline figures, oldest first; over a long time in coarser steps."""
        return points_of(lambda name: self._samples.fetch_samples(name, since_s, math.inf))

    def series(self, name: str, since_s: Instant, until_s: Instant) -> tuple[Sample, ...]:
        return self._samples.fetch_samples(name, since_s, until_s)

    async def run(self) -> None:
        """Sample for as long as the server runs, so that the charts have a past when somebody looks."""
        while True:
            try:
                await asyncio.to_thread(self.status)
            except DureError as error:
                _log.warning("no status", error=str(error))
            await asyncio.sleep(SAMPLE_S)

    def _keep(self, status: FleetStatus) -> None:
        if self._kept_s is None or status.now_s > self._kept_s:
            self._kept_s = status.now_s
            try:
                self._samples.write_samples(samples_of(status))
            except Temporary as error:
                # A chart with a hole is better than no status.
                _log.warning("no samples kept", error=str(error))
