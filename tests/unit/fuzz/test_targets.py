"""A short run of the fuzzer over every parser; `make fuzz` tries a million."""

from __future__ import annotations

import pytest

from dure.model.errors import DureError
from tests.fuzz.__main__ import tried
from tests.fuzz.targets import TARGETS, Target


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_hostile_bytes_are_read_or_refused(target: Target) -> None:
    # Slowness is judged over a million inputs, not beside other tests.
    found = [finding for number in range(60) for finding in tried(target, 1, number)[1]]
    assert [finding for finding in found if "took" not in finding] == []


# Found by a million inputs; each was an error that nobody had foreseen.
FOUND = (
    "pods/1/115", "pods/1/163", "pods/1/174", "pods/1/220", "pods/1/735", "bodies/1/125", "tables/1/15",
    "tables/1/84", "series/1/73", "series/1/27005", "reports/1/145", "scrapes/1/6578", "jobs/1/91307",
)  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_once_is_read_or_refused(name: str) -> None:
    kind, seed, number = name.split("/")
    target = next(one for one in TARGETS if one.name == kind)
    assert [one for one in tried(target, int(seed), int(number))[1] if "took" not in one] == []


def test_sound_examples_are_read() -> None:
    """Or the mutations would start from nothing."""
    refused = []
    for target in TARGETS:
        for seed in target.seeds if target.name != "keys" else ():
            try:
                target.read(seed)
            except DureError as error:
                refused.append(f"{target.name}: {error}")
    assert refused == []
    assert all(target.seeds for target in TARGETS)
