"""What a policy may set: names in either spelling, kinds, and which solver a batch gets."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dure.model.errors import InvalidInput
from dure.model.policy import Policy, Verb
from dure.place.settings import PlaceSettings, StandAside, settings_of
from dure.place.solver import PLAIN_OPTIONS, Method

PLAIN = PlaceSettings()


def test_settings_are_read_in_the_spelling_of_files_and_of_code() -> None:
    found = settings_of(Policy("p", Verb.PLACE, settings={"horizonH": 5, "carbon_weight": 2.0, "spot": False}))
    assert found == replace(PLAIN, horizon_h=5, carbon_weight=2.0, spot=False)
    assert settings_of(Policy("p", Verb.PLACE)) == PLAIN


def test_the_algorithm_of_a_policy_is_the_method_unless_it_is_one_of_the_owners() -> None:
    assert settings_of(Policy("p", Verb.PLACE, algorithm="ruin")).method == "ruin"
    own = settings_of(Policy("p", Verb.PLACE, algorithm="own-mine", settings={"mood": 3, "horizonH": 7}))
    assert own == replace(PLAIN, horizon_h=7), "settings of its own are not ours"


@pytest.mark.parametrize(
    ("given", "mode", "share"),
    [
        (True, StandAside.HURRIED, 0.5),
        (False, StandAside.NEVER, 0.5),
        ("never", StandAside.NEVER, 0.5),
        ("hurried", StandAside.HURRIED, 0.5),
        ("always", StandAside.ALWAYS, 1.0),
    ],
)
def test_standing_aside_has_three_ways_and_the_two_it_had_before(
    given: bool | str, mode: StandAside, share: float
) -> None:
    for key in ("standAside", "stand_aside"):
        found = settings_of(Policy("p", Verb.PLACE, settings={key: given}))
        assert found == replace(PLAIN, stand_aside=mode)
        assert found.slack_share == share
    own = settings_of(Policy("p", Verb.PLACE, settings={"standAside": given, "asideSlack": 0.3}))
    assert own.slack_share == 0.3
    assert PLAIN.stand_aside is StandAside.HURRIED


def test_the_latest_start_is_a_share_of_the_slack_of_a_slow_run() -> None:
    rule = replace(PLAIN, stand_aside=StandAside.ALWAYS, duration_high=1.5)
    assert rule.latest_start(100.0, 200.0, 40.0, safe=True) == 140.0
    assert rule.latest_start(100.0, 200.0, 40.0, safe=False) == 120.0
    assert replace(rule, aside_slack=0.25).latest_start(100.0, 200.0, 40.0, safe=True) == 110.0
    assert replace(rule, aside_slack=0.25).latest_start(100.0, 200.0, 40.0, safe=False) == 110.0
    assert replace(rule, aside_slack=0.0).latest_start(100.0, 200.0, 40.0, safe=True) == 100.0


@pytest.mark.parametrize(
    ("policy", "told", "remedy"),
    [
        (Policy("p", Verb.PLACE, settings={"carbonWait": 1}), "p has no setting 'carbonWait'", "'carbonWeight'"),
        (Policy("p", Verb.PLACE, settings={"zzz": 1}), "p has no setting 'zzz'", "Known: method, horizonH"),
        (Policy("p", Verb.PLACE, settings={"horizonH": "x"}), "policy p: Expected `int`", ""),
        (Policy("p", Verb.PLACE, algorithm="magic"), "no placement method 'magic'", "auto, regret, ruin"),
        (Policy("p", Verb.PLACE, settings={"learning": "by heart"}), "no way of learning 'by heart'", "rule, bandit"),
        (
            Policy("p", Verb.PLACE, settings={"standAside": "allways"}),
            "no way of standing aside 'allways'",
            "never, hurried, always",
        ),
        (
            Policy("p", Verb.PLACE, settings={"standAside": 1}),
            "no way of standing aside '1'",
            "never, hurried, always",
        ),
        (Policy("p", Verb.PLACE, settings={"asideSlack": 1.5}), "asideSlack is 1.5", "from 0 to 1"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(policy: Policy, told: str, remedy: str) -> None:
    with pytest.raises(InvalidInput, match=told) as caught:
        settings_of(policy)
    assert remedy in str(caught.value) + (caught.value.remedy or "")


@pytest.mark.parametrize("weight", ["money", "carbon", "sla", "rework", "reuse"])
def test_any_weight_other_than_one_makes_a_choice_weighted(weight: str) -> None:
    assert not PLAIN.weighted
    assert replace(PLAIN, **{f"{weight}_weight": 2.0}).weighted


def test_a_careful_run_lies_half_way_between_the_estimate_and_a_slow_one() -> None:
    assert replace(PLAIN, duration_high=1.5).careful == 1.25


@pytest.mark.parametrize(
    ("jobs", "options", "method"),
    [
        (6, PLAIN_OPTIONS + 1, Method.EXACT),
        (7, PLAIN_OPTIONS + 1, Method.REGRET),
        (63, PLAIN_OPTIONS + 1, Method.REGRET),
        (64, PLAIN_OPTIONS, Method.REGRET),
        (64, PLAIN_OPTIONS + 1, Method.RUIN),
    ],
)
def test_few_jobs_are_proven_many_are_searched_and_those_between_settle(
    jobs: int, options: int, method: Method
) -> None:
    assert PLAIN.solver(jobs, options).method is method
    assert replace(PLAIN, method="rolling").solver(jobs, options).method is Method.ROLLING


def test_the_solver_has_the_limits_of_the_policy() -> None:
    found = replace(PLAIN, iterations_per_job=7, exact_nodes=9).solver(1, 1)
    assert (found.search.iterations_per_job, found.limits.nodes, found.limits.seconds) == (7, 9, 5.0)
    assert found.limits.gap == 1e-6
