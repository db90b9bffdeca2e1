"""Every way one workload could run, pool by pool and hour by hour, each priced or refused with its reason.

Called by `batch` for the waiting workloads and by `plan` for a single one. The first start of a candidate is now (or
after the boot of a node); later ones are full hours, offered only to deferrable workloads and only while even a slow
run would end before the deadline.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np

from dure.model.bill import Bill
from dure.model.demand import Demand, on_class
from dure.model.policy import Verb
from dure.model.reason import Reason, Verdict
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity
from dure.model.tenant import Budget, Tenant, TenantUsage
from dure.model.units import HOUR_S, WHOLE_MILLI, Micros, Milli
from dure.model.workload import WorkloadRecord, WorkloadType
from dure.place.adapt import congestion_at
from dure.place.bill import Quote, charged, quote, run_time
from dure.place.fairness import class_totals, comes_before
from dure.place.filters import budget_clash, isolation_clash, quota_clash, static_clash
from dure.place.goals import Goals, aimed, clean_starts, goal_clash, goals_for, too_dirty
from dure.place.instance import Floats, Longs
from dure.place.option import Option, World, options, world_of
from dure.place.room import PoolRoom
from dure.place.settings import PlaceSettings, settings_of
from dure.place.spans import claim_of, expected_end
from dure.place.spread import OnSpot, held_on_spot, share_of, spread
from dure.place.turn import Turn, turns_of

NO_BUDGET = Budget()
# This part of a pool that cannot grow stays free for newcomers.
_KEPT_FREE = 0.25


class Candidate(msgspec.Struct, frozen=True):
    """One pool for one workload. `clash` rules out every start, `now_clash` only the first.

    `settings` are the policy's with the workload's own goals, `barred` is what those have against the first start.
    """

    option: Option
    demand: Demand
    settings: PlaceSettings
    quote: Quote | None
    clash: Verdict | None
    barred: Verdict | None = None
    now_clash: Verdict | None = None

    @property
    def where(self) -> str:
        return self.option.where

    @property
    def crowd(self) -> str:
        """Under which name its congestion price is kept."""
        return f"{self.option.pool.cluster}/{self.option.pool.class_name}"

    def bill(self, at: int) -> Bill:
        return self.quote.bill(at) if self.quote is not None else Bill()

    def opening(self, at: int) -> Micros:
        """What the rest of a node that is booted for it counts in the choice."""
        found = self.quote.opening if self.quote is not None else 0.0
        return round(found if isinstance(found, float) else found.item(at))


class Cycle:
    """What one run of `place` knows and keeps while it gives room away."""

    def __init__(self, snapshot: Snapshot, waiting: tuple[WorkloadRecord, ...], *, all_bills: bool = False) -> None:
        self.all_bills = all_bills
        self.snapshot = snapshot
        policy = snapshot.policy(Verb.PLACE)
        self.settings: PlaceSettings = settings_of(policy)
        self.goals: Goals = policy.goals
        self.world: World = world_of(snapshot, self.settings.horizon_h + _longest_h(waiting))
        self.rooms = {(pool.cluster, pool.name): PoolRoom(pool) for pool in snapshot.pools}
        self.tenants = {tenant.name: tenant for tenant in snapshot.tenants}
        self.usage = {usage.tenant: usage for usage in snapshot.usage}
        self.spells = {(pool.cluster, pool.pool): pool for pool in snapshot.spells}
        self._steers: dict[int, tuple[Candidate, Floats]] = {}
        self._on_spot: OnSpot | None = None
        self.rows = {(home.pool.cluster, home.pool.name): row for row, home in enumerate(self.world.homes)}
        self._given_back: Longs | None = None
        self.totals = class_totals(snapshot.pools)

    def steer(self, candidate: Candidate) -> Floats:
        """What each start of a priced candidate is chosen by; worked out once."""
        assert candidate.quote is not None
        known = self._steers.get(id(candidate))
        if known is not None and known[0] is candidate:
            return known[1]
        weights = self.snapshot.weights
        congestion = congestion_at(weights, candidate.crowd, candidate.quote.starts)
        made = candidate.quote.steer(weights, congestion, candidate.settings, self.snapshot.now_s)
        self._steers[id(candidate)] = candidate, made
        return made

    def tenant(self, name: str) -> Tenant:
        return self.tenants.get(name, Tenant(name))

    def usage_of(self, name: str) -> TenantUsage:
        return self.usage.get(name, TenantUsage(name))

    def candidates(
        self, record: WorkloadRecord, among: Callable[[Option, Demand], bool] | None = None
    ) -> list[Candidate]:
        """One for each pool, or for those that `among` lets pass: what nobody would take need not be priced."""
        reference = self.snapshot.catalogue.accelerator(record.spec.classes[0].name)
        goals = goals_for(self.goals, record.spec) if self.goals else ()
        settings = aimed(self.settings, goals) if goals else self.settings
        if governed(record, settings):
            # What the deadline risks on spot is for the rule to weigh.
            settings = msgspec.structs.replace(settings, spot_late_factor=0.0)
        asked = [
            (option, on_class(record.spec.demand, option.profile, reference))
            for option in options(record.spec, self.world, self.snapshot.now_s)
        ]
        return [
            self._candidate(record, option, demand, settings, goals)
            for option, demand in asked
            if among is None or among(option, demand)
        ]

    def _candidate(
        self, record: WorkloadRecord, option: Option, demand: Demand, settings: PlaceSettings, goals: Goals
    ) -> Candidate:
        spec = record.spec
        clash = (
            static_clash(spec, option, demand, self.snapshot)
            or isolation_clash(option, self.tenant(spec.tenant), demand)
            or goal_clash(goals, option, self.snapshot.rates, self.snapshot.now_s)
        )
        if clash is None and not settings.spot and option.pool.capacity is Capacity.SPOT:
            clash = Verdict(option.where, Reason.POLICY_FORBIDS, "no spot", f"{option.where} is spot")
        if clash is not None:
            return Candidate(option, demand, settings, None, clash)
        room = self.rooms[option.pool.cluster, option.pool.name]
        later = may_wait(record)
        full = None if later else self._room_clash(record, option, demand)
        if full is not None and not self.all_bills:
            # No room now and no later start: nobody will ask for the bill.
            return Candidate(option, demand, settings, None, full)
        spare = room.spare_booted(demand, option.replicas)
        if spare is not None:
            option = msgspec.structs.replace(option, start_s=option.start_s + option.pool.boot_s)
        starts = self._starts(record, option, settings)
        priced = self._priced(record, option, settings, starts, spare or 0.0)
        barred = None
        if (clean := clean_starts(goals, priced)) is not None:
            barred = None if clean[0] else too_dirty(goals, option, priced)
            clean[0] = True
            if not clean.all():
                priced = self._priced(record, option, settings, priced.starts[clean], spare or 0.0)
        candidate = Candidate(option, demand, settings, priced, None, barred)
        return msgspec.structs.replace(candidate, now_clash=self.now_clash(record, candidate))

    def _priced(
        self, record: WorkloadRecord, option: Option, settings: PlaceSettings, starts: Floats, spare: float
    ) -> Quote:
        spec, status = record.spec, record.status
        made = quote(
            spec, option, self.snapshot, settings, status.submitted_s, starts, done_s=status.done_s, spare=spare
        )
        return spread(made, self._spot_share(spec.tenant, option)) if option.pool.capacity is Capacity.SPOT else made

    def _spot_share(self, tenant: str, option: Option) -> float:
        if self._on_spot is None:
            self._on_spot = held_on_spot(self.snapshot.records)
        return share_of(self._on_spot, tenant, (option.pool.cluster, option.pool.name))

    def now_clash(self, record: WorkloadRecord, candidate: Candidate) -> Verdict | None:
        """Goals, and quota, budgets and room as they are at this point of the cycle."""
        if candidate.barred is not None:
            return candidate.barred
        option, demand = candidate.option, candidate.demand
        tenant, usage = self.tenant(record.spec.tenant), self.usage_of(record.spec.tenant)
        clash = quota_clash(option, demand, tenant, usage) or self._room_clash(record, option, demand)
        if clash is not None or tenant.budget == NO_BUDGET:
            return clash
        return budget_clash(option, tenant, usage, candidate.bill(0))

    def _room_clash(self, record: WorkloadRecord, option: Option, demand: Demand) -> Verdict | None:
        """Want of room, or the turn of a wider one: where there is room for both, fairness lets that one in first.

        The turn is the reason whether or not something is free just now: else all who wait would hear something else
        whenever a device comes back.
        """
        where = option.pool.cluster, option.pool.name
        full = self.rooms[where].clash(demand, option.replicas, option.profile.memory_mib)
        turn = turns_of(self.snapshot).get(where)
        if turn is None or turn.devices <= demand.devices * option.replicas:
            return full
        return self._turn_clash(record, option, demand, turn) or full

    def _turn_clash(self, record: WorkloadRecord, option: Option, demand: Demand, turn: Turn) -> Verdict | None:
        """Room that is kept for one who comes first, unless this one is gone by then or leaves enough for it."""
        if turn.claim.name == record.name:
            return None
        spec = record.spec
        end_s = option.start_s + self.settings.careful * run_time(spec, option.speed, record.status.done_s)
        ends = spec.type is not WorkloadType.SERVING
        left = self.rooms[option.pool.cluster, option.pool.name].whole_after(demand, option.replicas)
        if (ends and end_s <= turn.start_s) or left >= turn.devices:
            return None
        mine = claim_of(0, record, self.snapshot.now_s)
        if comes_before(mine, turn.claim, self.tenants, self.usage, self.totals):
            return None
        kept = f"{turn.devices} devices of {option.where} are kept for one that has waited longer"
        return Verdict(option.where, Reason.TURN_OF_ANOTHER, "its turn", kept)

    def given_back(self) -> Longs:
        """What running workloads should have returned by each hour: of devices, host CPU, host memory, by row."""
        if self._given_back is None:
            base_h, hours = int(self.snapshot.now_s // HOUR_S), self.settings.horizon_h
            at: list[tuple[int, int]] = []
            units: list[tuple[int, int, int]] = []
            for record in self.snapshot.records:
                home = record.status.placement
                end_s = expected_end(record, self.settings.duration_high, self.snapshot.now_s)
                if home is None or end_s is None or (home.cluster, home.pool) not in self.rows:
                    continue
                hour = max(1, math.ceil(end_s / HOUR_S) - base_h)
                if hour < hours:
                    at.append((self.rows[home.cluster, home.pool], hour))
                    units.append(resources(record.spec.demand, home.replicas))
            given = np.zeros((len(self.rows), hours, 3), np.int64)
            if at:
                np.add.at(given, tuple(np.array(at).T), np.array(units))
            self._given_back = np.cumsum(given, axis=1)
        return self._given_back

    def _starts(self, record: WorkloadRecord, option: Option, settings: PlaceSettings) -> Floats:
        spec, now_s = record.spec, self.snapshot.now_s
        if spec.deadline_s is None or not may_wait(record):
            return np.array([option.start_s])
        due_s = record.status.submitted_s + spec.deadline_s
        slow_s = settings.duration_high * run_time(spec, option.speed, record.status.done_s)
        last_s = due_s - slow_s
        if settings.longest_wait_h:
            last_s = min(last_s, record.status.submitted_s + settings.longest_wait_h * HOUR_S)
        first = int(option.start_s // HOUR_S) + 1
        end = min(int(last_s // HOUR_S), int(now_s // HOUR_S) + settings.horizon_h - 1) + 1
        starts = np.arange(first - 1, max(first, end), dtype=np.float64) * HOUR_S
        starts[0] = option.start_s
        return starts

    def take(self, record: WorkloadRecord, candidate: Candidate, bill: Bill) -> None:
        """Book a placement of this cycle, so that the next decision sees what is left."""
        pool, demand, replicas = candidate.option.pool, candidate.demand, candidate.option.replicas
        self.rooms[pool.cluster, pool.name].take(demand, replicas)
        usage = self.usage_of(record.spec.tenant)
        held = dict(usage.device_milli)
        held[pool.class_name] = held.get(pool.class_name, 0) + demand.device_milli * replicas
        self.usage[record.spec.tenant] = msgspec.structs.replace(
            usage,
            device_milli=held,
            spent_micros=usage.spent_micros + charged(bill),
            carbon_g=usage.carbon_g + bill.carbon_g,
        )


def may_wait(record: WorkloadRecord) -> bool:
    """Whether a later hour is offered to it at all."""
    spec = record.spec
    return spec.deferrable and spec.deadline_s is not None and spec.type is not WorkloadType.SERVING


def governed(record: WorkloadRecord, settings: PlaceSettings) -> bool:
    """Whether `spot_rule` speaks of it: it can be late, a loss costs it little, and it may leave spot in time."""
    spec = record.spec
    able = spec.deadline_s is not None and spec.checkpoint_s > 0 and spec.type is not WorkloadType.SERVING
    return able and settings.spot and settings.moves_at_once > 0


def plenty(option: Option, demand: Demand) -> bool:
    """Whether a part of the pool stays free when the workload has its room there, or more of it can be had."""
    pool = option.pool
    left = pool.free_milli - device_need(option, demand)
    return pool.nodes_max > pool.nodes or left >= _KEPT_FREE * pool.devices * WHOLE_MILLI


def resources(demand: Demand, replicas: int) -> tuple[int, int, int]:
    """Devices (milli), host CPU and host memory of all replicas."""
    return demand.device_milli * replicas, demand.cpu_milli * replicas, demand.host_memory_mib * replicas


def device_need(option: Option, demand: Demand) -> Milli:
    """Thousandths of devices that all replicas take; memory counts where it is the larger share."""
    each = demand.device_milli
    if not demand.whole and option.profile.memory_mib > 0:
        each = max(each, math.ceil(demand.memory_mib * WHOLE_MILLI / option.profile.memory_mib))
    return each * option.replicas


def _longest_h(records: tuple[WorkloadRecord, ...]) -> int:
    longest = 24.0
    for record in records:
        speeds = [accepted.speed for accepted in record.spec.classes if accepted.speed > 0]
        longest = max(longest, record.spec.duration_s / HOUR_S / min(speeds, default=1.0))
    # Beyond a month the last hour's price goes on.
    return min(24 * 31, math.ceil(longest) + 2)
