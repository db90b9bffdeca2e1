"""Squads, compatibility, predictions: who runs together next and for how long."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dure.share import predict
from dure.share.compat import Candidate, Gain, companions, matrix, side_by_side, stacked
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
    exclusive=st.booleans(),
    reserved=st.integers(0, 24),
)
def test_a_squad_fits_the_device_and_its_limits(
    tenants: list[tuple[int, float, float]], policy: str, exclusive: bool, reserved: int
) -> None:
    group = [waiting(f"t{i}", n, ms, need=need, reserved=reserved * (i == 0))
             for i, (n, ms, need) in enumerate(tenants)]  # fmt: skip
    squad = form(group, policy, POLICIES[policy], empty_book(), SquadSettings(18, 50, 10.0, exclusive))
    assert sum(m.claim for m in squad.members) <= 18
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
    squad = form(group, "jct", POLICIES["jct"], empty_book(), SquadSettings(18, 50, 10.0, exclusive=True))
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
    group = [waiting("a", 40, 4.0), waiting("b", 40, 0.1)]
    squad = form(group, "jct", POLICIES["jct"], empty_book(), SquadSettings(most_ms=10.0))
    counts = {m.tenant: m.segments for m in squad.members}
    assert counts["a"] <= 2
    assert counts["b"] > 20


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_critical_tenant_keeps_its_reservation_in_a_crowd(exclusive: bool) -> None:
    last = waiting("critical", 30, 2.0, need=1.0, reserved=9)
    group = [last, *(waiting(f"t{i}", 8, 2.0, need=1.0) for i in range(5))]
    squad = form(group, "jct", POLICIES["jct"], empty_book(), SquadSettings(exclusive=exclusive))
    found = {m.tenant: m for m in squad.members}["critical"]
    assert found.rank > 0
    assert found.parts >= 9
    assert found.claim == 9


def test_the_only_free_thread_is_for_the_one_who_has_it_reserved() -> None:
    group = [waiting("short", 2, 0.5), waiting("critical", 30, 2.0, reserved=1)]
    squad = form(group, "jct", POLICIES["jct"], empty_book(), SquadSettings(1, exclusive=True))
    assert [m.tenant for m in squad.members] == ["critical"]


def test_where_lower_ranks_fill_what_is_left_the_order_divides_the_device() -> None:
    short, long = waiting("short", 2, 0.5, need=0.7), waiting("long", 40, 0.5, need=0.7)
    squad = form([long, short], "jct", POLICIES["jct"], empty_book())
    assert [(m.tenant, m.parts, m.claim) for m in squad.members] == [("short", 13, 0), ("long", 5, 0)]
    # Threads cannot be filled up by others: there both get what lets them end together.
    even = form([long, short], "jct", POLICIES["jct"], empty_book(), SquadSettings(exclusive=True))
    assert {m.tenant: m.parts for m in even.members}["long"] > 9


def test_a_member_that_waits_for_memory_may_not_hold_more_than_its_bandwidth_feeds() -> None:
    group = [drawing("a", 0.9), drawing("b", 0.9), drawing("computes", 0.0)]
    squad = form(group, "jct", POLICIES["jct"], empty_book())
    most = {m.tenant: m.most for m in squad.members}
    assert most["computes"] == 0
    assert all(0 < most[m.tenant] == m.parts < 8 for m in squad.members if m.tenant != "computes" and m.most)
    assert any(most[name] for name in ("a", "b"))


def test_a_change_of_policy_applies_to_the_next_squad() -> None:
    group = [waiting("short", 2, 0.5, need=1.0), waiting("urgent", 9, 1.0, need=1.0, age=90.0)]
    first = {name: form(group, name, POLICIES[name], empty_book()).members[0].tenant for name in ("jct", "slo")}
    assert first == {"jct": "short", "slo": "urgent"}


@pytest.mark.parametrize("gain", [side_by_side, stacked])
def test_tenants_that_ruin_each_other_do_not_run_together(gain: Gain) -> None:
    a, b = App("a"), App("b")
    book = empty_book().learn([Observation(x, y, 0.5, 0.5, 0.3) for x, y in ((a, b), (b, a))] * 30)
    loud = [Candidate("a", a, 0.6), Candidate("b", b, 0.6)]
    assert matrix(loud, book, gain)[0, 1] == gain(loud, book) < 1.0
    assert companions(loud, book, gain) == ("a",)


@pytest.mark.parametrize("gain", [side_by_side, stacked])
def test_small_quiet_tenants_run_together(gain: Gain) -> None:
    quiet = [Candidate(name, App(name), 0.3) for name in ("a", "b")]
    assert matrix(quiet, empty_book(), gain)[0, 1] > 1.0
    assert companions(quiet, empty_book(), gain) == ("a", "b")


def test_one_that_leaves_sms_now_and_then_has_somebody_behind_it_who_fills_them() -> None:
    large = [Candidate(name, App(name), 0.93) for name in ("a", "b")]
    assert companions(large, empty_book(), stacked) == ("a", "b")
    assert companions(large, empty_book(), side_by_side) == ("a",)
    whole = [Candidate(name, App(name), 1.0) for name in ("a", "b")]
    assert companions(whole, empty_book(), stacked) == ("a",)


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
