"""A reallocation carried out step by step on a toy cluster: order, floors, time-outs, restarts, undoing."""

from __future__ import annotations

import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from dure.scale.pools import PoolSettings, Service, Share, shares
from dure.scale.reallocation import Held, Order, Plan, advance, planned

A_FROM_B = (Share("a", 4, 7, 3, "Surge"), Share("b", 4, 2, 0, "Preempted"))


class Toy:
    """Pods leave and get ready one look after the order, up to a number of devices; some never get ready."""

    def __init__(self, running: dict[str, int], devices: int, broken: str = "") -> None:
        self.wanted, self.pods = dict(running), dict(running)
        self.devices, self.broken = devices, broken
        self.lowest = dict(running)
        self.orders: list[Order] = []

    def obey(self, orders: tuple[Order, ...]) -> None:
        for order in orders:
            self.orders.append(order)
            if order.act == "scale":
                self.wanted[order.service] = order.replicas

    def settle(self) -> None:
        for name, wanted in self.wanted.items():
            room = self.devices - sum(self.pods.values())
            self.pods[name] += min(wanted - self.pods[name], max(room, 0))
            self.lowest[name] = min(self.lowest[name], self.pods[name])

    def seen(self) -> dict[str, Held]:
        ready = {**self.pods, self.broken: 0}
        return {name: Held(self.wanted[name], ready[name], pods) for name, pods in self.pods.items()}


def carry_out(plan: Plan, toy: Toy, *, step_s: float = 10.0, restart: bool = False) -> Plan:
    now_s = plan.began_s
    while not plan.over:
        if restart:
            plan = msgspec.json.decode(msgspec.json.encode(plan), type=Plan)
        plan, orders = advance(plan, toy.seen(), now_s)
        toy.obey(orders)
        toy.settle()
        now_s += step_s
        assert now_s < 20_000.0
    return plan


def test_losers_are_gone_before_winners_come() -> None:
    toy = Toy({"a": 4, "b": 4}, devices=9)
    plan = planned("p", A_FROM_B, 0.0)
    assert plan is not None
    done = carry_out(plan, toy)
    assert (done.standing, toy.pods) == ("done", {"a": 7, "b": 2})
    assert next(order.act for order in toy.orders if order.service == "b") == "drain"
    first_grown = next(i for i, order in enumerate(toy.orders) if order.service == "a")
    assert all(order.service == "b" for order in toy.orders[:first_grown])


def test_a_replica_that_never_gets_ready_gives_everything_back() -> None:
    toy = Toy({"a": 4, "b": 4}, devices=9, broken="a")
    plan = planned("p", A_FROM_B, 0.0)
    assert plan is not None
    undone = carry_out(plan, toy)
    assert (undone.standing, toy.pods) == ("undone", {"a": 4, "b": 4})
    assert "warm of a" in undone.why


def test_a_restart_at_any_moment_goes_on_where_it_was() -> None:
    toy, other = Toy({"a": 4, "b": 4}, devices=9), Toy({"a": 4, "b": 4}, devices=9)
    plan = planned("p", A_FROM_B, 0.0)
    assert plan is not None
    assert carry_out(plan, toy, restart=True) == carry_out(plan, other)
    assert toy.orders == other.orders


def test_shares_that_change_nothing_make_no_plan() -> None:
    assert planned("p", (Share("a", 3, 3, 0, "Steady"),), 0.0) is None


@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(0, 3), st.integers(0, 9), st.integers(0, 3)), min_size=2, max_size=4
    ),
    st.integers(0, 5),
    st.sampled_from(["", "s0", "s1"]),
)
def test_nobody_falls_below_its_minimum_whatever_happens(
    raw: list[tuple[int, int, int, int]], elastic: int, broken: str
) -> None:
    services = tuple(
        Service(f"s{i}", primary + least, least, 12, primary + least, wanted, priority)
        for i, (primary, least, wanted, priority) in enumerate(raw)
    )
    running = {service.name: service.running for service in services}
    plan = planned("p", shares(services, PoolSettings(elastic=elastic)), 0.0)
    toy = Toy(running, sum(running.values()) + elastic, broken)
    if plan is None:
        return
    end = carry_out(plan, toy)
    assert all(toy.lowest[service.name] >= service.min_replicas for service in services)
    expected = {**running, **(end.after if end.standing == "done" else end.before)}
    assert toy.pods == expected


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.integers(0, 3), st.floats(0.0, 12.0), st.floats(0.05, 3.0), st.integers(0, 3)
        ),
        min_size=2,
        max_size=4,
    ),
    st.integers(0, 5),
    st.integers(0, 12),
)
def test_a_plan_made_of_needs_that_stalls_at_any_moment_leaves_everybody_with_what_they_had(
    raw: list[tuple[int, int, float, float, int]], elastic: int, looks: int
) -> None:
    services = tuple(
        Service(f"s{i}", own + least, least, 12, own + least, math.ceil(need + error), priority, 9, need, error)
        for i, (own, least, need, error, priority) in enumerate(raw)
    )
    running = {service.name: service.running for service in services}
    plan = planned("p", shares(services, PoolSettings(elastic=elastic)), 0.0)
    if plan is None:
        return
    toy, now_s = Toy(running, sum(running.values()) + elastic), 0.0
    for _ in range(looks):
        plan, orders = advance(plan, toy.seen(), now_s)
        toy.obey(orders)
        toy.settle()
        now_s += 10.0
    stalled = msgspec.structs.replace(plan, began_s=now_s + 10_000.0)
    end = carry_out(stalled, toy)
    assert toy.pods == ({**running, **end.after} if plan.over and plan.standing == "done" else running)
    assert all(toy.lowest[service.name] >= service.min_replicas for service in services)
