"""The ledger as OpenCost tells it: sets of allocations by namespace, cluster, controller or label. Pure.

A tenant is a namespace, a workload a controller, a model the label `model`. Rent and power of devices stand under
`gpuCost`; starting and leaving are part of it, since the workload held the devices. Idle is `__idle__`; what no
workload held (stranded, building) is `sharedCost` of `__unallocated__`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from dure.model.errors import InvalidInput
from dure.model.posting import Account, Posting
from dure.model.units import HOUR_S, MICROS, Instant

IDLE, UNALLOCATED = "__idle__", "__unallocated__"
FIELDS: dict[str, Callable[[Posting], str]] = {
    "cluster": lambda one: one.cluster,
    "namespace": lambda one: one.tenant,
    "controller": lambda one: one.workload,
    "pod": lambda one: one.workload,
    "node": lambda one: one.pool,
    "label:model": lambda one: one.model,
    "label:tenant": lambda one: one.tenant,
}


def allocations(
    postings: Iterable[Posting], aggregate: Sequence[str], since_s: Instant, until_s: Instant, *, idle: bool = True
) -> dict[str, dict[str, Any]]:
    """One set: what everybody had between the two moments, by the fields of `aggregate`."""
    for field in aggregate:
        if field not in FIELDS:
            raise InvalidInput(f"cannot aggregate by '{field}'", remedy=f"One of: {', '.join(FIELDS)}")
    sums: dict[str, list[Posting]] = {}
    for one in postings:
        if one.account is Account.PAID or (one.account is Account.IDLE and not idle):
            continue
        sums.setdefault(_name(one, aggregate), []).append(one)
    return {name: _allocation(name, mine, aggregate, since_s, until_s) for name, mine in sorted(sums.items())}


def _name(one: Posting, aggregate: Sequence[str]) -> str:
    if one.account is Account.IDLE:
        return IDLE if "cluster" not in aggregate else f"{one.cluster}/{IDLE}"
    parts = [FIELDS[field](one) or UNALLOCATED for field in aggregate]
    return "/".join(parts) or f"{one.cluster}/{one.tenant or UNALLOCATED}/{one.workload or UNALLOCATED}"


def _allocation(
    name: str, mine: Sequence[Posting], aggregate: Sequence[str], since_s: Instant, until_s: Instant
) -> dict[str, Any]:
    first, last = min(one.hour for one in mine) * HOUR_S, (max(one.hour for one in mine) + 1) * HOUR_S
    begin, end = max(float(first), since_s), min(float(last), until_s)
    shared = sum(one.micros for one in mine if not one.workload and one.account is not Account.IDLE)
    total = sum(one.micros for one in mine)
    held = sum(one.device_hours for one in mine)
    used = sum(one.device_hours for one in mine if one.account is Account.USED)
    energy = sum(one.energy_mwh for one in mine) / 1e6
    hours = max(1e-9, (end - begin) / HOUR_S)
    return {
        "name": name,
        "properties": _properties(mine, aggregate),
        "window": {"start": _stamp(since_s), "end": _stamp(until_s)},
        "start": _stamp(begin),
        "end": _stamp(end),
        "minutes": hours * 60,
        "cpuCores": 0, "cpuCoreHours": 0, "cpuCost": 0, "cpuEfficiency": 0,
        "gpuCount": held / hours, "gpuHours": held, "gpuCost": (total - shared) / MICROS, "gpuCostAdjustment": 0,
        "gpuEfficiency": used / held if held else 0,
        "ramBytes": 0, "ramByteHours": 0, "ramCost": 0, "ramEfficiency": 0,
        "pvCost": 0, "networkCost": 0, "loadBalancerCost": 0, "externalCost": 0,
        "sharedCost": shared / MICROS,
        "totalCost": total / MICROS,
        "totalEfficiency": used / held if held else 0,
        "energyKwh": energy,
        "carbonKg": sum(one.carbon_mg for one in mine) / 1e6,
    }  # fmt: skip


def _properties(mine: Sequence[Posting], aggregate: Sequence[str]) -> dict[str, Any]:
    """What all have in common, as far as it was asked for."""
    found: dict[str, Any] = {}
    for field in aggregate or ("cluster", "namespace", "controller"):
        values = {FIELDS[field](one) for one in mine}
        if len(values) == 1 and (value := values.pop()):
            if field.startswith("label:"):
                found.setdefault("labels", {})[field.removeprefix("label:")] = value
            else:
                found[field] = value
    return found


def _stamp(at_s: Instant) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
