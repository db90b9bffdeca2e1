"""Squads, compatibility, predictions: who runs together next and for how long."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dure.share import predict
from dure.share.compat import Candidate, companions, matrix, throughput
from dure.share.interference import App, Observation, empty_book
from dure.share.policies import POLICIES
from dure.share.squad import SquadSettings, Waiting, form


def waiting(name: str, segments: int = 8, ms: float = 0.5, **more: float) -> Waiting:
    left = segments * ms
    return Waiting(
        name, App(name), (ms,) * segments, left, more.get("age", 1.0), more.get("target", 100.0), 1.0,
        more.get("need", 0.4), int(more.get("reserved", 0)),
    )  # fmt: skip


@settings(deadline=None)
@given(
    tenants=st.lists(
        st.tuples(st.integers(1, 60), st.floats(0.01, 5.0), st.floats(0.05, 1.0)), min_size=1, max_size=6
    ),
    policy=st.sampled_from(sorted(POLICIES)),
)
def test_a_squad_fits_the_device_and_its_limits(tenants: list[tuple[int, float, float]], policy: str) -> None:
    group = [waiting(f"t{i}", n, ms, need=need) for i, (n, ms, need) in enumerate(tenants)]
    squad = form(group, policy, POLICIES[policy], empty_book(), SquadSettings(18, 50, 10.0))
    assert 1 <= len(squad.members) <= len(group)
    assert sum(m.parts for m in squad.members) <= 18
    assert sum(m.segments for m in squad.members) <= 50
    assert all(m.segments >= 1 and m.parts >= 1 for m in squad.members)
    assert [m.rank for m in squad.members] == list(range(len(squad.members)))


def test_nobody_waiting_makes_an_empty_squad() -> None:
    assert form([], "jct", POLICIES["jct"], empty_book()).members == ()


def test_a_tenant_alone_gets_the_whole_device() -> None:
    (member,) = form([waiting("a")], "jct", POLICIES["jct"], empty_book()).members
    assert member.parts == 18


def drawing(name: str, bandwidth: float, weight: float = 1.0, reserved: int = 0, most: int = 0) -> Waiting:
    """Work that fills four tenths of the device."""
    return Waiting(name, App(name), (1.0,) * 4, 4.0, 1.0, 100.0, weight, 0.4, reserved, most, bandwidth)


def parts_of(*group: Waiting) -> dict[str, int]:
    squad = form(group, "jct", POLICIES["jct"], empty_book(), SquadSettings(18, 50, 10.0))
    return {member.tenant: member.parts for member in squad.members}


def test_sms_that_would_only_wait_for_memory_go_to_those_who_compute() -> None:
    even = {"a": 6, "b": 6, "computes": 6}
    # Six of the 7.2 partitions that each can fill draw 0.5 of the bandwidth: both together just what there is.
    assert parts_of(drawing("a", 0.6), drawing("b", 0.6), drawing("computes", 0.0)) == even
    # Here they would draw 0.75 each and get 0.5, which four partitions can use; the other takes what it can fill.
    squeezed = {"a": 4, "b": 4, "computes": 8}
    assert parts_of(drawing("a", 0.9), drawing("b", 0.9), drawing("computes", 0.0)) == squeezed
    assert parts_of(drawing("a", 0.9), drawing("b", 0.9), drawing("computes", 0.0, most=7))["computes"] == 7


def test_bandwidth_is_shared_by_weight_and_reservations_hold() -> None:
    assert parts_of(drawing("heavy", 0.9, weight=3.0), drawing("light", 0.9)) == {"heavy": 6, "light": 2}
    assert parts_of(drawing("heavy", 0.9, weight=3.0), drawing("light", 0.9, reserved=5))["light"] == 5


def test_time_caps_a_squad_as_well_as_count() -> None:
    squad = form([waiting("a", 40, 4.0), waiting("b", 40, 0.1)], "jct", POLICIES["jct"], empty_book())
    counts = {m.tenant: m.segments for m in squad.members}
    assert counts["a"] <= 2
    assert counts["b"] > 20


def test_a_critical_tenant_keeps_its_reservation_in_a_crowd() -> None:
    group = [waiting("critical", need=1.0, reserved=9), *(waiting(f"t{i}", 8, 2.0, need=1.0) for i in range(5))]
    squad = form(group, "jct", POLICIES["jct"], empty_book())
    assert {m.tenant: m.parts for m in squad.members}["critical"] >= 9


def test_a_change_of_policy_applies_to_the_next_squad() -> None:
    group = [waiting("short", 2, 0.5, need=1.0), waiting("urgent", 9, 1.0, need=1.0, age=90.0)]
    first = {name: form(group, name, POLICIES[name], empty_book()).members[0].tenant for name in ("jct", "slo")}
    assert first == {"jct": "short", "slo": "urgent"}


def test_tenants_that_ruin_each_other_do_not_run_together() -> None:
    a, b = App("a"), App("b")
    book = empty_book().learn([Observation(x, y, 0.5, 0.5, 0.3) for x, y in ((a, b), (b, a))] * 30)
    loud = [Candidate("a", a, 0.6), Candidate("b", b, 0.6)]
    assert throughput(loud, book) < 1.0
    assert matrix(loud, book)[0, 1] < 1.0
    assert companions(loud, book) == ("a",)


def test_small_quiet_tenants_run_together() -> None:
    quiet = [Candidate(name, App(name), 0.3) for name in ("a", "b")]
    assert matrix(quiet, empty_book())[0, 1] > 1.0
    assert companions(quiet, empty_book()) == ("a", "b")


def test_predictions_follow_what_was_observed() -> None:
    correction = predict.Correction()
    for _ in range(30):
        correction = predict.observe(correction, 2.0, 3.0)
    assert predict.corrected_ms(2.0, correction) == pytest.approx(3.0, rel=0.01)
    assert correction.error < 0.1


@settings(deadline=None)
@example(actual=5e-324)
@given(actual=st.floats(-5.0, 1e9, allow_nan=False))
def test_one_outlier_cannot_wreck_a_prediction(actual: float) -> None:
    correction = predict.Correction(0.0, 0.0, 50)
    assert 0.9 < predict.observe(correction, 2.0, actual).factor < 1.1


def test_corrections_of_departed_tenants_are_forgotten() -> None:
    known = {"a": predict.Correction(0.1), "b": predict.Correction(0.2)}
    assert predict.forget(known, frozenset({"b"})) == {"b": predict.Correction(0.2)}
