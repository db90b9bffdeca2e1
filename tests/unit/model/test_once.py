"""An answer is kept exactly as long as the question is about the very same objects."""

from __future__ import annotations

from dure.model.once import once


def test_the_same_object_is_answered_without_asking_again() -> None:
    asked: list[list[int]] = []

    @once
    def total(numbers: list[int]) -> int:
        asked.append(numbers)
        return sum(numbers)

    first, twin = [1, 2], [1, 2]
    assert [total(first), total(first), total(twin), total(first)] == [3, 3, 3, 3]
    assert [one is first for one in asked] == [True, False, True]


def test_every_argument_counts() -> None:
    @once
    def joined(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
        return left + right

    left, right = (1, 2), (3,)
    assert joined(left, right) == (1, 2, 3)
    assert joined(right, left) == (3, 1, 2)
    assert joined(left, left) == (1, 2, 1, 2)
