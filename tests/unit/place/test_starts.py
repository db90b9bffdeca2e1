"""When a workload could start: now, and at every full hour from which even a slow run ends in time."""

from __future__ import annotations

import msgspec
import pytest

from dure.model.policy import Policy, Verb
from dure.place.candidate import Cycle
from dure.place.settings import PlaceSettings
from tests.fixtures.small_world import training
from tests.unit.place.worlds import NOW_S, record, snapshot

HOUR_S = 3600.0


def starts(
    *, deadline_h: float | None, now_s: float = NOW_S, settings: dict[str, float] | None = None, **spec: object
) -> list[float]:
    """Hours from the first full hour before `now_s`, of a run of two hours that was submitted then."""
    job = record(training("job", duration_s=2 * HOUR_S), submitted_s=now_s, **spec)
    deadline_s = None if deadline_h is None else deadline_h * HOUR_S
    job = msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, deadline_s=deadline_s))
    world = msgspec.structs.replace(
        snapshot((job,)), now_s=now_s, policies=(Policy("p", Verb.PLACE, settings=dict(settings or {})),)
    )
    found = next(one.quote for one in Cycle(world, (job,)).candidates(job) if one.where == "a/big")
    assert found is not None
    return [(float(one) - NOW_S) / HOUR_S for one in found.starts]


def test_the_last_start_lets_a_slow_run_end_before_the_deadline() -> None:
    slow_h = PlaceSettings().duration_high * 2
    assert starts(deadline_h=slow_h + 3.0) == [0.0, 1.0, 2.0, 3.0]
    assert starts(deadline_h=slow_h + 2.9) == [0.0, 1.0, 2.0]
    assert starts(deadline_h=slow_h - 1.0) == [0.0]


def test_later_starts_are_at_full_hours() -> None:
    slow_h = PlaceSettings().duration_high * 2
    assert starts(deadline_h=slow_h + 2.0, now_s=NOW_S + 0.05 * HOUR_S) == pytest.approx([0.05, 1.0, 2.0])


def test_who_may_not_wait_or_has_no_deadline_starts_now() -> None:
    assert starts(deadline_h=20.0, deferrable=False) == [0.0]
    assert starts(deadline_h=None) == [0.0]


def test_nobody_looks_beyond_the_horizon_or_waits_longer_than_the_policy_allows() -> None:
    assert starts(deadline_h=500.0, settings={"horizon_h": 5}) == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert starts(deadline_h=500.0, settings={"longest_wait_h": 2.5}) == [0.0, 1.0, 2.0]
