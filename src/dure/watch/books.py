"""Double-entry books of a fleet: what was paid for every pool and hour, and where it went, to the last millionth.

The plane reads the meter every few minutes (`readings_of`) and posts the time since the last reading (`post`). What
was paid follows from the devices that are there; it is then split over the lines of the reading by largest remainder
(Hamilton), so that the parts sum up to the whole exactly whatever is rounded. Cost: O(lines of the reading).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dure.model.cluster import VNodePool
from dure.model.posting import Account, Posting, added
from dure.model.report import Observed, Report
from dure.model.units import HOUR_S, WHOLE_MILLI, Instant, Milli
from dure.model.workload import Placement, WorkloadRecord
from dure.watch.ledger import Meter

# Milli-devices times milliseconds in one device and hour.
_DEVICE_HOUR = 3_600_000 * WHOLE_MILLI


class Line(NamedTuple):
    """Who holds how many thousandths of devices of a pool."""

    account: Account
    milli: Milli
    tenant: str = ""
    model: str = ""
    workload: str = ""


class Reading(NamedTuple):
    """One pool at one moment; the lines sum up to its devices."""

    pool: VNodePool
    lines: tuple[Line, ...]


class PoolMeter(msgspec.Struct, frozen=True):
    """What `post` has to know of a pool: tariff, grid, building, and the watts of an idle device."""

    meter: Meter
    idle_w: float


def readings_of(reports: Iterable[Report], records: Iterable[WorkloadRecord]) -> tuple[Reading, ...]:
    """What every pool holds now, by the newest reports and the records of the workloads that have not ended."""
    known = {record.uid: record for record in records}
    found = []
    for report in reports:
        lines: dict[str, list[Line]] = {}
        for seen in report.observed:
            record = known.get(seen.uid)
            if record is not None and seen.bound:
                for pool, line in _held(record, seen, report.cluster):
                    lines.setdefault(pool, []).append(line)
        found += [Reading(pool, _complete(pool, lines.get(pool.name, []))) for pool in report.pools]
    return tuple(found)


def post(reading: Reading, meter: PoolMeter | None, since_s: Instant, until_s: Instant) -> tuple[Posting, ...]:
    """The postings of one pool from `since_s` to `until_s`, hour by hour, both sides of the books."""
    made: list[Posting] = []
    at_s = since_s
    while at_s < until_s:
        end_s = min(until_s, (at_s // HOUR_S + 1) * HOUR_S)
        made += _stretch(reading, meter, at_s, round((end_s - at_s) * 1000))
        at_s = end_s
    return tuple(made)


def merged(postings: Iterable[Posting]) -> tuple[Posting, ...]:
    """One posting for each key, sorted by it."""
    sums: dict[tuple[int, str, str, str, str, str, str], Posting] = {}
    for posting in postings:
        key = posting.key
        before = sums.get(key)
        sums[key] = posting if before is None else added(before, posting)
    return tuple(sums[key] for key in sorted(sums))


def imbalances(postings: Iterable[Posting]) -> dict[tuple[int, str, str], tuple[int, int]]:
    """By how much money and carbon the sides differ, by hour and pool where they do; empty when they balance."""
    sides: dict[tuple[int, str, str], tuple[int, int]] = {}
    for one in postings:
        sign = 1 if one.account is Account.PAID else -1
        micros, carbon = sides.get((one.hour, one.cluster, one.pool), (0, 0))
        sides[one.hour, one.cluster, one.pool] = (micros + sign * one.micros, carbon + sign * one.carbon_mg)
    return {key: off for key, off in sides.items() if off != (0, 0)}


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """`total` in whole parts after `weights`; the parts sum up to it. Ties go to the earlier one."""
    whole = sum(weights)
    if whole <= 0:
        return [0] * len(weights)
    parts = [total * weight // whole for weight in weights]
    if rest := total - sum(parts):
        left = [total * weight % whole for weight in weights]
        for index in sorted(range(len(weights)), key=left.__getitem__, reverse=True)[:rest]:
            parts[index] += 1
    return parts


def _held(record: WorkloadRecord, seen: Observed, cluster: str) -> Iterable[tuple[str, Line]]:
    """Ready replicas use what they hold; others start. What is neither here nor on its way here leaves."""
    spec, status = record.spec, record.status

    def line(account: Account, pods: int) -> Line:
        return Line(account, spec.demand.device_milli * pods, spec.tenant, spec.model, spec.name)

    home = _home(status.placement, seen, cluster)
    if home is not None and status.leaving_s is None:
        ready = min(seen.ready, seen.bound)
        if ready:
            yield home.pool, line(Account.USED, ready)
        if ready < seen.bound:
            yield home.pool, line(Account.STARTING, seen.bound - ready)
    elif home is not None:
        yield home.pool, line(Account.LEAVING, seen.bound)
    elif (coming := _home(status.incoming, seen, cluster)) is not None:
        yield coming.pool, line(Account.STARTING, seen.bound)


def _home(placement: Placement | None, seen: Observed, cluster: str) -> Placement | None:
    if placement is None or placement.cluster != cluster or placement.generation != seen.generation:
        return None
    return placement


def _complete(pool: VNodePool, lines: list[Line]) -> tuple[Line, ...]:
    """Free devices are idle; what is not free and claimed by nobody is stranded. Claims beyond the pool shrink."""
    whole = pool.devices * WHOLE_MILLI
    held = [line for line in lines if line.milli > 0]
    claimed = sum(line.milli for line in held)
    if claimed > whole:
        parts = apportion(whole, [line.milli for line in held])
        return tuple(line._replace(milli=milli) for line, milli in zip(held, parts, strict=True) if milli)
    idle = min(max(0, pool.free_milli), whole - claimed)
    rest = (Line(Account.IDLE, idle), Line(Account.STRANDED, whole - claimed - idle))
    return (*held, *(line for line in rest if line.milli))


def _stretch(reading: Reading, meter: PoolMeter | None, at_s: Instant, length_ms: int) -> list[Posting]:
    """One stretch inside one hour. A pool without a tariff costs nothing, which both sides then say."""
    pool, lines = reading
    time = [line.milli * length_ms for line in lines]
    idle_mw, busy_mw = _milliwatts(meter)
    power = [line.milli * length_ms * (idle_mw if line.account is Account.IDLE else busy_mw) for line in lines]
    energy = [one // _DEVICE_HOUR for one in power]
    pue = meter.meter.pue if meter else 1.0
    building = round(sum(power) * max(0.0, pue - 1))
    weights = [*power, building]
    micros, carbon, known = _paid(meter, sum(time), sum(weights), pool, at_s)
    rent, electricity = micros
    shares = zip(
        (*lines, Line(Account.BUILDING, 0)),
        (*apportion(rent, time), 0),
        apportion(electricity, weights),
        apportion(carbon, weights),
        (*time, 0),
        (*energy, building // _DEVICE_HOUR),
        strict=True,
    )
    hour = int(at_s // HOUR_S)
    made = [
        Posting(
            hour, pool.cluster, pool.name, line.account, line.tenant, line.model, line.workload,
            own + share, grams, held, mwh, 0 if known else mwh,
        )
        for line, own, share, grams, held, mwh in shares
        if held or mwh or share or grams
    ]  # fmt: skip
    whole = sum(energy) + building // _DEVICE_HOUR
    paid = Posting(
        hour, pool.cluster, pool.name, Account.PAID, micros=rent + electricity, carbon_mg=carbon,
        device_ms=sum(time), energy_mwh=whole, unknown_mwh=0 if known else whole,
    )  # fmt: skip
    return [paid, *made] if made else []


def _milliwatts(meter: PoolMeter | None) -> tuple[int, int]:
    """Of an idle device and of one that is held."""
    return (0, 0) if meter is None else (round(1000 * meter.idle_w), round(1000 * meter.meter.peak_w))


def _paid(
    pool_meter: PoolMeter | None, time: int, power: int, pool: VNodePool, at_s: Instant
) -> tuple[tuple[int, int], int, bool]:
    """Rent and electricity in the fleet's currency, carbon in mg, and whether the grid's figure was known."""
    if pool_meter is None:
        return (0, 0), 0, True
    meter = pool_meter.meter
    weekly, current = meter.tariff.per_hour(pool.capacity), meter.tariff.electricity
    rent = round(time * weekly.at(at_s) / _DEVICE_HOUR) if weekly else 0
    kwh = power / _DEVICE_HOUR / 1e6
    electricity = round(kwh * current.at(at_s)) if current else 0
    intensity = meter.carbon.at(at_s) if meter.carbon else None
    money = (
        meter.rates.convert(rent, meter.tariff.currency),
        meter.rates.convert(electricity, meter.tariff.currency),
    )
    return money, round(kwh * 1000 * (intensity or 0.0)), intensity is not None


def sums(postings: Iterable[Posting], by: Sequence[str]) -> dict[tuple[str, ...], Mapping[str, int]]:
    """Money by group of account (`used`, `idle`, `overhead`, `paid`) for each combination of the fields in `by`."""
    found: dict[tuple[str, ...], dict[str, int]] = {}
    for one in postings:
        row = found.setdefault(tuple(str(getattr(one, field)) for field in by), {})
        row[one.account.group] = row.get(one.account.group, 0) + one.micros
    return dict(sorted(found.items()))
