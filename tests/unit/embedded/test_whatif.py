"""A changed fleet: prices, PUE, a cluster less; and the refusal of changes that make no sense."""

from __future__ import annotations

import msgspec
import pytest

from dure.adapters.clock import VirtualClock
from dure.adapters.memory.store import MemoryStore
from dure.embedded.whatif import changed, placing_by, replayed, without
from dure.embedded.world import EmbeddedWorld
from dure.files.builtin import catalogue, demo_fleet
from dure.model.errors import InvalidInput, NotFound
from dure.model.policy import Policy, Verb
from tests.fixtures.small_world import training
from tests.unit.place.worlds import record


def test_a_factor_scales_every_price_of_the_cluster_and_of_no_other() -> None:
    fleet = demo_fleet()
    name = fleet.clusters[0].info.name
    other = changed(fleet, f"{name}.price=2x")
    before, after = fleet.clusters[0].pools[0].tariff, other.clusters[0].pools[0].tariff
    for field in ("owned", "on_demand", "spot"):
        old, new = getattr(before, field), getattr(after, field)
        assert (new is None) == (old is None)
        if old is not None:
            assert new.values == tuple(2 * value for value in old.values)
    assert other.clusters[1:] == fleet.clusters[1:]


def test_pue_is_set_and_a_cluster_removed() -> None:
    fleet = demo_fleet()
    name = fleet.clusters[0].info.name
    assert changed(fleet, f"{name}.pue=1.05").clusters[0].info.pue == 1.05
    assert without(fleet, name).cluster(name) is None


@pytest.mark.parametrize("text", ["", "price=3", "seoul-onprem.colour=3", "seoul-onprem.price=cheap"])
def test_a_change_that_makes_no_sense_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a change"):
        changed(demo_fleet(), text)


def test_an_unknown_cluster_is_named_with_the_known_ones() -> None:
    with pytest.raises(NotFound, match="Known: "):
        without(demo_fleet(), "nowhere")


def test_the_policies_of_a_fleet_are_in_force_from_the_start_and_a_change_by_hand_stays() -> None:
    mine = Policy("mine", Verb.PLACE, algorithm="regret")
    fleet = msgspec.structs.replace(demo_fleet(), policies=(mine,))
    store, clock = MemoryStore(), VirtualClock(0.0)
    EmbeddedWorld(fleet, catalogue(), store, clock, seed=1)
    assert [one.algorithm for one in store.list_policies()] == ["regret"]
    store.write_policy(msgspec.structs.replace(mine, algorithm="ruin"))
    EmbeddedWorld(fleet, catalogue(), store, clock, seed=1)
    assert [one.algorithm for one in store.list_policies()] == ["ruin"]


def test_what_is_replayed_comes_at_the_hour_at_which_it_was_submitted() -> None:
    records = [record(training("early"), submitted_s=900.0), record(training("late"), submitted_s=5000.0)]
    assert [(at_s, spec.name) for at_s, spec in replayed(records, 1000.0)] == [(5000.0, "late")]


def test_a_policy_that_is_known_by_name_comes_with_its_settings_and_any_other_name_is_a_method() -> None:
    greener = Policy("greener", Verb.PLACE, settings={"carbonWeight": 2.0})
    packing = Policy("tight", Verb.PACK)
    fleet = msgspec.structs.replace(demo_fleet(), policies=(Policy("mine", Verb.PLACE), greener, packing))
    assert placing_by(fleet, "greener").policies == (packing, greener)
    assert [one.algorithm for one in placing_by(fleet, "exact").policies] == ["default", "exact"]
    with pytest.raises(InvalidInput, match="mystery"):
        placing_by(fleet, "mystery")
