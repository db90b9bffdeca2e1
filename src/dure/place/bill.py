"""The bill of an option, one small function per term (design section 3).

bill = direct price + energy x PUE x (electricity + carbon price x intensity) + SLA penalty + expected spot rework
     - what weights and data already there are worth.
"""

from __future__ import annotations

from dure.model.accelerator import AcceleratorProfile
from dure.model.bill import Bill
from dure.model.money import Rates, for_duration
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity, CarbonSeries, Tariff, Weekly
from dure.model.units import HOUR_S, MIB_PER_GIB, Grams, Instant, Micros, Seconds, WattHours
from dure.model.workload import Workload, WorkloadType
from dure.place.option import Option

# A serving workload has no end; its options are compared over one day.
SERVING_HORIZON_S = 86_400.0
# What an hour of being late costs, as a share of the direct price of that hour.
LATE_HOUR_FACTOR = 3.0


def bill_of(workload: Workload, option: Option, snapshot: Snapshot, submitted_s: Instant) -> Bill:
    """All terms for `option`, in the fleet's currency."""
    tariff, rates = option.tariff, snapshot.rates
    hourly = tariff.per_hour(option.pool.capacity)
    run_s = run_time(workload, option)
    devices = device_count(workload, option.replicas)
    start, end = option.start_s, option.start_s + run_s
    energy_wh = energy(option.profile, devices, run_s) * option.cluster.pue
    carbon_g, unknown = emitted(energy_wh, option.carbon, start, end)
    price = priced(hourly, start, end, devices) if hourly else 0
    return Bill(
        direct=rates.convert(price, tariff.currency),
        energy=rates.convert(electricity(tariff.electricity, energy_wh, start, end), tariff.currency),
        carbon=round(carbon_g / 1000 * snapshot.carbon_micros_per_kg),
        sla=rates.convert(lateness(workload, submitted_s, end, price, run_s), tariff.currency),
        rework=rates.convert(rework(workload, tariff, option.pool.capacity, price, run_s), tariff.currency),
        warm_saved=rates.convert(warm_value(workload, option, snapshot, hourly, devices), tariff.currency),
        data_saved=data_value(workload, option, rates),
        carbon_g=carbon_g,
        energy_wh=energy_wh,
        carbon_unknown=unknown,
    )


def run_time(workload: Workload, option: Option) -> Seconds:
    """Estimated seconds on this class; an open-ended serving workload counts for one day."""
    if workload.type is WorkloadType.SERVING:
        return SERVING_HORIZON_S
    return workload.duration_s / option.speed


def device_count(workload: Workload, replicas: int) -> float:
    """Devices' worth of all replicas; a share of a device pays its share."""
    return workload.demand.device_milli * replicas / 1000


def priced(hourly: Weekly, start_s: Instant, end_s: Instant, devices: float) -> Micros:
    """Price over the hours it runs, each hour at its own tariff."""
    return round(devices * sum(for_duration(hourly.at(at), part) for at, part in hours(start_s, end_s)))


def energy(profile: AcceleratorProfile, devices: float, run_s: Seconds) -> WattHours:
    """At the device, before the building's PUE."""
    return profile.peak_w * devices * run_s / HOUR_S


def electricity(per_kwh: Weekly | None, energy_wh: WattHours, start_s: Instant, end_s: Instant) -> Micros:
    if per_kwh is None or end_s <= start_s:
        return 0
    mean = sum(per_kwh.at(at) * part for at, part in hours(start_s, end_s)) / (end_s - start_s)
    return round(energy_wh / 1000 * mean)


def emitted(
    energy_wh: WattHours, series: CarbonSeries | None, start_s: Instant, end_s: Instant
) -> tuple[Grams, bool]:
    """Grams, and whether some hour had no figure; such hours are taken at the mean of the known ones."""
    known: list[tuple[float, Seconds]] = []
    unknown = False
    for at, part in hours(start_s, end_s):
        intensity = series.at(at) if series else None
        if intensity is None:
            unknown = True
        else:
            known.append((intensity, part))
    if not known:
        return 0.0, True
    mean = sum(intensity * part for intensity, part in known) / sum(part for _, part in known)
    return energy_wh / 1000 * mean, unknown


def lateness(workload: Workload, submitted_s: Instant, end_s: Instant, price: Micros, run_s: Seconds) -> Micros:
    if workload.deadline_s is None or run_s <= 0:
        return 0
    late_s = end_s - (submitted_s + workload.deadline_s)
    return round(LATE_HOUR_FACTOR * price * late_s / run_s) if late_s > 0 else 0


def rework(workload: Workload, tariff: Tariff, capacity: Capacity, price: Micros, run_s: Seconds) -> Micros:
    """Work that a reclaim is expected to destroy: half a checkpoint interval, or half the run without checkpoints."""
    if capacity is not Capacity.SPOT or run_s <= 0:
        return 0
    reclaims = tariff.reclaim_per_hour * run_s / HOUR_S
    lost_s = min(workload.checkpoint_s or run_s, run_s) / 2
    return round(price * reclaims * lost_s / run_s)


def warm_value(
    workload: Workload, option: Option, snapshot: Snapshot, hourly: Weekly | None, devices: float
) -> Micros:
    """Cold start saved: the loading time that is not paid where the weights are already there."""
    if hourly is None or option.pool.warm.get(workload.model, 0) < 1:
        return 0
    return round(devices * for_duration(hourly.at(option.start_s), snapshot.catalogue.load_s(workload.model)))


def data_value(workload: Workload, option: Option, rates: Rates) -> Micros:
    """Egress saved where the data set already is."""
    if not workload.dataset or workload.dataset not in option.cluster.datasets:
        return 0
    per_gib = option.tariff.egress_micros_per_gib
    return rates.convert(round(per_gib * workload.dataset_mib / MIB_PER_GIB), option.tariff.currency)


def hours(start_s: Instant, end_s: Instant) -> list[tuple[Instant, Seconds]]:
    """The span cut at full hours: (begin, seconds of it)."""
    parts = []
    at = start_s
    while at < end_s:
        until = min(end_s, (at // HOUR_S + 1) * HOUR_S)
        parts.append((at, until - at))
        at = until
    return parts
