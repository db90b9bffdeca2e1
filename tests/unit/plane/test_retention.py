"""The plane keeps as much of the past as its owner wants, and cuts only when it gains something."""

from __future__ import annotations

from dure.model.pruned import Pruned
from dure.model.units import DAY_S, HOUR_S, Instant
from dure.plane.retention import Retention

KEEP_S = 90.0 * DAY_S


class Store:
    """Remembers the cuts; `oldest_s` is the submission of the oldest workload that has not ended."""

    def __init__(self, oldest_s: Instant = 1e12) -> None:
        self.oldest_s = oldest_s
        self.cuts: list[Instant] = []

    def fetch_setting(self, name: str) -> str | None:
        assert name == "pruned-until"
        return repr(self.cuts[-1]) if self.cuts else None

    def latest_cut(self, cut_s: Instant) -> Instant:
        return min(cut_s, self.oldest_s)

    def prune(self, cut_s: Instant, now_s: Instant, *, dry_run: bool = False) -> Pruned:
        self.cuts.append(cut_s)
        return Pruned(cut_s, lines=3)


def test_it_cuts_first_at_once_and_then_when_a_tenth_is_to_gain() -> None:
    store, begin_s = Store(), 400 * DAY_S
    kept = Retention(store, KEEP_S)
    for day in range(30):
        kept.turn(begin_s + day * DAY_S)
    assert store.cuts == [begin_s - KEEP_S + day * DAY_S for day in (0, 9, 18, 27)]


def test_it_looks_once_an_hour_only() -> None:
    store = Store()
    kept = Retention(store, KEEP_S)
    assert kept.turn(400 * DAY_S) == Pruned(310 * DAY_S, lines=3)
    store.cuts.clear()
    assert kept.turn(400 * DAY_S + HOUR_S - 1) is None
    assert store.cuts == []
    assert kept.turn(400 * DAY_S + HOUR_S) is not None


def test_a_workload_that_has_not_ended_makes_it_cut_less() -> None:
    store = Store(oldest_s=200 * DAY_S)
    kept = Retention(store, KEEP_S)
    kept.turn(400 * DAY_S)
    kept.turn(420 * DAY_S)
    assert store.cuts == [200 * DAY_S]
