"""Addresses of services: every virtual cluster has its own."""

from __future__ import annotations

import pytest

from dure.adapters.virtual.control_plane import free_part
from dure.model.errors import InvalidInput


def test_parts_follow_each_other_and_a_freed_one_is_used_again() -> None:
    first = free_part("10.112.0.0/12", [])
    second = free_part("10.112.0.0/12", [first])
    assert (first, second) == ("10.112.0.0/22", "10.112.4.0/22")
    assert free_part("10.112.0.0/12", [second]) == first


def test_a_part_of_another_size_is_not_touched() -> None:
    assert free_part("10.112.0.0/12", ["10.112.0.0/16"]) == "10.113.0.0/22"


def test_a_small_range_is_one_part_and_then_there_is_none() -> None:
    assert free_part("fd00::/118", []) == "fd00::/118"
    assert free_part("10.0.0.0/28", []) == "10.0.0.0/28"
    with pytest.raises(InvalidInput, match=r"every part of 10\.0\.0\.0/28"):
        free_part("10.0.0.0/28", ["10.0.0.0/28"])
