"""Policies as objects: versions, rollback, goals that steer, own code that is set aside when it misbehaves."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from msgspec.structs import replace

from dure.adapters.memory.store import MemoryStore
from dure.model.decision import Place
from dure.model.errors import InvalidInput, NotFound
from dure.model.policy import Policy, Verb
from dure.model.reason import Reason
from dure.model.snapshot import Snapshot
from dure.model.tariff import Capacity
from dure.place import place
from dure.place.candidate import Candidate
from dure.plane import deciding, policies
from tests.fixtures.small_world import training
from tests.unit.place.worlds import NOW_S, carbon, pool, record, snapshot, tariff

EXAMPLE = Path(__file__).parents[3] / "examples" / "own-policy" / "greenest.py"


class Point:
    """An installed entry point."""

    def __init__(self, pick: Callable[..., Any]) -> None:
        self._pick = pick

    def load(self) -> Callable[..., Any]:
        return self._pick


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for module in (deciding, policies):
        monkeypatch.setattr(module, "own_policies", lambda: found)
    return found


def world(policy: Policy | None = None) -> Snapshot:
    made = snapshot(
        (record(training()),),
        tariffs=(tariff("a", 1000), tariff("b", 1050)),
        grids=(carbon("a", 400.0), carbon("b", 100.0)),
    )
    return replace(made, policies=(policy,) if policy else ())


def home(decisions: Sequence[Any]) -> str:
    [one] = [decision for decision in decisions if isinstance(decision, Place)]
    return one.placement.cluster


def test_every_change_is_a_version_and_an_event_and_rollback_is_one_more() -> None:
    store = MemoryStore()
    policies.keep(store, Policy("goal", Verb.PLACE, settings={"carbonWeight": 2.0}), NOW_S, "ada")
    policies.keep(store, Policy("goal", Verb.PLACE, settings={"carbonWeight": 9.0}), NOW_S, "ada")
    back = policies.rollback(store, "goal", None, NOW_S, "grace")
    assert back.settings == {"carbonWeight": 2.0}
    assert [one.version for one in policies.history(store, "goal")] == [1, 2, 3]
    assert [one.kind for one in store.list_events()] == ["PolicyChanged"] * 3
    assert [one.changed_by for one in policies.history(store, "goal")] == ["ada", "ada", "grace"]
    assert store.list_events()[-1].message.endswith("back to version 1 by grace")


def test_a_policy_with_an_unknown_setting_is_refused_and_nothing_is_written() -> None:
    store = MemoryStore()
    with pytest.raises(InvalidInput, match="carbonWaight"):
        policies.keep(store, Policy("goal", Verb.PLACE, settings={"carbonWaight": 2.0}), NOW_S, "ada")
    assert store.list_policies() == ()


def test_an_unknown_policy_or_version_is_named() -> None:
    store = MemoryStore()
    with pytest.raises(NotFound, match="no policy 'goal'"):
        policies.history(store, "goal")
    policies.keep(store, Policy("goal", Verb.PLACE), NOW_S, "ada")
    with pytest.raises(NotFound, match="no version 7"):
        policies.rollback(store, "goal", 7, NOW_S, "ada")


def test_weights_of_the_owner_change_the_choice_but_not_the_bill() -> None:
    plain = replace(world(), carbon_micros_per_kg=10_000_000)
    greener = replace(plain, policies=(Policy("greener", Verb.PLACE, settings={"carbonWeight": 500.0}),))
    assert home(place(plain)) == "a"
    [decision] = place(greener)
    assert isinstance(decision, Place)
    assert decision.placement.cluster == "b"
    assert decision.placement.bill.carbon < decision.placement.bill.direct


def test_a_policy_without_spot_holds_what_could_only_run_there() -> None:
    spot = replace(pool("a"), capacity=Capacity.SPOT)
    only = replace(
        world(Policy("safe", Verb.PLACE, settings={"spot": False})), pools=(spot,), clusters=world().clusters[:1]
    )
    [held] = place(only)
    assert [verdict.reason for verdict in held.verdicts] == [Reason.POLICY_FORBIDS]  # type: ignore[union-attr]


def test_the_worked_example_takes_the_greener_of_two_that_cost_about_the_same(installed: dict[str, Any]) -> None:
    installed["greenest"] = Point(_example().pick)
    own = Policy("mine", Verb.PLACE, algorithm="own-greenest")
    policies.checked(own)
    assert home(deciding.Deciding(place, MemoryStore())(world(own))) == "b"
    assert home(place(world())) == "a"


def _raises(*_: object) -> Candidate:
    raise RuntimeError("no idea")


def _nonsense(*_: object) -> str:
    return "the moon"


def _sleeps(*_: object) -> Candidate | None:
    threading.Event().wait(60)
    return None


@pytest.mark.parametrize(
    ("pick", "said"), [(_raises, "no idea"), (_nonsense, "none of the possible"), (_sleeps, "no answer within")]
)
def test_an_own_policy_that_misbehaves_is_set_aside_once_and_says_so(
    installed: dict[str, Any], pick: Callable[..., Any], said: str
) -> None:
    installed["mine"] = Point(pick)
    store = MemoryStore()
    decide = deciding.Deciding(place, store, limit_s=0.2 if pick is _sleeps else 60.0)
    own = Policy("mine", Verb.PLACE, algorithm="own-mine")
    assert home(decide(world(own))) == "a"
    assert home(decide(world(own))) == "a"
    [event] = store.list_events()
    assert event.kind == "PolicySetAside"
    assert said in event.message


def test_a_new_version_is_given_another_chance(installed: dict[str, Any]) -> None:
    installed["mine"] = Point(_raises)
    store = MemoryStore()
    decide = deciding.Deciding(place, store)
    decide(world(Policy("mine", Verb.PLACE, algorithm="own-mine")))
    installed["mine"] = Point(_example().pick)
    assert home(decide(world(Policy("mine", Verb.PLACE, algorithm="own-mine", version=2)))) == "b"


def test_a_policy_that_is_not_installed_is_refused(installed: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="no installed policy"):
        policies.checked(Policy("mine", Verb.PLACE, algorithm="own-nobody"))


def _example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("greenest", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
