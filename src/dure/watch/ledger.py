"""What a workload has cost since it was last billed, hour by hour at the tariff and grid of each hour.

The plane calls `accrue` in its cycle. Accruing twice up to the same moment charges nothing the second time.
"""

from __future__ import annotations

import msgspec

from dure.model.money import Rates, for_duration
from dure.model.tariff import CarbonSeries, Tariff
from dure.model.units import DAY_S, HOUR_S, Grams, Instant, Micros
from dure.model.workload import WorkloadRecord


class Span(msgspec.Struct, frozen=True):
    """Money and carbon of one stretch of time that lies within one day."""

    day: int
    micros: Micros
    carbon_g: Grams


class Meter(msgspec.Struct, frozen=True):
    """What has to be known of a pool to bill it: price, power, building, grid."""

    tariff: Tariff
    peak_w: float
    pue: float
    carbon: CarbonSeries | None
    rates: Rates


def accrue(record: WorkloadRecord, meter: Meter, until_s: Instant) -> tuple[Span, ...]:
    """The spans from the record's `billed_until_s` to `until_s`; empty for a workload without a home."""
    status = record.status
    placement = status.placement
    if placement is None or until_s <= status.billed_until_s:
        return ()
    devices = record.spec.demand.device_milli * max(status.ready, placement.replicas) / 1000
    spans: dict[int, Span] = {}
    at = status.billed_until_s
    # What had to come through a metered line came once, when the workload came.
    once = placement.bill.traffic if at <= placement.decided_s else 0
    while at < until_s:
        end = min(until_s, (at // HOUR_S + 1) * HOUR_S)
        day = int(at // DAY_S)
        micros, grams = _hour(record, meter, devices, at, end)
        before = spans.get(day, Span(day, 0, 0.0))
        spans[day] = Span(day, before.micros + micros + once, before.carbon_g + grams)
        at, once = end, 0
    return tuple(spans.values())


def _hour(record: WorkloadRecord, meter: Meter, devices: float, at: Instant, end: Instant) -> tuple[Micros, Grams]:
    """One stretch inside one hour: price, electricity where the owner pays it, carbon where it is known."""
    placement = record.status.placement
    assert placement is not None
    seconds = end - at
    weekly = meter.tariff.per_hour(placement.capacity)
    price = round(devices * for_duration(weekly.at(at), seconds)) if weekly else 0
    kwh = meter.peak_w * meter.pue * devices * seconds / HOUR_S / 1000
    power = round(kwh * meter.tariff.electricity.at(at)) if meter.tariff.electricity else 0
    intensity = meter.carbon.at(at) if meter.carbon else None
    return meter.rates.convert(price + power, meter.tariff.currency), kwh * (intensity or 0.0)
