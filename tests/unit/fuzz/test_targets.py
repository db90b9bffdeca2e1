"""A short run of the fuzzer over every parser; `make fuzz` tries a million."""

from __future__ import annotations

import pytest

from tests.fuzz.__main__ import tried
from tests.fuzz.targets import TARGETS, Target


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_hostile_bytes_are_read_or_refused(target: Target) -> None:
    # Slowness is judged over a million inputs, not beside other tests.
    found = [finding for number in range(60) for finding in tried(target, 1, number)[1]]
    assert [finding for finding in found if "took" not in finding] == []


def test_sound_examples_are_read() -> None:
    """Or the mutations would start from nothing."""
    for target in TARGETS:
        if target.name not in ("keys",):
            for seed in target.seeds:
                target.read(seed)
