"""What the figures mean: anomalies, error budgets, what comes next, and whether Dure's own predictions hold.

Handlers call it in threads. Each answer is computed from kept samples or records when somebody asks and kept for a
while, since it walks days of figures and many may ask at once.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import structlog

from dure.api.backend import Backend, Shares
from dure.api.pulse import Pulse
from dure.model.answer import ServiceStatus, Trouble
from dure.model.errors import DureError
from dure.model.sample import Sample
from dure.model.units import DAY_S, HOUR_S, Instant
from dure.plane.books import MARK
from dure.watch.anomaly import Anomaly, DetectSettings, detect
from dure.watch.attainment import P95
from dure.watch.burn import BUDGET_S, PAGE, BudgetState, Count, budget_state
from dure.watch.drift import Drift, costs, drift, durations
from dure.watch.forecast import Forecast, forecast
from dure.watch.history import CARBON, COST, GOOD, REQUESTS, UP, USED
from dure.watch.hourly import hourly
from dure.watch.look import counts, gridded, looked, uptime

T = TypeVar("T")
_log = structlog.get_logger("dure.api")
# Five-minute means reach back this far; so many of them are the most that is answered.
PAST_S, STEP_S = 6.5 * DAY_S, 300.0
FORESEEN = {"cost": COST, "carbon": CARBON, "used": USED}
AHEAD_H, FORECAST_PAST_S = 24, 35.0 * DAY_S
DRIFT_PAST_S = 30.0 * DAY_S
# Real seconds for which an answer stands.
KEPT_S = 20.0
IN_TIME, UP_TIME = "in time", "up"
# Over a long time only means are kept, too coarse for the short windows: those are read apart.
FINE_S = 0.3 * DAY_S


class ServiceBudget(msgspec.Struct, frozen=True, omit_defaults=True):
    """`promise` says what is counted: requests in time, or the time in which somebody is there to answer."""

    workload: str
    tenant: str
    level: str
    state: BudgetState
    model: str = ""
    cluster: str = ""
    promise: str = IN_TIME


class Foreseen(msgspec.Struct, frozen=True):
    """One value an hour: what was, and what is to come with its quantiles. `unit` is that of the series' name.

    Of a `tenant` the past is its own, from its ledger: money, grams and devices' worth of what it held.
    """

    name: str
    series: str
    past: tuple[tuple[Instant, float | None], ...]
    ahead: tuple[tuple[Instant, tuple[float, ...]], ...]
    quantiles: tuple[float, ...]
    method: str
    tenant: str = ""


class Insight:
    def __init__(
        self,
        backend: Backend,
        pulse: Pulse,
        shares: Shares | None = None,
        *,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend, self._pulse, self._shares, self._timer = backend, pulse, shares, timer
        self._locks: dict[str, threading.Lock] = {}
        self._kept: dict[str, tuple[float, Any]] = {}

    def anomalies(self) -> tuple[Anomaly, ...]:
        return self._once("anomalies", self._anomalies)

    def budgets(self) -> tuple[ServiceBudget, ...]:
        """The worst first."""
        return self._once("budgets", self._budgets)

    def troubles(self) -> tuple[Trouble, ...]:
        """Promises that are being broken now: services whose budget burns fast enough to call somebody.

        From what is kept, however old: the first page asks every second, `run` renews it.
        """
        kept = self._kept.get("budgets")
        budgets: tuple[ServiceBudget, ...] = kept[1] if kept is not None else self.budgets()
        return tuple(_broken(one) for one in budgets if one.level == PAGE)

    async def run(self) -> None:
        """Keep the troubles fresh for as long as the server runs."""
        while True:
            await asyncio.sleep(KEPT_S)
            try:
                await asyncio.to_thread(self.budgets)
            except DureError as error:
                _log.warning("no budgets", error=str(error))

    def foreseen(self, name: str, tenant: str = "") -> Foreseen:
        """`name` is one of `FORESEEN`; of one tenant, which has to exist, or of the whole fleet."""
        make = self._foreseen_of if tenant else self._foreseen
        return self._once(f"foreseen/{name}/{tenant}", lambda: make(name, tenant))

    def drifts(self) -> tuple[Drift, ...]:
        return self._once("drift", self._drifts)

    def _once(self, name: str, make: Callable[[], T]) -> T:
        # Each answer has its own lock: who asks for budgets does not wait for a search of anomalies.
        with self._locks.setdefault(name, threading.Lock()):
            kept = self._kept.get(name)
            if kept is None or self._timer() - kept[0] >= KEPT_S:
                kept = (self._timer(), make())
                self._kept[name] = kept
            found: T = kept[1]
            return found

    def _anomalies(self) -> tuple[Anomaly, ...]:
        now_s = self._backend.now()
        since_s = max(now_s - PAST_S, self._first_s(now_s))
        seen = looked(lambda name: self._pulse.series(name, since_s, now_s), since_s, now_s, STEP_S)
        settings = DetectSettings(season=int(DAY_S // STEP_S))
        return detect(seen.times, seen.values, seen.watched, settings)

    def _first_s(self, now_s: Instant) -> Instant:
        """When the kept figures begin: a past of gaps would teach nothing."""
        kept = self._pulse.series(COST, now_s - PAST_S, now_s)
        return kept[0].at_s if kept else now_s

    def _budgets(self) -> tuple[ServiceBudget, ...]:
        now_s = self._backend.now()
        services = self._pulse.status().services
        asked = counts(self._kept_of(REQUESTS, now_s), self._kept_of(GOOD, now_s))
        up = uptime(self._kept_of(UP, now_s))
        found = [_budget(one, IN_TIME, asked, one.target or P95, now_s) for one in services]
        found += [_budget(one, UP_TIME, up, one.availability, now_s) for one in services if one.availability]
        order = {PAGE: 0, "ticket": 1, "": 2}
        return tuple(sorted(found, key=lambda one: (order[one.level], one.state.left or 0.0, one.workload)))

    def _kept_of(self, name: str, now_s: Instant) -> list[Sample]:
        """Each series of a budget's time, its end as fine as it is kept."""
        far = self._pulse.series(name, now_s - BUDGET_S, now_s)
        near = self._pulse.series(name, now_s - FINE_S, now_s)
        begins: dict[str, Instant] = {}
        for one in near:
            whose = one.labels.get("workload", "")
            begins[whose] = min(one.at_s, begins.get(whose, math.inf))
        return [one for one in far if one.at_s < begins.get(one.labels.get("workload", ""), math.inf)] + list(near)

    def _foreseen(self, name: str, _: str) -> Foreseen:
        series, now_s = FORESEEN[name], self._backend.now()
        hours = int(FORECAST_PAST_S // HOUR_S)
        since_s = (now_s // HOUR_S - hours) * HOUR_S
        kept = gridded(self._pulse.series(series, since_s, now_s), (), since_s, hours, float(HOUR_S)).get("")
        values = [] if kept is None else kept.tolist()
        known = next((index for index, value in enumerate(values) if value == value), len(values))
        return _foretold(name, series, values[known:], since_s + hours * HOUR_S)

    def _foreseen_of(self, name: str, tenant: str) -> Foreseen:
        """From the hours that the ledger has closed: the one under way would look like a fall."""
        store, now_s = self._backend.store, self._backend.now()
        written = store.fetch_setting(MARK)
        until = int(min(now_s, float(written) if written else now_s) // HOUR_S)
        postings = store.list_ledger(until - int(FORECAST_PAST_S // HOUR_S), until, tenant=tenant)
        _, past = hourly(postings, until, name)
        return _foretold(name, f"ledger {name} of {tenant}", past, float(until * HOUR_S), tenant)

    def _drifts(self) -> tuple[Drift, ...]:
        since_s = self._backend.now() - DRIFT_PAST_S
        ended = self._backend.store.list_workloads(ended=True, since_s=since_s)
        shared = self._shares.list_foretold() if self._shares is not None else ()
        return (*drift("duration", durations(ended)), *drift("cost", costs(ended)), *drift("sharing", shared))


def _foretold(name: str, series: str, past: list[float], next_s: Instant, tenant: str = "") -> Foreseen:
    """One rule for fleet and tenants: nothing is foretold of a tenant from a past too short for the fleet."""
    made: Forecast = forecast(past, AHEAD_H)
    begin_s = next_s - len(past) * HOUR_S
    return Foreseen(
        name,
        series,
        tuple((begin_s + index * HOUR_S, value if value == value else None) for index, value in enumerate(past)),
        tuple((next_s + index * HOUR_S, row) for index, row in enumerate(made.values)),
        made.quantiles,
        made.method,
        tenant,
    )


def _budget(
    service: ServiceStatus, promise: str, counted: Mapping[str, Sequence[Count]], target: float, now_s: Instant
) -> ServiceBudget:
    name = service.workload
    state = budget_state(counted.get(name, ()), target, now_s)
    return ServiceBudget(name, service.tenant, state.level, state, service.model, service.cluster, promise)


def _broken(promise: ServiceBudget) -> Trouble:
    name = promise.workload
    pace = max(burn.long or 0.0 for burn in promise.state.burns if burn.firing)
    what = "error budget" if promise.promise == IN_TIME else "budget of time without a replica"
    sentence = f"{name} spends its {what} {pace:.0f} times as fast as it may"
    return Trouble(sentence, promise.cluster, name, f"dure why {name}")
