"""The burst acts on what is foreseen, and only then on what has happened."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from dure.adapters.memory.store import MemoryStore
from dure.bench.foresee import rushes
from dure.plane.bursting import FEEDBACK_SETTING, RISKS_SETTING, Risk, risks_of


def test_risks_are_read_from_where_the_leading_plane_leaves_them() -> None:
    store = MemoryStore()
    assert risks_of(store) == ()
    risks = (Risk("search", "chat", 12.0, 0.2, 0.9),)
    store.write_setting(RISKS_SETTING, msgspec.json.encode(risks).decode())
    assert risks_of(store) == risks
    assert RISKS_SETTING != FEEDBACK_SETTING


def test_rush_hours_of_the_benchmark_never_overlap_for_a_serving() -> None:
    for seed in range(20):
        found = [one for one in rushes(["a", "b"], 3, seed) if one[2] == "a"]
        assert all(before[1] <= after[0] for before, after in pairwise(found))
