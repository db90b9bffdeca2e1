"""Promises that will be broken, seen before they are."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dure.model.units import DAY_S
from dure.watch.risk import RiskBook, RiskSettings

SETTINGS = RiskSettings(horizon_s=300.0, span_s=600.0)


def truth(load: float) -> float:
    """Late share of a replica: nothing below 5 requests/s, then steeply more."""
    return min(1.0, max(0.0, (load - 5.0) / 5.0) ** 2)


def fed(book: RiskBook, start_s: float, rates: list[float], ready: int = 2, every_s: float = 60.0) -> float:
    at_s = start_s
    for rate in rates:
        at_s += every_s
        book.feed(at_s, rate, truth(rate / ready), ready)
    return at_s


def test_nothing_is_said_before_something_is_known() -> None:
    book = RiskBook(SETTINGS)
    book.feed(60.0, 5.0, 0.0, 2)
    assert book.foresee(60.0, 2, 0.05) is None


def test_a_calm_load_carries_no_risk_and_a_steep_rise_does_while_all_is_still_well() -> None:
    calm, rising = RiskBook(SETTINGS), RiskBook(SETTINGS)
    for book in (calm, rising):
        fed(book, 0.0, [6.0 + step / 4 for step in range(36)], ready=2)
    calm_s = fed(calm, 3600.0, [6.0] * 15, ready=2)
    rates = [6.0 + step / 2.8 for step in range(15)]
    rising_s = fed(rising, 3600.0, rates, ready=2)
    quiet, loud = calm.foresee(calm_s, 2, 0.05), rising.foresee(rising_s, 2, 0.05)
    assert quiet is not None
    assert loud is not None
    assert quiet.risk == 0.0
    assert truth(rates[-1] / 2) < 0.05
    assert loud.risk == 1.0
    assert loud.rate_per_s > rates[-1]


def test_a_rush_that_came_yesterday_is_expected_today_before_it_begins() -> None:
    book = RiskBook(SETTINGS)
    day = [6.0] * 120 + [16.0] * 60 + [6.0] * 60
    fed(book, 0.0, day)
    before = book.foresee(fed(book, DAY_S, [6.0] * 60), 2, 0.05)
    just = book.foresee(fed(book, DAY_S + 3600.0, [6.0] * 55), 2, 0.05)
    assert before is not None
    assert just is not None
    assert before.risk < 0.5 < just.risk
    assert just.rate_per_s > 15.0


def test_more_replicas_slower_devices_and_stricter_people_move_the_risk() -> None:
    book = RiskBook(SETTINGS)
    at_s = fed(book, 0.0, [4.0 + step / 8 for step in range(100)])
    at_s = fed(book, at_s, [9.0] * 20)
    plain = book.foresee(at_s, 2, 0.05)
    assert plain is not None
    assert plain.risk < 0.5
    for changed in (
        book.foresee(at_s, 1, 0.05),
        book.foresee(at_s, 2, 0.05, slowness=1.6),
        book.foresee(at_s, 2, 0.05, strictness=1.6),
    ):
        assert changed is not None
        assert changed.risk == 1.0


def test_as_many_replicas_are_wanted_as_keep_the_promise() -> None:
    book = RiskBook(SETTINGS)
    fed(book, 0.0, [4.0 + step / 8 for step in range(100)])
    assert book.replicas(11.0, 0.05, 9) == 2
    assert 3 <= book.replicas(24.0, 0.05, 9) <= 5
    assert book.replicas(240.0, 0.05, 9) == 9


@given(st.lists(st.tuples(st.floats(0.1, 50.0), st.floats(0.0, 1.0)), min_size=1, max_size=40))
def test_the_learnt_late_share_never_falls_with_load_and_stays_a_share(drawn: list[tuple[float, float]]) -> None:
    book = RiskBook(SETTINGS)
    for step, (rate, late) in enumerate(drawn):
        book.feed(60.0 * step, rate, late, 1)
    found = [book.late_at(load) for load in (0.0, 0.05, 0.5, 1.0, 3.0, 9.0, 27.0, 60.0, 300.0)]
    assert all(0.0 <= late <= 1.0 for late in found)
    assert all(before <= after + 1e-12 for before, after in pairwise(found))


def test_errors_of_the_past_are_forgotten_when_newer_ones_have_come() -> None:
    book = RiskBook(RiskSettings(horizon_s=300.0, span_s=600.0, least_errors=4, keep_errors=12))

    def risks(rates: list[float], start_s: float) -> tuple[float, list[float]]:
        found, at_s = [], start_s
        for rate in rates:
            at_s = fed(book, at_s, [rate])
            foreseen = book.foresee(at_s, 2, 0.05)
            found.append(foreseen.risk if foreseen is not None else 0.0)
        return at_s, found

    at_s, wild = risks([2.0, 2.0, 2.0, 16.0] * 12, 0.0)
    _, calm = risks([8.0] * 60, at_s)
    assert max(wild[-4:]) > 0.0
    assert calm[5] > 0.0
    assert calm[-1] == 0.0
