"""The fleet for eyes, made small on the server: devices by pool and only where they changed, a hundred workloads.

A page in front of ten thousand devices must not read them all every second. `Maps` numbers every change of a pool;
who tells the last number it saw gets the pools that have changed since. Rows are arrays: a third of the bytes.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from dure.api.seen import SOMEBODY
from dure.model.report import DeviceView, Report
from dure.model.who import Who
from dure.model.workload import WorkloadRecord
from dure.ports import StorePort


class Cut(msgspec.Struct, frozen=True, array_like=True):
    """A held slice: who holds it, and where it lies."""

    workload: str
    tenant: str
    mode: str
    profile: str
    start: int
    slots: int
    compute_milli: int
    memory_mib: int


class DeviceRow(msgspec.Struct, frozen=True, array_like=True):
    id: str
    node: str
    mode: str
    healthy: bool
    node_phase: str
    held: tuple[Cut, ...]


class PoolMap(msgspec.Struct, frozen=True):
    """`number` rises with every change of any pool. `devices` are DeviceRows as arrays, which are half as long."""

    cluster: str
    pool: str
    class_name: str
    number: int
    devices: tuple[Any, ...]


class FleetMap(msgspec.Struct, frozen=True):
    """`known` names every pool there is, so that a reader can forget the others."""

    number: int
    known: tuple[str, ...]
    pools: tuple[PoolMap, ...]


class Board(msgspec.Struct, frozen=True):
    """The newest of those that run and the oldest of those that wait; counts are of all that fit the search."""

    running: tuple[WorkloadRecord, ...]
    waiting: tuple[WorkloadRecord, ...]
    running_count: int
    waiting_count: int
    found_count: int
    tenants: tuple[str, ...]


class Maps:
    def __init__(self, store: StorePort) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._number = 0
        self._seen: dict[str, tuple[float, str]] = {}
        self._pools: dict[str, tuple[bytes, PoolMap]] = {}

    def since(self, number: int) -> FleetMap:
        with self._lock:
            reports = self._store.list_reports()
            for report in reports:
                if self._seen.get(report.cluster) != (report.at_s, report.version):
                    self._take(report)
                    self._seen[report.cluster] = (report.at_s, report.version)
            there = {report.cluster for report in reports}
            known = {key: kept for key, (_, kept) in self._pools.items() if kept.cluster in there}
            # A reader of another server's numbers begins anew.
            begin = number if number <= self._number else 0
            fresh = tuple(kept for _, kept in sorted(known.items()) if kept.number > begin)
            return FleetMap(self._number, tuple(sorted(known)), fresh)

    def _take(self, report: Report) -> None:
        rows: dict[tuple[str, str], list[DeviceRow]] = {}
        for device in report.devices:
            rows.setdefault((device.pool, device.class_name), []).append(_row(device))
        for (pool, class_name), devices in rows.items():
            key = f"{report.cluster}/{pool}"
            digest = hashlib.blake2b(msgspec.msgpack.encode(devices), digest_size=12).digest()
            if key not in self._pools or self._pools[key][0] != digest:
                self._number += 1
                made = PoolMap(report.cluster, pool, class_name, self._number, tuple(devices))
                self._pools[key] = (digest, made)


def own_map(found: FleetMap, who: Who) -> FleetMap:
    """Others' slices are drawn as somebody's: that a device is taken is no secret, by whom is."""
    if who.tenants is None:
        return found
    return replace(found, pools=tuple(replace(pool, devices=_veiled(pool.devices, who)) for pool in found.pools))


def _veiled(devices: tuple[DeviceRow, ...], who: Who) -> tuple[DeviceRow, ...]:
    def cut(one: Cut) -> Cut:
        return one if who.sees(one.tenant) else replace(one, workload="", tenant=SOMEBODY)

    return tuple(replace(row, held=tuple(cut(one) for one in row.held)) for row in devices)


def board_of(records: Iterable[WorkloadRecord], find: str, limit: int) -> Board:
    words = find.lower().split()
    running: list[WorkloadRecord] = []
    waiting: list[WorkloadRecord] = []
    tenants = set()
    for record in records:
        tenants.add(record.spec.tenant)
        (waiting if record.status.phase.waits else running).append(record)
    found = [one for one in running if all(word in _haystack(one) for word in words)] if words else running
    return Board(
        tuple(reversed(found[-limit:])),
        tuple(waiting[:limit]),
        len(running),
        len(waiting),
        len(found),
        tuple(sorted(tenants)),
    )


def _haystack(record: WorkloadRecord) -> str:
    spec, home = record.spec, record.status.placement
    where = f"{home.cluster} {home.pool} {home.class_name}" if home else ""
    return f"{spec.name} {spec.tenant} {spec.type} {where}".lower()


def _row(device: DeviceView) -> DeviceRow:
    cuts = tuple(
        Cut(
            held.workload, held.tenant, held.slice.mode.value, held.slice.profile, held.slice.start,
            held.slice.slots, held.slice.compute_milli, held.slice.memory_mib,
        )
        for held in device.held
    )  # fmt: skip
    return DeviceRow(device.id, device.node, device.mode.value, device.healthy, device.node_phase, cuts)
