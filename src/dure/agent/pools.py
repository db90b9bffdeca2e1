"""Keeps a group of Deployments within what they share: looks, plans, and leads one plan after the other to its end.

Turned by `dure scale pool`, now and then. Everything it must know after a restart is in the cluster: the plan under
way and what each Deployment runs. Only the calm rounds of a service are counted here; a restart counts them anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from dure.model.elastic import ElasticGroup
from dure.model.units import Instant
from dure.model.workload import Replicas
from dure.scale.pools import PoolSettings, Service, Share, shares
from dure.scale.reallocation import Held, Order, Plan, advance, planned


class Levers(Protocol):
    """What can be seen of services and done to them."""

    def fetch(self, name: str) -> Held: ...

    def scale(self, name: str, replicas: int) -> None: ...

    def drain(self, name: str, count: int) -> None: ...

    def resume(self, name: str) -> None: ...

    def fetch_plan(self, group: str) -> Plan | None: ...

    def write_plan(self, group: str, plan: Plan) -> None: ...


class Member(Protocol):
    """Bounds and priority of a service in a group."""

    @property
    def replicas(self) -> Replicas: ...

    @property
    def priority(self) -> int: ...


class PoolKeeper:
    """`wanted` answers how many replicas each service should have if it were alone."""

    def __init__(
        self,
        group: ElasticGroup,
        members: Mapping[str, Member],
        levers: Levers,
        wanted: Callable[[str], int | None],
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._group, self._members, self._levers = group, members, levers
        self._wanted, self._tell = wanted, tell
        self._calm: dict[str, int] = {}

    def divide(self) -> tuple[Share, ...]:
        """What everybody may run, as things are now; nothing is changed."""
        services = tuple(self._service(name) for name in self._group.primary)
        return shares(services, PoolSettings(self._group.elastic, self._group.give_back, self._group.calm))

    def turn(self, now_s: Instant) -> Plan | None:
        """One look: begin a plan if one is needed, lead the one under way a step further; None when all is well."""
        before = self._levers.fetch_plan(self._group.name)
        plan = before
        if plan is None or plan.over:
            plan = planned(f"{self._group.name}-{now_s:.0f}", self.divide(), now_s)
        if plan is None:
            return None
        if plan != before:
            # Written before the first order: who takes over must know what has begun.
            self._levers.write_plan(self._group.name, plan)
            self._tell(f"{plan.name} begins: {plan.why}")
        held = {name: self._levers.fetch(name) for name in plan.before}
        after, orders = advance(plan, held, now_s)
        for order in orders:
            self._obey(order)
        if after != plan:
            self._levers.write_plan(self._group.name, after)
            step = after.step
            where = f"step {step.number}, {step.phase} of {step.service}" if step else after.why
            self._tell(f"{after.name} {after.standing}: {where}")
        return after

    def _obey(self, order: Order) -> None:
        match order.act:
            case "scale":
                self._levers.scale(order.service, order.replicas)
            case "drain":
                self._levers.drain(order.service, order.replicas)
            case "resume":
                self._levers.resume(order.service)

    def _service(self, name: str) -> Service:
        member, held = self._members[name], self._levers.fetch(name)
        wanted = self._wanted(name)
        need = held.replicas if wanted is None else wanted
        calm = self._calm.get(name, 0) + 1 if need < held.replicas else 0
        self._calm[name] = calm
        bounds = member.replicas
        return Service(
            name, self._group.primary[name], bounds.min, bounds.max, held.replicas, need, member.priority, calm
        )
