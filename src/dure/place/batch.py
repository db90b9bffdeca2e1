"""All waiting workloads of one cycle: what each likes best, and who competes with whom for which hour.

Called by `plan`. Rows are pools, then quotas; hours count from the full hour of `now`. Capacity of a later hour is
what is free now plus what running workloads should give back, a slow run assumed. Nothing here depends on the order
of the snapshot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType

import msgspec
import numpy as np

from dure.model.units import HOUR_S, Milli, Seconds
from dure.model.workload import WorkloadRecord
from dure.place.bill import drain_of
from dure.place.candidate import Candidate, Cycle, device_need
from dure.place.fairness import fair_order, lendable
from dure.place.instance import NONE, Bools, Floats, Instance, Ints, instance
from dure.place.spans import claim_of

# Larger than any pool, small enough that sums stay in 32 bits.
UNLIMITED = 2**30
_NOTHING: Floats = np.empty(0)
NOBODY: Mapping[tuple[str, str], Milli] = MappingProxyType({})
# A workload that is left out costs this many times its dearest option.
WAITING = 4.0


class Choice(msgspec.Struct, frozen=True):
    """Option `o` of the instance in terms of the cycle: which candidate of the workload, which of its starts."""

    candidate: int
    start: int


class Batch(msgspec.Struct, frozen=True):
    """`order` is who is let in first, `behind` what others want who are not looked at, by tenant and class."""

    records: tuple[WorkloadRecord, ...]
    candidates: tuple[tuple[Candidate, ...], ...]
    order: tuple[int, ...]
    behind: Mapping[tuple[str, str], Milli] = NOBODY


class Dispute(msgspec.Struct, frozen=True):
    """A batch in which not everybody can have what he likes best, as numbers for the solver. `quotas` are the rows of
    those that options draw on, by tenant and class."""

    instance: Instance
    choices: tuple[Choice, ...]
    quotas: Mapping[tuple[str, str], int]


def batch_of(
    cycle: Cycle, waiting: tuple[WorkloadRecord, ...], behind: Mapping[tuple[str, str], Milli] = NOBODY
) -> Batch:
    """The workloads sorted, and their candidates."""
    records = tuple(sorted(waiting, key=lambda one: (one.status.submitted_s, one.name, one.uid)))
    candidates = tuple(tuple(cycle.candidates(record)) for record in records)
    claims = [claim_of(index, record, cycle.snapshot.now_s) for index, record in enumerate(records)]
    order = fair_order(claims, cycle.tenants, cycle.usage, cycle.totals)
    return Batch(records, candidates, tuple(order), behind)


def dispute_of(cycle: Cycle, batch: Batch) -> Dispute:
    build = _Build(cycle, batch)
    made = build.instance()
    return Dispute(made, tuple(build.choices), build.quotas)


def wishes(cycle: Cycle, batch: Batch) -> tuple[Choice | None, ...] | None:
    """Everybody's cheapest choice (None: has none) if all of them go together, which no solver could better.

    First whatever each likes best, then what of it he could have if he were alone. Nothing is answered where that is
    not plain to see: a pool, quota or budget that is not enough for all.
    """
    build = _Build(cycle, batch)
    for wish in (build.wish, build.wish_alone):
        found = tuple(wish(candidates) for candidates in batch.candidates)
        chosen = [
            (record, candidates[choice.candidate], choice.start)
            for record, candidates, choice in zip(batch.records, batch.candidates, found, strict=True)
            if choice is not None
        ]
        if build.goes_together(chosen):
            return found
    return None


class _Build:
    def __init__(self, cycle: Cycle, batch: Batch) -> None:
        self.cycle, self.records, self.candidates, self.behind = cycle, batch.records, batch.candidates, batch.behind
        self.choices: list[Choice] = []
        self.base_h = int(cycle.snapshot.now_s // HOUR_S)
        self.hours = cycle.settings.horizon_h
        self.rows = cycle.rows
        self.quotas: dict[tuple[str, str], int] = {}
        self.needs: dict[tuple[int, int, int], int] = {}

    def instance(self) -> Instance:
        tables: list[Ints] = [np.empty((0, 5), np.int32)]
        costs: list[Floats] = [np.empty(0)]
        drains: list[Floats] = [np.empty((0, 2))]
        first, hold = [0], []
        for record, candidates in zip(self.records, self.candidates, strict=True):
            count, dearest = first[-1], 0.0
            for number, candidate in enumerate(candidates):
                begin, steer = self._open(candidate)
                if candidate.quote is None or len(steer) == 0:
                    continue
                tables.append(self._columns(record, candidate)[begin:])
                costs.append(steer)
                drains.append(drain_of(candidate.quote)[begin:])
                self.choices += [Choice(number, at) for at in range(begin, begin + len(steer))]
                count, dearest = count + len(steer), max(dearest, float(np.abs(steer).max()))
            first.append(count)
            hold.append(WAITING * dearest + 1.0)
        ledger, left = self._ledgers()
        return instance(
            np.array(first), np.concatenate(tables), np.concatenate(costs), np.array(hold),
            np.array(list(self.needs) or [(0, 0, 0)], np.int32), self._capacity(), ledger,
            np.concatenate(drains), left,
        )  # fmt: skip

    def wish(self, candidates: tuple[Candidate, ...]) -> Choice | None:
        """The cheapest choice of one workload, the first of equal ones."""
        best: tuple[float, Choice] | None = None
        for number, candidate in enumerate(candidates):
            begin, steer = self._open(candidate)
            if len(steer) and (best is None or steer.min() < best[0]):
                at = int(steer.argmin())
                best = float(steer[at]), Choice(number, begin + at)
        return best[1] if best is not None else None

    def wish_alone(self, candidates: tuple[Candidate, ...]) -> Choice | None:
        """The cheapest choice for which there will be room if nobody else wants it."""
        best: tuple[float, Choice] | None = None
        for number, candidate in enumerate(candidates):
            begin, steer = self._open(candidate)
            if len(steer) == 0 or (best is not None and steer.min() >= best[0]):
                continue
            steer = np.where(self._roomy(candidate)[begin:], steer, np.inf)
            at = int(steer.argmin())
            if steer[at] < (best[0] if best is not None else np.inf):
                best = float(steer[at]), Choice(number, begin + at)
        return best[1] if best is not None else None

    def _roomy(self, candidate: Candidate) -> Bools:
        """For each start whether the pool has room for this candidate in all hours that it runs."""
        assert candidate.quote is not None
        pool = candidate.option.pool
        free = self._rooms[self.rows[pool.cluster, pool.name]]
        short = np.concatenate(([0], np.cumsum((free < self._units(candidate)).any(axis=1))))
        start, hours = self._span(candidate.quote.starts, candidate.quote.run_s)
        begin = start.astype(np.int64)
        return np.asarray(short[begin + hours.astype(np.int64)] == short[begin])

    def goes_together(self, chosen: list[tuple[WorkloadRecord, Candidate, int]]) -> bool:
        """Whether the quotas, the budgets and the room are enough for all, whenever they start.

        The room of now is looked at first; what running ones should give back until then only where it is too small.
        """
        pools: Counter[tuple[str, str]] = Counter()
        hosts: Counter[tuple[str, str, int]] = Counter()
        quotas: Counter[tuple[str, str]] = Counter()
        spent: dict[str, Floats] = {}
        for record, candidate, start in chosen:
            assert candidate.quote is not None
            pool, tenant = candidate.option.pool, record.spec.tenant
            devices, *host = self._units(candidate)
            pools[pool.cluster, pool.name] += devices
            for resource, units in enumerate(host):
                hosts[pool.cluster, pool.name, resource] += units
            if self.cycle.tenant(tenant).quota.get(pool.class_name) is not None:
                # A quota counts in the same units as a pool, host resources apart.
                quotas[tenant, pool.class_name] += devices
            if self._budgeted(tenant):
                spent[tenant] = spent.get(tenant, np.zeros(2)) + drain_of(candidate.quote)[start]
        rooms = self.cycle.rooms
        return (
            all(units <= self._quota_left(*key) for key, units in quotas.items())
            and all(bool((taken <= self._left(tenant)).all()) for tenant, taken in spent.items())
            and (
                (
                    all(units <= rooms[key].free_milli for key, units in pools.items())
                    and all(
                        rooms[cluster, pool].unbooted or units <= rooms[cluster, pool].host(resource)
                        for (cluster, pool, resource), units in hosts.items()
                    )
                )
                or self._fit_by_hour(chosen)
            )
        )

    def _fit_by_hour(self, chosen: list[tuple[WorkloadRecord, Candidate, int]]) -> bool:
        taken = np.zeros((len(self.rows), self.hours, 3), np.int64)
        for _, candidate, start in chosen:
            assert candidate.quote is not None
            pool = candidate.option.pool
            span = self._span(candidate.quote.starts[start : start + 1], candidate.quote.run_s)
            begin, hours = int(span[0][0]), int(span[1][0])
            taken[self.rows[pool.cluster, pool.name], begin : begin + hours] += self._units(candidate)
        return bool((taken <= self._rooms).all())

    def _open(self, candidate: Candidate) -> tuple[int, Floats]:
        """From which start on a candidate may be chosen, and what those starts steer by."""
        if candidate.quote is None:
            return 0, _NOTHING
        steer = self.cycle.steer(candidate)
        begin = 1 if candidate.now_clash is not None else 0
        return begin, steer[begin:]

    def _columns(self, record: WorkloadRecord, candidate: Candidate) -> Ints:
        assert candidate.quote is not None
        pool = candidate.option.pool
        start, hours = self._span(candidate.quote.starts, candidate.quote.run_s)
        table = np.empty((len(start), 5), np.int32)
        table[:, 0] = self.rows[pool.cluster, pool.name]
        table[:, 1] = self._quota(record, pool.class_name)
        table[:, 2] = start
        table[:, 3] = hours
        table[:, 4] = self._need(candidate)
        return table

    def _span(self, starts: Floats, run_s: Seconds) -> tuple[Floats, Floats]:
        """The first hour that each start touches, and how many of them."""
        begin_h = starts / HOUR_S - self.base_h
        start = np.minimum(np.maximum(np.floor(begin_h), 0), self.hours - 1)
        end = np.minimum(np.ceil(begin_h + run_s / HOUR_S), self.hours)
        return start, np.maximum(1, end - start)

    def _need(self, candidate: Candidate) -> int:
        return self.needs.setdefault(self._units(candidate), len(self.needs))

    def _units(self, candidate: Candidate) -> tuple[int, int, int]:
        """Of devices, host CPU and host memory, for all replicas."""
        demand, replicas = candidate.demand, candidate.option.replicas
        return device_need(candidate.option, demand), demand.cpu_milli * replicas, demand.host_memory_mib * replicas

    def _quota(self, record: WorkloadRecord, class_name: str) -> int:
        key = (record.spec.tenant, class_name)
        if self.cycle.tenant(key[0]).quota.get(class_name) is None:
            return NONE
        return self.quotas.setdefault(key, len(self.rows) + len(self.quotas))

    def _capacity(self) -> Ints:
        """Of every pool, then of every quota that was asked for."""
        quotas = [(self._quota_left(*key), UNLIMITED, UNLIMITED) for key in self.quotas]
        limits = np.clip(np.array(quotas, np.int64).reshape(-1, 1, 3), 0, UNLIMITED)
        whole = np.broadcast_to(limits, (len(quotas), self.hours, 3)).astype(np.int32)
        return np.concatenate((self._rooms, whole))

    @cached_property
    def _rooms(self) -> Ints:
        rooms = self.cycle.rooms
        now = np.empty((len(self.rows), 1, 3), np.int64)
        for (cluster, pool), row in self.rows.items():
            room = rooms[cluster, pool]
            host = (UNLIMITED, UNLIMITED) if room.unbooted else (room.host(0), room.host(1))
            now[row] = (room.free_milli, *host)
        rooms_by_hour: Ints = np.minimum(np.maximum(now + self.cycle.given_back(), 0), UNLIMITED).astype(np.int32)
        return rooms_by_hour

    def _quota_left(self, tenant: str, class_name: str) -> Milli:
        cycle = self.cycle
        others = [
            (one, cycle.usage_of(name).device_milli.get(class_name, 0) + self._waiting(name, class_name))
            for name, one in cycle.tenants.items()
            if name != tenant
        ]
        limit = lendable(cycle.tenant(tenant), class_name, others, cycle.totals.get(class_name, 0))
        return (limit or 0) - cycle.usage_of(tenant).device_milli.get(class_name, 0)

    def _waiting(self, tenant: str, class_name: str) -> Milli:
        """What the tenant's waiting workloads would take of the class that they like best."""
        return self.behind.get((tenant, class_name), 0) + sum(
            record.spec.demand.device_milli * record.spec.size
            for record in self.records
            if record.spec.tenant == tenant and record.spec.classes[0].name == class_name
        )

    def _ledgers(self) -> tuple[Ints, Floats]:
        names = sorted({record.spec.tenant for record in self.records})
        limited = [name for name in names if self._budgeted(name)]
        number = {name: index for index, name in enumerate(limited)}
        left = np.empty((len(limited), 2))
        for name, index in number.items():
            left[index] = self._left(name)
        return np.array([number.get(record.spec.tenant, NONE) for record in self.records], np.int32), left

    def _left(self, tenant: str) -> Floats:
        """Money and grams that the tenant may still take."""
        budget, usage = self.cycle.tenant(tenant).budget, self.cycle.usage_of(tenant)
        money = UNLIMITED**2 if budget.money_micros is None else budget.money_micros - usage.spent_micros
        grams = UNLIMITED**2 if budget.carbon_g is None else budget.carbon_g - usage.carbon_g
        return np.array([money, grams], np.float64)

    def _budgeted(self, tenant: str) -> bool:
        budget = self.cycle.tenant(tenant).budget
        return budget.money_micros is not None or budget.carbon_g is not None
