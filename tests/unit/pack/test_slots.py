"""Slots of one device: every layout legal, the counts of NVIDIA's table, starts that keep large profiles open."""

from __future__ import annotations

from collections import Counter

import pytest

from dure.model.accelerator import Geometry
from dure.pack.slots import best_start, free_starts, layout_values, layouts, prospects, steps
from tests.unit.pack.worlds import A100
from tests.unit.pack.worlds import profile as cut


def test_the_table_allows_78_multisets_with_the_empty_one_of_which_28_are_maximal() -> None:
    found = {tuple(sorted(Counter(name for name, _ in layout).items())) for layout in layouts(A100)}
    maximal = [a for a in found if not any(a != b and Counter(dict(a)) <= Counter(dict(b)) for b in found)]
    assert (len(found), len(maximal)) == (78, 28)


def test_a_small_slice_starts_where_the_four_sevenths_profile_stays_possible() -> None:
    start = best_start(A100, A100.profiles[0], 0)
    assert start is not None
    assert prospects(A100, 1 << start)[0] == 4


def test_a_start_keeps_the_largest_profile_then_the_most_placements_then_is_the_lowest() -> None:
    for profile in A100.profiles:
        for mask in range(256):
            starts = [start for start, bits in zip(profile.starts, profile.masks(), strict=True) if not mask & bits]
            width = (1 << profile.slots) - 1
            ranked = sorted(starts, key=lambda at: (*(-one for one in prospects(A100, mask | width << at)), at))
            assert best_start(A100, profile, mask) == (ranked[0] if ranked else None)


def test_what_is_still_possible_counts_every_placement_that_is_open() -> None:
    assert prospects(A100, 0) == (7, 7 * 1 + 4 * 2 + 3 * 2 + 2 * 4 + 4 + 8)
    assert prospects(A100, 0b1111) == (3, 3 * 1 + 2 * 2 + 1 * 2 + 1 * 4)
    assert prospects(A100, 0b1111_1111) == (0, 0)


def test_no_step_takes_a_slot_twice() -> None:
    for profile, row in zip(A100.profiles, steps(A100), strict=True):
        for mask, after in enumerate(row):
            if after >= 0:
                assert after & mask == mask
                assert (after ^ mask) in profile.masks()


def test_a_layout_is_worth_no_more_when_more_of_it_is_taken() -> None:
    values = layout_values(A100, {3: 1.0})
    assert values[0] == 1.0
    assert values[255] == 0.0
    for mask in range(256):
        assert all(values[mask | 1 << bit] <= values[mask] for bit in range(8))


def test_free_starts_are_those_whose_slots_are_all_free() -> None:
    half = A100.profiles[3]
    assert [free_starts(half, mask) for mask in (0, 0b1, 0b10000, 0b10001)] == [[0, 4], [4], [0], []]


def test_a_mask_without_a_place_has_no_step() -> None:
    table = steps(A100)
    assert [len(row) for row in table] == [256] * len(A100.profiles)
    assert table[3][0b10001] == -1
    assert (table[3][0], table[3][0b1], table[5][0]) == (0b11110000, 0b11110001, 0b11111111)


MEDIA = Geometry(2, 2, (cut("1g", 1, (0, 1), 1, 2), cut("1g+me", 1, (0, 1), 1, 1)))


def test_a_layout_has_one_media_engine_at_most() -> None:
    plain, media = "1g", "1g+me"
    assert sorted(layouts(MEDIA)) == sorted(
        [
            (),
            ((plain, 0),),
            ((plain, 1),),
            ((media, 0),),
            ((media, 1),),
            ((plain, 0), (plain, 1)),
            ((plain, 0), (media, 1)),
            ((plain, 1), (media, 0)),
        ]
    )


def test_layouts_are_worth_their_slots_weighed_by_how_much_of_them_is_asked_for() -> None:
    """Two slots: a pair weighs 2 x 1.05 when nobody asks; three quarters of the demand for singles make it 0.6."""
    pair = Geometry(2, 2, (cut("one", 1, (0, 1), 1, 2), cut("two", 2, (0,), 2, 1)))
    assert layout_values(pair, {}) == pytest.approx([1.0, 0.5, 0.5, 0.0])
    single, double = 1 * (0.05 + 0.25), 2 * (0.05 + 0.75)
    assert layout_values(pair, {0: 1.0, 1: 3.0}) == pytest.approx([1.0, single / double, single / double, 0.0])
    assert layout_values(pair, {0: 1.0}) == pytest.approx([1.0, 0.5, 0.5, 0.0])
    assert layout_values(Geometry(1, 1, ()), {}) == [0.0, 0.0]
