"""Promises, their risk, equation 3, admission, goals and feedback."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dure.model.errors import InvalidInput
from dure.share import feedback
from dure.share.admission import Applicant, admit, least_parts
from dure.share.choose import DEFAULT, Choice, Goals, Mood, Rule, check, choose, wanted
from dure.share.memory import Claim
from dure.share.policies import POLICIES
from dure.share.promise import Answered, Promise, attainment, worst
from dure.share.weights import Standing, WeightSettings, update


def answers(*latencies: float) -> list[Answered]:
    return [Answered(float(i), ms) for i, ms in enumerate(latencies)]


def test_attainment_is_the_part_within_the_limit() -> None:
    (found,) = attainment(Promise(latency_ms=10.0), answers(5.0, 8.0, 9.0, 12.0), 1000.0)
    assert found.actual == pytest.approx(0.75)
    assert found.risk == 1.0


def test_a_rising_trend_is_a_risk_before_the_first_miss() -> None:
    rising = answers(*(4.0 + 0.2 * i for i in range(20)))
    level = answers(*([5.9, 6.1] * 10))
    assert max(a.latency_ms for a in rising) < 10.0
    assert attainment(Promise(latency_ms=10.0), rising, 1e3)[0].risk > 0.5
    assert attainment(Promise(latency_ms=10.0), level, 1e3)[0].risk == 0.0


def test_throughput_and_availability_are_promises_too() -> None:
    window = [*answers(*[1.0] * 90), *(Answered(100.0, 1.0, ok=False) for _ in range(10))]
    promise = Promise(throughput_per_s=100.0, availability=0.99)
    found = {a.kind: a for a in attainment(promise, window, 1000.0)}
    assert found["throughput"].actual == pytest.approx(0.9)
    assert found["availability"].actual == pytest.approx(0.9)
    assert worst(list(found.values())) is not None


def test_silence_is_no_complaint() -> None:
    promise = Promise(latency_ms=1.0, availability=0.999)
    assert all(a.risk == 0.0 and a.actual == 1.0 for a in attainment(promise, [], 1000.0))


@settings(deadline=None)
@given(
    tenants=st.dictionaries(
        st.text("abcdef", min_size=1, max_size=2),
        st.builds(Standing, st.floats(0.5, 2.0), st.floats(0.1, 10.0), st.floats(0.5, 1.0), st.floats(0.0, 1.0)),
        min_size=1,
        max_size=6,
    )
)
def test_weights_stay_within_their_clamp(tenants: dict[str, Standing]) -> None:
    found = update(tenants)
    assert all(0.1 <= weight <= 10.0 for weight in found.values())
    assert found.keys() == tenants.keys()


def test_a_hopeless_tenant_starves_nobody() -> None:
    current = {"hopeless": 1.0, "fine": 1.0}
    for _ in range(500):
        current = update(
            {
                "hopeless": Standing(1.0, current["hopeless"], 0.99, 0.0),
                "fine": Standing(1.0, current["fine"], 0.99, 1.0),
            }
        )
    assert current["fine"] >= 0.1
    for _ in range(200):
        current = update({name: Standing(1.0, w, 0.99, 0.99) for name, w in current.items()})
    assert current["hopeless"] == pytest.approx(current["fine"], rel=0.05)


def test_without_leak_and_clamp_the_same_tenant_runs_away() -> None:
    raw = WeightSettings(leak=0.0, least=0.0, most=math.inf)
    current = {"hopeless": 1.0, "fine": 1.0}
    for _ in range(100):
        current = update(
            {n: Standing(1.0, w, 0.99, 0.0 if n == "hopeless" else 1.0) for n, w in current.items()}, raw
        )
    assert current["fine"] < 1e-6


def latency(solo: float) -> Applicant:
    return Applicant("x", lambda n: solo * 18 / n, solo * 3)


def test_a_tenant_that_fits_is_admitted() -> None:
    assert admit([latency(5.0)], latency(5.0), 18, 40_000).admitted


def test_a_refusal_names_what_is_short_and_the_nearest_promise() -> None:
    tight = Applicant("new", lambda n: 5.0 * 18 / n, 6.0)
    verdict = admit([latency(5.0)], tight, 18, 40_000)
    assert not verdict.admitted
    assert verdict.short == "sms"
    assert verdict.nearest_ms == pytest.approx(5.0 * 18 / 12)
    again = Applicant("new", lambda n: 5.0 * 18 / n, verdict.nearest_ms)
    assert admit([latency(5.0)], again, 18, 40_000).admitted


def test_memory_and_bandwidth_can_refuse_as_well() -> None:
    assert admit([], Applicant("m", lambda n: 1.0, memory_mib=50_000), 18, 40_000).short == "memory"
    crowd = [Applicant(str(i), lambda n: 1.0, bandwidth=0.6) for i in range(2)]
    assert admit(crowd[:1], crowd[1], 18, 40_000).short == "bandwidth"


def test_memory_reserved_for_somebody_who_has_not_come_is_not_given_away() -> None:
    batch = Applicant("batch", lambda n: 1.0, memory_mib=5_000)
    critical = Applicant("critical", lambda n: 1.0, memory_mib=5_000, reserved_mib=5_000)
    kept = Claim("critical", 0, 5_000)
    refused = admit([], batch, 18, 9_999, [kept])
    assert (refused.short, refused.wanted, refused.have) == ("memory", 5_000, 4_999)
    assert refused.message == "5000 MiB wanted, 4999 of 9999 MiB are neither held nor reserved by others"
    assert admit([], batch, 18, 10_000, [kept]).admitted
    assert admit([batch], critical, 18, 10_000).admitted
    assert admit([critical], batch, 18, 10_000).admitted


def test_a_promise_faster_than_the_device_needs_more_than_all_of_it() -> None:
    assert least_parts(Applicant("x", lambda n: 10.0 / n, 0.1), 18) is None


def test_goals_choose_the_policy() -> None:
    assert wanted(Mood(batch=1.0), DEFAULT) == "jct"
    assert wanted(Mood(risk=0.95), DEFAULT) == "slo"
    assert wanted(Mood(), DEFAULT) == "slack-guarded"


def test_a_policy_changes_only_after_it_was_asked_for_often_enough() -> None:
    choice = Choice("slack-guarded")
    for _ in range(DEFAULT.dwell - 1):
        choice = choose(choice, Mood(risk=1.0), DEFAULT)
        assert choice.policy == "slack-guarded"
    assert choose(choice, Mood(risk=1.0), DEFAULT).policy == "slo"


def test_a_flickering_sign_changes_nothing() -> None:
    choice = Choice("slack-guarded")
    for i in range(100):
        choice = choose(choice, Mood(risk=float(i % 2)), DEFAULT)
    assert choice.policy == "slack-guarded"


def test_goals_with_an_unknown_policy_are_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="slack-guarded"):
        check(Goals(rules=(Rule("fastest"),)), list(POLICIES))


def test_feedback_moves_the_target_within_limits_and_fades() -> None:
    said = [feedback.Said("a", "too-slow", float(i)) for i in range(40)]
    assert feedback.target_ms(100.0, said[:1], "a", 10.0) == pytest.approx(85.0)
    assert feedback.target_ms(100.0, said, "a", 50.0) == 50.0
    assert feedback.target_ms(100.0, said, "b", 50.0) == 100.0
    assert feedback.target_ms(100.0, said, "a", feedback.LASTS_MS + 100.0) == 100.0
    assert feedback.kept(said, feedback.LASTS_MS + 100.0) == ()


def test_batch_feedback_loosens() -> None:
    assert feedback.target_ms(100.0, [feedback.Said("a", "batch", 0.0)], "a", 1.0) > 100.0
