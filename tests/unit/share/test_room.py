"""Places on a device: nobody's overlaps another's, and as large as the gaps allow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.share.room import fit


@pytest.mark.parametrize(
    ("held", "wanted", "expected"),
    [
        ([], 3, range(3)),
        ([range(2)], 6, range(2, 8)),
        ([range(3, 5)], 3, range(3)),
        ([range(1), range(4, 6)], 2, range(6, 8)),
        ([range(2, 3), range(5, 6)], 4, range(2)),
        ([range(8)], 1, range(8, 8)),
    ],
)
def test_the_smallest_gap_that_is_large_enough(held: list[range], wanted: int, expected: range) -> None:
    assert fit(held, wanted, 8) == expected


@given(st.integers(1, 16), st.lists(st.tuples(st.booleans(), st.integers(1, 16)), max_size=40))
def test_nobody_overlaps_and_something_free_is_always_given(total: int, steps: list[tuple[bool, int]]) -> None:
    held: list[range] = []
    for leaves, size in steps:
        if leaves and held:
            held.pop(size % len(held))
            continue
        free = set(range(total)) - {part for one in held for part in one}
        found = fit(held, size, total)
        assert set(found) <= free
        assert len(found) <= size
        assert bool(found) == bool(free)
        if found:
            held.append(found)
