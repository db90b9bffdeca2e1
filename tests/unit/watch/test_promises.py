"""What a promise is held against: requests in time, or the time in which somebody answers."""

from __future__ import annotations

import pytest

from dure.model.sample import Sample
from dure.model.workload import Slo
from dure.watch.attainment import target_of
from dure.watch.burn import Count
from dure.watch.history import UP
from dure.watch.look import uptime


@pytest.mark.parametrize(
    ("slo", "target"),
    [
        (Slo(), 0.95),
        (Slo(latency_p95_ms=400.0), 0.95),
        (Slo(availability=0.999), 0.999),
        (Slo(latency_p95_ms=400.0, availability=0.999), 0.95),
    ],
)
def test_a_percentile_says_how_many_have_to_be_in_time_and_availability_how_many_get_an_answer(
    slo: Slo, target: float
) -> None:
    assert target_of(slo) == target


def test_time_without_a_replica_is_counted_between_two_looks_as_both_say() -> None:
    seen = [Sample(UP, {"workload": "chat"}, at_s, value) for at_s, value in ((20.0, 1.0), (0.0, 1.0), (10.0, 0.0))]
    assert uptime([*seen, Sample(UP, {"workload": "new"}, 5.0, 0.0)]) == {
        "chat": [Count(0.0, 0.0, 0.0), Count(10.0, 10.0, 5.0), Count(20.0, 20.0, 10.0)],
        "new": [Count(5.0, 0.0, 0.0)],
    }
