"""The ledger over simulated time: every hour of every pool balances, and nothing is posted twice or left out."""

from __future__ import annotations

import pytest

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.store import MemoryStore
from dure.adapters.memory.stream import arrivals, standing
from dure.embedded.week import START_S, Run, simulate
from dure.embedded.world import EmbeddedWorld
from dure.files.builtin import catalogue, demo_fleet
from dure.model.fleet import ClusterSpec
from dure.model.posting import Account, Posting
from dure.watch.books import imbalances, sums


def ledger_of(days: float, store: MemoryStore) -> tuple[Posting, ...]:
    fleet, known = demo_fleet(), catalogue()
    coming = [(START_S, one) for one in standing(fleet, known)]
    coming += arrivals(fleet, known, 1, START_S, START_S + days * 86_400)
    simulate(Run(fleet, known, coming, days=days), store=store)
    return store.list_ledger(0, 10**9)


def judge(days: float) -> None:
    store = MemoryStore()
    ledger = ledger_of(days, store)
    assert imbalances(ledger) == {}
    (groups,) = sums(ledger, []).values()
    assert groups["paid"] == groups["used"] + groups["idle"] + groups["overhead"]
    hours = {one.hour for one in ledger}
    assert hours >= set(range(int(START_S // 3600), int(START_S // 3600 + days * 24)))
    # Owned pools have as many devices in every hour, so what was metered is known beforehand.
    fixed = [one for one in ledger if (one.cluster, one.account) == ("seoul-onprem", Account.PAID)]
    devices = sum(pool.nodes * pool.devices for pool in _site().pools)
    assert sum(one.device_hours for one in fixed) == pytest.approx(devices * days * 24, rel=0.01)


def _site() -> ClusterSpec:
    return next(one for one in demo_fleet().clusters if one.info.name == "seoul-onprem")


def test_half_a_day_balances_to_the_last_millionth() -> None:
    judge(0.5)


@pytest.mark.slow
def test_two_days_balance_to_the_last_millionth() -> None:
    judge(2.0)


def test_a_new_leader_posts_the_time_that_nobody_watched() -> None:
    fleet, known = demo_fleet(), catalogue()
    clock, store = VirtualClock(START_S), MemoryStore()
    first = EmbeddedWorld(fleet, known, store, clock, seed=1)
    for minutes in (0, 5, 10):
        clock.advance(START_S + minutes * 60)
        first.step()
    clock.advance(START_S + 3600)
    second = EmbeddedWorld(fleet, known, store, clock, seed=1)
    second.step()
    ledger = store.list_ledger(0, 10**9)
    assert imbalances(ledger) == {}
    by_pool = sums(ledger, ["cluster", "pool"])
    devices = {("seoul-onprem", pool.name): pool.nodes * pool.devices for pool in _site().pools}
    for key, count in devices.items():
        paid = sum(
            one.device_hours for one in ledger if one.account is Account.PAID and (one.cluster, one.pool) == key
        )
        assert paid == pytest.approx(count, rel=1e-6)
        assert by_pool[key]["paid"] > 0
