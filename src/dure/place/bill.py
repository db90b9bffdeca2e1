"""The bill of an option, one small function per term (design section 3), for all start times at once.

bill = direct price + energy x PUE x (electricity + carbon price x intensity) + SLA penalty + expected spot rework
     + what weights and data cost on a metered line - what weights and data already there are worth.

What a move costs on top is `move_price`. The rest of a node that would be booted for the workload alone stands in the
choice, not in the bill (`opening`).

`quote` is called by `batch` for each workload and pool. Money is 1e-6 of the tariff's currency inside the terms and
of the fleet's currency in the Bill. Energy is Wh at the wall, carbon grams.
"""

from __future__ import annotations

import msgspec
import numpy as np

from dure.model.bill import Bill
from dure.model.money import Rates
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity
from dure.model.units import DAY_S, HOUR_S, MIB_PER_GIB, Instant, MiB, Micros, Seconds, WattHours
from dure.model.weights import Weights
from dure.model.workload import MEANT, Workload, WorkloadType
from dure.place.hours import CarbonIntegral, Integral, Spans, constant, spans
from dure.place.instance import Floats
from dure.place.option import Option
from dure.place.settings import PlaceSettings

# A serving workload has no end; its options are compared over one day.
SERVING_HORIZON_S = 86_400.0
# Chances of the low, middle and high quantile of the run time.
QUANTILE_CHANCE = (0.3, 0.4, 0.3)


class Quote(msgspec.Struct, frozen=True):
    """Every term for each start of one workload on one pool, in the fleet's currency (micros) and grams."""

    starts: Floats
    run_s: Seconds
    direct: Floats
    energy: Floats
    carbon: Floats
    sla: Floats
    rework: Floats
    traffic: Micros
    warm_saved: Floats
    data_saved: Micros
    grams: Floats
    watt_hours: WattHours
    known: Floats
    opening: Floats | float = 0.0
    """What the rest of the nodes that it needs booted costs until somebody uses it; nobody is billed for it."""

    @property
    def total(self) -> Floats:
        """Most options are on time, not on spot and have nothing in place: what is nothing is not added up."""
        nothing = constant(0.0, len(self.starts))
        costs = self.direct + self.carbon if self.energy is nothing else self.direct + self.energy + self.carbon
        for term in (self.sla, self.rework):
            costs = costs if term is nothing else costs + term
        costs = costs + self.traffic if self.traffic else costs
        costs = costs if self.warm_saved is nothing else costs - self.warm_saved
        return np.asarray(costs - self.data_saved if self.data_saved else costs)

    def steer(self, weights: Weights, congestion: float | Floats, settings: PlaceSettings, now_s: Instant) -> Floats:
        """What the choice goes by: the bill under the adaptive weights, plus the doubt in later hours."""
        doubt = settings.wait_charge_per_day + settings.forecast_margin_per_day
        nothing = constant(0.0, len(self.starts))
        steer = self.total + self._wished(settings) if settings.weighted else self.total
        if self.sla is not nothing:
            steer = steer + (weights.slo - 1) * self.sla
        if self.data_saved or self.warm_saved is not nothing:
            steer = steer - (weights.locality - 1) * (self.warm_saved + self.data_saved)
        steer = steer + (congestion - 1) * self.direct + self.opening
        if self.starts[-1] > now_s:
            steer = steer + doubt * (self.direct + self.energy) * np.maximum(0.0, self.starts - now_s) / DAY_S
        # Equal money is decided by carbon: a gram weighs a thousandth of a micro.
        return np.asarray(steer + 1e-3 * self.grams)

    def _wished(self, settings: PlaceSettings) -> Floats:
        """What the owner's weights add to the terms in the choice."""
        return np.asarray(
            (settings.money_weight - 1) * (self.direct + self.energy + self.traffic)
            + (settings.carbon_weight - 1) * self.carbon
            + (settings.sla_weight - 1) * self.sla
            + (settings.rework_weight - 1) * self.rework
            - (settings.reuse_weight - 1) * (self.warm_saved + self.data_saved)
        )

    def first(self, count: int = 1) -> Quote:
        """The same with the first start alone, or so many."""
        if len(self.starts) <= count:
            return self
        arrays = ("starts", "direct", "energy", "carbon", "sla", "rework", "warm_saved", "grams", "known")
        opening = self.opening if isinstance(self.opening, float) else self.opening[:count]
        fewer = {name: getattr(self, name)[:count] for name in arrays}
        return msgspec.structs.replace(self, opening=opening, **fewer)

    def bill(self, at: int) -> Bill:
        return Bill(
            direct=round(self.direct.item(at)),
            energy=round(self.energy.item(at)),
            carbon=round(self.carbon.item(at)),
            sla=round(self.sla.item(at)),
            rework=round(self.rework.item(at)),
            traffic=self.traffic,
            warm_saved=round(self.warm_saved.item(at)),
            data_saved=self.data_saved,
            carbon_g=self.grams.item(at),
            energy_wh=self.watt_hours,
            carbon_unknown=self.known.item(at) < 1.0,
        )


def quote(
    workload: Workload,
    option: Option,
    snapshot: Snapshot,
    settings: PlaceSettings,
    submitted_s: Instant,
    starts: Floats,
    *,
    done_s: Seconds = 0.0,
    spare: float = 0.0,
) -> Quote:
    """All terms of `option` for each of `starts`; `spare` devices would be booted with those it needs."""
    tariff, rates, series = option.tariff, snapshot.rates, option.series
    run_s = run_time(workload, option.speed, done_s)
    devices = device_count(workload, option.replicas)
    while_running = spans(starts, run_s)
    watt_hours = energy(option.profile.peak_w, devices, run_s) * option.cluster.pue
    grams, known = emitted(watt_hours, series.carbon, while_running, option.unknown_g_per_kwh)
    price = direct_price(series.price, devices, while_running)
    sla = lateness(workload, settings, submitted_s, starts, run_s, price)
    risky = workload.deadline_s is not None and settings.spot_late_factor > 0.0
    if risky and (chance := reclaim_chance(option, run_s)):
        loss_s = reclaim_loss(workload, option, run_s, snapshot.catalogue.load_s(workload.model))
        sla = sla + chance * price * deadline_risk(workload, settings, submitted_s, starts, run_s, loss_s)
    misses = latency_misses(workload, option.cluster.latency_ms) + overload_misses(workload, option)
    if misses:
        sla = sla + settings.latency_miss_factor * price * min(1.0, misses)
    cold_s = snapshot.catalogue.load_s(workload.model) if option.pool.warm.get(workload.model, 0) > 0 else 0.0

    rate = _rate(rates, tariff.currency)

    def own(amount: Floats) -> Floats:
        return amount if rate == 1.0 else np.asarray(amount * rate)

    return Quote(
        starts=starts,
        run_s=run_s,
        direct=own(price),
        energy=own(electricity(series.electricity, watt_hours, while_running)),
        carbon=carbon_price(grams, snapshot.carbon_micros_per_kg),
        sla=own(sla),
        rework=own(rework(workload, tariff.reclaim_per_hour, option.pool.capacity, price, run_s)),
        traffic=traffic_price(workload, option, snapshot.catalogue.weights_mib(workload.model)),
        warm_saved=own(warm_value(series.price, devices, starts, cold_s)),
        data_saved=data_value(workload, option, rates),
        grams=grams,
        watt_hours=watt_hours,
        known=known,
        opening=own(opening(price, devices, run_s, spare, settings.opening_h)) if spare else 0.0,
    )


def opening(price: Floats, devices: float, run_s: Seconds, spare: float, idle_h: float) -> Floats:
    """Rent of `spare` devices that come with a node booted for `devices`, for so many hours or until the run ends."""
    return np.asarray(price / devices * spare * min(1.0, idle_h * HOUR_S / run_s))


def run_time(workload: Workload, speed: float, done_s: Seconds = 0.0) -> Seconds:
    """Estimated seconds still to run on this class; an open-ended serving workload counts for one day."""
    if workload.type is WorkloadType.SERVING:
        return SERVING_HORIZON_S
    return max(1.0, workload.duration_s - done_s) / speed


def device_count(workload: Workload, replicas: int) -> float:
    """Devices' worth of all replicas; a share of a device pays its share."""
    return workload.demand.device_milli * replicas / 1000


def direct_price(per_hour: Integral | None, devices: float, running: Spans) -> Floats:
    """Micros over the hours it runs, each hour at its own tariff."""
    return constant(0.0, running.count) if per_hour is None else devices * per_hour.over(running)


def energy(peak_w: float, devices: float, run_s: Seconds) -> WattHours:
    """At the device, before the building's PUE."""
    return peak_w * devices * run_s / HOUR_S


def electricity(per_kwh: Integral | None, watt_hours: WattHours, running: Spans) -> Floats:
    """Micros for power, where the owner pays for it."""
    if per_kwh is None:
        return constant(0.0, running.count)
    return watt_hours / 1000 * per_kwh.over(running) / running.hours


def emitted(watt_hours: WattHours, carbon: CarbonIntegral, running: Spans, otherwise: float) -> tuple[Floats, Floats]:
    """Grams, and the share of the hours with a figure; hours without one count as the mean of the others."""
    mean, known = carbon.mean(running, otherwise)
    return watt_hours / 1000 * mean, known


def carbon_price(grams: Floats, micros_per_kg: Micros) -> Floats:
    """Micros of the fleet's currency at its own carbon price."""
    return grams / 1000 * micros_per_kg


def lateness(
    workload: Workload,
    settings: PlaceSettings,
    submitted_s: Instant,
    starts: Floats,
    run_s: Seconds,
    price: Floats,
) -> Floats:
    """Expected penalty for ending after the deadline, over the quantiles of the run time, by what the run costs."""
    if workload.deadline_s is None:
        return constant(0.0, len(starts))
    due_s = submitted_s + workload.deadline_s
    if starts[-1] + settings.duration_high * run_s <= due_s:
        return constant(0.0, len(starts))
    late = np.zeros_like(starts)
    for factor, chance in zip((settings.duration_low, 1.0, settings.duration_high), QUANTILE_CHANCE, strict=True):
        late += chance * np.maximum(0.0, starts + factor * run_s - due_s)
    return late * (settings.late_hour_factor * price / max(run_s, 1.0))


def reclaim_chance(option: Option, run_s: Seconds) -> float:
    """That a node of the pool is taken back at least once in this time."""
    per_hour = option.tariff.reclaim_per_hour if option.pool.capacity is Capacity.SPOT else 0.0
    return float(1.0 - (1.0 - min(0.99, per_hour)) ** (run_s / HOUR_S))


def reclaim_loss(workload: Workload, option: Option, run_s: Seconds, load_s: Seconds) -> Seconds:
    """Time that one reclaim takes: what was not safe yet, and a start elsewhere."""
    return min(workload.checkpoint_s or run_s, run_s) + load_s + option.pool.boot_s


def deadline_risk(
    workload: Workload, settings: PlaceSettings, submitted_s: Instant, starts: Floats, run_s: Seconds, loss_s: Seconds
) -> Floats:
    """The guard's price in multiples of the run's: where a reclaim would leave no time to start again elsewhere."""
    if workload.deadline_s is None:
        return constant(0.0, len(starts))
    slack_s = submitted_s + workload.deadline_s - starts - settings.careful * run_s
    return np.where(slack_s < 2 * loss_s, settings.spot_late_factor, 0.0)


def latency_misses(workload: Workload, network_ms: float) -> float:
    """Expected extra share of requests over the target when the network takes its part of it.

    Service times are taken as exponential with their 95th percentile at the target, which is what a service sized
    for that target looks like.
    """
    target_ms = workload.slo.latency_p95_ms
    if target_ms is None or network_ms <= 0:
        return 0.0
    left = max(0.0, 1 - network_ms / target_ms)
    return float(0.05**left - 0.05)


def overload_misses(workload: Workload, option: Option) -> float:
    """Expected share of requests that so many replicas of this class cannot carry at the mean rate.

    The smallest number of replicas on the first accepted class is taken to carry `MEANT` times that rate.
    """
    if workload.type is not WorkloadType.SERVING or not workload.rate_per_s or not option.speed:
        return 0.0
    carried = MEANT * option.replicas * option.speed / (workload.size * workload.classes[0].speed)
    return max(0.0, 1.0 - carried)


def rework(workload: Workload, reclaim_per_hour: float, capacity: Capacity, price: Floats, run_s: Seconds) -> Floats:
    """Work that reclaims are expected to destroy: half a checkpoint interval each, or half the run without them."""
    if capacity is not Capacity.SPOT:
        return constant(0.0, len(price))
    reclaims = reclaim_per_hour * run_s / HOUR_S
    lost_s = min(workload.checkpoint_s or run_s, run_s) / 2
    return price * reclaims * lost_s / max(run_s, 1.0)


def warm_value(per_hour: Integral | None, devices: float, starts: Floats, cold_s: Seconds) -> Floats:
    """Cold start saved: the loading time that is not paid where the weights are already there."""
    if per_hour is None or cold_s <= 0:
        return constant(0.0, len(starts))
    return devices * per_hour.over(spans(starts, cold_s))


def traffic_price(workload: Workload, option: Option, weights_mib: MiB) -> Micros:
    """Weights and data that are not there yet have to come through the cluster's line, where that is metered."""
    per_gib = option.cluster.metered_micros_per_gib
    if per_gib == 0:
        return 0
    pulled_mib = 0 if option.pool.warm.get(workload.model, 0) > 0 else weights_mib
    if workload.dataset and workload.dataset not in option.cluster.datasets:
        pulled_mib += workload.dataset_mib
    return round(per_gib * pulled_mib / MIB_PER_GIB)


def data_value(workload: Workload, option: Option, rates: Rates) -> Micros:
    """Egress saved where the data set already is."""
    if not workload.dataset or workload.dataset not in option.cluster.datasets:
        return 0
    per_gib = option.tariff.egress_micros_per_gib
    return rates.convert(round(per_gib * workload.dataset_mib / MIB_PER_GIB), option.tariff.currency)


def move_price(workload: Workload, option: Option, load_s: Seconds, rates: Rates) -> Micros:
    """Migration: the new home pays while it loads and redoes half a checkpoint interval; data is moved again."""
    per_hour = option.tariff.per_hour(option.pool.capacity)
    idle_s = load_s + workload.checkpoint_s / 2
    paid = 0.0 if per_hour is None else device_count(workload, option.replicas) * per_hour.values[0] * idle_s / HOUR_S
    return rates.convert(round(paid + _data_moved(workload, option)), option.tariff.currency)


def data_price(workload: Workload, option: Option, rates: Rates) -> Micros:
    """The data that a move brings to a cluster that does not have it."""
    return rates.convert(round(_data_moved(workload, option)), option.tariff.currency)


def _data_moved(workload: Workload, option: Option) -> float:
    if not workload.dataset or workload.dataset in option.cluster.datasets:
        return 0.0
    return option.tariff.egress_micros_per_gib * workload.dataset_mib / MIB_PER_GIB


def _rate(rates: Rates, currency: str) -> float:
    return rates.convert(1_000_000, currency) / 1_000_000


def drain_of(priced: Quote) -> Floats:
    """(money, grams) that each start takes of its tenant's budgets, rounded as the Bill rounds."""
    drain = np.empty((len(priced.starts), 2))
    np.maximum(0.0, np.rint(priced.direct) + np.rint(priced.energy) + priced.traffic, out=drain[:, 0])
    drain[:, 1] = priced.grams
    return drain


def charged(bill: Bill) -> Micros:
    """What a tenant's money budget is charged: rent, power and traffic, not penalties that may never come."""
    return max(0, bill.direct + bill.energy + bill.traffic)
