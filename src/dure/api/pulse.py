"""The newest status of the fleet, shared by all who ask, and its recent past for the charts.

Computing a status walks the whole fleet, so many readers within half a second get the same one. The past is kept
in memory only: it is for the eye; what must survive is in the store.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable

import msgspec
import structlog

from dure.api.backend import Backend
from dure.model.answer import FleetStatus
from dure.model.errors import DureError
from dure.model.units import Grams, Instant, Micros

FRESH_S = 0.5
SAMPLE_S = 2.0
MAX_POINTS = 1800
_log = structlog.get_logger("dure.api")


class Point(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fleet's headline figures at one moment of its clock."""

    at_s: Instant
    cost_per_hour_micros: Micros
    carbon_g_per_hour: Grams
    used: float
    running: int
    held: int
    slo_attainment: float | None = None


class Pulse:
    def __init__(self, backend: Backend, *, timer: Callable[[], float] = time.monotonic) -> None:
        self._backend = backend
        self._timer = timer
        self._lock = threading.Lock()
        self._newest: FleetStatus | None = None
        self._read_at = 0.0
        self._points: deque[Point] = deque(maxlen=MAX_POINTS)

    def status(self) -> FleetStatus:
        """At most half a second old. One reader computes, the others wait for it."""
        with self._lock:
            if self._newest is None or self._timer() - self._read_at >= FRESH_S:
                self._newest = self._backend.status()
                self._read_at = self._timer()
                self._keep(self._newest)
            return self._newest

    def history(self, since_s: Instant = 0.0) -> tuple[Point, ...]:
        with self._lock:
            return tuple(point for point in self._points if point.at_s >= since_s)

    async def run(self) -> None:
        """Sample for as long as the server runs, so that the charts have a past when somebody looks."""
        while True:
            try:
                await asyncio.to_thread(self.status)
            except DureError as error:
                _log.warning("no status", error=str(error))
            await asyncio.sleep(SAMPLE_S)

    def _keep(self, status: FleetStatus) -> None:
        if self._points and status.now_s <= self._points[-1].at_s:
            return
        totals = status.totals
        self._points.append(
            Point(
                at_s=status.now_s,
                cost_per_hour_micros=totals.cost_per_hour_micros,
                carbon_g_per_hour=totals.carbon_g_per_hour,
                used=totals.used_milli / 1000 / totals.devices if totals.devices else 0.0,
                running=totals.running,
                held=totals.held + totals.pending,
                slo_attainment=totals.slo_attainment,
            )
        )
