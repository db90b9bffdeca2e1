"""A second policy decides on the same snapshots and changes nothing."""

from __future__ import annotations

import msgspec

from dure.adapters.memory.store import MemoryStore
from dure.model.decision import Decision, Place
from dure.model.policy import Policy, Verb
from dure.model.shadow import SHADOW_SETTING, Shadow
from dure.model.snapshot import Snapshot
from dure.model.workload import AcceptedClass
from dure.place import place
from dure.plane.shadow import Beside, shadowed
from tests.fixtures.small_world import training
from tests.unit.place.worlds import NOW_S, record, snapshot, tariff

BIG = (AcceptedClass("big"),)


def turned_on(store: MemoryStore, policy: Policy) -> None:
    store.write_setting(SHADOW_SETTING, msgspec.json.encode(Shadow(policy, NOW_S)).decode())


def found(store: MemoryStore) -> Shadow:
    kept = store.fetch_setting(SHADOW_SETTING)
    assert kept
    return msgspec.json.decode(kept, type=Shadow)


def test_the_same_policy_agrees_with_itself() -> None:
    store, world = MemoryStore(), snapshot((record(training(classes=BIG)),))
    turned_on(store, Policy("regret", Verb.PLACE, algorithm="regret"))
    Beside(store, place).compare(world, place(world))
    shadow = found(store)
    assert (shadow.placed, shadow.same, shadow.elsewhere) == (1, 1, 0)
    assert shadow.live_micros == shadow.shadow_micros > 0


def test_a_policy_that_chooses_another_place_is_told_with_both_bills() -> None:
    def dearest(world: Snapshot) -> tuple[Decision, ...]:
        swapped = msgspec.structs.replace(world, tariffs=(tariff("a", 9000), tariff("b", 1)))
        return place(swapped) if any(one.name == "odd" for one in world.policies) else place(world)

    store, world = MemoryStore(), snapshot((record(training(classes=BIG)),))
    turned_on(store, Policy("odd", Verb.PLACE))
    Beside(store, dearest).compare(world, place(world))
    shadow = found(store)
    assert (shadow.placed, shadow.elsewhere) == (1, 1)
    assert (shadow.newest[0].live, shadow.newest[0].shadow) == ("a/big", "b/big")


def test_one_that_would_wait_and_one_that_would_start_are_counted_once() -> None:
    store, world = MemoryStore(), snapshot((record(training(classes=BIG)),))
    paused = shadowed(world, Policy("stop", Verb.PLACE, paused=True))
    turned_on(store, Policy("stop", Verb.PLACE, paused=True))
    Beside(store, place).compare(world, place(world))
    assert found(store).would_wait == 1
    turned_on(store, Policy("regret", Verb.PLACE, algorithm="regret"))
    beside = Beside(store, place)
    for _ in range(3):
        beside.compare(paused, place(paused))
    assert found(store).would_start == 1


def test_without_a_shadow_nothing_is_decided_twice() -> None:
    def never(_: Snapshot) -> tuple[Place, ...]:
        raise AssertionError("decided beside although no shadow is on")

    world = snapshot((record(training(classes=BIG)),))
    Beside(MemoryStore(), never).compare(world, place(world))
